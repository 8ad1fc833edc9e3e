"""What engines must hold to."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ktiwprobe.errors import plugin_errors
from ktiwprobe.plugins.options import options_of
from ktiwprobe.plugins.registry import Registry, build_registry
from ktiwprobe.testing.models import options_are_frozen
from ktiwprobe.testing.outcome import Failed, Outcome, Skipped, name_of, raise_failures, run_checks
from ktiwprobe.training.engines import Engine

SECONDS = 120.0  # that a piece of work may take, its worker's start included


@dataclass(eq=False)
class EngineCase:
    """An engine under test."""

    engine_class: Any
    options: Any

    @cached_property
    def engine(self) -> Engine:
        """One that is made of its options."""
        engine: Engine = self.engine_class(self.options)
        return engine

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """A future for the work."""
        future = self.engine.submit(work, *arguments)
        if not isinstance(future, Future):
            raise Failed(f"submit returned {type(future).__name__}: return a concurrent.futures.Future")
        return future


def check_engine(engine: Any, *, options: Any = None, registry: Registry | None = None) -> None:
    """Hold an engine class (or a registered name) to the contract."""
    raise_failures(f"engine {name_of(engine)}", engine_checks(engine, options=options, registry=registry))


def engine_checks(engine: Any, *, options: Any = None, registry: Registry | None = None) -> Iterator[Outcome]:
    """Each check and what came of it."""
    engine_class = (registry or build_registry()).load("engines", engine) if isinstance(engine, str) else engine
    case = EngineCase(engine_class, options_of(engine_class)() if options is None else options)
    yield from run_checks((options_are_frozen, has_room), case)
    with plugin_errors(f"engine {name_of(engine)}"), case.engine:
        yield from run_checks((gives_results, raises_what_work_raises, may_be_entered_again, tells_of_deaths), case)


def has_room(case: EngineCase) -> None:
    """room is how many may be submitted at a time, or None."""
    room = case.engine.room
    if room is not None and (type(room) is not int or room < 1):
        raise Failed(f"room is {room!r}: return a whole number above 0, or None if the engine keeps a queue")


def gives_results(case: EngineCase) -> None:
    """submit returns a future with the result of the work."""
    if (result := case.submit(operator.add, 2, 3).result(SECONDS)) != 5:
        raise Failed(f"operator.add(2, 3) gave {result!r}: set the future to what the work returns")


def raises_what_work_raises(case: EngineCase) -> None:
    """An exception of the work is the future's."""
    error = case.submit(operator.truediv, 1, 0).exception(SECONDS)
    if not isinstance(getattr(error, "cause", None) or error, ZeroDivisionError):
        raise Failed(f"work that divides by 0 ended with {error!r}: set the future to the exception of the work")


def may_be_entered_again(case: EngineCase) -> None:
    """A `with` inside another is one with it."""
    with case.engine:
        pass
    if case.submit(operator.add, 1, 1).result(SECONDS) != 2:
        raise Failed("after an inner `with` work gets no result: end nothing before the outer one ends")


def tells_of_deaths(case: EngineCase) -> None:
    """The future of work whose worker died ends with BrokenExecutor, and other work goes on."""
    if case.submit(os.getpid).result(SECONDS) == os.getpid():
        raise Skipped("it works in this process, which must not die")
    error = case.submit(os._exit, 1).exception(SECONDS)
    if error is None:
        raise Failed("work whose worker died has a result: set its future to BrokenExecutor")
    if case.submit(operator.add, 1, 1).result(SECONDS) != 2:
        raise Failed("after a worker died other work gets no result: start another worker")
    if not isinstance(error, BrokenExecutor):
        raise Skipped(f"the future ended with {type(error).__name__}, so no sweep submits the work again")

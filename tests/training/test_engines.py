"""Engines by name: options and refusals; and what engines are checked for."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from ktiwprobe import build_registry, hookimpl, option
from ktiwprobe.errors import ContractError, OptionError, UnknownNameError, UsageError
from ktiwprobe.testing import check_engine
from ktiwprobe.training.engines import Engine, make_engine
from ktiwprobe.training.local import Local
from ktiwprobe.training.threads import cores


class Here:
    """An engine that works in this process; its faults are for the tests below."""

    @dataclass(frozen=True)
    class Options:
        """How many at a time."""

        room: int = option(1, low=1)

    def __init__(self, options: Options) -> None:
        self.room: Any = options.room

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, work: Any, *arguments: Any) -> Any:
        future: Future[Any] = Future()
        try:
            future.set_result(work(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future


class NoRoom(Here):
    def __init__(self, options: Here.Options) -> None:
        self.room = 0


class NoFuture(Here):
    def submit(self, work: Any, *arguments: Any) -> Any:
        return work(*arguments)


class Silent(Here):
    def submit(self, work: Any, *arguments: Any) -> Any:
        future: Future[Any] = Future()
        future.set_result(None)
        return future


class EndsTooSoon(Here):
    ended = False

    def __exit__(self, *_: object) -> None:
        self.ended = True

    def submit(self, work: Any, *arguments: Any) -> Any:
        return super().submit((lambda *_: None) if self.ended else work, *arguments)


def test_options_come_by_argument_or_in_the_name() -> None:
    """What is None is left out; what stands in the name wins."""
    assert make_engine("local", workers=3).room == 3
    assert make_engine("local:workers=2", workers=3).room == 2
    assert make_engine("local", workers=None, address=None, cpus=1, gpus=0.0).room == cores()
    ray: Any = make_engine("ray:cpus=2,gpus=0.5", address="host:1")
    assert (ray.cpus, ray.gpus, ray.address, ray.room) == (2, 0.5, "host:1", None)
    assert isinstance(ray, Engine)


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("local", {"cpus": 2}, r"engine 'local' does not take this: unknown option local\.cpus; .*known: workers"),
        ("local", {"address": "host:1"}, r"unknown option local\.address; .*known: workers"),
        ("local:workers=0", {}, r"local\.workers is 0: it must be at least 1"),
        ("ray:nodes=3", {}, r"unknown option ray\.nodes; .*known: address, cpus, gpus, workers"),
        ("local:workers", {}, "'workers' is not KEY=VALUE"),
    ],
)
def test_options_that_an_engine_does_not_have_are_refused(name: str, options: dict[str, Any], sentence: str) -> None:
    """In one sentence that lists those it has."""
    with pytest.raises(OptionError, match=sentence):
        make_engine(name, **options)


def test_an_address_decides_the_number_of_jobs() -> None:
    """A cluster has its own room."""
    with pytest.raises(UsageError, match="give workers or an address, not both"):
        make_engine("ray", workers=2, address="host:1")
    with pytest.raises(UnknownNameError, match="unknown engine 'loca'; did you mean 'local'"):
        make_engine("loca")


def test_the_local_engine_conforms() -> None:
    """Also where a worker dies."""
    check_engine("local", options=Local.Options(workers=1))


def test_an_engine_in_this_process_conforms() -> None:
    """It has no worker that could die."""
    check_engine(Here)
    register = hookimpl(specname="register_engines")(lambda register: register("here", Here))
    check_engine("here", registry=build_registry(extra={"here": SimpleNamespace(register_engines=register)}))


@pytest.mark.parametrize(
    ("engine", "advice"),
    [
        (NoRoom, "room is 0: return a whole number above 0"),
        (NoFuture, "submit returned int: return a concurrent.futures.Future"),
        (Silent, "work that divides by 0 ended with None"),
        (EndsTooSoon, "end nothing before the outer one ends"),
    ],
)
def test_a_wrong_engine_is_told_what_to_change(engine: type, advice: str) -> None:
    """Each failure is one sentence."""
    with pytest.raises(ContractError, match=advice):
        check_engine(engine)

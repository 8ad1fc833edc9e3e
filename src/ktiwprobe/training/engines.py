"""Where the jobs of a sweep run: what an engine is, and how one is made from its name. Ours are local.py and ray.py.

An engine starts work and says that a worker died; it knows nothing of jobs and runs.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import fields
from types import TracebackType
from typing import Any, ClassVar, Protocol, runtime_checkable

from ktiwprobe.errors import OptionError
from ktiwprobe.plugins.options import fill, options_of, parse_pairs
from ktiwprobe.plugins.registry import Registry, build_registry

RETRIES = 3  # how often work is begun again after its worker died
ORDINARY = {"cpus": 1, "gpus": 0.0}  # shares of a job that every engine gives, also one without these options


@runtime_checkable
class Engine(Protocol):
    """Runs functions elsewhere, several at a time, inside its `with`; a `with` inside another is one with it.

    A class that is registered as an engine is called with an instance of its `Options`.
    """

    Options: ClassVar[type]

    @property
    def room(self) -> int | None:
        """How many may be submitted at a time; None if it keeps a queue of its own."""
        ...

    def __enter__(self) -> Engine: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """After an error, tell what runs to save and end; then wait for it."""
        ...

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Run work(*arguments); a future ends with BrokenExecutor if its worker died."""
        ...


def make_engine(name: str | None = None, *, registry: Registry | None = None, **options: Any) -> Engine:
    """The engine that `local` or `ray:cpus=2,gpus=0.5` means, by default the default; options of None are left out."""
    registry = registry or build_registry()
    name, _, rest = (name or registry.default("engines")).partition(":")
    engine_class = registry.load("engines", name)
    known = {field.name for field in fields(options_of(engine_class))}
    given = {k: v for k, v in options.items() if v is not None and (k in known or ORDINARY.get(k) != v)}
    given |= parse_pairs(part for part in rest.split(",") if part)
    try:
        engine: Engine = engine_class(fill(options_of(engine_class), given, space=name))
    except OptionError as error:
        raise OptionError(f"engine {name!r} does not take this: {error}") from error
    return engine

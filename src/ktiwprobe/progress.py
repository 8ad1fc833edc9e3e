"""How long jobs say where they are; the core is silent, the command line draws bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class Progress:
    """Hears of progress and does nothing with it; subclasses show it."""

    def begin(self, label: str, total: int, done: int = 0, unit: str = "steps") -> None:
        """A job of `total` units starts, of which `done` are done."""

    def advance(self, done: int, loss: Callable[[], float] | None = None) -> None:
        """`done` units are done; `loss` may wait for the device: call it rarely."""

    def evaluated(self, record: Mapping[str, Any]) -> None:
        """A line of the log was written."""

    def say(self, sentence: str) -> None:
        """Something a person should know."""

    def end(self) -> None:
        """The job is over."""


SILENT = Progress()

"""How long jobs say where they are, and hear when to stop; the core is silent, the command line draws bars."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class JobState:
    """How far one of many jobs is."""

    name: str
    step: int
    target: int
    record: Mapping[str, Any]  # the newest line of its log


class Progress:
    """Hears of progress and does nothing with it; subclasses show it."""

    def begin(self, label: str, total: int, done: int = 0, unit: str = "steps") -> None:
        """A job of `total` units starts, of which `done` are done."""

    def advance(self, done: int, loss: Callable[[], float] | None = None) -> None:
        """`done` units are done; `loss` may wait for the device: call it rarely."""

    def evaluated(self, record: Mapping[str, Any]) -> None:
        """A line of the log was written."""

    def jobs(self, running: Sequence[JobState]) -> None:
        """How far the jobs that run now are; heard about once a second."""

    def job_ended(self, name: str, how: str) -> None:
        """One of many jobs is over."""

    def say(self, sentence: str) -> None:
        """Something a person should know."""

    def end(self) -> None:
        """The job is over."""


SILENT = Progress()


@contextlib.contextmanager
def stop_when_asked() -> Iterator[Callable[[], bool]]:
    """Ctrl-C (and a polite kill) waits for the step to end, so that what is saved is whole; a second one does not."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def note(number: int, _frame: Any) -> None:
        asked.set()
        signal.signal(number, before[number])

    before: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, note)
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

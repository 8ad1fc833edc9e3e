"""An engine for tests that need the jobs of a sweep, but not the time that processes take to start."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor, Future


class Here:
    """An engine that works at once, in this process, and whose workers die when told."""

    room = None

    def __init__(self, *, deaths: int = 0) -> None:
        self.deaths, self.begun = deaths, 0

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, work, *arguments) -> Future:
        self.begun += 1
        future: Future = Future()
        if self.begun <= self.deaths:
            future.set_exception(BrokenExecutor("a worker died"))
            return future
        try:
            future.set_result(work(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future

"""The engine local: worker processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from ktiwprobe.plugins.options import option
from ktiwprobe.training.threads import cores, keep_memory, spin_briefly, use_threads


class Local:
    """One process for each of `workers`, one thread in each.

    On two nearly idle cores two copying jobs took 29 and 34 s side by side with one thread each, 43 and 44 s with two
    threads each, and one alone with two threads 24 and 26 s: `python -m benchmarks.threads` measures it where you are.
    """

    @dataclass(frozen=True)
    class Options:
        """How many processes."""

        workers: int | None = option(None, low=1, help="jobs at a time; else one a core")

    def __init__(self, options: Options) -> None:
        # room is no larger, for a pool would begin a job that waits in it even while it is told to end
        self.workers = self.room = options.workers or cores()
        self._pool: ProcessPoolExecutor | None = None
        self._depth = 0

    def __enter__(self) -> Local:
        if self._depth == 0:
            self._others = multiprocessing.active_children()
        self._depth += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._depth -= 1
        if kind:
            for process in multiprocessing.active_children():
                if process not in self._others:
                    process.terminate()  # training hears it, saves and ends
        if self._pool is not None and (kind or not self._depth):
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Run it in a process of its own; a dead process takes its whole pool with it, so there may be a new one."""
        try:
            self._pool = self._pool or self._fresh()
            return self._pool.submit(_for_parent, work, *arguments)
        except BrokenExecutor:
            self._pool.shutdown(wait=True, cancel_futures=True)  # type: ignore[union-attr]
            self._pool = self._fresh()
            return self._pool.submit(_for_parent, work, *arguments)

    def _fresh(self) -> ProcessPoolExecutor:
        fresh = multiprocessing.get_context("spawn")  # a fork would copy this process's threads and locks
        return ProcessPoolExecutor(self.workers, mp_context=fresh, initializer=_begin_worker)


def _begin_worker() -> None:
    """One thread; Ctrl-C is for the parent and, while it trains, for the training; all ends with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    keep_memory()
    spin_briefly()
    use_threads(1)


def _end_with_parent() -> None:
    """A parent that is killed tells nobody: its workers must not train on as orphans, a core and a lock each."""
    _parent().join()
    os.kill(os.getpid(), signal.SIGTERM)  # training hears it and saves; all else ends here


def _for_parent(work: Callable[..., Any], *arguments: Any) -> Any:
    """The result of the work, if somebody is left to hear it."""
    result = work(*arguments)
    if not _parent().is_alive():
        os._exit(1)  # the pool would wait for more work for ever
    return result


def _parent() -> multiprocessing.process.BaseProcess:
    parent = multiprocessing.parent_process()
    if parent is None:
        raise RuntimeError("this process is nobody's worker")
    return parent

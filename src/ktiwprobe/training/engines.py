"""Where the jobs of a sweep run: processes of this machine, or a Ray cluster. Both hand out ordinary futures.

An engine starts work and says that a worker died; it knows nothing of jobs and runs.
"""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from types import TracebackType
from typing import Any, Literal, Protocol, get_args

from ktiwprobe.errors import UnknownNameError, UsageError

EngineName = Literal["local", "ray"]
SECONDS_TO_ANSWER = 10.0  # that a Ray cluster has
SECONDS_TO_SAVE = 60.0  # that a job has when it is told to end
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
RETRIES = 3  # how often work is begun again after its worker died


class Engine(Protocol):
    """Runs functions elsewhere, several at a time, inside its `with`; a `with` inside another is one with it."""

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


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_engine(
    name: str,
    *,
    workers: int | None = None,
    address: str | None = None,
    cpus: int = 1,
    gpus: float = 0.0,
) -> Engine:
    """The engine called `name`; `address` and the shares of a job are for Ray."""
    if name not in get_args(EngineName):
        raise UnknownNameError("engine", name, get_args(EngineName))
    if name == "ray":
        if workers is not None and address is not None:
            raise UsageError("a Ray cluster decides itself how many jobs it runs: leave --workers or --ray-address out")
        return Ray(workers, address, cpus, gpus)
    if address is not None or cpus != 1 or gpus:
        raise UsageError("the engine local has one thread a process and no address: use --engine ray for that")
    return Local(workers or cores())


class Local:
    """One process for each of `workers`, one thread in each.

    On two nearly idle cores two copying jobs took 29 and 34 s side by side with one thread each, 43 and 44 s with two
    threads each, and one alone with two threads 24 and 26 s: `python -m benchmarks.threads` measures it where you are.
    """

    def __init__(self, workers: int) -> None:
        self.workers = self.room = workers  # a pool would begin a job that waits in it even while it is told to end
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


class Ray:
    """A Ray cluster: the one at `address`, else one started on this machine; Ray itself retries what is lost."""

    room = None

    def __init__(self, workers: int | None, address: str | None, cpus: int, gpus: float) -> None:
        self.workers, self.address, self.cpus, self.gpus = workers, address, cpus, gpus
        self._ray: Any = None
        self._refs: list[Any] = []
        self._depth = 0

    def __enter__(self) -> Ray:
        _check_reachable(self.address)
        self._depth += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._depth -= 1
        if self._ray is not None and (kind or not self._depth):
            if kind:
                for ref in self._refs:
                    self._ray.cancel(ref)  # an interrupt there: training hears it, saves and ends
                self._ray.wait(self._refs, num_returns=len(self._refs), timeout=SECONDS_TO_SAVE)
            self._ray.shutdown()
            self._ray, self._refs = None, []

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Run it where the cluster has room; begun again if its worker or node dies."""
        self._ray = self._ray or self._started()
        shares = {"num_cpus": self.cpus, "num_gpus": self.gpus, "max_retries": RETRIES}
        ref = self._ray.remote(_with_threads).options(**shares).remote(self.cpus, work, *arguments)
        self._refs.append(ref)
        future: Future[Any] = ref.future()
        return future

    def _started(self) -> Any:
        try:
            import ray
        except ImportError as error:
            raise UsageError("the engine ray needs Ray: install it with `pip install 'ktiwprobe[ray]'`") from error
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no word to anyone
        started: dict[str, Any] = {}
        if self.address is None:
            started = {"num_cpus": (self.workers or cores()) * self.cpus, "include_dashboard": False}
        try:
            ray.init(address=self.address or "local", log_to_driver=False, logging_level=logging.ERROR, **started)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise UsageError(f"cannot reach Ray at {self.address or 'this machine'}: {_one_line(error)}") from error
        return ray


def _check_reachable(address: str | None) -> None:
    """Ray itself tries for minutes; nobody listening at HOST:PORT is known at once."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host, int(port)), timeout=SECONDS_TO_ANSWER).close()
        except OSError as error:
            raise UsageError(f"cannot reach Ray at {address}: {error.strerror or error}") from error


def _begin_worker() -> None:
    """One thread; Ctrl-C is for the parent and, while it trains, for the training; all ends with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    keep_memory()
    use_threads(1)


def keep_memory() -> None:
    """Keep what a training step frees for the next one, where malloc is glibc's: fresh pages cost time.

    By its own rule it gives large blocks, and a large top of the heap, back to the system after every step.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", lambda *_: 0)
        mallopt(M_MMAP_THRESHOLD, 2**25)  # the most it takes
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)  # alone it would do harm: either setting ends glibc's own choice of both


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


def use_threads(count: int) -> None:
    """How many threads this process may compute with."""
    import torch

    torch.set_num_threads(count)


def _with_threads(count: int, work: Callable[..., Any], *arguments: Any) -> Any:
    use_threads(count)
    return work(*arguments)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]

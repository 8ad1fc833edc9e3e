"""The engine ray: a Ray cluster, or Ray on this machine."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from ktiwprobe.errors import UsageError
from ktiwprobe.plugins.options import option
from ktiwprobe.training.engines import RETRIES
from ktiwprobe.training.threads import cores, spin_briefly, use_threads

SECONDS_TO_ANSWER = 10.0  # that a Ray cluster has
SECONDS_TO_SAVE = 60.0  # that a job has when it is told to end


class Ray:
    """A Ray cluster: the one at `address`, else one started on this machine; Ray itself retries what is lost."""

    @dataclass(frozen=True)
    class Options:
        """Which cluster, and what a job gets of it."""

        workers: int | None = option(None, low=1, help="jobs at a time on this machine; else one a core")
        address: str | None = option(None, help="of a cluster that decides itself; else one is started here")
        cpus: int = option(1, low=1, help="of a job")
        gpus: float = option(0.0, low=0.0, help="share of a job")

    room = None

    def __init__(self, options: Options) -> None:
        self.workers, self.address, self.cpus, self.gpus = options.workers, options.address, options.cpus, options.gpus
        if self.workers is not None and self.address is not None:
            raise UsageError(
                "a Ray cluster decides itself how many jobs it runs: give workers or an address, not both",
                hint="workers=None or address=None",
            )
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
        packed = self._ray.put((work, arguments))  # a worker gets ready before this imports torch
        ref = self._ray.remote(_unpacked).options(**shares).remote(self.cpus, [packed])
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


def _unpacked(threads: int, packed: list[Any]) -> Any:
    """Runs in a worker: the work that the one reference in `packed` stands for."""
    import ray

    spin_briefly()
    use_threads(threads)
    work, arguments = ray.get(packed[0])
    return work(*arguments)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]

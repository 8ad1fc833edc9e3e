"""How a process computes: its cores and threads, how long waiting threads spin, and what it does with freed memory."""

from __future__ import annotations

import os
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def use_threads(count: int) -> None:
    """How many threads this process may compute with."""
    import torch

    torch.set_num_threads(count)


def spin_briefly() -> None:
    """Let a waiting thread sleep soon, unless GOMP_SPINCOUNT is set; without effect once torch is imported.

    GNU OpenMP reads the variable when torch loads its thread pool. By its default threads spin so long that training
    crawls beside other work: on two cores that were also busy with other work, two threads made 0.2 steps a second,
    with this about 2. On free cores readings of the two were 11 to 16 against 11 to 17: no clear loss.
    """
    if "torch" not in sys.modules:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")


def keep_memory() -> None:
    """Keep what a training step frees for the next one, where malloc is glibc's: fresh pages cost time.

    By its own rule it gives large blocks, and a large top of the heap, back to the system after every step.
    """
    if sys.platform == "linux":
        import ctypes  # here, as the command line would wait for it

        mallopt = getattr(ctypes.CDLL(None), "mallopt", lambda *_: 0)
        mallopt(M_MMAP_THRESHOLD, 2**25)  # the most it takes
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)  # alone it would do harm: either setting ends glibc's own choice of both

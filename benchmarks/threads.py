"""Two jobs on the cores of this machine: one after the other with all threads, or side by side with one each.

What the engine `local` does by default follows from this. Each is a real sweep, start of processes included; the
settings take turns, so that a busy spell meets all of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from statistics import median

JOB = """
import sys, torch
from ktiwprobe import train
torch.set_num_threads(int(sys.argv[1]))
options = {"layers": 1, "bidirectional": False, "dropout": 0.0, "activation": "tanh", "evaluations": "checkpoints"}
train("lstm-seq2seq", "copy", seed=int(sys.argv[2]), steps=20, options=options | {"checkpoints": "0"}, runs=sys.argv[3])
"""
REPEATS = 3


def seconds(threads: int, together: int, jobs: int) -> float:
    """How long `jobs` jobs take, `together` at a time, with so many threads each."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for first in range(0, jobs, together):
            group = [
                subprocess.Popen([sys.executable, "-c", JOB, str(threads), str(seed), folder])
                for seed in range(first, min(first + together, jobs))
            ]
            for process in group:
                if process.wait():
                    raise SystemExit(f"a job ended with {process.returncode}")
    return time.perf_counter() - started


def main() -> None:
    cores = os.cpu_count() or 1
    settings = {"one by one, all threads": (cores, 1), "side by side, one thread": (1, cores),
                "side by side, all threads": (cores, cores)}  # fmt: skip
    found: dict[str, list[float]] = {name: [] for name in settings}
    for _ in range(REPEATS):
        for name, (threads, together) in settings.items():
            found[name].append(seconds(threads, together, cores))
    base = median(found["one by one, all threads"])
    for name, times in found.items():
        print(f"{cores} copying jobs, {name}: {median(times):.1f} s, {median(times) / base:.2f}x")


if __name__ == "__main__":
    main()

"""How fast the metrics are, against scipy where it has the same one. Run with OMP_NUM_THREADS=1; takes about 10 s.

Each time is the median of 3. scipy is given fewer rows, scaled up in proportion: its cost per row does not depend on
how many there are.
"""

from collections.abc import Callable
from statistics import median
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ktiwprobe.compare.metrics import Agreement, Kendall, Rows

REPEATS = 3


def main() -> None:
    agreement()
    kendall_short()
    kendall_long()


def agreement() -> None:
    """Agreement and its exact baseline."""
    u, v = random_rows(1_000_000, 20)
    metric = Agreement()
    both = seconds(lambda: (metric(u, v), metric.expected(u, v)))
    print(f"agreement, 1,000,000 rows of 20 with exact baseline: {both:.2f} s")


def kendall_short() -> None:
    """Kendall against a loop over scipy, which is spared its exact p-values: we compute none."""
    N, sample = 100_000, 1_000
    u, v = random_rows(N, 25)
    ours = seconds(lambda: Kendall()(u, v))
    pairs = list(zip(u[:sample], v[:sample], strict=True))
    loop = seconds(lambda: [stats.kendalltau(a, b, method="asymptotic") for a, b in pairs]) * N / sample
    print(
        f"kendall, {N:,} rows of 25: {ours:.3f} s; loop over scipy {loop:.1f} s "
        f"(scaled up from {sample:,} rows); {loop / ours:.0f} times faster"
    )


def kendall_long() -> None:
    """Kendall against scipy's own version for many rows."""
    N, sample = 2_000, 500
    u, v = random_rows(N, 400)
    ours = seconds(lambda: Kendall()(u, v))
    scipys = seconds(lambda: stats.kendalltau(u[:sample], v[:sample], axis=1)) * N / sample
    print(
        f"kendall, {N:,} rows of 400: {ours:.3f} s; scipy with axis=1 {scipys:.3f} s "
        f"(scaled up from {sample:,} rows); {scipys / ours:.1f} times faster"
    )


def random_rows(N: int, L: int) -> tuple[Rows, Rows]:
    """Two signals as they come out of a model: float32, ties rare. (N, L) each"""
    rng = np.random.default_rng(0)
    u: NDArray[np.float32] = rng.random((N, L), dtype=np.float32)
    return u, rng.random((N, L), dtype=np.float32)


def seconds(work: Callable[[], object]) -> float:
    """The median time of REPEATS runs, after one to warm up."""
    work()
    times = []
    for _ in range(REPEATS):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return median(times)


if __name__ == "__main__":
    main()

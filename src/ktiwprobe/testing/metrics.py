"""What metrics must hold to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ktiwprobe.compare import metrics
from ktiwprobe.compare.agreement import as_pairs, make_metric
from ktiwprobe.plugins.capabilities import HasExpectation, lower_is_better, missing
from ktiwprobe.plugins.protocols import Metric
from ktiwprobe.plugins.registry import Registry, build_registry
from ktiwprobe.testing.outcome import Failed, Outcome, Skipped, name_of, raise_failures, run_checks

Rows = NDArray[np.float32]


@dataclass(eq=False)
class MetricCase:
    """A metric under test on random rows, with ties, and with one constant row."""

    metric: Metric

    @cached_property
    def rows(self) -> tuple[Rows, Rows]:
        """Two blocks of rows, (N, L); the values of the second are 0, 1/2 and 1, as a gold alignment has too."""
        rng = np.random.default_rng(0)
        u, v = rng.normal(size=(60, 7)), rng.choice([0.0, 0.5, 1.0], (60, 7))
        v[:, 0] = 1.0
        v[-1] = 0.5
        return u.astype(np.float32), v.astype(np.float32)

    def pairs(self, u: Rows, v: Rows) -> NDArray[np.float64]:
        """What it says of each row, as numerator and denominator."""
        return as_pairs(self.metric(u.copy(), v.copy()), len(u), self.metric)


def check_metric(metric: Any, *, registry: Registry | None = None) -> None:
    """Hold a metric (a function, an instance, or a registered name) to the contract."""
    raise_failures(f"metric {name_of(metric)}", metric_checks(metric, registry=registry))


def metric_checks(metric: Any, *, registry: Registry | None = None) -> Iterator[Outcome]:
    """Each check and what came of it."""
    if isinstance(metric, str):
        metric = make_metric((registry or build_registry()).load("metrics", metric.partition(":")[0]), metric)
    checks = (
        a_number_a_row,
        rows_are_independent,
        inputs_are_left,
        only_order_counts,
        itself_is_best,
        takes_minus_infinity,
        takes_one_position,
        baseline_is_true,
    )
    yield from run_checks(checks, MetricCase(metric))


def a_number_a_row(case: MetricCase) -> None:
    """It returns (N,) or (N, 2), not all undefined."""
    if np.isnan(case.pairs(*case.rows)).all():
        raise Failed("every row is NaN: return a number where the row has an answer")


def rows_are_independent(case: MetricCase) -> None:
    """A row's number does not depend on the other rows, and a second call gives the same."""
    u, v = case.rows
    whole = case.pairs(u, v)
    if not np.array_equal(whole, case.pairs(u, v), equal_nan=True):
        raise Failed("two calls on the same rows give different numbers: seed what is random, or leave it out")
    order = np.random.default_rng(1).permutation(len(u))
    if not np.allclose(whole[order], case.pairs(u[order], v[order]), equal_nan=True):
        raise Failed("the numbers change when rows change places: compute each row from itself alone")
    for row in range(len(u)):
        one = slice(row, row + 1)
        if not np.allclose(whole[one], case.pairs(u[one], v[one]), equal_nan=True):
            raise Failed("a row alone and among others gives different numbers: compute each row from itself alone")


def inputs_are_left(case: MetricCase) -> None:
    """It changes neither u nor v."""
    u, v = (rows.copy() for rows in case.rows)
    case.metric(u, v)
    for name, rows, before in (("u", u, case.rows[0]), ("v", v, case.rows[1])):
        if not np.array_equal(rows, before):
            raise Failed(f"it changes {name} in place: sort or scale a copy")


def only_order_counts(case: MetricCase) -> None:
    """Only the order of values counts, so that log-odds and probabilities give the same."""
    u, v = case.rows
    flat = np.random.default_rng(4).normal(size=v.shape).astype(np.float32)
    for name, change in INCREASING.items():
        for other in (v, flat):
            if not np.allclose(case.pairs(u, other), case.pairs(change(u), other), equal_nan=True):
                raise Failed(f"the numbers change under a rescaling of u ({name}): compare ranks, never differences")
    if not np.allclose(case.pairs(u, flat), case.pairs(u, _between(flat)), equal_nan=True):
        raise Failed("the numbers change under a rescaling of v that keeps its order: compare ranks, never differences")


INCREASING: dict[str, Callable[[Rows], Rows]] = {
    "3 u - 1": lambda u: np.float32(3) * u - np.float32(1),
    "exp u": np.exp,
    "u ** 3": lambda u: u**3,
    "arctan u": np.arctan,
}


def _between(v: Rows) -> Rows:
    """Other values in the same order, still between 0, 1/2 and 1, which mean something in a gold alignment."""
    edges = np.array([0.0, 0.5, 1.0], np.float32)
    place = np.searchsorted(edges, v, side="right")  # 0 below all, 3 above
    inner = np.clip(place - 1, 0, 1)
    low = edges[inner]
    squared = low + (v - low) ** 2 * 2  # within [low, low + 1/2)
    return np.where(place == 0, v * 3 - v**2, np.where(place == 3, 1 + (v - 1) ** 3, squared)).astype(np.float32)


def itself_is_best(case: MetricCase) -> None:
    """Nothing agrees with a row better than the row itself, as lower_is_better says; and a constant row not less."""
    u = case.rows[0]
    down = lower_is_better(case.metric)
    best, least = _values(case, u, u), np.random.default_rng(5)
    for _ in range(3):
        other = _values(case, u, least.permuted(u, axis=1))
        worse = (best > other + 1e-6) if down else (best < other - 1e-6)
        if worse.any():
            raise Failed(
                f"u agrees better with a shuffled u ({other[worse][0]:.3g}) than with itself ({best[worse][0]:.3g}): "
                f"the metric is the wrong way round; {'leave out' if down else 'set'} lower_is_better = True"
            )
    constant = np.full_like(u[:1], 0.5)
    (flat,) = _values(case, constant, constant)
    if not np.isnan(flat) and ((flat > best.max()) if down else (flat < best.min())):
        raise Failed(
            f"a constant row agrees with itself by {flat:.3g}, other rows by {best.min():.3g}: where a row has no "
            "answer, return NaN, so that it is skipped and not counted"
        )


def _values(case: MetricCase, u: Rows, v: Rows) -> NDArray[np.float64]:
    pairs = case.pairs(u, v)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(pairs[:, 0] / pairs[:, 1])


def takes_minus_infinity(case: MetricCase) -> None:
    """A cell of -inf is a lowest value, not an error."""
    u, v = case.rows
    u = u.copy()
    u[:, -1] = -np.inf
    lowest = u.copy()
    lowest[:, -1] = -1e6
    if not np.allclose(case.pairs(u, v), case.pairs(lowest, v), equal_nan=True):
        raise Failed("-inf in u gives another number than a very low value")
    u, v = case.rows
    v = np.random.default_rng(4).normal(size=v.shape).astype(np.float32)
    v[:, 2] = -np.inf
    lowest = np.where(np.isinf(v), np.float32(-1e6), v)
    if not np.allclose(case.pairs(u, v), case.pairs(u, lowest), equal_nan=True):
        raise Failed("-inf in v gives another number than a very low value")


def takes_one_position(case: MetricCase) -> None:
    """A row of one position gives a number or NaN."""
    one = np.ones((3, 1), np.float32)
    case.pairs(one, one)


def baseline_is_true(case: MetricCase) -> None:
    """expected(u, v) is the mean over shuffles, for each row."""
    if missing(case.metric, HasExpectation):
        raise Skipped("no expected(u, v): a seeded shuffle is used")
    many = 200
    u = np.repeat(case.rows[0][:12], many, 0)
    v = np.repeat(np.random.default_rng(2).normal(size=(12, 7)).astype(np.float32), many, 0)
    seen = case.pairs(u, np.random.default_rng(3).permuted(v, axis=1))
    claimed = as_pairs(metrics.expected(case.metric, u, v), len(u), case.metric)
    if np.isnan(seen).any():
        raise Skipped("undefined on random rows")
    if not np.allclose(seen.mean(0), claimed.mean(0), atol=0.05):
        raise Failed(f"expected(u, v) says {claimed[:, 0].mean():.3f}, shuffles of v say {seen[:, 0].mean():.3f}")
    by_row, claims = (rows.reshape(12, many, -1) for rows in (seen, claimed))
    off = np.abs(by_row.mean(1) - claims.mean(1)) - 5 * by_row.std(1) / np.sqrt(many)
    if off.max() > 0.02:
        row = int(off.max(1).argmax())
        raise Failed(
            f"expected(u, v) of a row says {claims[row, 0, 0]:.3f}, shuffles of v say {by_row[row, :, 0].mean():.3f}: "
            "it must be right for each row"
        )

"""How well two signals agree over a split: value, baseline, interval over sentences, and the paper's ξ; numpy only."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ktiwprobe.compare import caveats, metrics
from ktiwprobe.compare.caveats import Caveat
from ktiwprobe.errors import ContractError, UsageError
from ktiwprobe.plugins.capabilities import HasPeaks, bounds_of, lower_is_better, name_of, supports
from ktiwprobe.signals.signal import Signal

if TYPE_CHECKING:
    import pandas as pd

    from ktiwprobe.plugins.protocols import Metric
    from ktiwprobe.plugins.registry import Registry

Floats = NDArray[np.float64]
RESAMPLES = 1000
DEGENERATE = 1e-12  # a narrower interval is one value
NORMAL = 1.959963984540054  # the 97.5 % quantile of the normal distribution
KEYS = ("metric", "u", "v", "value", "baseline", "ci", "rows", "skipped", "performance", "xi", "xi_star", "u_step",
        "v_step", "chosen", "warnings")  # fmt: skip


@dataclass(frozen=True, eq=False)
class Agreement:
    """A(u, v) and what it takes to read it. Fractions in [0, 1], τ and ρ in [-1, 1], ξ in the unit of `performance`."""

    metric: str
    u: str
    v: str
    value: float | None  # None where every row is undefined
    baseline: float | None  # the exact expectation under random order
    ci: tuple[float, float] | None  # 95 % over sentences, see `interval`
    rows: int
    skipped: int  # rows on which the metric is undefined
    ties: int  # rows in which u's highest value is shared: the first one counts
    performance: str | None = None
    xi: float | None = None  # performance from which another seed's attention agrees better; ξ* if it never does
    xi_star: float | None = None
    passed: bool = True  # whether it ever does
    per_sentence: Floats = field(default_factory=lambda: np.empty(0), repr=False)  # NaN where undefined
    u_step: int | None = None  # None where a signal does not tell its step
    v_step: int | None = None
    chosen: Mapping[str, str | None] = field(default_factory=lambda: {"u": None, "v": None})  # how each step was chosen
    warnings: tuple[Caveat, ...] = ()  # what to know before believing the value

    def to_dict(self) -> dict[str, Any]:
        """What `agree --format json` prints."""
        plain = {name: getattr(self, name) for name in KEYS}
        ci, chosen, warnings = self.ci and list(self.ci), dict(self.chosen), [str(warning) for warning in self.warnings]
        return {**plain, "ci": ci, "chosen": chosen, "warnings": warnings}

    def to_frame(self) -> pd.DataFrame:
        """The agreement of each sentence."""
        import pandas as pd

        return pd.DataFrame({"sentence": np.arange(len(self.per_sentence)), self.metric: self.per_sentence})

    def _repr_html_(self) -> str:
        from ktiwprobe.views import html

        return html.of_agreement(self)


@dataclass(frozen=True, eq=False)
class Sums:
    """A metric over one pair of signals, added up by sentence: enough for the value and for any resample of it."""

    top: Floats  # (sentences,)
    bottom: Floats  # (sentences,)
    expected_top: float
    expected_bottom: float
    rows: int
    skipped: int
    ties: int
    cells: float = 1.0  # the share of cells of u or v that both have

    @property
    def value(self) -> float | None:
        """The metric over all defined rows."""
        return _divide(self.top.sum(), self.bottom.sum())

    @property
    def baseline(self) -> float | None:
        """Its expectation under random order."""
        return _divide(self.expected_top, self.expected_bottom)


def add_up(u: Signal, v: Signal, metric: Metric) -> Sums:
    """The metric on every row of u and v, summed by sentence, over the cells that both have.

    A row is skipped where the metric is undefined, where u or v is -inf throughout, which says nothing, and where the
    two have no cell in common.
    """
    u, v, cells = common_cells(u.one_site(), v.one_site())
    sums, expected, rows, ties = np.zeros((2, len(u))), np.zeros(2), 0, 0
    for (numbers, a), (_, b) in zip(u.by_length(), v.by_length(), strict=True):
        pairs = as_pairs(metric(a, b), len(a), metric)
        defined = _known(pairs) & _speaks(a) & _speaks(b)
        if not defined.all():
            numbers, a, b, pairs = numbers[defined], a[defined], b[defined], pairs[defined]
        if not len(a):
            continue
        sums += [np.bincount(u.sentence_of_row[numbers], column, len(u)) for column in pairs.T]
        chance = as_pairs(metrics.expected(metric, a, b), len(a), metric)
        expected += chance[_known(chance)].sum(0)
        rows += len(a)
        ties += _shared_peaks(metric.peaks_of(a) if supports(metric, HasPeaks) else a)
    return Sums(sums[0], sums[1], expected[0], expected[1], rows, len(u.lengths) - rows, ties, cells)


def common_cells(u: Signal, v: Signal) -> tuple[Signal, Signal, float]:
    """u and v over the cells that both have, and which share that is of all cells that either has, in [0, 1].

    Only signals of one corpus may differ in cells (a site may look where another may not): those of the same
    fingerprint, sentences and rows. Of any others, such as signals computed elsewhere, a difference is an error.
    """
    mine, theirs = (signal.meta.get("fingerprint") for signal in (u, v))
    if not mine or mine != theirs:
        u.check_same_cells(v)
        return u, v, 1.0
    u.check_same_rows(v)
    same = np.array_equal(u.lengths, v.lengths)
    if same and u.columns is None and v.columns is None:
        return u, v, 1.0
    a, b = u.positions, v.positions
    if same and np.array_equal(a, b):
        return u, v, 1.0
    width = 1 + max(a.max(initial=0), b.max(initial=0))
    row = np.arange(len(u.lengths))
    keys, in_u, in_v = np.intersect1d(
        np.repeat(row, u.lengths) * width + a, np.repeat(row, v.lengths) * width + b, return_indices=True
    )
    lengths = np.bincount(keys // width, minlength=len(row)).astype(np.int32)
    columns = (keys % width).astype(np.int32)
    both = (
        replace(signal, values=signal.values[:, cells], lengths=lengths, columns=columns)
        for signal, cells in ((u, in_u), (v, in_v))
    )
    return *both, len(keys) / (len(a) + len(b) - len(keys))  # type: ignore[return-value]


def _known(pairs: Floats) -> NDArray[np.bool_]:
    return ~(np.isnan(pairs[:, 0]) | np.isnan(pairs[:, 1]))


def _speaks(rows: NDArray[np.float32]) -> NDArray[np.bool_] | np.bool_:
    """Whether a row has any value above -inf. (N,), or True for all"""
    return np.True_ if rows.min() > -np.inf else rows.max(1) > -np.inf


def _shared_peaks(rows: NDArray[np.float32]) -> int:
    """In how many rows the highest value stands more than once."""
    peaks = rows == rows.max(1, keepdims=True)
    if np.count_nonzero(peaks) == len(rows):  # as nearly always, and far quicker to see
        return 0
    return int(np.count_nonzero(np.count_nonzero(peaks, axis=1) > 1))


def measure(pairs: Sequence[tuple[Signal, Signal]], metric: Metric, name: str) -> tuple[Agreement, int]:
    """The agreement of the best of several pairs (the checkpoints of @max), and which one that is.

    With several pairs the interval takes the best inside each resample, so that choosing is part of what it covers.
    """
    lower = lower_is_better(metric)
    pairs = [(u.one_site(), v.one_site()) for u, v in pairs]
    sums = [add_up(u, v, metric) for u, v in pairs]
    scored = [(-s.value if lower else s.value, -i) for i, s in enumerate(sums) if s.value is not None]
    best = -max(scored)[1] if scored else 0
    chosen, (u, v) = sums[best], pairs[best]
    with np.errstate(invalid="ignore", divide="ignore"):
        per_sentence = chosen.top / chosen.bottom
    result = Agreement(
        metric=name,
        u=u.name,
        v=v.name,
        value=chosen.value,
        baseline=chosen.baseline,
        ci=interval(sums, lower=lower, bounds=bounds_of(metric)),
        rows=chosen.rows,
        skipped=chosen.skipped,
        ties=chosen.ties,
        per_sentence=per_sentence,
        u_step=u.meta.get("step"),
        v_step=v.meta.get("step"),
        warnings=_warnings(pairs, best, sums, lower=lower),
    )
    return result, best


def _warnings(
    pairs: Sequence[tuple[Signal, Signal]], best: int, sums: Sequence[Sums], *, lower: bool
) -> tuple[Caveat, ...]:
    """What the signals themselves tell against the value."""
    (u, v), chosen = pairs[best], sums[best]
    several = 1 if len({v.name for _, v in pairs}) > 1 else 0  # the side that has several checkpoints
    found = [
        caveats.same_signal(u, v),
        *(caveats.flat_rows(signal) for signal in (u, v)),
        caveats.chosen_by_value([pair[several].name for pair in pairs], best, lower=lower),
        caveats.chance_differs([one.baseline for one in sums if one.baseline is not None]),
        caveats.few_sentences(u, v, int(np.count_nonzero(chosen.bottom))),
        caveats.part_of_the_cells(u, v, chosen.cells),
    ]
    return tuple(dict.fromkeys(caveat for caveat in found if caveat))


def interval(
    sums: Sequence[Sums], *, lower: bool = False, seed: int = 0, bounds: tuple[float, float] | None = None
) -> tuple[float, float] | None:
    """A 95 % bootstrap interval over sentences; None where there are fewer than two with a value.

    If all resamples give one value, as where every row is a match, the bootstrap knows nothing of the sentences that
    were not drawn. A metric with `bounds` then gets a Wilson interval, scaled to them. Its n is the number of
    sentences with a value, not of rows: rows of one sentence are not independent.
    """
    top, bottom = (np.stack([getattr(s, side) for s in sums], 1) for side in ("top", "bottom"))  # (sentences, pairs)
    heard = bottom.any(1)
    top, bottom = top[heard], bottom[heard]
    M = len(top)
    if M < 2:
        return None
    best: list[Floats] = []
    for weights in resamples(M, seed=seed):
        with np.errstate(invalid="ignore", divide="ignore"):
            values = (weights @ top) / (weights @ bottom)
        values = values[~np.isnan(values).all(1)]
        best.append(np.nanmin(values, 1) if lower else np.nanmax(values, 1))
    low, high = np.percentile(np.concatenate(best), (2.5, 97.5))
    if bounds is not None and high - low < DEGENERATE:
        return wilson(float(low), M, bounds)
    return float(low), float(high)


def wilson(value: float, n: int, bounds: tuple[float, float] = (0.0, 1.0)) -> tuple[float, float]:
    """The Wilson 95 % interval of a share of n independent trials; of a mean within `bounds` it is at least as wide.

    For a mean the share is (value - lowest) / (highest - lowest); a variable between 0 and 1 varies less than one that
    is 0 or 1 and has the same mean.
    """
    lowest, width = bounds[0], bounds[1] - bounds[0]
    p, square = (value - lowest) / width, NORMAL**2
    centre = (p + square / (2 * n)) / (1 + square / n)
    half = NORMAL / (1 + square / n) * math.sqrt(p * (1 - p) / n + square / (4 * n * n))
    return min(value, lowest + width * (centre - half)), max(value, lowest + width * (centre + half))


def resamples(M: int, *, seed: int = 0) -> Iterator[Floats]:
    """How often each of M sentences is drawn in each bootstrap resample, a block of resamples at a time. (block, M)"""
    rng = np.random.default_rng(seed)
    block = max(1, 4_000_000 // M)  # a block of weights stays near 32 MB
    for done in range(0, RESAMPLES, block):
        weights = np.empty((min(block, RESAMPLES - done), M))
        for row in weights:  # counting draws is ten times faster than drawing the counts
            row[:] = np.bincount(rng.integers(M, size=M), minlength=M)
        yield weights


def xi(value: float, curve: Mapping[int, tuple[float, float]]) -> float | None:
    """ξ: the performance at the first step whose attention agrees with α better than `value`; None if none does.

    `curve` maps a step to (A(α, α̂(step)), performance at that step).
    """
    for step in sorted(curve):
        agreement, performance = curve[step]
        if agreement > value:
            return performance
    return None


def mean_curve(curves: Sequence[Mapping[int, tuple[float | None, float]]]) -> dict[int, tuple[float, float]]:
    """The curve that `xi` reads: several runs' (A(α, α̂(step)), performance), averaged at the steps that all have.

    A step at which one run is missing or undefined is left out: a mean over fewer runs would jump there.
    """
    steps = (
        set.intersection(*({s for s, (a, _) in curve.items() if a is not None} for curve in curves)) if curves else ()
    )
    means = {}
    for step in sorted(steps):
        agreements, performances = zip(*(curve[step] for curve in curves), strict=True)
        means[step] = float(np.mean(agreements)), float(np.mean(performances))
    return means


def as_pairs(values: Any, count: int, metric: Metric) -> Floats:
    """A metric's return as (N, 2): what is added up, and what it is divided by."""
    array = np.asarray(values, float)
    if array.shape == (count,):
        return np.stack([array, np.where(np.isnan(array), np.nan, 1.0)], 1)
    if array.shape == (count, 2):
        return array
    raise ContractError(
        f"metric {name_of(metric)} returned shape {array.shape} for {count} rows: it must be ({count},) or ({count}, 2)"
    )


def _divide(top: float, bottom: float) -> float | None:
    return float(top / bottom) if bottom else None


def load_metric(registry: Registry, text: str | None = None) -> tuple[Metric, str]:
    """The metric that `name` or `name:k=3,share=0.1` means, and its text; by default the registry's default."""
    text = text or registry.default("metrics")
    return make_metric(registry.load("metrics", text.partition(":")[0]), text), text


def make_metric(target: Metric | type, text: str) -> Metric:
    """The metric that `name:k=3,share=0.1` means, given what is registered under the name."""
    from ktiwprobe.plugins.options import fill, parse_pairs

    name, _, rest = text.partition(":")
    given = parse_pairs(part for part in rest.split(",") if part)
    if isinstance(target, type) and is_dataclass(target):
        return fill(target, given, space=name)  # type: ignore[return-value]
    if given:
        raise UsageError(f"metric {name!r} takes no options")
    return target() if isinstance(target, type) else target

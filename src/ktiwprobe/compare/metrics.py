"""How well v agrees with u: rows of one length -> numbers; grouping, skipping and averaging are the caller's.

Metrics compare ranks, not differences: -inf is an ordinary lowest value that ties with itself. Nothing loops over rows.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ktiwprobe.errors import OptionError
from ktiwprobe.plugins.capabilities import HasExpectation, supports

Rows = NDArray[np.floating]  # (N, L), L >= 1, free of NaN and +inf; -inf is legal
Values = NDArray[np.float64]  # (N,), or (N, 2) numerators and denominators; NaN where undefined
Counts = NDArray[np.integer]

LONGEST_BY_PAIRS = 128  # up to here counts fit int8, and pairs are faster than merging (measured)
CHUNK = 1 << 17  # entries worked on at a time: they fit the cache, and the cost of calling numpy no longer shows


@dataclass(frozen=True)
class Magnitudes:
    """The options `abs` and `abs_v` of every metric: compare |u|, or |v|, instead of the signed values.

    u's peak is its highest signed value, as published; for a saliency such as delta, `abs=true` makes it the largest in
    size. v has an option of its own, because size means nothing for most v: log-odds of -20 are the least, not the
    most. -inf stays the lowest value.
    """

    abs: bool = field(default=False, kw_only=True, metadata={"help": "compare |u|: its peak is the largest in size"})
    abs_v: bool = field(default=False, kw_only=True, metadata={"help": "compare |v|, for a signed v such as delta"})

    def peaks_of(self, u: Rows) -> Rows:
        """The values whose highest is u's peak: u, or |u|. (N, L)"""
        return _size(u) if self.abs else u

    def read(self, u: Rows, v: Rows) -> tuple[Rows, Rows]:
        """u and v as they are compared. (N, L), (N, L)"""
        return self.peaks_of(u), _size(v) if self.abs_v else v


@dataclass(frozen=True)
class Agreement(Magnitudes):
    """A(u, v) of Section 3.1: 1 where u's highest position is among v's k = ceil(share * L) highest, else 0.

    Ties count for the match, as published; of several highest positions in u the first counts.
    """

    label: ClassVar[str] = "A"
    lower_is_better: ClassVar[bool] = False
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    share: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise OptionError(f"agreement: share is {self.share}, but must be above 0 and at most 1")

    def __call__(self, u: Rows, v: Rows) -> Values:
        """A match, 1 or 0, for each row. (N,)"""
        u, v = self.read(u, v)
        # Fewer than k entries are greater than x exactly where x is at least the k-th highest.
        return (_at_peak(u, v) >= self._threshold(v)).astype(np.float64)

    def expected(self, u: Rows, v: Rows) -> Values:
        """The exact mean of A over random orders of v: the share of positions that would match, in (0, 1]. (N,)"""
        _, v = self.read(u, v)
        return np.divide(_count(v >= self._threshold(v)[:, None]), v.shape[1])

    def _threshold(self, v: Rows) -> Rows:
        # 0.07 * 100 is a hair above 7 in floating point: without rounding, k would be 8.
        k = math.ceil(round(self.share * v.shape[1], 9))
        return _kth_highest(v, max(k, 1))


@dataclass(frozen=True)
class _Correlation(Magnitudes):
    """What Kendall's and Spearman's coefficients share."""

    lower_is_better: ClassVar[bool] = False
    bounds: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def expected(self, u: Rows, v: Rows) -> Values:
        """0, the mean over random orders of v; NaN where u or v is constant. (N,)"""
        u, v = self.read(u, v)
        return np.where((u != u[:, :1]).any(1) & (v != v[:, :1]).any(1), 0.0, np.nan)


@dataclass(frozen=True)
class Kendall(_Correlation):
    """Kendall's tau-b: (concordant - discordant) / sqrt(pairs untied in u * pairs untied in v), in [-1, 1].

    Symmetric. NaN where u or v is constant, so for L = 1 too.
    """

    label: ClassVar[str] = "tau"

    def __call__(self, u: Rows, v: Rows) -> Values:
        """The tau-b of each row. (N,)"""
        return _in_chunks(_tau_by_pairs if u.shape[1] <= LONGEST_BY_PAIRS else _tau_by_merging, *self.read(u, v))


@dataclass(frozen=True)
class Spearman(_Correlation):
    """Spearman's rho: the correlation of ranks, where tied entries share the average of theirs, in [-1, 1].

    Symmetric. NaN where u or v is constant, so for L = 1 too.
    """

    label: ClassVar[str] = "rho"

    def __call__(self, u: Rows, v: Rows) -> Values:
        """The rho of each row. (N,)"""
        return _in_chunks(_rho, *self.read(u, v))


@dataclass(frozen=True)
class TopK(Magnitudes):
    """How many of u's k highest positions are among v's: |top-k(u) & top-k(v)| / min(k, L), in [0, 1].

    Symmetric. Of tied entries the first ones are taken, so that both sets have min(k, L) members.
    """

    label: ClassVar[str] = "top-k"
    lower_is_better: ClassVar[bool] = False
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    k: int = 3

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or self.k < 1:
            raise OptionError(f"top-k: k is {self.k}, but must be a whole number of at least 1")

    def __call__(self, u: Rows, v: Rows) -> Values:
        """The overlap of each row. (N,)"""
        k = min(self.k, u.shape[1])
        return _in_chunks(lambda u, v: _count(_top(u, k) & _top(v, k)) / k, *self.read(u, v))

    def expected(self, u: Rows, v: Rows) -> Values:
        """min(k, L) / L, the mean over random orders of v's positions once ties are broken. (N,)

        Shuffling tied values instead would favour the first positions, where u's ties go too, and give more or less.
        """
        N, L = v.shape
        return np.full(N, min(self.k, L) / L)


@dataclass(frozen=True)
class AlignmentErrorRate(Magnitudes):
    """Alignment error rate: 1 - (|A & S| + |A & (S or P)|) / (|A| + |S|), in [0, 1], as the terms of a fraction.

    Each row of u proposes one link, its highest position: together these are A. v holds gold links: 1 is sure (S),
    0.5 possible (P), 0 none; a row of -inf was not judged and is NaN. Sum both columns over rows before dividing.
    """

    label: ClassVar[str] = "AER"
    lower_is_better: ClassVar[bool] = True
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __call__(self, u: Rows, v: Rows) -> Values:
        """|A| + |S| - |A & S| - |A & (S or P)| and |A| + |S|, of each row. (N, 2)"""
        u, v = self.read(u, v)
        gold = _at_peak(u, v)
        return self._terms(v, (gold >= 1.0).astype(np.float64) + (gold >= 0.5))

    def expected(self, u: Rows, v: Rows) -> Values:
        """The exact mean of both terms when the proposed link is uniformly random. (N, 2)"""
        _, v = self.read(u, v)
        return self._terms(v, (v >= 1.0).mean(1) + (v >= 0.5).mean(1))

    @staticmethod
    def _terms(v: Rows, hits: Values) -> Values:
        size = 1.0 + _count(v >= 1.0)
        judged = v.max(1, keepdims=True) > -np.inf
        return np.where(judged, np.stack([size - hits, size], axis=1), np.nan)


def expected(metric: Callable[[Rows, Rows], Any], u: Rows, v: Rows, *, seed: int = 0, draws: int = 8) -> Values:
    """The mean of `metric` when each row of v comes in random order; exact where the metric has `expected`.

    Otherwise, as for a plugin's plain function, the average over `draws` seeded shuffles. (N,) or (N, 2)
    """
    if supports(metric, HasExpectation):
        return metric.expected(u, v)
    shuffle = np.random.default_rng(seed).permuted
    return np.asarray(np.mean([metric(u, shuffle(v, axis=1)) for _ in range(draws)], axis=0, dtype=np.float64))


def _in_chunks(values: Callable[[Rows, Rows], Values], u: Rows, v: Rows) -> Values:
    """`values(u, v)`, CHUNK entries at a time, so that what it allocates stays small. (N,)"""
    N, L = u.shape
    step = max(1, CHUNK // L)
    out = np.empty(N)
    for start in range(0, N, step):
        rows = slice(start, start + step)
        out[rows] = values(u[rows], v[rows])
    return out


def _count(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many entries of each row are True. (N,)"""
    return np.asarray(np.count_nonzero(mask, axis=1))


def _size(rows: Rows) -> Rows:
    """Absolute values; -inf stays the lowest. (N, L)"""
    return np.where(np.isneginf(rows), rows, np.abs(rows))


def _at_peak(u: Rows, v: Rows) -> Rows:
    """The entry of v where u is highest. (N,)"""
    return np.take_along_axis(v, u.argmax(1)[:, None], 1)[:, 0]


def _kth_highest(v: Rows, k: int) -> Rows:
    """The k-th highest entry of each row, ties counted one by one. (N,)"""
    L = v.shape[1]
    return v.max(1) if k == 1 else np.partition(v, L - k, axis=1)[:, L - k]


def _top(v: Rows, k: int) -> NDArray[np.bool_]:
    """True on the k highest entries of each row, the first ones among ties. (N, L)"""
    kth = _kth_highest(v, k)[:, None]
    above, tied = v > kth, v == kth
    room = k - _count(above)[:, None]
    top: NDArray[np.bool_] = above | (tied & (tied.cumsum(1, dtype=np.int32) <= room))
    return top


def _ratio(numerator: NDArray[Any], squared: NDArray[Any]) -> Values:
    """The ratio numerator / sqrt(squared), NaN for 0 / 0; one root of a product, so that u against u is exactly 1."""
    with np.errstate(invalid="ignore"):
        return np.asarray(numerator / np.sqrt(squared, dtype=np.float64))


def _rho(u: Rows, v: Rows) -> Values:
    """The correlation of the ranks of u and v. (N,)"""
    mean = u.shape[1] - 1  # of doubled ranks, ties or not
    a, b = (_doubled_ranks(rows) - float(mean) for rows in (u, v))
    return _ratio((a * b).sum(1), (a * a).sum(1) * (b * b).sum(1))


def _tau_by_pairs(u: Rows, v: Rows) -> Values:
    """tau-b from the signs of all pairs: O(L^2), but in int8 and with rows side by side, so that all of it is SIMD."""
    N, L = u.shape
    u, v = np.ascontiguousarray(u.T), np.ascontiguousarray(v.T)  # (L, N)
    both, in_u, in_v = counts = np.zeros((3, L, N), np.int8)  # pairs by their second member; at most L - 1 each
    for d in range(1, L):
        a, b = _signs(u, d), _signs(v, d)
        both[d:] += a * b
        in_u[d:] += a * a
        in_v[d:] += b * b
    balance, untied_u, untied_v = counts.sum(1, dtype=np.int64)
    return _ratio(balance, untied_u * untied_v)


def _signs(columns: Rows, d: int) -> NDArray[np.int8]:
    """The sign of x[l + d] - x[l], for (L, N) columns, without the difference. (L - d, N)"""
    before, after = columns[:-d], columns[d:]
    return (after > before).view(np.int8) - (after < before).view(np.int8)


def _tau_by_merging(u: Rows, v: Rows) -> Values:
    """tau-b by Knight's algorithm, O(L log L): sorted by u, then v, discordant pairs are the inversions left in v."""
    L = u.shape[1]
    pairs, bits = L * (L - 1) // 2, (2 * L).bit_length()
    dtype = np.int32 if bits <= 15 else np.int64  # room for two ranks; the smaller one sorts twice as fast
    a, b = _doubled_ranks(u).astype(dtype), _doubled_ranks(v).astype(dtype)
    joint = np.sort(a << bits | b, axis=1)
    untied_u = pairs - _tied_pairs(joint >> bits)
    tied_v = _tied_pairs(np.sort(b, axis=1))
    discordant = _inversions(joint & ((1 << bits) - 1))
    balance = untied_u - tied_v + _tied_pairs(joint) - 2 * discordant
    return _ratio(balance, untied_u.astype(np.float64) * (pairs - tied_v))


def _doubled_ranks(x: Rows) -> Counts:
    """Twice the rank of each entry, from 0, tied entries sharing the average of theirs: whole numbers. (N, L)"""
    order = x.argsort(1)
    ordered = np.take_along_axis(x, order, 1)
    last = x.shape[1] - 1 - _run_starts(ordered[:, ::-1])[:, ::-1]
    ranks = np.empty(x.shape, np.int32)
    np.put_along_axis(ranks, order, _run_starts(ordered) + last, 1)
    return ranks


def _run_starts(ordered: NDArray[Any]) -> Counts:
    """Where the run of equal entries that each entry of a sorted row belongs to begins. (N, L)"""
    starts = np.tile(np.arange(ordered.shape[1], dtype=np.int32), (len(ordered), 1))
    starts[:, 1:][ordered[:, 1:] == ordered[:, :-1]] = 0
    return np.maximum.accumulate(starts, axis=1)


def _tied_pairs(ordered: Counts) -> NDArray[np.int64]:
    """How many pairs of entries of a sorted row are equal. (N,)"""
    L = ordered.shape[1]
    return np.asarray(L * (L - 1) // 2 - _run_starts(ordered).sum(1, dtype=np.int64))


def _inversions(x: Counts) -> NDArray[np.int64]:
    """How many pairs of each row have the greater entry first: pair by pair in blocks, then merging the blocks. (N,)"""
    N, L = x.shape
    merges = max(0, (L - 1).bit_length() - 5)  # leaves blocks of at most 32
    width = -(-L >> merges)
    blocks = np.full((N, width << merges), np.iinfo(x.dtype).max >> 1, x.dtype)  # padding adds no inversion
    blocks[:, :L] = x
    found: NDArray[np.int64] = _inversions_by_pairs(blocks.reshape(-1, width)).reshape(N, -1).sum(1)
    for _ in range(merges):
        sides = blocks.reshape(-1, 2, width) << 1
        sides[:, 1] |= 1  # the right side carries a mark, below its value, through the sort
        merged = np.sort(sides.reshape(-1, 2 * width), axis=1)
        # The place of a right entry counts what comes before it: right entries, 0 + 1 + ... in all, and left ones.
        places = np.einsum("nl,l->n", merged & 1, np.arange(2 * width, dtype=x.dtype))
        in_order = places - width * (width - 1) // 2
        found += (width * width - in_order).reshape(N, -1).sum(1)
        blocks, width = merged >> 1, 2 * width
    return found


def _inversions_by_pairs(x: Counts) -> NDArray[np.int64]:
    """`_inversions` for L <= 128, by comparing all pairs in int8, rows side by side. (N,)"""
    columns = np.ascontiguousarray(x.T)
    counts = np.zeros(columns.shape, np.int8)
    for d in range(1, len(columns)):
        counts[d:] += columns[:-d] > columns[d:]
    return np.asarray(counts.sum(0, dtype=np.int64))

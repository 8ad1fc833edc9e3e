"""Metrics: laws first, then scipy and brute force as independent oracles."""

import math
import warnings
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy import stats

from ktiwprobe.compare import metrics
from ktiwprobe.compare.metrics import Agreement, AlignmentErrorRate, Kendall, Rows, Spearman, TopK, expected
from ktiwprobe.errors import OptionError

RowMetric = Callable[[Rows, Rows], NDArray[np.float64]]
RANK_METRICS: list[RowMetric] = [Agreement(), Agreement(share=0.4), Kendall(), Spearman(), TopK(), TopK(k=2)]
METRICS: list[RowMetric] = [*RANK_METRICS, AlignmentErrorRate()]
SHORT, LONG = [1, 2, 3, 25, 127, 128], [129, 130, 400, 1000]


def tied_rows(N: int, L: int, *, seed: int = 0) -> Rows:
    """Rows full of ties, some entries -inf, the first row constant and the last without ties. (N, L)"""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, max(2, L // 2), (N, L)).astype(np.float32)
    rows[rng.random((N, L)) < 0.2] = -np.inf
    rows[0] = rng.choice([-np.inf, 1.0])
    rows[-1] = rng.permutation(L)
    return rows


def gold_rows(N: int, L: int, *, seed: int = 0) -> Rows:
    """Sure, possible and no links; the first row not judged, the second without links. (N, L)"""
    rows = np.random.default_rng(seed).choice([0.0, 0.0, 0.5, 1.0], (N, L)).astype(np.float32)
    rows[0], rows[1] = -np.inf, 0.0
    return rows


def by_scipy(statistic: str, u: Rows, v: Rows) -> NDArray[np.float64]:
    """What scipy says of each row; NaN for rows of one entry, which its spearmanr refuses. (N,)"""
    if u.shape[1] == 1:
        return np.full(len(u), np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        return np.array([getattr(stats, statistic)(*pair).statistic for pair in zip(u, v, strict=True)])


def for_shuffling(metric: RowMetric, v: Rows) -> Rows:
    """v, or for top-k its ranks with ties broken: its baseline is over orders of positions, not of tied values."""
    return (-v).argsort(1, kind="stable").argsort(1) * -1.0 if isinstance(metric, TopK) else v


@st.composite
def pairs_of_rows(draw: st.DrawFn, *, longest: int = 12) -> tuple[Rows, Rows]:
    """Two arrays of one shape, with few distinct values and therefore many ties."""
    shape = draw(st.integers(1, 4)), draw(st.integers(1, longest))
    entries = st.sampled_from([-np.inf, -2.0, 0.0, 0.25, 0.5, 1.0, 3.0])
    return draw(hnp.arrays(np.float32, shape, elements=entries)), draw(hnp.arrays(np.float32, shape, elements=entries))


@pytest.mark.parametrize("share", [0.01, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("L", SHORT + LONG)
def test_a_signal_agrees_with_itself(L: int, share: float) -> None:
    """A(u, u) = 1, ties and -inf or not."""
    u = tied_rows(20, L)
    assert (Agreement(share)(u, u) == 1).all()


@pytest.mark.parametrize("metric", [Kendall(), Spearman(), TopK()], ids=lambda metric: metric.label)
@pytest.mark.parametrize("L", SHORT + LONG)
def test_correlation_with_itself_is_exactly_one(L: int, metric: Kendall | Spearman | TopK) -> None:
    """A row against itself gives 1, to the last bit, wherever the metric is defined."""
    u = tied_rows(20, L)
    values = metric(u, u)
    assert (values[~np.isnan(values)] == 1).all()


@given(pairs_of_rows())
@settings(max_examples=30, deadline=None)
def test_only_ranks_matter(pair: tuple[Rows, Rows]) -> None:
    """A strictly increasing map of u or v changes nothing."""
    u, v = pair
    for metric in RANK_METRICS:
        np.testing.assert_array_equal(metric(u, v), metric(np.exp(u), np.cbrt(v.astype(np.float64))))


@pytest.mark.parametrize("metric", [Kendall(), Spearman()], ids=lambda metric: metric.label)
@pytest.mark.parametrize("L", [2, 25, 400])
def test_correlations_are_symmetric_and_odd(L: int, metric: Kendall | Spearman) -> None:
    """Swapping u and v changes nothing, reversing one changes the sign, and values stay in [-1, 1]."""
    u, v = np.random.default_rng(1).integers(0, L, (2, 30, L)).astype(np.float64)
    value = metric(u, v)
    np.testing.assert_array_equal(value, metric(v, u))
    np.testing.assert_array_equal(value, -metric(u, -v))
    assert (np.abs(value[~np.isnan(value)]) <= 1).all()


@pytest.mark.parametrize("metric", METRICS, ids=repr)
@pytest.mark.parametrize("L", [7, 25, 200])
def test_each_row_stands_alone(L: int, metric: RowMetric) -> None:
    """Values follow their rows, over the edges of chunks, and no rows give no values."""
    N = metrics.CHUNK // L + 5
    u, v = tied_rows(N, L), gold_rows(N, L, seed=1)
    values = metric(u, v)
    some = [0, 1, 2, N // 2, *range(N - 8, N)]
    np.testing.assert_array_equal(values[some], metric(u[some], v[some]))
    assert metric(u[:0], v[:0]).shape == (0, *values.shape[1:])


@pytest.mark.parametrize("metric", METRICS, ids=repr)
@pytest.mark.parametrize("v", [[4, 1, 3, 0, 2], [1, 1, 0.5, 0, 0], [0.5, 0.5, 0.5, -np.inf, -np.inf], [1, 0, 0, 0, 0]])
def test_expected_is_the_mean_over_all_orders(v: list[float], metric: RowMetric) -> None:
    """The baseline is exact: the mean over every order of v, ties included."""
    orders = np.array(list(permutations(for_shuffling(metric, np.array([v]))[0])))
    u = np.tile([0.3, 0.9, -np.inf, 0.9, 0.1], (len(orders), 1))
    baseline = expected(metric, u[:1], orders[:1])[0]
    np.testing.assert_allclose(baseline, metric(u, orders).mean(0), atol=1e-12)


@pytest.mark.parametrize("metric", METRICS, ids=repr)
@pytest.mark.parametrize("L", [1, 20, 41])
def test_expected_is_the_mean_of_shuffles(L: int, metric: RowMetric) -> None:
    """On longer rows the exact baseline is what seeded shuffles come to, and undefined on the same rows."""
    rng = np.random.default_rng(2)
    gold = isinstance(metric, AlignmentErrorRate)
    u, v = tied_rows(60, L), (gold_rows if gold else tied_rows)(60, L, seed=3)
    v = for_shuffling(metric, v)
    shuffled = np.mean([metric(u, rng.permuted(v, axis=1)) for _ in range(100)], axis=0)
    exact = expected(metric, u, v)
    np.testing.assert_array_equal(np.isnan(exact), np.isnan(shuffled))
    if L > 1 or not np.isnan(exact).all():
        assert np.nanmean(exact, axis=0) == pytest.approx(np.nanmean(shuffled, axis=0), abs=0.02)


def test_expected_of_a_plain_function_is_seeded() -> None:
    """A metric without a baseline of its own gets the mean of seeded shuffles: near the exact one, and repeatable."""
    u, v = tied_rows(2000, 20), tied_rows(2000, 20, seed=1)
    metric = Agreement(share=0.2)
    shuffled = expected(metric.__call__, u, v, seed=1)
    assert shuffled.mean() == pytest.approx(metric.expected(u, v).mean(), abs=0.01)
    np.testing.assert_array_equal(shuffled, expected(metric.__call__, u, v, seed=1))
    assert (shuffled != expected(metric.__call__, u, v, seed=2)).any()


@given(pairs_of_rows(longest=45), st.sampled_from([0.01, 0.05, 0.07, 0.1, 0.5, 1.0]))
@settings(max_examples=40, deadline=None)
def test_agreement_as_defined(pair: tuple[Rows, Rows], share: float) -> None:
    """A match is where fewer than k entries of v are strictly greater than v at u's first highest position."""
    u, v = pair
    k = math.ceil(round(share * u.shape[1], 6))
    by_hand = [sum(x > b[list(a).index(max(a))] for x in b) < k for a, b in zip(u, v, strict=True)]
    assert Agreement(share)(u, v).tolist() == by_hand


@pytest.mark.parametrize(
    ("share", "L", "k"), [(0.05, 20, 1), (0.05, 21, 2), (0.05, 40, 2), (0.07, 100, 7), (1e-12, 5, 1)]
)
def test_k_is_not_a_victim_of_floating_point(share: float, L: int, k: int) -> None:
    """The k of ceil(share * L) is as on paper: 0.07 * 100 is 7, though not in floating point."""
    v = np.arange(L, dtype=np.float32)[None]
    assert Agreement(share).expected(v, v) == pytest.approx(k / L)


@pytest.mark.parametrize(("metric", "statistic"), [(Kendall(), "kendalltau"), (Spearman(), "spearmanr")])
@pytest.mark.parametrize("L", SHORT + LONG)
def test_correlations_equal_scipy(L: int, metric: Kendall | Spearman, statistic: str) -> None:
    """Kendall, by its short and its long algorithm, and Spearman are scipy's to 1e-12, undefined rows included."""
    u, v = tied_rows(25, L), tied_rows(25, L, seed=1)
    np.testing.assert_allclose(metric(u, v), by_scipy(statistic, u, v), rtol=0, atol=1e-12)


@pytest.mark.parametrize("L", [2**14 - 1, 2**14, 20_000])
def test_kendall_on_rows_of_many_thousands(L: int) -> None:
    """The packed ranks of the long algorithm do not overflow where their integers change size."""
    u, v = np.random.default_rng(0).integers(0, L, (2, 2, L)).astype(np.float32)
    np.testing.assert_allclose(Kendall()(u, v), by_scipy("kendalltau", u, v), rtol=0, atol=1e-12)


@given(pairs_of_rows(longest=70))
@settings(max_examples=40, deadline=None)
def test_both_algorithms_of_kendall_agree(pair: tuple[Rows, Rows]) -> None:
    """Comparing pairs and merging give the same tau at any length, so where to switch is a matter of speed."""
    u, v = pair
    np.testing.assert_allclose(metrics._tau_by_pairs(u, v), metrics._tau_by_merging(u, v), rtol=0, atol=1e-12)


@pytest.mark.parametrize("rising", [True, False])
@pytest.mark.parametrize("L", [128, 129])
def test_kendall_of_extreme_orders(L: int, rising: bool) -> None:
    """All pairs concordant, or all discordant: the counts are as large as they get, and do not overflow."""
    u = np.arange(L, dtype=np.float32)[None]
    assert Kendall()(u, u if rising else -u) == (1 if rising else -1)


@given(pairs_of_rows(), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_top_k_as_defined(pair: tuple[Rows, Rows], k: int) -> None:
    """The overlap of the first k positions of a stable sort from high to low."""
    u, v = pair
    top_u, top_v = ((-rows).argsort(1, kind="stable")[:, :k] for rows in (u, v))
    by_hand = [len({*a} & {*b}) / min(k, u.shape[1]) for a, b in zip(top_u, top_v, strict=True)]
    assert TopK(k)(u, v).tolist() == by_hand


def aer_by_sets(u: Rows, v: Rows) -> tuple[float, float]:
    """Numerator and denominator over all judged rows, from sets of links (row, position)."""
    judged = [t for t in range(len(v)) if not np.isneginf(v[t]).all()]
    links = {(t, position) for t in judged for position in range(v.shape[1])}
    A = {(t, int(np.argmax(u[t]))) for t in judged}
    S, P = ({link for link in links if v[link] == weight} for weight in (1.0, 0.5))
    return len(A) + len(S) - len(A & S) - len(A & (S | P)), len(A) + len(S)


@pytest.mark.parametrize("L", [1, 4, 30])
def test_alignment_error_rate_equals_sets_of_links(L: int) -> None:
    """Summed over rows, the two columns are the terms of the published formula; rows not judged are NaN."""
    u, v = tied_rows(40, L), gold_rows(40, L)
    terms = AlignmentErrorRate()(u, v)
    assert np.isnan(terms).all(1).tolist() == [True] + [False] * 39
    assert tuple(np.nansum(terms, axis=0)) == aer_by_sets(u, v)


def test_a_perfect_alignment_has_no_error() -> None:
    """Proposing the one sure link of every row is rate 0; proposing no link of gold is rate 1."""
    gold = np.eye(5, dtype=np.float32)
    perfect, hopeless = AlignmentErrorRate()(gold, gold), AlignmentErrorRate()(np.roll(gold, 1, axis=0), gold)
    assert perfect.tolist() == [[0.0, 2.0]] * 5
    assert hopeless.tolist() == [[2.0, 2.0]] * 5


def test_rows_of_one_entry() -> None:
    """With one position to choose, every choice is right, and no correlation is defined."""
    one = np.array([[0.5], [-np.inf]], dtype=np.float32)
    assert Agreement()(one, one).tolist() == TopK()(one, one).tolist() == TopK().expected(one, one).tolist() == [1, 1]
    for metric in (Kendall(), Spearman()):
        assert np.isnan(metric(one, one)).all()
        assert np.isnan(metric.expected(one, one)).all()


@pytest.mark.parametrize("share", [0, -0.1, 1.01, math.nan, math.inf])
def test_share_must_be_a_share(share: float) -> None:
    """A share outside (0, 1] is an error that names the option."""
    with pytest.raises(OptionError, match="share"):
        Agreement(share=share)


@pytest.mark.parametrize("k", [0, -1, 2.5])
def test_k_must_be_a_whole_positive_number(k: int) -> None:
    """A k that counts nothing is an error that names the option."""
    with pytest.raises(OptionError, match="k is"):
        TopK(k=k)


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_metrics_say_how_to_read_them(metric: Agreement | Kendall | Spearman | TopK | AlignmentErrorRate) -> None:
    """Each has a short label for tables, and only the error rate is better when lower."""
    assert metric.label
    assert metric.lower_is_better == isinstance(metric, AlignmentErrorRate)


# absolute values

EVERY = (metrics.Agreement, metrics.Kendall, metrics.Spearman, metrics.TopK, metrics.AlignmentErrorRate)


@pytest.mark.parametrize("metric", EVERY)
def test_abs_compares_sizes(metric):
    """abs=true is the metric on |u|, abs_v=true on |v|, with their expectation; the default is as published."""
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(2, 40, 9))
    for call in (metric.__call__, metric.expected):
        for mine, theirs in ((False, False), (True, False), (False, True), (True, True)):
            found = call(metric(abs=mine, abs_v=theirs), u, v)
            expected = call(metric(), np.abs(u) if mine else u, np.abs(v) if theirs else v)
            np.testing.assert_array_equal(found, expected)


def test_abs_moves_the_peak_to_the_largest_in_size():
    """A strong negative saliency is then the peak; -inf stays the lowest."""
    u, v = np.array([[1.0, -3.0, 2.0]]), np.array([[0.0, 5.0, 1.0]])
    assert metrics.Agreement()(u, v).tolist() == [0]
    assert metrics.Agreement(abs=True)(u, v).tolist() == [1]
    assert metrics.Agreement(abs=True)(np.array([[1.0, -np.inf, 2.0]]), v).tolist() == [0]
    low = np.array([[0.0, -np.inf, 1.0]])
    assert metrics.Agreement(abs_v=True)(u, low).tolist() == [1]  # u's signed peak, at the largest v

"""Agreement over signals: Python loops, shuffles and hand-made curves as oracles."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from ktiwprobe import Signal, agree
from ktiwprobe.claims.measures import peak_is_gold
from ktiwprobe.compare import metrics
from ktiwprobe.compare.agreement import (
    NORMAL,
    RESAMPLES,
    Agreement,
    Sums,
    add_up,
    common_cells,
    interval,
    make_metric,
    mean_curve,
    measure,
    wilson,
    xi,
)
from ktiwprobe.errors import ContractError, CorpusError, OptionError, UsageError
from ktiwprobe.plugins.registry import build_registry
from ktiwprobe.signals.signal import make_signal
from ktiwprobe.views.page import viewer_html

A = metrics.Agreement()
SHAPES = [[5, 5, 5], [1], [2, 3], [21, 40], [3, 3], [5, 5]]


def make(shapes: list[list[int]], *, seed: int = 0, values: int = 1000, sites: int = 1, name: str = "u") -> Signal:
    """A random signal with `values` different values."""
    lengths = np.array([n for sentence in shapes for n in sentence], int)
    numbers = np.random.default_rng(seed).integers(0, values, (sites, lengths.sum()))
    names = () if sites == 1 else tuple(f"h{k}" for k in range(sites))
    return make_signal(numbers, lengths, np.array([len(s) for s in shapes], int), sites=names, meta={"name": name})


def rows_of(signal: Signal) -> list[list[float]]:
    """Every row as a list."""
    return [row[~np.isnan(row)].tolist() for matrix in signal for row in matrix]


def matches(u: list[float], v: list[float]) -> bool:
    """A(u, v) of one row, as published: fewer than k entries of v are above v[argmax u]."""
    peak = v[u.index(max(u))]
    return sum(x > peak for x in v) < math.ceil(0.05 * len(v))


ragged = st.lists(st.lists(st.integers(1, 25), min_size=1, max_size=4), min_size=1, max_size=6)


@given(ragged, st.integers(0, 99), st.sampled_from([2, 1000]))
@settings(deadline=None, max_examples=40)
def test_the_value_is_the_mean_over_rows(shapes: list[list[int]], seed: int, values: int) -> None:
    """A loop over rows and its mean, ties and all."""
    u, v = (make(shapes, seed=s, values=values) for s in (seed, seed + 100))
    every = [matches(*pair) for pair in zip(rows_of(u), rows_of(v), strict=True)]
    found, best = measure([(u, v)], A, "agreement")
    assert best == 0
    assert found.value == pytest.approx(np.mean(every))
    assert (found.rows, found.skipped) == (len(every), 0)
    assert found.ties == sum(row.count(max(row)) > 1 for row in rows_of(u))


def test_a_signal_agrees_with_itself() -> None:
    """A(u, u) = 1 in every sentence, with a baseline below."""
    found = agree(make(SHAPES), make(SHAPES))
    assert found.value == 1.0
    assert found.ci == wilson(1.0, len(SHAPES))  # six sentences: resampling them would give [1, 1]
    assert found.baseline is not None
    assert found.baseline < 1
    np.testing.assert_array_equal(found.per_sentence, np.ones(len(SHAPES)))


@pytest.mark.parametrize("metric", [A, metrics.Kendall(), metrics.TopK(k=2), metrics.AlignmentErrorRate()])
def test_the_baseline_is_the_mean_over_shuffles(metric: Any) -> None:
    """Rows of v shuffled many times, then the same sums."""
    u = make(SHAPES)
    rng = np.random.default_rng(3)
    gold = isinstance(metric, metrics.AlignmentErrorRate)
    numbers = rng.choice([0, 0, 0.5, 1.0], u.values.shape) if gold else rng.random(u.values.shape)
    told = add_up(u, make_signal(numbers, u.lengths, u.rows), metric).baseline
    shuffled = []
    for _ in range(100):
        mixed = [rng.permutation(numbers[0, a:b]) for a, b in zip(u.starts, u.starts[1:], strict=False)]
        shuffled.append(add_up(u, make_signal(np.concatenate(mixed), u.lengths, u.rows), metric).value)
    assert told == pytest.approx(np.mean(shuffled), abs=4 * np.std(shuffled) / 10 + 1e-9)


def test_undefined_rows_are_skipped_and_counted() -> None:
    """Kendall has no value on a constant row or a row of one: the rest is averaged."""
    u, v = make(SHAPES), make(SHAPES, seed=1)
    values = v.values.copy()
    values[0, :5] = 7  # the first row
    v = make_signal(values, v.lengths, v.rows)
    found = measure([(u, v)], metrics.Kendall(), "kendall")[0]
    assert (found.rows, found.skipped) == (10, 2)
    defined = [metrics.Kendall()(np.array([a]), np.array([b]))[0] for a, b in zip(rows_of(u), rows_of(v), strict=True)]
    assert found.value == pytest.approx(np.nanmean(defined))
    assert np.isnan(found.per_sentence[1])


def test_rows_that_say_nothing_are_skipped() -> None:
    """A row of -inf, in u or in v, is not a match by its ties: it was not judged, or knows no word."""
    u, v = make([[3, 3], [3]]), make([[3, 3], [3]], seed=1)
    for silent in (u, v):
        values = silent.values.copy()
        values[0, 3:6] = -np.inf
        other = v if silent is u else u
        quiet = make_signal(values, u.lengths, u.rows)
        pair = (quiet, other) if silent is u else (other, quiet)
        found = add_up(*pair, A)
        assert (found.rows, found.skipped) == (2, 1)
        expected = [matches(rows_of(u)[i], rows_of(v)[i]) for i in (0, 2)]
        assert found.value == pytest.approx(np.mean(expected))


def test_rows_without_cells_are_skipped() -> None:
    """A row that may look at nothing counts as skipped, so that rows and skipped are all there are."""
    u, v = make([[3, 0], [2]]), make([[3, 0], [2]], seed=1)
    found = add_up(u, v, A)
    assert (found.rows, found.skipped) == (2, 1)


def test_nothing_defined_is_null() -> None:
    """Where no row has a value, value, baseline and interval are unknown, not NaN."""
    found = agree(make([[1], [1]]), make([[1], [1]]), "kendall")
    assert (found.value, found.baseline, found.ci, found.rows, found.skipped) == (None, None, None, 0, 2)
    assert agree(make([]), make([])).value is None
    found = agree(make([[3]]), make([[3]], seed=1))
    assert found.ci is None
    assert found.value in (0.0, 1.0)


def test_numerator_and_denominator_are_summed_first() -> None:
    """A metric of two columns is a ratio of sums over rows, not a mean of ratios."""

    def words(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.stack([(u > v).sum(1), np.full(len(u), u.shape[1])], 1)

    u, v = make(SHAPES), make(SHAPES, seed=1)
    found, _ = measure([(u, v)], words, "words")
    assert found.value == pytest.approx((u.values > v.values).mean())
    assert found.baseline == pytest.approx(0.5, abs=0.1)


def test_a_plain_function_is_a_metric() -> None:
    """One number a row is enough; its baseline is a seeded shuffle, the same each time; NaN rows are left out."""

    def same_peak(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        found = (u.argmax(1) == v.argmax(1)).astype(float)
        return np.where(u.shape[1] < 3, np.nan, found)

    u, v = make([[2], *[[10] * 20] * 20]), make([[2], *[[10] * 20] * 20], seed=1)
    one, two = (measure([(u, v)], same_peak, "peak")[0] for _ in range(2))
    assert one.skipped == 1
    assert one.baseline == two.baseline == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize("returned", [np.zeros(3), np.zeros((2, 3)), np.zeros((2, 2, 1)), 0.0])
def test_a_metric_of_another_shape_is_refused(returned: Any) -> None:
    """The sentence names the metric, what it returned and what it must return."""

    def odd(u: np.ndarray, v: np.ndarray) -> Any:
        return returned

    with pytest.raises(ContractError, match=r"metric odd returned shape .*: it must be \(2,\) or \(2, 2\)"):
        add_up(make([[4], [4]]), make([[4], [4]]), odd)


def test_several_sites_are_averaged_and_named() -> None:
    """A signal of several sites is read as its mean, and the result says so."""
    u, v = make(SHAPES, sites=2, name="m:alpha@5"), make(SHAPES, seed=1)
    found = agree(u, v)
    assert found.u == "m:alpha[mean]@5"
    assert found.value == agree(u.one_site("mean"), v).value


def test_other_cells_do_not_compare() -> None:
    """Signals over other rows are refused."""
    with pytest.raises(CorpusError, match="do not have the same rows"):
        agree(make([[2, 3]]), make([[3, 2]]))


def sums(top: Any, bottom: Any) -> Sums:
    return Sums(np.asarray(top, float), np.asarray(bottom, float), 0.0, 1.0, len(top), 0, 0)


def test_the_interval_is_what_resampling_gives() -> None:
    """The same seeded draws of sentences, taken one by one in Python."""
    rng = np.random.default_rng(1)
    bottom = rng.integers(1, 9, 40)
    top = rng.binomial(bottom, 0.6)
    values = []
    draws = np.random.default_rng(0)
    for _ in range(RESAMPLES):
        drawn = draws.integers(40, size=40)
        values.append(top[drawn].sum() / bottom[drawn].sum())
    assert interval([sums(top, bottom)]) == pytest.approx(np.percentile(values, (2.5, 97.5)))
    assert interval([sums(top, bottom)]) == interval([sums(top, bottom)])
    assert interval([sums(top, bottom)], seed=1) != interval([sums(top, bottom)])


def test_the_interval_covers_the_truth() -> None:
    """Of 100 samples of 60 sentences, about 95 % have the true rate inside, though sentences differ."""
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(100):
        bottom = rng.integers(3, 12, 60)
        top = rng.binomial(bottom, np.clip(rng.normal(0.6, 0.15, 60), 0, 1))
        found = interval([sums(top, bottom)])
        assert found is not None
        inside += found[0] <= 0.6 <= found[1]
    assert 88 <= inside <= 99


@pytest.mark.parametrize("lower", [False, True])
def test_with_several_pairs_the_best_is_taken_inside_each_resample(lower: bool) -> None:
    """The interval of a maximum (or, for error rates, a minimum) is of the maxima, so that choosing is covered."""
    rng = np.random.default_rng(2)
    bottoms = np.full((5, 30), 4)
    tops = rng.binomial(4, 0.5, (5, 30))
    weights = []
    draws = np.random.default_rng(0)
    for _ in range(RESAMPLES):
        drawn = draws.integers(30, size=30)
        each = tops[:, drawn].sum(1) / bottoms[:, drawn].sum(1)
        weights.append(each.min() if lower else each.max())
    found = interval([sums(*pair) for pair in zip(tops, bottoms, strict=True)], lower=lower)
    assert found == pytest.approx(np.percentile(weights, (2.5, 97.5)))


def test_the_interval_leaves_out_sentences_without_a_value() -> None:
    """Sentences where nothing is defined do not widen it; with fewer than two left there is none."""
    whole = interval([sums([1, 0, 2], [2, 1, 2])])
    assert interval([sums([0, 1, 0, 2, 0], [0, 2, 1, 2, 0])]) == whole
    assert interval([sums([1, 0], [2, 0])]) is None
    assert interval([sums([], [])]) is None
    # one of two pairs undefined on a whole resample: the other decides
    assert interval([sums([1, 0, 0], [1, 0, 0]), sums([0, 1, 1], [2, 2, 2])]) is not None


@pytest.mark.parametrize("count", [0, 1, 17, 49])
def test_wilson_is_the_published_interval(count: int) -> None:
    """As scipy computes it, for a share of 49."""
    expected = binomtest(count, 49).proportion_ci(0.95, "wilson")
    assert wilson(count / 49, 49) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize(
    ("bounds", "value"), [((0.0, 1.0), 0.0), ((0.0, 1.0), 1.0), ((-1.0, 1.0), 1.0), ((-1.0, 1.0), -1.0)]
)
def test_an_interval_survives_the_ends(bounds: tuple[float, float], value: float) -> None:
    """Where every resample gives 0 or 1 (or -1), the interval is Wilson's over sentences, not over rows."""
    low, high = interval([sums([value * 3] * 49, [3] * 49)], bounds=bounds)  # type: ignore[misc]
    wide = bounds[1] - bounds[0]
    bound = NORMAL**2 / (49 + NORMAL**2)  # Wilson's upper end of 0 of 49
    expected = (value, value + wide * bound) if value == bounds[0] else (value - wide * bound, value)
    assert (low, high) == pytest.approx(expected)
    assert low <= value <= high


def test_only_degenerate_intervals_change() -> None:
    """One sentence that differs is enough for the bootstrap; a metric without bounds keeps what resampling gives."""
    mixed = [sums([0] * 48 + [1], [1] * 49)]
    assert interval(mixed, bounds=(0, 1)) == interval(mixed)
    assert interval([sums([0] * 49, [1] * 49)]) == (0.0, 0.0)
    assert interval([sums([1, 1], [3, 3])], bounds=(0, 1)) == pytest.approx(wilson(1 / 3, 2))


def test_every_metric_of_ours_has_bounds() -> None:
    """So that none has an interval without width."""
    registry = build_registry()
    for name in registry.names("metrics"):
        u, v = make([[7] * 3] * 40), make([[7] * 3] * 40, seed=1)
        rule = make_metric(registry.load("metrics", name), name)
        low, high = rule.bounds
        value = add_up(u, v, rule).value
        assert value is not None
        assert low <= value <= high
        found = measure([(u, u)], rule, name)[0]
        assert found.ci is not None
        assert found.ci[0] < found.ci[1]


# cells that only one signal has


def windowed(signal: Signal, keep: np.ndarray) -> Signal:
    """The signal without some of its cells, as of a model that may not look there."""
    lengths = np.add.reduceat(keep.astype(int), signal.starts[:-1])
    return make_signal(signal.values[:, keep], lengths, signal.rows, signal.positions[keep], meta=signal.meta)


def of_corpus(signal: Signal, fingerprint: str | None) -> Signal:
    return replace(signal, meta={**signal.meta, "fingerprint": fingerprint})


def test_signals_of_one_corpus_are_compared_over_the_cells_both_have() -> None:
    """The value is that of a loop over common cells; rows without any are skipped; the share is told."""
    shapes = [[5, 5, 5], [6], [2, 3], [21, 30], [3, 3], [5, 5]] * 6
    u, v = (of_corpus(make(shapes, seed=seed), "aa") for seed in (0, 1))
    rng = np.random.default_rng(2)
    keep = rng.random(u.values.shape[1]) < 0.7
    keep[: u.lengths[0]] = False  # a row without cells
    part = windowed(v, keep)
    expected, rows = 0, 0
    for row in range(len(u.lengths)):
        cells = [c for c in range(u.starts[row], u.starts[row + 1]) if keep[c]]
        if cells:
            rows += 1
            expected += matches(u.values[0, cells].tolist(), v.values[0, cells].tolist())
    for pair in ((u, part), (windowed(u, keep), part)):
        found = agree(*pair)
        assert found.value == pytest.approx(expected / rows)
        assert (found.rows, found.skipped) == (rows, len(u.lengths) - rows)
    (warning,) = agree(u, part).warnings
    assert warning.kind == "cells"
    assert f"{100 * keep.mean():.1f} % of their cells" in str(warning)
    assert agree(windowed(u, keep), part).warnings == ()
    assert common_cells(u, v)[2] == 1.0


def test_peaks_and_pictures_take_signals_with_other_cells() -> None:
    """The share of peaks on gold counts common cells only; the viewer shows both signals side by side."""
    u = of_corpus(make([[4, 4], [4]], name="m:beta@1"), "aa")
    peaks = u.values.reshape(3, 4).argmax(1)
    gold = of_corpus(make_signal(np.eye(4)[peaks].ravel(), u.lengths, u.rows, meta={"name": "gold"}), "aa")
    keep = np.arange(12) % 4 != (peaks[0] + 1) % 4
    assert peak_is_gold(u, gold) == 1.0
    assert peak_is_gold(windowed(u, keep), gold) == 1.0
    assert viewer_html([u, windowed(u, keep)]).startswith("<iframe")


def test_other_cells_of_elsewhere_are_an_error() -> None:
    """A signal that does not tell its corpus, or tells of another, or has other rows, is compared cell by cell."""
    u = of_corpus(make(SHAPES), "aa")
    part = windowed(u, np.arange(u.values.shape[1]) % 5 != 1)
    with pytest.raises(CorpusError, match="do not have the same rows"):
        agree(u, of_corpus(part, None))
    with pytest.raises(CorpusError, match="over different corpora"):
        agree(u, of_corpus(part, "bb"))
    with pytest.raises(CorpusError, match="do not have the same sentences"):
        agree(u, of_corpus(make(SHAPES[:-1]), "aa"))


# warnings


def test_few_sentences_are_a_warning() -> None:
    """29 are few, 30 are not; sentences without a value do not count."""
    for count, few in ((29, True), (30, False)):
        shapes = [[5, 5]] * count
        found = agree(make(shapes), make(shapes, seed=1))
        assert [w.kind for w in found.warnings] == ["few"] * few
    shapes = [[1]] * 10 + [[5]] * 29  # kendall is undefined on rows of one
    assert "only 29 sentences" in str(agree(make(shapes), make(shapes, seed=1), "kendall").warnings[0])


def test_the_best_pair_is_reported() -> None:
    """The highest value, or the lowest for an error rate; the first of equals; undefined ones never win."""
    u = make(SHAPES)
    random, alike, silent = make(SHAPES, seed=1), make(SHAPES), make_signal(u.values * 0, u.lengths, u.rows)
    found, best = measure([(u, random), (u, alike), (u, alike)], A, "agreement")
    assert (best, found.value) == (1, 1.0)
    assert measure([(u, silent), (u, random)], metrics.Kendall(), "kendall")[1] == 1
    gold = make_signal((u.values == u.values.max()).astype(float), u.lengths, u.rows)
    found, best = measure([(random, gold), (u, gold)], metrics.AlignmentErrorRate(), "aer")
    assert best == 1
    assert found.value == min(add_up(x, gold, metrics.AlignmentErrorRate()).value for x in (random, u))


def test_xi_is_the_performance_when_another_seed_first_agrees_better() -> None:
    """Strictly better, at the earliest step, whatever order the curve came in; None if it never does."""
    curve = {30: (0.9, 0.8), 0: (0.1, 0.05), 10: (0.4, 0.2), 20: (0.35, 0.6)}
    assert xi(0.05, curve) == 0.05
    assert xi(0.1, curve) == 0.2
    assert xi(0.4, curve) == 0.8
    assert xi(0.9, curve) is None
    assert xi(0.5, {}) is None


def test_the_curve_of_xi_has_the_steps_that_all_runs_have() -> None:
    """Means at common steps; a step that a run lacks, or at which its value is undefined, is left out."""
    one = {0: (0.1, 0.2), 10: (0.4, 0.6), 20: (0.8, 0.9), 30: (0.9, 1.0)}
    two = {0: (0.3, 0.4), 20: (0.6, 0.7), 30: (None, 0.8), 40: (0.9, 0.9)}
    assert mean_curve([one, two]) == {0: (0.2, pytest.approx(0.3)), 20: (0.7, 0.8)}
    assert mean_curve([one]) == one
    assert mean_curve([]) == {}
    assert xi(0.35, mean_curve([one, two])) == 0.8  # over the runs that have each step it would be 0.6, at step 10


def test_a_metric_may_bring_options() -> None:
    """name:k=3 fills a dataclass; a plain class or function takes none; a wrong key is told."""
    registry = build_registry()
    assert make_metric(registry.load("metrics", "top-k"), "top-k:k=5") == metrics.TopK(k=5)
    assert make_metric(registry.load("metrics", "agreement"), "agreement:share=0.1") == metrics.Agreement(share=0.1)
    assert make_metric(len, "mine") is len

    class Plain:
        def __call__(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
            return np.zeros(len(u))

    assert isinstance(make_metric(Plain, "plain"), Plain)
    for target in (len, Plain):
        with pytest.raises(UsageError, match="takes no options"):
            make_metric(target, "mine:k=1")
    with pytest.raises(OptionError, match="did you mean 'k'"):
        make_metric(metrics.TopK, "top-k:kk=1")
    with pytest.raises(OptionError, match="KEY=VALUE"):
        make_metric(metrics.TopK, "top-k:3")


def test_options_of_a_metric_reach_it() -> None:
    """`agree` takes the metric as the command line does, and reports it as it was written."""
    u, v = make(SHAPES), make(SHAPES, seed=1)
    assert agree(u, v, "top-k:k=99").value == 1.0
    assert agree(u, v, "agreement:share=1").metric == "agreement:share=1"


KEYS = ["metric", "u", "v", "value", "baseline", "ci", "rows", "skipped", "performance", "xi", "xi_star", "u_step",
        "v_step", "chosen", "warnings"]  # fmt: skip


def test_json_has_the_contracts_keys() -> None:
    """These and no others, the interval as a pair, what is unknown as null."""
    found = agree(make(SHAPES), make(SHAPES, seed=1)).to_dict()
    assert list(found) == KEYS
    assert isinstance(found["ci"], list)
    assert found["performance"] is found["xi"] is found["xi_star"] is None
    assert isinstance(found["rows"], int)


def test_a_notebook_shows_a_table_and_a_frame_of_sentences() -> None:
    """Names are escaped, and each sentence has its number."""
    found = agree(make(SHAPES, name="<u>"), make(SHAPES, seed=1))
    assert "&lt;u&gt;" in found._repr_html_()
    assert "baseline" in found._repr_html_()
    assert "xi_star" not in found._repr_html_()  # which is unknown
    frame = found.to_frame()
    assert frame.columns.tolist() == ["sentence", "agreement"]
    assert len(frame) == len(SHAPES)
    weights = [len(sentence) for sentence in SHAPES]
    assert np.average(frame["agreement"], weights=weights) == pytest.approx(found.value)


@dataclass(frozen=True)
class Distance:
    """A plugin's metric with options and an exact expectation."""

    power: int = 1
    lower_is_better = True

    def __call__(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.abs(u.argmax(1) - v.argmax(1)) ** self.power

    def expected(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        places = np.arange(u.shape[1])
        return (np.abs(u.argmax(1)[:, None] - places) ** self.power).mean(1)


def test_a_metric_class_brings_its_own_baseline() -> None:
    """Its expectation is used as it stands, and lower may be better."""
    u, v = make([[7] * 30]), make([[7] * 30], seed=1)
    rule = make_metric(Distance, "distance:power=2")
    found, best = measure([(u, v), (u, u)], rule, "distance:power=2")
    assert (best, found.value) == (1, 0.0)
    assert isinstance(found, Agreement)
    peaks = u.values.reshape(30, 7).argmax(1)
    assert found.baseline == pytest.approx(np.mean([(p - q) ** 2 for p in peaks for q in range(7)]))


def test_a_maximum_over_different_chance_levels_is_warned_about() -> None:
    """Where one checkpoint sees fewer cells its chance is higher, and so may be its value."""
    rng = np.random.default_rng(0)
    u = make_signal(rng.normal(size=160), np.full(40, 4), np.full(40, 1), meta={"name": "u", "fingerprint": "f"})
    few = make_signal(
        *(rng.normal(size=80), np.full(40, 2), np.full(40, 1)),
        columns=np.tile([0, 1], 40),
        meta={"name": "few", "fingerprint": "f"},
    )
    many = make_signal(rng.normal(size=160), np.full(40, 4), np.full(40, 1), meta={"name": "v", "fingerprint": "f"})
    alike, _ = measure([(u, many), (u, many)], metrics.Agreement(), "agreement")
    other, _ = measure([(u, many), (u, few)], metrics.Agreement(), "agreement")
    assert not any("chance differs" in str(warning) for warning in alike.warnings)
    assert any("chance differs" in str(warning) and "0.25 to 0.50" in str(warning) for warning in other.warnings)

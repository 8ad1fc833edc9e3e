"""Sentences as probes see them: the stored signal's values, whether it is stored or not."""

from dataclasses import replace

import numpy as np
import pytest

from ktiwprobe import agree, build_registry, extract
from ktiwprobe.compare.finder import Finder
from ktiwprobe.errors import RunError, SpecError, UnknownNameError
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.signals.signal import make_signal
from ktiwprobe.views.sentences import new_steps, panels_of, run_to_show, see, weight_on_nothing

PROBES = ("alpha", "beta", "delta")


@pytest.fixture
def extractor(tiny_run, tiny_registry):
    return Extractor(tiny_run, tiny_registry, device="cpu")


def test_the_values_are_the_stored_signals(extractor, tiny_run, tiny_registry):
    """The same numbers before anything is stored (to rounding) and after (exactly), and looking stores nothing."""
    before = see(extractor, 4, at=20)
    assert not (tiny_run.path / "signals").exists()
    stored = {probe: extract(tiny_run, probe, at=20, registry=tiny_registry, device="cpu") for probe in PROBES}
    after = see(extractor, 4, at=20)
    assert [panel.probe for panel in after.panels] == list(PROBES)
    for early, late in zip(before.panels, after.panels, strict=True):
        assert np.array_equal(late.values, stored[late.probe][4], equal_nan=True)
        assert np.allclose(early.values, late.values, atol=1e-4, equal_nan=True)


def test_its_facts_are_those_of_the_split(extractor, tiny_run, tiny_registry):
    """Right outputs add up to the logged accuracy, matches to the agreement of the signals."""
    seen = [see(extractor, i, at=30) for i in range(20)]
    right, total = np.sum([s.right for s in seen], 0)
    assert right / total == pytest.approx(tiny_run.performance()[30])
    assert seen[0].accuracy == tiny_run.performance()[30]
    signals = {probe: extract(tiny_run, probe, at=30, registry=tiny_registry, device="cpu") for probe in PROBES}
    for number, (u, v) in enumerate([("alpha", "beta"), ("alpha", "delta"), ("delta", "beta")]):
        found = [s.matches[number] for s in seen]
        assert {(m.u, m.v) for m in found} == {(signals[u].quantity.symbol, signals[v].quantity.symbol)}
        whole = agree(signals[u], signals[v], registry=tiny_registry)
        assert sum(m.hits for m in found) / sum(m.rows for m in found) == pytest.approx(whole.value)


def test_tokens_and_links_are_the_corpus(extractor, tiny_corpus):
    """Source, target and known links of that sentence."""
    example, shown = tiny_corpus.example("validation", 7), see(extractor, 7)
    assert (shown.source, shown.target) == (example.source, example.target)
    assert np.array_equal(shown.links, example.links)
    assert {(m.u, m.v) for m in shown.matches} >= {("α", "gold"), ("β", "gold")}


def test_only_the_links_themselves_count_as_gold(extractor, tiny_corpus):
    """A peak that is on no known link is no match, however long the row is."""
    shown = see(extractor, 7, ("alpha",))
    linked = {(t, place) for t, place, _ in tiny_corpus.example("validation", 7).links[:-1]}  # the end is not judged
    hits = sum((t, int(row.argmax())) in linked for t, row in enumerate(shown.panels[0].values[:-1]))
    assert shown.matches == (("α", "gold", hits, len(linked)),)


def test_a_task_without_alignment(extractor):
    """There are no links and nothing is compared with them."""
    extractor.part = replace(extractor.part, links=None)
    shown = see(extractor, 0)
    assert shown.links is None
    assert all(m.v != "gold" for m in shown.matches)


def test_sites(run_tiny, tiny_registry):
    """Of several heads the mean is shown, or one, or each; beta has no sites."""
    extractor = Extractor(run_tiny(options={"heads": 2}), tiny_registry, device="cpu")
    each = see(extractor, 0, ("alpha", "beta"), site="all").panels
    assert [(p.probe, p.site) for p in each] == [("alpha", "h0"), ("alpha", "h1"), ("beta", "")]
    (mean,) = see(extractor, 0, ("alpha",)).panels
    assert np.allclose(mean.values, (each[0].values + each[1].values) / 2)
    assert mean.title == "α [mean]"
    (one,) = see(extractor, 0, ("alpha",), site="h1").panels
    assert np.array_equal(one.values, each[1].values)
    with pytest.raises(UnknownNameError, match=r"unknown site 'h7'.*h0, h1"):
        see(extractor, 0, ("alpha",), site="h7")


def test_a_model_with_one_attention_has_no_sites(run_tiny, tiny_registry):
    """Its only site has a number, and `mean` and `all` mean it; a name is refused instead of ignored."""
    extractor = Extractor(run_tiny(), tiny_registry, device="cpu")
    assert see(extractor, 0, site="all").sites == see(extractor, 0, site="0").sites == ()
    with pytest.raises(UnknownNameError, match="unknown site 'h3'"):
        see(extractor, 0, site="h3")


def test_a_model_without_attention_has_alpha_and_beta(run_tiny, tiny_registry):
    """Delta is not asked for."""
    shown = see(Extractor(run_tiny("tiny-count"), tiny_registry, device="cpu"), 0)
    assert [panel.probe for panel in shown.panels] == ["alpha", "beta"]


def test_what_is_not_there(extractor):
    """A missing step lists those there are, a missing sentence the range."""
    with pytest.raises(SpecError, match="no step '7': it has best, last, 0, 10, 20, 30"):
        see(extractor, 0, at="7")
    with pytest.raises(UnknownNameError, match=r"unknown sentence of the validation split '20'.* 0 to 19"):
        see(extractor, 20)


def test_which_run_is_shown(run_tiny, tiny_registry, tmp_path):
    """A of the latest group, a run by its name; without runs a sentence."""
    first, second = run_tiny(seed=0), run_tiny(seed=1)
    uniform = run_tiny(seed=0, attention="uniform")
    finder = Finder(tmp_path / "runs", tiny_registry)
    assert run_to_show(finder, None).path == first.path
    assert run_to_show(finder, second.name).path == second.path
    for run in (first, second):
        run.remove()
    assert run_to_show(Finder(tmp_path / "runs", tiny_registry), None).path == uniform.path
    with pytest.raises(RunError, match="there are no runs"):
        run_to_show(Finder(tmp_path / "nothing", tiny_registry), None)


def test_new_steps_follow_a_run_until_it_ends(tiny_run):
    """Each newest step once, in order; the end is when nobody holds the run, and what was saved last is not missed."""
    names = {step: tiny_run.checkpoint(step) for step in tiny_run.steps()}
    for step in (10, 20, 30):
        names[step].rename(names[step].with_suffix(".later"))
    seen = []
    with tiny_run.lock():
        following = new_steps(tiny_run, pause=0.01)
        for step in (0, 20):
            names[step].with_suffix(".later").rename(names[step]) if step else None
            seen.append(next(following))
        names[30].with_suffix(".later").rename(names[30])
    assert [*seen, *following] == [0, 20, 30]


def sinking(probe="alpha", **meta):
    """A causal α of two sites over one sentence of two rows, which leave .3 and .1, .2 and 0 on nothing."""
    values = np.array([[0.7, 0.3, 0.6], [0.8, 0.9, 0.1]])
    signal = make_signal(values, np.array([1, 2]), np.array([2]), np.array([0, 0, 1]), ("a", "b"), meta)
    return replace(signal, quantity=build_registry().quantity(probe))


def test_a_sink_is_what_a_row_leaves():
    """1 - the sum of each row, for each site and for their mean; the highest over sites has no sum to speak of."""
    assert weight_on_nothing(sinking()) == pytest.approx(np.array([[0.3, 0.1], [0.2, 0.0]]), abs=1e-6)
    sinks = {
        site: [panel.sink for panel in panels_of("alpha", sinking(), site)] for site in ("mean", "max", "b", "all")
    }
    assert sinks["mean"][0] == pytest.approx([0.25, 0.05], abs=1e-6)
    assert sinks["b"][0] == pytest.approx([0.2, 0.0], abs=1e-6)
    assert np.array_equal(sinks["all"], weight_on_nothing(sinking()))
    assert sinks["max"] == [None]


@pytest.mark.parametrize(("probe", "meta"), [("beta", {}), ("delta", {}), ("gold", {}), ("alpha", {"level": "word"})])
def test_only_weights_over_tokens_have_a_sink(probe, meta):
    """Other values need not sum to 1, and over words the weight of special tokens is left out."""
    assert weight_on_nothing(sinking(probe, **meta)) is None


def test_the_highest_over_sites_has_no_sink():
    """A signal that was pooled by max before has sums that mean nothing."""
    assert weight_on_nothing(sinking().one_site("max")) is None


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_rounding_is_no_sink(dtype):
    """Rows that sum to 1 but for the rounding of their format leave nothing, however many and short they are."""
    import torch

    for L in range(1, 40):
        rows = torch.cat([torch.full((1, L), 1 / L), torch.rand(9, L, generator=torch.manual_seed(L)).softmax(-1)])
        values = rows.to(getattr(torch, dtype)).float().numpy()
        signal = make_signal(values.ravel(), np.full(10, L), np.array([10]))
        assert not weight_on_nothing(replace(signal, quantity=build_registry().quantity("alpha"))).any()


def test_a_model_without_a_sink_shows_none(extractor):
    """α of an ordinary model sums to 1."""
    assert [panel.sink for panel in see(extractor, 4).panels] == [None] * 3

"""Figures of runs: each kind draws what the signals hold."""

from pathlib import Path

import numpy as np
import pytest

from ktiwprobe import agree, extract, train
from ktiwprobe.compare.finder import Finder
from ktiwprobe.errors import SpecError, UnknownNameError, UsageError
from ktiwprobe.views.figures import KINDS, Request, check_output, draw

STEPS = [0, 10, 20, 30]


@pytest.fixture(scope="module")
def finder(tiny_registry, tmp_path_factory):
    runs = tmp_path_factory.mktemp("figures")
    for how in ({"seed": 0}, {"seed": 1}, {"attention": "uniform"}):
        train("tiny-model", runs=runs, registry=tiny_registry, device="cpu", **how)
    return Finder(runs, tiny_registry, device="cpu")


def test_curves_are_agreements_over_steps(finder):
    """Every point is what `agree` gives, and ξ is agree's."""
    figure = draw("curves", Request(finder))
    lines = figure.axes[0].get_lines()
    first, second, uniform = *finder.learned(), next(r for r in finder.group() if r.attention == "uniform")
    alpha = extract(first, "alpha", registry=finder.registry, device="cpu")
    for line, (run, probe) in zip(
        lines, [(first, "beta"), (second, "beta"), (uniform, "beta"), (second, "alpha")], strict=False
    ):
        assert list(line.get_xdata()) == STEPS
        for step, value in zip(STEPS, line.get_ydata(), strict=True):
            other = extract(run, probe, at=step, registry=finder.registry, device="cpu")
            assert value == agree(alpha, other, registry=finder.registry).value
    found = agree("alpha", "beta", runs=finder.folder, registry=finder.registry, device="cpu")
    if found.passed:
        said = {text.get_text() for axis in figure.axes for text in axis.texts}
        assert f"ξ = {found.xi:.2f}" in said


def test_the_matrix_holds_every_pair(finder):
    """Rows are u, columns v, the diagonal is 1."""
    figure = draw("agreement-matrix", Request(finder))
    values = np.asarray(figure.axes[0].images[0].get_array())
    names = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert names == [
        Request(finder).symbol(text)
        for text in ["alpha", "beta", "delta", "alpha-hat", "beta-hat", "delta-hat", "beta-uf", "delta-uf", "gold"]
    ]
    assert np.allclose(np.diag(values), 1)
    first = finder.learned()[0]
    delta, alpha = (extract(first, probe, registry=finder.registry, device="cpu") for probe in ("delta", "alpha"))
    assert values[2, 0] == pytest.approx(agree(delta, alpha, registry=finder.registry).value)


def test_the_matrix_takes_other_signals_and_metrics(finder):
    """As they are named."""
    figure = draw("agreement-matrix", Request(finder, v=("alpha@10", "gold"), metric="kendall"))
    assert np.asarray(figure.axes[0].images[0].get_array()).shape == (2, 2)
    assert figure.axes[0].get_title() == "kendall"


def test_the_heatmap_is_the_sentence(finder):
    """Its values are the signal's, its ticks the tokens."""
    figure = draw("heatmap", Request(finder, sentence=5, probes=("beta",), at="20"))
    run = finder.learned()[0]
    signal = extract(run, "beta", at=20, registry=finder.registry, device="cpu")
    assert np.allclose(figure.axes[0].images[0].get_array(), signal[5], atol=1e-4)
    assert tuple(tick.get_text() for tick in figure.axes[0].get_xticklabels()) == finder.extractor(run).tokens(5)[0]


@pytest.mark.parametrize("against", ["alpha", "delta", "count"])
def test_keywords_are_means_of_highest_values(finder, against):
    """Of one word, worked out sentence by sentence."""
    figure = draw("keyword-scatter", Request(finder, against=against))
    points = np.concatenate([np.asarray(c.get_offsets()) for c in figure.axes[0].collections])
    extractor = finder.extractor(finder.learned()[0])
    word = np.bincount(extractor.part.x.values)[4:].argmax() + 4
    signals = [extractor.signal(p) for p in ("beta", "alpha" if against == "count" else against)]
    places = [(m, place) for m in range(len(extractor.part)) for place in np.flatnonzero(extractor.part.x[m] == word)]
    x, y = (np.mean([s[m][:, place].max() for m, place in places]) for s in signals)
    y = len(places) if against == "count" else y
    assert np.isclose(points, [x, y], atol=1e-4).all(1).any()


def test_one_run_is_enough(run_tiny, tiny_registry, tmp_path):
    """Without another seed there are fewer lines and no ξ, and every kind draws."""
    run_tiny()
    finder = Finder(tmp_path / "runs", tiny_registry, device="cpu")
    for kind in KINDS:
        assert draw(kind, Request(finder)).axes
    texts = [t.get_text() for axis in draw("curves", Request(finder)).axes for t in axis.texts]
    assert not any("ξ" in text for text in texts)


def test_the_group_of_a_run(finder, run_tiny, tmp_path):
    """`turn_to` takes the runs that belong to the one that is named."""
    wide = run_tiny(options={"width": 9})
    other = Finder(tmp_path / "runs", finder.registry, device="cpu")
    other.turn_to(finder.learned()[1])
    assert [run.path for run in other.learned()] == [run.path for run in finder.learned()]
    assert wide.path not in {run.path for run in other.group()}


@pytest.mark.parametrize(
    ("request_", "error", "words"),
    [
        ({"kind": "curvs"}, UnknownNameError, "unknown figure 'curvs'; did you mean 'curves'"),
        ({"kind": "curves", "v": ("gold",)}, SpecError, "'gold' is no curve over training"),
        ({"kind": "curves", "v": ("beta-px",)}, SpecError, "train it with `ktiwprobe train bow-proxy"),
        ({"kind": "keyword-scatter", "against": "gamma"}, UnknownNameError, "known: alpha, count, delta"),
        ({"kind": "heatmap", "at": "7"}, SpecError, "it has best, last, 0, 10, 20, 30"),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(finder, request_, error, words):
    """It says what there is instead."""
    kind = request_.pop("kind")
    with pytest.raises(error) as caught:
        draw(kind, Request(finder, **request_))
    assert words in str(caught.value)


def test_a_head_is_chosen_where_there_are_several(tiny_registry, tmp_path):
    """Attention has heads, what a word alone says has none: the figure takes the head for the one, and draws both."""
    train("tiny-model", runs=tmp_path, registry=tiny_registry, device="cpu", options={"heads": 2})
    heads = [
        draw("keyword-scatter", Request(Finder(tmp_path, tiny_registry, device="cpu"), site=site))
        for site in ("h0", "h1")
    ]
    (first, _), (second, _) = (figure.axes[0].collections for figure in heads)
    assert np.array_equal(first.get_offsets()[:, 0], second.get_offsets()[:, 0])
    assert not np.array_equal(first.get_offsets()[:, 1], second.get_offsets()[:, 1])


def test_outputs_are_looked_at_first(tmp_path):
    """An ending nobody knows, a file that exists without force, a folder."""
    assert check_output(tmp_path / "new/a.svg") == tmp_path / "new/a.svg"
    (tmp_path / "a.png").touch()
    assert check_output(tmp_path / "a.png", force=True)
    (tmp_path / "folder.pdf").mkdir()
    for name, force, words in (
        ("a.png", False, "write over it, or choose another file"),
        ("a.gif", True, "does not end in"),
        ("folder.pdf", True, "is a folder"),
    ):
        with pytest.raises(UsageError, match=words):
            check_output(tmp_path / name, force=force)
    assert check_output(Path("x.pdf"))


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("alpha", r"$\alpha$"),
        ("alpha-hat", r"$\hat{\alpha}$"),
        ("task/run:beta-uf@10", r"$\beta^{\mathrm{uf}}$"),
        ("gold", "gold"),
        ("alpha-opt", r"$\alpha_{\mathrm{opt}}$"),
        ("my$probe", r"my\$probe"),
    ],
)
def test_symbols(finder, text, formula):
    """The paper's, where it has one."""
    assert Request(finder).symbol(text) == formula

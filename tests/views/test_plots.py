"""Figures show what they are given."""

from pathlib import Path

import numpy as np
import pytest

from ktiwprobe import plots
from ktiwprobe.errors import UsageError
from ktiwprobe.views import style
from ktiwprobe.views.plots import frame


def test_heatmaps_show_every_value_token_and_link() -> None:
    """A panel for each probe with its values and its scale, a tick for each token, a box for each link."""
    alpha, beta = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[-3.0, 4.0], [2.0, -np.inf]])
    links = np.array([[0, 0, 1], [1, 1, 1]])
    figure = plots.heatmaps({"alpha": alpha, "beta[h1]": beta}, ["a", "$b"], ["A", "B"], links=links)
    panels = [axis for axis in figure.axes if axis.get_title()]
    assert [axis.get_title() for axis in panels] == ["α", "β [h1]"]
    for axis in panels:
        assert [tick.get_text() for tick in axis.get_xticklabels()] == ["a", "$b"]
        assert len(axis.get_lines()) == 3  # the highest of each row, and two boxes
    assert np.allclose(panels[0].images[0].get_array(), alpha)
    assert np.allclose(panels[1].images[0].get_array(), [[-3, 4], [2, style.LOG_ODDS[0]]])
    assert [panels[1].images[0].norm(v) for v in (*style.LOG_ODDS, 0)] == [0, 1, 0.5]


def test_the_dot_is_on_the_highest_value_of_each_row_that_has_one() -> None:
    """The first of equals; a row that says nothing has none."""
    matrix = np.array([[0.0, 3.0, 3.0], [-np.inf, -np.inf, -np.inf], [5.0, np.nan, 1.0]])
    (dots, *_) = plots.heatmaps({"beta": matrix}, "abc", "ABC").axes[0].get_lines()
    assert list(zip(*dots.get_data(), strict=True)) == [(1, 0), (0, 2)]


@pytest.mark.parametrize(("length", "abreast"), [(6, True), (60, False)])
def test_panels_of_long_sentences_stand_below_each_other(length: int, abreast: bool) -> None:
    """Tokens never shrink below what can be read."""
    words = [f"w{i}" for i in range(length)]
    figure = plots.heatmaps(dict.fromkeys(("alpha", "beta", "delta"), np.zeros((3, length))), words, "ABC")
    assert (figure.get_figwidth() > figure.get_figheight()) or not abreast
    first, second = figure.axes[0].get_subplotspec(), figure.axes[1].get_subplotspec()
    assert (first.rowspan == second.rowspan) == abreast
    assert min(label.get_fontsize() for label in figure.axes[0].get_xticklabels()) >= 6


def test_curves_draw_all_points() -> None:
    """A line for each curve with its steps in order, the baseline, and performance on its own axis."""
    figure = plots.curves({"A": {100: 0.5, 0: 0.1}}, baseline=0.1, right={"accuracy": {0: 0.0, 100: 0.9}})
    left, right = figure.axes
    assert list(left.get_lines()[0].get_xdata()) == [0, 100]
    assert list(right.get_lines()[0].get_ydata()) == [0.0, 0.9]


def test_a_figure_is_saved_by_its_ending(tmp_path: Path) -> None:
    """PNG, SVG and PDF are written; an ending nobody knows is one sentence."""
    figure = plots.curves({"A": {0: 0.1, 10: 0.5}})
    for ending in ("png", "svg", "pdf"):
        assert plots.save(figure, tmp_path / f"new/figure.{ending}").stat().st_size > 1000
    with pytest.raises(UsageError, match="cannot write"):
        plots.save(figure, tmp_path / "figure.nonsense")


def test_figures_can_go_into_a_paper(tmp_path: Path) -> None:
    """A PDF has its fonts embedded as TrueType, and the same figure is the same file."""
    for ending in ("pdf", "svg", "png"):
        files = [tmp_path / f"{n}.{ending}" for n in (1, 2)]
        for file in files:
            plots.save(plots.curves({"A": {0: 0.1, 10: 0.5}}), file)
        assert files[0].read_bytes() == files[1].read_bytes()
    pdf = (tmp_path / "1.pdf").read_bytes()
    assert b"/FontFile2" in pdf
    assert b"/Subtype /Type3" not in pdf


def test_characters_without_a_font_are_told(tmp_path: Path) -> None:
    """One sentence instead of a warning for each; nothing is said where nothing is missing."""
    said: list[str] = []
    plots.save(
        plots.heatmaps({"alpha": np.ones((1, 1))}, ["\U00012000\U00012001"], ["ab"]),
        tmp_path / "a.png",
        say=said.append,
    )
    (sentence,) = said
    assert "CUNEIFORM" in sentence
    assert "2 characters" in sentence
    plots.save(plots.heatmaps({"alpha": np.ones((1, 1))}, ["é"], ["ß"]), tmp_path / "b.png", say=said.append)
    assert len(said) == 1


def test_over_steps_draws_the_construction_of_xi() -> None:
    """Curves in their quantity's colour with bands, chance, performance; lines through (step, value) and (step, ξ)."""
    courses = {
        "A(α, β)": plots.Course("beta", {0: 0.1, 10: 0.6}, {0: (0.05, 0.15), 10: (0.5, 0.7)}),
        "A(α, α̂)": plots.Course("alpha-hat", {0: 0.1, 10: 0.9}, {}),
    }
    crossing = plots.Crossing("A(α, β)", 0.6, 0.9, 10, 0.75)
    figure = plots.over_steps(courses, {"seed 1": {0: 0.0, 10: 0.75}}, chance=(0.1, 0.12), crossing=crossing)
    upper, lower = figure.axes
    assert [line.get_color() for line in upper.get_lines()[:2]] == [style.LINES[p].light for p in ("beta", "alpha")]
    across, down = upper.get_lines()[2:4]
    assert list(across.get_ydata()) == [0.6, 0.6]
    assert list(down.get_xdata()) == [10, 10]
    assert [0.75, 0.75] in [list(line.get_ydata()) for line in lower.get_lines()]
    said = {text.get_text() for text in (*upper.texts, *lower.texts)}
    assert said == {"A(α, β)", "A(α, α̂)", "chance", "seed 1", "A(α, β) = 0.60", "ξ = 0.75"}


def test_a_table_has_its_values_in_its_cells() -> None:
    """Rounded, legible on their ground, empty where unknown; negative values take the signed scale."""
    figure = plots.table(plots.Panel(np.array([[1.0, 0.25], [np.nan, 0.004]]), "uv", "wx"), ylabel="u", xlabel="v")
    assert [(text.get_position(), text.get_text()) for text in figure.axes[0].texts] == [
        ((0, 0), "1"),
        ((1, 0), ".25"),
        ((1, 1), ".00"),
    ]
    signed = plots.table(plots.Panel(np.array([[-0.5]]), "u", "v"), ylabel="u", xlabel="v")
    assert signed.axes[0].images[0].get_clim() == (-1, 1)
    assert signed.axes[0].texts[0].get_text() == "-.50"


def test_a_scatter_names_its_extremes() -> None:
    """The point far out is named, labels do not meet, and there are no more of them than asked for."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 200))
    x[0], y[0] = 9, 9
    names = [f"word{i}" for i in range(200)]
    cloud = plots.Cloud(names, x, y, np.ones(200, int), np.zeros(200, bool))
    figure = plots.scatter(cloud, xlabel="β", ylabel="α", labels=8)
    texts = figure.axes[0].texts
    assert "word0" in {text.get_text() for text in texts}
    assert 1 < len(texts) <= 8
    boxes = [text.get_window_extent() for text in texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


@pytest.mark.parametrize(
    ("heights", "expected"),
    [
        ([], []),
        ([0.3, 0.6], [0.3, 0.6]),
        ([0.5, 0.5], [0.45, 0.55]),
        ([0.3, 0.98, 0.98], [0.3, 0.88, 0.98]),
        ([-2.0, 0.02], [0.02, 0.12]),
    ],
)
def test_labels_move_no_more_than_they_must(heights: list[float], expected: list[float]) -> None:
    """Those that would meet part from their middle, inside the frame; the others stay beside their lines."""
    assert frame.spaced(heights, 0.1) == pytest.approx(expected)

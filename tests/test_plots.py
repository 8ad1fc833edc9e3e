"""Figures show what they are given."""

from pathlib import Path

import numpy as np
import pytest

from ktiwprobe import plots
from ktiwprobe.errors import UsageError


def test_heatmaps_show_every_token_and_link() -> None:
    """A panel for each signal, a tick for each token, a box for each link."""
    alpha, beta = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[-3.0, 4.0], [2.0, -np.inf]])
    figure = plots.heatmaps({"α": alpha, "β": beta}, ["a", "b"], ["A", "B"], links=np.array([[0, 0, 1], [1, 1, 1]]))
    assert [axis.get_title() for axis in figure.axes] == ["α", "β"]
    for axis in figure.axes:
        assert [tick.get_text() for tick in axis.get_xticklabels()] == ["a", "b"]
        assert len(axis.get_lines()) == 2
    assert np.allclose(figure.axes[0].images[0].get_array(), alpha)


def test_log_odds_are_shaded_by_their_row() -> None:
    """A row's highest value is darkest and its lowest lightest, however far apart rows lie."""
    shades = plots.heatmaps({"β": np.array([[-3.0, 0.0, 3.0], [100.0, 101.0, 102.0]])}, "abc", "AB").axes[0].images[0]
    assert np.allclose(shades.get_array(), [[0, 0.5, 1], [0, 0.5, 1]])


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

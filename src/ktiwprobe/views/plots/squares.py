"""Tables of numbers as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ktiwprobe.views import style
from ktiwprobe.views.plots.frame import FAINT, PAPER, colour_map, paper, token


class Panel(NamedTuple):
    """A table of numbers to be drawn, and what its rows and columns are called where they have names."""

    values: NDArray[Any]
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()


@rc_context(PAPER)
def matrices(panels: Mapping[str, Panel], *, ylabel: str, xlabel: str) -> Figure:
    """Tables of numbers as pictures, each on a scale of its own that begins at 0."""
    widths = [max(2.6, 1.2 + 0.125 * len(panel.columns)) for panel in panels.values()]
    figure = paper((sum(widths), max(2.9, *(0.9 + 0.125 * len(panel.rows) for panel in panels.values()))))
    axes = figure.subplots(1, len(panels), squeeze=False, width_ratios=widths)[0]
    for axis, (title, panel) in zip(axes, panels.items(), strict=True):
        image = axis.imshow(
            panel.values, cmap=colour_map(style.WEIGHTS.light), vmin=0, aspect="auto", interpolation="nearest"
        )
        axis.set(title=title, xlabel=xlabel)
        if panel.rows:
            axis.set_yticks(range(len(panel.rows)), panel.rows)
        if panel.columns:
            turned = {"rotation": 90} if len(panel.columns) > 4 else {}
            axis.set_xticks(range(len(panel.columns)), panel.columns, **turned)
        for label in (*axis.get_xticklabels(), *axis.get_yticklabels()):
            label.set(family=token("")["family"], parse_math=False)
        axis.tick_params(length=0)
        figure.colorbar(image, ax=axis, shrink=0.6)
    axes[0].set_ylabel(ylabel)
    return figure


@rc_context(PAPER)
def table(panel: Panel, *, ylabel: str, xlabel: str, title: str = "", note: str = "") -> Figure:
    """A table with its values in the cells, from 0 to 1, or from -1 to 1 where some are negative; NaN stays empty."""
    signed = bool(np.nanmin(panel.values) < 0)
    scale = style.SIGNED.light if signed else style.WEIGHTS.light
    longest = max(len(name.replace("$", "")) for name in panel.rows)
    width = 0.5 + 0.04 * longest + 0.36 * len(panel.columns)
    figure = paper((max(width, 1.8), 0.6 + 0.24 * len(panel.rows)))
    axis = figure.subplots()
    axis.imshow(panel.values, cmap=colour_map(scale), vmin=-1 if signed else 0, vmax=1, aspect="auto")
    axis.set_xticks(range(len(panel.columns)), panel.columns)
    axis.set_yticks(range(len(panel.rows)), panel.rows)
    axis.xaxis.tick_top()
    axis.xaxis.set_label_position("top")
    axis.set(xlabel=xlabel, title=title)
    axis.set_ylabel(ylabel, rotation=0, ha="right", va="center")
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    for (i, j), value in np.ndenumerate(panel.values):
        if not np.isnan(value):
            axis.text(j, i, _short(value), ha="center", va="center", fontsize=7, color=_ink(value, scale, signed))
    if note:
        figure.supxlabel(note, fontsize=6, color=FAINT, x=0.01, ha="left")
    return figure


def _short(value: float) -> str:
    return f"{value:.2f}".replace("0.", ".") if abs(value) < 0.995 else f"{value:.0f}"


def _ink(value: float, scale: Sequence[str], signed: bool) -> tuple[float, float, float]:
    ground = style.colour_at(scale, style.share(float(value), -1.0 if signed else 0.0, 1.0))
    red, green, blue = (part / 255 for part in style.ink_on(ground))
    return red, green, blue

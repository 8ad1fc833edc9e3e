"""One sentence as a picture: a heatmap for each probe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from ktiwprobe.plugins.quantities import Quantity
from ktiwprobe.plugins.registry import Registry, build_registry
from ktiwprobe.views import style
from ktiwprobe.views.plots.frame import FAINT, PAGE, PAPER, colours, paper, token

CELLS = (0.14, 0.18)  # inches: room for type of 6 points, and for 8
TICKS = {"log-odds": (-24, -12, 0, 3, 6), "weight": (0, 0.5, 1), "signed": (-1, 0, 1)}
NAMES = {"log-odds": "log-odds", "weight": "weight", "signed": "share of the row's largest"}


@rc_context(PAPER)
def heatmaps(
    panels: Mapping[str, NDArray[Any]],
    source: Sequence[str],
    target: Sequence[str],
    *,
    links: NDArray[np.int64] | None = None,
    title: str = "",
    registry: Registry | None = None,
) -> Figure:
    """One sentence, a panel (T, L) for each probe, `alpha` or `alpha[site]`: outputs down, inputs across.

    A dot is on the peak of each row, its highest signed value, as a line below says; known links are outlined. Panels
    stand side by side if a page is wide enough for them, else below each other. `registry` knows the probes.
    """
    registry = registry or build_registry()
    quantities = {name: registry.quantity(name.partition("[")[0]) for name in panels}
    label, head = (0.2 + 0.065 * max(map(len, tokens)) for tokens in (target, source))
    room = ((PAGE - label) / len(panels) - 0.15) / len(source)
    abreast = room >= CELLS[0]
    cell = min(room, CELLS[1]) if abreast else CELLS[1]
    width, height = max(0.9, cell * len(source)), cell * len(target) + head
    across, down = (len(panels), 1) if abreast else (1, len(panels))
    figure = paper((label + across * (width + 0.15), 0.35 * bool(title) + down * (height + 0.65)))
    axes = figure.subplots(down, across, squeeze=False, sharey=True, sharex=True).flat
    for number, (axis, (name, matrix)) in enumerate(zip(axes, panels.items(), strict=True)):
        _panel(figure, axis, quantities[name], name, matrix)
        _tokens(axis, source, target if not abreast or number == 0 else (), min(8.0, 43 * cell))
        _mark(axis, matrix, () if links is None else links)
    if title:
        figure.suptitle(title, fontsize=8)
    note = f"dot: peak of the row, its {style.peak_meaning(*quantities.values())}" + (
        "; box: known link" if links is not None else ""
    )
    figure.supxlabel(fill(note, max(30, int(20 * figure.get_figwidth()))), fontsize=6, color=FAINT, x=0.01, ha="left")
    return figure


def _panel(figure: Figure, axis: Any, quantity: Quantity, name: str, matrix: NDArray[Any]) -> None:
    _, _, site = name.partition("[")
    unit = quantity.scale
    values = style.shown(quantity, np.asarray(matrix, np.float32))
    finite = np.where(np.isneginf(values), style.limits(quantity)[0], values)
    image = axis.imshow(finite, aspect="auto", interpolation="nearest", **colours(quantity))
    axis.set_title(quantity.symbol + (f" [{site}" if site else ""))
    bar = figure.colorbar(image, ax=axis, location="bottom", aspect=30, pad=0.01, ticks=TICKS[unit], shrink=0.9)
    bar.set_label(NAMES[unit], fontsize=6, labelpad=1)
    bar.ax.tick_params(labelsize=6, length=1.5, pad=1)
    bar.ax.set_xticklabels([f"{tick:+g}" if tick and unit != "weight" else f"{tick:g}" for tick in TICKS[unit]])
    bar.outline.set_linewidth(0.4)


def _tokens(axis: Any, source: Sequence[str], target: Sequence[str], size: float) -> None:
    """Every input above its column and every output beside its row."""
    axis.xaxis.tick_top()
    axis.tick_params(length=0, labeltop=True, labelbottom=False, labelleft=bool(target))
    axis.set_xticks(range(len(source)), source, rotation=60, ha="left", rotation_mode="anchor")
    if target:
        axis.set_yticks(range(len(target)), target)
    for label in (*axis.get_xticklabels(), *axis.get_yticklabels()):
        shown = token(label.get_text())
        label.set(family=shown["family"], parse_math=False, fontsize=size)


def _mark(axis: Any, matrix: NDArray[Any], links: Any) -> None:
    """A dot on each row's highest value, whatever its sign, the first of equals; a box around each known link."""
    speaks = np.flatnonzero((np.where(np.isnan(matrix), -np.inf, matrix) > -np.inf).any(1))
    peaks = [int(np.nanargmax(matrix[t])) for t in speaks]
    halo = [withStroke(linewidth=1.2, foreground=style.HALO.light)]
    axis.plot(peaks, speaks, linestyle="", marker="o", markersize=2, color=style.LINK.light, path_effects=halo)
    for t, l, _ in links:  # noqa: E741
        axis.plot(*_box(t, l), color=style.LINK.light, linewidth=0.9, path_effects=[_ring()])


def _ring() -> Any:
    return withStroke(linewidth=2.1, foreground=style.HALO.light)


def _box(t: int, l: int) -> tuple[list[float], list[float]]:  # noqa: E741
    left, right, top, bottom = l - 0.44, l + 0.44, t - 0.44, t + 0.44
    return [left, right, right, left, left], [top, top, bottom, bottom, top]

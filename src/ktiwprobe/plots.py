"""Numbers to figures; the only module that imports matplotlib, and without pyplot, so there is no global state.

Colours are safe for the colour-blind (Okabe and Ito); every figure function returns a Figure, `save` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ktiwprobe.errors import UsageError

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
Points = Mapping[int, float]


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure; the format follows the file's ending (png, svg, pdf)."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150, bbox_inches="tight")
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot write {path}: {error}") from error
    return path


def heatmaps(
    panels: Mapping[str, NDArray[Any]],
    source: Sequence[str],
    target: Sequence[str],
    *,
    links: NDArray[np.int64] | None = None,
) -> Figure:
    """One sentence, a panel for each signal (T, L): outputs down, inputs across, known links outlined.

    Each row is coloured by rank within itself where its values are log-odds, and by value where they are weights.
    """
    width, height = 0.9 + 0.38 * len(source), 1.6 + 0.32 * len(target)
    figure = Figure(figsize=(width * len(panels) + 0.6, height), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axis, (title, matrix) in zip(axes, panels.items(), strict=True):
        axis.imshow(_shade(matrix), cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axis.set_title(title)
        axis.set_xticks(range(len(source)), source, rotation=60, ha="right", rotation_mode="anchor")
        axis.set_yticks(range(len(target)), target)
        axis.tick_params(length=0)
        for t, l, _ in () if links is None else links:  # noqa: E741
            axis.plot(*_box(t, l), color=COLOURS[1], linewidth=1.4)
    return figure


def _shade(matrix: NDArray[Any]) -> NDArray[Any]:
    """Weights as they are; other values as a share of their row's range, so that every row shows its own order."""
    if np.nanmin(matrix) >= 0 and np.nanmax(matrix) <= 1.0001:
        return matrix
    finite = np.where(np.isfinite(matrix), matrix, np.nan)
    low, high = np.nanmin(finite, 1, keepdims=True), np.nanmax(finite, 1, keepdims=True)
    return (finite - low) / np.maximum(high - low, 1e-12)  # type: ignore[no-any-return]


def _box(t: int, l: int) -> tuple[list[float], list[float]]:  # noqa: E741
    left, right, top, bottom = l - 0.46, l + 0.46, t - 0.46, t + 0.46
    return [left, right, right, left, left], [top, top, bottom, bottom, top]


def curves(
    lines: Mapping[str, Points],
    *,
    title: str = "",
    ylabel: str = "agreement",
    baseline: float | None = None,
    right: Mapping[str, Points] | None = None,
) -> Figure:
    """Values over training steps (logarithmic, with step 0), labelled at their ends; `right` has an axis of its own."""
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axis = figure.subplots()
    axis.set_xscale("symlog", linthresh=10)
    axis.set(xlabel="training step", ylabel=ylabel, title=title)
    axis.spines[["top", "right"]].set_visible(False)
    _draw(axis, lines, COLOURS, "-")
    if baseline is not None:
        axis.axhline(baseline, color="grey", linewidth=1, linestyle=":")
        axis.annotate("chance", (0, baseline), xytext=(2, 3), textcoords="offset points", color="grey", fontsize=9)
    axis.set_ylim(0, None)
    if right:
        other = axis.twinx()
        other.set_ylabel(", ".join(right))
        other.spines["top"].set_visible(False)
        _draw(other, right, COLOURS[len(lines) :], "--")
        other.set_ylim(0, None)
    drawn = [line for panel in figure.axes for line in panel.get_lines()]
    handles = [line for line in drawn if not str(line.get_label()).startswith("_")]
    axis.legend(handles=handles, frameon=False, loc="upper left", fontsize=9)
    ticks = sorted({step for points in lines.values() for step in points})
    axis.set_xticks([t for t in (0, 10, 100, 1000, 10_000, 100_000) if t <= ticks[-1]])
    axis.get_xaxis().set_major_formatter(lambda value, _: f"{value:.0f}")
    return figure


def _draw(axis: Any, lines: Mapping[str, Points], colours: Sequence[str], style: str) -> None:
    for i, (label, points) in enumerate(lines.items()):
        steps = sorted(points)
        colour = colours[i % len(colours)]
        axis.plot(steps, [points[s] for s in steps], style, marker="o", markersize=3, color=colour, label=label)


def trials(
    panels: Mapping[str, Mapping[str, Sequence[Points]]],
    *,
    ylabel: str,
    xlabel: str = "training step",
    scale: tuple[str, str] = ("linear", "linear"),
    ylim: tuple[float | None, float | None] | None = None,
    each: bool = True,
) -> Figure:
    """Repeated trials over steps, a panel by its title, a colour by its label: every trial as a thin line and their
    median (`each`), or the median on a band from the 10th to the 90th percentile; labels stand at the lines' ends.
    """
    figure = Figure(figsize=(1.2 + 4.4 * len(panels), 3.6), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    labels = list(dict.fromkeys(label for groups in panels.values() for label in groups))
    colours = {label: COLOURS[i % len(COLOURS)] for i, label in enumerate(labels)}
    ends = []
    for axis, (title, groups) in zip(axes, panels.items(), strict=True):
        axis.set_xscale(scale[0], **({"linthresh": 10} if scale[0] == "symlog" else {}))
        axis.set_yscale(scale[1], **({"linthresh": 1} if scale[1] == "symlog" else {}))
        axis.set(xlabel=xlabel, title=title)
        axis.spines[["top", "right"]].set_visible(False)
        ends.append({label: _draw_trials(axis, lines, colours[label], each=each) for label, lines in groups.items()})
        if ylim:
            axis.set_ylim(*ylim)
    for axis, of_panel in zip(axes, ends, strict=True):  # once the axes, which share their scale, are settled
        _label_ends(axis, of_panel, colours)
    axes[0].set_ylabel(ylabel)
    counts = [len(lines) for groups in panels.values() for lines in groups.values()]
    if max(counts, default=1) > 1:
        count = f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else counts[0]
        what = "thin: each trial, thick: their median" if each else "median, and 10th to 90th percentile"
        figure.supxlabel(f"{what} (n = {count})", fontsize=8, color="grey", x=0.99, ha="right")
    return figure


def _draw_trials(axis: Any, lines: Sequence[Points], colour: str, *, each: bool) -> tuple[float, float]:
    """Draw one group; returns where its median ends."""
    steps = sorted(set.intersection(*(set(line) for line in lines)))
    values = np.array([[line[step] for step in steps] for line in lines], float)  # (trials, steps)
    middle = np.nanmedian(values, 0)
    if each:
        for row in values:
            axis.plot(steps, row, color=colour, linewidth=0.7, alpha=0.45)
    elif len(lines) > 1:
        low, high = np.nanpercentile(values, (10, 90), axis=0)
        axis.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
    axis.plot(steps, middle, color=colour, linewidth=2)
    return float(steps[-1]), float(middle[-1])


def _label_ends(axis: Any, ends: Mapping[str, tuple[float, float]], colours: Mapping[str, str]) -> None:
    """Each label beside the end of its line, moved apart where they would meet."""
    axis.get_xlim(), axis.get_ylim()  # settles the limits, which the transformation needs
    to_share = (axis.transData + axis.transAxes.inverted()).transform
    order = sorted(ends, key=lambda label: ends[label][1])
    heights = [float(np.clip(to_share(ends[label])[1], 0.02, 0.98)) for label in order]
    gap = 0.075
    for i in range(1, len(heights)):
        heights[i] = max(heights[i], heights[i - 1] + gap)
    excess = max(0.0, heights[-1] - 0.98) if heights else 0.0
    for label, height in zip(order, heights, strict=True):
        place = {"transform": axis.transAxes, "va": "center", "ha": "left", "fontsize": 9, "clip_on": False}
        axis.text(1.02, height - excess, label, color=colours[label], **place)


class Panel(NamedTuple):
    """A table of numbers to be drawn, and what its rows and columns are called where they have names."""

    values: NDArray[Any]
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()


def matrices(panels: Mapping[str, Panel], *, ylabel: str, xlabel: str) -> Figure:
    """Tables of numbers as pictures, each on a scale of its own that begins at 0."""
    figure = Figure(figsize=(3.5 * len(panels), 3.9), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, panel) in zip(axes, panels.items(), strict=True):
        image = axis.imshow(panel.values, cmap="Blues", vmin=0, aspect="auto", interpolation="nearest")
        axis.set(title=title, xlabel=xlabel)
        if panel.rows:
            axis.set_yticks(range(len(panel.rows)), panel.rows, fontsize=7)
        if panel.columns:
            turned = {"rotation": 90} if len(panel.columns) > 4 else {}
            axis.set_xticks(range(len(panel.columns)), panel.columns, fontsize=7, **turned)
        axis.tick_params(length=0)
        figure.colorbar(image, ax=axis, shrink=0.6)
    axes[0].set_ylabel(ylabel)
    return figure

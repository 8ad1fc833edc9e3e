"""Numbers to figures; the only module that imports matplotlib, and without pyplot, so there is no global state.

Colours are safe for the colour-blind (Okabe and Ito); every figure function returns a Figure, `save` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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

"""Values over training: curves, repeated trials, and the construction of the paper's ξ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from ktiwprobe.plugins.quantities import Line
from ktiwprobe.views import style
from ktiwprobe.views.plots.frame import COLUMN, FAINT, INK, PAPER, dashed, label_ends, open_frame, paper

Points = Mapping[int, float]
LINEAR = 10  # steps up to which the logarithmic axis is linear, so that it has a 0


class Course(NamedTuple):
    """A value over steps, with its interval where there is one, and the SPEC whose line it has, or that line."""

    spec: str
    values: Points
    interval: Mapping[int, tuple[float, float]]
    line: Line | None = None  # None: the line of the SPEC among the plugins installed

    @property
    def look(self) -> Line:
        """How it is drawn."""
        return self.line or style.line_named(self.spec)


class Crossing(NamedTuple):
    """Where another seed's attention first agrees better than a value: the construction of ξ (the paper's Fig. 2)."""

    name: str  # of the value
    value: float
    reached: float  # the agreement that first passes it
    step: int
    xi: float


def curves(
    lines: Mapping[str, Points],
    *,
    title: str = "",
    ylabel: str = "agreement",
    baseline: float | None = None,
    right: Mapping[str, Points] | None = None,
) -> Figure:
    """Values over training steps (logarithmic, with step 0), named below; `right` has an axis of its own."""
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axis = figure.subplots()
    axis.set_xscale("symlog", linthresh=LINEAR)
    axis.set(xlabel="training step", ylabel=ylabel, title=title)
    open_frame(axis)
    _draw(axis, lines, 0)
    if baseline is not None:
        axis.axhline(baseline, color=FAINT, linewidth=1, linestyle=":")
        axis.annotate("chance", (0, baseline), xytext=(2, 3), textcoords="offset points", color=FAINT, fontsize=9)
    axis.set_ylim(0, None)
    if right:
        other = axis.twinx()
        other.set_ylabel(", ".join(right))
        other.spines["top"].set_visible(False)
        _draw(other, right, len(lines))
        other.set_ylim(0, None)
    drawn = [line for panel in figure.axes for line in panel.get_lines()]
    handles = [line for line in drawn if not str(line.get_label()).startswith("_")]
    figure.legend(handles=handles, frameon=False, loc="outside lower center", ncols=3, fontsize=9)  # never on a line
    ticks = sorted({step for points in lines.values() for step in points})
    axis.set_xticks([t for t in (0, 10, 100, 1000, 10_000, 100_000) if t <= ticks[-1]])
    axis.get_xaxis().set_major_formatter(lambda value, _: f"{value:.0f}")
    return figure


def _draw(axis: Any, lines: Mapping[str, Points], first: int) -> None:
    for i, (label, points) in enumerate(lines.items(), first):
        steps = sorted(points)
        look = dashed(style.SERIES[i % len(style.SERIES)])
        axis.plot(steps, [points[s] for s in steps], marker="o", markersize=3, label=label, **look)


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
    colours = {label: style.SERIES[i % len(style.SERIES)].light for i, label in enumerate(labels)}
    ends = []
    for axis, (title, groups) in zip(axes, panels.items(), strict=True):
        axis.set_xscale(scale[0], **({"linthresh": LINEAR} if scale[0] == "symlog" else {}))
        axis.set_yscale(scale[1], **({"linthresh": 1} if scale[1] == "symlog" else {}))
        axis.set(xlabel=xlabel, title=title)
        open_frame(axis)
        ends.append({label: _draw_trials(axis, lines, colours[label], each=each) for label, lines in groups.items()})
        if ylim:
            axis.set_ylim(*ylim)
    for axis, of_panel in zip(axes, ends, strict=True):  # once the axes, which share their scale, are settled
        label_ends(axis, of_panel, colours)
    axes[0].set_ylabel(ylabel)
    counts = [len(lines) for groups in panels.values() for lines in groups.values()]
    if max(counts, default=1) > 1:
        count = f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else counts[0]
        what = "thin: each trial, thick: their median" if each else "median, and 10th to 90th percentile"
        figure.supxlabel(f"{what} (n = {count})", fontsize=8, color=FAINT, x=0.99, ha="right")
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


@rc_context(PAPER)
def over_steps(
    courses: Mapping[str, Course],
    performance: Mapping[str, Points],
    *,
    chance: tuple[float, float] | None = None,
    crossing: Crossing | None = None,
    ylabels: tuple[str, str] = ("agreement", "accuracy"),
) -> Figure:
    """Agreements above, with intervals and what chance would give; performance below; and how ξ is found from both."""
    figure = paper((COLUMN, 3.4))
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    ends = {label: _course(upper, course) for label, course in courses.items()}
    seen = [value for course in courses.values() for value in course.values.values()]
    upper.set(ylabel=ylabels[0], ylim=(min(0.0, *seen), max(seen) * 1.08 if max(seen) > 0 else None))
    if chance:
        upper.axhspan(chance[0] - 0.004, chance[1] + 0.004, color=FAINT, alpha=0.35, linewidth=0)
        ends["chance"] = (float(max(_steps(courses))), sum(chance) / 2)
    for points in performance.values():
        lower.plot(sorted(points), [points[s] for s in sorted(points)], **dashed(style.PERFORMANCE))
    lower.set(xlabel="training step", ylabel=ylabels[1], ylim=(0, None))
    _step_axis(lower, _steps(courses))
    for axis in (upper, lower):
        open_frame(axis)
    colours = {"chance": FAINT, **{label: course.look.light for label, course in courses.items()}}
    label_ends(upper, ends, colours, size=7, gap=0.09)
    finals = {label: (float(max(points)), points[max(points)]) for label, points in performance.items()}
    label_ends(lower, finals, dict.fromkeys(finals, style.PERFORMANCE.light), size=7, gap=0.13)
    if crossing:
        _construct(upper, lower, crossing)
    return figure


def _course(axis: Any, course: Course) -> tuple[float, float]:
    """Draw one; returns where it ends."""
    look, steps = dashed(course.look), sorted(course.values)
    axis.plot(steps, [course.values[s] for s in steps], **look)
    known = [s for s in steps if s in course.interval]
    low, high = ([course.interval[s][side] for s in known] for side in (0, 1))
    axis.fill_between(known, low, high, color=look["color"], alpha=0.18, linewidth=0)
    return float(steps[-1]), course.values[steps[-1]]


def _construct(upper: Any, lower: Any, crossing: Crossing) -> None:
    """From the value across to the curve that passes it, down to the performance there, and back to its axis."""
    look = {"color": INK, "linewidth": 0.7, "linestyle": (0, (3, 2))}
    step, (floor, _), (_, ceiling) = crossing.step, upper.get_ylim(), lower.get_ylim()
    upper.plot([0, step], [crossing.value] * 2, **look)
    upper.plot([step] * 2, [floor, crossing.reached], **look)
    upper.plot([step], [crossing.reached], marker="o", markersize=3.5, color=INK)
    lower.plot([step] * 2, [crossing.xi, ceiling], **look, clip_on=False)
    lower.plot([0, step], [crossing.xi] * 2, **look)
    lower.plot([step], [crossing.xi], marker="o", markersize=3.5, color=INK)
    lower.set_ylim(0, ceiling)
    upper.set_ylim(floor, None)
    said = {"textcoords": "offset points", "va": "bottom", "fontsize": 7}
    upper.annotate(f"{crossing.name} = {crossing.value:.2f}", (0, crossing.value), (2, 1.5), **said)
    lower.annotate(f"ξ = {crossing.xi:.2f}", (0, crossing.xi), (2, 1.5), **said)


def _steps(courses: Mapping[str, Course]) -> set[int]:
    return {step for course in courses.values() for step in course.values}


def _step_axis(axis: Any, steps: set[int]) -> None:
    """Logarithmic, with a 0."""
    axis.set_xscale("symlog", linthresh=LINEAR)
    axis.set_xticks([0, *(10**n for n in range(1, 8) if 10**n <= max(steps))])
    axis.set_xlim(0, max(*steps, 1))
    axis.get_xaxis().set_major_formatter(lambda value, _: f"{value:.0f}")
    axis.minorticks_off()

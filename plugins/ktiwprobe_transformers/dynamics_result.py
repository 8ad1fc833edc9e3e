"""What `transformer-dynamics` found, as a table, figures and a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ktiwprobe.claims.measures import Points, learned_at, median
from ktiwprobe.experiments import Result
from ktiwprobe.plots import Figure, Panel, table, trials

ALL = "all heads"
COURSES = ("beta", "beta-uf", "alpha")  # what A's attention is held against
KNOWN = 0.5  # of the rows: above it a probe counts as pointing at the gold position
CLEARLY = 2  # times chance


@dataclass(frozen=True)
class Line:
    """One reading of one seed's attention, held against what another seed knows and attends to."""

    values: Mapping[str, Points]  # agreement over steps, by course
    chance: float
    xi: float
    star: float
    halfway: Mapping[str, int | None]  # by course
    on_gold: float | None  # share of rows whose highest weight is on the gold position

    @property
    def peaks(self) -> dict[str, float]:
        """The highest agreement of each course."""
        return {name: max(points.values()) for name, points in self.values.items()}

    def cells(self) -> dict[str, Any]:
        """As a row of a table."""
        peaks = self.peaks
        gold = {} if self.on_gold is None else {"alpha on gold": self.on_gold}
        return {
            "A(alpha, beta-hat)": peaks["beta"],
            "A(alpha, beta-uf)": peaks["beta-uf"],
            "A(alpha, alpha-hat)": peaks["alpha"],
            "chance": self.chance,
            "xi": self.xi,
            "xi*": self.star,
            **{f"{name} half-way at": self.halfway[name] for name in COURSES},
            **gold,
        }


@dataclass(frozen=True)
class Found:
    """All of one seed."""

    seed: int
    lines: Mapping[str, Line]  # by reading
    accuracy: Points
    gold: Mapping[str, Points]  # by probe, where gold is known: share of rows whose peak is gold

    @property
    def order(self) -> int | None:
        """1 if beta is half-way before alpha, -1 if after, 0 if at the same checkpoint; None if one tells nothing."""
        beta, alpha = (self.lines[ALL].halfway[name] for name in ("beta", "alpha"))
        return None if beta is None or alpha is None else (alpha > beta) - (alpha < beta)


def result_of(task: str, found: Sequence[Found], last: int) -> Result:
    """Table over seeds, details by seed and site, figures and verdict."""
    names = [name for name in found[0].lines if ".h" not in name]
    return Result(
        verdict=verdict(task, found),
        holds=judged(found),
        table=[{"heads": name, **_over_seeds([one.lines[name].cells() for one in found])} for name in names],
        details=[{"seed": one.seed, "site": name, **line.cells()} for one in found for name, line in one.lines.items()],
        curves=_points(found),
        figures=_figures(task, found),
        notes=_notes(task, found, last),
    )


def judged(found: Sequence[Found]) -> bool | None:
    """Whether beta comes first for every seed and beta-uf says clearly more than chance; None if only for some."""
    clear = [_clear(one.lines[ALL]) for one in found]
    first = [one.order == 1 for one in found]
    both = [a and b for a, b in zip(clear, first, strict=True)]
    return True if all(both) else None if any(both) else False


def verdict(task: str, found: Sequence[Found]) -> str:
    """One sentence."""
    mean = _over_seeds([one.lines[ALL].cells() for one in found])
    orders = [one.order for one in found]
    steps = " and ".join(_step(mean[f"{name} half-way at"]) for name in ("beta", "alpha"))
    heads = [line for one in found for name, line in one.lines.items() if ".h" in name]
    return (
        f"On {task}, beta comes half of its way before alpha for {orders.count(1)} of {len(found)} seeds, with it for "
        f"{orders.count(0)} and after it for {orders.count(-1)} (median steps {steps}); A(alpha, beta-hat) is "
        f"{mean['A(alpha, beta-hat)']:.2f} and A(alpha, beta-uf) {mean['A(alpha, beta-uf)']:.2f} where chance is "
        f"{mean['chance']:.2f}, xi is {mean['xi']:.2f} of {mean['xi*']:.2f}, and A(alpha, beta-uf) is above twice its "
        f"chance at {sum(map(_clear, heads))} of {len(heads)} heads."
    )


def _step(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"


def _clear(line: Line) -> bool:
    return line.peaks["beta-uf"] > CLEARLY * line.chance


def _over_seeds(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means of values, medians of steps."""
    return {
        key: median(row[key] for row in rows) if "half-way" in key else float(np.mean([row[key] for row in rows]))
        for key in rows[0]
    }


def _points(found: Iterable[Found]) -> list[dict[str, Any]]:
    """Every point of every curve."""
    agreements = [
        {"seed": one.seed, "site": name, "curve": f"A(alpha, {course})", "step": step, "value": value}
        for one in found
        for name, line in one.lines.items()
        for course, points in line.values.items()
        for step, value in points.items()
    ]
    others = [
        {"seed": one.seed, "site": ALL, "curve": curve, "step": step, "value": value}
        for one in found
        for curve, points in {"accuracy": one.accuracy, **{f"{p} on gold": c for p, c in one.gold.items()}}.items()
        for step, value in points.items()
    ]
    return agreements + others


def _figures(task: str, found: Sequence[Found]) -> dict[str, Figure]:
    names = [name for name in found[0].lines if ".h" not in name]
    panels = {
        name: {f"A(α, {_symbol(course)})": [one.lines[name].values[course] for one in found] for course in COURSES}
        for name in names
    }
    look: dict[str, Any] = {"scale": ("symlog", "linear"), "ylim": (0, 1.03)}
    figures = {"agreement": trials(panels, ylabel=f"agreement with α, {task}", **look)}
    if all(one.gold for one in found):
        peaks = {symbol: [one.gold[probe] for one in found] for symbol, probe in (("β", "beta"), ("α", "alpha"))}
        known = {"accuracy": [one.accuracy for one in found]}
        panels = {"peak is gold": peaks, "validation accuracy": known}
        figures["gold"] = trials(panels, ylabel=f"share, {task}", **look)
    return figures | {f"heads-{course}": _matrix(found, course) for course in ("beta", "beta-uf")}


def _matrix(found: Sequence[Found], course: str) -> Figure:
    """Layers by heads, seed under seed; what a head's number means differs between seeds."""
    heads = {one.seed: {n: line.peaks[course] for n, line in one.lines.items() if ".h" in n} for one in found}
    layers = list(dict.fromkeys(name.rpartition(".")[0] for name in heads[found[0].seed]))
    numbers = list(dict.fromkeys(name.rpartition(".")[2] for name in heads[found[0].seed]))
    rows = [(seed, layer) for seed in heads for layer in layers]
    values = np.array([[heads[seed].get(f"{layer}.{number}", np.nan) for number in numbers] for seed, layer in rows])
    chance = np.mean([line.chance for one in found for line in one.lines.values()])
    return table(
        Panel(values, [f"seed {seed}, {layer}" for seed, layer in rows], numbers),
        ylabel="",
        xlabel="head",
        title=f"A(α of a head, {_symbol(course)})",
        note=f"chance {chance:.2f}",
    )


def _symbol(course: str) -> str:
    return {"alpha": "α̂", "beta": "β", "beta-uf": r"$β^{\mathrm{uf}}$"}[course]


def _notes(task: str, found: Sequence[Found], last: int) -> list[str]:
    notes = [
        f"Read up to step {last}. Alpha is A's at its best checkpoint; "
        "beta, beta-uf and alpha-hat are the next seed's where they agree most. beta puts the cross-attention of all "
        "layers and heads on one position, so that nothing else of the input is heard.",
        "Half-way: the first checkpoint at which a curve is half of its way from chance to its highest. Values are "
        "means over seeds, steps are medians; the second table has every seed and every head.",
        "xi is the next seed's accuracy where its attention first agrees with alpha better than beta-uf does; xi* if "
        "it never does. A head is held against the mean of the next seed's layer, where its number means nothing.",
    ]
    if all(one.gold for one in found):
        known = {p: [learned_at(one.gold[p], KNOWN) for one in found] for p in ("beta", "alpha")}
        steps = " and ".join(_step(median(known[probe])) for probe in ("beta", "alpha"))
        notes.append(
            f"{task} knows the gold position: in more than {KNOWN:.0%} of the rows beta's peak, and that of the mean "
            f"of all heads, is there from steps {steps} on (medians)."
        )
    return notes

"""What several experiments measure of runs: accuracy over steps, who learned and when, and shares with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ktiwprobe.compare.agreement import common_cells, wilson
from ktiwprobe.runs.run import Run
from ktiwprobe.signals.signal import Signal

LEARNED = 0.95  # accuracy above which a run counts as having learned

Points = dict[int, float]


def accuracy(run: Run, last: int) -> Points:
    """Validation accuracy at every evaluated step up to `last`: a run may have been extended by somebody else."""
    return {int(record["step"]): float(record["accuracy"]) for record in run.log() if record["step"] <= last}


def learned_at(points: Mapping[int, float], threshold: float = LEARNED) -> int | None:
    """The first step above the threshold; None if there is none."""
    return next((step for step in sorted(points) if points[step] > threshold), None)


def share(count: int, total: int) -> str:
    """count of total with the Wilson 95 % interval of the share."""
    low, high = wilson(count / total, total)
    return f"{count}/{total} [{low:.2f}, {high:.2f}]"


def median(values: Iterable[float | None]) -> float | None:
    """The middle of those that are there; of whole numbers a whole number, where it is one."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    middle = float(np.median(known))
    return int(middle) if middle.is_integer() and all(isinstance(value, int) for value in known) else middle


def peak_is_gold(signal: Signal, gold: Signal) -> float:
    """Of the rows that have a link: the share whose highest value is linked (the first of equals).

    With several sites a row counts by the mean over sites. Only cells that both have are looked at.
    """
    hits = rows = 0
    signal, gold, _ = common_cells(signal.one_site(), gold)
    for (_, values), (_, truth) in zip(signal.by_length(), gold.by_length(), strict=True):
        linked = truth.max(1) > 0
        peaks = values[linked].argmax(1)
        hits += int((truth[linked, :][np.arange(len(peaks)), peaks] > 0).sum())
        rows += len(peaks)
    return hits / rows


def lines(name: str, curves: Mapping[str, Sequence[tuple[Any, Mapping[int, float]]]]) -> list[dict[str, Any]]:
    """Curves as lines of a CSV: condition, seed, step and the value under `name`."""
    return [
        {"condition": condition, "seed": seed, "step": step, name: value}
        for condition, trials in curves.items()
        for seed, points in trials
        for step, value in points.items()
    ]

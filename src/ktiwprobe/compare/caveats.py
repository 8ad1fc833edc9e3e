"""What a reader must know before believing an agreement, computed from what was compared; numpy only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ktiwprobe.signals.signal import Signal

FLAT = math.log(2)  # a spread of log-odds below it: no input doubles the odds that another input gives the output
FEW = 30  # sentences below which a bootstrap over sentences is rough
SAME_CHANCE = 0.02  # chance levels that differ by less are one
UNINFORMATIVE = ("untrained", "flat")  # kinds after which a value says nothing of what a model knows


@dataclass(frozen=True)
class Caveat:
    """A warning, and what kind it is: untrained, same, flat, maximum, few or cells."""

    kind: str
    text: str

    def __str__(self) -> str:
        return self.text


def best_is_first(name: str, measure: str, best: int, steps: Sequence[int]) -> Caveat | None:
    """The best checkpoint is the first one although there are later ones."""
    later = sum(step > best for step in steps)
    if not later or best > min(steps):
        return None
    which = "step 0, before any update" if best == 0 else f"step {best}, its first checkpoint"
    none = (
        "its one later checkpoint is not better" if later == 1 else f"none of its {later} later checkpoints is better"
    )
    text = f"{name} is best by {measure} at {which}: {none}"
    return Caveat("untrained", text)


def never_rose(name: str, accuracy: Mapping[int, float]) -> Caveat | None:
    """No later checkpoint is more accurate than the first one."""
    if len(accuracy) < 2 or max(accuracy.values()) > accuracy[min(accuracy)]:
        return None
    start = min(accuracy)
    return Caveat(
        "untrained", f"the accuracy of {name} never rose above its start ({accuracy[start]:.3f} at step {start})"
    )


def same_signal(u: Signal, v: Signal) -> Caveat | None:
    """A signal of a run was compared with itself."""
    if u.name != v.name or "checkpoint" not in u.meta or u.meta["checkpoint"] != v.meta.get("checkpoint"):
        return None
    return Caveat(
        "same", f"u and v are the same signal, {u.name}: a bare symbol is of the run that the other side names"
    )


def flat_share(signal: Signal) -> float | None:
    """The share of rows whose highest and lowest log-odds differ by less than FLAT, in [0, 1]; None if no row counts.

    In such a row the odds of the output less than double, whichever input is attended to instead of another: its order
    of inputs says little. Rows of one input and rows of -inf throughout do not count; a row with some -inf is not flat.
    """
    flat = rows = 0
    for _, values in signal.by_length():
        high, low = values.max(1), values.min(1)
        counts = (high > -np.inf) & (values.shape[1] > 1)
        flat += int(np.count_nonzero(high[counts] - low[counts] < FLAT))
        rows += int(np.count_nonzero(counts))
    return flat / rows if rows else None


def flat_rows(signal: Signal) -> Caveat | None:
    """Most rows of a signal of log-odds are flat."""
    share = flat_share(signal) if signal.quantity.is_log_odds else None
    if share is None or share <= 0.5:
        return None
    text = (
        f"{100 * share:.0f} % of the rows of {signal.name} are flat: whichever input is attended, the odds of the "
        "output change by less than a factor of 2"
    )
    return Caveat("flat", text)


def chosen_by_value(names: Sequence[str], best: int, *, lower: bool) -> Caveat | None:
    """The step was chosen by the value that is reported; `names` are the candidates' names."""
    if len(names) < 2:
        return None
    which = "lowest" if lower else "highest"
    text = (
        f"{names[best]} was chosen by the reported value, the {which} of {len(names)} checkpoints; the interval "
        "repeats this choice in every resample"
    )
    return Caveat("maximum", text)


def chance_differs(baselines: Sequence[float]) -> Caveat | None:
    """The checkpoints that were chosen from do not have one chance level, so the highest value need not be the best."""
    if not baselines or max(baselines) - min(baselines) <= SAME_CHANCE:
        return None
    text = (
        f"chance differs between the checkpoints that were compared ({min(baselines):.2f} to {max(baselines):.2f}), so "
        "the highest value may be nearest to chance: name a step with @"
    )
    return Caveat("chance", text)


def few_sentences(u: Signal, v: Signal, sentences: int) -> Caveat | None:
    """Too few sentences for the interval to be trusted."""
    if sentences >= FEW:
        return None
    verb = "sentence has" if sentences == 1 else "sentences have"
    text = f"only {sentences} {verb} a value for {u.name} and {v.name}: below {FEW} the interval is unreliable"
    return Caveat("few", text)


def part_of_the_cells(u: Signal, v: Signal, share: float) -> Caveat | None:
    """The signals do not have the same cells."""
    if share == 1:
        return None
    text = (
        f"{u.name} and {v.name} were compared over the {100 * share:.1f} % of their cells that both have: one of them "
        "may look where the other may not"
    )
    return Caveat("cells", text)

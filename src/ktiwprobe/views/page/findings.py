"""What the numbers say, in sentences for the top of the page; each is computed, none is an opinion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def findings(rows: Sequence[Mapping[str, Any]], lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """How often attention points at word knowledge, and which of the two comes first.

    A row whose warnings say that its run was not trained, or that its β is flat, gives no finding: its warning is
    stated instead, once.
    """
    wanted = [row for row in rows if row.get("claim")]
    sentences = list(dict.fromkeys(text for row in wanted if (text := _pointing(row))))
    return sentences if any(row.get("uninformative") for row in wanted) else [*sentences, *_first(lines)]


def _first(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which comes first: agreement with word knowledge, or with another seed's attention."""
    seed = next((line for line in lines if line["key"] == "hat"), None)
    rising = [line for line in lines if line.get("knowledge") and halfway(line["points"]) is not None]
    if seed is None or not rising:
        return []
    whose, first, second = rising[-1]["knowledge"], halfway(rising[-1]["points"]), halfway(seed["points"])
    if first is None or second is None:
        return []
    order = "at the same checkpoint as" if first == second else "before" if first < second else "after"
    return [
        f"Agreement of the trained attention with {whose} is half way to its highest at step {first}, {order} "
        f"agreement with another seed's attention (step {second})."
    ]


def _pointing(row: Mapping[str, Any]) -> str | None:
    if row.get("uninformative"):
        return f"{row['label']} says little about word knowledge: {row['uninformative']}."
    if row["value"] is None or row["baseline"] is None:
        return None
    value, chance = 100 * row["value"], 100 * row["baseline"]
    at_chance = row.get("ci") is not None and row["ci"][0] <= row["baseline"]
    beside = f", which is not above chance ({chance:.1f} %)." if at_chance else f"; chance would give {chance:.1f} %."
    text = f"In {value:.1f} % of outputs the most attended input is one that {row['claim']}{beside}"
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def halfway(points: Sequence[Sequence[float]]) -> int | None:
    """The first step at which a curve is half way from where it begins to its highest; None if it never rises."""
    top = max((value for _, value in points), default=0.0)
    if not points or top <= points[0][1]:
        return None
    return next(int(step) for step, value in points if value >= (points[0][1] + top) / 2)

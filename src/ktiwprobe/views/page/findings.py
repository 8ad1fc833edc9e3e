"""What the numbers say, in sentences for the top of the page; each is computed, none is an opinion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

KNOWLEDGE = {
    ("alpha", "beta"): "β, what the model knows of single words, ranks highest",
    ("alpha", "beta-uf"): "β of a model trained under uniform attention, at the step that agrees best, ranks highest",
}


def findings(rows: Sequence[Mapping[str, Any]], lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """How often attention points at word knowledge, and which of the two comes first.

    A row whose warnings say that its run was not trained, or that its β is flat, gives no finding: its warning is
    stated instead, once.
    """
    wanted = [row for row in rows if tuple(row["specs"]) in KNOWLEDGE]
    said = list(dict.fromkeys(text for row in wanted if (text := _pointing(row))))
    return said if any(row.get("uninformative") for row in wanted) else [*said, *_first(lines)]


def _first(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which comes first: agreement with word knowledge, or with another seed's attention."""
    halves = {line["key"]: halfway(line["points"]) for line in lines}
    key = next((name for name in ("beta-uf", "beta-hat", "beta") if halves.get(name) is not None), "beta")
    first, second = halves.get(key), halves.get("hat")
    if first is None or second is None:
        return []
    order = "at the same checkpoint as" if first == second else "before" if first < second else "after"
    whose = {"beta-uf": "β of the uniform run", "beta-hat": "β of another seed", "beta": "β"}[key]
    return [
        f"Agreement of the trained attention with {whose} is half way to its highest at step {first}, {order} "
        f"agreement with another seed's attention (step {second})."
    ]


def _pointing(row: Mapping[str, Any]) -> str | None:
    if row.get("uninformative"):
        return f"{row['label']} says little about word knowledge: {row['uninformative']}."
    if row["value"] is None or row["baseline"] is None:
        return None
    value, chance, what = 100 * row["value"], 100 * row["baseline"], KNOWLEDGE[tuple(row["specs"])]
    at_chance = row.get("ci") is not None and row["ci"][0] <= row["baseline"]
    beside = f", which is not above chance ({chance:.1f} %)." if at_chance else f"; chance would give {chance:.1f} %."
    said = f"In {value:.1f} % of outputs the most attended input is one that {what}{beside}"
    return said.replace(" %", "\N{NO-BREAK SPACE}%")


def halfway(points: Sequence[Sequence[float]]) -> int | None:
    """The first step at which a curve is half way from where it begins to its highest; None if it never rises."""
    top = max((value for _, value in points), default=0.0)
    if not points or top <= points[0][1]:
        return None
    return next(int(step) for step, value in points if value >= (points[0][1] + top) / 2)

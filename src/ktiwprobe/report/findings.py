"""What the numbers say, in sentences for the top of the page; each is computed, none is an opinion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

KNOWLEDGE = {
    ("alpha", "beta"): "β, what the model knows of single words, ranks highest",
    ("alpha", "beta-uf"): "β of a model trained under uniform attention ranks highest",
}


def findings(rows: Sequence[Mapping[str, Any]], lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """How often attention points at word knowledge, and which of the two comes first."""
    said = [text for row in rows if (text := _pointing(row))]
    halves = {line["key"]: halfway(line["points"]) for line in lines}
    key = "beta-uf" if halves.get("beta-uf") is not None else "beta"
    first, second = halves.get(key), halves.get("hat")
    if first is None or second is None:
        return said
    order = "at the same checkpoint as" if first == second else "before" if first < second else "after"
    whose = "β of the uniform run" if key == "beta-uf" else "β"
    return [
        *said,
        f"Agreement of the trained attention with {whose} is half way to its highest at step {first}, {order} "
        f"agreement with another seed's attention (step {second}).",
    ]


def _pointing(row: Mapping[str, Any]) -> str | None:
    what = KNOWLEDGE.get(tuple(row["specs"]))
    if what is None or row["value"] is None or row["baseline"] is None:
        return None
    value, chance = 100 * row["value"], 100 * row["baseline"]
    said = f"In {value:.1f} % of outputs the most attended input is one that {what}; chance would give {chance:.1f} %."
    return said.replace(" %", "\N{NO-BREAK SPACE}%")


def halfway(points: Sequence[Sequence[float]]) -> int | None:
    """The first step at which a curve is half way from where it begins to its highest; None if it never rises."""
    top = max((value for _, value in points), default=0.0)
    if not points or top <= points[0][1]:
        return None
    return next(int(step) for step, value in points if value >= (points[0][1] + top) / 2)

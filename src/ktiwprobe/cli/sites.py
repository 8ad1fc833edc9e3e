"""Where the models that can say so attend, for `ktiwprobe ls sites`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ktiwprobe.errors import KtiwprobeError, UsageError
from ktiwprobe.plugins.capabilities import ListsSites, supports
from ktiwprobe.plugins.options import fill, options_of, sort_into_spaces
from ktiwprobe.plugins.registry import Registry


def find_sites(registry: Registry, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A record for each site of every registered model with `list_sites(options)` that the options suit.

    A model that they do not suit says so by an error; if none is left, that is what the user hears.
    """
    rows: list[dict[str, Any]] = []
    problems: dict[str, str] = {}  # the sentence of each model that they do not suit
    for name in registry.names("models"):
        model = registry.load("models", name)
        if not supports(model, ListsSites):
            continue
        try:
            given = sort_into_spaces(values, {"model": options_of(model)})["model"]
            found = model.list_sites(fill(options_of(model), given, space="model"))
        except KtiwprobeError as problem:
            problems.setdefault(str(problem), name)
            continue
        rows += [{"model": name, **record} for record in found]
    if problems and not rows:
        raise UsageError("; ".join(problems if len(problems) == 1 else (f"{n}: {p}" for p, n in problems.items())))
    return rows

"""The options of a task, model, metric, experiment or engine as records, for `ktiwprobe ls NAME`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ktiwprobe.errors import UnknownNameError, UsageError
from ktiwprobe.plugins.capabilities import training_defaults
from ktiwprobe.plugins.options import options_of
from ktiwprobe.plugins.registry import KINDS, Registry


def describe_options(registry: Registry, name: str) -> list[dict[str, Any]]:
    """A record for each option of what is registered as `name`; a model's training has options too."""
    kinds = [kind for kind in KINDS if name in registry.names(kind)]
    if not kinds:
        raise UnknownNameError(
            "kind or name", name, [*KINDS, "runs", *(n for kind in KINDS for n in registry.names(kind))]
        )
    if kinds == ["commands"]:
        raise UsageError(f"{name} is a command: `ktiwprobe {name} --help` lists its options")
    rows = []
    for kind in kinds:
        target = registry.load(kind, name)
        if kind == "metrics" and isinstance(target, type):
            rows += _fields(target, "", {})
        if kind == "engines":
            rows += _fields(options_of(target), "", {})
        if kind == "experiments":
            rows += _fields(options_of(target), "--", {})
        if kind in ("tasks", "models"):
            rows += _fields(options_of(target), f"{kind.removesuffix('s')}.", {})
        if kind == "models":
            from ktiwprobe.runs.recipe import TrainOptions

            rows += _fields(TrainOptions, "train.", training_defaults(target))
    return rows


def _fields(options: type, prefix: str, suggested: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A record for each field of an options class; `suggested` values stand in for its defaults."""
    hints, rows = get_type_hints(options), []
    for field in dataclasses.fields(options):
        default = None if field.default is dataclasses.MISSING else field.default
        rows.append(
            {
                "key": f"--{field.name.replace('_', '-')}" if prefix == "--" else f"{prefix}{field.name}",
                "default": suggested.get(field.name, default),
                "values": _values(hints[field.name]) + _limits(field.metadata),
                "help": field.metadata.get("help", ""),
            }
        )
    return rows


def _limits(metadata: Mapping[str, Any]) -> str:
    low, high = metadata.get("low"), metadata.get("high")
    if low is None or high is None:
        return f" >= {low:.10g}" if low is not None else f" <= {high:.10g}" if high is not None else ""
    return f" {low:.10g} to {high:.10g}"


def _values(hint: Any) -> str:
    """A type as people write its values."""
    if get_origin(hint) is Literal:
        return "|".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        return f"{_values(get_args(hint)[0])},..."
    if get_args(hint):
        return "|".join(_values(member) for member in get_args(hint) if member is not type(None))
    return {bool: "true|false", str: "text"}.get(hint, getattr(hint, "__name__", str(hint)))

"""KEY=VALUE and TOML to frozen dataclasses, strictly: an unknown key, a wrong type or a value out of range is an error.

Keys live in spaces (`task.`, `model.`, `train.`); a bare key works where only one space has it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tomllib
import types
from collections.abc import Container, Iterable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ktiwprobe.errors import OptionError, suggest
from ktiwprobe.plugins.capabilities import options_class

T = TypeVar("T")
Values = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class NoOptions:
    """For plugins that take none."""


def option(default: T, *, low: float | None = None, high: float | None = None, help: str = "") -> T:
    """A dataclass field with a range (both ends allowed) and a line of help."""
    return dataclasses.field(default=default, metadata={"low": low, "high": high, "help": help})


def options_of(owner: object) -> type:
    """The options class of a task, a model or an experiment."""
    return options_class(owner) or NoOptions


def fill(cls: type[T], values: Mapping[str, Any], *, space: str) -> T:
    """An instance of the options class `cls` from plain values or their texts."""
    hints, known = get_type_hints(cls), {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    chosen: Values = {}
    for key, value in values.items():
        if key not in known:
            raise OptionError(f"unknown option {space}.{key}{suggest(key, known)}")
        chosen[key] = _convert(value, hints[key], f"{space}.{key}")
        _check_range(chosen[key], known[key].metadata, f"{space}.{key}")
    missing = [n for n, f in known.items() if n not in chosen and f.default is MISSING and f.default_factory is MISSING]
    if missing:
        raise OptionError(f"option {space}.{missing[0]} is needed: pass -o {missing[0]}=VALUE")
    try:
        return cls(**chosen)
    except ValueError as error:  # an author's __post_init__ speaks through ValueError
        raise OptionError(f"the {space} options do not fit together: {error}") from error


def parse_pairs(pairs: Iterable[str]) -> Values:
    """KEY=VALUE texts as a mapping; the value stays text, `fill` gives it its type."""
    values: Values = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise OptionError(f"option {pair!r} is not KEY=VALUE")
        values[key.strip()] = value
    return values


def read_toml(path: Path) -> Values:
    """A TOML file as a flat mapping of dotted keys."""
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OptionError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"{path} is not a TOML file: {error}") from error
    flat: Values = {}
    for key, value in tree.items():
        flat.update({f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value})
    return flat


def sort_into_spaces(values: Mapping[str, Any], spaces: Mapping[str, type]) -> dict[str, Values]:
    """Each key to the space it belongs to: by its prefix, else where only one options class has it."""
    sorted_values: dict[str, Values] = {space: {} for space in spaces}
    for key, value in values.items():
        space, _, rest = key.partition(".")
        if rest and space in spaces:
            sorted_values[space][rest] = value
            continue
        homes = [s for s, cls in spaces.items() if key in {f.name for f in fields(cls)}]
        if len(homes) > 1:
            forms = " or ".join(f"{s}.{key}" for s in homes)
            raise OptionError(f"option {key!r} is ambiguous: write {forms}")
        if not homes:
            everything = [f"{s}.{f.name}" for s, cls in spaces.items() for f in fields(cls)]
            near = suggest(key, everything + [name.partition(".")[2] for name in everything]).partition(" known:")[0]
            raise OptionError(f"unknown option {key!r}{near} known: {', '.join(everything)}")
        sorted_values[homes[0]][key] = value
    return sorted_values


def as_dict(options: Any) -> Values:
    """All values, ready for JSON."""
    return {key: list(v) if isinstance(v, tuple) else v for key, v in dataclasses.asdict(options).items()}


def changed(options: Any, given: Container[str]) -> Values:
    """Of the `given` keys, those whose value is not the default: what makes a run another run."""
    defaults = {f.name: f.default if f.default_factory is MISSING else f.default_factory() for f in fields(options)}
    filled = dataclasses.asdict(options)
    return {key: value for key, value in as_dict(options).items() if key in given and filled[key] != defaults[key]}


def short_hash(values: Mapping[str, Any]) -> str:
    """Six characters that stand for `values`; empty where there are none."""
    text = json.dumps(values, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:6] if values else ""


def _check_range(value: Any, metadata: Mapping[str, Any], name: str) -> None:
    low, high = metadata.get("low"), metadata.get("high")
    if isinstance(value, (tuple, list)):
        for item in value:
            _check_range(item, metadata, name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return
    if (low is not None and not value >= low) or (high is not None and not value <= high):
        limits = " and ".join(
            f"{word} {end}" for word, end in (("at least", low), ("at most", high)) if end is not None
        )
        raise OptionError(f"option {name} is {value}: it must be {limits}")


def _convert(value: Any, hint: Any, name: str) -> Any:
    """`value` as the type `hint`; text is read as that type, anything else must already be of it."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _convert_union(value, hint, name)
    if origin is Literal:
        return _convert_choice(value, get_args(hint), name)
    if origin in (tuple, list):
        return origin(_convert_items(value, hint, name))
    return _convert_scalar(value, hint, name)


def _convert_items(value: Any, hint: Any, name: str) -> list[Any]:
    items = [v for v in value.split(",") if v.strip()] if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)):
        raise OptionError(f"option {name} is {value!r}: it must be a list such as 1,2,3")
    kinds = get_args(hint)
    if get_origin(hint) is list or kinds[-1] is ...:
        kinds = kinds[:1] * len(items)
    if len(items) != len(kinds):
        raise OptionError(f"option {name} is {value!r}: it must be a list of {len(kinds)}")
    return [_convert(item, kind, name) for item, kind in zip(items, kinds, strict=True)]


def _convert_union(value: Any, hint: Any, name: str) -> Any:
    members = [m for m in get_args(hint) if m is not type(None)]
    if type(None) in get_args(hint) and (value is None or value == "none"):
        return None
    for member in members[:-1]:
        try:
            return _convert(value, member, name)
        except OptionError:
            continue
    return _convert(value, members[-1], name)


def _convert_choice(value: Any, choices: tuple[Any, ...], name: str) -> Any:
    for choice in choices:
        if value == choice or (isinstance(value, str) and value == str(choice)):
            return choice
    raise OptionError(f"option {name} is {value!r}: it must be one of {', '.join(map(str, choices))}")


def _convert_scalar(value: Any, hint: type, name: str) -> Any:
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    if hint is bool and isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    if isinstance(value, str) and hint in (int, float):
        try:
            return _finite(float(value), name) if hint is float else _whole(value)
        except (ValueError, OverflowError):
            pass
    elif hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return _finite(float(value), name)
    elif isinstance(value, hint) and (hint is bool) == isinstance(value, bool):
        return value
    kinds = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    raise OptionError(f"option {name} is {value!r}: it must be {kinds.get(hint, hint.__name__)}")


def _whole(text: str) -> int:
    """10000 may be written 1e4 or 10_000."""
    number = float(text)
    if number != int(number):
        raise ValueError(text)
    return int(text.replace("_", "")) if text.replace("_", "").lstrip("+-").isdigit() else int(number)


def _finite(number: float, name: str) -> float:
    if number != number or number in (float("inf"), float("-inf")):
        raise OptionError(f"option {name} must be a finite number")
    return number


def as_text(value: object) -> str:
    """An option's value as one writes it."""
    if isinstance(value, list):
        return ",".join(map(as_text, value))
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)

"""RunRecord: what run.json says. The only module that reads, checks and writes its contents.

Each schema has a migration to the next one, so the rest of the code sees the current schema only. To change the
schema: count SCHEMA up, change the dataclass and FIELDS, and add a function to MIGRATIONS.
"""

from __future__ import annotations

import hashlib
import json
import reprlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from ktiwprobe.errors import DamagedFileError, RunError
from ktiwprobe.runs.best import MEASURES

SCHEMA = 2
LENGTH = ("steps", "epochs")  # train options that do not make a run another one: it may be extended


@dataclass(frozen=True)
class RunRecord:
    """What a run is: written once, when the run is created."""

    task: str
    model: str
    attention: str
    seed: int
    kind: str
    steps: int  # the number of updates it was created for; it may have been extended since
    options: Mapping[str, Mapping[str, Any]]  # space (task, model, train) -> key -> value
    identity: tuple[str, str]  # hashes of what differs from the defaults: of the task, of the model and its training
    sites: tuple[str, ...]
    best_by: str
    corpus: Mapping[str, str]  # split -> fingerprint
    owners: Mapping[str, str]
    versions: Mapping[str, str]
    created: str | None = None  # UTC, ISO 8601; None before `Run.create`, and in runs of version 0.1
    recorded: bool = False  # in a training that is not ours
    probes: tuple[str, ...] = ()  # of a recorded run
    model_version: int = 1  # of a recorded run: the version of its model's class when it was recorded
    further: Mapping[str, Any] = field(default_factory=dict)  # keys this version does not know: kept, never read

    @property
    def fingerprint(self) -> str:
        """A hash of the recipe (not of its length) and of the corpus, which marks the run's checkpoints and states."""
        train = {key: value for key, value in self.options.get("train", {}).items() if key not in LENGTH}
        options = {**self.options, "train": train}
        recipe = [self.task, self.model, self.attention, self.seed, self.identity, options, self.corpus]
        return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """The JSON object, without loss: `read_record` gives an equal record back."""
        plain = asdict(self)
        further = plain.pop("further")
        lists = {key: list(value) if isinstance(value, tuple) else value for key, value in plain.items()}
        return {"schema": SCHEMA, **lists, **further}

    # for plugins written for version 0.1, where a record was a dict

    def __getitem__(self, key: str) -> Any:
        _warn_of_key(key)
        return self.to_dict()[key]

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, as a dict gives it. Deprecated: use the attribute of that name."""
        _warn_of_key(key)
        return self.to_dict().get(key, default)


def _warn_of_key(key: str) -> None:
    message = f"a run's record is no longer a dict: write record.{key} instead of record[{key!r}]"
    warnings.warn(message, DeprecationWarning, stacklevel=3)


def read_record(content: Any, where: str | Path = "run.json") -> RunRecord:
    """The record that a JSON object holds, of this schema or an older one; errors call the file `where`."""
    if not isinstance(content, dict):
        raise DamagedFileError(f"{where} is damaged: it is not an object")
    current = _migrate(content, where)
    if missing := [key for key in FIELDS if key not in current]:
        raise DamagedFileError(f"{where} is damaged: it lacks {', '.join(missing)}")
    for key, (fits, expected) in FIELDS.items():
        if not fits(current[key]):
            raise DamagedFileError(f"{where} is damaged: {key} is {reprlib.repr(current[key])}, not {expected}")
    values: dict[str, Any] = {key: _frozen(current[key]) for key in FIELDS}
    further = {key: value for key, value in current.items() if key not in FIELDS and key != "schema"}
    return RunRecord(**values, further=further)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _migrate(content: dict[str, Any], where: str | Path) -> dict[str, Any]:
    """The same in the current schema."""
    schema: Any = content.get("schema")
    if not _is_whole(schema) or schema < 1:
        raise DamagedFileError(f"{where} is damaged: schema is {reprlib.repr(schema)}, not a whole number from 1")
    if schema > SCHEMA:
        versions = content.get("versions")
        writer = versions.get("ktiwprobe", "") if isinstance(versions, dict) else ""
        raise RunError(
            f"{where} was written with schema {schema} by {f'ktiwprobe {writer}' if writer else 'a newer ktiwprobe'}, "
            f"and this version reads schemas up to {SCHEMA}: upgrade ktiwprobe"
        )
    for older in range(schema, SCHEMA):
        content = MIGRATIONS[older](content)
    return content


def _from_1(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 1, of version 0.1: some keys were optional, and it had no time of creation."""
    usual = {"kind": "translation", "sites": [], "best_by": "accuracy", "versions": {}, "model_version": 1}
    return {**usual, "recorded": False, "probes": [], **content, "schema": 2, "created": None}


MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _from_1}  # from a schema to the next one


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_measure(value: Any) -> bool:
    return value in MEASURES


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_pair(value: Any) -> bool:
    return _are_texts(value) and len(value) == 2


def _maps_to_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _maps_to_objects(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(inner, dict) for inner in value.values())


def _is_time(value: Any) -> bool:
    """UTC in ISO 8601, or none."""
    try:
        return value is None or datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {  # key -> the test its value must pass, and that in words
    "task": (_is_text, "text"),
    "model": (_is_text, "text"),
    "attention": (_is_text, "text"),
    "seed": (_is_whole, "a whole number"),
    "kind": (_is_text, "text"),
    "steps": (_is_whole, "a whole number"),
    "options": (_maps_to_objects, "an object of objects"),
    "identity": (_is_pair, "a list of two texts"),
    "sites": (_are_texts, "a list of texts"),
    "best_by": (_is_measure, f"one of {', '.join(MEASURES)}"),
    "corpus": (_maps_to_texts, "an object of texts"),
    "owners": (_maps_to_texts, "an object of texts"),
    "versions": (_maps_to_texts, "an object of texts"),
    "created": (_is_time, "a time such as 2026-01-31T12:00:00+00:00"),
    "recorded": (_is_flag, "true or false"),
    "probes": (_are_texts, "a list of texts"),
    "model_version": (_is_whole, "a whole number"),
}

"""RunRecord: what run.json may say, how older schemas are read, and what marks a run's files."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ktiwprobe import Run
from ktiwprobe.errors import DamagedFileError, RunError
from ktiwprobe.runs import record as module
from ktiwprobe.runs.record import FIELDS, SCHEMA, RunRecord, read_record

RECORD = RunRecord(
    task="t",
    model="m",
    attention="learned",
    seed=3,
    kind="translation",
    steps=10,
    options={"task": {"words": 5}, "model": {"width": 8}, "train": {"lr": 0.1, "steps": 10, "epochs": None}},
    identity=("", "abcdef"),
    sites=("l0.h0", "l0.h1"),
    best_by="loss",
    corpus={"train": "1" * 16, "validation": "2" * 16},
    owners={"task": "plugin", "model": "plugin"},
    versions={"ktiwprobe": "0.2.0"},
    created="2026-11-20T10:00:00.000001+00:00",
)
CONTENT = RECORD.to_dict()


def test_a_record_survives_json() -> None:
    """What is written is read back equal, also a recorded run's, and keys that this version does not know."""
    for record in (RECORD, replace(RECORD, recorded=True, probes=("alpha",), further={"mine": [1]})):
        assert read_record(json.loads(json.dumps(record.to_dict()))) == record
    assert CONTENT["schema"] == SCHEMA


@pytest.mark.parametrize("key", FIELDS)
def test_each_key_is_required_and_has_a_type(key: str) -> None:
    """Without it, or with a value of another type, the file is damaged, and the sentence names the key."""
    with pytest.raises(DamagedFileError, match=f"^here is damaged: it lacks {key}$"):
        read_record({name: value for name, value in CONTENT.items() if name != key}, "here")
    with pytest.raises(DamagedFileError, match=f"^here is damaged: {key} is 1.5, not "):
        read_record({**CONTENT, key: 1.5}, "here")


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("seed", True, "seed is True, not a whole number"),
        ("seed", "0", "seed is '0', not a whole number"),
        ("task", None, "task is None, not text"),
        ("options", {"task": [1]}, "not an object of objects"),
        ("identity", ["a"], "identity is .'a'., not a list of two texts"),
        ("best_by", "bleu", "best_by is 'bleu', not one of accuracy, loss, perplexity"),
        ("best_by", ["loss"], "best_by is"),
        ("corpus", {"train": 1}, "not an object of texts"),
        ("created", "yesterday", "created is 'yesterday', not a time such as"),
        ("created", "2026-11-20T10:00:00", "not a time such as"),
        ("recorded", 0, "recorded is 0, not true or false"),
        ("schema", None, "schema is None, not a whole number"),
        ("schema", 0, "schema is 0"),
        ("schema", "2", "schema is '2'"),
        ("schema", True, "schema is True"),
    ],
)
def test_a_wrong_value_is_one_sentence(key: str, value: Any, sentence: str) -> None:
    """A number in quotes, a truth value for a number, a list that is too short, a time without its zone."""
    with pytest.raises(DamagedFileError, match=sentence):
        read_record({**CONTENT, key: value})


@pytest.mark.parametrize("content", [None, [], "x", 1])
def test_what_is_no_object_is_damaged(content: Any) -> None:
    """JSON of another kind is no record."""
    with pytest.raises(DamagedFileError, match="it is not an object"):
        read_record(content)


def test_a_newer_schema_names_its_version() -> None:
    """It is not damaged: the sentence says what wrote it, and to upgrade."""
    newer = {"schema": SCHEMA + 1, "versions": {"ktiwprobe": "0.9"}}
    with pytest.raises(RunError, match=f"schema 3 by ktiwprobe 0.9, and this version reads schemas up to {SCHEMA}: up"):
        read_record(newer)
    with pytest.raises(RunError, match="by a newer ktiwprobe") as caught:
        read_record({"schema": 99})
    assert not isinstance(caught.value, DamagedFileError)


# older schemas


def test_schema_1_is_read(old_runs: Path) -> None:
    """The runs of version 0.1: all they say is kept, and they have no time of creation."""
    files = list(old_runs.glob("*/*/run.json"))
    assert len(files) == 3
    for file in files:
        old, record = json.loads(file.read_text()), Run.open(file.parent).record
        assert record.to_dict().items() >= {key: value for key, value in old.items() if key != "schema"}.items()
        assert (record.created, record.recorded, record.probes, record.further) == (None, False, (), {})


def test_what_schema_1_may_leave_out() -> None:
    """The first runs did not say their kind, sites, versions, or by which measure they are best."""
    optional = ("kind", "sites", "best_by", "versions", "created", "recorded", "probes")
    first = {key: value for key, value in CONTENT.items() if key not in optional} | {"schema": 1}
    record = read_record(first)
    assert (record.kind, record.sites, record.best_by, record.versions) == ("translation", (), "accuracy", {})
    with pytest.raises(DamagedFileError, match="it lacks owners"):
        read_record({key: value for key, value in first.items() if key != "owners"})


def test_migrations_are_chained(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one from each older schema, and a record of schema 1 goes through all of them."""
    assert sorted(module.MIGRATIONS) == list(range(1, SCHEMA))
    monkeypatch.setattr(module, "SCHEMA", SCHEMA + 1)
    monkeypatch.setitem(module.MIGRATIONS, SCHEMA, lambda content: {**content, "task": content["task"] + "!"})
    assert read_record({**CONTENT, "schema": 1}).task == "t!"


# what marks the files of a run


def test_the_fingerprint_is_of_recipe_and_corpus() -> None:
    """Each part of the recipe, and the corpus, gives another one; the length and the time do not."""
    others = [
        replace(RECORD, seed=4),
        replace(RECORD, task="u"),
        replace(RECORD, attention="uniform"),
        replace(RECORD, identity=("", "")),
        replace(RECORD, options={**RECORD.options, "model": {"width": 9}}),
        replace(RECORD, corpus={"validation": "2" * 16}),
    ]
    assert len({record.fingerprint for record in (RECORD, *others)}) == len(others) + 1
    longer = {**RECORD.options, "train": {"lr": 0.1, "steps": None, "epochs": 2}}
    same = replace(RECORD, steps=99, options=longer, created=None, versions={}, sites=())
    assert same.fingerprint == RECORD.fingerprint == read_record(json.loads(json.dumps(CONTENT))).fingerprint


# plugins of version 0.1


def test_a_record_reads_as_a_dict(monkeypatch: pytest.MonkeyPatch) -> None:
    """`record["task"]` and `record.get` give what they gave in version 0.1, and warn the code that uses them."""
    with pytest.warns(DeprecationWarning, match=r"write record.identity instead of record\['identity'\]") as caught:
        assert RECORD["identity"] == ["", "abcdef"]
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning):
        assert (RECORD.get("sites"), RECORD.get("none", 5)) == (["l0.h0", "l0.h1"], 5)
    with pytest.warns(DeprecationWarning), pytest.raises(KeyError):
        RECORD["none"]

"""Labels of the paper's data sets: those that are wanted, those that are known and left out, and all others."""

from __future__ import annotations

import lzma

import pytest

import texts
from ktiwprobe import build_registry
from ktiwprobe.errors import CorpusError


def load(name):
    task = build_registry().load("tasks", name)
    return task().load(task.Options())


def test_neutral_reviews_are_left_out_and_unknown_labels_are_told(tmp_path, monkeypatch):
    """Of SST's five labels the middle one is not wanted; a sixth is a mistake, told with its example."""
    monkeypatch.setenv("KTIWPROBE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = [{"id": i, "label5": (0, 2, 4)[i % 3], "text": "good bad cat"} for i in range(30)]
    for split in ("train", "validation", "test"):
        texts.write_table(tmp_path / "sst" / f"{split}.tsv", rows)
    assert len(load("sst").split("train")) == 20
    rows[4]["label5"] = 7
    texts.write_table(tmp_path / "sst" / "test.tsv", rows)
    with pytest.raises(CorpusError, match="sst has the label '7' in example 5 of a file: expected are 0, 1, 3, 4, 2"):
        load("sst")


def test_a_damaged_archive_is_told(tmp_path, monkeypatch):
    """Not as a traceback."""
    monkeypatch.setenv("KTIWPROBE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for split in ("train", "validation", "test"):
        texts.write_table(tmp_path / "sms" / f"{split}.tsv.xz", [{"label": 0, "text": "a"}])
    file = tmp_path / "sms" / "train.tsv.xz"
    file.write_bytes(lzma.compress(b"label\ttext\n" * 99)[:-20])
    with pytest.raises(CorpusError, match=r"cannot read .*train"):
        load("sms")

"""Labels of the paper's data sets: those that are wanted, those that are known and left out, and all others."""

from __future__ import annotations

import lzma

import pytest

import texts
from ktiwprobe import build_registry
from ktiwprobe.errors import CorpusError


def load(name, **options):
    task = build_registry().load("tasks", name)
    return task().load(task.Options(**options))


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


def write_sst(folder, monkeypatch, text="good bad cat"):
    """Thirty reviews a split, each of the five labels six times."""
    monkeypatch.setenv("KTIWPROBE_DATA", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    rows = [{"id": i, "label5": i % 5, "text": text} for i in range(30)]
    for split in ("train", "validation", "test"):
        texts.write_table(folder / "sst" / f"{split}.tsv", rows)


@pytest.mark.parametrize(("reading", "expected"), [("text", [0, 0, 1, 1]), ("counts", [0, 0, 1])])
def test_both_readings_of_the_papers_labels(tmp_path, monkeypatch, reading, expected):
    """0 and 1 against 3 and 4, as the text means; 1 and 2 against 4, which gives the paper's counts on the real set."""
    write_sst(tmp_path, monkeypatch)
    assert load("sst", labels=reading).split("train").y.values.tolist() == expected * 6


def test_words_of_a_list_are_kept_however_rare(tmp_path, monkeypatch):
    """By a file of words or of word vectors, or by the one in the folder `glove`; another file is another corpus."""
    write_sst(tmp_path, monkeypatch, text="good bad cat")
    rare = tmp_path / "words.txt"
    rare.write_text("cat 0.1 0.2\nbird 0.3 0.4\n")
    assert "cat" not in load("sst", least=99).source_tokens
    assert load("sst", least=99, keep=str(rare)).source_tokens[4:] == ("cat",)
    rare.write_text("good\ncat\n")
    assert load("sst", least=99, keep=str(rare)).source_tokens[4:] == ("cat", "good")
    with pytest.raises(
        CorpusError, match=r"no \.txt file .* of words or word vectors in .*glove or .*glove: put it there"
    ):
        load("sst", keep="glove")
    (tmp_path / "glove").mkdir()
    (tmp_path / "glove" / "glove.words.txt.xz").write_bytes(lzma.compress(b"bad\n"))
    assert load("sst", least=99, keep="glove").source_tokens[4:] == ("bad",)

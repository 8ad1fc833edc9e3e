"""The dictionary a model has learned."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from ktiwprobe import train
from ktiwprobe.cli import main
from ktiwprobe.dictionary import find_token, look_up
from ktiwprobe.errors import CorpusError, UnknownNameError
from ktiwprobe.extraction import Extractor

SMALL = {"task.train": 300, "task.validation": 60, "task.words": 20}


@pytest.mark.parametrize("attention", ["learned", "uniform"])
def test_a_trained_model_knows_its_words(run_tiny, tiny_registry, attention):
    """In the tiny language each word has one translation, three further on: after training it comes first."""
    run = run_tiny(steps=150, attention=attention)
    extractor = Extractor(run, tiny_registry, device="cpu")
    right = [look_up(extractor, f"a{i}", top=3).outputs[0] == f"b{(i + 3) % 8}" for i in range(8)]
    assert sum(right) >= 7


def test_p_is_a_distribution_and_falls(run_tiny, tiny_registry):
    """Probabilities fall with rank and sum to at most 1; the sentences asked are counted."""
    entry = look_up(Extractor(run_tiny(), tiny_registry, device="cpu"), "a0", top=8)
    assert list(entry.p) == sorted(entry.p, reverse=True)
    assert 0 < sum(entry.p) <= 1.0001
    assert 1 <= entry.occurrences <= 20
    assert not any(output.startswith("<") for output in entry.outputs)


def test_ibm1_gives_its_table(tmp_path):
    """A model without attention needs no sentence: p is Trans(o | i)."""
    run = train("ibm1", options=SMALL, runs=tmp_path, device="cpu")
    from ktiwprobe import build_registry

    extractor = Extractor(run, build_registry(), device="cpu")
    word = extractor.corpus.example("train", 0).source[1]
    entry = look_up(extractor, word, top=3)
    table = extractor.model(run.best_step()).table.toarray()[find_token(extractor.corpus, word)]
    expected = [extractor.corpus.target_tokens[i] for i in (-table).argsort(kind="stable") if i >= 4][:3]
    assert entry.occurrences is None
    assert entry.p[0] == pytest.approx(table[4:].max(), abs=1e-6)
    assert entry.outputs[0] in expected


def test_words_are_found_as_pieces_too(tiny_corpus):
    """As it is, or with the mark of a SentencePiece, or in lower case; else the nearest are named."""
    from dataclasses import replace

    corpus = replace(tiny_corpus, source_tokens=(*tiny_corpus.source_tokens[:-1], "▁hund"))
    assert find_token(corpus, "Hund") == len(corpus.source_tokens) - 1
    with pytest.raises(UnknownNameError, match="did you mean 'hund'"):
        find_token(corpus, "hunt")


def test_a_word_nobody_says_is_told(run_tiny, tiny_registry):
    """A token that is in no sentence of the split."""
    with pytest.raises(CorpusError, match="try --split train"):
        look_up(Extractor(run_tiny(), tiny_registry, device="cpu"), "<unk>")


def test_the_command_asks_the_group_and_the_stand_ins(tmp_path, monkeypatch):
    """One row for each run of the group and each model without attention beside it."""
    monkeypatch.chdir(tmp_path)
    for model, more in (("lstm-seq2seq", {"hidden": 8, "steps": 2}), ("ibm1", {}), ("bow-proxy", {"steps": 2})):
        train(model, "toy-translation", options={**SMALL, **more}, runs="runs", device="cpu")
    told = CliRunner().invoke(main, ["dictionary", "del", "--json", "--split", "train"], catch_exceptions=False)
    runs = [entry["run"].rpartition("/")[2] for entry in json.loads(told.stdout)]
    assert [run.partition("+")[0].partition("-s0")[0] for run in runs] == ["lstm-seq2seq", "bow-proxy", "ibm1"]
    shown = CliRunner().invoke(main, ["dictionary", "del", "--top", "2", "--split", "train"], catch_exceptions=False)
    assert shown.stdout.splitlines()[0].split() == ["del", "1", "2"]

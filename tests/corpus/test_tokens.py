"""What ids are: which are special, how tokens join to text, and who asks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ktiwprobe import Corpus, Split
from ktiwprobe.corpus.cooccurrence import table_to_show
from ktiwprobe.corpus.saved import load_corpus, save_corpus
from ktiwprobe.corpus.tokens import usual_roles
from ktiwprobe.data import SPECIALS, Ragged, TokenRoles, each_token_a_word, statistics
from ktiwprobe.signals.signal import gold_signal

OWN = (*SPECIALS, "a", "b", "c", "d")
OTHER = ("[PAD]", "[END]", "a", "b", "c", "d", "e", "f")  # as in T5: the end is 1, and 2 is a word
T5 = TokenRoles((0, 1))


def other_corpus(**more: object) -> Corpus:
    """Two pairs in a vocabulary whose second id ends a sentence; each output word is linked to one input word."""
    split = Split.of([[2, 3, 1], [4, 1]], [[2, 5, 1], [2, 1]], [[(0, 0, 1), (1, 1, 1)], [(0, 0, 0)]])
    splits = {"train": split, "validation": split}
    return Corpus("t", "translation", splits, OTHER, OTHER, source_roles=T5, target_roles=T5, **more)  # type: ignore[arg-type]


def test_roles_are_told_by_texts() -> None:
    """Ids 0 to 3 are special only where their texts say so, and so is any other id."""
    roles = usual_roles(OWN)
    assert (roles.no_word, roles.unknown, roles.special) == ((0, 1, 2), (3,), (0, 1, 2, 3))
    assert usual_roles(("the", "cat", "sat", "down")).special == ()
    assert usual_roles(("<pad>", "</s>", "a")).special == (0, 1)
    assert usual_roles(OTHER).special == ()  # such a corpus must say its roles
    assert roles.is_word(np.array([2, 3, 4])).tolist() == [False, True, True]


def test_labels_are_never_special() -> None:
    """A classifier's first labels are labels."""
    split = Split.of([[4]], [[2]])
    assert Corpus("t", "classification", {"v": split}, OWN, OWN).roles("target").special == ()


def test_tokens_join_as_they_are_spelled() -> None:
    """Words with blanks, pieces where ▁ stands, and a tokenizer's own way before both."""
    assert usual_roles(("a", "b")).text([0, 1], ("a", "b")) == "a b"
    assert usual_roles(("▁a", "b", "▁c")).text([0, 1, 2], ("▁a", "b", "▁c")) == "ab c"
    assert TokenRoles().text([0, 1], ("▁", "b")) == "▁ b"  # words, one of which is that sign
    assert TokenRoles(decode=lambda ids: f"{len(ids)} ids").text([0, 1], ()) == "2 ids"


def test_gold_judges_words_and_no_others() -> None:
    """A word whose id is 2 is judged, the end whose id is 1 is not; with words told, those decide."""
    corpus = other_corpus()
    split = corpus.split("validation")
    gold = gold_signal(split, corpus, "validation")
    judged = [[True, True, False], [True, False]]
    assert [(gold[i] > -np.inf).all(1).tolist() for i in range(2)] == judged
    assert gold[0][:2].tolist() == [[1, 0, 0], [0, 1, 0]]
    told = replace(split, y_words=Ragged.of([[0, 1, -1], [-1, -1]]))
    assert (gold_signal(told, corpus, "validation")[1] == -np.inf).all()


def test_counting_and_words_ask_the_corpus() -> None:
    """Lengths, words and the table of counts leave out what is special in this corpus, and only that."""
    corpus = other_corpus()
    found = statistics(corpus)
    assert (found["train length"], found["train target length"]) == (1.5, 1.5)
    words = each_token_a_word(corpus).split("train")
    assert words.x_words is not None
    assert words.x_words[0].tolist() == [0, 1, -1]
    assert list(words.y_text or ()) == [("a", "d"), ("a",)]
    table = table_to_show(corpus, 2)
    assert 2 in table.inputs
    assert not {0, 1} & {*table.inputs.tolist(), *table.outputs.tolist()}


def test_roles_lie_with_a_saved_corpus(tmp_path: Path) -> None:
    """A recorded run knows its special ids without its tokenizer."""
    save_corpus(other_corpus(), tmp_path / "c.safetensors")
    again = load_corpus(tmp_path / "c.safetensors")
    assert (again.roles("source"), again.roles("target")) == (T5, T5)
    assert again.fingerprints == other_corpus().fingerprints


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_new_vocabulary_has_new_roles(side: str) -> None:
    """Roles that were worked out from tokens do not stay when the tokens change."""
    plain = replace(other_corpus(), source_roles=None, target_roles=None)
    assert plain.roles(side).special == ()  # type: ignore[arg-type]
    assert replace(plain, source_tokens=OWN, target_tokens=OWN).roles(side).special == (0, 1, 2, 3)  # type: ignore[arg-type]

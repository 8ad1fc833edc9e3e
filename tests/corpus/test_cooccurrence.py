"""The count table: by its definition, whatever is shown of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tiny
from ktiwprobe import Corpus, Split
from ktiwprobe.corpus.cooccurrence import count, table_to_show, training_examples
from ktiwprobe.data import SPECIALS

SENTENCES = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6), min_size=1, max_size=8)


@given(SENTENCES, st.data())
def test_counts_are_those_of_the_definition(xs, data):
    """C[i, o] = Σ_m Σ_l Σ_t 1/L 1[x_l = i] 1[y_t = o], added up cell by cell."""
    ys = data.draw(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=5), min_size=len(xs), max_size=len(xs)))
    expected = np.zeros((6, 5))
    for x, y in zip(xs, ys, strict=True):
        for i in x:
            for o in y:
                expected[i, o] += 1 / len(x)
    assert np.allclose(count(Split.of(xs, ys), 6, 5).toarray(), expected)


def test_translation_shows_each_frequent_word_beside_its_own(tiny_corpus):
    """Where words have one translation, that is the output of the highest share beyond the usual."""
    table = table_to_show(tiny_corpus, 20)
    assert set(table.inputs) == set(range(len(SPECIALS), len(tiny.SOURCE)))
    assert not set(table.outputs) & set(range(len(SPECIALS)))
    split = tiny_corpus.split("train")
    C = count(split, tiny_corpus.source_size, tiny_corpus.target_size).toarray()
    trans = C / np.maximum(C.sum(1, keepdims=True), 1e-300)
    assert np.allclose(table.trans, trans[np.ix_(table.inputs, table.outputs)])
    translated = [4 + (i - 4 + 3) % tiny.WORDS for i in table.inputs]
    found = [table.outputs[row.argmax()] for row in table.trans / (C.sum(0) / C.sum())[table.outputs]]
    assert np.mean(np.array(found) == translated) > 0.7  # of 40 sentences; chance is 1/8


def test_no_more_words_than_asked_for(tiny_corpus):
    """Of the most frequent."""
    table = table_to_show(tiny_corpus, 3)
    assert table.trans.shape[0] == 3
    counts = np.bincount(tiny_corpus.split("train").x.values)
    assert counts[table.inputs].min() >= np.sort(np.delete(counts[4:], table.inputs - 4)).max()


def test_labels_are_told_apart_from_one_end_to_the_other():
    """Where outputs are few all are shown, and the words stand in the order of the last one's share."""
    xs = [[4, 6], [4, 7], [5, 6], [5, 7]] * 5
    ys = [[1], [1], [0], [0]] * 5
    corpus = Corpus("labels", "classification", {"train": Split.of(xs, ys)}, (*SPECIALS, *"abcd"), ("no", "yes"))
    table = table_to_show(corpus, 4)
    assert list(table.outputs) == [0, 1]
    assert (np.diff(table.trans[:, 1]) <= 0).all()
    assert {table.inputs[0], table.inputs[-1]} == {4, 5}


def test_a_stream_is_counted_from_its_beginning():
    """Endless training has a table too, always the same."""
    corpus = tiny.TinyStream().load(None)
    first, again = (training_examples(corpus) for _ in range(2))
    assert len(first) > 1000
    assert np.array_equal(first.x.values, again.x.values)
    assert table_to_show(corpus, 8).trans.sum(1) == pytest.approx(1, abs=0.35)

"""Ragged rows and lazy sentences: laws of taking, framing and counting words."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ktiwprobe.corpus.ragged import Lazy, Ragged, number_words, words_of_tokens

Rows = list[list[int]]
rows = st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=20)


@given(rows, st.randoms(use_true_random=False))
def test_rows_taken_are_those_rows(xs: Rows, random: object) -> None:
    """In the order asked for, more than once if asked for; none is legal."""
    chosen = random.choices(range(len(xs)), k=5)  # type: ignore[attr-defined]
    taken = Ragged.of(xs).take(np.array(chosen))
    assert [taken[i].tolist() for i in range(5)] == [xs[i] for i in chosen]
    assert len(Ragged.of(xs).take(np.array([], int))) == 0


@given(rows, st.lists(st.integers(), max_size=2), st.lists(st.integers(), max_size=2))
def test_a_frame_stands_around_each_row(xs: Rows, first: list[int], last: list[int]) -> None:
    """Every row has the same before and after it."""
    first, last = [f % 100 for f in first], [f % 100 for f in last]
    framed = Ragged.of(xs).framed(first, last)
    assert [framed[i].tolist() for i in range(len(xs))] == [[*first, *x, *last] for x in xs]


def test_words_are_counted_in_each_row() -> None:
    """A token that begins no word belongs to the word before it; special tokens belong to none."""
    begins = np.array([0, 1, 0, 1, 0, 1, 1], bool)
    special = np.array([1, 0, 0, 0, 1, 0, 0], bool)
    words = number_words(begins, special, np.array([0, 5, 5, 7]))
    assert [words[i].tolist() for i in range(3)] == [[-1, 0, 0, 1, -1], [], [0, 1]]


def test_tokens_that_are_words() -> None:
    """Special ids are no words and leave no text."""
    words, text = words_of_tokens(Ragged.of([[1, 4, 3, 2], [4]]), ("<pad>", "<s>", "</s>", "<unk>", "a"), (0, 1, 2))
    assert [words[i].tolist() for i in range(2)] == [[-1, 0, 1, -1], [0]]
    assert list(text) == [("a", "<unk>"), ("a",)]


def test_a_lazy_sequence_makes_what_is_asked_for() -> None:
    """Nothing is made before, and a slice is as lazy."""
    made = []
    lazy = Lazy(["a b", "c", "d"], lambda line: made.append(line) or line.split())
    part = lazy[1:]
    assert made == []
    assert (len(lazy), len(part), lazy[-1], part[0]) == (3, 2, ("d",), ("c",))
    assert made == ["d", "c"]

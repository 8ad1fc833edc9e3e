"""From signals to links: each method against its plain definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktiwprobe.compare.linking import (
    NEIGHBOURS,
    TWO_WAYS,
    above,
    columns_linked,
    combine,
    grow,
    read_method,
    rows_linked,
)
from ktiwprobe.corpus.links import Links
from ktiwprobe.errors import CorpusError, UnknownNameError, UsageError
from ktiwprobe.signals.signal import Signal, make_signal

Point = tuple[int, int]
points = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=14)
cells = st.sampled_from([-np.inf, 0.0, 1.0, 1.0, 2.0])
matrices = st.lists(
    st.integers(1, 4).flatmap(
        lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), min_size=1, max_size=4)
    ),
    min_size=1,
    max_size=4,
)


def signal_of(made: list[list[list[float]]]) -> Signal:
    """A signal from one matrix (targets x sources) a sentence."""
    lengths = np.array([len(row) for matrix in made for row in matrix])
    values = np.array([value for matrix in made for row in matrix for value in row])
    return make_signal(values, lengths, np.array([len(matrix) for matrix in made]))


def linked(links: Links, sentence: int) -> set[Point]:
    return {(i, j) for i, j, _ in links.cells[sentence].tolist()}


@given(matrices)
def test_rows_and_columns_link_to_their_highest(made: list[list[list[float]]]) -> None:
    """The first of several; none where nothing is above -inf; columns are the rows of the transposed."""
    signal = signal_of(made)
    by_rows, by_columns = rows_linked(signal), columns_linked(signal)
    across = rows_linked(signal_of([np.array(matrix).T.tolist() for matrix in made])).reversed()
    for m, matrix in enumerate(map(np.array, made)):
        heard = [j for j in range(len(matrix)) if matrix[j].max() > -np.inf]
        assert linked(by_rows, m) == {(int(matrix[j].argmax()), j) for j in heard}
        assert linked(by_columns, m) == linked(across, m)
        assert linked(above(signal, 1.0), m) == {(i, j) for j, i in np.argwhere(matrix >= 1).tolist()}


def plain_grow(forward: set[Point], backward: set[Point], method: str) -> set[Point]:
    """GROW-DIAG-FINAL(-AND) as published, by scanning the whole grid of (target, source) again and again."""
    done = forward & backward
    union = forward | backward

    def covered(target: int | None = None, source: int | None = None) -> bool:
        return any(t == target or s == source for t, s in done)

    added = True
    while added:
        added = False
        for t in range(7):
            for s in range(7):
                for dt, ds in NEIGHBOURS if (t, s) in done else ():
                    new = (t + dt, s + ds)
                    if new in union - done and not (covered(target=new[0]) and covered(source=new[1])):
                        done.add(new)
                        added = True
    for side in (forward, backward) if method != "grow-diag" else ():
        for t, s in sorted(side):
            free = [not covered(target=t), not covered(source=s)]
            if all(free) if method == "grow-diag-final-and" else any(free):
                done.add((t, s))
    return done


@settings(max_examples=300)
@given(points, points, st.sampled_from(["grow-diag", "grow-diag-final", "grow-diag-final-and"]))
def test_growing_is_as_published(forward: set[Point], backward: set[Point], method: str) -> None:
    """Exactly the plain algorithm, though points are visited once."""
    assert grow(forward, backward, method) == plain_grow(forward, backward, method)


@given(points, points)
def test_methods_lie_between_intersection_and_union(forward: set[Point], backward: set[Point]) -> None:
    """Each step adds: mutual, grow-diag, and the two ways to finish, within the union."""
    sides = [Links.of([[(i, j, 1) for j, i in side]]) for side in (forward, backward)]
    found = {method: linked(combine(*sides, method), 0) for method in TWO_WAYS}
    assert found["mutual"] == {(i, j) for j, i in forward & backward}
    assert found["union"] == {(i, j) for j, i in forward | backward}
    assert found["mutual"] <= found["grow-diag"] <= found["grow-diag-final-and"] <= found["union"]
    assert found["grow-diag"] <= found["grow-diag-final"] <= found["union"]


@given(points, points)
def test_symmetric_methods_are_symmetric(forward: set[Point], backward: set[Point]) -> None:
    """Which direction comes first does not matter to mutual, union and growing; the same twice stays the same."""
    one, other = (Links.of([[(i, j, 1) for j, i in side]]) for side in (forward, backward))
    for method in ("mutual", "union", "grow-diag"):
        assert combine(one, other, method).to_pharaoh() == combine(other, one, method).to_pharaoh()
    for method in TWO_WAYS:
        assert combine(one, one, method).to_pharaoh() == one.to_pharaoh()


def test_sentences_do_not_mix() -> None:
    """The same link of another sentence is another link."""
    one, other = Links.of([[(0, 0, 1)], [(1, 1, 1)]], "a"), Links.of([[(1, 1, 1)], [(1, 1, 1)]], "b")
    assert combine(one, other, "mutual").to_pharaoh() == ["", "1-1"]
    with pytest.raises(CorpusError, match="a has 2 sentence pairs and b has 1: line must match line"):
        combine(one, Links.of([[]], "b"), "mutual")


def test_methods_are_read() -> None:
    """A name, and the threshold of the one that has one; others are refused with what there is."""
    assert read_method("threshold:at=0.2") == ("threshold", 0.2)
    assert read_method("mutual") == ("mutual", None)
    with pytest.raises(UnknownNameError, match=r"method 'grow-dia'.*did you mean 'grow-diag'"):
        read_method("grow-dia")
    with pytest.raises(UsageError, match=r"write threshold:at=0\.2"):
        read_method("threshold")
    with pytest.raises(UsageError, match="'argmax' takes no options"):
        read_method("argmax:at=1")

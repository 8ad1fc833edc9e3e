"""Files of links, and links as they are kept."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktiwprobe.corpus.links import Links, read_links
from ktiwprobe.errors import CorpusError, UsageError

link = st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 1))
rows = st.lists(st.lists(link, max_size=8), min_size=1, max_size=6)


@given(rows)
def test_links_come_back_from_their_lines(made: list[list[tuple[int, int, int]]]) -> None:
    """Written and read they are the same: each once, in order, the surer of two; empty lines are sentences too."""
    links = Links.of(made)
    assert len(links) == len(made)
    for row, line in zip(made, links.to_pharaoh(), strict=True):
        surest = {(i, j): max(s for a, b, s in row if (a, b) == (i, j)) for i, j, _ in row}
        assert line == " ".join(f"{i}{'-' if surest[i, j] else 'p'}{j}" for i, j in sorted(surest))


@given(rows)
def test_reversing_twice_changes_nothing(made: list[list[tuple[int, int, int]]]) -> None:
    """Source and target change over, and back."""
    links = Links.of(made)
    back = links.reversed()
    assert {(j, i) for i, j, _ in links.cells.values.tolist()} == {(i, j) for i, j, _ in back.cells.values.tolist()}
    assert back.reversed().to_pharaoh() == links.to_pharaoh()


@pytest.mark.parametrize(("index", "text"), [(0, "0-1 2p0 1?1\n\n3-3\n"), (1, "1-2 3p1 2?2\r\n\r\n4-4\r\n")])
def test_forms_of_links_in_the_field(tmp_path, index, text):
    """A dash is sure, p and ? are possible; words counted from 0 or 1; empty lines kept; any line ends."""
    (tmp_path / "a.align").write_text(text, newline="")
    links = read_links(tmp_path / "a.align", index=index)
    assert links.to_pharaoh() == ["0-1 1p1 2p0", "", "3-3"]
    assert links.name == "a.align"


def test_gold_of_one_object_a_line(tmp_path):
    """Words, sure links and possible ones."""
    record = {"id": 7, "src": ["a", "b"], "tgt": ["c"], "sure": [[0, 0]], "possible": [[1, 0]]}
    (tmp_path / "gold.jsonl").write_text(json.dumps(record) + "\n")
    gold = read_links(tmp_path / "gold.jsonl")
    assert gold.to_pharaoh() == ["0-0 1p0"]
    assert gold.text == ([["a", "b"]], [["c"]])
    assert gold.reversed().text == ([["c"]], [["a", "b"]])


@pytest.mark.parametrize(
    ("name", "text", "index", "sentence"),
    [
        ("a", "0-0\n0:1\n", 0, r"line 2 has '0:1': a link is written 3-4, or 3p4 or 3\?4"),
        ("a", "0-0 -1-2\n", 0, "line 1 has '-1-2'"),
        ("a", "1-1\n1-0\n", 1, "line 2 has a link to word 0, and words are said to be counted from 1"),
        ("a.jsonl", '{"src": ["a"], "tgt": ["b"], "sure": [[0, 1]]}\n', 0, "line 1 has the link 0-1, and the sentence"),
        ("a.jsonl", '{"sure": [[0, 1]]}\n{"sure": [3]}\n', 0, "line 2 is not an object with src, tgt, sure"),
        ("a.jsonl", "0-0\n", 0, "line 1 is not an object"),
    ],
)
def test_what_is_wrong_with_links_is_told_by_line(tmp_path, name, text, index, sentence):
    """One sentence with the file and the line."""
    (tmp_path / name).write_text(text)
    with pytest.raises(CorpusError, match=sentence):
        read_links(tmp_path / name, index=index)


def test_links_that_are_not_there(tmp_path):
    """A missing file, an index that is none, more or fewer sentences, words that a sentence does not have."""
    with pytest.raises(CorpusError, match="there is no file of links"):
        read_links(tmp_path / "nothing")
    with pytest.raises(UsageError, match="the index of links is 2"):
        read_links(tmp_path / "nothing", index=2)
    links = Links.of([[(0, 0, 1)], [(0, 2, 1)]], "mine")
    with pytest.raises(CorpusError, match="mine has 2 sentence pairs, and there are 1"):
        links.check_inside(np.array([1]), np.array([1]))
    with pytest.raises(CorpusError, match=r"mine line 2 has the link 0-2, .* has 1 and 2 words: is the index right"):
        links.check_inside(np.array([1, 1]), np.array([1, 2]))
    links.check_inside(np.array([1, 1]), np.array([1, 3]))

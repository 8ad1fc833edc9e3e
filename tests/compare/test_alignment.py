"""Alignments of what SPECs mean, and their scores."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktiwprobe import align, extract
from ktiwprobe.compare.alignment import MEASURES, Aligner, Score, score
from ktiwprobe.corpus.links import Links, read_links
from ktiwprobe.errors import CorpusError, SpecError, UnknownNameError, UsageError
from ktiwprobe.views.tables import show_score

link = st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 1))
rows = st.lists(st.lists(link, max_size=8), min_size=3, max_size=3)


@given(rows, rows)
def test_measures_are_what_they_say(ours: list[list], theirs: list[list]) -> None:
    """By sets of links, summed over sentences."""
    links, gold = Links.of(ours), Links.of(theirs)
    found = {(m, i, j) for m in range(3) for i, j, _ in links.cells[m].tolist()}
    possible = {(m, i, j) for m in range(3) for i, j, _ in gold.cells[m].tolist()}
    certain = {(m, i, j) for m in range(3) for i, j, s in gold.cells[m].tolist() if s}
    result = score(links, gold)
    assert (result.links, result.sure, result.possible) == (len(found), len(certain), len(possible - certain))
    a_s, a_p = len(found & certain), len(found & possible)
    if found and certain:
        precision, recall = a_p / len(found), a_s / len(certain)
        assert result.precision == pytest.approx(precision)
        assert result.recall == pytest.approx(recall)
        assert result.aer == pytest.approx(1 - (a_s + a_p) / (len(found) + len(certain)))
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0
        assert result.f1 == pytest.approx(f1)
    if not found:
        assert result.precision is None


@given(rows)
def test_gold_against_itself_has_no_error(theirs: list[list]) -> None:
    """AER 0 and recall 1 for the sure links, and for all links; with intervals that are points."""
    gold = Links.of(theirs)
    certain = [[cell for cell in gold.cells[m].tolist() if cell[2]] for m in range(3)]
    if any(certain):
        for ours in (gold, Links.of(certain)):
            result = score(ours, gold)
            assert (result.aer, result.precision, result.recall, result.f1) == (0, 1, 1, 1)
            assert result.ci["aer"] == (0, 0)


def test_intervals_hold_the_value() -> None:
    """A bootstrap over sentences, the same every time."""
    rng = np.random.default_rng(0)
    gold = Links.of([[(i, i, 1) for i in range(9)] for _ in range(50)])
    ours = Links.of([[(i, int(rng.integers(2)) + i, 1) for i in range(9)] for _ in range(50)])
    result = score(ours, gold)
    for name in MEASURES:
        low, high = result.ci[name]
        assert low < getattr(result, name) < high
        assert high - low < 0.2
    assert score(ours, gold) == result
    assert score(Links.of([[(0, 0, 1)]]), Links.of([[(0, 0, 1)]])).ci["aer"] is None


def test_gold_of_other_sentences_is_refused() -> None:
    """Another number of them, links outside, other words: each in a sentence."""
    ours = Links.of([[(0, 0, 1)]], "ours", ([["a", "b"]], [["c"]]))
    with pytest.raises(CorpusError, match=r"gold has 2 sentence pairs and ours has 1: .* is it the right split"):
        score(ours, Links.of([[], []], "gold"))
    with pytest.raises(CorpusError, match=r"gold line 1 has the link 1-1, .* 2 and 1 words: is the index right"):
        score(ours, Links.of([[(1, 1, 1)]], "gold"))
    with pytest.raises(CorpusError, match=r"sentence 0 of gold is 'a x' and of ours 'a b': .*the right direction"):
        score(ours, Links.of([[(0, 0, 1)]], "gold", ([["a", "x"]], [["c"]])))


@pytest.fixture
def wishes(tiny_run, tiny_registry, tmp_path):
    return {"runs": tmp_path / "runs", "registry": tiny_registry, "device": "cpu"}


def test_every_word_of_the_target_is_linked(tiny_run, tiny_registry, wishes):
    """argmax of alpha links each word once, to a word, never to </s>; the Python signal gives the same."""
    links = align("alpha@last", **wishes)
    alpha = extract(tiny_run, "alpha", at="last", device="cpu", registry=tiny_registry)
    assert align(alpha, **wishes).to_pharaoh() == links.to_pharaoh()
    for m in range(len(links)):
        words = alpha[m].shape[0] - 1
        assert links.cells[m][:, 1].tolist() and sorted(links.cells[m][:, 1].tolist()) == list(range(words))
        assert links.cells[m][:, 0].max() < words
        best = alpha[m][:words, :words].argmax(1)
        assert {(int(best[j]), j) for j in range(words)} == {(i, j) for i, j, _ in links.cells[m].tolist()}
    assert "alpha@" in links.name and links.name.endswith("argmax")


def test_tokens_are_words_where_every_word_is_a_token(wishes):
    """The two levels say the same."""
    assert align("beta", level="token", **wishes).to_pharaoh() == align("beta", **wishes).to_pharaoh()
    with pytest.raises(UnknownNameError, match="level 'wort'"):
        align("beta", level="wort", **wishes)


def test_the_tasks_own_gold(tiny_run, wishes):
    """In the tiny task word t is word t; gold is sure, and perfect against itself."""
    aligner = Aligner(**wishes)
    gold = aligner.gold()
    assert all(i == j and s == 1 for i, j, s in gold.cells.values.tolist())
    assert score(align("gold", aligner=aligner), gold).aer == 0


def test_gold_is_that_of_the_run_that_is_aligned(run_tiny, wishes):
    """Not that of the latest run, which may be of another corpus."""
    first = run_tiny(name="first", steps=5)
    run_tiny(name="second", options={"variety": 1}, steps=5)
    aligner = Aligner(**wishes)
    assert score(align(f"{first.name}:alpha@last", aligner=aligner), aligner.gold()).sentences == 20
    words = align(f"{first.name}:alpha@last", aligner=aligner).text[0][0]
    assert words == align(f"{first.name}:beta@last", **wishes).text[0][0]
    assert aligner.gold().text[0][0] == words


def test_saved_signals_and_links_are_read(tiny_run, wishes, tmp_path):
    """A signal file has the words of the latest run; a file of links is links."""
    links = align("alpha@last", **wishes)
    stored = tiny_run.signal_path("validation", 30, "alpha")
    assert align(str(stored), **wishes).to_pharaoh() == links.to_pharaoh()
    (tmp_path / "a.align").write_text("".join(f"{line}\n" for line in links.to_pharaoh()))
    assert align(str(tmp_path / "a.align"), **wishes).to_pharaoh() == links.to_pharaoh()
    both = align(str(tmp_path / "a.align"), str(tmp_path / "a.align"), "mutual", **wishes)
    assert both.to_pharaoh() == links.to_pharaoh() == read_links(tmp_path / "a.align").to_pharaoh()
    with pytest.raises(UsageError, match=r"a\.align is one direction: pass the other with v"):
        align(str(tmp_path / "a.align"), method="mutual", **wishes)
    with pytest.raises(UsageError, match="has links already"):
        align(str(tmp_path / "a.align"), method="threshold:at=0.5", **wishes)


def test_one_signal_has_two_directions(wishes):
    """Without v the columns of u are the way back."""
    rows, both = align("beta@last", **wishes), align("beta@last", method="mutual", **wishes)
    assert set(both.keys(rows)) <= set(rows.keys(both))
    grown = align("beta@last", method="grow-diag-final-and", **wishes)
    assert set(both.keys(grown)) <= set(grown.keys(both))


def test_what_cannot_be_aligned_is_told(wishes):
    """A way back that is none, a method for one direction with two, many checkpoints, an unknown method."""
    with pytest.raises(CorpusError, match=r"is not the way back of .*: sentence 0 is from .*-o reverse=true"):
        align("alpha@last", "beta@last", **wishes)
    with pytest.raises(UsageError, match="'argmax' reads one direction: leave v out"):
        align("alpha@last", "beta@last", "argmax", **wishes)
    with pytest.raises(SpecError, match="alpha@max is many checkpoints"):
        align("alpha@max", **wishes)
    with pytest.raises(UnknownNameError, match=r"did you mean 'mutual'"):
        align("alpha", method="mutal", **wishes)


def test_scores_are_shown_in_every_form():
    """Intervals beside values; JSON, CSV and LaTeX for programs and papers; unknown values stay unknown."""
    ours, gold = Links.of([[(0, 0, 1)], [(1, 0, 1)]], "a_b"), Links.of([[(0, 0, 1)], [(0, 0, 0)]], "g")
    result = score(ours, gold)
    assert "AER        0.333" in show_score(result)
    record = json.loads(show_score(result, "json"))
    assert record["aer"] == result.aer and record["aer_ci"] == list(result.ci["aer"])
    assert (record["alignment"], record["gold"], record["sure"], record["possible"]) == ("a_b", "g", 1, 1)
    head, line = show_score(result, "csv").splitlines()
    assert dict(zip(head.split(","), line.split(","), strict=True))["recall"] == "1.0"
    assert r"a\_b & 0.333 & 0.500 & 1.000" in show_score(result, "latex")
    nothing = Score(None, None, None, None, dict.fromkeys(MEASURES), 1, 0, 0, 0)
    assert "precision  -" in show_score(nothing)
    assert "links,,,,,1,0,0,0,gold" in show_score(nothing, "csv")

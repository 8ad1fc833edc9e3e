"""Signals over words: laws of pooling against plain loops, and what can then be compared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktiwprobe import Signal, agree, build_registry, extract, train
from ktiwprobe.compare import metrics
from ktiwprobe.compare.agreement import add_up
from ktiwprobe.data import Ragged, Split
from ktiwprobe.errors import ContractError, CorpusError, UnknownNameError
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.signals.pooling import Words, at_level, over_words, words_of
from ktiwprobe.signals.signal import make_signal

POOLINGS = [("sum", "mean"), ("max", "joint"), ("sum", "sum"), ("max", "mean"), ("mean", "max")]
numbering = st.lists(st.sampled_from([-1, 0, 0, 1]), min_size=1, max_size=6)  # -1: special; 1: the next word begins
sentences = st.lists(st.tuples(numbering, numbering), min_size=1, max_size=4)


def numbered(steps: list[int]) -> list[int]:
    """Numbers of words that rise one by one, with special tokens in between."""
    words, last = [], -1
    for step in steps:
        last += step == 1 or (step == 0 and last < 0)
        words.append(-1 if step == -1 else last)
    return words


def signal_over(x: list[list[int]], y: list[list[int]], *, seed: int = 0, **meta: object) -> Signal:
    """Random numbers over tokens that are pieces of the words numbered in x and y."""
    lengths = np.array([len(row) for row, other in zip(x, y, strict=True) for _ in other])
    values = np.random.default_rng(seed).normal(size=lengths.sum())
    signal = make_signal(values, lengths, np.array([len(row) for row in y]), meta=dict(meta))
    words = Words(Ragged.of(x), Ragged.of(y))
    return replace(signal, words=lambda: words)


def plainly(matrix: np.ndarray, x: list[int], y: list[int], how: tuple[str, str]) -> np.ndarray:
    """The same by loops, as the documentation says it."""
    rules = {"sum": np.sum, "mean": np.mean, "max": np.max, "joint": joint}
    out = np.full((max(y) + 1, max(x) + 1), -np.inf)
    for j in set(y) - {-1}:
        for i in set(x) - {-1}:
            columns, rows = ([n for n, word in enumerate(side) if word == here] for side, here in ((x, i), (y, j)))
            pieces = [rules[how[0]](matrix[t, columns]) for t in rows]
            out[j, i] = rules[how[1]](np.array(pieces))
    return out


def joint(gammas: np.ndarray) -> float:
    p = np.prod(1 / (1 + np.exp(-gammas)))
    return float(np.log(p / (1 - p)))


@given(sentences, st.sampled_from(POOLINGS))
def test_pooling_is_what_it_says(made: list[tuple[list[int], list[int]]], how: tuple[str, str]) -> None:
    """Over inputs first, then over outputs; special tokens have no cell."""
    x, y = ([numbered(pair[side]) for pair in made] for side in (0, 1))
    tokens = signal_over(x, y, pooling=how)
    words = over_words(tokens)
    assert len(words) == len(tokens)
    for row in range(len(x)):
        matrix = plainly(tokens[row], x[row], y[row], how)
        assert matrix.size == words[row].size
        assert not matrix.size or np.allclose(words[row], matrix, atol=1e-4)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=4), st.sampled_from(POOLINGS))
def test_one_piece_words_stay_as_they_are(sizes: list[tuple[int, int]], how: tuple[str, str]) -> None:
    """To the last bit, however the quantity is pooled."""
    signal = signal_over([list(range(x)) for x, _ in sizes], [list(range(y)) for _, y in sizes], pooling=how)
    assert np.array_equal(over_words(signal).values, signal.values)
    assert np.array_equal(over_words(signal).lengths, signal.lengths)
    other = replace(signal, values=signal.values[:, ::-1].copy())
    rule = metrics.Agreement()
    assert add_up(signal, other, rule).value == add_up(at_level(signal, "word"), at_level(other, "word"), rule).value


def test_a_word_beside_longer_ones_stays_as_it_is() -> None:
    """Certain log-odds of one piece do not suffer from the way back from probabilities."""
    signal = replace(signal_over([[0]], [[0, 1, 1]], pooling=("max", "joint")), values=np.array([[40, 40, 41]], "f"))
    assert over_words(signal).values[0, 0] == np.float32(40)
    assert over_words(signal).values[0, 1] == pytest.approx(40 - np.log1p(np.exp(-1)), abs=1e-4)


def test_unseen_pairs_stay_unseen() -> None:
    """-inf over all pieces is -inf; over one piece of an input word the other counts."""
    signal = signal_over([[0, 0, 1]], [[0, 0]], pooling=("max", "joint"))
    signal = replace(signal, values=np.array([[-np.inf, 1, -np.inf, 2, -np.inf, 3]], np.float32))
    assert over_words(signal).values[0].tolist() == [pytest.approx(joint(np.array([1, 2])), abs=1e-5), -np.inf]


def test_a_word_without_a_token_has_cells_that_say_nothing() -> None:
    """So that two tokenisers, of which one drops it, can still be compared."""
    signal = signal_over([[0, 2]], [[1]])
    words = replace(signal.words(), x_text=[("a", "\u200b", "c")], y_text=[("", "b")])
    pooled = over_words(replace(signal, words=lambda: words))
    assert pooled[0].shape == (2, 3)
    assert np.isneginf(pooled[0]).tolist() == [[True, True, True], [False, True, False]]


def test_rows_may_be_prefixes() -> None:
    """Under a causal model a word sees the words that any of its tokens sees."""
    signal = make_signal(np.arange(6.0), np.array([1, 2, 3]), np.array([3]), np.array([0, 0, 1, 0, 1, 2]))
    words = Words(Ragged.of([[0, 0, 1]]), Ragged.of([[0, 0, 1]]))
    pooled = over_words(replace(signal, words=lambda: words, meta={"pooling": ("max", "max")}))
    assert pooled.lengths.tolist() == [1, 2]
    assert pooled.values[0].tolist() == [2, 4, 5]


def test_sites_are_pooled_apart() -> None:
    """Each site as it would be alone."""
    signal = signal_over([[0, 0, 1]], [[0, 0, 1]], pooling=("sum", "mean"))
    two = replace(signal, values=np.concatenate([signal.values, signal.values * 2]), sites=("a", "b"))
    assert np.allclose(over_words(two).values, [over_words(signal).values[0], 2 * over_words(signal).values[0]])


def test_what_cannot_be_pooled_is_told() -> None:
    """A probe's unknown rule, a level that is none, words that are not known, words of something else."""
    signal = signal_over([[0]], [[0]], name="mine", pooling=("sum", "median"))
    with pytest.raises(ContractError, match=r"mine is pooled by .*median.*: pooling must be two of sum, mean, max"):
        over_words(signal)
    with pytest.raises(UnknownNameError, match=r"level 'words'.* did you mean 'word'"):
        at_level(signal, "words")
    with pytest.raises(CorpusError, match="signal does not know the words of its tokens"):
        over_words(make_signal(np.ones(1), np.ones(1, int), np.ones(1, int)))
    with pytest.raises(CorpusError, match="its cells must be those of the tokens"):
        over_words(replace(signal, words=signal_over([[0]], [[0, 1]]).words, meta={}))
    with pytest.raises(CorpusError, match=r"task 'odd' does not tell .*: compare tokens"):
        words_of(Split.of([[4]], [[4]]), "odd")
    with pytest.raises(CorpusError, match="sentence 0 has tokens of word 1 and only 1 words"):
        assert Words(Ragged.of([[0, 1]]), Ragged.of([[0]]), [("a",)], [("b",)]).counts


def test_runs_that_cut_words_otherwise_are_compared_by_words(data_folder, tmp_path) -> None:
    """Pieces of two sizes share words; other text does not, and without --level word the hint names it."""
    lines = [
        f"{a}{b}{a} {b}{a} {a}" for a in ("bela", "kilo", "dor", "fumi") for b in ("tan", "gu", "rek", "sol", "mi")
    ]
    for side, words in (("x", lines), ("y", [line[::-1] for line in lines]), ("z", lines[::-1])):
        (tmp_path / side).write_text("\n".join(words) + "\n")
    settled = {"source": str(tmp_path / "x"), "target": str(tmp_path / "y"), "iterations": 1}
    runs = [
        train("ibm1", "parallel-text", runs=tmp_path / "runs", device="cpu", options={**settled, **more})
        for more in ({"pieces": 40}, {"pieces": 60}, {"pieces": 60, "target": str(tmp_path / "z")})
    ]
    small, large, other = (extract(run, "alpha", at="last", device="cpu") for run in runs)
    assert len(small.lengths) != len(large.lengths)
    result = agree(small, large, level="word")
    assert result.rows == agree(large, small, level="word").rows > 0
    with pytest.raises(CorpusError, match=r"different corpora.* or words of the same text"):
        agree(small, large)
    with pytest.raises(CorpusError, match=r"different corpora \(words-"):
        agree(small, other, level="word")


def test_attention_over_words_adds_up(tiny_run, tiny_registry) -> None:
    """Rows of alpha over words sum to 1 less what special tokens have; the text is words."""
    tokens = Extractor(tiny_run, tiny_registry, device="cpu").signal("alpha", "last")
    words = over_words(tokens)
    for m in range(len(words)):
        matrix = tokens[m]
        assert np.allclose(words[m].sum(1), 1 - matrix[:-1, -1], atol=1e-5)  # </s> is last, on both sides
        assert len(words.text(m)[0]) == matrix.shape[1] - 1
    assert words.meta["fingerprint"].startswith("words-")


def test_a_parallel_task_pools_its_gold(data_folder, tmp_path) -> None:
    """Links of words are links of all of their pieces, and come back as links of words."""
    rows = [("ab cd", "cd ab") for _ in range(20)]
    for side in (0, 1):
        (tmp_path / str(side)).write_text("".join(f"{row[side]}\n" for row in rows))
    (tmp_path / "links").write_text("0-1 1p0\n" * 20)
    files = {"source": str(tmp_path / "0"), "target": str(tmp_path / "1"), "alignments": str(tmp_path / "links")}
    run = train("ibm1", "parallel-text", runs=tmp_path / "r", options={**files, "pieces": 20}, device="cpu")
    gold = over_words(Extractor(run, build_registry(), device="cpu").gold())
    assert gold[0].tolist() == [[0, 0.5], [1, 0]]

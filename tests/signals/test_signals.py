"""Signals: ragged arrays, their files, and what makes two of them comparable."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from ktiwprobe import Corpus, Signal, Split
from ktiwprobe.data import EOS
from ktiwprobe.errors import CorpusError, KtiwprobeError, SpecError, UnknownNameError, UsageError
from ktiwprobe.signals.signal import gold_signal, load_signal, make_signal

SHAPES = [[3, 3], [1], [2, 3, 4], [2]]  # lengths of the rows of each sentence; the third is causal


def make(shapes: list[list[int]], *, sites: int = 1, seed: int = 0, **meta: str) -> Signal:
    """A random signal over rows of these lengths, one value of it -inf."""
    lengths = np.array([n for sentence in shapes for n in sentence], int)
    values = np.random.default_rng(seed).normal(size=(sites, lengths.sum())).astype(np.float32)
    values[:, -1:] = -np.inf
    names = () if sites == 1 else tuple(f"h{k}" for k in range(sites))
    return make_signal(values, lengths, np.array([len(s) for s in shapes], int), sites=names, meta=meta)


def assert_same(a: Signal, b: Signal) -> None:
    """The two say the same of the same cells."""
    for name in ("values", "lengths", "rows", "positions"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert a.sites == b.sites


ragged = st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=5)


@given(ragged, st.integers(1, 3))
def test_matrices_hold_every_value(shapes: list[list[int]], sites: int) -> None:
    """The matrices of all sentences, read row by row without their NaN, are the values."""
    signal = make(shapes, sites=sites)
    matrices = [matrix.reshape(sites, *matrix.shape[-2:]) for matrix in signal]
    assert len(matrices) == len(signal) == len(shapes)
    together = [matrix[:, ~np.isnan(matrix[0])] for matrix in matrices]
    np.testing.assert_array_equal(np.concatenate([np.empty((sites, 0)), *together], 1), signal.values)


@given(ragged)
def test_by_length_covers_every_row_once(shapes: list[list[int]]) -> None:
    """Rows come once each, whole, with rows of their length only; empty rows have nothing to give."""
    signal = make(shapes)
    seen: list[int] = []
    for numbers, block in signal.by_length():
        assert block.shape == (len(numbers), signal.lengths[numbers[0]])
        for number, row in zip(numbers, block, strict=True):
            np.testing.assert_array_equal(row, signal.values[0, signal.starts[number] : signal.starts[number + 1]])
        seen.extend(numbers)
    assert sorted(seen) == np.flatnonzero(signal.lengths).tolist()


def test_a_causal_sentence_is_nan_where_rows_may_not_look() -> None:
    """Rows of different lengths make a matrix with NaN on the right."""
    matrix = make(SHAPES)[2]
    assert matrix.shape == (3, 4)
    np.testing.assert_array_equal(np.isnan(matrix).sum(1), [2, 1, 0])
    assert np.isnan(make(SHAPES, sites=2)[2]).sum() == 6


def test_columns_place_cells_that_are_no_prefix() -> None:
    """Where a row looks at positions 1 and 3 only, the others are NaN, in matrices and frames alike."""
    columns = np.array([1, 3, 0, 2])
    signal = make_signal(np.arange(4.0), np.array([2, 2]), np.array([2]), columns)
    np.testing.assert_array_equal(signal[0], [[np.nan, 0, np.nan, 1], [2, np.nan, 3, np.nan]])
    assert signal.to_frame()["l"].tolist() == [1, 3, 0, 2]


def test_sentences_are_counted_from_both_ends() -> None:
    """Index -1 is the last sentence, and one too many says how many there are."""
    signal = make(SHAPES)
    np.testing.assert_array_equal(signal[-1], signal[3])
    for wrong in (4, -5):
        with pytest.raises(IndexError, match="of 4"):
            signal[wrong]


def test_several_sites_are_read_as_one() -> None:
    """mean, max, a name and a number from either end; the name says which, before the step."""
    signal = make(SHAPES, sites=3, name="toy/m-s0:alpha@10")
    np.testing.assert_allclose(signal.one_site().values[0], signal.values.mean(0))
    np.testing.assert_array_equal(signal.one_site("max").values[0], signal.values.max(0))
    for which, row in (("h1", 1), ("2", 2), ("-3", 0)):
        one = signal.one_site(which)
        np.testing.assert_array_equal(one.values, signal.values[[row]])
        assert one.name == f"toy/m-s0:alpha[{which}]@10"
        assert one.sites == (which,)
    single = make(SHAPES)
    assert single.one_site("mean") is single.one_site("max") is single


def test_a_site_is_named_before_the_step() -> None:
    """Whatever characters the run's name has, and also where no step is told."""
    for name, named in (
        ("a@b/m:alpha@10", "a@b/m:alpha[max]@10"),
        ("a@b/m:alpha", "a@b/m:alpha[max]"),
        ("u", "u[max]"),
    ):
        assert make(SHAPES, sites=2, name=name).one_site("max").name == named


@pytest.mark.parametrize("which", ["h9", "3", "-4", "--1", "²", ""])
def test_an_unknown_site_lists_the_known(which: str) -> None:
    """A site that is not there is an error with the names that are."""
    with pytest.raises(UnknownNameError, match="h0, h1, h2, max, mean"):
        make(SHAPES, sites=3).one_site(which)


def test_only_the_same_cells_compare() -> None:
    """Other corpora, sentences, rows or positions are each an error that names both signals and the difference."""
    one = make(SHAPES, name="one", fingerprint="aa")
    one.check_same_cells(make(SHAPES, seed=1))
    one.check_same_cells(make(SHAPES, fingerprint="aa"))
    moved = make_signal(one.values, one.lengths, one.rows, one.positions + 1)
    same = make_signal(one.values, one.lengths, one.rows, one.positions)
    one.check_same_cells(same)
    for other, problem in (
        (make(SHAPES, name="two", fingerprint="bb"), r"one and two .* different corpora \(aa, bb\)"),
        (make(SHAPES[:-1]), "same sentences: 4 against 3"),
        (make([[3, 4], *SHAPES[1:]]), "same rows: number 1 has 3 against 4"),
        (moved, "same positions: number 0 has 0 against 1"),
    ):
        with pytest.raises(CorpusError, match=problem):
            one.check_same_cells(other)
        with pytest.raises(CorpusError):
            other.check_same_cells(one)


def test_a_frame_has_a_line_for_every_cell() -> None:
    """Sentence, t, l and value (or the name of each site), and the tokens where they are known."""
    signal = make(SHAPES)
    frame = signal.to_frame()
    assert frame.columns.tolist() == ["sentence", "t", "l", "value"]
    for sentence, t, l, value in frame.itertuples(index=False):  # noqa: E741
        assert signal[sentence][t, l] == value
    assert len(frame) == signal.values.size
    words = Signal(signal.values, signal.lengths, signal.rows, text=lambda s: (f"{s}abcd", "xyz"))
    frame = words.to_frame()
    assert frame["source"][0] == "0"
    assert frame["target"].tolist()[-1] == "x"
    assert make(SHAPES, sites=2).to_frame().columns.tolist()[-2:] == ["h0", "h1"]


def test_a_notebook_shows_its_name_and_first_sentence() -> None:
    """Name and tokens are escaped, every cell has its value as a title, and a long sentence is cut."""
    signal = make([[2] * 3, [9] * 9], name="<b>:alpha@1")
    shown = replace(signal, text=lambda i: (("<i>", "x"), ("p", "q", "r")))._repr_html_()
    assert "&lt;b&gt;:alpha@1" in shown
    assert "&lt;i&gt;" in shown
    titles = [float(title) for title in re.findall(r'title="([^"]+)"', shown)]
    assert np.allclose(titles, signal[0].ravel(), rtol=1e-3)
    assert make([[99] * 99])._repr_html_().count("<tr") == 25
    assert "3 sites" in make(SHAPES, sites=3)._repr_html_()


@pytest.mark.parametrize("sites", [1, 2])
@pytest.mark.parametrize("with_columns", [False, True])
def test_safetensors_round_trip(tmp_path: Path, sites: int, with_columns: bool) -> None:
    """Saving and loading keeps values, shape, sites and identity."""
    signal = make(SHAPES, sites=sites, name="toy/m-s0:beta@5", fingerprint="aa")
    columns = signal.positions + 2 if with_columns else None
    signal = make_signal(signal.values, signal.lengths, signal.rows, columns, signal.sites, signal.meta)
    signal.save(tmp_path / "beta.safetensors")
    again = load_signal(tmp_path / "beta.safetensors")
    assert_same(signal, again)
    assert again.meta == signal.meta
    assert (again.columns is None) == (not with_columns)


def test_npz_and_jsonl_are_read(tmp_path: Path) -> None:
    """A signal computed elsewhere, in either format, is the same signal, named after its file."""
    signal = make(SHAPES)
    np.savez(tmp_path / "u.npz", values=signal.values[0], lengths=signal.lengths, rows=signal.rows)
    matrices = [[row[~np.isnan(row)].tolist() for row in matrix] for matrix in signal]
    (tmp_path / "u.jsonl").write_text("".join(json.dumps({"rows": matrix}) + "\n" for matrix in matrices))
    for name in ("u.npz", "u.jsonl"):
        again = load_signal(tmp_path / name)
        assert_same(signal, again)
        assert again.name == name


def test_several_sites_in_an_npz_are_numbered(tmp_path: Path) -> None:
    """Rows of values that bring no names are called 0, 1, ..."""
    signal = make(SHAPES, sites=2)
    np.savez(tmp_path / "u.npz", values=signal.values, lengths=signal.lengths, rows=signal.rows)
    assert load_signal(tmp_path / "u.npz").sites == ("0", "1")


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.jsonl", b'{"rows": [[1, 2]]}\n{"row": [[1]]}\n', "line 2 is not an object"),
        ("b.jsonl", b"[1]\n", "line 1"),
        ("c.jsonl", b'{"rows": [1, 2]}\n', "line 1"),
        ("d.jsonl", b'{"rows": [["x"]]}\n', "line 1"),
        ("e.jsonl", b'{"rows": [[null]]}\n', "line 1"),
        ("f.jsonl", b'{"rows": [[NaN]]}\n', "NaN"),
        ("g.jsonl", b'{"rows": [[1e39]]}\n', r"\+inf"),
        ("h.jsonl", b"\xff\xfe\n", "not a text file"),
        ("i.npz", b"", "not an npz file"),
        ("j.npz", b"PK\x03\x04 and then nothing", "not an npz file"),
        ("k.npz", b"hello", "not an npz file"),
        ("l.safetensors", b"hello", "damaged"),
    ],
)
def test_a_malformed_file_is_one_sentence(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    """What is wrong with a file is said in a line that names it."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(KtiwprobeError, match=problem) as error:
        load_signal(tmp_path / name)
    assert name in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"rows": None}, "no array 'rows'"),
        ({"values": np.zeros(4)}, "4 values for row lengths of 3"),
        ({"rows": np.array([3])}, "2 rows for sentences of 3"),
        ({"values": np.array([0, np.nan, 0])}, "NaN"),
        ({"values": np.array([0, np.inf, 0])}, r"\+inf"),
        ({"values": np.zeros((1, 1, 3))}, r"float64 \(1, 1, 3\)"),
        ({"values": np.array(["a", "b", "c"])}, "must be numbers"),
        ({"lengths": np.array([1.5, 1.5])}, "lengths of .* whole numbers"),
        ({"lengths": np.array([4, -1])}, "lengths of .* 0 or more"),
        ({"rows": np.array([[2]])}, "rows of"),
        ({"columns": np.array([0, 1])}, "2 columns"),
        ({"values": np.array([{}, 0, 0], object)}, "plain arrays"),
    ],
)
def test_wrong_arrays_are_one_sentence(tmp_path: Path, change: dict[str, np.ndarray | None], problem: str) -> None:
    """Arrays that are missing, of the wrong kind, or that do not add up are each told."""
    right = {"values": np.zeros(3), "lengths": np.array([1, 2]), "rows": np.array([2])}
    arrays = {name: array for name, array in {**right, **change}.items() if array is not None}
    np.savez(tmp_path / "u.npz", **arrays)
    with pytest.raises(UsageError, match=problem) as error:
        load_signal(tmp_path / "u.npz")
    assert "\n" not in str(error.value)


def test_sites_must_match_values() -> None:
    """Two names for three rows of values are an error."""
    with pytest.raises(UsageError, match="2 sites and has values of 3"):
        make_signal(np.zeros((3, 1)), np.array([1]), np.array([1]), sites=("a", "b"))


def test_a_strangers_description_is_read_with_care(tmp_path: Path) -> None:
    """The metadata of a safetensors file may name the signal and its sites; sites that are no names are refused."""
    signal = make(SHAPES, sites=2)
    arrays = {"values": signal.values, "lengths": signal.lengths, "rows": signal.rows}
    path = tmp_path / "u.safetensors"
    save_file(arrays, path, {"ktiwprobe": json.dumps({"name": "mine", "sites": ["left", "right"]})})
    assert (load_signal(path).name, load_signal(path).sites) == ("mine", ("left", "right"))
    save_file(arrays, path)
    assert (load_signal(path).name, load_signal(path).sites) == ("u.safetensors", ("0", "1"))
    for wrong in (5, [1, 2], "ab"):
        save_file(arrays, path, {"ktiwprobe": json.dumps({"sites": wrong})})
        with pytest.raises(UsageError, match="must be a list of names"):
            load_signal(path)


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    """A missing file is a wrong SPEC; a single array under the name .npz is no archive."""
    with pytest.raises(SpecError, match=r"no signal file .*u\.npz"):
        load_signal(tmp_path / "u.npz")
    with (tmp_path / "u.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(UsageError, match="not an npz file"):
        load_signal(tmp_path / "u.npz")


def test_gold_is_one_on_links_and_silent_on_the_end(tiny_corpus: Corpus) -> None:
    """Each word's row points at its link, and the end symbol, of which no aligner is asked, at nothing."""
    split = tiny_corpus.split("validation")
    gold = gold_signal(split, tiny_corpus, "validation")
    assert gold.meta["fingerprint"] == tiny_corpus.fingerprints["validation"]
    for row in range(len(split)):
        expected = np.eye(len(split.y[row]), len(split.x[row]), dtype=np.float32)
        expected[split.y[row] == EOS] = -np.inf
        np.testing.assert_array_equal(gold[row], expected)


def test_a_sure_link_outranks_a_possible_one(tiny_corpus: Corpus) -> None:
    """A possible link is 1/2; where both are given for a cell, in any order, it is sure."""
    links = [[(0, 0, 1), (0, 0, 0), (0, 1, 0), (1, 2, 0), (1, 2, 1)]]
    gold = gold_signal(Split.of([[4, 5, 6]], [[4, 5]], links), tiny_corpus, "validation")
    np.testing.assert_array_equal(gold[0], [[1, 0.5, 0], [0, 0, 1]])


def test_a_task_without_alignment_has_no_gold(tiny_corpus: Corpus) -> None:
    """`gold` is then a wrong SPEC, and the sentence names the task."""
    with pytest.raises(SpecError, match="'tiny-task' has no gold alignment"):
        gold_signal(Split.of([[4]], [[4]]), tiny_corpus, "validation")


def test_inputs_that_no_row_sees_are_part_of_the_matrix() -> None:
    """A sparse attention may leave out the last inputs; their columns are NaN, not missing."""
    signal = make_signal(np.array([1.0, 2.0]), np.array([2]), np.array([1]))
    assert signal[0].shape == (1, 2)
    named = replace(signal, text=lambda _sentence: (("a", "b", "c"), ("y",)))
    np.testing.assert_array_equal(named[0], [[1.0, 2.0, np.nan]])

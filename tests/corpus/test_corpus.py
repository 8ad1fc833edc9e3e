"""Corpora, batches and the order of training: laws of padding, coverage and identity."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tiny
from ktiwprobe.data import (
    EOS,
    PAD,
    Batch,
    Corpus,
    Ragged,
    Split,
    Stream,
    each_token_a_word,
    order_of_epoch,
    training_batches,
)
from ktiwprobe.errors import CorpusError, UnknownNameError

Rows = list[list[int]]
rows = st.lists(st.lists(st.integers(4, 9), min_size=1, max_size=9), min_size=1, max_size=40)


def corpus_of(*splits: Split, tokens: tuple[str, ...] = tiny.SOURCE, **changes: object) -> Corpus:
    """A corpus of train and validation, with what a test wants different."""
    named = dict(zip(("train", "validation"), splits, strict=False))
    return Corpus(**{"task": "t", "kind": "translation", "splits": named, "source_tokens": tokens,
                     "target_tokens": tiny.TARGET, **changes})  # fmt: skip


# ragged rows


@given(rows)
def test_ragged_gives_its_rows_back(xs: Rows) -> None:
    """Laying rows end to end loses nothing."""
    ragged = Ragged.of(xs)
    assert len(ragged) == len(xs)
    assert [ragged[i].tolist() for i in range(len(xs))] == xs
    assert ragged.lengths.tolist() == [len(x) for x in xs]


@given(rows, st.randoms(use_true_random=False))
def test_padding_is_only_where_the_mask_says(xs: Rows, random: object) -> None:
    """Under the mask stand the row's own ids, elsewhere PAD; the width is the longest chosen row."""
    chosen = np.array(random.choices(range(len(xs)), k=5))  # type: ignore[attr-defined]
    padded, mask = Ragged.of(xs).padded(chosen)
    assert padded.shape == mask.shape == (5, max(len(xs[i]) for i in chosen))
    assert [padded[n][mask[n]].tolist() for n in range(5)] == [xs[i] for i in chosen]
    assert (padded[~mask] == PAD).all()


def test_ragged_may_be_empty() -> None:
    """No rows at all are legal, and so is a row of no cells where cells are wide."""
    assert len(Ragged.of([])) == 0
    links = Ragged.of([[], [(0, 1, 1)]], width=(3,))
    assert links[0].shape == (0, 3)
    assert links[1].tolist() == [[0, 1, 1]]


# splits and batches


def test_a_batch_has_masks_lengths_and_types(tiny_corpus: Corpus) -> None:
    """Masks are True on exactly the real positions, ids are int64, lengths agree with masks."""
    batch = tiny_corpus.split("train").batch(np.arange(7))
    assert batch.x.dtype == batch.y.dtype == torch.int64
    assert torch.equal(batch.x_mask.sum(1), batch.x_lengths)
    assert ((batch.x != PAD) == batch.x_mask).all()
    assert ((batch.y != PAD) == batch.y_mask).all()


def test_moving_a_batch_leaves_lengths_on_the_cpu(tiny_corpus: Corpus) -> None:
    """Only what a model computes with moves to the device."""
    moved = tiny_corpus.split("train").batch(np.arange(2)).to("meta")
    assert {moved.x.device.type, moved.x_mask.device.type, moved.y.device.type, moved.y_mask.device.type} == {"meta"}
    assert moved.x_lengths.device.type == "cpu"


@pytest.mark.parametrize(
    ("xs", "ys", "links", "sentence"),
    [
        ([[4], []], [[4], [4]], None, "example 1 has an empty input"),
        ([[4], [4]], [[], [4]], None, "example 0 has an empty output"),
        ([[4], [4]], [[4]], None, "2 inputs and 1 outputs"),
        ([[4]], [[4]], [[], []], "1 inputs and 2 lists of links"),
        ([[4], [4]], [[4], [4]], [[(0, 0, 1)], [(0, 1, 1)]], "example 1 has a link"),
        ([[4], [4]], [[4], [4]], [[(-1, 0, 1)], []], "example 0 has a link"),
    ],
)
def test_a_malformed_split_is_refused(xs: Rows, ys: Rows, links: object, sentence: str) -> None:
    """Text, ids and links that do not match are named, with the example."""
    with pytest.raises(CorpusError, match=sentence):
        Split.of(xs, ys, links)  # type: ignore[arg-type]


def test_a_split_made_of_parts_is_checked_too() -> None:
    """The checks do not depend on how a split is made."""
    with pytest.raises(CorpusError, match="as many"):
        Split(Ragged.of([[4]]), Ragged.of([[4], [5]]))


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=0, max_size=60),
    st.integers(1, 3000),
    st.integers(1, 12),
)
def test_groups_by_length_cover_each_row_once_within_budget(
    sizes: list[tuple[int, int]], cells: int, most: int
) -> None:
    """Every row in exactly one group; B x T x L after padding stays within `cells`, unless one sentence is larger."""
    split = Split.of([[4] * x for x, _ in sizes], [[4] * y for _, y in sizes])
    groups = list(split.by_length(cells=cells, most=most))
    assert sorted(row for group in groups for row in group) == list(range(len(sizes)))
    for group in groups:
        batch = split.batch(group)
        assert 1 <= len(group) <= most
        assert len(group) == 1 or batch.x.numel() * batch.y.shape[1] <= cells


def test_one_long_output_does_not_break_the_budget() -> None:
    """A long input beside a long output of another sentence pads to their product, which counts."""
    split = Split.of([[4], [4] * 100], [[4] * 100, [4]])
    assert [len(group) for group in split.by_length(cells=1000)] == [1, 1]


def test_a_subset_is_the_chosen_examples_in_order(tiny_corpus: Corpus) -> None:
    """A subset keeps ids and links."""
    whole = tiny_corpus.split("test")
    part = whole.subset(np.array([3, 1]))
    assert part.links is not None and whole.links is not None
    for new, old in enumerate((3, 1)):
        assert part.x[new].tolist() == whole.x[old].tolist()
        assert part.y[new].tolist() == whole.y[old].tolist()
        assert part.links[new].tolist() == whole.links[old].tolist()


def test_words_stay_with_their_sentences(tiny_corpus: Corpus) -> None:
    """Each token but </s> is a word of the tiny task, and a subset keeps words and texts."""
    whole = tiny_corpus.split("test")
    part = whole.subset(np.array([3, 1]))
    for new, old in enumerate((3, 1)):
        x = whole.x[old]
        assert part.x_words[new].tolist() == whole.x_words[old].tolist() == [*range(len(x) - 1), -1]
        assert part.x_text[new] == whole.x_text[old] == tuple(tiny.SOURCE[i] for i in x[:-1])
        assert part.y_words[new].tolist() == whole.y_words[old].tolist()
        assert part.y_text[new] == whole.y_text[old]


def test_words_that_do_not_match_their_tokens_are_refused() -> None:
    """A number for each token, a text for each sentence."""
    split = Split.of([[4, 5], [4]], [[4], [4]])
    with pytest.raises(CorpusError, match="the output words of a split do not match its tokens"):
        replace(split, y_words=Ragged.of([[0], [0, 1]]))
    with pytest.raises(CorpusError, match="2 inputs and 1 source texts"):
        replace(split, x_text=[("a", "b")])


# corpora


def test_an_unknown_split_lists_the_known_ones(tiny_corpus: Corpus) -> None:
    """A wrong name of a split suggests the nearest."""
    with pytest.raises(UnknownNameError, match=r"did you mean 'validation'.*known: test, train, validation"):
        tiny_corpus.split("validaton")


def test_an_empty_split_is_refused_when_used() -> None:
    """A split without examples is an error that names it."""
    with pytest.raises(CorpusError, match="'validation' of task t is empty"):
        corpus_of(Split.of([[4]], [[4]]), Split.of([], [])).split("validation")


def test_a_stream_cannot_be_probed() -> None:
    """An endless split has no examples to list."""
    corpus = tiny.TinyStream().load(None)
    assert isinstance(corpus.splits["train"], Stream)
    with pytest.raises(CorpusError, match="endless stream"):
        corpus.split("train")


@pytest.mark.parametrize("bad", [-1, len(tiny.SOURCE)])
def test_ids_outside_the_vocabulary_are_refused(bad: int) -> None:
    """An id without a token is named when the corpus is made, not deep inside a model."""
    with pytest.raises(CorpusError, match=f"input ids from .*{bad}.*: its vocabulary allows 0 to 11"):
        corpus_of(Split.of([[4, bad]], [[4]]))


def test_an_example_reads_as_text(tiny_corpus: Corpus) -> None:
    """The tokens of an example are those of its ids, and a row that is not there is named."""
    example = tiny_corpus.example("validation", 0)
    assert example.source == tuple(tiny.SOURCE[i] for i in example.x)
    assert example.target[-1] == tiny.TARGET[EOS]
    assert example.links is not None and example.links.shape == (len(example.target), 3)
    with pytest.raises(UnknownNameError, match="0 to 19"):
        tiny_corpus.example("validation", 20)


def test_fingerprints_of_the_same_corpus_are_equal(tiny_corpus: Corpus) -> None:
    """Loading twice gives the same fingerprints, one for each finite split."""
    again = tiny.TinyTask().load(tiny.TinyTask.Options())
    assert again.fingerprints == tiny_corpus.fingerprints
    assert set(again.fingerprints) == {"train", "validation", "test"}
    assert len(set(again.fingerprints.values())) == 3
    assert set(tiny.TinyStream().load(None).fingerprints) == {"validation"}


@pytest.mark.parametrize(
    "other",
    [
        corpus_of(Split.of([[4, 5], [6]], [[4], [4, 7]], [[], []])),  # a word moved to the next sentence
        corpus_of(Split.of([[4, 5], [6]], [[4, 7], [5]], [[], []])),
        corpus_of(Split.of([[4, 5], [6]], [[4, 7], [4]], [[(0, 0, 1)], []])),
        corpus_of(Split.of([[4, 5], [6]], [[4, 7], [4]])),  # no alignment known is not an alignment without links
        corpus_of(Split.of([[4, 5], [6]], [[4, 7], [4]], [[], []]), tokens=(*tiny.SOURCE, "one more")),
    ],
)
def test_fingerprints_of_different_corpora_differ(other: Corpus) -> None:
    """Anything that changes a cell or its meaning changes the fingerprint."""
    one = corpus_of(Split.of([[4, 5], [6]], [[4, 7], [4]], [[], []]))
    assert one.fingerprints != other.fingerprints


def test_words_are_no_part_of_a_fingerprint(tiny_corpus: Corpus) -> None:
    """A run stays what it is when its task learns to tell its words."""
    bare = {n: replace(s, x_words=None, y_words=None, x_text=None, y_text=None) for n, s in tiny_corpus.splits.items()}
    assert replace(tiny_corpus, splits=bare).fingerprints == tiny_corpus.fingerprints


def test_a_label_is_a_word() -> None:
    """The ids of labels are not those of special tokens."""
    split = each_token_a_word(corpus_of(Split.of([[1, 4, 2]], [[1]]), kind="classification")).split("train")
    assert (split.x_words[0].tolist(), split.y_words[0].tolist()) == ([-1, 0, -1], [0])
    assert (split.x_text[0], split.y_text[0]) == ((tiny.SOURCE[4],), (tiny.TARGET[1],))


def test_fingerprints_do_not_confuse_the_two_vocabularies() -> None:
    """Where one vocabulary ends and the other begins is part of the identity, whatever the tokens are."""
    split = Split.of([[0]], [[0]])
    one = corpus_of(split, source_tokens=("a", ""), target_tokens=("b",))
    two = corpus_of(split, source_tokens=("a",), target_tokens=("", "b"))
    odd = corpus_of(split, source_tokens=("\ud800",), target_tokens=("b",))
    assert len({corpus.fingerprints["train"] for corpus in (one, two, odd)}) == 3


# the order of training


@given(st.integers(0, 2**63 - 1), st.integers(0, 1000), st.integers(1, 200))
def test_the_order_of_an_epoch_is_a_pure_permutation(seed: int, epoch: int, size: int) -> None:
    """The same arguments give the same permutation, whatever the global random state."""
    order = order_of_epoch(seed, epoch, size)
    np.random.seed(epoch)
    assert np.array_equal(order, order_of_epoch(seed, epoch, size))
    assert sorted(order) == list(range(size))


def test_orders_differ_between_seeds_and_epochs() -> None:
    """Neither another seed nor another epoch repeats an order."""
    orders = {tuple(order_of_epoch(seed, epoch, 50)) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25


def same(a: Batch, b: Batch) -> bool:
    """Whether two batches are equal."""
    return torch.equal(a.x, b.x) and torch.equal(a.y, b.y)


def test_an_epoch_visits_each_sentence_once(tiny_corpus: Corpus) -> None:
    """The batches of an epoch are the training split, the last one smaller."""
    batch = training_batches(tiny_corpus, seed=3, size=16)
    seen = [batch(step).x[i][batch(step).x_mask[i]].tolist() for step in range(3) for i in range(len(batch(step).x))]
    train = tiny_corpus.split("train").x
    assert sorted(seen) == sorted(train[i].tolist() for i in range(len(train)))


@pytest.mark.parametrize("task", [tiny.TinyTask, tiny.TinyStream])
def test_a_batch_depends_on_its_step_alone(task: type) -> None:
    """Batches asked for out of order are those of an orderly training."""
    corpus = task().load(tiny.TinyTask.Options())
    orderly, jumping = (training_batches(corpus, seed=1, size=8) for _ in range(2))
    in_order = [orderly(step) for step in range(20)]
    assert all(same(in_order[step], jumping(step)) for step in (17, 3, 18, 0, 11))
    assert not same(training_batches(corpus, seed=2, size=8)(0), in_order[0])


# values that are no ids, and outputs that do not count


@pytest.mark.parametrize(
    ("xs", "ys", "sentence"),
    [
        ([[1], [2]], [[1], [0.5, 1.7]], r"the output of example 1 has the value 0\.5: it must be whole numbers"),
        ([[1], [2.0, 1.7]], [[1], [2]], r"the input of example 1 has the value 1\.7: it must be whole numbers"),
        ([[1]], [[2.0]], r"the output of example 0 has the value 2\.0"),
        ([[1]], [["a"]], "the output of example 0 has the value 'a'"),
        ([[1]], [[None]], "the output of example 0 has the value None"),
        ([[[1, 2], [3, 0]]], [[1]], r"the input of example 0 has shape \(2, 2\): it must be flat"),
        ([[[1, 2], [3]]], [[1]], "the input of example 0 has rows of different lengths"),
    ],
)
def test_what_is_no_id_is_refused(xs: object, ys: object, sentence: str) -> None:
    """Nothing is cut to a whole number or flattened; the sentence names the example and the value."""
    with pytest.raises(CorpusError, match=sentence):
        Split.of(xs, ys)  # type: ignore[arg-type]


def test_ids_of_any_integer_type_are_taken() -> None:
    """Lists, arrays and tensors of whole numbers, and labels that are true or false."""
    split = Split.of([np.array([1, 2], np.uint8), torch.tensor([3])], [[True], [np.int32(0)]])  # type: ignore[list-item]
    assert (split.x.values.tolist(), split.y.values.tolist()) == ([1, 2, 3], [1, 0])
    with pytest.raises(CorpusError, match="the output of a split is float64"):
        Split(Ragged.of([[1]]), Ragged(np.array([0.5]), np.array([0, 1])))


def test_links_have_three_numbers() -> None:
    """A list of pairs is not read as something else."""
    with pytest.raises(CorpusError, match=r"the links of example 0 has shape \(3, 2\)"):
        Split.of([[1, 2]], [[1, 2]], [[(0, 0), (1, 1), (0, 1)]])  # type: ignore[list-item]


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=7).filter(lambda row: row[-1]), min_size=1, max_size=6))
def test_outputs_stand_where_they_are_predicted(counts: list[list[bool]]) -> None:
    """The mask of a batch is what was asked for, and the rows it picks are the outputs in order."""
    places = [[i for i, here in enumerate(row) if here] for row in counts]
    xs = [list(range(1, len(row) + 1)) for row in counts]
    ys = [[10 * (i + 1) for i in row] for row in places]
    split = Split(Ragged.of(xs), Ragged.of(ys), y_at=Ragged.of(places))
    order = np.arange(len(xs))[::-1].copy()
    for part, rows in ((split, order), (split.subset(order), np.arange(len(xs)))):
        batch = part.batch(rows)
        assert batch.y.shape == batch.x.shape
        for i, row in enumerate(order):
            assert batch.y_mask[i, : len(counts[row])].tolist() == counts[row]
            assert batch.y[i][batch.y_mask[i]].tolist() == ys[row]
        assert (batch.y[batch.y_mask] == 10 * batch.x[batch.y_mask]).all()
    assert max(len(group) * split.widths[group].max() * split.x.lengths[group].max()
               for group in split.by_length(cells=60)) <= 60  # fmt: skip


@pytest.mark.parametrize(
    ("at", "sentence"),
    [
        ([[1]], "each output needs an input position"),
        ([[0, 4]], "y_at of example 0 must be input positions that go up"),
        ([[2, 1]], "y_at of example 0 must be input positions that go up"),
        ([[0, 1]], "example 0 has inputs after the position that predicts its last output"),
    ],
)
def test_places_that_cannot_be_are_refused(at: Rows, sentence: str) -> None:
    """Each output has a position of its own, in order, and the last input predicts."""
    with pytest.raises(CorpusError, match=sentence):
        Split(Ragged.of([[1, 2, 3]]), Ragged.of([[1, 2]]), y_at=Ragged.of(at))


def test_places_are_for_texts() -> None:
    """A translator reads its outputs, so that none can be left out."""
    split = Split(Ragged.of([[1, 2]]), Ragged.of([[1]]), y_at=Ragged.of([[1]]))
    with pytest.raises(CorpusError, match="has y_at, which is for texts, not translation"):
        Corpus("t", "translation", {"v": split}, tuple("abc"), tuple("abc"))

"""IBM Model 1: the paper's count table by hand, EM against a dense loop and against nltk, and the law of EM."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ktiwprobe import Batch, Corpus, Run, Split
from ktiwprobe.data import SPECIALS
from ktiwprobe.probes.definitions import alpha
from ktiwprobe.testing import check_model
from ktiwprobe_paper import ibm1
from ktiwprobe_paper.ibm1 import Ibm1, count_table, training_split
from ktiwprobe_paper.sequences import Copy

WORDS = 12
TOKENS = (*SPECIALS, *"abcdefgh")
Train = Callable[..., Run]


def make_corpus(*, repeated: bool = True, size: int = 30) -> Corpus:
    """Random sentence pairs; `repeated` says whether a word may occur twice in an output."""
    rng = np.random.default_rng(0)
    xs = [rng.integers(4, WORDS, rng.integers(1, 7)).tolist() for _ in range(size)]
    ys = [rng.choice(np.arange(4, WORDS), rng.integers(1, 6), replace=repeated).tolist() for _ in range(size)]
    return Corpus("tiny", "translation", {"train": Split.of(xs, ys)}, TOKENS, TOKENS)


def fitted(corpus: Corpus, **options: Any) -> tuple[Ibm1, list[NDArray[np.float64]]]:
    """A trained model, and its table after every step."""
    model = Ibm1.build(corpus, Ibm1.Options(**options))
    tables: list[NDArray[np.float64]] = []
    steps: list[int] = []

    def save(step: int) -> None:
        steps.append(step)
        tables.append(model.table.toarray())

    model.fit(corpus, save)
    assert steps == list(range(len(tables)))
    return model, tables


def by_loops(corpus: Corpus, iterations: int, *, null: bool) -> tuple[list[NDArray[np.float64]], list[float]]:
    """Dense EM from a uniform table, one cell at a time: the tables after each iteration, and their perplexities."""
    split, rows = corpus.split("train"), WORDS + null
    p, tables, perplexities = np.full((rows, WORDS), 1 / WORDS), [], []
    for iteration in range(iterations + 1):
        counts, log_p, outputs = np.zeros((rows, WORDS)), 0.0, 0
        for m in range(len(split)):
            x = [*split.x[m], *([WORDS] if null else [])]
            for o in split.y[m]:
                total = sum(p[i, o] for i in x)
                log_p, outputs = log_p + np.log(total / len(x)), outputs + 1
                for i in x:
                    counts[i, o] += p[i, o] / total
        if iteration:
            perplexities.append(float(np.exp(-log_p / outputs)))
        sums = counts.sum(1, keepdims=True)
        p = np.divide(counts, sums, out=np.zeros_like(counts), where=sums > 0)
        tables.append(p)
    return tables, perplexities


# the count table


def test_the_count_table_by_hand() -> None:
    """Whenever i and o occur in one pair, C[i, o] grows by 1/L, once for each pair of their positions."""
    split = Split.of([[0, 1, 1, 2], [1, 3]], [[0, 1], [1, 1, 2]])
    expected = [
        [1 / 4, 1 / 4, 0],
        [2 / 4, 2 / 4 + 2 / 2, 1 / 2],
        [1 / 4, 1 / 4, 0],
        [0, 2 / 2, 1 / 2],
        [0, 0, 0],
    ]
    table = count_table(split, 5, 3)
    assert np.array_equal(table.toarray(), expected)
    assert table.nnz == 9


def test_counting_leaves_the_corpus_as_it_was() -> None:
    """Word order survives, though a table sorts its words."""
    corpus = make_corpus()
    before = corpus.split("train").x.values.copy()
    fitted(corpus, iterations=1)
    assert np.array_equal(corpus.split("train").x.values, before)


def test_step_0_is_the_count_table_with_rows_that_sum_to_1() -> None:
    """Trans(o | i) = C[i, o] / Σ C[i, o']; a word that was never seen has an empty row."""
    corpus = make_corpus()
    C = count_table(corpus.split("train"), WORDS, WORDS).toarray()
    _, (first,) = fitted(corpus, iterations=0)
    assert np.allclose(first[4:], C[4:] / C[4:].sum(1, keepdims=True))
    assert not first[:4].any()


# expectation maximisation


@pytest.mark.parametrize("null", [False, True])
@pytest.mark.parametrize(("block", "kept"), [(2**18, 2**26), (7, 0), (1, 2**26)])
def test_em_equals_a_plain_dense_one(null: bool, block: int, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All cells of all steps and the perplexities, with repeated words, in blocks of any size, kept or made anew."""
    monkeypatch.setattr(ibm1, "BLOCK", block)
    monkeypatch.setattr(ibm1, "KEPT", kept)
    corpus = make_corpus()
    model, tables = fitted(corpus, iterations=4, null=null)
    expected, perplexities = by_loops(corpus, 5, null=null)
    assert np.allclose(tables, expected[:5], rtol=1e-9, atol=1e-15)
    assert np.allclose(model.perplexities, perplexities, rtol=1e-12)


def test_em_equals_nltk() -> None:
    """nltk's IBMModel1, where it does the same: a NULL word, and no output word twice in a sentence."""
    translate = pytest.importorskip("nltk.translate")
    corpus = make_corpus(repeated=False)
    split = corpus.split("train")
    bitext = [translate.AlignedSent(split.y[m].tolist(), split.x[m].tolist()) for m in range(len(split))]
    theirs = translate.IBMModel1(bitext, 5).translation_table  # [o][i], i = None is NULL
    _, tables = fitted(corpus, iterations=4, null=True)
    for i in range(4, WORDS + 1):
        for o in range(4, WORDS):
            p = theirs[o][None if i == WORDS else i]
            assert tables[-1][i, o] == pytest.approx(p, rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("null", [False, True])
@pytest.mark.parametrize("repeated", [False, True])
def test_training_perplexity_never_rises(null: bool, repeated: bool) -> None:
    """The law of EM, over thirty iterations; one perplexity for each step."""
    model, tables = fitted(make_corpus(repeated=repeated), iterations=30, null=null)
    assert len(model.perplexities) == len(tables) == 31
    assert (np.diff(model.perplexities) <= 1e-12).all()
    assert model.perplexities[-1] < model.perplexities[0]
    assert all(np.allclose(table[table.any(1)].sum(1), 1) for table in tables)


# what it says of a batch


def make_batch(rows: tuple[int, ...] = (0, 1, 2, 3, 4)) -> Batch:
    return make_corpus().split("train").batch(np.array(rows))


@pytest.mark.parametrize("null", [False, True])
def test_beta_and_evaluation_by_definition(null: bool) -> None:
    """β is the log-odds of Trans(y_t | x_l), and p(y_t) its mean over the input, NULL among it."""
    model, tables = fitted(make_corpus(), iterations=2, null=null)
    batch, p = make_batch(), tables[-1]
    beta, (right, total, nll) = model.beta(batch), model.evaluate(batch)
    expected = [0, 0, 0.0]
    for b in range(len(batch.x)):
        x, y = batch.x[b][batch.x_mask[b]].numpy(), batch.y[b][batch.y_mask[b]].numpy()
        cells = p[x][:, y].T  # (T, L)
        assert np.allclose(beta[b, : len(y), : len(x)], np.log(cells / (1 - cells)))
        mixed = p[[*x, *([WORDS] if null else [])]].mean(0)
        expected[0] += int((mixed.argmax() == y).sum())
        expected[1] += len(y)
        expected[2] -= np.log(mixed[y]).sum()
    assert [right.item(), total.item(), nll.item()] == pytest.approx(expected)


def test_unseen_pairs_are_minus_infinity_and_certain_ones_finite() -> None:
    """-inf where two words never met, a large finite number where they always did; -log p stays finite."""
    split = Split.of([[0], [1, 1]], [[0], [1, 2]])
    corpus = Corpus("two", "translation", {"train": split}, "abcd", "wxyz")
    model, _ = fitted(corpus)
    batch = Split.of([[0, 1, 3], [3]], [[0, 3], [0]]).batch(np.arange(2))
    beta = model.beta(batch)
    assert 27 < beta[0, 0, 0] < 28
    assert beta[0, 0, 1:].isneginf().all() and beta[0, 1].isneginf().all() and beta[1].isneginf().any()
    right, total, nll = model.evaluate(batch)
    assert (right, total) == (1, 3)  # nothing is likeliest of outputs that were never seen
    assert nll == pytest.approx(np.log(3) - 2 * np.log(1e-12))


def test_the_order_of_words_does_not_matter() -> None:
    """A corpus with its sentences shuffled inside gives the same table."""
    corpus, rng = make_corpus(), np.random.default_rng(1)
    split = corpus.split("train")
    xs, ys = ([rng.permutation(side[m]) for m in range(len(split))] for side in (split.x, split.y))
    shuffled = Corpus("tiny", "translation", {"train": Split.of(xs, ys)}, TOKENS, TOKENS)
    assert np.allclose(fitted(corpus)[1], fitted(shuffled)[1], rtol=1e-12)


def test_alpha_is_a_share_of_beta() -> None:
    """It has no trace: α = Trans(y_t | x_l) / Σ_l, the alignment probability of Section 4.2."""
    model, tables = fitted(make_corpus())
    batch = make_batch((0,))
    assert not hasattr(model, "trace")
    p = tables[-1][batch.x[0].numpy()][:, batch.y[0].numpy()].T
    assert np.allclose(alpha(model, batch)[0], p / p.sum(1, keepdims=True))


@pytest.mark.parametrize("null", [False, True])
def test_state_round_trip(null: bool) -> None:
    """A fresh model given the state says the same."""
    model, _ = fitted(make_corpus(), null=null)
    other = Ibm1.build(make_corpus(), Ibm1.Options(null=null))
    other.load_state(model.state())
    assert torch.equal(other.beta(make_batch()), model.beta(make_batch()))
    assert other.evaluate(make_batch()) == model.evaluate(make_batch())


# other corpora


def test_a_stream_gives_as_many_sentences_as_asked_for() -> None:
    """Of an endless task a fixed sample is taken, the same each time."""
    corpus = Copy().load(Copy.Options(length=3, vocabulary=5))
    split, again = (training_split(corpus, 17) for _ in range(2))
    assert len(split) == 17
    assert (split.x.lengths == 4).all() and (split.x.values == split.y.values).all()
    assert np.array_equal(split.x.values, again.x.values)
    model, _ = fitted(corpus, samples=200)
    batch = corpus.split("validation").batch(np.arange(10))
    same = batch.x.unsqueeze(1) == batch.y.unsqueeze(2)
    assert (model.beta(batch).argmax(-1) == same.int().argmax(-1)).all()  # a word is copied


@pytest.mark.parametrize(("task", "null"), [("toy-sentiment", False), ("toy-translation", True)])
def test_every_kind_conforms(task: str, null: bool) -> None:
    """The kit passes for classification, and with a NULL word."""
    check_model(Ibm1, task=task, options=Ibm1.Options(iterations=1, null=null))


def test_a_run_keeps_every_iteration(run_tiny: Train) -> None:
    """Steps 0 to 2, evaluated on the validation split, the lowest loss best."""
    few = {"task.train": 100, "task.validation": 20, "task.test": 5, "iterations": 2}
    run = run_tiny("ibm1", options=few)
    assert run.record.task == "toy-translation"
    assert run.steps() == [0, 1, 2]
    losses = run.performance("loss")
    assert run.best_step() == min(losses, key=losses.__getitem__)
    saved = run.load_checkpoint(2)
    assert len(saved["probabilities"]) == len(saved["outputs"]) == saved["starts"][-1] > 0

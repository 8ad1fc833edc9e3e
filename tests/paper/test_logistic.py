"""Bag-of-words logistic regression: an optimum of its loss, chosen on validation, and its word scores."""

import importlib.util
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ktiwprobe import Batch, Corpus, Run, Split
from ktiwprobe.data import SPECIALS
from ktiwprobe.errors import CorpusError
from ktiwprobe.probes.definitions import alpha
from ktiwprobe.testing import check_model
from ktiwprobe_paper import logistic
from ktiwprobe_paper.logistic import SWEEP, LogisticRegression

TOKENS = (*SPECIALS, *"abcdefgh")
Train = Callable[..., Run]


def make_split(size: int, seed: int) -> Split:
    """Sentences whose label is 1 if a and b (4 and 5) outnumber c and d, mostly."""
    rng = np.random.default_rng(seed)
    xs = [rng.integers(4, 12, rng.integers(1, 9)) for _ in range(size)]
    score = [np.isin(x, (4, 5)).sum() - np.isin(x, (6, 7)).sum() + rng.normal() for x in xs]
    return Split.of(xs, [[int(s > 0)] for s in score])


def make_corpus(labels: tuple[str, ...] = ("no", "yes"), kind: str = "classification") -> Corpus:
    splits = {"train": make_split(200, 0), "validation": make_split(80, 1)}
    return Corpus("tiny", kind, splits, TOKENS, labels)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return make_corpus()


@pytest.fixture(scope="module")
def model(corpus: Corpus) -> LogisticRegression:
    """A fitted one."""
    model = LogisticRegression.build(corpus, LogisticRegression.Options())
    model.fit(corpus, lambda step: None)
    return model


def batch_of(corpus: Corpus, split: str = "validation") -> Batch:
    return corpus.split(split).batch(np.arange(len(corpus.split(split))))


def mean_of(weights: Tensor, batch: Batch) -> Tensor:
    """1/L Σ_l w[x_l], a sentence at a time. (B,)"""
    rows = zip(batch.x, batch.x_mask, strict=True)
    return torch.stack([weights[x[real]].mean() for x, real in rows])


def test_the_sweep_is_the_published_one() -> None:
    """1e-5 to 1e4, two values a decade."""
    assert len(SWEEP) == 19
    assert (SWEEP[0], SWEEP[-1]) == pytest.approx((1e-5, 1e4))
    assert np.diff(np.log10(SWEEP)) == pytest.approx(0.5)


def test_the_weights_are_an_optimum(model: LogisticRegression, corpus: Corpus) -> None:
    """The gradient of C Σ -log p + |w|²/2 over the training split is zero, the bias unpunished."""
    batch = batch_of(corpus, "train")
    w, b = model.weights.clone().requires_grad_(), model.bias.clone().requires_grad_()
    score = (mean_of(w, batch) + b) * (2 * batch.y[:, 0] - 1)
    (model.C * F.softplus(-score).sum() + w.square().sum() / 2).backward()
    assert w.grad is not None and b.grad is not None
    scale = model.C.item() * len(batch.y)
    assert w.grad.abs().max() < 1e-3 * scale and b.grad.abs() < 1e-3 * scale
    assert w.detach().abs().max() > 0.1


def test_the_best_on_validation_is_kept_and_of_equals_the_strongest_penalty(
    model: LogisticRegression, corpus: Corpus
) -> None:
    """No other C of the sweep does better, and no smaller one as well."""
    train, validation = (logistic._shares(corpus.split(name), len(TOKENS)) for name in ("train", "validation"))
    truth = corpus.split("validation").y.values
    accuracy = [
        (logistic._fitted(train, corpus.split("train").y.values, C).predict(validation) == truth).mean() for C in SWEEP
    ]
    assert model.C.item() == SWEEP[int(np.argmax(accuracy))]
    right, total, _ = model.evaluate(batch_of(corpus))
    assert right / total == pytest.approx(max(accuracy))


def test_evaluation_and_beta_by_definition(model: LogisticRegression, corpus: Corpus) -> None:
    """p = σ(1/L Σ w + b), and β = (2y - 1) w[x_l] without the bias."""
    batch = batch_of(corpus)
    score = mean_of(model.weights, batch) + model.bias
    p = torch.where(batch.y[:, 0] == 1, score.sigmoid(), (-score).sigmoid())
    right, total, nll = model.evaluate(batch)
    assert (right, total) == ((p > 0.5).sum(), len(p))
    assert nll == pytest.approx(-p.log().sum())
    expected = (2 * batch.y - 1) * model.weights[batch.x]
    assert torch.equal(model.beta(batch), expected.unsqueeze(1))


def test_it_finds_the_words_that_decide(model: LogisticRegression) -> None:
    """a and b speak for 1, c and d for 0, and no other word speaks as loud."""
    words = model.weights
    assert words[4:6].min() > words[8:].abs().max() > 0 > -words[8:].abs().max() > words[6:8].max()


def test_the_order_of_words_does_not_matter(model: LogisticRegression, corpus: Corpus) -> None:
    """A sentence read backwards gets the same -log p."""
    split = corpus.split("validation")
    back = Split.of([split.x[m][::-1] for m in range(len(split))], [split.y[m] for m in range(len(split))])
    one, two = (model.evaluate(s.batch(np.arange(len(s))))[2] for s in (split, back))
    assert torch.isclose(one, two, rtol=1e-12)


def test_no_attention_is_offered(model: LogisticRegression, corpus: Corpus) -> None:
    """It has no trace: alpha is β as a share of its row."""
    batch = batch_of(corpus)
    assert not hasattr(model, "trace")
    p = model.beta(batch).sigmoid() * batch.x_mask.unsqueeze(1)
    torch.testing.assert_close(alpha(model, batch), p / p.sum(-1, keepdim=True))


def test_what_it_cannot_classify_is_a_sentence() -> None:
    """Translation, three classes, and training data with one label only."""
    options = LogisticRegression.Options()
    with pytest.raises(CorpusError, match="task tiny is translation with 2 outputs, and logistic-regression needs"):
        LogisticRegression.build(make_corpus(kind="translation"), options)
    with pytest.raises(CorpusError, match="classification with 3 outputs"):
        LogisticRegression.build(make_corpus(("no", "yes", "maybe")), options)
    one = Split.of([[4], [5]], [[1], [1]])
    corpus = Corpus("one", "classification", {"train": one, "validation": one}, TOKENS, ("no", "yes"))
    with pytest.raises(CorpusError, match="all training examples of task one have one label: both are needed"):
        LogisticRegression.build(corpus, options).fit(corpus, lambda step: None)


def test_a_stream_of_examples_will_do() -> None:
    """The kit passes on the keyword task, which is endless."""
    check_model(LogisticRegression, task="keyword", options=LogisticRegression.Options(samples=100))


def test_a_run_is_one_checkpoint(run_tiny: Train) -> None:
    """The best of the sweep, on its own default task."""
    run = run_tiny("logistic-regression", options={"task.train": 200, "task.validation": 40, "task.test": 5})
    assert run.record.task == "toy-sentiment"
    assert run.steps() == [0]
    assert run.load_checkpoint(0)["C"].item() in SWEEP
    assert run.performance()[0] > 0.6


def test_scikit_learn_is_imported_only_to_fit(
    model: LogisticRegression, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is probed without waiting for it: the module loads, and a saved model speaks, where it is not there."""
    monkeypatch.setitem(sys.modules, "sklearn", None)  # any import of it fails
    spec = importlib.util.find_spec("ktiwprobe_paper.logistic")
    assert spec is not None and spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    other = again.LogisticRegression.build(corpus, again.LogisticRegression.Options())
    other.load_state(model.state())
    assert torch.equal(other.beta(batch_of(corpus)), model.beta(batch_of(corpus)))
    assert other.evaluate(batch_of(corpus)) == model.evaluate(batch_of(corpus))

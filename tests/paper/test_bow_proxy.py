"""The bag-of-words proxy: its definition, in two ways, and the laws of a bag."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ktiwprobe import Batch, Corpus, Run, Split
from ktiwprobe.data import SPECIALS
from ktiwprobe.errors import OptionError, UsageError
from ktiwprobe.models.scoring import log_odds
from ktiwprobe.plugins.protocols import Trace
from ktiwprobe.probes.definitions import alpha
from ktiwprobe.testing import check_model
from ktiwprobe_paper import bow_proxy
from ktiwprobe_paper.bow_proxy import BowProxy

TOKENS = (*SPECIALS, *"abcdefgh")
KINDS = ("translation", "classification")
Train = Callable[..., Run]


def make_corpus(kind: str = "translation") -> Corpus:
    """Five sentences of different lengths, with repeated words."""
    rng = np.random.default_rng(0)
    xs = [rng.integers(4, 12, n).tolist() for n in (5, 1, 7, 2, 3)]
    ys = [rng.integers(0, 12, n).tolist() for n in (2, 4, 1, 6, 3)] if kind == "translation" else [[0], [1]] * 2 + [[1]]
    targets = TOKENS if kind == "translation" else ("no", "yes")
    return Corpus("tiny", kind, {"train": Split.of(xs, ys)}, TOKENS, targets)  # type: ignore[arg-type]


def make_batch(kind: str = "translation", rows: tuple[int, ...] = (0, 1, 2, 3, 4)) -> Batch:
    return make_corpus(kind).split("train").batch(np.array(rows))


def make_model(kind: str = "translation", *, scale: float = 1.0, **options: Any) -> BowProxy:
    """A small model, its weights scaled up and its bias random, so that nothing stands at a special value."""
    torch.manual_seed(0)
    model = BowProxy.build(make_corpus(kind), BowProxy.Options(**{"dimension": 6, **options}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
        if model.output.bias is not None:
            model.output.bias.normal_()
    return model


def logits_of_words(model: BowProxy, kind: str) -> Tensor:
    """W e_i without bias, in float64; for two classes [0, w · e_i]. (words, V)"""
    logits = model.embed.weight.detach().double() @ model.output.weight.detach().double().T
    return torch.cat([torch.zeros_like(logits), logits], 1) if kind == "classification" else logits


def bias_of(model: BowProxy, kind: str) -> Tensor:
    bias = model.output.bias.detach().double()
    return torch.cat([torch.zeros(1).double(), bias]) if kind == "classification" else bias


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1.0, 3.0, 10.0])
@pytest.mark.parametrize("block", [1, 2**22])
def test_beta_is_log_odds_of_the_softmax(kind: str, scale: float, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """β of every cell is log p/(1 - p) of softmax(W e[x_l]), whatever the margin, in blocks of any size."""
    monkeypatch.setattr(bow_proxy, "BLOCK", block)
    model, batch = make_model(kind, scale=scale), make_batch(kind)
    logits = logits_of_words(model, kind)[batch.x]  # (B, L, V)
    T, L = batch.y.shape[1], batch.x.shape[1]
    y = batch.y.unsqueeze(-1).expand(-1, T, L).reshape(len(logits), -1)
    cells = Trace(logits.unsqueeze(1).expand(-1, T, -1, -1).flatten(1, 2), torch.zeros(0))
    labels = Batch(batch.x, batch.x_mask, batch.x_lengths, y, torch.ones_like(y, dtype=torch.bool))
    expected = log_odds(cells, labels).view(-1, T, L)
    assert model.beta(batch).shape == expected.shape
    torch.testing.assert_close(model.beta(batch).double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("margin", [30.0, 300.0])
def test_certain_words_do_not_tie(margin: float) -> None:
    """Log-odds follow a margin of 30 and more, where p and log p in float32 would be 1 and 0."""
    model, batch = make_model(dimension=12), make_batch()
    with torch.no_grad():
        model.embed.weight.copy_(torch.eye(12) * (margin + torch.arange(12.0)).unsqueeze(1))
        model.output.weight.copy_(torch.eye(12))
    found = model.beta(batch)
    same = batch.y.unsqueeze(-1) == batch.x.unsqueeze(1)
    expected = margin + batch.x - np.log(11)  # its own word has logit margin + x, the 11 others 0
    torch.testing.assert_close(found[same], expected.unsqueeze(1).expand_as(found)[same], rtol=1e-6, atol=1e-5)
    assert found.isfinite().all()


def test_two_classes_are_the_sign_of_the_label_times_the_score() -> None:
    """β = (2y - 1) w · e, and the bias has no part in it."""
    model, batch = make_model("classification"), make_batch("classification")
    scores = (model.embed(batch.x) @ model.output.weight[0]).unsqueeze(1)
    torch.testing.assert_close(model.beta(batch), (2 * batch.y - 1).unsqueeze(-1) * scores)


@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_evaluation_by_definition(kind: str) -> None:
    """-log softmax(mean of W e + b), summed over a sentence's outputs and averaged over sentences, one at a time."""
    model, batch = make_model(kind), make_batch(kind)
    nll, right, total = 0.0, 0, 0
    for b in range(len(batch.x)):
        words = batch.x[b][batch.x_mask[b]]
        p = (logits_of_words(model, kind)[words].mean(0) + bias_of(model, kind)).softmax(-1)
        for y in batch.y[b][batch.y_mask[b]]:
            nll, right, total = nll - float(p[y].log()), right + int(p.argmax() == y), total + 1
    assert model.loss(batch).item() == pytest.approx(nll / len(batch.x), rel=1e-5)
    assert [value.item() for value in model.evaluate(batch)] == pytest.approx([right, total, nll], rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_words_does_not_matter(kind: str) -> None:
    """A sentence is its bag of words: read backwards, the loss is the same and β is turned round with it."""
    model, batch = make_model(kind), make_batch(kind, (2,))
    back = Batch(batch.x.flip(1), batch.x_mask, batch.x_lengths, batch.y, batch.y_mask)
    torch.testing.assert_close(model.loss(back), model.loss(batch))
    torch.testing.assert_close(model.beta(back), model.beta(batch).flip(2))


@pytest.mark.parametrize("kind", KINDS)
def test_padding_never_shows(kind: str) -> None:
    """A sentence alone and in a batch have the same numbers."""
    model = make_model(kind)
    together, whole = make_batch(kind), model.beta(make_batch(kind))
    for row in range(len(whole)):
        alone = make_batch(kind, (row,))
        T, L = alone.y.shape[1], alone.x.shape[1]
        torch.testing.assert_close(model.beta(alone)[0], whole[row, :T, :L])
    alone_sum = sum(model.evaluate(make_batch(kind, (row,)))[2] for row in range(len(whole)))
    torch.testing.assert_close(alone_sum, model.evaluate(together)[2])


def test_no_attention_is_offered() -> None:
    """It has β and no trace, so alpha is β as a share of its row."""
    model, batch = make_model(), make_batch()
    assert not hasattr(model, "trace") and not hasattr(model, "attention_parameters")
    p = model.beta(batch).sigmoid() * batch.x_mask.unsqueeze(1)
    torch.testing.assert_close(alpha(model, batch), p / p.sum(-1, keepdim=True))


def test_weights_begin_as_in_the_paper() -> None:
    """Entries of e and W are drawn from N(0, 1/d); the bias begins at zero, or is not there."""
    model = BowProxy(2000, 1000, BowProxy.Options(dimension=64))
    for weight in (model.embed.weight, model.output.weight):
        assert weight.std().item() == pytest.approx(1 / 8, rel=0.02)
        assert abs(weight.mean().item()) < 0.002
    assert not model.output.bias.any()
    assert BowProxy(9, 9, BowProxy.Options(bias=False)).output.bias is None


@pytest.mark.parametrize(("task", "options"), [("toy-sentiment", {}), ("toy-translation", {"bias": False})])
def test_every_kind_conforms(task: str, options: dict[str, Any]) -> None:
    """The kit passes for classification, and without a bias."""
    check_model(BowProxy, task=task, options=BowProxy.Options(dimension=8, **options))


# as a run

FEW = {"dimension": 8, "task.train": 100, "task.validation": 20, "task.test": 5}


def test_a_run_keeps_every_epoch_and_is_best_by_loss(run_tiny: Train) -> None:
    """100 sentences in batches of 32 are 4 steps an epoch; `best` is the epoch of lowest validation loss."""
    run = run_tiny("bow-proxy", options={**FEW, "epochs": 3, "lr": 0.01})
    assert run.steps() == [0, 4, 8, 12]
    losses = run.performance("loss")
    assert run.record.best_by == "loss"
    assert run.best_step() == min(losses, key=losses.__getitem__)


def test_a_run_that_is_resumed_is_the_same_to_the_bit(run_tiny: Train) -> None:
    """Two epochs and then a third leave the weights that three epochs leave."""
    whole = run_tiny("bow-proxy", options={**FEW, "epochs": 3}, runs="whole")
    run_tiny("bow-proxy", options={**FEW, "epochs": 2})
    parts = run_tiny("bow-proxy", options={**FEW, "epochs": 3})
    assert parts.steps() == whole.steps()
    assert parts.checkpoint(12).read_bytes() == whole.checkpoint(12).read_bytes()


def test_what_it_cannot_do_is_a_sentence(run_tiny: Train) -> None:
    """A stream has no epochs to keep, and there is no attention to choose; neither leaves a run behind."""
    with pytest.raises(OptionError, match=r"a stream has no epochs: write every:N, as in checkpoints=every:10"):
        run_tiny("bow-proxy", "copy")
    with pytest.raises(UsageError, match="model 'bow-proxy' has no attention that could be uniform"):
        run_tiny("bow-proxy", options=FEW, attention="uniform")
    run = run_tiny("bow-proxy", "copy", options={"dimension": 8, "checkpoints": "every:2"}, steps=4)
    assert run.steps() == [0, 2, 4]

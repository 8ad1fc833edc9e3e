"""TorchModel and NeuralModel: loss and evaluation by definition, whatever stands on the padding."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import tiny
from ktiwprobe import Batch, Corpus, NeuralModel, TorchModel, Trace
from ktiwprobe.errors import ContractError


@pytest.fixture
def batch(tiny_corpus: Corpus) -> Batch:
    """Five sentences of different lengths."""
    return tiny_corpus.split("train").batch(np.arange(5))


@pytest.fixture
def model(tiny_corpus: Corpus) -> tiny.TinyModel:
    """An untrained model, dropout off."""
    torch.manual_seed(0)
    model: tiny.TinyModel = tiny.TinyModel.build(tiny_corpus, tiny.TinyModel.Options()).eval()
    return model


class Says(TorchModel):
    """A model that says what it is told to."""

    def __init__(self, logits: Tensor | None, scores: Tensor | None = None) -> None:
        super().__init__()
        self.says = logits, scores

    def trace(self, batch: Batch, **rest: Any) -> Trace:
        """As told."""
        logits, scores = self.says
        return Trace(logits, torch.zeros(0), scores)


def by_loops(logits: Tensor, batch: Batch) -> tuple[float, int, int]:
    """Sum of -log p, outputs right and outputs in all, one at a time."""
    nll, right, total = 0.0, 0, 0
    for b in range(len(batch.y)):
        for t in range(int(batch.y_mask[b].sum())):
            p = logits[b, t].detach().double().softmax(-1)
            y = int(batch.y[b, t])
            nll, right, total = nll - float(p[y].log()), right + int(p.argmax() == y), total + 1
    return nll, right, total


def test_loss_and_evaluation_are_what_they_say(model: tiny.TinyModel, batch: Batch) -> None:
    """Mean and sum of -log p and the number right, over real outputs only, as a plain loop finds them."""
    logits = model.trace(batch).logits
    assert logits is not None
    nll, right, total = by_loops(logits, batch)
    assert model.loss(batch).item() == pytest.approx(nll / total, rel=1e-5)
    found = [value.item() for value in model.evaluate(batch)]
    assert found == pytest.approx([right, total, nll], rel=1e-5)


@pytest.mark.parametrize(("columns", "value"), [(slice(0, 1), float("-inf")), (slice(None), 1e30)])
def test_what_a_model_says_on_padding_does_not_count(
    model: tiny.TinyModel, batch: Batch, columns: slice, value: float
) -> None:
    """A model may forbid <pad>, or say anything there: loss, evaluation and gradients stay the same and finite."""
    logits = model.trace(batch).logits
    assert logits is not None
    odd = logits.detach().clone()
    odd[:, :, columns] = odd[:, :, columns].masked_fill(~batch.y_mask.unsqueeze(-1), value)
    odd.requires_grad_()
    plain, other = Says(logits), Says(odd)
    assert torch.allclose(other.loss(batch), plain.loss(batch))
    assert all(torch.allclose(a, b) for a, b in zip(other.evaluate(batch), plain.evaluate(batch), strict=True))
    other.loss(batch).backward()
    assert odd.grad is not None and odd.grad.isfinite().all()
    assert (odd.grad[~batch.y_mask] == 0).all()


def test_scores_alone_give_a_loss_but_no_evaluation(batch: Batch) -> None:
    """Log-odds of y are enough to train on; which output is likeliest they do not say."""
    scores = torch.randn(batch.y.shape)
    nll = -F.logsigmoid(scores)[batch.y_mask]
    assert torch.allclose(Says(None, scores).loss(batch), nll.mean())
    with pytest.raises(ContractError, match="Says returns scores without logits, so it must bring its own evaluate"):
        Says(None, scores).evaluate(batch)


def test_a_trace_without_logits_and_scores_is_refused(batch: Batch) -> None:
    """One of the two is needed, and the sentence says where."""
    with pytest.raises(ContractError, match=r"Says\.trace must return logits or scores"):
        Says(None).loss(batch)


def test_scores_and_logits_of_two_classes_agree(batch: Batch) -> None:
    """With V = 2, log-odds and logits are two ways to say the same."""
    logits = torch.randn(*batch.y.shape, 2)
    y = batch.y % 2
    labels = Batch(batch.x, batch.x_mask, batch.x_lengths, y, batch.y_mask)
    margin = (logits[..., 1] - logits[..., 0]) * (2 * y - 1)
    assert torch.allclose(Says(logits).loss(labels), Says(None, margin).loss(labels), atol=1e-6)


def test_state_round_trip(model: tiny.TinyModel, tiny_corpus: Corpus, batch: Batch) -> None:
    """A model given another's state says what the other says."""
    other = tiny.TinyModel.build(tiny_corpus, tiny.TinyModel.Options()).eval()
    before = other.trace(batch).logits
    other.load_state({name: tensor.clone() for name, tensor in model.state().items()})
    after, expected = other.trace(batch).logits, model.trace(batch).logits
    assert before is not None and after is not None and expected is not None
    assert torch.equal(after, expected) and not torch.equal(before, after)


def test_a_state_that_does_not_fit_is_a_sentence(model: tiny.TinyModel, tiny_corpus: Corpus) -> None:
    """Weights of another shape or name are refused in one line."""
    wider = tiny.TinyModel.build(tiny_corpus, tiny.TinyModel.Options(width=9))
    for state in (wider.state(), {}):
        with pytest.raises(ContractError, match="the saved weights do not fit TinyModel as it is now") as caught:
            model.load_state(state)
        assert "\n" not in str(caught.value)


def test_an_author_who_forgets_a_method_is_told_which(batch: Batch, tiny_corpus: Corpus) -> None:
    """build and trace are all that must be written."""

    class Empty(TorchModel):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty needs build\(corpus, options\)"):
        Empty.build(tiny_corpus, None)
    with pytest.raises(NotImplementedError, match=r"Empty needs trace\(batch, attend=, gate=\)"):
        Empty().trace(batch)


def test_a_model_without_attention_has_no_trace(tiny_corpus: Corpus) -> None:
    """NeuralModel brings optimiser and state, and nothing by which the core would take it for an attention model."""

    class Empty(NeuralModel):
        pass

    for member in ("trace", "sites", "loss", "evaluate"):
        assert not hasattr(NeuralModel, member) and hasattr(TorchModel, member)
    assert issubclass(TorchModel, NeuralModel)
    assert NeuralModel.best_by == "accuracy"
    with pytest.raises(NotImplementedError, match=r"Empty needs build\(corpus, options\)"):
        Empty.build(tiny_corpus, None)


def test_the_optimiser_learns(model: tiny.TinyModel, batch: Batch) -> None:
    """A step of the default optimiser lowers the loss on the batch it was taken on."""
    optimiser = model.optimiser(model.parameters(), lr=0.01)
    before = model.loss(batch)
    before.backward()
    optimiser.step()
    assert model.loss(batch) < before

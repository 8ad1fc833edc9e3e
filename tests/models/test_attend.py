"""Attentions one can choose: laws of uniform, one-hot, `choose` and `Under`."""

import copy
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import tiny
from ktiwprobe import Batch, Corpus, Split, Trace
from ktiwprobe.models.attend import Under, allowed, choose, one_hot, uniform, unwrapped


@pytest.fixture
def batch(tiny_corpus: Corpus) -> Batch:
    """Six sentences of different lengths."""
    return tiny_corpus.split("train").batch(np.arange(6))


@pytest.fixture(params=[1, 3], ids=["one head", "three heads"])
def model(request: pytest.FixtureRequest, tiny_corpus: Corpus) -> tiny.TinyModel:
    """An untrained model, dropout off."""
    torch.manual_seed(0)
    options = tiny.TinyModel.Options(heads=request.param)
    model: tiny.TinyModel = tiny.TinyModel.build(tiny_corpus, options).eval()
    return model


class Causal:
    """A model in which output t sees inputs 0 to t, and the first output sees nothing."""

    def allowed(self, batch: Batch) -> Tensor:
        """(B, T, L)"""
        T, L = batch.y.shape[1], batch.x.shape[1]
        return batch.x_mask.unsqueeze(1) & torch.ones(T, L, dtype=torch.bool).tril(-1)


def test_without_a_models_word_every_real_position_is_allowed(batch: Batch) -> None:
    """The default is the mask of the input, for every output alike."""
    assert torch.equal(allowed(object(), batch), batch.x_mask.unsqueeze(1))
    assert torch.equal(allowed(Causal(), batch), Causal().allowed(batch))


def test_uniform_attention_is_one_over_the_number_allowed(batch: Batch) -> None:
    """1/L on real positions and zero on padding."""
    alpha = uniform(allowed(object(), batch))
    assert torch.allclose(alpha.sum(-1), torch.ones(len(batch.x), 1))
    assert torch.equal(alpha > 0, batch.x_mask.unsqueeze(1))
    for row, length in zip(alpha, batch.x_lengths, strict=True):
        assert torch.allclose(row[row > 0], torch.tensor(1.0) / length)


def test_uniform_attention_of_a_row_that_sees_nothing_is_zero(batch: Batch) -> None:
    """No division by zero, no NaN."""
    alpha = uniform(Causal().allowed(batch))
    assert (alpha[:, 0] == 0).all()
    assert alpha.isfinite().all()


def test_one_hot_attends_to_each_position_in_turn(batch: Batch) -> None:
    """L attentions, the l-th on l alone, each broadcastable to (B, T, L)."""
    L = batch.x.shape[1]
    hot = one_hot(batch)
    assert hot.shape == (L, 1, 1, L)
    assert torch.equal(hot.squeeze(), torch.eye(L))


# choose


def test_nothing_chosen_is_the_models_own(batch: Batch) -> None:
    """None changes nothing."""
    own = torch.rand(6, 4, batch.x.shape[1])
    assert choose(own, None, batch.x_mask.unsqueeze(1)) is own


@pytest.mark.parametrize("sites", [(), (2,)])
def test_a_legal_attention_replaces_every_row(batch: Batch, sites: tuple[int, ...]) -> None:
    """Uniform attention is legal everywhere, with or without sites; the result has alpha's shape."""
    own = torch.rand(6, *sites, 4, batch.x.shape[1])
    seen = batch.x_mask.unsqueeze(1)
    asked = uniform(seen).unsqueeze(1) if sites else uniform(seen)
    assert torch.equal(choose(own, asked, seen), asked.expand_as(own))


@pytest.mark.parametrize("sites", [(), (2,)])
def test_a_row_sent_where_it_may_not_look_keeps_its_own_weights(batch: Batch, sites: tuple[int, ...]) -> None:
    """Row by row: those that may see position l attend to it, the others stay as they were."""
    T = batch.y.shape[1]
    own = torch.rand(6, *sites, T, batch.x.shape[1])
    seen = Causal().allowed(batch)  # (B, T, L)
    for position, asked in enumerate(one_hot(batch)):
        got = choose(own, asked, seen)
        may = seen[:, :, position]
        may = may.unsqueeze(1).expand(own.shape[:-1]) if sites else may
        assert torch.equal(got[may], asked.flatten().expand_as(got[may]))
        assert torch.equal(got[~may], own[~may])


def test_the_chosen_attention_takes_the_models_precision(batch: Batch) -> None:
    """Attentions come in float32; a model in half precision gets its own type back."""
    own = torch.rand(6, 4, batch.x.shape[1]).bfloat16()
    assert choose(own, uniform(batch.x_mask.unsqueeze(1)), batch.x_mask.unsqueeze(1)).dtype == torch.bfloat16


def test_gradients_reach_the_chosen_attention(batch: Batch) -> None:
    """Descent on a free attention needs them."""
    asked = uniform(batch.x_mask.unsqueeze(1)).requires_grad_()
    choose(torch.rand(6, 4, batch.x.shape[1]), asked, batch.x_mask.unsqueeze(1)).sum().backward()
    assert asked.grad is not None and (asked.grad != 0).all()


# models under an attention


def equally(model: tiny.TinyModel, batch: Batch) -> Tensor:
    """Uniform attention, with a dimension for sites where the model has them."""
    weights = uniform(batch.x_mask.unsqueeze(1))
    return weights.unsqueeze(1) if model.sites else weights


def test_under_an_attention_a_model_attends_as_told(model: tiny.TinyModel, batch: Batch) -> None:
    """By default uniformly, with sites too; told otherwise, otherwise."""
    under = Under(model, uniform)
    alpha = under.trace(batch).alpha
    assert alpha.shape[1:-2] == ((3,) if model.sites else ())
    assert torch.equal(alpha, equally(model, batch).expand_as(alpha))
    hot = one_hot(batch)[0]
    assert torch.equal(under.trace(batch, attend=hot).alpha, model.trace(batch, attend=hot).alpha)
    gate = torch.zeros_like(batch.x, dtype=torch.float32)
    assert not torch.equal(under.trace(batch, gate=gate).logits, under.trace(batch).logits)


def test_loss_and_evaluation_are_those_of_the_attention(model: tiny.TinyModel, batch: Batch) -> None:
    """What is trained and what is reported is the model under uniform attention, not its own."""
    under = Under(model, uniform)
    weights = equally(model, batch)
    assert torch.equal(under.loss(batch), model.loss(batch, attend=weights))
    assert under.loss(batch) != model.loss(batch)
    for ours, theirs in zip(under.evaluate(batch), model.evaluate(batch, attend=weights), strict=True):
        assert torch.equal(ours, theirs)


def test_everything_else_is_the_models_own(model: tiny.TinyModel) -> None:
    """Other members pass through, and what is missing is missing."""
    under = Under(model, uniform)
    assert under.sites == model.sites
    assert list(under.parameters()) == list(model.parameters())
    assert not hasattr(under, "no_such_thing")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda under: pickle.loads(pickle.dumps(under))])
def test_a_model_under_an_attention_can_be_copied(copied: Any, model: tiny.TinyModel, batch: Batch) -> None:
    """A copy is under the same attention and gives the same numbers; a deep one has weights of its own."""
    under = Under(model, uniform)
    other = copied(under)
    assert isinstance(other, Under)
    assert unwrapped(other) is not other
    assert (unwrapped(other) is model) == (copied is copy.copy)
    assert torch.equal(other.trace(batch).logits, under.trace(batch).logits)


def test_unwrapped_is_the_model_itself(model: tiny.TinyModel) -> None:
    """What stands under an attention, and a model by itself, are the model."""
    assert unwrapped(Under(model, uniform)) is unwrapped(model) is model


def test_a_fast_delta_is_told_the_attention(batch: Batch) -> None:
    """delta depends on the attention, so its faster path must be given it; beta does not."""

    class Fast:
        def delta(self, batch: Batch, *, attend: Tensor | None = None) -> Tensor:
            assert attend is not None
            return attend

        def beta(self, batch: Batch) -> str:
            return "as it is"

        def trace(self, batch: Batch, **rest: Any) -> Trace:
            raise NotImplementedError

    under = Under(Fast(), uniform)
    assert torch.equal(under.delta(batch), uniform(batch.x_mask.unsqueeze(1)))
    assert under.beta(batch) == "as it is"


def test_padding_does_not_show_under_uniform_attention(model: tiny.TinyModel, batch: Batch) -> None:
    """A sentence in a batch has the logits that it has alone."""
    under = Under(model, uniform)
    together = under.trace(batch).logits
    assert together is not None
    for i in range(len(batch.x)):
        L, T = int(batch.x_lengths[i]), int(batch.y_mask[i].sum())
        one = replace(
            batch, x=batch.x[i : i + 1, :L], x_mask=batch.x_mask[i : i + 1, :L], x_lengths=batch.x_lengths[i : i + 1],
            y=batch.y[i : i + 1, :T], y_mask=batch.y_mask[i : i + 1, :T],
        )  # fmt: skip
        alone = under.trace(one).logits
        assert alone is not None
        assert torch.allclose(alone[0], together[i, :T], atol=1e-5)


def test_a_run_under_uniform_attention_decodes_under_it() -> None:
    """`translate` of a model that is held to uniform attention is told so too."""

    class Decoder:
        def translate(self, batch: Batch, *, attend: Tensor | None = None, beam: int = 1) -> tuple[Tensor | None, int]:
            return attend, beam

    batch = Split.of([[4, 5], [4]], [[4], [4]]).batch(np.arange(2))
    weights, beam = Under(Decoder(), uniform).translate(batch, beam=5)
    assert beam == 5
    assert torch.equal(weights, torch.tensor([[[0.5, 0.5]], [[1.0, 0.0]]]))


class TwoWindows(tiny.TinyModel):
    """Two heads of a causal model: h0 sees inputs 0 to t + 1, h1 only inputs t and t + 1."""

    def allowed(self, batch: Batch) -> Tensor:
        """(B, S, T, L)"""
        T, L = batch.y.shape[1], batch.x.shape[1]
        prefix = torch.ones(T, L, dtype=torch.bool).tril(1)
        windows = torch.stack([prefix, prefix.triu()])
        return batch.x_mask[:, None, None] & windows

    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        """As of TinyModel, each head behind its own mask."""
        e = self.read(batch.x) if gate is None else self.read(batch.x) * gate.unsqueeze(-1)
        s = self.write(torch.cat([torch.ones_like(batch.y[:, :1]), batch.y[:, :-1]], 1))
        seen = self.allowed(batch)
        scores = torch.stack([look(s) @ e.transpose(1, 2) for look in self.look], 1)
        own = scores.masked_fill(~seen, -1e9).softmax(-1)
        alpha = choose(own, attend, seen)
        return Trace(self.say(torch.cat([(alpha @ e.unsqueeze(1)).mean(1), s], -1)), alpha)


@pytest.fixture
def two_windows(tiny_corpus: Corpus) -> TwoWindows:
    torch.manual_seed(0)
    return TwoWindows.build(tiny_corpus, tiny.TinyModel.Options(heads=2)).eval()


def test_sites_that_see_different_cells(two_windows: TwoWindows, batch: Batch) -> None:
    """alpha keeps the cells of any site, 0 where one may not look; beta those that every site can be forced to."""
    from ktiwprobe.probes.probing import probe

    seen = two_windows.allowed(batch) & batch.y_mask[:, None, :, None]
    alpha, beta, delta = (probe(two_windows, [batch], name) for name in ("alpha", "beta", "delta"))
    assert alpha.values.shape[1] == delta.values.shape[1] == int(seen.any(1).sum())
    assert beta.values.shape[1] == int(seen.all(1).sum()) < alpha.values.shape[1]
    outside = ~seen.transpose(0, 1)[:, seen.any(1)]  # (S, cells)
    assert outside.any()
    assert (alpha.values[outside.numpy()] == 0).all()


def test_under_uniform_attention_each_site_keeps_its_own_cells(two_windows: TwoWindows, batch: Batch) -> None:
    """A window of 2 gets halves, a prefix of n gets n-ths; neither row falls back to its own weights."""
    seen = two_windows.allowed(batch)
    alpha = Under(two_windows, uniform).trace(batch).alpha
    assert torch.equal(alpha, uniform(seen).expand_as(alpha))

"""Probes: closed forms, finite differences and float64 as independent oracles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ktiwprobe import Batch, Corpus, Split, TorchModel, Trace, choose
from ktiwprobe.errors import ContractError
from ktiwprobe.models.attend import Under, allowed, uniform
from ktiwprobe.models.scoring import log_odds
from ktiwprobe.probes.definitions import alpha, beta, beta_by_definition, delta, delta_by_definition
from tiny import TinyCount, TinyModel

XS, YS = [[4, 5, 6, 7], [8], [9, 4, 5]], [[4, 5], [6, 7, 2], [2]]


@pytest.fixture
def batch() -> Batch:
    """Three sentences, padded on both sides, one of a single word."""
    return Split.of(XS, YS).batch(np.arange(3))


class Linear(TorchModel):
    """logits = W Σ α h + c_t, attention by word: all that a closed form needs."""

    def __init__(self, words: int = 12, width: int = 3, outputs: int = 9) -> None:
        super().__init__()
        self.embed, self.look = nn.Embedding(words, width), nn.Linear(width, 1)
        self.say, self.place = nn.Linear(width, outputs), nn.Embedding(8, outputs)

    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        h = self.embed(batch.x)
        h = h if gate is None else h * gate.to(h.dtype).unsqueeze(-1)
        seen, T = allowed(self, batch), batch.y.shape[1]
        own = self.look(h).mT.masked_fill(~seen, -torch.inf).softmax(-1).expand(-1, T, -1)  # (B, T, L)
        used = choose(own, attend, seen)
        return Trace(self.say(used @ h) + self.place.weight[:T], used)


class Staged(Linear):
    """The same with its encoder apart; counts how often that runs."""

    encoded = 0

    def encode(self, batch: Batch, gate: Tensor | None = None) -> Tensor:
        self.encoded += 1
        return self.embed(batch.x)

    def trace(self, batch: Batch, *, attend: Any = None, gate: Any = None, state: Any = None) -> Trace:
        if state is None:
            self.encode(batch)
        return super().trace(batch, attend=attend, gate=gate)


def linear(kind: type[Linear] = Linear) -> Linear:
    """A model in float64, so that oracles can be exact."""
    torch.manual_seed(0)
    return kind().double().eval()


def cells(batch: Batch) -> Tensor:
    return batch.y_mask.unsqueeze(-1) & batch.x_mask.unsqueeze(1)


def gamma_of(z: np.ndarray, y: int) -> float:
    """log p / (1 - p) from its definition."""
    others = np.delete(z, y)
    return float(z[y] - others.max() - np.log(np.exp(others - others.max()).sum()))


def test_beta_is_its_closed_form(batch: Batch) -> None:
    """Attending to l alone makes the context h_l, so each cell is W h_l + c_t, cell by cell."""
    model = linear()
    found = beta(model, batch).numpy()
    W, b = model.say.weight.detach().numpy(), model.say.bias.detach().numpy()
    E, c = model.embed.weight.detach().numpy(), model.place.weight.detach().numpy()
    for i, (x, y) in enumerate(zip(XS, YS, strict=True)):
        for t, output in enumerate(y):
            for l, word in enumerate(x):  # noqa: E741
                assert found[i, t, l] == pytest.approx(gamma_of(W @ E[word] + b + c[t], output), abs=1e-12)


def test_beta_encodes_once_where_it_can(batch: Batch) -> None:
    """A model with encode pays for it once, not once a position."""
    model = linear(Staged)
    torch.testing.assert_close(beta_by_definition(model, batch), beta_by_definition(linear(), batch))
    assert model.encoded == 1


def test_a_fast_beta_and_delta_are_used(batch: Batch) -> None:
    """What a model brings itself is what the probe returns."""

    class Fast(Linear):
        def beta(self, batch: Batch) -> Tensor:
            return torch.full((1,), 7.0)

        def delta(self, batch: Batch) -> Tensor:
            return torch.full((1,), 8.0)

    model = linear(Fast)
    assert beta(model, batch).item() == 7
    assert delta(model, batch).item() == 8


@pytest.mark.parametrize("under", [False, True])
def test_delta_is_the_slope_of_log_p(batch: Batch, under: bool) -> None:
    """Central differences of log p(y_t) in every gate, under the model's own attention and under uniform attention."""
    model: Any = linear()
    model = Under(model, uniform) if under else model
    found = delta(model, batch)

    def log_p(gate: Tensor) -> Tensor:
        with torch.no_grad():
            logits = model.trace(batch, gate=gate).logits
        return logits.log_softmax(-1).gather(-1, batch.y.unsqueeze(-1)).squeeze(-1)  # (B, T)

    ones = torch.ones(batch.x.shape, dtype=torch.float64)
    for l in range(batch.x.shape[1]):  # noqa: E741
        step = torch.zeros_like(ones)
        step[:, l] = 1e-5
        slope = (log_p(ones + step) - log_p(ones - step)) / 2e-5
        difference = (slope - found[..., l]).abs()[cells(batch)[..., l]]
        assert difference.max() < 1e-7
    assert found[cells(batch)].abs().max() > 0.01


def test_delta_survives_certainty(batch: Batch) -> None:
    """At p near 1, where log p itself is flat in float32, delta still has a value that float64 confirms."""
    model = linear()
    with torch.no_grad():
        model.say.weight.mul_(20)
    exact = delta(model, batch)
    rounded = delta(model.float(), batch).double()
    torch.testing.assert_close(rounded[cells(batch)], exact[cells(batch)], rtol=1e-2, atol=0)


def test_delta_needs_no_graph_from_the_caller(batch: Batch) -> None:
    """It works without gradients around it and on frozen weights, and leaves no gradient behind."""
    model = linear()
    with torch.no_grad():
        one = delta(model, batch)
    two = delta(model.requires_grad_(False), batch)
    torch.testing.assert_close(one, two)
    assert not one.requires_grad
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("frozen", [False, True])
def test_a_model_without_gate_is_told(batch: Batch, frozen: bool) -> None:
    """A trace that ignores gate is refused in a sentence, whether or not its weights can learn."""

    class Deaf(Linear):
        def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
            return super().trace(batch, attend=attend)

    with pytest.raises(ContractError, match="does not depend on gate"):
        delta_by_definition(linear(Deaf).requires_grad_(not frozen), batch)


def test_log_odds_equal_float64() -> None:
    """float32 log-odds agree with log p / (1 - p) computed in float64, for logits small and large."""
    rng = np.random.default_rng(0)
    for scale in (0.1, 1, 10, 100):
        z = (rng.normal(size=(4, 5, 11)) * scale).astype(np.float32)
        y = rng.integers(0, 11, (4, 5))
        exact = [[gamma_of(z[i, t].astype(float), y[i, t]) for t in range(5)] for i in range(4)]
        some = Batch(*(torch.tensor(0),) * 3, torch.tensor(y), torch.tensor(0))
        found = log_odds(Trace(torch.tensor(z), torch.tensor(0)), some)
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)


def test_log_odds_do_not_saturate() -> None:
    """Margins of 16 and more keep their order, where float32 p and log p tie."""
    margins = torch.arange(16.0, 80.0)
    logits = torch.stack([torch.zeros_like(margins), margins], -1).unsqueeze(0)  # (1, T, 2)
    batch = Batch(*(torch.tensor(0),) * 3, torch.ones(1, 64, dtype=torch.long), torch.tensor(0))
    found = log_odds(Trace(logits, torch.tensor(0)), batch)[0]
    assert (found.diff() > 0).all()
    assert (logits.softmax(-1)[0, :, 1].diff() <= 0).any()


def test_log_odds_of_half_precision_are_not_rounded_twice() -> None:
    """The sum over the vocabulary is kept in float32, or neighbours of 8 bits would tie."""
    torch.manual_seed(0)
    logits = torch.randn(1, 200, 50).bfloat16()
    batch = Batch(*(torch.tensor(0),) * 3, torch.zeros(1, 200, dtype=torch.long), torch.tensor(0))
    found = log_odds(Trace(logits, torch.tensor(0)), batch)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), log_odds(Trace(logits.double(), torch.tensor(0)), batch))
    assert len(found.unique()) == 200


def test_scores_stand_in_for_logits(batch: Batch) -> None:
    """A model may hand over the log-odds of y instead; with neither there is nothing to rank."""
    scores = torch.randn(3, 3)
    assert log_odds(Trace(None, torch.tensor(0), scores), batch) is scores
    with pytest.raises(ContractError, match="neither logits nor scores"):
        log_odds(Trace(None, torch.tensor(0)), batch)


class Table:
    """Word knowledge alone, as IBM Model 1 has it: log-odds by (source, target)."""

    def __init__(self, scores: Tensor) -> None:
        self.scores = scores

    def beta(self, batch: Batch) -> Tensor:
        return self.scores[batch.x].gather(2, batch.y.unsqueeze(1).expand(-1, batch.x.shape[1], -1)).mT


def test_alpha_without_attention_is_a_share_of_beta(batch: Batch) -> None:
    """beta / sum(beta) over real positions; a row in which no word was ever seen with the output is uniform."""
    scores = torch.randn(12, 9, dtype=torch.float64)
    scores[4:8, 5] = -torch.inf  # output 5 was seen with no word of the first sentence
    scores[4, 4] = -torch.inf
    found = alpha(Table(scores), batch)
    p = torch.sigmoid(scores)
    for i, (x, y) in enumerate(zip(XS, YS, strict=True)):
        for t, output in enumerate(y):
            share = p[x, output] / p[x, output].sum() if p[x, output].any() else torch.full((len(x),), 1 / len(x))
            torch.testing.assert_close(found[i, t, : len(x)], share.double())
            assert not found[i, t, len(x) :].any()
    assert found[0, 1].tolist() == [0.25] * 4


def test_alpha_without_attention_does_not_underflow(batch: Batch) -> None:
    """Probabilities too small for float32 still have an order."""
    scores = -200 - torch.arange(12.0).unsqueeze(1).expand(12, 9)
    found = alpha(Table(scores), batch)
    assert (found[0, 0].diff() < 0).all()
    torch.testing.assert_close(found.sum(-1), torch.ones(3, 3))


def test_alpha_without_attention_keeps_sites_and_allowed(batch: Batch) -> None:
    """(B, S, T, L) stays so, and weight goes only where the model may look."""

    class Sited(Table):
        sites = ("a", "b")

        def beta(self, batch: Batch) -> Tensor:
            return torch.stack([super().beta(batch), -super().beta(batch)], 1)

        def allowed(self, batch: Batch) -> Tensor:
            return batch.x_mask.unsqueeze(1) & (torch.arange(batch.x.shape[1]) != 1)

    model = Sited(torch.randn(12, 9))
    found = alpha(model, batch)
    assert found.shape == (3, 2, 3, 4)
    assert not found[..., 1].any()
    torch.testing.assert_close(found.sum(-1), torch.ones(3, 2, 3))


def test_sites_keep_their_own_alpha_and_share_one_beta(tiny_corpus: Corpus, batch: Batch) -> None:
    """alpha is (B, S, T, L); beta tells all sites to look at l, so it is (B, T, L), and so is delta."""
    torch.manual_seed(0)
    model = TinyModel.build(tiny_corpus, TinyModel.Options(heads=3)).eval()
    assert alpha(model, batch).shape == (3, 3, 3, 4)
    one = torch.zeros(1, 3, 1, 4)
    one[..., 2] = 1
    by_hand = log_odds(model.trace(batch, attend=one), batch)
    torch.testing.assert_close(beta(model, batch)[..., 2], by_hand)
    assert delta(model, batch).shape == (3, 3, 4)


def test_what_a_model_lacks_is_told(tiny_corpus: Corpus, batch: Batch) -> None:
    """delta of a model without trace, and anything of one with neither trace nor beta, are sentences."""
    with pytest.raises(ContractError, match="delta needs a model with trace: TinyCount has none"):
        delta(TinyCount.build(tiny_corpus, None), batch)
    for probe in (alpha, beta, delta):
        with pytest.raises(ContractError, match=f"{probe.__name__} needs a model with trace"):
            probe(nn.Linear(1, 1), batch)

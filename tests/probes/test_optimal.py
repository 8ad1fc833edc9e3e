"""alpha-opt: the paper's counterexample, and the laws of an optimum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import minimize
from torch import Tensor, nn

from ktiwprobe import Batch, Corpus, Run, Split, Trace, build_registry, choose, extract
from ktiwprobe.compare.finder import Spec, read_spec
from ktiwprobe.errors import ContractError
from ktiwprobe.models.attend import Under, allowed, one_hot, uniform
from ktiwprobe.models.scoring import log_odds
from ktiwprobe.plugins.options import fill
from ktiwprobe.plugins.registry import Registry
from ktiwprobe.probes.definitions import beta
from ktiwprobe.probes.optimal import TOLERANCE, Optimum, alpha_opt, optimise, project
from tiny import TinyCount, TinyModel


class Mixture:
    """logits = Σ_l α_l γ_l, the model of Appendix A.1 without γ_s."""

    def __init__(self, gamma: Tensor) -> None:
        self.gamma = gamma  # (B, L, V)

    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        seen = batch.x_mask.unsqueeze(1)
        used = choose(uniform(seen).expand(*batch.y.shape, -1), attend, seen)
        return Trace(used @ self.gamma, used)


class ScoresOnly(Mixture):
    """The same, for a vocabulary too large to hand over."""

    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        trace = super().trace(batch, attend=attend)
        return Trace(None, trace.alpha, log_odds(trace, batch))


def mixture(seed: int = 0, *, B: int = 3, T: int = 4, L: int = 6, V: int = 5, kind: type[Mixture] = Mixture) -> Any:
    """A random convex problem for each row: a model and a batch."""
    rng = np.random.default_rng(seed)
    batch = Split.of(np.full((B, L), 4), rng.integers(0, V, (B, T))).batch(np.arange(B))
    return kind(torch.from_numpy(rng.normal(size=(B, L, V)) * 4).float()), batch


@pytest.fixture(scope="module")
def sentences(tiny_corpus: Corpus) -> Split:
    """Eight sentences of different lengths, and one of a single word."""
    split = tiny_corpus.split("validation")
    return Split.of([*(split.x[i] for i in range(8)), [4]], [*(split.y[i] for i in range(8)), [7, 2]])


@pytest.fixture(scope="module")
def batch(sentences: Split) -> Batch:
    """All of them, padded."""
    return sentences.batch(np.arange(len(sentences)))


@pytest.fixture(scope="module")
def translator(tiny_corpus: Corpus) -> Callable[..., Any]:
    """lstm-seq2seq of the given options, trained a little."""

    def make(**options: Any) -> Any:
        kind = build_registry().load("models", "lstm-seq2seq")
        wishes = {"hidden": 16, "layers": 1, "dropout": 0.0, "embeddings": "separate", **options}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = kind.build(tiny_corpus, fill(kind.Options, wishes, space="model"))
            optimiser = model.optimiser(list(model.parameters()), lr=0.03)
            train = tiny_corpus.split("train").batch(np.arange(40))
            for _ in range(15):
                optimiser.zero_grad()
                model.loss(train).backward()
                optimiser.step()
        model.zero_grad()
        return model.eval()

    return make


def losses_under(model: Any, batch: Batch, attend: Tensor | None) -> Tensor:
    """-log p of each output. (B, T)"""
    with torch.no_grad():
        return F.softplus(-log_odds(model.trace(batch, attend=attend), batch))


def check_optimum(found: Optimum, model: Any, batch: Batch) -> None:
    """The returned weights are weights, and loss is theirs."""
    seen = allowed(model, batch)
    seen = seen.unsqueeze(1) if found.alpha.dim() == 4 else seen
    assert (found.alpha >= 0).all()
    assert not found.alpha.masked_fill(seen, 0).any()
    torch.testing.assert_close(found.alpha.sum(-1), torch.ones(found.alpha.shape[:-1]), rtol=0, atol=1e-6)
    real = batch.y_mask
    torch.testing.assert_close(found.loss[real], losses_under(model, batch, found.alpha)[real], rtol=1e-4, atol=1e-5)
    assert (found.gap >= 0).all()


def reference(gamma: np.ndarray, y: int) -> float:
    """The least loss over the simplex by another method, in float64; gamma (L, V)."""
    gamma = gamma.astype(float)

    def loss(a: np.ndarray) -> float:
        z = a @ gamma
        return float(np.logaddexp.reduce(z) - z[y])

    def slope(a: np.ndarray) -> np.ndarray:
        z = a @ gamma
        p = np.exp(z - np.logaddexp.reduce(z))
        return gamma @ p - gamma[:, y]

    L = len(gamma)
    sums = {"type": "eq", "fun": lambda a: a.sum() - 1, "jac": lambda a: np.ones(L)}
    starts = [np.full(L, 1 / L), *(0.9 * np.eye(L) + 0.1 / L)]
    runs = [
        minimize(loss, a, jac=slope, bounds=[(0, 1)] * L, constraints=sums, method="SLSQP", tol=1e-12) for a in starts
    ]
    return min(run.fun for run in runs)


@pytest.mark.parametrize("kind", [Mixture, ScoresOnly])
def test_the_papers_counterexample(kind: type[Mixture]) -> None:
    """Appendix A.1: the optimum is (0, 1/2, 1/2), and gives nothing to the position with the largest beta."""
    model = kind(torch.tensor([[[0.0, 0, 0], [0, -10, 5], [0, 5, -10]]]))
    batch = Split.of([[4, 5, 6]], [[0]]).batch(np.arange(1))
    found = optimise(model, batch)
    assert beta(model, batch).argmax().item() == 0
    assert found.alpha[0, 0, 0] <= 1e-6
    assert found.alpha[0, 0, 1:].tolist() == pytest.approx([0.5, 0.5], abs=1e-4)
    assert found.loss.item() == pytest.approx(np.log(1 + 2 * np.exp(-2.5)), abs=1e-6)
    assert found.gap.item() < TOLERANCE


@pytest.mark.parametrize("most", [0, 2, 5, 500])
def test_the_gap_bounds_what_is_missing(most: int) -> None:
    """f - min f <= gap at every stage of a convex problem, with min f from scipy; at the end both are small."""
    model, batch = mixture()
    found = optimise(model, batch, most=most)
    least = np.array([[reference(model.gamma[i].numpy(), y) for y in row] for i, row in enumerate(batch.y.tolist())])
    missing = found.loss.numpy() - least
    assert (missing <= found.gap.numpy() + 1e-5).all()
    assert (missing >= -1e-5).all()
    assert found.iterations <= most
    if most == 500:
        assert found.gap.max() < TOLERANCE
    else:
        assert found.gap.max() > TOLERANCE  # which is how one knows


def test_projection_is_the_nearest_distribution() -> None:
    """Its conditions hold: positive parts of v - θ that sum to 1, over seen positions only; huge numbers do no harm."""
    torch.manual_seed(0)
    seen = torch.rand(50, 7) < 0.7
    seen[:, 0] = True
    seen[3] = False
    for scale in (0.1, 1, 1e4):
        v = torch.randn(50, 7, dtype=torch.float64) * scale
        found = project(v, seen)
        assert not found[~seen].any()
        assert not found[3].any()
        theta = torch.where(found > 0, v - found, -torch.inf).amax(-1, keepdim=True)  # (50, 1)
        full, nearest = seen.any(-1), (v - theta).clamp_min(0).masked_fill(~seen, 0)
        torch.testing.assert_close(found[full].sum(-1), torch.ones(49, dtype=torch.float64))
        torch.testing.assert_close(found[full], nearest[full], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("output", "heads"), [("linear", 1), ("linear", 3), ("mlp", 1)])
def test_nothing_one_can_think_of_is_better(
    translator: Callable[..., Any], batch: Batch, output: str, heads: int
) -> None:
    """Uniform attention never wins; with a linear output neither do one-hot and the model's own, up to the gap."""
    model = translator(output=output, heads=heads)
    found, real = optimise(model, batch), batch.y_mask
    check_optimum(found, model, batch)
    flat = uniform(allowed(model, batch))
    assert (found.loss <= losses_under(model, batch, flat.unsqueeze(1) if heads > 1 else flat) + 1e-5)[real].all()
    if output == "linear":
        assert found.gap.max() < TOLERANCE
        for attend in (None, *one_hot(batch)):
            assert (found.loss <= losses_under(model, batch, attend) + found.gap + 1e-5)[real].all()
        assert losses_under(model, batch, None)[real].mean() > found.loss[real].mean() + 0.01


def test_a_row_is_as_if_alone(translator: Callable[..., Any], sentences: Split, batch: Batch) -> None:
    """A sentence finds the same in a batch, beside longer ones, as by itself."""
    model = translator(output="linear")
    together = optimise(model, batch)
    for row in range(len(sentences)):
        alone = optimise(model, sentences.batch(np.array([row])))
        T = alone.loss.shape[1]
        torch.testing.assert_close(together.loss[row, :T], alone.loss[0], rtol=0, atol=1e-3)
        assert not together.alpha[row, :, alone.alpha.shape[-1] :].any()


def test_several_sites_have_weights_of_their_own(tiny_corpus: Corpus, batch: Batch) -> None:
    """Without encode too; their mean is what counts, so together they reach what one site reaches."""
    torch.manual_seed(0)
    model = TinyModel.build(tiny_corpus, TinyModel.Options(heads=3)).eval()
    found = optimise(model, batch)
    check_optimum(found, model, batch)
    assert found.alpha.shape == (*batch.y.shape[:1], 3, *batch.y.shape[1:], batch.x.shape[1])
    model.sites, model.look = (), model.look[:1]
    single = optimise(model, batch)
    assert found.gap.max() < TOLERANCE
    torch.testing.assert_close(found.loss, single.loss, rtol=0, atol=2 * TOLERANCE)


def test_only_allowed_positions_get_weight(batch: Batch) -> None:
    """A row that sees the inputs up to t has zeros after t, its first output one choice, and no row may be NaN."""

    class Causal(Mixture):
        def allowed(self, batch: Batch) -> Tensor:
            t, l = torch.arange(batch.y.shape[1]), torch.arange(batch.x.shape[1])  # noqa: E741
            return batch.x_mask.unsqueeze(1) & (l <= t.unsqueeze(1))

        def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
            used = choose(uniform(self.allowed(batch)), attend, self.allowed(batch))
            return Trace(used @ self.gamma, used)

    torch.manual_seed(0)
    model = Causal(torch.randn(*batch.x.shape, 12) * 3)
    found = optimise(model, batch)
    check_optimum(found, model, batch)
    assert (found.alpha[:, 0, 0] == 1).all()
    assert not found.gap[:, 0].any()
    torch.testing.assert_close(found.alpha[-1, :, 0], torch.ones(batch.y.shape[1]))  # the sentence of one word


def test_no_gradient_is_left_behind(translator: Callable[..., Any], batch: Batch) -> None:
    """It works with gradients off around it and on frozen weights, and leaves no graph and no gradient."""
    model = translator(output="linear")
    with torch.no_grad():
        one = alpha_opt(model, batch)
    assert all(parameter.grad is None for parameter in model.parameters())
    two = alpha_opt(model.requires_grad_(False), batch)
    torch.testing.assert_close(one, two)
    assert not one.requires_grad
    assert not two.requires_grad


def test_the_encoder_runs_once(translator: Callable[..., Any], batch: Batch) -> None:
    """Under uniform attention too, which an attention that is given overrules."""
    model, calls = translator(output="linear"), []
    encode = model.encode
    model.encode = lambda batch: calls.append(batch) or encode(batch)
    found = optimise(model, batch)
    assert found.iterations > 1
    assert len(calls) == 1
    under = optimise(Under(model, uniform), batch)
    assert len(calls) == 2
    assert torch.equal(found.alpha, under.alpha)


def test_a_row_gives_up_where_it_gains_nothing() -> None:
    """At a kink the gap stays large: the row keeps its best weights instead of running on."""

    class Kinked(Mixture):
        def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
            trace = super().trace(batch, attend=attend)
            return Trace(None, trace.alpha, -(trace.alpha[..., 0] - 0.7).abs())  # best at 0.7, where it has no slope

    model, batch = mixture(kind=Kinked, L=2)
    found = optimise(model, batch)
    assert found.iterations < 500
    assert found.gap.min() > TOLERANCE
    torch.testing.assert_close(found.alpha[..., 0], torch.full((3, 4), 0.7), rtol=0, atol=1e-3)


def test_what_a_model_lacks_is_told(tiny_corpus: Corpus, batch: Batch) -> None:
    """No trace, or a trace that ignores attend, is a sentence."""
    with pytest.raises(ContractError, match="alpha-opt needs a model with trace: TinyCount has none"):
        alpha_opt(TinyCount.build(tiny_corpus, None), batch)

    class Deaf(TinyModel):
        def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
            return super().trace(batch)

    model: nn.Module = Deaf.build(tiny_corpus, TinyModel.Options())
    for learns in (True, False):
        with pytest.raises(ContractError, match="does not depend on attend"):
            alpha_opt(model.requires_grad_(learns), batch)


def test_it_is_a_probe_like_others(tiny_run: Run, tiny_registry: Registry) -> None:
    """A SPEC names it, alone and with a suffix, and a run gives its signal: rows that sum to 1."""
    assert read_spec("alpha-opt", tiny_registry) == Spec("alpha-opt", "alpha-opt")
    assert read_spec("alpha-opt-uf@10", tiny_registry) == Spec("alpha-opt-uf@10", "alpha-opt", pick="uf", step="10")
    signal = extract(tiny_run, "alpha-opt", registry=tiny_registry, device="cpu")
    ends = np.cumsum(signal.lengths)
    sums = np.add.reduceat(signal.values[0], ends - signal.lengths)
    np.testing.assert_allclose(sums, 1, atol=1e-5)

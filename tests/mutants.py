"""Plugins for test_mutants.py: wrong ones that return plausible numbers, and right ones that look unusual.

`Right` translates in steps that a mutant replaces one at a time; every mutant's docstring names its mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ktiwprobe import Batch, Corpus, Split, TorchModel, Trace, choose, option
from ktiwprobe.compare.metrics import Kendall
from ktiwprobe.data import BOS, EOS, each_token_a_word
from ktiwprobe.models.attend import allowed, by_site
from ktiwprobe.models.scoring import log_odds
from ktiwprobe.probes.definitions import alpha, beta_by_definition, delta_by_definition
from tiny import SOURCE, TARGET, FreshSentences, TinyTask

Rows = np.ndarray


class Right(TorchModel):
    """Words and positions, mixed with the input before; attention by one or several heads."""

    default_task = "tiny-task"
    heads = 1

    @dataclass(frozen=True)
    class Options:
        """Sizes."""

        width: int = option(6, low=1)

    def __init__(self, sources: int, targets: int, width: int) -> None:
        super().__init__()
        self.read, self.write, self.place = (nn.Embedding(n, width) for n in (sources, targets, 32))
        self.mix, self.say = nn.Linear(width, width), nn.Linear(2 * width, targets)
        self.look = nn.ModuleList(nn.Linear(width, width) for _ in range(self.heads))
        self.value = nn.ModuleList(nn.Linear(width, width) for _ in range(self.heads))
        if self.heads > 1:
            self.sites = tuple(f"h{k}" for k in range(self.heads))

    @classmethod
    def build(cls, corpus: Corpus, options: Options) -> Right:
        return cls(corpus.source_size, corpus.target_size, options.width)

    def attention_parameters(self) -> list[nn.Parameter]:
        return list(self.look.parameters())

    def words(self, batch: Batch, gate: Tensor | None) -> Tensor:
        e = self.read(batch.x)
        return e if gate is None else e * gate.to(e.dtype).unsqueeze(-1)

    def states(self, e: Tensor) -> Tensor:
        """(B, L, D)"""
        h = e + self.place.weight[: e.shape[1]]
        return h + torch.tanh(self.mix(F.pad(h, (0, 0, 1, 0))[:, :-1]))

    def before(self, batch: Batch) -> Tensor:
        y = torch.cat([torch.full_like(batch.y[:, :1], BOS), batch.y[:, :-1]], 1)
        return self.write(y) + self.place.weight[: y.shape[1]]  # (B, T, D)

    def scores(self, s: Tensor, h: Tensor, batch: Batch) -> Tensor:
        """(B, S, T, L)"""
        scores = torch.stack([look(s) @ h.mT for look in self.look], 1)
        return scores.masked_fill(~by_site(allowed(self, batch)), -torch.inf)

    def own(self, s: Tensor, h: Tensor, batch: Batch) -> Tensor:
        return self.scores(s, h, batch).softmax(-1)

    def chosen(self, own: Tensor, attend: Tensor | None, batch: Batch) -> Tensor:
        return choose(own, attend, allowed(self, batch))

    def context(self, used: Tensor, h: Tensor, batch: Batch) -> Tensor:
        return sum(value(used[:, k] @ h) for k, value in enumerate(self.value))  # type: ignore[return-value]

    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        h, s = self.states(self.words(batch, gate)), self.before(batch)
        if attend is not None and not self.sites:
            attend = attend.unsqueeze(-3)
        used = self.chosen(self.own(s, h, batch), attend, batch)
        logits = self.say(torch.cat([self.context(used, h, batch), s], -1))
        return Trace(logits, used if self.sites else used[:, 0])


class TwoHeads(Right):
    """Right, with two sites."""

    heads = 2


# models that do not run under the attention they are given


class _Claims(Right):
    """Reports `attend` as the weights that it used, whatever it used."""

    def used(self, own: Tensor, attend: Tensor, batch: Batch) -> Tensor:
        raise NotImplementedError

    def chosen(self, own: Tensor, attend: Tensor | None, batch: Batch) -> Tensor:
        self.claimed = choose(own, attend, allowed(self, batch))
        return own if attend is None else self.used(own, self.claimed, batch)

    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        trace = super().trace(batch, attend=attend, gate=gate)
        return replace(trace, alpha=self.claimed if self.sites else self.claimed[:, 0])


class Ignores(_Claims):
    """Uses its own weights always."""

    def used(self, own: Tensor, attend: Tensor, batch: Batch) -> Tensor:
        return own


class Half(_Claims):
    """Uses the mean of its own weights and of those it is given."""

    def used(self, own: Tensor, attend: Tensor, batch: Batch) -> Tensor:
        return (own + attend) / 2


class SecretHalf(Half):
    """The same, and nothing says which parameters are the attention's."""

    attention_parameters = property()  # type: ignore[assignment]


class HeadIgnores(_Claims):
    """The second head uses its own weights always."""

    heads = 2

    def used(self, own: Tensor, attend: Tensor, batch: Batch) -> Tensor:
        return torch.stack([attend[:, 0], own[:, 1]], 1)


class HeadHalf(_Claims):
    """The second head adds its own weights."""

    heads = 2
    attention_parameters = property()  # type: ignore[assignment]

    def used(self, own: Tensor, attend: Tensor, batch: Batch) -> Tensor:
        return torch.stack([attend[:, 0], (own[:, 1] + attend[:, 1]) / 2], 1)


class Smooths(_Claims):
    """Spreads a tenth of what it is given."""

    def used(self, own: Tensor, attend: Tensor, batch: Batch) -> Tensor:
        seen = batch.x_mask[:, None, None]
        return 0.9 * attend + 0.1 * seen / seen.sum(-1, keepdim=True)


class Prior(_Claims):
    """Takes what it is given as a prior on its own weights."""

    def used(self, own: Tensor, attend: Tensor, batch: Batch) -> Tensor:
        both = own * attend
        return both / both.sum(-1, keepdim=True).clamp_min(1e-9)


class FirstRowIgnores(_Claims):
    """Output 0 uses its own weights always."""

    def used(self, own: Tensor, attend: Tensor, batch: Batch) -> Tensor:
        return torch.cat([own[:, :, :1], attend[:, :, 1:]], 2)


class SwapsHeads(_Claims):
    """Gives each head the weights of the other."""

    heads = 2

    def used(self, own: Tensor, attend: Tensor, batch: Batch) -> Tensor:
        return attend.flip(1)


class OneForAll(_Claims):
    """Gives the second head the weights of the first."""

    heads = 2

    def used(self, own: Tensor, attend: Tensor, batch: Batch) -> Tensor:
        return attend[:, :1].expand_as(attend)


class Window(_Claims):
    """Its rows see two positions back at most, and allowed(batch) does not say so."""

    def own(self, s: Tensor, h: Tensor, batch: Batch) -> Tensor:
        return self.scores(s, h, batch).masked_fill(~self.near(batch), -1e9).softmax(-1)

    def near(self, batch: Batch) -> Tensor:
        t, l = (torch.arange(n, device=batch.x.device) for n in (batch.y.shape[1], batch.x.shape[1]))  # noqa: E741
        return ((t.unsqueeze(1) - l).abs() <= 2) | (l == 0)

    def used(self, own: Tensor, attend: Tensor, batch: Batch) -> Tensor:
        legal = (attend.masked_fill(~self.near(batch), 0) == attend).all(-1, keepdim=True)
        return torch.where(legal, attend, own)


class Sharpens(Right):
    """Reports soft weights and looks at the highest alone."""

    def context(self, used: Tensor, h: Tensor, batch: Batch) -> Tensor:
        hard = (used == used.amax(-1, keepdim=True)).float()
        return super().context(hard, h, batch)


class ReportsOwn(Right):
    """Reports its own weights though it used others."""

    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        own = super().trace(batch, gate=gate)
        return replace(super().trace(batch, attend=attend, gate=gate), alpha=own.alpha)


class DeadSite(TwoHeads):
    """Names a second site that nothing depends on."""

    def context(self, used: Tensor, h: Tensor, batch: Batch) -> Tensor:
        return self.value[0](used[:, 0] @ h) + 0 * self.value[1](used[:, 1] @ h)


class SameName(TwoHeads):
    """Two sites share a name."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.sites = ("h", "h")


# models that do not scale their embeddings by the gate


class GatesStates(Right):
    """Scales the encoder's output."""

    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        self.gate = gate
        return super().trace(batch, attend=attend)

    def states(self, e: Tensor) -> Tensor:
        h = super().states(e)
        return h if self.gate is None else h * self.gate.unsqueeze(-1)


class GatesPlaces(GatesStates):
    """Scales the sum of embedding and position."""

    def states(self, e: Tensor) -> Tensor:
        h = e + self.place.weight[: e.shape[1]]
        h = h if self.gate is None else h * self.gate.unsqueeze(-1)
        return Right.states(self, h - self.place.weight[: e.shape[1]])


class GatesValues(GatesStates):
    """Scales what is read and not what is compared."""

    def states(self, e: Tensor) -> Tensor:
        return Right.states(self, e)

    def context(self, used: Tensor, h: Tensor, batch: Batch) -> Tensor:
        h = Right.states(self, self.words(batch, self.gate))
        return super().context(used, h, batch)


class GatesKeys(GatesStates):
    """Scales what is compared and not what is read."""

    def states(self, e: Tensor) -> Tensor:
        return Right.states(self, e)

    def own(self, s: Tensor, h: Tensor, batch: Batch) -> Tensor:
        return super().own(s, Right.states(self, self.words(batch, self.gate)), batch)


class GateSquared(Right):
    """Scales by the square."""

    def words(self, batch: Batch, gate: Tensor | None) -> Tensor:
        return super().words(batch, None if gate is None else gate**2)


class GateClamped(Right):
    """Scales by 1 at most."""

    def words(self, batch: Batch, gate: Tensor | None) -> Tensor:
        return super().words(batch, None if gate is None else 2 * (1 - (1 - gate / 2).clamp_min(0.5)))


class GateNormalised(Right):
    """Scales by the gate's share of its mean."""

    def words(self, batch: Batch, gate: Tensor | None) -> Tensor:
        if gate is None:
            return super().words(batch, None)
        mean = (gate * batch.x_mask).sum(1, keepdim=True) / batch.x_mask.sum(1, keepdim=True)
        return super().words(batch, gate / mean)


class GatesOutputs(Right):
    """Scales the embeddings of outputs too."""

    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        self.gate = gate
        return super().trace(batch, attend=attend, gate=gate)

    def before(self, batch: Batch) -> Tensor:
        s = super().before(batch)
        if self.gate is None:
            return s
        mean = (self.gate * batch.x_mask).sum(1) / batch.x_mask.sum(1)
        return s * mean.view(-1, 1, 1)


class IgnoresGate(Right):
    """Takes no notice of it."""

    def words(self, batch: Batch, gate: Tensor | None) -> Tensor:
        return super().words(batch, None)


# models with other mistakes


class Unnormalised(Right):
    """Sigmoids for weights, which do not sum to 1."""

    def own(self, s: Tensor, h: Tensor, batch: Batch) -> Tensor:
        scores = self.scores(s, h, batch)
        return scores.sigmoid() / scores.shape[-1]


class TooMuch(Right):
    """Declares sinks, and its rows sum to more than 1."""

    sinks = True

    def own(self, s: Tensor, h: Tensor, batch: Batch) -> Tensor:
        return super().own(s, h, batch) * 1.2


class NoSink(Right):
    """Declares sinks without having any."""

    sinks = True


class MeanOfPadding(Right):
    """Adds a mean over padding."""

    def context(self, used: Tensor, h: Tensor, batch: Batch) -> Tensor:
        return super().context(used, h, batch) + h.mean(1, keepdim=True)


class BatchStatistics(Right):
    """Normalises by the other sentences of its batch."""

    def context(self, used: Tensor, h: Tensor, batch: Batch) -> Tensor:
        c = super().context(used, h, batch)
        return c - c.mean(0, keepdim=True)


class Peeks(Right):
    """Reads y_t while it predicts y_t."""

    def before(self, batch: Batch) -> Tensor:
        return self.write(batch.y) + self.place.weight[: batch.y.shape[1]]


class LogP(Right):
    """Returns log p as scores, where log-odds are asked for."""

    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        trace = super().trace(batch, attend=attend, gate=gate)
        assert trace.logits is not None
        log_p = trace.logits.log_softmax(-1).gather(-1, batch.y.unsqueeze(-1)).squeeze(-1)
        return Trace(None, trace.alpha, scores=log_p)

    def loss(self, batch: Batch, *, attend: Tensor | None = None) -> Tensor:
        return -self.trace(batch, attend=attend).scores[batch.y_mask].mean()  # type: ignore[index]

    def evaluate(self, batch: Batch, *, attend: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        log_p = self.trace(batch, attend=attend).scores[batch.y_mask]  # type: ignore[index]
        return (log_p > -0.7).sum(), batch.y_mask.sum(), -log_p.sum()


class BetaOfP(Right):
    """A fast beta of log p instead of log-odds."""

    @torch.no_grad()
    def beta(self, batch: Batch) -> Tensor:
        return F.logsigmoid(beta_by_definition(_Only(super().trace), batch))


class _Only:
    def __init__(self, trace: Callable[..., Trace]) -> None:
        self.trace = trace


class DeltaOfOdds(Right):
    """A fast delta that derives the log-odds instead of log p."""

    def delta(self, batch: Batch, *, attend: Tensor | None = None) -> Tensor:
        trace = super().trace
        only = _Only(lambda batch, gate=None: trace(batch, attend=attend, gate=gate))
        p = torch.sigmoid(log_odds(trace(batch, attend=attend), batch))
        return delta_by_definition(only, batch) / (1 - p).unsqueeze(-1)


class LearnsValues(Right):
    """Counts the values among the parameters that only say where to look."""

    def attention_parameters(self) -> list[nn.Parameter]:
        return [*self.look.parameters(), *self.value.parameters()]


class LearnsElsewhere(Right):
    """Counts parameters of the output as the attention's."""

    def attention_parameters(self) -> list[nn.Parameter]:
        return list(self.say.parameters())


class Decays(Right):
    """Its optimiser goes on with the parameters that are frozen."""

    def optimiser(self, parameters: Any, *, lr: float) -> torch.optim.Optimizer:
        learning = list(parameters)
        known = {id(parameter) for parameter in learning}
        rest = [p.requires_grad_() for p in self.value.parameters() if id(p) not in known]
        return torch.optim.AdamW([*learning, *rest], lr=lr, weight_decay=0.9)


class StaysHere(Right):
    """Makes its positions on the CPU."""

    def states(self, e: Tensor) -> Tensor:
        return super().states(e) + self.place(torch.arange(e.shape[1]))


class ForgetsWeights(Right):
    """Keeps a weight that state() does not have."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.scale = [float(torch.rand(()))]

    def context(self, used: Tensor, h: Tensor, batch: Batch) -> Tensor:
        return super().context(used, h, batch) * self.scale[0]


class CountsPadding(Right):
    """Its evaluation counts padded outputs."""

    def evaluate(self, batch: Batch, *, attend: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        return super().evaluate(replace(batch, y_mask=torch.ones_like(batch.y_mask)), attend=attend)


# models whose several ways to one number do not agree


class StopsGradient(Right):
    """Where it looks is computed from states without a gradient, so delta leaves that path out."""

    def own(self, s: Tensor, h: Tensor, batch: Batch) -> Tensor:
        return super().own(s, h.detach(), batch)


class RoundsEmbedding(Right):
    """Passes three times the gradient straight through."""

    def words(self, batch: Batch, gate: Tensor | None) -> Tensor:
        e = super().words(batch, gate)
        return e + 2 * (e - e.detach())


class PrevRow(Right):
    """Output t reads what row t - 1 looks at, so that each reported row is of the next output."""

    def context(self, used: Tensor, h: Tensor, batch: Batch) -> Tensor:
        return super().context(torch.cat([used[:, :, :1], used[:, :, :-1]], 2), h, batch)


class TopTwo(Right):
    """Counts an output as right if it is among the two likeliest."""

    def evaluate(self, batch: Batch, *, attend: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        _, total, nll = super().evaluate(batch, attend=attend)
        logits = self.trace(batch, attend=attend).logits
        assert logits is not None
        right = (logits.topk(2, -1).indices == batch.y.unsqueeze(-1)).any(-1) & batch.y_mask
        return right.sum(), total, nll


class LabelShift(Right):
    """Never counts </s> as predicted."""

    def evaluate(self, batch: Batch, *, attend: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        _, total, nll = super().evaluate(batch, attend=attend)
        logits = self.trace(batch, attend=attend).logits
        assert logits is not None
        logits = logits.index_fill(-1, torch.tensor([EOS], device=logits.device), -1e9)
        return ((logits.argmax(-1) == batch.y) & batch.y_mask).sum(), total, nll


class LossIgnoresAttend(Right):
    """Trains its own attention, whatever it is given."""

    def loss(self, batch: Batch, *, attend: Tensor | None = None) -> Tensor:
        return super().loss(batch)


class EvalIgnoresAttend(Right):
    """Scores its own attention, whatever it is given."""

    def evaluate(self, batch: Batch, *, attend: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        return super().evaluate(batch)


class PeeksByScores(Right):
    """Reads y_{t+1} while it predicts y_t, and returns scores alone."""

    def before(self, batch: Batch) -> Tensor:
        y = F.pad((batch.y * batch.y_mask)[:, 1:], (0, 1))
        return super().before(batch) + self.write(y)

    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        trace = super().trace(batch, attend=attend, gate=gate)
        return Trace(None, trace.alpha, log_odds(trace, batch))

    def evaluate(self, batch: Batch, *, attend: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        scores = self.trace(batch, attend=attend).scores[batch.y_mask]  # type: ignore[index]
        return (scores > 0).sum(), batch.y_mask.sum(), F.softplus(-scores).sum()


class PeeksLength(Right):
    """Reads how long the output is."""

    def before(self, batch: Batch) -> Tensor:
        return super().before(batch) + self.place(batch.y_mask.sum(1))[:, None]


class SecondTable(Right):
    """Has a table for classes of words too, which the gate leaves alone."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.classes = nn.Embedding(5, self.read.embedding_dim)

    def words(self, batch: Batch, gate: Tensor | None) -> Tensor:
        return super().words(batch, gate) + self.classes(batch.x % 5)


class GateUnderAttend(GatesStates):
    """Scales the encoder's output under `attend`, and the embeddings otherwise."""

    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        self.gate = None if attend is None else gate
        return Right.trace(self, batch, attend=attend, gate=gate if attend is None else None)


class OnlyFourDims(TwoHeads):
    """Gives weights that have no dimension for sites to the first one alone."""

    def chosen(self, own: Tensor, attend: Tensor | None, batch: Batch) -> Tensor:
        if attend is None or attend.dim() == 4:
            return super().chosen(own, attend, batch)
        first = choose(own[:, :1], attend.unsqueeze(1), allowed(self, batch))
        return torch.cat([first, own[:, 1:]], 1)


class EncodeIgnores(Right):
    """Forgets `attend` when it is given the states."""

    def encode(self, batch: Batch) -> Tensor:
        return self.states(self.words(batch, None))

    def trace(
        self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None, state: Any = None
    ) -> Trace:
        return super().trace(batch, attend=attend if state is None else None, gate=gate)


class CachedBuffer(Right):
    """Copies its values once in evaluation mode, and keeps the copy when other weights are loaded."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.register_buffer("kept", torch.zeros(0), persistent=False)

    def context(self, used: Tensor, h: Tensor, batch: Batch) -> Tensor:
        if self.training:
            return super().context(used, h, batch)
        if not self.kept.numel():
            self.kept = self.value[0].weight.detach().clone()
        return F.linear(used[:, 0] @ h, self.kept, self.value[0].bias)  # type: ignore[arg-type]


class LongWindow2(Window):
    """Its rows see 12 positions back at most, and allowed(batch) does not say so."""

    def near(self, batch: Batch) -> Tensor:
        t, l = (torch.arange(n, device=batch.x.device) for n in (batch.y.shape[1], batch.x.shape[1]))  # noqa: E741
        return (t.unsqueeze(1) - l).abs() <= 12


class LongIgnores(_Claims):
    """Outputs after the 16th use their own weights always."""

    def used(self, own: Tensor, attend: Tensor, batch: Batch) -> Tensor:
        return torch.cat([attend[:, :, :16], own[:, :, 16:]], 2)


WRONG_MODELS: dict[type, str] = {
    Ignores: "ignores attend",
    Half: "still uses its own weights where attend is given",
    SecretHalf: "still uses its own weights where attend is given",
    HeadIgnores: "ignores attend at site h1",
    HeadHalf: "still uses its own weights where attend is given at site h1",
    Smooths: "when its own alpha is given back as attend",
    Prior: "when its own alpha is given back as attend",
    FirstRowIgnores: "ignores attend in output 0",
    SwapsHeads: "when its own alpha is given back as attend",
    OneForAll: "when its own alpha is given back as attend",
    Window: "still uses its own weights where attend is given",
    Sharpens: "looks at the position of highest weight alone",
    ReportsOwn: "returns another alpha than the attend it was given",
    DeadSite: "ignores attend at site h1",
    SameName: "two sites called 'h'",
    GatesStates: "does not scale its input embeddings, or not them alone",
    GatesPlaces: "does not scale its input embeddings, or not them alone",
    GatesValues: "does not scale its input embeddings, or not them alone",
    GatesKeys: "does not scale its input embeddings, or not them alone",
    GateSquared: "does not scale its input embeddings, or not them alone",
    GateClamped: "does not scale its input embeddings, or not them alone",
    GateNormalised: "does not scale its input embeddings, or not them alone",
    GatesOutputs: "does not scale its input embeddings, or not them alone",
    IgnoresGate: "the output does not depend on gate",
    Unnormalised: "declare `sinks = True` if the model puts the rest on no input",
    TooMuch: "weights of a row sum to at most 1",
    NoSink: "every row of alpha sums to 1: remove the declaration",
    MeanOfPadding: "padding changes the output",
    BatchStatistics: "padding changes the output of a sentence",
    Peeks: "shift y by one",
    LogP: "scores must be log p / (1 - p), not log p",
    BetaOfP: "beta(batch) differs from one pass per one-hot attention",
    DeltaOfOdds: "delta(batch) differs from d log p(y_t) / d gate_l",
    LearnsValues: "training with frozen beta changes beta",
    LearnsElsewhere: "training with frozen beta changes beta",
    Decays: "training with frozen beta changes beta",
    StaysHere: "create every tensor on batch.x.device",
    ForgetsWeights: "register every weight and buffer",
    CountsPadding: "count only where y_mask is true",
    StopsGradient: "leave no path from the embeddings out by detach() and scale none",
    RoundsEmbedding: "leave no path from the embeddings out by detach() and scale none",
    PrevRow: "it leaves this output the same (difference 0); row t of alpha and attend",
    TopTwo: "evaluate counts 32 outputs as right where 16 have the highest logit",
    LabelShift: "outputs as right where 16 have the highest logit",
    LossIgnoresAttend: "loss(batch, attend=) of LossIgnoresAttend does not run under attend",
    EvalIgnoresAttend: "evaluate(batch, attend=) of EvalIgnoresAttend does not run under attend",
    PeeksByScores: "shift y by one before reading it",
    PeeksLength: "changes when outputs after output 0 are cut off",
    SecondTable: "does not scale its input embeddings, or not them alone",
    GateUnderAttend: "does not scale its input embeddings, or not them alone under attend",
    OnlyFourDims: "does not force all of its sites when attend has three dimensions",
    EncodeIgnores: "trace(batch, attend=..., state=encode(batch)) of EncodeIgnores differs by",
    CachedBuffer: "after load_state of a model that has already run, the output is another",
    LongWindow2: "still uses its own weights where attend is given",
    LongIgnores: "ignores attend in output 16",
}


# probes


def over_padding(model: Any, batch: Batch) -> Tensor:
    """Divides by a length that counts padding."""
    return alpha(model, batch) / batch.x.shape[1]


def over_sentences(model: Any, batch: Batch) -> Tensor:
    """Subtracts a mean over the batch."""
    a = alpha(model, batch)
    return a - a.mean(0, keepdim=True)


def transposed(model: Any, batch: Batch) -> Tensor:
    """Returns inputs by outputs."""
    return alpha(model, batch).mT


def one_output_late(model: Any, batch: Batch) -> Tensor:
    """Returns row t + 1 as row t."""
    return alpha(model, batch).roll(-1, 1)


def one_input_late(model: Any, batch: Batch) -> Tensor:
    """Returns column l + 1 as column l."""
    return alpha(model, batch).roll(-1, 2)


def noisy(model: Any, batch: Batch) -> Tensor:
    """Adds noise."""
    return alpha(model, batch) + 1e-3 * torch.rand(())


def keeps_training(model: Any, batch: Batch) -> Tensor:
    """Leaves the model in training mode."""
    weights = alpha(model, batch)
    model.train()
    return weights


def spends_the_batch(model: Any, batch: Batch) -> Tensor:
    """Writes into the batch."""
    weights = alpha(model, batch)
    batch.y.fill_(EOS)
    return weights


WRONG_PROBES: dict[Callable[..., Tensor], str] = {
    over_padding: "depends on its neighbours in the batch",
    over_sentences: "depends on its neighbours in the batch",
    transposed: "must return a tensor of shape",
    one_output_late: "depends on its neighbours in the batch",
    one_input_late: "depends on its neighbours in the batch",
    noisy: "two calls give different numbers",
    keeps_training: "it leaves the training mode of the model changed",
    spends_the_batch: "it changes the ids of the batch",
}


# metrics


def pearson(u: Rows, v: Rows) -> Rows:
    """Correlates values, not ranks."""
    with np.errstate(all="ignore"):
        a, b = (x - x.mean(1, keepdims=True) for x in (u.astype(float), v.astype(float)))
        return (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1))


def cosine(u: Rows, v: Rows) -> Rows:
    """The angle between values."""
    with np.errstate(all="ignore"):
        return (u * v).sum(1) / np.sqrt((u * u).sum(1) * (v * v).sum(1))


def jensen_shannon(u: Rows, v: Rows) -> Rows:
    """A divergence of values that were made shares."""
    p, q = (np.exp(x - x.max(1, keepdims=True)) for x in (u.astype(float), v.astype(float)))
    p, q = (x / x.sum(1, keepdims=True) for x in (p, q))
    m = (p + q) / 2
    with np.errstate(all="ignore"):
        return sum(np.where(x > 0, x * np.log2(x / m), 0).sum(1) for x in (p, q)) / 2


jensen_shannon.lower_is_better = True  # type: ignore[attr-defined]


def weighted_peak(u: Rows, v: Rows) -> Rows:
    """The value of v, not its rank, where u is highest."""
    return np.take_along_axis(v, u.argmax(1)[:, None], 1)[:, 0].astype(float)


def against_the_others(u: Rows, v: Rows) -> Rows:
    """Subtracts the mean over rows."""
    same = (u.argmax(1) == v.argmax(1)).astype(float)
    return same - same.mean()


def distance(u: Rows, v: Rows) -> Rows:
    """Low is good, and nothing says so."""
    return np.abs(u.argmax(1) - v.argmax(1)).astype(float)


def zero_for_nothing(u: Rows, v: Rows) -> Rows:
    """Counts rows without an answer as 0."""
    return np.nan_to_num(Kendall()(u, v))


def sorts_in_place(u: Rows, v: Rows) -> Rows:
    """Sorts what it is given."""
    same = (u.argmax(1) == v.argmax(1)).astype(float)
    u.sort(1)
    return same


@dataclass(frozen=True)
class WrongChance:
    """Believes in a chance of one half."""

    def __call__(self, u: Rows, v: Rows) -> Rows:
        return (u.argmax(1) == v.argmax(1)).astype(float)

    def expected(self, u: Rows, v: Rows) -> Rows:
        return np.full(len(u), 0.5)


WRONG_METRICS: list[tuple[Any, str]] = [
    (pearson, "compare ranks, never differences"),
    (cosine, "compare ranks, never differences"),
    (jensen_shannon, "compare ranks, never differences"),
    (weighted_peak, "rescaling of v that keeps its order"),
    (against_the_others, "compute each row from itself alone"),
    (distance, "the wrong way round; set lower_is_better = True"),
    (zero_for_nothing, "where a row has no answer, return NaN"),
    (sorts_in_place, "it changes u in place"),
    (WrongChance(), "expected(u, v) says 0.500"),
]


# tasks


def turned_round(size: int, rng: np.random.Generator) -> Split:
    """Sentences said backwards, with their links."""
    xs = [[*rng.integers(4, 12, rng.integers(3, 8)).tolist(), EOS] for _ in range(size)]
    ys = [[*(4 + (i - 1) % 8 for i in x[-2::-1]), EOS] for x in xs]
    links = [[*((t, len(x) - 2 - t, 1) for t in range(len(x) - 1)), (len(x) - 1, len(x) - 1, 1)] for x in xs]
    return Split.of(xs, ys, links)


def task(change: Callable[[dict[str, Any]], Any], *, kind: str = "translation", make: Any = turned_round) -> type:
    """A task whose splits are changed before they are a corpus."""

    class Changed(TinyTask):
        def load(self, options: Any) -> Corpus:
            rng = np.random.default_rng(0)
            splits = {name: make(size, rng) for name, size in {"train": 60, "validation": 30}.items()}
            target = TARGET if kind == "translation" else ("no", "yes")
            corpus = Corpus("changed", kind, change(splits), SOURCE, target)  # type: ignore[arg-type]
            return corpus if kind != "translation" else each_token_a_word(corpus)

    return Changed


def classified(size: int, rng: np.random.Generator) -> Split:
    """Is there a word 4?"""
    xs = [rng.integers(4, 12, rng.integers(3, 8)).tolist() for _ in range(size)]
    return Split.of(xs, [[int(4 in x)] for x in xs])


def _links(turn: Callable[[int, int, int], tuple[int, int]]) -> Callable[[dict[str, Any]], Any]:
    def change(splits: dict[str, Any]) -> Any:
        for name, s in splits.items():
            lists = [
                [(*turn(t, l, len(s.x[i])), 1) for t, l, _ in s.links[i].tolist() if l < len(s.x[i]) - 1]  # noqa: E741
                for i in range(len(s))
            ]
            splits[name] = Split.of([s.x[i] for i in range(len(s))], [s.y[i] for i in range(len(s))], lists)
        return splits

    return change


def _rotated(size: int, rng: np.random.Generator) -> Split:
    """The first word is said last, so that links are not their own mirror image."""
    xs = [[*rng.integers(4, 12, rng.integers(3, 8)).tolist(), EOS] for _ in range(size)]
    ys = [[*(4 + (i - 1) % 8 for i in [*x[1:-1], x[0]]), EOS] for x in xs]
    links = [[*((t, (t + 1) % (len(x) - 1), 1) for t in range(len(x) - 1)), (len(x) - 1,) * 2 + (1,)] for x in xs]
    return Split.of(xs, ys, links)


def _spelled_out(splits: dict[str, Any]) -> Any:
    return {
        name: Split.of([[*s.x[i], 4 + s.y[i][0]] for i in range(len(s))], [s.y[i] for i in range(len(s))])
        for name, s in splits.items()
    }


def _one_label(splits: dict[str, Any]) -> Any:
    return {name: Split.of([s.x[i] for i in range(len(s))], [[0]] * len(s)) for name, s in splits.items()}


def _same_again(splits: dict[str, Any]) -> Any:
    return {**splits, "validation": splits["train"].subset(np.arange(30))}


def _with_start(splits: dict[str, Any]) -> Any:
    return {
        name: Split.of([s.x[i] for i in range(len(s))], [[BOS, *s.y[i]] for i in range(len(s))])
        for name, s in splits.items()
    }


def _padded(splits: dict[str, Any]) -> Any:
    return {
        name: Split.of([[*s.x[i], 0] for i in range(len(s))], [s.y[i] for i in range(len(s))])
        for name, s in splits.items()
    }


class ShiftedWords(TinyTask):
    """Numbers the words from 1."""

    def load(self, options: Any) -> Corpus:
        corpus = super().load(options)
        splits = {}
        for name, s in corpus.splits.items():
            assert isinstance(s, Split)
            assert s.x_words is not None
            text = [(*words[1:], words[0]) for words in (s.x_text or [])]
            splits[name] = replace(s, x_text=text)
        return replace(corpus, splits=splits)


class SameForEverySeed(FreshSentences):
    """Takes no notice of the seed."""

    def batch(self, seed: int, step: int, size: int) -> Batch:
        return super().batch(0, step, size)


class OtherVocabulary(FreshSentences):
    """Gives ids that the vocabulary does not have."""

    def batch(self, seed: int, step: int, size: int) -> Batch:
        batch = super().batch(seed, step, size)
        return replace(batch, y=batch.y + 4)


class Shuffled(TinyTask):
    """Numbers its vocabulary by chance."""

    def load(self, options: Any) -> Corpus:
        corpus = super().load(options)
        order = [*TARGET[:4], *np.random.default_rng().permutation(TARGET[4:]).tolist()]
        return replace(corpus, target_tokens=tuple(order))


WRONG_TASKS: list[tuple[type, str]] = [
    (task(_links(lambda t, at, L: (at, t)), make=_rotated), "fit its words better swapped"),
    (task(_links(lambda t, at, L: (t, min(at + 1, L - 1)))), "fit its words better one input earlier"),
    (task(_spelled_out, kind="classification", make=classified), "the last input of split train tells the label"),
    (task(_one_label, kind="classification", make=classified), "have the same label"),
    (task(_same_again), "of the validation sentences are in the training split"),
    (task(_with_start), "begins with <s>"),
    (task(_padded), "has the padding id 0 inside a sentence"),
    (ShiftedWords, "do not spell their tokens"),
    (Shuffled, "two loads with the same options differ"),
    (task(lambda splits: {**splits, "train": SameForEverySeed()}), "the same batch for every seed"),
    (task(lambda splits: {**splits, "train": OtherVocabulary()}), "its vocabulary allows 0 to"),
]

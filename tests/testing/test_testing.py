"""The conformance kit: a good plugin passes everything, and each way of being wrong is met by a helpful sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ktiwprobe import Batch, Corpus, Split, TorchModel, Trace, choose, option
from ktiwprobe.data import BOS
from ktiwprobe.errors import ContractError
from ktiwprobe.models.attend import allowed
from ktiwprobe.plugins.registry import Registry
from ktiwprobe.probes.definitions import alpha, beta_by_definition, delta_by_definition
from ktiwprobe.testing import (
    Outcome,
    check_metric,
    check_model,
    check_probe,
    check_task,
    metric_checks,
    model_checks,
    probe_checks,
    task_checks,
)
from ktiwprobe.testing.case import few_sentences, make_case, said
from tiny import FreshSentences, TinyCount, TinyModel, TinyTask, make_split

FROZEN = "Options is a frozen dataclass"
SHAPES = "trace returns logits (B, T, V) or scores (B, T), and alpha (B, T, L) or (B, S, T, L)"
WEIGHTS = "alpha sums to 1 over allowed positions and is 0 elsewhere"
PADDING = "A sentence alone and in a batch give the same numbers"
ATTEND = "attend replaces the weights of each site, and its own alpha, given back, changes nothing"
OUT = "Under attend, no gradient reaches attention_parameters()"
FREEZES = "One update of attention_parameters() alone changes alpha and not beta"
GATE = "gate scales each source embedding and nothing else, and ones change nothing"
FAR = "attend is obeyed in a long sentence too"
WAYS = "attend of one row, attend in three dimensions and trace(state=encode(batch), attend=) do what attend does"
GATE_UNDER = "gate scales the source embeddings under a given attention too"
SLOPE = "delta is d log p(y_t) / d gate, by finite differences, under learned and under uniform attention"
REPLACES = "load_state() replaces what a model has computed from other weights"
TOP = "evaluate counts the outputs whose logit is the highest"
PEEK = "Output t does not see y_t or anything after it"
FAST = "beta(batch), delta(batch) and encode(batch) equal their definitions"
STATE = "state() and load_state() carry everything"
GRADIENTS = "Every parameter learns"
SEED = "Building and tracing twice gives the same bits"
DEVICE = "No tensor stays on another device (tried on a device made for it)"
EVALUATE = "evaluate returns what is right, how many there are, and the sum of -log p"
PARAMETERS = "attention_parameters() names some of parameters()"


def failures(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """The checks that failed, and what they said."""
    return {outcome.name: outcome.problem for outcome in outcomes if outcome.problem}


# models


class Good(TorchModel):
    """Attention over embeddings, in steps that a mutant can replace one by one."""

    default_task = "tiny-task"

    @dataclass(frozen=True)
    class Options:
        width: int = option(6, low=1)

    def __init__(self, sources: int, targets: int, width: int) -> None:
        super().__init__()
        self.read, self.write, self.place = (nn.Embedding(n, width) for n in (sources, targets, 32))
        self.look, self.say = nn.Linear(width, width), nn.Linear(2 * width, targets)

    @classmethod
    def build(cls, corpus: Corpus, options: Options) -> Good:
        return cls(corpus.source_size, corpus.target_size, options.width)

    def attention_parameters(self) -> list[nn.Parameter]:
        return list(self.look.parameters())

    def source(self, batch: Batch, gate: Tensor | None) -> Tensor:
        e = self.read(batch.x)
        return e if gate is None else e * gate.unsqueeze(-1)

    def shifted(self, batch: Batch) -> Tensor:
        return torch.cat([torch.full_like(batch.y[:, :1], BOS), batch.y[:, :-1]], 1)

    def weights(self, s: Tensor, h: Tensor, batch: Batch) -> Tensor:
        seen = allowed(self, batch)
        return (self.look(s) @ h.mT).masked_fill(~seen, -torch.inf).softmax(-1)

    def chosen(self, own: Tensor, attend: Tensor | None, batch: Batch) -> Tensor:
        return choose(own, attend, allowed(self, batch))

    def context(self, used: Tensor, h: Tensor, batch: Batch) -> Tensor:
        return used @ h

    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        h = self.source(batch, gate)
        before = self.shifted(batch)
        s = self.write(before) + self.place.weight[: before.shape[1]]  # (B, T, D)
        used = self.chosen(self.weights(s, h, batch), attend, batch)
        return Trace(self.say(torch.cat([self.context(used, h, batch), s], -1)), used)


class Causal(Good):
    """Output t looks at inputs 0 to t; everything else as good."""

    def allowed(self, batch: Batch) -> Tensor:
        t, l = (torch.arange(n, device=batch.x.device) for n in (batch.y.shape[1], batch.x.shape[1]))  # noqa: E741
        return batch.x_mask.unsqueeze(1) & (l <= t.unsqueeze(1))


class Faster(Good):
    """With every optional fast path, each true."""

    def beta(self, batch: Batch) -> Tensor:
        return beta_by_definition(self, batch)

    def delta(self, batch: Batch, attend: Tensor | None = None) -> Tensor:
        return delta_by_definition(_With(self, attend), batch)

    def encode(self, batch: Batch, gate: Tensor | None = None) -> Tensor:
        return self.source(batch, gate)

    def trace(self, batch: Batch, *, attend: Any = None, gate: Any = None, state: Tensor | None = None) -> Trace:
        if state is None:
            return super().trace(batch, attend=attend, gate=gate)
        self.source = lambda batch, gate: state  # type: ignore[method-assign]
        try:
            return super().trace(batch, attend=attend)
        finally:
            del self.source


class _With:
    def __init__(self, model: Good, attend: Tensor | None) -> None:
        self.model, self.attend = model, attend

    def trace(self, batch: Batch, *, gate: Tensor | None = None) -> Trace:
        return self.model.trace(batch, attend=self.attend, gate=gate)


class Scores(Good):
    """Hands over log-odds instead of logits, and so evaluates itself."""

    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        from ktiwprobe.models.scoring import log_odds

        trace = super().trace(batch, attend=attend, gate=gate)
        return Trace(None, trace.alpha, log_odds(trace, batch))

    def evaluate(self, batch: Batch, *, attend: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        scores = self.trace(batch, attend=attend).scores[batch.y_mask]
        return (scores > 0).sum(), batch.y_mask.sum(), F.softplus(-scores).sum()


class LowerPrecision(Good):
    """In bfloat16, where rounding is a hundred times coarser."""

    @classmethod
    def build(cls, corpus: Corpus, options: Any) -> Good:
        return super().build(corpus, options).bfloat16()

    def source(self, batch: Batch, gate: Tensor | None) -> Tensor:
        return super().source(batch, None if gate is None else gate.bfloat16())


class MovesNothing(Good):
    """One parameter has a gradient of exactly zero, as a bias in front of a softmax may have."""

    def __init__(self, *given: int) -> None:
        super().__init__(*given)
        self.shift = nn.Parameter(torch.zeros(1))

    def weights(self, s: Tensor, h: Tensor, batch: Batch) -> Tensor:
        return super().weights(s, h, batch) + 0 * self.shift


class ReadsValues(Good):
    """Reads a value, which is slow on a GPU and legal."""

    def source(self, batch: Batch, gate: Tensor | None) -> Tensor:
        return super().source(batch, gate) * (1.0 if batch.x.sum().item() > 0 else 0.0)


@pytest.mark.parametrize(
    "model", [Good, Causal, Faster, Scores, LowerPrecision, MovesNothing, ReadsValues, TinyModel, TinyCount]
)
def test_a_good_model_passes(model: type, tiny_registry: Registry) -> None:
    """With a causal mask, fast paths, scores, half precision or no attention at all."""
    assert failures(model_checks(model, registry=tiny_registry)) == {}
    check_model(model, registry=tiny_registry)


def test_minus_infinity_is_a_legal_beta(tiny_registry: Registry) -> None:
    """A pair of words that was never seen is -inf alone and in a batch."""

    class Never(TinyCount):
        def beta(self, batch: Batch) -> Tensor:
            found = super().beta(batch)
            return found.masked_fill(found < -2, -torch.inf)

    case = make_case(tiny_registry, Never)
    assert case.model.beta(case.batch).isneginf().any()
    assert failures(model_checks(Never, registry=tiny_registry)) == {}


@dataclass
class Loose:
    width: int = 6


class NotFrozen(Good):
    Options = Loose


class ShortAlpha(Good):
    def trace(self, batch: Batch, **given: Any) -> Trace:
        trace = super().trace(batch, **given)
        return replace(trace, alpha=trace.alpha[:, :1])


class NoOutput(Good):
    def trace(self, batch: Batch, **given: Any) -> Trace:
        return replace(super().trace(batch, **given), logits=None)

    def loss(self, batch: Batch, **given: Any) -> Tensor:
        return super().trace(batch).logits.square().mean()


class ForgetsMask(Good):
    def weights(self, s: Tensor, h: Tensor, batch: Batch) -> Tensor:
        return (self.look(s) @ h.mT).softmax(-1)


class MeansOverPadding(Good):
    def context(self, used: Tensor, h: Tensor, batch: Batch) -> Tensor:
        return used @ h + h.mean(1, keepdim=True)


class IgnoresAttend(Good):
    def chosen(self, own: Tensor, attend: Tensor | None, batch: Batch) -> Tensor:
        return own


class ReturnsItsOwn(Good):
    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        own = super().trace(batch, gate=gate)
        return replace(super().trace(batch, attend=attend, gate=gate), alpha=own.alpha)


class SharpensAfterwards(Good):
    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        told = super().trace(batch, attend=attend, gate=gate)
        if attend is not None:
            return told
        sharp = torch.where(told.alpha == told.alpha.max(-1, keepdim=True).values, 1.0, 0.0)
        return replace(super().trace(batch, attend=sharp / sharp.sum(-1, keepdim=True), gate=gate), alpha=told.alpha)


class IgnoresGate(Good):
    def source(self, batch: Batch, gate: Tensor | None) -> Tensor:
        return super().source(batch, None)


class AddsGate(Good):
    def source(self, batch: Batch, gate: Tensor | None) -> Tensor:
        e = super().source(batch, None)
        return e if gate is None else e + gate.unsqueeze(-1)


class Peeks(Good):
    def shifted(self, batch: Batch) -> Tensor:
        return batch.y


class PeeksAhead(Good):
    def shifted(self, batch: Batch) -> Tensor:
        before = super().shifted(batch)
        return torch.where(before == BOS, batch.y[:, -1:], before)


class WrongBeta(Good):
    def beta(self, batch: Batch) -> Tensor:
        return beta_by_definition(super(), batch) * 1.01


class WrongDelta(Good):
    def delta(self, batch: Batch, attend: Tensor | None = None) -> Tensor:
        return -delta_by_definition(_With(self, attend), batch)


class DeltaOfItsOwnAttention(Good):
    def delta(self, batch: Batch, attend: Tensor | None = None) -> Tensor:
        return delta_by_definition(_With(self, None), batch)


class WrongState(Faster):
    beta = delta = property()  # neither, so that only encode is looked at

    def encode(self, batch: Batch, gate: Tensor | None = None) -> Tensor:
        return super().encode(batch, gate) * 1.01


class Unregistered(Good):
    def __init__(self, *given: int) -> None:
        super().__init__(*given)
        self.scale = [torch.rand(()).item() + 0.5]

    def context(self, used: Tensor, h: Tensor, batch: Batch) -> Tensor:
        return used @ h * self.scale[0]


class Unused(Good):
    def __init__(self, *given: int) -> None:
        super().__init__(*given)
        self.spare = nn.Linear(2, 2)


class OwnDice(Good):
    def __init__(self, *given: int) -> None:
        super().__init__(*given)
        self.look.bias.data += float(np.random.default_rng().random())


class DropsAlways(Good):
    def context(self, used: Tensor, h: Tensor, batch: Batch) -> Tensor:
        return F.dropout(used @ h, 0.5)


class StaysOnCpu(Good):
    def context(self, used: Tensor, h: Tensor, batch: Batch) -> Tensor:
        return used @ h * torch.ones(h.shape[-1], device="cpu")


class CountsOnCpu(Good):
    def trace(self, batch: Batch, **given: Any) -> Trace:
        trace = super().trace(batch, **given)
        places = self.place(torch.arange(batch.y.shape[1]))  # an index on the CPU, which the meta kernel lets pass
        return replace(trace, logits=trace.logits + self.say(torch.cat([places, places], -1)))


class CountsPadding(Good):
    def evaluate(self, batch: Batch, *, attend: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        return super().evaluate(replace(batch, y_mask=torch.ones_like(batch.y_mask)), attend=attend)


class MeanLoss(Good):
    def evaluate(self, batch: Batch, *, attend: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        right, total, nll = super().evaluate(batch, attend=attend)
        return right, total, nll / total


class StrangersParameters(Good):
    def attention_parameters(self) -> list[nn.Parameter]:
        return [nn.Parameter(torch.zeros(1))]


class LooksAtPadding(Good):
    def allowed(self, batch: Batch) -> Tensor:
        return torch.ones_like(batch.x_mask).unsqueeze(1)


class Raises(Good):
    def attention_parameters(self) -> list[nn.Parameter]:
        raise ZeroDivisionError("by a\n stranger")


@pytest.mark.parametrize(
    ("model", "check", "sentence", "others"),
    [
        (NotFrozen, FROZEN, "decorate Options with @dataclass(frozen=True)", ()),
        (ShortAlpha, SHAPES, "alpha has shape (7, 1, 7): return (7, 7, 7)", None),
        (NoOutput, SHAPES, "return logits of shape (7, 7, 12), or scores of shape (7, 7)", None),
        (ForgetsMask, WEIGHTS, "not 1, over its allowed positions", (PADDING, GATE)),
        (MeansOverPadding, PADDING, "padding changes the output of a sentence: mask every sum", (GATE,)),
        (IgnoresAttend, ATTEND, "IgnoresAttend ignores attend", (WAYS, OUT, FREEZES)),
        (ReturnsItsOwn, ATTEND, "returns another alpha than the attend it was given", (FAR,)),
        (SharpensAfterwards, ATTEND, "changes its output by", None),
        (IgnoresGate, GATE, "the output does not depend on gate: trace must multiply", (GATE_UNDER,)),
        (AddsGate, GATE, "gate = ones changes the output: multiply the source embeddings by gate", (GATE_UNDER,)),
        (Peeks, PEEK, "changing y_0 changes output 0 or one before it: shift y by one", ()),
        (PeeksAhead, PEEK, "shift y by one before reading it", None),
        (WrongBeta, FAST, "beta(batch) differs from one pass per one-hot attention", ()),
        (WrongDelta, FAST, "delta(batch) differs from d log p(y_t) / d gate_l", (SLOPE,)),
        (
            DeltaOfItsOwnAttention,
            FAST,
            "delta(batch, attend=weights) must be the influence under that attention",
            (SLOPE,),
        ),
        (WrongState, FAST, "trace(batch, state=encode(batch)) differs from trace(batch)", (WAYS,)),
        (Unregistered, STATE, "after load_state(state()) the output is another: register every weight", (REPLACES,)),
        (Unused, GRADIENTS, "no gradient reaches spare.weight, spare.bias: use them in trace", ()),
        (OwnDice, SEED, "two models built with one seed differ in look.bias", ()),
        (DropsAlways, SEED, "differs between two calls in evaluation mode: switch dropout by self.training", None),
        (StaysOnCpu, DEVICE, "create every tensor on batch.x.device", ()),
        (CountsOnCpu, DEVICE, "embedding of a tensor on the device of the batch and of one on cpu", ()),
        (CountsPadding, EVALUATE, "count only where y_mask is true", (TOP,)),
        (MeanLoss, EVALUATE, "the third number of evaluate must be the sum of -log p(y_t)", ()),
        (StrangersParameters, PARAMETERS, "return the parameters of the attention", (FREEZES,)),
        (LooksAtPadding, SHAPES, "allowed(batch) is true on padding: combine it with batch.x_mask", ()),
        (Raises, OUT, "it raised ZeroDivisionError: by a stranger (", ()),
    ],
)
def test_a_wrong_model_is_told_what_to_change(
    model: type, check: str, sentence: str, others: tuple[str, ...] | None, tiny_registry: Registry
) -> None:
    """Each mutant fails the check that is about it, with its sentence, and (unless it breaks much) no other."""
    found = failures(model_checks(model, registry=tiny_registry))
    assert sentence in found.get(check, ""), found
    if others is not None:
        assert set(found) == {check, *others}, found
    with pytest.raises(ContractError, match=f"model {model.__name__} does not conform"):
        check_model(model, registry=tiny_registry)


def test_what_does_not_apply_says_why(tiny_registry: Registry) -> None:
    """A model without attention passes with notes, not in silence."""
    notes = {outcome.name: outcome.note for outcome in model_checks("tiny-count", registry=tiny_registry)}
    assert notes[ATTEND] == "no trace: a model without attention"
    assert notes[GRADIENTS] == "no loss: the model trains itself"
    assert notes[STATE] == ""


def test_the_case_has_padding_and_a_single_token(tiny_registry: Registry, tiny_corpus: Corpus) -> None:
    """The sentences tried differ in length, and one has a single token on both sides."""
    split = few_sentences(tiny_corpus.split("validation"), "classification")
    assert split.x.lengths[-1] == split.y.lengths[-1] == 1
    assert len(set(split.x.lengths.tolist())) > 3
    assert len(few_sentences(Split.of([[4, 5]], [[6]]), "classification")) == 2
    case = make_case(tiny_registry, "tiny-model")
    cells = [len(cut) for cut in said(case.model, case.batch)["alpha"]]
    assert cells == (case.split.x.lengths * case.split.y.lengths).tolist()


def test_checking_leaves_the_callers_random_numbers(tiny_registry: Registry) -> None:
    """Seeding and training inside the kit is not seen outside."""
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    check_model("tiny-model", registry=tiny_registry)
    assert torch.equal(torch.rand(2), expected)


# tasks


class NoTrain(TinyTask):
    def load(self, options: Any) -> Corpus:
        corpus = super().load(options)
        return replace(corpus, splits={"validation": corpus.splits["validation"]})


class EmptyTrain(TinyTask):
    def load(self, options: Any) -> Corpus:
        corpus = super().load(options)
        return replace(corpus, splits={**corpus.splits, "train": Split.of([], [])})


class NoValidation(TinyTask):
    def load(self, options: Any) -> Corpus:
        corpus = super().load(options)
        return replace(corpus, splits={"train": corpus.splits["train"]})


class NoCorpus(TinyTask):
    def load(self, options: Any) -> Any:
        return {"train": []}


class TooFewTokens(TinyTask):
    def load(self, options: Any) -> Corpus:
        corpus = super().load(options)
        return replace(corpus, source_tokens=corpus.source_tokens[:-1])


class NumbersForTokens(TinyTask):
    def load(self, options: Any) -> Corpus:
        corpus = super().load(options)
        return replace(corpus, source_tokens=list(range(corpus.source_size)))  # type: ignore[arg-type]


class LongLabels(TinyTask):
    def load(self, options: Any) -> Corpus:
        return replace(super().load(options), kind="classification")


class Fickle(TinyTask):
    def load(self, options: Any) -> Corpus:
        corpus = super().load(options)
        fresh = make_split(5, np.random.default_rng())
        return replace(corpus, splits={**corpus.splits, "test": fresh})


class LinksOutside(TinyTask):
    def load(self, options: Any) -> Corpus:
        corpus = super().load(options)
        wild = Split.of([[4, 5]], [[6, 7]], [[(0, 2, 1)]])
        return replace(corpus, splits={**corpus.splits, "test": wild})


class FewLinks(TinyTask):
    def load(self, options: Any) -> Corpus:
        corpus = super().load(options)
        wild = Split.of([[4, 5], [4]], [[6, 7], [8]], [[(0, 1, 1)]])
        return replace(corpus, splits={**corpus.splits, "test": wild})


class OddLinks(TinyTask):
    def load(self, options: Any) -> Corpus:
        corpus = super().load(options)
        wild = Split.of([[4, 5]], [[6, 7]], [[(0, 1, 2)]])
        return replace(corpus, splits={**corpus.splits, "test": wild})


class WordsBeyond(TinyTask):
    def load(self, options: Any) -> Corpus:
        corpus = super().load(options)
        split = corpus.split("test")
        return replace(corpus, splits={**corpus.splits, "test": replace(split, x_text=[("a",)] * len(split))})


class LooseTask(TinyTask):
    @dataclass
    class Options(TinyTask.Options.__bases__[0]):  # type: ignore[misc, name-defined]
        sentences: int = 40
        variety: int = 0


class OneBatch(FreshSentences):
    def batch(self, seed: int, step: int, size: int) -> Batch:
        return super().batch(seed, 0, size)


class Dice(FreshSentences):
    def batch(self, seed: int, step: int, size: int) -> Batch:
        return super().batch(int(np.random.default_rng().integers(2**31)), step, size)


def streaming(stream: Any) -> type:
    class Streaming(TinyTask):
        def load(self, options: Any) -> Corpus:
            corpus = super().load(options)
            return replace(corpus, splits={**corpus.splits, "train": stream})

    return Streaming


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        (NoTrain, "the corpus has no train split"),
        (EmptyTrain, "split 'train' of task tiny-task is empty"),
        (NoValidation, "unknown split of task tiny-task 'validation'"),
        (NoCorpus, "load(options) returned dict: return a Corpus"),
        (TooFewTokens, "has input ids from 2 to 11: its vocabulary allows 0 to 10"),
        (NumbersForTokens, "source_tokens has 0: every id needs a text"),
        (LongLabels, "y of a classification task is [label]"),
        (Fickle, "two loads with the same options differ: seed every random choice"),
        (LinksOutside, "example 0 has a link to a position that it does not have"),
        (FewLinks, "2 inputs and 1 lists of links"),
        (OddLinks, "split test has links that are not (t, l, 1 if sure else 0)"),
        (WordsBeyond, "the words of split test do not fit: sentence 0 has tokens of word"),
        (LooseTask, "decorate Options with @dataclass(frozen=True)"),
        (streaming(OneBatch()), "stream train gives the same batch at every step"),
        (streaming(Dice()), "stream train gives another batch for the same seed and step"),
    ],
)
def test_a_wrong_task_is_told_what_to_change(task: type, sentence: str) -> None:
    """Each failure is one sentence, told once, though it may stop every check."""
    found = failures(task_checks(task))
    assert any(sentence in problem for problem in found.values()), found
    assert len(found) == 1, found
    with pytest.raises(ContractError, match=f"task {task.__name__} does not conform"):
        check_task(task)


def test_a_good_task_passes(tiny_registry: Registry) -> None:
    """By class or by name, finite or endless."""
    for task in (TinyTask, "tiny-task", "tiny-stream", streaming(FreshSentences())):
        check_task(task, registry=tiny_registry)


# probes


def test_a_good_probe_passes(tiny_registry: Registry) -> None:
    """A stranger's function, as it stands or by name."""

    def spread(model: Any, batch: Batch) -> Tensor:
        return 1 - alpha(model, batch)

    check_probe(spread, model="tiny-model", registry=tiny_registry)
    check_probe("delta", model="tiny-model", registry=tiny_registry)


def test_a_probe_is_pooled_as_can_be(tiny_registry: Registry) -> None:
    """A rule that there is not is told before anybody asks for words."""

    def middling(model: Any, batch: Batch) -> Tensor:
        return alpha(model, batch)

    middling.pooling = ("sum", "median")  # type: ignore[attr-defined]
    with pytest.raises(ContractError, match=r"pooling of 'middling' is .*: it must be two of sum, mean, max, joint"):
        check_probe(middling, model="tiny-model", registry=tiny_registry)


def test_a_probe_may_say_minus_infinity(tiny_registry: Registry) -> None:
    """-inf in the same cells, alone and in a batch, is no difference."""

    def rare(model: Any, batch: Batch) -> Tensor:
        return torch.where(batch.x.unsqueeze(1) > 6, -torch.inf, alpha(model, batch))

    check_probe(rare, model="tiny-model", registry=tiny_registry)


def flat(model: Any, batch: Batch) -> Tensor:
    return alpha(model, batch).sum(-1)


def undefined(model: Any, batch: Batch) -> Tensor:
    return alpha(model, batch) * torch.nan


def relative(model: Any, batch: Batch) -> Tensor:
    return alpha(model, batch) / batch.x.shape[1]


def greedy(model: Any, batch: Batch) -> Tensor:
    with torch.no_grad():
        model.say.bias += 1
    return alpha(model, batch)


@pytest.mark.parametrize(
    ("probe", "sentence"),
    [
        (flat, "returned (7, 7): it must return a tensor of shape (7, 7, 7)"),
        (undefined, "returned NaN or +inf: every allowed cell must be a number"),
        (relative, "the signal of a sentence depends on its neighbours in the batch"),
        (greedy, "it changes say.bias of the model: work on a copy"),
    ],
)
def test_a_wrong_probe_is_told_what_to_change(
    probe: Callable[..., Tensor], sentence: str, tiny_registry: Registry
) -> None:
    """Wrong shape, padding that shows, a model that is changed."""
    found = failures(probe_checks(probe, model="tiny-model", registry=tiny_registry))
    assert any(sentence in problem for problem in found.values()), found
    with pytest.raises(ContractError, match=f"probe {probe.__name__} does not conform"):
        check_probe(probe, model="tiny-model", registry=tiny_registry)


# metrics


class Share:
    """A metric with an exact baseline: is the peak of u among v's highest half?"""

    def __call__(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        at_peak = np.take_along_axis(v, u.argmax(1)[:, None], 1)
        return ((v > at_peak).sum(1) < v.shape[1] / 2).astype(float)

    def expected(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.full(len(u), np.ceil(v.shape[1] / 2) / v.shape[1])


class WrongBaseline(Share):
    def expected(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.full(len(u), 0.2)


def pearson(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return ((u - u.mean(1, keepdims=True)) * v).mean(1)


def overall(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return (u.argmax(1) == v.argmax(1)) + np.arange(len(u)) * 0.1


def a_sum(u: np.ndarray, v: np.ndarray) -> float:
    return float(u.sum())


def never(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.full(len(u), np.nan)


def afraid_of_infinity(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.where(np.isinf(u).any(1), np.nan, u.argmax(1) == v.argmax(1))


def needs_two(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return (np.sort(u, 1)[:, 1] > 0) * 0.0 + (u.argmax(1) == v.argmax(1))


@pytest.mark.parametrize(
    ("metric", "sentence"),
    [
        (WrongBaseline(), "expected(u, v) says 0.200, shuffles of v say 0.5"),
        (pearson, "the numbers change under a rescaling of u (3 u - 1): compare ranks, never differences"),
        (overall, "the numbers change when rows change places"),
        (a_sum, "returned shape () for 60 rows: it must be (60,) or (60, 2)"),
        (never, "every row is NaN"),
        (afraid_of_infinity, "-inf in u gives another number than a very low value"),
        (needs_two, "it raised IndexError"),
    ],
)
def test_a_wrong_metric_is_told_what_to_change(metric: Any, sentence: str) -> None:
    """Each failure is a sentence."""
    found = failures(metric_checks(metric))
    assert any(sentence in problem for problem in found.values()), found
    with pytest.raises(ContractError, match="does not conform"):
        check_metric(metric)


def test_a_good_metric_passes() -> None:
    """A function, an instance with its own expectation, a name with options."""

    def same_peak(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return (u.argmax(1) == v.argmax(1)).astype(float)

    for metric in (same_peak, Share(), "top-k:k=2"):
        check_metric(metric)

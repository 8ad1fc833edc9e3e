"""What every model must hold to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ktiwprobe.attend import allowed, uniform
from ktiwprobe.data import EOS, Batch, Corpus, Split
from ktiwprobe.extraction import check_allowed, check_attend_is_obeyed, check_values
from ktiwprobe.options import options_of
from ktiwprobe.probes import beta_by_definition, delta_by_definition, log_odds
from ktiwprobe.recipe import DEFAULT_TASK
from ktiwprobe.registry import Registry, build_registry
from ktiwprobe.testing.outcome import Failed, Outcome, Skipped, raise_failures, run_checks

CLOSE = 1e-4
SENTENCES = 5


@dataclass(eq=False)
class Case:
    """A model under test, a little trained so that nothing stands at a special value, and a small padded batch."""

    model_class: Any
    options: Any
    corpus: Corpus
    split: Split

    @cached_property
    def batch(self) -> Batch:
        """Sentences of different lengths together."""
        return self.split.batch(np.arange(len(self.split)))

    def build(self, seed: int = 0) -> Any:
        """A fresh model."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.model_class.build(self.corpus, self.options)

    @cached_property
    def model(self) -> Any:
        """The model after a few updates, in evaluation mode."""
        model = self.build()
        if hasattr(model, "fit"):
            model.fit(self.corpus, lambda _step: None)
        elif hasattr(model, "loss"):
            with torch.random.fork_rng(devices=[]):
                self._update(model)
        return model.eval() if hasattr(model, "eval") else model

    def _update(self, model: Any, times: int = 3) -> None:
        optimiser = model.optimiser(list(model.parameters()), lr=1e-2)
        for _ in range(times):
            optimiser.zero_grad()
            model.loss(self.batch).backward()
            optimiser.step()

    @cached_property
    def seen(self) -> Tensor:
        """The cells that count. (B, T, L)"""
        B, T = self.batch.y.shape
        mask = check_allowed(allowed(self.model, self.batch), self.batch)
        return mask.expand(B, T, -1) & self.batch.y_mask.unsqueeze(-1)

    def alone(self, row: int) -> Batch:
        """One sentence without padding."""
        return self.split.batch(np.array([row]))

    def needs_trace(self) -> None:
        """Leave a check that is about attention if the model has none."""
        if not hasattr(self.model, "trace"):
            raise Skipped("no trace: a model without attention")

    @property
    def sites(self) -> tuple[str, ...]:
        """The model's sites."""
        return tuple(getattr(self.model, "sites", ()))


def check_model(model: Any, *, task: str | None = None, options: Any = None, registry: Registry | None = None) -> None:
    """Hold a model class (or a registered name) to the contract; raises one error that lists every failure."""
    name = model if isinstance(model, str) else model.__name__
    raise_failures(f"model {name}", model_checks(model, task=task, options=options, registry=registry))


def model_checks(
    model: Any, *, task: str | None = None, options: Any = None, registry: Registry | None = None
) -> Iterator[Outcome]:
    """Each check and what came of it; small sentences of `task` (default: the model's own) are tried."""
    registry = registry or build_registry()
    model_class = registry.load("models", model) if isinstance(model, str) else model
    task_class = registry.load("tasks", task or str(getattr(model_class, "default_task", DEFAULT_TASK)))
    chosen = options_of(model_class)() if options is None else options
    corpus = task_class().load(options_of(task_class)())
    prepare = getattr(model_class, "prepare", None)
    corpus = prepare(corpus, chosen) if prepare else corpus
    yield from run_checks(CHECKS, Case(model_class, chosen, corpus, few_sentences(corpus.split("validation"))))


def few_sentences(split: Split) -> Split:
    """A few sentences, the shortest among them, of lengths as different as can be, none very long."""
    order = np.argsort(split.x.lengths, kind="stable")
    order = order[: max(SENTENCES, int((split.x.lengths <= 24).sum()))]
    return split.subset(order[np.unique(np.linspace(0, len(order) - 1, SENTENCES).astype(int))])


def _same(a: Tensor, b: Tensor, advice: str) -> None:
    gap = (a - b).abs().max().item() if a.numel() else 0.0
    if not gap <= CLOSE:
        raise Failed(f"{advice} (difference {gap:.2g})")


def options_are_frozen(case: Case) -> None:
    """Options is a frozen dataclass."""
    parameters = getattr(case.options, "__dataclass_params__", None)
    if parameters is None or not parameters.frozen:
        raise Failed("decorate Options with @dataclass(frozen=True)")


def shapes_are_right(case: Case) -> None:
    """trace returns logits (B, T, V) or scores (B, T), and alpha (B, T, L) or (B, S, T, L)."""
    case.needs_trace()
    trace = case.model.trace(case.batch)
    B, T, L = case.seen.shape
    V, S = case.corpus.target_size, len(case.sites)
    wanted = (B, S, T, L) if S else (B, T, L)
    if tuple(trace.alpha.shape) != wanted:
        raise Failed(f"alpha has shape {tuple(trace.alpha.shape)}: return {wanted} (model.sites names the S sites)")
    if trace.logits is None and (trace.scores is None or tuple(trace.scores.shape) != (B, T)):
        raise Failed(f"return logits of shape {(B, T, V)}, or scores of shape {(B, T)}")
    if trace.logits is not None and tuple(trace.logits.shape) != (B, T, V):
        raise Failed(f"logits have shape {tuple(trace.logits.shape)}: return {(B, T, V)}, a row for each y")


def weights_are_weights(case: Case) -> None:
    """alpha sums to 1 over allowed positions and is 0 elsewhere."""
    case.needs_trace()
    check_values(case.model.trace(case.batch).alpha.detach(), case.seen, "alpha", case.model)


def padding_never_shows(case: Case) -> None:
    """A sentence alone and in a batch give the same numbers."""
    whole = _everything(case.model, case.batch)
    for row in range(len(case.split)):
        single = _everything(case.model, case.alone(row))
        T, L = int(case.split.y.lengths[row]), int(case.split.x.lengths[row])
        for name, value in single.items():
            cut = whole[name][row, ..., :T, :L] if whole[name].dim() > 2 else whole[name][row, :T]
            _same(
                cut,
                value[0],
                f"padding changes {name} of a sentence: mask every sum, mean, softmax and RNN over positions",
            )


def _everything(model: Any, batch: Batch) -> dict[str, Tensor]:
    """All that a model says of a batch."""
    with torch.no_grad():
        found = {} if not hasattr(model, "beta") else {"beta": model.beta(batch)}
        if hasattr(model, "trace"):
            trace = model.trace(batch)
            found |= {"alpha": trace.alpha, "the output": log_odds(trace, batch)}
    return found


def attend_is_obeyed(case: Case) -> None:
    """attend replaces the weights."""
    case.needs_trace()
    check_attend_is_obeyed(case.model, case.batch)
    weights = uniform(allowed(case.model, case.batch))
    alpha = case.model.trace(case.batch, attend=weights.unsqueeze(1) if case.sites else weights).alpha
    weights = weights.expand(case.seen.shape)
    real = case.batch.y_mask
    for site in alpha.unbind(1) if case.sites else (alpha,):
        _same(
            site[real], weights[real], "alpha must be the weights that were used: return choose(own, attend, allowed)"
        )


def own_weights_change_nothing(case: Case) -> None:
    """attend = the model's own alpha reproduces its output."""
    case.needs_trace()
    own = case.model.trace(case.batch)
    again = case.model.trace(case.batch, attend=own.alpha)
    advice = "its own alpha, given back as attend, changes its output: use the alpha you return, before dropout"
    _same(log_odds(own, case.batch)[case.batch.y_mask], log_odds(again, case.batch)[case.batch.y_mask], advice)


def gate_is_obeyed(case: Case) -> None:
    """gate scales each source embedding, and ones change nothing."""
    case.needs_trace()
    batch, real = case.batch, case.batch.y_mask
    plain, ones = (
        log_odds(case.model.trace(batch, gate=g), batch)[real] for g in (None, torch.ones_like(batch.x).float())
    )
    _same(plain, ones, "gate = ones changes the output: multiply the source embeddings by gate and nothing else")
    influence = delta_by_definition(case.model, batch)
    if not influence[case.seen].abs().gt(0).any():
        raise Failed("the output does not depend on gate: multiply the source embeddings by gate.unsqueeze(-1)")
    outside = influence.masked_fill(batch.x_mask.unsqueeze(1), 0)[real]
    _same(outside, torch.zeros_like(outside), "the gate of a padding position has an influence: mask it")


def fast_paths_are_true(case: Case) -> None:
    """beta(batch), delta(batch) and encode(batch) equal their definitions."""
    case.needs_trace()
    batch, own = case.batch, [name for name in ("beta", "delta", "encode") if hasattr(case.model, name)]
    if not own:
        raise Skipped("the model brings none")
    if "beta" in own:
        slow = beta_by_definition(_Plain(case.model), batch)
        _same(
            case.model.beta(batch)[case.seen],
            slow[case.seen],
            "beta(batch) differs from one pass per one-hot attention",
        )
    if "delta" in own:
        slow = delta_by_definition(case.model, batch)
        _same(case.model.delta(batch)[case.seen], slow[case.seen], "delta(batch) differs from d log p(y_t) / d gate_l")
    if "encode" in own:
        with torch.no_grad():
            plain, staged = case.model.trace(batch), case.model.trace(batch, state=case.model.encode(batch))
        _same(
            log_odds(plain, batch),
            log_odds(staged, batch),
            "trace(batch, state=encode(batch)) differs from trace(batch)",
        )


class _Plain:
    """A model with nothing but its trace."""

    def __init__(self, model: Any) -> None:
        self.trace, self.sites = model.trace, getattr(model, "sites", ())


def no_peeking(case: Case) -> None:
    """Output t does not see y_t or anything after it."""
    case.needs_trace()
    batch = case.batch
    trace = case.model.trace(batch)
    if trace.logits is None:
        raise Skipped("the model returns scores, which are of y")
    T, V = batch.y.shape[1], case.corpus.target_size
    for t in {0, T // 2, T - 1}:
        y = batch.y.clone()
        y[:, t] = torch.where(y[:, t] == V - 1, 0 if V == 2 else EOS, V - 1)
        other = case.model.trace(dataclasses.replace(batch, y=y)).logits
        _same(
            trace.logits[:, : t + 1],
            other[:, : t + 1],
            f"changing y_{t} changes output {t}: shift y by one before reading it",
        )


def state_round_trip(case: Case) -> None:
    """state() and load_state() carry everything."""
    other = case.build(seed=1)
    other.load_state({name: tensor.clone() for name, tensor in case.model.state().items()})
    other = other.eval() if hasattr(other, "eval") else other
    before, after = _everything(case.model, case.batch), _everything(other, case.batch)
    for name, value in before.items():
        _same(value, after[name], f"after load_state(state()) {name} is another: register every weight and buffer")


def gradients_reach_everything(case: Case) -> None:
    """Every parameter learns."""
    if not hasattr(case.model, "loss"):
        raise Skipped("no loss: the model trains itself")
    model = case.build()
    with torch.random.fork_rng(devices=[]):
        case._update(model, times=2)
        model.zero_grad()
        model.loss(case.batch).backward()
    idle = [name for name, p in model.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())]
    if idle:
        raise Failed(f"no gradient reaches {', '.join(idle)}: use them in trace, or leave them out")


def same_seed_same_numbers(case: Case) -> None:
    """Building and tracing twice gives the same bits."""
    one, two = (case.build(seed=3).state() for _ in range(2))
    for name in one:
        if not torch.equal(one[name], two[name]):
            raise Failed(f"two models built with one seed differ in {name}: draw random numbers from torch only")
    for name, value in _everything(case.model, case.batch).items():
        if not torch.equal(value, _everything(case.model, case.batch)[name]):
            raise Failed(f"{name} differs between two calls in evaluation mode: switch dropout by self.training")


def one_device(case: Case) -> None:
    """No tensor stays on another device (tried on the meta device)."""
    case.needs_trace()
    if not isinstance(case.model, torch.nn.Module):
        raise Skipped("not a torch module")
    model, batch = case.build().to("meta"), case.batch.to("meta")
    try:
        weights = uniform(allowed(model, batch))
        model.trace(
            batch, attend=weights.unsqueeze(1) if case.sites else weights, gate=torch.ones_like(batch.x).float()
        )
    except NotImplementedError as error:
        raise Skipped(f"torch has no meta kernel for it: {str(error)[:80]}") from error
    except RuntimeError as error:
        raise Failed(
            f"create every tensor on batch.x.device and read no values in trace ({' '.join(str(error).split())[:160]})"
        ) from error


def evaluation_adds_up(case: Case) -> None:
    """evaluate returns what is right, how many there are, and the sum of -log p."""
    with torch.no_grad():
        correct, total, nll = (float(value) for value in case.model.evaluate(case.batch))
    count = int(case.batch.y_mask.sum())
    if total != count or not 0 <= correct <= count or not nll >= 0:
        raise Failed(
            f"evaluate returned {correct:g}, {total:g}, {nll:g} for {count} outputs: count only where y_mask is true"
        )


def attention_parameters_are_parameters(case: Case) -> None:
    """attention_parameters() names some of parameters()."""
    if not hasattr(case.model, "attention_parameters"):
        raise Skipped("the model brings none, so it cannot be trained with frozen beta")
    own, all_of_them = list(case.model.attention_parameters()), {id(p) for p in case.model.parameters()}
    if not own or any(id(p) not in all_of_them for p in own):
        raise Failed("return the parameters of the attention, all of which are in parameters()")


CHECKS: tuple[Callable[[Case], None], ...] = (
    options_are_frozen,
    shapes_are_right,
    weights_are_weights,
    padding_never_shows,
    attend_is_obeyed,
    own_weights_change_nothing,
    gate_is_obeyed,
    no_peeking,
    fast_paths_are_true,
    state_round_trip,
    gradients_reach_everything,
    same_seed_same_numbers,
    one_device,
    evaluation_adds_up,
    attention_parameters_are_parameters,
)

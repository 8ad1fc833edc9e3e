"""What every model must hold to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ktiwprobe.corpus.tokens import EOS
from ktiwprobe.models.attend import Under, allowed, by_site, uniform
from ktiwprobe.models.scoring import log_odds, nll_of_log_odds
from ktiwprobe.plugins.capabilities import (
    HasLoss,
    SupportsBeta,
    SupportsDelta,
    SupportsEncode,
    has_sinks,
    sites_of,
    supports,
)
from ktiwprobe.plugins.protocols import AttentionModel
from ktiwprobe.plugins.quantities import quantity_of
from ktiwprobe.plugins.registry import Registry, build_registry
from ktiwprobe.probes.definitions import alpha, beta_by_definition, check_values, delta_by_definition
from ktiwprobe.testing import agreeing, laws
from ktiwprobe.testing.case import Case, in_evaluation, make_case, said
from ktiwprobe.testing.device import Mixed, run_elsewhere
from ktiwprobe.testing.outcome import Failed, Outcome, Skipped, raise_failures, run_checks


def check_model(
    model: str | type, *, task: str | None = None, options: Any = None, registry: Registry | None = None
) -> None:
    """Hold a model class (or a registered name) to the contract; raises one error that lists every failure."""
    name = model if isinstance(model, str) else model.__name__
    raise_failures(f"model {name}", model_checks(model, task=task, options=options, registry=registry))


def model_checks(
    model: str | type, *, task: str | None = None, options: Any = None, registry: Registry | None = None
) -> Iterator[Outcome]:
    """Each check and what came of it; small sentences of `task` (default: the model's own) are tried."""
    yield from run_checks(CHECKS, make_case(registry or build_registry(), model, task=task, options=options))


def options_are_frozen(case: Any) -> None:
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
    weights, of_sites = case.model.trace(case.batch).alpha.detach(), case.of_sites if case.sites else None
    check_values(weights, case.seen, "alpha", case.model, of_sites, declared=quantity_of(alpha, "alpha"))
    rows = case.of_sites.any(-1) if case.sites else case.of_sites.any(-1)[:, 0]
    sums = weights.float().sum(-1)[rows]
    if has_sinks(case.model) and not (sums < 1 - 1e-3).any():
        raise Failed("sinks = True is declared, and every row of alpha sums to 1: remove the declaration")


def padding_never_shows(case: Case) -> None:
    """A sentence alone and in a batch give the same numbers."""
    whole = said(case.model, case.batch)
    for row in range(len(case.split)):
        for name, (alone,) in said(case.model, case.alone(row)).items():
            advice = f"padding changes {name} of a sentence: mask every sum, mean, softmax and RNN over positions"
            case.same(whole[name][row], alone, advice)


def fast_paths_are_true(case: Case) -> None:
    """beta(batch), delta(batch) and encode(batch) equal their definitions."""
    case.needs_trace()
    model, batch = case.model, case.batch
    if not any(supports(model, faster) for faster in (SupportsBeta, SupportsDelta, SupportsEncode)):
        raise Skipped("the model brings none")
    if supports(model, SupportsBeta):
        slow = beta_by_definition(_Plain(case.model), batch)[case.forced]
        case.same(model.beta(batch)[case.forced], slow, "beta(batch) differs from one pass per one-hot attention")
    if supports(model, SupportsDelta):
        slow = delta_by_definition(case.model, batch)[case.seen]
        case.same(model.delta(batch)[case.seen], slow, "delta(batch) differs from d log p(y_t) / d gate_l")
        under = Under(case.model, uniform)  # how runs trained under uniform attention are probed
        fast, slow = under.delta(batch)[case.seen], delta_by_definition(under, batch)[case.seen]
        case.same(fast, slow, "delta(batch, attend=weights) must be the influence under that attention")
    if supports(model, SupportsEncode):
        with torch.no_grad():
            traces = model.trace(batch), model.trace(batch, state=model.encode(batch))
        plain, staged = (log_odds(trace, batch)[batch.y_mask] for trace in traces)
        case.same(plain, staged, "trace(batch, state=encode(batch)) differs from trace(batch)")


class _Plain:
    """A model with nothing but its trace."""

    def __init__(self, model: AttentionModel) -> None:
        self.trace, self.sites = model.trace, sites_of(model)


def no_peeking(case: Case) -> None:
    """Output t does not see y_t or anything after it."""
    case.needs_trace()
    batch = case.batch
    trace = case.model.trace(batch)
    if trace.logits is None:
        raise Skipped("the model returns scores, which are of y")
    T, V = batch.y.shape[1], case.corpus.target_size
    for t in sorted({0, T // 2, T - 1}):
        y = batch.y.clone()
        y[:, t] = torch.where(y[:, t] == V - 1, 0 if V == 2 else EOS, V - 1)
        other = case.model.trace(dataclasses.replace(batch, y=y)).logits
        early, late = (logits[:, : t + 1][batch.y_mask[:, : t + 1]] for logits in (trace.logits, other))
        case.same(early, late, f"changing y_{t} changes output {t} or one before it: shift y by one before reading it")


def state_round_trip(case: Case) -> None:
    """state() and load_state() carry everything."""
    other = case.build(seed=1)
    other.load_state({name: tensor.clone() for name, tensor in case.model.state().items()})
    after = said(in_evaluation(other), case.batch)
    for name, values in said(case.model, case.batch).items():
        for before, again in zip(values, after[name], strict=True):
            case.same(before, again, f"after load_state(state()) {name} is another: register every weight and buffer")


def gradients_reach_everything(case: Case) -> None:
    """Every parameter learns."""
    if not supports(case.model, HasLoss):
        raise Skipped("no loss: the model trains itself")
    model = case.build()
    case.update(model, times=2)
    with torch.random.fork_rng(devices=[]):
        model.zero_grad()
        model.loss(case.batch).backward()
    # zero is not idle: a bias in front of a softmax moves nothing, and only rounding keeps its gradient from being 0
    idle = [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]
    if idle:
        raise Failed(f"no gradient reaches {', '.join(idle)}: use them in trace, or leave them out")


def same_seed_same_numbers(case: Case) -> None:
    """Building and tracing twice gives the same bits."""
    one, two = (case.build(seed=3).state() for _ in range(2))
    for name in one:
        if not torch.equal(one[name], two[name]):
            raise Failed(f"two models built with one seed differ in {name}: draw random numbers from torch only")
    again = said(case.model, case.batch)
    for name, values in said(case.model, case.batch).items():
        if not all(map(torch.equal, values, again[name])):
            raise Failed(f"{name} differs between two calls in evaluation mode: switch dropout by self.training")


def one_device(case: Case) -> None:
    """No tensor stays on another device (tried on a device made for it)."""
    case.needs_trace()
    if not isinstance(case.model, torch.nn.Module):
        raise Skipped("not a torch module")
    seen = allowed(case.model, case.batch)
    attend, gate = uniform(by_site(seen) if case.sites else seen), torch.ones_like(case.batch.x).float()
    try:
        run_elsewhere(case.model, case.batch, attend, gate)
    except Mixed as error:
        raise Failed(f"create every tensor on batch.x.device ({error})") from error
    except TypeError as error:
        if "numpy" in str(error):
            raise Failed(
                f"numpy reads only what is on the CPU: stay in torch, or call .cpu() first ({error})"
            ) from error
        raise Skipped(f"it cannot be tried: {' '.join(str(error).split())[:120]}") from error
    except (RuntimeError, NotImplementedError, AttributeError) as error:
        raise Skipped(f"it cannot be tried: {' '.join(str(error).split())[:120]}") from error


def evaluation_adds_up(case: Case) -> None:
    """evaluate returns what is right, how many there are, and the sum of -log p."""
    with torch.no_grad():
        correct, total, nll = (float(value) for value in case.model.evaluate(case.batch))
    count = int(case.batch.y_mask.sum())
    if total != count or not 0 <= correct <= count or not nll >= 0:
        raise Failed(
            f"evaluate returned {correct:g}, {total:g}, {nll:g} for {count} outputs: count only where y_mask is true"
        )
    if supports(case.model, AttentionModel):
        with torch.no_grad():
            gamma = log_odds(case.model.trace(case.batch), case.batch)[case.batch.y_mask]
        expected = nll_of_log_odds(gamma).sum()
        advice = "the third number of evaluate must be the sum of -log p(y_t)"
        if case.model.trace(case.batch).logits is None:
            advice += ", which log-odds as scores imply: scores must be log p / (1 - p), not log p"
        case.same(torch.tensor(nll), expected.cpu().float(), advice)


def attention_parameters_are_parameters(case: Case) -> None:
    """attention_parameters() names some of parameters()."""
    own, all_of_them = case.attention_parameters(case.model), {id(p) for p in case.model.parameters()}
    if not own or any(id(p) not in all_of_them for p in own):
        raise Failed("return the parameters of the attention, all of which are in parameters()")


CHECKS: tuple[Callable[[Case], None], ...] = (
    options_are_frozen,
    shapes_are_right,
    weights_are_weights,
    padding_never_shows,
    laws.sites_have_names,
    laws.attend_is_obeyed,
    agreeing.attend_is_obeyed_far,
    agreeing.ways_to_force_agree,
    laws.own_weights_are_out,
    laws.gate_is_obeyed,
    agreeing.gate_is_obeyed_under_attend,
    agreeing.delta_is_a_slope,
    laws.model_is_faithful,
    no_peeking,
    agreeing.no_peeking_at_what_comes,
    fast_paths_are_true,
    state_round_trip,
    agreeing.load_state_replaces_everything,
    gradients_reach_everything,
    same_seed_same_numbers,
    one_device,
    evaluation_adds_up,
    agreeing.right_outputs_have_the_highest_logit,
    agreeing.objectives_obey_attend,
    attention_parameters_are_parameters,
    laws.frozen_beta_stays,
)

"""All checks before a model's first number: the laws of guards.py, and that several ways to one number agree.

A row may be forced alone or with the others, all sites by three dimensions or by four, a pass run whole or from
`encode`; delta is the slope of log p; `loss` and `evaluate` are under the attention that they are given.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, one_hot

from ktiwprobe.corpus.batch import Batch
from ktiwprobe.errors import ContractError, plugin_errors
from ktiwprobe.models.attend import Under, allowed, by_site, uniform
from ktiwprobe.models.scoring import log_odds, nll_of_log_odds
from ktiwprobe.plugins.capabilities import Evaluates, HasLoss, SupportsEncode, sites_of, supports
from ktiwprobe.plugins.protocols import Trace
from ktiwprobe.probes.definitions import delta, model_name
from ktiwprobe.probes.guards import (
    Needs,
    _DoesNotMove,
    _with_other_weights,
    check_itself,
    few_sentences,
    gap,
    guard,
    hold,
    legal_cells,
    needs,
    output,
    random_gate,
    take,
    tolerance,
)

STEP = 1e-2  # of the gate, over which a slope is measured
SLOPE = 0.1  # by which a gradient may differ from a slope, relative to it
BEND = 2e-2  # by which slopes over one step and over two may differ where log p is smooth enough to be measured
KINKS = 0.1  # of the outputs may have a gradient that is no slope on either side
NOISE = 2e-3  # of a slope in single precision
DIFFERENT = 1e-3  # outputs that differ by more are of two attentions


def check_before(model: Any, batch: Batch, probe: Any, *, longest: Batch | None = None) -> bool:
    """Refuse a model that would give `probe` a wrong number; False if `batch` leaves it no choice where to look.

    Of the `longest` texts, where windows and the like act, one is tried, and the model's own check reads all.
    """
    if not guard(model, batch, probe, longest=longest):
        return False
    need, inner = needs(probe, model), model._model if isinstance(model, Under) else model
    with plugin_errors(f"model {model_name(inner)}"):
        few = few_sentences(inner, batch) if any(need) else None
        if few is None:
            return True
        if need.attend:
            check_ways(inner, few)
            check_far(inner, batch if longest is None else longest)
        if need.gate:
            check_slope(model, few)
        if isinstance(model, Under):
            check_objectives(inner, few)
    return True


@torch.no_grad()
def check_far(model: Any, batch: Batch) -> None:
    """The laws of `attend` on one long sentence: the longest of a batch that leaves a choice where to look."""
    choice = (legal_cells(model, batch).sum(-1) > 1).any(1) & batch.y_mask  # (B, T)
    size = batch.x_mask.sum(1) * choice.any(1)
    if size.any():
        _with_other_weights(_obeys_far, model, take(batch, [int(size.argmax())]))


def check_longer(model: Any, batch: Batch, need: Needs) -> None:
    """What longer texts than those before may show."""
    check_itself(model, batch, need)
    if need.attend:
        inner = model._model if isinstance(model, Under) else model
        with plugin_errors(f"model {model_name(inner)}"):
            check_far(inner, batch)


def _obeys_far(model: Any, batch: Batch) -> bool:
    """All sites at once."""
    hold(model, batch, model.trace(batch), [list(range(max(1, len(sites_of(model)))))])
    return True


def check_ways(model: Any, batch: Batch) -> None:
    """Other ways to force a model do what `attend` of all rows and sites does."""
    with torch.no_grad():
        check_dimensions(model, batch)
        check_stages(model, batch)
        _with_other_weights(_obeys_in_a_row, model, batch)


def _sites(model: object) -> int:
    return len(sites_of(model))


def _first_position(batch: Batch) -> Tensor:
    """All the weight on the first input, as the definition of beta asks for it. (1, 1, L)"""
    return one_hot(torch.zeros_like(batch.x[:1, :1]), batch.x.shape[1]).float()


def check_dimensions(model: Any, batch: Batch) -> None:
    """`attend` with three dimensions is of every site."""
    if _sites(model) < 2:
        return
    three = _first_position(batch)
    four = three.expand(len(batch.x), _sites(model), batch.y.shape[1], -1)
    traces = [model.trace(batch, attend=attend) for attend in (three, four)]
    off = gap(*(output(trace)[batch.y_mask] for trace in traces))
    if not off <= tolerance(model, traces[0]):
        raise ContractError(
            f"{model_name(model)} does not force all of its sites when attend has three dimensions: its output differs "
            f"by {off:.2g} from that under the same weights given for each site; use choose(own, attend, allowed)"
        )


def check_stages(model: Any, batch: Batch) -> None:
    """From `encode`, which beta is computed from, a pass obeys `attend` too."""
    if not supports(model, SupportsEncode):
        return
    for under in ({}, {"attend": _first_position(batch)}):
        traces = model.trace(batch, **under), model.trace(batch, state=model.encode(batch), **under)
        off = gap(*(output(trace)[batch.y_mask] for trace in traces))
        if not off <= tolerance(model, traces[0]):
            how = f"trace(batch, {'attend=..., ' if under else ''}state=encode(batch))"
            raise ContractError(
                f"{how} of {model_name(model)} differs by {off:.2g} from the same without state: encode must only save "
                "work, and attend count with it as without"
            )


def _obeys_in_a_row(model: Any, batch: Batch) -> bool:
    """Row t of `attend` is that of output t: forced alone, it moves this output."""
    own, several = model.trace(batch), _sites(model)
    alpha = (own.alpha if several else own.alpha.unsqueeze(1)).float()  # (B, S, T, L)
    legal = legal_cells(model, batch)
    ids = batch.x[:, None, None].expand_as(legal)
    first = legal.int().argmax(-1)  # (B, S, T)
    last = (legal * torch.arange(1, legal.shape[-1] + 1, device=legal.device)).argmax(-1)
    differ = (ids.gather(-1, first.unsqueeze(-1)) != ids.gather(-1, last.unsqueeze(-1))).squeeze(-1).any(1)  # (B, T)
    ends = (batch.y_mask * torch.arange(alpha.shape[2], device=legal.device)).amax(1)
    for t in sorted({0, *ends.tolist()}):
        outputs = []
        for place in (first, last):
            attend = alpha.clone()
            forced = one_hot(place[:, :, t], alpha.shape[-1]).float()
            attend[:, :, t] = torch.where(legal[:, :, t].any(-1, keepdim=True), forced, alpha[:, :, t])
            outputs.append(output(model.trace(batch, attend=attend if several else attend[:, 0]))[:, t])
        if (differ[:, t] & batch.y_mask[:, t] & (outputs[0] == outputs[1]).all(-1)).any():
            raise _DoesNotMove(
                f"{model_name(model)} does not use row {t} of attend for output {t}: forced alone to look at another "
                "position, it leaves this output the same (difference 0); row t of alpha and attend must be where "
                "output t looks"
            )
    return True


def check_slope(model: Any, batch: Batch) -> None:
    """delta is the slope of log p(y_t) as the gate grows, by finite differences in two directions.

    Measured where log p is smooth enough and its slope above rounding, not at all in half precision. Kinks near
    the gate of 1 make single outputs differ, which do not count.
    """
    trace = _gated(model, batch, None)
    gamma = log_odds(trace, batch)
    if gamma.dtype != torch.float32 or tolerance(model, trace) > 1e-3 or not batch.y_mask.any():
        return
    returned = delta(model, batch)
    if returned.dim() != 3:
        return
    for seed in range(2):
        way = (random_gate(batch, seed) * batch.x_mask).to(returned.device)
        claimed = (returned * way.unsqueeze(1)).masked_fill(~batch.x_mask.unsqueeze(1), 0).sum(-1)  # (B, T)
        off, slope, measured = _off_slope(model, batch, way, claimed, gamma)
        if int((off > 0).sum()) <= KINKS * int(measured.sum()):
            return
    b, t = divmod(int(off.argmax()), off.shape[1])
    raise ContractError(
        f"delta of {model_name(model)} is not d log p(y_t) / d gate: the gradient says {claimed[b, t]:.3g} for "
        f"output {t} in one direction, finite differences {slope[b, t]:.3g}; leave no path from the embeddings out "
        "by detach() and scale none"
    )


@torch.no_grad()
def _off_slope(model: Any, batch: Batch, way: Tensor, claimed: Tensor, gamma: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """How far claimed slopes are off, the slopes, and where they could be measured. (B, T) each"""
    ones, here = torch.ones_like(way), logsigmoid(gamma)
    far_up, up, down, far_down = (
        logsigmoid(log_odds(_gated(model, batch, ones + steps * STEP * way), batch)) for steps in (2, 1, -1, -2)
    )
    slope, sides = (up - down) / (2 * STEP), torch.stack([(up - here) / STEP, (here - down) / STEP])
    noise = NOISE * gamma.abs().clamp_min(1)
    measured = batch.y_mask & ((slope - (far_up - far_down) / (4 * STEP)).abs() <= BEND * slope.abs() + noise)
    room = SLOPE * slope.abs() + 2 * noise
    off = torch.maximum(claimed - sides.amax(0), sides.amin(0) - claimed) - room
    return off.masked_fill(~measured, -1), slope, measured


@torch.no_grad()
def _gated(model: Any, batch: Batch, gate: Tensor | None) -> Trace:
    return model.trace(batch, gate=gate)  # type: ignore[no-any-return]


@torch.no_grad()
def check_objectives(model: Any, batch: Batch) -> None:
    """`loss` and `evaluate` are under the attention that they are given, as training under uniform attention needs."""
    seen = allowed(model, batch)
    attend = uniform(by_site(seen) if _sites(model) else seen)
    gammas = [log_odds(trace, batch)[batch.y_mask] for trace in (model.trace(batch), model.trace(batch, attend=attend))]
    if gap(*gammas) <= DIFFERENT:  # this model says the same under both
        return
    free, forced = (nll_of_log_odds(gamma) for gamma in gammas)
    for method, plain, under in (
        ("evaluate", free.sum(), forced.sum()),
        ("loss", free.mean(), forced.mean()),
    ):
        if not _takes_attend(model, method):
            continue
        values = [_objective(model, method, batch, **given) for given in ({}, {"attend": attend})]
        measures = abs(float(values[0] - plain)) <= 1e-3 * max(1.0, abs(float(plain)))  # loss may be something else
        right = abs(float(values[1] - under)) <= 1e-3 * max(1.0, abs(float(under)))
        if (measures and not right) or values[0] == values[1]:
            raise ContractError(
                f"{method}(batch, attend=) of {model_name(model)} does not run under attend: it gives "
                f"{float(values[1]):.5g} under uniform attention and {float(values[0]):.5g} without, where trace gives "
                f"{float(under):.5g} and {float(plain):.5g}; pass attend on to trace"
            )


def _takes_attend(model: object, method: str) -> bool:
    """Whether a method of the model is there and takes an attention."""
    there = supports(model, HasLoss if method == "loss" else Evaluates)
    return there and "attend" in inspect.signature(getattr(model, method)).parameters


def _objective(model: Any, method: str, batch: Batch, **given: Tensor) -> Tensor:
    value = getattr(model, method)(batch, **given)
    return torch.as_tensor(value[2] if method == "evaluate" else value).float().cpu()

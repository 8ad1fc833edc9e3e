"""alpha-opt: the attention that would serve each output best (Appendix A.1), whatever the model's own is.

The descent is a spectral projected gradient: the length of a step is that of Barzilai and Borwein, and a step counts if
the loss falls below the highest of the last few. All rows move at once, each at its own pace, for one trace a try.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ktiwprobe.attend import allowed, uniform
from ktiwprobe.data import Batch
from ktiwprobe.errors import ContractError
from ktiwprobe.probes import _differentiable_rnn, _gradient, _need, log_odds

TOLERANCE = 1e-4  # of the gap
MOST = 1000  # tries
PATIENCE = 50  # tries without a gain, after which a row stays where it is
GAIN = 1e-6
MEMORY = 10  # losses that a new one is compared with
DECREASE = 1e-4  # the least share of the promised fall that counts
PACES = (1e-6, 1e4)

Evaluate = Callable[[Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best attention that was found, and how far from the best it may be."""

    alpha: Tensor  # (B, T, L) or (B, S, T, L); rows sum to 1, zero where not allowed
    loss: Tensor  # (B, T): -log p(y_t) under alpha; zero on padding
    gap: Tensor  # (B, T): Frank-Wolfe gap; a row that did not converge is one above the tolerance
    iterations: int


def alpha_opt(model: Any, batch: Batch) -> Tensor:
    """The free attention that minimises -log p(y_t), each row t by itself. (B, T, L), or (B, S, T, L)"""
    return optimise(model, batch).alpha


@torch.no_grad()
def optimise(model: Any, batch: Batch, *, tolerance: float = TOLERANCE, most: int = MOST) -> Optimum:
    """Descend from uniform attention until the gap of every row is below `tolerance`, or for `most` tries.

    With f the loss of a row and g its gradient, the gap is Σ_l a_l g_l - min_l g_l over allowed l, summed over sites.
    If f is convex in the weights (a linear output), f(a) - min f <= gap. Else the gap only says how far a is from
    stationary, and at a kink (of a ReLU) it may stay large: a row that gains nothing for long is left there. No row
    ends above its loss under uniform attention.

    Row t must not depend on the weights of other rows, as it would with input feeding or stacked self-attention.
    """
    _need(model, "alpha-opt", "trace")
    sites = len(getattr(model, "sites", ()))
    seen = allowed(model, batch).unsqueeze(1).expand(-1, max(1, sites), batch.y.shape[1], -1)  # (B, S, T, L)
    evaluate = _objective(model, batch, seen, sites=bool(sites))
    a = uniform(seen)
    loss, slope = evaluate(a)
    best, recent = loss, loss.expand(MEMORY, *loss.shape)
    pace, share, idle = torch.ones_like(loss), torch.ones_like(loss), torch.zeros_like(loss)
    for iterations in range(most + 1):
        gap = _dot(a, slope)
        moving = (gap >= tolerance) & batch.y_mask & (idle < PATIENCE)
        if iterations == most or not moving.any():
            break
        way = project(a - _wide(pace) * slope, seen) - a
        there = a + _wide(share) * way
        new_loss, new_slope = evaluate(there)
        taken = moving & (new_loss <= recent.amax(0) + DECREASE * share * _dot(slope, way))
        pace = torch.where(taken, _pace(there - a, new_slope - slope), pace)
        share = torch.where(taken, 1.0, share / 2)
        gained = taken & (new_loss < best - GAIN)
        best, idle = torch.where(gained, new_loss, best), torch.where(gained, 0.0, idle + 1)
        a, slope = (torch.where(_wide(taken), *pair) for pair in ((there, a), (new_slope, slope)))
        loss = torch.where(taken, new_loss, loss)
        recent = torch.where(taken, torch.cat([new_loss.unsqueeze(0), recent[:-1]]), recent)
    a = F.normalize(a, p=1, dim=-1)  # of rounding only
    return Optimum(a if sites else a.squeeze(1), loss, gap, iterations)


def project(v: Tensor, seen: Tensor) -> Tensor:
    """The nearest distribution over the seen positions of each row; zeros where nothing is seen. (..., L)"""
    v = v.masked_fill(~seen, -torch.inf)
    v = (v - v.amax(-1, keepdim=True)).clamp_min(-1)  # what is 1 below the highest gets nothing
    falling = v.sort(-1, descending=True).values
    excess = falling.cumsum(-1) - 1
    count = torch.arange(1, v.shape[-1] + 1, device=v.device)
    kept = (falling * count > excess).sum(-1, keepdim=True).clamp_min(1)
    return (v - excess.gather(-1, kept - 1) / kept).clamp_min(0).masked_fill(~seen, 0)


def _objective(model: Any, batch: Batch, seen: Tensor, *, sites: bool) -> Evaluate:
    """Weights (B, S, T, L) -> loss (B, T), and its slope above the least one of the row (so Σ a · slope is the gap)."""
    once = {"state": model.encode(batch)} if hasattr(model, "encode") else {}

    def evaluate(weights: Tensor) -> tuple[Tensor, Tensor]:
        attend = weights.detach().requires_grad_()
        with torch.enable_grad(), _differentiable_rnn(batch):
            gamma = log_odds(model.trace(batch, attend=attend if sites else attend.squeeze(1), **once), batch)
            loss = F.softplus(-gamma.float()).masked_fill(~batch.y_mask, 0)  # -log p
            slope = _gradient(loss.sum(), attend, keep=False)
        if slope is None:
            raise ContractError(
                "the output does not depend on attend: use choose(own, attend, allowed) for its weights"
            )
        least = slope.masked_fill(~seen, torch.inf).amin(-1, keepdim=True)
        return loss.detach(), (slope - least).masked_fill(~seen, 0)

    return evaluate


def _pace(step: Tensor, turn: Tensor) -> Tensor:
    """How far to go along the slope next: 1 / the curvature met on the last step. (B, T)"""
    met = _dot(step, turn)
    return torch.where(met > 0, _dot(step, step) / met, PACES[1]).clamp(*PACES)


def _dot(u: Tensor, v: Tensor) -> Tensor:
    """(B, S, T, L), (B, S, T, L) -> (B, T)"""
    return (u * v).sum((1, 3))


def _wide(row: Tensor) -> Tensor:
    """(B, T) -> (B, 1, T, 1)"""
    return row[:, None, :, None]

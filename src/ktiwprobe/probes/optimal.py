"""alpha-opt: the attention that would serve each output best (Appendix A.1), whatever the model's own is.

Found by spectral projected gradients: a step is as long as the curvature met on the last one allows (Barzilai and
Borwein), and it is taken if the loss ends below the highest of the last few. All rows move at once, each at its own
pace, for one trace a try. (Compared with the last loss alone, rows of a trained model stalled in float32.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ktiwprobe.corpus.batch import Batch
from ktiwprobe.errors import ContractError
from ktiwprobe.models.attend import allowed, by_site, uniform
from ktiwprobe.models.scoring import log_odds, nll_of_log_odds
from ktiwprobe.plugins.capabilities import sites_of
from ktiwprobe.plugins.protocols import AttentionModel
from ktiwprobe.plugins.quantities import Line, quantity
from ktiwprobe.probes.definitions import _differentiable_rnn, _gradient, attending, encoded

TOLERANCE = 1e-4  # of the gap
MOST = 500  # tries
PATIENCE = 40  # tries without a gain, after which a row gives up
GAIN = 1e-5  # of loss
MEMORY = 5  # losses that a new one is compared with
DECREASE = 1e-4  # the least share of the promised fall that counts
PACES = (1e-6, 1e3)  # a longer step would make weights out of the slope's rounding


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best attention that was found, and how far from the best its loss may be."""

    alpha: Tensor  # (B, T, L) or (B, S, T, L); rows sum to 1 (nothing goes to a sink), zero where not allowed
    loss: Tensor  # (B, T): -log p(y_t) under alpha; zero on padding
    gap: Tensor  # (B, T): at or above the tolerance where a row did not converge; zero on padding
    iterations: int


@quantity(
    "α-opt",
    "attention weight that minimises the loss",
    scale="weight",
    pooling=("sum", "mean"),
    line=Line("#a84f83", "#e59cc6", (8, 2, 2, 2)),
    uses=("attend",),
    latex=r"\alpha_{\mathrm{opt}}",
)
def alpha_opt(model: object, batch: Batch) -> Tensor:
    """The free attention that minimises -log p(y_t), each row t by itself. (B, T, L), or (B, S, T, L)"""
    return optimise(model, batch).alpha


@torch.no_grad()
def optimise(
    model: object, batch: Batch, *, tolerance: float = TOLERANCE, most: int = MOST, patience: int = PATIENCE
) -> Optimum:
    """Descend from uniform attention until the gap of every row is below `tolerance`, or it gives up.

    With f the loss of a row and g its gradient, the Frank-Wolfe gap is Σ_l a_l g_l - min_l g_l over allowed l, summed
    over sites. If f is convex in the weights, as with a linear output, f(a) - min f <= gap. Else the gap only says how
    far the row is from stationary, and at a kink (of a ReLU) it stays large. So a row gives up after `patience` tries
    without a gain, and all do after `most`; a row that gave up has the weights of its last gain, and its gap tells.
    No row ends above its loss under uniform attention.

    Output t must not depend on the weights of other rows, as it would with input feeding or stacked self-attention.
    """
    model, sites = attending(model, "alpha-opt"), len(sites_of(model))
    seen = by_site(allowed(model, batch)).expand(-1, max(1, sites), batch.y.shape[1], -1)  # (B, S, T, L)
    evaluate = _objective(model, batch, seen, sites=sites > 0)
    here = kept = evaluate(uniform(seen))
    recent = here.loss.expand(MEMORY, *here.loss.shape)
    pace, share, idle = torch.ones_like(here.loss), torch.ones_like(here.loss), torch.zeros_like(here.loss)
    moving, iterations = here.gap >= tolerance, 0
    while iterations < most and moving.any():
        way = project(here.weights - _wide(pace) * here.slope, seen) - here.weights
        there = evaluate(here.weights + _wide(share) * way)
        taken = moving & (there.loss <= recent.amax(0) + DECREASE * share * _dot(here.slope, way))
        pace = torch.where(taken, _pace(here, there), pace)
        share = torch.where(taken, 1.0, share / 2)
        recent = torch.where(taken, torch.cat([there.loss.unsqueeze(0), recent[:-1]]), recent)
        here = _where(taken, there, here)
        done = here.gap < tolerance
        gained = taken & (done | (here.loss < kept.loss - GAIN))
        kept, idle = _where(gained, here, kept), torch.where(gained, 0.0, idle + 1)
        moving, iterations = moving & ~done & (idle < patience), iterations + 1
    weights = F.normalize(kept.weights, p=1, dim=-1)  # their sums are off by rounding
    return Optimum(weights if sites else weights.squeeze(1), kept.loss, kept.gap, iterations)


def project(v: Tensor, seen: Tensor) -> Tensor:
    """The nearest distribution over the seen positions of each row, by Euclid; zeros where none is seen. (..., L)"""
    v = v.masked_fill(~seen, -torch.inf)
    v = (v - v.amax(-1, keepdim=True)).clamp_min(-1)  # what is 1 below the highest gets nothing
    falling = v.sort(-1, descending=True).values
    excess = falling.cumsum(-1) - 1
    count = torch.arange(1, v.shape[-1] + 1, device=v.device)
    kept = (falling * count > excess).sum(-1, keepdim=True).clamp_min(1)
    return (v - excess.gather(-1, kept - 1) / kept).clamp_min(0).masked_fill(~seen, 0)


class _Point(NamedTuple):
    """Weights, and what was found there."""

    weights: Tensor  # (B, S, T, L)
    slope: Tensor  # (B, S, T, L): d loss / d weights above the least of its row, so that no weight is rounded off
    loss: Tensor  # (B, T)

    @property
    def gap(self) -> Tensor:
        """Σ a g - min g = Σ a (g - min g). (B, T)"""
        return _dot(self.weights, self.slope)


def _objective(model: AttentionModel, batch: Batch, seen: Tensor, *, sites: bool) -> Callable[[Tensor], _Point]:
    """What evaluates weights (B, S, T, L); padded rows are flat, so they never move."""
    once = encoded(model, batch)
    real = seen & _wide(batch.y_mask)

    def evaluate(weights: Tensor) -> _Point:
        attend = weights.detach().requires_grad_()
        with torch.enable_grad(), _differentiable_rnn(batch):
            gamma = log_odds(model.trace(batch, attend=attend if sites else attend.squeeze(1), **once), batch)
            loss = nll_of_log_odds(gamma.float()).masked_fill(~batch.y_mask, 0)
            slope = _gradient(loss.sum(), attend, keep=False)
        if slope is None:
            raise ContractError(
                "the output does not depend on attend: use choose(own, attend, allowed) for its weights"
            )
        least = slope.masked_fill(~seen, torch.inf).amin(-1, keepdim=True)
        return _Point(weights, (slope - least).masked_fill(~real, 0), loss.detach())

    return evaluate


def _pace(here: _Point, there: _Point) -> Tensor:
    """How far to go along the slope next: 1 / the curvature between two points. (B, T)"""
    step = there.weights - here.weights
    bend = _dot(step, there.slope - here.slope)
    return torch.where(bend > 0, _dot(step, step) / bend, PACES[1]).clamp(*PACES)


def _where(rows: Tensor, one: _Point, other: _Point) -> _Point:
    """`one` in the chosen rows (B, T), `other` in the rest."""
    wide = _wide(rows)
    pairs = zip((wide, wide, rows), one, other, strict=True)
    return _Point(*(torch.where(*pair) for pair in pairs))


def _dot(u: Tensor, v: Tensor) -> Tensor:
    """(B, S, T, L), (B, S, T, L) -> (B, T)"""
    return (u * v).sum((1, 3))


def _wide(rows: Tensor) -> Tensor:
    """(B, T) -> (B, 1, T, 1)"""
    return rows[:, None, :, None]

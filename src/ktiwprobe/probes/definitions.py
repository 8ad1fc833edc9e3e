"""The paper's quantities, each from `trace` alone: (B, T, L), or (B, S, T, L) for several sites; and their checks.

What stands on padding or where a row may not look is dropped by the caller. A model may bring a faster `beta` or
`delta` of its own; the conformance kit holds those to the definitions here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ktiwprobe.corpus.batch import Batch
from ktiwprobe.errors import ContractError
from ktiwprobe.models.attend import allowed, by_site, one_hot, uniform, unwrapped
from ktiwprobe.models.scoring import log_odds
from ktiwprobe.plugins.capabilities import (
    SupportsBeta,
    SupportsDelta,
    SupportsEncode,
    called,
    has_sinks,
    sites_of,
    supports,
)
from ktiwprobe.plugins.protocols import AttentionModel
from ktiwprobe.plugins.quantities import Line, Quantity, quantity

TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 1e-2}  # else 1e-4


@quantity(
    "α",
    "attention weight",
    scale="weight",
    role="attention",
    pooling=("sum", "mean"),
    line=Line("#0072b2", "#56b4e9"),
    uses=(),
    latex=r"\alpha",
    needs_attention=False,
)
@torch.no_grad()
def alpha(model: object, batch: Batch) -> Tensor:
    """Attention weights (Eq. 1); for a model without attention, beta as a share of its row."""
    if supports(model, AttentionModel):
        return model.trace(batch).alpha
    if not supports(model, SupportsBeta):
        raise _lacks(model, "alpha", "trace or beta")
    scores, seen = model.beta(batch), allowed(model, batch)
    seen = by_site(seen) if scores.dim() == 4 else seen
    log_p = F.logsigmoid(scores).masked_fill(~seen, -torch.inf)
    share = log_p.softmax(-1)  # of logs, as p itself may be too small for its format
    # a row without any p (no input word was ever seen with this output) says nothing: uniform
    return torch.where(log_p.isneginf().all(-1, keepdim=True), uniform(seen).to(share.dtype), share)


@quantity(
    "β",
    "log-odds of the output given that input alone",
    scale="log-odds",
    role="knowledge",
    pooling=("max", "joint"),
    line=Line("#d55e00", "#ff9248", (6, 2)),
    uses=("attend",),
    step_of_hat="max",
    latex=r"\beta",
    needs_attention=False,
)
@torch.no_grad()
def beta(model: object, batch: Batch) -> Tensor:
    """Log-odds of y_t if the model attended to position l only (Eq. 4)."""
    if supports(model, SupportsBeta):
        return model.beta(batch)
    return beta_by_definition(model, batch)


@torch.no_grad()
def beta_by_definition(model: object, batch: Batch) -> Tensor:
    """One pass for each input position, all rows attending to it alone; a model with `encode` encodes once."""
    model, once = attending(model, "beta"), encoded(model, batch)
    columns = [log_odds(model.trace(batch, attend=only, **once), batch) for only in one_hot(batch)]
    return torch.stack(columns, -1)


def encoded(model: object, batch: Batch) -> dict[str, Any]:
    """Arguments of `trace` for several passes over a batch: its encoding, from a model with `encode`."""
    return {"state": model.encode(batch)} if supports(model, SupportsEncode) else {}


@quantity(
    "Δ",
    "saliency: gradient of the output's log-probability times the input",
    role="saliency",
    pooling=("sum", "sum"),
    line=Line("#007a59", "#2cc79b", (2, 2)),
    uses=("gate",),
    latex=r"\Delta",
)
def delta(model: object, batch: Batch) -> Tensor:
    """Influence of word l on output t: d log p(y_t) / d gate_l, which is gradient times embedding."""
    if supports(model, SupportsDelta):
        return model.delta(batch)
    return delta_by_definition(model, batch)


def delta_by_definition(model: object, batch: Batch) -> Tensor:
    """One forward pass, then one backward pass for each output: d log p = (1 - p) d γ."""
    model = attending(model, "delta")
    gate = torch.ones_like(batch.x, dtype=torch.float32).requires_grad_()
    with torch.enable_grad(), _differentiable_rnn(batch):
        gamma = log_odds(model.trace(batch, gate=gate), batch)  # (B, T)
        last = gamma.shape[1] - 1
        rows = [_gradient(gamma[:, t].sum(), gate, keep=t < last) for t in range(last + 1)]
    if all(row is None for row in rows):
        raise ContractError(
            "the output does not depend on gate: trace must multiply its source embeddings by gate.unsqueeze(-1)"
        )
    found = torch.stack([torch.zeros_like(gate) if row is None else row for row in rows], 1)
    return found * torch.sigmoid(-gamma.detach()).unsqueeze(-1)


def _gradient(number: Tensor, gate: Tensor, *, keep: bool) -> Tensor | None:
    """d number / d gate, or None if number was computed without it."""
    if not number.requires_grad:
        return None
    return torch.autograd.grad(number, gate, retain_graph=keep, allow_unused=True)[0]


@contextlib.contextmanager
def _differentiable_rnn(batch: Batch) -> Iterator[None]:
    """The backward pass of an RNN in evaluation mode, which cuDNN refuses and torch's own kernels do not."""
    with torch.backends.cudnn.flags(enabled=False) if batch.x.is_cuda else contextlib.nullcontext():
        yield


def attending(model: object, probe: str) -> AttentionModel:
    """The model, which must have attention."""
    if not supports(model, AttentionModel):
        raise _lacks(model, probe, "trace")
    return model


def _lacks(model: object, probe: str, members: str) -> ContractError:
    return ContractError(f"{probe} needs a model with {members}: {type(model).__name__} has none")


# what comes back from a stranger's code


def check_allowed(mask: Any, batch: Batch, sites: int = 0) -> Tensor:
    """The mask that a model with `sites` named sites returned, or a sentence about what is wrong with it."""
    B, T, L = len(batch.x), batch.y.shape[1], batch.x.shape[1]
    legal = [(B, rows, L) for rows in (1, T)] + [(B, sites, rows, L) for rows in (1, T) if sites]
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or tuple(mask.shape) not in legal:
        returned = f"{mask.dtype} {tuple(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
        several = f", or ({B}, {sites}, 1 or {T}, {L}) where sites differ" if sites else ""
        raise ContractError(f"allowed(batch) returned {returned}: it must be bool, ({B}, 1 or {T}, {L}){several}")
    if (by_site(mask) & ~batch.x_mask[:, None, None]).any():
        raise ContractError("allowed(batch) is true on padding: combine it with batch.x_mask.unsqueeze(1)")
    return mask


def check_values(
    returned: Any, seen: Tensor, probe: str, model: object, of_sites: Tensor | None = None, *, declared: Quantity
) -> Tensor:
    """What a probe returned as (B, S, T, L) float32 on the CPU, or a sentence about what is wrong with it.

    `seen` are the cells that are kept (B, T, L); `of_sites`, where sites differ, the cells of each (B, S, T, L);
    `declared` is the quantity of the probe.
    """
    B, T, L = seen.shape
    S = max(1, len(sites_of(model)))
    if not isinstance(returned, Tensor) or tuple(returned.shape) not in ((B, T, L), (B, S, T, L)):
        found = tuple(returned.shape) if isinstance(returned, Tensor) else type(returned).__name__
        wanted = f"({B}, {T}, {L})" + (f" or ({B}, {S}, {T}, {L})" if S > 1 else "")
        raise ContractError(
            f"probe {probe!r} of {model_name(model)} returned {found}: it must return a tensor of shape {wanted}"
        )
    tolerance = TOLERANCE.get(returned.dtype, 1e-4)
    values: Tensor = returned.detach().float().view(B, -1, T, L)
    legal = seen.unsqueeze(1).expand_as(values)
    inside = values[legal]
    if torch.isnan(inside).any() or torch.isposinf(inside).any():
        raise ContractError(
            f"probe {probe!r} of {model_name(model)} returned NaN or +inf: every allowed cell must be a number"
        )
    if declared.role == "attention":
        _check_weights(values, legal if of_sites is None else of_sites, tolerance, model)
    return values.cpu()


def _check_weights(values: Tensor, legal: Tensor, tolerance: float, model: object) -> None:
    real = legal.any(-1)
    inside = values.masked_fill(~legal, 0)
    if inside.lt(-tolerance).any():
        raise ContractError(f"alpha of {model_name(model)} has a weight of {inside.min():.4f}: weights are 0 or more")
    sums = inside.sum(-1)[real]
    off = (sums - 1).clamp_min(0) if has_sinks(model) else (sums - 1).abs()
    if off.gt(10 * tolerance).any():
        worst = sums[off.argmax()].item()
        advice = (
            "normalise it, or declare `sinks = True` if the model puts the rest on no input"
            if worst < 1
            else "weights of a row sum to at most 1"
        )
        raise ContractError(
            f"alpha of {model_name(model)} has a row that sums to {worst:.4f}, not 1, over its allowed positions: "
            f"{advice}"
        )
    outside = values.masked_fill(legal, 0)[real.unsqueeze(-1).expand_as(values)]
    if outside.abs().gt(tolerance).any():
        raise ContractError(
            f"alpha of {model_name(model)} is not 0 outside the allowed positions: mask its scores with -inf"
        )


def model_name(model: object) -> str:
    """What a sentence about a model calls it: its class, or what it says itself, as one that wraps a network does."""
    inner = unwrapped(model)
    return called(inner) or type(inner).__name__

"""The paper's quantities, each from `trace` alone: (B, T, L), or (B, S, T, L) for several sites.

What stands on padding or where a row may not look is dropped by the caller. A model may bring a faster `beta` or
`delta` of its own; the conformance kit holds those to the definitions here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ktiwprobe.attend import one_hot
from ktiwprobe.data import Batch
from ktiwprobe.errors import ContractError
from ktiwprobe.protocols import Trace


def log_odds(trace: Trace, batch: Batch) -> Tensor:
    """γ of the correct output: log p(y_t) / (1 - p(y_t)) = logit_y - logsumexp(the other logits). (B, T)

    Ranked instead of p or log p, which saturate in float32: two rows that are both "certain" would tie.
    """
    if trace.scores is not None:
        return trace.scores
    if trace.logits is None:
        raise ContractError("a trace has neither logits nor scores: return one of them")
    y = batch.y.unsqueeze(-1)
    others = trace.logits.scatter(-1, y, -torch.inf)
    return trace.logits.gather(-1, y).squeeze(-1) - others.logsumexp(-1)


@torch.no_grad()
def alpha(model: Any, batch: Batch) -> Tensor:
    """Attention weights (Eq. 1); for a model without attention, beta as a share of its row."""
    if hasattr(model, "trace"):
        return model.trace(batch).alpha  # type: ignore[no-any-return]
    scores = model.beta(batch)
    p = torch.sigmoid(scores).masked_fill(~batch.x_mask.unsqueeze(1), 0)
    total = p.sum(-1, keepdim=True)
    # a row of zeros (no input word was ever seen with this output) says nothing: uniform
    blank = batch.x_mask.unsqueeze(1) / batch.x_lengths.to(p.device).view(-1, 1, 1)
    return torch.where(total > 0, p / total, blank.to(p.dtype))


@torch.no_grad()
def beta(model: Any, batch: Batch) -> Tensor:
    """Log-odds of y_t if the model attended to position l only (Eq. 4)."""
    if hasattr(model, "beta"):
        return model.beta(batch)  # type: ignore[no-any-return]
    return beta_by_definition(model, batch)


@torch.no_grad()
def beta_by_definition(model: Any, batch: Batch) -> Tensor:
    """One pass for each input position, all rows attending to it alone; a model with `encode` encodes once."""
    once = {"state": model.encode(batch)} if hasattr(model, "encode") else {}
    columns = [log_odds(model.trace(batch, attend=only, **once), batch) for only in one_hot(batch)]
    return torch.stack(columns, -1)


def delta(model: Any, batch: Batch) -> Tensor:
    """Influence of word l on output t: d log p(y_t) / d gate_l, which is gradient times embedding."""
    if hasattr(model, "delta"):
        return model.delta(batch)  # type: ignore[no-any-return]
    return delta_by_definition(model, batch)


def delta_by_definition(model: Any, batch: Batch) -> Tensor:
    """One forward pass, then one backward pass for each output: d log p = (1 - p) d γ."""
    if not hasattr(model, "trace"):
        raise ContractError("delta needs a model with trace(batch, attend=, gate=)")
    gate = torch.ones_like(batch.x, dtype=torch.float32).requires_grad_()
    with torch.enable_grad(), _differentiable_rnn(batch):
        gamma = log_odds(model.trace(batch, gate=gate), batch)  # (B, T)
        if not gamma.requires_grad:
            raise ContractError("the output does not depend on gate: trace must scale its source embeddings by it")
        T = gamma.shape[1]
        rows = [torch.autograd.grad(gamma[:, t].sum(), gate, retain_graph=t < T - 1)[0] for t in range(T)]
    return torch.stack(rows, 1) * torch.sigmoid(-gamma.detach()).unsqueeze(-1)


@contextlib.contextmanager
def _differentiable_rnn(batch: Batch) -> Iterator[None]:
    """The backward pass of an RNN in evaluation mode, which cuDNN refuses and torch's own kernels do not."""
    with torch.backends.cudnn.flags(enabled=False) if batch.x.is_cuda else contextlib.nullcontext():
        yield

"""The one place that scores what a model predicted: log-odds, -log p, and which outputs are right.

Logits in half precision are scored in float32, here and so everywhere.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ktiwprobe.corpus.batch import Batch
from ktiwprobe.errors import ContractError
from ktiwprobe.plugins.protocols import Trace

HALF = (torch.float16, torch.bfloat16)


def log_odds(trace: Trace, batch: Batch) -> Tensor:
    """γ of the correct output: log p(y_t) / (1 - p(y_t)) = logit_y - logsumexp(the other logits). (B, T)

    Ranked instead of p or log p, which saturate in float32: two rows that are both "certain" would tie.
    """
    if trace.scores is not None:
        return _wide(trace.scores)
    y, logits = batch.y.unsqueeze(-1), _wide(_logits(trace))
    others = logits.scatter(-1, y, -torch.inf)
    return logits.gather(-1, y).squeeze(-1) - others.logsumexp(-1)


def neg_log_p(trace: Trace, batch: Batch) -> Tensor:
    """-log p of each output in nats, 0 where `y_mask` is False. (B, T)"""
    if trace.logits is None and trace.scores is not None:
        nll = nll_of_log_odds(trace.scores)
    else:
        nll = nll_of_logits(_logits(trace), batch.y)
    return nll.masked_fill(~batch.y_mask, 0)  # a factor of 0 would make NaN of an inf


def right_outputs(trace: Trace, batch: Batch) -> Tensor:
    """Which outputs that count have the highest logit. (B, T) bool"""
    return (_logits(trace).argmax(-1) == batch.y) & batch.y_mask


def score(trace: Trace, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """What `evaluate` returns: outputs predicted right, outputs in all, and the sum of their -log p."""
    return right_outputs(trace, batch).sum(), batch.y_mask.sum(), neg_log_p(trace, batch).sum()


def nll_of_logits(logits: Tensor, y: Tensor, *, reduction: Literal["none", "mean", "sum"] = "none") -> Tensor:
    """-log p of the ids `y` (...) under `logits` (..., V): of each, or their mean or sum."""
    V = logits.shape[-1]
    nll = F.cross_entropy(_wide(logits).reshape(-1, V), y.reshape(-1), reduction=reduction)
    return nll.view_as(y) if reduction == "none" else nll


def nll_of_shared_logits(logits: Tensor, y: Tensor) -> Tensor:
    """-log p of the ids `y` (B, T) where all outputs of a sentence share its `logits` (B, V). (B, T)"""
    return -_wide(logits).log_softmax(-1).gather(1, y)


def nll_of_log_odds(gamma: Tensor) -> Tensor:
    """-log p of outputs whose log-odds are `gamma`: log(1 + exp(-γ))."""
    return F.softplus(-_wide(gamma))


def _wide(values: Tensor) -> Tensor:
    return values.float() if values.dtype in HALF else values


def _logits(trace: Trace) -> Tensor:
    if trace.logits is None:
        raise ContractError(
            "a trace has neither logits nor scores: return one of them"
            if trace.scores is None
            else "a model that returns scores without logits must bring its own evaluate(batch)"
        )
    return trace.logits

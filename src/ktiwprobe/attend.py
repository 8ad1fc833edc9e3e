"""Attentions one can choose, and how a model takes one; each broadcasts to (B, T, L)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ktiwprobe.data import Batch
from ktiwprobe.protocols import Trace


def allowed(model: Any, batch: Batch) -> Tensor:
    """Which positions each output row may look at: the model's word, else every real position. (B, T or 1, L)"""
    if hasattr(model, "allowed"):
        return model.allowed(batch)  # type: ignore[no-any-return]
    return batch.x_mask.unsqueeze(1)


def uniform(allowed: Tensor) -> Tensor:
    """Equal weight on every allowed position, as early in training; zero rows stay zero. (B, T or 1, L)"""
    weights = allowed.float()
    return weights / weights.sum(-1, keepdim=True).clamp_min(1)


def one_hot(batch: Batch) -> Tensor:
    """All the weight on position l, for each l in turn. (L, 1, 1, L)"""
    L = batch.x.shape[1]
    return torch.eye(L, device=batch.x.device).view(L, 1, 1, L)


def choose(own: Tensor, attend: Tensor | None, allowed: Tensor) -> Tensor:
    """The weights to use: `attend` where one is given, else the model's own. (B, T, L) or (B, S, T, L)

    A row that `attend` sends to a position it may not see keeps its own weights.
    """
    if attend is None:
        return own
    seen = allowed.unsqueeze(1) if own.dim() == 4 else allowed
    attend = attend.to(own.dtype)
    legal = (attend.masked_fill(~seen, 0) == attend).all(-1, keepdim=True)
    return torch.where(legal, attend, own)


class Under:
    """A model that attends as told unless told otherwise: how runs trained under uniform attention are probed."""

    def __init__(self, model: Any, attention: Callable[[Tensor], Tensor]) -> None:
        self._model = model
        self._attention = attention

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._model, name)
        if name in ("delta", "translate"):  # ways of a model's own that depend on the attention
            return lambda batch, **rest: found(batch, attend=self._default(batch, None), **rest)
        return found

    def _default(self, batch: Batch, attend: Tensor | None) -> Tensor:
        if attend is not None:
            return attend
        weights = self._attention(allowed(self._model, batch))
        return weights.unsqueeze(1) if getattr(self._model, "sites", ()) else weights

    def trace(self, batch: Batch, *, attend: Tensor | None = None, **rest: Any) -> Trace:
        """The model's trace under `attend`, else under the attention it was trained with."""
        return self._model.trace(batch, attend=self._default(batch, attend), **rest)  # type: ignore[no-any-return]

    def evaluate(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """The model's evaluation under the attention it was trained with."""
        return self._model.evaluate(batch, attend=self._default(batch, None))  # type: ignore[no-any-return]

    def loss(self, batch: Batch) -> Tensor:
        """The model's loss under the attention it is trained with."""
        return self._model.loss(batch, attend=self._default(batch, None))  # type: ignore[no-any-return]

"""Attentions one can choose, and how a model takes one; each broadcasts to (B, T, L)."""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from ktiwprobe.corpus.batch import Batch
from ktiwprobe.plugins.capabilities import HasAllowed, TrainsUnderAttention, sites_of, supports
from ktiwprobe.plugins.protocols import AttentionModel, Trace


def allowed(model: object, batch: Batch) -> Tensor:
    """Which positions each output row may look at: as the model defines it, else every real position. (B, T or 1, L)

    A model whose sites look at different positions (full attention beside a sliding window) returns a mask for each
    site: (B, S, T or 1, L).
    """
    if supports(model, HasAllowed):
        return model.allowed(batch)
    return batch.x_mask.unsqueeze(1)


def by_site(allowed: Tensor) -> Tensor:
    """The mask with a dimension for sites, whether or not they differ. (B, S or 1, T or 1, L)"""
    return allowed if allowed.dim() == 4 else allowed.unsqueeze(1)


def at_any_site(allowed: Tensor) -> Tensor:
    """Positions that a row may look at from at least one site: the cells of alpha and delta. (B, T or 1, L)"""
    return by_site(allowed).any(1)


def at_every_site(allowed: Tensor) -> Tensor:
    """Positions that a row may look at from every site: the cells where all sites can be forced. (B, T or 1, L)"""
    return by_site(allowed).all(1)


def uniform(allowed: Tensor) -> Tensor:
    """Equal weight on every allowed position, as early in training; zero rows stay zero. Has the shape of `allowed`."""
    weights = allowed.float()
    return weights / weights.sum(-1, keepdim=True).clamp_min(1)


def one_hot(batch: Batch) -> Tensor:
    """All the weight on position l, for each l in turn. (L, 1, 1, L)"""
    L = batch.x.shape[1]
    return torch.eye(L, device=batch.x.device).view(L, 1, 1, L)


def choose(own: Tensor, attend: Tensor | None, allowed: Tensor) -> Tensor:
    """The weights to use: `attend` where one is given, else the model's own. (B, T, L) or (B, S, T, L)

    A row that `attend` sends to a position it may not see keeps its own weights. `allowed` may differ between sites.
    """
    if attend is None:
        return own
    seen = by_site(allowed) if own.dim() == 4 else allowed
    attend = attend.to(own.dtype)
    legal = (attend.masked_fill(~seen, 0) == attend).all(-1, keepdim=True)
    return torch.where(legal, attend, own)


class _Attending(AttentionModel, TrainsUnderAttention, Protocol):
    """What is asked of a model under an attention."""


class Under:
    """A model that attends as told unless told otherwise: how runs trained under uniform attention are probed."""

    def __init__(self, model: Any, attention: Callable[[Tensor], Tensor]) -> None:
        self._model: _Attending = model
        self._attention = attention

    def __getattr__(self, name: str) -> Any:
        # copy and pickle ask an object that has no model yet, and for methods that would be the model's, not its own.
        if name == "_model" or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        found = getattr(self._model, name)
        if name in ("delta", "translate"):  # ways of a model's own that depend on the attention
            return lambda batch, **rest: found(batch, attend=self._default(batch, None), **rest)
        return found

    def _default(self, batch: Batch, attend: Tensor | None) -> Tensor:
        if attend is not None:
            return attend
        seen = allowed(self._model, batch)
        return self._attention(by_site(seen) if sites_of(self._model) else seen)

    def trace(self, batch: Batch, *, attend: Tensor | None = None, **rest: Any) -> Trace:
        """The model's trace under `attend`, else under the attention it was trained with."""
        return self._model.trace(batch, attend=self._default(batch, attend), **rest)

    def evaluate(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """The model's evaluation under the attention it was trained with."""
        return self._model.evaluate(batch, attend=self._default(batch, None))

    def loss(self, batch: Batch) -> Tensor:
        """The model's loss under the attention it is trained with."""
        return self._model.loss(batch, attend=self._default(batch, None))


def unwrapped(model: object) -> object:
    """The model itself, without the attention that it may be under."""
    return model._model if isinstance(model, Under) else model

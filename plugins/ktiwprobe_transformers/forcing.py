"""Run any Hugging Face model under an attention one chooses: one attention function and its mask function.

transformers looks both up by name, in its own registries. Without the mask function it would make no mask at all, and
padding and causality would vanish in silence. Which calls are forced is decided by the identity of the module that
calls (layers share one config), and for modules that serve several layers by which of its calls it is. What is forced
lives in a context manager; outside of it the model is as it was.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from ktiwprobe import choose
from ktiwprobe.errors import PluginError

NAME = "ktiwprobe"
SUPPORTED = "models whose attention goes through transformers' attention interface, as BERT, GPT-2, Llama, BART and T5"

Key = tuple[nn.Module, int]
"""A module that attends, and which of its calls in one pass is meant (ALBERT has one module for all layers)."""


@dataclass(frozen=True, slots=True)
class Force:
    """What to do at one call: read the weights of `heads` at `rows` and, where there are `weights`, replace them."""

    heads: tuple[int, ...]
    weights: Tensor | None = None  # broadcastable to (B, heads, T, L)
    rows: Tensor | None = None  # (B, T) places of the outputs among the queries, -1 for none; None: all, in order


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the attention function, to know a model's sites by."""

    module: nn.Module
    turn: int
    heads: int
    queries: int
    keys: int
    output: Tensor  # (B, queries, heads, width)


@dataclass(slots=True)
class Watch:
    """What a model did under our attention function; weights are those used, before dropout."""

    forces: Mapping[Key, Force]
    keep_calls: bool = False
    turns: Counter[nn.Module] = field(default_factory=Counter)
    used: dict[Key, Tensor] = field(default_factory=dict)  # (B, heads, T, L)
    calls: list[Call] = field(default_factory=list)


_watch: ContextVar[Watch | None] = ContextVar("ktiwprobe_watch", default=None)


@contextmanager
def watching(
    model: nn.Module, forces: Mapping[Key, Force] | None = None, *, keep_calls: bool = False
) -> Iterator[Watch]:
    """While it lasts, `model` attends through our function, which obeys `forces` and reports to the Watch."""
    watch = Watch(forces or {}, keep_calls)
    configs = {id(c): c for m in model.modules() if (c := getattr(m, "config", None)) is not None}
    before = [(config, config._attn_implementation) for config in configs.values()]
    token = _watch.set(watch)
    try:
        for config in configs.values():
            config._attn_implementation = NAME
        yield watch
    finally:
        _watch.reset(token)
        for config, name in before:  # a config sets its parts too, so they follow it
            config._attn_implementation = name
    check_called(model, watch)


def check_called(model: nn.Module, watch: Watch) -> None:
    """Refuse a model that took the setting and never called us where it was to: nothing would have been forced."""
    missed = [key for key in watch.forces if key not in watch.used]
    if missed or not watch.turns:
        raise refusal(model)


def refusal(model: nn.Module) -> PluginError:
    """Why a model cannot be probed."""
    return PluginError(
        f"{type(model).__name__} takes an attention function and never calls it, so its attention cannot be chosen: "
        f"supported are {SUPPORTED}"
    )


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    **rest: Any,
) -> tuple[Tensor, Tensor | None]:
    """The module's own eager attention, bit for bit, unless its weights are to be read or replaced."""
    eager, watch = _eager_of(module), _watch.get()
    place = (module, watch.turns[module]) if watch else None
    force = watch.forces.get(place) if watch and place else None
    if watch is None or force is None or place is None:
        output, weights = eager(module, query, key, value, attention_mask, dropout=dropout, **rest)
    else:
        output, own = eager(module, query, key, value, attention_mask, dropout=0.0, **rest)
        weights, watch.used[place] = _obey(own, force, _seen(attention_mask, own))
        if weights is not own or dropout:
            weights = F.dropout(weights, dropout, module.training)
            output = weights.to(value.dtype) @ _for_each_head(value, own.shape[1])
            output = output.transpose(1, 2).contiguous()
    if watch is not None:
        watch.turns[module] += 1
        if watch.keep_calls:
            watch.calls.append(
                Call(module, watch.turns[module] - 1, query.shape[1], query.shape[2], key.shape[2], output)
            )
    return output, weights


def mask(*args: Any, **rest: Any) -> Tensor:
    """The mask of eager attention, always whole: a mask left out where nothing is masked would read tensor values."""
    return eager_mask(*args, **{**rest, "allow_is_bidirectional_skip": False})


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, mask)


def _eager_of(module: nn.Module) -> Callable[..., tuple[Tensor, Tensor]]:
    """The eager attention that the author of the module's class wrote beside it."""
    for cls in type(module).__mro__:
        found = getattr(sys.modules.get(cls.__module__), "eager_attention_forward", None)
        if found is not None:
            return found  # type: ignore[no-any-return]
    raise PluginError(
        f"{type(module).__name__} has no eager attention to start from, so its attention cannot be chosen: "
        f"supported are {SUPPORTED}"
    )


def _seen(attention_mask: Tensor | None, own: Tensor) -> Tensor:
    """Where rows may look. (B, Q, K)"""
    if attention_mask is None:
        return torch.ones_like(own[:, 0], dtype=torch.bool)
    row = attention_mask[:, 0, :, : own.shape[-1]]
    seen = row if row.dtype == torch.bool else row > torch.finfo(row.dtype).min / 2
    return seen.expand(len(own), *own.shape[2:])


def _obey(own: Tensor, force: Force, seen: Tensor) -> tuple[Tensor, Tensor]:
    """All weights as they are to be used (B, H, Q, K), and those of the chosen heads and rows (B, heads, T, K)."""
    every_head = force.heads == tuple(range(own.shape[1]))
    heads = torch.tensor(force.heads, dtype=torch.int64, device=own.device)
    part = own if every_head else own.index_select(1, heads)
    if force.rows is None:
        used = choose(part, force.weights, seen)
    else:
        used = choose(_rows(part, force.rows), force.weights, _rows(seen.unsqueeze(1), force.rows).squeeze(1))
    if force.weights is None:
        return own, used
    part = used if force.rows is None else _with_rows(part, force.rows, used)
    return part if every_head else own.index_copy(1, heads, part), used


def _rows(weights: Tensor, rows: Tensor) -> Tensor:
    """(B, H, Q, K), (B, T) -> (B, H, T, K)"""
    index = rows.clamp_min(0)[:, None, :, None].expand(-1, weights.shape[1], -1, weights.shape[3])
    return weights.gather(2, index)


def _with_rows(weights: Tensor, rows: Tensor, used: Tensor) -> Tensor:
    """`weights` with `used` at `rows`; rows of -1 are written to a spare one that is cut off. (B, H, Q, K)"""
    Q = weights.shape[2]
    index = torch.where(rows < 0, Q, rows)[:, None, :, None].expand_as(used)
    return F.pad(weights, (0, 0, 0, 1)).scatter(2, index, used)[:, :, :Q]


def _for_each_head(value: Tensor, heads: int) -> Tensor:
    """Values once for each head that reads them: in grouped-query attention several heads share one."""
    return value.repeat_interleave(heads // value.shape[1], 1) if value.shape[1] != heads else value

"""Run any Hugging Face model under an attention one chooses, by standing in for its own eager attention function.

A module of transformers computes its attention with the `eager_attention_forward` beside it, once its config asks for
"eager". While a model is watched, it asks for that, and the function is wrapped: masks, windows, sparse indices and
sinks stay the network's own, and only the weights of chosen calls are read or replaced. (An attention registered under
a name of its own would not do: some networks leave their sparse mask out for every name but "eager" and "sdpa".)
Calls are told apart by the identity of the module that makes them and, for modules that serve several layers, by which
of its calls it is. Outside of the context manager the model is as it was.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ktiwprobe import choose
from ktiwprobe.errors import PluginError

EAGER = "eager_attention_forward"  # what transformers calls it; some modules have variants with a longer name
SUPPORTED = "models whose attention goes through transformers' attention interface, as BERT, GPT-2, Llama, BART and T5"

Key = tuple[nn.Module, int]
"""A module that attends, and which of its calls in one pass is meant (ALBERT has one module for all layers)."""


@dataclass(frozen=True, slots=True)
class Force:
    """What to do at one call: read the weights of `heads` at `rows` and, where there are `weights`, replace them."""

    heads: tuple[int, ...]
    weights: Tensor | None = None  # broadcastable to (B, heads, T, L); a row of NaN keeps the network's own weights
    rows: Tensor | None = None  # (B, T) places of the outputs among the queries, -1 for none; None: all, in order


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the attention function, as an observer sees it."""

    module: nn.Module
    turn: int
    query: Tensor  # (B, heads, queries, width)
    key: Tensor
    value: Tensor
    seen: Tensor  # (B, heads or 1, queries, keys): where the mask lets a row look
    weights: Tensor  # (B, heads, queries, keys)
    output: Tensor  # (B, queries, heads, width)
    own: Callable[[Tensor], tuple[Tensor, Tensor]]  # output and weights of the network's own attention, given a query

    @property
    def place(self) -> Key:
        """By which the call is forced."""
        return self.module, self.turn


Attention = Callable[..., tuple[Tensor, Tensor]]
"""An eager attention function: output and weights of (module, query, key, value, mask, ...)."""

Observer = Callable[[Call], Tensor | None]
"""Sees every call; what it returns, if anything, takes the place of the call's output."""


@dataclass(slots=True)
class Watch:
    """What a model did under our attention function; weights are those used, before dropout."""

    forces: Mapping[Key, Force]
    observer: Observer | None = None
    busy: bool = False  # inside an attention function
    turns: Counter[nn.Module] = field(default_factory=Counter)
    used: dict[Key, Tensor] = field(default_factory=dict)  # (B, heads, T, L)
    seen: dict[Key, Tensor] = field(default_factory=dict)  # (B, heads or 1, T, L): where rows may look
    masks: dict[int, Tensor] = field(default_factory=dict)  # those that calls were given, each once, by address


_watch: ContextVar[Watch | None] = ContextVar("ktiwprobe_watch", default=None)


@contextmanager
def watching(
    model: nn.Module, forces: Mapping[Key, Force] | None = None, *, observer: Observer | None = None
) -> Iterator[Watch]:
    """While it lasts, `model` attends through our function, which obeys `forces` and reports to the Watch."""
    watch = Watch(forces or {}, observer)
    configs = {id(c): c for m in model.modules() for c in _with_parts(getattr(m, "config", None))}
    before = [(config, config._attn_implementation) for config in configs.values()]
    token = _watch.set(watch)
    with ExitStack() as stack:
        stack.callback(_watch.reset, token)
        for config, name in reversed(before):  # put back in order: a config sets its parts too, so they follow it
            stack.callback(setattr, config, "_attn_implementation", name)
        for config in configs.values():
            config._attn_implementation = "eager"
        for module, name in _functions(model):
            function = getattr(module, name)
            stack.callback(setattr, module, name, function)
            setattr(module, name, _standing_in(function))
        yield watch
    if any(key not in watch.used for key in watch.forces):
        raise refusal(model)


def _with_parts(config: Any) -> Iterator[Any]:
    """A config, and the configs inside of it."""
    if config is not None and hasattr(config, "_attn_implementation"):
        yield config
        for name in getattr(config, "sub_configs", ()):
            yield from _with_parts(getattr(config, name, None))


def refusal(model: nn.Module) -> PluginError:
    """Why a model cannot be probed."""
    return PluginError(
        f"{type(model).__name__} does not compute its attention with transformers' attention interface, so its "
        f"attention cannot be chosen: supported are {SUPPORTED}"
    )


_known: WeakKeyDictionary[nn.Module, list[tuple[ModuleType, str]]] = WeakKeyDictionary()


def _functions(model: nn.Module) -> list[tuple[ModuleType, str]]:
    """The eager attention functions that the modules of a model can call: the file of each, and its name there."""
    if model not in _known:
        files = {cls.__module__ for part in model.modules() for cls in type(part).__mro__}
        modules = [sys.modules[name] for name in sorted(files) if name in sys.modules]
        _known[model] = [(module, name) for module in modules for name in vars(module) if EAGER in name]
    return _known[model]


def _standing_in(eager: Attention) -> Attention:
    """A function that does what `eager` does, and obeys and reports to the Watch of this thread, if there is one."""

    @wraps(eager)
    def attention(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **rest: Any
    ) -> tuple[Tensor, Tensor]:
        watch = _watch.get()
        if watch is None or watch.busy:  # busy: one eager function calls another
            return eager(module, query, key, value, attention_mask, **rest)
        watch.busy = True
        try:
            return _attend(watch, eager, (module, query, key, value, attention_mask), rest)
        finally:
            watch.busy = False

    return attention


def _attend(watch: Watch, eager: Attention, given: tuple[Any, ...], rest: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """One call of the attention function under a watch."""
    module, query, key, value, attention_mask = given
    place = (module, watch.turns[module])
    watch.turns[module] += 1
    if attention_mask is not None:
        watch.masks.setdefault(attention_mask.data_ptr(), attention_mask)
    force = watch.forces.get(place)
    if force is None:
        output, weights = own_output, own = eager(*given, **rest)
    else:
        dropout = rest.pop("dropout", 0.0)
        output, own = own_output, _ = eager(*given, dropout=0.0, **rest)
        weights, watch.used[place], watch.seen[place] = _obey(own, force, _seen(attention_mask, own))
        if weights is not own or dropout:
            weights = F.dropout(weights, dropout, module.training)
            output = weights_times_values(weights, value)
    if watch.observer is not None:
        quiet = {**rest, "dropout": 0.0}
        call = Call(
            *(module, place[1], query, key, value, _seen(attention_mask, own), own, own_output),
            own=lambda other: eager(module, other, key, value, attention_mask, **quiet),
        )
        replaced = watch.observer(call)
        output = output if replaced is None else replaced
    return output, weights


def four_dimensions(attend: Tensor) -> Tensor:
    """An attention (B, S, T, L), or (B, T, L) for all sites, each of these perhaps 1, with all four dimensions."""
    attend = attend.reshape((1,) * (3 - attend.dim()) + attend.shape)
    return attend if attend.dim() == 4 else attend.unsqueeze(1)


def weights_times_values(weights: Tensor, value: Tensor) -> Tensor:
    """What attention with these weights gives. (B, heads, queries, keys) -> (B, queries, heads, width)"""
    output = weights.to(value.dtype) @ _for_each_head(value, weights.shape[1])
    return output.transpose(1, 2).contiguous()


def _seen(attention_mask: Tensor | None, own: Tensor) -> Tensor:
    """Where the mask lets rows look, one for all heads unless it differs between them. (B, H or 1, Q, K)"""
    B, _, Q, K = own.shape
    if attention_mask is None:
        return own.new_ones(1, dtype=torch.bool).expand(B, 1, Q, K)
    mask = attention_mask[..., :K]
    mask = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
    return mask.expand(B, mask.shape[1], Q, K)


def _obey(own: Tensor, force: Force, seen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All weights as they are to be used (B, H, Q, K); those of the chosen heads and rows, and where these may look."""
    every_head = force.heads == tuple(range(own.shape[1]))
    heads = torch.tensor(force.heads, dtype=torch.int64, device=own.device)
    part = own if every_head else own.index_select(1, heads)
    seen = seen if every_head or seen.shape[1] == 1 else seen.index_select(1, heads)
    if force.rows is None:
        used = choose(part, force.weights, seen)
    else:
        seen = _rows(seen, force.rows)
        used = choose(_rows(part, force.rows), force.weights, seen)
    if force.weights is None:
        return own, used, seen
    part = used if force.rows is None else _with_rows(part, force.rows, used)
    return part if every_head else own.index_copy(1, heads, part), used, seen


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

"""A second device without a GPU: tensors that report another device, hold values, and refuse to meet those here.

Such a tensor reports the meta device and wraps one on the CPU, where everything is computed. So values may be read
(`.item()`, `if mask.any()`), as on any device, and a tensor that was created on the CPU and left there is an error.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

ELSEWHERE = torch.device("meta")
HERE = torch.device("cpu")
TAKES_BOTH = ("copy_", "_to_copy", "index", "index_put", "index_put_", "_index_put_impl_", "_pack_padded_sequence")


class Mixed(RuntimeError):
    """An operation on tensors of two devices."""


class Away(Tensor):
    """A tensor on the other device."""

    kept: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Away:
        """Wrap a tensor on the CPU."""
        away: Away = Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), dtype=inner.dtype, device=ELSEWHERE
        )
        away.kept = inner
        return away

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _run(func, args, kwargs or {})


class OtherDevice(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it lasts, what is created on the other device is there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class _FromValues(TorchFunctionMode):
    """torch.tensor(values, device=...) makes a tensor of its own before any dispatch: here it is made, then moved."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor) and _is_elsewhere(given.get("device")):
            return Away(func(*args, **{**given, "device": HERE}))
        if func is Tensor.tolist and isinstance(args[0], Away):
            return args[0].kept.tolist()
        return func(*args, **given)


def run_elsewhere(model: nn.Module, batch: Any, attend: Tensor, gate: Tensor) -> Any:
    """The trace of a copy of `model` that was moved to the other device, on a batch that is there."""
    moved = copy.deepcopy(model)
    for module in moved.modules():
        for table in (module._parameters, module._buffers):
            for name, tensor in table.items():
                if tensor is not None:
                    table[name] = _moved(tensor)  # type: ignore[assignment]
    there = {name: Away(getattr(batch, name)) for name in _movable(batch)}
    with torch.no_grad(), OtherDevice(), _FromValues():  # type: ignore[no-untyped-call]
        return moved.trace(dataclasses.replace(batch, **there), attend=Away(attend), gate=Away(gate))  # type: ignore[operator]


def _movable(batch: Any) -> list[str]:
    """What `Batch.to` moves."""
    meta = batch.to(ELSEWHERE)
    return [part.name for part in dataclasses.fields(batch) if getattr(getattr(meta, part.name), "is_meta", False)]


def _moved(tensor: Tensor) -> Tensor:
    away = Away(tensor.detach())
    return nn.Parameter(away, requires_grad=False) if isinstance(tensor, nn.Parameter) else away


def _is_elsewhere(device: Any) -> bool:
    return device is not None and torch.device(device).type == ELSEWHERE.type


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    away, name = any(isinstance(t, Away) for t in tensors), func.overloadpacket.__name__
    here = [t for t in tensors if not isinstance(t, Away) and t.dim()]
    if away and here and name not in TAKES_BOTH:
        raise Mixed(f"{name} of a tensor on the device of the batch and of one on {here[0].device}")
    if name == "_fused_sdp_choice":
        return 0  # the plain formula: fused kernels are chosen by device
    device = kwargs.get("device")
    there = _is_elsewhere(device) or (device is None and away)
    if name == "copy_":
        there = isinstance(args[0], Away)
    given = {**kwargs, "device": HERE} if device is not None else kwargs
    out = func(*tree_map(_inner, args), **tree_map(_inner, given))
    if func._schema.is_mutable and tensors and name.endswith("_"):
        if torch.Tag.inplace_view in func.tags and isinstance(args[0], Away):
            with no_dispatch():
                func(*args, **kwargs)  # the shape that it shows must change too
        return args[0]
    return tree_map(lambda value: Away(value) if isinstance(value, Tensor) else value, out) if there else out


def _inner(value: Any) -> Any:
    return value.kept if isinstance(value, Away) else value

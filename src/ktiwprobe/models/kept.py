"""Which tensors a model keeps beside its weights: what is left of a run on other weights would make new ones wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn

Kept = dict[str, tuple[Tensor, int]]
DEPTH = 3  # of lists in lists that are looked into


def kept_tensors(network: object) -> Kept:
    """Tensors in attributes of a module or its parts that are not in its state, and how often each was changed."""
    if not isinstance(network, nn.Module):
        return {}
    weights = {id(tensor) for tensor in (*network.parameters(), *_persistent(network))}
    found = {
        f"{path}.{name}": tensor
        for path, module in network.named_modules()
        for name, tensor in (*_inside("", vars(module)), *_inside("", module._buffers))
    }
    return {name: (tensor, tensor._version) for name, tensor in found.items() if id(tensor) not in weights}


def keeps_more(network: object, before: Kept) -> bool:
    """Whether a network keeps other tensors than `before`, or has changed those."""
    now = kept_tensors(network)
    return any(
        name not in before or tensor is not before[name][0] or version != before[name][1]
        for name, (tensor, version) in now.items()
    )


def _persistent(network: nn.Module) -> Iterator[Tensor]:
    for module in network.modules():
        skipped = module._non_persistent_buffers_set
        yield from (tensor for name, tensor in module._buffers.items() if tensor is not None and name not in skipped)


def _inside(path: str, value: Any, depth: int = DEPTH) -> Iterator[tuple[str, Tensor]]:
    """Tensors in a value, and in the lists, tuples and mappings of a value."""
    if isinstance(value, Tensor):
        yield path, value
    elif depth and isinstance(value, (list, tuple, Mapping)):
        for name, part in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _inside(f"{path}.{name}", part, depth - 1)

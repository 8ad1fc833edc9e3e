"""Batch: padded sentences as tensors, what every model reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

ON_CPU = "x_lengths"  # packing a sequence wants its lengths there


@dataclass(frozen=True, slots=True)
class Batch:
    """Sentences padded to one length; the masks are True on real positions.

    `y` is the output without a start symbol (a model shifts it itself), or a classifier's label, T = 1. An output
    counts only where `y_mask` is True, which need not be a prefix: see `Split.y_at`. A subclass may carry more tensors.
    """

    x: Tensor  # (B, L) input ids
    x_mask: Tensor  # (B, L)
    x_lengths: Tensor  # (B,) always on the CPU
    y: Tensor  # (B, T) output ids
    y_mask: Tensor  # (B, T)

    def to(self, device: torch.device | str) -> Batch:
        """The same batch with its tensors, those of a subclass too, on `device`; the lengths stay on the CPU."""
        moved = {part.name: _moved(getattr(self, part.name), device) for part in fields(self) if part.name != ON_CPU}
        return replace(self, **moved)


def _moved(value: Any, device: torch.device | str) -> Any:
    """A tensor, or tensors in a tuple, list or mapping, on `device`; anything else as it is."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, tuple | list):
        parts = [_moved(part, device) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, Mapping):
        return {key: _moved(part, device) for key, part in value.items()}
    return value

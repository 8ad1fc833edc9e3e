"""Texts of one length at a time, for networks in which padding shows.

A sparse attention chooses what it looks at by the text itself. Among equal scores its choice depends on how many
positions there are, padding included, so such a network reads a text otherwise in a batch than alone. It is known by
its masks: those of a short text are not those of a longer one cut short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from ktiwprobe import Batch, Trace
from ktiwprobe.errors import CorpusError
from ktiwprobe.models.attend import by_site
from ktiwprobe_transformers.forcing import four_dimensions

if TYPE_CHECKING:
    from ktiwprobe_transformers.model import HfModel


def is_padded(batch: Batch) -> bool:
    """Whether the sentences differ in length."""
    return bool((batch.x_lengths != batch.x_lengths[0]).any())


def check_right_padding(batch: Batch) -> None:
    """Refuse a batch in which padding stands anywhere but at the end: positions and cuts would be off."""
    place = torch.arange(batch.x.shape[1], device=batch.x.device)
    if not torch.equal(batch.x_mask, place < batch.x_lengths.to(place.device).unsqueeze(1)):
        raise CorpusError(
            "padding must stand at the end of each text: x_mask must be true on the first x_lengths inputs"
        )


def depend_on_text(masks: Iterable[Tensor], batch: Batch) -> bool:
    """Whether any of the masks of a pass (B or 1, heads or 1, Q, K) treats positions otherwise in another sentence."""
    longest = int(batch.x_lengths.argmax())
    L, real = batch.x.shape[1], batch.x_mask
    for mask in masks:
        if len(mask) != len(real) or mask.shape[-1] != L:
            continue
        cells = real[:, None, None]  # (B, 1, 1, K)
        if mask.shape[-2] == L:
            cells = cells & real[:, None, :, None]
        if ((mask != mask[longest : longest + 1]) & cells).any():
            return True
    return False


def groups(batch: Batch) -> list[Tensor]:
    """The sentences of each length."""
    lengths = batch.x_lengths
    return [(lengths == n).nonzero().flatten().to(batch.x.device) for n in sorted(set(lengths.tolist()))]


def cut(model: HfModel, batch: Batch, rows: Tensor) -> Batch:
    """Some sentences of one length, without their padding."""
    n = int(batch.x_lengths[rows[0]])
    x, mask = batch.x[rows, :n], batch.x_mask[rows, :n]
    outputs = model.outputs_within(x, mask, batch.y[rows], batch.y_mask[rows])
    return Batch(x, mask, batch.x_lengths[rows.cpu()], *outputs)


def trace_by_length(model: HfModel, batch: Batch, attend: Tensor | None, gate: Tensor | None) -> Trace:
    """The trace of sentences of different lengths, each length in a pass of its own; zeros stand on padding."""

    def run(part: Batch, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        L, T = part.x.shape[1], part.y.shape[1]
        weights = None if attend is None else _rows(attend, rows)[..., :T, :L]
        trace = model.trace(part, attend=weights, gate=None if gate is None else gate[rows, :L])
        return trace.logits, trace.alpha, model.allowed(part)  # type: ignore[return-value]

    logits, alpha, seen = in_order(model, batch, run)
    model.note(batch, seen)
    return Trace(logits, alpha)


def in_order(
    model: HfModel, batch: Batch, run: Callable[[Batch, Tensor], tuple[Tensor, Tensor, Tensor]]
) -> tuple[Tensor, Tensor, Tensor]:
    """What `run` gives for the sentences of each length, padded and back in the order of the batch.

    It gives logits (B, T, V), weights or beta (B, S, T, L) or (B, T, L), and where rows may look, of its sentences.
    """
    order = groups(batch)
    results = [run(cut(model, batch, rows), rows) for rows in order]
    back = torch.cat(order).argsort()
    T, L = batch.y.shape[1], batch.x.shape[1]
    several = any(seen.dim() == 4 for _, _, seen in results)
    sites = (-1, len(model.sites), -1, -1)
    logits = [F.pad(one, (0, 0, 0, T - one.shape[1])) for one, _, _ in results]
    cells = [_padded(one, T, L) for _, one, _ in results]
    masks = [_padded(by_site(one).expand(sites) if several else one, T, L) for _, _, one in results]
    return tuple(torch.cat(parts)[back] for parts in (logits, cells, masks))  # type: ignore[return-value]


def _rows(attend: Tensor, rows: Tensor) -> Tensor:
    """The sentences of an attention, which may be one for all. (B or 1, S or 1, T or 1, L)"""
    attend = four_dimensions(attend)
    return attend if len(attend) == 1 else attend[rows]


def _padded(cells: Tensor, T: int, L: int) -> Tensor:
    return F.pad(cells, (0, L - cells.shape[-1], 0, T - cells.shape[-2]))

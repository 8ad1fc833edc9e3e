"""beta of a Hugging Face model: every position in turn, many positions in one pass, under a limit of memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ktiwprobe import Batch, Trace
from ktiwprobe.models.attend import by_site
from ktiwprobe.models.scoring import log_odds
from ktiwprobe_transformers.folding import Memory, copied, copies, copies_at_once, one_hot_rows, recalled, remember
from ktiwprobe_transformers.forcing import Force, four_dimensions, watching
from ktiwprobe_transformers.lengths import in_order

if TYPE_CHECKING:
    from ktiwprobe_transformers.model import HfModel

LOGITS = 4  # values that one logit takes at most: itself, copies and temporaries
STATES = 16  # values that one unit of a state takes at most, the inner layer of a block included


def beta_of(model: HfModel, batch: Batch, *, fold: bool = True) -> Tensor:
    """Log-odds of y_t if only l is attended at the model's sites. (B, T, L)

    With `fold` only what follows the sites runs again.
    """
    if not model.reads_alone(batch):
        scores, seen = _in_pieces(model, batch, fold)
    if model.reads_alone(batch):  # perhaps it was seen only now

        def run(part: Batch, _rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            scores, seen = _in_pieces(model, part, fold)
            return part.y.unsqueeze(-1), scores, seen

        _, scores, seen = in_order(model, batch, run)
    model.note(batch, seen)
    return scores


def _in_pieces(model: HfModel, batch: Batch, fold: bool) -> tuple[Tensor, Tensor]:
    """beta, and where rows may look, a few sentences at a time."""
    most = copies_at_once(part(batch, 0, 1), values=values_of(model, batch), megabytes=model.options.memory)
    pieces = [part(batch, *ends) for ends in _pieces(batch, most)]
    columns, masks = zip(*(_beta(model, piece, max(1, most // len(piece.x)), fold) for piece in pieces), strict=True)
    several = any(mask.dim() == 4 for mask in masks)
    sites = (-1, len(model.sites), -1, -1)
    return torch.cat(columns), torch.cat([by_site(mask).expand(sites) if several else mask for mask in masks])


def _pieces(batch: Batch, most: int) -> Iterator[tuple[int, int]]:
    """Where pieces of at most `most` sentences begin and end.

    None has as many sentences as a sentence has inputs or outputs: what has a row for each sentence is known by its
    size (folding.py).
    """
    lengths, start = {batch.x.shape[1], batch.y.shape[1]}, 0
    while start < len(batch.x):
        size = min(most, len(batch.x) - start)
        while size > 1 and size in lengths:
            size -= 1
        yield start, start + size
        start += size


def values_of(model: HfModel, batch: Batch) -> int:
    """How many values one sentence takes after the site."""
    config = model.text_config
    queries = batch.y.shape[1] if model.outputs else batch.x.shape[1]
    V = model.V if model.pools else int(config.vocab_size)
    return queries * (LOGITS * V + STATES * int(config.hidden_size))


def part(batch: Batch, start: int, end: int) -> Batch:
    """Some of the sentences of a batch."""
    return Batch(*(getattr(batch, field.name)[start:end] for field in fields(Batch)))


def _beta(model: HfModel, batch: Batch, at_once: int, fold: bool) -> tuple[Tensor, Tensor]:
    """beta of a few sentences, and where their rows may look."""
    (B, T), L = batch.y.shape, batch.x.shape[1]
    single = model.forces_one_row(batch)
    state = model.read(batch)
    memory, watch = remember(model.network, model.forces(batch, None), lambda: model.logits(batch, state=state), size=B)
    memory = memory if fold else {}
    model.reads_alone(batch, watch)
    seen = model.seen(batch, watch)
    model.note(batch, seen)
    jobs = torch.arange(T * L if single else L, device=batch.x.device)
    columns = []
    for some in torch.split(jobs, at_once):
        scores = _scores(model, batch, state, memory, some % L, some // L if single else None)  # (jobs, B, T)
        columns.append(scores[torch.arange(len(some)), :, some // L] if single else scores)
    found = torch.cat(columns)
    return found.view(T, L, B).permute(2, 0, 1) if single else found.permute(1, 2, 0), seen


def _scores(model: HfModel, batch: Batch, state: Any, memory: Memory, places: Tensor, outputs: Tensor | None) -> Tensor:
    """Log-odds of all outputs, all weight on each of `places`, at all rows or at that of one output. (jobs, B, T)"""
    (B, T), L, count = batch.y.shape, batch.x.shape[1], len(places)
    many = copies(batch, count)
    forces = model.forces(many, one_hot_rows(places, B, L))
    if outputs is not None:
        forces = {key: at_one_row(force, outputs.repeat_interleave(B)) for key, force in forces.items()}
    with recalled(memory, B, count), watching(model.network, forces) as watch:
        logits = model.logits(many, state=copied(state, B, count))
    if len(model.places) > 1:
        own = at_each_site(model, batch).repeat(count, 1, 1, 1)
        if outputs is not None:
            own = own.gather(2, outputs.repeat_interleave(B)[:, None, None, None].expand(-1, own.shape[1], 1, L))
        model.check_unmoved(model.seen(many, watch), own)
    return log_odds(Trace(logits, logits), many).view(count, B, T)


def at_each_site(model: HfModel, batch: Batch) -> Tensor:
    """Where rows may look, spelled out. (B, S, T, L)"""
    return by_site(model.allowed(batch)).expand(-1, len(model.sites), batch.y.shape[1], -1)


def at_one_row(force: Force, outputs: Tensor) -> Force:
    """The same force at the row of one output of each sentence. (B,)"""
    index = outputs.unsqueeze(1)
    return replace(force, rows=index if force.rows is None else force.rows.gather(1, index))


def one_row_at_a_time(model: HfModel, batch: Batch, attend: Tensor, gate: Tensor | None) -> Trace:
    """Each output from a pass in which only its own row attends as told."""
    (B, T), S = batch.y.shape, len(model.sites)
    attend = four_dimensions(attend).expand(B, S, T, batch.x.shape[1])
    traces = [_one_row(model, batch, attend[:, :, t : t + 1], gate, t) for t in range(T)]
    return Trace(torch.stack([logits for logits, _ in traces], 1), torch.cat([alpha for _, alpha in traces], 2))


def _one_row(model: HfModel, batch: Batch, attend: Tensor, gate: Tensor | None, t: int) -> tuple[Tensor, Tensor]:
    """Logits (B, V) of output t, and the weights used at its row (B, S, 1, L)."""
    outputs = torch.full((len(batch.y),), t, device=batch.y.device)
    forces = {key: at_one_row(force, outputs) for key, force in model.forces(batch, attend).items()}
    with watching(model.network, forces) as watch:
        logits = model.logits(batch, gate=gate)
    if len(model.places) > 1:
        model.check_unmoved(model.seen(batch, watch), at_each_site(model, batch)[:, :, t : t + 1])
    return logits[:, t], model.used(watch)

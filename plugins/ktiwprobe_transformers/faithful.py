"""Whether a network's numbers are its own: what is measured before the first of them is reported.

- Outputs under our attention, unforced, equal those of the network as it is, and padding does not change them.
- Where a row may look is the mask that the site was given: the function behind it masks nothing else, and its output is
  its weights times its values.

Two more things are measured, not refused: whether the fast way to beta gives what passes of the whole network give, and
whether rows meet again after the site, by moving one row's output there. That each site obeys and that the gate scales
the input embedding alone is measured by the core, for every model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ktiwprobe import Batch
from ktiwprobe.errors import ContractError
from ktiwprobe.models.attend import at_every_site
from ktiwprobe.models.scoring import log_odds
from ktiwprobe.probes.probing import evaluating
from ktiwprobe_transformers.betas import beta_of, part
from ktiwprobe_transformers.forcing import Call, Key, watching, weights_times_values

if TYPE_CHECKING:
    from ktiwprobe_transformers.model import HfModel

CLOSE = 1e-4
HALF = {torch.bfloat16: 5e-2, torch.float16: 2e-2}  # of the largest logit: two ways to compute an attention part there
NOTHING = 1e-6  # a difference that no rounding explains is above it
SHORT = 48  # tokens of the texts that are tried: longer ones let far positions underflow behind steep position biases


@torch.no_grad()
def check_faithful(model: HfModel, batch: Batch) -> None:
    """Refuse a network whose numbers would not be its own."""
    with evaluating(model.network):
        check_outputs(model, few(model, batch))
        check_masks(model, few(model, batch, most=SHORT))


def few(model: HfModel, batch: Batch, most: int | None = None) -> Batch:
    """The first and the last sentence of a batch, at most `most` tokens long, and one cut short, so that one is padded.

    Outputs that are cut off do not count.
    """
    x, mask = batch.x[[0, -1, -1], :most], batch.x_mask[[0, -1, -1], :most].clone()
    half = max(1, 2 * int(mask[-1].sum()) // 3)
    mask[-1, half:] = False
    lengths = mask.sum(1).cpu()
    width = int(lengths.max())
    x, mask = x[:, :width], mask[:, :width]
    cut = Batch(x, mask, lengths, *model.outputs_within(x, mask, batch.y[[0, -1, -1]], batch.y_mask[[0, -1, -1]]))
    return part(cut, 0, 3)


def check_outputs(model: HfModel, batch: Batch) -> None:
    """Padded and alone, as it is and under our attention: the same outputs."""
    with watching(model.network) as watch:
        ours = model.logits(batch)
    if model.reads_alone(batch, watch):  # then nothing is ever read with padding
        batch = alone_of(model, batch)
        with watching(model.network):
            ours = model.logits(batch)
    own = model.logits(batch)
    gap = difference(ours[batch.y_mask], own[batch.y_mask], largest=half(model))
    if not gap <= tolerance(model):
        raise ContractError(
            f"{_name(model)} gives other outputs when its attention is computed by its own eager function (largest "
            f"difference {gap:.2g}), so what is read there would not be what it does: it cannot be probed"
        )
    alone = model.logits(alone_of(model, batch))[0]
    real = batch.y_mask[-1, : len(alone)]
    gap = difference(own[-1, : len(alone)][real], alone[real], largest=half(model))
    if not gap <= tolerance(model):
        raise ContractError(
            f"padding changes the outputs of {_name(model)} (by {gap:.2g}), so its numbers would depend on which texts "
            "are read together: it cannot be probed"
        )


def alone_of(model: HfModel, batch: Batch) -> Batch:
    """The last sentence of a batch without its padding."""
    one = part(batch, len(batch.x) - 1, len(batch.x))
    x, mask = (side[:, : int(one.x_lengths)] for side in (one.x, one.x_mask))
    return Batch(x, mask, one.x_lengths, *model.outputs_within(x, mask, one.y, one.y_mask))


def check_masks(model: HfModel, batch: Batch) -> None:
    """The mask at each chosen site is all that decides where it looks, and its weights all that decide its output."""
    keys = {key: place.names[0] for place in model.places for key in place.layer.keys}

    def look(call: Call) -> None:
        if call.place not in keys:
            return
        gap = difference(weights_times_values(call.weights, call.value), call.output)
        if not gap <= tolerance(model):
            raise ContractError(
                f"the output of {_name(model)} at {keys[call.place]} is not its weights times its values (largest "
                f"difference {gap:.2g}), so its attention cannot be replaced"
            )
        _, flat = call.own(torch.zeros_like(call.query))  # no score differs, so only what is masked has no weight
        rows = call.seen.any(-1, keepdim=True) & _real_rows(model, batch, call)
        hidden = int(((flat == 0) & call.seen & rows).sum())
        leaking = int(((flat > 0) & ~call.seen & rows).sum())
        if hidden or leaking:
            raise ContractError(
                f"{_name(model)} does not look where its mask at {keys[call.place]} says: {hidden} cells are masked in "
                f"another way, and {leaking} are not masked after all"
            )

    with watching(model.network, observer=look):
        model.logits(batch)


def _real_rows(model: HfModel, batch: Batch, call: Call) -> Tensor:
    """Queries that are outputs which count. (B, 1, Q, 1)"""
    rows, Q = model.rows(batch), call.seen.shape[2]
    if rows is None:
        return batch.y_mask[:, None, :, None]
    places = torch.where(batch.y_mask, rows, Q)  # what does not count goes to a spare one that is cut off
    real = torch.zeros(len(rows), Q + 1, dtype=torch.bool, device=rows.device).scatter(1, places, True)
    return real[:, None, :Q, None]


@torch.no_grad()
def folds_exactly(model: HfModel, batch: Batch) -> bool:
    """Whether running only what follows the site (folding.py) gives what passes of the whole network give.

    It does not where states are not laid out with the sentences first, as in Gemma 3n.
    """
    with evaluating(model.network):
        short = few(model, batch, most=SHORT)
        fast, legal = beta_of(model, short), at_every_site(model.allowed(short)) & short.y_mask.unsqueeze(-1)
        gap = 0.0
        for l in {0, int(short.x_lengths.min()) - 1}:  # noqa: E741
            only = torch.zeros_like(short.x[:1], dtype=torch.float32)
            only[:, l] = 1
            slow = log_odds(model.trace(short, attend=only[:, None, None]), short)
            gap = max(gap, difference(fast[..., l][legal[..., l]], slow[legal[..., l]]))
    return gap <= tolerance(model) / 10


@torch.no_grad()
def rows_mix(model: HfModel, batch: Batch) -> bool:
    """Whether the output of one row at the first chosen site reaches the outputs of others: then it matters
    whether rows are forced together or one at a time.
    """
    few_rows = part(batch, 0, 4)
    rows, T = model.rows(few_rows), batch.y.shape[1]
    first: Key = model.places[0].layer.keys[0]
    moved = {}
    for t in (0, T - 1):
        place = torch.full_like(few_rows.y[:, 0], t) if rows is None else rows[:, t].clamp_min(0)

        def nudge(call: Call, place: Tensor = place) -> Tensor | None:
            if call.place != first:
                return None
            here = torch.arange(call.output.shape[1], device=place.device) == place.unsqueeze(1)
            return call.output + call.output.std().clamp_min(1e-2) * here[:, :, None, None]

        with evaluating(model.network), watching(model.network, observer=nudge):
            moved[t] = model.logits(few_rows)
    with evaluating(model.network), watching(model.network):
        still = model.logits(few_rows)
    real = torch.ones_like(few_rows.y, dtype=torch.bool) if rows is None else rows >= 0  # (B, T)
    return any(
        difference(after[:, others][real[:, others]], still[:, others][real[:, others]]) > NOTHING
        for after, others in ((moved[0], slice(1, T)), (moved[T - 1], slice(0, T - 1)))
    )


def difference(a: Tensor, b: Tensor, *, largest: bool = False) -> float:
    """The largest difference, relative to each value above 1 or to the largest; equal infinities do not differ."""
    a, b = a.float(), b.float()
    scale = (b.abs().max() if largest and b.numel() else b.abs()).clamp_min(1)
    apart = torch.where(a == b, 0.0, (a - b).abs() / scale)
    return apart.max().item() if apart.numel() else 0.0


def half(model: HfModel) -> bool:
    """Whether the network has weights of half precision."""
    return any(p.dtype in HALF for p in model.network.parameters())


def tolerance(model: HfModel) -> float:
    """How far numbers of the network's precision may be apart."""
    return max(HALF.get(p.dtype, CLOSE) for p in model.network.parameters())


def _name(model: HfModel) -> str:
    return type(model.network).__name__

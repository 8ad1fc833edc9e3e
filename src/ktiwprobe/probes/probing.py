"""From a model to a Signal: batches in, ragged rows out, every plugin return checked once, on its way."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ktiwprobe.corpus.batch import Batch
from ktiwprobe.errors import UsageError, plugin_errors
from ktiwprobe.models.attend import allowed, at_any_site, at_every_site
from ktiwprobe.plugins.capabilities import HasEvalMode, HasModules, HasTrainMode, in_training, sites_of, supports
from ktiwprobe.plugins.protocols import AttentionModel, Model, Probe
from ktiwprobe.plugins.quantities import Quantity, quantity_of
from ktiwprobe.plugins.registry import Registry, build_registry
from ktiwprobe.probes.checks import check_before, check_longer
from ktiwprobe.probes.definitions import check_allowed, check_values, model_name
from ktiwprobe.probes.guards import needs
from ktiwprobe.signals.signal import Signal, make_signal


def probe(
    model: Model | AttentionModel,
    batches: Iterable[Batch],
    probe: str | None = None,
    *,
    registry: Registry | None = None,
    name: str | None = None,
) -> Signal:
    """The signal of a model in memory over `batches`, which must be on the model's device; by default its knowledge."""
    registry = registry or build_registry()
    probe = probe or registry.probes_of("knowledge")[0]
    function, guarded, longest = registry.load("probes", probe), False, 0
    declared = quantity_of(function, probe)
    pieces = []
    with evaluating(model):
        for batch in batches:
            if guarded and batch.x.shape[1] > longest:
                check_longer(model, batch, needs(function, model))
            guarded, longest = guarded or check_before(model, batch, function), max(longest, batch.x.shape[1])
            pieces.append(probe_batch(function, model, batch, probe))
    return join(pieces, None, {"name": name or probe, "probe": probe}, declared)


@contextlib.contextmanager
def evaluating(model: object) -> Iterator[None]:
    """Evaluation mode for a while; every module then returns to the mode it was in."""
    modules = list(model.modules()) if supports(model, HasModules) else []
    modes = [module.training for module in modules]
    was_training = in_training(model)
    if supports(model, HasEvalMode):
        model.eval()
    try:
        yield
    finally:
        if was_training and supports(model, HasTrainMode):
            model.train()
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode


class Piece(NamedTuple):
    """What a probe said of one batch, cut to the allowed cells and off the device."""

    values: NDArray[np.float32]  # (S, cells)
    columns: NDArray[np.int32]  # (cells,)
    lengths: NDArray[np.int64]  # (rows,)
    rows: NDArray[np.int64]  # (sentences,)
    sites: tuple[str, ...]


def probe_batch(function: Probe, model: Model | AttentionModel, batch: Batch, probe: str) -> Piece:
    """Probe one batch and check what comes back."""
    with plugin_errors(f"probe {probe!r} of {model_name(model)}"):
        sites, returned, mask = sites_of(model), function(model, batch), allowed(model, batch)
    mask = check_allowed(mask, batch, len(sites))
    declared = quantity_of(function, probe)
    # One number for all sites at once exists only where every one of them can be forced.
    jointly_forced = declared.forces and getattr(returned, "ndim", 0) == 3
    seen = at_every_site(mask) if jointly_forced else at_any_site(mask)
    seen = seen.expand(*batch.y.shape, -1) & batch.y_mask.unsqueeze(-1)  # (B, T, L)
    of_sites = mask.expand(-1, -1, *seen.shape[1:]) & batch.y_mask[:, None, :, None] if mask.dim() == 4 else None
    values = check_values(returned, seen, probe, model, of_sites, declared=declared)  # (B, S, T, L)
    seen, real = seen.cpu(), batch.y_mask.cpu()
    return Piece(
        values=values.transpose(0, 1)[:, seen].numpy(),
        columns=seen.nonzero()[:, 2].int().numpy(),
        lengths=seen.sum(-1)[real].numpy(),
        rows=real.sum(1).numpy(),
        sites=sites if len(sites) == values.shape[1] else ("",),
    )


def join(pieces: list[Piece], order: NDArray[np.int64] | None, meta: dict[str, Any], declared: Quantity) -> Signal:
    """One signal of the quantity `declared` from its pieces, the sentences back in the order of the corpus."""
    if not pieces:
        raise UsageError("there are no batches to probe")
    values = np.concatenate([piece.values for piece in pieces], 1)
    columns, lengths, rows = (
        np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("columns", "lengths", "rows")
    )
    if order is not None:
        places = np.argsort(order)
        row_places = _spread(places, rows)
        cells = _spread(row_places, lengths)
        values, columns, lengths, rows = values[:, cells], columns[cells], lengths[row_places], rows[places]
    is_prefix = np.array_equal(columns, np.arange(len(columns)) - np.repeat(_starts(lengths), lengths))
    meta = {**meta, "pooling": list(declared.pooling)}
    signal = make_signal(values, lengths, rows, None if is_prefix else columns, pieces[0].sites, meta)
    return replace(signal, quantity=declared)


def _spread(places: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the items of the groups at `places` are, if group g has counts[g] items and all lie end to end."""
    chosen = counts[places]
    return np.arange(chosen.sum()) + np.repeat(_starts(counts)[places] - _starts(chosen), chosen)


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.cumsum(counts) - counts

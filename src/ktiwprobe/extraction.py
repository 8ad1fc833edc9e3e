"""From a model to a Signal: batches in, ragged rows out, every plugin return checked once, here.

(The module is not called extract.py because a submodule of that name would hide the function `ktiwprobe.extract`.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ktiwprobe import storage
from ktiwprobe.attend import allowed
from ktiwprobe.data import Batch, Corpus, Split
from ktiwprobe.errors import ContractError, RunError, SpecError, UsageError
from ktiwprobe.probes import log_odds
from ktiwprobe.progress import SILENT, Progress
from ktiwprobe.recipe import Recipe, choose_device, recipe_of
from ktiwprobe.registry import Registry, build_registry
from ktiwprobe.run import Run
from ktiwprobe.signals import Signal, load_signal, make_signal

TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 1e-2}  # else 1e-4
ATTENDING = ("beta", "gamma", "alpha-opt")  # probes that choose the attention


def extract(
    run: Run,
    probe: str,
    *,
    at: int | str = "best",
    split: str = "validation",
    device: str = "auto",
    registry: Registry | None = None,
    progress: Progress = SILENT,
) -> Signal:
    """The signal of a run at a step (a number, `best` or `last`); stored with the run, read from there next time."""
    return Extractor(run, registry or build_registry(), split=split, device=device).signal(probe, at, progress=progress)


def probe(
    model: Any,
    batches: Iterable[Batch],
    probe: str = "beta",
    *,
    registry: Registry | None = None,
    name: str | None = None,
) -> Signal:
    """The signal of a model in memory over `batches`, which must be on the model's device."""
    was_training = getattr(model, "training", False)
    if hasattr(model, "eval"):
        model.eval()
    try:
        function = (registry or build_registry()).load("probes", probe)
        pieces = [_Piece(function, model, batch, probe=probe, first=i == 0) for i, batch in enumerate(batches)]
    finally:
        if was_training:
            model.train()
    return _join(pieces, None, {"name": name or probe, "probe": probe})


class Extractor:
    """The signals of one run over one split; corpus and model are made only when something is missing."""

    def __init__(self, run: Run, registry: Registry, *, split: str = "validation", device: str = "auto") -> None:
        self.run, self.registry, self.split, self.device = run, registry, split, device
        self._recipe: Recipe | None = None
        self._corpus: Corpus | None = None
        self._model: Any = None

    def signal(self, probe: str, at: int | str = "best", *, progress: Progress = SILENT) -> Signal:
        """The signal at one step."""
        step = self.step(at)
        function = self.registry.load("probes", probe)
        path = self.run.signal_path(self.split, step, probe)
        identity = self._identity(probe, step)
        stored = _stored(path, identity)
        if stored is None:
            stored = self._compute(function, probe, step, identity, progress)
            stored.save(path)
        return stored

    def step(self, at: int | str) -> int:
        """The step that `at` means."""
        if at == "best":
            return self.run.best_step()
        steps = self.run.steps()
        if not steps:
            raise RunError(f"run {self.run.name} has no checkpoints: train it on with --resume")
        if at == "last":
            return steps[-1]
        if not str(at).isdigit() or int(at) not in steps:
            raise SpecError(f"run {self.run.name} has no step {at!r}: it has best, last, {', '.join(map(str, steps))}")
        return int(at)

    @property
    def recipe(self) -> Recipe:
        """What the run is made of."""
        self._recipe = self._recipe or recipe_of(self.run, self.registry)
        return self._recipe

    @property
    def corpus(self) -> Corpus:
        """The run's corpus, which must still be what it was."""
        if self._corpus is None:
            self._corpus = self.recipe.corpus()
            if self._corpus.fingerprints != self.run.record["corpus"]:
                raise RunError(f"run {self.run.name} was trained on another corpus than {self.recipe.task!r} gives now")
        return self._corpus

    def rows(self) -> NDArray[np.int64] | None:
        """Which examples are probed: all; of the training split a seeded sample as large as the validation split."""
        if self.split != "train":
            return None
        size, most = len(self.corpus.split("train")), len(self.corpus.split("validation"))
        return np.sort(np.random.default_rng(0).choice(size, min(size, most), replace=False))

    def part(self) -> Split:
        """The examples that are probed."""
        rows = self.rows()
        split = self.corpus.split(self.split)
        return split if rows is None else split.subset(rows)

    def model(self, step: int) -> Any:
        """The trained model as it was at `step`, ready to be probed."""
        device = choose_device(self.device)
        if self._model is None:
            with torch.random.fork_rng(devices=[]):
                self._model = self.recipe.fresh_model(self.corpus, device)
        try:
            self._model.load_state(self.run.load_checkpoint(step))
        except (RuntimeError, KeyError) as error:  # what torch raises for names and shapes that do not fit
            raise RunError(
                f"checkpoint {step} of {self.run.name} does not fit the model as it is now: {error}"
            ) from error
        if isinstance(self._model, torch.nn.Module):
            self._model.eval().requires_grad_(False)
        return self.recipe.under_attention(self._model)

    def _identity(self, probe: str, step: int) -> dict[str, Any]:
        fingerprint = self.run.record["corpus"].get(self.split)
        if fingerprint is None:
            self.corpus.split(self.split)  # says what is wrong
        return {
            "name": f"{self.run.name}:{probe}@{step}",
            "probe": probe,
            "step": step,
            "split": self.split,
            "fingerprint": fingerprint,
            "checkpoint": storage.file_hash(self.run.checkpoint(step)),
        }

    def _compute(self, function: Any, probe: str, step: int, identity: dict[str, Any], progress: Progress) -> Signal:
        model, part = self.model(step), self.part()
        device = choose_device(self.device)
        groups = list(part.by_length())
        progress.begin(identity["name"], len(part), unit="sentences")
        pieces, done = [], 0
        for rows in groups:
            batch = part.batch(rows).to(device)
            pieces.append(_Piece(function, model, batch, probe=probe, first=not done))
            done += len(rows)
            progress.advance(done)
        progress.end()
        return _join(pieces, np.concatenate(groups), identity)


class _Piece:
    """What a probe said of one batch, checked, cut to the allowed cells and off the device."""

    def __init__(self, function: Any, model: Any, batch: Batch, *, probe: str, first: bool) -> None:
        B, T, L = len(batch.x), batch.y.shape[1], batch.x.shape[1]
        seen = check_allowed(allowed(model, batch), batch).expand(B, T, L) & batch.y_mask.unsqueeze(-1)
        if first and probe in ATTENDING and hasattr(model, "trace"):
            check_attend_is_obeyed(model, batch)
        values = check_values(function(model, batch), seen, probe, model)
        seen = seen.cpu()
        self.sites = tuple(getattr(model, "sites", ())) if values.shape[1] > 1 else ("",)
        lengths = seen.sum(-1)  # (B, T)
        self.rows = batch.y_mask.sum(1).cpu().numpy()  # (B,)
        self.lengths = [row[:n].numpy() for row, n in zip(lengths, self.rows, strict=True)]
        self.values = [values[b][:, seen[b]].numpy() for b in range(B)]  # each (S, cells)
        prefix = torch.arange(L) < lengths.unsqueeze(-1)
        self.columns = None if torch.equal(prefix, seen) else [seen[b].nonzero()[:, 1].numpy() for b in range(B)]


def _join(pieces: list[_Piece], order: NDArray[np.int64] | None, meta: dict[str, Any]) -> Signal:
    """One signal from its pieces, the sentences back in the order of the corpus."""
    if not pieces:
        raise UsageError("there are no batches to probe")
    place = np.arange(sum(len(p.rows) for p in pieces)) if order is None else np.argsort(order)

    def flat(lists: Iterator[list[NDArray[Any]]], axis: int = 0) -> NDArray[Any]:
        arrays = [array for chunk in lists for array in chunk]
        return np.concatenate([arrays[i] for i in place], axis)

    columns = None
    if any(piece.columns is not None for piece in pieces):
        every = (
            [np.concatenate([np.arange(n) for n in row]) for row in p.lengths] if p.columns is None else p.columns
            for p in pieces
        )
        columns = flat(every).astype(np.int32)
    rows = np.concatenate([piece.rows for piece in pieces])[place]
    lengths = flat(piece.lengths for piece in pieces)
    values = flat((piece.values for piece in pieces), axis=1)
    return make_signal(values, lengths, rows, columns, pieces[0].sites, meta)


def _stored(path: Path, identity: dict[str, Any]) -> Signal | None:
    """The stored signal, unless it is missing, damaged or of something else."""
    try:
        signal = load_signal(path)
    except (SpecError, RunError, UsageError):
        return None
    return signal if all(signal.meta.get(key) == value for key, value in identity.items()) else None


def check_allowed(mask: Tensor, batch: Batch) -> Tensor:
    """The mask a model returned, or a sentence about what is wrong with it."""
    B, T, L = len(batch.x), batch.y.shape[1], batch.x.shape[1]
    if mask.dtype != torch.bool or mask.shape not in ((B, 1, L), (B, T, L)):
        raise ContractError(
            f"allowed(batch) returned {mask.dtype} {tuple(mask.shape)}: it must be bool, ({B}, 1 or {T}, {L})"
        )
    return mask


def check_values(returned: Any, seen: Tensor, probe: str, model: Any) -> Tensor:
    """What a probe returned as (B, S, T, L) float32 on the CPU, or a sentence about what is wrong with it."""
    B, T, L = seen.shape
    S = max(1, len(getattr(model, "sites", ())))
    if not isinstance(returned, Tensor) or tuple(returned.shape) not in ((B, T, L), (B, S, T, L)):
        found = tuple(returned.shape) if isinstance(returned, Tensor) else type(returned).__name__
        wanted = f"({B}, {T}, {L})" + (f" or ({B}, {S}, {T}, {L})" if S > 1 else "")
        raise ContractError(
            f"probe {probe!r} of {_name(model)} returned {found}: it must return a tensor of shape {wanted}"
        )
    tolerance = TOLERANCE.get(returned.dtype, 1e-4)
    values: Tensor = returned.detach().float().view(B, -1, T, L)
    legal = seen.unsqueeze(1).expand_as(values)
    inside = values[legal]
    if torch.isnan(inside).any() or torch.isposinf(inside).any():
        raise ContractError(
            f"probe {probe!r} of {_name(model)} returned NaN or +inf: every allowed cell must be a number"
        )
    if probe == "alpha":
        _check_weights(values, legal, tolerance, model)
    return values.cpu()


def _check_weights(values: Tensor, legal: Tensor, tolerance: float, model: Any) -> None:
    real = legal.any(-1)
    sums = values.masked_fill(~legal, 0).sum(-1)[real]
    if (sums - 1).abs().gt(10 * tolerance).any() or values.lt(-tolerance).logical_and(legal).any():
        worst = sums[(sums - 1).abs().argmax()].item()
        raise ContractError(
            f"alpha of {_name(model)} has a row that sums to {worst:.4f}: weights are 0 or more and sum to 1"
        )
    outside = values.masked_fill(legal, 0)[real.unsqueeze(-1).expand_as(values)]
    if outside.abs().gt(tolerance).any():
        raise ContractError(
            f"alpha of {_name(model)} is not 0 outside the allowed positions: mask its scores with -inf"
        )


@torch.no_grad()
def check_attend_is_obeyed(model: Any, batch: Batch) -> None:
    """Refuse a model whose output does not change with the attention it is told to use."""
    legal = check_allowed(allowed(model, batch), batch)
    several = legal.sum(-1) >= 2  # (B, T or 1)
    if not several.any():
        return
    place = torch.arange(legal.shape[-1], device=legal.device)
    first = (place == legal.int().argmax(-1, keepdim=True)).float()  # (B, T or 1, L)
    last = (place == (legal * (place + 1)).argmax(-1, keepdim=True)).float()
    if getattr(model, "sites", ()):
        first, last = first.unsqueeze(1), last.unsqueeze(1)
    one, other = (log_odds(model.trace(batch, attend=weights), batch) for weights in (first, last))
    differ = (one != other) & several.expand_as(batch.y) & batch.y_mask
    if not differ.any():
        raise ContractError(
            f"{_name(model)} ignores attend: its output is the same whichever position it is told to look at; use "
            "choose(own, attend, allowed) for its weights"
        )


def _name(model: Any) -> str:
    inner = getattr(model, "_model", model)
    return type(inner).__name__

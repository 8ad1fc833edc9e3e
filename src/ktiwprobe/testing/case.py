"""A model under test, and the little data it is tried on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from ktiwprobe.corpus.batch import Batch
from ktiwprobe.corpus.corpus import Corpus
from ktiwprobe.corpus.ragged import Ragged
from ktiwprobe.corpus.split import Split
from ktiwprobe.errors import KtiwprobeError
from ktiwprobe.models.attend import allowed, at_any_site, at_every_site, by_site
from ktiwprobe.models.scoring import log_odds
from ktiwprobe.plugins.capabilities import (
    FitsItself,
    HasAttentionParameters,
    HasEvalMode,
    HasLoss,
    Prepares,
    SupportsBeta,
    default_task,
    sites_of,
    supports,
)
from ktiwprobe.plugins.options import options_of
from ktiwprobe.plugins.protocols import AttentionModel
from ktiwprobe.plugins.registry import Registry
from ktiwprobe.probes.definitions import TOLERANCE, check_allowed
from ktiwprobe.testing.outcome import Failed, Skipped

M = TypeVar("M")
CLOSE = 1e-4
SENTENCES = 5
LONGEST = 24


@dataclass(eq=False)
class Case:
    """A model under test, a little trained so that nothing stands at a special value, and a small padded batch."""

    model_class: Any
    options: Any
    corpus: Corpus
    split: Split

    @cached_property
    def batch(self) -> Batch:
        """Sentences of different lengths together."""
        return self.split.batch(np.arange(len(self.split)))

    def alone(self, row: int) -> Batch:
        """One sentence without padding."""
        return self.split.batch(np.array([row]))

    def build(self, seed: int = 0) -> Any:
        """A fresh model."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.model_class.build(self.corpus, self.options)

    @cached_property
    def model(self) -> Any:
        """The model after a few updates, in evaluation mode."""
        model = self.build()
        if supports(model, FitsItself):
            model.fit(self.corpus, lambda _step: None)
        elif supports(model, HasLoss):
            self.update(model, times=3)
        return in_evaluation(model)

    def update(self, model: Any, *, times: int) -> None:
        """Take a few gradient steps, always the same ones."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            optimiser = model.optimiser(list(model.parameters()), lr=1e-2)
            for _ in range(times):
                optimiser.zero_grad()
                model.loss(self.batch).backward()
                optimiser.step()

    @cached_property
    def seen(self) -> Tensor:
        """The cells that count: those that some site may look at. (B, T, L)"""
        return cells(self.model, self.batch)

    @cached_property
    def forced(self) -> Tensor:
        """The cells where all sites can be forced. (B, T, L)"""
        return cells(self.model, self.batch, every=True)

    @cached_property
    def of_sites(self) -> Tensor:
        """The cells of each site. (B, S, T, L)"""
        mask = by_site(_mask(self.model, self.batch))
        mask = mask.expand(-1, max(1, len(self.sites)), self.batch.y.shape[1], -1)
        return mask & self.batch.y_mask[:, None, :, None]

    def attention_parameters(self, model: object) -> list[torch.nn.Parameter]:
        """What learns with frozen beta; leaves the check if the model has no such parameters or refuses to name any."""
        if not supports(model, HasAttentionParameters):
            raise Skipped("the model has no attention_parameters(), so it cannot be trained with frozen beta")
        try:
            return list(model.attention_parameters())
        except KtiwprobeError as reason:
            raise Skipped(str(reason)) from reason

    def trained(self) -> Any:
        """Another model, trained as `model` was."""
        model = self.build()
        if supports(model, HasLoss):
            self.update(model, times=3)
        return in_evaluation(model)

    @property
    def sites(self) -> tuple[str, ...]:
        """The model's sites."""
        return sites_of(self.model)

    def needs_trace(self) -> None:
        """Leave a check that is about attention if the model has none."""
        if not supports(self.model, AttentionModel):
            raise Skipped("no trace: a model without attention")

    def same(self, a: Tensor, b: Tensor, advice: str) -> None:
        """Fail with `advice` unless the two are equal, but for rounding; -inf equals -inf."""
        kinds = {tensor.dtype for tensor in self.model.state().values()}
        close = max((TOLERANCE.get(kind, CLOSE) for kind in kinds), default=CLOSE)
        apart = torch.where(a == b, 0.0, (a - b).abs() / b.abs().clamp_min(1))
        gap = apart.max().item() if apart.numel() else 0.0
        if not gap <= close:
            raise Failed(f"{advice} (difference {gap:.2g})")


def make_case(registry: Registry, model: str | type, *, task: str | None = None, options: Any = None) -> Case:
    """The case of a model class (or a registered name) on small sentences of `task` (default: the model's own)."""
    model_class = registry.load("models", model) if isinstance(model, str) else model
    task_class = registry.load("tasks", task or default_task(model_class) or registry.default("tasks"))
    chosen = options_of(model_class)() if options is None else options
    corpus = task_class().load(options_of(task_class)())
    corpus = model_class.prepare(corpus, chosen) if supports(model_class, Prepares) else corpus
    return Case(model_class, chosen, corpus, few_sentences(corpus.split("validation"), corpus.kind))


def few_sentences(split: Split, kind: str) -> Split:
    """A few sentences of lengths as different as can be, none very long, and one of a single token.

    In translation one more has an output of another length than its input, so that T and L cannot be mistaken. A text
    with gaps stays whole: its outputs are what stood in them.
    """
    order = np.argsort(split.x.lengths, kind="stable")
    order = order[: max(SENTENCES, int((split.x.lengths <= LONGEST).sum()))]
    rows = order[np.unique(np.linspace(0, len(order) - 1, SENTENCES).astype(int))]
    xs, ys = [split.x[i] for i in rows], [split.y[i] for i in rows]
    if kind == "translation" and all(len(x) == len(y) for x, y in zip(xs, ys, strict=True)) and len(ys[-1]) > 1:
        xs, ys = [*xs, xs[-1]], [*ys, ys[-1][1:]]
    if kind != "text" or all(len(x) == len(y) for x, y in zip(xs, ys, strict=True)):
        xs, ys = [*xs, xs[0][:1]], [*ys, ys[0][:1]]
    return Split(Ragged.of(xs), Ragged.of(ys))


def in_evaluation(model: M) -> M:
    """The model, switched to evaluation mode."""
    if supports(model, HasEvalMode):
        model.eval()
    return model


def cells(model: object, batch: Batch, *, every: bool = False) -> Tensor:
    """Which cells count: those of real outputs that a site, or every site, may look at from their row. (B, T, L)"""
    mask = _mask(model, batch)
    mask = at_every_site(mask) if every else at_any_site(mask)
    return mask.expand(*batch.y.shape, -1) & batch.y_mask.unsqueeze(-1)


def _mask(model: object, batch: Batch) -> Tensor:
    return check_allowed(allowed(model, batch), batch, len(sites_of(model)))


def said(model: object, batch: Batch) -> dict[str, list[Tensor]]:
    """All that a model says of a batch, sentence by sentence, cells that do not count left out."""
    with torch.no_grad():
        found = {"beta": model.beta(batch)} if supports(model, SupportsBeta) else {}
        if supports(model, AttentionModel):
            trace = model.trace(batch)
            found |= {"alpha": trace.alpha, "the output": log_odds(trace, batch)}
    masks = {
        "beta": cells(model, batch, every=True),  # (B, T, L)
        "alpha": cells(model, batch),
        "the output": batch.y_mask,  # (B, T)
    }
    return {name: [v[..., m] for v, m in zip(value, masks[name], strict=True)] for name, value in found.items()}

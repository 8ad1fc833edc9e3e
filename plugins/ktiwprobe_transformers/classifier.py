"""hf-classifier: any encoder or decoder with a classification head; its one output looks from the pooled position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ktiwprobe import Batch
from ktiwprobe.errors import PluginError
from ktiwprobe_transformers.forcing import watching
from ktiwprobe_transformers.model import HfModel, HfOptions, evaluating, gated


class HfClassifier(HfModel):
    """A sequence classifier of transformers; by default a small BERT."""

    auto: ClassVar[str] = "AutoModelForSequenceClassification"
    kinds: ClassVar[tuple[str, ...]] = ("classification",)
    default_task: ClassVar[str] = "toy-sentiment"
    pools: ClassVar[bool] = True
    last = False  # whether the last position is pooled, not the first

    @dataclass(frozen=True)
    class Options(HfOptions):
        """As of every Hugging Face model."""

    def settle(self) -> None:
        """Which position the head reads: that whose last states move the output."""
        network: Any = self.network
        with torch.enable_grad(), evaluating(network), watching(network, keep_calls=True) as watch:
            logits = self.logits(self.tiny())
            (moved,) = torch.autograd.grad(logits.square().sum(), watch.calls[-1].output)  # (1, L, heads, width)
        rows = moved.abs().sum((0, 2, 3)).nonzero().flatten().tolist()
        if rows not in ([0], [moved.shape[1] - 1]):
            raise PluginError(
                f"{type(network).__name__} classifies from {len(rows)} positions at once, which has no row to force: "
                "supported are models that pool their first or their last position"
            )
        self.last = rows != [0]

    def rows(self, batch: Batch) -> Tensor:
        """The pooled position; if it is the last, as transformers finds it: no padding token stands there. (B, 1)"""
        if not self.last:
            return torch.zeros_like(batch.y)
        place = torch.arange(batch.x.shape[1], device=batch.x.device)
        return (place * (self.padded(batch) != self.pad)).argmax(-1, keepdim=True)

    def allowed(self, batch: Batch) -> Tensor:
        """What the pooled position may look at. (B, 1, L)"""
        place = torch.arange(batch.x.shape[1], device=batch.x.device)
        seen = batch.x_mask & (place <= self.rows(batch)) if self.last else batch.x_mask
        return seen.unsqueeze(1)

    def logits(self, batch: Batch, *, gate: Tensor | None = None, state: Any = None) -> Tensor:
        """(B, 1, V)"""
        network: Any = self.network
        with gated(network.get_input_embeddings(), gate):
            logits: Tensor = network(input_ids=self.padded(batch), attention_mask=batch.x_mask.long()).logits
        return logits.unsqueeze(1)

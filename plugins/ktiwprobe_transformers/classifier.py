"""hf-classifier: any encoder or decoder with a classification head; its one output looks from the pooled position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ktiwprobe import Batch
from ktiwprobe.errors import PluginError
from ktiwprobe.probes.probing import evaluating
from ktiwprobe_transformers.forcing import watching
from ktiwprobe_transformers.model import HfModel, HfOptions


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

    def __init__(self, network: nn.Module, options: Any, *, V: int, shift: int = 0) -> None:
        config: Any = network.config
        if config.is_encoder_decoder:
            raise PluginError(
                f"{type(network).__name__} reads its input twice, in its encoder and one position on in its "
                "decoder, so that a position stands for two words: supported are classifiers "
                "that are an encoder or a decoder alone"
            )
        super().__init__(network, options, V=V, shift=shift)

    def settle(self) -> None:
        """Which position the head reads: that whose last states move the output."""
        network: Any = self.network
        states: list[Tensor] = []
        hook = network.base_model.register_forward_hook(lambda _module, _args, output: states.append(output[0]))
        begin = network.get_input_embeddings().register_forward_hook(
            lambda _module, _args, output: output.detach().clone().requires_grad_() + 0  # of a frozen network too
        )
        try:
            with torch.inference_mode(False), torch.enable_grad(), evaluating(network), watching(network):
                logits = self.logits(self.tiny())
                (moved,) = torch.autograd.grad(logits.square().sum(), states[-1])  # (1, L, D)
        finally:
            hook.remove()
            begin.remove()
        rows = moved.abs().sum((0, 2)).nonzero().flatten().tolist()
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

    def logits(self, batch: Batch, *, gate: Tensor | None = None, state: Any = None) -> Tensor:
        """(B, 1, V)"""
        network: Any = self.network
        with self.gating(gate):
            logits: Tensor = network(input_ids=self.padded(batch), attention_mask=batch.x_mask.long()).logits
        return logits.unsqueeze(1)

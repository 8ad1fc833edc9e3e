"""hf-seq2seq: any encoder-decoder; its outputs look at the inputs through cross-attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ktiwprobe import Batch, option
from ktiwprobe.errors import OptionError, PluginError
from ktiwprobe_transformers.forcing import watching
from ktiwprobe_transformers.model import HfModel, HfOptions


class HfSeq2Seq(HfModel):
    """An encoder-decoder of transformers; by default a small BART."""

    auto: ClassVar[str] = "AutoModelForSeq2SeqLM"
    kinds: ClassVar[tuple[str, ...]] = ("translation",)
    groups: ClassVar[tuple[str, ...]] = ("cross",)
    outputs: ClassVar[int | None] = 2

    @dataclass(frozen=True)
    class Options(HfOptions):
        """As of every Hugging Face model."""

        config: str = option(
            "bart", help="architecture from scratch: a type, a pair such as bert+gpt2, or a config.json"
        )
        site: str | None = option(
            None, help="layers and heads to read and replace: cross:-1, cross:all, cross:0.h2; none: the last layer"
        )

    @property
    def start(self) -> int:
        """The id that opens an output."""
        config: Any = self.network.config
        generation = getattr(self.network, "generation_config", None)
        for owner, name in (
            (config, "decoder_start_token_id"),
            (generation, "decoder_start_token_id"),
            (config, "bos_token_id"),
        ):
            if getattr(owner, name, None) is not None:
                return int(getattr(owner, name))
        raise OptionError(
            f"{type(self.network).__name__} does not say which token opens an output: set decoder_start_token_id in "
            "its config.json"
        )

    def __init__(self, network: nn.Module, options: Any, *, V: int, shift: int = 0) -> None:
        config: Any = network.config
        if not config.is_encoder_decoder:
            raise PluginError(
                f"{type(network).__name__} is no encoder-decoder for text, so it has no cross-attention from "
                "outputs to inputs"
            )
        super().__init__(network, options, V=V, shift=shift)

    def encode(self, batch: Batch, gate: Tensor | None = None) -> Any:
        """What the encoder says of the input, as the decoder takes it."""
        with watching(self.network):
            return self._read(batch, gate)

    def read(self, batch: Batch) -> Any:
        """The encoder's output."""
        return self.encode(batch)

    def logits(self, batch: Batch, *, gate: Tensor | None = None, state: Any = None) -> Tensor:
        """The decoder on the outputs before. (B, T, V)"""
        h = self._read(batch, gate) if state is None else state
        before = torch.cat([torch.full_like(batch.y[:, :1], self.start), batch.y[:, :-1] + self.shift], 1)
        network: Any = self.network
        found = network(
            encoder_outputs=h,
            attention_mask=batch.x_mask.long(),
            decoder_input_ids=before,
            decoder_attention_mask=torch.ones_like(before),  # padding comes last, where no real output looks
            use_cache=False,
        )
        logits: Tensor = found.logits[..., self.shift : self.shift + self.V]
        return logits

    def _read(self, batch: Batch, gate: Tensor | None) -> Any:
        network: Any = self.network
        encoder = network.get_encoder()
        with self.gating(gate):
            return encoder(input_ids=self.padded(batch), attention_mask=batch.x_mask.long())

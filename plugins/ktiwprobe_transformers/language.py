"""hf-causal-lm and hf-masked-lm: language models, which look from a position of a text at the text itself."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from ktiwprobe import Batch, Corpus, Split, option
from ktiwprobe.errors import CorpusError, OptionError
from ktiwprobe_transformers.loading import load_tokenizer
from ktiwprobe_transformers.model import TINY, HfModel, HfOptions
from ktiwprobe_transformers.networks import fresh_config, pretrained_config
from ktiwprobe_transformers.retokenise import retokenised, without_long
from ktiwprobe_transformers.texts import MASK, as_masked, as_next_token, framed_text


class HfLanguageModel(HfModel):
    """What the two share: a text is its own output."""

    kinds: ClassVar[tuple[str, ...]] = ("text",)
    default_task: ClassVar[str] = "plain-text"

    def states(self, batch: Batch, gate: Tensor | None) -> Tensor:
        """Logits at every position. (B, L, V)"""
        network: Any = self.network
        with self.gating(gate):
            found = network(input_ids=self.padded(batch), attention_mask=batch.x_mask.long(), use_cache=False)
        logits: Tensor = found.logits[..., : self.V]
        return logits


class HfCausalLm(HfLanguageModel):
    """A language model that reads from left to right, by default a small GPT-2; row t looks at positions up to t."""

    auto: ClassVar[str] = "AutoModelForCausalLM"

    @dataclass(frozen=True)
    class Options(HfOptions):
        """As of every Hugging Face model."""

        config: str = option("gpt2", help="architecture from scratch: a type such as gpt2 or llama, or a config.json")

    @classmethod
    def prepare(cls, corpus: Corpus, options: Options) -> Corpus:
        """Texts as inputs, and as outputs the same one position on; of other tasks the inputs are the texts."""
        if not options.path:
            return without_long(as_next_token(corpus), options.longest)
        tokenizer = load_tokenizer(options.path, remote_code=options.remote_code)
        begin, end = _ends(tokenizer, options.path)
        plain = retokenised(corpus, options, sides=1, special=False)
        return without_long(framed_text(plain, begin, end), options.longest)

    @classmethod
    def list_sites(cls, options: Any) -> list[dict[str, Any]]:
        """Of a network that does not look ahead."""
        check_causal(options)
        return super().list_sites(options)

    @classmethod
    def build(cls, corpus: Corpus, options: Any) -> HfModel:
        """A network whose positions do not look ahead."""
        check_causal(options)
        for name, split in corpus.splits.items():
            if isinstance(split, Split) and not np.array_equal(split.x.lengths, split.widths):
                raise CorpusError(
                    f"the {name} split of task {corpus.task} has texts whose outputs are not one for each position: "
                    "each y must be the token after its x"
                )
        return super().build(corpus, options)

    def logits(self, batch: Batch, *, gate: Tensor | None = None, state: Any = None) -> Tensor:
        """(B, T, V), T = L"""
        return self.states(batch, gate)

    def outputs_within(self, x: Tensor, x_mask: Tensor, y: Tensor, y_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Those of the inputs that are left."""
        return y[:, : x.shape[1]], y_mask[:, : x.shape[1]] & x_mask

    def tiny(self) -> Batch:
        """A sentence with an output at each position."""
        batch = super().tiny()
        return Batch(batch.x, batch.x_mask, batch.x_lengths, torch.zeros_like(batch.x), batch.x_mask)


class HfMaskedLm(HfLanguageModel):
    """A language model that fills gaps; by default a small BERT. Output t is the t-th gap, and looks from there."""

    auto: ClassVar[str] = "AutoModelForMaskedLM"
    mask_id = -1

    @dataclass(frozen=True)
    class Options(HfOptions):
        """As of every Hugging Face model, and where the gaps are."""

        gaps: float = option(0.15, low=0.01, high=1.0, help="share of tokens that are masked, at least one of a text")
        gap_seed: int = option(0, low=0, help="which tokens")

    @classmethod
    def prepare(cls, corpus: Corpus, options: Options) -> Corpus:
        """Texts with gaps as inputs, and what stood there as outputs; of other tasks the inputs are the texts."""
        if not options.path:
            return without_long(as_masked(corpus, None, options.gaps, options.gap_seed), options.longest)
        mask_id = _mask_of(options)
        whole = without_long(retokenised(corpus, options, sides=1), options.longest)
        return as_masked(whole, mask_id, options.gaps, options.gap_seed)

    @classmethod
    def build(cls, corpus: Corpus, options: Any) -> HfModel:
        """A network that knows which token is a gap."""
        model = super().build(corpus, options)
        if isinstance(model, HfMaskedLm):
            model.mask_id = _mask_of(options) if options.path else corpus.source_tokens.index(MASK)
        return model

    def tiny(self) -> Batch:
        """A sentence with a gap, once it is known which token is one."""
        batch = super().tiny()
        if self.mask_id >= 0:
            other = next(i for i in count(TINY + 1) if i not in (self.pad, self.mask_id))
            batch.x[batch.x == self.mask_id] = other
            batch.x[:, 1] = self.mask_id
        return batch

    def rows(self, batch: Batch) -> Tensor:
        """The positions of the gaps, -1 where a text has fewer. (B, T)"""
        T = batch.y.shape[1]
        gaps = (batch.x == self.mask_id) & batch.x_mask
        if self.mask_id >= 0 and not torch.equal(gaps.sum(1), batch.y_mask.sum(1)):
            raise CorpusError(
                "a text has another number of mask tokens than of outputs: each output is the word of a gap"
            )
        order = (~gaps).int().argsort(dim=1, stable=True)[:, :T]
        order = F.pad(order, (0, T - order.shape[1]))
        return torch.where(torch.arange(T, device=gaps.device) < gaps.sum(1, keepdim=True), order, -1)

    def outputs_within(self, x: Tensor, x_mask: Tensor, y: Tensor, y_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Those of the gaps that are left."""
        gaps = ((x == self.mask_id) & x_mask).sum(1, keepdim=True)
        return y, y_mask & (torch.arange(y.shape[1], device=y.device) < gaps)

    def logits(self, batch: Batch, *, gate: Tensor | None = None, state: Any = None) -> Tensor:
        """(B, T, V)"""
        rows = self.rows(batch).clamp_min(0).unsqueeze(-1)
        return self.states(batch, gate).gather(1, rows.expand(-1, -1, self.V))


def check_causal(options: Any) -> None:
    """Refuse an architecture that looks ahead."""
    config = pretrained_config(options) if options.path else fresh_config(options, positions=64)
    looks_ahead = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(config, "is_decoder", False)
    if looks_ahead or config.is_encoder_decoder:
        raise OptionError(
            f"architecture {config.model_type!r} does not read from left to right: use hf-masked-lm or hf-seq2seq"
        )


def _mask_of(options: Any) -> int:
    tokenizer = load_tokenizer(options.path, remote_code=options.remote_code)
    if tokenizer.mask_token_id is None:
        raise OptionError(
            f"the tokenizer of {options.path} has no mask token, which hf-masked-lm fills: use hf-causal-lm"
        )
    return int(tokenizer.mask_token_id)


def _ends(tokenizer: Any, path: str) -> tuple[int, int]:
    """The ids that begin and end a text; a tokenizer with one of them uses it for both, as GPT-2 does."""
    known = [tokenizer.bos_token_id, tokenizer.eos_token_id]
    found = [one for one in known if one is not None]
    if not found:
        raise OptionError(
            f"the tokenizer of {path} has no token that begins or ends a text: set its bos_token or eos_token"
        )
    return int(found[0]), int(found[-1])

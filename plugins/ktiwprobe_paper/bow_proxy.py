"""The bag-of-words proxy (Section 2.3): every output from the mean of the input's embeddings.

    p = softmax(1/L Σ_l W e[x_l] + b);   θ_i = softmax(W e_i);   β[t, l] = θ[x_l, y_t]

The bias learns how frequent each output is and stays out of β. It has no attention: alpha is β as a share of its row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ktiwprobe import Batch, Corpus, NeuralModel, option
from ktiwprobe.models.scoring import nll_of_shared_logits

BLOCK = 2**22  # logits at a time


class BowProxy(NeuralModel):
    """W and e; with two classes W has one row, and the logits are [0, w · e + b].

    The defaults are the published ones for translation; the paper's classification tasks have theirs for it.
    """

    training_defaults: ClassVar[Mapping[str, Any]] = {"batch": 64, "lr": 1e-3, "epochs": 30, "checkpoints": "epochs"}
    own_schedule: ClassVar[bool] = True
    best_by: ClassVar[str] = "loss"

    @dataclass(frozen=True)
    class Options:
        """The published size; the equations of the paper have no bias."""

        dimension: int = option(256, low=1, help="of an embedding")
        bias: bool = option(True, help="whether the output has a bias")

    def __init__(self, words: int, rows: int, options: Options) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, options.dimension)
        self.output = nn.Linear(options.dimension, rows, bias=options.bias)
        for weight in (self.embed.weight, self.output.weight):
            nn.init.normal_(weight, std=options.dimension**-0.5)  # N(0, I/d), Section 4.1
        if options.bias:
            nn.init.zeros_(self.output.bias)

    @classmethod
    def build(cls, corpus: Corpus, options: Options) -> BowProxy:
        """A fresh model for translation or classification."""
        binary = corpus.kind == "classification" and corpus.target_size == 2
        return cls(corpus.source_size, 1 if binary else corpus.target_size, options)

    def loss(self, batch: Batch) -> Tensor:
        """-log p of a sentence's outputs, summed; the mean over sentences."""
        return self._nll(batch)[0].sum() / len(batch.y)

    def evaluate(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs predicted right, outputs in all, and the sum of their -log p."""
        nll, logits = self._nll(batch)
        right = (logits.argmax(-1, keepdim=True) == batch.y) & batch.y_mask
        return right.sum(), batch.y_mask.sum(), nll.sum()

    @torch.no_grad()
    def beta(self, batch: Batch) -> Tensor:
        """Log-odds of y_t under softmax(W e[x_l]). (B, T, L)

        Whatever y is, the sum over the other outputs comes from three numbers of x_l alone: its largest logit, which
        output has it, and the logsumexp of the rest. Nothing large cancels, so that no p is too near to 1.
        """
        W = _rows(self.output.weight)  # (V, d)
        words, place = torch.unique(batch.x, return_inverse=True)  # (U,), (B, L)
        blocks = [_top(e @ W.T) for e in self.embed(words).split(max(1, BLOCK // len(W)))]
        most, best, rest = (torch.cat(part)[place].unsqueeze(1) for part in zip(*blocks, strict=True))  # (B, 1, L)
        logits = W[batch.y] @ self.embed(batch.x).mT  # (B, T, L): of y_t
        others = torch.log1p((rest - most).exp() - (logits - most).exp())  # if y_t is not the best, less `most`
        return torch.where(best == batch.y.unsqueeze(-1), most - rest, logits - most - others)

    def _nll(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """-log p of each output, zero on padding, and the logits, which all outputs share. (B, T), (B, V)"""
        seen = batch.x_mask.unsqueeze(-1)
        mean = (self.embed(batch.x) * seen).sum(1) / seen.sum(1)  # (B, d)
        bias = None if self.output.bias is None else _rows(self.output.bias)
        logits = F.linear(mean, _rows(self.output.weight), bias)
        return nll_of_shared_logits(logits, batch.y).masked_fill(~batch.y_mask, 0), logits


def _rows(weight: Tensor) -> Tensor:
    """A row for each output: one row stands for the second of two classes, the first has zeros."""
    return torch.cat([torch.zeros_like(weight), weight]) if len(weight) == 1 else weight


def _top(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The largest logit, its output, and the logsumexp of the others. (U,) each"""
    most, best = logits.max(-1)
    return most, best, logits.scatter_(-1, best.unsqueeze(-1), -torch.inf).logsumexp(-1)

"""The paper's classifier (Section 2.4): a bidirectional LSTM whose states are attended once.

    a_l = v · ReLU(Q h_l);   α = softmax(a);   p(y = 1) = σ(w · Σ_l α_l h_l + b)

As a translator: T = 1, V = 2 and logits [0, w · c + b].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ktiwprobe import Batch, Corpus, TorchModel, Trace, choose, option
from ktiwprobe.errors import CorpusError
from ktiwprobe_paper.packed_lstm import Packing
from ktiwprobe_paper.recurrent import Recurrent
from ktiwprobe_paper.vectors import read_vectors


class Encoded(NamedTuple):
    """All that does not depend on a chosen attention."""

    h: Tensor  # (B, L, D)
    alpha: Tensor  # (B, 1, L): the model's own


class Classifier(TorchModel):
    """An attention classifier of two classes."""

    training_defaults: ClassVar[Mapping[str, Any]] = {"batch": 32, "lr": 1e-3}
    default_task: ClassVar[str] = "toy-sentiment"

    @dataclass(frozen=True)
    class Options:
        """Sizes; the defaults are the paper's."""

        embedding: int = option(300, low=1, help="width of word embeddings")
        hidden: int = option(256, low=1, help="width of states, per direction")
        bidirectional: bool = option(True, help="whether the encoder reads both ways")
        vectors: str | None = option(None, help="text file of word vectors to start from, as GloVe writes them")

    def __init__(self, words: int, options: Options) -> None:
        super().__init__()
        H = options.hidden
        self.embed = nn.Embedding(words, options.embedding)
        self.encoder = Recurrent("lstm", options.embedding, H, bidirectional=options.bidirectional)
        D = self.encoder.width
        self.look = nn.Sequential(nn.Linear(D, H), nn.ReLU(), nn.Linear(H, 1))
        self.decide = nn.Linear(D, 1)

    @classmethod
    def build(cls, corpus: Corpus, options: Options) -> Classifier:
        """A fresh model for a corpus of two classes."""
        if corpus.kind != "classification":
            raise CorpusError(f"task {corpus.task} is {corpus.kind}, and lstm-classifier classifies: use lstm-seq2seq")
        if corpus.target_size != 2:
            raise CorpusError(f"task {corpus.task} has {corpus.target_size} classes: lstm-classifier needs exactly 2")
        return cls(corpus.source_size, options)

    def warm_start(self, corpus: Corpus, options: Options) -> None:
        """Begin with the word vectors of a file, where there are some; other words begin at random."""
        if options.vectors:
            rows, vectors = read_vectors(Path(options.vectors), corpus.source_tokens, options.embedding)
            with torch.no_grad():
                self.embed.weight[torch.from_numpy(rows)] = torch.from_numpy(vectors).to(self.embed.weight)

    def attention_parameters(self) -> list[nn.Parameter]:
        """Q and v."""
        return list(self.look.parameters())

    def trace(
        self,
        batch: Batch,
        *,
        attend: Tensor | None = None,
        gate: Tensor | None = None,
        state: Encoded | None = None,
    ) -> Trace:
        """Run on `batch` under `attend`; with a `state` of `encode`, from there."""
        if state is None and batch.x.is_cpu and self.encoder.worth_packing(batch.x_lengths, batch.x.shape[1]):
            return self._trace_tokens(batch, attend, gate)
        h, own = self.encode(batch, gate) if state is None else state
        alpha = choose(own, attend, batch.x_mask.unsqueeze(1))  # (B, 1, L)
        return Trace(F.pad(self.decide(alpha @ h), (1, 0)), alpha)

    def _trace_tokens(self, batch: Batch, attend: Tensor | None, gate: Tensor | None) -> Trace:
        """The same, nothing of it on padding: long texts beside short ones are mostly that."""
        B, L = batch.x.shape
        packing = Packing.of(batch.x_lengths, L)
        place = packing.token  # (N,) in the B * L of the batch
        e = self.embed(batch.x.flatten()[place])  # (N, E)
        e = e if gate is None else e * gate.to(e.dtype).flatten()[place].unsqueeze(-1)
        h, _ = self.encoder.read_tokens(e, packing)  # (N, D)
        scores = h.new_full((B * L,), -torch.inf).index_copy(0, place, self.look(h).squeeze(-1)).view(B, 1, L)
        alpha = choose(scores.softmax(-1), attend, batch.x_mask.unsqueeze(1))
        looked_at = alpha.flatten()[place].unsqueeze(-1) * h
        c = h.new_zeros(B, h.shape[1]).index_add(0, place // L, looked_at).unsqueeze(1)  # (B, 1, D)
        return Trace(F.pad(self.decide(c), (1, 0)), alpha)

    def encode(self, batch: Batch, gate: Tensor | None = None) -> Encoded:
        """Encoder states and the model's own attention; `gate` (B, L) scales the embeddings."""
        e = self.embed(batch.x)  # (B, L, E)
        e = e if gate is None else e * gate.to(e.dtype).unsqueeze(-1)
        h, _ = self.encoder.read(e, batch.x_lengths)
        scores = self.look(h).squeeze(-1).masked_fill(~batch.x_mask, -torch.inf)  # (B, L)
        return Encoded(h, scores.softmax(-1).unsqueeze(1))

    @torch.no_grad()
    def beta(self, batch: Batch) -> Tensor:
        """Log-odds of the label if only l were seen: (2y - 1)(w · h_l + b), zero on padding. (B, 1, L)"""
        h, _ = self.encode(batch)
        sign = 2 * batch.y - 1  # (B, 1)
        votes: Tensor = self.decide(h).squeeze(-1) * sign  # (B, L)
        return votes.masked_fill(~batch.x_mask, 0).unsqueeze(1)

"""A GRU translator with additive attention (Bahdanau et al., 2015)."""

from dataclasses import dataclass

import torch
from ktiwprobe import Batch, Corpus, TorchModel, Trace, choose, option
from ktiwprobe.data import BOS
from torch import Tensor, nn


class AdditiveGru(TorchModel):
    training_defaults = {"batch": 32, "lr": 3e-3, "steps": 600}

    @dataclass(frozen=True)
    class Options:
        width: int = option(128, low=1, help="size of embeddings and states")

    def __init__(self, sources: int, targets: int, width: int) -> None:
        super().__init__()
        self.read, self.write = nn.Embedding(sources, width), nn.Embedding(targets, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.key, self.query = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)
        self.predict = nn.Linear(2 * width, targets)

    @classmethod
    def build(cls, corpus: Corpus, options: Options) -> "AdditiveGru":
        return cls(corpus.source_size, corpus.target_size, options.width)

    def attention_parameters(self) -> list[nn.Parameter]:
        return [*self.key.parameters(), *self.query.parameters(), *self.score.parameters()]

    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        words = self.read(batch.x)
        h, _ = self.encoder(words if gate is None else words * gate.unsqueeze(-1))  # (B, L, H)
        end = (batch.x_mask.sum(1) - 1).view(-1, 1, 1).expand(-1, 1, h.shape[-1])
        before = torch.cat([torch.full_like(batch.y[:, :1], BOS), batch.y[:, :-1]], 1)  # y, shifted
        s, _ = self.decoder(self.write(before), h.gather(1, end).transpose(0, 1).contiguous())  # (B, T, H)
        scores = self.score(torch.tanh(self.query(s).unsqueeze(2) + self.key(h).unsqueeze(1))).squeeze(-1)
        allowed = batch.x_mask.unsqueeze(1)
        alpha = choose(scores.masked_fill(~allowed, -torch.inf).softmax(-1), attend, allowed)  # (B, T, L)
        return Trace(logits=self.predict(torch.cat([alpha @ h, s], -1)), alpha=alpha)

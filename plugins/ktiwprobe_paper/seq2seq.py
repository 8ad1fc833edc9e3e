"""The paper's translation model (Section 2.1): recurrent encoder and decoder, dot attention, one hidden layer.

    a[t, l] = s_t · W h_l;   α_t = softmax(a_t);   c_t = P Σ_l α[t, l] h_l;   p_t = softmax N([c_t, s_t])

The decoder reads only the shifted target (no input feeding), so everything before the choice of α is one call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ktiwprobe import Batch, Corpus, TorchModel, Trace, choose, option
from ktiwprobe.data import BOS
from ktiwprobe.errors import CorpusError, OptionError
from ktiwprobe_paper.decoding import Step, beam_search, greedy
from ktiwprobe_paper.drawing import redraw
from ktiwprobe_paper.lexical import Activation, lexical_log_odds
from ktiwprobe_paper.recurrent import Carry, Recurrent

ACTIVATIONS: Mapping[str, Activation] = {"relu": torch.relu, "tanh": torch.tanh}


class Encoded(NamedTuple):
    """All that does not depend on a chosen attention."""

    h: Tensor  # (B, L, D) encoder states
    s: Tensor  # (B, T, H) decoder states
    alpha: Tensor  # (B, T, L), or (B, S, T, L) with several heads: the model's own


class Predictor(nn.Module):
    """N of the paper: logits from a context and a decoder state.

    `mlp` is W act(U [c, s]); `linear`, of Appendix A.1, is W (c + s). Both are W act(part of c + part of s).
    """

    def __init__(self, H: int, V: int, kind: Literal["mlp", "linear"], activation: Literal["relu", "tanh"]) -> None:
        super().__init__()
        self.inner = nn.Linear(2 * H, H) if kind == "mlp" else None
        self.outer = nn.Linear(H, V)
        self.act = _same if kind == "linear" else ACTIVATIONS[activation]

    def parts(self, c: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        """What `c` and `s` each add to the hidden layer, before its activation."""
        if self.inner is None:
            return c, s
        of_c, of_s = self.inner.weight.chunk(2, 1)
        return F.linear(c, of_c), F.linear(s, of_s, self.inner.bias)

    def forward(self, c: Tensor, s: Tensor) -> Tensor:
        """(B, T, H), (B, T, H) -> logits (B, T, V)"""
        of_c, of_s = self.parts(c, s)
        logits: Tensor = self.outer(self.act(of_c + of_s))
        return logits


class Seq2Seq(TorchModel):
    """An attention translator; the defaults are the paper's model for machine translation."""

    training_defaults: ClassVar[Mapping[str, Any]] = {"batch": 16, "lr": 1e-3}

    @dataclass(frozen=True)
    class Options:
        """For the copying experiment: layers=1, bidirectional=false, dropout=0, activation=tanh."""

        hidden: int = option(256, low=1, help="width of embeddings and states, per direction")
        layers: int = option(2, low=1, help="layers of the encoder, and of the decoder")
        bidirectional: bool = option(True, help="whether the encoder reads both ways")
        dropout: float = option(0.5, low=0.0, high=1.0, help="between layers")
        cell: Literal["lstm", "gru"] = option("lstm", help="of encoder and decoder")
        activation: Literal["relu", "tanh"] = option("relu", help="of the hidden layer before the output")
        output: Literal["mlp", "linear"] = option("mlp", help="linear is softmax(W(c + s)) of Appendix A.1")
        heads: int = option(1, low=1, help="attention heads, each with its own map and context projection")
        combine: Literal["mean", "sum"] = option("mean", help="how the contexts of heads become one")
        embeddings: Literal["shared", "separate"] = option("shared", help="shared needs one joint vocabulary")
        init: int | None = option(None, low=0, help="seed of the first weights, heads excepted; none: the run's seed")
        head_inits: tuple[int, ...] = option(
            (), low=0, help="a seed for the first weights of each head; none: the run's"
        )

        def __post_init__(self) -> None:
            if self.head_inits and len(self.head_inits) != self.heads:
                raise ValueError(f"head_inits has {len(self.head_inits)} seeds for {self.heads} heads")

    def __init__(self, source_size: int, target_size: int, options: Options) -> None:
        super().__init__()
        H, cell, layers, dropout = options.hidden, options.cell, options.layers, options.dropout
        sizes = [source_size] if options.embeddings == "shared" else [source_size, target_size]
        self.embed = nn.ModuleList(nn.Embedding(size, H) for size in sizes)  # first the source's, last the target's
        self.encoder = Recurrent(cell, H, H, layers=layers, bidirectional=options.bidirectional, dropout=dropout)
        self.decoder = Recurrent(cell, H, H, layers=layers, dropout=dropout)
        D = self.encoder.width
        self.look = nn.ModuleList(nn.Linear(H, D) for _ in range(options.heads))
        self.project = nn.ModuleList(nn.Linear(D, H) for _ in range(options.heads))
        self.predict = Predictor(H, target_size, options.output, options.activation)
        self.share = 1 / options.heads if options.combine == "mean" else 1.0
        self.sites = tuple(f"h{k}" for k in range(options.heads)) if options.heads > 1 else ()
        if options.init is not None:
            redraw((self.embed, self.encoder, self.decoder, self.predict), options.init)
        for look, project, seed in zip(self.look, self.project, options.head_inits, strict=False):
            redraw((look, project), seed)

    @classmethod
    def build(cls, corpus: Corpus, options: Options) -> Seq2Seq:
        """A fresh model for a translation corpus."""
        if corpus.kind != "translation":
            raise CorpusError(f"task {corpus.task} is {corpus.kind}, and lstm-seq2seq translates: use lstm-classifier")
        if options.embeddings == "shared" and not corpus.joint:
            raise OptionError(
                f"source and target of task {corpus.task} have vocabularies of their own, so they cannot share "
                "embeddings: pass -o embeddings=separate"
            )
        return cls(corpus.source_size, corpus.target_size, options)

    def attention_parameters(self) -> list[nn.Parameter]:
        """W of every head: all that decides where to look, and nothing that decides what is said there."""
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
        h, s, own = self.encode(batch, gate) if state is None else state
        alpha = choose(own, attend, batch.x_mask.unsqueeze(1))
        return Trace(self.predict(self._context(alpha, h), s), alpha)

    def encode(self, batch: Batch, gate: Tensor | None = None) -> Encoded:
        """Encoder states, decoder states and the model's own attention; `gate` (B, L) scales source embeddings."""
        h, s = self._states(batch, gate)
        return Encoded(h, s, self._own(h, s, batch.x_mask))

    def beta(self, batch: Batch) -> Tensor:
        """Log-odds of y_t with every head on l alone: β of Eq. 4, all cells at once. (B, T, L)"""
        with torch.no_grad():
            h, s = self._states(batch, None)
            context, state = self.predict.parts(self._mix([h] * len(self.project)), s)
        return lexical_log_odds(context, state, self.predict.act, self.predict.outer, batch)

    @torch.no_grad()
    def translate(
        self,
        batch: Batch,
        *,
        beam: int = 1,
        limit: int = 100,
        length_power: float = 0.0,
        attend: Tensor | None = None,
    ) -> list[list[int]]:
        """Output ids without EOS for each source of `batch`; y is not read. `attend`, here (B, 1, L), as in `trace`."""
        step, start = self.stepwise(batch, attend)
        if beam == 1:
            return greedy(step, start, limit=limit)
        return beam_search(step, start, beam=beam, limit=limit, length_power=length_power)

    def stepwise(self, batch: Batch, attend: Tensor | None = None) -> tuple[Step, Carry]:
        """The decoder, one piece at a time, and the states to start from; the source is encoded once, here."""
        h, start = self._read(batch, None)
        seen = batch.x_mask.unsqueeze(1)  # (B, 1, L)

        def step(tokens: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
            s, carry = self.decoder.resume(self.embed[-1](tokens.reshape(-1, 1)), carry)  # (B * K, 1, H)
            s = s.view(*tokens.shape, -1)  # (B, K, H): beams take the place of T
            alpha = choose(self._own(h, s, batch.x_mask), attend, seen)
            return self.predict(self._context(alpha, h), s), carry

        return step, start

    def _states(self, batch: Batch, gate: Tensor | None) -> tuple[Tensor, Tensor]:
        """h, and s from the target shifted by one. (B, L, D), (B, T, H)"""
        h, start = self._read(batch, gate)
        bos = torch.full_like(batch.y[:, :1], BOS)
        s, _ = self.decoder.resume(self.embed[-1](torch.cat([bos, batch.y[:, :-1]], 1)), start)
        return h, s

    def _read(self, batch: Batch, gate: Tensor | None) -> tuple[Tensor, Carry]:
        """Encoder states (B, L, D), and the decoder's first: of each layer, the mean of the directions' last."""
        e = self.embed[0](batch.x)  # (B, L, H)
        e = e if gate is None else e * gate.to(e.dtype).unsqueeze(-1)
        h, final = self.encoder.read(e, batch.x_lengths)
        return h, tuple(part.mean(1, keepdim=True) for part in final)

    def _own(self, h: Tensor, s: Tensor, x_mask: Tensor) -> Tensor:
        """α = softmax(s_t · W h_l), zero on padding. (B, T, L), or (B, S, T, L) with several heads"""
        asked = torch.cat([look(s) for look in self.look], 1)  # (B, S * T, D)
        scores = (asked @ h.mT).masked_fill(~x_mask.unsqueeze(1), -torch.inf)  # (B, S * T, L)
        alpha = scores.softmax(-1)
        return alpha.view(len(h), len(self.look), s.shape[1], -1) if self.sites else alpha

    def _context(self, alpha: Tensor, h: Tensor) -> Tensor:
        """c_t from the states that each head looks at. (B, T, H)"""
        seen = alpha.flatten(1, -2) @ h  # (B, S * T, D)
        return self._mix(seen.chunk(len(self.project), 1))

    def _mix(self, seen: Sequence[Tensor]) -> Tensor:
        """What each head has seen, projected, then averaged or summed over heads."""
        contexts = [project(part) for project, part in zip(self.project, seen, strict=True)]
        return torch.stack(contexts).sum(0) * self.share if self.sites else contexts[0]


def _same(x: Tensor) -> Tensor:
    return x

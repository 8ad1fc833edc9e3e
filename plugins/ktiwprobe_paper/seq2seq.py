"""The paper's translation model (Section 2.1): recurrent encoder and decoder, dot attention, one hidden layer.

    a[t, l] = s_t · W h_l;   α_t = softmax(a_t);   c_t = P Σ_l α[t, l] h_l;   p_t = softmax N([c_t, s_t])

The decoder reads only the shifted target (no input feeding), so everything before the choice of α is one call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from ktiwprobe import Batch, Corpus, TorchModel, Trace, choose, option
from ktiwprobe.data import BOS
from ktiwprobe.errors import CorpusError, OptionError
from ktiwprobe.models.scoring import log_odds, nll_of_logits
from ktiwprobe.probes.definitions import delta_by_definition
from ktiwprobe_paper.decoding import Step, beam_search, greedy
from ktiwprobe_paper.drawing import redraw
from ktiwprobe_paper.lexical import Activation, lexical_log_odds
from ktiwprobe_paper.packed_lstm import Packing
from ktiwprobe_paper.products import linear
from ktiwprobe_paper.recurrent import Carry, Recurrent
from ktiwprobe_paper.saliency import Ends, Local, Tape, back_to_words

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
        return linear(c, of_c), linear(s, of_s, self.inner.bias)

    def forward(self, c: Tensor, s: Tensor) -> Tensor:
        """(B, T, H), (B, T, H) -> logits (B, T, V)"""
        of_c, of_s = self.parts(c, s)
        return linear(self.act(of_c + of_s), self.outer.weight, self.outer.bias)


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

    def loss(self, batch: Batch, *, attend: Tensor | None = None) -> Tensor:
        """Mean -log p over the real outputs."""
        return (
            nll_of_logits(*self._real_outputs(batch, attend), reduction="mean")
            if batch.y.is_cpu
            else super().loss(batch, attend=attend)
        )

    def evaluate(self, batch: Batch, *, attend: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs predicted right, outputs in all, and the sum of their -log p."""
        if not batch.y.is_cpu:
            return super().evaluate(batch, attend=attend)
        logits, y = self._real_outputs(batch, attend)
        return (logits.argmax(-1) == y).sum(), batch.y_mask.sum(), nll_of_logits(logits, y, reduction="sum")

    def _real_outputs(self, batch: Batch, attend: Tensor | None) -> tuple[Tensor, Tensor]:
        """Logits and ids of the N real outputs: on a CPU the product to V is worth sparing padding. (N, V), (N,)"""
        h, s, own = self.encode(batch)
        c = self._context(choose(own, attend, batch.x_mask.unsqueeze(1)), h)
        real = batch.y_mask.flatten().nonzero().squeeze(1)
        c, s, y = (part.flatten(0, 1).index_select(0, real) for part in (c, s, batch.y))
        return self.predict(c, s), y

    def beta(self, batch: Batch) -> Tensor:
        """Log-odds of y_t with every head on l alone: β of Eq. 4, all cells at once. (B, T, L)"""
        with torch.no_grad():
            h, s = self._states(batch, None)
            context, state = self.predict.parts(self._mix(h.repeat_interleave(len(self.project), 1)), s)
        return lexical_log_odds(context, state, self.predict.act, self.predict.outer, batch)

    def delta(self, batch: Batch, *, attend: Tensor | None = None) -> Tensor:
        """d log p(y_t) / d gate_l, all outputs in one pass back where that can be had: LSTMs on a CPU. (B, T, L)"""
        if not (batch.x.is_cpu and isinstance(self.decoder.layers[0], nn.LSTM)):
            return delta_by_definition(SimpleNamespace(trace=partial(self.trace, attend=attend)), batch)
        with torch.no_grad():
            return self._delta(batch, attend)

    def _delta(self, batch: Batch, attend: Tensor | None) -> Tensor:
        (B, L), T = batch.x.shape, batch.y.shape[1]
        places, outputs = Packing.of(batch.x_lengths, L), Packing.of(batch.y_mask.sum(1), T)
        reader = Tape.record(self.encoder, places.pack(self.embed[0](batch.x)), places)
        turn = places.back[outputs.order]
        starts = [Ends(*(part.mean(0, keepdim=True)[:, turn] for part in final)) for final in reader.finals]
        writer = Tape.record(self.decoder, outputs.pack(self.embed[-1](_shifted(batch.y))), outputs, starts)
        h, s = places.unpack(reader.out, B, L), outputs.unpack(writer.out, B, T)
        return back_to_words(self._local(h, s, batch, attend), reader, writer, (B, T, L))

    def _local(self, h: Tensor, s: Tensor, batch: Batch, attend: Tensor | None) -> Local:
        """What log p(y_t) owes to s_t and to each state, by all that follows the recurrent layers."""
        with torch.enable_grad():
            s, own = s.requires_grad_(), self._own(h, s, batch.x_mask).detach().requires_grad_()
            alpha = choose(own, attend, batch.x_mask.unsqueeze(1)).expand_as(own)
            seen = (self._by_output(alpha.detach()) @ h).requires_grad_()  # (B, T * S, W)
            c, real = self._mix(seen), batch.y_mask
            gamma = log_odds(Trace(self.predict(c[real], s[real]), alpha), replace(batch, y=batch.y[real]))  # (N,)
            dseen, ds = torch.autograd.grad(gamma, (seen, s), torch.sigmoid(-gamma.detach()))
            dalpha = self._by_head(dseen @ h.mT).view_as(alpha)
            down = torch.autograd.grad(alpha, own, dalpha)[0] if alpha.requires_grad else torch.zeros_like(own)
        own = own.detach()
        scores = self._by_output(own * (down - (own * down).sum(-1, keepdim=True)))  # through the softmax
        weight, _ = self._looks()
        ds = ds + (scores @ h).view(*s.shape[:2], -1) @ weight
        asked = self._asked(s.detach())
        parts = (self._by_output(alpha.detach()), dseen, scores, asked)
        return Local(ds, *(self._by_head(part) for part in parts))

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
        h, start = self._read(self.embed[0](batch.x), batch.x_lengths)
        seen = batch.x_mask.unsqueeze(1)  # (B, 1, L)

        def step(tokens: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
            s, carry = self.decoder.resume(self.embed[-1](tokens.reshape(-1, 1)), carry)  # (B * K, 1, H)
            s = s.view(*tokens.shape, -1)  # (B, K, H): beams take the place of T
            alpha = choose(self._own(h, s, batch.x_mask), attend, seen)
            return self.predict(self._context(alpha, h), s), carry

        return step, start

    def _states(self, batch: Batch, gate: Tensor | None) -> tuple[Tensor, Tensor]:
        """h, and s from the target shifted by one. (B, L, D), (B, T, H)"""
        source, target = self._embedded(batch.x, _shifted(batch.y))
        h, start = self._read(source if gate is None else source * gate.to(source.dtype).unsqueeze(-1), batch.x_lengths)
        s, _ = self.decoder.resume(target, start)
        return h, s

    def _embedded(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """A shared table is read once: its gradient is as large as the table, however few words were read."""
        if len(self.embed) > 1:
            return self.embed[0](x), self.embed[1](y)
        source, target = self.embed[0](torch.cat([x, y], 1)).split([x.shape[1], y.shape[1]], 1)
        return source, target

    def _read(self, embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Carry]:
        """Encoder states (B, L, D), and the decoder's first: of each layer, the mean of the directions' last."""
        h, final = self.encoder.read(embedded, lengths)
        return h, tuple(part.mean(1, keepdim=True) for part in final)

    def _own(self, h: Tensor, s: Tensor, x_mask: Tensor) -> Tensor:
        """α = softmax(s_t · W h_l), zero on padding. (B, T, L), or (B, S, T, L) with several heads"""
        scores = (self._asked(s) @ h.mT).masked_fill(~x_mask.unsqueeze(1), -torch.inf)  # (B, T * S, L)
        alpha = scores.softmax(-1)
        return self._by_head(alpha) if self.sites else alpha

    def _asked(self, s: Tensor) -> Tensor:
        """What each head looks for, W s_t. (B, T * S, D)"""
        return linear(s, *self._looks()).view(len(s), s.shape[1] * len(self.look), -1)

    def _looks(self) -> tuple[Tensor, Tensor]:
        """W of all heads as one, so that they cost one product. (S * D, H), (S * D,)"""
        weights, biases = zip(*((look.weight, look.bias) for look in self.look), strict=True)
        return torch.cat(weights), torch.cat(biases)

    def _context(self, alpha: Tensor, h: Tensor) -> Tensor:
        """c_t from the states that each head looks at. (B, T, H)"""
        return self._mix(self._by_output(alpha) @ h)

    def _mix(self, seen: Tensor) -> Tensor:
        """What the heads have seen (B, T * S, D), projected, then averaged or summed over heads. (B, T, H)"""
        weights, biases = zip(*((project.weight, project.bias) for project in self.project), strict=True)
        weight = torch.cat(weights, 1)  # (H, S * D): one product projects and sums
        return linear(seen.reshape(len(seen), -1, weight.shape[1]), weight, sum(biases)) * self.share

    def _by_output(self, x: Tensor) -> Tensor:
        """The heads of an output side by side. (B, T, L), or (B, S, T, L) -> (B, T * S, L)"""
        return x.transpose(1, 2).flatten(1, 2) if self.sites else x

    def _by_head(self, x: Tensor) -> Tensor:
        """(B, T * S, W) -> (B, S, T, W)"""
        return x.view(len(x), -1, len(self.look), x.shape[-1]).transpose(1, 2)


def _shifted(y: Tensor) -> Tensor:
    """What the decoder reads while it says y. (B, T)"""
    return torch.cat([torch.full_like(y[:, :1], BOS), y[:, :-1]], 1)


def _same(x: Tensor) -> Tensor:
    return x

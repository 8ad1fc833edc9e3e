"""Δ of the translation model without T passes back over the whole graph: all outputs go back through the LSTMs at once.

What follows the LSTMs is local: output t depends on s_t and on what it looked at, so one backward pass gives all T
gradients there. The LSTMs are then gone through once, each step with K = T gradients a sentence, in products as large
as the forward ones; no gradient of a weight is computed. Exact: the conformance kit holds it to the definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ktiwprobe_paper.packed_lstm import Memory, Packing, Weights, backward, forward, turned, unturned
from ktiwprobe_paper.products import multiply
from ktiwprobe_paper.recurrent import Recurrent

CELLS = 2**14  # gradients of K outputs at B * L positions at a time: bounds the memory, about 11 kB a cell at H = 256


class Played(NamedTuple):
    """A layer that has run."""

    x: Tensor  # (N, I)
    c0: Tensor  # (D, B, H)
    weights: Weights
    memory: Memory


class Ends(NamedTuple):
    """States, or gradients of them, of one layer; sentences longest first."""

    h: Tensor  # (D, B, H) or, of gradients, (D, B, K, H)
    c: Tensor


@dataclass(frozen=True, eq=False)
class Tape:
    """The layers of an LSTM over packed tokens, to go back through."""

    layers: Sequence[Played]
    packing: Packing

    @classmethod
    def record(cls, net: Recurrent, x: Tensor, packing: Packing, starts: Sequence[Ends] | None = None) -> Tape:
        """Run `net` over the tokens x (N, I), dropout off."""
        layers = []
        for n, layer in enumerate(net.layers):
            weights = Weights.of(layer)  # type: ignore[arg-type]
            D, _, H = weights.states.shape
            zero = x.new_zeros(D, len(packing.order), H)
            start = starts[n] if starts else Ends(zero, zero)
            memory = forward(x, start.h, start.c, weights, packing)
            layers.append(Played(x, start.c, weights, memory))
            x = unturned(memory.h, packing).flatten(1)
        return cls(layers, packing)

    @property
    def out(self) -> Tensor:
        """(N, D * H)"""
        return unturned(self.layers[-1].memory.h, self.packing).flatten(1)

    @property
    def finals(self) -> list[Ends]:
        """The last states of each layer."""
        last = self.packing.last
        return [Ends(layer.memory.h[:, last], layer.memory.c[:, last]) for layer in self.layers]

    def back(self, dout: Tensor, dfinals: Sequence[Ends] | None = None) -> tuple[Tensor, list[Ends]]:
        """From gradients of the output (N, K, D * H) and of the last states to Δ of each token and the first states.

        Δ (N, K) is gradient times input. A layer's input enters by P = W x alone, so there it is gradient times P.
        """
        starts: list[Ends] = []
        for n, layer in reversed(list(enumerate(self.layers))):
            D, _, H = layer.weights.states.shape
            dh = turned(dout.view(*dout.shape[:2], D, H).transpose(1, 2), self.packing).contiguous()  # (D, N, K, H)
            dc = dh.new_zeros(D, len(self.packing.order), dh.shape[2], H)
            if dfinals:
                dh[:, self.packing.last] += dfinals[n].h
                dc += dfinals[n].c
            found = backward(layer.memory, layer.c0, layer.weights.states, self.packing, dh, dc)
            starts.insert(0, Ends(found.h0, found.c0))
            if n:
                inputs = layer.weights.inputs.view(D, -1, layer.x.shape[1])  # (D, G, I)
                dx = multiply(found.gates.flatten(1, 2), inputs).view(*found.gates.shape[:3], -1)  # (D, N, K, I)
                dout = unturned(dx, self.packing).sum(1)
        first = self.layers[0]
        known = turned((first.x @ first.weights.inputs.t()).view(len(first.x), D, -1), self.packing)  # (D, N, G)
        return unturned(found.gates @ known.unsqueeze(-1), self.packing).sum(1).squeeze(-1), starts


class Local(NamedTuple):
    """Gradients of each output's own log p, before the LSTMs."""

    s: Tensor  # (B, T, H)
    weights: Tensor  # (B, S, T, L): of the states looked at, times `seen`
    seen: Tensor  # (B, S, T, W)
    scores: Tensor  # (B, S, T, L): of the states that attracted attention, times `asked`
    asked: Tensor  # (B, S, T, W)

    def of_states(self, rows: slice) -> Tensor:
        """d log p(y_t) / d h_l for the outputs in `rows`. (B, L, K, W)"""
        parts = ((self.weights, self.seen), (self.scores, self.asked))
        return sum(torch.einsum("bstl,bstw->bltw", a[:, :, rows], b[:, :, rows]) for a, b in parts)  # type: ignore[return-value]


def back_to_words(local: Local, reader: Tape, writer: Tape, shape: tuple[int, int, int]) -> Tensor:
    """Δ from the local gradients, a block of outputs at a time. (B, T, L), zero on padding"""
    B, T, L = shape
    block = max(1, CELLS // (B * L))
    return torch.cat([_block(local, reader, writer, shape, slice(t, min(t + block, T))) for t in range(0, T, block)], 1)


def _block(local: Local, reader: Tape, writer: Tape, shape: tuple[int, int, int], rows: slice) -> Tensor:
    """Δ of the outputs in `rows`. (B, K, L)"""
    (B, T, L), K = shape, rows.stop - rows.start
    to = torch.zeros(B, T, K, local.s.shape[-1], dtype=local.s.dtype)
    place = torch.arange(K)
    to[:, rows.start + place, place] = local.s[:, rows]
    _, dstarts = writer.back(writer.packing.pack(to.flatten(2)).view(-1, K, to.shape[-1]))
    turn = writer.packing.back[reader.packing.order]  # from the order of one packing to that of the other
    share = 1 / len(reader.layers[0].c0)  # the decoder starts from the mean over directions
    dfinals = [Ends(start.h[:, turn] * share, start.c[:, turn] * share) for start in dstarts]
    dh = local.of_states(rows)  # (B, L, K, W)
    found, _ = reader.back(reader.packing.pack(dh.flatten(2)).view(-1, K, dh.shape[-1]), dfinals)
    return reader.packing.unpack(found, B, L).transpose(1, 2)

"""An LSTM layer over real tokens only, for the CPU: no step of it is spent on padding.

torch's own CPU layer is as fast as its matrix products but knows padded batches only, and its packed sequences are
slower than either. Here tokens are laid out as packed sequences lay them (all first words, longest sentence
first, then all second words ...), so that what does not recur is one product over all of them; the backward direction
reads mirrored sentences in the same steps as the forward one. The backward pass takes K gradients at once, which makes
the K = T backward passes of Δ one, and computes no gradient of a weight that nobody asked for.

N is the number of real tokens, D of directions, G of gate units (4 H, in torch's order i, f, g, o).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ktiwprobe_paper.products import linear_into, multiply

ROWS = 512  # of the slopes at a time: more leave the cache, fewer take more calls


@dataclass(frozen=True, eq=False)
class Packing:
    """Where each token of a padded batch stands once packed; on the CPU."""

    order: Tensor  # (B,) sentences, longest first
    sizes: list[int]  # (longest,) sentences that have an l-th token
    token: Tensor  # (N,) b * L + l of each packed token
    mirror: Tensor  # (N,) the place of the token as far from the end of its sentence as this one is from the start
    last: Tensor  # (B,) the place of the last token of each sentence, longest first

    @classmethod
    def of(cls, lengths: Tensor, L: int) -> Packing:
        """The packing of sentences of `lengths`, padded to L."""
        order = lengths.argsort(descending=True, stable=True)
        length = lengths[order]
        place, rank = (length > torch.arange(int(length[0])).unsqueeze(1)).nonzero(as_tuple=True)  # (N,), (N,)
        sizes = place.bincount()
        start = sizes.cumsum(0) - sizes
        mirror = start[length[rank] - 1 - place] + rank
        return cls(
            order, sizes.tolist(), order[rank] * L + place, mirror, start[length - 1] + torch.arange(len(length))
        )

    @cached_property
    def back(self) -> Tensor:
        """(B,) where each sentence stands in `order`."""
        return self.order.argsort()

    def pack(self, x: Tensor) -> Tensor:
        """(B, L, W) -> (N, W)"""
        return x.flatten(0, 1).index_select(0, self.token)

    def unpack(self, x: Tensor, B: int, L: int) -> Tensor:
        """(N, W) -> (B, L, W), zero on padding"""
        return x.new_zeros(B * L, x.shape[1]).index_copy(0, self.token, x).view(B, L, -1)


class Weights(NamedTuple):
    """Of all directions of a layer."""

    inputs: Tensor  # (D * G, I)
    states: Tensor  # (D, G, H)
    bias: Tensor  # (D * G,)

    @classmethod
    def of(cls, layer: nn.RNNBase) -> Weights:
        """The layer's own, as autograd follows them."""
        w_ih, w_hh, b_ih, b_hh = zip(*layer.all_weights, strict=True)
        return cls(torch.cat(w_ih), torch.stack(w_hh), torch.cat(b_ih) + torch.cat(b_hh))

    def by_direction(self) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """What meets the inputs: (G, I) and (G,) of each direction."""
        D = len(self.states)
        return self.inputs.chunk(D), self.bias.chunk(D)


class Memory(NamedTuple):
    """What a forward pass leaves for a backward pass."""

    gates: Tensor  # (D, N, G) after their nonlinearities
    c: Tensor  # (D, N, H)
    squashed: Tensor  # (D, N, H) tanh c
    h: Tensor  # (D, N, H)


def run(
    layer: nn.RNNBase, x: Tensor, packing: Packing, start: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """The layer over packed tokens x (N, I). Output (N, D * H) and final c (D, B, H), sentences longest first.

    `start` are h and c, each (D, B, H), sentences longest first; None means zero.
    """
    zero = x.new_zeros(2 if layer.bidirectional else 1, len(packing.order), layer.hidden_size)
    h, c = start or (zero, zero)
    out, c = _Layer.apply(x, h, c, *Weights.of(layer), packing)  # type: ignore[no-untyped-call]
    return out, c


def forward(x: Tensor, h0: Tensor, c0: Tensor, weights: Weights, packing: Packing) -> Memory:
    """All states, in the order in which each direction reads."""
    D, G, H = weights.states.shape
    gates = x.new_empty(D, len(x), G)
    for gate, read, w, b in zip(gates, _as_read(x, D, packing), *weights.by_direction(), strict=True):
        linear_into(gate, read, w, b)
    c, squashed, h = (gates.new_empty(D, len(x), H) for _ in range(3))
    recur, sizes = weights.states.mT, packing.sizes
    steps = zip(*(torch.split(part, sizes, 1) for part in (gates, c, squashed, h)), strict=True)
    for gate, c_now, squashed_now, h_now in steps:
        n = gate.shape[1]
        gate.baddbmm_(h0[:, :n], recur)
        i_and_f, g, o = torch.split(gate, [2 * H, H, H], -1)
        i, f = i_and_f.sigmoid_().chunk(2, -1)
        torch.mul(f, c0[:, :n], out=c_now)
        c_now.addcmul_(i, g.tanh_())
        torch.tanh(c_now, out=squashed_now)
        torch.mul(o.sigmoid_(), squashed_now, out=h_now)
        h0, c0 = h_now, c_now
    return Memory(gates, c, squashed, h)


class Backward(NamedTuple):
    """Gradients of K numbers."""

    gates: Tensor  # (D, N, K, G) before their nonlinearities, in the order in which each direction reads
    h0: Tensor  # (D, B, K, H)
    c0: Tensor  # (D, B, K, H)


def backward(memory: Memory, c0: Tensor, states: Tensor, packing: Packing, dh: Tensor, dc: Tensor) -> Backward:
    """From dh (D, N, K, H), in reading order, and dc (D, B, K, H) of the final c. `dh` is used up."""
    D, N, K, H = dh.shape
    slopes, of_c, f = _slopes(memory, _before(memory.c, c0, packing))
    dgates = slopes.unsqueeze(2) if K == 1 else dh.new_empty(D, N, K, 4, H)  # in the same place if there is one of each
    dh_next, dc = torch.zeros_like(dc), dc.clone()  # of rows that have not ended yet: their first
    steps = zip(*(torch.split(part, packing.sizes, 1) for part in (dgates, dh, slopes, of_c, f)), strict=True)
    for dgate, dh_now, slope, of_c_now, f_now in reversed(list(steps)):
        n = dgate.shape[1]
        dc_now, dh_before = dc[:, :n], dh_next[:, :n]
        dh_now += dh_before
        dc_now.addcmul_(dh_now, of_c_now.unsqueeze(2))
        torch.mul(dc_now.unsqueeze(3), slope[:, :, None, :3], out=dgate[:, :, :, :3])
        torch.mul(dh_now, slope[:, :, None, 3], out=dgate[:, :, :, 3])
        dh_before.copy_(multiply(dgate.reshape(D, n * K, 4 * H), states).view(D, n, K, H))
        dc_now *= f_now.unsqueeze(2)
    return Backward(dgates.view(D, N, K, 4 * H), dh_next, dc)


def _slopes(memory: Memory, c_before: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All that turns dc and dh of a step into gradients of its gates, for every step at once.

    (D, N, 4, H) for gates i, f, g (times dc) and o (times dh); (D, N, H) from dh to dc; and f.
    """
    D, N, H = memory.h.shape
    gates = memory.gates.view(D, N, 4, H)
    slopes, of_c = torch.empty_like(gates), torch.empty_like(memory.c)
    whole = (gates, memory.squashed, c_before, slopes, of_c)
    for gate, squashed, before, slope, to_c in zip(*(torch.split(part, ROWS, 1) for part in whole), strict=True):
        i, f, g, o = gate.unbind(2)
        torch.mul(i - i * i, g, out=slope[:, :, 0])
        torch.mul(f - f * f, before, out=slope[:, :, 1])
        torch.mul(1 - g * g, i, out=slope[:, :, 2])
        torch.mul(o - o * o, squashed, out=slope[:, :, 3])
        torch.mul(o, 1 - squashed * squashed, out=to_c)
    return slopes, of_c, gates[:, :, 1]


def _before(states: Tensor, first: Tensor, packing: Packing) -> Tensor:
    """The states (D, N, H) one step earlier; `first` (D, B, H) at the first step."""
    shifted = [
        first,
        *(now[:, :n] for now, n in zip(torch.split(states, packing.sizes, 1), packing.sizes[1:], strict=False)),
    ]
    return torch.cat(shifted, 1)


def turned(x: Tensor, packing: Packing) -> Tensor:
    """(N, D, ...) in the order of the text -> (D, N, ...) in the order in which each direction reads."""
    if x.shape[1] == 1:
        return x.transpose(0, 1)
    return torch.stack([x[:, 0], x[:, 1].index_select(0, packing.mirror)])


def unturned(x: Tensor, packing: Packing) -> Tensor:
    """(D, N, ...) in reading order -> (N, D, ...) in the order of the text."""
    if len(x) == 1:
        return x.transpose(0, 1)
    return torch.stack([x[0], x[1].index_select(0, packing.mirror)], 1)


def _as_read(x: Tensor, D: int, packing: Packing) -> list[Tensor]:
    """Tokens (N, I) in the order in which each of D directions reads them."""
    return [x] if D == 1 else [x, x.index_select(0, packing.mirror)]


def _of_text(parts: Sequence[Tensor], packing: Packing) -> Tensor:
    """The sum over directions of what was found in reading order, in the order of the text. (N, I)"""
    forwards, *backwards = parts
    return sum((part.index_select(0, packing.mirror) for part in backwards), forwards)


def _of_inputs(read: Sequence[Tensor], dgates: Tensor) -> Tensor:
    """The gradient of the inputs' weights; oneDNN copies a transposed first factor, and x is the smaller. (D * G, I)"""
    return torch.cat([multiply(x.t(), d).t() for x, d in zip(read, dgates, strict=True)])


class _Layer(torch.autograd.Function):
    """`forward` and `backward` as autograd wants them, K = 1."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, h0: Tensor, c0: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        *weights, packing = rest
        memory = forward(x, h0, c0, Weights(*weights), packing)
        ctx.save_for_backward(x, h0, c0, weights[0], weights[1], *memory)
        ctx.packing = packing
        final = memory.c.index_select(1, packing.last)
        return unturned(memory.h, packing).flatten(1), final

    @staticmethod
    def backward(ctx: Any, dout: Tensor, dc: Tensor) -> tuple[Tensor | None, ...]:
        x, h0, c0, inputs, states, *memory = ctx.saved_tensors
        kept, packing, (D, _, H) = Memory(*memory), ctx.packing, states.shape
        dh = turned(dout.view(-1, D, H), packing).clone().unsqueeze(2)
        found = backward(kept, c0, states, packing, dh, dc.unsqueeze(2))
        dgates = found.gates.squeeze(2)  # (D, N, G)
        of_x, of_h0, of_c0, of_inputs, of_states, of_bias, _ = ctx.needs_input_grad
        return (
            _of_text([multiply(d, w) for d, w in zip(dgates, inputs.chunk(D), strict=True)], packing) if of_x else None,
            found.h0.squeeze(2) if of_h0 else None,
            found.c0.squeeze(2) if of_c0 else None,
            _of_inputs(_as_read(x, D, packing), dgates) if of_inputs else None,
            multiply(_before(kept.h, h0, packing).mT, dgates).mT if of_states else None,
            dgates.sum(1).flatten() if of_bias else None,
            None,
        )

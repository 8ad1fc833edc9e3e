"""LSTM and GRU layers on padded batches, exact: padding reaches neither a real position nor a final state.

Packed sequences would do the same and are what CUDA gets, whose kernels know them. On a CPU they cost more than the
layer itself, so there each input carries one more feature, 'is padding', whose fixed weight saturates the gates that
make a cell keep what it has; and where most of a batch is padding, LSTMs run over its real tokens only (packed_lstm).
Not a model of its own: the parameters are those of ordinary `nn.LSTM` and `nn.GRU`.
"""

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ktiwprobe_paper import packed_lstm

Cell = Literal["lstm", "gru"]
Carry = tuple[Tensor, ...]  # (h, c) of an LSTM, (h,) of a GRU; each (layers, directions, B, H)
Run = Callable[[int, nn.RNNBase, Tensor], tuple[Tensor, Carry]]  # layer number, layer, input -> output, final states

SATURATED = 1e4  # sigmoid(±1e4) is exactly 1 and 0, in half precision too
PACK_ABOVE = 2.2  # positions for each real token: packing pays from 1.4 with MKL at full speed, on AMD from 2 to 2.6
KEEP = {"lstm": (-SATURATED, SATURATED, 0.0, 0.0), "gru": (0.0, SATURATED, 0.0)}  # on gates i, f, g, o and r, z, n


class Recurrent(nn.Module):
    """Layers of one cell, dropout between them and nowhere else."""

    keep: Tensor  # (gates * H, 1): what padding adds to each gate

    def __init__(
        self, cell: Cell, width: int, hidden: int, *, layers: int = 1, bidirectional: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        kind = nn.LSTM if cell == "lstm" else nn.GRU
        self.width = hidden * (2 if bidirectional else 1)
        widths = [width] + [self.width] * (layers - 1)
        self.layers = nn.ModuleList(kind(w, hidden, batch_first=True, bidirectional=bidirectional) for w in widths)
        self.dropout = dropout
        self.register_buffer("keep", torch.tensor(KEEP[cell]).repeat_interleave(hidden).unsqueeze(1), persistent=False)

    def read(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Carry]:
        """Run from zero states over sentences of `lengths` (on the CPU), then padding. (B, L, width), finals

        The output on padding is finite and means nothing.
        """
        if int(lengths.min()) == x.shape[1]:
            return self._through(x, lambda _, layer, x: plain(layer, x))
        if x.is_cuda:
            return self._through(x, lambda _, layer, x: packed(layer, x, lengths))
        if x.is_cpu and self.worth_packing(lengths, x.shape[1]):
            packing = packed_lstm.Packing.of(lengths, x.shape[1])
            tokens, finals = self.read_tokens(packing.pack(x), packing)
            return packing.unpack(tokens, *x.shape[:2]), finals
        return self._through(x, lambda _, layer, x: padded(layer, x, lengths, self.keep))

    def worth_packing(self, lengths: Tensor, L: int) -> bool:
        """Whether a batch padded to L has so much padding that a CPU does better with its real tokens alone."""
        return isinstance(self.layers[0], nn.LSTM) and lengths.numel() * L > PACK_ABOVE * int(lengths.sum())

    def read_tokens(self, tokens: Tensor, packing: packed_lstm.Packing) -> tuple[Tensor, Carry]:
        """As `read`, over the real tokens only (LSTMs). (N, width), finals"""
        return self._through(tokens, lambda _, layer, x: real_tokens(layer, x, packing))

    def resume(self, x: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Run on from `carry`, forwards; padding comes last and only its own output is wrong. (B, T, width), finals"""
        return self._through(x, lambda n, layer, x: plain(layer, x, tuple(part[n].contiguous() for part in carry)))

    def _through(self, x: Tensor, run: Run) -> tuple[Tensor, Carry]:
        finals = []
        for n, layer in enumerate(self.layers):
            x, final = run(n, layer, drop(x, self.dropout) if n and self.training else x)  # type: ignore[arg-type]
            finals.append(final)
        return x, tuple(torch.stack(parts) for parts in zip(*finals, strict=True))


def drop(x: Tensor, p: float) -> Tensor:
    """Dropout; on a CPU that is not Intel's, torch's own takes four times as long to draw what to keep."""
    if not (x.is_cpu and 0 < p < 1):
        return F.dropout(x, p)
    return x * torch.rand_like(x).ge_(p).mul_(1 / (1 - p))


def plain(layer: nn.RNNBase, x: Tensor, start: Carry = ()) -> tuple[Tensor, Carry]:
    """The layer as torch runs it. (B, L, width), each final (directions, B, H)"""
    out, final = layer(x, start if len(start) > 1 else start[0]) if start else layer(x)
    return out, final if isinstance(final, tuple) else (final,)


def packed(layer: nn.RNNBase, x: Tensor, lengths: Tensor) -> tuple[Tensor, Carry]:
    """The layer over packed sentences. (B, L, width), each final (directions, B, H)"""
    sequence = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    out, final = layer(sequence)
    out, _ = pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])
    return out, final if isinstance(final, tuple) else (final,)


def real_tokens(layer: nn.RNNBase, x: Tensor, packing: packed_lstm.Packing) -> tuple[Tensor, Carry]:
    """An LSTM over packed tokens (N, width). (N, width), each final (directions, B, H)"""
    out, c = packed_lstm.run(layer, x, packing)
    h = out.view(len(out), len(c), -1).transpose(0, 1)  # (directions, N, H)
    ends = packing.last, torch.arange(len(packing.order))  # forwards the last token is the end, backwards the first
    h = torch.stack([part[end] for part, end in zip(h, ends, strict=False)])
    return out, (h[:, packing.back], c[:, packing.back])


def padded(layer: nn.RNNBase, x: Tensor, lengths: Tensor, keep: Tensor) -> tuple[Tensor, Carry]:
    """The layer over padding that it does not notice. (B, L, width), each final (directions, B, H)

    On padding i = 0 and f = 1 (LSTM) or z = 1 (GRU). Backwards, where padding comes first, the states stay zero;
    forwards, where it comes last, c stays what it was, and h is read off the output at the last real position.
    """
    B, L, _ = x.shape
    beyond = torch.arange(L) >= lengths.unsqueeze(1)  # (B, L)
    x = torch.cat([x, beyond.unsqueeze(-1).to(x)], -1)  # (B, L, width + 1)
    weights = [w for w_ih, *rest in layer.all_weights for w in (torch.cat([w_ih, keep], 1), *rest)]
    zero = x.new_zeros(len(layer.all_weights), B, layer.hidden_size)
    how = (True, 1, 0.0, layer.training, layer.bidirectional, True)
    if isinstance(layer, nn.LSTM):
        out, h, *c = torch.lstm(x, (zero, zero), weights, *how)
    else:
        out, h, *c = torch.gru(x, zero, weights, *how)
    forward = out[torch.arange(B), lengths - 1, : layer.hidden_size]  # (B, H)
    return out, (torch.cat([forward.unsqueeze(0), h[1:]]), *c)

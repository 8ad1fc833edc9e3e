"""The lexical probe β of the translation model in closed form: every (t, l) at once instead of a pass for each l.

Attending to l alone makes the context h_l, so N's first layer splits into a part of l and a part of t, each computed
once. What remains is a matrix product to V logits for each cell, of which only one number is kept.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ktiwprobe import Batch
from ktiwprobe_paper.products import multiply

LOG2E = math.log2(math.e)
BLOCK = {"cpu": 3 * 2**20, "cuda": 2**26}  # numbers in flight: what a CPU's cache holds, what keeps a GPU busy
COLUMNS = 2048  # of the vocabulary at a time; with BLOCK the fastest of the shapes tried, from 128 x 8000 to 4096 x 500
UNDERFLOW = 1e-25  # a sum of exponentials below this has lost terms

Activation = Callable[[Tensor], Tensor]


@torch.no_grad()
def lexical_log_odds(context: Tensor, state: Tensor, act: Activation, output: nn.Linear, batch: Batch) -> Tensor:
    """γ[t, l] = logit_y - logsumexp(other logits) of logits = W act(context_l + state_t) + b. (B, T, L)

    `context` (B, L, H), `state` (B, T, H); cells on padding are zero.
    """
    real = batch.y_mask.unsqueeze(-1) & batch.x_mask.unsqueeze(1)  # (B, T, L)
    cells = real.flatten().nonzero().squeeze(-1)  # (N,)
    T, L = real.shape[1:]
    t_rows, l_rows = cells // L, cells // (T * L) * L + cells % L  # of state, of context
    gamma = context.new_zeros(real.numel())  # before the block: what outlives it must not lie above it in the heap
    score = Scorer.of(output, size=BLOCK.get(context.device.type, BLOCK["cuda"]))
    state, context, y = state.flatten(0, 1), context.flatten(0, 1), batch.y.flatten()
    for n in range(0, len(cells), score.rows):
        cell, t, ell = (index[n : n + score.rows] for index in (cells, t_rows, l_rows))
        hidden = act(state.index_select(0, t).add_(context.index_select(0, ell)))  # (rows, H)
        gamma[cell] = score(hidden, y[t])
    return gamma.view_as(real)


@dataclass(frozen=True, slots=True)
class Scorer:
    """Log-odds of the right output from hidden rows, in one block of memory used again and again.

    Sums 2^(logit / ln 2) without first subtracting the largest logit, with the bias as a factor e^b of the sum: both
    save a pass over the block. Rows for which that overflows or underflows are done again the careful way.
    """

    output: nn.Linear
    tables: tuple[Tensor, ...]  # (H, C) each: columns of the weight in units of ln 2, laid out for the product
    factors: tuple[Tensor, ...]  # (C,) each: e^b
    rows: int  # at a time
    block: Tensor  # (rows * C,)

    @classmethod
    def of(cls, output: nn.Linear, *, size: int) -> "Scorer":
        """A scorer of about `size` numbers at a time."""
        V, H = output.weight.shape
        parts = -(-V // COLUMNS)
        tables = tuple((part.t() * LOG2E).contiguous() for part in output.weight.chunk(parts))
        C = tables[0].shape[1]
        rows = max(1, size // (C + 4 * H))
        return cls(output, tables, output.bias.exp().chunk(parts), rows, output.weight.new_empty(rows * C))

    def __call__(self, hidden: Tensor, y: Tensor) -> Tensor:
        """γ of `y` (N,) for `hidden` (N, H). (N,)"""
        N, first = len(y), 0
        right, others = hidden.new_zeros(N), hidden.new_zeros(N)
        for table, factor in zip(self.tables, self.factors, strict=True):
            C = len(factor)
            logits = multiply(hidden, table, self.block[: N * C].view(N, C))  # in units of ln 2, bias left out
            right += _take(logits, y - first)
            others += logits.exp2_() @ factor
            first += C
        gamma = right / LOG2E + self.output.bias[y] - others.log()
        unsafe = ~((others > UNDERFLOW) & (others < torch.inf))
        if bool(unsafe.any()):
            gamma[unsafe] = self._carefully(hidden[unsafe], y[unsafe])
        return gamma

    def _carefully(self, hidden: Tensor, y: Tensor) -> Tensor:
        logits: Tensor = self.output(hidden)  # (N, V)
        right = logits.gather(1, y.unsqueeze(1)).squeeze(1)
        others = logits.scatter_(1, y.unsqueeze(1), -torch.inf).logsumexp(1)
        return right - others


def _take(logits: Tensor, y: Tensor) -> Tensor:
    """Take the logit of y out of each row that has it, leaving -inf; 0 where y is not among these columns. (N,)"""
    place = y.clamp(0, logits.shape[1] - 1)
    here = place == y
    found = logits.gather(1, place.unsqueeze(1)).squeeze(1)
    logits.scatter_(1, place.unsqueeze(1), found.masked_fill(here, -torch.inf).unsqueeze(1))
    return found.masked_fill(~here, 0)

"""The lexical probe β of the translation model in closed form: every (t, l) at once instead of a pass for each l.

Attending to l alone makes the context h_l, so N's first layer splits into a part of l and a part of t, each computed
once. What remains is a matrix product to V logits for each cell, of which only one number is kept.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ktiwprobe import Batch

LOG2E = math.log2(math.e)
BLOCK = {"cpu": 2**23, "cuda": 2**26}  # numbers in flight; on a CPU measured best between 2**22 and 2**23
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
    at_t, at_l = cells // L, cells // (T * L) * L + cells % L  # rows of state, of context
    score = Scorer.of(output, BLOCK.get(context.device.type, 2**23), most=len(cells))
    state, context, y = state.flatten(0, 1), context.flatten(0, 1), batch.y.flatten()
    gamma = context.new_zeros(real.numel())
    for n in range(0, len(cells), score.rows):
        part = slice(n, n + score.rows)
        hidden = act(state[at_t[part]].add_(context[at_l[part]]))  # (rows, H)
        gamma[cells[part]] = score(hidden, y[at_t[part]])
    return gamma.view_as(real)


@dataclass(frozen=True, slots=True)
class Scorer:
    """Log-odds of the right output from hidden rows, in one block of memory used again and again.

    Sums 2^(logit / ln 2) without first subtracting the largest logit, with the bias as a factor e^b of the sum: both
    save a pass over the block. Rows for which that overflows or underflows are done again the careful way.
    """

    weight: Tensor  # (V, H)
    bias: Tensor  # (V,)
    factor: Tensor  # (V,) e^b
    rows: int
    block: Tensor  # (V * rows,)

    @classmethod
    def of(cls, output: nn.Linear, size: int, *, most: int) -> "Scorer":
        """A scorer for at most `most` rows at a time, and as many as make about `size` numbers."""
        V, H = output.weight.shape
        rows = max(1, min(most, size // (V + 4 * H)))
        weight, bias = output.weight.detach(), output.bias.detach()
        return cls(weight, bias, bias.exp(), rows, weight.new_empty(V * rows))

    def __call__(self, hidden: Tensor, y: Tensor) -> Tensor:
        """γ of `y` (N,) for `hidden` (N, H). (N,)"""
        logits = self.block[: len(self.bias) * len(y)].view(-1, len(y))  # (V, N), in units of ln 2, bias left out
        torch.mm(self.weight, (hidden * LOG2E).t(), out=logits)
        right = logits.gather(0, y.unsqueeze(0)).squeeze(0)  # (N,)
        others = self.factor @ logits.scatter_(0, y.unsqueeze(0), -torch.inf).exp2_()  # (N,)
        gamma = right / LOG2E + self.bias[y] - others.log()
        unsafe = ~((others > UNDERFLOW) & (others < torch.inf))
        if bool(unsafe.any()):
            gamma[unsafe] = self._carefully(hidden[unsafe], y[unsafe])
        return gamma

    def _carefully(self, hidden: Tensor, y: Tensor) -> Tensor:
        logits = F.linear(hidden, self.weight, self.bias)  # (N, V)
        right = logits.gather(1, y.unsqueeze(1)).squeeze(1)
        return right - logits.scatter_(1, y.unsqueeze(1), -torch.inf).logsumexp(1)

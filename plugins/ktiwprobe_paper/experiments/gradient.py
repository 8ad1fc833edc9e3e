"""The first gradient of the proxy is the count table (Sections 4.1 and A.2).

    d/dτ (W e_i)_o  ->  2 (C[i, o] - mean over o' of C[i, o'])    as d grows, for e, W ~ N(0, I/d)

Autograd gives the gradient flow of the full loss; nothing of the derivation is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ktiwprobe.claims.measures import median
from ktiwprobe.experiments import Context, Result
from ktiwprobe.plots import trials
from ktiwprobe.plugins.options import options_of
from ktiwprobe_paper.experiments.counts import sample
from ktiwprobe_paper.ibm1 import bags, count_table

WIDTHS = (64, 256, 1024, 4096, 16384)
SENTENCES = 1000
KINDS = ("logits", "probabilities, times |O|", "probabilities, as in the text")
HALF = -0.5  # the slope that the central limit theorem gives


class Problem(NamedTuple):
    """A corpus as the proxy sees it, and what the claim says of it."""

    inputs: Tensor  # (M, I) share of each input word in each sentence
    outputs: Tensor  # (M, O) counts of output words
    target: Tensor  # (I, O): 2 (C - mean C)


class InitialGradient:
    """Autograd of the proxy at its initialisation, for growing widths."""

    claim: ClassVar[str] = (
        "When the proxy's training starts, its logits W e move by 2(C - mean C), exactly so as the width d grows "
        "(Equation 13, Appendix A.2)."
    )
    seeds: ClassVar[Sequence[int]] = range(5)
    small_seeds: ClassVar[Sequence[int]] = range(2)
    takes: ClassVar[Sequence[str]] = ("seeds", "task")

    def run(self, context: Context) -> Result:
        """Relative errors of the two readings of the claim, by width."""
        problem = make_problem(context)
        widths = WIDTHS[:3] if context.small else WIDTHS
        errors = {(d, seed): errors_at(problem, d, seed) for d in widths for seed in context.seeds}
        logits, odds, text = (
            [{d: errors[d, seed][kind] for d in widths} for seed in context.seeds] for kind in range(3)
        )
        medians = [float(np.median([e[d] for e in logits])) for d in widths]
        slope = float(np.polyfit(np.log(widths), np.log(medians), 1)[0])
        return Result(
            verdict=f"The relative error of the logits' first gradient falls from {medians[0]:.2g} at d = {widths[0]} "
            f"to {medians[-1]:.2g} at d = {widths[-1]}, as d to the power {slope:.2f} (the limit theorem: {HALF}).",
            holds=abs(slope - HALF) < 0.1,
            table=[
                {
                    "d": d,
                    "error of logits (theta-hat)": median(e[d] for e in logits),
                    "error of probabilities, with 1/|O|": median(e[d] for e in odds),
                    "error of probabilities, as in the text": median(e[d] for e in text),
                    "paper": "-> 0",
                }
                for d in widths
            ],
            curves=[
                {"d": d, "seed": seed, "logits": e[0], "probabilities": e[1], "probabilities_as_in_text": e[2]}
                for (d, seed), e in errors.items()
            ],
            figures={
                "error": trials(
                    {"first gradient against 2(C - mean C)": dict(zip(KINDS, (logits, odds, text), strict=True))},
                    ylabel="relative error",
                    xlabel="width d",
                    scale=("log", "log"),
                )
            },
            notes=[
                "Error: Frobenius norm of the difference, relative to that of the claim's right side; medians over "
                f"{len(context.seeds)} draws of W and e. {len(problem.inputs)} sentence pairs, |O| = "
                f"{problem.outputs.shape[1]}.",
                "Equation 13 speaks of theta, the probability softmax(W e); Appendix A.2 derives the limit for the "
                "logits theta-hat = W e. For probabilities the chain rule leaves a factor 1/|O|: with it the error "
                "falls too, without it (as in the text) it stays near 1.",
            ],
        )


def make_problem(context: Context) -> Problem:
    """Bags of words of a sample of the training split."""
    owner = context.registry.load("tasks", context.task or "toy-translation")
    corpus = owner().load(options_of(owner)())
    split = sample(corpus, 200 if context.small else SENTENCES)
    I, O = corpus.source_size, corpus.target_size  # noqa: E741
    inputs = bags(split.x, I).toarray() / split.x.lengths[:, None]
    outputs = bags(split.y, O).toarray()
    C = torch.from_numpy(count_table(split, I, O).toarray())
    target = 2 * (C - C.mean(1, keepdim=True))
    return Problem(torch.from_numpy(inputs).float(), torch.from_numpy(outputs).float(), target.float())


def errors_at(problem: Problem, d: int, seed: int) -> tuple[float, float, float]:
    """Relative errors for one draw: of the logits, of the probabilities with 1/|O|, and without it."""
    generator = torch.Generator().manual_seed(seed)
    I, O = problem.inputs.shape[1], problem.outputs.shape[1]  # noqa: E741
    e, W = ((torch.randn(n, d, generator=generator) * d**-0.5).requires_grad_() for n in (I, O))
    log_p = (problem.inputs @ e @ W.T).log_softmax(1)  # (M, O)
    loss = -(problem.outputs * log_p).sum()
    de, dW = torch.autograd.grad(loss, (e, W))
    with torch.no_grad():
        moved = -(de @ W.T + e @ dW.T)  # d/dτ of W e_i under gradient flow. (I, O)
        theta = (e @ W.T).softmax(1)
        moved_theta = theta * (moved - (theta * moved).sum(1, keepdim=True))
        target = problem.target
        norm = target.norm()
        return (
            float((moved - target).norm() / norm),
            float((moved_theta * O - target).norm() / norm),
            float((moved_theta - target).norm() / norm),
        )

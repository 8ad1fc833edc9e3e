"""Attention alone learns little (Appendix A.6): A(alpha, alpha-fr) against A(alpha, beta-uf)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ktiwprobe import Run
from ktiwprobe.agreement import Agreement
from ktiwprobe.experiments import Context, Result
from ktiwprobe.plots import trials
from ktiwprobe.sweep import Job

PAPER = {  # A(alpha, alpha-fr), A(alpha, beta-uf) in percent
    "imdb": (9, 53),
    "ag-news": (17, 39),
    "20-newsgroups": (19, 65),
    "sst": (14, 20),
    "amazon": (15, 52),
    "yelp": (8, 18),
}
KINDS = ("learned", "uniform", "frozen-beta")


class FrozenBeta:
    """Train the attention only, or everything but the attention, and compare with a model that trains both."""

    claim: ClassVar[str] = (
        "Attention that is trained while all else is frozen at its first values agrees less with ordinary attention "
        "than word knowledge does that is trained without any attention (Appendix A.6)."
    )
    seeds: ClassVar[Sequence[int]] = range(5)
    small_seeds: ClassVar[Sequence[int]] = range(2)
    takes_task: ClassVar[bool] = True

    def run(self, context: Context) -> Result:
        """For each seed its own attention, against frozen and uniform runs of the next seed."""
        task = context.task or "toy-sentiment"
        options: dict[str, Any] = {"hidden": 64, "embedding": 64, "task.train": 2000} if context.small else {}
        jobs = {
            (kind, seed): Job("lstm-classifier", task, seed, kind, context.steps, options)
            for seed in context.seeds
            for kind in KINDS
        }
        runs = dict(zip(jobs, context.train(jobs.values()), strict=True))
        rows = []
        for seed, other in zip(context.seeds, _next(context.seeds), strict=True):
            alpha = runs["learned", seed]
            frozen = _agree(context, alpha, runs["frozen-beta", other], "alpha")
            uniform = _agree(context, alpha, runs["uniform", other], "beta")
            rows.append((seed, other, frozen, uniform))
        return _result(task, rows, runs)


def _agree(context: Context, alpha: Run, other: Run, probe: str) -> Agreement:
    """A(alpha, v): alpha at its best, v where it agrees most."""
    return context.agree(f"{alpha.name}:alpha@best", f"{other.name}:{probe}@max")


def _next(seeds: Sequence[int]) -> list[int]:
    return [*seeds[1:], seeds[0]]


def _result(task: str, rows: Sequence[Any], runs: Any) -> Result:
    paper = PAPER.get(task, (None, None))
    table = [
        {
            "seed of alpha": seed,
            "seed of the others": other,
            "A(alpha, alpha-fr)": frozen.value,
            "A(alpha, beta-uf)": uniform.value,
            "chance": frozen.baseline,
        }
        for seed, other, frozen, uniform in rows
    ]
    means = [
        float(np.mean([row[key] for row in table])) for key in ("A(alpha, alpha-fr)", "A(alpha, beta-uf)", "chance")
    ]
    lower = sum(row["A(alpha, alpha-fr)"] < row["A(alpha, beta-uf)"] for row in table)
    mean = {"seed of alpha": "mean", "seed of the others": None, "A(alpha, alpha-fr)": means[0]}
    paper_row = {"seed of alpha": "paper", "A(alpha, alpha-fr)": paper[0], "A(alpha, beta-uf)": paper[1]}
    accuracies = {kind: [dict(run.performance()) for (k, _), run in runs.items() if k == kind] for kind in KINDS}
    return Result(
        verdict=f"On {task}, frozen beta agrees less than uniform attention's beta for {lower} of {len(table)} seeds "
        f"(means {means[0]:.2f} and {means[1]:.2f}, chance {means[2]:.2f}).",
        holds=lower == len(table),
        table=[
            *table,
            {**mean, "A(alpha, beta-uf)": means[1], "chance": means[2]},
            *([paper_row] if paper[0] is not None else []),
        ],
        curves=[
            {"training": kind, "seed": seed, "step": step, "accuracy": value}
            for (kind, seed), run in runs.items()
            for step, value in run.performance().items()
        ],
        figures={
            "accuracy": trials(
                {f"lstm-classifier on {task}": accuracies},
                ylabel="validation accuracy",
                scale=("symlog", "linear"),
                each=False,
            )
        },
        notes=[
            "Alpha is read at its run's best checkpoint, the other signal at the checkpoint where it agrees most.",
            *(
                []
                if paper[0] is not None
                else [f"The paper has no {task}; its six data sets have 8-19 % against 18-65 %."]
            ),
        ],
    )

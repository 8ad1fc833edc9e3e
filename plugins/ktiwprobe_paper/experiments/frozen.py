"""Attention alone learns little (Appendix A.6): A(alpha, alpha-fr) against A(alpha, beta-uf)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ktiwprobe import Run
from ktiwprobe.claims.measures import Points
from ktiwprobe.compare.agreement import Agreement
from ktiwprobe.experiments import Context, Result
from ktiwprobe.plots import trials
from ktiwprobe.training.sweep import Job
from ktiwprobe_paper.experiments.published import CLASSIFIED, LEARNED, UNIFORM

PAPER = {  # A(alpha, alpha-fr), A(alpha, beta-uf), in percent as printed
    "imdb": (9, 53),
    "ag-news": (17, 39),
    "20ng": (19, 65),
    "sst": (14, 20),
    "amazon": (15, 52),
    "yelp": (8, 18),
}
KINDS = ("uniform", "frozen-beta")
TOY = "toy-sentiment"


class FrozenBeta:
    """Train the attention only, or everything but the attention, and compare with a model that trains both."""

    claim: ClassVar[str] = (
        "Attention that is trained while all else is frozen at its first values agrees less with ordinary attention "
        "than word knowledge does that is trained without any attention (Appendix A.6)."
    )
    seeds: ClassVar[Sequence[int]] = range(5)
    small_seeds: ClassVar[Sequence[int]] = range(2)
    seeds_of: ClassVar[Mapping[str, Sequence[int]]] = dict.fromkeys(CLASSIFIED, LEARNED[:6])
    takes: ClassVar[Sequence[str]] = ("seeds", "steps", "task")

    def run(self, context: Context) -> Result:
        """For each seed its own attention, against frozen and uniform runs of another: the next, or the published."""
        task = context.task or TOY
        options: dict[str, Any] = {"hidden": 64, "embedding": 64} if context.small else {}
        options |= {"task.train": 2000} if context.small and task == TOY else {}
        other_seeds = [UNIFORM[0]] * len(context.seeds) if task in CLASSIFIED else _next(context.seeds)
        wanted = [("learned", seed) for seed in context.seeds] + [(k, s) for s in other_seeds for k in KINDS]
        jobs = {(kind, seed): Job("lstm-classifier", task, seed, kind, context.steps, options) for kind, seed in wanted}
        runs = dict(zip(jobs, context.train(jobs.values()), strict=True))
        rows: list[Any] = []
        curves: dict[str, list[Points]] = {"A(alpha, alpha-fr)": [], "A(alpha, beta-uf)": []}
        for seed, other in zip(context.seeds, other_seeds, strict=True):
            alpha = runs["learned", seed]
            others = {"A(alpha, alpha-fr)": ("frozen-beta", "alpha"), "A(alpha, beta-uf)": ("uniform", "beta")}
            values = {key: _agree(context, alpha, runs[kind, other], probe) for key, (kind, probe) in others.items()}
            for key, (kind, probe) in others.items():
                curves[key].append(_over_training(context, alpha, runs[kind, other], probe))
            rows.append((seed, other, *values.values()))
        return _result(task, rows, curves)


def _agree(context: Context, alpha: Run, other: Run, probe: str) -> Agreement:
    """A(alpha, v): alpha at its best, v where it agrees most."""
    return context.agree(f"{alpha.name}:alpha@best", f"{other.name}:{probe}@max")


def _over_training(context: Context, alpha: Run, other: Run, probe: str) -> Points:
    """A(alpha, v) at every checkpoint of the other run."""
    ((_, best),) = context.signals(alpha, "alpha", [alpha.best_step()])
    return {step: float(context.agree(best, v).value or 0) for step, v in context.signals(other, probe)}


def _next(seeds: Sequence[int]) -> list[int]:
    return [*seeds[1:], seeds[0]]


def _result(task: str, rows: Sequence[Any], agreements: Mapping[str, list[Points]]) -> Result:
    paper = PAPER.get(task, ())
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
    keys = ("A(alpha, alpha-fr)", "A(alpha, beta-uf)")
    paper_row = {"seed of alpha": "paper"} | {key: percent / 100 for key, percent in zip(keys, paper, strict=False)}
    return Result(
        verdict=f"On {task}, frozen beta agrees less than uniform attention's beta for {lower} of {len(table)} seeds "
        f"(means {means[0]:.2f} and {means[1]:.2f}, chance {means[2]:.2f}).",
        holds=lower == len(table),
        table=[
            *table,
            {**mean, "A(alpha, beta-uf)": means[1], "chance": means[2]},
            *([paper_row] if paper else []),
        ],
        curves=[
            {"agreement": key, "seed of alpha": row[0], "step": step, "value": value}
            for key, found in agreements.items()
            for row, points in zip(rows, found, strict=True)
            for step, value in points.items()
        ],
        figures={
            "agreement": trials(
                {f"lstm-classifier on {task}": agreements}, ylabel="agreement with alpha", scale=("symlog", "linear")
            )
        },
        notes=[
            "Alpha is read at its run's best checkpoint, the other signal at the checkpoint where it agrees most.",
            *([] if paper else [f"The paper has no {task}; its six data sets have 8-19 % against 18-65 %."]),
        ],
    )

"""The proxy is a logistic regression (Appendix A.10): A(beta-uf, beta-px) beside A(beta-uf, beta-log)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ktiwprobe.claims.measures import Points
from ktiwprobe.experiments import Context, Result
from ktiwprobe.plots import trials
from ktiwprobe.training.sweep import Job
from ktiwprobe_paper.experiments.published import CLASSIFIED, UNIFORM

PAPER = {  # A(beta-uf, beta-px), A(beta-uf, beta-log)
    "imdb": (0.81, 0.84),
    "yelp": (0.74, 0.76),
    "ag-news": (0.57, 0.58),
    "20ng": (0.40, 0.45),
    "sst": (0.39, 0.46),
    "amazon": (0.53, 0.60),
}
TOY = "toy-sentiment"
CLOSE = 0.1  # the largest difference between the paper's two columns is 0.07


class LogisticProxy:
    """Two ways to learn one weight a word, against word knowledge under uniform attention."""

    claim: ClassVar[str] = (
        "In classification the bag-of-words proxy is a logistic regression without a penalty, so both agree with "
        "uniform attention's beta about as much (Appendix A.10)."
    )
    seeds: ClassVar[Sequence[int]] = range(5)
    small_seeds: ClassVar[Sequence[int]] = range(2)
    seeds_of: ClassVar[Mapping[str, Sequence[int]]] = dict.fromkeys(CLASSIFIED, UNIFORM[:1])
    takes: ClassVar[Sequence[str]] = ("seeds", "steps", "task")

    def run(self, context: Context) -> Result:
        """u is the proxy's beta or the regression's, v the uniform run's, at the checkpoint where it agrees most."""
        task = context.task or TOY
        data: dict[str, Any] = {"task.train": 2000} if context.small and task == TOY else {}
        small = {"hidden": 64, "embedding": 64} if context.small else {}
        published = {"train.lr": 1.5e-4, "train.epochs": 60} if task == TOY else {}  # other tasks know their own
        rows: list[dict[str, Any]] = []
        curves: dict[str, list[Points]] = {"proxy": [], "logistic regression": []}
        for seed in context.seeds:
            uniform, proxy, regression, again = context.train(
                [
                    Job("lstm-classifier", task, seed, "uniform", context.steps, {**data, **small}),
                    Job("bow-proxy", task, seed, options={**data, **published}),
                    Job("logistic-regression", task, 0, options=data),
                    Job("bow-proxy", task, seed + 1, options={**data, **published}),
                ]
            )
            where = f"{uniform.name}:beta@max"
            px, log = (context.agree(f"{run.name}:beta@best", where) for run in (proxy, regression))
            for name, run in zip(curves, (proxy, regression), strict=True):
                ((_, u),) = context.signals(run, "beta", [run.best_step()])
                points = {step: float(context.agree(u, v).value or 0) for step, v in context.signals(uniform, "beta")}
                curves[name].append(points)
            both = context.agree(f"{proxy.name}:beta@best", f"{regression.name}:beta@best")
            seeds = context.agree(f"{proxy.name}:beta@best", f"{again.name}:beta@best")
            rows.append(
                {
                    "seed": seed,
                    "A(beta-uf, beta-px)": px.value,
                    "A(beta-uf, beta-log)": log.value,
                    "A(beta-px, beta-log)": both.value,
                    "A(beta-px, another seed's)": seeds.value,
                    "chance": px.baseline,
                }
            )
        return _result(task, rows, curves)


def _result(task: str, rows: list[dict[str, Any]], agreements: Mapping[str, list[Points]]) -> Result:
    means = {key: float(np.mean([row[key] for row in rows])) for key in rows[0] if key != "seed"}
    px, log = means["A(beta-uf, beta-px)"], means["A(beta-uf, beta-log)"]
    paper = PAPER.get(task)
    beside = [{"seed": "paper", "A(beta-uf, beta-px)": paper[0], "A(beta-uf, beta-log)": paper[1]}] if paper else []
    return Result(
        verdict=f"On {task}, uniform attention's beta agrees {px:.2f} with the proxy's and {log:.2f} with the "
        f"regression's (chance {means['chance']:.2f}): a difference of {abs(px - log):.2f}.",
        holds=abs(px - log) < CLOSE and min(px, log) > means["chance"],
        table=[*rows, {"seed": "mean", **means}, *beside],
        curves=[
            {"model": name, "seed": row["seed"], "step": step, "agreement with beta-uf": value}
            for name, found in agreements.items()
            for row, points in zip(rows, found, strict=True)
            for step, value in points.items()
        ],
        figures={
            "agreement": trials(
                {f"uniform attention on {task}": agreements},
                ylabel="agreement with beta-uf",
                scale=("symlog", "linear"),
            )
        },
        notes=[
            "As published, u is beta-px (beta-log) and v is beta-uf, at the checkpoint where it agrees most.",
            *([] if paper else [f"The paper has no {task}; its six data sets have 0.39-0.81 beside 0.45-0.84."]),
        ],
    )

"""The proxy is a logistic regression (Appendix A.10): A(beta-uf, beta-px) beside A(beta-uf, beta-log)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ktiwprobe.experiments import Context, Result
from ktiwprobe.sweep import Job

PAPER = {  # A(beta-uf, beta-px), A(beta-uf, beta-log)
    "imdb": (0.81, 0.84),
    "yelp": (0.74, 0.76),
    "ag-news": (0.57, 0.58),
    "20-newsgroups": (0.40, 0.45),
    "sst": (0.39, 0.46),
    "amazon": (0.53, 0.60),
}
CLOSE = 0.1  # the largest difference between the paper's two columns is 0.07


class LogisticProxy:
    """Two ways to learn one weight a word, against word knowledge under uniform attention."""

    claim: ClassVar[str] = (
        "In classification the bag-of-words proxy is a logistic regression without a penalty, so both agree with "
        "uniform attention's beta about as much (Appendix A.10)."
    )
    seeds: ClassVar[Sequence[int]] = range(5)
    small_seeds: ClassVar[Sequence[int]] = range(2)
    takes_task: ClassVar[bool] = True

    def run(self, context: Context) -> Result:
        """u is the proxy's beta or the regression's, v the uniform run's, at the checkpoint where it agrees most."""
        task = context.task or "toy-sentiment"
        data: dict[str, Any] = {"task.train": 2000} if context.small else {}
        small = {"hidden": 64, "embedding": 64} if context.small else {}
        published = {"train.lr": 1.5e-4, "train.epochs": 60}
        rows = []
        for seed in context.seeds:
            uniform, proxy, regression, again = context.train(
                [
                    Job("lstm-classifier", task, seed, "uniform", context.steps, {**data, **small}),
                    Job("bow-proxy", task, seed, options={**data, **published}),
                    Job("logistic-regression", task, 0, options=data),
                    Job("bow-proxy", task, seed + 1, options={**data, **published}),
                ]
            )
            v = f"{uniform.name}:beta@max"
            px, log = (context.agree(f"{run.name}:beta@best", v) for run in (proxy, regression))
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
        return _result(task, rows)


def _result(task: str, rows: list[dict[str, Any]]) -> Result:
    means = {key: float(np.mean([row[key] for row in rows])) for key in rows[0] if key != "seed"}
    px, log = means["A(beta-uf, beta-px)"], means["A(beta-uf, beta-log)"]
    paper = PAPER.get(task)
    beside = [{"seed": "paper", "A(beta-uf, beta-px)": paper[0], "A(beta-uf, beta-log)": paper[1]}] if paper else []
    return Result(
        verdict=f"On {task}, uniform attention's beta agrees {px:.2f} with the proxy's and {log:.2f} with the "
        f"regression's (chance {means['chance']:.2f}): a difference of {abs(px - log):.2f}.",
        holds=abs(px - log) < CLOSE and min(px, log) > means["chance"],
        table=[*rows, {"seed": "mean", **means}, *beside],
        curves=rows,
        notes=[
            "As published, u is beta-px (beta-log) and v is beta-uf, at the checkpoint where it agrees most.",
            *([] if paper else [f"The paper has no {task}; its six data sets have 0.39-0.81 beside 0.45-0.84."]),
        ],
    )

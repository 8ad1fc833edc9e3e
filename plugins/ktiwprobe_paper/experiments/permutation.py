"""Attention is not a free variable (Section 6.2): copying is learned, a fixed permutation is not, with the same C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ktiwprobe import Run
from ktiwprobe.claims.measures import Points, accuracy, learned_at, lines, median, peak_is_gold, share
from ktiwprobe.experiments import Context, Result
from ktiwprobe.plots import trials
from ktiwprobe.plugins.options import options_of
from ktiwprobe.training.sweep import Job
from ktiwprobe_paper.experiments.copying import MODEL, conditions
from ktiwprobe_paper.experiments.copying import STEPS as COPYING_STEPS
from ktiwprobe_paper.experiments.counts import sample
from ktiwprobe_paper.ibm1 import count_table

STEPS = 300  # the paper's text; copying has its own 200
SAMPLES = 1000
PAPER = {"copy": "always perfect within 300 steps", "permute": "always fails"}


def control(small: bool) -> dict[str, Any]:
    """Task options of inputs whose word knowledge can be learned."""
    return next(iter(conditions(small).values()))


class PermutationFunction:
    """y_t = x_t against y_t = x_π(t)."""

    claim: ClassVar[str] = (
        "Copying is learned and a fixed random permutation of positions is not, although both have the same count "
        "table C and so the same word knowledge: attention is not a free variable (Section 6.2)."
    )
    seeds: ClassVar[Sequence[int]] = range(10)
    small_seeds: ClassVar[Sequence[int]] = range(3)

    def run(self, context: Context) -> Result:
        """Accuracy on both tasks, and whether beta under them differs."""
        groups = {
            (task, reader): self._train(context, task, both)
            for reader, both in (("unidirectional", False), ("bidirectional", True))
            for task in ("copy", "permute")
        }
        found = {key: [accuracy(run, _steps(context, key[0])) for run in runs] for key, runs in groups.items()}
        curves = {
            f"{task}, {reader}": [(run.seed, points) for run, points in zip(groups[task, reader], of_task, strict=True)]
            for (task, reader), of_task in found.items()
        }
        table = [_row(context, *key, runs, found[key]) for key, runs in groups.items()]
        learn = {key: sum(learned_at(points) is not None for points in trials_) for key, trials_ in found.items()}
        copies, permutes = learn["copy", "unidirectional"], learn["permute", "unidirectional"]
        total = len(groups["copy", "unidirectional"])
        difference = _difference_of_tables(context)
        return Result(
            verdict=f"With one count table (largest difference {difference:.1g}), {copies} of {total} seeds learn to "
            f"copy and {permutes} of {total} learn the permutation (unidirectional encoder).",
            holds=copies == total and permutes == 0 and difference < 1e-9,
            table=table,
            curves=lines("accuracy", curves),
            figures={
                "accuracy": trials(
                    {
                        reader: {task: found[task, reader] for task in ("copy", "permute")}
                        for reader in ("unidirectional", "bidirectional")
                    },
                    ylabel="validation accuracy",
                    ylim=(0, 1.03),
                )
            },
            notes=[
                f"C is counted over {SAMPLES} samples that both tasks share, the outputs in another order.",
                "The paper does not say which way its encoder reads; it says that copying is done within 300 steps. "
                "Copying is trained for its published 200, the permutation for 300.",
                "Beta on gold: the share of rows whose highest beta is the symbol to say, at the last checkpoint.",
            ],
        )

    def _train(self, context: Context, task: str, both_ways: bool) -> list[Run]:
        seeds = context.seeds[:2] if both_ways else context.seeds  # the paper's own setting gets the seeds
        model: dict[str, Any] = {**MODEL, "bidirectional": both_ways, **({"hidden": 64} if context.small else {})}
        options = {**model, **control(context.small), "train.checkpoints": "every:10"}
        steps = _steps(context, task)
        return context.train(Job("lstm-seq2seq", task, seed, steps=steps, options=options) for seed in seeds)


def _steps(context: Context, task: str) -> int:
    return context.steps or (STEPS if task == "permute" else COPYING_STEPS)


def _row(context: Context, task: str, reader: str, runs: Sequence[Run], curves: Sequence[Points]) -> dict[str, Any]:
    steps = [learned_at(points) for points in curves]
    return {
        "task": task,
        "encoder": reader,
        "seeds that learn": share(sum(step is not None for step in steps), len(steps)),
        "paper": PAPER[task],
        "median step": median(steps),
        "final accuracy, lowest": min(points[max(points)] for points in curves),
        "highest": max(points[max(points)] for points in curves),
        **{f"{probe} on gold": median(_at_end(context, run, probe) for run in runs) for probe in ("beta", "alpha")},
    }


def _at_end(context: Context, run: Run, probe: str) -> float:
    last = max(step for step in run.steps() if step <= _steps(context, run.record.task))
    ((_, signal),) = context.signals(run, probe, [last], split="test")
    return peak_is_gold(signal, context.gold(run, split="test"))


def _difference_of_tables(context: Context) -> float:
    """The largest difference between the count tables of the two tasks, over the same inputs."""
    tables = []
    for task in ("copy", "permute"):
        owner = context.registry.load("tasks", task)
        corpus = owner().load(options_of(owner)(**control(context.small)))
        split = sample(corpus, SAMPLES)
        tables.append(count_table(split, corpus.source_size, corpus.target_size).toarray())
    return float(np.abs(tables[0] - tables[1]).max())

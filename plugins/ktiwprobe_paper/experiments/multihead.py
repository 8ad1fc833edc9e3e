"""Heads that rescue one another (Section 5.2, Figure 6): copying 40/40 with good, bad and random heads.

All weights but the heads' start from one initialisation, and a head's first weights are drawn by a seed of its own, so
that a head found good or bad alone can be put into a model of eight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from ktiwprobe import option
from ktiwprobe.claims.measures import LEARNED, Points, accuracy, learned_at, lines, median, share
from ktiwprobe.experiments import Context, Result
from ktiwprobe.plots import trials
from ktiwprobe.training.sweep import Job

MODEL = {
    "cell": "gru",
    "layers": 1,
    "bidirectional": False,
    "dropout": 0.0,
    "activation": "tanh",
    "embeddings": "separate",
    "init": 0,
    "train.checkpoints": "0",
}
FAILED = 0.6  # a bad head ends below it
TESTS = (0, 1, 2)  # data seeds that must agree on a head
STAGES = (0.3, 0.4, 0.5, 1.0)  # of the steps: what has learned by then need not go on
RANDOM_HEADS = range(1000, 1030)  # a pool of heads that nobody tested
PAPER = ("fails", "converges", "converges with high probability")  # all bad, one good, random
COMBINED = {
    "mean": "Contexts are averaged over heads, as published; the paper's text sums them (--combine sum).",
    "sum": "Contexts are summed over heads, as the paper's text says; the published code averages them.",
}


@dataclass(frozen=True)
class Sizes:
    """How many heads to look for, and how many to look at."""

    pool: int = 20  # good ones, and bad ones
    most: int = 120  # heads to test
    wave: int = 24  # heads tested at a time
    steps: int = 200
    heads: int = 8  # of a model
    combine: str = "mean"
    task: Mapping[str, Any] = field(default_factory=lambda: {"vocabulary": 40, "validation": 400})
    model: Mapping[str, Any] = field(default_factory=lambda: MODEL)


SMALL = Sizes(
    pool=4,
    most=40,
    steps=140,
    heads=4,
    task={"length": 20, "vocabulary": 20, "validation": 100},
    model={**MODEL, "hidden": 128},
)


class Multihead:
    """Rejection-sampled heads, alone and in eights."""

    claim: ClassVar[str] = (
        "Eight heads whose first weights are all bad fail to learn 40/40 copying, one good head among them rescues the "
        "model, and eight random heads mostly have a good one: several heads help learning, not expressiveness "
        "(Section 5.2, Figure 6)."
    )
    seeds: ClassVar[Sequence[int]] = range(20)
    small_seeds: ClassVar[Sequence[int]] = range(5)

    @dataclass(frozen=True)
    class Options:
        """What the paper's text and the published code say differently."""

        combine: Literal["mean", "sum"] = option(
            "mean", help="of the heads' contexts: mean as published, sum as written"
        )

    def run(self, context: Context) -> Result:
        """Find the heads, then train the three scenarios."""
        sizes = SMALL if context.small else Sizes()
        sizes = replace(sizes, steps=context.steps or sizes.steps, combine=context.options.combine)
        search = Search(context, sizes)
        good, bad = search.pools()
        heads = f"{search.tested} heads tested alone: {len(good)} good, {len(bad)} bad, the others neither"
        if not good or len(bad) < sizes.heads:
            return Result(f"Not decided: {heads}, and {sizes.heads} bad ones are needed.", None, [], search.lines)
        scenarios = self._train(context, sizes, good, bad)
        curves = {name: list(zip(context.seeds, found, strict=True)) for name, found in scenarios.items()}
        counts = {name: sum(learned_at(p) is not None for p in found) for name, found in scenarios.items()}
        all_bad, one_good, any_head = counts.values()
        half = len(context.seeds) / 2
        told = ", ".join(f"{count} with {name}" for name, count in counts.items())
        without, rescued, _ = ([points[max(points)] for points in found] for found in scenarios.values())
        return Result(
            verdict=f"Of {len(context.seeds)} trials each there converge within {sizes.steps} steps: {told}; with one "
            f"good head a trial ends above one without in {share_above(rescued, without):.0%} of the pairs.",
            holds=all_bad < half < min(one_good, any_head),
            table=[_row(name, paper, found) for (name, found), paper in zip(scenarios.items(), PAPER, strict=True)],
            curves=[*search.lines, *lines("accuracy", curves)],
            figures={
                "accuracy": trials({f"{sizes.heads} heads": scenarios}, ylabel="validation accuracy", ylim=(0, 1.03))
            },
            notes=[
                f"{heads}. Good: accuracy above {LEARNED} within {sizes.steps} steps for data seeds {TESTS}; bad: it "
                f"ends below {FAILED} for all of them; a test stops at the first seed that contradicts.",
                COMBINED[sizes.combine],
                f"Heads of a trial are drawn from the {len(good)} good and {len(bad)} bad ones and from "
                f"{len(RANDOM_HEADS)} untested ones (published pools: 20, 20 and 30).",
            ],
        )

    def _train(
        self, context: Context, sizes: Sizes, good: Sequence[int], bad: Sequence[int]
    ) -> dict[str, list[Points]]:
        jobs, K = {}, sizes.heads
        for trial in context.seeds:
            rng = np.random.default_rng([6, trial])
            choices = {
                f"{K} bad": _draw(rng, bad, K),
                f"1 good + {K - 1} bad": [*_draw(rng, good, 1), *_draw(rng, bad, K - 1)],
                f"{K} random": _draw(rng, RANDOM_HEADS, K),
            }
            for name, heads in choices.items():
                jobs[name, trial] = _job(sizes, heads, 100 + trial, sizes.steps)
        found = dict(zip(jobs, context.train(jobs.values()), strict=True))
        names = dict.fromkeys(name for name, _ in jobs)
        return {name: [accuracy(found[name, trial], sizes.steps) for trial in context.seeds] for name in names}


class Search:
    """Tests heads one by one until both pools are full."""

    def __init__(self, context: Context, sizes: Sizes) -> None:
        self.context, self.sizes = context, sizes
        self.tested = 0
        self.lines: list[dict[str, Any]] = []  # every test as a line of the CSV

    def pools(self) -> tuple[list[int], list[int]]:
        """Good heads and bad heads, as many as wanted or as can be found."""
        pools: dict[str, list[int]] = {"good": [], "bad": []}
        wanted, heads = self.sizes.pool, range(self.sizes.most)
        while self.tested < len(heads) and min(map(len, pools.values())) < wanted:
            wave = list(heads[self.tested : self.tested + self.sizes.wave])
            self.tested += len(wave)
            kinds: dict[int, str | None] = dict.fromkeys(wave)
            for seed in TESTS:
                # a kind whose pool is full need not be confirmed
                left = [h for h in wave if kinds[h] != "neither" and len(pools.get(kinds[h] or "", ())) < wanted]
                for head, kind in self._judge(left, seed).items():
                    kinds[head] = kind if kinds[head] in (None, kind) else "neither"
                wave = [h for h in left if kinds[h] != "neither"]
            for head in wave:
                pools[str(kinds[head])].append(head)
        return pools["good"][:wanted], pools["bad"][:wanted]

    def _judge(self, heads: Sequence[int], seed: int) -> dict[int, str]:
        """What one data seed says of each head."""
        curves: dict[int, Points] = {}
        for steps in (round(self.sizes.steps * stage) for stage in STAGES):
            left = [head for head in heads if head not in curves or learned_at(curves[head]) is None]
            jobs = [_job(self.sizes, [head], seed, steps) for head in left]
            runs = zip(left, self.context.train(jobs), strict=True)
            curves |= {head: accuracy(run, steps) for head, run in runs}
        kinds = {head: _kind(points) for head, points in curves.items()}
        self.lines += [
            {"condition": f"head {head} alone", "seed": seed, "step": step, "accuracy": value, "kind": kinds[head]}
            for head, points in curves.items()
            for step, value in points.items()
        ]
        return kinds


def _kind(points: Points) -> str:
    if learned_at(points) is not None:
        return "good"
    return "bad" if points[max(points)] < FAILED else "neither"


def _job(sizes: Sizes, heads: Sequence[int], seed: int, steps: int) -> Job:
    model = {**sizes.model, "heads": len(heads), "head_inits": tuple(heads)}
    if len(heads) > 1:  # of one head either is the same
        model["combine"] = sizes.combine
    return Job("lstm-seq2seq", "copy", seed, steps=steps, options={**model, **sizes.task})


def share_above(u: Sequence[float], v: Sequence[float]) -> float:
    """The share of pairs in which the first is larger, equals counted half: 1/2 if neither is likely to be. [0, 1]"""
    a, b = np.asarray(u)[:, None], np.asarray(v)
    return float((a > b).mean() + (a == b).mean() / 2)


def _draw(rng: np.random.Generator, pool: Iterable[int], count: int) -> list[int]:
    return [int(head) for head in rng.choice(list(pool), count, replace=False)]


def _row(name: str, paper: str, found: Sequence[Points]) -> dict[str, Any]:
    steps = [learned_at(points) for points in found]
    return {
        "heads": name,
        "converged": share(sum(step is not None for step in steps), len(steps)),
        "paper": paper,
        "median step": median(steps),
        "median final accuracy": median(points[max(points)] for points in found),
    }

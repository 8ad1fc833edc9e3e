"""Does beta stay where the word is? (Section 6.1, Figure 7): gamma around a keyword, under uniform attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ktiwprobe import Run, Signal
from ktiwprobe.claims.measures import Points, share
from ktiwprobe.experiments import Context, Result
from ktiwprobe.plots import trials
from ktiwprobe.training.sweep import Job

QUANTITIES = ("keyword", "one after", "mean", "last")  # gamma at l*, at l* + 1, averaged, and at L
READERS = {"unidirectional": False, "bidirectional": True}
STEPS = 2000
Quantities = dict[str, Points]


class Locality:
    """The keyword task under uniform attention, read one way and both ways."""

    claim: ClassVar[str] = (
        "Under uniform attention the log-odds gamma is at first highest at the keyword, then one after it "
        "(Hypothesis 2); trained for long, it is highest at the last position (Observation 3): what is known of a word "
        "does not stay there (Section 6.1, Figure 7)."
    )
    seeds: ClassVar[Sequence[int]] = range(5)
    small_seeds: ClassVar[Sequence[int]] = range(2)

    def run(self, context: Context) -> Result:
        """Gamma at four places over training, and at which steps which order holds."""
        runs = {name: self._train(context, both) for name, both in READERS.items()}
        found = {name: [measured(context, run) for run in group] for name, group in runs.items()}
        table = [_row(name, seeds) for name, seeds in found.items()]
        early = {name: [_steps_of(q, hypothesis_2) for q in seeds] for name, seeds in found.items()}
        late = {name: [observation_3(q, _end(q)) for q in seeds] for name, seeds in found.items()}
        one_way = [
            bool(steps) and end for steps, end in zip(early["unidirectional"], late["unidirectional"], strict=True)
        ]
        return Result(
            verdict=_verdict(early, late),
            holds=all(one_way),
            table=table,
            curves=_lines(runs, found),
            figures={
                "gamma": trials(
                    {
                        name: {quantity: [q[quantity] for q in seeds] for quantity in QUANTITIES}
                        for name, seeds in found.items()
                    },
                    ylabel="gamma of positive sequences",
                    scale=("symlog", "symlog"),
                    each=False,
                )
            },
            notes=[
                "Means over the positive validation sequences whose keyword is not at one of the last two positions.",
                "Hypothesis 2 at a step: keyword > one after > both mean and last. Observation 3: last > one after > "
                "both mean and keyword. The paper's signs are 'much greater' and 'about equal'.",
                "The paper does not say which way its encoder reads, nor for how long it trains.",
            ],
        )

    def _train(self, context: Context, both_ways: bool) -> list[Run]:
        options: dict[str, Any] = {"bidirectional": both_ways, "validation": 400}
        if context.small:
            options |= {"hidden": 64, "embedding": 64, "length": 20, "vocabulary": 20}
        return context.train(
            Job(
                "lstm-classifier",
                "keyword",
                seed,
                "uniform",
                context.steps or (1000 if context.small else STEPS),
                options,
            )
            for seed in context.seeds
        )


def measured(context: Context, run: Run) -> Quantities:
    """The four quantities at every checkpoint."""
    gold = context.gold(run)
    points: Quantities = {name: {} for name in QUANTITIES}
    last = context.steps or STEPS
    for step, signal in context.signals(run, "beta", [step for step in run.steps() if step <= last]):
        for name, value in gamma_around(signal, gold).items():
            points[name][step] = value
    return points


def gamma_around(signal: Signal, gold: Signal) -> dict[str, float]:
    """Gamma at the keyword, one after it, on average and at the end, as means over positive sequences."""
    ((_, gamma), (_, truth)) = (next(part.by_length()) for part in (signal, gold))  # all of one length
    place = truth.argmax(1)
    rows = np.flatnonzero((truth.max(1) > 0) & (place < gamma.shape[1] - 2))
    gamma, place = gamma[rows].astype(float), place[rows]
    some = np.arange(len(rows))
    values = (gamma[some, place], gamma[some, place + 1], gamma.mean(1), gamma[:, -1])
    return {name: float(value.mean()) for name, value in zip(QUANTITIES, values, strict=True)}


def hypothesis_2(q: Quantities, step: int) -> bool:
    """Keyword first, then its neighbour, then the rest."""
    return q["keyword"][step] > q["one after"][step] > max(q["mean"][step], q["last"][step])


def observation_3(q: Quantities, step: int) -> bool:
    """The end first, then the neighbour, then the rest."""
    return q["last"][step] > q["one after"][step] > max(q["mean"][step], q["keyword"][step])


def _steps_of(q: Quantities, holds: Any) -> list[int]:
    return [step for step in sorted(q["last"]) if step and holds(q, step)]


def _end(q: Quantities) -> int:
    return max(q["last"])


def _row(name: str, seeds: Sequence[Quantities]) -> dict[str, Any]:
    takes_over = [next(iter(_steps_of(q, lambda q, s: q["last"][s] > q["keyword"][s])), None) for q in seeds]
    spans = [_steps_of(q, hypothesis_2) for q in seeds]
    return {
        "encoder": name,
        "Hypothesis 2 at some step": share(sum(map(bool, spans)), len(seeds)),
        "its steps": ", ".join(f"{span[0]}-{span[-1]}" if span else "-" for span in spans),
        "last above keyword from": ", ".join("-" if step is None else str(step) for step in takes_over),
        "Observation 3 at the end": share(sum(observation_3(q, _end(q)) for q in seeds), len(seeds)),
        **{f"{quantity} at the end": float(np.mean([q[quantity][_end(q)] for q in seeds])) for quantity in QUANTITIES},
        "paper": "Hypothesis 2, then Observation 3",
    }


def _verdict(early: Mapping[str, Sequence[list[int]]], late: Mapping[str, Sequence[bool]]) -> str:
    parts = [
        f"{name}: Hypothesis 2 at some step in {sum(map(bool, early[name]))} of {len(early[name])} seeds, "
        f"Observation 3 at the end in {sum(late[name])}"
        for name in early
    ]
    return "; ".join(parts) + "."


def _lines(runs: Mapping[str, Sequence[Run]], found: Mapping[str, Sequence[Quantities]]) -> list[dict[str, Any]]:
    return [
        {"encoder": name, "seed": run.seed, "step": step, **{n: q[n][step] for n in QUANTITIES}}
        for name, group in runs.items()
        for run, q in zip(group, found[name], strict=True)
        for step in q["last"]
    ]

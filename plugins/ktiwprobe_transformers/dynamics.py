"""Does word knowledge come before attention in a transformer? What the paper asks of LSTMs, at every cross-attention.

Every seed is A in turn: where its best attention goes is held against what the next seed (B) attends to, what it knows,
and what the same seed knows that was trained under uniform attention, step by step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from ktiwprobe import Run, Signal, option
from ktiwprobe.claims.measures import Points, accuracy, peak_is_gold
from ktiwprobe.compare.agreement import Sums, add_up, xi
from ktiwprobe.compare.metrics import Agreement
from ktiwprobe.errors import SpecError
from ktiwprobe.experiments import Context, Result
from ktiwprobe.training.sweep import Job
from ktiwprobe_transformers.dynamics_result import ALL, COURSES, Found, Line, result_of

TOY = "toy-translation"
STEPS = {"paper": 600, "small": 150}  # of the generated task; any other has its own
SMALL = {"model.hidden": 64, "model.heads": 2}
SMALL_TOY = {"task.train": 2000, "task.validation": 60, "task.test": 60}
TELLS = 0.05  # above chance: what agrees less at its highest tells no time

Curve = dict[int, Sums]  # A(u, v) by the step of v


class Reading(NamedTuple):
    """Heads that are read as one, by their mean."""

    name: str  # all, cross:1, cross:1.h2
    mine: Sequence[int]  # their places among the sites
    theirs: Sequence[int]  # in another seed, where a head's number means nothing: all heads of the layer


class Turn(NamedTuple):
    """A seed whose attention is to be foretold, and the runs of another seed that may foretell it."""

    a: Run
    b: Run
    uniform: Run


class TransformerDynamics:
    """An encoder-decoder from scratch, learned and under uniform attention."""

    claim: ClassVar[str] = (
        "In a transformer, too, word knowledge comes before attention and foretells where it will go: beta, even of a "
        "seed trained under uniform attention, agrees with attention earlier than another seed's attention does (what "
        "Sections 3 and 4 say of LSTMs)."
    )
    seeds: ClassVar[Sequence[int]] = range(3)
    small_seeds: ClassVar[Sequence[int]] = range(2)
    seeds_of: ClassVar[Mapping[str, Sequence[int]]] = {"multi30k": range(2)}
    takes: ClassVar[Sequence[str]] = ("seeds", "steps", "task")

    @dataclass(frozen=True)
    class Options:
        """The network; what is not given is as of hf-seq2seq."""

        config: str | None = option(None, help="architecture, such as marian, t5 or bert+gpt2; none: bart")
        layers: int | None = option(None, low=1, help="of the encoder, and of the decoder")
        hidden: int | None = option(None, low=1, help="width of states")
        heads: int | None = option(None, low=1, help="attention heads of a layer")

    def run(self, context: Context) -> Result:
        """Train, follow every reading of every seed, and judge."""
        task = context.task or TOY
        turns, last = _train(context, task)
        found = []
        for turn in turns:
            lines = follow(context, turn, last)
            gold = {probe: _on_gold(context, turn.a, probe, last) for probe in ("beta", "alpha")}
            found.append(Found(turn.a.seed, lines, accuracy(turn.a, last), gold if all(gold.values()) else {}))
        return result_of(task, found, last)


def _train(context: Context, task: str) -> tuple[list[Turn], int]:
    """Each seed as A with the next as B, and the step up to which runs are read."""
    steps = context.steps or (STEPS[context.scale] if task == TOY else None)
    small = {**SMALL, **(SMALL_TOY if task == TOY else {})} if context.small else {}
    wishes = {f"model.{key}": value for key, value in asdict(context.options).items() if value is not None}
    options = {**small, **wishes}
    # beta then has all cross-attention on one position: nothing else of the input is heard
    options["model.site"] = "cross:all"
    kinds = ("learned", "uniform")
    jobs = {(k, s): Job("hf-seq2seq", task, s, k, steps, options) for k in kinds for s in context.seeds}
    runs = dict(zip(jobs, context.train(jobs.values()), strict=True))
    others = [*context.seeds[1:], context.seeds[0]]
    turns = [
        Turn(runs["learned", a], runs["learned", b], runs["uniform", b])
        for a, b in zip(context.seeds, others, strict=True)
    ]
    return turns, steps or turns[0].a.record.steps


def readings(sites: Sequence[str]) -> list[Reading]:
    """All heads together, those of each layer, and each alone; `sites` as in cross:1.h2."""
    layers: dict[str, list[int]] = {}
    for place, site in enumerate(sites):
        layers.setdefault(site.rpartition(".")[0], []).append(place)
    everything = list(range(len(sites)))
    found = [Reading(ALL, everything, everything)]
    for layer, places in layers.items():
        found += [Reading(layer, places, places), *(Reading(sites[place], [place], places) for place in places)]
    return found


def read(signal: Signal, places: Sequence[int]) -> Signal:
    """The mean of some sites."""
    return replace(signal, values=signal.values[list(places)].mean(0, keepdims=True), sites=("mean",))


def follow(context: Context, turn: Turn, last: int) -> dict[str, Line]:
    """What is measured of each reading of A, by the reading's name."""
    points = accuracy(turn.a, last)
    ((_, alpha),) = context.signals(
        turn.a, "alpha", [max(_steps(turn.a, last), key=lambda step: (points[step], -step))]
    )
    wanted = readings(alpha.sites)
    curves: dict[str, dict[str, Curve]] = {reading.name: {course: {} for course in COURSES} for reading in wanted}
    sources = (("alpha", turn.b, "alpha"), ("beta", turn.b, "beta"), ("beta-uf", turn.uniform, "beta"))
    for course, run, probe in sources:
        for step, v in context.signals(run, probe, _steps(run, last)):
            for reading in wanted:
                held = read(v, reading.theirs) if probe == "alpha" else v
                curves[reading.name][course][step] = add_up(read(alpha, reading.mine), held, Agreement())
    gold = _gold(context, turn.a)
    on_gold = {r.name: None if gold is None else peak_is_gold(read(alpha, r.mine), gold) for r in wanted}
    theirs, star = accuracy(turn.b, last), max(points.values())
    return {name: _line(courses, theirs, star, on_gold[name]) for name, courses in curves.items()}


def _line(courses: Mapping[str, Curve], performance: Points, star: float, on_gold: float | None) -> Line:
    values = {name: {step: sums.value or 0.0 for step, sums in curve.items()} for name, curve in courses.items()}
    chance = float(np.mean([sums.baseline for curve in courses.values() for sums in curve.values()]))
    heard = {step: (value, performance[step]) for step, value in values["alpha"].items()}
    found = xi(max(values["beta-uf"].values()), heard)
    return Line(
        values=values,
        chance=chance,
        xi=star if found is None else found,
        star=star,
        halfway={name: halfway(points, chance) for name, points in values.items()},
        on_gold=on_gold,
    )


def halfway(points: Points, chance: float) -> int | None:
    """The first step at which a course is half of its way from chance to its highest; None if it tells nothing."""
    peak = max(points.values())
    if peak < chance + TELLS:
        return None
    return next(step for step in sorted(points) if points[step] >= (chance + peak) / 2)


def _steps(run: Run, last: int) -> list[int]:
    """Checkpoints up to `last`: a run may have been extended by somebody else."""
    return [step for step in run.steps() if step <= last]


def _gold(context: Context, run: Run) -> Signal | None:
    try:
        return context.gold(run)
    except SpecError:  # real text is not aligned
        return None


def _on_gold(context: Context, run: Run, probe: str, last: int) -> Points:
    """At each checkpoint, the share of rows whose peak is the gold position; nothing where gold is not known."""
    gold = _gold(context, run)
    if gold is None:
        return {}
    return {step: peak_is_gold(signal, gold) for step, signal in context.signals(run, probe, _steps(run, last))}

"""Experiments: one claim each, run by `reproduce`, which trains what is missing.

An experiment is given a Context and returns a Result. How a result is written down is not its business but that of
writeup.py, so that all claims answer alike.
"""

from __future__ import annotations

import datetime
import os
import platform
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from ktiwprobe.compare.agreement import Agreement
from ktiwprobe.compare.finder import agree
from ktiwprobe.errors import ContractError, KtiwprobeError, UnknownNameError, UsageError
from ktiwprobe.files.progress import SILENT, Progress
from ktiwprobe.plugins.capabilities import seeds_by_task, taken_by
from ktiwprobe.plugins.options import NoOptions, fill, options_of
from ktiwprobe.plugins.protocols import Experiment
from ktiwprobe.plugins.registry import Registry, build_registry
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.runs.run import Run, runs_folder
from ktiwprobe.signals.signal import Signal
from ktiwprobe.training.engines import Engine, make_engine
from ktiwprobe.training.sweep import Job, parse_seeds, sweep
from ktiwprobe.training.threads import cores
from ktiwprobe.views import html
from ktiwprobe.views.tables import Table

if TYPE_CHECKING:
    from ktiwprobe.views.plots import Figure

Scale = Literal["paper", "small"]
Row = Mapping[str, Any]
SMALL = "Small scale: sizes, seeds or steps are below the paper's, so this illustrates the claim and does not test it."


class SweepError(KtiwprobeError):
    """Some jobs of an experiment failed; the others are kept."""

    exit_code = 3


@dataclass(frozen=True)
class Result:
    """What an experiment found."""

    verdict: str  # one sentence, computed from the data
    holds: bool | None  # whether the claim was seen; None where the data cannot tell
    table: Sequence[Row]  # ours beside the paper's
    curves: Sequence[Row] = ()  # every point of every curve, a line each
    figures: Mapping[str, Figure] = field(default_factory=dict)  # by the name of their file
    notes: Sequence[str] = ()  # what a reader must know to judge the table
    details: Sequence[Row] = ()  # the table again, a line a cell, with what is too wide for it
    digits: int = 3  # after the point, where tables are shown to people


@dataclass(frozen=True)
class Context:
    """What an experiment may ask for, and what the user asked of it."""

    seeds: tuple[int, ...]
    scale: Scale
    steps: int | None  # where the user wants another length
    task: str | None  # where the user wants other data
    folder: Path
    registry: Registry
    engine: Engine
    device: str
    progress: Progress
    options: Any = field(default_factory=NoOptions)  # the experiment's own, as its Options class
    used: list[str] = field(default_factory=list)  # names of the runs the result rests on

    @property
    def small(self) -> bool:
        """Whether minutes count more than the paper's sizes."""
        return self.scale == "small"

    def train(self, jobs: Iterable[Job]) -> list[Run]:
        """The run of each job; finished ones are not trained again."""
        jobs = list(jobs)
        outcomes = sweep(
            jobs,
            runs=self.folder,
            engine=self.engine,
            device=self.device,
            registry=self.registry,
            progress=self.progress,
        )
        failed = [outcome for outcome in outcomes if outcome.state == "failed"]
        if failed:
            reasons = {outcome.reason: outcome.run.name for outcome in failed}
            told = "; ".join(f"{name}: {reason}" for reason, name in list(reasons.items())[:3])
            raise SweepError(f"{len(failed)} of {len(outcomes)} jobs failed, the others are kept; {told}")
        self.used.extend(outcome.run.name for outcome in outcomes if outcome.run.name not in self.used)
        return [outcome.run for outcome in outcomes]

    def signals(
        self, run: Run, probe: str, steps: Iterable[int] | None = None, *, split: str = "validation"
    ) -> Iterator[tuple[int, Signal]]:
        """The probe's Signal at each of the steps (all that are stored), one after the other."""
        extractor = Extractor(run, self.registry, split=split, device=self.device)
        for step in extractor.steps() if steps is None else steps:
            yield step, extractor.signal(probe, step, progress=self.progress)

    def gold(self, run: Run, *, split: str = "validation") -> Signal:
        """The known alignment of a run's corpus."""
        return Extractor(run, self.registry, split=split, device=self.device).gold()

    def agree(self, u: str | Signal, v: str | Signal, metric: str | None = None) -> Agreement:
        """A(u, v) of two SPECs with their runs, or of signals."""
        about = {"runs": self.folder, "registry": self.registry, "device": self.device, "progress": self.progress}
        return agree(u, v, metric, **about)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Report:
    """A result with all that a reader needs to judge it and to get it again."""

    experiment: str
    claim: str
    scale: Scale
    command: str
    date: str
    machine: str
    seconds: float
    seeds: tuple[int, ...]
    runs: tuple[str, ...]
    versions: Mapping[str, str]
    result: Result

    @property
    def name(self) -> str:
        """What its files are called."""
        return self.experiment if self.scale == "paper" else f"{self.experiment}-{self.scale}"

    def _repr_html_(self) -> str:
        top = html.heading(self.name, self.date, f"{len(self.runs)} runs")
        said = html.paragraph(self.claim) + html.paragraph(self.result.verdict)
        table = Table(self.result.table)._repr_html_() if self.result.table else ""
        return top + said + table + "".join(html.paragraph(note, "0.85em") for note in self.result.notes)


def reproduce(
    name: str,
    *,
    seeds: str | Sequence[int] | None = None,
    steps: int | None = None,
    scale: str = "paper",
    task: str | None = None,
    options: Mapping[str, Any] | None = None,
    runs: str | Path | None = None,
    engine: str | Engine | None = None,
    device: str = "auto",
    registry: Registry | None = None,
    progress: Progress = SILENT,
) -> Report:
    """Run the experiment called `name`; what is trained already is used as it is."""
    if scale not in get_args(Scale):
        raise UnknownNameError("scale", scale, get_args(Scale))
    registry = registry or build_registry()
    experiment = registry.load("experiments", name)()
    wishes, own = _wishes(experiment, name, {"seeds": seeds, "steps": steps, "task": task}, options or {})
    usual = _usual_seeds(experiment, scale, task)
    chosen = _seeds(wishes["seeds"], usual)
    if engine is None or isinstance(engine, str):
        engine = make_engine(engine, registry=registry)
    chosen_options: Any = fill(options_of(experiment), own, space=name)
    about = (registry, engine, device, progress, chosen_options)
    context = Context(chosen, scale, wishes["steps"], wishes["task"], runs_folder(runs).absolute(), *about)  # type: ignore[arg-type]
    started = time.monotonic()
    with engine:  # once for all that the experiment trains
        result = experiment.run(context)
    if not isinstance(result, Result):
        raise ContractError(
            f"experiment {name!r}: run(context) returned {type(result).__name__}, not a ktiwprobe.experiments.Result"
        )
    result = _marked(result, context, usual)
    return Report(
        experiment=name,
        claim=experiment.claim,
        scale=context.scale,
        command=_command(name, scale, {**wishes, **own}),
        date=datetime.date.today().isoformat(),
        machine=_machine(),
        seconds=time.monotonic() - started,
        seeds=chosen,
        runs=tuple(context.used),
        versions=_versions(),
        result=result,
    )


def _wishes(
    experiment: Experiment, name: str, wishes: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What every experiment may be asked, and what this one alone; its own options may be called like the former."""
    known = {field.name for field in fields(options_of(experiment))}
    takes = taken_by(experiment)
    own = dict(options) | {key: value for key, value in wishes.items() if key in known and value is not None}
    left = {key: None if key in known else value for key, value in wishes.items()}
    for key, value in left.items():
        if value is not None and key not in takes:
            raise UsageError(f"experiment {name!r} has its own {key} and takes no others", hint=f"{key}=None")
    return left, own


def _usual_seeds(experiment: Experiment, scale: str, task: str | None) -> Sequence[int]:
    if scale != "paper":
        return experiment.small_seeds
    return seeds_by_task(experiment).get(task or "", experiment.seeds)


def _seeds(wish: str | Sequence[int] | None, usual: Sequence[int]) -> tuple[int, ...]:
    if isinstance(wish, str):
        return parse_seeds(wish)
    return tuple(usual if wish is None else wish)


def _marked(result: Result, context: Context, usual: Sequence[int]) -> Result:
    """What is less than the experiment's own says so wherever it is shown."""
    less = [SMALL] if context.small else []
    if len(context.seeds) < len(usual):
        less.append(f"Of {len(context.seeds)} seeds only: the experiment's own are {len(usual)}.")
    if context.steps is not None:
        less.append(f"Trained for {context.steps} steps, not for the experiment's own.")
    if not less:
        return result
    mark = "small scale" if context.small else "not the experiment's own seeds or steps"
    for figure in result.figures.values():
        figure.text(0.005, 0.005, mark, fontsize=8, color="grey")
    return replace(result, notes=[*less, *result.notes], verdict=f"{result.verdict} ({mark})")


def _command(name: str, scale: str, wishes: Mapping[str, Any]) -> str:
    said = {**wishes, "scale": None if scale == "paper" else scale}
    listed = {key: ",".join(map(str, v)) if isinstance(v, (list, tuple)) else v for key, v in said.items()}
    options = "".join(f" --{key.replace('_', '-')} {v}" for key, v in listed.items() if v is not None)
    return f"ktiwprobe reproduce {name}{options}"


def _machine() -> str:
    return f"{cores()} cores, {platform.system()} {platform.machine()}" + (" in CI" if os.environ.get("CI") else "")


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {"python": platform.python_version(), **{name: version(name) for name in ("ktiwprobe", "torch", "numpy")}}

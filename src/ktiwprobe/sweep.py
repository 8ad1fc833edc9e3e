"""Many runs: a grid of jobs on an engine. A job that is finished is skipped, one that was begun goes on.

All that a job does is write its run directory, so what it has reached is read from there, wherever it runs.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ktiwprobe.engines import RETRIES, Engine, make_engine
from ktiwprobe.errors import Interrupted, KtiwprobeError, UsageError
from ktiwprobe.progress import SILENT, JobState, Progress
from ktiwprobe.recipe import Recipe, make_recipe
from ktiwprobe.registry import Registry, build_registry
from ktiwprobe.run import Run, runs_folder
from ktiwprobe.training import follow

SECONDS_BETWEEN_LOOKS = 1.0
INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Job:
    """One run to be had."""

    model: str
    task: str | None = None
    seed: int = 0
    attention: str = "learned"
    steps: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def recipe(self, registry: Registry) -> Recipe:
        """What the run is made of; what cannot be is refused here."""
        values = dict(self.options) | ({} if self.steps is None else {"train.steps": self.steps})
        return make_recipe(registry, self.model, self.task, seed=self.seed, attention=self.attention, values=values)


@dataclass(frozen=True)
class Outcome:
    """How a job ended."""

    job: Job
    run: Run
    state: Literal["done", "found", "failed"]  # found: finished before
    reason: str = ""


def grid(
    models: Sequence[str],
    tasks: Sequence[str | None] = (None,),
    attentions: Sequence[str] = ("learned",),
    seeds: Sequence[int] = (0,),
    *,
    steps: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> list[Job]:
    """Every combination; an option whose value is a list takes each of its values in turn."""
    several = {key: value if isinstance(value, list) else [value] for key, value in (options or {}).items()}
    choices = [dict(zip(several, values, strict=True)) for values in itertools.product(*several.values())]
    return [
        Job(model, task, seed, attention, steps, chosen)
        for task, model, attention, chosen, seed in itertools.product(tasks, models, attentions, choices, seeds)
    ]


def parse_seeds(text: str) -> tuple[int, ...]:
    """0-3,7 as 0, 1, 2, 3, 7."""
    seeds: list[int] = []
    for part in text.split(","):
        ends = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if not ends or (ends[2] and int(ends[2]) < int(ends[1])):
            raise UsageError(f"seeds {text!r} are not a list such as 0-3,7")
        seeds += range(int(ends[1]), int(ends[2] or ends[1]) + 1)
    return tuple(dict.fromkeys(seeds))


def sweep(
    jobs: Iterable[Job],
    *,
    runs: str | Path | None = None,
    engine: str | Engine = "local",
    device: str = "auto",
    registry: Registry | None = None,
    progress: Progress = SILENT,
) -> list[Outcome]:
    """Run every job and tell how each ended, in their order; one that fails leaves the others alone."""
    registry, folder = registry or build_registry(), runs_folder(runs).absolute()
    places: dict[Path, Job] = {}
    for job in jobs:  # two jobs that mean one run are one
        places.setdefault(job.recipe(registry).folder(folder), job)
    waiting = {path: job for path, job in places.items() if not _finished(Run(path), job)}
    ended = {path: Outcome(job, Run(path), "found") for path, job in places.items() if path not in waiting}
    if waiting:
        engine = make_engine(engine) if isinstance(engine, str) else engine
        ended |= _Sweep(engine, waiting, device, progress).outcomes(len(ended))
    return [ended[path] for path in places]


class _Sweep:
    """The jobs of one sweep while they run."""

    def __init__(self, engine: Engine, jobs: Mapping[Path, Job], device: str, progress: Progress) -> None:
        self.engine, self.jobs, self.device, self.progress = engine, jobs, device, progress
        self.attempts = dict.fromkeys(jobs, 0)
        self.pending: dict[Future[str], Path] = {}
        self.ended: dict[Path, Outcome] = {}

    def outcomes(self, found: int) -> dict[Path, Outcome]:
        """Run them all; Ctrl-C lets those that run save what they have."""
        self.progress.begin("sweep", found + len(self.jobs), found, unit="jobs")
        try:
            with self.engine:
                for path in self.jobs:
                    self._submit(path)
                while self.pending:
                    done, _ = wait(self.pending, SECONDS_BETWEEN_LOOKS, FIRST_COMPLETED)
                    self._collect(done)
                    self.progress.jobs([state for path in self.pending.values() if (state := self._state(path))])
                    self.progress.advance(found + len(self.ended))
        except KeyboardInterrupt:
            left = len(self.jobs) - len(self.ended)
            raise Interrupted(f"stopped with {left} jobs to go: the same command goes on from here") from None
        finally:
            self.progress.end()
        return self.ended

    def _submit(self, path: Path) -> None:
        self.attempts[path] += 1
        self.pending[self.engine.submit(_work, self.jobs[path], str(path), self.device)] = path

    def _collect(self, done: Iterable[Future[str]]) -> None:
        lost = []
        for future in done:
            path = self.pending.pop(future)
            error = future.exception()
            if isinstance(error, BrokenExecutor):
                lost.append(path)
            else:
                self._end(path, _one_line(error) if error else future.result())
        if lost:
            self._begin_again(lost)

    def _begin_again(self, lost: list[Path]) -> None:
        """A worker died, and with it all that ran beside it."""
        lost += [self.pending.pop(future) for future in list(self.pending)]
        again = self.engine.recover()
        for path in lost:
            if again and self.attempts[path] <= RETRIES:
                self._submit(path)
            else:
                self._end(path, "its worker died (killed, or out of memory)")

    def _state(self, path: Path) -> JobState | None:
        """How far a job is, if it has begun."""
        run = Run(path)
        try:
            last = run.log()[-1:] if run.exists else []
            target = (self.jobs[path].steps or int(run.record["steps"])) if last else 0
        except KtiwprobeError:  # read while it is being written
            return None
        return JobState(run.name, last[0]["step"], target, last[0]) if last else None

    def _end(self, path: Path, reason: str) -> None:
        if reason == INTERRUPTED:
            raise KeyboardInterrupt
        run, job = Run(path), self.jobs[path]
        self.ended[path] = Outcome(job, run, "failed" if reason else "done", reason)
        self.progress.job_ended(run.name, reason or _reached(run))


def _work(job: Job, path: str, device: str) -> str:
    """What an engine runs: bring the run at `path` to its end; the reason if it failed, else nothing."""
    try:
        follow(job.recipe(build_registry()), Path(path), resume=True, device=device)
    except Interrupted:
        return INTERRUPTED
    except KtiwprobeError as error:
        return str(error)
    return ""


def _finished(run: Run, job: Job) -> bool:
    """Whether the run has reached what the job wants, by what its files say of themselves."""
    try:
        if not run.exists:
            return False
        reached, aim = run.reached()
        return reached == aim and reached >= (job.steps or 0)
    except KtiwprobeError:
        return False


def _reached(run: Run) -> str:
    last = run.log()[-1]
    return f"step {last['step']}, accuracy {last['accuracy']:.4f}"


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"

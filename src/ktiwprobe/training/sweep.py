"""Many runs: a grid of jobs on an engine. A job that is finished is skipped, one that was begun goes on.

All that a job does is write its run directory, so what it has reached is read from there, wherever it runs.
"""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ktiwprobe.corpus.place import data_folder, data_in
from ktiwprobe.errors import Interrupted, KtiwprobeError, UsageError
from ktiwprobe.files.progress import SILENT, JobState, Progress, stop_when_asked
from ktiwprobe.plugins.registry import Registry, build_registry
from ktiwprobe.runs.recipe import Recipe, make_recipe
from ktiwprobe.runs.run import Run, runs_folder
from ktiwprobe.training.engines import RETRIES, Engine, make_engine
from ktiwprobe.training.loop import follow

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
    engine: str | Engine | None = None,
    device: str = "auto",
    registry: Registry | None = None,
    progress: Progress = SILENT,
) -> list[Outcome]:
    """Run every job and tell how each ended, in their order; one that fails leaves the others alone."""
    registry, folder = registry or build_registry(), runs_folder(runs).absolute()
    asked = [(recipe.folder(folder), job, recipe) for job in jobs for recipe in [job.recipe(registry)]]
    places: dict[Path, tuple[Job, Recipe]] = {}
    for path, job, recipe in asked:  # jobs that mean one run are one: the longest
        if path not in places or _length(recipe) > _length(places[path][1]):
            places[path] = job, recipe
    waiting = {path: job for path, (job, recipe) in places.items() if not _finished(Run(path), recipe)}
    ended = {path: Outcome(job, Run(path), "found") for path, (job, _) in places.items() if path not in waiting}
    if waiting:
        _check_installed(waiting.values())
        if engine is None or isinstance(engine, str):
            engine = make_engine(engine, registry=registry)
        ended |= _Sweep(engine, waiting, device, progress).outcomes(len(ended))
    return [replace(ended[path], job=job) for path, job, _ in asked]


class _Sweep:
    """The jobs of one sweep while they run."""

    def __init__(self, engine: Engine, jobs: Mapping[Path, Job], device: str, progress: Progress) -> None:
        self.engine, self.jobs, self.device, self.progress = engine, jobs, device, progress
        self.waiting = deque(jobs)
        self.lost: deque[Path] = deque()  # their worker died: each is begun again alone, lest others pay for it
        self.attempts = dict.fromkeys(jobs, 0)
        self.pending: dict[Future[str], Path] = {}
        self.ended: dict[Path, Outcome] = {}

    def outcomes(self, found: int) -> dict[Path, Outcome]:
        """Run them all; Ctrl-C, or a polite kill, lets those that run save what they have."""
        self.progress.begin("sweep", found + len(self.jobs), found, unit="jobs")
        try:
            with self.engine, stop_when_asked() as asked:
                while left := len(self.jobs) - len(self.ended):
                    if asked():
                        raise Interrupted(f"stopped with {left} jobs to go: the same command goes on from here")
                    self._submit()
                    done, _ = wait(self.pending, SECONDS_BETWEEN_LOOKS, FIRST_COMPLETED)
                    for future in done:
                        self._collect(future, self.pending.pop(future))
                    self.progress.jobs([state for path in self.pending.values() if (state := self._state(path))])
                    self.progress.advance(found + len(self.ended))
        finally:
            self.progress.end()
        return self.ended

    def _submit(self) -> None:
        """Begin as many as there is room for."""
        while self.waiting and (self.engine.room is None or len(self.pending) < self.engine.room):
            self._begin(self.waiting.popleft())
        if self.lost and not self.pending:
            self._begin(self.lost.popleft())

    def _begin(self, path: Path) -> None:
        self.attempts[path] += 1
        future = self.engine.submit(_work, self.jobs[path], str(path), self.device, data_folder())
        self.pending[future] = path

    def _collect(self, future: Future[str], path: Path) -> None:
        """How a job ended; one that did not end by itself is begun again, a few times."""
        error = future.exception()
        died = isinstance(error, BrokenExecutor)
        if died or (error is None and future.result() == INTERRUPTED):
            if self.attempts[path] <= RETRIES:
                self.lost.append(path)
                return
            why = "its worker died (killed, or out of memory)" if died else "it was told to stop"
            self._end(path, f"{why}, {self.attempts[path]} times")
            return
        self._end(path, _one_line(error) if error else future.result())

    def _state(self, path: Path) -> JobState | None:
        """How far a job is, if it has begun."""
        run = Run(path)
        try:
            last = run.log()[-1:] if run.exists else []
            target = (self.jobs[path].steps or run.record.steps) if last else 0
        except KtiwprobeError:  # read while it is being written
            return None
        return JobState(run.name, last[0]["step"], target, last[0]) if last else None

    def _end(self, path: Path, reason: str) -> None:
        run, job = Run(path), self.jobs[path]
        self.ended[path] = Outcome(job, run, "failed" if reason else "done", reason)
        self.progress.job_ended(run.name, reason or _reached(run))


def _work(job: Job, path: str, device: str, data: Path | None) -> str:
    """What an engine runs: bring the run at `path` to its end; the reason if it failed, else nothing."""
    try:
        with data_in(data):
            follow(job.recipe(build_registry()), Path(path), resume=True, device=device)
    except Interrupted:
        return INTERRUPTED
    except KtiwprobeError as error:
        return str(error)
    return ""


def _length(recipe: Recipe) -> tuple[int, int]:
    """What makes one training longer than another: steps, else epochs."""
    options = recipe.train_options
    return options.steps or 0, options.epochs or 0


def _finished(run: Run, recipe: Recipe) -> bool:
    """Whether the run has reached what is wanted, by what its files say of themselves."""
    try:
        if not run.exists:
            return False
        reached, aim = run.reached()
    except KtiwprobeError:
        return False
    if recipe.fits_itself or recipe.train_options.steps is None:  # epochs: their steps are known to the corpus alone
        theirs = run.record.options["train"].get("epochs")
        return reached == aim and (recipe.fits_itself or theirs == recipe.train_options.epochs)
    return reached >= recipe.train_options.steps


def _check_installed(jobs: Iterable[Job]) -> None:
    """Workers know only what is installed, not what this process was given besides."""
    installed = build_registry()
    for kind, name in {(kind, getattr(job, kind)) for job in jobs for kind in ("model", "task")}:
        if name is not None and name not in installed.names(f"{kind}s"):
            raise UsageError(
                f"{kind} {name!r} is known to this process only: install its plugin, so that workers find it"
            )


def _reached(run: Run) -> str:
    last = run.log()[-1]
    return f"step {last['step']}, accuracy {last['accuracy']:.4f}"


def _one_line(error: BaseException) -> str:
    error = getattr(error, "cause", None) or error  # what Ray wraps
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"

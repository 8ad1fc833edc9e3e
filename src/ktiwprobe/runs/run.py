"""Run: one trained model with its history, as a directory; the only module that touches one.

run.json                          written once: what the run is
log.jsonl                         step, loss, performance; no times, so that a resumed log equals an uninterrupted one
checkpoints/000050.safetensors    weights after 50 updates
checkpoints/latest/               the two newest states to resume from, in case one is damaged
signals/validation/000050/beta.safetensors
signals/sources.json              of a corpus that is slow to make: its files, by which a change is seen
performance/train/000050/likelihood.json    what was measured later: on other splits, and BLEU
corpus.safetensors                of a run recorded in a training that is not ours: the probe set
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from ktiwprobe.errors import DamagedFileError, RunBusyError, RunError, UnknownNameError
from ktiwprobe.files import storage

SCHEMA = 1
KEYS = {"task", "model", "attention", "seed", "steps", "options", "identity", "corpus", "owners"}  # every run.json has
MEASURES = ("accuracy", "loss", "perplexity")  # of every line of the log
LOWER_IS_BETTER = ("loss", "perplexity")


def runs_folder(runs: str | Path | None = None) -> Path:
    """Where runs live: as told, else KTIWPROBE_RUNS, else `runs`."""
    return Path(runs or os.environ.get("KTIWPROBE_RUNS") or "runs")


class Run:
    """A run directory. Make one with `Run.create`, read one with `Run.open`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, record: Mapping[str, Any]) -> Run:
        """A new run; `record` is what run.json will say for good."""
        storage.write_json(path / "run.json", {"schema": SCHEMA, **record})
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> Run:
        """A run that exists and that this version can read."""
        run = cls(path)
        if not run.exists:
            raise RunError(f"there is no run at {path}")
        if run.record.get("schema") != SCHEMA:
            found = run.record.get("schema")
            raise RunError(
                f"{path} was written with schema {found}, this version reads {SCHEMA}: use the version that wrote it"
            )
        return run

    @property
    def exists(self) -> bool:
        """Whether there is a run here at all."""
        return (self.path / "run.json").exists()

    @cached_property
    def record(self) -> dict[str, Any]:
        """run.json: schema, task, model, options, seed, versions, corpus fingerprints."""
        record = storage.read_json(self.path / "run.json")
        if not isinstance(record, dict):
            raise DamagedFileError(f"{self.path / 'run.json'} is damaged: it is not an object")
        if record.get("schema") == SCHEMA and not record.keys() >= KEYS:
            lost = ", ".join(sorted(KEYS - record.keys()))
            raise DamagedFileError(f"{self.path / 'run.json'} is damaged: it lacks {lost}")
        return record

    @property
    def name(self) -> str:
        """task/model-s0, as every output names it."""
        return f"{self.path.parent.name}/{self.path.name}"

    @property
    def seed(self) -> int:
        """The random seed."""
        return int(self.record["seed"])

    @property
    def attention(self) -> str:
        """learned, uniform or frozen-beta."""
        return str(self.record["attention"])

    @property
    def best_by(self) -> str:
        """The measure by which the model's best checkpoint is found."""
        return str(self.record.get("best_by", "accuracy"))  # older records do not say

    @property
    def recorded(self) -> bool:
        """Whether it was recorded in a training that is not ours: then it has no weights, only what was measured."""
        return bool(self.record.get("recorded", False))

    def offers(self, probe: str) -> bool:
        """Whether the probe can be read: of a recorded run only what was recorded can."""
        return not self.recorded or probe in self.record["probes"]

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Keep other processes from writing; released by the system if this one dies."""
        busy = f"run {self.name} is in use by another process: wait for it, or choose another --name"
        return storage.locked(self.path, busy)

    def busy(self) -> bool:
        """Whether another process writes to it now."""
        try:
            with self.lock():
                return False
        except RunBusyError:
            return True

    # the log

    def log(self) -> list[dict[str, Any]]:
        """One record an evaluation, in order; a line cut short by a crash is left out."""
        records = storage.read_lines(self.path / "log.jsonl")
        return [record for record in records if isinstance(record, dict) and "step" in record]

    def append_log(self, record: Mapping[str, Any]) -> None:
        """Add one record; on the disk before a state that counts on it."""
        storage.append_line(self.path / "log.jsonl", record)

    def cut_log(self, step: int) -> None:
        """Forget what was logged after `step`: a resume will log it again."""
        kept = [json.dumps(record) + "\n" for record in self.log() if record["step"] <= step]
        storage.write_bytes(self.path / "log.jsonl", "".join(kept).encode())

    def performance(self, measure: str = "accuracy") -> dict[int, float]:
        """The measure at every evaluated step that has a checkpoint."""
        steps = set(self.steps())
        return {r["step"]: r[measure] for r in self.log() if r["step"] in steps and measure in r}

    def best_step(self, measure: str | None = None) -> int:
        """The checkpoint that performs best by `measure`, else by the model's own; the earliest of equals."""
        measure = measure or self.best_by
        curve = self.performance(measure)
        if not curve:
            raise RunError(f"run {self.name} has no evaluated checkpoint: train it on with --resume")
        sign = -1 if measure in LOWER_IS_BETTER else 1
        return max(curve, key=lambda step: (sign * curve[step], -step))

    # checkpoints

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, in order; of a recorded run those that were recorded to the end."""
        steps = set(_by_step(self.path / "checkpoints"))
        return sorted(steps & {record["step"] for record in self.log()} if self.exists and self.recorded else steps)

    def checkpoint(self, step: int) -> Path:
        """Where the weights after `step` updates are."""
        return self.path / "checkpoints" / f"{step:06d}.safetensors"

    def save_checkpoint(self, step: int, state: Mapping[str, Any], **about: Any) -> None:
        """Keep the weights after `step` updates, or only what is said `about` them."""
        storage.write_tensors(self.checkpoint(step), state, {"step": step, **about})

    def forget_after(self, step: int) -> None:
        """Remove what was logged and kept after `step`."""
        self.cut_log(step)
        for kept in (*self.path.glob("checkpoints/*.safetensors"), *self.path.glob("signals/*/*")):
            if kept.stem.isdecimal() and int(kept.stem) > step:
                shutil.rmtree(kept, ignore_errors=True) if kept.is_dir() else kept.unlink(missing_ok=True)

    def load_checkpoint(self, step: int) -> dict[str, Any]:
        """The weights after `step` updates, as torch tensors on the CPU."""
        if not self.checkpoint(step).exists():
            raise UnknownNameError(f"checkpoint of {self.name}", str(step), map(str, self.steps()))
        try:
            return storage.read_torch(self.checkpoint(step))[0]
        except DamagedFileError as error:
            others = [s for s in self.steps() if s != step]
            raise DamagedFileError(f"{error}; the run's other checkpoints are {others}") from error

    def save_latest(self, step: int, tensors: Mapping[str, Any], meta: Mapping[str, Any]) -> None:
        """Keep all that a resume needs, and the state before it."""
        folder = self.path / "checkpoints" / "latest"
        storage.write_tensors(folder / f"{step:06d}.safetensors", tensors, {**meta, "step": step})
        files = _by_step(folder)
        kept = sorted(s for s in files if s <= step)[-2:]  # what is beyond is damaged, or this would not be done again
        for old in files.keys() - kept:
            files[old].unlink(missing_ok=True)

    def load_latest(self) -> tuple[dict[str, Any], dict[str, Any], list[str]] | None:
        """The newest undamaged state: tensors, meta, and a sentence for each damaged one; None if none was saved."""
        damaged: list[str] = []
        for _, file in sorted(_by_step(self.path / "checkpoints" / "latest").items(), reverse=True):
            try:
                return *storage.read_torch(file), damaged
            except DamagedFileError as error:
                damaged.append(str(error))
        if damaged:
            raise DamagedFileError(
                f"{'; '.join(damaged)}; no state is left to resume {self.name} from: remove it and train again"
            )
        return None

    def progress(self) -> tuple[int, int]:
        """The last step saved whole, -1 if none was, and the step to reach: unequal if the run was interrupted."""
        found = self.load_latest()
        return (-1, int(self.record["steps"])) if found is None else (int(found[1]["step"]), int(found[1]["target"]))

    def reached(self) -> tuple[int, int]:
        """The same by what the newest state says of itself: quick, its contents unread."""
        files = _by_step(self.path / "checkpoints" / "latest")
        if not files:
            return -1, int(self.record["steps"])
        meta = storage.read_meta(files[max(files)])
        return int(meta["step"]), int(meta["target"])

    # signals

    def signal_path(self, split: str, step: int, probe: str) -> Path:
        """Where a signal of this run is kept."""
        return self.path / "signals" / split / f"{step:06d}" / f"{probe}.safetensors"

    def performance_path(self, split: str, step: int, what: str) -> Path:
        """Where a performance that the log does not know is kept."""
        return self.path / "performance" / split / f"{step:06d}" / f"{what}.json"

    @property
    def sources_path(self) -> Path:
        """Where the files are listed that a corpus was made from, if it is slow to make."""
        return self.path / "signals" / "sources.json"

    @property
    def corpus_path(self) -> Path:
        """Where the probe set of a recorded run is kept."""
        return self.path / "corpus.safetensors"

    def remove(self) -> None:
        """Delete the run and everything in it."""
        with self.lock():
            try:
                shutil.rmtree(self.path)
            except OSError as error:
                raise RunError(f"cannot remove {self.path}: {error.strerror}") from error

    def tidy(self) -> None:
        """Remove what a process that was killed left half written."""
        inside = self.path / "checkpoints"
        for folder in (self.path, inside, inside / "latest", *self.path.glob("signals/*/*")):
            storage.remove_leftovers(folder)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def _repr_html_(self) -> str:
        from ktiwprobe.views import html

        return html.of_run(self)


def find_runs(folder: Path) -> list[Run]:
    """All readable runs below `folder`, the most recently trained last."""
    runs = [Run(file.parent) for file in folder.glob("*/*/run.json")]
    readable = []
    for run in runs:
        with contextlib.suppress(RunError):
            if run.record.get("schema") == SCHEMA:
                readable.append(run)
    return sorted(readable, key=lambda run: (_modified(run), run.name))


def find_run(folder: Path, name: str) -> Run:
    """The run that `name` means: task/model-s0, model-s0 where only one task has it, or a path."""
    if (Path(name) / "run.json").exists():
        return Run.open(Path(name))
    runs = find_runs(folder)
    matches = [run for run in runs if name in (run.name, run.path.name)]
    if len(matches) > 1:
        raise RunError(f"{name!r} could be any of {', '.join(run.name for run in matches)}: write the task too")
    if not matches:
        raise UnknownNameError(f"run in {folder}", name, [run.name for run in runs])
    return matches[0]


def latest_run(folder: Path) -> Run:
    """The most recently trained run."""
    runs = find_runs(folder)
    if not runs:
        raise RunError(f"there are no runs in {folder}: train one with `ktiwprobe train lstm-seq2seq`, or pass --runs")
    return runs[-1]


def _by_step(folder: Path) -> dict[int, Path]:
    """The tensor files of a folder by the step they are named after."""
    return {int(file.stem): file for file in folder.glob("*.safetensors") if file.stem.isdecimal()}


def _modified(run: Run) -> float:
    log = run.path / "log.jsonl"
    return (log if log.exists() else run.path / "run.json").stat().st_mtime

"""Run: one trained model with its history, as a directory; the only module that touches one.

run.json                          written once: what the run is, and when it was created
log.jsonl                         step, loss, performance; no times, so that a resumed log equals an uninterrupted one
checkpoints/000050.safetensors    weights after 50 updates
checkpoints/latest/               the two newest states to resume from, in case one is damaged
signals/validation/000050/beta.safetensors
signals/sources.json              of a corpus that is slow to make: its files, by which a change is seen
performance/train/000050/likelihood.json    what was measured later: on other splits, and BLEU
corpus.safetensors                of a run recorded in a training that is not ours: the probe set
times.jsonl                       how long each session of training took; nothing is decided by it

Checkpoints and states carry the fingerprint of the run's record, so a file that was copied from another run is refused.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktiwprobe.errors import DamagedFileError, RunBusyError, RunError, UnknownNameError
from ktiwprobe.files import storage
from ktiwprobe.plugins.registry import Registry, build_registry
from ktiwprobe.runs.best import best_of
from ktiwprobe.runs.record import RunRecord, read_record
from ktiwprobe.runs.times import Session, now, read_sessions

if TYPE_CHECKING:
    from ktiwprobe.corpus.corpus import Corpus
    from ktiwprobe.probes.extraction import Extractor


def runs_folder(runs: str | Path | None = None) -> Path:
    """Where runs live: as told, else KTIWPROBE_RUNS, else `runs`."""
    return Path(runs or os.environ.get("KTIWPROBE_RUNS") or "runs")


class Run:
    """A run directory. Make one with `Run.create`, read one with `Run.open`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, record: RunRecord) -> Run:
        """A new run; `record` is what run.json will say for good, with the time if it has none yet."""
        storage.write_json(path / "run.json", replace(record, created=record.created or now()).to_dict())
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> Run:
        """A run that exists and that this version can read."""
        run = cls(path)
        if not run.exists:
            raise RunError(f"there is no run at {path}: it has no run.json")
        run.record  # noqa: B018  (raises what is wrong with it)
        return run

    @property
    def exists(self) -> bool:
        """Whether there is a run here at all."""
        return (self.path / "run.json").exists()

    @cached_property
    def record(self) -> RunRecord:
        """run.json: task, model, options, seed, versions, corpus fingerprints."""
        path = self.path / "run.json"
        return read_record(storage.read_json(path), path)

    @property
    def name(self) -> str:
        """task/model-s0, as every output names it."""
        return f"{self.path.parent.name}/{self.path.name}"

    @property
    def seed(self) -> int:
        """The random seed."""
        return self.record.seed

    @property
    def attention(self) -> str:
        """learned, uniform or frozen-beta."""
        return self.record.attention

    @property
    def best_by(self) -> str:
        """The measure by which the model's best checkpoint is chosen."""
        return self.record.best_by

    @property
    def recorded(self) -> bool:
        """Whether it was recorded in a training that is not ours: then it has no weights, only what was measured."""
        return self.record.recorded

    @property
    def created(self) -> datetime:
        """When it was created; for a run of version 0.1, whose record has no time, the file time of run.json."""
        if self.record.created:
            return datetime.fromisoformat(self.record.created)
        return datetime.fromtimestamp((self.path / "run.json").stat().st_mtime, UTC)

    def offers(self, probe: str) -> bool:
        """Whether the probe can be read: of a recorded run only what was recorded can."""
        return not self.recorded or probe in self.record.probes

    # what it was trained on, and what came out

    def corpus(self, *, registry: Registry | None = None) -> Corpus:
        """The corpus, as the model reads it; an error if the task gives another one now."""
        return self._extractor(registry).corpus

    def model(self, at: int | str = "best", *, device: str = "auto", registry: Registry | None = None) -> Any:
        """The trained model at a step (a number, `best` or `last`), under the attention it was trained with."""
        extractor = self._extractor(registry, device)
        return extractor.model(extractor.step(at))

    def _extractor(self, registry: Registry | None, device: str = "auto") -> Extractor:
        from ktiwprobe.probes.extraction import Extractor

        return Extractor(self, registry or build_registry(), device=device)

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Keep other processes from writing; released by the system if this one dies."""
        busy = f"run {self.name} is in use by another process: wait for it, or choose another name"
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
        return [record for record in records if isinstance(record, dict) and isinstance(record.get("step"), int)]

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
        log = [line for line in self.log() if line["step"] in steps]
        return {line["step"]: line[measure] for line in log if isinstance(line.get(measure), int | float)}

    def best_step(self, measure: str | None = None) -> int:
        """The checkpoint that performs best by `measure`, else by the model's own; the earliest of equals."""
        measure = measure or self.best_by
        return best_of(self.performance(measure), measure, self.name)

    # checkpoints

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, in order; of a recorded run those that were recorded to the end."""
        steps = self.kept_steps()
        if not (self.exists and self.recorded):
            return steps
        logged = {record["step"] for record in self.log()}
        return [step for step in steps if step in logged]

    def kept_steps(self) -> list[int]:
        """The steps of which there is a checkpoint file, in order; also of a run that cannot be read."""
        return sorted(_by_step(self.path / "checkpoints"))

    def checkpoint(self, step: int) -> Path:
        """Where the weights after `step` updates are."""
        return self.path / "checkpoints" / f"{step:06d}.safetensors"

    def save_checkpoint(self, step: int, state: Mapping[str, Any], **about: Any) -> None:
        """Keep the weights after `step` updates, or only what is said `about` them."""
        storage.write_tensors(self.checkpoint(step), state, {"step": step, **about, **self._mark()})

    def forget_after(self, step: int) -> None:
        """Remove what was logged, kept and measured after `step`."""
        self.cut_log(step)
        for kept in (*self.path.glob("checkpoints/*.safetensors"), *self._measured()):
            if kept.stem.isdecimal() and int(kept.stem) > step:
                shutil.rmtree(kept, ignore_errors=True) if kept.is_dir() else kept.unlink(missing_ok=True)

    def load_checkpoint(self, step: int) -> dict[str, Any]:
        """The weights after `step` updates, as torch tensors on the CPU."""
        if not self.checkpoint(step).exists():
            raise UnknownNameError(f"checkpoint of {self.name}", str(step), map(str, self.steps()))
        try:
            tensors, meta = storage.read_torch(self.checkpoint(step))
        except DamagedFileError as error:
            others = [s for s in self.steps() if s != step]
            raise DamagedFileError(f"{error}; the run's other checkpoints are {others}") from error
        self._check_mark(self.checkpoint(step), meta)
        return tensors

    def checkpoint_hash(self, step: int) -> str:
        """What identifies the checkpoint after `step` updates: its checksum. The contents are not read."""
        meta = storage.read_meta(self.checkpoint(step))
        self._check_mark(self.checkpoint(step), meta)
        return str(meta["checksum"])

    def _mark(self) -> dict[str, str]:
        """What a file of this run says about where it belongs: no time and nothing random, for bits are compared."""
        return {"run": self.record.fingerprint}

    def _check_mark(self, file: Path, meta: Mapping[str, Any]) -> None:
        """Refuse a file of another run. Files of version 0.1 have no mark; in a run of that version they may stay."""
        unmarked = "run" not in meta and self.record.created is None
        if not unmarked and meta.get("run") != self.record.fingerprint:
            raise RunError(f"{file} belongs to another run than {self.name}: remove it, or bring back the run's own")

    def save_latest(self, step: int, tensors: Mapping[str, Any], meta: Mapping[str, Any]) -> None:
        """Keep all that a resume needs, and the state before it."""
        folder = self.path / "checkpoints" / "latest"
        storage.write_tensors(folder / f"{step:06d}.safetensors", tensors, {**meta, "step": step, **self._mark()})
        files = _by_step(folder)
        kept = sorted(s for s in files if s <= step)[-2:]  # what is beyond is damaged, or this would not be done again
        for old in files.keys() - kept:
            files[old].unlink(missing_ok=True)

    def load_latest(self) -> tuple[dict[str, Any], dict[str, Any], list[str]] | None:
        """The newest undamaged state: tensors, meta, and a sentence for each damaged one; None if none was saved."""
        damaged: list[str] = []
        for _, file in sorted(_by_step(self.path / "checkpoints" / "latest").items(), reverse=True):
            try:
                tensors, meta = storage.read_torch(file)
            except DamagedFileError as error:
                damaged.append(str(error))
                continue
            self._check_mark(file, meta)
            return tensors, meta, damaged
        if damaged:
            raise DamagedFileError(
                f"{'; '.join(damaged)}; no state is left to resume {self.name} from: remove it and train again"
            )
        return None

    def progress(self) -> tuple[int, int]:
        """The last step saved whole, -1 if none was, and the step to reach: unequal if the run was interrupted."""
        found = self.load_latest()
        return (-1, self.record.steps) if found is None else (int(found[1]["step"]), int(found[1]["target"]))

    def reached(self) -> tuple[int, int]:
        """The same by what the newest state says of itself: quick, its contents unread."""
        files = _by_step(self.path / "checkpoints" / "latest")
        if not files:
            return -1, self.record.steps
        newest = files[max(files)]
        meta = storage.read_meta(newest)
        self._check_mark(newest, meta)
        return int(meta["step"]), int(meta["target"])

    # times

    def begin_session(self, step: int) -> Session:
        """Time a session of training that goes on from `step`."""
        return Session(self.path / "times.jsonl", step)

    def seconds(self) -> float | None:
        """How long it was trained, by its sessions; None where that is not known, as for runs of version 0.1."""
        sessions = read_sessions(self.path / "times.jsonl")
        return sum(session["seconds"] for session in sessions) if sessions else None

    # signals

    def signal_path(self, split: str, step: int, probe: str) -> Path:
        """Where a signal of this run is kept."""
        return self.path / "signals" / split / f"{step:06d}" / f"{probe}.safetensors"

    def performance_path(self, split: str, step: int, what: str) -> Path:
        """Where a performance that the log does not know is kept."""
        return self.path / "performance" / split / f"{step:06d}" / f"{what}.json"

    def _measured(self) -> list[Path]:
        """The folders of signals and performance, one for each split and step."""
        return [*self.path.glob("signals/*/*"), *self.path.glob("performance/*/*")]

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
        for folder in (self.path, inside, inside / "latest", *self._measured()):
            storage.remove_leftovers(folder)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def _repr_html_(self) -> str:
        from ktiwprobe.views import html

        return html.of_run(self)


def _by_step(folder: Path) -> dict[int, Path]:
    """The tensor files of a folder by the step they are named after."""
    return {int(file.stem): file for file in folder.glob("*.safetensors") if file.stem.isdecimal()}

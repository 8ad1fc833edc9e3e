"""The runs of a folder: which there are, which one a name means, which is the latest, and which cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ktiwprobe.errors import RunError, UnknownNameError
from ktiwprobe.runs.run import Run


@dataclass(frozen=True)
class UnreadableRun:
    """A run directory that this version cannot read, and why."""

    path: Path
    reason: str

    @property
    def name(self) -> str:
        """task/model-s0, as of any run."""
        return Run(self.path).name


def list_runs(folder: Path) -> tuple[list[Run], list[UnreadableRun]]:
    """All runs below `folder`: those that can be read, the most recently created last, and the others by name."""
    readable, unreadable = [], []
    for path in sorted({file.parent for kept in ("run.json", "checkpoints") for file in folder.glob(f"*/*/{kept}")}):
        try:
            readable.append(Run.open(path))
        except RunError as error:
            unreadable.append(UnreadableRun(path, str(error)))
    return sorted(readable, key=lambda run: (run.created, run.name)), unreadable


def find_runs(folder: Path) -> list[Run]:
    """All readable runs below `folder`, the most recently created last. Resuming a run does not move it."""
    return list_runs(folder)[0]


def find_run(folder: Path, name: str) -> Run:
    """The run that `name` means: task/model-s0, model-s0 where only one task has it, or a path."""
    return Run.open(run_path(folder, name))


def run_path(folder: Path, name: str) -> Path:
    """Where the run that `name` means is, whether it can be read or not."""
    if (Path(name) / "run.json").exists():
        return Path(name)
    readable, unreadable = list_runs(folder)
    runs: list[Run | UnreadableRun] = [*readable, *unreadable]
    matches = [run for run in runs if name in (run.name, run.path.name)]
    if len(matches) > 1:
        raise RunError(f"{name!r} could be any of {', '.join(run.name for run in matches)}: write the task too")
    if not matches:
        raise UnknownNameError(f"run in {folder}", name, [run.name for run in runs])
    return matches[0].path


def latest_run(folder: Path) -> Run:
    """The most recently created run, which is not the most recently trained one if an older run was resumed."""
    readable, unreadable = list_runs(folder)
    if readable:
        return readable[-1]
    if unreadable:
        raise RunError(f"no run in {folder} can be read: {unreadable[0].reason}")
    advice = "train one with `ktiwprobe train lstm-seq2seq`, or choose another folder"
    raise RunError(f"there are no runs in {folder}: {advice}", hint="runs")


def run_to_watch(folder: Path) -> Run:
    """The latest run that is being trained now, which may be an older run that was resumed; else the latest run."""
    latest = latest_run(folder)
    return next((run for run in reversed(find_runs(folder)) if _is_unfinished(run) and run.busy()), latest)


def _is_unfinished(run: Run) -> bool:
    try:
        reached, target = run.reached()
    except RunError:  # a damaged state
        return False
    return reached < target and not run.recorded


def latest_by_file_time(latest: Run, others: Sequence[Run]) -> str | None:
    """A sentence if `latest` was taken before `others` by a file time only, which copying changes."""
    if latest.record.created or all(run.path == latest.path for run in others):
        return None
    return (
        f"{latest.name} is taken as the latest run by its file time: version 0.1 did not write when a run was created"
    )

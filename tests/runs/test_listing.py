"""The runs of a folder: found by name, in the order of their creation, with the reason of each that cannot be read."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ktiwprobe import Run
from ktiwprobe.errors import DamagedFileError, RunError, UnknownNameError
from ktiwprobe.runs.listing import (
    find_run,
    find_runs,
    latest_by_file_time,
    latest_run,
    list_runs,
    run_path,
    run_to_watch,
)


def copy_of(run: Run, task: str, name: str, *, year: int = 2000) -> Run:
    """The same record under another name, created in another year."""
    record = replace(run.record, task=task, created=f"{year}-01-01T00:00:00+00:00")
    return Run.create(run.path.parent.parent / task / name, record)


# names


def test_a_run_has_a_name_a_short_name_and_a_path(tiny_run: Run) -> None:
    """Three ways to say the same run."""
    folder = tiny_run.path.parent.parent
    for name in ("tiny-task/tiny-model-s0", "tiny-model-s0", str(tiny_run.path)):
        assert find_run(folder, name).path == tiny_run.path


def test_an_ambiguous_short_name_lists_the_runs(tiny_run: Run) -> None:
    """A name that two tasks have must be written with its task."""
    copy_of(tiny_run, "other-task", tiny_run.path.name)
    folder = tiny_run.path.parent.parent
    with pytest.raises(RunError, match=r"could be any of other-task/tiny-model-s0, tiny-task/tiny-model-s0: write the"):
        find_run(folder, "tiny-model-s0")
    assert find_run(folder, "tiny-task/tiny-model-s0").path == tiny_run.path


def test_an_unknown_run_suggests_the_nearest(tiny_run: Run) -> None:
    """A mistyped run is answered with the runs there are."""
    with pytest.raises(UnknownNameError, match="did you mean 'tiny-task/tiny-model-s0'"):
        find_run(tiny_run.path.parent.parent, "tiny-task/tiny-model-s1")


# the latest


def test_the_latest_run_is_the_one_created_last(tiny_run: Run) -> None:
    """Neither names nor file times decide, so copying files and resuming old runs changes nothing."""
    folder = tiny_run.path.parent.parent
    late, early = copy_of(tiny_run, "t", "a", year=9000), copy_of(tiny_run, "t", "z", year=2000)
    for run, when in ((late, 500), (early, 2_000_000_000)):
        os.utime(run.path / "run.json", (when, when))
    assert [run.path for run in find_runs(folder)] == [early.path, tiny_run.path, late.path]
    assert latest_run(folder).path == late.path
    assert latest_by_file_time(late, find_runs(folder)) is None


def test_resuming_does_not_make_a_run_the_latest(run_tiny: Callable[..., Run], tmp_path: Path) -> None:
    """What a bare SPEC means stays the same while an older run goes on."""
    first, second = run_tiny(seed=0, steps=2), run_tiny(seed=1, steps=2)
    assert first.created < second.created
    created = first.record.created
    assert Run.open(run_tiny(seed=0, steps=4).path).record.created == created
    assert latest_run(tmp_path / "runs").path == second.path


def test_runs_of_version_0_1_have_a_file_time(old_runs: Path) -> None:
    """The order is that of run.json's file times, and a sentence says so where it decides."""
    paths = sorted(file.parent for file in old_runs.glob("*/*/run.json"))
    for n, path in enumerate(paths):
        os.utime(path / "run.json", (1000 - n, 1000 - n))
    assert [run.path for run in find_runs(old_runs)] == paths[::-1]
    latest = latest_run(old_runs)
    sentence = latest_by_file_time(latest, find_runs(old_runs))
    assert sentence is not None and sentence.startswith(f"{latest.name} is taken as the latest run by its file time")
    assert latest_by_file_time(latest, [latest]) is None


def test_the_run_to_watch_is_the_one_in_training(run_tiny: Callable[..., Run], tmp_path: Path) -> None:
    """An older run that is resumed is watched while it is trained; else the latest run is."""
    old, latest = run_tiny(seed=0, steps=2), run_tiny(seed=1, steps=2)
    old.save_latest(2, {}, {"target": 9})
    assert run_to_watch(tmp_path / "runs").path == latest.path
    with old.lock():
        assert run_to_watch(tmp_path / "runs").path == old.path


def test_no_runs_is_a_sentence(tmp_path: Path) -> None:
    """An empty or missing folder says how to make a run."""
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(RunError, match=r"there are no runs in .*train one"):
            latest_run(folder)


# runs that cannot be read


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is not JSON"),
        (b"[]", "it is not an object"),
        (b"{", "it is not JSON"),
        (b"\xff\xfe", "it is not JSON"),
        (b'{"schema": 1, "task": "x"}', "it lacks model, attention, seed"),
        (b'{"schema": 99}', "upgrade ktiwprobe"),
        (None, "it has no run.json"),
    ],
)
def test_a_run_that_cannot_be_read_is_listed_with_the_reason(tiny_run: Run, content: bytes | None, reason: str) -> None:
    """It hides no other run, is named with its reason where it is asked for, and can be removed."""
    folder, other = tiny_run.path.parent.parent, copy_of(tiny_run, "tiny-task", "other")
    file = tiny_run.path / "run.json"
    file.unlink() if content is None else file.write_bytes(content)
    readable, (broken,) = list_runs(folder)
    assert [run.name for run in readable] == [run.name for run in find_runs(folder)] == [other.name]
    assert latest_run(folder).name == other.name
    assert (broken.name, broken.path) == ("tiny-task/tiny-model-s0", tiny_run.path)
    assert reason in broken.reason and "\n" not in broken.reason
    for name in ("tiny-model-s0", broken.name):
        with pytest.raises(RunError) as caught:
            find_run(folder, name)
        assert str(caught.value) == broken.reason
    Run(run_path(folder, "tiny-model-s0")).remove()
    assert list_runs(folder)[1] == []


def test_wrong_types_are_a_reason(tiny_run: Run) -> None:
    """A value of another type is damage, and the reason names its key."""
    file = tiny_run.path / "run.json"
    file.write_text(file.read_text().replace('"seed": 0,\n  "kind"', '"seed": "0",\n  "kind"'))
    (broken,) = list_runs(tiny_run.path.parent.parent)[1]
    assert broken.reason == f"{file} is damaged: seed is '0', not a whole number"


def test_only_unreadable_runs_are_a_reason(tiny_run: Run) -> None:
    """Where no run can be read, the sentence says why instead of that there are none."""
    (tiny_run.path / "run.json").write_text("{")
    with pytest.raises(RunError, match=r"no run in .* can be read: .*run\.json is damaged"):
        latest_run(tiny_run.path.parent.parent)
    with pytest.raises(DamagedFileError, match="it is not JSON"):
        Run.open(tiny_run.path)

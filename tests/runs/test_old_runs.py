"""Runs that version 0.1.0 wrote: what was right is read as it is, what was wrong is computed again."""

from pathlib import Path

import numpy as np
import pytest

from ktiwprobe import Run, agree, build_registry, train
from ktiwprobe.files import storage
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.signals.signal import load_signal


def open_run(runs: Path, task: str) -> Run:
    """The run of a task."""
    (path,) = runs.glob(f"{task}*/*")
    return Run.open(path)


@pytest.mark.parametrize("task", ["toy-translation", "toy-sentiment"])
@pytest.mark.parametrize("probe", ["alpha", "beta", "delta"])
def test_right_numbers_are_read_and_still_come_out(old_runs: Path, task: str, probe: str) -> None:
    """A stored signal of the paper's models is not touched; computed again it is the same."""
    run = open_run(old_runs, task)
    path = run.signal_path("validation", 40, probe)
    before = path.read_bytes()
    stored = Extractor(run, build_registry(), device="cpu").signal(probe, 40)
    assert path.read_bytes() == before
    path.unlink()
    again = Extractor(run, build_registry(), device="cpu").signal(probe, 40)
    np.testing.assert_allclose(again.values, stored.values, rtol=1e-4, atol=1e-5)


def test_beta_outside_a_window_is_not_read(old_runs: Path) -> None:
    """Rows of a Mistral with a window of 3 have at most 3 cells; the stored beta of 0.1.0 has the whole prefix."""
    run = open_run(old_runs, "plain-text")
    wrong = load_signal(run.signal_path("validation", 20, "beta"))
    right = Extractor(run, build_registry(), device="cpu").signal("beta", 20)
    assert wrong.lengths.max() > 3
    assert right.lengths.max() == 3
    row = np.repeat(np.arange(len(wrong.lengths)), wrong.lengths)
    back = row - wrong.first_rows[wrong.sentence_of_row[row]] - wrong.positions
    np.testing.assert_allclose(right.values, wrong.values[:, back < 3], rtol=1e-4, atol=1e-5)  # inside it was right
    assert load_signal(run.signal_path("validation", 20, "beta")).lengths.max() == 3


@pytest.mark.parametrize("task", ["toy-translation", "toy-sentiment"])
def test_old_runs_go_on(old_runs: Path, task: str) -> None:
    """They are extended by the same command; their files have no mark, those written now have that of the run."""
    record = open_run(old_runs, task).record
    options = {f"{space}.{key}": value for space, of in record.options.items() for key, value in of.items()}
    options = {key: value for key, value in options.items() if value is not None and key != "train.steps"}
    run = train(record.model, task, steps=42, options=options, runs=old_runs, device="cpu")
    assert run.path == open_run(old_runs, task).path
    assert run.steps() == [0, 40, 42]
    marks = [storage.read_meta(run.checkpoint(step)).get("run") for step in run.steps()]
    assert marks == [None, None, record.fingerprint]
    assert all(run.load_checkpoint(step) for step in run.steps())
    assert (run.record.created, run.record.steps) == (None, 40)


def test_old_runs_compare(old_runs: Path) -> None:
    """What was stored by the old version is compared as it is."""
    files = {file: file.read_bytes() for file in old_runs.glob("toy-translation*/*/signals/*/*/*")}
    result = agree("alpha", "beta", runs=old_runs, task="toy-translation", device="cpu")
    assert result.value is not None
    assert {file: file.read_bytes() for file in files} == files


def test_the_fixtures_stay_small() -> None:
    """They are read by many tests and belong to the repository."""
    files = [path for path in (Path(__file__).parents[1] / "fixtures" / "runs-0.1.0").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 300_000

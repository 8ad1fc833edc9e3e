"""The engine ray, against a real Ray instance that the test starts."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from ktiwprobe.errors import UsageError
from ktiwprobe.training.engines import make_engine
from ktiwprobe.training.sweep import Job, sweep

pytest.importorskip("ray")
SIZES = {"length": 8, "vocabulary": 10, "hidden": 32, "validation": 20, "layers": 1, "checkpoints": "every:50"}
JOBS = [Job("lstm-seq2seq", "copy", seed, steps=300, options=SIZES) for seed in (0, 1, 2)]


def worker_of(run: Path) -> int | None:
    """The process that holds a file of `run` open (its lock), if it is one of Ray's workers."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if "ray::" not in (process / "cmdline").read_text():
                continue
            held = {str(handle.readlink()) for handle in (process / "fd").iterdir()}
        except OSError:  # it ended meanwhile
            continue
        if str(run / ".lock") in held:
            return int(process.name)
    return None


class Killer(threading.Thread):
    """Kills the worker of a run once it has saved something."""

    def __init__(self, run: Path) -> None:
        super().__init__(daemon=True)
        self.run_folder, self.killed = run, None

    def run(self) -> None:
        deadline = time.monotonic() + 900
        while time.monotonic() < deadline:
            if list(self.run_folder.glob("checkpoints/latest/000050*")) and (pid := worker_of(self.run_folder)):
                os.kill(pid, signal.SIGKILL)
                self.killed = pid
                return
            time.sleep(0.01)


@pytest.mark.xdist_group("ray")
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # Ray's own
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_a_killed_worker_costs_nothing_but_time(tmp_path):
    """Two workers, one killed in mid-job: the sweep completes, and equals the local engine's bit for bit."""
    from ktiwprobe import build_registry

    first = JOBS[0].recipe(build_registry()).folder(tmp_path / "ray")
    killer = Killer(first)
    killer.start()
    outcomes = sweep(JOBS, runs=tmp_path / "ray", engine=make_engine("ray", workers=2), device="cpu")
    killer.join(1)
    assert killer.killed, "the worker was never found: nothing was tested"
    assert [(o.state, o.reason) for o in outcomes] == [("done", "")] * len(JOBS)
    for mine, theirs in zip(
        outcomes,
        sweep(JOBS, runs=tmp_path / "local", engine=make_engine("local", workers=2), device="cpu"),
        strict=True,
    ):
        assert mine.run.steps() == theirs.run.steps()
        for step in mine.run.steps():
            assert mine.run.checkpoint(step).read_bytes() == theirs.run.checkpoint(step).read_bytes()
        assert mine.run.log() == theirs.run.log()


@pytest.mark.xdist_group("ray")
def test_an_address_without_ray_is_one_sentence():
    """Nobody listens there."""
    engine = make_engine("ray", address="127.0.0.1:1")
    with pytest.raises(UsageError, match=r"cannot reach Ray at 127\.0\.0\.1:1"), engine:
        pass

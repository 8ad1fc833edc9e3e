"""ktiwprobe sweep and ktiwprobe reproduce"""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from ktiwprobe.runs.listing import find_runs
from observe import hears_ctrl_c

PROGRAM = "from ktiwprobe.cli import main; main(prog_name='ktiwprobe')"
TINY = ("sweep", "--model", "tiny-model", "--task", "tiny-task")
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray")
pytestmark = pytest.mark.usefixtures("installed_tiny")


def test_a_grid_is_trained_and_shown(cli, tmp_path):
    """A row for each run, a line of progress for each job; the second time they are found."""
    result = cli(*TINY, "--seeds", "0-1", "--vary", "lr=0.01,0.02", "--workers", "2")
    assert len(find_runs(tmp_path / "runs")) == 4
    head, _, *rows = result.stdout.splitlines()
    assert head.split() == ["run", "state", "step", "accuracy", "best"]
    assert [row.split()[1:3] for row in rows] == [["done", "30"]] * 4
    first, *lines = result.stderr.splitlines()
    assert first == "sweep: 4 jobs"
    assert [line.split()[0] for line in lines] == [f"[{n}/4]" for n in range(1, 5)]
    again = json.loads(cli(*TINY, "--seeds", "0-1", "--vary", "lr=0.01,0.02", "--json").stdout)
    assert {row["state"] for row in again} == {"found"}
    assert all(0 <= row["accuracy"] <= row["best"] <= 1 for row in again)


def test_a_grid_from_a_file(cli, tmp_path):
    """Lists in the file vary, and the command line wins over it."""
    grid = 'models = ["tiny-model"]\ntasks = "tiny-task"\nseeds = "0-5"\nattention = ["learned", "uniform"]\n'
    (tmp_path / "grid.toml").write_text(f"{grid}[train]\nlr = [0.01]\n")
    rows = json.loads(cli("sweep", "--config", "grid.toml", "--seeds", "3", "--json", "--quiet").stdout)
    assert [run.attention for run in find_runs(tmp_path / "runs")].count("uniform") == 1
    assert len(rows) == 2
    assert {run.seed for run in find_runs(tmp_path / "runs")} == {3}


def test_a_failure_is_exit_3(cli, tmp_path):
    """The reason is a sentence on standard error, and the others are kept."""
    result = cli(*TINY, "--vary", "lr=0.03,1e30", "--quiet", "--workers", "1", code=3)
    (line,) = result.stderr.splitlines()
    assert "diverged" in line
    assert sorted(row.split()[1] for row in result.stdout.splitlines()[2:]) == ["done", "failed"]


def test_what_cannot_be_is_one_sentence(refusal):
    """No model, an unknown engine, seeds that are none, an unknown claim."""
    assert "a sweep needs a model" in refusal("sweep")
    assert "unknown engine 'cloud'" in refusal(*TINY, "--engine", "cloud")
    assert "not a list such as 0-3,7" in refusal(*TINY, "--seeds", "x")
    assert "did you mean 'copying'" in refusal("reproduce", "copyng")
    assert "has its own task" in refusal("reproduce", "copying", "--task", "copy")
    assert "has its own seeds" in refusal("reproduce", "count-table", "--seeds", "1")


AT_ONCE = """
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from ktiwprobe import option


class AtOnce:
    @dataclass(frozen=True)
    class Options:
        diary: str = option("diary", help="where it writes what it does")

    room = None

    def __init__(self, options):
        self.diary = Path(options.diary)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def submit(self, work, *arguments):
        self.diary.write_text("one job")
        future = Future()
        future.set_result(work(*arguments))
        return future


@hookimpl
def register_engines(register):
    register("at-once", AtOnce, summary="this process")
"""


def test_a_plugin_brings_an_engine(cli, refusal, stranger, tmp_path):
    """It is listed with its options, and runs a sweep; its own options stand in its name."""
    stranger("engines", AT_ONCE)
    assert "at-once  this process" in cli("ls", "engines").stdout
    assert "where it writes what it does" in cli("ls", "at-once").stdout
    cli("sweep", "--model", "tiny-model", "--engine", "at-once:diary=here", "--steps", "2", "--quiet")
    assert (tmp_path / "here").read_text() == "one job"
    assert len(find_runs(tmp_path / "runs")) == 1
    wrong = refusal("sweep", "--model", "tiny-model", "--engine", "at-once", "--workers", "2")
    assert "engine 'at-once' does not take this: unknown option at-once.workers; known: diary" in wrong


SLOW_SWEEP = ("sweep", "--model", "lstm-seq2seq", "--task", "copy", "--seeds", "0-2", "--workers", "1", "--quiet")
SIZES = ("hidden=8", "length=4", "vocabulary=5", "validation=5", "batch=2")


@pytest.fixture
def begun(request, tmp_path, monkeypatch):
    """The command of a sweep, and a process that is in the middle of its first job."""
    engine = ("--engine", getattr(request, "param", "local"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "site"), str(Path(__file__).parents[1])]))
    command = [sys.executable, "-c", PROGRAM, *SLOW_SWEEP, *engine, *(word for size in SIZES for word in ("-o", size))]
    process = subprocess.Popen(
        [*command, "--steps", "4000"], cwd=tmp_path, stderr=subprocess.PIPE, text=True, preexec_fn=hears_ctrl_c
    )
    while process.poll() is None and not any(run.log()[3:] for run in find_runs(tmp_path / "runs")):
        time.sleep(0.05)
    yield command, process
    process.kill()
    process.communicate()


def goes_on(command, folder):
    """The sweep ends as if never stopped, from where its one run was."""
    (run,) = find_runs(folder / "runs")  # none of the jobs that waited was begun
    reached, aim = run.progress()
    assert 0 < reached < aim
    again = subprocess.run([*command, "--steps", str(reached + 5)], cwd=folder, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert [line.split()[1:3] for line in again.stdout.splitlines()[2:]] == [["done", str(reached + 5)]] * 3


@pytest.mark.parametrize(
    ("begun", "how"),
    [
        ("local", signal.SIGINT),
        ("local", signal.SIGTERM),
        pytest.param("ray", signal.SIGINT, marks=[pytest.mark.xdist_group("ray"), needs_ray]),
    ],
    indirect=["begun"],
)
def test_a_sweep_told_to_stop_saves_what_runs(begun, tmp_path, how):
    """By Ctrl-C, or as batch systems do it: exit 130 and one sentence, and the same command goes on."""
    command, process = begun
    process.send_signal(how)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert said == "ktiwprobe: stopped with 3 jobs to go: the same command goes on from here\n"
    goes_on(command, tmp_path)


def test_workers_do_not_outlive_a_killed_sweep(begun, tmp_path):
    """Nobody tells them; they notice, save and end, so that the same command finds no lock."""
    command, process = begun
    process.kill()
    (run,) = find_runs(tmp_path / "runs")
    deadline = time.monotonic() + 60
    while run.busy() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not run.busy()
    goes_on(command, tmp_path)


def test_a_claim_is_told_and_written(cli, tmp_path):
    """The claim, a table, notes, a verdict and the files."""
    result = cli("reproduce", "initial-gradient", "--scale", "small", "--seeds", "0", "--quiet", "--out", "here")
    assert "logits" in result.stdout
    assert "(small scale)" in result.stdout
    assert "Small scale: " in result.stdout
    written = result.stdout.splitlines()[-1].removeprefix("written: ").split(", ")
    assert "here/initial-gradient-small.md" in written
    assert all((tmp_path / file).stat().st_size for file in written)

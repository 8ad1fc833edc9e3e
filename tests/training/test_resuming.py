"""Resuming: neither a signal nor kill -9 nor damage changes a bit of what a run ends with."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import tiny
from ktiwprobe import Run
from ktiwprobe.errors import DamagedFileError, Interrupted, RunError
from ktiwprobe.training import loop as training
from observe import Watch, outcome, registry_with, stamps, steps_logged, the_run

TESTS = Path(__file__).parents[1]
KTIWPROBE = Path(sys.executable).with_name("ktiwprobe")
Train = Callable[..., Run]


# what was done is not done again


@pytest.mark.parametrize("wishes", [{}, {"steps": 30}, {"steps": 10}, {"resume": True}])
def test_a_finished_run_is_returned_as_it_is(run_tiny: Train, tiny_run: Run, wishes: dict[str, Any]) -> None:
    """No file is written again."""
    before = stamps(tiny_run)
    assert run_tiny(**wishes).path == tiny_run.path
    assert stamps(tiny_run) == before


@pytest.mark.parametrize("resume", [False, True])
def test_more_steps_extend_a_finished_run(run_tiny: Train, tiny_run: Run, resume: bool) -> None:
    """An extended run is in every byte the longer run."""
    longer = run_tiny(steps=50, resume=resume)
    assert longer.path == tiny_run.path
    assert outcome(longer) == outcome(run_tiny(steps=50, runs="other"))


def test_an_extended_run_keeps_its_old_end(run_tiny: Train, tiny_run: Run) -> None:
    """An end that is on no schedule stays in the log and among the checkpoints; the weights never knew of it."""
    run_tiny(steps=15, runs="other")
    run = run_tiny(steps=30, runs="other")
    assert run.steps() == steps_logged(run) == [0, 10, 15, 20, 30]
    assert run.checkpoint(30).read_bytes() == tiny_run.checkpoint(30).read_bytes()


# stopping and going on


@pytest.mark.parametrize("stop", [(1,), (9,), (10,), (11,), (29,), (3, 4, 20, 23)])
def test_resuming_is_bit_exact(run_tiny: Train, tiny_run: Run, stop: tuple[int, ...]) -> None:
    """Stopped anywhere, however often, and resumed: log, weights, optimiser and random state of an unbroken run."""
    for step in stop:
        watch = Watch(step)
        with pytest.raises(Interrupted, match=f"stopped at step {step} of 30, all saved"):
            run_tiny(runs="broken", resume=True, progress=watch)
        assert watch.heard[-1] == "end"
    assert outcome(run_tiny(runs="broken", resume=True)) == outcome(tiny_run)


@pytest.mark.parametrize(
    "wishes",
    [
        {"attention": "uniform"},
        {"attention": "frozen-beta"},
        {"task": "tiny-stream", "steps": 30},
        {"options": {"evaluations": "every:3", "checkpoints": "0"}},
        {"options": {"heads": 2, "batch": 7}},
    ],
)
def test_resuming_is_bit_exact_in_every_way_to_train(run_tiny: Train, wishes: dict[str, Any]) -> None:
    """Other attentions, streams, schedules, and batches that do not divide an epoch."""
    whole = run_tiny(**wishes, runs="whole")
    with pytest.raises(Interrupted):
        run_tiny(**wishes, progress=Watch(17))
    assert outcome(run_tiny(**wishes, resume=True)) == outcome(whole)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [(torch.optim.SGD, {}), (torch.optim.SGD, {"momentum": 0.9}), (torch.optim.NAdam, {}), (torch.optim.Adagrad, {})],
)
def test_resuming_is_bit_exact_with_any_optimiser(run_tiny: Train, kind: Any, settings: dict[str, float]) -> None:
    """State that is nothing, a momentum, a product or a sum."""

    class Other(tiny.TinyModel):
        def optimiser(self, parameters: Any, *, lr: float) -> torch.optim.Optimizer:
            return kind(parameters, lr=lr, **settings)  # type: ignore[no-any-return]

    registry = registry_with("models", "other", Other)
    whole = run_tiny("other", registry=registry, runs="whole")
    with pytest.raises(Interrupted):
        run_tiny("other", registry=registry, progress=Watch(17))
    assert outcome(run_tiny("other", registry=registry, resume=True)) == outcome(whole)


def test_saving_more_often_changes_nothing(run_tiny: Train, tiny_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """How often a state is saved for the worst case depends on the clock, so it must not show."""
    monkeypatch.setattr(training, "SECONDS_BETWEEN_SAVES", -1.0)
    assert outcome(run_tiny(runs="other")) == outcome(tiny_run)


def test_an_interrupted_run_asks_for_resume(run_tiny: Train, tmp_path: Path) -> None:
    """Without --resume nothing is touched, and the sentence says what to do."""
    with pytest.raises(Interrupted) as caught:
        run_tiny(progress=Watch(17))
    assert caught.value.exit_code == 130
    run = the_run(tmp_path / "runs")
    before = stamps(run)
    with pytest.raises(RunError, match="tiny-task/tiny-model-s0 stopped at step 17 of 30: resume it"):
        run_tiny()
    assert stamps(run) == before
    assert run.progress() == (17, 30)


def test_resume_where_there_is_nothing_begins(run_tiny: Train, tiny_run: Run) -> None:
    """--resume can always be passed."""
    assert outcome(run_tiny(runs="other", resume=True)) == outcome(tiny_run)


def test_resume_without_steps_goes_where_the_run_was_going(run_tiny: Train) -> None:
    """A run that was to have 50 steps is not cut to the default of 30 by a bare --resume."""
    with pytest.raises(Interrupted):
        run_tiny(steps=50, progress=Watch(12))
    run = run_tiny(resume=True)
    assert run.progress() == (50, 50)
    assert outcome(run) == outcome(run_tiny(steps=50, runs="other"))


def test_a_resumed_run_may_be_ended_earlier_but_not_before_where_it_is(run_tiny: Train) -> None:
    """--steps between where the run is and where it was going ends it there; fewer cannot be."""
    with pytest.raises(Interrupted):
        run_tiny(steps=50, progress=Watch(17))
    with pytest.raises(RunError, match="is at step 17 of 50: it cannot go on to step 5"):
        run_tiny(steps=5, resume=True)
    assert outcome(run_tiny(steps=20, resume=True)) == outcome(run_tiny(steps=20, runs="other"))


@pytest.mark.parametrize("evaluations", ["checkpoints", "every:17"])
def test_a_run_ended_where_it_was_stopped_has_its_final_state(run_tiny: Train, evaluations: str) -> None:
    """Stopped at 17, evaluated there or not, and told that 17 steps are enough: a checkpoint and a line at 17."""
    with pytest.raises(Interrupted):
        run_tiny(options={"evaluations": evaluations}, progress=Watch(17))
    run = run_tiny(options={"evaluations": evaluations}, steps=17, resume=True)
    assert run.steps() == steps_logged(run)
    assert run.steps()[-1] == 17
    assert run.progress() == (17, 17)


def test_a_second_ctrl_c_does_not_wait(run_tiny: Train, tiny_run: Run) -> None:
    """The first asks, the second stops at once; what was saved before is resumed from."""

    class Impatient(Watch):
        def advance(self, done: int, loss: Any = None) -> None:
            if done == 17:
                first, given_up = signal.getsignal(signal.SIGINT), time.monotonic() + 10
                signal.raise_signal(signal.SIGINT)
                while signal.getsignal(signal.SIGINT) is first and time.monotonic() < given_up:
                    time.sleep(0.001)  # until it is handled: two that wait count as one
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_tiny(runs="other", progress=Impatient())
    assert outcome(run_tiny(runs="other", resume=True)) == outcome(tiny_run)


def test_signals_are_the_callers_again_afterwards(run_tiny: Train) -> None:
    """Whether training ends or is stopped, its handlers go."""
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted):
        run_tiny(progress=Watch(5, signal.SIGTERM))
    run_tiny(resume=True)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_training_works_in_a_thread(run_tiny: Train, tiny_run: Run) -> None:
    """Where signals cannot be caught, nothing else changes."""
    done: list[Run] = []
    thread = threading.Thread(target=lambda: done.append(run_tiny(runs="other")))
    thread.start()
    thread.join()
    assert outcome(done[0]) == outcome(tiny_run)


# damage


def damage(run: Run, *steps: int) -> None:
    """Flip a bit in the states of these steps."""
    for step in steps:
        file = run.path / "checkpoints" / "latest" / f"{step:06d}.safetensors"
        content = bytearray(file.read_bytes())
        content[-1] ^= 4
        file.write_bytes(content)


def test_a_damaged_state_costs_steps_but_no_bit(run_tiny: Train, tmp_path: Path) -> None:
    """Resuming says which state is damaged, goes on from the one before, and ends as if nothing had been."""
    with pytest.raises(Interrupted):
        run_tiny(steps=50, progress=Watch(27))
    damage(the_run(tmp_path / "runs"), 27)
    watch = Watch()
    run = run_tiny(resume=True, progress=watch)
    assert watch.heard[0].endswith("20/50")
    assert len(watch.said) == 1
    assert "latest/000027.safetensors is damaged" in watch.said[0]
    assert "going on from the state before it, step 20" in watch.said[0]
    assert outcome(run) == outcome(run_tiny(steps=50, runs="other"))


def test_a_finished_run_with_a_damaged_state_can_be_mended(run_tiny: Train, tiny_run: Run) -> None:
    """The end of the run is done again, and is what it was."""
    before = outcome(tiny_run)
    damage(tiny_run, 30)
    with pytest.raises(RunError, match="stopped at step 20 of 30: resume it"):
        run_tiny()
    assert outcome(run_tiny(resume=True)) == before


def test_when_no_state_is_left_nothing_is_overwritten(run_tiny: Train, tiny_run: Run) -> None:
    """All damaged is one sentence; the checkpoints stay."""
    damage(tiny_run, 20, 30)
    before = stamps(tiny_run)
    for wishes in ({}, {"resume": True}, {"steps": 60}):
        with pytest.raises(DamagedFileError, match="no state is left to resume tiny-task/tiny-model-s0 from"):
            run_tiny(**wishes)
    assert stamps(tiny_run) == before


def test_a_torn_log_is_mended_by_resuming(run_tiny: Train, tiny_run: Run, tmp_path: Path) -> None:
    """A line cut short by a crash does not spoil those that follow."""
    with pytest.raises(Interrupted):
        run_tiny(runs="other", progress=Watch(17))
    with (the_run(tmp_path / "other").path / "log.jsonl").open("a") as log:
        log.write('{"step": 20, "train_lo')
    assert outcome(run_tiny(runs="other", resume=True)) == outcome(tiny_run)


# kill -9

KILL = """
import os, random, signal, sys, time
sys.path.insert(0, sys.argv[1])
import tiny, torch
from pathlib import Path
from ktiwprobe import build_registry, train
torch.set_num_threads(1)
registry = build_registry({"tiny": tiny})
train("tiny-model", steps=1, runs=Path(sys.argv[2]) / "warm", registry=registry, device="cpu")  # imports, once

def attempt(wishes, runs, prepare=lambda: None, patience=None):
    '''Train in a process of its own, which `prepare` may make kill itself; killed after `patience` seconds.'''
    child = os.fork()
    if child == 0:
        prepare()
        train("tiny-model", **wishes, runs=runs, resume=True, registry=registry, device="cpu")
        os._exit(0)
    if patience is not None:
        time.sleep(patience)
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]

def dies(turn):
    '''Let the turn-th fsync be a kill -9: of a file before it is renamed, of a folder after, of the log.'''
    real, count = os.fsync, 0
    def fsync(handle):
        nonlocal count
        count += 1
        if count == turn:
            os.kill(os.getpid(), signal.SIGKILL)
        real(handle)
    os.fsync = fsync

IN_A_SAVE = {"steps": 2, "options": {"checkpoints": "0"}}
for turn in range(1, 100):
    runs = Path(sys.argv[2]) / "in-a-save" / str(turn)
    if attempt(IN_A_SAVE, runs, lambda: dies(turn)) == 0:
        break
    assert attempt(IN_A_SAVE, runs) == 0

AT_RANDOM = {"steps": 120, "options": {"checkpoints": "every:4"}}
start = time.monotonic()
assert attempt(AT_RANDOM, Path(sys.argv[2]) / "unbroken") == 0
unbroken = time.monotonic() - start  # fast machines finish before any fixed number of seconds
random.seed(0)
runs = Path(sys.argv[2]) / "at-random"
killed = [attempt(AT_RANDOM, runs, patience=random.uniform(0, unbroken / 3)) != 0 for kill in range(10)]
assert any(killed)
assert attempt(AT_RANDOM, runs) == 0
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs whose processes were killed and resumed; one process, which imports torch once, forks them all."""
    folder = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-c", KILL, str(TESTS), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_kill_9_inside_any_save_costs_no_bit(run_tiny: Train, killed: Path) -> None:
    """Killed at each fsync, so before and after each rename, and resumed: always the same run, and no leftovers."""
    whole = outcome(run_tiny(steps=2, options={"checkpoints": "0"}))
    folders = sorted((killed / "in-a-save").iterdir())
    assert len(folders) == 19  # two for each of 8 files, one for each of 2 lines of the log, and the one not killed
    for folder in folders:
        assert outcome(the_run(folder)) == whole, folder.name
        assert not list(folder.rglob("*.tmp")), folder.name


def test_kill_9_at_any_moment_costs_no_bit(run_tiny: Train, killed: Path) -> None:
    """Killed at random moments again and again, and resumed until it is done: the run that nobody killed."""
    whole = run_tiny(steps=120, options={"checkpoints": "every:4"})
    assert outcome(the_run(killed / "at-random")) == outcome(whole)


# the command line


@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_ctrl_c_saves_and_exits_130(tmp_path: Path, how: signal.Signals) -> None:
    """A real model on the command line: stopped politely, one sentence, all saved."""
    options = "-o hidden=16 -o layers=1 -o checkpoints=every:2 --steps 100000 --runs"
    command = [str(KTIWPROBE), "train", "lstm-seq2seq", *options.split(), str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stderr is not None
        try:
            while not (line := process.stderr.readline()).startswith("step      4"):
                assert line, "it ended by itself"
            process.send_signal(how)
            rest = process.stderr.read().splitlines()
            assert process.wait(timeout=30) == 130
        finally:
            process.kill()
    run = the_run(tmp_path)
    reached, aim = run.progress()
    assert rest[-1] == f"ktiwprobe: stopped at step {reached} of {aim}, all saved; add --resume"
    assert reached >= 4
    assert not any("Traceback" in line for line in rest)


@pytest.mark.slow
def test_kill_9_of_a_real_model_costs_no_bit(tmp_path: Path) -> None:
    """The acceptance of the command line: kill -9 during train, then --resume, and the files of an unbroken run."""
    options = "-o hidden=16 -o checkpoints=every:20 --steps 100 --quiet --resume --runs"
    command = [str(KTIWPROBE), "train", "lstm-seq2seq", *options.split()]
    subprocess.run([*command, str(tmp_path / "whole")], check=True)
    with subprocess.Popen([*command, str(tmp_path / "killed")]) as process:
        while not list(tmp_path.glob("killed/*/*/checkpoints/latest/000040.safetensors")):
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
    subprocess.run([*command, str(tmp_path / "killed")], check=True)
    assert outcome(the_run(tmp_path / "killed")) == outcome(the_run(tmp_path / "whole"))

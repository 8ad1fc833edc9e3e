"""Run directories: names, locks, logs, checkpoints, and what happens when any of it is damaged."""

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ktiwprobe import Corpus, Run, extract
from ktiwprobe.errors import DamagedFileError, RunBusyError, RunError, SpecError, UnknownNameError
from ktiwprobe.files import storage
from ktiwprobe.plugins.registry import Registry
from ktiwprobe.runs.run import runs_folder


def flip(path: Path, position: int = -5) -> None:
    """Flip one bit."""
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def edit(run: Run, **values: Any) -> None:
    """Change keys of run.json; None removes a key."""
    file = run.path / "run.json"
    content = json.loads(file.read_text()) | values
    file.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


# what a run is


def test_a_run_knows_what_it_is(tiny_run: Run) -> None:
    """Name, seed, attention and record are read from the directory."""
    run = Run.open(tiny_run.path)
    assert run.name == "tiny-task/tiny-model-s0"
    assert (run.seed, run.attention) == (0, "learned")
    assert run.record.owners["model"] == "plugin 'tiny' (in memory -)"
    assert {"python", "torch", "ktiwprobe", "threads"} <= set(run.record.versions)
    assert repr(run) == f"Run({str(run.path)!r})"
    assert "tiny-task/tiny-model-s0" in run._repr_html_()
    assert f"{run.performance()[run.best_step()]:.3f} at step {run.best_step()}" in run._repr_html_()


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    """Opening what is not there is a sentence."""
    with pytest.raises(RunError, match=f"there is no run at {tmp_path}"):
        Run.open(tmp_path)


def test_a_run_of_another_schema_is_refused(tiny_run: Run) -> None:
    """A run that this version cannot read says which version wrote it, and what to do."""
    edit(tiny_run, schema=99, versions={"ktiwprobe": "9.1"})
    with pytest.raises(RunError, match=r"schema 99 by ktiwprobe 9\.1, and this version reads schemas up to 2: upgrade"):
        Run.open(tiny_run.path)


def test_where_runs_live(monkeypatch: pytest.MonkeyPatch) -> None:
    """As told, else as the environment says, else `runs`."""
    monkeypatch.delenv("KTIWPROBE_RUNS", raising=False)
    assert runs_folder() == Path("runs")
    monkeypatch.setenv("KTIWPROBE_RUNS", "/elsewhere")
    assert runs_folder() == Path("/elsewhere")
    assert runs_folder("here") == Path("here")


# the lock

HOLD = """
import sys
from pathlib import Path
from ktiwprobe.runs.run import Run
with Run(Path(sys.argv[1])).lock():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_run_in_use_by_another_process_is_busy(tiny_run: Run) -> None:
    """A second writer is told, readers are not disturbed, and a kill -9 of the first frees the run."""
    command = [sys.executable, "-c", HOLD, str(tiny_run.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        for write in (tiny_run.lock().__enter__, tiny_run.remove):
            with pytest.raises(RunBusyError, match="tiny-task/tiny-model-s0 is in use by another process"):
                write()
        assert tiny_run.load_checkpoint(30)
        other.kill()
    with tiny_run.lock():
        pass


def test_a_lock_where_nothing_can_be_written_is_a_sentence(tmp_path: Path) -> None:
    """A runs folder below a file is named with the way out."""
    (tmp_path / "file").touch()
    run = Run(tmp_path / "file" / "task" / "run")
    with pytest.raises(RunError, match=r"cannot write to .*: Not a directory; choose another folder"):
        run.lock().__enter__()


def test_removing_a_run_leaves_nothing(tiny_run: Run) -> None:
    """After remove the directory is gone."""
    tiny_run.remove()
    assert not tiny_run.path.exists()


# the log


def test_a_torn_last_line_is_left_out(tiny_run: Run) -> None:
    """A log cut at any byte gives the whole lines before the cut."""
    whole = tiny_run.log()
    file = tiny_run.path / "log.jsonl"
    content = file.read_bytes()
    for length in range(0, len(content), 7):
        file.write_bytes(content[:length])
        lines = content[:length].count(b"\n")
        assert tiny_run.log()[:lines] == whole[:lines]
        assert len(tiny_run.log()) <= lines + 1


@pytest.mark.parametrize("noise", [b"\xff\xfe\n", b"1\n", b"null\n", b'{"stop": 3}\n', b"\n", b'{"step": \n'])
def test_a_damaged_line_does_not_spoil_the_others(tiny_run: Run, noise: bytes) -> None:
    """What is not a record is not read as one."""
    whole = tiny_run.log()
    file = tiny_run.path / "log.jsonl"
    first, _, rest = file.read_bytes().partition(b"\n")
    file.write_bytes(first + b"\n" + noise + rest)
    assert tiny_run.log() == whole


def test_cutting_the_log_forgets_what_came_after(tiny_run: Run) -> None:
    """After a cut at a step, the lines up to it stand as they stood."""
    file = tiny_run.path / "log.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    with file.open("ab") as more:
        more.write(b'{"step": 40, "lo')
    tiny_run.cut_log(20)
    assert file.read_bytes() == b"".join(lines[:3])
    tiny_run.cut_log(-1)
    assert tiny_run.log() == []


def test_a_log_that_cannot_be_written_is_a_sentence(tiny_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk while logging names the run."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"cannot write .*tiny-model-s0.log.jsonl: No space left"):
        tiny_run.append_log({"step": 31})


# performance


def log_of(run: Run, **curves: list[float]) -> None:
    """Replace the log: the measures at steps 0, 10, 20, 30, 40; there is no checkpoint at 40."""
    run.cut_log(-1)
    for n, values in enumerate(zip(*curves.values(), strict=True)):
        run.append_log({"step": 10 * n, **dict(zip(curves, values, strict=True))})


def test_the_best_step_is_the_earliest_of_equals_with_a_checkpoint(tiny_run: Run) -> None:
    """Highest accuracy or lowest loss, among the steps whose weights were kept."""
    log_of(tiny_run, accuracy=[0.1, 0.5, 0.5, 0.2, 0.9], loss=[3.0, 2.0, 1.0, 1.0, 0.1], perplexity=[9, 9, 9, 2, 1])
    assert tiny_run.best_step() == 10
    assert tiny_run.best_step("loss") == 20
    assert tiny_run.best_step("perplexity") == 30
    assert tiny_run.performance() == {0: 0.1, 10: 0.5, 20: 0.5, 30: 0.2}


def test_what_is_best_is_the_models_word(tiny_run: Run) -> None:
    """The record says by which measure; one that does not, of an older version, means accuracy."""
    log_of(tiny_run, accuracy=[0.1, 0.5, 0.4, 0.2, 0.9], loss=[3.0, 2.0, 1.0, 2.0, 0.1], perplexity=[9, 9, 9, 2, 1])
    assert tiny_run.record.best_by == "accuracy"
    for best_by, step in (("accuracy", 10), ("loss", 20), ("perplexity", 30)):
        edit(tiny_run, best_by=best_by)
        assert Run.open(tiny_run.path).best_step() == step
    edit(tiny_run, schema=1, best_by=None)
    assert Run.open(tiny_run.path).best_step() == 10


def test_a_run_without_evaluated_checkpoint_has_no_best_step(tiny_run: Run) -> None:
    """A run that was killed before its first evaluation says so."""
    tiny_run.cut_log(-1)
    with pytest.raises(RunError, match="no evaluated checkpoint"):
        tiny_run.best_step()


# checkpoints


def test_checkpoints_are_listed_in_order_and_read_back(tiny_run: Run) -> None:
    """Steps are numbers, also beyond six digits, and nothing else in the folder is taken for one."""
    (tiny_run.path / "checkpoints" / "notes.safetensors").touch()
    (tiny_run.path / "checkpoints" / ".000040.safetensors.1.tmp").touch()
    tiny_run.save_checkpoint(1_000_000, {"w": torch.ones(2)})
    tiny_run.save_checkpoint(999_999, {"w": torch.zeros(2)})
    assert tiny_run.steps() == [0, 10, 20, 30, 999_999, 1_000_000]
    assert tiny_run.load_checkpoint(1_000_000)["w"].tolist() == [1, 1]


def test_a_missing_checkpoint_lists_the_others(tiny_run: Run) -> None:
    """A step that was not kept is an unknown name."""
    with pytest.raises(UnknownNameError, match=r"unknown checkpoint of tiny-task/tiny-model-s0 '15'.*0, 10, 20, 30"):
        tiny_run.load_checkpoint(15)


def test_a_damaged_checkpoint_is_named_with_the_others(tiny_run: Run) -> None:
    """Which file, and what is left."""
    flip(tiny_run.checkpoint(20))
    with pytest.raises(DamagedFileError, match=r"000020\.safetensors is damaged.*\[0, 10, 30\]"):
        tiny_run.load_checkpoint(20)
    assert tiny_run.load_checkpoint(10)


# states to resume from


def test_two_states_are_kept_by_number_not_by_name(tiny_run: Run) -> None:
    """The newest two stay, also where the number of digits grows."""
    folder = tiny_run.path / "checkpoints" / "latest"
    for step in (999_998, 999_999, 1_000_000):
        tiny_run.save_latest(step, {"w": torch.tensor(step)}, {"target": 2_000_000})
    assert {file.stem for file in folder.iterdir()} == {"999999", "1000000"}
    found = tiny_run.load_latest()
    assert found is not None and found[0]["w"] == 1_000_000
    assert tiny_run.progress() == (1_000_000, 2_000_000)


def test_a_damaged_state_falls_back_to_the_one_before(tiny_run: Run) -> None:
    """The damaged one is named in a sentence, the one before is given."""
    flip(tiny_run.path / "checkpoints" / "latest" / "000030.safetensors")
    found = tiny_run.load_latest()
    assert found is not None
    _, meta, damaged = found
    assert (meta["step"], len(damaged)) == (20, 1)
    assert "latest/000030.safetensors is damaged" in damaged[0]


def test_a_state_that_is_done_again_replaces_what_was_damaged(tiny_run: Run) -> None:
    """After a fallback, saving drops the damaged state ahead, so that two good ones are kept."""
    folder = tiny_run.path / "checkpoints" / "latest"
    flip(folder / "000030.safetensors")
    tiny_run.save_latest(25, {"w": torch.zeros(1)}, {"target": 30})
    assert {file.stem for file in folder.iterdir()} == {"000020", "000025"}


def test_when_every_state_is_damaged_all_are_named(tiny_run: Run) -> None:
    """Nothing to resume from is one sentence that says what to do."""
    for file in (tiny_run.path / "checkpoints" / "latest").iterdir():
        file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(DamagedFileError, match=r"000030.*000020.*no state is left to resume .*: remove it"):
        tiny_run.load_latest()


def test_progress_is_that_of_a_whole_state(tiny_run: Run) -> None:
    """A finished run whose last state is damaged counts as interrupted at the one before."""
    assert tiny_run.progress() == (30, 30)
    file = tiny_run.path / "checkpoints" / "latest" / "000030.safetensors"
    flip(file, file.read_bytes().index(b"target") + 10)
    assert tiny_run.progress() == (20, 30)
    shutil.rmtree(file.parent)
    assert tiny_run.progress() == (-1, 30)


def test_what_a_killed_writer_left_is_tidied(tiny_run: Run) -> None:
    """Half-written files go, everything else stays."""
    tiny_run.performance_path("train", 10, "likelihood").parent.mkdir(parents=True)
    before = sorted(tiny_run.path.rglob("*"))
    for folder in ("", "checkpoints", "checkpoints/latest", "performance/train/000010"):
        (tiny_run.path / folder / ".x.9.tmp").touch()
    tiny_run.tidy()
    assert sorted(tiny_run.path.rglob("*")) == before


def test_what_came_after_a_step_is_forgotten(tiny_run: Run) -> None:
    """Log, checkpoints, signals and performance: nothing of later steps is left."""
    for step in (10, 20):
        for path in (tiny_run.signal_path("test", step, "beta"), tiny_run.performance_path("test", step, "bleu")):
            path.parent.mkdir(parents=True)
            path.touch()
    tiny_run.forget_after(10)
    assert tiny_run.steps() == [line["step"] for line in tiny_run.log()] == [0, 10]
    assert {file.parent.name for file in tiny_run.path.glob("*/test/*/*")} == {"000010"}


def test_signals_have_a_place_of_their_own(tiny_run: Run) -> None:
    """Split, step and probe make the path."""
    path = tiny_run.signal_path("validation", 50, "beta").relative_to(tiny_run.path)
    assert str(path) == "signals/validation/000050/beta.safetensors"


def test_what_a_run_reached_is_read_without_its_contents(tiny_run):
    """The quick answer is the checked one; a run without a state has reached nothing."""
    assert tiny_run.reached() == tiny_run.progress() == (30, 30)
    for file in (tiny_run.path / "checkpoints/latest").iterdir():
        file.unlink()
    assert tiny_run.reached() == tiny_run.progress() == (-1, 30)


# files of another run


@pytest.fixture
def another(run_tiny: Callable[..., Run]) -> Run:
    """A run of the same recipe with another seed."""
    return run_tiny(seed=1, runs="another")


def test_checkpoints_of_another_run_are_refused(tiny_run: Run, another: Run, tiny_registry: Registry) -> None:
    """Neither loaded, nor are signals read or made that would be of them; its own checkpoints are still read."""
    shutil.copy(another.checkpoint(20), tiny_run.checkpoint(20))

    def use_signals(at: int) -> object:
        return extract(tiny_run, "beta", at=at, registry=tiny_registry, device="cpu")

    for use in (tiny_run.load_checkpoint, tiny_run.checkpoint_hash, use_signals):
        with pytest.raises(RunError, match=r"000020\.safetensors belongs to another run than tiny-task/tiny-model-s0"):
            use(20)
    assert tiny_run.load_checkpoint(10)


def test_states_of_another_run_are_refused(tiny_run: Run, another: Run, run_tiny: Callable[..., Run]) -> None:
    """Training does not go on from them."""
    shutil.copytree(another.path / "checkpoints", tiny_run.path / "checkpoints", dirs_exist_ok=True)
    for use in (tiny_run.load_latest, tiny_run.reached, lambda: run_tiny(steps=40)):
        with pytest.raises(RunError, match=r"latest/000030\.safetensors belongs to another run than tiny-task/"):
            use()


def test_a_file_without_a_mark_is_of_version_0_1(tiny_run: Run) -> None:
    """So it can be of a run of that version, and of no later one."""
    storage.write_tensors(tiny_run.checkpoint(20), {"w": torch.ones(1)}, {"step": 20})
    with pytest.raises(RunError, match="belongs to another run"):
        tiny_run.load_checkpoint(20)
    edit(tiny_run, schema=1)
    assert Run.open(tiny_run.path).load_checkpoint(20)["w"] == 1


# what it was trained on, and what came out


def test_a_run_gives_its_model(tiny_run: Run, tiny_registry: Registry) -> None:
    """At its best checkpoint, or at another one: the weights that were kept, ready to be probed."""
    for at, step in (("best", tiny_run.best_step()), ("last", 30), (10, 10)):
        model = tiny_run.model(at, device="cpu", registry=tiny_registry)
        kept = tiny_run.load_checkpoint(step)
        assert all(torch.equal(value, kept[name]) for name, value in model.state().items())
        assert not model.training
    with pytest.raises(SpecError, match="has no step 15"):
        tiny_run.model(15, registry=tiny_registry)


def test_a_model_attends_as_it_was_trained(run_tiny: Callable[..., Run], tiny_registry: Registry) -> None:
    """That of a uniform run attends uniformly."""
    run = run_tiny(attention="uniform", steps=2)
    batch = run.corpus(registry=tiny_registry).split("validation").batch(np.arange(2))
    alpha = run.model(registry=tiny_registry, device="cpu").trace(batch).alpha
    assert torch.allclose(alpha[0, 0, batch.x_mask[0]], 1 / batch.x_mask[0].sum())


def test_a_run_gives_its_corpus(tiny_run: Run, tiny_registry: Registry, tiny_corpus: Corpus) -> None:
    """The one it was trained on; if the task gives another one by now, that is an error."""
    assert tiny_run.corpus(registry=tiny_registry).fingerprints == tiny_corpus.fingerprints
    edit(tiny_run, corpus={"validation": "0" * 16})
    with pytest.raises(RunError, match="was trained on another corpus than 'tiny-task' gives now"):
        Run.open(tiny_run.path).corpus(registry=tiny_registry)

"""ktiwprobe show"""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from observe import hears_ctrl_c

PROGRAM = "from ktiwprobe.cli import main; main(prog_name='ktiwprobe')"


@pytest.fixture
def run(cli, installed_tiny, tiny_run):
    return tiny_run


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    paths = os.pathsep.join([str(tmp_path / "site"), str(Path(__file__).parents[1])])
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS", "FORCE_COLOR")}
    return {**kept, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "TERM": "xterm-256color", **more}


def on_a_terminal(tmp_path: Path, columns: int, *words: str, **more: str) -> str:
    """What a command writes to a terminal of so many columns."""
    master, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    command = [sys.executable, "-c", PROGRAM, *words]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(tmp_path, **more), stdout=terminal, stderr=terminal
    ) as process:
        os.close(terminal)
        seen = b""
        while True:
            try:
                part = os.read(master, 1 << 16)
            except OSError:  # how Linux says that the other end is closed
                break
            seen += part
    os.close(master)
    assert process.returncode == 0, seen.decode()
    return seen.decode().replace("\r\n", "\n")


def test_a_pipe_gets_text(cli, run):
    """Headline, panels with tokens and marks, a legend; no escape sequence, nothing wider than 80 columns."""
    shown = cli("show", "--sentence", "2").stdout
    assert shown.startswith(f"tiny-task/tiny-model-s0 at step {run.best_step()}, accuracy ")
    assert "validation sentence 2 of 20: " in shown
    assert re.search(r"A\(α,β\) \d/\d", shown)
    assert all(re.search(rf"^ .*{symbol}\b", shown, re.M) for symbol in "αβΔ")
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_choices(cli, run):
    """--probe, --at and --split choose what is shown."""
    shown = cli("show", "tiny-model-s0", "--probe", "beta", "--at", "10", "--split", "test").stdout
    assert "at step 10," in shown
    assert "test sentence 0 of 10" in shown
    assert "attention weight" not in shown


def test_refusals(refusal, run):
    """What is not there is one sentence that says what is."""
    assert "has no step '7': it has best, last, 0, 10, 20, 30" in refusal("show", "--at", "7")
    assert "known: 0 to 19" in refusal("show", "--sentence", "99")
    assert "unknown probe 'alpa'; did you mean 'alpha'?" in refusal("show", "--probe", "alpa")
    assert "unknown run" in refusal("show", "nothing")
    assert "leave --at out" in refusal("show", "--watch", "--at", "10")


def test_no_runs(refusal):
    """Also to watch."""
    for words in (["show"], ["show", "--watch"]):
        assert "there are no runs in runs: train one with" in refusal(*words, code=1)


def test_a_narrow_terminal(refusal, run, monkeypatch):
    """One sentence, not garbage."""
    monkeypatch.setenv("COLUMNS", "12")
    assert "the terminal is 12 columns wide" in refusal("show")


@pytest.mark.parametrize("columns", [80, 200])
def test_a_terminal_gets_colours(run, tmp_path, columns):
    """Cells have a ground and an ink; without the escape sequences no line is wider than the terminal."""
    seen = on_a_terminal(tmp_path, columns, "show")
    assert re.search(r"\x1b\[[0-9;]*48;5;\d+", seen)
    assert max(map(len, re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen).splitlines())) <= columns


def test_no_color_means_none(run, tmp_path):
    """NO_COLOR leaves no colour, and stars in their place."""
    seen = on_a_terminal(tmp_path, 80, "show", NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*[34]8;", seen)
    assert "* is the peak of an output: its highest signed value" in seen


def test_watch_of_a_finished_run_shows_its_end(cli, run):
    """One picture, then a sentence that says so."""
    done = cli("show", "--watch")
    assert done.stdout.count("at step 30,") == 1
    assert done.stderr == "ktiwprobe: tiny-task/tiny-model-s0 at step 30 of 30 has ended\n"


def test_watch_follows_a_run_in_progress(cli, run, tmp_path):
    """New checkpoints are drawn while another process trains, until it is done."""
    words = [sys.executable, "-c", PROGRAM, "train", "tiny-model", "--steps", "300"]
    with subprocess.Popen(words, cwd=tmp_path, env=environment(tmp_path), stderr=subprocess.DEVNULL) as training:
        while not run.busy():
            time.sleep(0.01)
        seen = cli("show", "--watch", "--probe", "alpha").stdout
        assert training.wait() == 0
    steps = [int(step) for step in re.findall(r"at step (\d+),", seen)]
    assert len(steps) > 1
    assert steps == sorted(set(steps))
    assert steps[-1] == 300


def test_ctrl_c_ends_watching(run, tmp_path):
    """130, without a traceback."""
    words = [sys.executable, "-c", PROGRAM, "show", "--watch"]
    with (
        run.lock(),
        subprocess.Popen(
            words,
            cwd=tmp_path,
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=hears_ctrl_c,
        ) as watching,
    ):
        while "known link" not in watching.stdout.readline():
            pass
        watching.send_signal(signal.SIGINT)
        _, said = watching.communicate(timeout=20)
    assert watching.returncode == 130
    assert said == "ktiwprobe: stopped\n"

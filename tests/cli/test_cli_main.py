"""The command itself: help, version, unknown commands, completion; and ktiwprobe rm"""

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from ktiwprobe.cli import built_in
from ktiwprobe.runs.listing import find_runs

PROGRAM = "from ktiwprobe.cli import main; main(prog_name='ktiwprobe')"
LOOK = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
HEAVY = {"torch", "transformers", "scipy", "scipy.stats", "pandas", "numpy", "rich", "matplotlib", "safetensors"}


def run(*words, code="", cwd=None, **options):
    """A command in a process of its own; `code` is run before it."""
    command = [sys.executable, "-c", code + PROGRAM, *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, **options)


def read_all(terminal: int) -> str:
    """What is written to a terminal until nobody writes to it any more."""
    seen = b""
    with contextlib.suppress(OSError):  # how Linux says that the other end is closed
        while part := os.read(terminal, 1 << 16):
            seen += part
    os.close(terminal)
    return seen.decode()


def test_help_fits_a_terminal(cli, monkeypatch):
    """The help of the program and of every command fits 80 columns, and no summary is cut off."""
    monkeypatch.setenv("COLUMNS", "80")
    overview = cli("--help").stdout
    assert "..." not in overview.partition("Commands:")[2]
    assert [line.split()[0] for line in overview.partition("Commands:\n")[2].splitlines()] == list(built_in())
    for words in (["--help"], *([name, "-h"] for name in built_in())):
        shown = cli(*words).stdout
        assert shown.startswith("Usage: ktiwprobe ")
        assert max(map(len, shown.splitlines())) <= 80


def test_no_command_is_help(cli):
    """`ktiwprobe` alone shows the help."""
    assert cli().stdout == cli("--help").stdout


def test_the_version(cli):
    """--version prints name and version."""
    assert cli("--version").stdout == "ktiwprobe 0.1.0\n"


def test_unknown_commands_and_options(refusal):
    """A command or option that does not exist suggests the nearest, in one line."""
    assert "unknown command 'trian'; did you mean 'train'?" in refusal("trian", "lstm-seq2seq")
    assert "--version" in refusal("--versoin")
    assert "unexpected extra argument" in refusal("plugins", "please")


def test_help_loads_no_plugin(cli, stranger):
    """A broken plugin does not show in any help: that of the program leaves it out, those of commands load none."""
    stranger("broken", "raise RuntimeError('loaded')\n")
    for words in (["--help"], *([name, "--help"] for name in built_in())):
        assert cli(*words).stderr == ""
    assert "loaded" in cli("ls").stderr


@pytest.mark.parametrize("word", ["--help", "ls", "plugins", "ls models", "ls runs"])
def test_listing_imports_nothing_heavy(tmp_path, word):
    """What only lists does so without torch, pandas, scipy, numpy or rich (numpy reads the runs of `ls runs`)."""
    done = run(*word.split(), code=LOOK, cwd=tmp_path)
    assert done.returncode == 0
    loaded = HEAVY & set(done.stderr.split())
    assert loaded <= ({"numpy", "safetensors"} if word == "ls runs" else set())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion(tmp_path, shell):
    """The documented line prints a completion script, and completing names commands without complaint."""
    env = {**os.environ, "_KTIWPROBE_COMPLETE": f"{shell}_source"}
    assert "_ktiwprobe_completion" in run(env=env, cwd=tmp_path).stdout
    for typed, index, expected in (("ktiwprobe tr", "1", "train"), ("ktiwprobe nonsense x", "2", "")):
        asked = {"_KTIWPROBE_COMPLETE": f"{shell}_complete", "COMP_WORDS": typed, "COMP_CWORD": index}
        if shell == "fish":
            asked["COMP_CWORD"] = typed.split()[-1]
        done = run(env={**os.environ, **asked}, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert expected in done.stdout


def test_rm_needs_yes_where_nobody_can_be_asked(cli, refusal, installed_tiny, tmp_path):
    """Without a terminal rm deletes only with --yes, and then the run is gone."""
    cli("train", "tiny-model")
    assert refusal("rm", "tiny-model-s0").endswith(": pass --yes")
    assert find_runs(tmp_path / "runs")
    assert cli("rm", "tiny-model-s0", "--yes").stdout == "deleted tiny-task/tiny-model-s0\n"
    assert find_runs(tmp_path / "runs") == []


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 0), ("n\n", 1, 1), ("\n", 1, 1), ("\x04", 130, 1)])
def test_rm_asks_on_a_terminal(cli, installed_tiny, tmp_path, answer, code, left):
    """On a terminal rm names what it would delete, and does so only after a yes; the end of input stops it."""
    cli("train", "tiny-model", "--quiet")
    master, terminal = pty.openpty()
    os.write(master, answer.encode())
    done = run("rm", "tiny-model-s0", stdin=terminal, cwd=tmp_path)
    os.close(master)
    os.close(terminal)
    assert done.returncode == code
    assert "delete runs/tiny-task/tiny-model-s0 with 4 checkpoints? [y/N]" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(find_runs(tmp_path / "runs")) == left
    assert bool(done.stdout) == (code == 0)


@pytest.mark.parametrize(("rate", "code"), [("0.01", 0), ("1e30", 1)])
def test_a_terminal_sees_a_bar_and_gets_its_cursor_back(installed_tiny, tmp_path, rate, code):
    """On a terminal training shows a bar with speed, loss and time left, and takes it away, also after an error."""
    master, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    paths = os.pathsep.join([str(tmp_path / "site"), str(Path(__file__).parents[1])])
    words = [sys.executable, "-c", PROGRAM, "train", "tiny-model", "-o", f"lr={rate}", "--steps", "200"]
    env = {**os.environ, "PYTHONPATH": paths, "TERM": "xterm", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=terminal, text=True) as process:
        os.close(terminal)
        seen = read_all(master)
        said = process.stdout.read()
    assert process.returncode == code
    assert all(part in seen for part in ("/200", "/s ", "loss "))
    assert seen.count("\x1b[?25l") == seen.count("\x1b[?25h") == 1  # hidden, then shown again
    assert ("next: " in said) == (code == 0)
    assert ("ktiwprobe: training diverged" in seen) == (code == 1)


def test_rm_of_what_is_not_there(refusal):
    """A run that does not exist cannot be deleted."""
    assert "unknown run in runs 'nothing'" in refusal("rm", "nothing", "--yes")

"""Fixtures of the tests of the command line.

cli         runs a command in this process, in tmp_path, and returns what it printed; the exit code must be `code`
refusal     runs a command that must fail: nothing on standard output, one sentence on standard error, which it returns
stranger    installs a plugin for this test: a module from source text, with an entry point of its own
small       options that make lstm-seq2seq on toy-translation small
trained     a folder with three small runs of lstm-seq2seq: seeds 0 and 1, and seed 0 under uniform attention
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ktiwprobe.cli import main
from tiny import install

SIZES = ("hidden=16", "layers=1", "steps=20", "train=200", "task.validation=40", "test=20")
SMALL = tuple(word for size in SIZES for word in ("-o", size))
Command = Callable[..., Result]


def invoke(*words: object) -> Result:
    """What a command prints; an unexpected exception is the test's."""
    result = CliRunner().invoke(main, [str(word) for word in words], prog_name="ktiwprobe")
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(tmp_path)
    for name in ("RUNS", "LOAD_PLUGINS", "SKIP_PLUGINS", "STRICT_PLUGINS"):
        monkeypatch.delenv(f"KTIWPROBE_{name}", raising=False)

    def run(*words: object, code: int = 0) -> Result:
        result = invoke(*words)
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def refusal(cli: Command) -> Callable[..., str]:
    def run(*words: object, code: int = 2) -> str:
        result = cli(*words, code=code)
        assert result.stdout == ""
        (line,) = result.stderr.splitlines()
        assert line.startswith("ktiwprobe: ")
        return line

    return run


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    def make(name: str, source: str) -> None:
        folder = tmp_path / "site" / name
        install(folder, name, f"stranger_{name}")
        (folder / f"stranger_{name}.py").write_text(f"from ktiwprobe import hookimpl\n\n{source}")
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, f"stranger_{name}", raising=False)

    return make


@pytest.fixture
def small() -> tuple[str, ...]:
    return SMALL


@pytest.fixture(scope="session")
def _trained_lstm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("lstm") / "runs"
    for how in ([], ["--seed", "1"], ["--attention", "uniform"]):
        assert invoke("train", "lstm-seq2seq", *SMALL, *how, "--runs", runs).exit_code == 0
    return runs


@pytest.fixture
def trained(_trained_lstm: Path, tmp_path: Path) -> Path:
    shutil.copytree(_trained_lstm, tmp_path / "runs")
    return tmp_path / "runs"

"""What the README tells a reader to type works, at a size that fits a test suite."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from ktiwprobe.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NOT_HERE = ("make", "pip", "ktiwprobe check my-model", "ktiwprobe train my-model")  # tests/cli installs a plugin


def commands() -> list[str]:
    """Every shell command of the README, in order."""
    blocks = [body for language, body in re.findall(r"^```(\w*)\n(.*?)^```$", README, re.M | re.S) if not language]
    lines = [line.partition("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [part.strip() for line in lines for part in line.split("&&") if part.strip()]


@pytest.mark.xdist_group("readme")
def test_every_command_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The README's commands, one after another in an empty folder, exit with 0 and print something."""
    sizes = ["--steps", "10", "-o", "validation=30", "-o", "hidden=32"]
    small = {"train": sizes, "sweep": sizes}
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KTIWPROBE_RUNS", raising=False)
    run = [c for c in commands() if not c.startswith(NOT_HERE)]
    assert len(run) > 6
    for command in run:
        words = shlex.split(command)
        assert words[0] == "ktiwprobe", command
        done = CliRunner().invoke(main, [*words[1:], *small.get(words[1], [])], catch_exceptions=False)
        assert done.exit_code == 0, f"{command}: {done.stderr}"
        assert done.stdout


@pytest.mark.xdist_group("readme")
def test_the_python_example_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The README's Python block runs as it stands, with fewer steps and a narrower model."""
    (code,) = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)
    code = code.replace("steps=400", 'steps=10, options={"hidden": 32, "validation": 30}')
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert len(names["beta"]) == 30  # type: ignore[arg-type]

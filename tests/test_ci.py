"""`.ci/run` on machines that are not perfect, with programs that only write down how they were called."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parent.parent / ".ci" / "run"
REAL = ("bash", "dirname", "cat", "env")
NOTE = '#!{bash}\necho "{name} $1" >> "$CALLS"\n'


@pytest.fixture
def machine(tmp_path):
    """A folder of programs; the calls of those that are not real."""
    for name in REAL:
        (tmp_path / name).symlink_to(shutil.which(name))
    calls = tmp_path / "calls"

    def run(**programs: str) -> tuple[int, list[str], str]:
        for name, rest in {"make": "", "sleep": "", "id": "echo 0", **programs}.items():
            (tmp_path / name).write_text(NOTE.format(bash=shutil.which("bash"), name=name) + rest)
            (tmp_path / name).chmod(0o755)
        environment = {"PATH": str(tmp_path), "CALLS": str(calls)}
        done = subprocess.run([RUN], env=environment, capture_output=True, text=True, check=False)
        return done.returncode, calls.read_text().splitlines(), done.stderr

    return run


def test_a_machine_with_chromium_installs_nothing(machine):
    """Then it is `make test` alone."""
    assert machine(chromium="", chromedriver="")[:2] == (0, ["make test"])


def test_a_mirror_may_fail_once(machine):
    """An update that fails is tried again, then both packages are installed and the tests run."""
    once = '[ "$1" = install ] || [ -e "$CALLS.failed" ] || { echo > "$CALLS.failed"; exit 100; }'
    code, calls, said = machine(**{"apt-get": once})
    assert code == 0
    assert calls == ["id -u", "apt-get update", "sleep 5", "apt-get update", "apt-get install", "make test"]
    assert "failed: apt-get update" in said


def test_no_mirror_at_all(machine):
    """The tests run all the same, and say themselves that a browser is missing."""
    code, calls, _ = machine(**{"apt-get": "exit 100"})
    assert code == 0
    assert [calls.count(f"apt-get {what}") for what in ("update", "install")] == [3, 3]
    assert calls[-1] == "make test"


def test_only_root_can_install(machine):
    """Others are told what to install."""
    _, calls, said = machine(id="echo 1000", **{"apt-get": ""})
    assert calls == ["id -u", "make test"]
    assert "apt-get install chromium chromium-driver" in said


def test_failing_tests_fail_it(machine):
    """What `make test` says counts."""
    assert machine(chromium="", chromedriver="", make="exit 2")[0] == 2


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize(("target", "installed"), [("demo", ["."]), ("test", [".", "'.[dev]'"])])
def test_the_demo_installs_the_package_alone(target, installed):
    """Neither Ray nor a browser's driver nor a type checker; `make test` installs the rest in a second step."""
    command = ["make", "--dry-run", "--always-make", target]
    done = subprocess.run(command, cwd=RUN.parent.parent, capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if " pip install " in line]
    assert [line.split()[-1] for line in lines] == installed
    assert all("--constraint constraints.txt" in line for line in lines)

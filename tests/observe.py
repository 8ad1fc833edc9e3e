"""What tests can see of a training: everything a run ends with, when it was written, and what was said meanwhile."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tiny
from ktiwprobe import Run, build_registry, hookimpl
from ktiwprobe.files.progress import Progress
from ktiwprobe.plugins.registry import Registry


def hears_ctrl_c() -> None:
    """For a child process: Ctrl-C means what it does in a terminal, also where the tests run in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Watch(Progress):
    """Remembers what it hears, and presses Ctrl-C after step `stop`."""

    def __init__(self, stop: int = -1, how: signal.Signals = signal.SIGINT) -> None:
        self.stop, self.how = stop, how
        self.heard: list[str] = []
        self.said: list[str] = []

    def begin(self, label: str, total: int, done: int = 0, unit: str = "steps") -> None:
        self.heard.append(f"begin {label} {done}/{total}")

    def advance(self, done: int, loss: Callable[[], float] | None = None) -> None:
        self.heard.append(f"at {done}")
        if loss:
            assert isinstance(loss(), float)
        if done == self.stop:
            os.kill(os.getpid(), self.how)

    def evaluated(self, record: Any) -> None:
        self.heard.append(f"evaluated {record['step']}")

    def say(self, sentence: str) -> None:
        self.said.append(sentence)

    def end(self) -> None:
        self.heard.append("end")


def outcome(run: Run) -> dict[str, bytes]:
    """Everything a run ends with: the log, every checkpoint, and the final weights, optimiser and random state."""
    files = [run.path / "log.jsonl", *sorted((run.path / "checkpoints").glob("*.safetensors"))]
    last = max((run.path / "checkpoints" / "latest").glob("*.safetensors"))
    return {str(file.relative_to(run.path)): file.read_bytes() for file in (*files, last)}


def stamps(run: Run) -> dict[str, tuple[int, int]]:
    """When each file of a run was written, and where it is on the disk."""
    files = (file for file in run.path.rglob("*") if file.is_file() and file.name != ".lock")
    return {str(file): (file.stat().st_mtime_ns, file.stat().st_ino) for file in files}


def steps_logged(run: Run) -> list[int]:
    """The steps of the log."""
    return [record["step"] for record in run.log()]


def the_run(runs: Path) -> Run:
    """The one run below a folder."""
    (file,) = runs.glob("*/*/run.json")
    return Run.open(file.parent)


def registry_with(kind: str, name: str, target: object) -> Registry:
    """The tiny registry and one more name, taken before the tiny plugin can."""

    def hook(register: Any) -> None:
        register(name, target)

    hook.__name__ = f"register_{kind}"
    plugin = type("Plugin", (), {hook.__name__: staticmethod(hookimpl(hook))})
    return build_registry({"tiny": tiny, "more": plugin})

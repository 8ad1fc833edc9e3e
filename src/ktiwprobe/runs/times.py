"""How long a run was trained: a line of times.jsonl for each session. Nothing is decided by it."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ktiwprobe.files import storage


def now() -> str:
    """The time in UTC, as every file of a run writes it."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def read_sessions(path: Path) -> list[dict[str, Any]]:
    """The sessions of a file: `from` and `to` (steps), `seconds`, `started`."""
    lines = storage.read_lines(path)
    return [line for line in lines if isinstance(line, dict) and isinstance(line.get("seconds"), int | float)]


class Session:
    """One session of training from `step` on. Its line is rewritten with each saved state, so a kill loses no more."""

    def __init__(self, path: Path, step: int) -> None:
        self.path, self.step = path, step
        self.earlier = read_sessions(path)
        self.started, self._clock = now(), time.monotonic()

    def save(self, step: int) -> None:
        """Write how long it took up to `step`; the whole file, so that a crash never cuts a line short."""
        seconds = round(time.monotonic() - self._clock, 3)
        line = {"from": self.step, "to": step, "seconds": seconds, "started": self.started}
        lines = [json.dumps(session) + "\n" for session in (*self.earlier, line)]
        storage.write_bytes(self.path, "".join(lines).encode())

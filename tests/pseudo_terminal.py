"""Run a command on a pseudo-terminal, where progress bars, colours and widths are what a person sees."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Seen(NamedTuple):
    """How a command ended, and all that it wrote to the terminal."""

    code: int
    text: str


def on_terminal(
    command: Sequence[str | Path], *, columns: int = 80, lines: int = 24, env: Mapping[str, str] | None = None
) -> Seen:
    """Run `command` with standard input, output and error on one terminal of the given size."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    size = {"COLUMNS": str(columns), "LINES": str(lines)}
    settings = {"TERM": "xterm-256color", **os.environ, **size, "OMP_NUM_THREADS": "1", **(env or {})}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=settings, close_fds=True)
    os.close(theirs)
    written = bytearray()
    while chunk := _read(ours):
        written += chunk
    os.close(ours)
    return Seen(process.wait(), written.decode(errors="replace"))


def _read(terminal: int) -> bytes:
    """What was written, empty once the last process has closed its side (Linux then reports EIO)."""
    try:
        return os.read(terminal, 65536)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return b""

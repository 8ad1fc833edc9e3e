"""Text from files, compressed or not; what is wrong is told by its line."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

from ktiwprobe.errors import CorpusError

OPENERS: dict[str, Callable[[Path], bytes]] = {
    ".xz": lambda path: lzma.decompress(path.read_bytes()),
    ".gz": lambda path: gzip.decompress(path.read_bytes()),
}


def kind_of(path: Path) -> str:
    """The ending that says what a file is, compression aside."""
    return Path(path.stem).suffix if path.suffix in OPENERS else path.suffix


def read_text(path: Path) -> str:
    """The text of a file; bad UTF-8 is told with its line."""
    try:
        content = OPENERS.get(path.suffix, Path.read_bytes)(path)
    except (OSError, lzma.LZMAError, EOFError) as error:
        raise CorpusError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CorpusError(f"{path} line {line} is not UTF-8: convert the file first") from error


def read_lines(path: Path) -> list[str]:
    """The lines of a file without their ends; a last empty one does not count."""
    lines = read_text(path).replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines

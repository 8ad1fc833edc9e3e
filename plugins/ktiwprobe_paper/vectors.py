"""Word vectors from a text file as GloVe writes them: a word, then its numbers, blanks between; no header."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from ktiwprobe.errors import OptionError

OPENERS: dict[str, Callable[..., Any]] = {".xz": lzma.open, ".gz": gzip.open}


def read_vectors(path: Path, words: Sequence[str], width: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Which of `words` the file has, and their vectors. (found,), (found, width)"""
    try:
        with OPENERS.get(path.suffix, open)(path, "rt", encoding="utf-8") as file:
            found = _vectors(file, {word: number for number, word in enumerate(words)}, path, width)
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OptionError(f"cannot read word vectors from {path}: {reason}") from error
    if not found:
        raise OptionError(
            f"{path} has a vector for none of the {len(words)} words of the task: are they of one language?"
        )
    rows = np.array(sorted(found))
    return rows, np.stack([found[row] for row in rows])


def _vectors(file: TextIO, known: dict[str, int], path: Path, width: int) -> dict[int, NDArray[np.float32]]:
    """The vectors of the words that are known, by their number."""
    found: dict[int, NDArray[np.float32]] = {}
    for number, line in enumerate(file, 1):
        word, _, rest = line.rstrip().partition(" ")
        if number == 1 or word in known:
            vector = _numbers(rest, path, number)
            if len(vector) != width:
                advice = f": pass -o embedding={len(vector)}" if number == 1 and len(vector) > 1 else ""
                raise OptionError(
                    f"{path} line {number} has {len(vector)} numbers, embeddings are {width} wide{advice}"
                )
            if word in known:
                found[known[word]] = vector
    return found


def _numbers(text: str, path: Path, number: int) -> NDArray[np.float32]:
    try:
        vector = np.array(text.split(), np.float32)
    except ValueError:
        vector = np.array([np.nan], np.float32)
    if not np.isfinite(vector).all():
        raise OptionError(
            f"{path} line {number} is not a word and its numbers with blanks between them, as GloVe has it"
        )
    return vector

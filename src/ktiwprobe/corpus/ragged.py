"""Rows of different lengths as flat arrays, and sentences of words that are looked up when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ktiwprobe.errors import CorpusError


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of different lengths, end to end in one array."""

    values: NDArray[Any]  # (cells, ...)
    offsets: NDArray[np.int64]  # (rows + 1,)

    @classmethod
    def of(
        cls, rows: Sequence[Sequence[Any] | NDArray[Any]], *, width: tuple[int, ...] = (), what: str = "row"
    ) -> Ragged:
        """Lay `rows` of integers end to end; `width` is the shape of one cell, `what` the rows are called in errors."""
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        filled = [_integers(row, number, width, what) for number, row in enumerate(rows)]
        return cls(np.concatenate(filled) if filled else np.zeros((0, *width), np.int64), offsets)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """(rows,)"""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> NDArray[Any]:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def padded(self, rows: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The chosen rows padded with 0 to one length, and where they are real. (B, longest), (B, longest)"""
        lengths = self.lengths[rows]
        column = np.arange(lengths.max(initial=0))
        mask = column < lengths[:, None]
        cell = np.where(mask, self.offsets[rows][:, None] + column, 0)
        return np.where(mask, self.values[cell], 0), mask

    def take(self, rows: NDArray[np.int64]) -> Ragged:
        """The chosen rows alone, in the order given."""
        lengths = self.lengths[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        cells = np.arange(offsets[-1]) + np.repeat(self.offsets[rows] - offsets[:-1], lengths)
        return Ragged(self.values[cells], offsets)

    def framed(self, first: Sequence[int], last: Sequence[int]) -> Ragged:
        """Every row with `first` before it and `last` after it."""
        offsets = self.offsets + np.arange(len(self) + 1) * (len(first) + len(last))
        values = np.empty(offsets[-1], self.values.dtype)
        for shift, value in enumerate(first):
            values[offsets[:-1] + shift] = value
        for shift, value in enumerate(reversed(last), 1):
            values[offsets[1:] - shift] = value
        moved = np.arange(len(self)) * (len(first) + len(last)) + len(first)
        values[np.arange(len(self.values)) + np.repeat(moved, self.lengths)] = self.values
        return Ragged(values, offsets)


def _integers(row: Sequence[Any] | NDArray[Any], number: int, width: tuple[int, ...], what: str) -> NDArray[np.int64]:
    """A row as an array, or a sentence that says which value of which example cannot be one."""
    try:
        values = np.asarray(row)
    except ValueError as error:
        raise CorpusError(f"the {what} of example {number} has rows of different lengths: pass a flat list") from error
    if not values.size:
        return np.zeros((0, *width), np.int64)
    if values.ndim != 1 + len(width) or values.shape[1:] != width:
        shape = f"{len(values)} x {'x'.join(map(str, width))}" if width else "flat"
        raise CorpusError(f"the {what} of example {number} has shape {values.shape}: it must be {shape}")
    if values.dtype.kind not in "iub":
        flat = values.ravel().tolist()
        worst = next((v for v in flat if not (isinstance(v, float) and v.is_integer())), flat[0])
        raise CorpusError(
            f"the {what} of example {number} has the value {worst!r}: it must be whole numbers, as ids are"
        )
    return values.astype(np.int64, copy=False)


def number_words(begins: NDArray[np.bool_], special: NDArray[np.bool_], offsets: NDArray[np.int64]) -> Ragged:
    """For each token the number of its word in its row, from which tokens begin one; -1 for special tokens."""
    counted = np.concatenate([[0], np.cumsum(begins)])
    words = counted[1:] - np.repeat(counted[offsets[:-1]], np.diff(offsets)) - 1
    return Ragged(np.where(special, -1, words).astype(np.int32), offsets)


class Lazy(Sequence[tuple[str, ...]]):
    """A sequence of sentences, each made from its item only when it is asked for."""

    def __init__(self, items: Sequence[Any] | NDArray[Any], make: Callable[[Any], Iterable[str]]) -> None:
        self._items, self._make = items, make

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> tuple[str, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[str, ...]]: ...
    def __getitem__(self, index: int | slice) -> tuple[str, ...] | Sequence[tuple[str, ...]]:
        if isinstance(index, slice):
            return Lazy(self._items[index], self._make)
        return tuple(self._make(self._items[index]))


def words_of_tokens(ids: Ragged, tokens: Sequence[str], special: Sequence[int]) -> tuple[Ragged, Lazy]:
    """The words of sentences in which every token is one, but for the special ids: their numbers, and their text."""
    none = np.isin(ids.values, special)
    words = number_words(~none, none, ids.offsets)
    return words, Lazy(range(len(ids)), lambda row: (tokens[i] for i in ids[row][words[row] >= 0]))

"""Split: a finite part of a corpus, as a few flat integer arrays; a batch of it is one gather.

Padding and masks are made here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ktiwprobe.corpus.batch import Batch
from ktiwprobe.corpus.ragged import Lazy, Ragged
from ktiwprobe.errors import CorpusError


@dataclass(frozen=True, eq=False)
class Split:
    """A finite part of a corpus.

    Words are what people align and what differently tokenised corpora share. They are no part of a fingerprint: a
    model reads ids, and a run stays what it is when its task learns to tell its words.

    `y` holds the outputs that count, and nothing else: a signal has a row for each of them. In a text where only some
    tokens are to be predicted (the answer to a prompt), `y_at` says at which input position each of them is predicted;
    a batch then has T = L outputs, and `y_mask` is True at those positions. The last input predicts the last output.
    """

    x: Ragged
    y: Ragged
    links: Ragged | None = None  # cells (t, l, sure), where the alignment is known
    x_words: Ragged | None = None  # the word that each token is of, counted from 0 in its sentence; -1: of none (<s>)
    y_words: Ragged | None = None
    x_text: Sequence[tuple[str, ...]] | None = None  # the words of each sentence as they were, before <unk> and pieces
    y_text: Sequence[tuple[str, ...]] | None = None
    y_at: Ragged | None = None  # the input position that predicts each output, where not every position does

    @classmethod
    def of(
        cls,
        xs: Sequence[Sequence[int]],
        ys: Sequence[Sequence[int]],
        links: Sequence[Sequence[tuple[int, int, int]]] | None = None,
    ) -> Split:
        """A split from lists of ids; `links` are (t, l, 1 if sure else 0), or None where no alignment is known."""
        cells = None if links is None else Ragged.of(links, width=(3,), what="links")
        return cls(Ragged.of(xs, what="input"), Ragged.of(ys, what="output"), cells)

    def __post_init__(self) -> None:
        texts = ("source texts", self.x_text), ("target texts", self.y_text)
        for what, other in (("outputs", self.y), ("lists of links", self.links), *texts):
            if other is not None and len(other) != len(self.x):
                raise CorpusError(f"a split has {len(self.x)} inputs and {len(other)} {what}: they must be as many")
        for side, rows in (("input", self.x), ("output", self.y)):
            if len(rows) and rows.lengths.min() == 0:
                empty = int(rows.lengths.argmin())
                raise CorpusError(f"example {empty} has an empty {side}: drop it, every sentence needs a token")
            if rows.values.ndim != 1 or rows.values.dtype.kind not in "iu":
                raise CorpusError(f"the {side} of a split is {rows.values.dtype} {rows.values.shape}: ids are integers")
        for side, rows, words in (("input", self.x, self.x_words), ("output", self.y, self.y_words)):
            if words is not None and not np.array_equal(words.offsets, rows.offsets):
                raise CorpusError(f"the {side} words of a split do not match its tokens: each token needs a number")
        self._check_links()
        self._check_places()

    def _check_links(self) -> None:
        if self.links is not None:
            row = np.repeat(np.arange(len(self)), self.links.lengths)
            t_and_l, ends = self.links.values[:, :2], np.stack([self.y.lengths, self.x.lengths], 1)[row]
            outside = ((t_and_l < 0) | (t_and_l >= ends)).any(1)
            if outside.any():
                raise CorpusError(f"example {row[outside.argmax()]} has a link to a position that it does not have")

    def _check_places(self) -> None:
        if self.y_at is None:
            return
        if not np.array_equal(self.y_at.offsets, self.y.offsets):
            raise CorpusError("y_at of a split does not match its outputs: each output needs an input position")
        row, at = np.repeat(np.arange(len(self)), self.y.lengths), self.y_at.values
        outside = (at < 0) | (at >= self.x.lengths[row])
        outside[1:] |= (row[1:] == row[:-1]) & (at[1:] <= at[:-1])
        if outside.any():
            raise CorpusError(f"y_at of example {row[outside.argmax()]} must be input positions that go up")
        unused = at[self.y.offsets[1:] - 1] + 1 < self.x.lengths
        if unused.any():
            raise CorpusError(
                f"example {unused.argmax()} has inputs after the position that predicts its last output: cut them off"
            )

    def __len__(self) -> int:
        return len(self.x)

    @property
    def widths(self) -> NDArray[np.int64]:
        """T of each example in a batch of its own: its outputs, or with `y_at` its input positions. (examples,)"""
        return self.y.lengths if self.y_at is None else self.x.lengths

    def batch(self, rows: NDArray[np.int64]) -> Batch:
        """The chosen examples, padded, on the CPU."""
        x, x_mask = self.x.padded(rows)
        y, y_mask = self.y.padded(rows)
        if self.y_at is not None:
            cells = np.repeat(np.arange(len(rows)), self.y.lengths[rows]), self.y_at.take(rows).values
            placed, y_mask = np.zeros_like(x, y.dtype), np.zeros_like(x_mask)
            placed[cells], y_mask[cells] = self.y.take(rows).values, True
            y = placed
        lengths = self.x.lengths[rows]
        return Batch(*(torch.from_numpy(array) for array in (x, x_mask, lengths, y, y_mask)))

    def by_length(self, *, cells: int = 16384, most: int = 256) -> Iterator[NDArray[np.int64]]:
        """Rows of similar length, a group at most `most` of them and `cells` T x L cells (after padding), or one."""
        widths = self.widths
        order = np.lexsort((widths, self.x.lengths))
        start = 0
        while start < len(order):
            group = order[start : start + most]
            longest_y = np.maximum.accumulate(widths[group])  # x is sorted: its longest is the last
            padded = np.arange(1, len(group) + 1) * self.x.lengths[group] * longest_y
            fits = int(np.searchsorted(padded, cells, side="right"))
            yield order[start : start + max(1, fits)]
            start += max(1, fits)

    def subset(self, rows: NDArray[np.int64]) -> Split:
        """The chosen examples as a split of their own, in the order given."""
        return replace(self, **{part.name: self._chosen(part.name, rows) for part in fields(self)})

    def _chosen(self, name: str, rows: NDArray[np.int64]) -> Any:
        """A field for the chosen examples; an array that a subclass adds must have a row for each example."""
        part: Any = getattr(self, name)
        if part is None or isinstance(part, str | int | float):
            return part
        if isinstance(part, Ragged):
            return part.take(rows)
        if name in ("x_text", "y_text"):
            return Lazy(rows, part.__getitem__)
        if isinstance(part, np.ndarray | Tensor) and part.ndim and len(part) == len(self):
            return part[rows]
        raise CorpusError(
            f"{type(self).__name__}.{name} does not have a row for each of {len(self)} examples: override subset(rows)"
        )

    def parts(self) -> Iterator[bytes]:
        """What a fingerprint covers, as bytes: ids and links and, where it is given, `y_at`."""
        for part in (self.x, self.y, self.links):
            if part is not None:
                yield from _bytes(part)
        if self.y_at is not None:
            yield from (b"y_at", *_bytes(self.y_at))


def _bytes(part: Ragged) -> list[bytes]:
    return [np.ascontiguousarray(array, np.int64).tobytes() for array in (part.values, part.offsets)]

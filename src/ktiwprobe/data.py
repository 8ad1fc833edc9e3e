"""Sentences as ids and as text, whole corpora, and batches of them; padding and masks are made here and nowhere else.

A corpus is a few flat integer arrays with offsets, never a list of objects: a batch is one gather.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ktiwprobe.errors import CorpusError, UnknownNameError
from ktiwprobe.ragged import Lazy as Lazy
from ktiwprobe.ragged import Ragged as Ragged
from ktiwprobe.ragged import words_of_tokens

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")


@dataclass(frozen=True, slots=True)
class Batch:
    """Sentences padded to one length; the masks are True on real positions.

    `y` is the output without a start symbol (a model shifts it itself), or a classifier's label, T = 1.
    """

    x: Tensor  # (B, L) input ids
    x_mask: Tensor  # (B, L)
    x_lengths: Tensor  # (B,) always on the CPU
    y: Tensor  # (B, T) output ids
    y_mask: Tensor  # (B, T)

    def to(self, device: torch.device | str) -> Batch:
        """The same batch with its tensors on `device`; the lengths stay on the CPU."""
        moved = {name: getattr(self, name).to(device) for name in ("x", "x_mask", "y", "y_mask")}
        return replace(self, **moved)


@dataclass(frozen=True, slots=True)
class Example:
    """One sentence pair, to read: the tokens behind the ids, and the links where they are known."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    x: NDArray[np.int64]  # (L,)
    y: NDArray[np.int64]  # (T,)
    links: NDArray[np.int64] | None  # (n, 3): t, l, and 1 for a sure link, 0 for a possible one


@runtime_checkable
class Stream(Protocol):
    """Endless fresh samples; a batch is a pure function of (seed, step, size)."""

    def batch(self, seed: int, step: int, size: int) -> Batch:
        """The batch of one training step, on the CPU."""
        ...


@dataclass(frozen=True, eq=False)
class Split:
    """A finite part of a corpus.

    Words are what people align and what differently tokenised corpora share. They are no part of a fingerprint: a
    model reads ids, and a run stays what it is when its task learns to tell its words.
    """

    x: Ragged
    y: Ragged
    links: Ragged | None = None  # cells (t, l, sure), where the alignment is known
    x_words: Ragged | None = None  # the word that each token is of, counted from 0 in its sentence; -1: of none (<s>)
    y_words: Ragged | None = None
    x_text: Sequence[tuple[str, ...]] | None = None  # the words of each sentence as they were, before <unk> and pieces
    y_text: Sequence[tuple[str, ...]] | None = None

    @classmethod
    def of(
        cls,
        xs: Sequence[Sequence[int]],
        ys: Sequence[Sequence[int]],
        links: Sequence[Sequence[tuple[int, int, int]]] | None = None,
    ) -> Split:
        """A split from lists of ids; `links` are (t, l, 1 if sure else 0), or None where no alignment is known."""
        return cls(Ragged.of(xs), Ragged.of(ys), None if links is None else Ragged.of(links, width=(3,)))

    def __post_init__(self) -> None:
        texts = ("source texts", self.x_text), ("target texts", self.y_text)
        for what, other in (("outputs", self.y), ("lists of links", self.links), *texts):
            if other is not None and len(other) != len(self.x):
                raise CorpusError(f"a split has {len(self.x)} inputs and {len(other)} {what}: they must be as many")
        for side, rows in (("input", self.x), ("output", self.y)):
            if len(rows) and rows.lengths.min() == 0:
                empty = int(rows.lengths.argmin())
                raise CorpusError(f"example {empty} has an empty {side}: drop it, every sentence needs a token")
        for side, rows, words in (("input", self.x, self.x_words), ("output", self.y, self.y_words)):
            if words is not None and not np.array_equal(words.offsets, rows.offsets):
                raise CorpusError(f"the {side} words of a split do not match its tokens: each token needs a number")
        self._check_links()

    def _check_links(self) -> None:
        if self.links is not None:
            row = np.repeat(np.arange(len(self)), self.links.lengths)
            t_and_l, ends = self.links.values[:, :2], np.stack([self.y.lengths, self.x.lengths], 1)[row]
            outside = ((t_and_l < 0) | (t_and_l >= ends)).any(1)
            if outside.any():
                raise CorpusError(f"example {row[outside.argmax()]} has a link to a position that it does not have")

    def __len__(self) -> int:
        return len(self.x)

    def batch(self, rows: NDArray[np.int64]) -> Batch:
        """The chosen examples, padded, on the CPU."""
        x, x_mask = self.x.padded(rows)
        y, y_mask = self.y.padded(rows)
        lengths = self.x.lengths[rows]
        return Batch(*(torch.from_numpy(array) for array in (x, x_mask, lengths, y, y_mask)))

    def by_length(self, *, cells: int = 16384, most: int = 256) -> Iterator[NDArray[np.int64]]:
        """Rows of similar length, a group at most `most` of them and `cells` T x L cells (after padding), or one."""
        order = np.lexsort((self.y.lengths, self.x.lengths))
        start = 0
        while start < len(order):
            group = order[start : start + most]
            longest_y = np.maximum.accumulate(self.y.lengths[group])  # x is sorted: its longest is the last
            padded = np.arange(1, len(group) + 1) * self.x.lengths[group] * longest_y
            fits = int(np.searchsorted(padded, cells, side="right"))
            yield order[start : start + max(1, fits)]
            start += max(1, fits)

    def subset(self, rows: NDArray[np.int64]) -> Split:
        """The chosen examples as a split of their own, in the order given."""
        parts: dict[str, Any] = {}
        for name in ("x", "y", "links", "x_words", "y_words"):
            part = getattr(self, name)
            parts[name] = None if part is None else part.take(rows)
        for name in ("x_text", "y_text"):
            text = getattr(self, name)
            parts[name] = None if text is None else Lazy(rows, text.__getitem__)
        return Split(**parts)


@dataclass(frozen=True, eq=False)
class Corpus:
    """What a task loads: finite splits or streams, and what the ids mean."""

    task: str
    kind: Literal["translation", "classification", "text"]  # text: each output is of the input itself
    splits: Mapping[str, Split | Stream]
    source_tokens: Sequence[str]
    target_tokens: Sequence[str]
    notes: tuple[str, ...] = ()  # what a user should know of how it was made: what was left out, and why

    def __post_init__(self) -> None:
        sides = (("x", "input", self.source_size), ("y", "output", self.target_size))
        for name, split in self.splits.items():
            for side, what, size in sides if isinstance(split, Split) else ():
                ids = getattr(split, side).values
                if len(ids) and not 0 <= ids.min() <= ids.max() < size:
                    raise CorpusError(
                        f"split {name!r} of task {self.task} has {what} ids from {ids.min()} to {ids.max()}: "
                        f"its vocabulary allows 0 to {size - 1}"
                    )

    @property
    def source_size(self) -> int:
        """Number of input ids."""
        return len(self.source_tokens)

    @property
    def target_size(self) -> int:
        """Number of output ids: V."""
        return len(self.target_tokens)

    @property
    def joint(self) -> bool:
        """Whether input and output share one vocabulary, so that they may share embeddings."""
        return self.source_tokens is self.target_tokens

    def split(self, name: str) -> Split:
        """A finite split that has examples."""
        split = self.splits.get(name)
        if split is None:
            raise UnknownNameError(f"split of task {self.task}", name, self.splits)
        if not isinstance(split, Split):
            raise CorpusError(f"split {name!r} of task {self.task} is an endless stream: choose a finite one to probe")
        if not len(split):
            raise CorpusError(f"split {name!r} of task {self.task} is empty: it needs at least one example")
        return split

    def example(self, split: str, row: int) -> Example:
        """One sentence pair with its text."""
        part = self.split(split)
        if not 0 <= row < len(part):
            raise UnknownNameError("sentence", str(row), [f"0 to {len(part) - 1}"])
        x, y = part.x[row], part.y[row]
        source = tuple(self.source_tokens[i] for i in x)
        target = tuple(self.target_tokens[i] for i in y)
        return Example(source, target, x, y, None if part.links is None else part.links[row])

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """A hash of each finite split with the vocabulary: equal if and only if the same cells are compared."""
        vocabulary = json.dumps([list(self.source_tokens), list(self.target_tokens)]).encode()
        finite = {name: split for name, split in self.splits.items() if isinstance(split, Split)}
        return {name: _hash([vocabulary, *_bytes(split)]) for name, split in finite.items()}


@dataclass(frozen=True)
class DataNeeds:
    """What a task must find on this machine before it can be loaded; a task that needs nothing has no `needs`."""

    name: str  # of the data set, and of its folder
    folder: Path | None  # where it is; None if it is not here
    files: tuple[str, ...]
    columns: tuple[str, ...]
    fetch: Callable[[], Path] | None = None  # brings it from the hub
    note: str = ""  # how it differs from what a paper used
    paper: Mapping[str, float] = field(default_factory=dict)  # what a paper says of it: keys of `statistics`


def statistics(corpus: Corpus) -> dict[str, float]:
    """Examples of each split, the median length of inputs (of both sides in translation), and words known."""
    found: dict[str, float] = {}
    for name in ("train", "validation"):
        split = corpus.split(name)
        found[f"{name} examples"] = len(split)
        found[f"{name} length"] = float(np.median(split.x.lengths)) - 2  # <s> and </s> do not count
        if corpus.kind == "translation":
            found[f"{name} target length"] = float(np.median(split.y.lengths)) - 1
    return {**found, "vocabulary": corpus.source_size}


def each_token_a_word(corpus: Corpus) -> Corpus:
    """The corpus with its words told, where every token but <s> and </s> is a word, and so is a label."""
    ends = (PAD, BOS, EOS)
    splits: dict[str, Split | Stream] = dict(corpus.splits)
    for name, split in corpus.splits.items():
        if isinstance(split, Split):
            x_words, x_text = words_of_tokens(split.x, corpus.source_tokens, ends)
            y_words, y_text = words_of_tokens(
                split.y, corpus.target_tokens, ends if corpus.kind == "translation" else ()
            )
            splits[name] = replace(split, x_words=x_words, y_words=y_words, x_text=x_text, y_text=y_text)
    return replace(corpus, splits=splits)


def order_of_epoch(seed: int, epoch: int, size: int) -> NDArray[np.int64]:
    """The order in which an epoch visits the training set: a pure function of its arguments."""
    return np.random.default_rng([seed, epoch]).permutation(size)


def training_batches(corpus: Corpus, *, seed: int, size: int) -> Callable[[int], Batch]:
    """The batch of a step: a pure function of (seed, epoch) or, for a stream, of (seed, step)."""
    train = corpus.splits["train"]
    if isinstance(train, Stream) and not isinstance(train, Split):
        stream = train
        return lambda step: stream.batch(seed, step, size)
    split = corpus.split("train")
    an_epoch = -(-len(split) // size)
    order: dict[int, NDArray[np.int64]] = {}

    def batch(step: int) -> Batch:
        epoch, index = divmod(step, an_epoch)
        if epoch not in order:
            order.clear()
            order[epoch] = order_of_epoch(seed, epoch, len(split))
        return split.batch(order[epoch][index * size : (index + 1) * size])

    return batch


def _bytes(split: Split) -> Iterable[bytes]:
    for part in (split.x, split.y, split.links):
        if part is not None:
            yield np.ascontiguousarray(part.values, np.int64).tobytes()
            yield np.ascontiguousarray(part.offsets, np.int64).tobytes()


def _hash(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()[:16]

"""Whole corpora: their splits, what their ids mean, and the batches that a training takes from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ktiwprobe.corpus.batch import Batch
from ktiwprobe.corpus.fingerprints import digest_further, short_digest
from ktiwprobe.corpus.ragged import words_of_tokens
from ktiwprobe.corpus.split import Split
from ktiwprobe.corpus.tokens import TokenRoles, usual_roles
from ktiwprobe.errors import CorpusError, UnknownNameError

Side = Literal["source", "target"]


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
class Corpus:
    """What a task loads: finite splits or streams, and what the ids mean."""

    task: str
    kind: Literal["translation", "classification", "text"]  # text: each output is of the input itself
    splits: Mapping[str, Split | Stream]
    source_tokens: Sequence[str]
    target_tokens: Sequence[str]
    notes: tuple[str, ...] = ()  # what a user should know of how it was made: what was left out, and why
    source_roles: TokenRoles | None = None  # which input ids are special; None: see `usual_roles`
    target_roles: TokenRoles | None = None

    def __post_init__(self) -> None:
        sides = (("x", "input", self.source_size), ("y", "output", self.target_size))
        for name, split in self.splits.items():
            if isinstance(split, Split) and split.y_at is not None and self.kind != "text":
                raise CorpusError(f"split {name!r} of task {self.task} has y_at, which is for texts, not {self.kind}")
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

    def roles(self, side: Side) -> TokenRoles:
        """Which ids of a side are special, and how its tokens join to text: the one place to ask."""
        given = self.source_roles if side == "source" else self.target_roles
        return self._usual_roles[side] if given is None else given

    @cached_property
    def _usual_roles(self) -> dict[Side, TokenRoles]:
        labels = self.kind == "classification"
        return {
            "source": usual_roles(self.source_tokens),
            "target": TokenRoles() if labels else usual_roles(self.target_tokens),
        }

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
        return {
            name: short_digest([vocabulary, *split.parts(), *filter(None, self.further(name))])
            for name, split in finite.items()
        }

    def further(self, split: str) -> list[bytes]:
        """Hashes of the fields that a subclass of Corpus and of Split adds; empty where there are none."""
        return [digest_further(self, Corpus), digest_further(self.splits[split], Split)]


def each_token_a_word(corpus: Corpus) -> Corpus:
    """The corpus with its words told, where every token but <s>, </s> and their like is a word, and so is a label."""
    source, target = corpus.roles("source").no_word, corpus.roles("target").no_word
    splits: dict[str, Split | Stream] = dict(corpus.splits)
    for name, split in corpus.splits.items():
        if isinstance(split, Split):
            x_words, x_text = words_of_tokens(split.x, corpus.source_tokens, source)
            y_words, y_text = words_of_tokens(split.y, corpus.target_tokens, target)
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

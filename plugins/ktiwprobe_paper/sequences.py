"""Tasks of made-up symbols (Sections 3.3, 6.1 and 6.2): copy, permute and keyword; endless fresh samples to train on.

What makes them easy or hard is which symbols occur together, so each says exactly from where its inputs are drawn. A
batch is a pure function of (seed, step) and is generated as a whole; validation and test are fixed samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ktiwprobe import Batch, Corpus, Split, option
from ktiwprobe.data import EOS, SPECIALS, Ragged, each_token_a_word

Ints = NDArray[np.int64]
STREAMS = {"permutation": 0, "train": 1, "validation": 2, "test": 3}  # independent random numbers for each
FIRST = len(SPECIALS)  # the id of the first symbol
LABELS = ("without", "with")


class Samples(NamedTuple):
    """Sequences of one length."""

    x: Ints  # (N, L)
    y: Ints  # (N, T)
    links: Ints  # (N, n, 3) as in Split; n may be 0


Draw = Callable[[np.random.Generator, int], Samples]


@dataclass(frozen=True)
class Fresh:
    """A Stream: every step draws new samples."""

    draw: Draw
    seed: int

    def batch(self, seed: int, step: int, size: int) -> Batch:
        """`size` samples that no other step has."""
        x, y, _ = self.draw(np.random.default_rng([self.seed, STREAMS["train"], seed, step]), size)
        lengths = np.full(size, x.shape[1], np.int64)
        masks = np.ones(x.shape, bool), np.ones(y.shape, bool)
        return Batch(*(torch.from_numpy(array) for array in (x, masks[0], lengths, y, masks[1])))


def fixed(draw: Draw, seed: Sequence[int], size: int) -> Split:
    """A finite sample; a link to position -1 means that there is none."""
    x, y, links = draw(np.random.default_rng(seed), size)
    rows = [row[row[:, 1] >= 0] for row in links]
    return Split(_ragged(x), _ragged(y), Ragged.of(rows, width=(3,)))


def _ragged(rows: Ints) -> Ragged:
    return Ragged(rows.reshape(-1), np.arange(len(rows) + 1) * rows.shape[1])


@dataclass(frozen=True)
class SequenceOptions:
    """What all of these tasks can be told."""

    seed: int = option(0, low=0, help="which validation and test samples, and which permutation")
    length: int = option(40, low=1, high=10_000, help="symbols of a sequence")
    validation: int = option(200, low=1, high=100_000, help="validation sequences")
    test: int = option(40, low=1, high=100_000, help="test sequences")


def make_corpus(task: str, kind: str, options: SequenceOptions, draw: Draw, tokens: Sequence[Sequence[str]]) -> Corpus:
    """Fresh samples to train on, fixed ones to look at."""
    sizes = {"validation": options.validation, "test": options.test}
    samples = {name: fixed(draw, [options.seed, STREAMS[name]], size) for name, size in sizes.items()}
    source, target = tokens
    splits = {"train": Fresh(draw, options.seed), **samples}
    return each_token_a_word(Corpus(task, kind, splits, source, target))  # type: ignore[arg-type]


def symbols(count: int) -> tuple[str, ...]:
    """The special tokens, then w1, w2, ..."""
    return (*SPECIALS, *(f"w{number}" for number in range(1, count + 1)))


def arrangements(rng: np.random.Generator, count: int, *, of: int, length: int, sets: int) -> Ints:
    """`length` different symbols out of `of`, in random order, all from one of `sets` disjoint sets. (count, length)"""
    order = rng.random((count, of)).argsort(1)[:, :length]  # every subset and every order is as likely
    which = rng.integers(sets, size=(count, 1)) if sets > 1 else 0
    return FIRST + order + of * which


class Copy:
    """Say the input again (Section 3.3).

    With as many symbols as positions every input has the same words: co-occurrence tells nothing. With more it does.
    """

    training_defaults: ClassVar[Mapping[str, Any]] = {"batch": 128, "steps": 200, "evaluations": "every:10"}

    @dataclass(frozen=True)
    class Options(SequenceOptions):
        """Inputs are `length` different symbols, drawn from one of `sets` disjoint sets of `vocabulary` symbols."""

        vocabulary: int = option(60, low=1, high=100_000, help="symbols of a set: 40 is hard, 60 easy")
        sets: int = option(1, low=1, high=1000, help="disjoint sets; 2 is the mixture of Appendix A.3")

        def __post_init__(self) -> None:
            if self.vocabulary < self.length:
                raise ValueError(
                    f"a sequence of {self.length} different symbols needs vocabulary={self.length} or more"
                )

    name: ClassVar[str] = "copy"

    def load(self, options: Options) -> Corpus:
        """A corpus whose gold alignment is the order of the outputs."""
        order, eos = self.order(options), options.length
        links = np.stack([np.arange(eos), order, np.ones(eos, np.int64)], 1)  # (length, 3)

        def draw(rng: np.random.Generator, count: int) -> Samples:
            x = arrangements(rng, count, of=options.vocabulary, length=options.length, sets=options.sets)
            end = np.full((count, 1), EOS)
            return Samples(
                np.concatenate([x, end], 1),
                np.concatenate([x[:, order], end], 1),
                np.broadcast_to(links, (count, *links.shape)),
            )

        tokens = symbols(options.vocabulary * options.sets)
        return make_corpus(self.name, "translation", options, draw, (tokens, tokens))

    def order(self, options: Options) -> Ints:
        """The input position that each output repeats. (length,)"""
        return np.arange(options.length)


class Permute(Copy):
    """Say the input again in another order: y_t = x_π(t), with one π for all (Section 6.2)."""

    name: ClassVar[str] = "permute"

    def order(self, options: Copy.Options) -> Ints:
        """π, drawn by the task's seed."""
        return np.random.default_rng([options.seed, STREAMS["permutation"]]).permutation(options.length)


class Keyword:
    """Does word 1 occur? (Section 6.1) Once, in half of the sequences; all other words are drawn uniformly."""

    training_defaults: ClassVar[Mapping[str, Any]] = {"batch": 32, "steps": 4000, "checkpoints": "log"}

    @dataclass(frozen=True)
    class Options(SequenceOptions):
        """Length and vocabulary are the paper's."""

        vocabulary: int = option(40, low=2, high=100_000, help="words")

    def load(self, options: Options) -> Corpus:
        """A corpus whose positive examples are linked to their keyword."""

        def draw(rng: np.random.Generator, count: int) -> Samples:
            x = rng.integers(FIRST + 1, FIRST + options.vocabulary, (count, options.length))
            y, place = rng.integers(2, size=count), rng.integers(options.length, size=count)
            positive = np.flatnonzero(y)
            x[positive, place[positive]] = FIRST
            links = np.stack([np.zeros_like(y), np.where(y == 1, place, -1), np.ones_like(y)], 1)
            return Samples(x, y[:, None], links[:, None])

        return make_corpus("keyword", "classification", options, draw, (symbols(options.vocabulary), LABELS))

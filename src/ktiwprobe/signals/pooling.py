"""From tokens to words: a signal whose cells are words, so that runs that cut words otherwise can be compared.

How the pieces of a word become one number is a property of the quantity: `pooling = (over the pieces of an input word,
over those of an output word)`. Special tokens such as <s> are of no word, and are dropped.

    sum     of attention over inputs, as weight adds up; of saliency, as a derivative along all pieces does
    mean    of attention over outputs, each of which has a row of weights
    max     of log-odds over inputs: the model may look at the piece that tells it most
    joint   of log-odds over outputs: that every piece is right, log p being the sum over pieces
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from ktiwprobe.corpus.ragged import Ragged, number_words
from ktiwprobe.errors import ContractError, CorpusError, UnknownNameError
from ktiwprobe.plugins.quantities import Pool
from ktiwprobe.signals.signal import Signal, make_signal

if TYPE_CHECKING:
    from ktiwprobe.corpus.split import Split

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]
LEVELS = ("token", "word")


@dataclass(frozen=True, eq=False)
class Words:
    """The words of the sentences of a split, and which tokens are pieces of which."""

    x: Ragged  # for each input token the number of its word in its sentence, -1 for none
    y: Ragged
    x_text: Sequence[tuple[str, ...]] | None = None
    y_text: Sequence[tuple[str, ...]] | None = None

    @cached_property
    def counts(self) -> tuple[Ints, Ints]:
        """How many words each input has, and each output. (sentences,), (sentences,)"""
        return _counts(self.x, self.x_text), _counts(self.y, self.y_text)

    @cached_property
    def fingerprint(self) -> str | None:
        """Equal if and only if the words are the same, however they are cut; None where their text is not known."""
        if self.x_text is None or self.y_text is None:
            return None
        digest = hashlib.sha256()
        for pair in zip(self.x_text, self.y_text, strict=True):
            digest.update(json.dumps(pair).encode())
        return f"words-{digest.hexdigest()[:16]}"

    def by_token(self) -> Words:
        """As if every token that is of a word were a word of its own."""
        x, y = (number_words(side.values >= 0, side.values < 0, side.offsets) for side in (self.x, self.y))
        return Words(x, y)

    def text(self, sentence: int) -> tuple[Sequence[str], Sequence[str]]:
        """The words of a sentence, source and target."""
        if self.x_text is None or self.y_text is None:
            raise CorpusError("the task tells which tokens are of one word, but not the text of the words")
        return self.x_text[sentence], self.y_text[sentence]


def _counts(words: Ragged, text: Sequence[tuple[str, ...]] | None) -> Ints:
    highest = np.full(len(words), -1, np.int64)
    np.maximum.at(highest, np.repeat(np.arange(len(words)), words.lengths), words.values)
    if text is None:
        return highest + 1
    counts = np.array([len(sentence) for sentence in text], np.int64)
    if (highest >= counts).any():
        where = int((highest >= counts).argmax())
        raise CorpusError(f"sentence {where} has tokens of word {highest[where]} and only {counts[where]} words")
    return counts


def words_of(split: Split, task: str) -> Words:
    """The words of a split; a sentence about what to do where its task does not tell them."""
    if split.x_words is None or split.y_words is None:
        raise CorpusError(
            f"task {task!r} does not tell of which words its tokens are: compare tokens, or let the task fill x_words "
            "and y_words of its splits",
            hint="level=token",
        )
    return Words(split.x_words, split.y_words, split.x_text, split.y_text)


def at_level(signal: Signal, level: str) -> Signal:
    """The signal as it is, or over words; one over words already is left as it is."""
    if level not in LEVELS:
        raise UnknownNameError("level", level, LEVELS)
    return signal if level == "token" or signal.meta.get("level") == "word" else over_words(signal)


def over_words(signal: Signal) -> Signal:
    """The signal over words: a row for each output word, a cell for each input word."""
    if signal.words is None:
        raise CorpusError(f"{signal.name} does not know the words of its tokens: extract it from a run")
    words: Words = signal.words()
    cells = _Cells.of(signal, words)
    over_inputs, over_outputs = check_pooling(signal)
    cells = cells.pooled(cells.row, over_inputs)  # the pieces of an input word, for each output token
    cells = cells.pooled(cells.output_word, over_outputs)
    lengths, columns, values = cells.laid_out(words, full=signal.columns is None)
    meta = {**signal.meta, "level": "word", "fingerprint": words.fingerprint}
    made = make_signal(values, lengths, words.counts[1], columns, signal.sites, meta)
    return replace(made, text=None if words.x_text is None else words.text)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Cells on their way from tokens to words."""

    values: Floats  # (S, cells)
    row: Ints  # (cells,) of the token's signal
    output_word: Ints  # (cells,) counted through all sentences
    input_word: Ints  # (cells,) counted in its sentence

    @classmethod
    def of(cls, signal: Signal, words: Words) -> _Cells:
        """The cells of tokens that are of a word."""
        row = np.repeat(np.arange(len(signal.lengths)), signal.lengths)
        sentence, column = signal.sentence_of_row[row], signal.positions
        same_rows = len(words.y) == len(signal) and np.array_equal(words.y.lengths, signal.rows)
        if not same_rows or (column >= words.x.lengths[sentence]).any():
            raise CorpusError(
                f"{signal.name} has {len(signal)} sentences of {len(signal.lengths)} rows in all, and the split whose "
                f"words are known {len(words.y)} of {len(words.y.values)}: its cells must be those of the tokens"
            )
        first_word = np.cumsum(words.counts[1]) - words.counts[1]  # (sentences,)
        of_row = words.y.values.astype(np.int64)
        of_cell = words.x.values[words.x.offsets[sentence] + column].astype(np.int64)
        kept = (of_row[row] >= 0) & (of_cell >= 0)
        row, sentence = row[kept], sentence[kept]
        return cls(signal.values[:, kept], row, first_word[sentence] + of_row[row], of_cell[kept])

    def pooled(self, rows: Ints, how: str) -> _Cells:
        """Cells of one input word in one of `rows` as one."""
        key = rows * (self.input_word.max(initial=0) + 1) + self.input_word
        order = np.argsort(key, kind="stable")
        starts = np.flatnonzero(np.diff(key[order], prepend=-1))
        values, first = _pool(self.values[:, order], starts, how), order[starts]
        return _Cells(values, self.row[first], self.output_word[first], self.input_word[first])

    def laid_out(self, words: Words, *, full: bool) -> tuple[Ints, Ints | None, Floats]:
        """Lengths of rows, columns and values; in full rows a word without any token is -inf."""
        sources, targets = words.counts
        if not full:
            return np.bincount(self.output_word, minlength=targets.sum()), self.input_word, self.values
        lengths = np.repeat(sources, targets)
        starts = np.cumsum(lengths) - lengths
        values = np.full((len(self.values), lengths.sum()), -np.inf, np.float32)
        values[:, starts[self.output_word] + self.input_word] = self.values
        return lengths, None, values


def _pool(values: Floats, starts: Ints, how: str) -> Floats:
    """One number for each group of cells; a group of one keeps its number to the last bit. (S, groups)"""
    sizes = np.diff(starts, append=values.shape[1])
    if (sizes == 1).all():
        return values
    wide = values.astype(np.float64)
    if how == "max":
        pooled = np.maximum.reduceat(wide, starts, axis=1)
    elif how == "joint":
        pooled = _log_odds(np.add.reduceat(-np.logaddexp(0, -wide), starts, axis=1))
    else:
        pooled = np.add.reduceat(wide, starts, axis=1) / (sizes if how == "mean" else 1)
    return np.where(sizes == 1, values[:, starts], pooled)


def _log_odds(log_p: Floats) -> Floats:
    """log p / (1 - p); p never rounds to 1, as log p of a sum of log-odds in float32 does not round to 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(log_p - np.log(-np.expm1(np.minimum(log_p, -1e-300))))


def check_pooling(signal: Signal) -> tuple[str, str]:
    """How the pieces of words become one number: as the signal's file says, else as its quantity does."""
    pooling: Any = signal.meta.get("pooling", signal.quantity.pooling)
    legal = get_args(Pool)
    if not isinstance(pooling, list | tuple) or len(pooling) != 2 or not set(pooling) <= set(legal):
        raise ContractError(f"{signal.name} is pooled by {pooling!r}: pooling must be two of {', '.join(legal)}")
    over_inputs, over_outputs = pooling
    return over_inputs, over_outputs

"""The dictionary a model has learned: for an input word, the outputs that it makes likelier than other words do.

There is one definition, and it needs a stored β only, so the page and the command print the same numbers, for every
model that has β (also for a recorded run, whose weights are gone). Over the outputs of a split that are o, in sentences
that have the input word w:

    p(w, o)     mean β as a probability: p of o if the model attends to w alone
    base(w, o)  the mean of the same p over all input words of those sentences, each attended to alone
    lift(w, o)  (n p + base) / ((n + 1) base), where n is how often w and o meet

The base rate is taken over the same outputs as p, because p depends on the decoder's state as well as on w: an output
that follows from the outputs before it (an article, the end of a compound) is likely whatever is attended to, so its
base rate is as high as its p and its lift is 1. A rare output cannot win by its rarity either: p is a part of its own
base rate, so p / base is at most the number of words in the sentence; and the one imaginary meeting at the base rate
keeps a pair that met once closer to 1 than a pair that met often. Where base is 0, nothing is known and the lift is 1.
Only outputs with a lift above 1 are entries: the others are those that the word does not stand for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ktiwprobe.corpus.corpus import Corpus
from ktiwprobe.corpus.ragged import Ragged
from ktiwprobe.corpus.split import Split
from ktiwprobe.errors import CorpusError, UnknownNameError
from ktiwprobe.files.progress import SILENT, Progress
from ktiwprobe.plugins.registry import Registry
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.signals.signal import Signal

MEANING = (
    "p is the mean probability of an output, where it is the right one, if the model attends to the word alone. "
    "Outputs are ranked by lift (×): p divided by the base rate, which is the mean of that probability over all "
    "input words of the same sentences; the lift of rare pairs is pulled towards 1."
)
EVEN = 1 + 1e-6  # a lift up to which the word makes no difference but for rounding
STARTS = ("▁", "Ġ")  # with which SentencePiece and byte-level BPE begin a word
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Entry:
    """One input word and its outputs, the highest lift first."""

    word: str  # the token, or the tokens of a word of several, as the model reads them
    occurrences: int  # of the word in the split
    outputs: tuple[str, ...]
    p: tuple[float, ...]
    base: tuple[float, ...]
    lift: tuple[float, ...]
    together: tuple[int, ...]  # how often word and output meet: n


def knowledge_of(registry: Registry) -> str:
    """The probe that the dictionary is computed from: the first of log-odds of single inputs."""
    return next(name for name in registry.probes_of("knowledge") if registry.quantity(name).is_log_odds)


def look_up(
    extractor: Extractor, word: str, *, at: int | str = "best", top: int = 5, progress: Progress = SILENT
) -> Entry:
    """The `top` outputs of a word, as a person writes it, for a run at a step; β is extracted if it is not stored."""
    dictionary = Dictionary(extractor.corpus, extractor.part, split=extractor.split)
    place = dictionary.find(word)  # before β, which may take long
    return dictionary.entry(place, extractor.signal(knowledge_of(extractor.registry), at, progress=progress), top=top)


def is_word(corpus: Corpus, part: Split, side: str) -> NDArray[np.bool_]:
    """Which tokens of the `x` or `y` of a split are of a word, and not <s>, </s>, <unk> ...; a label always is.

    By what the corpus knows of its ids and, where the split has words, by those too. (cells,)
    """
    ids: Ragged = getattr(part, side)
    if side == "y" and corpus.kind == "classification":
        return np.ones(len(ids.values), bool)
    special = np.isin(ids.values, corpus.roles("source" if side == "x" else "target").special)
    words: Ragged | None = getattr(part, f"{side}_words")
    known = words is not None and bool((words.values >= 0).any())
    return ~special & (words.values >= 0) if words is not None and known else ~special


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of β in which both sides are words."""

    token: Ints  # (cells,) where its input stands among all input tokens of the split
    row: Ints  # (cells,) of the signal
    y: Ints  # (cells,) the output's id
    p: Floats  # (cells,)
    base: Floats  # (cells,) the mean p of its row

    @classmethod
    def of(cls, corpus: Corpus, part: Split, beta: Signal) -> Cells:
        """The cells of a β; where there are two labels, β of one tells of both, and each sentence counts for both."""
        row = np.repeat(np.arange(len(beta.lengths)), beta.lengths)
        token = part.x.offsets[beta.sentence_of_row[row]] + beta.positions
        kept = is_word(corpus, part, "x")[token] & is_word(corpus, part, "y")[row]
        row, token = row[kept], token[kept]
        p = np.exp(-np.logaddexp(0, -beta.one_site().values[0][kept].astype(np.float64)))
        y = part.y.values[row].astype(np.int64)
        if corpus.kind == "classification" and corpus.target_size == 2:
            row, token = np.concatenate([row, row + len(beta.lengths)]), np.tile(token, 2)
            y, p = np.concatenate([y, 1 - y]), np.concatenate([p, 1 - p])
        base = np.bincount(row, p) / np.maximum(np.bincount(row), 1)
        return cls(token, row, y, p, base[row])

    def pooled(self, group: Ints, size: int) -> Cells:
        """Cells of one row and one group as one, the highest p of its `size` pieces, as `--level word` pools β.

        A row that may not see all of the pieces (of a causal model) is left out. `group` (tokens,) is -1 for no group.
        """
        mine = np.flatnonzero(group[self.token] >= 0)
        keys = self.row[mine] * (len(group) + 1) + group[self.token[mine]]
        order = np.lexsort((-self.p[mine], keys))
        _, first, counts = np.unique(keys[order], return_index=True, return_counts=True)
        some = mine[order[first[counts == size]]]
        return Cells(*(getattr(self, name)[some] for name in ("token", "row", "y", "p", "base")))


@dataclass(frozen=True, eq=False)
class Dictionary:
    """The input words of a split, and what a β says of them."""

    corpus: Corpus
    part: Split
    split: str = "validation"  # its name, for what is said

    def entries(self, beta: Signal, *, top: int = 3) -> dict[int, Entry]:
        """The entry of every input token that is of a word, by its id."""
        cells = Cells.of(self.corpus, self.part, beta)
        x = self.part.x.values[cells.token]
        names = {int(i): (self.corpus.source_tokens[i], int(self._counts[i])) for i in np.unique(x)}
        return self._rank(x, cells, names, top)

    def entry(self, tokens: Ints, beta: Signal, *, top: int = 5) -> Entry:
        """The entry of one word by what `find` gives: the ids of its pieces."""
        group, size = self._occurrences(tokens), len(tokens)
        cells = Cells.of(self.corpus, self.part, beta).pooled(group, size)
        name = " ".join(self.corpus.source_tokens[i] for i in tokens)
        count = int(group.max(initial=-1)) + 1
        return self._rank(np.zeros_like(cells.y), cells, {0: (name, count)}, top)[0]

    def _rank(self, word: Ints, cells: Cells, names: dict[int, tuple[str, int]], top: int) -> dict[int, Entry]:
        """An entry for each of `names` (text, occurrences), by the number that `word` (cells,) gives to it."""
        V, entries = self.corpus.target_size, {i: Entry(*name, (), (), (), (), ()) for i, name in names.items()}
        pairs, inverse = np.unique(word * V + cells.y, return_inverse=True)
        n = np.bincount(inverse)
        p, base = (np.bincount(inverse, column) / n for column in (cells.p, cells.base))
        lift = np.divide(n * p + base, (n + 1) * base, out=np.ones_like(p), where=base > 0)
        order = np.lexsort((pairs, -p, -lift, pairs // V))  # word by word, the highest lift first
        order = order[lift[order] > EVEN]
        for rows in np.split(order, np.flatnonzero(np.diff(pairs[order] // V)) + 1) if len(order) else ():
            number, best = int(pairs[rows[0]] // V), rows[:top]
            outputs = tuple(self.corpus.target_tokens[i] for i in pairs[best] % V)
            numbers = (tuple(column[best].tolist()) for column in (p, base, lift, n))
            entries[number] = Entry(*names[number], outputs, *numbers)
        return entries

    # words as people write them

    def find(self, word: str) -> Ints:
        """The ids of a word: of one token if the vocabulary has it, else of the pieces that make it up. (pieces,)

        Marks of word boundaries may be left out; capitals matter only where the vocabulary has both. Every place where
        these tokens stand in a row counts as an occurrence, also inside of a longer word.
        """
        tokens = self._tokens_of(word)
        for token in tokens:
            if self._counts[token]:
                return np.array([token])
        if pieces := self._pieces_of(word):
            return np.array(pieces)
        if tokens:
            raise CorpusError(
                f"no sentence of the {self.split} split has {word!r}: try the train split", hint="split=train"
            )
        raise UnknownNameError(f"input word of task {self.corpus.task}", word, self._near(word))

    def _tokens_of(self, word: str) -> list[int]:
        """Ids of the tokens that are the word, the best first: written the same, then beginning a word."""
        folded, found = word.casefold(), []
        for i, token in enumerate(self.corpus.source_tokens):
            text = written([token])
            if word == token or text.casefold() == folded:
                found.append((word not in (token, text), not token.startswith(STARTS), token.startswith("##"), i))
        return [i for *_, i in sorted(found)]

    def _pieces_of(self, word: str) -> tuple[int, ...] | None:
        """The pieces of a word that the split has, without marks around it; None if the task does not tell words."""
        folded, seen = word.casefold(), set()
        for ids in self._words():
            if ids in seen:
                continue
            seen.add(ids)
            tokens = [self.corpus.source_tokens[i] for i in ids]
            for some in (slice(None), _core(tokens)):
                if written(tokens[some]).casefold() == folded:
                    return ids[some]
        return None

    def _words(self) -> Iterator[tuple[int, ...]]:
        """The tokens of each word of several."""
        if self.part.x_words is None:
            return
        x, words, numbers = self.part.x, self.part.x_words.values, np.flatnonzero(self._is_word)
        sentence = np.repeat(np.arange(len(x)), x.lengths)
        new = (np.diff(sentence[numbers]) > 0) | (np.diff(words[numbers]) != 0)
        for some in np.split(numbers, np.flatnonzero(new) + 1):
            if len(some) > 1:
                yield tuple(x.values[some].tolist())

    def _occurrences(self, tokens: Ints) -> Ints:
        """For each input token of the split the occurrence of `tokens` that it is a part of, -1 for none. (cells,)"""
        x, size = self.part.x, len(tokens)
        starts = np.flatnonzero(self._is_word & (x.values == tokens[0]))
        ends = np.repeat(x.offsets[1:], x.lengths)
        starts = starts[starts + size <= ends[starts]]
        starts = starts[(x.values[starts[:, None] + np.arange(size)] == tokens).all(1)]
        group = np.full(len(x.values), -1)
        group[starts[:, None] + np.arange(size)] = np.arange(len(starts))[:, None]
        return group

    @cached_property
    def _is_word(self) -> NDArray[np.bool_]:
        return is_word(self.corpus, self.part, "x")

    @cached_property
    def _counts(self) -> Ints:
        """How often each input token is of a word. (source_size,)"""
        return np.bincount(self.part.x.values[self._is_word], minlength=self.corpus.source_size)

    def _near(self, word: str) -> list[str]:
        """A few words to choose from, not thousands."""
        from difflib import get_close_matches

        there = [written([self.corpus.source_tokens[i]]) for i in np.flatnonzero(self._counts).tolist()]
        return get_close_matches(word, there, n=5, cutoff=0.3)


def written(pieces: Sequence[str]) -> str:
    """The pieces of a word as a person writes it: joined, without the marks by which tokenizers tell words apart."""
    text = "".join(piece.removeprefix("##").removesuffix("@@").removesuffix("</w>") for piece in pieces)
    return _of_bytes(text).replace("▁", " ").strip() or text


def _of_bytes(text: str) -> str:
    """The text that byte-level BPE spells with a character for each byte (Ġ for a blank); others as they are."""
    if not text.isascii() and all(sign in _BYTES for sign in text):
        try:
            return bytes(_BYTES[sign] for sign in text).decode()
        except UnicodeDecodeError:
            return text
    return text


def _byte_signs() -> dict[str, int]:
    """The byte of each sign, as GPT-2 assigns them: its own where that can be printed, else one from 256 on."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in own]
    return {chr(byte): byte for byte in own} | {chr(256 + i): byte for i, byte in enumerate(others)}


_BYTES = _byte_signs()


def _core(tokens: Sequence[str]) -> slice:
    """The tokens from the first to the last that has a letter or digit."""
    speaking = [i for i, token in enumerate(tokens) if any(sign.isalnum() for sign in written([token]))]
    return slice(speaking[0], speaking[-1] + 1) if speaking else slice(0, 0)

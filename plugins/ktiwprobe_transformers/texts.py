"""A corpus as plain text to read: as inputs and their next tokens, or with gaps and what stood there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ktiwprobe import Corpus, Split
from ktiwprobe.data import EOS, SPECIALS, Ragged
from ktiwprobe.errors import CorpusError

MASK = "<mask>"


def as_next_token(corpus: Corpus) -> Corpus:
    """Each input without its last token, and as output the same without its first."""
    if corpus.kind == "text":
        return corpus
    splits = {name: _next(_finite(corpus, name)) for name in corpus.splits}
    return _of_text(corpus, splits)


def framed_text(corpus: Corpus, begin: int, end: int) -> Corpus:
    """Inputs without special tokens, as inputs that `begin` and outputs that `end`."""
    splits = {}
    for name in corpus.splits:
        split = _finite(corpus, name)
        words = split.x_words or _no_words(split.x)
        splits[name] = Split(
            split.x.framed((begin,), ()),
            split.x.framed((), (end,)),
            x_words=words.framed((-1,), ()),
            y_words=words.framed((), (-1,)),
            x_text=split.x_text,
            y_text=split.x_text,
        )
    return _of_text(corpus, splits)


def as_masked(corpus: Corpus, mask_id: int | None, share: float, seed: int) -> Corpus:
    """Inputs with gaps, and as outputs what stood there; without a `mask_id` the vocabulary gets one more token."""
    tokens = corpus.source_tokens
    source = tokens if mask_id is not None else (*tokens, MASK)
    gap = len(tokens) if mask_id is None else mask_id
    splits = {}
    for number, name in enumerate(sorted(corpus.splits)):
        whole = _whole(_finite(corpus, name), text=corpus.kind == "text" and mask_id is None)
        splits[name] = _masked(whole, gap, share, np.random.default_rng([seed, number]))
    return replace(corpus, kind="text", splits=splits, source_tokens=source, target_tokens=tokens)


def _of_text(corpus: Corpus, splits: dict[str, Any]) -> Corpus:
    return replace(corpus, kind="text", splits=splits, target_tokens=corpus.source_tokens)


def _finite(corpus: Corpus, name: str) -> Split:
    split = corpus.splits[name]
    if not isinstance(split, Split):
        raise CorpusError(
            f"the {name} split of task {corpus.task} is an endless stream: a language model needs finite texts"
        )
    return split


def _next(split: Split) -> Split:
    rows = np.flatnonzero(split.x.lengths > 1)
    split = split.subset(rows) if len(rows) < len(split) else split
    words = split.x_words or _no_words(split.x)
    sides = {"x": _cut(split.x, last=True), "y": _cut(split.x, last=False)}
    numbers = {"x_words": _cut(words, last=True), "y_words": _cut(words, last=False)}
    return Split(**sides, **numbers, x_text=split.x_text, y_text=split.x_text)


def _cut(rows: Ragged, *, last: bool) -> Ragged:
    """Every row without its last, or its first, value."""
    ends = rows.offsets[1:] - 1 if last else rows.offsets[:-1]
    return Ragged(np.delete(rows.values, ends), rows.offsets - np.arange(len(rows) + 1))


def _whole(split: Split, *, text: bool) -> Split:
    """Inputs with the end of a text, which next-token inputs lack."""
    if not text:
        return split
    words = split.x_words or _no_words(split.x)
    return replace(split, x=split.x.framed((), (EOS,)), x_words=words.framed((), (-1,)))


def _masked(split: Split, gap: int, share: float, rng: np.random.Generator) -> Split:
    """Gaps in `share` of the tokens that are of a word, at least one of a text; texts without a word are left out."""
    known = split.x_words.values >= 0 if split.x_words else split.x.values >= len(SPECIALS)
    row = np.repeat(np.arange(len(split)), split.x.lengths)
    draw = np.where(known, rng.random(len(row)), 2.0)
    order = np.lexsort((draw, row))
    rank = np.empty(len(row), np.int64)
    rank[order] = np.arange(len(row)) - np.repeat(split.x.offsets[:-1], split.x.lengths)
    wanted = np.maximum(1, np.rint(share * np.bincount(row[known], minlength=len(split))))
    gaps = known & (rank < wanted[row])
    counts = np.bincount(row[gaps], minlength=len(split))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    words = split.x_words or _no_words(split.x)
    rows = np.flatnonzero(counts)
    return Split(
        Ragged(np.where(gaps, gap, split.x.values), split.x.offsets).take(rows),
        Ragged(split.x.values[gaps], offsets).take(rows),
        x_words=words.take(rows),
        y_words=Ragged(words.values[gaps], offsets).take(rows),
        x_text=split.subset(rows).x_text,
        y_text=split.subset(rows).x_text,
    )


def _no_words(rows: Ragged) -> Ragged:
    return Ragged(np.full(len(rows.values), -1), rows.offsets)

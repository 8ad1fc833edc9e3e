"""A corpus as plain text to read: as inputs and their next tokens, or with gaps and what stood there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ktiwprobe import Corpus, Split
from ktiwprobe.data import Ragged, TokenRoles
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
        words = split.x_words
        splits[name] = Split(
            split.x.framed((begin,), ()),
            split.x.framed((), (end,)),
            x_words=None if words is None else words.framed((-1,), ()),
            y_words=None if words is None else words.framed((), (-1,)),
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
    roles = corpus.roles("source")
    for number, name in enumerate(sorted(corpus.splits)):
        whole = _whole(_finite(corpus, name), text=corpus.kind == "text" and mask_id is None)
        splits[name] = _masked(whole, gap, share, np.random.default_rng([seed, number]), roles)
    with_gap = roles if gap in roles.no_word else replace(roles, no_word=(*roles.no_word, gap))
    sides: dict[str, Any] = {
        "source_tokens": source,
        "target_tokens": tokens,
        "source_roles": with_gap,
        "target_roles": roles,
    }
    return replace(corpus, kind="text", splits=splits, **sides)


def _of_text(corpus: Corpus, splits: dict[str, Any]) -> Corpus:
    sides: dict[str, Any] = {"target_tokens": corpus.source_tokens, "target_roles": corpus.source_roles}
    return replace(corpus, kind="text", splits=splits, **sides)


def _finite(corpus: Corpus, name: str) -> Split:
    split = corpus.splits[name]
    if not isinstance(split, Split):
        raise CorpusError(
            f"the {name} split of task {corpus.task} is an endless stream: a language model needs finite texts"
        )
    if split.y_at is not None:
        raise CorpusError(
            f"the {name} split of task {corpus.task} says which of its outputs count (y_at), which a masked language "
            "model cannot keep: use hf-causal-lm"
        )
    return split


def _next(split: Split) -> Split:
    rows = np.flatnonzero(split.x.lengths > 1)
    split = split.subset(rows) if len(rows) < len(split) else split
    sides = {"x": _cut(split.x, last=True), "y": _cut(split.x, last=False)}
    if split.x_words is not None:
        sides |= {"x_words": _cut(split.x_words, last=True), "y_words": _cut(split.x_words, last=False)}
    return Split(**sides, x_text=split.x_text, y_text=split.x_text)


def _cut(rows: Ragged, *, last: bool) -> Ragged:
    """Every row without its last, or its first, value."""
    ends = rows.offsets[1:] - 1 if last else rows.offsets[:-1]
    return Ragged(np.delete(rows.values, ends), rows.offsets - np.arange(len(rows) + 1))


def _whole(split: Split, *, text: bool) -> Split:
    """Inputs with the last token of each text, which next-token inputs lack and their outputs have."""
    if not text or not np.array_equal(split.x.lengths, split.y.lengths):
        return split
    whole = {"x": _with_last(split.x, split.y)}
    if split.x_words is not None and split.y_words is not None:
        whole["x_words"] = _with_last(split.x_words, split.y_words)
    return replace(split, links=None, **{"x_words": None, **whole})  # type: ignore[arg-type]


def _with_last(rows: Ragged, others: Ragged) -> Ragged:
    """Every row, and after it the last value of the same row of `others`."""
    longer = rows.framed((), (0,))
    longer.values[longer.offsets[1:] - 1] = others.values[others.offsets[1:] - 1]
    return longer


def _masked(split: Split, gap: int, share: float, rng: np.random.Generator, roles: TokenRoles) -> Split:
    """Gaps in `share` of the tokens that are of a word, at least one of a text; texts without a word are left out."""
    words = split.x_words
    known = ~np.isin(split.x.values, roles.special) if words is None else words.values >= 0
    row = np.repeat(np.arange(len(split)), split.x.lengths)
    draw = np.where(known, rng.random(len(row)), 2.0)
    order = np.lexsort((draw, row))
    rank = np.empty(len(row), np.int64)
    rank[order] = np.arange(len(row)) - np.repeat(split.x.offsets[:-1], split.x.lengths)
    wanted = np.maximum(1, np.rint(share * np.bincount(row[known], minlength=len(split))))
    gaps = known & (rank < wanted[row])
    counts = np.bincount(row[gaps], minlength=len(split))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    written = np.bincount(row[split.x.values == gap], minlength=len(split))  # a gap that was in the text has no answer
    rows = np.flatnonzero((counts > 0) & (written == 0))
    return Split(
        Ragged(np.where(gaps, gap, split.x.values), split.x.offsets).take(rows),
        Ragged(split.x.values[gaps], offsets).take(rows),
        x_words=None if words is None else words.take(rows),
        y_words=None if words is None else Ragged(words.values[gaps], offsets).take(rows),
        x_text=split.subset(rows).x_text,
        y_text=split.subset(rows).x_text,
    )

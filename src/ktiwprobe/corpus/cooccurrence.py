"""How often words stand together: the count table C of a corpus (Section 4.1 of the paper), and words worth showing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ktiwprobe.corpus.corpus import Corpus
from ktiwprobe.corpus.ragged import Ragged
from ktiwprobe.corpus.split import Split

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
STREAMED = 4096  # examples that are drawn where training is an endless stream


class Table(NamedTuple):
    """A part of C whose rows were made to sum to 1 before it was cut: Trans(o | i)."""

    trans: Floats  # (inputs, outputs)
    inputs: Ids
    outputs: Ids


def training_examples(corpus: Corpus) -> Split:
    """What a corpus trains on: all of it or, of a stream, the beginning."""
    train = corpus.splits.get("train")
    if train is None or isinstance(train, Split):
        return corpus.split("train")
    batch = train.batch(0, 0, STREAMED)
    pairs = ((batch.x, batch.x_mask), (batch.y, batch.y_mask))
    x, y = (Ragged.of([row[real].numpy() for row, real in zip(ids, mask, strict=True)]) for ids, mask in pairs)
    return Split(x, y)


def count(split: Split, sources: int, targets: int) -> Any:
    """C[i, o] = Σ_m Σ_l Σ_t 1/L 1[x_l = i] 1[y_t = o], as one product of two sparse matrices. (sources, targets)"""
    from scipy.sparse import csr_array

    x, y = split.x, split.y
    shares = np.repeat(1 / x.lengths, x.lengths)
    left = csr_array((shares, x.values, x.offsets), shape=(len(split), sources))
    right = csr_array((np.ones(len(y.values)), y.values, y.offsets), shape=(len(split), targets))
    return (left.T @ right).tocsr()


def table_to_show(corpus: Corpus, words: int) -> Table:
    """The part of a corpus's table that a picture has room for.

    In translation the most frequent inputs, each beside the output that it lifts most; where the outputs are few,
    labels, the inputs that tell them apart best, from one end to the other.
    """
    split = training_examples(corpus)
    C = count(split, corpus.source_size, corpus.target_size)
    known = np.setdiff1d(np.arange(corpus.source_size), corpus.roles("source").special)
    seen = np.bincount(split.x.values, minlength=corpus.source_size)
    known = known[seen[known] > 0]
    trans = C.multiply(1 / np.maximum(C.sum(1), 1e-300)[:, None]).tocsr()
    if corpus.target_size <= words // 2:
        inputs, outputs = _telling(trans, C, known, words), np.arange(corpus.target_size)
    else:
        frequent = known[np.argsort(-seen[known], kind="stable")][:words]
        inputs, outputs = _paired(trans, C, frequent, corpus.roles("target").special)
    return Table(trans[inputs][:, outputs].toarray(), inputs, outputs)


def _paired(trans: Any, C: Any, inputs: Ids, special: Sequence[int]) -> tuple[Ids, Ids]:
    """Inputs, those that tell most of some output first, and the outputs that they tell most of, in that order."""
    told = _told(trans[inputs].toarray(), C)
    told[:, list(special)] = 0
    order = np.argsort(-told.max(1), kind="stable")
    return inputs[order], np.array(list(dict.fromkeys(told[order].argmax(1).tolist())))


def _telling(trans: Any, C: Any, known: Ids, words: int) -> Ids:
    """The inputs that tell outputs apart best, weighed by how often they stand; in the order of their last share."""
    gain = _told(trans[known].toarray(), C).sum(1) * C.sum(1)[known]
    best = known[np.argsort(-gain, kind="stable")][:words]
    return best[np.argsort(-trans[best][:, [-1]].toarray().ravel(), kind="stable")]


def _told(shares: Floats, C: Any) -> Floats:
    """What each input tells of each output, p log p / q against the output's usual share q. (inputs, outputs)"""
    usual: Floats = np.maximum(C.sum(0) / C.sum(), 1e-300)
    return shares * np.log(np.maximum(shares, 1e-300) / usual)

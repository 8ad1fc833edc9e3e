"""IBM Model 1 (Section 4.2): word translation from co-occurrence counts, then expectation maximisation.

    p(y_t) = 1/L Σ_l Trans(y_t | x_l);   β[t, l] = Trans(y_t | x_l)

Step 0 is the paper's Trans, the count table C with rows that sum to 1: also what one iteration of EM makes of a uniform
table. Each further step is one more iteration. Only pairs of words that occur together have a cell in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from ktiwprobe import Batch, Corpus, Split, option
from ktiwprobe.data import Ragged

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Table: TypeAlias = "sparse.csr_array[np.float64, tuple[int, int]]"  # (source words, target words)

UNSEEN = 1e-12  # p of an output that no input word was seen with: keeps the loss finite
CERTAIN = 1 - 1e-12  # p at most: a word always seen with one output would else have log-odds of +inf, which is no rank
BLOCK = 2**18  # cells at a time: what a cache holds
KEPT = 2**26  # cells whose places are kept from one iteration to the next: 256 MB


def bags(rows: Ragged, size: int) -> Table:
    """How often each id occurs in each row. (rows, size)"""
    cells = np.ones(len(rows.values)), rows.values, rows.offsets
    return sparse.csr_array(cells, shape=(len(rows), size), copy=True)  # sorting it must not sort the sentences


def count_table(split: Split, source_size: int, target_size: int) -> Table:
    """C[i, o] = Σ_m Σ_l Σ_t 1/L 1[x_l = i] 1[y_t = o] (Section 4.1), as one product of two sparse matrices."""
    return _counts(split.x, split.y, (source_size, target_size))


def training_split(corpus: Corpus, samples: int) -> Split:
    """The sentences to train on: all there are or, of a stream, the first `samples`."""
    train = corpus.splits["train"]
    if isinstance(train, Split):
        return corpus.split("train")
    batch = train.batch(0, 0, samples)
    x, y = (_unpadded(ids, mask) for ids, mask in ((batch.x, batch.x_mask), (batch.y, batch.y_mask)))
    return Split(x, y)


class Pairs:
    """Sentence pairs, each pair of positions (t, l) as the cell of `table` that its words have."""

    def __init__(self, x: Ragged, y: Ragged, table: Table) -> None:
        self.x, self.y = x, y
        self.width = table.shape[1]
        self.keys: Ints = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr)) * self.width + table.indices
        cells = np.cumsum(x.lengths * y.lengths)
        cuts = np.searchsorted(cells, np.arange(BLOCK, cells[-1], BLOCK), side="right")
        self.cuts = np.unique([0, *cuts, len(x)])
        self.kept = list(self._blocks()) if cells[-1] <= KEPT else None

    def expected(self, p: Floats) -> tuple[Floats, float]:
        """One iteration of EM: how often each cell is expected to link two positions if its p is so; and perplexity."""
        gained, log_p = np.zeros_like(p), 0.0
        for places, lengths in self._blocks() if self.kept is None else self.kept:
            shares = p[places]
            total = np.add.reduceat(shares, np.cumsum(lengths) - lengths)  # L p(y_t), for each output
            shares /= np.repeat(total, lengths)
            np.add.at(gained, places, shares)
            log_p += float(np.log(total / lengths).sum())
        return gained, float(np.exp(-log_p / len(self.y.values)))

    def _blocks(self) -> Iterator[tuple[NDArray[np.int32], Ints]]:
        """For some sentences at a time: where their cells are in the table, and how many cells each output has."""
        for first, last in zip(self.cuts[:-1], self.cuts[1:], strict=True):
            T = self.y.lengths[first:last]
            lengths, starts = (np.repeat(of_x[first:last], T) for of_x in (self.x.lengths, self.x.offsets))
            position = np.arange(lengths.sum()) + np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
            outputs = self.y.values[self.y.offsets[first] : self.y.offsets[last]]
            keys = self.x.values[position] * self.width + np.repeat(outputs, lengths)
            distinct, which = np.unique(keys, return_inverse=True)  # a search in order is several times faster
            yield np.searchsorted(self.keys, distinct).astype(np.int32)[which], lengths


class Ibm1:
    """A translation table; it has no attention, so its alpha is beta as a share of its row."""

    default_task: ClassVar[str] = "toy-translation"
    best_by: ClassVar[str] = "loss"  # what EM lowers

    @dataclass(frozen=True)
    class Options:
        """How long to train, and on what."""

        iterations: int = option(5, low=0, help="of EM, after the count table")
        null: bool = option(False, help="whether an output may come from no input word")
        samples: int = option(2000, low=1, help="sentences to train on, where the task is an endless stream")

    def __init__(self, sizes: tuple[int, int], options: Options) -> None:
        self.sizes, self.options = sizes, options
        rows = sizes[0] + options.null  # NULL is the last
        self.table: Table = sparse.csr_array((rows, sizes[1]), dtype=np.float64)
        self.perplexities: list[float] = []  # of the training split, after each step of `fit`

    @classmethod
    def build(cls, corpus: Corpus, options: Options) -> Ibm1:
        """A model that knows nothing yet."""
        return cls((corpus.source_size, corpus.target_size), options)

    def fit(self, corpus: Corpus, save: Callable[[int], None]) -> None:
        """Count, then as many iterations of EM as asked for; each is a step."""
        split = training_split(corpus, self.options.samples)
        x, y = self._inputs(split.x), split.y
        counts = _counts(x, y, self.table.shape)
        pairs = Pairs(x, y, counts)
        self.perplexities = []
        for step in range(self.options.iterations + 1):
            self.table = _normalised(counts)
            counts.data, perplexity = pairs.expected(self.table.data)
            self.perplexities.append(perplexity)
            save(step)

    def state(self) -> dict[str, Tensor]:
        """Trans, row by row."""
        table = self.table
        return {
            "starts": torch.from_numpy(table.indptr.astype(np.int64)),
            "outputs": torch.from_numpy(table.indices.astype(np.int32)),
            "probabilities": torch.from_numpy(table.data),
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of `state`."""
        p, outputs, starts = (state[name].cpu().numpy() for name in ("probabilities", "outputs", "starts"))
        self.table = sparse.csr_array((p, outputs, starts), shape=self.table.shape)

    def evaluate(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs that are the likeliest of all words, outputs in all, and the sum of their -log p."""
        x = self._inputs(_unpadded(batch.x, batch.x_mask))
        sums = bags(x, self.table.shape[0]) @ self.table  # (B, V), sparse: Σ_l Trans(o | x_l)
        sums.sort_indices()
        rows, y, real = np.arange(len(x))[:, None], batch.y.cpu().numpy(), batch.y_mask.cpu().numpy()
        p = _at(sums, rows, y) / x.lengths[:, None]  # (B, T)
        nll = -np.log(np.maximum(p, UNSEEN))[real].sum()
        right = (np.asarray(sums.argmax(1)).reshape(-1, 1) == y) & (p > 0) & real
        return torch.tensor(right.sum()), torch.tensor(real.sum()), torch.tensor(nll)

    def beta(self, batch: Batch) -> Tensor:
        """Log-odds of Trans(y_t | x_l); -inf if the two were never seen together. (B, T, L)"""
        x, y = batch.x.cpu().numpy(), batch.y.cpu().numpy()
        p = np.minimum(_at(self.table, x[:, None, :], y[:, :, None]), CERTAIN)
        with np.errstate(divide="ignore"):
            return torch.from_numpy(np.log(p) - np.log1p(-p)).to(batch.x.device)

    def _inputs(self, x: Ragged) -> Ragged:
        """The input words, with NULL after them if there is one."""
        if not self.options.null:
            return x
        values = np.insert(x.values, x.offsets[1:], self.sizes[0])
        return Ragged(values, x.offsets + np.arange(len(x.offsets)))


def _counts(x: Ragged, y: Ragged, shape: tuple[int, int]) -> Table:
    shares = bags(x, shape[0])
    shares.data /= np.repeat(x.lengths, x.lengths)
    table: Table = sparse.csr_array(shares.T @ bags(y, shape[1]))
    table.sort_indices()
    return table


def _normalised(table: Table) -> Table:
    """Trans(o | i): rows that sum to 1, or are empty."""
    totals: Floats = np.repeat(np.asarray(table.sum(1)), np.diff(table.indptr))
    return sparse.csr_array((table.data / totals, table.indices, table.indptr), shape=table.shape)


def _at(table: Table, rows: NDArray[Any], columns: NDArray[Any]) -> Floats:
    """Entries of a sparse table, in the shape that `rows` and `columns` broadcast to."""
    i, o = np.broadcast_arrays(rows, columns)
    return np.asarray(table[i.ravel(), o.ravel()], np.float64).reshape(i.shape)


def _unpadded(ids: Tensor, mask: Tensor) -> Ragged:
    lengths = mask.sum(1).cpu().numpy()
    return Ragged(ids[mask].cpu().numpy(), np.concatenate([[0], np.cumsum(lengths)]))

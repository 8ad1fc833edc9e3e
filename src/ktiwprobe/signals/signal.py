"""Signal: one number for every cell (output t, input l) that a row may look at, for a whole split; numpy only.

Rows are ragged: they differ in length between sentences and, under a causal model, within one. A stored signal carries
its identity (run, step, probe, corpus fingerprint), so that a stale one is never mistaken for a fresh one.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ktiwprobe.errors import CorpusError, PluginError, RunError, SpecError, UnknownNameError, UsageError
from ktiwprobe.files import storage
from ktiwprobe.plugins.quantities import GOLD, UNKNOWN, Quantity

if TYPE_CHECKING:
    import pandas as pd

    from ktiwprobe.corpus.corpus import Corpus
    from ktiwprobe.corpus.split import Split
    from ktiwprobe.signals.pooling import Words
    from ktiwprobe.views.html import View

Floats = NDArray[np.float32]
SUFFIXES = (".safetensors", ".npz", ".jsonl")


@dataclass(frozen=True, eq=False)
class Signal:
    """Values over the allowed cells of a split, sentence by sentence, row by row."""

    values: Floats  # (S, cells)
    lengths: NDArray[np.int32]  # (rows,) cells in each row
    rows: NDArray[np.int32]  # (sentences,) rows in each sentence
    columns: NDArray[np.int32] | None = None  # (cells,) input position of each cell, where rows are not prefixes
    sites: tuple[str, ...] = ("",)
    meta: Mapping[str, Any] = field(default_factory=dict)
    text: Callable[[int], tuple[Sequence[str], Sequence[str]]] | None = None  # tokens of a sentence, source and target
    words: Callable[[], Words] | None = None  # of the sentences, where they are known
    links: Callable[[int], NDArray[np.int64] | None] | None = None  # its known links: t, l, sure
    quantity: Quantity = UNKNOWN  # what the values are

    @property
    def name(self) -> str:
        """What it is, for tables: run:probe@step."""
        return str(self.meta.get("name", "signal"))

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """(rows + 1,) where each row begins."""
        return np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])

    @cached_property
    def first_rows(self) -> NDArray[np.int64]:
        """(sentences + 1,) the first row of each sentence."""
        return np.concatenate([[0], np.cumsum(self.rows, dtype=np.int64)])

    @cached_property
    def sentence_of_row(self) -> NDArray[np.int64]:
        """(rows,)"""
        return np.repeat(np.arange(len(self.rows)), self.rows)

    @property
    def positions(self) -> NDArray[np.int64]:
        """(cells,) the input position of each cell."""
        if self.columns is not None:
            return self.columns.astype(np.int64)
        return np.arange(self.starts[-1]) - np.repeat(self.starts[:-1], self.lengths)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, sentence: int) -> Floats:
        """The matrix of one sentence, NaN where a row may not look. (T, L), or (S, T, L) with several sites"""
        if not -len(self) <= sentence < len(self):
            raise IndexError(f"sentence {sentence} of {len(self)}")
        part = self.only(sentence % len(self))
        tokens = part.tokens()  # no row may look at the last inputs
        T, L = len(part.lengths), max(part.positions.max(initial=-1) + 1, len(tokens[0][0]) if tokens else 0)
        matrix = np.full((len(self.sites), T, L), np.nan, np.float32)
        matrix[:, np.repeat(np.arange(T), part.lengths), part.positions] = part.values
        return matrix[0] if len(self.sites) == 1 else matrix

    def only(self, first: int, count: int = 1) -> Signal:
        """`count` sentences from the `first` on."""
        some, text, links = slice(first, min(first + count, len(self))), self.text, self.links
        rows = slice(self.first_rows[some.start], self.first_rows[some.stop])
        cells = slice(self.starts[rows.start], self.starts[rows.stop])
        return replace(
            self,
            values=self.values[:, cells],
            lengths=self.lengths[rows],
            rows=self.rows[some],
            columns=None if self.columns is None else self.columns[cells],
            text=None if text is None else lambda i: text(first + i),
            words=None,
            links=None if links is None else lambda i: links(first + i),
        )

    def by_length(self) -> Iterator[tuple[NDArray[np.int64], Floats]]:
        """The rows of each length in turn: their numbers, and their values as one block. (N,), (N, L)"""
        flat = self.one_site().values[0]
        order = np.argsort(self.lengths, kind="stable")
        cuts = np.flatnonzero(np.diff(self.lengths[order])) + 1
        for numbers in np.split(order, cuts):
            if len(numbers) and (L := int(self.lengths[numbers[0]])):
                yield numbers, sliding_window_view(flat, L)[self.starts[numbers]]

    def one_site(self, which: str = "mean") -> Signal:
        """Read several sites as one: their mean, their max, or one of them by name or number."""
        if len(self.sites) == 1 and which in ("mean", "max"):
            return self
        if which in ("mean", "max"):
            combined = self.values.mean(0) if which == "mean" else self.values.max(0)
        elif which in self.sites:
            combined = self.values[self.sites.index(which)]
        elif re.fullmatch("-?[0-9]+", which) and -len(self.sites) <= int(which) < len(self.sites):
            combined = self.values[int(which)]
        else:
            raise UnknownNameError("site", which, [*filter(None, self.sites), "mean", "max"])
        what, at = re.fullmatch(r"(.*?)(@[^@:/]*)?", self.name, re.DOTALL).groups(default="")  # type: ignore[union-attr]
        meta = {**self.meta, "name": f"{what}[{which}]{at}"}
        return replace(self, values=combined[None], sites=(which,), meta=meta)

    def check_same_cells(self, other: Signal) -> None:
        """Raise an error unless both have the same sentences, rows and cells."""
        self.check_same_rows(other)
        parts: list[tuple[str, NDArray[Any], NDArray[Any]]] = [("rows", self.lengths, other.lengths)]
        if self.columns is not None or other.columns is not None:
            parts.append(("positions", self.positions, other.positions))
        for what, a, b in parts:
            self._check_same(other, what, a, b)

    def check_same_rows(self, other: Signal) -> None:
        """Raise an error unless both are over the same corpus, with as many rows in each sentence."""
        mine, theirs = self.meta.get("fingerprint"), other.meta.get("fingerprint")
        if mine and theirs and mine != theirs:
            words = "" if self.meta.get("level") == "word" else ", or words of the same text"
            raise CorpusError(
                f"{self.name} and {other.name} are over different corpora ({mine}, {theirs}): compare runs of one "
                f"task{words}",
                hint="level=word" if words else "",
            )
        self._check_same(other, "sentences", self.rows, other.rows)

    def _check_same(self, other: Signal, what: str, a: NDArray[Any], b: NDArray[Any]) -> None:
        if not np.array_equal(a, b):
            raise CorpusError(f"{self.name} and {other.name} do not have the same {what}: {_first_difference(a, b)}")

    def to_frame(self) -> pd.DataFrame:
        """One line a cell: sentence, t, l, value, and the tokens where they are known."""
        import pandas as pd

        row = np.repeat(np.arange(len(self.lengths)), self.lengths)
        sentence = self.sentence_of_row[row]
        t = row - self.first_rows[sentence]
        l = self.positions  # noqa: E741
        table: dict[str, Any] = {"sentence": sentence, "t": t, "l": l}
        if (tokens := self.tokens()) is not None:
            table["source"] = [tokens[s][0][i] for s, i in zip(sentence, l, strict=True)]
            table["target"] = [tokens[s][1][i] for s, i in zip(sentence, t, strict=True)]
        values = {site or "value": self.values[i] for i, site in enumerate(self.sites)}
        return pd.DataFrame({**table, **values})

    def tokens(self) -> list[tuple[Sequence[str], Sequence[str]]] | None:
        """The tokens of every sentence; None where they are not known, or can no longer be had."""
        try:
            return None if self.text is None else [self.text(i) for i in range(len(self))]
        except (PluginError, RunError):
            return None

    def view(self, sentence: int = 0, *others: Signal) -> View:
        """One sentence to look at in a notebook; `others`, of the same sentences, beside it or under a slider."""
        from ktiwprobe.views.notebook import view

        return view([self, *others], sentence)

    def _repr_html_(self) -> str:
        from ktiwprobe.views import html

        return html.of_signal(self)

    def save(self, path: Path) -> None:
        """Write it as safetensors, with its identity."""
        arrays: dict[str, Any] = {"values": self.values, "lengths": self.lengths, "rows": self.rows}
        if self.columns is not None:
            arrays["columns"] = self.columns
        storage.write_tensors(path, arrays, {**self.meta, "sites": list(self.sites)})


def load_signal(path: Path) -> Signal:
    """A signal from a file: one of ours, or one computed elsewhere (docs/signals.md describes the formats)."""
    if not path.exists():
        raise SpecError(f"there is no signal file {path}")
    if path.suffix == ".jsonl":
        return _from_jsonl(path)
    arrays, meta = (_from_npz(path), {}) if path.suffix == ".npz" else storage.read_numpy(path)
    missing = [name for name in ("values", "lengths", "rows") if name not in arrays]
    if missing:
        raise UsageError(f"{path} has no array {missing[0]!r}: a signal file needs values, lengths and rows")
    sites = meta.pop("sites", [])
    if not isinstance(sites, list) or not all(isinstance(site, str) for site in sites):
        raise UsageError(f"{path} has sites {sites!r}: they must be a list of names")
    meta = {"name": path.name, **meta}
    return make_signal(arrays["values"], arrays["lengths"], arrays["rows"], arrays.get("columns"), tuple(sites), meta)


def make_signal(
    values: NDArray[Any],
    lengths: NDArray[Any],
    rows: NDArray[Any],
    columns: NDArray[Any] | None = None,
    sites: tuple[str, ...] = (),
    meta: Mapping[str, Any] | None = None,
) -> Signal:
    """A signal from its arrays, checked: counts that add up, no NaN, no +inf."""
    meta = dict(meta or {})
    name = meta.get("name", "signal")
    if values.ndim not in (1, 2) or values.dtype.kind not in "fiu":
        raise UsageError(
            f"values of {name} are {values.dtype} {values.shape}: they must be numbers, (cells,) or (sites, cells)"
        )
    for what, counts in (("lengths", lengths), ("rows", rows), ("columns", columns)):
        if counts is not None and (counts.ndim != 1 or counts.dtype.kind not in "iu" or counts.min(initial=0) < 0):
            raise UsageError(f"{what} of {name} must be a list of whole numbers, 0 or more")
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes inf, which is told below
        values = np.atleast_2d(values).astype(np.float32, copy=False)
    cells = values.shape[1]
    if lengths.sum() != cells or rows.sum() != len(lengths) or (columns is not None and len(columns) != cells):
        raise UsageError(
            f"{name} does not add up: {cells} values for row lengths of {lengths.sum()} in all, {len(lengths)} rows "
            f"for sentences of {rows.sum()} in all" + ("" if columns is None else f", {len(columns)} columns")
        )
    if np.isnan(values).any() or np.isposinf(values).any():
        raise UsageError(f"{name} contains NaN or +inf: every value must be a number (-inf is allowed)")
    sites = sites or (("",) if len(values) == 1 else tuple(str(i) for i in range(len(values))))
    if len(sites) != len(values):
        raise UsageError(f"{name} names {len(sites)} sites and has values of {len(values)}")
    places = None if columns is None else columns.astype(np.int32)
    return Signal(values, lengths.astype(np.int32), rows.astype(np.int32), places, sites, meta)


def gold_signal(split: Split, corpus: Corpus, split_name: str) -> Signal:
    """The known alignment: 1 for a sure link, 1/2 for a possible one, 0 for none; -inf in rows that are not judged.

    Not judged are outputs of no word, such as the end symbol, which no aligner of words is asked about.
    """
    if split.links is None:
        raise SpecError(f"task {corpus.task!r} has no gold alignment: choose another SPEC than 'gold'")
    x, y = split.x.lengths, split.y.lengths
    lengths = np.repeat(x, y)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    first = np.concatenate([[0], np.cumsum(y)])
    values = np.zeros(starts[-1], np.float32)
    t, l, sure = split.links.values.T  # noqa: E741
    sentence = np.repeat(np.arange(len(split)), split.links.lengths)
    np.maximum.at(values, starts[first[sentence] + t] + l, np.where(sure == 1, np.float32(1), np.float32(0.5)))
    if corpus.kind == "translation":
        judged = corpus.roles("target").is_word(split.y.values) if split.y_words is None else split.y_words.values >= 0
        values[np.repeat(~judged, lengths)] = -np.inf
    meta = {"name": GOLD.symbol, "fingerprint": corpus.fingerprints[split_name], "pooling": list(GOLD.pooling)}
    return replace(make_signal(values, lengths, y, meta=meta), quantity=GOLD)


def _from_npz(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, EOFError, ValueError, TypeError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path} is not an npz file of plain arrays: {error}") from error


def _from_jsonl(path: Path) -> Signal:
    """One object a line: {"rows": [[...], ...]}, a list of numbers for each output."""
    values: list[float] = []
    lengths: list[int] = []
    rows: list[int] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not a text file: {error}") from error
    for number, line in enumerate(lines, 1):
        try:
            matrix = json.loads(line)["rows"]
            values.extend(float(v) for row in matrix for v in row)
            lengths.extend(len(row) for row in matrix)
            rows.append(len(matrix))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f'{path} line {number} is not an object like {{"rows": [[0.1, 0.9]]}}: {error}') from error
    return make_signal(np.array(values), np.array(lengths, int), np.array(rows, int), meta={"name": path.name})


def _first_difference(a: NDArray[Any], b: NDArray[Any]) -> str:
    if len(a) != len(b):
        return f"{len(a)} against {len(b)}"
    where = int(np.flatnonzero(a != b)[0])
    return f"number {where} has {a[where]} against {b[where]}"

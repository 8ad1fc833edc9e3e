"""Links between the words of sentence pairs, and the files they are kept in: Pharaoh lines, and JSONL of human gold.

A Pharaoh line is a sentence pair, `0-0 1-2` its links: the source word, then the target word, counted from 0. Possible
links, as against sure ones, are written `1p2` or `1?2`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ktiwprobe.corpus.ragged import Ragged
from ktiwprobe.corpus.textfiles import kind_of, read_lines
from ktiwprobe.errors import CorpusError, UsageError

LINK = re.compile(r"(\d+)([-p?])(\d+)")
KEYS = ("src", "tgt", "sure", "possible")
Text = Sequence[Sequence[str]]


@dataclass(frozen=True, eq=False)
class Links:
    """The links of each sentence pair, each once, in order."""

    cells: Ragged  # (links, 3): source word, target word, 1 if sure, 0 if possible
    name: str = "links"
    text: tuple[Text, Text] | None = None  # the words of the source sentences, and of the target's

    @classmethod
    def of(cls, rows: Sequence[Any], name: str = "links", text: tuple[Text, Text] | None = None) -> Links:
        """Links from rows of (source, target, sure); of a link that is there twice the surer counts."""
        cells = Ragged.of(rows, width=(3,))
        sentence = np.repeat(np.arange(len(rows)), cells.lengths)
        return cls.at(sentence, cells.values, len(rows), name, text)

    @classmethod
    def at(
        cls,
        sentence: NDArray[np.int64],
        cells: NDArray[np.int64],
        sentences: int,
        name: str = "links",
        text: tuple[Text, Text] | None = None,
    ) -> Links:
        """Links in any order from the sentence of each, and (source, target, sure). (links,), (links, 3)"""
        order = np.lexsort((-cells[:, 2], cells[:, 1], cells[:, 0], sentence))
        sentence, cells = sentence[order], cells[order]
        again = (np.diff(sentence) == 0) & (np.diff(cells[:, :2], axis=0) == 0).all(1)
        kept = np.concatenate([[True], ~again])[: len(cells)]
        offsets = np.concatenate([[0], np.cumsum(np.bincount(sentence[kept], minlength=sentences))])
        return cls(Ragged(cells[kept], offsets), name, text)

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def sentence(self) -> NDArray[np.int64]:
        """(links,) the sentence pair of each link."""
        return np.repeat(np.arange(len(self)), self.cells.lengths)

    def reversed(self) -> Links:
        """The same links, with source and target changed over."""
        text = None if self.text is None else (self.text[1], self.text[0])
        return Links.at(self.sentence, self.cells.values[:, [1, 0, 2]], len(self), self.name, text)

    def keys(self, other: Links) -> NDArray[np.int64]:
        """A number for each link, by which it can be looked for among `other.keys(self)`. (links,)"""
        source, target = (
            1 + max(int(side.cells.values[:, k].max(initial=0)) for side in (self, other)) for k in (0, 1)
        )
        i, j, _ = self.cells.values.T
        return np.asarray((self.sentence * source + i) * target + j)

    def named(self, name: str) -> Links:
        """The same under another name."""
        return replace(self, name=name)

    def to_pharaoh(self) -> list[str]:
        """A line for each sentence pair."""
        marks = ("p", "-")
        return [" ".join(f"{i}{marks[sure]}{j}" for i, j, sure in self.cells[row]) for row in range(len(self))]

    def check_inside(self, sources: NDArray[np.int64], targets: NDArray[np.int64]) -> None:
        """Refuse links to words that the sentence pairs, of so many words, do not have."""
        if len(sources) != len(self):
            raise CorpusError(
                f"{self.name} has {len(self)} sentence pairs, and there are {len(sources)}: line must match line"
            )
        i, j, _ = self.cells.values.T
        outside = (i >= sources[self.sentence]) | (j >= targets[self.sentence])
        if outside.any():
            link = int(outside.argmax())
            row = int(self.sentence[link])
            raise CorpusError(
                f"{self.name} line {row + 1} has the link {i[link]}-{j[link]}, and the sentence pair has "
                f"{sources[row]} and {targets[row]} words: is the index right (0 or 1), and the direction?"
            )


def read_links(path: Path, *, index: int = 0) -> Links:
    """Links from a file: JSONL of gold if it ends so, else Pharaoh lines; words are counted from `index`."""
    if index not in (0, 1):
        raise UsageError(f"the index of links is {index}: words are counted from 0 or from 1")
    if not path.is_file():
        raise CorpusError(f"there is no file of links {path}")
    return _read_gold(path, index) if kind_of(path) == ".jsonl" else _read_pharaoh(path, index)


def _read_pharaoh(path: Path, index: int) -> Links:
    rows = []
    for number, line in enumerate(read_lines(path), 1):
        row = []
        for item in line.split():
            if not (link := LINK.fullmatch(item)):
                raise CorpusError(
                    f"{path} line {number} has {item[:40]!r}: a link is written 3-4, or 3p4 or 3?4 if only possible"
                )
            row.append((int(link[1]) - index, int(link[3]) - index, int(link[2] == "-")))
        rows.append(row)
    return _from_rows(path, rows)


def _read_gold(path: Path, index: int) -> Links:
    rows, sources, targets = [], [], []
    for number, line in enumerate(read_lines(path), 1):
        try:
            record = json.loads(line)
            source, target, sure, possible = (record.get(key, []) for key in KEYS)
            sources.append([str(word) for word in source])
            targets.append([str(word) for word in target])
            kinds = ((sure, 1), (possible, 0))
            rows.append([(int(i) - index, int(j) - index, kind) for links, kind in kinds for i, j in links])
        except (ValueError, TypeError, AttributeError) as error:
            raise CorpusError(
                f"{path} line {number} is not an object with {', '.join(KEYS)} (words, and pairs of numbers): {error}"
            ) from error
    links = _from_rows(path, rows)
    if any(sources):
        links = replace(links, text=(sources, targets))
        counts = (np.array([len(words) for words in side]) for side in (sources, targets))
        links.check_inside(*counts)
    return links


def _from_rows(path: Path, rows: list[list[tuple[int, int, int]]]) -> Links:
    for number, row in enumerate(rows, 1):
        if any(i < 0 or j < 0 for i, j, _ in row):
            raise CorpusError(f"{path} line {number} has a link to word 0, and words are said to be counted from 1")
    return Links.of(rows, path.name)

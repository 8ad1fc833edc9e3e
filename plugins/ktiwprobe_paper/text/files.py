"""Tables of text from files: TSV, CSV, JSONL and plain lines, compressed or not; what is wrong is told by its line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ktiwprobe.corpus.textfiles import OPENERS, kind_of, read_lines, read_text
from ktiwprobe.errors import CorpusError, OptionError

Table = dict[str, list[str]]  # columns by name, all of one length
KINDS = (".tsv", ".csv", ".jsonl")


def existing(path: str, key: str) -> Path:
    """The file that option `key` of a task names."""
    if not path:
        raise OptionError(f"option task.{key} is needed: pass -o {key}=FILE")
    if not Path(path).is_file():
        raise CorpusError(f"there is no file {path}: option task.{key} must name one")
    return Path(path)


def with_compression(path: Path) -> Path | None:
    """The file itself or a compressed one of its name; None if there is neither."""
    found = (path, *(path.with_name(path.name + end) for end in OPENERS))
    return next((file for file in found if file.is_file()), None)


def first_words(path: Path) -> set[str]:
    """What each line begins with, up to a blank: a list of words, or word vectors as GloVe writes them."""
    return {line.partition(" ")[0] for line in read_lines(path)}


def read_table(path: Path, columns: Sequence[str]) -> Table:
    """The asked-for columns of a TSV (no quoting), CSV or JSONL file; the first two have a header line."""
    kind = kind_of(path)
    if kind not in KINDS:
        raise CorpusError(f"{path} is not a table that can be read: it must end in {', '.join(KINDS)}, or .xz or .gz")
    rows = _jsonl_rows(path, columns) if kind == ".jsonl" else _delimited_rows(path, columns, tabs=kind == ".tsv")
    table: Table = {name: [] for name in columns}
    for row in rows:
        for name, cell in zip(columns, row, strict=True):
            table[name].append(cell)
    return table


def _delimited_rows(path: Path, columns: Sequence[str], *, tabs: bool) -> Iterator[list[str]]:
    rows: Iterable[list[str]]
    if tabs:
        rows = (line.split("\t") for line in read_lines(path))
    else:
        rows = csv.reader(io.StringIO(read_text(path), newline=""))
    numbered = enumerate(rows, 1)
    _, head = next(numbered, (0, []))
    places = [_place(head, name, path) for name in columns]
    for number, row in numbered:
        if len(row) != len(head):
            raise CorpusError(f"{path} line {number} has {len(row)} columns, and the header has {len(head)}")
        yield [row[place] for place in places]


def _place(head: Sequence[str], name: str, path: Path) -> int:
    if name not in head:
        raise CorpusError(f"{path} has no column {name!r}: its header has {', '.join(head) or 'nothing'}")
    return head.index(name)


def _jsonl_rows(path: Path, columns: Sequence[str]) -> Iterator[list[str]]:
    for number, line in enumerate(read_lines(path), 1):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise CorpusError(f"{path} line {number} is not JSON: {error}") from error
        if not isinstance(record, dict) or (missing := [name for name in columns if name not in record]):
            what = f"has no {missing[0]!r}" if isinstance(record, dict) else "is not an object"
            raise CorpusError(f"{path} line {number} {what}: each line must be an object with {', '.join(columns)}")
        yield [str(record[name]) for name in columns]

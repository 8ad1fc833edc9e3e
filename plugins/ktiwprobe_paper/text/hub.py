"""Data sets from the Hugging Face hub, written as the tables that the tasks read; or from a folder of one's own."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktiwprobe.errors import CorpusError


def load_dataset(name: str, config: str | None = None) -> Mapping[str, Any]:
    """The splits of a data set by its name on the hub, or of a local folder."""
    import datasets

    try:
        loaded: Mapping[str, Any] = datasets.load_dataset(name, config)
    except Exception as error:  # the library raises whatever its many back ends raise
        cause = " ".join(str(error).split())[:200]
        raise CorpusError(
            f"cannot load {name!r} with the datasets library: {cause}; without a network, download it elsewhere and "
            "give its folder"
        ) from error
    return loaded


@dataclass(frozen=True)
class Hub:
    """Where a data set is on the hub, and how its columns and splits are called there."""

    name: str
    columns: Sequence[str]  # in the order of the source's own
    config: str | None = None
    splits: tuple[tuple[str, str], ...] = ()  # those that are called otherwise
    labels: tuple[tuple[str, str], ...] = ()  # of the first column, called otherwise; others are left out

    def fetch(self, folder: Path, stems: Mapping[str, str], columns: Sequence[str]) -> Path:
        """Write a table for each split; all of them or nothing."""
        splits = load_dataset(self.name, self.config)
        half = folder.with_name(f"{folder.name}.half")
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir(parents=True)
        for split, stem in stems.items():
            theirs = dict(self.splits).get(split, split)
            if theirs not in splits:
                raise CorpusError(f"{self.name} has no split {theirs!r}: it has {', '.join(splits)}")
            lines = ["\t".join(columns), *self._lines(splits[theirs])]
            (half / f"{stem}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        half.rename(folder)
        return folder

    def _lines(self, rows: Any) -> list[str]:
        """Rows as TSV; tabs and ends of lines inside a field become blanks."""
        labels = dict(self.labels)
        lines = []
        for row in rows:
            cells = [" ".join(str(row[column]).split()) for column in self.columns]
            if labels and cells[0] not in labels:
                continue
            lines.append("\t".join([labels.get(cells[0], cells[0]), *cells[1:]]))
        return lines

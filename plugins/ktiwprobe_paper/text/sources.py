"""Where data sets are: in the folder that was chosen, else in the platform's cache folder; a folder for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ktiwprobe.data import DataNeeds, data_folder
from ktiwprobe.errors import CorpusError
from ktiwprobe_paper.text.files import KINDS, Table, read_table, with_compression
from ktiwprobe_paper.text.hub import Hub


def cache_folder() -> Path:
    """Where data that was fetched and corpora that were tokenised are kept."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("ktiwprobe"))


def data_folders() -> list[Path]:
    """Where to look, first places first."""
    chosen = data_folder()
    return [*([chosen] if chosen else []), cache_folder() / "data"]


PAPER = ("train examples", "train length", "validation examples", "validation length", "vocabulary")
PAPER_OF_PAIRS = ("train examples", "train length", "train target length", "validation examples", "validation length",
                  "validation target length", "vocabulary")  # fmt: skip


@dataclass(frozen=True)
class Source:
    """A data set: its folder's name, its files by split, the columns that are read, and what is known about it."""

    name: str
    columns: Sequence[str]
    splits: Sequence[str] = ("train", "validation", "test")
    stems: tuple[tuple[str, str], ...] = ()  # files that are not called after their split
    hub: Hub | None = None  # where it can be fetched from
    note: str = ""  # how what is at hand differs from the paper's
    paper: tuple[float, ...] = ()  # what the paper's table says, in the order of PAPER

    def needs(self) -> DataNeeds:
        """What must be here, and what is known about it."""
        words = PAPER if len(self.paper) == len(PAPER) else PAPER_OF_PAIRS
        return DataNeeds(
            self.name,
            self._found(),
            tuple(f"{self._stem(split)}.tsv" for split in self.splits),
            tuple(self.columns),
            self.fetch if self.hub else None,
            self.note,
            dict(zip(words, self.paper, strict=True)) if self.paper else {},
        )

    def fetch(self) -> Path:
        """Bring it from the hub into the cache folder, as tables."""
        if self.hub is None:
            raise CorpusError(f"data set {self.name!r} is on no hub that is known here: get it by hand")
        return self.hub.fetch(
            cache_folder() / "data" / self.name, {s: self._stem(s) for s in self.splits}, self.columns
        )

    def _found(self) -> Path | None:
        return next((place / self.name for place in data_folders() if (place / self.name).is_dir()), None)

    def folder(self) -> Path:
        """Where it is; a sentence about what to do if it is nowhere."""
        if found := self._found():
            return found
        looked = " or ".join(str(place / self.name) for place in data_folders())
        files = ", ".join(f"{self._stem(split)}.tsv" for split in self.splits)
        raise CorpusError(
            f"data set {self.name!r} is not in {looked}: put {files} there (or .csv, .jsonl, also .xz or .gz) with the "
            f"columns {', '.join(self.columns)}, or set KTIWPROBE_DATA",
            hint="data",
        )

    def file(self, split: str) -> Path:
        """The file of a split."""
        folder = self.folder()
        for kind in KINDS:
            found = with_compression(folder / f"{self._stem(split)}{kind}")
            if found:
                return found
        raise CorpusError(f"{folder} has no {self._stem(split)}.tsv (or .csv, .jsonl, also .xz or .gz): put it there")

    def table(self, split: str) -> Table:
        """The columns of a split."""
        return read_table(self.file(split), self.columns)

    def _stem(self, split: str) -> str:
        return dict(self.stems).get(split, split)

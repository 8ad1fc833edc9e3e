"""A user's own labelled texts, and what the datasets library loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from ktiwprobe import Corpus, option
from ktiwprobe.errors import CorpusError, OptionError
from ktiwprobe_paper.text.cache import cached_corpus
from ktiwprobe_paper.text.classification import (
    PROXY,
    ClassificationOptions,
    Examples,
    kept_words_files,
    read_examples,
)
from ktiwprobe_paper.text.classification import make_corpus as labelled_corpus
from ktiwprobe_paper.text.files import existing, read_table
from ktiwprobe_paper.text.hub import load_dataset
from ktiwprobe_paper.text.translation import Pairs, TranslationOptions, nine_to_one
from ktiwprobe_paper.text.translation import make_corpus as parallel_corpus


class LabelledText:
    """A table of texts with one of two labels; a tenth is held out to validate on."""

    training_defaults: ClassVar[Mapping[str, Any]] = {"batch": 32, "steps": 1000}
    training_for: ClassVar[Mapping[str, Mapping[str, Any]]] = PROXY

    @dataclass(frozen=True)
    class Options(ClassificationOptions):
        """Where the text is."""

        path: str = option("", help="a .tsv, .csv or .jsonl file")
        text_column: str = option("text", help="of the table")
        label_column: str = option("label", help="of the table")

    def load(self, options: Options) -> Corpus:
        """Read and tokenise; from the cache if that was done before."""
        file = existing(options.path, "path")
        values = {key: value for key, value in asdict(options).items() if key != "path"}
        files = [file, *kept_words_files(options)]
        return cached_corpus("labelled-text", values, files, lambda: self._make(file, options))

    def _make(self, file: Path, options: Options) -> Corpus:
        table = read_table(file, (options.label_column, options.text_column))
        labels = table[options.label_column]
        names = sorted(set(labels))
        if len(names) != 2:
            shown = ", ".join(names[:5])
            raise CorpusError(f"{file} has {len(names)} labels ({shown}): exactly 2 are needed")
        texts = table[options.text_column]
        train, validation = nine_to_one(Pairs(texts, labels), options.sample)
        parts = {"train": _examples(train, names), "validation": _examples(validation, names)}
        return labelled_corpus("labelled-text", parts, names, options)


def _examples(pairs: Pairs, names: list[str]) -> Examples:
    return read_examples(pairs.source, [names.index(label) for label in pairs.target])


class HfDataset:
    """Any data set that the datasets library loads: sentence pairs, or texts with one of two labels."""

    training_defaults: ClassVar[Mapping[str, Any]] = {"batch": 32, "steps": 2000}

    @dataclass(frozen=True)
    class Options(ClassificationOptions):
        """Which data set and columns; `translation.de` means a column inside another."""

        name: str = option("", help="its name on the hub, or a local folder")
        config: str | None = option(None, help="of a data set that has several")
        source: str = option("", help="column of source sentences, for translation")
        target: str = option("", help="column of target sentences, for translation")
        text: str = option("", help="column of texts, for classification")
        label: str = option("", help="column of labels, for classification")
        pieces: int = option(8000, low=20, high=1_000_000, help="size of the joint SentencePiece vocabulary")

    def load(self, options: Options) -> Corpus:
        """Load and tokenise; from the cache if that was done before."""
        if not options.name:
            raise OptionError("option task.name is needed: pass -o name=DATASET, a name on the hub or a folder")
        if bool(options.source and options.target) == bool(options.text and options.label):
            raise OptionError("say which columns to read: -o source=A -o target=B, or -o text=A -o label=B")
        splits = load_dataset(options.name, options.config)
        prints = {name: str(getattr(rows, "_fingerprint", "")) for name, rows in splits.items()}
        values, files = {**asdict(options), "of": prints}, kept_words_files(options)
        return cached_corpus("hf-dataset", values, files, lambda: self._make(splits, options))

    def _make(self, splits: Mapping[str, Any], options: Options) -> Corpus:
        columns = (options.source, options.target) if options.source else (options.text, options.label)
        if "train" not in splits:
            raise CorpusError(f"{options.name} has no split 'train': it has {', '.join(splits)}")
        parts = {name: _columns(rows, columns, options.name) for name, rows in splits.items()}
        held = next((parts[name] for name in ("validation", "dev", "test") if name in parts), None)
        train, validation = (parts["train"], held) if held else nine_to_one(parts["train"], options.sample)
        chosen = {"train": train, "validation": validation} | ({"test": parts["test"]} if "test" in parts else {})
        if options.source:
            return parallel_corpus("hf-dataset", chosen, TranslationOptions(options.pieces, options.longest))
        names = sorted({label for pairs in chosen.values() for label in pairs.target})
        if len(names) != 2:
            raise CorpusError(f"{options.name} has {len(names)} labels ({', '.join(names[:5])}): exactly 2 are needed")
        return labelled_corpus("hf-dataset", {n: _examples(p, names) for n, p in chosen.items()}, names, options)


def _columns(rows: Any, columns: tuple[str, str], name: str) -> Pairs:
    """Two columns as text."""
    found = []
    for column in columns:
        first, _, inner = column.partition(".")
        if first not in rows.column_names:
            raise CorpusError(f"{name} has no column {first!r}: it has {', '.join(rows.column_names)}")
        cells = rows[first]
        found.append([str(cell[inner] if inner else cell) for cell in cells])
    return Pairs(found[0], found[1])

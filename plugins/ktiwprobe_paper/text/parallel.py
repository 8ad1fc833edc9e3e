"""Sentence pairs of a user's own, aligned if there are links; and the sets that people have aligned by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from ktiwprobe import Corpus, option
from ktiwprobe.corpus.links import Links, read_links
from ktiwprobe.corpus.textfiles import kind_of, read_lines
from ktiwprobe.data import DataNeeds
from ktiwprobe.errors import CorpusError, OptionError
from ktiwprobe_paper.text.cache import cached_corpus
from ktiwprobe_paper.text.files import KINDS, existing, read_table, with_compression
from ktiwprobe_paper.text.pieces import PlainWords
from ktiwprobe_paper.text.sources import Source, data_folders
from ktiwprobe_paper.text.translation import Pairs, TranslationOptions, make_corpus, nine_to_one

PARTS = {"train": "", "validation": "validation_", "test": "test_"}  # how the options of each begin
SIDES = ("source", "target", "alignments")
FILES = tuple(f"{begin}{side}" for begin in PARTS.values() for side in SIDES)


@dataclass(frozen=True)
class AlignableOptions(TranslationOptions):
    """How text that is to be aligned becomes ids."""

    tokens: Literal["pieces", "words"] = option("pieces", help="SentencePiece, or words and signs as they are")
    least: int = option(1, low=1, help="occurrences in training below which a token is <unk>, with tokens=words")
    lower: bool = option(False, help="whether all is put in lower case, with tokens=words")
    reverse: bool = option(False, help="whether source and target change places, everywhere: the other direction")
    with_test: bool = option(False, help="whether test sentences, without links, are training text too")


class ParallelText:
    """Two files of lines that match, or one table with a column for each side; a tenth is held out to validate on."""

    training_defaults: ClassVar[Mapping[str, Any]] = {"batch": 16, "epochs": 10}

    @dataclass(frozen=True)
    class Options(AlignableOptions):
        """Where the text is; `source` alone is a table, with `target` it is a file of lines."""

        source: str = option("", help="file of source sentences, one a line; or a .tsv, .csv or .jsonl of pairs")
        target: str = option("", help="file of target sentences, one a line; none where source is a table")
        alignments: str = option("", help="file of links between their words, Pharaoh lines such as 0-0 1-2")
        validation_source: str = option("", help="the same to validate on; none: a tenth of the training pairs")
        validation_target: str = option("", help="see target")
        validation_alignments: str = option("", help="see alignments")
        test_source: str = option("", help="the same to test on; may be a .jsonl of gold: src, tgt, sure, possible")
        test_target: str = option("", help="see target")
        test_alignments: str = option("", help="see alignments")
        source_column: str = option("source", help="of a table")
        target_column: str = option("target", help="of a table")
        sample: int = option(0, low=0, help="seed of what is held out")

    def load(self, options: Options) -> Corpus:
        """Read and tokenise; from the cache if that was done before."""
        existing(options.source, "source")
        files = {key: existing(path, key) for key in FILES if (path := getattr(options, key))}
        values = {key: key in files if key in FILES else value for key, value in asdict(options).items()}
        return cached_corpus("parallel-text", values, files.values(), lambda: self._make(files, options))

    def _make(self, files: Mapping[str, Path], options: Options) -> Corpus:
        parts = {}
        for part, begin in PARTS.items():
            given = {side: files[begin + side] for side in SIDES if begin + side in files}
            if given and "source" not in given:
                raise OptionError(f"option task.{begin}source is needed beside task.{begin}{next(iter(given))}")
            if given:
                parts[part] = _read(given, options, begin)
        if "validation" not in parts:
            train, held_out = nine_to_one(parts["train"], options.sample)
            if not held_out.source:
                raise CorpusError(
                    f"{files['source']} has {len(train.source)} pairs: at least 10 are needed, a tenth is held out"
                )
            parts = {"train": train, "validation": held_out, **{k: v for k, v in parts.items() if k != "train"}}
        return alignable_corpus("parallel-text", parts, options)


def alignable_corpus(task: str, parts: dict[str, Pairs], options: AlignableOptions) -> Corpus:
    """A corpus in the direction, of the tokens and with the training text that the options ask for."""
    if options.reverse:
        parts = {name: _reversed(pairs) for name, pairs in parts.items()}
    if options.with_test:
        train, test = parts["train"], parts.get("test", Pairs([], []))
        parts["train"] = Pairs([*train.source, *test.source], [*train.target, *test.target])
    train = parts["train"]
    if options.tokens == "pieces":
        return make_corpus(task, parts, options)
    words = PlainWords([*train.source, *train.target], least=options.least, lower=options.lower)
    return make_corpus(task, parts, options, words)


def _read(files: Mapping[str, Path], options: ParallelText.Options, begin: str) -> Pairs:
    """The pairs of one part, with their links if there is a file of them."""
    source = files["source"]
    if "target" in files:
        pairs = _two_files(source, files["target"])
    elif kind_of(source) not in KINDS:
        raise OptionError(f"{source} is a file of lines: pass the other side with -o {begin}target=FILE")
    elif _is_gold(source):
        return _from_gold(source)
    else:
        columns = (options.source_column, options.target_column)
        table = read_table(source, columns)
        pairs = Pairs(table[columns[0]], table[columns[1]])
    return _linked(pairs, read_links(files["alignments"])) if "alignments" in files else pairs


def _two_files(source: Path, target: Path) -> Pairs:
    xs, ys = read_lines(source), read_lines(target)
    if len(xs) != len(ys):
        raise CorpusError(f"{source} has {len(xs)} lines and {target} has {len(ys)}: line must match line")
    return Pairs(xs, ys)


def _linked(pairs: Pairs, links: Links) -> Pairs:
    """Pairs with links between their words, which must be there."""
    links.check_inside(*(np.array([len(text.split()) for text in side]) for side in (pairs.source, pairs.target)))
    return pairs._replace(links=[links.cells[row].tolist() for row in range(len(links))])


def _is_gold(path: Path) -> bool:
    """Whether a table is a set of gold alignments, as its first line tells."""
    return kind_of(path) == ".jsonl" and all(f'"{key}"' in read_lines(path)[0] for key in ("src", "tgt", "sure"))


def _from_gold(path: Path) -> Pairs:
    gold = read_links(path)
    source, target = gold.text or ([], [])
    return _linked(Pairs([" ".join(words) for words in source], [" ".join(words) for words in target]), gold)


def _reversed(pairs: Pairs) -> Pairs:
    links = None if pairs.links is None else [[(j, i, sure) for i, j, sure in row] for row in pairs.links]
    return Pairs(pairs.target, pairs.source, links)


FOLDER = "alignment-gold"


@dataclass(frozen=True)
class GoldSet:
    """Sets of one pair of languages by split, and text of the pair to train on."""

    stems: Mapping[str, str]
    text: Source | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Of the files."""
        return tuple(f"{stem}.jsonl" for stem in self.stems.values())

    def file(self, split: str) -> Path:
        """The set of a split."""
        name = f"{self.stems[split]}.jsonl"
        places = [place / FOLDER for place in data_folders()]
        if found := next(filter(None, (with_compression(place / name) for place in places)), None):
            return found
        raise CorpusError(
            f"there is no {name} in {' or '.join(map(str, places))}: put it there (also .xz or .gz), an object a line "
            "with src, tgt, sure and possible, or set KTIWPROBE_DATA",
            hint="data",
        )


SETS = {
    "de-en": GoldSet({"test": "de-en_europarl_rwth508"}, Source("europarl-de-en", ("de", "en"))),
    "en-fr": GoldSet({"test": "en-fr_hansards447"}),
    "en-es": GoldSet(
        {"validation": "en-es_xlwa_dev", "test": "en-es_xlwa_test"}, Source("tatoeba-en-es", ("en", "es"))
    ),
    "en-nl": GoldSet(
        {"validation": "en-nl_xlwa_dev", "test": "en-nl_xlwa_test"},
        Source("libreoffice-help-en-nl", ("en", "nl")),
    ),
}


class AlignmentGold:
    """Sentences whose words people have aligned, beside text of the same languages to train on."""

    training_defaults: ClassVar[Mapping[str, Any]] = {"batch": 16, "epochs": 5}

    @dataclass(frozen=True)
    class Options(AlignableOptions):
        """Which languages; en-fr has no text here but its own sentences."""

        pair: Literal["de-en", "en-fr", "en-es", "en-nl"] = option("de-en", help="source and target")
        pairs: int | None = option(None, low=1, help="training pairs that are used, the first ones; none: all")
        with_test: bool = option(True, help="whether test sentences, without links, are training text too")

    def needs(self) -> DataNeeds:
        """What must be on this machine, for the default pair of languages."""
        found = next((place / FOLDER for place in data_folders() if (place / FOLDER).is_dir()), None)
        return DataNeeds(FOLDER, found, SETS["de-en"].names, ("src", "tgt", "sure", "possible"))

    def load(self, options: Options) -> Corpus:
        """Read and tokenise; from the cache if that was done before."""
        chosen = SETS[options.pair]
        files = [chosen.file(split) for split in chosen.stems]
        if chosen.text:
            files += [chosen.text.file(split) for split in ("train", "validation")]
        return cached_corpus("alignment-gold", asdict(options), files, lambda: self._make(chosen, options))

    def _make(self, chosen: GoldSet, options: Options) -> Corpus:
        gold = {split: _from_gold(chosen.file(split)) for split in chosen.stems}
        text = {split: _text(chosen, split) for split in ("train", "validation")}
        train = text["train"] or Pairs([], [])
        train = train.chosen(range(len(train.source))[: options.pairs])
        if not train.source and not options.with_test:
            raise OptionError(f"there is no text of {options.pair} but the test sentences: pass -o with_test=true")
        validation = gold.get("validation") or text["validation"] or gold["test"]
        return alignable_corpus(
            "alignment-gold", {"train": train, "validation": validation, "test": gold["test"]}, options
        )


def _text(chosen: GoldSet, split: str) -> Pairs | None:
    if chosen.text is None:
        return None
    table = chosen.text.table(split)
    first, second = chosen.text.columns
    return Pairs(table[first], table[second])

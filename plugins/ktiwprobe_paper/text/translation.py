"""The paper's translation data sets: joint SentencePiece, <s> and </s> kept on the source side (Appendix)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ktiwprobe import Corpus, Split, option
from ktiwprobe.data import BOS, EOS, DataNeeds, Lazy, Ragged
from ktiwprobe_paper.text.cache import cached_corpus
from ktiwprobe_paper.text.hub import Hub
from ktiwprobe_paper.text.pieces import Pieces
from ktiwprobe_paper.text.sources import Source

Pairs = tuple[list[str], list[str]]  # source and target sentences


@dataclass(frozen=True)
class TranslationOptions:
    """How text becomes ids; the defaults are the paper's."""

    pieces: int = option(8000, low=20, high=1_000_000, help="size of the joint SentencePiece vocabulary")
    longest: int | None = option(None, low=1, help="pieces of a side above which a pair is left out; none: no limit")


class ParallelSource:
    """A task from one of the paper's data sets."""

    Options: ClassVar[type] = TranslationOptions
    training_defaults: ClassVar[Mapping[str, Any]] = {"batch": 16, "checkpoints": "paper-translation"}
    source: ClassVar[Source]

    def needs(self) -> DataNeeds:
        """What must be on this machine."""
        return self.source.needs()

    def load(self, options: Any) -> Corpus:
        """Read, learn the pieces, tokenise; from the cache if that was done before."""
        files = [self.source.file(split) for split in self.source.splits]
        return cached_corpus(self.source.name, asdict(options), files, lambda: self._make(options))

    def _make(self, options: Any) -> Corpus:
        parts: dict[str, Pairs] = {}
        for split in self.source.splits:
            table = self.source.table(split)
            source, target = self.direction(options)
            parts[split] = table[source], table[target]
        return make_corpus(self.source.name, parts, options)

    def direction(self, options: Any) -> tuple[str, str]:
        """The columns of source and target."""
        first, second = self.source.columns
        return first, second


def make_corpus(task: str, parts: Mapping[str, Pairs], options: TranslationOptions) -> Corpus:
    """Pieces learned from the training pairs of both sides; what is left out is counted in the notes."""
    pieces = Pieces.train([*parts["train"][0], *parts["train"][1]], options.pieces)
    splits, notes = {}, []
    if len(pieces.tokens) < options.pieces:
        notes.append(f"the text gives {len(pieces.tokens)} pieces, not {options.pieces}")
    for name, pairs in parts.items():
        splits[name], left_out = _split(pairs, pieces, options)
        if left_out:
            over = f" or longer than {options.longest} pieces" if options.longest else ""
            notes.append(f"{left_out} of {len(pairs[0])} {name} pairs are left out: a side is empty{over}")
    return Corpus(task, "translation", splits, pieces.tokens, pieces.tokens, notes=tuple(notes))


def _split(pairs: Pairs, pieces: Pieces, options: TranslationOptions) -> tuple[Split, int]:
    """The pairs as ids with their words, and how many are left out."""
    xs, ys = (pieces.ids(side) for side in pairs)
    longest = options.longest or np.inf
    kept = [i for i, (x, y) in enumerate(zip(xs, ys, strict=True)) if x and y and max(len(x), len(y)) <= longest]
    source, target = _chosen(pairs, kept)
    split = Split(
        **_side("x", source, Ragged.of([xs[i] for i in kept]), pieces, (BOS,)),
        **_side("y", target, Ragged.of([ys[i] for i in kept]), pieces, ()),
    )
    return split, len(xs) - len(kept)


def _side(side: str, sentences: list[str], ids: Ragged, pieces: Pieces, first: tuple[int, ...]) -> dict[str, Any]:
    """One side of a split: the pieces between `first` and </s>, and the words, as between blanks."""
    return {
        side: ids.framed(first, (EOS,)),
        f"{side}_words": pieces.words(sentences, ids).framed((-1,) * len(first), (-1,)),
        f"{side}_text": Lazy(sentences, str.split),
    }


class Multi30k(ParallelSource):
    """Image captions."""

    @dataclass(frozen=True)
    class Options(TranslationOptions):
        """As the others, in either direction."""

        direction: Literal["de-en", "en-de"] = option("de-en", help="the published code's; the paper's text says en-de")

    training_defaults: ClassVar[Mapping[str, Any]] = {**ParallelSource.training_defaults, "epochs": 20}
    source = Source(
        "multi30k",
        ("de", "en"),
        stems=(("test", "test2016_flickr"),),
        hub=Hub("bentrevett/multi30k", ("de", "en")),
        paper=(29000, 14, 14, 1014, 15, 14, 8000),
    )

    def direction(self, options: Any) -> tuple[str, str]:
        """German to English, or the other way."""
        first, second = options.direction.split("-")
        return first, second


class Iwslt14(ParallelSource):
    """TED talks, German to English."""

    training_defaults: ClassVar[Mapping[str, Any]] = {**ParallelSource.training_defaults, "epochs": 30}
    source = Source(
        "iwslt14", ("de", "en"), stems=(("train", "train_subset"),), paper=(160240, 23, 24, 7284, 22, 23, 8000)
    )


class NewsCommentary(ParallelSource):
    """News; 90 % of the pairs to train on, 10 % to validate, pairs of numbers only dropped."""

    @dataclass(frozen=True)
    class Options(TranslationOptions):
        """As the others, of three pairs of languages."""

        direction: Literal["en-nl", "en-pt", "it-pt"] = option("it-pt", help="source and target")
        sample: int = option(0, low=0, help="seed of the split into training and validation")

    training_defaults: ClassVar[Mapping[str, Any]] = {**ParallelSource.training_defaults, "epochs": 40}

    def needs(self) -> DataNeeds:
        """What must be on this machine, for the default pair of languages."""
        return _news(self.Options().direction).needs()

    def load(self, options: Any) -> Corpus:
        """Each pair of languages is a data set of its own."""
        source = _news(options.direction)
        file = source.file("train")
        return cached_corpus(source.name, asdict(options), [file], lambda: self._divide(source, options))

    def _divide(self, source: Source, options: Any) -> Corpus:
        table = source.table("train")
        first, second = (table[column] for column in source.columns)
        texts = [(x, y) for x, y in zip(first, second, strict=True) if not (_only_numbers(x) and _only_numbers(y))]
        train, validation = nine_to_one(([x for x, _ in texts], [y for _, y in texts]), options.sample)
        return make_corpus(source.name, {"train": train, "validation": validation}, options)


NEWS = {
    "en-nl": (52070, 30, 34, 5786, 30, 34, 8000),
    "en-pt": (48538, 31, 35, 5394, 31, 35, 8000),
    "it-pt": (21572, 36, 35, 2397, 36, 36, 8000),
}


def _news(direction: str) -> Source:
    return Source(f"news-commentary-{direction}", tuple(direction.split("-")), ("train",), paper=NEWS[direction])


def _only_numbers(text: str) -> bool:
    return not any(sign.isalpha() for sign in text)


def nine_to_one(pairs: Pairs, seed: int) -> tuple[Pairs, Pairs]:
    """A seeded 90/10 split."""
    order = np.random.default_rng(seed).permutation(len(pairs[0]))
    cut = len(order) - len(order) // 10
    first, second = (_chosen(pairs, np.sort(part)) for part in (order[:cut], order[cut:]))
    return first, second


def _chosen(pairs: Pairs, rows: Iterable[Any]) -> Pairs:
    chosen = list(rows)
    source, target = ([side[i] for i in chosen] for side in pairs)
    return source, target

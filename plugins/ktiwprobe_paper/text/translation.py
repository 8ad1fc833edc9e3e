"""The paper's translation data sets: joint SentencePiece, <s> and </s> kept on the source side (Appendix)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np

from ktiwprobe import Corpus, Split, option
from ktiwprobe.corpus.tokens import usual_roles
from ktiwprobe.data import BOS, EOS, DataNeeds, Lazy, Ragged
from ktiwprobe_paper.text.cache import cached_corpus
from ktiwprobe_paper.text.hub import Hub
from ktiwprobe_paper.text.pieces import Pieces
from ktiwprobe_paper.text.sources import Source


class Pairs(NamedTuple):
    """Sentences that match, and the links between their words (source, target, sure) where they are known."""

    source: list[str]
    target: list[str]
    links: Sequence[Any] | None = None

    def chosen(self, rows: Iterable[Any]) -> Pairs:
        """Some of them, in the order given."""
        chosen = list(rows)
        source, target, links = (None if side is None else [side[i] for i in chosen] for side in self)
        return Pairs(source or [], target or [], links)


class Tokenizer(Protocol):
    """What makes ids of sentences, and knows of which words they are."""

    tokens: tuple[str, ...]

    def ids(self, sentences: Sequence[str]) -> list[list[int]]:
        """The tokens of each sentence, without <s> and </s>."""
        ...

    def words(self, sentences: Sequence[str], ids: Ragged) -> Ragged:
        """The word (as between blanks) that each token of `ids`, the tokens of `sentences`, belongs to."""
        ...


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
            parts[split] = Pairs(table[source], table[target])
        return make_corpus(self.source.name, parts, options)

    def direction(self, options: Any) -> tuple[str, str]:
        """The columns of source and target."""
        first, second = self.source.columns
        return first, second


def make_corpus(
    task: str, parts: Mapping[str, Pairs], options: TranslationOptions, tokenizer: Tokenizer | None = None
) -> Corpus:
    """A corpus by a tokenizer, or by pieces learned from the training pairs; the notes count what is left out."""
    train = parts["train"]
    tokenizer = tokenizer or Pieces.train([*train.source, *train.target], options.pieces)
    splits, notes = {}, []
    if isinstance(tokenizer, Pieces) and len(tokenizer.tokens) < options.pieces:
        notes.append(f"the text gives {len(tokenizer.tokens)} pieces, not {options.pieces}")
    for name, pairs in parts.items():
        splits[name], left_out = _split(pairs, tokenizer, options)
        if left_out:
            over = f" or longer than {options.longest} pieces" if options.longest else ""
            notes.append(f"{left_out} of {len(pairs.source)} {name} pairs are left out: a side is empty{over}")
    roles = replace(usual_roles(tokenizer.tokens), spelling="pieces" if isinstance(tokenizer, Pieces) else "words")
    return Corpus(
        task,
        "translation",
        splits,
        tokenizer.tokens,
        tokenizer.tokens,
        tuple(notes),
        source_roles=roles,
        target_roles=roles,
    )


def _split(pairs: Pairs, tokenizer: Tokenizer, options: TranslationOptions) -> tuple[Split, int]:
    """The pairs as ids with their words, and how many are left out; what people have aligned is kept at any length."""
    xs, ys = (tokenizer.ids(side) for side in (pairs.source, pairs.target))
    longest = options.longest if options.longest and pairs.links is None else np.inf
    kept = [i for i, (x, y) in enumerate(zip(xs, ys, strict=True)) if x and y and max(len(x), len(y)) <= longest]
    chosen = pairs.chosen(kept)
    split = Split(
        **_side("x", chosen.source, Ragged.of([xs[i] for i in kept]), tokenizer, (BOS,)),
        **_side("y", chosen.target, Ragged.of([ys[i] for i in kept]), tokenizer, ()),
    )
    if chosen.links is not None:
        split = replace(split, links=token_links(chosen.links, split))
    return split, len(xs) - len(kept)


def token_links(links: Sequence[Any], split: Split) -> Ragged:
    """Links of words (source, target, sure) as links of tokens (t, l, sure): all of the one to all of the other."""
    rows = []
    for row, cells in enumerate(links):
        x, y = split.x_words[row], split.y_words[row]  # type: ignore[index]
        grid = np.zeros((y.max() + 2, x.max() + 2), np.int64)  # 2 sure, 1 possible; the last row and column are for -1
        for i, j, sure in cells:
            if i <= x.max() and j <= y.max():  # a word may leave no token, if its signs are none
                grid[j, i] = max(grid[j, i], 1 + sure)
        spread = grid[y][:, x]
        t, l = np.nonzero(spread)  # noqa: E741
        rows.append(np.stack([t, l, spread[t, l] - 1], 1))
    return Ragged.of(rows, width=(3,))


def _side(side: str, sentences: list[str], ids: Ragged, by: Tokenizer, first: tuple[int, ...]) -> dict[str, Any]:
    """One side of a split: the tokens between `first` and </s>, and the words, as between blanks."""
    return {
        side: ids.framed(first, (EOS,)),
        f"{side}_words": by.words(sentences, ids).framed((-1,) * len(first), (-1,)),
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
        train, validation = nine_to_one(Pairs([x for x, _ in texts], [y for _, y in texts]), options.sample)
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
    order = np.random.default_rng(seed).permutation(len(pairs.source))
    cut = len(order) - len(order) // 10
    first, second = (pairs.chosen(np.sort(part)) for part in (order[:cut], order[cut:]))
    return first, second

"""A generated pair of languages whose gold alignment is known by construction; the default task.

The source puts the verb before its subject and adjectives after nouns, the target the verb after its subject and
adjectives before nouns.

    fatuti nu kozalo tafoma sul kitoro   ->   tafomig kozalung fatuten auf der kitorung

A root keeps its five letters in both languages and its ending tells language, class and kind, so a reader of a
heatmap sees what belongs together: source nouns end in -o, adjectives in -a, verbs in -i; target ones in -ung or -heit,
-ig or -bar, -en or -eln. Kinds of words: plain (one translation), twins (two source words, one translation), free (two
translations, nothing says which), bent (two translations, a particle right after the word says which), double (one
word, two target words). Particles vanish; contractions ('sul') give two target words, like German 'zum'.

Sizes and rates were chosen so that the paper's model learns the task within the default steps (a larger lexicon can
leave its attention on <s> for long): what is measured here illustrates, it is no evidence about language.
"""

from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, cycle
from typing import Any, ClassVar

import numpy as np

from ktiwprobe import Corpus, Split, option
from ktiwprobe.data import BOS, EOS, SPECIALS, each_token_a_word

CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"
ROOT_SHAPE = (CONSONANTS, VOWELS, CONSONANTS, VOWELS, CONSONANTS)

PARTICLES = ("ja", "nu", "tek")
CONTRACTIONS = {"al": ("zu", "der"), "del": ("von", "der"), "sul": ("auf", "der")}
CONJUNCTIONS = {"kaj": ("und",), "sed": ("aber",)}

KINDS = ("plain", "bent", "twins", "free", "plain", "plain", "double")  # in turn down the ranks of a class
SHORTEST, LONGEST = 4, 12  # source words of a sentence
P_ADJECTIVE, P_PARTICLE, P_OBJECT, P_PLACE, P_SECOND_CLAUSE = 0.5, 0.2, 0.75, 0.3, 0.3
P_SECOND_SENSE = 0.25  # of a free word: what no model can know
TARGET_ORDER = (0, 2, 1, 3, 4, 5)  # of the phrases of a clause: the verb passes its subject
STREAMS = {"lexicon": 0, "train": 1, "validation": 2, "test": 3}  # independent random numbers for each

Pair = tuple[list[int], list[int], list[tuple[int, int, int]]]  # x, y, links


@dataclass(frozen=True)
class WordClass:
    """A class of content words: its share of the lexicon and how its words end in the two languages."""

    share: float
    source: tuple[str, str, str]  # plain, its twin, double
    target: tuple[str, str]  # first and second sense
    light: str  # the first of the two target words of a double


NOUN = WordClass(0.5, ("o", "ino", "ego"), ("ung", "heit"), "gross")
ADJECTIVE = WordClass(0.2, ("a", "ema", "ega"), ("ig", "bar"), "sehr")
VERB = WordClass(0.3, ("i", "adi", "igi"), ("en", "eln"), "lass")


@dataclass(frozen=True, slots=True)
class Word:
    """A source word and its translations; none for a particle, two target words in one for a double."""

    text: str
    senses: tuple[tuple[str, ...], ...]
    bent: bool = False  # whether a particle after the word, not chance, chooses the second sense


class Zipf:
    """Words with probability proportional to 1 / (rank + 1), the first being the most frequent."""

    def __init__(self, words: Sequence[Word]) -> None:
        self.words = words
        self._cumulative = list(accumulate(1 / (rank + 1) for rank in range(1, len(words) + 1)))

    def draw(self, rng: np.random.Generator) -> Word:
        """One word. A bisection, as `rng.choice` with probabilities would take most of the time of a corpus."""
        return self.words[bisect(self._cumulative, rng.random() * self._cumulative[-1], 0, len(self.words) - 1)]


def invent_roots(rng: np.random.Generator, count: int) -> Iterator[str]:
    """Different pronounceable roots of five letters, such as 'tamil'."""
    sizes = [len(letters) for letters in ROOT_SHAPE]
    picked = rng.permutation(np.prod(sizes))[:count]
    for digits in zip(*np.unravel_index(picked, sizes), strict=True):
        yield "".join(letters[digit] for letters, digit in zip(ROOT_SHAPE, digits, strict=True))


def make_class(cls: WordClass, roots: Iterator[str], count: int) -> Zipf:
    """`count` source words of a class with their translations, the kinds in turn."""
    kinds = cycle(KINDS)
    words: list[Word] = []
    while len(words) < count:
        words += make_words(cls, next(kinds), next(roots))
    return Zipf(words[:count])


def make_words(cls: WordClass, kind: str, root: str) -> list[Word]:
    """The source word of one root, or the two words where they are twins."""
    plain, twin, double = (root + ending for ending in cls.source)
    first, second = ((root + ending,) for ending in cls.target)
    match kind:
        case "twins":
            return [Word(plain, (first,)), Word(twin, (first,))]
        case "free" | "bent":
            return [Word(plain, (first, second), bent=kind == "bent")]
        case "double":
            return [Word(double, ((cls.light, *first),))]
        case _:
            return [Word(plain, (first,))]


class Lexicon:
    """All words of the two languages."""

    def __init__(self, seed: int, words: int) -> None:
        roots = invent_roots(np.random.default_rng([seed, STREAMS["lexicon"]]), words)
        nouns, adjectives = round(NOUN.share * words), round(ADJECTIVE.share * words)
        self.nouns = make_class(NOUN, roots, nouns)
        self.adjectives = make_class(ADJECTIVE, roots, adjectives)
        self.verbs = make_class(VERB, roots, words - nouns - adjectives)
        self.particles = Zipf([Word(text, ((),)) for text in PARTICLES])
        self.contractions = Zipf([Word(text, (target,)) for text, target in CONTRACTIONS.items()])
        self.conjunctions = Zipf([Word(text, (target,)) for text, target in CONJUNCTIONS.items()])
        self.tokens = (*SPECIALS, *self._texts())
        self.ids = {text: number for number, text in enumerate(self.tokens)}

    def _texts(self) -> list[str]:
        """Each source word, then each target word, once."""
        groups = (self.particles, self.contractions, self.conjunctions, self.nouns, self.adjectives, self.verbs)
        words = [word for group in groups for word in group.words]
        targets = (text for word in words for sense in word.senses for text in sense)
        return [word.text for word in words] + list(dict.fromkeys(targets))


class Speaker:
    """Says sentences and their translations, from one stream of random numbers."""

    def __init__(self, lexicon: Lexicon, rng: np.random.Generator) -> None:
        self.lexicon = lexicon
        self.rng = rng

    def say(self) -> Pair:
        """A sentence, its translation and the links between them."""
        source, order = self._draft()
        while not SHORTEST <= len(source) <= LONGEST:
            source, order = self._draft()
        return self._translate(source, order)

    def _draft(self) -> tuple[list[Word], list[int]]:
        """The source words, and their positions in the order in which the target says them."""
        source: list[Word] = []
        order: list[int] = []
        for is_second in (False, True) if self._chance(P_SECOND_CLAUSE) else (False,):
            positions = []
            for phrase in self._clause(is_second):
                source += phrase
                # Read backwards: noun and adjective swap; a particle moves too, but says nothing.
                positions.append(range(len(source) - 1, len(source) - len(phrase) - 1, -1))
            order += [position for phrase in TARGET_ORDER for position in positions[phrase]]
        return source, order

    def _clause(self, is_second: bool) -> list[list[Word]]:
        """The phrases of a clause in source order, absent ones empty."""
        words = self.lexicon
        has_place = self._chance(P_PLACE)
        return [
            [words.conjunctions.draw(self.rng)] if is_second else [],
            [words.verbs.draw(self.rng), *self._maybe(P_PARTICLE, words.particles)],
            self._noun_phrase(),
            self._noun_phrase() if self._chance(P_OBJECT) else [],
            [words.contractions.draw(self.rng)] if has_place else [],
            self._noun_phrase() if has_place else [],
        ]

    def _noun_phrase(self) -> list[Word]:
        words = self.lexicon
        adjective = self._maybe(P_ADJECTIVE, words.adjectives)
        return [words.nouns.draw(self.rng), *adjective, *self._maybe(P_PARTICLE, words.particles)]

    def _translate(self, source: list[Word], order: list[int]) -> Pair:
        ids = self.lexicon.ids
        y: list[int] = []
        links = []
        for position in order:
            follower = source[position + 1].text if position + 1 < len(source) else ""
            for text in self._sense(source[position], follower):
                links.append((len(y), position + 1, 1))  # + 1: x starts with BOS
                y.append(ids[text])
        return [BOS, *(ids[word.text] for word in source), EOS], [*y, EOS], links

    def _sense(self, word: Word, follower: str) -> tuple[str, ...]:
        if len(word.senses) == 1:
            return word.senses[0]
        return word.senses[follower in PARTICLES if word.bent else self._chance(P_SECOND_SENSE)]

    def _maybe(self, probability: float, words: Zipf) -> list[Word]:
        return [words.draw(self.rng)] if self._chance(probability) else []

    def _chance(self, probability: float) -> bool:
        return self.rng.random() < probability


class ToyTranslation:
    """Translation between two invented languages, gold alignment known."""

    training_defaults: ClassVar[Mapping[str, Any]] = {"steps": 350, "batch": 32}
    training_for: ClassVar[Mapping[str, Mapping[str, Any]]] = {"bow-proxy": training_defaults}  # so little is enough

    @dataclass(frozen=True)
    class Options:
        """Size and seed of the generated corpus; the same options give the same corpus."""

        seed: int = option(0, low=0, help="which pair of languages, and which sentences")
        train: int = option(8000, low=1, high=1_000_000, help="training sentences")
        validation: int = option(400, low=1, high=100_000, help="validation sentences")
        test: int = option(400, low=1, high=100_000, help="test sentences")
        words: int = option(150, low=20, high=20_000, help="nouns, adjectives and verbs of the source language")

    def load(self, options: Options) -> Corpus:
        """Generate the languages, then each split from its own stream: sizes do not touch one another."""
        lexicon = Lexicon(options.seed, options.words)
        sizes = {"train": options.train, "validation": options.validation, "test": options.test}
        splits = {name: _split(lexicon, [options.seed, STREAMS[name]], size) for name, size in sizes.items()}
        return each_token_a_word(Corpus("toy-translation", "translation", splits, lexicon.tokens, lexicon.tokens))


def _split(lexicon: Lexicon, seed: list[int], size: int) -> Split:
    speaker = Speaker(lexicon, np.random.default_rng(seed))
    xs, ys, links = zip(*(speaker.say() for _ in range(size)), strict=True)
    return Split.of(xs, ys, links)

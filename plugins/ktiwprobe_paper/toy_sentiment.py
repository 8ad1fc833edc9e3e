"""Generated reviews whose label follows from a rule, and whose evidence is therefore known.

The label is the sign of the sum of the polarity words, strong ones counting twice; a negator turns round the next
polarity word within its reach. The rule is `read`, a function of the text alone; no review is tied.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ktiwprobe import Corpus, Split, option
from ktiwprobe.data import BOS, EOS, SPECIALS, each_token_a_word
from ktiwprobe_paper.toy_translation import invent_roots

POLAR = {  # by strength; as many words of each sign, so that neither label is easier
    -2: ("terrible", "awful", "dreadful", "horrible", "disastrous", "unbearable"),
    -1: ("bad", "dull", "weak", "clumsy", "tedious", "bland", "shallow", "stale", "silly", "flat"),
    1: ("good", "nice", "pleasant", "charming", "decent", "clever", "lively", "warm", "funny", "fresh"),
    2: ("wonderful", "brilliant", "superb", "masterful", "stunning", "perfect"),
}
STRENGTH = {word: strength for strength, words in POLAR.items() for word in words}
NEGATIVE, POSITIVE = POLAR[-2] + POLAR[-1], POLAR[2] + POLAR[1]
NEGATORS = ("not", "never", "hardly")
NEUTRAL = """
    the a film of and it is this that in with was story plot as its one an but by scene at cast for actor music be on
    his her script from camera they who ending are or has about some there when like series so what director
"""
LABELS = ("negative", "positive")

REACH = 3  # a negator turns round a polarity word at most so many words later
SHORTEST, LONGEST = 6, 20  # words of a review
MOST_POLAR = 4
P_OF_TONE = 0.8  # of a polarity word: that it says, after negation, what its review is about to say
STREAMS = {"words": 0, "train": 1, "validation": 2, "test": 3}  # independent random numbers for each

Review = tuple[list[int], list[int], list[tuple[int, int, int]]]  # x, y, links


@dataclass(frozen=True, slots=True)
class Reading:
    """What the rule finds in a review."""

    score: int  # its sign is the label; 0 is a tie
    polar: dict[int, int]  # position -> strength after negation
    negators: dict[int, int]  # position of a polarity word -> that of the negator which turned it round


def read(words: Sequence[str]) -> Reading:
    """Apply the rule; of several negators before a polarity word the nearest counts, and each serves one word only."""
    polar: dict[int, int] = {}
    negators: dict[int, int] = {}
    negator = -REACH - 1  # out of reach
    for position, word in enumerate(words):
        if word in NEGATORS:
            negator = position
        elif word in STRENGTH:
            polar[position] = STRENGTH[word]
            if position - negator <= REACH:
                polar[position] *= -1
                negators[position] = negator
            negator = -REACH - 1
    return Reading(sum(polar.values()), polar, negators)


def make_filler(seed: int, count: int) -> tuple[str, ...]:
    """Neutral words, the most frequent first; invented ones where English is used up."""
    neutral = NEUTRAL.split()
    english = {*STRENGTH, *NEGATORS, *neutral}
    roots = invent_roots(np.random.default_rng([seed, STREAMS["words"]]), count + len(english))
    return (*neutral, *(root for root in roots if root not in english))[:count]


class Reviewer:
    """Writes reviews, from one stream of random numbers."""

    def __init__(self, filler: Sequence[str], negation: float, rng: np.random.Generator) -> None:
        self.filler = filler
        self.negation = negation
        self.rng = rng
        weights = 1 / np.arange(1, len(filler) + 1)  # Zipf
        self._cumulative = np.cumsum(weights) / weights.sum()

    def write(self) -> tuple[list[str], Reading]:
        """A review that is not tied, and what the rule reads in it."""
        while True:
            words = self._draft()
            reading = read(words)
            if reading.score:
                return words, reading

    def _draft(self) -> list[str]:
        """Filler with polarity words in it, some of them negated, most of them of one tone."""
        words = self._neutral(int(self.rng.integers(SHORTEST, LONGEST + 1)))
        polar = self.rng.permutation(len(words))[: self.rng.integers(1, MOST_POLAR + 1)].tolist()
        self._negate(words, polar)
        for position in polar:
            words[position] = POSITIVE[0]  # any polarity word: which ones are negated does not depend on their sign
        negated = read(words).negators
        tone = 1 if self.rng.random() < 0.5 else -1
        for position in polar:
            sign = tone if self.rng.random() < P_OF_TONE else -tone
            kind = POSITIVE if (sign > 0) != (position in negated) else NEGATIVE
            words[position] = kind[self.rng.integers(len(kind))]
        return words

    def _neutral(self, length: int) -> list[str]:
        ranks = np.searchsorted(self._cumulative, self.rng.random(length)).clip(max=len(self.filler) - 1)
        return [self.filler[rank] for rank in ranks]

    def _negate(self, words: list[str], polar: list[int]) -> None:
        """Put a negator shortly before some of the positions `polar`, where there is room."""
        for position in polar:
            spot = position - int(self.rng.integers(1, REACH + 1))
            if self.rng.random() < self.negation and spot >= 0 and spot not in polar:
                words[spot] = NEGATORS[self.rng.integers(len(NEGATORS))]


class ToySentiment:
    """Is a review positive? Polarity words, negation, and the evidence known."""

    training_defaults: ClassVar[Mapping[str, Any]] = {"steps": 400}
    training_for: ClassVar[Mapping[str, Mapping[str, Any]]] = {"bow-proxy": training_defaults}  # so little is enough

    @dataclass(frozen=True)
    class Options:
        """Size and seed of the generated corpus; the same options give the same corpus."""

        seed: int = option(0, low=0, help="which reviews")
        train: int = option(6000, low=1, high=1_000_000, help="training reviews")
        validation: int = option(600, low=1, high=100_000, help="validation reviews")
        test: int = option(600, low=1, high=100_000, help="test reviews")
        words: int = option(100, low=1, high=20_000, help="neutral words")
        negation: float = option(0.25, low=0, high=1, help="probability that a polarity word is negated, given room")

    def load(self, options: Options) -> Corpus:
        """Generate each split from its own stream: sizes do not touch one another."""
        filler = make_filler(options.seed, options.words)
        tokens = (*SPECIALS, *NEGATORS, *POSITIVE, *NEGATIVE, *filler)
        ids = {text: number for number, text in enumerate(tokens)}
        splits = {}
        for name, size in {"train": options.train, "validation": options.validation, "test": options.test}.items():
            rng = np.random.default_rng([options.seed, STREAMS[name]])
            splits[name] = _split(Reviewer(filler, options.negation, rng), ids, size)
        return each_token_a_word(Corpus("toy-sentiment", "classification", splits, tokens, LABELS))


def _split(reviewer: Reviewer, ids: Mapping[str, int], size: int) -> Split:
    xs, ys, links = zip(*(_label(*reviewer.write(), ids) for _ in range(size)), strict=True)
    return Split.of(xs, ys, links)


def _label(words: list[str], reading: Reading, ids: Mapping[str, int]) -> Review:
    """A review as ids; its links are sure for polarity words that agree with the label, possible for their negators."""
    evidence = [position for position, strength in reading.polar.items() if strength * reading.score > 0]
    links = [(0, position + 1, 1) for position in evidence]  # + 1: x starts with BOS
    links += [(0, reading.negators[position] + 1, 0) for position in evidence if position in reading.negators]
    return [BOS, *(ids[word] for word in words), EOS], [int(reading.score > 0)], sorted(links)

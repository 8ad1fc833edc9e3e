"""The generated tasks: their laws, and that the languages have what they promise."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ktiwprobe import Corpus, Example
from ktiwprobe.data import BOS, EOS, SPECIALS
from ktiwprobe.errors import OptionError
from ktiwprobe.plugins.options import fill
from ktiwprobe_paper.toy_sentiment import NEGATORS, REACH, STRENGTH, ToySentiment, make_filler, read
from ktiwprobe_paper.toy_translation import PARTICLES, Lexicon, ToyTranslation, invent_roots

SMALL = {"train": 1000, "validation": 50, "test": 50}
TASKS = (ToyTranslation, ToySentiment)
SPLITS = ("train", "validation", "test")


def load(task: type, **options: Any) -> Corpus:
    values = {**SMALL, **options}
    return task().load(task.Options(**values))  # type: ignore[attr-defined, no-any-return]


def examples(corpus: Corpus, split: str = "train") -> Iterator[Example]:
    return (corpus.example(split, row) for row in range(len(corpus.split(split))))


def links(example: Example) -> np.ndarray:
    assert example.links is not None
    return example.links


def said_for(example: Example, position: int) -> tuple[str, ...]:
    """The target words linked to the input at `position`."""
    return tuple(example.target[t] for t, source, _ in links(example) if source == position)


@pytest.fixture(scope="module")
def translation() -> Corpus:
    return load(ToyTranslation)


@pytest.fixture(scope="module")
def sentiment() -> Corpus:
    return load(ToySentiment)


@pytest.mark.parametrize("task", TASKS)
def test_the_same_options_give_the_same_corpus(task: type) -> None:
    """A corpus is a function of its options, and another seed is another corpus."""
    assert load(task).fingerprints == load(task).fingerprints
    assert load(task).fingerprints != load(task, seed=1).fingerprints


@pytest.mark.parametrize("task", TASKS)
def test_a_smaller_split_is_a_prefix(task: type) -> None:
    """The size of a split changes neither its first sentences nor the other splits."""
    small, large = load(task, train=100), load(task)
    first = large.split("train").subset(np.arange(100))
    for part in ("x", "y", "links"):
        np.testing.assert_array_equal(getattr(small.split("train"), part).values, getattr(first, part).values)
    for name in ("validation", "test"):
        assert small.fingerprints[name] == large.fingerprints[name]


@pytest.mark.parametrize("task", TASKS)
def test_ids_and_links_are_in_range(task: type) -> None:
    """Every x is BOS, words, EOS; every id has a text; every link points from an output to a word."""
    corpus = load(task)
    for split in SPLITS:
        for example in examples(corpus, split):
            x, y = example.x, example.y
            assert x[0] == BOS and x[-1] == EOS and (x[1:-1] >= len(SPECIALS)).all() and (x < corpus.source_size).all()
            assert (y >= 0).all() and (y < corpus.target_size).all()
            t, position, _ = links(example).T
            assert (t >= 0).all() and (t < len(y)).all() and (position >= 1).all() and (position < len(x) - 1).all()


@pytest.mark.parametrize("task", TASKS)
def test_tokens_are_unique(task: type) -> None:
    """No two ids have one text, whatever the size of the lexicon."""
    for words in (20, 2000):
        corpus = load(task, words=words, train=1, validation=1, test=1)
        assert len(set(corpus.source_tokens)) == corpus.source_size
        assert len(set(corpus.target_tokens)) == corpus.target_size


@pytest.mark.parametrize("task", TASKS)
def test_sizes_are_as_asked_and_never_zero(task: type) -> None:
    """An empty split is refused with the name of its option."""
    corpus = load(task)
    assert {name: len(corpus.split(name)) for name in SPLITS} == SMALL
    for name in SPLITS:
        with pytest.raises(OptionError, match=f"task.{name}"):
            fill(task.Options, {name: 0}, space="task")  # type: ignore[attr-defined]


@pytest.mark.parametrize("task", TASKS)
def test_splits_do_not_share_sentences(task: type) -> None:
    """Few validation and test sentences occur in training: chance among short ones, not copying."""
    corpus = load(task)
    seen = {example.source for example in examples(corpus)}
    for name in ("validation", "test"):
        assert np.mean([example.source in seen for example in examples(corpus, name)]) <= 0.04


def test_roots_are_different() -> None:
    """As many roots as one asks for, no two the same, all of five letters."""
    roots = list(invent_roots(np.random.default_rng(0), 5000))
    assert len(set(roots)) == 5000 and {len(root) for root in roots} == {5}


def test_one_joint_vocabulary(translation: Corpus) -> None:
    """Source and target tokens are one object: special symbols, then source words, then target words."""
    assert translation.joint and translation.source_tokens[: len(SPECIALS)] == SPECIALS
    train = translation.split("train")
    words = train.x.values[train.x.values >= len(SPECIALS)]
    assert words.max() < train.y.values[train.y.values >= len(SPECIALS)].min()


def test_every_target_word_has_exactly_one_link(translation: Corpus) -> None:
    """Outputs are linked in order, all but EOS, which ends every one."""
    for example in examples(translation):
        assert example.y[-1] == EOS
        np.testing.assert_array_equal(links(example)[:, 0], np.arange(len(example.y) - 1))
        assert (links(example)[:, 2] == 1).all()


def test_linked_words_are_translations(translation: Corpus) -> None:
    """The target words linked to a source word are, in order, one of its translations; a particle has none."""
    lexicon = Lexicon(0, ToyTranslation.Options().words)
    groups = (lexicon.nouns, lexicon.adjectives, lexicon.verbs, lexicon.contractions, lexicon.conjunctions)
    senses = {word.text: word.senses for group in (*groups, lexicon.particles) for word in group.words}
    for example in examples(translation):
        for position, source in enumerate(example.source[1:-1], 1):
            assert said_for(example, position) in senses[source]


def test_fertilities(translation: Corpus) -> None:
    """Source words give no, one and two target words, and two of them stand side by side."""
    fertility: Counter[int] = Counter()
    for example in examples(translation):
        fertility.update(np.bincount(links(example)[:, 1], minlength=len(example.x))[1:-1].tolist())
    assert set(fertility) == {0, 1, 2} and min(fertility.values()) > 0.05 * fertility.total()


def test_words_are_reordered(translation: Corpus) -> None:
    """Most sentences have links that cross, and no word moves far."""
    crossed, moves = [], []
    for example in examples(translation):
        steps = np.diff(links(example)[:, 1])
        crossed.append((steps < 0).any())
        moves.append(np.abs(steps).max())
    assert np.mean(crossed) > 0.5 and max(moves) <= 7


def translations(corpus: Corpus) -> dict[str, Counter[str]]:
    """How often each source word was said in which way."""
    said: dict[str, Counter[str]] = defaultdict(Counter)
    for example in examples(corpus):
        for position, source in enumerate(example.source[1:-1], 1):
            said[source][" ".join(said_for(example, position))] += 1
    return said


def test_ambiguity_and_synonyms(translation: Corpus) -> None:
    """Some source words have two translations, some translations two source words."""
    said = translations(translation)
    assert sum(len(ways) == 2 for ways in said.values()) >= 10
    sources = Counter(way for ways in said.values() for way in ways if way)
    assert sum(count == 2 for count in sources.values()) >= 10


def test_a_particle_bends_some_words_and_chance_others() -> None:
    """The second sense of a bent word comes exactly where a particle follows, that of a free word anywhere."""
    corpus, lexicon = load(ToyTranslation), Lexicon(0, ToyTranslation.Options().words)
    words = (*lexicon.nouns.words, *lexicon.verbs.words)
    second = {word.text: (word.bent, word.senses[1][0]) for word in words if len(word.senses) > 1}
    free: Counter[tuple[bool, bool]] = Counter()
    for example in examples(corpus):
        for t, position, _ in links(example):
            bent, text = second.get(example.source[position], (None, ""))
            is_second, is_followed = example.target[t] == text, example.source[position + 1] in PARTICLES
            if bent:
                assert is_second == is_followed
            elif bent is not None:
                free[is_second, is_followed] += 1
    assert len(free) == 4


def test_frequencies_fall_with_rank(translation: Corpus) -> None:
    """The most frequent noun is far more frequent than the middle one, and the rarest still occurs."""
    nouns = [word.text for word in Lexicon(0, ToyTranslation.Options().words).nouns.words]
    counts = Counter(token for example in examples(translation) for token in example.source)
    assert counts[nouns[0]] > 8 * counts[nouns[len(nouns) // 2]] and counts[nouns[-1]] > 0


@pytest.mark.parametrize("task, shortest, longest", [(ToyTranslation, 4, 12), (ToySentiment, 6, 20)])
def test_lengths_vary_within_limits(task: type, shortest: int, longest: int) -> None:
    """Sentences have all lengths between the limits and no other."""
    lengths = load(task).split("train").x.lengths - 2
    assert set(lengths.tolist()) == set(range(shortest, longest + 1))


def test_labels_are_balanced() -> None:
    """Either label has 45 to 55 % of the reviews, for any negation."""
    for negation in (0.0, 0.25, 1.0):
        labels = load(ToySentiment, train=2000, negation=negation).split("train").y.values
        assert 0.45 < labels.mean() < 0.55


def test_a_negator_turns_round_one_word_within_reach() -> None:
    """'not good' is negative, 'not the good' too; out of reach, after it, or once used up, it does nothing."""
    assert read(["good"]).score == 1 and read(["not", "good"]).score == -1
    assert read(["not", *["the"] * (REACH - 1), "good"]).negators == {REACH: 0}
    assert read(["not", *["the"] * REACH, "good"]).score == 1
    assert read(["good", "not"]).score == 1
    assert read(["not", "bad", "awful"]).polar == {1: 1, 2: -2}


def test_labels_follow_the_rule_and_links_the_evidence(sentiment: Corpus) -> None:
    """Sure links are the polarity words that agree with the label, possible ones their negators; none is missing."""
    for example in examples(sentiment):
        reading = read(example.source[1:-1])
        sign = 1 if example.target == ("positive",) else -1
        assert reading.score * sign > 0
        agreeing = {position for position, strength in reading.polar.items() if strength * sign > 0}
        _, position, is_sure = links(example).T
        sure, possible = (set((position[is_sure == kind] - 1).tolist()) for kind in (1, 0))
        assert sure == agreeing and all(example.source[position + 1] in STRENGTH for position in sure)
        assert possible == {reading.negators[position] for position in agreeing & set(reading.negators)}


def test_negation_is_an_option() -> None:
    """Without negation no negator is written; with it, some words say the opposite of the label they support."""
    plain, negated = load(ToySentiment, negation=0.0), load(ToySentiment, negation=1.0)
    assert not any(set(NEGATORS) & set(example.source) for example in examples(plain))
    assert np.mean([bool(set(NEGATORS) & set(example.source)) for example in examples(negated)]) > 0.5


def test_neutral_words_do_not_speak() -> None:
    """However many neutral words are invented, none is a polarity word or a negator."""
    filler = make_filler(0, 20_000)
    assert len(set(filler)) == 20_000 and not set(filler) & {*STRENGTH, *NEGATORS}

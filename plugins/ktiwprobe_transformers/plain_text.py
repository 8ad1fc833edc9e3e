"""Task plain-text: a file, a text a line, for language models; by default a generated language that agrees.

    lo mirano valna rodto ti sesuni kelpi .

Nouns have one of three genders. The article before a noun, the adjective after it and the verb of a subject end as the
noun's gender says, so the verb must look back over the adjective to its subject, and a second adjective to its noun.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ktiwprobe import Corpus, Split, option
from ktiwprobe.data import BOS, EOS, SPECIALS, UNK, Lazy, Ragged
from ktiwprobe.errors import CorpusError

TOKEN = re.compile(r"\w+|[^\w\s]")
ARTICLES, NOUN_ENDS, OTHER_ENDS = ("lo", "la", "li"), ("o", "a", "i"), ("to", "ta", "ti")
CONSONANTS, VOWELS = "dfgklmnprstv", "aeiou"
STREAMS = {"words": 0, "train": 1, "validation": 2, "test": 3}
HELD_OUT = 10  # one line in so many validates


class PlainText:
    """Texts to read: y is the token after each x."""

    training_defaults: ClassVar[Mapping[str, Any]] = {"steps": 400, "batch": 32}

    @dataclass(frozen=True)
    class Options:
        """A file, or how much to generate."""

        file: str = option("", help="a text a line, UTF-8; none: generated text")
        least: int = option(1, low=1, help="occurrences in training below which a word is <unk>")
        seed: int = option(0, low=0, help="which texts are generated, or which lines validate")
        train: int = option(4000, low=1, high=1_000_000, help="generated training texts")
        validation: int = option(300, low=1, high=100_000, help="generated validation texts; as many test")

    def load(self, options: Options) -> Corpus:
        """Words, and marks as words of their own, as ids."""
        texts = _read(Path(options.file), options.seed) if options.file else _generate(options)
        counts = Counter(token for words in texts["train"] for word in words for token in TOKEN.findall(word))
        known = sorted((w for w, n in counts.items() if n >= options.least), key=lambda w: (-counts[w], w))
        tokens = (*SPECIALS, *(word for word in known if word not in SPECIALS))
        ids = {token: number for number, token in enumerate(tokens)}
        splits = {name: _split(words, ids) for name, words in texts.items()}
        return Corpus("plain-text", "text", splits, tokens, tokens)


def _split(texts: Sequence[Sequence[str]], ids: Mapping[str, int]) -> Split:
    """Words are what stands between blanks, marks included, as a tokenizer of another model would read them."""
    pieces = [[TOKEN.findall(word) for word in words] for words in texts]
    rows = Ragged.of([[ids.get(token, UNK) for tokens in words for token in tokens] for words in pieces])
    numbers = Ragged.of([[n for n, tokens in enumerate(words) for _ in tokens] for words in pieces])
    raw = Lazy(texts, tuple)
    return Split(
        rows.framed((BOS,), ()),
        rows.framed((), (EOS,)),
        x_words=numbers.framed((-1,), ()),
        y_words=numbers.framed((), (-1,)),
        x_text=raw,
        y_text=raw,
    )


def _read(path: Path, seed: int) -> dict[str, list[list[str]]]:
    """The lines of a file that have a word, a tenth held out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise CorpusError(f"cannot read {path}: {error.strerror}; option task.file must name a text file") from error
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path} is not UTF-8 text: save it as UTF-8") from error
    texts = [words for line in lines if (words := line.split())]
    held = len(texts) // HELD_OUT
    if not held:
        raise CorpusError(f"{path} has {len(texts)} lines of text: at least {HELD_OUT} are needed, a tenth is held out")
    order = np.random.default_rng(seed).permutation(len(texts))
    parts = {"validation": np.sort(order[:held]), "train": np.sort(order[held:])}
    return {name: [texts[i] for i in rows] for name, rows in parts.items()}


def _generate(options: PlainText.Options) -> dict[str, list[list[str]]]:
    nouns, adjectives, verbs = _lexicon(options.seed)
    sizes = {"train": options.train, "validation": options.validation, "test": options.validation}
    texts = {}
    for name, size in sizes.items():
        rng = np.random.default_rng([options.seed, STREAMS[name]])
        texts[name] = [_say(rng, nouns, adjectives, verbs) for _ in range(size)]
    return texts


def _lexicon(seed: int) -> tuple[list[str], list[str], list[str]]:
    """Roots of nouns, adjectives and verbs."""
    rng = np.random.default_rng([seed, STREAMS["words"]])
    shape = (CONSONANTS, VOWELS, CONSONANTS)
    sizes = [len(letters) for letters in shape]
    picked = rng.permutation(int(np.prod(sizes)))[:60]
    places = np.stack(np.unravel_index(picked, sizes), 1)
    roots = ["".join(letters[i] for letters, i in zip(shape, row, strict=True)) for row in places]
    return roots[:30], roots[30:42], roots[42:]


def _say(rng: np.random.Generator, nouns: Sequence[str], adjectives: Sequence[str], verbs: Sequence[str]) -> list[str]:
    """Subject, verb, often an object, and a full stop."""
    subject, gender = _phrase(rng, nouns, adjectives)
    text = [*subject, verbs[int(rng.integers(len(verbs)))] + OTHER_ENDS[gender]]
    if rng.random() < 0.8:
        text += _phrase(rng, nouns, adjectives)[0]
    return [*text, "."]


def _phrase(rng: np.random.Generator, nouns: Sequence[str], adjectives: Sequence[str]) -> tuple[list[str], int]:
    """Article, noun and up to two adjectives, all of one gender, which every noun has its own."""
    noun = int(rng.zipf(1.3) - 1) % len(nouns)
    gender = noun % len(ARTICLES)
    more = [adjectives[int(i)] + OTHER_ENDS[gender] for i in rng.integers(len(adjectives), size=rng.integers(3))]
    return [ARTICLES[gender], nouns[noun] + NOUN_ENDS[gender], *more], gender

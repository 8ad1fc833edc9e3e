"""Text as words, and words as ids: what the paper's classifiers read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Sequence

from ktiwprobe.data import BOS, EOS, SPECIALS, UNK

# The paper says "word level" and no more. Its median training lengths (20NG 183, IMDB 181, AG News 40, SST 16) fit runs
# of letters and digits (183, 181, 39, 17 by `ktiwprobe data`), and not punctuation as words (275, 213, 46, 20).
WORD = re.compile(r"\w+")
NUMBER = re.compile(r"\d\d+")


def words_of(text: str, *, split_underscores: bool = False) -> list[str]:
    """The words of a text in lower case."""
    text = text.lower()
    return WORD.findall(text.replace("_", " ") if split_underscores else text)


def raw_words_of(text: str, *, split_underscores: bool = False) -> list[str]:
    """The same words as they were written, where lower case does not part them otherwise."""
    raw = WORD.findall(text.replace("_", " ") if split_underscores else text)
    words = words_of(text, split_underscores=split_underscores)
    return raw if len(raw) == len(words) else words


def without_numbers(words: Sequence[str]) -> list[str]:
    """Whole numbers of two digits and more become <unk>, as in 20 Newsgroups and AG News."""
    return [SPECIALS[UNK] if NUMBER.fullmatch(word) else word for word in words]


class Vocabulary:
    """Words seen often enough in training or kept anyway, the most frequent first, after the special tokens."""

    def __init__(self, sentences: Iterable[Sequence[str]], *, least: int, keep: Container[str] = frozenset()) -> None:
        counts = Counter(word for sentence in sentences for word in sentence)
        known = sorted((word for word, n in counts.items() if (n >= least or word in keep) and word not in SPECIALS),
                       key=lambda word: (-counts[word], word))  # fmt: skip
        self.tokens = (*SPECIALS, *known)
        self._ids = {word: number for number, word in enumerate(self.tokens)}

    def ids(self, sentence: Iterable[str]) -> list[int]:
        """<s>, the words, </s>; words that are not known are <unk>."""
        return [BOS, *(self._ids.get(word, UNK) for word in sentence), EOS]

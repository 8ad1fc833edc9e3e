"""What ids are, beyond their text: which are special, and how tokens join to text. The one home of both questions.

Our own tasks begin their vocabularies with SPECIALS. A pretrained tokenizer has special ids of its own, so code that
needs to know asks `corpus.roles("source")` or `corpus.roles("target")` and never compares with a number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
BLANK = "▁"  # stands for a blank in SentencePiece's pieces


@dataclass(frozen=True)
class TokenRoles:
    """Which ids of a vocabulary are special, and how its tokens join to text."""

    no_word: tuple[int, ...] = ()  # of no word: padding, beginning, end, separator, mask
    unknown: tuple[int, ...] = ()  # stands for any word that the vocabulary lacks
    spelling: Literal["words", "pieces"] = "words"  # joined by blanks; or pieces, in which ▁ is a blank
    decode: Callable[[Sequence[int]], str] | None = field(default=None, compare=False, repr=False)  # a tokenizer's own

    @property
    def special(self) -> tuple[int, ...]:
        """All ids that are not themselves a word or a part of one."""
        return (*self.no_word, *(i for i in self.unknown if i not in self.no_word))

    def is_word(self, ids: NDArray[Any]) -> NDArray[np.bool_]:
        """Where an id is of a word, be it unknown."""
        return ~np.isin(ids, self.no_word)

    def text(self, ids: Sequence[int], tokens: Sequence[str]) -> str:
        """The text that ids spell, special tokens included."""
        if self.decode is not None:
            return self.decode(ids)
        glue, blank = ("", BLANK) if self.spelling == "pieces" else (" ", " ")
        return glue.join(tokens[i] for i in ids).replace(blank, " ").strip()


def usual_roles(tokens: Sequence[str]) -> TokenRoles:
    """The roles in a vocabulary of which nothing else is known: special are the tokens whose text is in SPECIALS."""
    special = {i: token for i, token in enumerate(tokens) if token in SPECIALS}
    pieces = any(token.startswith(BLANK) for token in tokens)
    return TokenRoles(
        no_word=tuple(i for i, token in special.items() if token != SPECIALS[UNK]),
        unknown=tuple(i for i, token in special.items() if token == SPECIALS[UNK]),
        spelling="pieces" if pieces else "words",
    )

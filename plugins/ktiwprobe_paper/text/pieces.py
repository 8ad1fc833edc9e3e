"""Sentences as parts of words, of one joint vocabulary: SentencePiece, as in the paper, or plain words and signs."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from typing import Any
from unicodedata import is_normalized

import numpy as np
from numpy.typing import NDArray

from ktiwprobe.corpus.ragged import number_words
from ktiwprobe.data import BOS, EOS, PAD, SPECIALS, UNK, Ragged
from ktiwprobe.errors import CorpusError
from ktiwprobe_paper.text.words import Vocabulary

PART = re.compile(r"\w+|[^\w\s]")
MARK = "▁"  # begins a piece that begins a word


class Pieces:
    """A trained tokenizer."""

    def __init__(self, model: bytes) -> None:
        import sentencepiece

        self.model = model
        self._processor: Any = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.tokens = tuple(self._processor.id_to_piece(i) for i in range(len(SPECIALS), len(self._processor)))
        self.tokens = (*SPECIALS, *self.tokens)
        self._begins = np.array([token.startswith(MARK) for token in self.tokens])

    @classmethod
    def train(cls, sentences: Iterable[str], size: int) -> Pieces:
        """Learn `size` pieces (or as many as the text has) from sentences of both sides."""
        import sentencepiece

        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(sentences),
                model_writer=model,
                vocab_size=size,
                hard_vocab_limit=False,  # a small corpus gets fewer pieces
                pad_id=PAD,
                bos_id=BOS,
                eos_id=EOS,
                unk_id=UNK,
                minloglevel=2,
                num_threads=1,  # the same text, the same pieces
            )
        except (RuntimeError, OSError) as error:
            what = " ".join(str(error).split())[-200:]
            raise CorpusError(f"SentencePiece cannot learn {size} pieces from this text: {what}") from error
        return cls(model.getvalue())

    def ids(self, sentences: Sequence[str]) -> list[list[int]]:
        """The pieces of each sentence, without <s> and </s>."""
        ids: list[list[int]] = self._processor.encode(list(sentences))
        return ids

    def words(self, sentences: Sequence[str], ids: Ragged) -> Ragged:
        """The word (as between blanks) that each piece of `ids`, the pieces of `sentences`, belongs to."""
        begins = self._begins[ids.values]
        words = number_words(begins, np.zeros_like(begins), ids.offsets)
        found = np.add.reduceat(begins, ids.offsets[:-1], dtype=np.int64) if len(ids) else np.zeros(0)
        for row, sentence in enumerate(sentences):
            if not (sentence.isprintable() and is_normalized("NFKC", sentence) and found[row] == len(sentence.split())):
                words[row][:] = self._words_by_place(sentence)
        return words

    def _words_by_place(self, sentence: str) -> NDArray[np.int64]:
        """The same for a sentence in which normalising makes or takes away blanks: by counting the other signs."""
        words: list[list[str]] = self._processor.encode(sentence.split(), out_type=str)
        ends = np.cumsum([_signs(word) for word in words])
        pieces = np.array([_signs([piece]) for piece in self._processor.encode(sentence, out_type=str)])
        found = np.searchsorted(ends, np.cumsum(pieces) - pieces, side="right")
        last = np.searchsorted(ends, ends[-1])  # of the words that leave a sign
        words_of_pieces: NDArray[np.int64] = found.clip(max=last)
        return words_of_pieces

    def text(self, ids: Sequence[int]) -> str:
        """The sentence that pieces spell."""
        return str(self._processor.decode([int(i) for i in ids]))


class PlainWords:
    """Words, numbers and signs, apart even where no blank is between them; the same vocabulary for both sides."""

    def __init__(self, sentences: Iterable[str], *, least: int, lower: bool) -> None:
        self.lower = lower
        self._vocabulary = Vocabulary((self._parts(sentence) for sentence in sentences), least=least)
        self.tokens = self._vocabulary.tokens

    def ids(self, sentences: Sequence[str]) -> list[list[int]]:
        """The parts of each sentence; those that are not known are <unk>."""
        return [self._vocabulary.ids(self._parts(sentence))[1:-1] for sentence in sentences]

    def words(self, sentences: Sequence[str], ids: Ragged) -> Ragged:
        """The word (as between blanks) that each part belongs to."""
        counts = [len(self._parts(word)) for sentence in sentences for word in sentence.split()]
        numbers = [number for sentence in sentences for number in range(len(sentence.split()))]
        return Ragged(np.repeat(np.array(numbers, np.int32), counts), ids.offsets)

    def _parts(self, text: str) -> list[str]:
        return PART.findall(text.lower() if self.lower else text)


def _signs(pieces: Iterable[str]) -> int:
    return sum(len(piece) - piece.count(MARK) for piece in pieces)

"""SentencePiece: one joint model of source and target, as the paper's translators read."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any

from ktiwprobe.data import BOS, EOS, PAD, SPECIALS, UNK
from ktiwprobe.errors import CorpusError


class Pieces:
    """A trained tokenizer."""

    def __init__(self, model: bytes) -> None:
        import sentencepiece

        self.model = model
        self._processor: Any = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.tokens = tuple(self._processor.id_to_piece(i) for i in range(len(SPECIALS), len(self._processor)))
        self.tokens = (*SPECIALS, *self.tokens)

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

    def text(self, ids: Sequence[int]) -> str:
        """The sentence that pieces spell."""
        return str(self._processor.decode([int(i) for i in ids]))

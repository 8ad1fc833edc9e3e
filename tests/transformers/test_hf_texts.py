"""The task plain-text, and corpora as texts for language models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hf_tiny
from ktiwprobe import Split
from ktiwprobe.data import BOS, EOS, UNK
from ktiwprobe.errors import CorpusError
from ktiwprobe.testing import check_task
from ktiwprobe_transformers.plain_text import ARTICLES, NOUN_ENDS, OTHER_ENDS, PlainText
from ktiwprobe_transformers.texts import MASK, as_masked, as_next_token


def test_the_task_conforms() -> None:
    """As every task."""
    check_task("plain-text", registry=hf_tiny.REGISTRY)


def test_generated_words_agree() -> None:
    """Article, noun, adjectives and verb of a subject end alike, so that where to look is known."""
    split = hf_tiny.CORPORA["plain-text"].split("train")
    for words in split.x_text:
        gender = ARTICLES.index(words[0])
        assert words[1].endswith(NOUN_ENDS[gender])
        verb = next((i for i, word in enumerate(words) if i and word in ARTICLES), len(words) - 1) - 1
        assert all(word.endswith(OTHER_ENDS[gender]) for word in words[2 : verb + 1])


def test_a_file_of_texts(tmp_path: Path) -> None:
    """A text a line, marks as words, a tenth held out, rare words unknown; y is the token after x."""
    path = tmp_path / "a.txt"
    path.write_text("".join(f"one two, w{i}\n\n" for i in range(20)), encoding="utf-8")
    corpus = PlainText().load(PlainText.Options(file=str(path), least=2))
    train, validation = corpus.split("train"), corpus.split("validation")
    assert (len(train), len(validation)) == (18, 2)
    assert [corpus.source_tokens[i] for i in train.x[0]] == ["<s>", "one", "two", ",", "<unk>"]
    assert np.array_equal(train.y[0], [*train.x[0][1:], EOS])
    assert train.x[0][-1] == UNK
    assert train.x_text[0][-1].startswith("w")
    with pytest.raises(CorpusError, match="cannot read"):
        PlainText().load(PlainText.Options(file=str(tmp_path / "none")))
    path.write_text("one\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="has 1 lines of text: at least 10"):
        PlainText().load(PlainText.Options(file=str(path)))


def test_words_stand_between_blanks(tmp_path):
    """A mark is a token of its own and belongs to the word it is written to, as other tokenizers read it."""
    path = tmp_path / "texts.txt"
    path.write_text("I see, you wait.\n" * 10)
    split = PlainText().load(PlainText.Options(file=str(path))).split("validation")
    assert split.x_text is not None and split.x_words is not None
    assert tuple(split.x_text[0]) == ("I", "see,", "you", "wait.")
    assert split.x_words[0].tolist() == [-1, 0, 1, 1, 2, 3, 3]


def test_inputs_of_other_tasks_are_texts() -> None:
    """Each token predicts the next, from <s> to </s>."""
    corpus = hf_tiny.CORPORA["toy-translation"]
    texts = as_next_token(corpus)
    whole, split = corpus.split("train"), texts.split("train")
    assert texts.kind == "text"
    assert np.array_equal([*split.x[3], EOS], whole.x[3])
    assert np.array_equal([BOS, *split.y[3]], whole.x[3])


def test_gaps_fall_on_words() -> None:
    """Never on <s> or </s>; filled with y, the text is whole again."""
    corpus = hf_tiny.CORPORA["plain-text"]
    masked = as_masked(corpus, None, 0.4, 1)
    gap = masked.source_tokens.index(MASK)
    split = masked.split("train")
    for row in range(len(split)):
        x = split.x[row].copy()
        assert x[0] == BOS
        assert x[-1] == EOS
        x[x == gap] = split.y[row]
        assert np.array_equal(x, [*corpus.split("train").x[row], EOS])


def test_a_stream_is_refused() -> None:
    """Endless ids have no text."""
    copy = hf_tiny.REGISTRY.load("tasks", "copy")
    corpus = copy().load(copy.Options())
    assert not isinstance(corpus.splits["train"], Split)
    with pytest.raises(CorpusError, match="endless stream"):
        as_next_token(corpus)

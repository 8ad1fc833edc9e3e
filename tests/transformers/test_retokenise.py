"""Corpora in the tokens of a pretrained model: gold links, special ids and text, and tokenizers that know no word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from transformers import BertConfig, DeepseekV3Config, GPT2Config, Lfm2Config, LlamaConfig, MixtralConfig, T5Config

import hf_tiny
from ktiwprobe import Corpus, Run, train
from ktiwprobe.cli import main
from ktiwprobe.compare.alignment import Aligner, align, score
from ktiwprobe.data import Ragged, Split, TokenRoles
from ktiwprobe.errors import CorpusError, OptionError
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.signals.pooling import over_words, words_of
from ktiwprobe.signals.signal import Signal, gold_signal
from ktiwprobe_transformers.loading import load_tokenizer
from ktiwprobe_transformers.retokenise import retokenised, roles_of
from ktiwprobe_transformers.texts import as_masked

SMALL = {"train": 60, "task.validation": 12, "test": 5, "words": 20, "steps": 1, "batch": 8}


def common_word() -> str:
    """The most frequent word on the target side, so that much hangs on it."""
    words = [word for sentence in hf_tiny.CORPORA["toy-translation"].split("validation").y_text for word in sentence]
    return max(sorted(set(words)), key=words.count)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny T5."""
    return hf_tiny.save_t5(tmp_path_factory.mktemp("t5"), words=(common_word(),))


@pytest.fixture(scope="module")
def corpus(folder: Path) -> Corpus:
    cls = hf_tiny.REGISTRY.load("models", "hf-seq2seq")
    return cls.prepare(hf_tiny.CORPORA["toy-translation"], cls.Options(path=str(folder)))


def over_its_words(corpus: Corpus) -> Signal:
    """The gold alignment between words."""
    split = corpus.split("validation")
    gold = gold_signal(split, corpus, "validation")
    return over_words(replace(gold, words=lambda: words_of(split, corpus.task)))


def test_gold_is_the_same_between_words(corpus: Corpus) -> None:
    """However words are cut and whatever their ids are: the links of the task come back, word by word."""
    old, new = over_its_words(hf_tiny.CORPORA["toy-translation"]), over_its_words(corpus)
    new.check_same_cells(old)
    assert np.array_equal(new.values, old.values)
    assert np.isfinite(new.values).all()


def test_gold_judges_a_word_whose_id_is_two(corpus: Corpus) -> None:
    """Of the tokens exactly the end is not judged, and its id is 1."""
    split = corpus.split("validation")
    assert (split.y.values == 2).sum() >= 3
    gold = gold_signal(split, corpus, "validation")
    judged = np.array([np.isfinite(values).all() for values in np.split(gold.values[0], gold.starts[1:-1])])
    assert np.array_equal(judged, split.y.values != 1)
    without = gold_signal(replace(split, y_words=None), corpus, "validation")  # the corpus knows it as well
    assert np.array_equal(without.values, gold.values)


def test_a_perfect_alignment_has_no_errors(folder: Path, tmp_path: Path) -> None:
    """AER of the gold links against themselves is 0 at both levels, and of all links it is counted by hand."""
    options = {**SMALL, "path": str(folder)}
    run: Run = train("hf-seq2seq", task="toy-translation", runs=tmp_path, options=options, device="cpu")
    split = Extractor(run, hf_tiny.REGISTRY, device="cpu").part
    for level in ("word", "token"):
        aligner = Aligner(level=level, runs=tmp_path, registry=hf_tiny.REGISTRY, device="cpu")
        gold = aligner.gold()
        assert score(gold, gold).aer == 0
        everything = align("alpha", method="threshold:at=0", aligner=aligner)
        result = score(everything, gold)
        sides = [_sizes(words, level) for words in (split.x_words, split.y_words)]
        assert len(everything.cells.values) == sum(x * y for x, y in zip(*sides, strict=True))
        linked = len(gold.cells.values)
        assert result.aer == pytest.approx(1 - 2 * linked / (len(everything.cells.values) + linked))


def _sizes(words: Any, level: str) -> list[int]:
    """Words in each sentence, or tokens that are of a word."""
    rows = [row[row >= 0] for row in (words[i] for i in range(len(words)))]
    return [len(np.unique(row)) if level == "word" else len(row) for row in rows]


def test_roles_are_the_tokenizers(folder: Path, corpus: Corpus) -> None:
    """Its special ids, its unknown token, and its own way from ids to text."""
    roles = corpus.roles("target")
    assert (roles.no_word, roles.unknown) == ((0, 1), (len(corpus.target_tokens) - 1,))
    split = corpus.split("validation")
    words = split.y[0][roles.is_word(split.y[0])]
    tokenizer = load_tokenizer(str(folder), remote_code=False)
    assert roles.text(words, corpus.target_tokens) == tokenizer.decode(words)
    assert len(words) == (split.y_words[0] >= 0).sum()


def test_one_token_may_have_every_role() -> None:
    """GPT-2's only special token ends texts, so it is of no word although it is also the unknown one."""

    class Gpt2:
        unk_token_id = bos_token_id = eos_token_id = 7
        pad_token_id = None
        all_special_ids = (7,)

    roles = roles_of(Gpt2())
    assert (roles.no_word, roles.unknown, roles.special) == ((7,), (7,), (7,))


def test_gaps_fall_on_words_where_only_ids_are_known() -> None:
    """Without words, special ids are those of the corpus: a word whose id is 2 may be a gap, the end may not."""
    tokens = ("[PAD]", "[END]", "a", "b", "c")
    split = Split.of([[2, 3, 2, 4, 1]] * 20, [[3, 2, 4, 1, 2]] * 20)
    corpus = Corpus("t", "translation", {"train": split}, tokens, tokens, source_roles=TokenRoles((0, 1)))
    gaps = as_masked(corpus, None, 0.5, 0).split("train")
    assert set(gaps.y.values.tolist()) == {2, 3, 4}
    assert gaps.x_words is None


def test_the_end_of_a_text_is_its_own() -> None:
    """A next-token text gets back the last token of its outputs, not a token that ends other corpora's texts."""
    tokens = tuple("abcdef")
    split = Split.of([[0, 2, 3]], [[2, 3, 5]])
    gaps = as_masked(Corpus("t", "text", {"train": split}, tokens, tokens), None, 0.01, 0).split("train")
    whole = np.where(gaps.x[0] == len(tokens), gaps.y[0][0], gaps.x[0])
    assert whole.tolist() == [0, 2, 3, 5]


@pytest.mark.parametrize("config", [BertConfig, GPT2Config, T5Config])
def test_a_folder_without_tokenizer_files_is_refused(tmp_path: Path, config: Any) -> None:
    """Transformers makes an empty tokenizer without a word, and every sentence would be the same."""
    config().save_pretrained(tmp_path)
    with pytest.raises(OptionError, match=r"has no tokenizer files, and the \w+ made without them knows no word"):
        load_tokenizer(str(tmp_path), remote_code=False)


@pytest.mark.parametrize("config", [LlamaConfig, Lfm2Config, DeepseekV3Config, MixtralConfig])
def test_a_folder_that_gives_no_tokenizer_says_what_is_missing(tmp_path: Path, config: Any) -> None:
    """One whole sentence, with the file and what to do."""
    config().save_pretrained(tmp_path)
    with pytest.raises(OptionError) as error:
        load_tokenizer(str(tmp_path), remote_code=False)
    assert str(error.value).startswith(f"{tmp_path} has no tokenizer files: tokenizer.json is missing")
    assert str(error.value).endswith("with tokenizer.save_pretrained(folder)")


def test_the_command_says_so(tmp_path: Path) -> None:
    """A sentence and exit code 1 or 2, before anything is trained."""
    folder = hf_tiny.save_bert(tmp_path / "bert", words=())
    for file in folder.glob("*token*"):
        file.unlink()
    command = ["train", "hf-classifier", "-o", f"path={folder}", "--steps", "1", "--runs", str(tmp_path / "runs")]
    done = CliRunner().invoke(main, command)
    assert done.exit_code in (1, 2)
    assert "has no tokenizer files" in done.output


def test_a_tokenizer_of_another_script_is_refused(folder: Path) -> None:
    """If nearly every word is unknown, the sentence states the share."""
    greek = hf_tiny.CORPORA["toy-translation"].split("train")
    texts = [tuple("αβγ" for _ in sentence) for sentence in greek.x_text]
    strange = replace(hf_tiny.CORPORA["toy-translation"], splits={"train": replace(greek, x_text=texts)})
    cls = hf_tiny.REGISTRY.load("models", "hf-seq2seq")
    with pytest.raises(
        CorpusError, match=r"knows 0\.0% of the source words in the train split.*100\.0% become the unknown"
    ):
        retokenised(strange, cls.Options(path=str(folder)), sides=1)


def test_many_unknown_words_are_noted(folder: Path) -> None:
    """One strange word in two is no error, but the corpus says so; a tokenizer that knows all is not mentioned."""
    plain = hf_tiny.CORPORA["toy-translation"]
    split = plain.split("train")
    texts = [tuple(f"{'α' if i % 2 else ''}{word}" for i, word in enumerate(sentence)) for sentence in split.x_text]
    words = sum(map(len, texts))
    share = sum(len(sentence) // 2 for sentence in texts) / words
    options = hf_tiny.REGISTRY.load("models", "hf-seq2seq").Options(path=str(folder))
    strange = replace(plain, splits={"train": replace(split, x_text=texts)})
    (note,) = retokenised(strange, options, sides=2).notes
    assert note.startswith(f"{share:.1%} of the source words in the train split are unknown")
    assert retokenised(plain, options, sides=2).notes == ()


def test_outputs_that_do_not_count_are_not_lost(folder: Path) -> None:
    """A corpus that says which outputs count cannot be cut anew, or given gaps."""
    split = Split(Ragged.of([[4, 5]]), Ragged.of([[6]]), y_at=Ragged.of([[1]]))
    tokens = tuple("abcdefgh")
    text = Corpus("t", "text", {"train": split}, tokens, tokens)
    options = hf_tiny.REGISTRY.load("models", "hf-causal-lm").Options(path=str(folder))
    for act in (lambda: retokenised(text, options, sides=1), lambda: as_masked(text, None, 0.1, 0)):
        with pytest.raises(CorpusError, match="says which of its outputs count"):
            act()

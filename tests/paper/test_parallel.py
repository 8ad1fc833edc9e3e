"""Sentence pairs with alignments: a user's own, and the sets aligned by people."""

from __future__ import annotations

import json

import numpy as np
import pytest

import texts
from ktiwprobe.data import UNK, Corpus, Ragged
from ktiwprobe.errors import CorpusError, OptionError
from ktiwprobe_paper.text.parallel import AlignmentGold, ParallelText
from ktiwprobe_paper.text.pieces import PlainWords

LINKS = "0-0 1-1 2-2 3-3 4p4 5-5"  # of the invented sentences, whose words are said backwards


@pytest.fixture
def files(data_folder, tmp_path):
    """Options that name two files of sentences, and their links."""
    made = texts.sentences(np.random.default_rng(1), 50)
    for name, side in (("a.en", 0), ("a.ne", 1)):
        (tmp_path / name).write_text("".join(f"{row[side]}\n" for row in made))
    (tmp_path / "a.align").write_text(f"{LINKS}\n" * 50)
    for name in ("a.en", "a.ne", "a.align"):
        lines = (tmp_path / name).read_text().splitlines(keepends=True)
        (tmp_path / f"test-{name}").write_text("".join(lines[:7]))
    return {"source": str(tmp_path / "a.en"), "target": str(tmp_path / "a.ne"), "pieces": 60}


def load(files, **more) -> Corpus:
    return ParallelText().load(ParallelText.Options(**{**files, **more}))


def test_links_of_words_are_links_of_their_pieces(files, tmp_path):
    """Exactly the cells whose pieces are of linked words, sure or possible as those; the same from the cache."""
    for corpus in (load(files, alignments=str(tmp_path / "a.align")) for _ in range(2)):
        for name in ("train", "validation"):
            split = corpus.split(name)
            for row in range(len(split)):
                x, y = split.x_words[row], split.y_words[row]
                cells = np.argwhere((y[:, None] == x) & (x >= 0))
                assert split.links[row].tolist() == [[*cell, int(y[cell[0]] != 4)] for cell in cells.tolist()]


def test_links_do_not_touch_what_a_model_reads(files, tmp_path):
    """The same ids and vocabulary, with links or without."""
    bare, linked = load(files), load(files, alignments=str(tmp_path / "a.align"))
    assert bare.split("train").links is None
    assert bare.source_tokens == linked.source_tokens
    assert np.array_equal(bare.split("train").x.values, linked.split("train").x.values)


def test_text_to_test_on_may_be_apart(files, tmp_path):
    """All pairs are trained on where validation is given; a test set has links of its own."""
    test = {f"test_{side}": str(tmp_path / f"test-a.{end}") for side, end in (("source", "en"), ("target", "ne"))}
    corpus = load(files, **test, test_alignments=str(tmp_path / "test-a.align"))
    assert [len(corpus.split(name)) for name in ("train", "validation", "test")] == [45, 5, 7]
    assert corpus.split("test").links is not None and corpus.split("train").links is None
    both = {**test, **{key.replace("test", "validation"): path for key, path in test.items()}}
    assert [len(load(files, **both).split(name)) for name in ("train", "validation", "test")] == [50, 7, 7]
    assert len(load(files, **both, with_test=True).split("train")) == 57


def test_the_way_back(files, tmp_path):
    """reverse changes the sides of everything, links too."""
    there, back = (
        load(files, alignments=str(tmp_path / "a.align"), reverse=way).split("train") for way in (False, True)
    )
    assert there.x_text[3] == back.y_text[3]
    assert there.y_text[3] == back.x_text[3]
    assert len(there.links[3]) == len(back.links[3])


def test_gold_is_text_to_test_on(files, tmp_path):
    """A .jsonl of words and links needs no further option, and is kept whole whatever the limit of length."""
    words = ["the", "good", "cat", "sees", "a", "dog"]
    gold = {"src": words, "tgt": [w[::-1] for w in words], "sure": [[0, 0]], "possible": [[1, 1]]}
    (tmp_path / "gold.jsonl").write_text(json.dumps(gold) + "\n")
    corpus = load(files, test_source=str(tmp_path / "gold.jsonl"), tokens="words", longest=5)
    assert len(corpus.splits["train"]) == 0
    assert corpus.split("test").links[0].tolist() == [[0, 1, 1], [1, 2, 0]]  # (t, l, sure), and x begins with <s>
    assert corpus.split("test").x_text[0] == tuple(words)


@pytest.mark.parametrize(
    ("write", "options", "sentence"),
    [
        ("0-0\n" * 49, {}, r"links has 49 sentence pairs, and there are 50"),
        ("0-0\n" * 49 + "0-6\n", {}, r"links line 50 has the link 0-6, and the sentence pair has 6 and 6 words"),
        ("0=0\n" * 50, {}, "line 1 has '0=0'"),
    ],
)
def test_links_that_do_not_fit_are_told(files, tmp_path, write, options, sentence):
    """Too few lines, a word that is not there, a line that is none."""
    (tmp_path / "links").write_text(write)
    with pytest.raises(CorpusError, match=sentence):
        load(files, alignments=str(tmp_path / "links"), **options)


def test_files_that_need_others_say_so(files, tmp_path):
    """Links without their text, a file of lines without the other side."""
    with pytest.raises(OptionError, match=r"task.test_source is needed beside task.test_alignments"):
        load(files, test_alignments=str(tmp_path / "a.align"))
    with pytest.raises(OptionError, match=r"pass the other side with -o test_target=FILE"):
        load(files, test_source=files["source"])


def test_plain_words_know_their_words():
    """Signs are tokens of the word they stand at; rare ones are <unk>; lower case if told."""
    sentences = ["Well, well-known  words!", "well known"]
    plain = PlainWords(sentences, least=2, lower=True)
    ids = Ragged.of(plain.ids(sentences))
    assert set(plain.tokens[4:]) == {"well", "known"}
    assert [plain.tokens[i] for i in ids[0]] == ["well", "<unk>", "well", "<unk>", "known", "<unk>", "<unk>"]
    assert plain.words(sentences, ids)[0].tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert plain.words(sentences, ids)[1].tolist() == [0, 1]
    assert UNK in ids[0]


@pytest.mark.parametrize(
    ("options", "sizes", "linked"),
    [
        ({}, (49, 8, 9), ("test",)),
        ({"with_test": False, "pairs": 30}, (30, 8, 9), ("test",)),
        ({"pair": "en-es", "reverse": True}, (45, 4, 5), ("validation", "test")),
        ({"pair": "en-fr", "tokens": "words"}, (12, 12, 12), ("validation", "test")),
    ],
)
def test_sets_aligned_by_people(data_folder, options, sizes, linked):
    """Text of the languages to train on, the test sentences among it unless told otherwise, and links where known."""
    corpus = AlignmentGold().load(AlignmentGold.Options(**{"pieces": 60, **options}))
    assert tuple(len(corpus.split(name)) for name in ("train", "validation", "test")) == sizes
    assert tuple(name for name in corpus.splits if corpus.split(name).links is not None) == linked


def test_a_pair_without_text_needs_its_test_sentences(data_folder):
    """Of French only the set itself is at hand."""
    with pytest.raises(OptionError, match="pass -o with_test=true"):
        AlignmentGold().load(AlignmentGold.Options(pair="en-fr", with_test=False))


def test_a_set_that_is_not_here_says_what_to_put_where(data_folder):
    """The folders looked in, and what the file must have."""
    assert AlignmentGold().needs().files == ("de-en_europarl_rwth508.jsonl",)
    assert AlignmentGold().needs().folder == data_folder / "alignment-gold"
    with pytest.raises(CorpusError, match=r"there is no en-nl_xlwa_dev.jsonl in .*alignment-gold or .*: put it there"):
        AlignmentGold().load(AlignmentGold.Options(pair="en-nl"))

"""Real text: files, words, pieces, the cache, the paper's data sets and a user's own."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import texts
from ktiwprobe import Corpus, Split
from ktiwprobe.cli import main
from ktiwprobe.corpus.textfiles import read_lines
from ktiwprobe.data import BOS, EOS, SPECIALS, UNK, Ragged, TokenRoles, each_token_a_word
from ktiwprobe.errors import CorpusError, OptionError
from ktiwprobe_paper.text import cache, classification, own, parallel, translation
from ktiwprobe_paper.text.files import read_table
from ktiwprobe_paper.text.hub import Hub, load_dataset
from ktiwprobe_paper.text.pieces import Pieces
from ktiwprobe_paper.text.sources import Source
from ktiwprobe_paper.text.words import Vocabulary, raw_words_of, without_numbers, words_of


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl", "a.tsv.xz", "a.csv.gz", "a.jsonl.xz"])
def test_tables_are_read_alike(tmp_path, name):
    """Every format and compression gives the same columns, in the order asked for."""
    texts.write_table(tmp_path / name, [{"id": 1, "text": "a, b", "label": 0}, {"id": 2, "text": "ü", "label": 1}])
    assert read_table(tmp_path / name, ("label", "text")) == {"label": ["0", "1"], "text": ["a, b", "ü"]}


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.tsv", b"id\ttext\n1\tx\n2\n", "line 3 has 1 columns, and the header has 2"),
        ("a.tsv", b"id\twords\n1\tx\n", "has no column 'text': its header has id, words"),
        ("a.tsv", b"text\nfine\n\xff\n", "line 3 is not UTF-8"),
        ("a.jsonl", b'{"text": "x"}\n{"text": \n', "line 2 is not JSON"),
        ("a.jsonl", b'{"text": "x"}\n{"words": "x"}\n', "line 2 has no 'text'"),
        ("a.jsonl", b"[1]\n", "line 1 is not an object"),
        ("a.tsv.xz", b"not compressed", "cannot read"),
        ("a.txt", b"x", "is not a table that can be read: it must end in .tsv"),
    ],
)
def test_what_is_wrong_with_a_table_is_told_by_line(tmp_path, name, content, sentence):
    """One sentence with the file and the line."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CorpusError, match=sentence):
        read_table(tmp_path / name, ("text",))


def test_lines_end_as_they_may(tmp_path):
    """Windows ends, no last end, and empty lines in between are kept."""
    (tmp_path / "a").write_bytes(b"eins\r\n\r\nzwei")
    assert read_lines(tmp_path / "a") == ["eins", "", "zwei"]


def test_missing_data_says_what_to_put_where(data_folder):
    """The folders looked in, the files and columns expected, and the option."""
    with pytest.raises(
        CorpusError, match=r"'nowhere' is not in .*nowhere or .*: put train.tsv, .* columns label, text"
    ):
        Source("nowhere", ("label", "text")).folder()
    with pytest.raises(CorpusError, match=r"has no other.tsv \(or .csv, .jsonl"):
        Source("sst", ("label", "text"), ("other",)).file("other")


def test_words_are_lower_case_without_signs():
    """Underscores split if told; numbers of two digits and more become <unk>."""
    assert words_of("Don't stop_now, it's 10!") == ["don", "t", "stop_now", "it", "s", "10"]
    assert words_of("stop_now", split_underscores=True) == ["stop", "now"]
    assert without_numbers(["7", "42", "a1", "1999"]) == ["7", "<unk>", "a1", "<unk>"]


def test_rare_words_are_unknown():
    """A word needs `least` occurrences; frequent words come first, equals in their own order."""
    vocabulary = Vocabulary([["b", "a", "a"], ["b", "c", "a"], ["<unk>"]], least=2)
    assert vocabulary.tokens == (*SPECIALS, "a", "b")
    assert vocabulary.ids(["c", "a"]) == [BOS, UNK, 4, EOS]


def test_pieces_spell_their_text():
    """The first ids are the special tokens, the same text gives the same pieces, and decoding gives it back."""
    lines = [x for x, _, _ in texts.sentences(np.random.default_rng(0), 50)]
    pieces = Pieces.train(lines, 60)
    assert pieces.tokens[:4] == SPECIALS
    assert len(set(pieces.tokens)) == len(pieces.tokens) <= 60
    assert Pieces.train(lines, 60).model == pieces.model
    (ids,) = pieces.ids(lines[:1])
    assert pieces.text(ids) == lines[0]
    assert min(ids) >= UNK


@pytest.mark.parametrize(
    "sentence",
    [
        "the good cat",
        "  the   cat ",
        "the\xa0cat sees",
        "the cat\xb4s a",
        "the \u200b cat",
        "\u200bthe a\u200bcat",
        "日 the 本日cat",
    ],
)
def test_pieces_know_their_words(sentence):
    """The pieces of a word spell it, whatever normalising does to blanks; the words are those between blanks."""
    pieces = Pieces.train([x for x, _, _ in texts.sentences(np.random.default_rng(0), 50)], 60)
    ids = Ragged.of(pieces.ids([sentence, "a cat"]))
    words = pieces.words([sentence, "a cat"], ids)
    assert words[1].tolist() == sorted(words[1]) and words[1][-1] == 1
    assert words[0].tolist() == sorted(words[0])
    for number, word in enumerate(sentence.split()):
        spelled = pieces.text(ids[0][words[0] == number])
        alone = pieces.text(pieces.ids([word])[0])
        assert spelled == alone


def test_translated_text_keeps_its_words(data_folder):
    """Words are those between blanks; <s> and </s> belong to none; a second reading from the cache says the same."""
    task, options = translation.Multi30k(), translation.Multi30k.Options(pieces=60)
    fresh, mapped = (task.load(options).split("train") for _ in range(2))
    sentence = fresh.y_text[0]
    assert sentence[0] == "the" and len(sentence) == 6
    assert fresh.x_words[0][[0, -1]].tolist() == [-1, -1]
    assert set(fresh.y_words[0].tolist()) == {-1, *range(6)}
    assert mapped.x_text[-1] == fresh.x_text[-1]
    assert np.array_equal(mapped.x_words.values, fresh.x_words.values)


def test_classified_text_keeps_its_words_as_written():
    """Capitals, numbers and rare words are told as they were; the ids are not."""
    examples = classification.read_examples(["The Film 1999", "", "a film"], [0, 0, 1])
    options = classification.ClassificationOptions(least=2)
    split = classification.make_corpus("mine", {"train": examples}, ("no", "yes"), options).split("train")
    assert list(split.x_text) == [("The", "Film", "1999"), ("a", "film")]
    assert split.x_words[0].tolist() == [-1, 0, 1, 2, -1]
    assert split.x[0].tolist() == [BOS, UNK, 4, UNK, EOS]
    assert list(split.y_text) == [("no",), ("yes",)]
    assert raw_words_of("İstanbul") == words_of("İstanbul")


@pytest.mark.parametrize("task", [classification.Sst, classification.AgNews, classification.Newsgroups])
def test_labels_are_the_papers(data_folder, task):
    """Both labels, about as often as in the file; validation comes from the test file."""
    corpus = task().load(task.Options())
    assert set(corpus.split("train").y.values) == {0, 1}
    assert len(corpus.split("validation")) == texts.SIZES["test"]
    source, target = (corpus.example("train", 0).source, corpus.example("train", 0).target)
    assert (source[0], source[-1]) == ("<s>", "</s>")
    assert target == (corpus.target_tokens[int("good" in source)],)


def test_the_validation_sample_is_seeded():
    """At most 4000 of the test set, the rest apart, another seed another sample."""
    test = classification.read_examples([str(i) for i in range(4100)], [0] * 4100)
    first, rest = classification.held_out(test, 0)
    assert (len(first.labels), len(rest.labels)) == (4000, 100)
    assert not {w[0] for w in first.words} & {w[0] for w in rest.words}
    assert [list(raw) for raw in rest.raw] == rest.words
    assert classification.held_out(test, 1)[0].words != first.words
    assert classification.held_out(test, 0)[0].words == first.words


def test_what_is_left_out_is_counted():
    """Empty and over-long examples are told, never cut."""
    parts = {"train": classification.read_examples(["a", "", "a " * 9, "b"], [0, 0, 1, 1])}
    options = classification.ClassificationOptions(longest=5, least=1)
    corpus = classification.make_corpus("mine", parts, ("no", "yes"), options)
    assert corpus.notes == ("2 of 4 train examples are left out: empty or longer than 5 words",)
    assert len(corpus.splits["train"]) == 2


def test_directions_of_multi30k(data_folder):
    """German is the source by default, as published; the other way is an option."""
    there, back = (
        translation.Multi30k().load(translation.Multi30k.Options(pieces=80, direction=way))
        for way in ("de-en", "en-de")
    )
    assert "".join(there.example("train", 0).target[:-1]).startswith("▁the▁")
    assert there.joint
    assert there.example("train", 0).source[1:-1] == back.example("train", 0).target[:-1]
    assert there.notes == () or "pieces" in there.notes[0]


def test_news_is_divided_nine_to_one(data_folder):
    """Seeded, disjoint, and pairs of numbers only are dropped."""
    corpus = translation.NewsCommentary().load(translation.NewsCommentary.Options(pieces=80))
    assert (len(corpus.split("train")), len(corpus.split("validation"))) == (54, 6)
    assert translation._only_numbers("1,234 - 5")
    assert not translation._only_numbers("5 a")


def test_a_corpus_is_made_once(data_folder, tmp_path):
    """The second time it is mapped from the cache, equal; other options or files make another."""
    made = []

    def make() -> Corpus:
        made.append(1)
        split = Split.of([[4, 5], [6]], [[5, 2], [2]], [[(0, 1, 1), (1, 0, 0)], []])
        tokens = (*SPECIALS, "e", "f", "g")
        return each_token_a_word(Corpus("t", "translation", {"train": split}, tokens, tokens))

    file = tmp_path / "file"
    file.write_text("one")
    first, second = (cache.cached_corpus("t", {"a": 1}, [file], make) for _ in range(2))
    assert len(made) == 1
    assert first.fingerprints == second.fingerprints == make().fingerprints
    split = first.split("train")
    assert split.x[0].tolist() == [4, 5]
    assert split.links[0].tolist() == [[0, 1, 1], [1, 0, 0]]
    assert split.y_words[0].tolist() == [0, -1]
    assert list(split.x_text) == [("e", "f"), ("g",)]
    cache.cached_corpus("t", {"a": 2}, [file], make)
    file.write_text("two")
    cache.cached_corpus("t", {"a": 1}, [file], make)
    assert len(made) == 4


def test_the_cache_knows_how_tokens_join(data_folder, tmp_path):
    """A vocabulary of words that has the sign ▁ among them is not taken for one of pieces."""
    file = tmp_path / "file"
    file.write_text("one")
    tokens = (*SPECIALS, "▁", "a")

    def make() -> Corpus:
        roles = TokenRoles((0, 1, 2), (3,), "words")
        return Corpus("t", "translation", {"train": Split.of([[4]], [[5]])}, tokens, tokens, target_roles=roles)

    for _ in range(2):  # made, then read
        assert cache.cached_corpus("t", {}, [file], make).roles("target").text([4, 5], tokens) == "▁ a"


def test_a_cache_cut_short_is_made_again(data_folder, tmp_path):
    """What a killed process left half done does not count."""
    file = tmp_path / "file"
    file.write_text("one")

    def make() -> Corpus:
        return Corpus("t", "translation", {"train": Split.of([[4]], [[2]])}, "abcdefg", "abcdefg")

    cache.cached_corpus("t", {}, [file], make)
    (folder,) = [path for path in (tmp_path / "cache/ktiwprobe/corpora").iterdir() if path.is_dir()]
    (folder / "corpus.json").unlink()
    assert cache.cached_corpus("t", {}, [file], make).fingerprints == make().fingerprints


def test_two_files_of_ones_own(data_folder, tmp_path):
    """Lines that match are pairs; a tenth is held out."""
    made = texts.sentences(np.random.default_rng(1), 50)
    for name, side in (("a.de", 1), ("a.en", 0)):
        (tmp_path / name).write_text("".join(f"{row[side]}\n" for row in made))
    options = parallel.ParallelText.Options(source=str(tmp_path / "a.de"), target=str(tmp_path / "a.en"), pieces=80)
    corpus = parallel.ParallelText().load(options)
    assert (len(corpus.split("train")), len(corpus.split("validation"))) == (45, 5)
    (tmp_path / "a.en").write_text("one line\n")
    with pytest.raises(CorpusError, match=r"has 50 lines and .*a.en has 1: line must match line"):
        parallel.ParallelText().load(options)


def test_ones_own_text_must_be_there():
    """No file, a file that is not there, a file of lines without the other side."""
    with pytest.raises(OptionError, match="pass -o source=FILE"):
        parallel.ParallelText().load(parallel.ParallelText.Options())
    with pytest.raises(CorpusError, match=r"there is no file x.tsv: option task.path must name one"):
        own.LabelledText().load(own.LabelledText.Options(path="x.tsv"))


def test_labels_of_ones_own(data_folder, tmp_path):
    """Two labels of any name; one or three are refused with what they are."""
    rows = [{"text": x, "label": ("no", "yes")[y]} for x, _, y in texts.sentences(np.random.default_rng(1), 50)]
    texts.write_table(tmp_path / "r.csv", rows)
    corpus = own.LabelledText().load(own.LabelledText.Options(path=str(tmp_path / "r.csv")))
    assert corpus.target_tokens == ("no", "yes")
    texts.write_table(tmp_path / "s.csv", [{**row, "label": "no"} for row in rows])
    with pytest.raises(CorpusError, match=r"has 1 labels \(no\): exactly 2 are needed"):
        own.LabelledText().load(own.LabelledText.Options(path=str(tmp_path / "s.csv")))


def test_the_hub_gives_tables(data_folder, tmp_path):
    """What the datasets library loads is written as the tables that the tasks read; labels are renamed or left out."""
    hub = Hub(str(data_folder / "20ng-plain"), ("label", "text"), labels=(("1", "9"),))
    folder = hub.fetch(tmp_path / "got", {"train": "train", "test": "test"}, ("stars", "words"))
    table = read_table(folder / "train.tsv", ("stars", "words"))
    assert set(table["stars"]) == {"9"}
    assert all("good" in words for words in table["words"])
    with pytest.raises(CorpusError, match="has no split 'validation': it has train, test"):
        hub.fetch(tmp_path / "more", {"validation": "validation"}, ("label", "text"))
    assert not (tmp_path / "more").exists()


def test_a_hub_that_cannot_be_reached_says_what_to_do(data_folder, tmp_path):
    """One sentence, with what to do without a network."""
    with pytest.raises(CorpusError, match="without a network, download it elsewhere"):
        load_dataset(str(tmp_path / "nothing-here"))


def test_pairs_of_a_library_data_set(data_folder, tmp_path):
    """Columns inside columns are named with a dot; without a validation split a tenth is held out."""
    made = texts.sentences(np.random.default_rng(2), 40)
    texts.write_table(tmp_path / "d" / "train.jsonl", [{"translation": {"en": x, "de": y}} for x, y, _ in made])
    options = own.HfDataset.Options(
        name=str(tmp_path / "d"), source="translation.de", target="translation.en", pieces=80
    )
    corpus = own.HfDataset().load(options)
    assert (len(corpus.split("train")), len(corpus.split("validation"))) == (36, 4)
    with pytest.raises(OptionError, match="say which columns to read"):
        own.HfDataset().load(own.HfDataset.Options(name="x", source="a"))


def test_the_data_command_says_what_is_here(data_folder, tmp_path):
    """Statistics beside the paper's where the files are, else what to put where."""
    told = CliRunner().invoke(main, ["data", "sst", "yelp", "--json"], catch_exceptions=False)
    sst, yelp = json.loads(told.stdout)
    assert sst["ours"]["train examples"] == texts.SIZES["train"]
    assert sst["paper"]["vocabulary"] == 11022
    assert yelp["folder"] == str(data_folder / "yelp")
    missing = CliRunner().invoke(main, ["data", "sst", "--data", str(tmp_path)], catch_exceptions=False)
    assert (
        "sst: not here: put train.tsv, validation.tsv, test.tsv (columns label5, text) into DIR/sst" in missing.stdout
    )
    generated = CliRunner().invoke(main, ["data", "copy"])
    assert generated.exit_code == 2
    assert "needs no data set" in generated.stderr

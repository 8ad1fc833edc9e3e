"""The dictionary a model has learned: one definition, on the page and in the command."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from ktiwprobe import Corpus, Split, build_registry, train
from ktiwprobe.cli import main
from ktiwprobe.data import Ragged, each_token_a_word
from ktiwprobe.errors import CorpusError, UnknownNameError
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.signals.signal import Signal, make_signal
from ktiwprobe.views.dictionary import Dictionary, is_word, look_up, written
from ktiwprobe.views.page.collect import collect

SMALL = {"task.train": 300, "task.validation": 60, "task.words": 20}


def corpus_of(source: str, xs, ys, target=None, *, words=None, kind="translation") -> Corpus:
    """A corpus of ids; `words` are numbers of words, else each token is one."""
    made = Corpus("by-hand", kind, {"validation": Split.of(xs, ys)}, tuple(source.split()), target or source.split())
    if words is None:
        return each_token_a_word(made)
    split = replace(made.split("validation"), x_words=Ragged.of(words))
    return replace(made, splits={"validation": split})


def beta_of(corpus: Corpus, p) -> Signal:
    """β by p of every cell, sentence after sentence."""
    part = corpus.split("validation")
    lengths = np.repeat(part.x.lengths, part.y.lengths)
    with np.errstate(divide="ignore"):
        values = np.log(np.concatenate([np.ravel(block) for block in p]))
        values -= np.log1p(-np.concatenate([np.ravel(block) for block in p]))
    return make_signal(values, lengths, part.y.lengths)


def entry_of(corpus: Corpus, word: str, beta: Signal, top: int = 9):
    book = Dictionary(corpus, corpus.split("validation"))
    return book.entry(book.find(word), beta, top=top)


@pytest.mark.parametrize("attention", ["learned", "uniform"])
def test_a_trained_model_knows_its_words(run_tiny, tiny_registry, attention):
    """In the tiny language each word has one translation, three further on: after training it comes first."""
    run = run_tiny(steps=150, attention=attention)
    extractor = Extractor(run, tiny_registry, device="cpu")
    right = [look_up(extractor, f"a{i}", top=3).outputs[0] == f"b{(i + 3) % 8}" for i in range(8)]
    assert sum(right) >= 7


def test_the_numbers_are_those_of_the_definition(run_tiny, tiny_registry):
    """p, base rate and lift of every pair, against sums over the matrices of β, sentence by sentence."""
    extractor = Extractor(run_tiny(), tiny_registry, device="cpu")
    beta, part = extractor.signal("beta"), extractor.part
    met: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for i in range(len(part)):
        (source, target), p = extractor.tokens(i), 1 / (1 + np.exp(-beta[i].astype(float)))
        inside = [place for place, word in enumerate(source) if word != "</s>"]
        for t, output in enumerate(target):
            for place in inside if output != "</s>" else ():
                met.setdefault((source[place], output), []).append((p[t, place], p[t, inside].mean()))
    expected = {}
    for pair, cells in met.items():
        n, (p, base) = len(cells), np.mean(cells, 0)
        if p > base:
            expected[pair] = [p, base, (n * p + base) / ((n + 1) * base), n]
    seen = {}
    for entry in Dictionary(extractor.corpus, part).entries(beta, top=99).values():
        numbers = zip(entry.p, entry.base, entry.lift, entry.together, strict=True)
        seen |= {(entry.word, output): list(of) for output, of in zip(entry.outputs, numbers, strict=True)}
        assert list(entry.lift) == sorted(entry.lift, reverse=True)
    assert seen.keys() == expected.keys()
    assert all(seen[pair] == pytest.approx(expected[pair], rel=1e-5) for pair in expected)


def test_the_page_and_the_command_print_the_same_numbers(tmp_path, monkeypatch):
    """For each word of the page, each column is what `dictionary WORD --json` answers for that run."""
    monkeypatch.chdir(tmp_path)
    for model, more in (("lstm-seq2seq", {"hidden": 8, "steps": 20}), ("ibm1", {})):
        train(model, "toy-translation", options={**SMALL, **more}, runs="runs", device="cpu")
    page = collect(tmp_path / "runs", build_registry(), device="cpu", sentences=1)["dictionary"]
    words = page["words"][:6]
    names = [word["word"] for word in words]
    answer = CliRunner().invoke(main, ["dictionary", *names, "--json", "--top", "3"], catch_exceptions=False)
    entries = {(entry["word"], entry["run"]): entry for entry in json.loads(answer.stdout)}
    assert len(entries) == len(words) * len(page["columns"]) == 12
    for word in words:
        for column, outputs in zip(page["columns"], word["said"], strict=True):
            entry = entries[word["word"], column["run"]]
            assert [output for output, _, _ in outputs] == entry["outputs"]
            assert [numbers for _, *numbers in outputs] == [
                [round(p, 4), round(lift, 2)] for p, lift in zip(entry["p"], entry["lift"], strict=True)
            ]
            assert word["count"] == entry["occurrences"]


def test_an_output_that_is_likely_anyway_does_not_win():
    """`der` is nearly certain whatever is attended to, as its context says so: the translation wins by its lift."""
    corpus = corpus_of("<pad> <s> </s> <unk> hund katze der dog cat", [[4, 5], [5, 4]], [[6, 7], [6, 8]])
    p = [[[0.99, 0.97], [0.6, 0.02]], [[0.97, 0.99], [0.6, 0.02]]]
    entry = entry_of(corpus, "hund", beta_of(corpus, p))
    assert entry.outputs[:2] == ("dog", "der")
    assert entry.p[1] > entry.p[0]
    assert entry.lift[1] == pytest.approx(1, abs=0.01)
    assert entry.lift[0] == pytest.approx((0.6 + 0.31) / (2 * 0.31))


def test_lift_is_bounded_and_evidence_counts():
    """A pair that met once has at most half of the sentence's length more than 1; one that met often comes closer."""
    corpus = corpus_of("<pad> <s> </s> <unk> w a b c once often", [[4, 5, 6, 7]] * 10, [[9]] * 9 + [[8]])
    entry = entry_of(corpus, "w", beta_of(corpus, [[[0.5, 0, 0, 0]]] * 10))
    assert entry.outputs == ("often", "once")
    assert entry.lift == pytest.approx((9 * 4 / 10 + 1 / 10, (4 + 1) / 2))


def test_what_no_word_says_has_no_lift():
    """Where p is 0 for every word nothing is known: there is no output, and no division by 0."""
    corpus = corpus_of("<pad> <s> </s> <unk> w a o", [[4, 5]], [[6]])
    entry = entry_of(corpus, "w", beta_of(corpus, [[[0.0, 0.0]]]))
    assert (entry.word, entry.occurrences, entry.outputs, entry.lift) == ("w", 1, (), ())


def test_two_labels_are_told_by_one():
    """p of the other label is the rest, in every sentence that has the word."""
    corpus = corpus_of("<pad> <s> </s> <unk> great film", [[4, 5], [4, 5]], [[1], [0]], ("bad", "good"),
                       kind="classification")  # fmt: skip
    entry = entry_of(corpus, "great", beta_of(corpus, [[[0.9, 0.5]], [[0.3, 0.5]]]))
    assert (entry.outputs, entry.together) == (("good",), (2,))
    assert (entry.p, entry.base) == (pytest.approx((0.8,)), pytest.approx((0.65,)))
    assert entry_of(corpus, "film", beta_of(corpus, [[[0.9, 0.5]], [[0.3, 0.5]]])).outputs == ("bad",)


def test_ibm1_gives_its_table(tmp_path):
    """The p of a model without attention is Trans(o | i)."""
    run = train("ibm1", options=SMALL, runs=tmp_path, device="cpu")
    extractor = Extractor(run, build_registry(), device="cpu")
    word = extractor.tokens(0)[0][1]
    entry = look_up(extractor, word, top=3)
    table = extractor.model(run.best_step()).table.toarray()[extractor.corpus.source_tokens.index(word)]
    ids = [extractor.corpus.target_tokens.index(output) for output in entry.outputs]
    assert entry.p == pytest.approx(table[ids], abs=1e-6)
    assert len(ids)
    assert entry.outputs[0] == extractor.corpus.target_tokens[4 + int(table[4:].argmax())]


@pytest.mark.parametrize(
    ("tokens", "written_as", "piece"),
    [
        ("Tom ▁Tom ▁tom", "Tom", "▁Tom"),  # a piece of `Phantom` comes before the word
        ("Tom ▁Tom ▁tom", "TOM", "▁Tom"),
        ("Tom ▁Tom ▁tom", "tom", "▁tom"),
        ("Tom ▁Tom ▁tom", "▁tom", "▁tom"),
        ("Tom ĠTom Ġtom", "Tom", "ĠTom"),
        ("Ġf fÃ¼r ĠfÃ¼r", "für", "ĠfÃ¼r"),
        ("##tom tom atom", "Tom", "tom"),
        ("Hund hund katze", "HUND", "Hund"),
    ],
)
def test_a_word_is_found_as_people_write_it(tokens, written_as, piece):
    """Marks of word boundaries and capitals may be left out, for SentencePiece, byte-level BPE and WordPiece."""
    corpus = corpus_of(f"<pad> <s> </s> <unk> {tokens}", [[4, 5, 6]], [[4]])
    (token,) = Dictionary(corpus, corpus.split("validation")).find(written_as)
    assert corpus.source_tokens[token] == piece


PIECES = "<pad> <s> </s> <unk> ▁Ze bra ▁a , fish o"


@pytest.mark.parametrize(("word", "pieces"), [("Zebra", [4, 5]), ("zebra", [4, 5]), ("Zebra,", [4, 5, 7])])
def test_a_word_of_several_pieces_is_found(word, pieces):
    """By its pieces in the split, with or without the comma after it."""
    corpus = corpus_of(PIECES, [[6, 4, 5, 7], [4, 5, 8]], [[9], [9]], words=[[0, 1, 1, 1], [0, 0, 0]])
    assert Dictionary(corpus, corpus.split("validation")).find(word).tolist() == pieces
    with pytest.raises(UnknownNameError):
        Dictionary(corpus, corpus.split("validation")).find("Zebraf")


def test_the_highest_of_its_pieces_is_the_words():
    """β of a word of several pieces is the highest of them, as `--level word` pools it; the base rate is of tokens."""
    corpus = corpus_of(PIECES, [[6, 4, 5], [4, 5, 6]], [[9], [9]], words=[[0, 1, 1], [0, 0, 1]])
    entry = entry_of(corpus, "Zebra", beta_of(corpus, [[[0.1, 0.2, 0.6]], [[0.8, 0.3, 0.1]]]))
    assert (entry.word, entry.occurrences, entry.together) == ("▁Ze bra", 2, (2,))
    assert entry.p == pytest.approx((0.7,))
    assert entry.base == pytest.approx(((0.3 + 0.4) / 2,))


def test_a_row_that_does_not_see_all_pieces_is_left_out():
    """Under a causal model an output inside the word sees its first piece only, and says nothing of the word."""
    corpus = corpus_of(PIECES, [[4, 5]], [[5, 9]], words=[[0, 0]])
    beta = make_signal(np.array([0.0, 0.0, 2.0]), np.array([1, 2]), np.array([2]))
    assert entry_of(corpus, "Zebra", beta).outputs == ("o",)


def test_which_tokens_are_words_is_what_the_corpus_knows():
    """Ids 0 to 3 are words where the corpus says nothing else; a token of no word is none, whatever its id."""
    numbers = tuple(map(str, range(10)))
    plain = Corpus("numbers", "translation", {"validation": Split.of([[0, 1, 9]], [[2, 3]])}, numbers, numbers)
    part = plain.split("validation")
    assert [is_word(plain, part, side).all() for side in "xy"] == [True, True]
    told = replace(part, x_words=Ragged.of([[0, 1, -1]]))
    assert is_word(plain, told, "x").tolist() == [True, True, False]
    silent = replace(part, x_words=Ragged.of([[-1, -1, -1]]))  # of a task that does not tell words
    assert is_word(plain, silent, "x").all()


def test_special_tokens_are_no_entries(run_tiny, tiny_registry):
    """</s> stands in every sentence and is neither a word nor an output."""
    extractor = Extractor(run_tiny(), tiny_registry, device="cpu")
    entries = Dictionary(extractor.corpus, extractor.part).entries(extractor.signal("beta"), top=99).values()
    assert {entry.word for entry in entries} == {f"a{i}" for i in range(8)}
    assert not any(output.startswith("<") for entry in entries for output in entry.outputs)


def test_a_word_nobody_says_is_an_error(run_tiny, tiny_registry, tiny_corpus):
    """A token that no sentence of the split has as a word, and a word that there is not."""
    with pytest.raises(CorpusError, match="try the train split"):
        look_up(Extractor(run_tiny(), tiny_registry, device="cpu"), "<unk>")
    with pytest.raises(UnknownNameError, match="did you mean 'a1'"):
        Dictionary(tiny_corpus, tiny_corpus.split("validation")).find("aa1")


def test_pieces_as_people_write_them():
    """Pieces are joined without their marks; text that is no byte-level BPE stays as it is."""
    cases = [(["▁Ze", "bra"], "Zebra"), (["ĠZe", "bra"], "Zebra"), (["Ze", "##bra"], "Zebra"),
             (["Ze@@", "bra"], "Zebra"), (["ĠÃ", "¼ber"], "über"), (["für"], "für"),
             (["漢字"], "漢字"), (["▁"], "▁"), (["Ġ"], "Ġ")]  # fmt: skip
    assert [written(pieces) for pieces, _ in cases] == [text for _, text in cases]


def test_the_command_asks_the_group_and_the_stand_ins(tmp_path, monkeypatch):
    """One row for each run of the group and each model without attention beside it; a sentence says what is shown."""
    monkeypatch.chdir(tmp_path)
    for model, more in (("lstm-seq2seq", {"hidden": 8, "steps": 2}), ("ibm1", {}), ("bow-proxy", {"steps": 2})):
        train(model, "toy-translation", options={**SMALL, **more}, runs="runs", device="cpu")
    told = CliRunner().invoke(main, ["dictionary", "del", "--json", "--split", "train"], catch_exceptions=False)
    runs = [entry["run"].rpartition("/")[2] for entry in json.loads(told.stdout)]
    assert [run.partition("+")[0].partition("-s0")[0] for run in runs] == ["lstm-seq2seq", "bow-proxy", "ibm1"]
    shown = CliRunner().invoke(main, ["dictionary", "del", "--top", "2", "--split", "train"], catch_exceptions=False)
    assert shown.stdout.splitlines()[0].split() == ["del", "times", "1", "2"]
    assert "ranked by lift (×)" in shown.stdout

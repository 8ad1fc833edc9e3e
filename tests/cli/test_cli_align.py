"""ktiwprobe align, and agree --level word"""

import json
from pathlib import Path

import pytest


def test_links_are_printed_as_lines(cli, trained):
    """A line a sentence pair, counted from 0; --out writes the same and prints nothing."""
    printed = cli("align", "--u", "alpha", "--quiet").stdout
    lines = printed.splitlines()
    assert len(lines) == 40
    assert all("-" in item for line in lines for item in line.split())
    assert cli("align", "--u", "alpha", "--out", "a.align", "--quiet").stdout == ""
    assert Path("a.align").read_text() == printed
    assert cli("align", "--u", "a.align", "--out", "b.align").stdout.startswith("b.align: ")


def test_links_are_held_to_gold(cli, trained):
    """The task's own gold, the same from a file, and from one that counts from 1 with the target first."""
    words = ["align", "--u", "alpha@last", "--method", "mutual", "--quiet", "--format", "json"]
    own = json.loads(cli(*words, "--gold", "gold").stdout)
    assert own["aer_ci"][0] <= own["aer"] <= own["aer_ci"][1]
    assert own["sentences"] == 40
    cli("align", "--u", "gold", "--out", "gold.align")
    from_file = json.loads(cli(*words, "--gold", "gold.align").stdout)
    assert {**from_file, "gold": "gold"} == own
    pairs = [[item.split("-") for item in line.split()] for line in Path("gold.align").read_text().splitlines()]
    lines = [" ".join(f"{int(j) + 1}-{int(i) + 1}" for i, j in line) for line in pairs]
    Path("other.align").write_text("\n".join(lines) + "\n")
    turned = json.loads(cli(*words, "--gold", "other.align", "--gold-index", "1", "--gold-reverse").stdout)
    assert {**turned, "gold": "gold"} == own
    assert "AER" in cli("align", "--u", "gold.align", "--gold", "gold.align").stdout


def test_two_files_are_made_one(cli):
    """Links of other aligners need no run at all."""
    for name, text in (("a", "0-0 1-1\n"), ("b", "0-0 1-2\n")):
        Path(f"{name}.align").write_text(text)
    both = ("align", "--u", "a.align", "--v", "b.align")
    assert cli(*both, "--method", "mutual").stdout == "0-0\n"
    assert cli(*both, "--method", "union").stdout == "0-0 1-1 1-2\n"
    assert cli(*both).stdout == "0-0 1-1 1-2\n"  # 1-1 grows from 0-0, then 1-2 covers a target word


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--method", "grow-diag-final-an"), 2, "did you mean 'grow-diag-final-and'"),
        (("--gold", "nothing.align"), 1, "there is no file of links nothing.align"),
        (("--gold", "short.align"), 1, "short.align has 1 sentence pairs and"),
        (("--gold", "wide.align"), 1, "wide.align line 3 has the link 99-0"),
        (("--gold", "gold", "--gold-index", "2"), 2, "'2' is not one of '0', '1'"),
        (("--out", "no/such/folder.align"), 2, "cannot write no/such/folder.align"),
        (("--v", "beta@last"), 1, "is not the way back of"),
        (("--level", "letter"), 2, "'letter' is not one of 'token', 'word'"),
    ],
)
def test_bad_input_is_one_sentence(refusal, cli, trained, words, code, sentence):
    """Exit code and sentence of what can go wrong."""
    Path("short.align").write_text("0-0\n")
    Path("wide.align").write_text("0-0\n0-0\n99-0\n" + "0-0\n" * 37)
    assert sentence in refusal("align", "--u", "alpha@last", "--quiet", *words, code=code)


def test_agreement_over_words(cli, trained):
    """Special tokens are no words, so there are fewer rows; the object has the same keys."""
    words = ["agree", "--u", "alpha", "--v", "beta", "--format", "json", "--quiet"]
    tokens, over_words = (json.loads(cli(*words, "--level", level).stdout) for level in ("token", "word"))
    assert list(tokens) == list(over_words)
    assert tokens["rows"] - over_words["rows"] == 40  # </s> of each sentence
    assert over_words["xi_star"] == tokens["xi_star"]

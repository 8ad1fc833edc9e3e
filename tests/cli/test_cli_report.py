"""ktiwprobe report"""

import os
import stat

import pytest

from ktiwprobe.runs.listing import find_runs


def test_a_report_is_one_file(cli, trained, tmp_path):
    """After training, `report` extracts what is missing, writes one page and says what it holds."""
    first = cli("report")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert first.stdout.startswith("report.html: toy-translation+")
    assert "40 of 40 sentences" in first.stdout
    assert "sentences" in first.stderr  # extraction tells how far it is
    assert page.startswith("<!doctype html>")
    assert "A(α, βᵘᶠ)" in page
    again = cli("report", "--out", "again.html", "--quiet")
    assert again.stderr == ""
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == page


def test_options(cli, trained, tmp_path):
    """RUN, --sentences, --split and --out choose what the page is of, and where it goes."""
    name = find_runs(trained)[0].path.name
    said = cli("report", name, "--sentences", "3", "--split", "test", "--out", "new/page.html", "--quiet").stdout
    assert said.startswith("new/page.html: ")
    assert "3 of 20 sentences" in said
    assert "A(α, βᵘᶠ)" not in (tmp_path / "new" / "page.html").read_text(encoding="utf-8")


def test_an_existing_file_needs_force(cli, refusal, installed_tiny, tmp_path):
    """What is there is not written over without --force, and that is said before any work."""
    cli("train", "tiny-model")
    (tmp_path / "report.html").write_text("mine")
    sentence = refusal("report")
    assert (
        sentence
        == "ktiwprobe: report.html exists: write over it, or choose another file; add --force or pass --out FILE"
    )
    assert (tmp_path / "report.html").read_text() == "mine"
    assert not list(tmp_path.glob("runs/*/*/signals"))
    cli("report", "--force", "--quiet")
    assert "<!doctype html>" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_places_that_cannot_be_written(cli, refusal, installed_tiny, tmp_path):
    """A folder, a file in place of a folder, and a folder without permission are refused in a sentence."""
    cli("train", "tiny-model")
    assert "runs is a folder: give the name of a file; pass --out" in refusal("report", "--out", "runs")
    (tmp_path / "file").touch()
    assert "cannot write file/page.html: " in refusal("report", "--out", "file/page.html", code=1)
    if os.getuid():  # root may write anywhere
        closed = tmp_path / "closed"
        closed.mkdir()
        closed.chmod(stat.S_IREAD | stat.S_IEXEC)
        assert "cannot write closed/page.html: " in refusal("report", "--out", "closed/page.html", code=1)


def test_no_runs(refusal):
    """Without runs the sentence has the command that helps."""
    sentence = refusal("report", code=1)
    assert sentence.startswith("ktiwprobe: there are no runs in runs: train one with `ktiwprobe train lstm-seq2seq`")


def test_a_run_without_checkpoints(cli, refusal, installed_tiny, tmp_path):
    """A run that has nothing to probe says what to do."""
    cli("train", "tiny-model")
    for file in tmp_path.glob("runs/*/*/checkpoints/*.safetensors"):
        file.unlink()
    sentence = refusal("report", "--quiet", code=1)
    assert "run tiny-task/tiny-model-s0 has no" in sentence
    assert "--resume" in sentence


def test_runs_of_different_corpora(cli, refusal, installed_tiny):
    """One page is of one corpus."""
    cli("train", "tiny-model")
    cli("train", "tiny-model", "-o", "variety=1", "--name", "other")
    sentence = refusal("report", "tiny-model-s0", "other", "--quiet", code=1)
    assert "tiny-task/tiny-model-s0 and tiny-task+" in sentence
    assert "are of different corpora: a report is of one, name runs of one task" in sentence


REFUSED = {
    "nobody": "unknown run in runs 'nobody'",
    "--task other": "there are no runs of task 'other' in runs; there are some of tiny-task",
    "--split tset": "'tset'; did you mean 'test'?",
    "--sentences 0": "0 is not in the range",
    "--sentences many": "'many' is not a valid integer",
    "--device tpu": "'tpu' is not auto, cpu or cuda",
}


@pytest.mark.parametrize(("words", "sentence"), REFUSED.items())
def test_what_cannot_be_reported_is_refused(cli, refusal, installed_tiny, words, sentence):
    """A wrong run, task, split or number is one sentence and exit code 2."""
    cli("train", "tiny-model")
    assert sentence in refusal("report", *words.split(), "--quiet")

"""ktiwprobe agree and ktiwprobe extract"""

import csv
import io
import json
import re
import shutil

import pytest

from ktiwprobe.runs.listing import find_runs

KEYS = ["metric", "u", "v", "value", "baseline", "ci", "rows", "skipped", "performance", "xi", "xi_star", "u_step",
        "v_step", "chosen", "warnings"]  # fmt: skip


def test_the_table_names_what_it_compared(cli, trained):
    """The table names both runs and steps and gives value, baseline, interval and xi; the missing is extracted once."""
    first = cli("agree", "--u", "alpha", "--v", "beta")
    table = dict(line.split(maxsplit=1) for line in first.stdout.splitlines() if not line.startswith(("95", "in", "w")))
    assert table["u"].startswith("toy-translation+")
    assert re.search(r"-s0:alpha@\d+ \(best by accuracy\)$", table["u"])
    assert re.search(r"-s0:beta@\d+ \(best by accuracy\)$", table["v"])
    assert 0 <= float(table["agreement"]) <= 1
    assert float(table["baseline"]) > 0
    assert "95 % interval" in first.stdout
    assert {"ξ", "ξ*"} <= table.keys()
    assert "sentences" in first.stderr
    again = cli("agree", "--u", "alpha", "--v", "beta")
    assert (again.stdout, again.stderr) == (first.stdout, "")


def test_json_and_nothing_else(cli, trained):
    """--format json prints one object with the documented keys, and --quiet nothing beside it."""
    result = cli("agree", "--u", "alpha", "--v", "beta", "--format", "json", "--quiet")
    record = json.loads(result.stdout)
    assert list(record) == KEYS
    assert record["ci"][0] <= record["value"] <= record["ci"][1]
    assert record["performance"] == "accuracy"
    assert result.stderr == ""


def test_csv_and_latex(cli, trained):
    """--format csv is a line under a head, --format latex a tabular with escaped names."""
    words = ["agree", "--u", "alpha", "--v", "gold", "--metric", "aer", "--quiet", "--format"]
    (record,) = csv.DictReader(io.StringIO(cli(*words, "csv").stdout))
    assert record["metric"] == "aer"
    assert 0 < float(record["value"]) <= 1
    assert int(record["skipped"]) == 40  # the end of each sentence
    assert (record["u_chosen"], record["v_chosen"], record["v_step"]) == ("best by accuracy", "", "")
    latex = cli(*words, "latex").stdout
    assert latex.startswith(r"\begin{tabular}")
    assert latex.rstrip().endswith(r"\end{tabular}")


def test_warnings_reach_the_reader_in_every_format(cli, trained):
    """Below the table, under a key, in a column or as a LaTeX comment; nothing else is on standard output or error."""
    words = ["agree", "--u", "alpha", "--v", "beta-uf", "--quiet", "--format"]
    shown = {form: cli(*words, form) for form in ("table", "json", "csv", "latex")}
    warnings = json.loads(shown["json"].stdout)["warnings"]
    assert any("was chosen by the reported value, the highest of" in warning for warning in warnings)
    assert shown["table"].stdout.splitlines()[-len(warnings) :] == [f"warning: {warning}" for warning in warnings]
    (record,) = csv.DictReader(io.StringIO(shown["csv"].stdout))
    assert record["warnings"] == "; ".join(warnings)
    after = shown["latex"].stdout.partition("\\end{tabular}\n")[2].splitlines()
    assert after == [f"% warning: {warning}" for warning in warnings]
    assert {result.stderr for result in shown.values()} == {""}


def test_specs_pick_runs_steps_and_splits(cli, trained):
    """A suffix picks the run, @ the step, RUN: a run by name, --split what is looked at, --metric how."""
    name = find_runs(trained)[0].path.name
    words = ["--metric", "top-k:k=2", "--split", "test", "--format", "json", "--quiet"]
    record = json.loads(cli("agree", "--u", f"{name}:alpha@10", "--v", "beta-uf@last", *words).stdout)
    assert record["metric"] == "top-k:k=2"
    assert record["u"].endswith(f"/{name}:alpha@10")
    assert record["v"].endswith("-uniform-s0:beta@20")
    assert cli("agree", "--u", "alpha-hat", "--v", "delta", "--quiet").stdout.count("-s1:alpha@") == 1


def test_a_signal_file_is_a_spec(cli, installed_tiny, tmp_path):
    """The stored file of a signal, given as a SPEC, agrees with itself."""
    cli("train", "tiny-model")
    cli("extract", "--probe", "alpha")
    (file,) = tmp_path.glob("runs/*/*/signals/*/*/alpha.safetensors")
    record = json.loads(cli("agree", "--u", "alpha", "--v", file, "--format", "json").stdout)
    assert record["value"] == 1


def test_no_runs(refusal):
    """Without any run, agree and extract say so in a sentence with the command that helps, and exit with 1."""
    for words in (["agree", "--u", "alpha", "--v", "beta"], ["extract"]):
        sentence = refusal(*words, code=1)
        assert sentence.startswith(
            "ktiwprobe: there are no runs in runs: train one with `ktiwprobe train lstm-seq2seq`"
        )


def test_different_corpora(cli, refusal, installed_tiny):
    """Signals over different corpora are not compared."""
    cli("train", "tiny-model")
    cli("train", "tiny-model", "-o", "variety=1", "--name", "other")
    words = ["--u", "tiny-model-s0:alpha", "--v", "other:alpha", "--quiet"]
    sentence = refusal("agree", *words, code=1)
    assert "are over different corpora" in sentence
    assert "tiny-task/tiny-model-s0:alpha@" in sentence


def test_a_run_whose_plugin_is_gone(cli, refusal, installed_tiny, tmp_path):
    """The sentence names the plugin that a run needs, and the run stays as it is."""
    cli("train", "tiny-model")
    shutil.rmtree(tmp_path / "site")
    for words in (["agree", "--u", "alpha", "--v", "beta"], ["extract"]):
        sentence = refusal(*words, code=1)
        assert "plugin 'tiny' (tiny 1.2), which is not there: install it again" in sentence
    assert "tiny-task/tiny-model-s0" in cli("ls", "runs").stdout


REFUSED = {
    "--u alpa --v beta": "unknown symbol 'alpa' in 'alpa'; did you mean 'alpha'?",
    "--u alpha-uff --v beta": "did you mean 'alpha-uf'?",
    "--u [h1] --v beta": "is not a SPEC",
    "--u alpha": "missing option '--v'",
    "--u alpha --v beta --metric kendal": "unknown metric 'kendal'; did you mean 'kendall'?",
    "--u alpha --v beta --metric top-k:n=3": "unknown option top-k.n",
    "--u alpha --v beta --metric top-k:k=0": "k is 0",
    "--u alpha --v beta --metric agreement:share=2": "share is 2",
    "--u alpha --v beta --split tset": "'tset'; did you mean 'test'?",
    "--u alpha@7 --v beta": "has no step '7': it has best, last, 0, 10,",
    "--u alpha[h3] --v beta": "unknown site 'h3'",
    "--u nobody:alpha --v beta": "unknown run in runs 'nobody'",
    "--u alpha --v beta-fr": "beta-fr needs a run that is not there: train it with `ktiwprobe train tiny-model",
    "--u alpha --v alpha-hat": "alpha-hat needs a second seed",
    "--u alpha --v beta --task other": "there are no runs of task 'other'",
    "--u alpha --v missing.npz": "there is no signal file missing.npz",
    "--u alpha --v beta --format xml": "'xml' is not one of",
}


@pytest.mark.parametrize(("words", "sentence"), REFUSED.items())
def test_what_cannot_be_compared_is_refused(cli, refusal, installed_tiny, words, sentence):
    """A wrong SPEC, metric, option or split is one sentence and exit code 2."""
    cli("train", "tiny-model")
    assert sentence in refusal("agree", *words.split(), "--quiet")


def test_extract_says_what_it_stored(cli, installed_tiny, tmp_path):
    """A line for each signal: alpha, beta and delta of the latest run at its best step, or what is asked for."""
    cli("train", "tiny-model")
    (run,) = find_runs(tmp_path / "runs")
    stored = cli("extract").stdout.splitlines()
    assert [line.split(":")[1].split("@")[0] for line in stored] == ["alpha", "beta", "delta"]
    assert all("20 sentences" in line for line in stored)
    everything = cli("extract", "tiny-model-s0", "--probe", "beta", "--at", "all", "--quiet")
    assert [line.split("@")[1].split(":")[0] for line in everything.stdout.splitlines()] == ["0", "10", "20", "30"]
    assert everything.stderr == ""
    assert all(run.signal_path("validation", step, "beta").exists() for step in run.steps())


def test_a_model_without_attention_has_no_delta(cli, installed_tiny):
    """What extract does by default fits a model that has beta only."""
    cli("train", "tiny-count")
    stored = cli("extract").stdout.splitlines()
    assert [line.split(":")[1].split("@")[0] for line in stored] == ["alpha", "beta"]


def test_extract_refuses_what_is_not_there(cli, refusal, installed_tiny):
    """An unknown probe, run or step is refused before anything is computed."""
    cli("train", "tiny-model")
    assert "unknown probe 'gama'; did you mean 'gamma'?" in refusal("extract", "--probe", "beta", "--probe", "gama")
    assert "unknown run in runs 'nobody'" in refusal("extract", "nobody")
    assert "has no step '7'" in refusal("extract", "--at", "7")

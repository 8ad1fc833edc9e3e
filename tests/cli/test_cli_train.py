"""ktiwprobe train"""

import json
from pathlib import Path

import pytest

from ktiwprobe.runs.listing import find_runs


def test_a_run_is_named_with_the_next_command(cli, small, tmp_path):
    """The summary on standard output names the run and what to type next; progress goes to standard error."""
    result = cli("train", "lstm-seq2seq", *small)
    (run,) = find_runs(tmp_path / "runs")
    summary, following = result.stdout.splitlines()
    assert summary.startswith(f"{run.name}: step 20, best accuracy 0.")
    assert str(run.path.relative_to(tmp_path)) in summary
    assert following == "next: ktiwprobe agree --u alpha --v beta"
    first, *evaluations = result.stderr.splitlines()
    assert first == f"{run.name}: 20 steps"
    assert [int(line.split()[1].split("/")[0]) for line in evaluations] == run.steps()
    assert all("loss" in line and "accuracy" in line for line in evaluations)
    assert "steps/s" in evaluations[-1]
    assert "ETA" in evaluations[-1]


def test_the_next_command_works(cli, installed_tiny):
    """What a summary says to type is typed: for a learned run, with --runs, and for a uniform run beside it."""
    for how in ([], ["--attention", "uniform"], ["--attention", "frozen-beta"]):
        advice = cli("train", "tiny-model", "--runs", "my runs", *how).stdout.splitlines()[-1]
        assert advice.startswith("next: ktiwprobe agree ")
        assert advice.endswith(" --runs 'my runs'")
        words = advice.removeprefix("next: ktiwprobe ").removesuffix("'my runs'").split()
        cli(*words, "my runs")


def test_an_older_run_that_goes_on_is_named(cli, installed_tiny):
    """A bare SPEC is of the latest run's group, which an older run does not become by being extended."""
    for seed in (0, 1):
        cli("train", "tiny-model", "--seed", seed, "--quiet")
    advice = cli("train", "tiny-model", "--steps", 32).stdout.splitlines()[-1]
    assert advice == "next: ktiwprobe agree --u tiny-task/tiny-model-s0:alpha --v beta"
    cli(*advice.removeprefix("next: ktiwprobe ").split())


def test_a_uniform_run_alone_asks_for_a_learned_one(cli, installed_tiny):
    """Without a learned run to compare with, the summary says to train one first."""
    summary = cli("train", "tiny-model", "--attention", "uniform").stdout
    assert summary.endswith("next: the same without --attention, then ktiwprobe agree --u alpha --v beta-uf\n")


def test_quiet_says_only_the_result(cli, installed_tiny):
    """--quiet leaves one line on standard output and nothing on standard error."""
    result = cli("train", "tiny-model", "--quiet")
    assert result.stderr == ""
    assert len(result.stdout.splitlines()) == 1


def test_a_finished_run_is_not_trained_again_but_extended(cli, installed_tiny, tmp_path):
    """The same command again does nothing; more --steps go on from where it was."""
    first = cli("train", "tiny-model", "--quiet").stdout
    log = one_run(tmp_path).log()
    again = cli("train", "tiny-model")
    assert again.stdout.startswith(first)
    assert again.stderr == ""
    cli("train", "tiny-model", "--steps", 35, "--quiet")
    assert one_run(tmp_path).log()[: len(log)] == log
    assert one_run(tmp_path).steps() == [0, 10, 20, 30, 35]


def test_a_file_of_options_and_one_that_wins(cli, installed_tiny, tmp_path):
    """--config sets options in their spaces, -o replaces them, and run.json records them."""
    (tmp_path / "small.toml").write_text('task.sentences = 24\n[model]\nwidth = 6\n[train]\ncheckpoints = "every:15"\n')
    cli("train", "tiny-model", "--config", "small.toml", "-o", "width=4", "--seed", 5)
    options = json.loads((one_run(tmp_path).path / "run.json").read_text())["options"]
    assert (options["task"]["sentences"], options["model"]["width"]) == (24, 4)
    assert one_run(tmp_path).steps() == [0, 15, 30]
    assert one_run(tmp_path).seed == 5


def test_where_runs_go(cli, installed_tiny, tmp_path, monkeypatch):
    """KTIWPROBE_RUNS is the folder unless --runs says another; --name names the run."""
    monkeypatch.setenv("KTIWPROBE_RUNS", "elsewhere")
    cli("train", "tiny-model", "--name", "mine")
    cli("train", "tiny-model", "--runs", "here")
    assert [run.name for run in find_runs(tmp_path / "elsewhere")] == ["tiny-task/mine"]
    assert [run.name for run in find_runs(tmp_path / "here")] == ["tiny-task/tiny-model-s0"]


REFUSED = {
    "lstm-seq2sq": "unknown model 'lstm-seq2sq'; did you mean 'lstm-seq2seq'?",
    "tiny-model --task tiny-tusk": "unknown task 'tiny-tusk'; did you mean 'tiny-task'?",
    "tiny-model -o widht=3": "unknown option 'widht'; did you mean 'width'?",
    "tiny-model -o model.widht=3": "unknown option model.widht; did you mean 'width'?",
    "tiny-model -o width": "option 'width' is not KEY=VALUE",
    "tiny-model -o width=wide": "option model.width is 'wide': it must be a whole number",
    "tiny-model -o width=0": "option model.width is 0: it must be at least 1",
    "tiny-model -o dropout=1.5": "option model.dropout is 1.5: it must be at least 0.0 and at most 1.0",
    "tiny-model -o checkpoints=often": "often",
    "tiny-model --attention uniforn": "unknown attention 'uniforn'; did you mean 'uniform'?",
    "tiny-model --seed -1": "seed -1 is out of range",
    "tiny-model --seed one": "invalid value for '--seed'",
    "tiny-model --steps -1": "invalid value for '--steps'",
    "tiny-model --steps 5 -o epochs=1": "give steps or epochs, not both",
    "tiny-model --config nowhere.toml": "cannot read nowhere.toml",
    "tiny-model --device gpu": "'gpu' is not auto, cpu or cuda",
    "tiny-model --stepz 5": "--steps",
    "": "missing argument 'MODEL'; see `ktiwprobe train --help`",
}


@pytest.mark.parametrize(("words", "sentence"), REFUSED.items())
def test_what_cannot_be_is_refused(refusal, installed_tiny, tmp_path, words, sentence):
    """A wrong name, key, value or option is one sentence and exit code 2, and leaves no run behind."""
    assert sentence in refusal("train", *words.split())
    assert find_runs(tmp_path / "runs") == []


def test_an_ambiguous_key_names_its_forms(refusal, installed_tiny, stranger):
    """A bare key that the task and the model both have must be written with its space."""
    stranger(
        "wide",
        """
import dataclasses, tiny

class Wide(tiny.TinyTask):
    Options = dataclasses.make_dataclass("Options", [*((f.name, f.type, f) for f in dataclasses.fields(
        tiny.TinyTask.Options)), ("width", int, 3)], frozen=True)

@hookimpl
def register_tasks(register):
    register("wide-task", Wide)
""",
    )
    sentence = refusal("train", "tiny-model", "--task", "wide-task", "-o", "width=3")
    assert sentence == "ktiwprobe: option 'width' is ambiguous: write task.width or model.width"


def test_a_folder_that_cannot_be_written(refusal, installed_tiny, tmp_path):
    """A runs folder that cannot be made is exit code 1 and a sentence with the way out."""
    (tmp_path / "file").write_text("in the way")
    sentence = refusal("train", "tiny-model", "--runs", "file", code=1)
    assert "cannot write to file/tiny-task/tiny-model-s0" in sentence
    assert "--runs" in sentence


def one_run(folder: Path):
    (run,) = find_runs(folder / "runs")
    return run


def test_the_best_is_told_by_the_models_own_measure(cli):
    """A proxy's best epoch is that of the lowest loss."""
    done = cli(
        "train", "bow-proxy", "--task", "toy-translation", "-o", "train=100", "-o", "validation=20", "--steps", 4
    )
    assert ", best loss " in done.stdout

"""ktiwprobe ls, plugins, check, doctor: what there is, and how plugins that fail are told of"""

import json
import os
import re

import pytest

from ktiwprobe import Run
from ktiwprobe.plugins.registry import KINDS

BROKEN = "import a_module_that_nobody_has\n"
TAKEN = """
@hookimpl
def register_models(register):
    register("lstm-seq2seq", "stranger_taken:Model")
"""
WRONG_HOOK = """
@hookimpl
def register_model(register):
    register("mine", "stranger_hook:Model")
"""


def test_ls_lists_everything(cli):
    """Every kind has a heading, every name a line with its summary and its plugin."""
    listed = cli("ls").stdout.splitlines()
    assert [line for line in listed if not line.startswith(" ")] == list(KINDS)
    assert ["lstm-seq2seq", "paper"] in [[*line.split()[:1], *line.split()[-1:]] for line in listed]


def test_ls_of_one_kind_and_as_json(cli):
    """ls KIND lists that kind; --json is a list of records, or an object of lists by kind."""
    names = [line.split()[0] for line in cli("ls", "metrics").stdout.splitlines()]
    records = json.loads(cli("ls", "metrics", "--json").stdout)
    assert [record["name"] for record in records] == names
    assert records[0].keys() == {"name", "summary", "plugin", "distribution", "version"}
    everything = json.loads(cli("ls", "--json").stdout)
    assert list(everything) == list(KINDS)
    assert everything["metrics"] == records


def test_ls_of_a_name_lists_its_options(cli, installed_tiny):
    """ls NAME shows key, default, range and help of every option, and a model's training options as it sets them."""
    shown = cli("ls", "tiny-model").stdout
    assert ["model.width", "8", "int", ">=", "1", "size", "of", "embeddings"] in [s.split() for s in shown.splitlines()]
    assert "float 0 to 1" in shown
    assert "train.lr" in shown
    records = json.loads(cli("ls", "agreement", "--json").stdout)
    defaults = {record["key"]: record["default"] for record in records}
    assert defaults == {"abs": False, "abs_v": False, "share": 0.05}
    assert cli("ls", "beta").stdout == "beta has no options\n"
    records = json.loads(cli("ls", "lstm-classifier", "--json").stdout)
    assert {record["key"]: record["default"] for record in records}["train.batch"] == 32


def test_ls_runs(cli, installed_tiny):
    """ls runs is a table of runs, or records; without runs it says how to make one."""
    assert cli("ls", "runs").stdout == "no runs yet: ktiwprobe train lstm-seq2seq\n"
    assert json.loads(cli("ls", "runs", "--json").stdout) == []
    cli("train", "tiny-model", "--seed", 3)
    head, line = cli("ls", "runs").stdout.splitlines()
    assert head.split() == ["name", "attention", "step", "accuracy", "created"]
    assert line.split()[:3] == ["tiny-task/tiny-model-s3", "learned", "30"]
    (record,) = json.loads(cli("ls", "runs", "--json").stdout)
    assert (record["task"], record["model"], record["seed"]) == ("tiny-task", "tiny-model", 3)
    assert record["path"] == "runs/tiny-task/tiny-model-s3"
    assert (record["created_from"], record["error"]) == ("run.json", None)
    assert record["seconds"] > 0


def test_ls_runs_gives_the_reason_of_what_cannot_be_read(cli, refusal, tiny_run):
    """A damaged run is a line of its own and a record with `error`; other runs are listed, and rm removes it."""
    other = Run.create(tiny_run.path.parent / "other", tiny_run.record)
    (tiny_run.path / "run.json").write_text("[]")
    reason = "runs/tiny-task/tiny-model-s0/run.json is damaged: it is not an object"
    _, line, last = cli("ls", "runs").stdout.splitlines()
    assert (line.split()[0], last) == (other.name, f"  tiny-task/tiny-model-s0 cannot be read: {reason}")
    first, broken = json.loads(cli("ls", "runs", "--json").stdout)
    assert (first["name"], first["error"]) == (other.name, None)
    assert (broken["name"], broken["error"], broken["seed"]) == ("tiny-task/tiny-model-s0", reason, None)
    assert broken.keys() == first.keys()
    for words in ("extract tiny-model-s0", "show tiny-model-s0", "agree --u tiny-model-s0:alpha --v beta"):
        assert refusal(*words.split(), code=1) == f"ktiwprobe: {reason}"
    assert cli("rm", "tiny-model-s0", "--yes").stdout == "deleted tiny-task/tiny-model-s0\n"
    assert len(cli("ls", "runs").stdout.splitlines()) == 2


def test_ls_runs_with_a_log_that_cannot_be_read(cli, tiny_run):
    """Its reason is listed as well."""
    (tiny_run.path / "log.jsonl").unlink()
    (tiny_run.path / "log.jsonl").mkdir()
    reason = "tiny-model-s0 cannot be read: cannot read runs/tiny-task/tiny-model-s0/log.jsonl: Is a directory"
    assert reason in cli("ls", "runs").stdout


def test_file_times_are_named(cli, old_runs):
    """Runs of version 0.1 are marked where they are listed, and where the latest of them is taken."""
    lines = cli("ls", "runs", "--runs", old_runs).stdout.splitlines()[1:]
    assert len(lines) == 3
    assert all(line.endswith(" (file time)") for line in lines)
    records = json.loads(cli("ls", "runs", "--runs", old_runs, "--json").stdout)
    assert [(record["created_from"], record["seconds"]) for record in records] == [("file time", None)] * 3
    latest = old_runs / "toy-sentiment+761ca2" / "lstm-classifier+bb973a-s0"
    os.utime(latest / "run.json", (4e9, 4e9))
    words = ["extract", "--probe", "alpha", "--at", "last", "--runs", old_runs]
    shown = cli(*words)
    assert "lstm-classifier+bb973a-s0 is taken as the latest run by its file time" in shown.stderr
    assert shown.stdout.startswith("toy-sentiment+761ca2/lstm-classifier")
    assert cli(*words, "--quiet").stderr == ""


def test_ls_of_what_is_unknown(refusal):
    """An unknown kind is refused with the nearest one."""
    assert "unknown kind or name 'model'; did you mean 'models'?" in refusal("ls", "model")


def test_plugins_say_what_they_bring(cli, installed_tiny):
    """Each plugin is listed with its distribution and names, as text and as JSON."""
    shown = cli("plugins").stdout
    assert "core (ktiwprobe 0.1.0)\n" in shown
    assert "tiny (tiny 1.2)\n  tasks: tiny-stream, tiny-task\n  models: tiny-count, tiny-model\n" in shown
    told = json.loads(cli("plugins", "--json").stdout)
    assert told["failed"] == []
    assert {p["plugin"]: p["brings"] for p in told["plugins"]}["tiny"]["models"] == ["tiny-count", "tiny-model"]


@pytest.mark.parametrize(
    ("name", "source", "cause"),
    [
        ("broken", BROKEN, "ModuleNotFoundError: No module named 'a_module_that_nobody_has'"),
        ("taken", TAKEN, "model 'lstm-seq2seq' is already taken by plugin 'paper' (ktiwprobe 0.1.0)"),
        ("hook", WRONG_HOOK, "register_model"),
        ("quitter", "raise SystemExit(3)\n", "SystemExit"),
    ],
)
def test_a_failing_plugin_is_told_and_the_rest_goes_on(cli, installed_tiny, stranger, name, source, cause):
    """A plugin that fails is one warning by name, distribution and cause; everything else works, JSON stays JSON."""
    stranger(name, source)
    result = cli("train", "tiny-model", "--quiet")
    (warning,) = result.stderr.splitlines()
    assert warning.startswith(f"ktiwprobe: warning: plugin '{name}' ({name} 1.2) was not loaded: ")
    assert cause in warning
    assert json.loads(cli("ls", "models", "--json").stdout)
    plugins = cli("plugins", "--json")
    (failed,) = json.loads(plugins.stdout)["failed"]
    assert failed["plugin"] == name
    assert cause in failed["error"]
    assert cause in cli("plugins").stderr


def test_strict_plugins_make_it_fatal(refusal, stranger, monkeypatch):
    """With KTIWPROBE_STRICT_PLUGINS=1 the same failure is an error with exit code 1."""
    stranger("broken", BROKEN)
    monkeypatch.setenv("KTIWPROBE_STRICT_PLUGINS", "1")
    assert "plugin 'broken' (broken 1.2) was not loaded" in refusal("ls", code=1)


BUILT_IN = ["core", "paper", "transformers"]


def test_which_plugins_are_loaded(cli, installed_tiny, stranger, monkeypatch):
    """KTIWPROBE_LOAD_PLUGINS names the plugins to load beside the built-in ones."""
    stranger("broken", BROKEN)
    for chosen, expected in (("tiny", [*BUILT_IN, "tiny"]), ("", BUILT_IN)):
        monkeypatch.setenv("KTIWPROBE_LOAD_PLUGINS", chosen)
        told = json.loads(cli("plugins", "--json").stdout)
        assert [plugin["plugin"] for plugin in told["plugins"]] == expected
        assert told["failed"] == []


def test_what_is_skipped_is_not_listed(cli, refusal, installed_tiny, monkeypatch):
    """Built-in plugins are left out like any other; a model's default task is missed in one sentence."""
    monkeypatch.setenv("KTIWPROBE_SKIP_PLUGINS", "paper")
    told = json.loads(cli("plugins", "--json").stdout)
    assert [plugin["plugin"] for plugin in told["plugins"]] == ["core", "transformers", "tiny"]
    assert "lstm-seq2seq" not in cli("ls", "models").stdout
    assert "unknown model 'lstm-seq2seq'" in refusal("train", "lstm-seq2seq")
    assert refusal("train", "hf-seq2seq", "-o", "architecture=bart").endswith("(KTIWPROBE_SKIP_PLUGINS skips paper)")


def test_ls_of_a_command(refusal):
    """It is a registered name, whose options are in its own help."""
    assert refusal("ls", "train") == "ktiwprobe: train is a command: `ktiwprobe train --help` lists its options"


@pytest.mark.parametrize("name", ["tiny-model", "tiny-count", "tiny-task", "kendall", "copying"])
def test_check_passes_what_conforms(cli, installed_tiny, name):
    """check prints a line for each check and ends in one that says all passed."""
    *checks, last = cli("check", name).stdout.splitlines()
    assert all(line.startswith(("ok  ", "skipped ")) for line in checks)
    assert last.endswith(f" {name}: all checks passed")


def test_check_tells_what_to_change(cli, installed_tiny, stranger):
    """A model that ignores attend and a metric of the wrong shape fail with advice, and exit code 1."""
    stranger(
        "wrong",
        """
import tiny

class Stubborn(tiny.TinyModel):
    def trace(self, batch, *, attend=None, gate=None):
        return super().trace(batch, gate=gate)

@hookimpl
def register_models(register):
    register("stubborn", Stubborn)

@hookimpl
def register_metrics(register):
    register("shapeless", lambda u, v: 1.0)
""",
    )
    shown = cli("check", "stubborn", code=1).stdout
    assert "Stubborn ignores attend" in shown
    assert "choose(own, attend, allowed)" in shown
    assert "returned shape ()" in cli("check", "shapeless", code=1).stdout


def test_check_of_what_is_unknown_or_two_things(refusal, installed_tiny, stranger):
    """An unknown name suggests the nearest; a name of two kinds asks for --kind."""
    assert "unknown name 'kendal'; did you mean 'kendall'?" in refusal("check", "kendal")
    assert "unknown model 'kendall'" in refusal("check", "kendall", "--kind", "model")
    assert "unknown task 'nothing'" in refusal("check", "tiny-model", "--task", "nothing")
    stranger("double", "@hookimpl\ndef register_metrics(register):\n    register('tiny-model', max)\n")
    assert "'tiny-model' is a model and a metric: say which with --kind" in refusal("check", "tiny-model")


def test_the_doctor_is_content(cli, installed_tiny):
    """doctor names versions, device, plugins and the runs folder, and leaves nothing behind."""
    shown = cli("doctor").stdout
    for word in ("python 3.", "torch ", "device: ", "plugins: core (ktiwprobe 0.1.0), ", "tiny (tiny 1.2)", "runs: "):
        assert word in shown
    assert re.search(r"matrices on one core: [1-9]\d* GFLOP/s by torch", shown)
    assert shown.endswith("all is well\n")


def test_the_doctor_finds_what_is_wrong(cli, stranger, tmp_path):
    """A failing plugin and a runs folder that cannot be written are a sentence each, and exit code 1."""
    stranger("broken", BROKEN)
    (tmp_path / "file").write_text("in the way")
    plugin, folder = cli("doctor", "--runs", "file/runs", code=1).stderr.splitlines()
    assert "plugin 'broken' (broken 1.2) was not loaded" in plugin
    assert "cannot write to " in folder
    assert "--runs" in folder

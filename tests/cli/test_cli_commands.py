"""Commands that plugins bring, beside those of ktiwprobe itself."""

import subprocess
import sys

import pytest

from ktiwprobe import build_registry
from ktiwprobe.cli import built_in
from ktiwprobe.plugins.registry import HOME

PROGRAM = "from ktiwprobe.cli import main; main(prog_name='ktiwprobe')"
LOOK = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
COUNT = """
import click
from ktiwprobe.errors import UsageError

@click.command("count")
@click.argument("word")
@click.option("--name", metavar="NAME")
def command(word, name):
    if word == "nothing":
        raise UsageError("there is nothing to count: choose another name", hint="name")
    click.echo(len(word))

@hookimpl
def register_commands(register):
    register("count", command, summary="Count the letters of a word.")
    register("lost", "no_such_module:command", summary="Cannot be imported.")
    register("plain", print, summary="Is not a click.Command.")
"""


def test_summaries_are_the_first_lines_of_the_help():
    """What `--help` lists without importing a command is what the command says of itself."""
    for name, entry in built_in().items():
        assert entry.load().name == name
        assert entry.load().get_short_help_str(200) == entry.summary


def test_of_our_plugins_only_the_core_has_commands():
    """`--help` looks at no other plugin of ours."""
    entries = build_registry(environ={"KTIWPROBE_LOAD_PLUGINS": ""}).entries["commands"]
    assert list(entries) == list(built_in())


def test_help_imports_neither_commands_nor_plugins(tmp_path):
    """Where there are only our own plugins, `--help` imports none of them, and no module of a command."""
    command = [sys.executable, "-c", LOOK + PROGRAM, "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    modules = {name for name in done.stderr.split() if name.startswith("ktiwprobe")}
    assert modules & {f"ktiwprobe.cli.{name}" for name in ("train", "ls", "common")} == set()
    assert {name.partition(".")[0] for name in modules} == {HOME}


def test_a_plugin_brings_a_command(cli, refusal, stranger):
    """It is listed with its summary, runs, is completed, and its errors are sentences that name its flags."""
    stranger("counter", COUNT)
    assert "  count       Count the letters of a word." in cli("--help").stdout.splitlines()
    assert cli("count", "word").stdout == "4\n"
    assert refusal("count", "nothing").endswith("choose another name; pass --name NAME")
    assert "count" in cli("ls", "commands").stdout
    assert "unknown command 'cuont'; did you mean 'count'?" in refusal("cuont")


def test_a_command_that_cannot_be_is_one_sentence(refusal, stranger):
    """A target that cannot be imported, or is no command."""
    stranger("counter", COUNT)
    assert "command 'lost' of plugin 'counter' (counter 1.2) cannot be imported" in refusal("lost", code=1)
    assert "command 'plain' is not a click.Command: decorate it" in refusal("plain", code=1)


def test_a_command_cannot_take_the_name_of_another(cli, stranger):
    """The plugin is refused as for any other name, and ours stays."""
    stranger("thief", "@hookimpl\ndef register_commands(register):\n    register('train', print)\n")
    assert "command 'train' is already taken by plugin 'core'" in cli("plugins").stderr
    assert cli("--help").stderr == ""
    assert cli("train", "--help").stdout.startswith("Usage: ktiwprobe train")


def test_an_unknown_command_tells_of_plugins_that_failed(cli, stranger):
    """One of them may have the command."""
    stranger("broken", "raise RuntimeError('loaded')\n")
    warning, sentence = cli("count", code=2).stderr.splitlines()
    assert "plugin 'broken' (broken 1.2) was not loaded: RuntimeError: loaded" in warning
    assert sentence.startswith("ktiwprobe: unknown command 'count'")


def test_our_commands_do_not_import_plugins_to_be_looked_up(cli, stranger, monkeypatch):
    """A failing plugin costs `rm` nothing."""
    stranger("broken", "raise RuntimeError('loaded')\n")
    monkeypatch.setenv("KTIWPROBE_STRICT_PLUGINS", "1")
    assert "unknown run" in cli("rm", "nothing", "--yes", code=2).stderr


@pytest.mark.parametrize("typed", ["co", "lo"])
def test_commands_of_plugins_are_completed(cli, stranger, typed, monkeypatch):
    """Also where one of them cannot be imported."""
    stranger("counter", COUNT)
    monkeypatch.setenv("_KTIWPROBE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", f"ktiwprobe {typed}")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert cli().stdout.strip() == {"co": "plain,count", "lo": ""}[typed]

"""The flags that a command line adds to the library's errors."""

import click
import pytest

from ktiwprobe.cli.hints import advice


@click.command()
@click.option("--force", is_flag=True)
@click.option("--out", metavar="FILE")
@click.option("--level")
@click.option("--ray-address", metavar="ADDRESS")
def command():
    """One that has some flags."""


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        ("", ""),
        ("force=True", "; add --force"),
        ("out", "; pass --out FILE"),
        ("level=word", "; pass --level word"),
        ("address=None", "; leave --ray-address out"),
        ("force=True or out", "; add --force or pass --out FILE"),
        ("name or out", "; pass --out FILE"),
        ("name", ""),
        ("resume=True", "; `ktiwprobe train` has --resume"),
    ],
)
def test_a_hint_is_a_flag_of_the_command(hint, words):
    """An argument becomes the flag that gives it; one that the command does not have is left out."""
    assert advice(hint, command) == words


def test_errors_of_commands_name_flags(refusal, installed_tiny):
    """Argument by argument, as the command that was typed calls it."""
    text = refusal("train", "tiny-count", "--attention", "uniform")
    assert text.endswith("has no attention that could be uniform; pass --attention learned")
    assert refusal("train", "tiny-model", "--task", "tiny-stream", "-o", "epochs=1").endswith("; pass --steps N")
    assert refusal("agree", "--u", "alpha", "--v", "beta", "--runs", "none", code=1).endswith("; pass --runs DIR")
    both = ("sweep", "--model", "tiny-model", "--engine", "ray", "--workers", "2", "--ray-address", "host:1")
    assert refusal(*both).endswith("not both; leave --workers out or leave --ray-address out")

"""What a third party brings is an equal of what we bring: its probe, its run kind, its engine and its command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

PLUGIN = '''
from concurrent.futures import Future
from dataclasses import dataclass

import click
import torch
from ktiwprobe import RunKind, quantity
from ktiwprobe.plugins.quantities import Line


@quantity("κ", "half of the log-odds", scale="log-odds", role="knowledge", uses=("attend",), step_of_hat="max",
          pooling=("max", "joint"), line=Line("#7a0177", "#e7a1e5", (3, 1)), latex=r"\\kappa", needs_attention=False)
@torch.no_grad()
def kappa(model, batch):
    from ktiwprobe.probes.definitions import beta

    return beta(model, batch) / 2


class Here:
    """Runs work at once."""

    room = 1

    @dataclass(frozen=True)
    class Options:
        pass

    def __init__(self, options):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def submit(self, work, *arguments):
        future = Future()
        future.set_result(work(*arguments))
        return future


@click.command("greet")
def greet():
    """Say hello."""
    click.echo("hello")


@hookimpl
def register_probes(register):
    register("kappa", "stranger_third:kappa", summary="half of beta")


@hookimpl
def register_run_kinds(register):
    wide = RunKind("a wide layer", options={"model.hidden": 24}, dash=(3, 3), superscript="ʷ")
    register("wide", wide, summary=wide.label)


@hookimpl
def register_engines(register):
    register("here", "stranger_third:Here", summary="this process")


@hookimpl
def register_commands(register):
    register("greet", "stranger_third:greet", summary="Say hello.")
'''


@pytest.fixture
def third(stranger) -> None:
    """The plugin, installed."""
    stranger("third", PLUGIN)


def test_a_probe_of_a_third_party_is_an_equal_of_beta(third, cli, trained: Path) -> None:
    """`agree`, `show`, `plot` and the page take it without being told, with its symbol, line and step of -hat."""
    record = json.loads(cli("agree", "--u", "alpha", "--v", "kappa-hat", "--format", "json", "--runs", trained).stdout)
    beta = json.loads(cli("agree", "--u", "alpha", "--v", "beta-hat", "--format", "json", "--runs", trained).stdout)
    assert record["value"] == beta["value"]  # half of β has its order
    assert record["chosen"]["v"].startswith("max of")
    assert "κ half of the log-odds" in cli("show", "--runs", trained).stdout
    cli("plot", "curves", "--runs", trained, "--out", "c.svg")
    assert "#7a0177" in Path("c.svg").read_text()
    cli("report", "--runs", trained, "--out", "r.html")
    page = Path("r.html").read_text()
    for text in ("A(α, κ)", "A(α, κ̂)", "A(Δ, κ)", "#7a0177"):
        assert text in page, text


def test_a_run_kind_of_a_third_party_is_a_suffix(third, cli, trained: Path, small: tuple[str, ...]) -> None:
    """-wide picks runs by the value of an option, in SPECs and on the page; without such a run the command is named."""
    line = cli("agree", "--u", "alpha", "--v", "beta-wide", "--runs", trained, code=2).stderr
    assert "-o model.hidden=24" in line
    wide = [word.replace("hidden=16", "hidden=24") for word in small]
    cli("train", "lstm-seq2seq", *wide, "--runs", trained, "--quiet")
    run = next(path.name for path in trained.glob("*/lstm-seq2seq*") if "uniform" not in path.name)
    shown = cli("agree", "--u", f"{run}:alpha", "--v", "beta-wide", "--runs", trained)
    assert re.search(r"v +\S+beta@\d+ \(max of", shown.stdout)


def test_an_engine_and_a_command_of_a_third_party(third, cli, small: tuple[str, ...]) -> None:
    """`sweep --engine here` runs on it, `--help` lists the command, `ls` and `plugins` list all four."""
    cli("sweep", "--model", "lstm-seq2seq", "--engine", "here", *small, "--runs", "swept", "--quiet")
    assert list(Path("swept").glob("*/*/run.json"))
    assert re.search(r"greet +Say hello\.", cli("--help").stdout)
    assert cli("greet").stdout == "hello\n"
    text = cli("plugins").stdout
    assert all(name in text for name in ("kappa", "wide", "here", "greet"))

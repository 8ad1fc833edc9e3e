"""ktiwprobe dictionary"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ktiwprobe.cli.common import data_option, device_option, json_option, load_registry, runs_option, split_option

if TYPE_CHECKING:
    from ktiwprobe.dictionary import Entry


@click.command("dictionary")
@click.argument("words", nargs=-1, required=True, metavar="WORD...")
@click.option("--run", "names", multiple=True, metavar="RUN", help="A run to ask. [default: the latest's group]")
@click.option("--at", default="best", show_default=True, metavar="WHEN", help="best, last, or a step.")
@click.option("--top", default=5, show_default=True, type=click.IntRange(min=1), metavar="N", help="Outputs a word.")
@click.option("--task", metavar="TASK", help="Only runs of this task.")
@split_option
@runs_option
@data_option
@device_option
@json_option
def command(
    words: tuple[str, ...],
    names: tuple[str, ...],
    at: str,
    top: int,
    task: str | None,
    split: str,
    runs: str | None,
    device: str,
    as_json: bool,
) -> None:
    """Look WORD up in the dictionary that models have learned.

    For each run of the latest run's group, and for proxy and IBM 1 beside it: the outputs they would give if they saw
    the word alone.

    \b
    ktiwprobe dictionary kozalo
    ktiwprobe dictionary Hund Katze --task multi30k
    """
    from ktiwprobe.address import Finder
    from ktiwprobe.dictionary import look_up
    from ktiwprobe.run import find_run, runs_folder
    from ktiwprobe.tables import align, cells

    finder = Finder(runs_folder(runs), load_registry(), task=task, split=split, device=device)
    chosen = [find_run(runs_folder(runs), name) for name in names] or [*finder.group(), *finder.stand_ins()]
    entries = [look_up(finder.extractor(run), word, at=at, top=top) for word in words for run in chosen]
    if as_json:
        click.echo(json.dumps([asdict(entry) for entry in entries], indent=2, ensure_ascii=False))
        return
    for word in dict.fromkeys(entry.word for entry in entries):
        records = [{word: entry.run, **_columns(entry)} for entry in entries if entry.word == word]
        click.echo(align(cells(records)))


def _columns(entry: Entry) -> dict[str, str]:
    """The outputs with their probabilities, under their rank."""
    pairs = zip(entry.outputs, entry.p, strict=True)
    return {str(rank): f"{output} {p:.2f}" for rank, (output, p) in enumerate(pairs, 1)}

"""ktiwprobe dictionary"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ktiwprobe.cli.common import json_option, load_registry, show_progress, signal_options, task_option

if TYPE_CHECKING:
    from ktiwprobe.views.dictionary import Entry


@click.command("dictionary")
@click.argument("words", nargs=-1, required=True, metavar="WORD...")
@click.option("--run", "names", multiple=True, metavar="RUN", help="A run to ask. [default: the latest's group]")
@click.option("--at", default="best", show_default=True, metavar="WHEN", help="best, last, or a step.")
@click.option("--top", default=5, show_default=True, type=click.IntRange(min=1), metavar="N", help="Outputs a word.")
@task_option
@json_option
@signal_options
def command(
    words: tuple[str, ...],
    names: tuple[str, ...],
    at: str,
    top: int,
    task: str | None,
    as_json: bool,
    split: str,
    runs: str | None,
    device: str,
    quiet: bool,
) -> None:
    """Look WORD up in the dictionary that models have learned.

    For each run of the latest run's group, and for proxy and IBM 1 beside it: the outputs that the word makes likelier
    than the other words of the same sentences do, from beta. Missing beta is computed first.

    Write WORD as you would in a text: the marks of word pieces (as in ▁Tom or ĠTom) may be left out. If WORD is several
    pieces to the model, beta of a place is the highest of its pieces.

    \b
    ktiwprobe dictionary kozalo
    ktiwprobe dictionary Hund Katze --task multi30k
    """
    from ktiwprobe.compare.finder import Finder
    from ktiwprobe.runs.listing import find_run
    from ktiwprobe.runs.run import runs_folder
    from ktiwprobe.views.dictionary import MEANING, look_up
    from ktiwprobe.views.tables import align, cells

    finder = Finder(runs_folder(runs), load_registry(), task=task, split=split, device=device)
    chosen = [find_run(runs_folder(runs), name) for name in names] or [*finder.group(), *finder.beside().values()]
    progress = show_progress(quiet)
    found = [
        (run.name, look_up(finder.extractor(run), word, at=at, top=top, progress=progress))
        for word in words
        for run in chosen
    ]
    if as_json:
        click.echo(json.dumps([{"run": run, **asdict(entry)} for run, entry in found], indent=2, ensure_ascii=False))
        return
    for word in dict.fromkeys(entry.word for _, entry in found):
        mine = [(run, entry) for run, entry in found if entry.word == word]
        click.echo(
            align(cells([{word: run, "times": str(entry.occurrences), **_columns(entry)} for run, entry in mine]))
        )
        click.echo()
    click.echo(MEANING)


def _columns(entry: Entry) -> dict[str, str]:
    """The outputs with p and lift, under their rank."""
    if not entry.outputs:
        return {"1": "–"}
    outputs = enumerate(zip(entry.outputs, entry.p, entry.lift, strict=True), 1)
    return {str(rank): f"{output} {p:.2f} ×{lift:.{0 if lift >= 10 else 1}f}" for rank, (output, p, lift) in outputs}

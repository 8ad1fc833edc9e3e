"""ktiwprobe show"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import click

from ktiwprobe.cli.common import load_registry, signal_options, split_names, task_option, view_options

if TYPE_CHECKING:
    from ktiwprobe.runs.run import Run
    from ktiwprobe.views.sentences import Sentence


@click.command("show")
@click.argument("run", required=False)
@view_options
@click.option("--watch", is_flag=True, help="Follow a run in progress: draw again at each checkpoint.")
@task_option
@signal_options
def command(
    run: str | None,
    sentence: int,
    probes: str | None,
    at: str | None,
    site: str,
    watch: bool,
    task: str | None,
    split: str,
    runs: str | None,
    device: str,
    quiet: bool,
) -> None:
    """Show one sentence of a run in the terminal.

    Outputs down, inputs across: a number and a colour for each pair. Without RUN it is the learned run that `agree`
    takes; with --watch the run that is being trained, else the latest.

    \b
    ktiwprobe show
    ktiwprobe show lstm-seq2seq-s0 --sentence 3 --probe alpha,beta --at 50
    ktiwprobe show --watch
    """
    from ktiwprobe.compare.finder import Finder
    from ktiwprobe.runs.listing import run_to_watch
    from ktiwprobe.runs.run import runs_folder
    from ktiwprobe.views.sentences import run_to_show, see

    if watch and at:
        raise click.UsageError("--watch shows the newest step: leave --at out.")
    folder = runs_folder(runs)
    finder = Finder(folder, load_registry(), task=task, split=split, device=device)
    chosen = run_to_watch(folder) if watch and not (run or task) else run_to_show(finder, run)
    look = partial(see, finder.extractor(chosen), sentence, split_names(probes, finder.registry), site=site)
    if watch:
        _follow(chosen, look, quiet=quiet)
    else:
        _print(look(at=at or "best"))


def _follow(run: Run, look: Callable[..., Sentence], *, quiet: bool) -> None:
    """Draw at every checkpoint; say how it ended."""
    from ktiwprobe.views.sentences import new_steps

    if not quiet and not run.performance() and run.busy():
        click.echo(f"ktiwprobe: waiting for the first checkpoint of {run.name}", err=True)
    for step in new_steps(run):
        _print(look(at=step), clear=True)
    reached, target = run.reached()
    if not quiet:
        how = "has ended" if reached >= target else "was stopped: `ktiwprobe train --resume` goes on"
        click.echo(f"ktiwprobe: {run.name} at step {reached} of {target} {how}", err=True)


def _print(sentence: Sentence, *, clear: bool = False) -> None:
    """On a terminal a new picture takes the place of the one before."""
    from rich.console import Console

    from ktiwprobe.views.terminal import canvas_of, draw

    console = Console(highlight=False)
    lines = draw(sentence, canvas_of(console))
    if clear:
        console.clear()
    for line in lines:
        console.print(line, soft_wrap=True)

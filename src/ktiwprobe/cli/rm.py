"""ktiwprobe rm"""

from __future__ import annotations

import sys

import click

from ktiwprobe.cli.common import runs_option


@click.command("rm")
@click.argument("run")
@click.option("--yes", is_flag=True, help="Do not ask.")
@runs_option
def command(run: str, yes: bool, runs: str | None) -> None:
    """Delete RUN with its checkpoints and signals.

    RUN may be one that cannot be read.

    \b
    ktiwprobe rm toy-translation/lstm-seq2seq-s0
    """
    from ktiwprobe.errors import KtiwprobeError, UsageError
    from ktiwprobe.runs.listing import run_path
    from ktiwprobe.runs.run import Run, runs_folder

    chosen = Run(run_path(runs_folder(runs), run))
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"there is nobody to ask whether to delete {chosen.path}: pass --yes")
        if not click.confirm(f"delete {chosen.path} with {len(chosen.kept_steps())} checkpoints?", err=True):
            raise KtiwprobeError("nothing was deleted")
    chosen.remove()
    click.echo(f"deleted {chosen.name}")

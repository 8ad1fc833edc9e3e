"""ktiwprobe rm"""

from __future__ import annotations

import click

from ktiwprobe.cli.common import runs_option


@click.command("rm")
@click.argument("run")
@click.option("--yes", is_flag=True, help="Do not ask.")
@runs_option
def command(run: str, yes: bool, runs: str | None) -> None:
    """Delete RUN with its checkpoints and signals."""
    from ktiwprobe.run import find_run, runs_folder

    found = find_run(runs_folder(runs), run)
    if not yes:
        click.confirm(f"delete {found.path} with {len(found.steps())} checkpoints?", abort=True)
    found.remove()
    click.echo(f"deleted {found.name}")

"""ktiwprobe reproduce"""

from __future__ import annotations

from collections import deque
from difflib import get_close_matches
from typing import TYPE_CHECKING

import click

from ktiwprobe.cli.common import (
    data_option,
    device_option,
    engine_options,
    load_registry,
    make_engine,
    quiet_option,
    runs_option,
    show_progress,
)

if TYPE_CHECKING:
    from ktiwprobe.plugins.registry import Registry


@click.command("reproduce", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.argument("experiment")
@click.option("--seeds", metavar="LIST", help="Such as 0-19 or 0,3,5. [default: the experiment's own]")
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="Another length of training.")
@click.option("--scale", default="paper", show_default=True, metavar="SCALE", help="paper, or small: minutes.")
@click.option("--task", metavar="TASK", help="Other data, for experiments that take any.")
@click.option(
    "--format",
    "form",
    default="table",
    show_default=True,
    type=click.Choice(["table", "markdown", "json", "csv", "latex"]),
    metavar="FORMAT",
    help="How to print it: table, markdown, json, csv or latex.",
)
@click.option("--out", default="results", show_default=True, metavar="DIR", help="Where to write what came out.")
@engine_options
@runs_option
@data_option
@device_option
@quiet_option
@click.pass_context
def command(
    context: click.Context,
    experiment: str,
    seeds: str | None,
    steps: int | None,
    scale: str,
    task: str | None,
    form: str,
    out: str,
    engine: str,
    workers: int | None,
    ray_address: str | None,
    cpus: int,
    gpus: float,
    runs: str | None,
    device: str,
    quiet: bool,
) -> None:
    """Run one claim of the paper: table, figures and verdict.

    What is trained already is not trained again; `ktiwprobe ls experiments` lists the claims. Some have options of
    their own, written --name VALUE after the name: `ktiwprobe ls table` lists those of `table`.

    \b
    ktiwprobe reproduce copying --scale small
    ktiwprobe reproduce copying --seeds 0-19
    ktiwprobe reproduce table --tasks sst,multi30k --metric kendall
    """
    from pathlib import Path

    from ktiwprobe.claims.experiment import reproduce
    from ktiwprobe.claims.writeup import show_report, write_report

    registry = load_registry()
    report = reproduce(
        experiment,
        seeds=seeds,
        steps=steps,
        scale=scale,
        task=task,
        options=_own_options(context, registry, experiment),
        runs=runs,
        engine=make_engine(engine, workers, ray_address, cpus, gpus, registry),
        device=device,
        registry=registry,
        progress=show_progress(quiet),
    )
    files = write_report(report, Path(out))
    click.echo(show_report(report, form))
    click.echo(f"written: {', '.join(str(file) for file in files)}", err=form != "table")


def _own_options(context: click.Context, registry: Registry, experiment: str) -> dict[str, str]:
    """What the command itself does not know, as --name VALUE or --name=VALUE, if the experiment does."""
    from dataclasses import fields

    from ktiwprobe.plugins.options import options_of

    known = {
        f"--{f.name.replace('_', '-')}": f.name for f in fields(options_of(registry.load("experiments", experiment)))
    }
    shared = [name for option in context.command.params for name in option.opts if name.startswith("--")]
    words, options = deque(context.args), {}
    while words:
        name, equals, value = words.popleft().partition("=")
        if name not in known:
            raise click.NoSuchOption(name, possibilities=get_close_matches(name, [*known, *shared]), ctx=context)
        if not equals and not words:
            raise click.BadOptionUsage(name, f"Option {name!r} requires an argument.", ctx=context)
        options[known[name]] = value if equals else words.popleft()
    return options

"""ktiwprobe reproduce"""

from __future__ import annotations

import click

from ktiwprobe.cli.common import (
    data_option,
    device_option,
    engine_options,
    load_registry,
    make_engine,
    quiet_option,
    runs_option,
)


@click.command("reproduce")
@click.argument("experiment")
@click.option("--seeds", metavar="LIST", help="Such as 0-19 or 0,3,5. [default: the experiment's own]")
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="Another length of training.")
@click.option("--scale", default="paper", show_default=True, metavar="SCALE", help="paper, or small: minutes.")
@click.option("--task", metavar="TASK", help="Other data, for experiments that take any.")
@click.option("--out", default="results", show_default=True, metavar="DIR", help="Where to write what came out.")
@engine_options
@runs_option
@data_option
@device_option
@quiet_option
def command(
    experiment: str,
    seeds: str | None,
    steps: int | None,
    scale: str,
    task: str | None,
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

    What is trained already is not trained again; `ktiwprobe ls experiments` lists the claims.

    \b
    ktiwprobe reproduce copying --scale small
    ktiwprobe reproduce copying --seeds 0-19
    """
    from pathlib import Path

    from ktiwprobe.cli.progress import make_progress
    from ktiwprobe.experiments import reproduce
    from ktiwprobe.sweep import parse_seeds
    from ktiwprobe.tables import align, cells
    from ktiwprobe.writeup import seen, write_report

    report = reproduce(
        experiment,
        seeds=parse_seeds(seeds) if seeds else None,
        steps=steps,
        scale=scale,
        task=task,
        runs=runs,
        engine=make_engine(engine, workers, ray_address, cpus, gpus),
        device=device,
        registry=load_registry(),
        progress=make_progress(quiet),
    )
    files = write_report(report, Path(out))
    click.echo(report.claim + "\n")
    if report.result.table:
        click.echo(align(cells(report.result.table)) + "\n")
    for note in report.result.notes:
        click.echo(f"- {note}")
    click.echo(f"\n{report.result.verdict} {seen(report.result)}")
    click.echo(f"written: {', '.join(str(file) for file in files)}")

"""ktiwprobe train"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from ktiwprobe.cli.common import (
    collect_options,
    data_option,
    device_option,
    load_registry,
    options_option,
    quiet_option,
    runs_option,
    show_progress,
)

if TYPE_CHECKING:
    from ktiwprobe.runs.run import Run


@click.command("train")
@click.argument("model")
@click.option("--task", metavar="TASK", help="What to train on. [default: the model's own, else toy-translation]")
@click.option(
    "--seed", default=0, show_default=True, metavar="N", help="Random seed of weights, data order and dropout."
)
@click.option(
    "--steps", type=click.IntRange(min=0), metavar="N", help="How many updates; a finished run with fewer is extended."
)
@click.option(
    "--attention", default="learned", show_default=True, metavar="HOW", help="learned, uniform or frozen-beta."
)
@click.option("--name", metavar="NAME", help="What to call the run. [default: made from model, options and seed]")
@click.option("--resume", is_flag=True, help="Go on with a run that was interrupted.")
@options_option
@runs_option
@data_option
@device_option
@quiet_option
def command(
    model: str,
    task: str | None,
    seed: int,
    steps: int | None,
    attention: str,
    name: str | None,
    resume: bool,
    pairs: tuple[str, ...],
    config: str | None,
    runs: str | None,
    device: str,
    quiet: bool,
) -> None:
    """Train MODEL and keep checkpoints of it.

    \b
    ktiwprobe train lstm-seq2seq
    ktiwprobe train lstm-seq2seq --seed 1
    ktiwprobe train lstm-seq2seq --attention uniform -o hidden=128
    """
    from ktiwprobe.training.loop import train
    from ktiwprobe.training.threads import keep_memory

    keep_memory()
    options = collect_options(config, pairs)
    run = train(
        model,
        task,
        seed=seed,
        steps=steps,
        attention=attention,
        options=options,
        runs=runs,
        name=name,
        resume=resume,
        device=device,
        registry=load_registry(),
        progress=show_progress(quiet),
    )
    best, measure = run.best_step(), run.best_by
    value = run.performance(measure)[best]
    click.echo(f"{run.name}: step {run.steps()[-1]}, best {measure} {value:.4f} at step {best}, "
               f"{len(run.steps())} checkpoints in {run.path}")  # fmt: skip
    if not quiet:
        click.echo(f"next: {_advice(run, runs)}")


def _advice(run: Run, runs: str | None) -> str:
    """What to type next."""
    u, v = {
        "learned": ("delta" if run.record["kind"] == "classification" else "alpha", "beta"),
        "uniform": ("alpha", "beta-uf"),
        "frozen-beta": ("alpha", "alpha-fr"),
    }[run.attention]
    where = f" --runs {shlex.quote(runs)}" if runs else ""
    alone = run.attention != "learned" and not _has_learned_sibling(run)
    first = "the same without --attention, then " if alone else ""
    return f"{first}ktiwprobe agree --u {u} --v {v}{where}"


def _has_learned_sibling(run: Run) -> bool:
    from ktiwprobe.runs.run import find_runs

    others = (other.record for other in find_runs(run.path.parent.parent))
    same = ("task", "model", "identity")
    return any(o["attention"] == "learned" and all(o[k] == run.record[k] for k in same) for o in others)

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
    from ktiwprobe.plugins.quantities import Role
    from ktiwprobe.plugins.registry import Registry
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
    options, registry = collect_options(config, pairs), load_registry()
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
        registry=registry,
        progress=show_progress(quiet),
    )
    best, measure = run.best_step(), run.best_by
    value = run.performance(measure)[best]
    click.echo(f"{run.name}: step {run.steps()[-1]}, best {measure} {value:.4f} at step {best}, "
               f"{len(run.steps())} checkpoints in {run.path}")  # fmt: skip
    if not quiet:
        click.echo(f"next: {_advice(run, runs, registry)}")


def _advice(run: Run, runs: str | None, registry: Registry) -> str:
    """What to type next: attention (of a classifier saliency) against knowledge, or what this kind of run shows.

    A bare symbol is of the latest run's group, so an older run that was resumed is named.
    """
    from ktiwprobe.probes.extraction import Extractor

    kinds = ((name, kind) for name, kind in registry.run_kinds().items() if kind.attention == run.attention)
    suffix, kind = next(kinds, (None, None))
    looking: Role = "saliency" if kind is None and run.record.kind == "classification" else "attention"
    u = registry.probes_of(looking)[0]
    v = registry.probes_of(kind.shows[0] if kind else "knowledge")[0] + (f"-{suffix}" if suffix else "")
    if run.attention == "learned" and _is_older(run) and Extractor(run, registry).attends:
        u = f"{run.name}:{u}"
    where = f" --runs {shlex.quote(runs)}" if runs else ""
    alone = run.attention != "learned" and not _has_learned_sibling(run)
    first = "the same without --attention, then " if alone else ""
    return f"{first}ktiwprobe agree --u {u} --v {v}{where}"


def _is_older(run: Run) -> bool:
    from ktiwprobe.runs.listing import find_runs

    return any(other.created > run.created for other in find_runs(run.path.parent.parent))


def _has_learned_sibling(run: Run) -> bool:
    from ktiwprobe.runs.listing import find_runs

    mine, others = run.record, (other.record for other in find_runs(run.path.parent.parent))
    same = (mine.task, mine.model, mine.identity)
    return any(o.attention == "learned" and (o.task, o.model, o.identity) == same for o in others)

"""ktiwprobe sweep"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from ktiwprobe.cli.common import (
    data_option,
    device_option,
    engine_options,
    json_option,
    load_registry,
    make_engine,
    options_option,
    quiet_option,
    runs_option,
    show_progress,
)

if TYPE_CHECKING:
    from ktiwprobe.training.sweep import Job, Outcome


@click.command("sweep")
@click.option("--model", "models", multiple=True, metavar="MODEL", help="A model; may be given several times.")
@click.option("--task", "tasks", multiple=True, metavar="TASK", help="A task; may be given several times.")
@click.option("--attention", "attentions", multiple=True, metavar="HOW", help="learned, uniform or frozen-beta; ditto.")
@click.option("--seeds", metavar="LIST", help="Such as 0-3,7. [default: 0]")
@click.option("--steps", type=click.IntRange(min=0), metavar="N", help="How many updates each.")
@click.option("--vary", multiple=True, metavar="KEY=A,B,...", help="An option that takes each of these values in turn.")
@options_option
@engine_options
@runs_option
@data_option
@device_option
@json_option
@quiet_option
@click.pass_context
def command(
    context: click.Context,
    models: tuple[str, ...],
    tasks: tuple[str, ...],
    attentions: tuple[str, ...],
    seeds: str | None,
    steps: int | None,
    vary: tuple[str, ...],
    pairs: tuple[str, ...],
    config: str | None,
    engine: str,
    workers: int | None,
    ray_address: str | None,
    cpus: int,
    gpus: float,
    runs: str | None,
    device: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Train a grid of runs, several at a time.

    Every task, model, attention, option and seed. Finished runs are skipped and interrupted ones go on, so the same
    command can be given again. In a TOML file of --config, models, tasks, attention, seeds and steps stand at the top,
    options below them; a list varies.

    \b
    ktiwprobe sweep --model lstm-seq2seq --task copy --seeds 0-3
    ktiwprobe sweep --model lstm-seq2seq --vary hidden=64,128 --attention uniform
    """
    from ktiwprobe.training.sweep import sweep

    registry = load_registry()
    given = {"models": models, "tasks": tasks, "attention": attentions, "seeds": seeds, "steps": steps}
    outcomes = sweep(
        _jobs(given, config, pairs, vary),
        runs=runs,
        engine=make_engine(engine, workers, ray_address, cpus, gpus, registry),
        device=device,
        registry=registry,
        progress=show_progress(quiet),
    )
    rows = [_row(outcome) for outcome in outcomes]
    click.echo(json.dumps(rows, indent=2) if as_json else _table(rows))
    failed = [row for row in rows if row["state"] == "failed"]
    for row in failed:
        click.echo(f"ktiwprobe: {row['run']}: {row['reason']}", err=True)
    if failed:
        context.exit(3)


def _jobs(given: dict[str, Any], config: str | None, pairs: tuple[str, ...], vary: tuple[str, ...]) -> list[Job]:
    """The grid that the command line and the file ask for; the command line wins."""
    from pathlib import Path

    from ktiwprobe.errors import UsageError
    from ktiwprobe.plugins.options import parse_pairs, read_toml
    from ktiwprobe.training.sweep import grid, parse_seeds

    options = read_toml(Path(config)) if config else {}
    wishes = {key: given[key] or options.pop(key, None) for key in given}
    for key in given:
        options.pop(key, None)
    options |= parse_pairs(pairs) | {key: value.split(",") for key, value in parse_pairs(vary).items()}
    options = {key.removeprefix("options."): value for key, value in options.items()}
    if not wishes["models"]:
        raise UsageError("a sweep needs a model: pass --model, for example --model lstm-seq2seq")
    seeds = wishes["seeds"] or "0"
    return grid(
        _listed(wishes["models"]),
        _listed(wishes["tasks"]) or [None],
        _listed(wishes["attention"]) or ["learned"],
        parse_seeds(seeds if isinstance(seeds, str) else ",".join(map(str, _listed(seeds)))),
        steps=wishes["steps"],
        options=options,
    )


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [] if value is None else [value]


def _row(outcome: Outcome) -> dict[str, Any]:
    log = outcome.run.log() if outcome.run.exists else []
    last = log[-1] if log else {}
    best = max((record["accuracy"] for record in log if "accuracy" in record), default=None)
    return {
        "run": outcome.run.name,
        "state": outcome.state,
        "step": last.get("step"),
        "accuracy": last.get("accuracy"),
        "best": best,
        "reason": outcome.reason,
    }


def _table(rows: list[dict[str, Any]]) -> str:
    from ktiwprobe.views.tables import align, cells

    return align(cells([{key: value for key, value in row.items() if key != "reason"} for row in rows]))

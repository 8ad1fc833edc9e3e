"""What several commands share: their common options, and the registry with its warnings."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from pathlib import Path

    from ktiwprobe.files.progress import Progress
    from ktiwprobe.plugins.registry import Registry
    from ktiwprobe.runs.run import Run
    from ktiwprobe.training.engines import Engine

F = TypeVar("F", bound=Callable[..., Any])


def stack(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, in the order in which `--help` lists them."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def _device(_context: click.Context, _option: click.Parameter, name: str) -> str:
    """Look at the name before torch is there to look at it."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise click.BadParameter(f"{name!r} is not auto, cpu or cuda.")
    return name


runs_option = click.option("--runs", metavar="DIR", help="Folder of runs. [default: $KTIWPROBE_RUNS, else runs]")
device_option = click.option(
    "--device", default="auto", show_default=True, metavar="DEVICE", callback=_device, help="auto, cpu or cuda."
)
quiet_option = click.option("--quiet", is_flag=True, help="No progress, only the result.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
split_option = click.option(
    "--split",
    default="validation",
    show_default=True,
    metavar="SPLIT",
    help="validation, test, or train (a sample as large as validation).",
)
view_options = stack(
    click.option(
        "--sentence", default=0, show_default=True, type=click.IntRange(min=0), metavar="N", help="Which one."
    ),
    click.option(
        "--probe", "probes", metavar="NAME,...", help="Which signals. [default: alpha, beta and, with attention, delta]"
    ),
    click.option("--at", metavar="WHEN", help="best, last, or a step. [default: best]"),
    click.option(
        "--site",
        default="mean",
        show_default=True,
        metavar="SITE",
        help="Of a model with several attentions: a name, a number, mean, max, or all.",
    ),
)
metric_option = click.option("--metric", metavar="NAME[:k=v]", help="See `ktiwprobe ls metrics`. [default: agreement]")
task_option = click.option("--task", metavar="TASK", help="Only runs of this task.")
force_option = click.option("--force", is_flag=True, help="Write over a file that exists.")
format_option = click.option(
    "--format",
    "form",
    default="table",
    show_default=True,
    type=click.Choice(["table", "json", "csv", "latex"]),
    metavar="FORMAT",
    help="How to print the result: table, json, csv or latex.",
)


def level_option(usual: str) -> Callable[[F], F]:
    """--level, with what is usual."""
    return click.option(
        "--level",
        default=usual,
        show_default=True,
        type=click.Choice(["token", "word"]),
        metavar="LEVEL",
        help="token, or word: sub-words pooled, special tokens dropped.",
    )


def split_names(names: str | None, registry: Registry) -> tuple[str, ...]:
    """The probes that `--probe` names, each of which there must be."""
    chosen = tuple(name.strip() for name in (names or "").split(",") if name.strip())
    for name in chosen:
        registry.entry("probes", name)
    return chosen


def _data(context: click.Context, _option: click.Parameter, folder: str | None) -> None:
    """Tasks look there while the command runs, here and in the processes of a sweep."""
    if folder is not None:
        from ktiwprobe.corpus.place import data_in

        if not os.path.isdir(folder):  # noqa: PTH112  (pathlib would cost `--help` its speed)
            raise click.BadParameter(f"{folder!r} is not a folder.")
        context.with_resource(data_in(folder))


data_option = click.option(
    "--data",
    metavar="DIR",
    callback=_data,
    expose_value=False,
    help="Folder of data sets. [default: $KTIWPROBE_DATA, else a cache]",
)
signal_options = stack(split_option, runs_option, data_option, device_option, quiet_option)  # of what reads signals


engine_options = stack(  # where many jobs run
    click.option("--engine", metavar="NAME[:k=v]", help="See `ktiwprobe ls engines`. [default: local]"),
    click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Jobs at a time. [default: one a core]"),
    click.option("--ray-address", metavar="ADDRESS", help="A Ray cluster. [default: one started here]"),
    click.option("--cpus", default=1, type=click.IntRange(min=1), metavar="N", help="CPUs of a job, with Ray."),
    click.option("--gpus", default=0.0, metavar="SHARE", help="GPU share of a job, with Ray."),
)


def make_engine(
    name: str | None, workers: int | None, ray_address: str | None, cpus: int, gpus: float, registry: Registry
) -> Engine:
    """The engine that `engine_options` describe."""
    from ktiwprobe.training.engines import make_engine

    return make_engine(name, registry=registry, workers=workers, address=ray_address, cpus=cpus, gpus=gpus)


options_option = stack(
    click.option(
        "-o",
        "--option",
        "pairs",
        multiple=True,
        metavar="KEY=VALUE",
        help="An option of the task, the model or training; `ktiwprobe ls NAME` lists them.",
    ),
    click.option("--config", metavar="FILE", help="A TOML file of options; -o wins over it."),
)


def collect_options(config: str | None, pairs: tuple[str, ...]) -> dict[str, Any]:
    """The options of a command as one mapping."""
    from pathlib import Path

    from ktiwprobe.plugins.options import parse_pairs, read_toml

    return {**(read_toml(Path(config)) if config else {}), **parse_pairs(pairs)}


def load_registry() -> Registry:
    """The registry; plugins that failed are named on standard error."""
    from ktiwprobe.plugins.registry import build_registry

    registry = build_registry()
    for failure in registry.failures:
        click.echo(f"ktiwprobe: warning: {failure}", err=True)
    return registry


def choose_latest(folder: Path, quiet: bool) -> Run:
    """The latest run; if only a file time says so, standard error does too."""
    from ktiwprobe.runs.listing import find_runs, latest_by_file_time, latest_run

    latest = latest_run(folder)
    if not quiet and (sentence := latest_by_file_time(latest, find_runs(folder))):
        click.echo(f"ktiwprobe: {sentence}", err=True)
    return latest


def show_progress(quiet: bool) -> Progress:
    """The progress display of a command; it ends before an error is printed."""
    from ktiwprobe.views.progress import make_progress

    progress = make_progress(quiet)
    click.get_current_context().call_on_close(progress.end)
    return progress

"""ktiwprobe check"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ktiwprobe.cli.common import load_registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ktiwprobe.plugins.registry import Registry
    from ktiwprobe.testing import Outcome

KINDS = ("model", "task", "probe", "metric", "experiment", "engine")


@click.command("check")
@click.argument("name")
@click.option("--kind", type=click.Choice(KINDS), metavar="KIND", help="Such as model, where NAME is of several kinds.")
@click.option("--task", metavar="TASK", help="For a model: the task to try it on. [default: the model's own]")
@click.option("--run", is_flag=True, help="For an experiment: run it too, at small scale in a temporary folder.")
def command(name: str, kind: str | None, task: str | None, run: bool) -> None:
    """Hold what a plugin brings to the contract.

    NAME is of a model, task, probe, metric, experiment or engine. Every failure tells what to change; exit code 1 if
    there is one.

    \b
    ktiwprobe check lstm-seq2seq
    ktiwprobe check kendall
    """
    from ktiwprobe.errors import UnknownNameError, UsageError

    registry = load_registry()
    kinds = [kind] if kind else [k for k in KINDS if name in registry.names(f"{k}s")]
    if not kinds:
        raise UnknownNameError("name", name, [n for k in KINDS for n in registry.names(f"{k}s")])
    if len(kinds) > 1:
        raise UsageError(f"{name!r} is a {' and a '.join(kinds)}: say which with --kind")
    failures = 0
    for outcome in _outcomes(kinds[0], name, registry, task, run):
        failures += outcome.problem is not None
        word, colour = ("FAILED", "red") if outcome.problem else ("skipped" if outcome.note else "ok", "green")
        more = outcome.problem or outcome.note
        click.echo(f"{click.style(f'{word:<8}', fg=colour)}{outcome.name}" + (f": {more}" if more else ""))
    click.echo(f"{kinds[0]} {name}: {'all checks passed' if not failures else f'{failures} failed'}")
    if failures:
        raise SystemExit(1)


def _outcomes(kind: str, name: str, registry: Registry, task: str | None, run: bool) -> Iterator[Outcome]:
    from ktiwprobe import testing

    if kind == "model":
        return testing.model_checks(name, task=task, registry=registry)
    if kind == "experiment":
        return testing.experiment_checks(name, run=run, registry=registry)
    checks: dict[str, Callable[..., Iterator[Outcome]]] = {
        "task": testing.task_checks,
        "probe": testing.probe_checks,
        "metric": testing.metric_checks,
        "engine": testing.engine_checks,
    }
    return checks[kind](name, registry=registry)

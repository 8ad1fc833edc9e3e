"""ktiwprobe check"""

from __future__ import annotations

import click

from ktiwprobe.cli.common import load_registry

KINDS = ("model", "task", "probe", "metric")


@click.command("check")
@click.argument("name")
@click.option(
    "--kind", type=click.Choice(KINDS), metavar="KIND", help="model, task, probe or metric, where NAME is of several."
)
@click.option("--task", metavar="TASK", help="For a model: the task to try it on. [default: the model's own]")
def command(name: str, kind: str | None, task: str | None) -> None:
    """Hold a plugin's model, task, probe or metric to the contract.

    Every failure tells what to change; exit code 1 if there is one.

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
    from ktiwprobe import testing

    if kinds[0] == "model":
        outcomes = testing.model_checks(name, task=task, registry=registry)
    else:
        checks = {"task": testing.task_checks, "probe": testing.probe_checks, "metric": testing.metric_checks}
        outcomes = checks[kinds[0]](name, registry=registry)  # type: ignore[operator]
    failures = 0
    for outcome in outcomes:
        failures += outcome.problem is not None
        word, colour = ("FAILED", "red") if outcome.problem else ("skipped" if outcome.note else "ok", "green")
        more = outcome.problem or outcome.note
        click.echo(f"{click.style(f'{word:<8}', fg=colour)}{outcome.name}" + (f": {more}" if more else ""))
    click.echo(f"{kinds[0]} {name}: {'all checks passed' if not failures else f'{failures} failed'}")
    if failures:
        raise SystemExit(1)

"""ktiwprobe ls"""

from __future__ import annotations

import json
from typing import Any

import click

from ktiwprobe.cli.common import collect_options, json_option, load_registry, options_option, runs_option

Records = list[dict[str, Any]]


@click.command("ls")
@click.argument("what", required=False, metavar="[KIND|NAME]")
@json_option
@runs_option
@options_option
def command(what: str | None, as_json: bool, runs: str | None, pairs: tuple[str, ...], config: str | None) -> None:
    """List what is registered, options, runs, or a model's sites.

    KIND is tasks, models, probes, metrics, experiments, engines, commands, runs or sites; NAME is of a task, model,
    metric, experiment or engine. Options are for sites, and say which model.

    \b
    ktiwprobe ls
    ktiwprobe ls runs
    ktiwprobe ls lstm-seq2seq
    ktiwprobe ls sites -o path=FOLDER
    """
    from ktiwprobe.plugins.registry import KINDS

    if what == "runs":
        rows, keys = _runs(runs), ("name", "attention", "step", "accuracy")
        click.echo(_shown(rows, keys, as_json) or "no runs yet: ktiwprobe train lstm-seq2seq")
        return
    registry = load_registry()
    if what == "sites":
        from ktiwprobe.cli.sites import find_sites

        rows, columns = (
            find_sites(registry, collect_options(config, pairs)),
            ("model", "site", "heads", "looks", "chosen"),
        )
        click.echo(_shown(rows, columns, as_json) or "no registered model lists its sites")
        return
    if pairs or config:
        raise click.UsageError("options go with `ktiwprobe ls sites`")
    if what not in (None, *KINDS):
        from ktiwprobe.cli.options import describe_options

        rows, keys = describe_options(registry, str(what)), ("key", "default", "values", "help")
        click.echo(_shown(rows, keys, as_json) or f"{what} has no options")
        return
    kinds = KINDS if what is None else (what,)
    found = {kind: [_entry(registry.entry(kind, name)) for name in registry.names(kind)] for kind in kinds}
    if as_json:
        click.echo(json.dumps(found if what is None else found[what], indent=2))
        return
    for kind, entries in found.items():
        if what is None:
            click.echo(click.style(kind, bold=True))
        click.echo(_columns([[e[n] for n in ("name", "summary", "plugin")] for e in entries]) or "  none")


def _shown(rows: Records, keys: tuple[str, ...], as_json: bool) -> str:
    """All of the records as JSON, or these keys of them as a table with a head; empty if there is nothing to show."""
    if as_json:
        return json.dumps(rows, indent=2, default=str)
    return _columns([keys, *([row[key] for key in keys] for row in rows)]) if rows else ""


def _columns(rows: list[Any]) -> str:
    """Rows as aligned text, two blanks before each."""
    texts = [[_word(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in texts)
    return "\n".join("  " + line.rstrip() for line in lines)


def _word(value: Any) -> str:
    """A value as a table shows it."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return "-" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _entry(entry: Any) -> dict[str, str]:
    owner = entry.owner
    where = {"plugin": owner.plugin, "distribution": owner.distribution, "version": owner.version}
    return {"name": entry.name, "summary": entry.summary, **where}


def _runs(runs: str | None) -> Records:
    from ktiwprobe.runs.run import find_runs, runs_folder

    rows = []
    for run in find_runs(runs_folder(runs)):
        curve, steps = run.performance(), run.steps()
        rows.append(
            {
                "name": run.name,
                "task": run.record["task"],
                "model": run.record["model"],
                "attention": run.attention,
                "seed": run.seed,
                "step": steps[-1] if steps else 0,
                "accuracy": max(curve.values(), default=None),
                "path": str(run.path),
            }
        )
    return rows

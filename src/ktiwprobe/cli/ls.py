"""ktiwprobe ls"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from ktiwprobe.cli.common import collect_options, json_option, load_registry, options_option, runs_option

if TYPE_CHECKING:
    from ktiwprobe.runs.run import Run

Records = list[dict[str, Any]]
RUN_KEYS = ("name", "task", "model", "attention", "seed", "step", "accuracy", "created", "created_from", "seconds",
            "path", "error")  # fmt: skip


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
        rows = _runs(runs)
        shown = json.dumps(rows, indent=2) if as_json else _runs_as_text(rows)
        click.echo(shown or "no runs yet: ktiwprobe train lstm-seq2seq")
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
    """A record for each run, the latest last; those that cannot be read come after it, with the reason as `error`."""
    from ktiwprobe.errors import RunError
    from ktiwprobe.runs.listing import UnreadableRun, list_runs
    from ktiwprobe.runs.run import runs_folder

    readable, unreadable = list_runs(runs_folder(runs))
    rows = []
    for run in readable:
        try:
            rows.append(_run(run))
        except RunError as error:  # its log cannot be read
            unreadable.append(UnreadableRun(run.path, str(error)))
    nothing = dict.fromkeys(RUN_KEYS)
    return rows + [{**nothing, "name": run.name, "path": str(run.path), "error": run.reason} for run in unreadable]


def _run(run: Run) -> dict[str, Any]:
    curve, steps, record = run.performance(), run.steps(), run.record
    what = run.name, record.task, record.model, record.attention, record.seed
    reached = steps[-1] if steps else 0, max(curve.values(), default=None)
    when = run.created.isoformat(timespec="seconds"), "run.json" if record.created else "file time", run.seconds()
    return dict(zip(RUN_KEYS, (*what, *reached, *when, str(run.path), None), strict=True))


def _runs_as_text(rows: Records) -> str:
    """A table of the runs that can be read, and a sentence about each of the others."""
    readable = [{**row, "created": _time(row)} for row in rows if row["error"] is None]
    table = _shown(readable, ("name", "attention", "step", "accuracy", "created"), as_json=False)
    reasons = (f"  {row['name']} cannot be read: {row['error']}" for row in rows if row["error"])
    return "\n".join(filter(None, (table, *reasons)))


def _time(row: dict[str, Any]) -> str:
    """To the minute, in UTC; marked where it is only a file time."""
    time = row["created"][:16].replace("T", " ")
    return time if row["created_from"] == "run.json" else f"{time} (file time)"

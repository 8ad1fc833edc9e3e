"""ktiwprobe ls"""

from __future__ import annotations

import json
from typing import Any

import click

from ktiwprobe.cli.common import json_option, load_registry, runs_option


@click.command("ls")
@click.argument("kind", required=False, metavar="[tasks|models|probes|metrics|experiments|runs]")
@json_option
@runs_option
def command(kind: str | None, as_json: bool, runs: str | None) -> None:
    """List what there is: everything that is registered, one kind of it, or the runs."""
    from ktiwprobe.errors import UnknownNameError
    from ktiwprobe.registry import KINDS

    if kind not in (None, "runs", *KINDS):
        raise UnknownNameError("kind", str(kind), ("runs", *KINDS))
    if kind == "runs":
        rows = _runs(runs)
        shown = [{**row, "accuracy": _short(row["accuracy"]), "step": str(row["step"])} for row in rows]
        click.echo(
            json.dumps(rows, indent=2) if as_json else columns(shown) or "no runs yet: ktiwprobe train lstm-seq2seq"
        )
        return
    registry = load_registry()
    kinds = KINDS if kind is None else (kind,)
    found = {k: [_entry(registry.entry(k, name)) for name in registry.names(k)] for k in kinds}
    if as_json:
        click.echo(json.dumps(found if kind is None else found[kind], indent=2))
        return
    for k, entries in found.items():
        if kind is None:
            click.echo(click.style(k, bold=True))
        click.echo(columns([{n: e[n] for n in ("name", "summary", "plugin")} for e in entries]) or "  none")


def columns(rows: list[dict[str, Any]]) -> str:
    """Rows as aligned text, two blanks before each."""
    if not rows:
        return ""
    widths = [max(len(str(row[key])) for row in rows) for key in rows[0]]
    lines = ("  ".join(str(row[key]).ljust(w) for key, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join("  " + line.rstrip() for line in lines)


def _entry(entry: Any) -> dict[str, str]:
    owner = entry.owner
    where = {"plugin": owner.plugin, "distribution": owner.distribution, "version": owner.version}
    return {"name": entry.name, "summary": entry.summary, **where}


def _runs(runs: str | None) -> list[dict[str, Any]]:
    from ktiwprobe.run import find_runs, runs_folder

    rows = []
    for run in find_runs(runs_folder(runs)):
        curve, steps = run.performance(), run.steps()
        rows.append(
            {
                "name": run.name,
                "attention": run.attention,
                "step": steps[-1] if steps else 0,
                "accuracy": max(curve.values(), default=None),
                "path": str(run.path),
            }
        )
    return rows


def _short(accuracy: float | None) -> str:
    return "-" if accuracy is None else f"{accuracy:.4f}"

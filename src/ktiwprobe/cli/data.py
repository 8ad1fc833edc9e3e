"""ktiwprobe data"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from ktiwprobe.cli.common import data_option, json_option, load_registry

if TYPE_CHECKING:
    from ktiwprobe.corpus.needs import DataNeeds
    from ktiwprobe.plugins.registry import Registry


@click.command("data")
@click.argument("tasks", nargs=-1, metavar="[TASK]...")
@click.option("--fetch", is_flag=True, help="Bring what is missing from the hub, where there is a network.")
@data_option
@json_option
def command(tasks: tuple[str, ...], fetch: bool, as_json: bool) -> None:
    """Say which data sets are here, and what they hold.

    For each task that reads files: where they are, or what to put where; and our statistics beside the paper's.

    \b
    ktiwprobe data
    ktiwprobe data sst multi30k --data my-data
    """
    registry = load_registry()
    needs = _needs(registry, tasks)
    if fetch:
        for task, need in needs.items():
            if need.folder is None and need.fetch is not None:
                click.echo(f"{task}: fetched to {need.fetch()}", err=True)
        needs = _needs(registry, tuple(needs))
    records = [_record(registry, task, need) for task, need in needs.items()]
    if as_json:
        click.echo(json.dumps(records, indent=2))
        return
    for record in records:
        click.echo("\n".join(_lines(record)))


def _needs(registry: Registry, tasks: tuple[str, ...]) -> dict[str, DataNeeds]:
    """What each task needs; of all tasks those that need something."""
    from ktiwprobe.errors import UsageError
    from ktiwprobe.plugins.capabilities import NeedsData, supports

    found = {}
    for name in tasks or registry.names("tasks"):
        task = registry.load("tasks", name)()
        if supports(task, NeedsData):
            found[name] = task.needs()
        elif tasks:
            raise UsageError(f"task {name!r} needs no data set: it is generated, or told by its options where to read")
    return found


def _record(registry: Registry, task: str, need: DataNeeds) -> dict[str, Any]:
    from ktiwprobe.corpus.needs import statistics
    from ktiwprobe.plugins.options import options_of

    about: dict[str, Any] = {
        "task": task,
        "data set": need.name,
        "folder": None,
        "files": need.files,
        "columns": need.columns,
    }
    if need.folder is not None:
        owner = registry.load("tasks", task)
        corpus = owner().load(options_of(owner)())
        about |= {"folder": str(need.folder), "ours": statistics(corpus), "left out": corpus.notes}
    return {**about, "paper": dict(need.paper), "note": need.note, "can be fetched": need.fetch is not None}


def _lines(record: dict[str, Any]) -> list[str]:
    from ktiwprobe.views.tables import align

    if record["folder"] is None:
        fetched = f"; or `ktiwprobe data {record['task']} --fetch`" if record["can be fetched"] else ""
        files, columns = ", ".join(record["files"]), ", ".join(record["columns"])
        return [f"{record['task']}: not here: put {files} (columns {columns}) into DIR/{record['data set']}, and pass "
                f"--data DIR{fetched}"]  # fmt: skip
    ours, paper = record["ours"], record["paper"]
    rows = [["", *ours], ["ours", *(f"{v:.0f}" for v in ours.values())]]
    if paper:
        rows.append(["paper", *(f"{paper[k]:.0f}" if k in paper else "-" for k in ours)])
    notes = [*([record["note"]] if record["note"] else []), *record["left out"]]
    table = [f"  {line}" for line in align(rows).splitlines()]
    return [f"{record['task']}: {record['folder']}", *table, *(f"  {note}" for note in notes)]

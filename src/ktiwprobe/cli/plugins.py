"""ktiwprobe plugins"""

from __future__ import annotations

import json

import click

from ktiwprobe.cli.common import json_option


@click.command("plugins")
@json_option
def command(as_json: bool) -> None:
    """List the plugins: what each brings, and which failed.

    A plugin that fails is named on standard error with the cause, and the others go on.
    """
    from ktiwprobe.plugins.registry import KINDS, build_registry

    registry = build_registry()
    rows = []
    for owner in registry.owners.values():
        brings = {k: [n for n in registry.names(k) if registry.entry(k, n).owner == owner] for k in KINDS}
        rows.append(
            {
                "plugin": owner.plugin,
                "distribution": owner.distribution,
                "version": owner.version,
                "brings": {kind: names for kind, names in brings.items() if names},
            }
        )
    failed = [
        {"plugin": f.owner.plugin, "distribution": f.owner.distribution, "version": f.owner.version, "error": f.cause}
        for f in registry.failures
    ]
    if as_json:
        click.echo(json.dumps({"plugins": rows, "failed": failed}, indent=2))
        return
    for row in rows:
        click.echo(f"{row['plugin']} ({row['distribution']} {row['version']})")
        for kind, names in row["brings"].items():  # type: ignore[attr-defined]
            click.echo(f"  {kind}: {', '.join(names)}")
    for failure in registry.failures:
        click.echo(f"failed: {failure}", err=True)

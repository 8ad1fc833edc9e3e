"""The command line: a file per command, each imported when it is used; expected errors become one sentence, here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from ktiwprobe.errors import KtiwprobeError, suggest

COMMANDS = {
    "train": "train",
    "extract": "extract",
    "agree": "agree",
    "ls": "ls",
    "plugins": "plugins",
    "rm": "rm",
    "check": "check",
    "new-plugin": "new_plugin",
    "doctor": "doctor",
}


class _Sentence(click.ClickException):
    """An expected error as the user sees it."""

    def __init__(self, error: KtiwprobeError) -> None:
        super().__init__(str(error))
        self.exit_code = error.exit_code  # type: ignore[misc]  # Click reads it from the instance

    def show(self, file: Any = None) -> None:
        click.echo(f"ktiwprobe: {self.format_message()}", err=True, file=file)


class _Commands(click.Group):
    """Commands that are imported when first asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return import_module(f"ktiwprobe.cli.{COMMANDS[cmd_name]}").command  # type: ignore[no-any-return]

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            raise click.UsageError(f"unknown command {name!r}{suggest(name, COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KtiwprobeError as error:
            raise _Sentence(error) from error
        except KeyboardInterrupt:
            click.echo("ktiwprobe: stopped", err=True)
            ctx.exit(130)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="ktiwprobe", message="%(prog)s %(version)s")
def main() -> None:
    """Probe attention models: what does a model know, when did it learn it, and does its attention follow?

    Begin with `ktiwprobe train lstm-seq2seq`, then `ktiwprobe agree --u alpha --v beta`.
    """

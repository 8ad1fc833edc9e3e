"""The command line: a file per command, each imported when it is used; expected errors become one sentence, here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import click

from ktiwprobe.errors import KtiwprobeError, UnknownNameError

COMMANDS = {
    "train": "train",
    "extract": "extract",
    "agree": "agree",
    "align": "align",
    "show": "show",
    "plot": "plot",
    "report": "report",
    "reproduce": "reproduce",
    "sweep": "sweep",
    "dictionary": "dictionary",
    "data": "data",
    "ls": "ls",
    "plugins": "plugins",
    "rm": "rm",
    "check": "check",
    "new-plugin": "new_plugin",
    "doctor": "doctor",
}


class _Sentence(click.ClickException):
    """An expected error as the user sees it: one line."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(" ".join(text.split()))
        self.exit_code = exit_code  # type: ignore[misc]  # Click reads it from the instance

    def show(self, file: Any = None) -> None:
        click.echo(f"ktiwprobe: {self.format_message()}", err=True, file=file)


@contextlib.contextmanager
def _sentences() -> Iterator[None]:
    """Say every expected error, Click's own included, in one sentence."""
    try:
        yield
    except KtiwprobeError as error:
        raise _Sentence(str(error), error.exit_code) from error
    except click.UsageError as error:
        text = error.format_message().strip().rstrip(".")
        where = error.ctx.command_path if error.ctx else "ktiwprobe"
        raise _Sentence(f"{text[:1].lower()}{text[1:]}; see `{where} --help`", error.exit_code) from error
    except (KeyboardInterrupt, click.Abort) as error:
        raise _Sentence("stopped", 130) from error


class _Commands(click.Group):
    """Commands that are imported when first asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return import_module(f"ktiwprobe.cli.{COMMANDS[cmd_name]}").command  # type: ignore[no-any-return]

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            raise UnknownNameError("command", name, COMMANDS)
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _sentences():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _sentences():
            return super().invoke(ctx)


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="ktiwprobe", message="ktiwprobe %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Probe attention models: what does a model know, when did it learn it, and does its attention follow?

    Begin with these two, in any folder:

    \b
    ktiwprobe train lstm-seq2seq
    ktiwprobe agree --u alpha --v beta
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())

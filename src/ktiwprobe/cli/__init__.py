"""The command line: a file per command, each imported when it is used; expected errors become one sentence, here.

Which commands there are: those of the core plugin are known without importing anything else, so `ktiwprobe --help` and
`ktiwprobe train` import neither the other commands nor any plugin. Only if entry points of another distribution exist
(the metadata says so) are hook modules imported, to list their commands or to look up a name that is not built in;
then a plugin that fails is left out of `--help` in silence, as `ktiwprobe plugins` reports it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ktiwprobe.errors import KtiwprobeError, PluginError, UnknownNameError

if TYPE_CHECKING:
    from ktiwprobe.plugins.registry import Entry


class _Sentence(click.ClickException):
    """An expected error as the user sees it: one line."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(" ".join(text.split()))
        self.exit_code = exit_code  # type: ignore[misc]  # Click reads it from the instance

    def show(self, file: Any = None) -> None:
        click.echo(f"ktiwprobe: {self.format_message()}", err=True, file=file)


@contextlib.contextmanager
def _sentences(group: _Commands, ctx: click.Context | None = None) -> Iterator[None]:
    """Say every expected error, Click's own included, in one sentence; a hint in it names the flag of the command."""
    try:
        yield
    except KtiwprobeError as error:
        raise _Sentence(f"{error}{_advice(error, group, ctx)}", error.exit_code) from error
    except click.UsageError as error:
        text = error.format_message().strip().rstrip(".")
        where = error.ctx.command_path if error.ctx else "ktiwprobe"
        raise _Sentence(f"{text[:1].lower()}{text[1:]}; see `{where} --help`", error.exit_code) from error
    except (KeyboardInterrupt, click.Abort) as error:
        raise _Sentence("stopped", 130) from error


def _advice(error: KtiwprobeError, group: _Commands, ctx: click.Context | None) -> str:
    if not error.hint or ctx is None or not ctx.invoked_subcommand:
        return ""
    from ktiwprobe.cli.hints import advice

    return advice(error.hint, group.get_command(ctx, ctx.invoked_subcommand))


@functools.cache
def built_in() -> dict[str, Entry]:
    """The commands of ktiwprobe itself, in the order of `--help`."""
    from ktiwprobe.plugins.registry import built_in_commands

    return built_in_commands()


def _all() -> dict[str, Entry]:
    """The commands of ktiwprobe itself, then those of plugins."""
    from ktiwprobe.plugins.registry import build_registry, has_third_party

    return {**built_in(), **build_registry().entries["commands"]} if has_third_party() else built_in()


class _Commands(click.Group):
    """Commands that are imported when first asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_all())

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in _all().items()])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = built_in().get(cmd_name) or _all().get(cmd_name)
        try:
            command = entry and entry.load()
        except PluginError:
            if ctx.resilient_parsing:  # the shell asks what there is
                return None
            raise
        if command is not None and not isinstance(command, click.Command):
            raise PluginError(f"command {cmd_name!r} is not a click.Command: decorate it with @click.command")
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0]
        if name not in built_in() and not name.startswith("-") and not ctx.resilient_parsing and name not in _all():
            from ktiwprobe.cli.common import load_registry

            load_registry()  # warns of plugins that failed: one of them may have the command
            raise UnknownNameError("command", name, _all())
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        from ktiwprobe.training.threads import spin_briefly

        spin_briefly()
        with _sentences(self):
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _sentences(self, ctx):
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

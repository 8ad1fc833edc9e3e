"""Which flag would help after an error: the library names an argument (`KtiwprobeError.hint`), the command a flag."""

from __future__ import annotations

import click

CALLED = {"address": "ray_address", "options": "pairs"}  # arguments that the command line gives another name
ELSEWHERE = {"resume": "`ktiwprobe train` has --resume"}  # flags that help although they are another command's


def advice(hint: str, command: click.Command | None) -> str:
    """The end of a sentence for the arguments in `hint` that the command has: "; add --force or pass --out FILE"."""
    flags = [flag for argument in hint.split(" or ") if (flag := _flag(argument, command))]
    return f"; {' or '.join(flags)}" if flags else ""


def _flag(argument: str, command: click.Command | None) -> str:
    name, equals, value = argument.partition("=")
    for option in command.params if command else ():
        if isinstance(option, click.Option) and option.name == CALLED.get(name, name):
            flag = max(option.opts, key=len)
            if value in ("True", "None"):
                return f"add {flag}" if value == "True" else f"leave {flag} out"
            return f"pass {flag} {value if equals else option.metavar or ''}".rstrip()
    return ELSEWHERE.get(name, "")

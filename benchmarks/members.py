"""Write the tables of optional members in docs/plugins.md from capabilities.py: python -m benchmarks.members"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from ktiwprobe.plugins import capabilities
from ktiwprobe.plugins.capabilities import Value, members

PAGE = Path(__file__).parents[1] / "docs" / "plugins.md"
TABLES = {
    "models": capabilities.OF_MODELS,
    "torch modules": capabilities.OF_TORCH_MODULES,
    "recorded models": capabilities.OF_RECORDED_MODELS,
    "tasks": capabilities.OF_TASKS,
    "probes": capabilities.OF_PROBES,
    "metrics": capabilities.OF_METRICS,
    "experiments": capabilities.OF_EXPERIMENTS,
}


def page_of(text: str) -> str:
    """The page with every table between its two marks as it should be."""
    for name, listed in TABLES.items():
        start, end = f"<!-- members of {name}: written by `make members` -->\n", "<!-- end -->\n"
        table = "".join(row_of(member) for member in listed)
        block = f"{start}\n| member | for |\n| --- | --- |\n{table}\n{end}"
        text, count = re.subn(re.escape(start) + ".*?" + re.escape(end), lambda _, new=block: new, text, flags=re.S)
        if count != 1:
            raise SystemExit(f"{PAGE} has the mark {start.strip()!r} {count} times, not once")
    return text


def row_of(member: object) -> str:
    """A line of a table: what a plugin's author writes, and what for."""
    if isinstance(member, Value):
        shown, meaning = [attribute(member)], member.meaning
    else:
        shown, meaning = [signature(member, name) for name in members(member)], inspect.getdoc(member) or ""
    code = ", ".join(f"`{text}`" for text in shown).replace("|", r"\|")
    return f"| {code} | {' '.join(meaning.split())} |\n"


def attribute(value: Value[object]) -> str:
    """`name: type = default`, without a default that only means that there is none."""
    (here,) = [name for name, other in vars(capabilities).items() if other is value]
    kind = capabilities.__annotations__[here].removeprefix("Value[").removesuffix("]")
    return f"{value.name}: {kind.removesuffix(' | None')}" + ("" if value.default is None else f" = {value.default!r}")


def signature(protocol: type, name: str) -> str:
    """A method as one calls it."""
    owner = next(cls for cls in protocol.__mro__ if name in vars(cls))
    method = vars(owner)[name]
    is_class_method = isinstance(method, classmethod)
    whole = inspect.signature(method.__func__ if is_class_method else method)
    called = whole.replace(parameters=list(whole.parameters.values())[1:])
    return ("@classmethod " if is_class_method else "") + name + str(called).replace("'", "")


if __name__ == "__main__":
    PAGE.write_text(page_of(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

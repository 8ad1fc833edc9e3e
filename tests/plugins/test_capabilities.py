"""Capabilities: what the core asks of a plugin beyond the protocols, asked in one place and documented from there."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from benchmarks import members as tables

import tiny
from ktiwprobe import AttentionModel, Corpus, Model, Task
from ktiwprobe.models.attend import Under, uniform
from ktiwprobe.plugins import capabilities
from ktiwprobe.plugins.capabilities import (
    FitsItself,
    HasParameters,
    SupportsBeta,
    SupportsEncode,
    Trains,
    Value,
    bounds_of,
    default_task,
    label_of,
    members,
    missing,
    sites_of,
    supports,
    version_of,
)
from ktiwprobe.plugins.protocols import Experiment

ROOT = Path(__file__).parents[2]
PLUGIN_OBJECTS = {"model", "model_class", "task", "task_class", "owner", "probe", "function", "metric", "rule",
                  "experiment"}  # fmt: skip
OF_THE_KIT = {"zero_grad", "named_parameters"}  # of a torch module, in a check that is for torch modules


class Fast:
    """A model class with one optional method and one optional value."""

    sites: ClassVar[list[str]] = ["h0", "h1"]

    def beta(self, batch: object) -> str:
        return "fast"


def declared() -> set[str]:
    """The names of all members, required or optional."""
    every = [*vars(capabilities).values(), Model, AttentionModel, Task, Experiment]
    protocols = [one for one in every if isinstance(one, type) and getattr(one, "_is_protocol", False)]
    values = {value.name for value in every if isinstance(value, Value)}
    return values.union(*(members(protocol) for protocol in protocols))


def sources(word: str, *roots: str) -> Iterator[tuple[str, ast.AST]]:
    """Every node of the files below `roots` that contain `word`, and where it is."""
    for path in sorted(path for root in roots for path in (ROOT / root).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if word in text else ():
            yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}", node


def last_name(node: ast.AST) -> str | None:
    """`c` of `a.b.c`."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)


@pytest.mark.parametrize("wrap", [lambda: Fast, Fast, lambda: Under(Fast(), uniform)])
def test_classes_instances_and_wrappers_are_asked_alike(wrap: Any) -> None:
    """A member counts wherever it can be reached, also through a wrapper that delegates by __getattr__."""
    thing = wrap()
    assert supports(thing, SupportsBeta)
    assert not supports(thing, FitsItself)
    assert sites_of(thing) == ("h0", "h1")


def test_a_capability_needs_all_of_its_members() -> None:
    """One of two members is not enough, and what is missing is listed in the order in which training asks for it."""

    class Half:
        def encode(self, batch: object) -> None: ...

    assert not supports(Half(), SupportsEncode)
    assert missing(Half(), SupportsEncode) == ["trace"]
    assert missing(Half(), Trains) == ["loss", "parameters", "optimiser"]


def test_the_protocols_can_be_checked_at_runtime(tiny_corpus: Corpus) -> None:
    """They work with isinstance too, for plugin authors who prefer it."""
    model = tiny.TinyModel.build(tiny_corpus, tiny.TinyModel.Options())
    assert isinstance(model, HasParameters)
    assert not isinstance(model, FitsItself)


def test_values_have_defaults() -> None:
    """A thing without the attribute has its default, and no capability is claimed for it."""
    assert (sites_of(None), version_of(None), default_task(None)) == ((), 1, None)
    assert (bounds_of(len), label_of(len)) == (None, None)


def test_options_and_hints_are_not_required_of_a_task_or_a_model() -> None:
    """The protocols name what is required and nothing that has a default."""
    assert set(members(Task)) == {"load"}
    assert set(members(Model)) == {"build", "state", "load_state", "evaluate"}


def test_nothing_else_asks_for_a_plugins_members() -> None:
    """hasattr and getattr by name, on what a plugin brings or for a member of it, occur in capabilities.py only."""
    names, offences = declared(), []
    for place, node in sources("attr(", "src/ktiwprobe", "plugins"):
        if not (isinstance(node, ast.Call) and last_name(node.func) in ("hasattr", "getattr")):
            continue
        thing, name = node.args[:2]
        if isinstance(name, ast.Constant) and (name.value in names or last_name(thing) in PLUGIN_OBJECTS):
            offences.append(f"{place}: {ast.unparse(node)}")
    assert [place for place in offences if "capabilities.py" not in place] == []


def test_every_member_of_a_model_that_the_core_uses_is_declared() -> None:
    """An attribute read of something called `model` is in a protocol, so that the documentation has it too."""
    names = declared() | OF_THE_KIT
    used = {
        node.attr: place
        for place, node in sources("model.", "src/ktiwprobe")
        if isinstance(node, ast.Attribute) and last_name(node.value) in ("model", "model_class")
    }
    assert {"trace", "beta", "list_sites"} <= set(used)
    assert {name: place for name, place in used.items() if not name.startswith("_") and name not in names} == {}


def test_every_capability_is_in_a_table() -> None:
    """What capabilities.py declares is documented: each member is listed for at least one kind of thing."""
    listed = {one for of_kind in tables.TABLES.values() for one in of_kind if isinstance(one, type)}
    values = {one.name for of_kind in tables.TABLES.values() for one in of_kind if isinstance(one, Value)}
    names = values.union(*(members(protocol) for protocol in listed))
    assert declared() - names == {"build", "load_state", "load", "run", "claim", "seeds", "small_seeds"}


def test_a_table_shows_how_a_member_is_written() -> None:
    """Signatures without self, types and defaults of values, and no bare | that would end a cell."""
    assert tables.row_of(capabilities.SupportsDelta).startswith(
        r"| `delta(batch: Batch, *, attend: Tensor \| None = None) -> Tensor` | The derivative "
    )
    assert tables.row_of(capabilities.ListsSites).startswith("| `@classmethod list_sites(options: Any) -> ")
    assert tables.row_of(capabilities.version_of).startswith("| `version: int = 1` | ")
    assert tables.row_of(capabilities.bounds_of).startswith("| `bounds: tuple[float, float]` | ")


def test_a_page_without_its_marks_is_refused() -> None:
    """The tables cannot be lost in silence: a mark that is gone ends `make members` with its name."""
    with pytest.raises(SystemExit, match="members of models"):
        tables.page_of("# Writing a plugin\n")


def test_capabilities_import_no_torch() -> None:
    """Listing what is registered asks for members, and must stay fast."""
    code = "import sys, ktiwprobe.plugins.capabilities as c; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

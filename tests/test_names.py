"""The core decides nothing by the name of a probe, a model, a task or a run kind: what is data stays data."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from ktiwprobe import build_registry
from ktiwprobe.plugins.registry import HOME, KINDS

CORE = Path(__file__).parents[1] / "src" / "ktiwprobe"
ATTENTIONS = {"learned", "uniform", "frozen-beta"}  # the values of --attention; one of them is an experiment's name too
# Where a registered name may stand in quotes, and why.
EXEMPT = {
    "plugins/builtin.py": "registers the names",
    "probes/definitions.py": "defines the probes: their names in its own error messages",
}


def registered() -> set[str]:
    registry = build_registry()
    entries = [registry.entry(kind, name) for kind in KINDS for name in registry.names(kind)]
    return {entry.name for entry in entries if entry.owner.distribution == HOME} - ATTENTIONS


def quoted(path: Path) -> Iterator[tuple[str, int]]:
    """String constants that are not documentation."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value, node.lineno


def test_the_core_quotes_no_registered_name() -> None:
    """Help examples, the template and --attention's values are exempt."""
    names = registered()
    assert {"beta", "uf", "px", "lstm-seq2seq", "toy-translation", "agreement"} <= names
    found = [
        f"{path.relative_to(CORE)}:{line} {text!r}"
        for path in sorted(CORE.rglob("*.py"))
        if path.relative_to(CORE).as_posix() not in EXEMPT
        for text, line in quoted(path)
        if text in names
    ]
    assert found == []

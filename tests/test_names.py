"""The core decides nothing by the name of a probe, a model, a task or a run kind: what is data stays data."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from ktiwprobe import build_registry
from ktiwprobe.plugins.registry import HOME, KINDS

CORE = Path(__file__).parents[1] / "src" / "ktiwprobe"
ATTENTIONS = {"learned", "uniform", "frozen-beta"}  # the values of --attention; one of them is an experiment's name too
# Words that are registered names as well, and what else they mean.
HOMONYMS = {
    "aer": "a measure of alignments",
    "count-table": "a figure",
    "local": "an address of Ray",
    "log": "a schedule, and a scale of axes",
    "table": "a format of output",
}
# Where a registered name may stand in quotes, and why.
EXEMPT = {
    "plugins/builtin.py": "registers the names",
    "probes/definitions.py": "defines the probes: their names in its own error messages",
    "probes/optimal.py": "the same",
    "probes/guards.py": "a field of Trace",
    "compare/metrics.py": "defines the metrics",
    "aliases.py": "names modules of version 0.1",
    "models/attend.py": "members of models: beta, delta",
    "testing/case.py": "members of models, and what they return, in messages",
    "testing/models.py": "the same",
    "views/plots/courses.py": "the usual label of an axis",
    "views/page/collect.py": "a field of the page's data",
}


def registered() -> set[str]:
    registry = build_registry()
    kinds = [kind for kind in KINDS if kind != "commands"]  # a command's name is an ordinary word
    entries = [registry.entry(kind, name) for kind in kinds for name in registry.names(kind)]
    names = {entry.name for entry in entries if entry.owner.distribution == HOME}
    return names - ATTENTIONS - HOMONYMS.keys()


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
    """Help examples, the template and the values of --attention are exempt."""
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


def test_the_exemptions_are_needed() -> None:
    """A file or word that no longer needs its exemption loses it."""
    names = registered()
    assert all(any(text in names for text, _ in quoted(CORE / path)) for path in EXEMPT)
    registry = build_registry()
    everything = {name for kind in KINDS for name in registry.names(kind)}
    assert everything >= HOMONYMS.keys()

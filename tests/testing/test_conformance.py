"""Everything that is registered holds to the contract: the kit over the whole registry."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ktiwprobe import build_registry
from ktiwprobe.plugins.options import fill, options_of
from ktiwprobe.plugins.registry import Registry
from ktiwprobe.testing import check_metric, check_model, check_probe, check_task

REGISTRY = build_registry()
SMALL = {  # what makes a model quick to check, where its defaults are the paper's
    "lstm-seq2seq": {"hidden": 16},
    "lstm-classifier": {"hidden": 16, "embedding": 12},
}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("lstm-seq2seq", {"cell": "gru", "activation": "tanh", "embeddings": "separate"}),
    ("lstm-seq2seq", {"heads": 3, "combine": "sum"}),
    ("lstm-seq2seq", {"heads": 2, "cell": "gru", "output": "linear"}),
    ("lstm-seq2seq", {"output": "linear", "dropout": 0.0}),
    ("lstm-seq2seq", {"bidirectional": False, "layers": 1, "dropout": 0.0, "activation": "tanh"}),
    ("lstm-seq2seq", {"bidirectional": False, "layers": 3, "heads": 2}),
]


@pytest.fixture(scope="module")
def quick() -> Registry:
    """The same registry, its tasks as small as their options allow: five sentences are tried."""
    registry = build_registry()
    for name, entry in registry.entries["tasks"].items():
        task = entry.load()
        options = options_of(task)()
        sizes = {f.name: 40 for f in fields(options) if f.name in ("train", "validation", "test")}
        small = type(task.__name__, (task,), {"Options": staticmethod(partial(replace, options, **sizes))})
        registry.entries["tasks"][name] = replace(entry, target=small)
    return registry


def options_for(name: str, more: dict[str, Any] | None = None) -> Any:
    """Small options of a model."""
    return fill(options_of(REGISTRY.load("models", name)), {**SMALL.get(name, {}), **(more or {})}, space="model")


def test_every_plugin_loads() -> None:
    """Nothing that is installed here fails."""
    assert REGISTRY.failures == []
    assert set(SMALL) <= set(REGISTRY.names("models"))


@pytest.mark.parametrize("name", REGISTRY.names("models"))
def test_every_model_conforms(name: str, quick: Registry) -> None:
    """At a small size, on its own task."""
    check_model(name, options=options_for(name), registry=quick)


@pytest.mark.parametrize(("name", "more"), VARIANTS)
def test_every_kind_of_model_conforms(name: str, more: dict[str, Any], quick: Registry) -> None:
    """Cells, heads, outputs, directions and embeddings, in combinations."""
    check_model(name, options=options_for(name, more), registry=quick)


OWN = {"parallel-text": {"source": "multi30k/train.tsv.xz", "source_column": "en", "target_column": "de"},
       "labelled-text": {"path": "sms/train.tsv"},
       "hf-dataset": {"name": "20ng-plain", "text": "text", "label": "label"}}  # fmt: skip


@pytest.mark.parametrize("name", REGISTRY.names("tasks"))
def test_every_task_conforms(name: str, data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its default options, where it can have any."""
    monkeypatch.chdir(data_folder)
    task = REGISTRY.load("tasks", name)
    check_task(name, options=options_of(task)(**OWN.get(name, {})), registry=REGISTRY)


@pytest.mark.parametrize("name", REGISTRY.names("probes"))
@pytest.mark.parametrize("model", ["lstm-seq2seq", "lstm-classifier"])
def test_every_probe_conforms(name: str, model: str, quick: Registry) -> None:
    """On the paper's two models, made small."""
    check_probe(name, model=model, options=options_for(model), registry=quick)


def test_probes_conform_on_several_sites(quick: Registry) -> None:
    """On a model of two heads."""
    for name in REGISTRY.names("probes"):
        check_probe(name, model="lstm-seq2seq", options=options_for("lstm-seq2seq", {"heads": 2}), registry=quick)


@pytest.mark.parametrize("name", [*REGISTRY.names("metrics"), "top-k:k=1", "agreement:share=0.5"])
def test_every_metric_conforms(name: str) -> None:
    """With its default options, and with others."""
    check_metric(name, registry=REGISTRY)

"""Checks before a model's first number: long sentences, several ways to one number, and what is too large at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import mutants
import tiny
from ktiwprobe import Batch, Corpus, Split, build_registry, extract, probe, train
from ktiwprobe.errors import ContractError
from ktiwprobe.models.attend import Under, uniform
from ktiwprobe.plugins.registry import Registry
from ktiwprobe.probes import checks, guards
from ktiwprobe.probes.checks import check_before
from ktiwprobe.probes.definitions import beta, delta


def sentences(*lengths: int) -> Split:
    """Sentences of random words, as long in both languages."""
    rng = np.random.default_rng(0)
    xs, ys = ([rng.integers(4, 12, L).tolist() for L in lengths] for _ in "xy")
    return Split.of(xs, ys)


class LongTask(tiny.TinyTask):
    """Sentences of 4 to 28 words."""

    def load(self, options: Any) -> Corpus:
        parts = {"train": sentences(*range(4, 28)), "validation": sentences(*range(5, 29))}
        return Corpus("tiny-task", "translation", parts, tiny.SOURCE, tiny.TARGET)


def registry_of(model: type) -> Registry:
    """The tiny registry with that model, on long sentences."""
    registry = build_registry(extra={"tiny": tiny})
    for kind, name, target in (("models", "tiny-model", model), ("tasks", "tiny-task", LongTask)):
        registry.entries[kind][name] = replace(registry.entries[kind][name], target=target)
    return registry


def build(model: type, **changes: Any) -> Any:
    torch.manual_seed(0)
    made = model(len(tiny.SOURCE), len(tiny.TARGET), 6).eval()
    made.place = torch.nn.Embedding(changes.pop("places", 32), 6)
    return made


REFUSED = {
    mutants.LongWindow2: ("beta", "ignores attend in output 13"),
    mutants.LongIgnores: ("beta", "ignores attend in output"),
    mutants.EncodeIgnores: ("beta", r"state=encode\(batch\)\) of EncodeIgnores differs by"),
    mutants.OnlyFourDims: ("beta", "does not force all of its sites when attend has three dimensions"),
    mutants.PrevRow: ("beta", "does not use row"),
    mutants.StopsGradient: ("delta", "delta of StopsGradient is not d log p"),
    mutants.SecondTable: ("delta", "does not scale its input embeddings, or not them alone"),
}


@pytest.mark.parametrize("model", REFUSED, ids=lambda model: model.__name__)
def test_an_extraction_refuses_it_too(tmp_path: Path, model: type) -> None:
    """Not only the kit: whoever never runs that gets an error for a wrong number."""
    registry, (name, sentence) = registry_of(model), REFUSED[model]
    run = train("tiny-model", steps=5, runs=tmp_path, registry=registry, device="cpu")
    with pytest.raises(ContractError, match=sentence):
        extract(run, name, registry=registry)


@pytest.mark.parametrize("model", [mutants.LossIgnoresAttend, mutants.EvalIgnoresAttend])
def test_a_uniform_run_that_was_not_trained_so_is_refused(tmp_path: Path, model: type) -> None:
    """Its signals would be of a model that learned under its own attention."""
    registry = registry_of(model)
    run = train("tiny-model", attention="uniform", steps=5, runs=tmp_path, registry=registry, device="cpu")
    with pytest.raises(ContractError, match=r"\(batch, attend=\) of \w+ does not run under attend"):
        extract(run, "alpha", registry=registry)


def test_longer_batches_are_tried_too() -> None:
    """In memory: the first batch is short, and what a later one shows is an error."""
    split = sentences(5, 6, 27, 28)
    batches = [split.batch(np.array(rows)) for rows in ([0, 1], [2, 3])]
    assert len(probe(build(mutants.LongWindow2), batches[:1])) == 2
    with pytest.raises(ContractError, match="ignores attend in output 13"):
        probe(build(mutants.LongWindow2), batches)


@pytest.mark.parametrize("length", [150])
def test_own_weights_are_looked_for_in_long_texts(length: int) -> None:
    """Tensors of several million entries too."""

    class Heads(mutants.HeadHalf):
        heads = 4

        def used(self, own: Tensor, attend: Tensor, batch: Batch) -> Tensor:
            return torch.cat([attend[:, :3], (own[:, 3:] + attend[:, 3:]) / 2], 1)

    batch = sentences(length, length).batch(np.arange(2))
    with pytest.raises(ContractError, match="still uses its own weights where attend is given at site h3"):
        check_before(build(Heads, places=256), batch, beta)


def test_passes_too_large_at_once_are_run_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same verdicts, judged by log-odds."""
    monkeypatch.setattr(guards, "LARGEST", 1)
    batch = sentences(6, 7).batch(np.arange(2))
    for honest in (mutants.Right, mutants.TwoHeads):
        assert check_before(build(honest), batch, beta)
    for wrong in (mutants.Half, mutants.Ignores, mutants.HeadHalf, mutants.ReportsOwn):
        with pytest.raises(ContractError, match=mutants.WRONG_MODELS[wrong]):
            check_before(build(wrong), batch, beta)


def test_a_kink_is_not_a_wrong_gradient() -> None:
    """A model of kinks passes in every direction that is tried."""

    class Kinked(mutants.Right):
        def states(self, e: Tensor) -> Tensor:
            return torch.relu(super().states(e)) + (e - e.round(decimals=1)).abs()

    for seed in range(5):
        torch.manual_seed(seed)
        model = Kinked(len(tiny.SOURCE), len(tiny.TARGET), 6).eval()
        checks.check_slope(model, sentences(5, 6).batch(np.arange(2)))


def test_the_gate_of_a_uniform_run_is_tried_as_it_is_probed() -> None:
    """Under the attention that it was trained with."""
    batch = sentences(6, 7).batch(np.arange(2))
    assert check_before(build(mutants.GateUnderAttend), batch, delta)
    with pytest.raises(ContractError, match="does not scale its input embeddings"):
        check_before(Under(build(mutants.GateUnderAttend), uniform), batch, delta)

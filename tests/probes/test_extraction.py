"""Extraction: what is stored, when it is made anew, and what a plugin may not return."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import ktiwprobe
import mutants
import tiny
from ktiwprobe import Batch, Corpus, Run, Split, Trace, agree, choose, extract, probe, train
from ktiwprobe.errors import (
    ContractError,
    CorpusError,
    KtiwprobeError,
    PluginError,
    RunError,
    SpecError,
    UnknownNameError,
    UsageError,
)
from ktiwprobe.files.progress import Progress
from ktiwprobe.plugins.quantities import quantity
from ktiwprobe.plugins.registry import Registry, build_registry
from ktiwprobe.probes import definitions as probes
from ktiwprobe.probes.definitions import beta_by_definition, delta_by_definition
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.probes.performance import Performance
from ktiwprobe.runs import sources
from ktiwprobe.signals.signal import load_signal
from tiny import TinyModel


def registry_with(kind: str, name: str, target: object) -> Registry:
    """The tiny registry with one name meaning something else."""
    registry = build_registry(extra={"tiny": tiny})
    entries = registry.entries[kind]
    entries[name] = replace(entries.get(name, next(iter(entries.values()))), name=name, target=target)
    return registry


def make_model(corpus: Corpus, kind: type[TinyModel] = TinyModel, **options: Any) -> TinyModel:
    torch.manual_seed(0)
    return kind.build(corpus, TinyModel.Options(**options)).eval()


def everything(corpus: Corpus, split: str = "validation") -> Batch:
    part = corpus.split(split)
    return part.batch(np.arange(len(part)))


class CachedInAList(mutants.CachedBuffer):
    """The same, under another name."""

    kept_too: list[Tensor] | None = None

    def context(self, used: Tensor, h: Tensor, batch: Batch) -> Tensor:
        if self.training:
            return mutants.Right.context(self, used, h, batch)
        self.kept_too = self.kept_too or [self.value[0].weight.detach().clone()]
        return torch.nn.functional.linear(used[:, 0] @ h, self.kept_too[0], self.value[0].bias)


# what is stored


def test_a_stored_signal_is_read_not_made(tiny_run: Run, tiny_registry: Registry) -> None:
    """The second call gives the same numbers and does not write."""
    first = extract(tiny_run, "beta", registry=tiny_registry)
    path = tiny_run.signal_path("validation", tiny_run.best_step(), "beta")
    written = path.stat().st_mtime_ns
    second = extract(tiny_run, "beta", registry=tiny_registry)
    assert path.stat().st_mtime_ns == written
    np.testing.assert_array_equal(first.values, second.values)
    assert first.meta == second.meta


def _new_weights(run: Run, step: int, path: Path) -> None:
    run.save_checkpoint(step, {name: value + 1 for name, value in run.load_checkpoint(step).items()})


def _cut_short(run: Run, step: int, path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def _flipped(run: Run, step: int, path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 16
    path.write_bytes(content)


def _of_another_step(run: Run, step: int, path: Path) -> None:
    extract(run, "beta", at=0, registry=build_registry(extra={"tiny": tiny}))
    shutil.copy(run.signal_path("validation", 0, "beta"), path)


def _empty(run: Run, step: int, path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("change", [_new_weights, _cut_short, _flipped, _of_another_step, _empty])
def test_a_stale_or_damaged_signal_is_made_anew(
    tiny_run: Run, tiny_registry: Registry, change: Callable[[Run, int, Path], None]
) -> None:
    """Whatever was done to the checkpoint or the file, the signal is the checkpoint's, and stored again."""
    before = extract(tiny_run, "beta", at=30, registry=tiny_registry)
    path = tiny_run.signal_path("validation", 30, "beta")
    change(tiny_run, 30, path)
    after = extract(tiny_run, "beta", at=30, registry=tiny_registry)
    assert np.array_equal(before.values, after.values) == (change is not _new_weights)
    np.testing.assert_array_equal(load_signal(path).values, after.values)


@pytest.mark.parametrize("changed", ["probe", "model"])
def test_a_changed_definition_extracts_anew(
    tiny_run: Run, tiny_registry: Registry, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    """Whoever counts up the version of a probe, or of a model with ways of its own, gets fresh signals."""
    path = tiny_run.signal_path("validation", 30, "beta")
    extract(tiny_run, "beta", at=30, registry=tiny_registry)
    written = path.stat().st_mtime_ns
    monkeypatch.setattr(probes.beta if changed == "probe" else tiny.TinyModel, "version", 2, raising=False)
    assert extract(tiny_run, "beta", at=30, registry=tiny_registry).meta["version"] == [
        1 + (changed == "probe"),
        1 + (changed == "model"),
    ]
    assert path.stat().st_mtime_ns > written


def test_signals_stay_readable_when_their_plugin_is_gone(tiny_run: Run, tiny_registry: Registry) -> None:
    """What is stored needs no model; what is not says which plugin to install; tokens are then left out."""
    whole = extract(tiny_run, "alpha", registry=tiny_registry)
    assert "source" in whole.to_frame()
    bare = build_registry()
    kept = extract(tiny_run, "alpha", registry=bare)
    np.testing.assert_array_equal(kept.values, whole.values)
    assert "source" not in kept.to_frame()
    with pytest.raises(PluginError, match=r"needs the task 'tiny-task' of plugin 'tiny'.* install it again"):
        extract(tiny_run, "beta", registry=bare)


def test_a_signal_knows_its_tokens(tiny_run: Run, tiny_registry: Registry, tiny_corpus: Corpus) -> None:
    """A frame shows the source and target token of every cell, on a sampled split too."""
    for split in ("validation", "train"):
        extractor = Extractor(tiny_run, tiny_registry, split=split)
        frame = extractor.signal("alpha").to_frame()
        last = frame[frame["sentence"] == 5].iloc[-1]
        assert (last["source"], last["target"]) == ("</s>", "</s>")
        first = frame[frame["sentence"] == 5].iloc[0]
        x = extractor.part.x[5][0]
        assert (first["source"], first["target"]) == (f"a{x - 4}", f"b{(x - 1) % 8}")


def test_sentences_come_back_in_their_order(tiny_run: Run, tiny_registry: Registry, tiny_corpus: Corpus) -> None:
    """Batches go by length; the signal goes by corpus, each sentence as if it were alone."""
    split = tiny_corpus.split("validation")
    model = Extractor(tiny_run, tiny_registry).model(20)
    for name, definition in (("beta", beta_by_definition), ("delta", delta_by_definition)):
        signal = extract(tiny_run, name, at=20, registry=tiny_registry)
        assert len(signal) == len(split)
        for row in range(len(split)):
            alone = definition(model, split.batch(np.array([row])))[0].detach()
            np.testing.assert_allclose(signal[row], alone, atol=1e-5)


def test_gamma_is_beta(tiny_run: Run, tiny_registry: Registry) -> None:
    """Both are stored as log-odds."""
    one, other = (extract(tiny_run, name, registry=tiny_registry) for name in ("beta", "gamma"))
    np.testing.assert_array_equal(one.values, other.values)


def test_the_train_split_is_a_sample(tiny_run: Run, tiny_registry: Registry, tiny_corpus: Corpus) -> None:
    """As many sentences as validation has, always the same, in their order; gold is over the same ones."""
    extractor = Extractor(tiny_run, tiny_registry, split="train")
    signal = extractor.signal("alpha")
    assert len(signal) == len(tiny_corpus.split("validation")) < len(tiny_corpus.split("train"))
    again = Extractor(tiny_run, tiny_registry, split="train")
    np.testing.assert_array_equal(extractor.part.x.values, again.part.x.values)
    gold = extractor.gold()
    signal.check_same_cells(gold)
    assert gold.meta["fingerprint"] == tiny_corpus.fingerprints["train"]
    model = extractor.model(extractor.step("best"))
    with torch.no_grad():
        alone = model.trace(extractor.part.batch(np.array([7]))).alpha[0]
    np.testing.assert_allclose(signal[7], alone, atol=1e-6)
    whole = tiny_corpus.split("train")
    rows = [whole.x[i].tolist() for i in range(len(whole))]
    places = [rows.index(extractor.part.x[i].tolist()) for i in range(len(signal))]
    assert places == sorted(places)


def test_a_small_train_split_is_taken_whole(tmp_path: Path, tiny_registry: Registry) -> None:
    """With fewer training than validation sentences all are probed."""
    run = train("tiny-model", steps=0, options={"sentences": 6}, runs=tmp_path, registry=tiny_registry)
    assert len(extract(run, "alpha", split="train", registry=tiny_registry)) == 6


def test_a_uniform_run_is_probed_under_uniform_attention(tmp_path: Path, tiny_registry: Registry) -> None:
    """alpha is 1 / L, and delta is the influence under that attention, not under the attention it never used."""
    run = train("tiny-model", attention="uniform", steps=10, runs=tmp_path, registry=tiny_registry)
    weights = extract(run, "alpha", at="last", registry=tiny_registry)
    np.testing.assert_allclose(weights.values[0], np.repeat(1 / weights.lengths, weights.lengths), rtol=1e-6)
    extractor = Extractor(run, tiny_registry)
    under = extractor.model(10)
    found = extractor.signal("delta", "last")[3]
    batch = extractor.part.batch(np.array([3]))
    np.testing.assert_allclose(found, delta_by_definition(under, batch)[0].detach(), atol=1e-6)
    assert not np.allclose(found, delta_by_definition(under._model, batch)[0].detach(), atol=1e-4)


def test_a_model_without_attention_is_probed(tmp_path: Path, tiny_registry: Registry) -> None:
    """beta as it says, alpha as its share, and delta a sentence."""
    run = train("tiny-count", runs=tmp_path, registry=tiny_registry)
    lexical = extract(run, "beta", at="last", registry=tiny_registry)
    weights = extract(run, "alpha", at="last", registry=tiny_registry)
    for row in range(len(weights)):
        p = 1 / (1 + np.exp(-lexical[row].astype(float)))
        np.testing.assert_allclose(weights[row], p / p.sum(1, keepdims=True), rtol=1e-5)
    with pytest.raises(ContractError, match="delta needs a model with trace"):
        extract(run, "delta", at="last", registry=tiny_registry)


def test_extraction_leaves_the_callers_random_numbers(tiny_run: Run, tiny_registry: Registry) -> None:
    """Building the model to load weights into draws nothing from the caller's generator."""
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    extract(tiny_run, "alpha", registry=tiny_registry)
    assert torch.equal(torch.rand(3), expected)


# steps, splits, runs that do not fit


@pytest.mark.parametrize("at", [7, "7", "-1", -1, "max", "²", "half"])
def test_a_missing_step_lists_those_there_are(tiny_run: Run, tiny_registry: Registry, at: int | str) -> None:
    """The sentence names best, last and every checkpoint."""
    with pytest.raises(SpecError, match=r"has no step .*: it has best, last, 0, 10, 20, 30$"):
        extract(tiny_run, "alpha", at=at, registry=tiny_registry)


def test_steps_have_names(tiny_run: Run, tiny_registry: Registry) -> None:
    """last is the last, best the best by accuracy, a number itself, as text too."""
    extractor = Extractor(tiny_run, tiny_registry)
    curve = tiny_run.performance()
    assert extractor.step("last") == 30
    assert curve[extractor.step("best")] == max(curve.values())
    assert extractor.step("20") == extractor.step(20) == 20


def test_a_run_without_checkpoints_says_so(tiny_run: Run, tiny_registry: Registry) -> None:
    """It tells how to go on."""
    shutil.rmtree(tiny_run.path / "checkpoints")
    for at in ("best", "last", 10):
        with pytest.raises(RunError, match=r"checkpoint.*: resume its training"):
            extract(tiny_run, "alpha", at=at, registry=tiny_registry)


def test_a_split_must_be_there_and_finite(tmp_path: Path, tiny_run: Run, tiny_registry: Registry) -> None:
    """An unknown split lists the known; an endless one cannot be probed whole."""
    with pytest.raises(UnknownNameError, match="test, train, validation"):
        extract(tiny_run, "alpha", split="dev", registry=tiny_registry)
    run = train("tiny-model", "tiny-stream", steps=0, runs=tmp_path / "streams", registry=tiny_registry)
    assert len(extract(run, "alpha", registry=tiny_registry)) == 20
    with pytest.raises(CorpusError, match="endless stream"):
        extract(run, "alpha", split="train", registry=tiny_registry)


def test_an_unknown_probe_lists_the_known(tiny_run: Run, tiny_registry: Registry) -> None:
    """And suggests the nearest."""
    with pytest.raises(UnknownNameError, match="did you mean 'beta'"):
        extract(tiny_run, "betta", registry=tiny_registry)


def test_another_corpus_than_then_is_refused(tiny_run: Run) -> None:
    """If the task gives other data now, nothing is probed on it."""

    class Changed(tiny.TinyTask):
        def load(self, options: Any) -> Corpus:
            return super().load(replace(options, variety=9))

    with pytest.raises(RunError, match="another corpus than 'tiny-task' gives now"):
        extract(tiny_run, "alpha", registry=registry_with("tasks", "tiny-task", Changed))


def test_a_checkpoint_that_does_not_fit_is_one_sentence(tiny_run: Run) -> None:
    """A model class that has grown since cannot load it, and says so in a line."""

    class Grown(TinyModel):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.more = torch.nn.Linear(2, 2)

    with pytest.raises(RunError, match=r"cannot load checkpoint .*more\.weight") as error:
        extract(tiny_run, "alpha", registry=registry_with("models", "tiny-model", Grown))
    assert "\n" not in str(error.value)


def test_progress_ends_whatever_happens(tiny_run: Run) -> None:
    """A display is taken down after a failure too."""
    heard: list[Any] = []

    class Listener(Progress):
        def begin(self, label: str, total: int, done: int = 0, unit: str = "steps") -> None:
            heard.append((label, total, unit))

        def advance(self, done: int, loss: Any = None) -> None:
            heard.append(done)

        def end(self) -> None:
            heard.append("end")

    registry = registry_with("probes", "odd", lambda model, batch: None)
    with pytest.raises(ContractError):
        extract(tiny_run, "odd", registry=registry, progress=Listener())
    assert heard == [(f"{tiny_run.name}:odd@{tiny_run.best_step()}", 20, "sentences"), "end"]
    heard.clear()
    extract(tiny_run, "alpha", registry=registry, progress=Listener())
    assert heard[-2:] == [20, "end"]


# what a plugin may not return


class IgnoresAttend(TinyModel):
    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        return super().trace(batch, gate=gate)


def changing(change: Callable[[Tensor, Batch], Tensor]) -> type[TinyModel]:
    """A model whose alpha is changed on its way out."""

    class Changing(TinyModel):
        def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
            trace = super().trace(batch, attend=attend, gate=gate)
            return replace(trace, alpha=change(trace.alpha, batch))

    return Changing


def leaks(alpha: Tensor, batch: Batch) -> Tensor:
    return torch.where(batch.x_mask.unsqueeze(1), alpha, 0.1)


VIOLATIONS: list[tuple[Callable[[Tensor, Batch], Tensor], str]] = [
    (lambda a, b: a[:, :-1], r"returned \(20, 6, 7\): it must return a tensor of shape \(20, 7, 7\)"),
    (lambda a, b: a.numpy(), "returned ndarray"),
    (lambda a, b: a * torch.nan, r"returned NaN or \+inf"),
    (lambda a, b: a + torch.inf, r"returned NaN or \+inf"),
    (lambda a, b: a * 0.9, "a row that sums to 0.9000"),
    (lambda a, b: 3 * a - 2 / b.x_mask.sum(1).view(-1, 1, 1), "has a weight of -.*weights are 0 or more"),
    (leaks, "not 0 outside the allowed positions"),
]


@pytest.mark.parametrize(("change", "sentence"), VIOLATIONS)
def test_wrong_weights_are_refused(
    tiny_corpus: Corpus, change: Callable[[Tensor, Batch], Tensor], sentence: str
) -> None:
    """Wrong shape or type, NaN, +inf, a wrong sum, a negative weight, weight on padding: each has its sentence."""
    with pytest.raises(ContractError, match=sentence) as error:
        probe(make_model(tiny_corpus, changing(change)), [everything(tiny_corpus)], "alpha")
    assert "Changing" in str(error.value)
    assert "\n" not in str(error.value)


def test_weight_on_padding_rows_does_not_matter(tiny_corpus: Corpus) -> None:
    """What stands in rows of padded outputs is dropped unread, NaN too."""
    batch = everything(tiny_corpus)
    spoilt = make_model(tiny_corpus, changing(lambda a, b: a.masked_fill(~b.y_mask.unsqueeze(-1), torch.nan)))
    plain = probe(make_model(tiny_corpus), [batch], "alpha")
    np.testing.assert_array_equal(probe(spoilt, [batch], "alpha").values, plain.values)


def test_ignoring_attend_is_refused(tiny_run: Run, tmp_path: Path) -> None:
    """From a run, for beta and for a stranger's probe, and for any probe of a run under uniform attention."""
    registry = registry_with("models", "tiny-model", IgnoresAttend)
    registry.entries["probes"]["my-beta"] = replace(registry.entries["probes"]["beta"], name="my-beta")
    for name in ("beta", "my-beta"):
        with pytest.raises(ContractError, match=r"IgnoresAttend ignores attend.*choose"):
            extract(tiny_run, name, registry=registry)
    extract(tiny_run, "alpha", registry=registry)
    uniform = train("tiny-model", attention="uniform", steps=0, runs=tmp_path / "uniform", registry=registry)
    with pytest.raises(ContractError, match="IgnoresAttend ignores attend"):
        extract(uniform, "alpha", registry=registry)


def test_ignoring_attend_is_seen_behind_one_word_sentences(tiny_corpus: Corpus) -> None:
    """A batch that leaves no choice proves nothing: the next one is tried."""
    short = Split.of([[4]], [[5]]).batch(np.array([0]))
    with pytest.raises(ContractError, match="ignores attend"):
        probe(make_model(tiny_corpus, IgnoresAttend), [short, everything(tiny_corpus)], "beta")
    assert len(probe(make_model(tiny_corpus, IgnoresAttend), [short], "beta")) == 1


def test_a_constant_first_checkpoint_is_not_accused(tmp_path: Path) -> None:
    """A model whose output starts at zero ignores everything at step 0, and obeys once it has learned."""

    class Zero(TinyModel):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            torch.nn.init.zeros_(self.say.weight)

    registry = registry_with("models", "tiny-model", Zero)
    run = train("tiny-model", steps=10, runs=tmp_path, registry=registry)
    first = extract(run, "beta", at=0, registry=registry)
    for row in range(len(first)):
        assert np.ptp(first[row], axis=1).max() == 0
    assert np.ptp(extract(run, "beta", at=10, registry=registry)[0]) > 0


# guards before the first number


def test_an_extraction_refuses_what_it_relies_on(tiny_run: Run) -> None:
    """beta refuses a model that mixes its own weights in, delta one whose gate is squared; nothing else is refused."""

    class Half(TinyModel):
        def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
            if attend is None:
                return super().trace(batch, gate=gate)
            attend = attend.expand(len(batch.x), batch.y.shape[1], -1)
            mixed = (super().trace(batch, gate=gate).alpha + attend) / 2
            return replace(super().trace(batch, attend=mixed, gate=gate), alpha=attend)

    class Squared(TinyModel):
        def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
            return super().trace(batch, attend=attend, gate=None if gate is None else gate**2)

    half, squared = (registry_with("models", "tiny-model", model) for model in (Half, Squared))
    with pytest.raises(ContractError, match=r"Half still uses its own weights .* changes by \d"):
        extract(tiny_run, "beta", registry=half)
    with pytest.raises(ContractError, match=r"gate of Squared does not scale .* differs by 0\.\d+"):
        extract(tiny_run, "delta", registry=squared)
    extract(tiny_run, "delta", registry=half)
    extract(tiny_run, "beta", registry=squared)


def test_a_guard_runs_once_and_asks_the_model_too(tiny_run: Run) -> None:
    """Not at every checkpoint; a model's own check is told whether the probe forces anything, and may refuse."""
    calls: list[bool] = []

    class Faithful(TinyModel):
        def check_faithful(self, batch: Batch, *, forcing: bool) -> None:
            calls.append(forcing)
            if len(calls) > 4:
                raise ContractError("another network")

    extractor = Extractor(tiny_run, registry_with("models", "tiny-model", Faithful))
    for step in (0, 10, 20):
        extractor.signal("alpha", step)
        extractor.signal("beta", step)
    assert calls == [False, False, True, True]  # on a few texts, and on the longest
    with pytest.raises(ContractError, match="another network"):
        extractor.signal("delta", 0)


def test_a_dishonest_model_cannot_hide_behind_constant_outputs(tmp_path: Path) -> None:
    """At step 0 nothing moves an output of zero weights; with other weights the model shows what it ignores."""

    class Zero(IgnoresAttend):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            torch.nn.init.zeros_(self.say.weight)

    registry = registry_with("models", "tiny-model", Zero)
    run = train("tiny-model", steps=0, runs=tmp_path, registry=registry)
    with pytest.raises(ContractError, match="Zero ignores attend"):
        extract(run, "beta", registry=registry)


def test_a_guard_leaves_the_weights(tiny_corpus: Corpus) -> None:
    """Noise on the weights of a constant model is taken away again, to the last bit."""
    model = make_model(tiny_corpus)
    torch.nn.init.zeros_(model.say.weight)
    before = {name: tensor.clone() for name, tensor in model.state().items()}
    probe(model, [everything(tiny_corpus)], "beta")
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state().items())


def test_an_exception_of_a_plugin_has_its_file_and_line(tiny_run: Run) -> None:
    """Of a probe and of a model: one sentence, with the exception behind it."""

    def broken(model: Any, batch: Batch) -> Tensor:
        return model.nothing

    class Broken(TinyModel):
        def trace(self, batch: Batch, **given: Any) -> Trace:
            raise ZeroDivisionError("by a plugin")

    with pytest.raises(
        ContractError, match=r"probe 'odd' of TinyModel raised AttributeError: .*test_extraction\.py:\d+\)"
    ):
        extract(tiny_run, "odd", registry=registry_with("probes", "odd", quantity("o", "odd", uses=())(broken)))
    with pytest.raises(ContractError, match=r"Broken raised ZeroDivisionError: by a plugin \(.*\.py:\d+\)") as error:
        extract(tiny_run, "beta", registry=registry_with("models", "tiny-model", Broken))
    assert isinstance(error.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("attention", ["learned", "uniform"])
def test_a_model_that_is_kept_is_not_changed(
    run_tiny: Callable[..., Run], tiny_registry: Registry, attention: str
) -> None:
    """Whoever holds the model of one step keeps it while others are made; one that nobody holds is used again."""
    extractor = Extractor(run_tiny(attention=attention), tiny_registry)
    first = extractor.model(0)
    before = {name: tensor.clone() for name, tensor in first.state().items()}
    last = extractor.model(30)
    extractor.signal("beta", 10)
    assert all(torch.equal(tensor, before[name]) for name, tensor in first.state().items())
    assert not torch.equal(last.state()["say.weight"], before["say.weight"])
    extractor.model(0)
    mine = extractor._model
    del mine
    used = id(extractor._model)
    extractor.model(10)
    assert id(extractor._model) == used


@pytest.mark.parametrize("cached", [mutants.CachedBuffer, CachedInAList])
def test_what_a_model_kept_of_other_weights_is_not_used(tmp_path: Path, cached: type) -> None:
    """A model that computes something from its weights once is made anew for each checkpoint."""
    registry = registry_with("models", "tiny-model", cached)
    run = train("tiny-model", runs=tmp_path, registry=registry, device="cpu")
    extractor = Extractor(run, registry, device="cpu")
    extractor.signal("alpha", 0)
    after = extractor.signal("beta", 30)
    run.signal_path("validation", 30, "beta").unlink()
    np.testing.assert_array_equal(after.values, Extractor(run, registry, device="cpu").signal("beta", 30).values)


def test_sinks_are_declared(tiny_corpus: Corpus) -> None:
    """Rows below 1 need `sinks`; rows above 1 are wrong with it too."""
    batch = everything(tiny_corpus)
    model = make_model(tiny_corpus, changing(lambda a, b: a * 0.9))
    with pytest.raises(ContractError, match=r"sums to 0\.9000.*declare `sinks = True`"):
        probe(model, [batch], "alpha")
    model.sinks = True  # type: ignore[assignment]
    np.testing.assert_allclose(probe(model, [batch], "alpha")[0].sum(1), 0.9, rtol=1e-5)
    large = make_model(tiny_corpus, changing(lambda a, b: a * 1.1))
    large.sinks = True  # type: ignore[assignment]
    with pytest.raises(ContractError, match=r"sums to 1\.1000.*at most 1"):
        probe(large, [batch], "alpha")


def allowing(mask: Callable[[Batch], Any]) -> type[TinyModel]:
    class Allowing(TinyModel):
        def allowed(self, batch: Batch) -> Any:
            return mask(batch)

        def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
            kept = super().trace(batch, gate=gate).alpha * mask(batch)
            own = kept / kept.sum(-1, keepdim=True).clamp_min(1e-9)
            return super().trace(batch, attend=choose(own, attend, mask(batch)), gate=gate)

    return Allowing


def causal(batch: Batch) -> Tensor:
    t, l = torch.arange(batch.y.shape[1]), torch.arange(batch.x.shape[1])  # noqa: E741
    return batch.x_mask.unsqueeze(1) & (l <= t.unsqueeze(1))


@pytest.mark.parametrize(
    ("mask", "sentence"),
    [
        (lambda b: causal(b).float(), r"float32 \(20, 7, 7\): it must be bool"),
        (lambda b: causal(b)[:, :2], r"bool \(20, 2, 7\): it must be bool, \(20, 1 or 7, 7\)"),
        (lambda b: None, "returned NoneType"),
        (lambda b: torch.ones_like(causal(b)), "true on padding"),
    ],
)
def test_a_wrong_mask_is_refused(tiny_corpus: Corpus, mask: Callable[[Batch], Any], sentence: str) -> None:
    """Of the wrong type or shape, or true on padding."""
    with pytest.raises(ContractError, match=sentence):
        probe(make_model(tiny_corpus, allowing(mask)), [everything(tiny_corpus)], "beta")


def test_a_causal_model_has_rows_of_its_own_lengths(tiny_corpus: Corpus) -> None:
    """Row t keeps its t + 1 first positions, and only those, in alpha and in beta."""
    model = make_model(tiny_corpus, allowing(causal))
    for name in ("alpha", "beta"):
        signal = probe(model, [everything(tiny_corpus)], name)
        assert signal.columns is None
        for row, x in enumerate(tiny_corpus.split("validation").x.lengths):
            np.testing.assert_array_equal(np.isnan(signal[row]), np.triu(np.ones((x, x)), 1) > 0)


def test_other_masks_keep_their_columns(tiny_corpus: Corpus) -> None:
    """A model that may not see the first word has cells from position 1 on, batch by batch or at once."""
    model = make_model(tiny_corpus, allowing(lambda b: b.x_mask.unsqueeze(1) & (torch.arange(b.x.shape[1]) > 0)))
    split = tiny_corpus.split("validation")
    whole = probe(model, [everything(tiny_corpus)], "alpha")
    parts = probe(model, [split.batch(np.array([i])) for i in range(len(split))], "alpha")
    for signal in (whole, parts):
        assert signal.columns is not None
        assert np.isnan(signal[4][:, 0]).all()
        np.testing.assert_allclose(np.nansum(signal[4], 1), 1, rtol=1e-5)
    whole.check_same_cells(parts)
    np.testing.assert_allclose(whole.values, parts.values, atol=1e-6)


# models in memory


def test_a_model_in_memory_is_left_as_it_was(tiny_corpus: Corpus) -> None:
    """Each module returns to its own mode, whether or not the probe succeeds; dropout is off meanwhile."""
    model = make_model(tiny_corpus, dropout=0.9)
    expected = probe(model, [everything(tiny_corpus)], "beta").values
    model.train()
    model.look.eval()
    np.testing.assert_array_equal(probe(model, [everything(tiny_corpus)], "beta").values, expected)
    with pytest.raises(UnknownNameError):
        probe(model, [everything(tiny_corpus)], "bet")
    with pytest.raises(ContractError):
        probe(model, [everything(tiny_corpus)], "odd", registry=registry_with("probes", "odd", lambda m, b: b.x))
    assert model.training
    assert not model.look.training
    assert model.read.training


def test_a_model_of_another_make_is_switched_too(tiny_corpus: Corpus) -> None:
    """A wrapper that is no torch module, but has eval and train, is switched and switched back."""

    class Wrapper:
        def __init__(self, model: TinyModel) -> None:
            self.trace, self.training, self.calls = model.trace, True, []

        def eval(self) -> None:
            self.calls.append("eval")

        def train(self) -> None:
            self.calls.append("train")

    wrapper = Wrapper(make_model(tiny_corpus))
    probe(wrapper, [everything(tiny_corpus)], "alpha")
    assert wrapper.calls == ["eval", "train"]


def test_a_model_in_memory_needs_batches_and_takes_a_name(tiny_corpus: Corpus) -> None:
    """No batches are an error; the name goes into tables."""
    model = make_model(tiny_corpus)
    with pytest.raises(UsageError, match="no batches"):
        probe(model, [], "alpha")
    assert probe(model, iter([everything(tiny_corpus)]), "alpha", name="mine").name == "mine"
    assert ktiwprobe.probe is probe


def test_sites_are_kept_apart(tmp_path: Path, tiny_registry: Registry, tiny_corpus: Corpus) -> None:
    """alpha of a model of three heads has three named sites, beta one; both survive storing."""
    options = {"heads": 3}
    run = train("tiny-model", steps=0, options=options, runs=tmp_path, registry=tiny_registry)
    for _ in range(2):
        weights = extract(run, "alpha", registry=tiny_registry)
        assert weights.sites == ("h0", "h1", "h2")
        assert extract(run, "beta", registry=tiny_registry).sites == ("",)
    model = Extractor(run, tiny_registry).model(0)
    with torch.no_grad():
        own = model.trace(tiny_corpus.split("validation").batch(np.array([2]))).alpha[0]
    np.testing.assert_allclose(weights[2], own, atol=1e-6)
    weights.one_site("h1").check_same_cells(extract(run, "beta", registry=tiny_registry))


def test_a_single_site_keeps_its_name(tiny_corpus: Corpus) -> None:
    """One layer of one head may be named too."""
    model = make_model(tiny_corpus)
    model.sites = ("cross:0",)
    signal = probe(model, [everything(tiny_corpus)], "alpha")
    assert signal.one_site("cross:0").name == "alpha[cross:0]"
    assert signal[0].ndim == 2


def test_errors_are_ours(tiny_run: Run, tiny_registry: Registry) -> None:
    """A damaged checkpoint is one of the errors the command line turns into a sentence, and names the others."""
    path = tiny_run.checkpoint(20)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(KtiwprobeError, match="damaged"):
        extract(tiny_run, "alpha", at=20, registry=tiny_registry)
    assert len(extract(tiny_run, "alpha", at=30, registry=tiny_registry)) == 20


# the corpus behind what is stored


def with_features(value: list[float]) -> type:
    """tiny-task whose corpus carries a table of features, filled with what `value` holds when it is loaded."""

    class Featured(tiny.TinyTask):
        def load(self, options: Any) -> Corpus:
            plain = super().load(options)
            parts = (plain.task, plain.kind, plain.splits, plain.source_tokens, plain.target_tokens)
            return WithTable(*parts, table=np.full(3, value[0]))

    return Featured


@dataclass(frozen=True, eq=False)
class WithTable(Corpus):
    """A corpus with features."""

    table: Any = None


def test_a_stored_signal_of_another_corpus_is_not_read(tmp_path: Path) -> None:
    """Other features of the same ids make another corpus: what was stored for the first is refused, not read."""
    value = [0.0]
    registry = registry_with("tasks", "tiny-task", with_features(value))
    run = train("tiny-model", steps=0, runs=tmp_path, registry=registry)
    kept = extract(run, "alpha", registry=registry)
    np.testing.assert_array_equal(extract(run, "alpha", registry=registry).values, kept.values)
    assert Performance(Extractor(run, registry, split="test")).at(0) >= 0
    value[0] = 1.0
    for read in (
        lambda: extract(run, "alpha", registry=registry),
        lambda: Extractor(run, registry).peek("alpha", 0, 0),
        lambda: agree("alpha", "alpha", runs=tmp_path, registry=registry),
        lambda: Performance(Extractor(run, registry, split="test")).at(0),
    ):
        with pytest.raises(RunError, match="another corpus than 'tiny-task' gives now"):
            read()


def test_a_slow_corpus_is_made_only_when_its_files_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading what is stored then looks at sizes and times alone; a changed file makes the corpus be compared."""
    data, loads = tmp_path / "data.txt", [0]
    data.write_text("1")

    class FromFile(tiny.TinyTask):
        @dataclass(frozen=True)
        class Options(tiny.TinyTask.Options):
            path: str = str(data)

        def load(self, options: Any) -> Corpus:
            loads[0] += 1
            return super().load(replace(options, variety=int(data.read_text())))

    registry = registry_with("tasks", "tiny-task", FromFile)
    monkeypatch.setattr(sources, "QUICK", -1.0)
    run = train("tiny-model", steps=0, runs=tmp_path / "runs", registry=registry)
    extract(run, "alpha", registry=registry)
    before = loads[0]
    extract(run, "alpha", registry=registry)
    assert loads[0] == before
    os.utime(data, ns=(0, 0))  # the same contents: compared once, and read
    extract(run, "alpha", registry=registry)
    extract(run, "alpha", registry=registry)
    assert loads[0] == before + 1
    data.write_text("22")
    with pytest.raises(RunError, match="another corpus"):
        extract(run, "alpha", registry=registry)
    data.unlink()  # nothing is left to compare with
    assert len(extract(run, "alpha", registry=registry)) == 20


def test_one_comparison_makes_a_corpus_once(tmp_path: Path, run_tiny: Callable[..., Run]) -> None:
    """Runs of one task share what was compared."""
    loads = [0]

    class Counted(tiny.TinyTask):
        def load(self, options: Any) -> Corpus:
            loads[0] += 1
            return super().load(options)

    registry = registry_with("tasks", "tiny-task", Counted)
    for seed in range(3):
        run_tiny(seed=seed, registry=registry)
    agree("alpha", "alpha-hat", runs=tmp_path / "runs", registry=registry)
    before = loads[0]
    agree("alpha", "alpha-hat", runs=tmp_path / "runs", registry=registry)
    assert loads[0] == before + 1


def test_numbers_of_a_gone_plugin_with_a_version_stay_readable(
    tiny_run: Run, tiny_registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version that cannot be asked is believed."""
    monkeypatch.setattr(tiny.TinyModel, "version", 2, raising=False)
    kept = extract(tiny_run, "alpha", registry=tiny_registry)
    np.testing.assert_array_equal(extract(tiny_run, "alpha", registry=build_registry()).values, kept.values)

"""A training that is not ours becomes a run like any other, and is not disturbed by it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ktiwprobe
import tiny
from ktiwprobe import Batch, Recorder, agree, build_registry, extract, probe
from ktiwprobe.corpus.saved import corpus_of, load_corpus, save_corpus
from ktiwprobe.errors import ContractError, CorpusError, KtiwprobeError, OptionError, RunError, UsageError
from ktiwprobe.models.scoring import log_odds
from ktiwprobe.probes import definitions
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.recording.recorder import recorded_sentences
from ktiwprobe.runs.run import Run
from ktiwprobe.runs.schedule import is_due, steps_of
from ktiwprobe.signals.signal import load_signal

REGISTRY = build_registry(extra={"tiny": tiny})
CORPUS = tiny.TinyTask().load(tiny.TinyTask.Options())
Weights = dict[str, torch.Tensor]


def fresh(seed: int = 0, **options: Any) -> tiny.TinyModel:
    torch.manual_seed(seed)
    return tiny.TinyModel.build(CORPUS, tiny.TinyModel.Options(**options))


def recorder(runs: Path, **rest: Any) -> Recorder:
    given = {"model": "mine", "at": "every:5", "runs": runs, "registry": REGISTRY, **rest}
    return Recorder(given.pop("probe_set", CORPUS), **given)


def train(model: tiny.TinyModel, record: Recorder | None, steps: range = range(11)) -> Weights:
    """A loop of the user's own, with dropout, so that random numbers matter."""
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in steps:
        if record:
            record.trace_step(model, step)
        loss = model.loss(CORPUS.split("train").batch(np.arange(8)))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return {name: value.clone() for name, value in model.state_dict().items()}


def test_recording_changes_nothing(tmp_path: Path) -> None:
    """The same weights come out with and without recording; modes, gradients and hooks stay as they were."""
    plain, recorded = fresh(), fresh()
    recorded.look.eval()  # a user may keep a part of a model in evaluation mode
    modes = [module.training for module in recorded.modules()]
    torch.manual_seed(5)
    expected = train(plain, None)
    torch.manual_seed(5)
    found = train(recorded, recorder(tmp_path))
    assert all(torch.equal(found[name], value) for name, value in expected.items())
    assert [module.training for module in recorded.modules()] == modes
    gradients = [parameter.grad.clone() for parameter in recorded.parameters() if parameter.grad is not None]
    recorder(tmp_path, model="again").record(recorded, 0)
    assert all(
        torch.equal(g, p.grad) for g, p in zip(gradients, recorded.parameters(), strict=True) if p.grad is not None
    )
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in recorded.modules())


class Scores(tiny.TinyModel):
    """Hands over scores instead of logits, and judges itself."""

    def trace(self, batch, **how):
        whole = super().trace(batch, **how)
        return ktiwprobe.Trace(None, whole.alpha, log_odds(whole, batch))

    def evaluate(self, batch, *, attend=None):
        whole = super().trace(batch, attend=attend)
        log_p = whole.logits.log_softmax(-1).gather(-1, batch.y.unsqueeze(-1)).squeeze(-1)
        right = (whole.logits.argmax(-1) == batch.y) & batch.y_mask
        return right.sum(), batch.y_mask.sum(), -log_p.masked_fill(~batch.y_mask, 0).sum()


@pytest.mark.parametrize("cls", [tiny.TinyModel, Scores])
def test_every_sentence_is_judged(tmp_path: Path, cls: Any) -> None:
    """Right outputs and -log p of each sentence are those of the sentence alone; a run without them says so."""
    torch.manual_seed(0)
    model, record = cls.build(CORPUS, cls.Options()), recorder(tmp_path)
    record.record(model, 3)
    found, split = recorded_sentences(record.run, 3), CORPUS.split("validation")
    model.eval()
    for i in range(len(split)):
        right, _, nll = model.evaluate(split.batch(np.array([i])))
        assert found["right"][i] == int(right)
        assert found["nll"][i] == pytest.approx(float(nll.detach()), abs=1e-4)
    with pytest.raises(RunError, match="record it anew"):
        recorded_sentences(record.run, 4)


@pytest.mark.parametrize("heads", [1, 2])
def test_recorded_values_are_those_of_probe(tmp_path: Path, heads: int) -> None:
    """What the run holds is what `ktiwprobe.probe` says of the same weights, and the performance is `evaluate`'s."""
    model, record = fresh(heads=heads), recorder(tmp_path)
    record.record(model, 3)
    split = CORPUS.split("validation")
    batch = split.batch(np.arange(len(split)))
    for name in ("alpha", "beta", "delta"):
        stored = extract(record.run, name, at=3, registry=REGISTRY)
        live = probe(model, [batch], name, registry=REGISTRY)
        assert stored.sites == live.sites
        np.testing.assert_allclose(stored.values, live.values, atol=1e-5)
    model.eval()
    right, total, _ = model.evaluate(batch)
    assert record.run.performance() == {3: pytest.approx(float(right / total))}


def test_two_seeds_are_a_group(tmp_path: Path) -> None:
    """Two recordings that differ in seed give beta-hat and xi; another setting is another group."""
    for seed in (0, 1):
        train(fresh(seed), recorder(tmp_path, seed=seed))
    found = agree("alpha", "beta-hat", runs=tmp_path, registry=REGISTRY)
    assert found.u.startswith("traced/mine-s0:alpha@")
    assert found.v.startswith("traced/mine-s1:beta@")
    assert found.xi is not None
    assert agree("alpha", "gold", "aer", runs=tmp_path, registry=REGISTRY).value is not None
    train(fresh(2), recorder(tmp_path, seed=2, settings={"lr": 0.5}))
    assert "s2:beta" in agree("alpha", "beta", runs=tmp_path, registry=REGISTRY).v


def test_uniform_attention_is_probed_as_it_is_trained(tmp_path: Path) -> None:
    """A recording under uniform attention has uniform alpha, and is found as -uf beside a learned one."""
    recorder(tmp_path).record(fresh(), 0)
    under = recorder(tmp_path, attention="uniform")
    under.record(fresh(), 0)
    alpha = extract(under.run, "alpha", registry=REGISTRY)
    np.testing.assert_allclose(alpha.values[0], np.repeat(1 / alpha.lengths, alpha.lengths), atol=1e-6)
    assert "uniform" in agree("alpha", "beta-uf", runs=tmp_path, registry=REGISTRY).v


def test_any_module_with_trace_will_do(tmp_path: Path) -> None:
    """A model without our base class, over a mere batch, is recorded; its tokens are numbers."""

    class Stranger(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = fresh()

        def trace(self, batch: Any, *, attend: Any = None, gate: Any = None) -> Any:
            return self.inner.trace(batch, attend=attend, gate=gate)

    model, split = Stranger(), CORPUS.split("validation")
    record = recorder(tmp_path, probe_set=split.batch(np.arange(4)))
    record.record(model, 0)
    beta = extract(record.run, "beta", registry=REGISTRY)
    assert len(beta) == 4
    assert beta.text is not None
    assert beta.text(0)[0] == tuple(map(str, split.x[0]))
    right, total, _ = model.inner.eval().evaluate(split.batch(np.arange(4)))
    assert record.run.performance()[0] == pytest.approx(float(right / total))


def test_resume_forgets_what_comes_again(tmp_path: Path) -> None:
    """A training taken up at an earlier step replaces what was recorded after it."""
    record = recorder(tmp_path)
    train(fresh(), record)
    assert record.run.steps() == [0, 5, 10]
    again, model = recorder(tmp_path), fresh()
    again.resume(model, 5)
    assert again.run.steps() == [0, 5]
    assert not again.run.signal_path("validation", 10, "beta").exists()
    assert [path.name for path in again.run.path.glob("performance/*/*")] == ["000000", "000005"]
    again.record(model, 10)
    assert [line["step"] for line in again.run.log()] == [0, 5, 10]


def test_a_recorded_run_has_a_time_and_marks_its_files(tmp_path: Path) -> None:
    """A step that was copied from the recording of another training is refused, with its signals."""
    for seed in (0, 1):
        recorder(tmp_path, seed=seed).record(fresh(seed), 0)
    run, other = (Run.open(tmp_path / "traced" / f"mine-s{seed}") for seed in (0, 1))
    assert run.created < other.created
    for name in ("checkpoints", "signals"):
        shutil.copytree(other.path / name, run.path / name, dirs_exist_ok=True)
    with pytest.raises(RunError, match=r"000000\.safetensors belongs to another run than traced/mine-s0"):
        extract(run, "alpha", at=0, registry=REGISTRY)
    assert extract(other, "alpha", at=0, registry=REGISTRY).name == "traced/mine-s1:alpha@0"


def test_an_interrupted_step_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in the middle of a step, a run reads as it was before, and the step can be recorded again."""
    record, model = recorder(tmp_path), fresh()
    record.record(model, 0)

    def stop(*_args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "append_log", stop)
    with pytest.raises(KeyboardInterrupt):
        record.record(model, 5)
    monkeypatch.undo()
    assert record.run.steps() == [0]
    assert agree("alpha", "beta@last", runs=tmp_path, registry=REGISTRY).v.endswith("@0")
    train(model, again := recorder(tmp_path), range(5, 6))
    assert again.run.steps() == [0, 5]


def test_bad_input_is_told_in_a_sentence(tmp_path: Path) -> None:
    """Each thing that cannot be is refused with a sentence that says what to do."""
    model = fresh()
    recorder(tmp_path).record(model, 5)
    other = tiny.TinyTask().load(tiny.TinyTask.Options(variety=1))
    cases: list[tuple[type[KtiwprobeError], str, Any]] = [
        (UsageError, "step 5 cannot be recorded after step 5", lambda: recorder(tmp_path).record(model, 5)),
        (RunError, "another probe set", lambda: recorder(tmp_path, probe_set=other).record(model, 6)),
        (RunError, "another probes", lambda: recorder(tmp_path, probes=("beta",)).record(model, 6)),
        (CorpusError, "must be a Corpus or a Batch", lambda: recorder(tmp_path, probe_set=None).record(model, 6)),
        (ContractError, "Linear has no trace", lambda: recorder(tmp_path).record(torch.nn.Linear(1, 1), 6)),
        (UsageError, "cannot be the name of a model", lambda: recorder(tmp_path, model="a/b")),
        (OptionError, "schedule 'often' is not one", lambda: recorder(tmp_path, at="often")),
        (OptionError, "plain values", lambda: recorder(tmp_path, settings={"a": object()}).record(model, 0)),
        (UsageError, "unknown probe", lambda: recorder(tmp_path, probes=("bet",))),
        (RunError, "only what was recorded", lambda: extract(recorder(tmp_path).run, "alpha-opt", registry=REGISTRY)),
        (KtiwprobeError, "your own loop", lambda: agree("alpha", "alpha-hat", runs=tmp_path, registry=REGISTRY)),
    ]
    for error, words, act in cases:
        with pytest.raises(error, match=words):
            act()
    recorder(tmp_path, overwrite=True).record(model, 0)
    assert recorder(tmp_path).run.steps() == [0]


def test_a_trained_run_is_never_taken_for_a_recording(tmp_path: Path) -> None:
    """Where `ktiwprobe train` has a run, a recording is refused, even one that may overwrite."""
    run = ktiwprobe.train("tiny-model", steps=1, runs=tmp_path, registry=REGISTRY)
    mine = recorder(tmp_path, task="tiny-task", model="tiny-model", overwrite=True)
    assert mine.run.path == run.path
    with pytest.raises(RunError, match="give the recording another task or model name"):
        mine.record(fresh(), 0)
    assert run.steps() == [0, 1]


def test_a_model_that_ignores_attend_is_refused(tmp_path: Path) -> None:
    """From its first step on: constant outputs of an untrained model are told from ignoring what is given."""

    class Deaf(tiny.TinyModel):
        def trace(self, batch: Any, *, attend: Any = None, gate: Any = None) -> Any:
            return super().trace(batch, gate=gate)

    torch.manual_seed(0)
    model, record = Deaf(CORPUS.source_size, CORPUS.target_size, tiny.TinyModel.Options()), recorder(tmp_path)
    with pytest.raises(ContractError, match="Deaf ignores attend"):
        record.record(model, 0)


def test_a_corpus_comes_back_from_its_file(tmp_path: Path) -> None:
    """Ids, links, words, texts and tokens survive, and so does the fingerprint."""
    save_corpus(CORPUS, tmp_path / "corpus.safetensors")
    back = load_corpus(tmp_path / "corpus.safetensors")
    assert back.fingerprints == CORPUS.fingerprints
    assert not back.joint
    for name in CORPUS.splits:
        before, after = CORPUS.split(name), back.split(name)
        assert list(before.x_text or ()) == list(after.x_text or ())
        assert before.y_words is not None
        assert after.y_words is not None
        assert np.array_equal(before.y_words.values, after.y_words.values)


def test_a_step_is_due_as_the_schedule_says() -> None:
    """`is_due` agrees with `steps_of` but for the last step, which it cannot know."""
    for schedule in ("log", "paper-translation", "every:7", "0,3,99"):
        due = {step for step in range(301) if is_due(schedule, step, named=REGISTRY.schedules())}
        assert due | {300} == steps_of(schedule, 300, named=REGISTRY.schedules())


def test_a_batch_whose_outputs_have_gaps_is_refused() -> None:
    """Without their places they would be probed as other outputs; padding on the left of both sides is only padding."""
    x, mask = torch.tensor([[1, 2, 3, 4]]), torch.ones(1, 4, dtype=torch.bool)
    gaps = torch.tensor([[False, False, True, True]])
    with pytest.raises(CorpusError, match="example 0 of the batch to probe has outputs that do not count"):
        corpus_of(Batch(x, mask, torch.tensor([4]), x, gaps), task="t")
    split = corpus_of(Batch(x, gaps, torch.tensor([2]), x, gaps), task="t").split("validation")
    assert (split.x[0].tolist(), split.y[0].tolist()) == ([3, 4], [3, 4])
    with pytest.raises(CorpusError, match=r"the output of example 0 has the value 0\.5"):
        corpus_of(Batch(x, mask, torch.tensor([4]), torch.tensor([[0.5]]), mask[:, :1]), task="t")


def without_version(path: Path) -> None:
    """Make a signal one that does not say its version, as those of 0.1.0."""
    signal = load_signal(path)
    kept = {key: value for key, value in signal.meta.items() if key not in ("version", "checksum")}
    replace(signal, meta=kept).save(path)


@pytest.mark.parametrize("says", [True, False])
@pytest.mark.parametrize("changed", ["probe", "model"])
def test_what_an_older_version_recorded_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str, says: bool
) -> None:
    """It cannot be computed again, so it is an error that names versions, however it is read."""
    record = recorder(tmp_path)
    record.record(fresh(), 0)
    path = record.run.signal_path("validation", 0, "beta")
    if not says:
        without_version(path)
    assert len(extract(record.run, "beta", at=0, registry=REGISTRY)) == 20
    owner = definitions.beta if changed == "probe" else tiny.TinyModel
    monkeypatch.setattr(owner, "version", 2, raising=False)
    name = "probe beta" if changed == "probe" else "model TinyModel"
    sentence = rf"beta of traced/mine-s0 was recorded by version 1 of the {name}, which is now 2.*record the run anew"
    with pytest.raises(RunError, match=sentence):
        extract(record.run, "beta", at=0, registry=REGISTRY)
    with pytest.raises(RunError, match=sentence):
        agree("beta", "beta", runs=tmp_path, registry=REGISTRY)
    with pytest.raises(RunError, match=sentence):
        Extractor(record.run, REGISTRY).peek("beta", 0, 0)
    again = recorder(tmp_path, overwrite=True)
    again.record(fresh(), 0)
    assert extract(again.run, "beta", at=0, registry=REGISTRY).meta["version"] == [
        1 + (changed == "probe"),
        1 + (changed == "model"),
    ]


def test_a_recording_does_not_go_on_with_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of it would be refused later."""
    recorder(tmp_path).record(fresh(), 0)
    monkeypatch.setattr(tiny.TinyModel, "version", 2, raising=False)
    with pytest.raises(RunError, match=r"another version of its model \(1, not 2\)"):
        recorder(tmp_path).record(fresh(), 5)


def test_a_class_that_is_not_registered_is_believed(tmp_path: Path) -> None:
    """Nothing knows whether it has changed."""
    model = fresh()
    model.__class__ = type("Unheard", (tiny.TinyModel,), {})
    record = recorder(tmp_path)
    record.record(model, 0)
    assert len(extract(record.run, "beta", at=0, registry=REGISTRY)) == 20

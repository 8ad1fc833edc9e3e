"""Training: what is learned, what is kept, and what is refused before anything is begun."""

import errno
import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import tiny
from ktiwprobe import Corpus, Run, Split, train
from ktiwprobe.errors import ContractError, CorpusError, OptionError, RunBusyError, RunError, UsageError
from ktiwprobe.files import storage
from ktiwprobe.plugins.registry import Registry
from ktiwprobe.runs.recipe import make_recipe
from ktiwprobe.training import loop as training
from observe import Watch, outcome, registry_with, stamps, steps_logged, the_run

Train = Callable[..., Run]


def changed_parameters(run: Run) -> set[str]:
    """Which parameters the last checkpoint has other than the first."""
    first, last = run.load_checkpoint(0), run.load_checkpoint(run.steps()[-1])
    return {name for name in first if not torch.equal(first[name], last[name])}


def same_weights(run: Run, other: Run, step: int) -> bool:
    """Whether two runs have the same weights at a step, to the bit; the files differ in the mark of their run."""
    mine, theirs = run.load_checkpoint(step), other.load_checkpoint(step)
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


# what is learned


def test_a_run_learns_and_keeps_what_it_was(run_tiny: Train) -> None:
    """The loss falls, every scheduled step has a checkpoint and a line, and no line holds a time."""
    run = run_tiny(steps=100)
    log = run.log()
    assert log[-1]["loss"] < log[0]["loss"] / 2
    assert log[-1]["accuracy"] > 2 * log[0]["accuracy"]
    assert run.steps() == steps_logged(run) == list(range(0, 101, 10))
    assert set(log[-1]) == {"step", "train_loss", "accuracy", "loss", "perplexity"}
    assert log[-1]["perplexity"] == pytest.approx(math.exp(log[-1]["loss"]))
    assert run.progress() == (100, 100)


def test_the_same_wishes_give_the_same_bytes(run_tiny: Train, tiny_run: Run) -> None:
    """Two trainings of one recipe, in folders of their own, are equal in every byte; another seed is another run."""
    again = run_tiny(runs="again")
    assert outcome(again) == outcome(tiny_run)
    assert replace(again.record, created=tiny_run.record.created) == tiny_run.record
    assert outcome(run_tiny(seed=1))["log.jsonl"] != outcome(tiny_run)["log.jsonl"]


def test_a_checkpoint_is_the_model_that_was_evaluated(tiny_run: Run, tiny_registry: Registry) -> None:
    """Loading the weights of a step gives the accuracy and loss that the log has for it."""
    recipe = make_recipe(tiny_registry, "tiny-model")
    corpus = recipe.corpus()
    split = corpus.split("validation")
    batches = [split.batch(rows) for rows in split.by_length()]
    for record in tiny_run.log():
        model = recipe.fresh_model(corpus, torch.device("cpu"))
        model.load_state(tiny_run.load_checkpoint(record["step"]))
        assert record.items() >= training.evaluate(model, batches).items()


def test_evaluation_switches_dropout_off_and_sums_before_dividing(tiny_corpus: Corpus) -> None:
    """The numbers do not depend on how sentences are grouped, nor on the mode the model was left in."""
    model = tiny.TinyModel.build(tiny_corpus, tiny.TinyModel.Options(dropout=0.9)).train()
    split = tiny_corpus.split("validation")
    groups = [[split.batch(rows) for rows in split.by_length(most=n)] for n in (len(split), 3)]
    one, many = (training.evaluate(model, batches) for batches in groups)
    assert one["accuracy"] == many["accuracy"]
    assert one["loss"] == pytest.approx(many["loss"], rel=1e-6)


def test_evaluation_takes_plain_numbers_too() -> None:
    """A model without torch may return what Python has; a perplexity too large for a float is cut."""

    class Plain:
        def evaluate(self, batch: Any) -> tuple[int, float, float]:
            return 1, 2.0, 1e9

    found = training.evaluate(Plain(), [None, None])  # type: ignore[list-item]
    assert (found["accuracy"], found["loss"]) == (0.5, 5e8)
    assert math.isfinite(found["perplexity"])


def test_epochs_are_another_way_to_say_steps(run_tiny: Train) -> None:
    """Two epochs of 40 sentences in batches of 8 are ten steps."""
    by_epochs, by_steps = run_tiny(options={"epochs": 2}), run_tiny(steps=10, runs="other")
    assert by_epochs.progress() == (10, 10)
    assert outcome(by_epochs) == outcome(by_steps)


def test_schedules_say_what_is_kept_and_what_is_evaluated(run_tiny: Train) -> None:
    """Checkpoints are always evaluated; further evaluations leave no weights behind, and change none."""
    run = run_tiny(options={"checkpoints": "0,7,20", "evaluations": "every:5"})
    assert run.steps() == [0, 7, 20, 30]
    assert steps_logged(run) == [0, 5, 7, 10, 15, 20, 25, 30]
    plain = run_tiny(options={"checkpoints": "0,7,20"})
    assert same_weights(run, plain, 30)


def test_no_steps_at_all_is_a_run_of_the_untrained_model(run_tiny: Train) -> None:
    """--steps 0 keeps and evaluates the initial weights, once."""
    run = run_tiny(steps=0)
    assert run.steps() == steps_logged(run) == [0]
    before = stamps(run)
    assert stamps(run_tiny(steps=0)) == before


def test_a_stream_trains_on_fresh_sentences(run_tiny: Train) -> None:
    """An endless task learns, and only its finite splits have fingerprints."""
    run = run_tiny("tiny-model", "tiny-stream", steps=60, options={"lr": 0.03})
    assert run.log()[-1]["loss"] < run.log()[0]["loss"]
    assert set(run.record.corpus) == {"validation"}


def test_learned_attention_changes_everything(tiny_run: Run) -> None:
    """Every parameter learns."""
    assert changed_parameters(tiny_run) == set(tiny_run.load_checkpoint(0))


def test_under_uniform_attention_the_attention_does_not_learn(run_tiny: Train, tiny_run: Run) -> None:
    """The same initial weights, another training: what decides where to look is never asked."""
    run = run_tiny(attention="uniform")
    assert (run.path.name, run.attention) == ("tiny-model-uniform-s0", "uniform")
    everything = set(run.load_checkpoint(0))
    assert changed_parameters(run) == {name for name in everything if not name.startswith("look.")}
    assert same_weights(run, tiny_run, 0)
    assert run.log()[0] != tiny_run.log()[0]


def test_with_frozen_beta_only_the_attention_learns(run_tiny: Train) -> None:
    """Nothing but attention_parameters() changes."""
    run = run_tiny(attention="frozen-beta")
    assert run.path.name == "tiny-model-frozen-beta-s0"
    assert changed_parameters(run) == {"look.0.weight", "look.0.bias"}


def test_frozen_beta_trains_a_model_that_hooks_its_embedding(run_tiny: Train) -> None:
    """torch refuses hooks on what needs no gradient: such a model keeps its gradients, and only attention learns."""

    class Hooks(tiny.TinyModel):
        def trace(self, batch: Any, **given: Any) -> Any:
            if self.training:
                self.read(batch.x).register_hook(lambda gradient: gradient)
            return super().trace(batch, **given)

    registry = registry_with("models", "tiny-model", Hooks)
    hooked, plain = (
        run_tiny(attention="frozen-beta", runs=name, **given)
        for name, given in (("a", {"registry": registry}), ("b", {}))
    )
    assert changed_parameters(hooked) == {"look.0.weight", "look.0.bias"}
    for name, tensor in plain.load_checkpoint(30).items():
        assert torch.equal(hooked.load_checkpoint(30)[name], tensor)


def test_a_sentence_of_one_token_can_be_learned(run_tiny: Train) -> None:
    """The smallest corpus there is."""

    class Shortest:
        def load(self, options: Any) -> Corpus:
            split = Split.of([[4]], [[5]])
            return Corpus("shortest", "translation", {"train": split, "validation": split}, tiny.SOURCE, tiny.TARGET)

    registry = registry_with("tasks", "shortest", Shortest)
    run = run_tiny("tiny-model", "shortest", registry=registry, steps=40, options={"lr": 0.1})
    assert run.log()[-1]["accuracy"] == 1


def test_the_callers_random_numbers_are_left_alone(run_tiny: Train, tiny_run: Run) -> None:
    """Training neither uses nor moves the caller's random state."""
    torch.manual_seed(123)
    expected = torch.rand(3)
    torch.manual_seed(123)
    assert outcome(run_tiny(runs="other")) == outcome(tiny_run)
    assert torch.equal(torch.rand(3), expected)


def test_progress_hears_of_everything_once_and_in_order(run_tiny: Train) -> None:
    """Begin, each step, each evaluation, end."""
    watch = Watch()
    run_tiny(steps=3, options={"checkpoints": "0,2"}, progress=watch)
    name = run_tiny(steps=3, options={"checkpoints": "0,2"}).name
    assert watch.heard == [
        f"begin {name} 0/3", "evaluated 0", "at 1", "at 2", "evaluated 2", "at 3", "evaluated 3", "end"
    ]  # fmt: skip
    assert watch.said == []


# models that train themselves


def test_a_model_that_fits_itself_is_kept_where_it_says(run_tiny: Train) -> None:
    """Its own steps are logged, checkpointed and readable, and it improves."""
    run = run_tiny("tiny-count")
    assert run.steps() == steps_logged(run) == [0, 1]
    assert run.log()[1]["loss"] < run.log()[0]["loss"]
    assert run.load_checkpoint(1)["counts"].sum() > run.load_checkpoint(0)["counts"].sum()


def test_a_model_that_fitted_itself_is_not_fitted_again(run_tiny: Train) -> None:
    """Finished is finished, whatever number of steps is asked for."""
    run = run_tiny("tiny-count")
    before = stamps(run)
    for wishes in ({}, {"steps": 5000}, {"resume": True}):
        assert stamps(run_tiny("tiny-count", **wishes)) == before


def test_a_fit_that_was_stopped_is_done_again(run_tiny: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit without its end is begun anew, and leaves what an undisturbed one leaves."""
    whole = run_tiny("tiny-count", runs="other")

    def stops(self: Any, corpus: Corpus, save: Callable[[int], None]) -> None:
        save(0)
        raise KeyboardInterrupt

    watch = Watch()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(tiny.TinyCount, "fit", stops)
        run_tiny("tiny-count", progress=watch)
    assert watch.heard[-1] == "end"
    assert outcome(run_tiny("tiny-count")) == outcome(whole)


def test_a_fit_that_saves_nothing_is_kept_at_its_end(run_tiny: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fitted model is step 0."""
    monkeypatch.setattr(tiny.TinyCount, "fit", lambda self, corpus, save: None)
    run = run_tiny("tiny-count")
    assert run.steps() == [0]
    before = stamps(run)
    assert stamps(run_tiny("tiny-count")) == before


# what is refused


class NoLoss:
    """Can be evaluated, not trained."""

    default_task = "tiny-task"

    @classmethod
    def build(cls, corpus: Corpus, options: Any) -> Any:
        return cls()


class NoParameters(tiny.TinyModel):
    """Does not say which parameters are its attention."""

    attention_parameters = property()  # type: ignore[assignment]


class NoAttend(tiny.TinyModel):
    """An author's own loss that cannot be told how to attend."""

    def loss(self, batch: Any) -> Any:  # type: ignore[override]
        return super().loss(batch)


class Empty(tiny.TinyTask):
    """One of the splits has no sentence."""

    def load(self, options: Any) -> Corpus:
        corpus = super().load(options)
        nothing = {"train" if options.variety else "validation": Split.of([], [])}
        return Corpus("tiny-task", "translation", {**corpus.splits, **nothing}, tiny.SOURCE, tiny.TARGET)


@pytest.mark.parametrize(
    ("target", "wishes", "error", "sentence"),
    [
        (NoLoss, {}, ContractError, "'odd' has neither loss nor fit, one of which training needs"),
        (NoParameters, {"attention": "frozen-beta"}, ContractError, r"'odd' has no attention_parameters\(\)"),
        (NoAttend, {"attention": "uniform"}, ContractError, "loss of model 'odd' takes no attend="),
        (NoLoss, {"attention": "uniform"}, UsageError, "'odd' has no attention"),
        (tiny.TinyModel, {"options": {"checkpoints": "often"}}, OptionError, "'often' is not one"),
        (tiny.TinyModel, {"name": "a/b"}, UsageError, "cannot be the name"),
        (tiny.TinyModel, {"device": "gpu"}, UsageError, "unknown device 'gpu'"),
        (tiny.TinyModel, {"options": {"task.sentences": 0}}, CorpusError, "'train' of task tiny-task is empty"),
        (Empty, {"task": "odd"}, CorpusError, "'validation' of task tiny-task is empty"),
        (Empty, {"task": "odd", "options": {"variety": 1}}, CorpusError, "'train' of task tiny-task is empty"),
        (Empty, {"task": "odd", "options": {"variety": 1, "epochs": 1}}, CorpusError, "'train' .* is empty"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_a_run_is_begun(
    run_tiny: Train, tmp_path: Path, target: Any, wishes: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    """One sentence, and no run that `ls` would list or `agree` would take for the latest."""
    kind, model = ("tasks", "tiny-model") if target is Empty else ("models", "odd")
    with pytest.raises(error, match=sentence):
        run_tiny(model, **{"registry": registry_with(kind, "odd", target), **wishes})
    assert not list(tmp_path.glob("runs/*/*/run.json"))


def test_a_runs_folder_that_cannot_be_written_is_a_sentence(run_tiny: Train, tmp_path: Path) -> None:
    """A folder below a file: refused with the way out."""
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=r"cannot write to .*file/.*: Not a directory; choose another folder"):
        run_tiny(runs="file/runs")


def test_a_run_in_use_is_busy(run_tiny: Train, tiny_run: Run) -> None:
    """Two trainings of one run at a time are one too many."""
    with tiny_run.lock(), pytest.raises(RunBusyError):
        run_tiny(steps=60)
    assert run_tiny(steps=40).progress() == (40, 40)


@pytest.mark.parametrize(
    ("wishes", "sentence"),
    [
        ({"options": {"width": 4}}, r"another model\.width \(8, not 4\): use another name, or remove it first"),
        ({"options": {"lr": 0.5}}, r"another train\.lr \(0\.03, not 0\.5\)"),
        ({"seed": 1}, r"another seed \(0, not 1\)"),
        ({"attention": "uniform"}, r"another attention \(learned, not uniform\)"),
        ({"model": "tiny-count"}, r"another model \(tiny-model, not tiny-count\)"),
    ],
)
def test_another_training_under_the_same_name_is_refused(
    run_tiny: Train, wishes: dict[str, Any], sentence: str
) -> None:
    """A run goes on only with what it began with; the sentence says what differs, and nothing is touched."""
    run = run_tiny(name="mine")
    before = stamps(run)
    with pytest.raises(RunError, match=f"run tiny-task/mine has {sentence}"):
        run_tiny(**{"name": "mine", "resume": True, "steps": 60, **wishes})
    assert stamps(run) == before


def test_a_run_of_another_corpus_is_refused(run_tiny: Train, tiny_run: Run) -> None:
    """The same task and options that now give other sentences do not continue a run."""

    class Another(tiny.TinyTask):
        def load(self, options: Any) -> Corpus:
            return super().load(tiny.TinyTask.Options(variety=99))

    registry = registry_with("models", "unused", NoLoss)
    registry.entries["tasks"]["tiny-task"] = registry_with("tasks", "another", Another).entry("tasks", "another")
    with pytest.raises(CorpusError, match="was trained on another corpus than 'tiny-task' gives now"):
        run_tiny(registry=registry, steps=60)


def test_a_run_of_another_schema_is_not_overwritten(run_tiny: Train, tiny_run: Run) -> None:
    """What a later version wrote stays as it is."""
    file = tiny_run.path / "run.json"
    file.write_text(file.read_text().replace('"schema": 2', '"schema": 3'))
    with pytest.raises(RunError, match="schema 3"):
        run_tiny(steps=60)


# what goes wrong


def test_a_diverging_loss_stops_with_a_sentence(run_tiny: Train, tmp_path: Path) -> None:
    """The checkpoints before stay readable, none is written of what diverged, and the log has no NaN."""
    watch = Watch()
    with pytest.raises(RunError, match=r"training diverged by step 20 \(loss (nan|inf)\): lower the learning rate"):
        run_tiny(registry=registry_with("models", "odd", Explodes), model="odd", progress=watch)
    run = the_run(tmp_path / "runs")
    assert run.steps() == steps_logged(run) == [0, 10]
    assert all(tensor.isfinite().all() for step in (0, 10) for tensor in run.load_checkpoint(step).values())
    assert watch.heard[-1] == "end"


class Explodes(tiny.TinyModel):
    """Learns for twelve steps, then its loss is infinite."""

    batches = 0

    def loss(self, batch: Any, **rest: Any) -> Any:
        self.batches += 1
        return super().loss(batch, **rest) * (math.inf if self.batches > 12 else 1)


def test_a_state_that_diverged_is_not_saved(run_tiny: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state to resume from is never one without numbers, however often it is saved."""
    monkeypatch.setattr(training, "SECONDS_BETWEEN_SAVES", -1.0)
    with pytest.raises(RunError, match="training diverged by step 13"):
        run_tiny("odd", registry=registry_with("models", "odd", Explodes))
    found = the_run(tmp_path / "runs").load_latest()
    assert found is not None and found[1]["step"] == 12
    assert all(tensor.isfinite().all() for tensor in found[0].values())


def test_weights_that_are_broken_by_the_last_step_are_not_kept(run_tiny: Train, tmp_path: Path) -> None:
    """The loss is measured before an update, so its damage shows first in the evaluation."""

    class Last(tiny.TinyModel):
        def loss(self, batch: Any, **rest: Any) -> Any:
            loss = super().loss(batch, **rest)
            loss.register_hook(lambda gradient: gradient * math.nan)
            return loss

    with pytest.raises(RunError, match=r"training diverged by step 1 \(loss nan\)"):
        run_tiny("odd", registry=registry_with("models", "odd", Last), steps=1)
    assert the_run(tmp_path / "runs").steps() == [0]


@pytest.mark.parametrize("write", range(1, 9))
def test_a_full_disk_costs_nothing_that_was_saved(
    run_tiny: Train, tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: int
) -> None:
    """Whichever file does not fit: one sentence, all earlier checkpoints readable, and with room again it goes on."""
    real, count = storage.write_bytes, 0

    def full(path: Path, content: bytes) -> None:
        nonlocal count
        count += 1
        if count < write:
            real(path, content)
            return
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", _no_space)
            real(path, content)

    sentence = r"cannot write .*: No space left on device; what was saved before is intact"
    with monkeypatch.context() as patch, pytest.raises(RunError, match=sentence):
        patch.setattr(storage, "write_bytes", full)
        run_tiny(runs="full")
    for run in map(Run, tmp_path.glob("full/*/*")):
        assert all(run.load_checkpoint(step) for step in run.steps())
        assert not list(run.path.rglob("*.tmp"))
    assert outcome(run_tiny(runs="full", resume=True)) == outcome(tiny_run)


def _no_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_train_finds_the_installed_plugins_itself(tmp_path: Path) -> None:
    """Without a registry the installed plugins are used."""
    with pytest.raises(UsageError, match=r"unknown model 'tiny-model'.*known: .*lstm-seq2seq"):
        train("tiny-model", runs=tmp_path)

"""Recipes: what makes a run this run, from a user's wishes and back from a record."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import tiny
from ktiwprobe import Corpus, Run, Split, build_registry, hookimpl, option
from ktiwprobe.errors import (
    ContractError,
    CorpusError,
    OptionError,
    PluginError,
    RunError,
    UnknownNameError,
    UsageError,
)
from ktiwprobe.models.attend import Under
from ktiwprobe.plugins.registry import Registry
from ktiwprobe.runs.recipe import Recipe, TrainOptions, make_recipe, recipe_of
from ktiwprobe.training.devices import choose_device


def recipe(registry: Registry, task: str | None = None, **values: object) -> Recipe:
    """The recipe of tiny-model with these option values."""
    return make_recipe(registry, "tiny-model", task, values={key.replace("__", "."): v for key, v in values.items()})


def folder(recipe: Recipe) -> str:
    """Where its run goes."""
    return str(recipe.folder(Path("R")))


# naming


def test_a_plain_run_has_a_plain_name(tiny_registry: Registry) -> None:
    """Task, model and seed, and how it attends where that is not as learned."""
    assert folder(recipe(tiny_registry)) == "R/tiny-task/tiny-model-s0"
    for attention in ("uniform", "frozen-beta"):
        made = make_recipe(tiny_registry, "tiny-model", seed=7, attention=attention)
        assert folder(made) == f"R/tiny-task/tiny-model-{attention}-s7"


def test_options_that_differ_from_the_defaults_name_another_run(tiny_registry: Registry) -> None:
    """Task options show in the task's folder, model and train options in the run's; each value another name."""
    plain = recipe(tiny_registry)
    ways = [recipe(tiny_registry, **{key: v}) for key, v in (("width", 16), ("width", 17), ("lr", 0.5), ("batch", 4))]
    names = {folder(way) for way in ways}
    assert len(names) == 4
    assert all(name.startswith("R/tiny-task/tiny-model+") and name.endswith("-s0") for name in names)
    assert folder(recipe(tiny_registry, variety=1)).startswith("R/tiny-task+")
    assert all(way.identity[0] == plain.identity[0] == "" for way in ways)


def test_length_and_defaults_said_aloud_do_not_name_another_run(tiny_registry: Registry) -> None:
    """Steps are not identity, nor is a value that the model or the task would have taken anyway."""
    same = [{"steps": 5}, {"epochs": 2}, {"width": 8}, {"lr": 0.03}, {"checkpoints": "every:10"}, {"train__batch": "8"}]
    assert {folder(recipe(tiny_registry, **values)) for values in same} == {"R/tiny-task/tiny-model-s0"}


def test_names_do_not_depend_on_the_process(tiny_registry: Registry) -> None:
    """The hash in a name is of the values alone, so that a run is found again."""
    task, model = (hashlib.sha256(text).hexdigest()[:6] for text in (b'{"variety": 1}', b'{"width": 16}'))
    assert folder(recipe(tiny_registry, width=16, variety=1)) == f"R/tiny-task+{task}/tiny-model+{model}-s0"


def test_a_name_of_ones_own_stays_in_the_folder_of_the_task(tiny_registry: Registry) -> None:
    """--name replaces the run's part of the path."""
    assert str(recipe(tiny_registry, width=16).folder(Path("R"), "mine")) == "R/tiny-task/mine"


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a:b", "a@1", "a[0]", ".hidden", "a\\b"])
def test_a_name_that_is_not_one_folder_is_refused(tiny_registry: Registry, name: str) -> None:
    """A run elsewhere or nested would never be found again, and some characters belong to SPECs."""
    with pytest.raises(UsageError, match="cannot be the name of a run"):
        recipe(tiny_registry).folder(Path("R"), name)


# wishes


@pytest.mark.parametrize(
    ("wish", "error", "sentence"),
    [
        ({"model": "tiny-modle"}, UnknownNameError, "did you mean 'tiny-model'"),
        ({"task": "tiny-tsk"}, UnknownNameError, "did you mean 'tiny-task'"),
        ({"attention": "unifrom"}, UnknownNameError, "unknown attention 'unifrom'; did you mean 'uniform'"),
        ({"seed": -1}, UsageError, "seed -1 is out of range"),
        ({"seed": 2**63}, UsageError, "out of range"),
        ({"values": {"widht": 1}}, OptionError, "unknown option 'widht'; did you mean 'width'"),
        ({"values": {"model.widht": 1}}, OptionError, "did you mean 'width'"),
        ({"values": {"width": 0}}, OptionError, "model.width is 0: it must be at least 1"),
        ({"values": {"batch": 0}}, OptionError, "train.batch is 0: it must be at least 1"),
        ({"values": {"lr": -1}}, OptionError, "train.lr is -1"),
        ({"values": {"lr": "fast"}}, OptionError, "train.lr is 'fast': it must be a number"),
        ({"values": {"steps": -1}}, OptionError, "train.steps"),
        ({"values": {"steps": 1, "epochs": 1}}, OptionError, "steps or epochs, not both"),
        ({"values": {"checkpoints": "often"}}, OptionError, "schedule 'often' is not one"),
        ({"values": {"evaluations": "every:0"}}, OptionError, "schedule 'every:0' is not one"),
    ],
)
def test_a_wish_that_cannot_be_is_a_sentence(
    tiny_registry: Registry, wish: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    """Unknown names, wrong types, values out of range: refused before anything is made."""
    with pytest.raises(error, match=sentence):
        make_recipe(tiny_registry, **{"model": "tiny-model", "task": "tiny-task", **wish})


def test_the_task_comes_from_the_model_if_not_said(tiny_registry: Registry) -> None:
    """A model class may name the task that suits it; otherwise toy-translation."""
    assert make_recipe(tiny_registry, "tiny-model").task == "tiny-task"
    assert make_recipe(tiny_registry, "lstm-seq2seq").task == "toy-translation"
    assert make_recipe(tiny_registry, "lstm-classifier").task == "toy-sentiment"


def test_the_user_wins_over_task_over_model(tiny_registry: Registry) -> None:
    """Train options come from the model, then the task, then the user."""

    class Suggests(tiny.TinyModel):
        training_defaults = {"batch": 64, "lr": 0.5, "epochs": 9}  # noqa: RUF012

    registry = build_registry({"tiny": tiny, "more": claim("models", "suggests", Suggests)})
    on_stream = make_recipe(registry, "suggests", "tiny-stream").train_options
    assert (on_stream.batch, on_stream.lr, on_stream.epochs, on_stream.steps) == (8, 0.5, 9, None)
    mine = make_recipe(registry, "suggests", "tiny-task", values={"batch": 2}).train_options
    assert (mine.batch, mine.lr, mine.epochs, mine.steps) == (2, 0.03, None, 30)


# length


@pytest.mark.parametrize(("values", "steps"), [({}, 30), ({"steps": 7}, 7), ({"epochs": 3}, 15), ({"steps": 0}, 0)])
def test_steps_and_epochs_say_how_long(
    tiny_registry: Registry, tiny_corpus: Corpus, values: dict[str, int], steps: int
) -> None:
    """An epoch is every training sentence once: 40 sentences, batches of 8."""
    made = recipe(tiny_registry, **values)
    assert made.steps(tiny_corpus) == steps
    assert made.length_given == bool(values)


def test_an_epoch_has_a_last_smaller_batch(tiny_registry: Registry, tiny_corpus: Corpus) -> None:
    """40 sentences in batches of 16 are three steps."""
    assert recipe(tiny_registry, epochs=1, batch=16).steps(tiny_corpus) == 3


def test_a_stream_has_no_epochs(tiny_registry: Registry) -> None:
    """An endless task must be told how long."""
    made = recipe(tiny_registry, "tiny-stream", epochs=1)
    with pytest.raises(OptionError, match="endless stream: say how many steps to train"):
        made.steps(made.corpus())


def test_an_epoch_is_known_where_the_training_split_is_finite(tiny_registry: Registry, tiny_corpus: Corpus) -> None:
    """Its length depends on the batch, and a schedule of epochs on it."""
    made = recipe(tiny_registry, checkpoints="epochs", batch=16, epochs=2)
    assert made.epoch(tiny_corpus) == 3
    assert made.train_options.kept(made.steps(tiny_corpus), epoch=3) == {0, 3, 6}
    assert recipe(tiny_registry, "tiny-stream").epoch(recipe(tiny_registry, "tiny-stream").corpus()) is None


@pytest.mark.parametrize("schedule", ["checkpoints", "evaluations"])
def test_a_stream_has_no_epochs_to_keep(tiny_registry: Registry, schedule: str) -> None:
    """Asking for them is refused before a run is begun."""
    made = recipe(tiny_registry, "tiny-stream", steps=5, **{schedule: "epochs"})
    with pytest.raises(OptionError, match="a stream has no epochs: write every:N"):
        made.steps(made.corpus())


def test_evaluations_come_on_top_of_checkpoints() -> None:
    """Every checkpoint is evaluated, and more steps if asked for."""
    assert TrainOptions(checkpoints="epochs", evaluations="0,2").evaluated(9, epoch=4) == {0, 2, 4, 8, 9}
    assert TrainOptions(checkpoints="5", evaluations="epochs").evaluated(9, epoch=4) == {0, 4, 5, 8, 9}
    assert TrainOptions(checkpoints="0,10").evaluated(20) == {0, 10, 20}
    assert TrainOptions(checkpoints="0,10", evaluations="every:4").evaluated(20) == {0, 4, 8, 10, 12, 16, 20}


# making the corpus and the model


def claim(kind: str, name: str, target: object) -> object:
    """A plugin with one name."""

    def hook(register: Any) -> None:
        register(name, target)

    hook.__name__ = f"register_{kind}"
    return type("Plugin", (), {hook.__name__: staticmethod(hookimpl(hook))})


@pytest.mark.parametrize(
    ("loaded", "error", "sentence"),
    [
        ({"train": []}, ContractError, r"task 'odd' returned dict: load\(options\) must return a Corpus"),
        (Corpus("odd", "translation", {}, "a", "b"), CorpusError, "task 'odd' has no train split"),
        (Corpus("odd", "translation", {"train": Split.of([], [])}, "a", "b"), CorpusError, "has no validation split"),
    ],
)
def test_a_task_that_returns_no_proper_corpus_is_named(loaded: object, error: type[Exception], sentence: str) -> None:
    """What a task returns is checked once, here."""

    class Odd:
        def load(self, options: Any) -> object:
            return loaded

    registry = build_registry({"tiny": tiny, "odd": claim("tasks", "odd", Odd)})
    with pytest.raises(error, match=sentence):
        recipe(registry, "odd").corpus()


def test_a_model_may_prepare_the_corpus() -> None:
    """`prepare` sees the options; what it returns is checked too."""

    class Halves(tiny.TinyModel):
        @classmethod
        def prepare(cls, corpus: Corpus, options: Any) -> Any:
            import numpy as np

            if options.width == 1:
                return None
            return replace(corpus, splits={name: s.subset(np.arange(5)) for name, s in corpus.splits.items()})

    registry = build_registry({"tiny": tiny, "more": claim("models", "halves", Halves)})
    assert len(make_recipe(registry, "halves").corpus().split("train")) == 5
    with pytest.raises(ContractError, match=r"model 'halves' prepared NoneType: prepare\(corpus, options\) must"):
        make_recipe(registry, "halves", values={"width": 1}).corpus()


def test_the_seed_makes_the_model(tiny_registry: Registry, tiny_corpus: Corpus) -> None:
    """The same seed, the same weights; another seed, others."""
    cpu = torch.device("cpu")
    models = [make_recipe(tiny_registry, "tiny-model", seed=s).fresh_model(tiny_corpus, cpu) for s in (3, 3, 4)]
    assert torch.equal(models[0].say.weight, models[1].say.weight)
    assert not torch.equal(models[0].say.weight, models[2].say.weight)


def test_attention_that_a_model_does_not_have_is_refused(tiny_registry: Registry, tiny_corpus: Corpus) -> None:
    """Uniform and frozen-beta need a model with attention; learned is as it is."""
    model = tiny.TinyCount.build(tiny_corpus, None)
    assert make_recipe(tiny_registry, "tiny-count").under_attention(model) is model
    for attention in ("uniform", "frozen-beta"):
        with pytest.raises(UsageError, match=f"'tiny-count' has no attention that could be {attention}"):
            make_recipe(tiny_registry, "tiny-count", attention=attention).under_attention(model)
    uniform = make_recipe(tiny_registry, "tiny-model", attention="uniform")
    assert isinstance(uniform.under_attention(uniform.fresh_model(tiny_corpus, torch.device("cpu"))), Under)


# back from a record


def test_the_record_says_what_best_means(tiny_corpus: Corpus) -> None:
    """A model class may say by which measure it is best, accuracy if it does not; no other word will do."""
    plugins = {"tiny": tiny}
    for best_by in ("loss", "bleu"):
        model = type("Judged", (tiny.TinyModel,), {"best_by": best_by})
        plugins |= {best_by: claim("models", f"by-{best_by}", model)}  # type: ignore[dict-item]
    registry = build_registry(plugins)
    found = {name: make_recipe(registry, name).record(tiny_corpus, None) for name in ("tiny-count", "by-loss")}
    assert {name: record.best_by for name, record in found.items()} == {"tiny-count": "accuracy", "by-loss": "loss"}
    with pytest.raises(ContractError, match="best_by of model 'by-bleu' is 'bleu': it must be accuracy or loss or"):
        make_recipe(registry, "by-bleu").record(tiny_corpus, None)


def test_a_record_gives_the_recipe_back(tiny_registry: Registry, tiny_corpus: Corpus, tmp_path: Path) -> None:
    """Everything that decides what a run is survives run.json."""
    values = {"width": 16, "dropout": 0.1, "lr": 0.123456789, "epochs": 2, "evaluations": "every:5", "variety": 3}
    made = make_recipe(tiny_registry, "tiny-model", seed=5, attention="uniform", values=values)
    run = Run.create(tmp_path / "t" / "r", made.record(tiny_corpus, None))
    assert replace(recipe_of(run, tiny_registry), length_given=True) == made


def test_an_option_set_to_none_stays_none(tiny_corpus: Corpus, tmp_path: Path) -> None:
    """None is a value where the field allows it, not the absence of one."""

    class Optional(tiny.TinyModel):
        @dataclass(frozen=True)
        class Options(tiny.TinyModel.Options):
            """A limit that can be lifted."""

            limit: int | None = option(5)

    registry = build_registry({"tiny": tiny, "more": claim("models", "optional", Optional)})
    made = make_recipe(registry, "optional", values={"limit": "none"})
    run = Run.create(tmp_path / "t" / "r", made.record(tiny_corpus, None))
    assert recipe_of(run, registry).model_options.limit is None


def test_a_run_whose_plugin_is_gone_names_it(tiny_run: Run) -> None:
    """A run says what it needs, and of whom."""
    with pytest.raises(PluginError, match=r"needs the task 'tiny-task' of plugin 'tiny' \(in memory -\).*install it"):
        recipe_of(tiny_run, build_registry(environ={"KTIWPROBE_LOAD_PLUGINS": ""}))


def test_a_run_whose_options_are_gone_says_so(tiny_run: Run, tiny_registry: Registry) -> None:
    """A plugin that changed its options since is the run's trouble, not the user's typing."""
    file = tiny_run.path / "run.json"
    file.write_text(file.read_text().replace('"width": 8', '"width": 8, "depth": 3'))
    tiny_run = Run.open(tiny_run.path)
    with pytest.raises(RunError, match=r"was made with other options than its plugins have now: .*model\.depth"):
        recipe_of(tiny_run, tiny_registry)


# devices


def test_devices_that_are_not_there_are_refused() -> None:
    """auto and cpu always work; the rest only where it exists."""
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("auto").type in ("cpu", "cuda")
    for name in ("gpu", "meta", "mps", ""):
        with pytest.raises(UnknownNameError, match=f"unknown device '{name}'.*known: auto, cpu, cuda"):
            choose_device(name)
    with pytest.raises(UsageError, match="there is no CUDA device 99 here"):
        choose_device("cuda:99")


def test_a_model_with_a_schedule_of_its_own_keeps_it(tiny_registry: Registry) -> None:
    """Its suggestions win over the task's general ones, what the task says of that model wins over both."""

    class Stubborn(tiny.TinyModel):
        own_schedule = True
        training_defaults = {"batch": 64, "epochs": 9}  # noqa: RUF012

    class Knowing(tiny.TinyTask):
        training_for = {"stubborn": {"epochs": 2}}  # noqa: RUF012

    more = {"more": claim("models", "stubborn", Stubborn), "tasks": claim("tasks", "knowing", Knowing)}
    registry = build_registry({"tiny": tiny, **more})
    general = make_recipe(registry, "stubborn", "tiny-task").train_options
    assert (general.batch, general.lr, general.epochs, general.steps) == (64, 0.03, 9, None)
    assert make_recipe(registry, "stubborn", "knowing").train_options.epochs == 2
    assert make_recipe(registry, "stubborn", "knowing", values={"epochs": 4}).train_options.epochs == 4


@pytest.mark.parametrize(
    ("task", "batch", "epochs", "lr"),
    [("multi30k", 64, 30, 1e-3), ("sst", 64, 60, 1.5e-4), ("imdb", 64, 60, 5e-5), ("amazon", 64, 60, 5e-5)],
)
def test_the_proxy_trains_as_published(task: str, batch: int, epochs: int, lr: float) -> None:
    """Whatever the task suggests for the models with attention, whose runs keep their names."""
    proxy = make_recipe(build_registry(), "bow-proxy", task)
    found = proxy.train_options
    assert (found.batch, found.epochs, found.steps, found.lr, found.checkpoints) == (batch, epochs, None, lr, "epochs")
    said = make_recipe(build_registry(), "bow-proxy", task, values={"lr": lr, "epochs": epochs})
    assert said.identity == proxy.identity == ("", "")

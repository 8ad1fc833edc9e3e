"""Recipe: the names and options a run is made of, and how to make its corpus and its model from them.

A recipe comes from a user's wishes (`make_recipe`) or from a run's record (`recipe_of`), and decides what a run is.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args

import numpy as np
import torch

from ktiwprobe.corpus.corpus import Corpus
from ktiwprobe.corpus.split import Split
from ktiwprobe.errors import (
    ContractError,
    CorpusError,
    OptionError,
    PluginError,
    RunError,
    UnknownNameError,
    UsageError,
)
from ktiwprobe.models.attend import Under, uniform
from ktiwprobe.plugins.capabilities import (
    FitsItself,
    Moves,
    Prepares,
    WarmStarts,
    best_by,
    default_task,
    has_own_schedule,
    sites_of,
    supports,
    training_defaults,
    training_for,
)
from ktiwprobe.plugins.options import Values, as_dict, changed, fill, option, options_of, short_hash, sort_into_spaces
from ktiwprobe.plugins.protocols import AttentionModel, Model
from ktiwprobe.plugins.registry import Registry
from ktiwprobe.runs.best import MEASURES
from ktiwprobe.runs.names import check_name, folder_name, with_hash
from ktiwprobe.runs.record import LENGTH, RunRecord
from ktiwprobe.runs.run import Run
from ktiwprobe.runs.schedule import Named, steps_of

M = TypeVar("M")
Attention = Literal["learned", "uniform", "frozen-beta"]


@dataclass(frozen=True)
class TrainOptions:
    """How to train. A model class and a task suggest their own values; what the user says wins."""

    batch: int = option(16, low=1, help="sentences a step")
    lr: float = option(1e-3, low=0.0, help="learning rate")
    steps: int | None = option(None, low=0, help="updates; else from epochs")
    epochs: int | None = option(None, low=1, help="passes over the training split, where steps are not given")
    checkpoints: str = option(
        "log", help="log, epochs, every:N, steps such as 0,10,100, or one of `ktiwprobe ls schedules`"
    )
    evaluations: str = option("checkpoints", help="further steps to evaluate at, written the same way")

    def kept(self, last: int, *, epoch: int | None = None, named: Named | None = None) -> set[int]:
        """The steps to keep checkpoints of; an epoch has `epoch` steps, `named` are the schedules of plugins."""
        return steps_of(self.checkpoints, last, epoch=epoch, named=named)

    def evaluated(self, last: int, *, epoch: int | None = None, named: Named | None = None) -> set[int]:
        """The steps to evaluate at: those of the checkpoints, and more if asked for."""
        kept = self.kept(last, epoch=epoch, named=named)
        if self.evaluations == "checkpoints":
            return kept
        return kept | steps_of(self.evaluations, last, epoch=epoch, named=named)


@dataclass(frozen=True)
class Recipe:
    """What a run is made of."""

    registry: Registry
    model: str
    task: str
    attention: Attention
    seed: int
    task_options: Any
    model_options: Any
    train_options: TrainOptions
    identity: tuple[str, str]  # hashes of what differs from the defaults: of the task, of the model and its training
    length_given: bool = False  # whether steps or epochs are the user's word, not a default

    def folder(self, runs: Path, name: str | None = None) -> Path:
        """RUNS/<task>[+h6]/<model>[+h6][-uniform|-frozen-beta]-s<seed>, or RUNS/<task>[+h6]/<name>."""
        task, model = self.identity
        run = folder_name(self.model, self.attention, self.seed, model) if name is None else check_name(name, "run")
        return runs / with_hash(self.task, task) / run

    def corpus(self) -> Corpus:
        """The corpus, as the model wants to read it."""
        corpus: Corpus = self.registry.load("tasks", self.task)().load(self.task_options)
        _check_corpus(corpus, f"task {self.task!r} returned", "load(options)")
        model = self.registry.load("models", self.model)
        if supports(model, Prepares):
            corpus = model.prepare(corpus, self.model_options)
            _check_corpus(corpus, f"model {self.model!r} prepared", "prepare(corpus, options)")
        for split in ("train", "validation"):
            if split not in corpus.splits:
                raise CorpusError(f"task {self.task!r} has no {split} split: it needs train and validation")
        return corpus

    def fresh_model(self, corpus: Corpus, device: torch.device, *, to_train: bool = False) -> Model:
        """An untrained model, if it is `to_train` with what it begins from; sets torch's seed, as nothing else does."""
        torch.manual_seed(self.seed)
        model = self.registry.load("models", self.model).build(corpus, self.model_options)
        if to_train and supports(model, WarmStarts):
            model.warm_start(corpus, self.model_options)
        return model.to(device) if supports(model, Moves) else model

    @property
    def fits_itself(self) -> bool:
        """Whether the model trains itself, not by gradient steps."""
        return supports(self.registry.load("models", self.model), FitsItself)

    def under_attention(self, model: M) -> M:
        """The model as this run trains and probes it: under uniform attention if the run says so."""
        if self.attention != "learned" and not supports(model, AttentionModel):
            raise UsageError(
                f"model {self.model!r} has no attention that could be {self.attention}", hint="attention=learned"
            )
        return cast(M, Under(model, uniform)) if self.attention == "uniform" else model

    def steps(self, corpus: Corpus) -> int:
        """How many updates the training is to have."""
        options, epoch = self.train_options, self.epoch(corpus)
        named = self.registry.schedules()
        options.evaluated(0, epoch=epoch, named=named)  # refuses epochs of a stream before a run is begun
        if options.steps is not None:
            return options.steps
        if epoch is None:
            raise OptionError(f"task {self.task!r} is an endless stream: say how many steps to train", hint="steps")
        return (options.epochs or 1) * epoch

    def epoch(self, corpus: Corpus) -> int | None:
        """How many updates an epoch has; None for a stream, which has no epochs."""
        train = corpus.splits["train"]
        return -(-len(train) // self.train_options.batch) if isinstance(train, Split) else None

    def record(self, corpus: Corpus, model: object) -> RunRecord:
        """What run.json says."""
        spaces = {"task": self.task_options, "model": self.model_options, "train": self.train_options}
        return RunRecord(
            task=self.task,
            model=self.model,
            attention=self.attention,
            seed=self.seed,
            kind=corpus.kind,
            steps=self.steps(corpus),
            options={space: as_dict(options) for space, options in spaces.items()},
            identity=self.identity,
            sites=tuple(map(str, sites_of(model))),
            best_by=self._best_by(),
            corpus=corpus.fingerprints,
            owners={kind: _owner(self.registry, f"{kind}s", getattr(self, kind)) for kind in ("task", "model")},
            versions=versions(self.registry),
        )

    def _best_by(self) -> str:
        """By which measure the model's best checkpoint is found."""
        measure = best_by(self.registry.load("models", self.model))
        if measure not in MEASURES:
            raise ContractError(f"best_by of model {self.model!r} is {measure!r}: it must be {' or '.join(MEASURES)}")
        return measure


def make_recipe(
    registry: Registry,
    model: str,
    task: str | None = None,
    *,
    seed: int = 0,
    attention: str = "learned",
    values: Mapping[str, Any] | None = None,
) -> Recipe:
    """A recipe from a user's wishes; `values` are option keys, bare or with their space."""
    if attention not in get_args(Attention):
        raise UnknownNameError("attention", attention, get_args(Attention))
    if not 0 <= seed < 2**63:
        raise UsageError(f"seed {seed} is out of range: it must be 0 or more")
    model_class = registry.load("models", model)
    task_name = task or default_task(model_class) or registry.default("tasks")
    task_class = registry.load("tasks", task_name)
    spaces = {"task": options_of(task_class), "model": options_of(model_class), "train": TrainOptions}
    given = sort_into_spaces(values or {}, spaces)
    filled: Values = {space: fill(cls, given[space], space=space) for space, cls in spaces.items() if space != "train"}
    suggested = _suggested(model_class, task_class, model)
    if {"steps", "epochs"} <= set(given["train"]):
        raise OptionError("give steps or epochs, not both")
    train = fill(TrainOptions, _layered({"steps": 1000}, *suggested, given["train"]), space="train")
    train.evaluated(0, epoch=1, named=registry.schedules())  # refuses what is no schedule
    plain = fill(TrainOptions, _layered({"steps": 1000}, *suggested), space="train")
    differing = {f"train.{k}": v for k, v in as_dict(train).items() if k not in LENGTH and v != as_dict(plain)[k]}
    differing |= changed(filled["model"], given["model"])
    identity = short_hash(changed(filled["task"], given["task"])), short_hash(differing)
    length_given = bool({"steps", "epochs"} & set(given["train"]))
    options = filled["task"], filled["model"], train
    return Recipe(registry, model, task_name, attention, seed, *options, identity, length_given)  # type: ignore[arg-type]


def recipe_of(run: Run, registry: Registry) -> Recipe:
    """The recipe of a run that exists."""
    record = run.record
    if run.recorded:
        raise RunError(
            f"run {run.name} was recorded in a training of its own: its model cannot be made again, only what was "
            f"recorded ({', '.join(record.probes)}) can be read"
        )
    for kind, name in (("task", record.task), ("model", record.model)):
        if name not in registry.entries[f"{kind}s"]:
            owner = record.owners.get(kind)
            raise PluginError(
                f"run {run.name} needs the {kind} {name!r} of {owner}, which is not there: install it again"
            )
    given = {f"{space}.{k}": v for space, values in record.options.items() for k, v in values.items()}
    given = {key: v for key, v in given.items() if v is not None or key not in ("train.steps", "train.epochs")}
    chosen: dict[str, Any] = {"seed": record.seed, "attention": record.attention}
    try:
        recipe = make_recipe(registry, record.model, record.task, values=given, **chosen)
    except OptionError as error:
        raise RunError(f"run {run.name} was made with other options than its plugins have now: {error}") from error
    return replace(recipe, identity=record.identity)


def _check_corpus(corpus: Any, found: str, method: str) -> None:
    if not isinstance(corpus, Corpus):
        raise ContractError(f"{found} {type(corpus).__name__}: {method} must return a Corpus")


def _suggested(model_class: object, task_class: object, model: str) -> list[Mapping[str, Any]]:
    """What model and task suggest, later ones winning: the task before the model, unless the model has a schedule of
    its own, and what the task says of this very model before all.
    """
    of_model, of_task = training_defaults(model_class), training_defaults(task_class)
    general = [of_task, of_model] if has_own_schedule(model_class) else [of_model, of_task]
    return [*general, training_for(task_class).get(model, {})]


def _layered(*layers: Mapping[str, Any]) -> Values:
    """Later layers win; steps and epochs are two ways to say one thing, so one drops the other."""
    merged: Values = {}
    for layer in layers:
        if layer.get("epochs") is not None and layer.get("steps") is None:
            merged.pop("steps", None)
        if layer.get("steps") is not None:
            merged.pop("epochs", None)
        merged.update(layer)
    return merged


def _owner(registry: Registry, kind: str, name: str) -> str:
    return str(registry.entry(kind, name).owner)


def versions(registry: Registry) -> dict[str, str]:
    """What a reader needs to run this again: Python, the libraries the numbers depend on, every plugin loaded."""
    found = {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__}
    found |= {owner.distribution: owner.version for owner in registry.owners.values()}
    try:
        found["ktiwprobe"] = version("ktiwprobe")
    except PackageNotFoundError:
        found["ktiwprobe"] = "not installed"
    return found | {"threads": str(torch.get_num_threads())}

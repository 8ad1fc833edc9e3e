"""Recorder: a training that is not ours as an ordinary run: signals and performance over a probe set at chosen steps.

The loop is the user's; any model with `trace` will do. Nothing that the training depends on is touched: weights,
gradients, modes, hooks and random numbers are after a recorded step what they were before. The run holds no weights
(their hash only), so what was not recorded cannot be extracted later.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from ktiwprobe.corpus.batch import Batch
from ktiwprobe.corpus.corpus import Corpus
from ktiwprobe.corpus.saved import corpus_of, save_corpus
from ktiwprobe.errors import ContractError, CorpusError, OptionError, RunError, UnknownNameError, UsageError
from ktiwprobe.files import storage
from ktiwprobe.models.attend import Under, uniform
from ktiwprobe.models.scoring import neg_log_p, right_outputs, score
from ktiwprobe.plugins.capabilities import (
    Evaluates,
    HasParameters,
    HasState,
    HasStateDict,
    sites_of,
    supports,
    version_of,
)
from ktiwprobe.plugins.options import short_hash
from ktiwprobe.plugins.protocols import AttentionModel
from ktiwprobe.plugins.quantities import ROLES
from ktiwprobe.plugins.registry import Registry, build_registry
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.probes.probing import evaluating
from ktiwprobe.runs.names import check_name, folder_name
from ktiwprobe.runs.recipe import Attention, versions
from ktiwprobe.runs.record import RunRecord
from ktiwprobe.runs.run import Run, runs_folder
from ktiwprobe.runs.schedule import is_due
from ktiwprobe.training.loop import evaluate

SPLIT = "validation"  # what the probe set is called, so that every command finds it
BY_SENTENCE = "sentences"  # the file of how well each sentence is done
SAME = (
    "task",
    "model",
    "model_version",
    "attention",
    "seed",
    "options",
    "sites",
    "probes",
    "corpus",
)  # of a recording that goes on


@dataclass
class Recorder:
    """Records a training into RUNS/<task>/<model>[+h6][-uniform]-s<seed>.

    `probe_set` is a corpus, of which the validation split is probed, or a batch. Runs that differ in their seed only
    form a group; whatever else makes a training another one belongs into `settings` (plain values), which name it too.
    """

    probe_set: Corpus | Batch
    _: KW_ONLY
    model: str
    task: str = "traced"
    seed: int = 0
    attention: Attention = "learned"  # what the model is trained, and so probed, under
    settings: Mapping[str, Any] = field(default_factory=dict)
    at: str = "log"  # at which steps; written as for training: log, every:100, epochs, 0,10,100 ...
    epoch: int | None = None  # updates in an epoch, which `at="epochs"` needs
    probes: Sequence[str] | None = None  # None: those with a role, or of a recording that goes on its own
    runs: str | Path | None = None
    overwrite: bool = False  # begin anew where there is a recording already
    registry: Registry = field(default_factory=build_registry, repr=False)

    def __post_init__(self) -> None:
        self.due(0)  # refuses what is no schedule
        check_name(self.task, "task")
        check_name(self.model, "model")
        if self.attention not in get_args(Attention):
            raise UnknownNameError("attention", self.attention, get_args(Attention))
        for probe in self.probes or ():
            self.registry.entry("probes", probe)
        self._live: _Live | None = None

    @cached_property
    def recorded_probes(self) -> tuple[str, ...]:
        """What is recorded at each step: the probes that were asked for, or the usual ones; each under its own name."""
        if self.probes is not None:
            return tuple(dict.fromkeys(self.registry.same_probe(probe) for probe in self.probes))
        begun = self.run.exists and not self.overwrite
        return Run.open(self.run.path).record.probes if begun else tuple(self.registry.probes_of(*ROLES))

    @cached_property
    def corpus(self) -> Corpus:
        """The probe set, as it will lie with the run."""
        given = self.probe_set
        if isinstance(given, Batch):
            given = corpus_of(given, task=self.task)
        if not isinstance(given, Corpus):
            raise CorpusError(f"the probe set is a {type(given).__name__}: it must be a Corpus or a Batch")
        return replace(given, task=self.task, splits={SPLIT: given.split(SPLIT)})

    @property
    def run(self) -> Run:
        """The run, which exists once something was recorded or prepared."""
        try:
            h6 = short_hash(dict(self.settings))
        except TypeError as error:
            raise OptionError(f"settings cannot be written as JSON ({error}): they must be plain values") from error
        return Run(runs_folder(self.runs) / self.task / folder_name(self.model, self.attention, self.seed, h6))

    def due(self, step: int) -> bool:
        """Whether `step` is of the schedule."""
        return is_due(self.at, step, epoch=self.epoch, named=self.registry.schedules())

    def trace_step(self, model: AttentionModel, step: int) -> bool:
        """Record the model after `step` updates if that step is due; returns whether it was."""
        if self.due(step):
            self.record(model, step)
            return True
        return False

    def record(self, model: AttentionModel, step: int) -> None:
        """Record the model after `step` updates. Steps must go up: a loop that is taken up again says `resume`."""
        live = self.prepare(model)
        if step <= (last := max(live.run.steps(), default=-1)):
            raise UsageError(
                f"step {step} cannot be recorded after step {last}, which {live.run.path} has: pass overwrite=True "
                "to begin anew, or call resume(model, step) where a training goes on from a checkpoint"
            )
        with live.run.lock(), untouched(model):
            live.run.save_checkpoint(step, {}, weights=storage.hash_of(_state(model)))
            live.asked = Under(model, uniform) if self.attention == "uniform" else model
            for probe in self.recorded_probes:
                live.signal(probe, step)
            judge = _Judged(model, live.asked)
            performance = evaluate(judge, list(live.batches()))
            storage.write_json(live.run.performance_path(SPLIT, step, BY_SENTENCE), live.judged(judge))
            live.run.append_log({"step": step, **performance})  # the step counts from here on

    def resume(self, model: AttentionModel, step: int) -> None:
        """Go on after `step`: what was recorded later is forgotten, for it will come again."""
        live = self.prepare(model)
        with live.run.lock():
            live.run.forget_after(step)

    def prepare(self, model: AttentionModel) -> _Live:
        """Begin the run, or see that the one which is there is of this training; refuses what cannot be recorded."""
        if self._live is not None:
            return self._live
        if not supports(model, AttentionModel):
            raise ContractError(f"{type(model).__name__} has no trace(batch, attend=, gate=): see docs/plugins.md")
        run, record = self.run, self._record(model)
        if run.exists and self.overwrite and Run.open(run.path).recorded:
            run.remove()
            run = self.run
        with run.lock():
            run.tidy()
            if run.exists:
                _check_same(Run.open(run.path), record)
                run.forget_after(max(run.steps(), default=-1))  # what was cut short counts as not recorded
            else:
                save_corpus(self.corpus, run.corpus_path)
                Run.create(run.path, record)
        self._live = _Live(run, self.registry, self.corpus, _device(model))
        self._live.model_version = version_of(type(model))
        return self._live

    def _record(self, model: object) -> RunRecord:
        """What run.json says: as of any run, but that it was recorded."""
        settings = json.loads(json.dumps(dict(self.settings)))
        return RunRecord(
            recorded=True,
            probes=self.recorded_probes,
            task=self.task,
            model=self.model,
            attention=self.attention,
            seed=self.seed,
            kind=self.corpus.kind,
            steps=0,
            options={"task": {}, "model": {}, "train": settings},
            identity=("", short_hash(settings)),
            sites=tuple(map(str, sites_of(model))),
            best_by="accuracy",
            corpus=self.corpus.fingerprints,
            owners={"task": "a training of its own", "model": type(model).__name__},
            model_version=version_of(type(model)),
            versions=versions(self.registry),
        )


class _Live(Extractor):
    """Extracts from the model that is being trained, instead of one made anew from a run."""

    asked: Any  # the model under the attention it is trained with

    def __init__(self, run: Run, registry: Registry, corpus: Corpus, device: torch.device) -> None:
        super().__init__(run, registry, split=SPLIT, device=device)
        self.corpus = corpus

    def step(self, at: int | str) -> int:
        return int(at)

    def model(self, step: int) -> Any:
        return self.asked

    @torch.no_grad()
    def judged(self, judge: _Judged) -> dict[str, Any]:
        """Right outputs and -log p of every sentence."""
        right, nll = np.zeros(len(self.part), np.int64), np.zeros(len(self.part))
        one_by_one = np.arange(len(self.part))[:, None]
        for rows in self.part.by_length() if judge.by_logits(self.alone(0)) else one_by_one:
            right[rows], nll[rows] = (v.cpu().numpy() for v in judge.each(self.part.batch(rows).to(self.device)))
        return {"right": right.tolist(), "nll": nll.round(6).tolist()}


class _Judged:
    """How well a model does under the attention it is trained with: its own `evaluate`, else by its trace."""

    def __init__(self, model: object, asked: Any) -> None:
        self.own, self.asked = supports(model, Evaluates), asked

    def evaluate(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        return self.asked.evaluate(batch) if self.own else score(self.asked.trace(batch), batch)

    def by_logits(self, batch: Batch) -> bool:
        """Whether a batch can be judged sentence by sentence: by its logits."""
        return self.asked.trace(batch).logits is not None

    def each(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Right outputs and -log p of each sentence; without logits of a batch of one. (B,), (B,)"""
        trace = self.asked.trace(batch)
        if trace.logits is not None:
            return right_outputs(trace, batch).sum(1), neg_log_p(trace, batch).sum(1)
        right, _, nll = self.evaluate(batch)
        return right[None], nll[None]


def recorded_sentences(run: Run, step: int) -> Mapping[str, list[float]]:
    """How well each sentence of a recorded run was done: right outputs (`right`) and -log p in nats (`nll`)."""
    path = run.performance_path(SPLIT, step, BY_SENTENCE)
    if not path.exists():
        raise RunError(f"run {run.name} was recorded without its single sentences: record it anew to see them")
    found: Mapping[str, list[float]] = storage.read_json(path)
    return found


@contextlib.contextmanager
def untouched(model: object) -> Iterator[None]:
    """Evaluation mode for a while; every module's mode and the random numbers are afterwards as before."""
    device = _device(model)
    devices = [device] if device.type == "cuda" else []
    with evaluating(model), torch.random.fork_rng(devices=devices):
        yield


def _device(model: object) -> torch.device:
    parameters = model.parameters() if supports(model, HasParameters) else ()
    return next((parameter.device for parameter in parameters), torch.device("cpu"))


def _state(model: object) -> Mapping[str, Tensor]:
    """What makes the model what it is now, to be told from others by its hash."""
    if supports(model, HasState):
        return model.state()
    if supports(model, HasStateDict):
        return model.state_dict()
    raise ContractError(f"{type(model).__name__} has neither state() nor state_dict(): one of them tells its weights")


def _check_same(run: Run, mine: RunRecord) -> None:
    """A recording may go on only with what it began with."""
    if not run.recorded:
        raise RunError(
            f"{run.path} is a run that `ktiwprobe train` made: give the recording another task or model name"
        )
    for what in SAME:
        theirs, ours = getattr(run.record, what), getattr(mine, what)
        if theirs != ours:
            told = "" if what in ("options", "corpus") else f" ({theirs}, not {ours})"
            name = {"corpus": "probe set", "options": "settings", "model_version": "version of its model"}.get(
                what, what
            )
            raise RunError(
                f"{run.path} is the recording of another training: it has another {name}{told}; choose another task or "
                "model name, or pass overwrite=True"
            )

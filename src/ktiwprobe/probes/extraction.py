"""From a run to its Signals: probed once, stored with the run, read from there next time.

(The module is not called extract.py because a submodule of that name would hide the function `ktiwprobe.extract`.)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ktiwprobe.corpus.batch import Batch
from ktiwprobe.corpus.corpus import Corpus
from ktiwprobe.corpus.saved import load_corpus
from ktiwprobe.corpus.split import Split
from ktiwprobe.errors import ContractError, KtiwprobeError, RunError, SpecError, UsageError
from ktiwprobe.files.progress import SILENT, Progress
from ktiwprobe.models.kept import Kept, keeps_more, kept_tensors
from ktiwprobe.plugins.capabilities import supports, version_of
from ktiwprobe.plugins.protocols import AttentionModel, Model, Probe
from ktiwprobe.plugins.quantities import ROLES, quantity_of
from ktiwprobe.plugins.registry import Registry, build_registry
from ktiwprobe.probes.checks import check_before
from ktiwprobe.probes.guards import LONG_ENOUGH, Needs, needs
from ktiwprobe.probes.probing import join, probe_batch
from ktiwprobe.probes.versions import is_current, refuse_outdated, version_now
from ktiwprobe.runs.recipe import Recipe, recipe_of
from ktiwprobe.runs.run import Run
from ktiwprobe.runs.sources import are_unchanged, corpus_key, keep_sources
from ktiwprobe.signals.pooling import Words, words_of
from ktiwprobe.signals.signal import Signal, gold_signal, load_signal
from ktiwprobe.training.devices import choose_device

GUARDED = 8  # sentences of which a guard chooses


def extract(
    run: Run,
    probe: str,
    *,
    at: int | str = "best",
    split: str = "validation",
    device: str = "auto",
    registry: Registry | None = None,
    progress: Progress = SILENT,
) -> Signal:
    """The signal of a run at a step (a number, `best` or `last`); stored with the run, read from there next time."""
    return Extractor(run, registry or build_registry(), split=split, device=device).signal(probe, at, progress=progress)


class OtherCorpusError(RunError):
    """The task gives another corpus now than the run was trained on."""


class Extractor:
    """The signals of one run over one split; corpus and model are made only when something is missing."""

    def __init__(
        self,
        run: Run,
        registry: Registry,
        *,
        split: str = "validation",
        device: str | torch.device = "auto",
        compared: set[str] | None = None,  # keys of corpora that need not be compared again; runs may share it
    ) -> None:
        self.run, self.registry, self.split, self.device = run, registry, split, device
        self._compared = set() if compared is None else compared
        self._model: Model | None = None
        self._references = 0  # to that model while nobody else holds it
        self._kept: Kept = {}  # tensors beside its weights when it was made
        self._guarded: set[Needs] = set()  # what the model was seen to obey

    def signal(self, probe: str, at: int | str = "best", *, progress: Progress = SILENT) -> Signal:
        """The signal at one step."""
        step, probe = self.step(at), self._kept_as(probe)
        function = self.registry.load("probes", probe)
        path = self.run.signal_path(self.split, step, probe)
        identity = self._identity(probe, step)
        stored = self._read(path, identity)
        if stored is None:
            stored = self._compute(function, probe, step, identity, progress)
            stored.save(path)
        declared = quantity_of(function, probe)
        meta = {**stored.meta, "pooling": list(declared.pooling)}
        shown = replace(stored, text=self.tokens, words=lambda: self.words, links=self.links)
        return replace(shown, meta=meta, quantity=declared)

    def peek(self, probe: str, at: int | str, sentence: int) -> Signal:
        """The signal of one sentence: of what is stored, else computed for it alone, quickly, and not kept."""
        step, probe = self.step(at), self._kept_as(probe)
        function, identity = self.registry.load("probes", probe), self._identity(probe, step)
        declared = quantity_of(function, probe)
        if stored := self._read(self.run.signal_path(self.split, step, probe), identity):
            return replace(stored.only(sentence), quantity=declared)
        model = self._guarded_model(function, step)
        return join([probe_batch(function, model, self.alone(sentence), probe)], None, identity, declared)

    def _kept_as(self, probe: str) -> str:
        """The name under which a signal is kept; older recorded runs may have it under another name of the probe."""
        name = self.registry.same_probe(probe)
        return name if self.run.offers(name) or not self.run.offers(probe) else probe

    def step(self, at: int | str) -> int:
        """The step that `at` means."""
        if at == "best":
            return self.run.best_step()
        steps = self.steps()
        if at == "last":
            return steps[-1]
        if not str(at).isdecimal() or int(at) not in steps:
            raise SpecError(f"run {self.run.name} has no step {at!r}: it has best, last, {', '.join(map(str, steps))}")
        return int(at)

    def steps(self) -> list[int]:
        """The steps there are."""
        steps = self.run.steps()
        if not steps:
            raise RunError(f"run {self.run.name} has no checkpoints: resume its training", hint="resume=True")
        return steps

    @cached_property
    def recipe(self) -> Recipe:
        """What the run is made of."""
        return recipe_of(self.run, self.registry)

    @property
    def attends(self) -> bool:
        """Whether the run's model has attention; what is recorded has."""
        return self.run.recorded or supports(self.registry.load("models", self.recipe.model), AttentionModel)

    def usual_probes(self) -> tuple[str, ...]:
        """What is extracted and shown where nobody names probes: those with a role that the run can give."""
        names = self.registry.probes_of(*ROLES)
        can = [name for name in names if self.attends or not self.registry.quantity(name).needs_attention]
        return tuple(name for name in can if self.run.offers(name))

    @cached_property
    def corpus(self) -> Corpus:
        """The run's corpus, which must still be what it was; that of a recorded run lies with it."""
        started = time.perf_counter()
        corpus = load_corpus(self.run.corpus_path) if self.run.recorded else self.recipe.corpus()
        if corpus.fingerprints != self.run.record.corpus:
            raise OtherCorpusError(
                f"run {self.run.name} was trained on another corpus than {corpus.task!r} gives now: "
                "bring the data back, or train again"
            )
        if not self.run.recorded:
            keep_sources(self.run, self.recipe, time.perf_counter() - started)
        return corpus

    def check_corpus(self) -> None:
        """Refuse to read what was stored if the task gives another corpus now.

        That is seen by making it, unless it is slow to make and its files are unchanged; see runs/sources.py. Where
        the plugin or the data is gone there is nothing to compare with, and what was stored stays readable.
        """
        key = corpus_key(self.run)
        if self.run.recorded or key in self._compared:
            return
        try:
            if not are_unchanged(self.run, self.recipe):
                _ = self.corpus
        except OtherCorpusError:
            raise
        except (KtiwprobeError, OSError):
            return
        self._compared.add(key)

    @cached_property
    def part(self) -> Split:
        """The examples that are probed: all; of the training split a seeded sample as large as the validation split."""
        split = self.corpus.split(self.split)
        if self.split != "train":
            return split
        size, most = len(split), len(self.corpus.split("validation"))
        return split.subset(np.sort(np.random.default_rng(0).choice(size, min(size, most), replace=False)))

    @cached_property
    def words(self) -> Words:
        """The words of what is probed."""
        return words_of(self.part, self.corpus.task)

    def tokens(self, sentence: int) -> tuple[Sequence[str], Sequence[str]]:
        """Source and target of a sentence that is probed, to read."""
        source, target = self.corpus.source_tokens, self.corpus.target_tokens
        return tuple(source[i] for i in self.part.x[sentence]), tuple(target[i] for i in self.part.y[sentence])

    def over(self, split: str) -> Extractor:
        """The same run over another split."""
        return Extractor(self.run, self.registry, split=split, device=self.device, compared=self._compared)

    def links(self, sentence: int) -> NDArray[np.int64] | None:
        """The known links of a sentence that is probed. (n, 3): t, l, sure"""
        return None if self.part.links is None else self.part.links[sentence]

    def batches(self, **sizes: int) -> Iterator[Batch]:
        """What is probed, sentences of similar length together, on the device; `sizes` as in `by_length`."""
        device = choose_device(self.device)
        for rows in self.part.by_length(**sizes):
            yield self.part.batch(rows).to(device)

    def alone(self, sentence: int) -> Batch:
        """A batch of one sentence, on the device."""
        return self.part.batch(np.array([sentence])).to(choose_device(self.device))

    def gold(self) -> Signal:
        """The known alignment of what is probed."""
        gold = gold_signal(self.part, self.corpus, self.split)
        return replace(gold, text=self.tokens, words=lambda: self.words, links=self.links)

    def model(self, step: int) -> Model:
        """The trained model as it was at `step`, ready to be probed.

        The object is the caller's for as long as it is kept: only one that nobody holds any more gets other weights.
        """
        model = self._loaded(step, fresh=self._model is None or sys.getrefcount(self._model) > self._references)
        if keeps_more(model, self._kept):  # of the weights that it had before
            model = self._loaded(step, fresh=True)
        if isinstance(model, torch.nn.Module):
            model.eval().requires_grad_(False)
        return self.recipe.under_attention(model)

    def _loaded(self, step: int, *, fresh: bool) -> Model:
        """The model with the weights of a step; a new object if it is to be `fresh`."""
        if self._model is None or fresh:
            with torch.random.fork_rng(devices=[]):
                self._model = self.recipe.fresh_model(self.corpus, choose_device(self.device))
            self._references, self._kept = sys.getrefcount(self._model), kept_tensors(self._model)
        try:
            self._model.load_state(self.run.load_checkpoint(step))
        except (RuntimeError, KeyError, ContractError) as error:  # for names and shapes that do not fit
            cause = " ".join(str(error).split())[:300]
            raise RunError(f"the model cannot load checkpoint {step} of {self.run.name}: {cause}") from error
        return self._model

    def identity_of(self, step: int) -> dict[str, Any]:
        """What tells whether something that was stored is of this checkpoint and these examples."""
        fingerprint = self.run.record.corpus.get(self.split)
        if fingerprint is None:
            self.corpus.split(self.split)  # says what is wrong
        checkpoint = self.run.checkpoint_hash(step)
        return {"step": step, "split": self.split, "fingerprint": fingerprint, "checkpoint": checkpoint}

    def _identity(self, probe: str, step: int) -> dict[str, Any]:
        name = f"{self.run.name}:{probe}@{step}"
        return {"name": name, "probe": probe, **self.identity_of(step), "version": self._version(probe)}

    def _version(self, probe: str) -> list[int | None]:
        """Of the probe's definition, and of the model's own ways to it."""
        return [version_of(self.registry.load("probes", probe)), self.model_version]

    @cached_property
    def model_version(self) -> int | None:
        """The version of the model's class; None if that is not here."""
        return version_now(self.run, self.registry)

    def _read(self, path: Path, identity: dict[str, Any]) -> Signal | None:
        """The stored signal, unless it is missing, damaged or of something else."""
        stored = _stored(path, identity)
        if stored is not None:
            self.check_corpus()
        elif self.run.recorded:
            refuse_outdated(self.run, path, identity["version"])
        return stored

    def _compute(self, function: Probe, probe: str, step: int, identity: dict[str, Any], progress: Progress) -> Signal:
        device, part = choose_device(self.device), self.part
        groups = list(part.by_length())
        model = self._guarded_model(function, step)
        pieces, done = [], 0
        progress.begin(identity["name"], len(part), unit="sentences")
        try:
            for rows in groups:
                pieces.append(probe_batch(function, model, part.batch(rows).to(device), probe))
                done += len(rows)
                progress.advance(done)
        finally:
            progress.end()
        return join(pieces, np.concatenate(groups), identity, quantity_of(function, probe))

    def _guarded_model(self, function: Probe, step: int) -> Model:
        """The model at `step`; before its first number of this kind it is checked, on a few short sentences."""
        model = self.model(step)
        need = needs(function, model)
        if need not in self._guarded:
            lengths = self.part.x.lengths
            order = np.lexsort((self.part.y.lengths, np.where(lengths < LONG_ENOUGH, -lengths, lengths)))
            order = order[np.argsort(lengths[order] < LONG_ENOUGH, kind="stable")]
            device = choose_device(self.device)
            few, longest = (self.part.batch(rows).to(device) for rows in (order[:GUARDED], np.argsort(lengths)[-2:]))
            if check_before(model, few, function, longest=longest):
                self._guarded.add(need)
        return model


def _stored(path: Path, identity: dict[str, Any]) -> Signal | None:
    """The stored signal, unless it is missing, damaged or of something else."""
    try:
        signal = load_signal(path)
    except (SpecError, RunError, UsageError):
        return None
    meta = {"version": [version_of.default] * 2, **signal.meta}  # older signals do not say
    same = all(meta.get(key) == value for key, value in identity.items() if key != "version")
    return signal if same and is_current(meta["version"], identity["version"]) else None

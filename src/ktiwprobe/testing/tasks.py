"""What tasks must hold to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from ktiwprobe.corpus.corpus import Corpus, Stream
from ktiwprobe.corpus.split import Split
from ktiwprobe.errors import CorpusError
from ktiwprobe.plugins.options import options_of
from ktiwprobe.plugins.registry import Registry, build_registry
from ktiwprobe.signals.pooling import words_of
from ktiwprobe.testing import plausible
from ktiwprobe.testing.models import options_are_frozen
from ktiwprobe.testing.outcome import Failed, Outcome, Skipped, name_of, raise_failures, run_checks


@dataclass(eq=False)
class TaskCase:
    """A task under test with its default options."""

    task_class: Any
    options: Any

    @cached_property
    def corpus(self) -> Corpus:
        """What it loads."""
        corpus = self.task_class().load(self.options)
        if not isinstance(corpus, Corpus):
            raise Failed(f"load(options) returned {type(corpus).__name__}: return a Corpus")
        return corpus

    @property
    def finite(self) -> dict[str, Split]:
        """Its finite splits."""
        return {name: split for name, split in self.corpus.splits.items() if isinstance(split, Split)}


def check_task(task: Any, *, options: Any = None, registry: Registry | None = None) -> None:
    """Hold a task class (or a registered name) to the contract."""
    raise_failures(f"task {name_of(task)}", task_checks(task, options=options, registry=registry))


def task_checks(task: Any, *, options: Any = None, registry: Registry | None = None) -> Iterator[Outcome]:
    """Each check and what came of it."""
    task_class = (registry or build_registry()).load("tasks", task) if isinstance(task, str) else task
    chosen = options_of(task_class)() if options is None else options
    checks = (
        options_are_frozen,
        has_splits,
        ids_have_text,
        labels_are_single,
        same_options_same_corpus,
        links_are_sure_or_possible,
        words_have_tokens,
        streams_are_pure,
        *plausible.CHECKS,
    )
    yield from run_checks(checks, TaskCase(task_class, chosen))


def has_splits(case: TaskCase) -> None:
    """There is a train split, endless or not empty, and a finite, non-empty validation split."""
    if "train" not in case.corpus.splits:
        raise Failed("the corpus has no train split")
    if "train" in case.finite:
        case.corpus.split("train")
    case.corpus.split("validation")


def ids_have_text(case: TaskCase) -> None:
    """Every id has a token text."""
    for name in ("source_tokens", "target_tokens"):
        others = [token for token in getattr(case.corpus, name) if not isinstance(token, str)]
        if others:
            raise Failed(f"{name} has {others[0]!r}: every id needs a text, so that people can read it")


def labels_are_single(case: TaskCase) -> None:
    """The output of a classification task is one label."""
    if case.corpus.kind != "classification":
        raise Skipped("not a classification task")
    for name, split in case.finite.items():
        if (split.y.lengths != 1).any():
            raise Failed(f"split {name} has outputs of more than one label: y of a classification task is [label]")


def same_options_same_corpus(case: TaskCase) -> None:
    """Loading twice gives the same corpus."""
    if case.corpus.fingerprints != case.task_class().load(case.options).fingerprints:
        raise Failed("two loads with the same options differ: seed every random choice by the options")


def links_are_sure_or_possible(case: TaskCase) -> None:
    """The third number of a gold link is 1 (sure) or 0 (possible)."""
    known = {name: split.links for name, split in case.finite.items() if split.links is not None}
    if not known:
        raise Skipped("the task has no gold alignment")
    for name, links in known.items():
        if not np.isin(links.values[:, 2], (0, 1)).all():
            raise Failed(f"split {name} has links that are not (t, l, 1 if sure else 0)")


def words_have_tokens(case: TaskCase) -> None:
    """Where words are told, each token is of a word that its sentence has."""
    told = {name: split for name, split in case.finite.items() if split.x_words is not None}
    if not told:
        raise Skipped("the task does not tell its words")
    for name, split in told.items():
        try:
            words_of(split, "tested").counts  # noqa: B018  (counting is what checks)
        except CorpusError as error:
            raise Failed(f"the words of split {name} do not fit: {error}") from error


def streams_are_pure(case: TaskCase) -> None:
    """A stream's batch depends on seed and step only."""
    streams = {n: s for n, s in case.corpus.splits.items() if isinstance(s, Stream) and not isinstance(s, Split)}
    if not streams:
        raise Skipped("the task has no stream")
    for name, stream in streams.items():
        one, other, again = stream.batch(0, 1, 4), stream.batch(0, 2, 4), stream.batch(0, 1, 4)
        if not torch.equal(one.x, again.x) or not torch.equal(one.y, again.y):
            raise Failed(f"stream {name} gives another batch for the same seed and step")
        if torch.equal(one.x, other.x):
            raise Failed(f"stream {name} gives the same batch at every step")
        if torch.equal(one.x, stream.batch(1, 1, 4).x):
            raise Failed(f"stream {name} gives the same batch for every seed")
        if len(one.x) != 4:
            raise Failed(f"stream {name} gives {len(one.x)} sentences where 4 are asked for")
        for side, ids, size in (("x", one.x, case.corpus.source_size), ("y", one.y, case.corpus.target_size)):
            if ids.min() < 0 or ids.max() >= size:
                raise Failed(
                    f"stream {name} has an id {int(ids.max())} in {side}: its vocabulary allows 0 to {size - 1}"
                )

"""What tasks, probes and metrics must hold to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ktiwprobe import metrics
from ktiwprobe.agreement import as_pairs, make_metric
from ktiwprobe.data import Corpus, Split, Stream
from ktiwprobe.extraction import probe as run_probe
from ktiwprobe.options import options_of
from ktiwprobe.registry import Registry, build_registry
from ktiwprobe.testing.models import CLOSE, Case, few_sentences
from ktiwprobe.testing.outcome import Failed, Outcome, Skipped, raise_failures, run_checks

# tasks


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
    raise_failures(f"task {task}", task_checks(task, options=options, registry=registry))


def task_checks(task: Any, *, options: Any = None, registry: Registry | None = None) -> Iterator[Outcome]:
    """Each check and what came of it."""
    task_class = (registry or build_registry()).load("tasks", task) if isinstance(task, str) else task
    chosen = options_of(task_class)() if options is None else options
    checks = (has_splits, ids_have_text, same_options_same_corpus, links_are_inside, streams_are_pure)
    yield from run_checks(checks, TaskCase(task_class, chosen))


def has_splits(case: TaskCase) -> None:
    """There is a train split and a finite, non-empty validation split."""
    if "train" not in case.corpus.splits:
        raise Failed("the corpus has no train split")
    case.corpus.split("validation")


def ids_have_text(case: TaskCase) -> None:
    """Every id has a token text."""
    for name, split in case.finite.items():
        for side, rows, size in (("x", split.x, case.corpus.source_size), ("y", split.y, case.corpus.target_size)):
            if len(rows) and not (rows.values.min() >= 0 and rows.values.max() < size):
                raise Failed(f"{side} of split {name} has ids outside 0 to {size - 1}: every id needs a token text")


def same_options_same_corpus(case: TaskCase) -> None:
    """Loading twice gives the same corpus."""
    if case.task_class().load(case.options).fingerprints != case.corpus.fingerprints:
        raise Failed("two loads with the same options differ: seed every random choice by the options")


def links_are_inside(case: TaskCase) -> None:
    """Gold links point at positions that exist."""
    known = {name: split for name, split in case.finite.items() if split.links is not None}
    if not known:
        raise Skipped("the task has no gold alignment")
    for name, split in known.items():
        if split.links is None or len(split.links) != len(split):
            raise Failed(f"split {name} needs a list of links for every example, empty where there are none")
        sentence = np.repeat(np.arange(len(split)), split.links.lengths)
        t, l, sure = split.links.values.T  # noqa: E741
        inside = (t >= 0) & (t < split.y.lengths[sentence]) & (l >= 0) & (l < split.x.lengths[sentence])
        if not inside.all() or not np.isin(sure, (0, 1)).all():
            raise Failed(f"split {name} has links that are not (t, l, 0 or 1) inside their sentence")


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


# probes


@dataclass(eq=False)
class ProbeCase:
    """A probe under test on a small trained model."""

    name: str
    function: Any
    case: Case


def check_probe(probe: Any, *, model: str = "lstm-seq2seq", registry: Registry | None = None) -> None:
    """Hold a probe function (or a registered name) to the contract, on a registered model."""
    raise_failures(f"probe {probe}", probe_checks(probe, model=model, registry=registry))


def probe_checks(probe: Any, *, model: str = "lstm-seq2seq", registry: Registry | None = None) -> Iterator[Outcome]:
    """Each check and what came of it."""
    registry = registry or build_registry()
    function = registry.load("probes", probe) if isinstance(probe, str) else probe
    model_class = registry.load("models", model)
    task_class = registry.load("tasks", model_class.default_task)
    corpus = task_class().load(options_of(task_class)())
    case = Case(model_class, options_of(model_class)(), corpus, few_sentences(corpus.split("validation")))
    name = probe if isinstance(probe, str) else getattr(probe, "__name__", "probe")
    yield from run_checks((probe_gives_cells, probe_ignores_padding), ProbeCase(name, function, case))


class _One(Registry):
    """A registry of one probe."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self._function = function

    def load(self, kind: str, name: str) -> Any:
        return self._function


def probe_gives_cells(case: ProbeCase) -> None:
    """It returns (B, T, L) or (B, S, T, L) of numbers."""
    run_probe(case.case.model, [case.case.batch], case.name, registry=_One(case.function))


def probe_ignores_padding(case: ProbeCase) -> None:
    """A sentence alone and in a batch give the same signal."""
    inner, only = case.case, _One(case.function)
    whole = run_probe(inner.model, [inner.batch], case.name, registry=only)
    alone = run_probe(inner.model, [inner.alone(i) for i in range(len(inner.split))], case.name, registry=only)
    gap = np.abs(whole.values - alone.values).max()
    if not gap <= CLOSE:
        raise Failed(f"the signal of a sentence depends on its neighbours in the batch (difference {gap:.2g})")


# metrics

Rows = NDArray[np.float32]


@dataclass(eq=False)
class MetricCase:
    """A metric under test on random rows, with ties, and with one constant row."""

    metric: Callable[..., Any]

    @cached_property
    def rows(self) -> tuple[Rows, Rows]:
        """Two blocks of rows, (N, L); the values of the second are 0, 1/2 and 1, as a gold alignment has too."""
        rng = np.random.default_rng(0)
        u, v = rng.normal(size=(60, 7)), rng.choice([0.0, 0.5, 1.0], (60, 7))
        v[:, 0] = 1.0
        v[-1] = 0.5
        return u.astype(np.float32), v.astype(np.float32)

    def pairs(self, u: Rows, v: Rows) -> NDArray[np.float64]:
        """What it says of each row, as numerator and denominator."""
        return as_pairs(self.metric(u, v), len(u), self.metric)


def check_metric(metric: Any, *, registry: Registry | None = None) -> None:
    """Hold a metric (a function, an instance, or a registered name) to the contract."""
    raise_failures(f"metric {metric}", metric_checks(metric, registry=registry))


def metric_checks(metric: Any, *, registry: Registry | None = None) -> Iterator[Outcome]:
    """Each check and what came of it."""
    if isinstance(metric, str):
        metric = make_metric((registry or build_registry()).load("metrics", metric.partition(":")[0]), metric)
    checks = (
        a_number_a_row,
        rows_are_independent,
        only_order_counts,
        takes_minus_infinity,
        takes_one_position,
        baseline_is_true,
    )
    yield from run_checks(checks, MetricCase(metric))


def a_number_a_row(case: MetricCase) -> None:
    """It returns (N,) or (N, 2), not all undefined."""
    if np.isnan(case.pairs(*case.rows)).all():
        raise Failed("every row is NaN: return a number where the row has an answer")


def rows_are_independent(case: MetricCase) -> None:
    """A row's number does not depend on the other rows."""
    u, v = case.rows
    order = np.random.default_rng(1).permutation(len(u))
    if not np.allclose(case.pairs(u, v)[order], case.pairs(u[order], v[order]), equal_nan=True):
        raise Failed("the numbers change when rows change places: compute each row from itself alone")


def only_order_counts(case: MetricCase) -> None:
    """Only the order of u's values counts, so that log-odds and probabilities give the same."""
    u, v = case.rows
    if not np.allclose(case.pairs(u, v), case.pairs(np.float32(3) * u - np.float32(1), v), equal_nan=True):
        raise Failed("the numbers change under a rescaling of u: compare ranks, never differences")


def takes_minus_infinity(case: MetricCase) -> None:
    """A cell of -inf is a lowest value, not an error."""
    u, v = case.rows
    u = u.copy()
    u[:, -1] = -np.inf
    lowest = u.copy()
    lowest[:, -1] = -1e6
    if not np.allclose(case.pairs(u, v), case.pairs(lowest, v), equal_nan=True):
        raise Failed("-inf in u gives another number than a very low value")


def takes_one_position(case: MetricCase) -> None:
    """A row of one position gives a number or NaN."""
    one = np.ones((3, 1), np.float32)
    case.pairs(one, one)


def baseline_is_true(case: MetricCase) -> None:
    """expected(u, v) is the mean over shuffles."""
    if not hasattr(case.metric, "expected"):
        raise Skipped("no expected(u, v): a seeded shuffle is used")
    u = np.repeat(case.rows[0][:12], 200, 0)
    v = np.repeat(np.random.default_rng(2).normal(size=(12, 7)).astype(np.float32), 200, 0)
    shuffled = np.random.default_rng(3).permuted(v, axis=1)
    seen = case.pairs(u, shuffled).mean(0)
    told = as_pairs(metrics.expected(case.metric, u, v), len(u), case.metric).mean(0)
    if np.isnan(seen).any():
        raise Skipped("undefined on random rows")
    if not np.allclose(seen, told, atol=0.05):
        raise Failed(f"expected(u, v) says {told[0]:.3f}, shuffles of v say {seen[0]:.3f}")

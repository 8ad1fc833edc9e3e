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
from ktiwprobe.data import Batch, Corpus, Split, Stream
from ktiwprobe.errors import CorpusError
from ktiwprobe.options import options_of
from ktiwprobe.pooling import check_pooling, words_of
from ktiwprobe.probing import probe as run_probe
from ktiwprobe.registry import Entry, Owner, Registry, build_registry
from ktiwprobe.signals import Signal
from ktiwprobe.testing.case import CLOSE, Case, make_case
from ktiwprobe.testing.models import options_are_frozen
from ktiwprobe.testing.outcome import Failed, Outcome, Skipped, raise_failures, run_checks


def _name(thing: Any) -> str:
    return thing if isinstance(thing, str) else str(getattr(thing, "__name__", type(thing).__name__))


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
    raise_failures(f"task {_name(task)}", task_checks(task, options=options, registry=registry))


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


# probes


@dataclass(eq=False)
class ProbeCase:
    """A probe under test on a small trained model."""

    name: str
    function: Any
    case: Case

    def signal(self, *batches: Batch) -> Signal:
        """What it says of the model over `batches`."""
        registry = Registry()
        registry.entries["probes"][self.name] = Entry("probes", self.name, self.function, Owner("under test"))
        return run_probe(self.case.model, batches, self.name, registry=registry)


def check_probe(
    probe: Any, *, model: Any = "lstm-seq2seq", options: Any = None, registry: Registry | None = None
) -> None:
    """Hold a probe function (or a registered name) to the contract, on a model class (or a registered name)."""
    raise_failures(f"probe {_name(probe)}", probe_checks(probe, model=model, options=options, registry=registry))


def probe_checks(
    probe: Any, *, model: Any = "lstm-seq2seq", options: Any = None, registry: Registry | None = None
) -> Iterator[Outcome]:
    """Each check and what came of it."""
    registry = registry or build_registry()
    function = registry.load("probes", probe) if isinstance(probe, str) else probe
    case = ProbeCase(_name(probe), function, make_case(registry, model, options=options))
    yield from run_checks((probe_gives_cells, probe_ignores_padding, probe_leaves_no_trace), case)


def probe_gives_cells(case: ProbeCase) -> None:
    """It returns (B, T, L) or (B, S, T, L) of numbers, and says how they are pooled, if it says so, as can be."""
    check_pooling(case.signal(case.case.batch))


def probe_ignores_padding(case: ProbeCase) -> None:
    """A sentence alone and in a batch give the same signal."""
    inner = case.case
    whole = case.signal(inner.batch)
    alone = case.signal(*(inner.alone(i) for i in range(len(inner.split))))
    if not np.allclose(whole.values, alone.values, rtol=CLOSE, atol=CLOSE):
        raise Failed("the signal of a sentence depends on its neighbours in the batch: leave padding out of every sum")


def probe_leaves_no_trace(case: ProbeCase) -> None:
    """It leaves the model as it was."""
    before = {name: tensor.clone() for name, tensor in case.case.model.state().items()}
    case.signal(case.case.batch)
    changed = [name for name, tensor in case.case.model.state().items() if not torch.equal(tensor, before[name])]
    if changed:
        raise Failed(f"it changes {', '.join(changed)} of the model: work on a copy")


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
    raise_failures(f"metric {_name(metric)}", metric_checks(metric, registry=registry))


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

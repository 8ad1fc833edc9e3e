"""The figures that `ktiwprobe plot` draws: from runs to what plots.py is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ktiwprobe.compare.agreement import add_up, interval, load_metric
from ktiwprobe.compare.finder import Finder
from ktiwprobe.compare.specs import Spec, read_spec
from ktiwprobe.corpus import cooccurrence
from ktiwprobe.errors import SpecError, UnknownNameError, UsageError
from ktiwprobe.files import storage
from ktiwprobe.plugins.capabilities import bounds_of, label_of, lower_is_better
from ktiwprobe.plugins.quantities import GOLD, ROLES
from ktiwprobe.plugins.registry import HAT, Registry
from ktiwprobe.runs.listing import find_run
from ktiwprobe.runs.run import Run
from ktiwprobe.signals.signal import Signal
from ktiwprobe.views import plots, style
from ktiwprobe.views.sentences import run_to_show, see

FEW = 5  # occurrences below which a mean says little
COUNT = "count"  # how often a word occurs


@dataclass(frozen=True)
class Request:
    """What a figure is to be of; each kind reads what concerns it."""

    finder: Finder
    run: str | None = None
    sentence: int = 0
    probes: tuple[str, ...] = ()
    at: str = "best"
    site: str = "mean"
    u: str | None = None  # None: attention
    v: tuple[str, ...] = ()
    metric: str | None = None  # None: the default
    words: int = 24
    against: str | None = None  # None: attention

    @cached_property
    def rule(self) -> Callable[..., Any]:
        """The metric."""
        return load_metric(self.finder.registry, self.metric)[0]

    @property
    def metric_name(self) -> str:
        """The metric with its options, as a user writes it."""
        return self.metric or self.finder.registry.default("metrics")

    @cached_property
    def chosen(self) -> Run:
        """The run, of figures that are of one."""
        return run_to_show(self.finder, self.run)

    @cached_property
    def attention(self) -> str:
        """The probe that stands for attention."""
        return self.finder.registry.probes_of("attention")[0]

    def spec(self, text: str) -> Spec:
        """A SPEC, read."""
        return read_spec(text, self.finder.registry)

    def symbol(self, text: str) -> str:
        """A SPEC's symbol as a formula: beta-uf is β with uf above it; what is no SPEC stays text."""
        name = text.rpartition(":")[2].partition("@")[0].partition("[")[0]
        try:
            spec = self.spec(name)
        except SpecError:
            spec = None
        latex = self.finder.registry.quantity(spec.probe).latex if spec and spec.probe else ""
        if spec is None or not latex:
            return name.replace("$", r"\$")
        if spec.pick is None:
            return f"${latex}$"
        return rf"$\hat{{{latex}}}$" if spec.pick == HAT else rf"${latex}^{{\mathrm{{{spec.pick}}}}}$"


def draw(kind: str, request: Request) -> plots.Figure:
    """The figure of a kind."""
    if kind not in KINDS:
        raise UnknownNameError("figure", kind, KINDS)
    return KINDS[kind](request)


def check_output(path: Path, *, force: bool = False) -> Path:
    """Refuse, before anything is computed, a file that could not be written."""
    if path.suffix not in plots.FORMATS:
        raise UsageError(f"{path} does not end in {', '.join(plots.FORMATS[:-1])} or {plots.FORMATS[-1]}: name it so")
    return storage.check_output(path, force=force)


def heatmap(request: Request) -> plots.Figure:
    """One sentence, its probes side by side."""
    shown = see(
        request.finder.extractor(request.chosen), request.sentence, request.probes, at=request.at, site=request.site
    )
    panels = {f"{p.probe}[{p.site}]" if p.site else p.probe: p.values for p in shown.panels}
    title = f"{shown.run} at step {shown.step}, {shown.split} sentence {shown.number}"
    registry = request.finder.registry
    return plots.heatmaps(panels, shown.source, shown.target, links=shown.links, title=title, registry=registry)


def curves(request: Request) -> plots.Figure:
    """Agreement with u over training, beside performance, and how ξ is found from them."""
    finder, name = request.finder, label_of(request.rule) or request.metric_name
    of_u, texts = request.u or request.attention, request.v or _there(request, courses_of(finder.registry))
    run = _named_run(request, [of_u, *texts])
    (u,) = finder.signals(replace(_of_run(request.spec(of_u), run), step=request.at))
    found = {text: _course(request, u, _of_run(request.spec(text), run)) for text in texts}
    lines = {f"{name}({request.symbol(of_u)}, {request.symbol(text)})": course for text, (course, _) in found.items()}
    chances = [chance for _, of_line in found.items() for chance in of_line[1]]
    hat = _hat(request) if of_u == request.attention else {}
    seen = finder.others()[0] if len(finder.others()) == 1 else finder.first()
    performance = {step: p for step, (_, p) in hat.items()} or seen.performance()
    return plots.over_steps(
        lines,
        {f"seed {seen.seed}" if len(finder.others()) < 2 else "mean": performance},
        chance=(min(chances), max(chances)) if chances else None,
        crossing=_crossing(request, found, hat, lines),
        ylabels=(request.metric_name, "accuracy"),
    )


def _named_run(request: Request, texts: Iterable[str]) -> str | None:
    """The run that bare symbols mean: the one that the others name, as in `agree`; None for A."""
    named = list(dict.fromkeys(spec.run for text in texts if (spec := request.spec(text)).run))
    if len(named) != 1:
        return None
    request.finder.name_runs([find_run(request.finder.folder, str(named[0]))])
    return named[0]


def _of_run(spec: Spec, run: str | None) -> Spec:
    return replace(spec, run=run) if spec.bare else spec


def _course(request: Request, u: Signal, spec: Spec) -> tuple[plots.Course, list[float]]:
    """A(u, v) at every step of v's run, with intervals; and what chance would give."""
    text, finder = spec.text, request.finder
    if spec.file or spec.gold or spec.step:
        raise SpecError(f"{text!r} is no curve over training: give a symbol without a step, such as beta-uf")
    extractor = finder.extractor(finder.run_of(spec))
    sums = {}
    for step in extractor.steps():
        v = extractor.signal(spec.probe, step, progress=finder.progress)
        sums[step] = add_up(u, v.one_site(spec.site or "mean"), request.rule)
    values = {step: found.value for step, found in sums.items() if found.value is not None}
    if not values:
        raise UsageError(
            f"{request.metric_name} of {u.name} and {text} is undefined at every step: choose another metric"
        )
    bounds = bounds_of(request.rule)
    around = {step: ends for step in values if (ends := interval([sums[step]], bounds=bounds)) is not None}
    line = style.line_named(text, finder.registry)
    return plots.Course(text, values, around, line), [s.baseline for s in sums.values() if s.baseline is not None]


def _hat(request: Request) -> dict[int, tuple[float, float]]:
    """A(α, α̂(τ)) and p̂(τ), which ξ is read from; empty where there is one seed only."""
    finder = request.finder
    if not finder.others() or lower_is_better(request.rule):
        return {}
    return finder.curve(finder.first(), finder.others(), request.rule, "accuracy")


def _crossing(
    request: Request,
    found: Mapping[str, tuple[plots.Course, list[float]]],
    hat: Mapping[int, tuple[float, float]],
    names: Iterable[str],
) -> plots.Crossing | None:
    """ξ of the first line that is not another seed's attention itself, of the value that `agree` reports for it."""
    finder = request.finder
    for (text, (course, _)), name in zip(found.items(), names, strict=True):
        spec, value = request.spec(text), max(course.values.values())
        if finder.step_of(spec) == "best":
            value = course.values.get(finder.best_step(finder.run_of(spec)), value)
        passing = [step for step in sorted(hat) if hat[step][0] > value]
        if (spec.probe, spec.pick) != (request.attention, HAT) and passing:
            return plots.Crossing(name, value, hat[passing[0]][0], passing[0], hat[passing[0]][1])
    return None


def agreement_matrix(request: Request) -> plots.Figure:
    """Every signal of the group against every other, each at its best step."""
    finder, rule = request.finder, request.rule  # a metric that does not exist is told before anything is extracted
    texts = request.v or _there(request, signals_of(finder.registry))
    signals = {text: _at_best(request, text) for text in texts}
    sums = [[add_up(u, v, rule) for v in signals.values()] for u in signals.values()]
    values = np.array([[np.nan if s.value is None else s.value for s in row] for row in sums])
    chances = [s.baseline for row in sums for s in row if s.baseline is not None]
    names = [request.symbol(text) for text in texts]
    ends = sorted({f"{end:.2f}" for end in (min(chances), max(chances))}) if chances else []
    chance = f"; chance {' to '.join(ends)}" if ends else ""
    marks = [f"{mark}: {run.path.name}" for mark, run in _marks(finder, texts).items()]
    note = f"{finder.group()[0].path.parent.name}, best steps{chance}\n" + ", ".join(marks)
    return plots.table(plots.Panel(values, names, names), ylabel="u", xlabel="v", title=request.metric_name, note=note)


def _at_best(request: Request, text: str) -> Signal:
    """What a symbol means here: always at its run's best step unless the SPEC gives another."""
    spec, finder = request.spec(text), request.finder
    if spec.file or spec.gold:
        return finder.signals(spec)[0]
    return finder.signals(replace(spec, step=spec.step or request.at))[0]


def _marks(finder: Finder, texts: Iterable[str]) -> dict[str, Run]:
    """What the hats and superscripts of symbols stand for."""
    specs = [read_spec(text, finder.registry) for text in texts]
    marked = {"^" if s.pick == HAT else s.pick: finder.run_of(s) for s in specs if s.pick}
    return {"no mark" if marked else "run": finder.first()} | marked


def count_table(request: Request) -> plots.Figure:
    """Trans(o | i), counted in what the run was trained on."""
    corpus = request.finder.extractor(request.chosen).corpus
    table = cooccurrence.table_to_show(corpus, request.words)
    rows, columns = (
        [tokens[i] for i in ids]
        for tokens, ids in ((corpus.source_tokens, table.inputs), (corpus.target_tokens, table.outputs))
    )
    panel = plots.Panel(table.trans, rows, columns)
    return plots.matrices({f"Trans(o | i) of {corpus.task}": panel}, ylabel="input word", xlabel="output word")


def keyword_scatter(request: Request) -> plots.Figure:
    """For each input word: what the model knows of it, against the attention it gets, or its saliency, or its count.

    Of an occurrence counts the output that has most of it; a word is the mean over its occurrences.
    """
    registry, (knowledge, *_) = request.finder.registry, request.finder.registry.probes_of("knowledge")
    against, choices = request.against or request.attention, [*registry.probes_of("attention", "saliency"), COUNT]
    if against not in choices:
        raise UnknownNameError("quantity to plot against knowledge", against, choices)
    extractor = request.finder.extractor(request.chosen)
    ids, corpus = extractor.part.x.values, extractor.corpus
    counts = np.bincount(ids, minlength=corpus.source_size)
    beta = _by_word(request, knowledge, ids, counts)
    y = counts.astype(float) if against == COUNT else _by_word(request, against, ids, counts)
    words = np.flatnonzero((counts >= min(FEW, counts.max())) & np.isfinite(beta) & np.isfinite(y))
    names = [corpus.source_tokens[i] for i in words.tolist()]
    faint = np.isin(words, corpus.roles("source").special)
    unit = registry.quantity(knowledge)
    return plots.scatter(
        plots.Cloud(names, beta[words], y[words], counts[words], faint),
        xlabel=f"mean of highest {unit.symbol}{' (log-odds)' if unit.is_log_odds else ''}",
        ylabel="occurrences" if against == COUNT else f"mean of highest {registry.quantity(against).symbol}",
        yscale="log" if against == COUNT else "linear",
        title=f"input words of {extractor.run.name}",
    )


def _by_word(request: Request, probe: str, ids: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The highest value over outputs, as a mean over each word's occurrences; NaN where a word has none. (words,)"""
    extractor = request.finder.extractor(request.chosen)
    signal = extractor.signal(probe, request.at, progress=request.finder.progress)
    signal = signal.one_site(request.site) if len(signal.sites) > 1 else signal  # of attention alone there are several
    first = extractor.part.x.offsets[signal.sentence_of_row[np.repeat(np.arange(len(signal.lengths)), signal.lengths)]]
    highest = np.full(len(ids), -np.inf)
    np.maximum.at(highest, first + signal.positions, signal.values[0])
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.bincount(ids, highest, len(counts)) / counts


def courses_of(registry: Registry) -> list[str]:
    """What attention is compared with over training: knowledge of A, of another seed, of runs under another attention,
    and another seed's attention.
    """
    kinds = [name for name, kind in registry.run_kinds().items() if kind.shows[0] == "knowledge"]
    picks = ["", f"-{HAT}", *(f"-{name}" for name in kinds if not registry.run_kinds()[name].stands_beside)]
    attention = [f"{name}-{HAT}" for name in registry.probes_of("attention")]
    return [f"{name}{pick}" for name in registry.probes_of("knowledge") for pick in picks] + attention


def signals_of(registry: Registry) -> list[str]:
    """All that a group can be asked for: the usual probes of A, of another seed and of every kind of run, and gold."""
    usual = registry.probes_of(*ROLES)
    of_kinds = [
        f"{probe}-{name}" for name, kind in registry.run_kinds().items() for probe in registry.probes_of(*kind.shows)
    ]
    return [*usual, *(f"{name}-{HAT}" for name in usual), *of_kinds, GOLD.symbol]


def _there(request: Request, texts: Iterable[str]) -> list[str]:
    """The SPECs of those that the group, or what stands beside it, can answer."""
    there = []
    for text in texts:
        try:
            spec = request.spec(text)
            request.finder.signals(spec) if spec.gold else request.finder.run_of(spec)
        except SpecError:
            continue
        there.append(text)
    return there


KINDS: Mapping[str, Callable[[Request], plots.Figure]] = {
    "curves": curves,
    "heatmap": heatmap,
    "count-table": count_table,
    "agreement-matrix": agreement_matrix,
    "keyword-scatter": keyword_scatter,
}

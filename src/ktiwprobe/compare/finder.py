"""Which signals a SPEC means, and `agree`, which compares two of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ktiwprobe.compare import agreement, caveats
from ktiwprobe.compare.agreement import Agreement, load_metric
from ktiwprobe.compare.specs import Spec as Spec
from ktiwprobe.compare.specs import read_spec as read_spec
from ktiwprobe.errors import RunError, SpecError
from ktiwprobe.files.progress import SILENT, Progress
from ktiwprobe.plugins.capabilities import FitsItself, lower_is_better, supports
from ktiwprobe.plugins.registry import HAT, Registry, build_registry
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.probes.performance import Performance
from ktiwprobe.runs.groups import Groups, kin
from ktiwprobe.runs.listing import find_run
from ktiwprobe.runs.run import Run, runs_folder
from ktiwprobe.signals.pooling import at_level
from ktiwprobe.signals.signal import Signal, load_signal

Rule = Callable[..., Any]  # a metric


def agree(
    u: str | Signal,
    v: str | Signal,
    metric: str | None = None,
    *,
    task: str | None = None,
    split: str = "validation",
    performance: str | None = None,
    level: str = "token",
    runs: str | Path | None = None,
    device: str = "auto",
    registry: Registry | None = None,
    progress: Progress = SILENT,
) -> Agreement:
    """A(u, v) of two signals, or of what two SPECs mean. Missing signals are computed first; u and v are never swapped.

    `performance` sets the unit of ξ and the criterion for `@best`; by default accuracy, and the model's own measure.
    At the level `word` the pieces of a word are one cell, and differently tokenised runs can be compared. Read the
    result's `warnings` before its value.
    """
    registry = registry or build_registry()
    rule, metric = load_metric(registry, metric)
    if isinstance(u, Signal) and isinstance(v, Signal):
        return agreement.measure([(at_level(u, level), at_level(v, level))], rule, metric)[0]
    finder = Finder(
        runs_folder(runs),
        registry,
        task=task,
        split=split,
        performance=performance,
        level=level,
        device=device,
        progress=progress,
    )
    return finder.compare(u, v, rule, metric)


@dataclass(frozen=True)
class Side:
    """One side of a comparison."""

    signals: list[Signal]  # one; with @max one for each checkpoint
    run: Run | None = None  # None for a file, gold, or a signal in memory
    chosen: str | None = None  # how its step was chosen


class Finder(Groups):
    """Looks SPECs up among the runs of a folder, and compares what they mean."""

    def __init__(
        self,
        folder: Path,
        registry: Registry,
        *,
        task: str | None = None,
        split: str = "validation",
        performance: str | None = None,
        level: str = "token",
        device: str = "auto",
        progress: Progress = SILENT,
        only: Sequence[str] = (),
    ) -> None:
        super().__init__(folder, registry, task=task, only=only)
        self.split, self.measure, self.level = split, performance, level
        self.device, self.progress = device, progress
        self._extractors: dict[Path, Extractor] = {}
        self._compared: set[str] = set()  # corpora, by key

    def compare(self, u: str | Spec | Signal, v: str | Spec | Signal, rule: Rule, metric: str) -> Agreement:
        """A(u, v) with ξ, how each step was chosen, and what a reader must know of it."""
        sides = self.sides(u, v)
        pairs = [(a, b) for a in sides[0].signals for b in sides[1].signals]
        result, _ = agreement.measure(pairs, rule, metric)
        doubts = dict.fromkeys(doubt for side in sides for doubt in self._doubts(side))
        chosen = {"u": sides[0].chosen, "v": sides[1].chosen}
        return self.in_context(replace(result, chosen=chosen, warnings=(*doubts, *result.warnings)), rule)

    # which run, which steps, and the signals there

    def run_of(self, spec: Spec) -> Run:
        """The run that a SPEC means."""
        if spec.run:
            return find_run(self.folder, spec.run)
        if spec.pick and spec.pick != HAT:
            if runs := self.of_kind(spec.pick):
                return runs[0]
            command = self.command(self.registry.run_kinds()[spec.pick])
            raise SpecError(f"{spec.text} needs a run that is not there: train it with `{command}`")
        if not spec.pick:
            return self.first()
        if not self.hats():
            raise SpecError(
                f"{spec.text} needs a second seed of {self.described()}: train one with `{self.command(seed=True)}`"
            )
        return self.hats()[0]

    def step_of(self, spec: Spec) -> str:
        """best, last, max or a number: as given, else by the run that the SPEC means."""
        if spec.step:
            return spec.step
        if spec.pick == HAT:
            return self.registry.quantity(spec.probe).step_of_hat
        kind = self.registry.run_kinds()[spec.pick] if spec.pick else None
        return "max" if kind and not kind.stands_beside else "best"

    def sides(self, u: str | Spec | Signal, v: str | Spec | Signal) -> tuple[Side, Side]:
        """The signals of u and of v. A bare symbol is of A, or of the run that the other side names."""
        one, two = (read_spec(side, self.registry) if isinstance(side, str) else side for side in (u, v))
        if isinstance(one, Spec) and isinstance(two, Spec):
            one, two = self._one_maximum(one, two)
        named = [side.run for side in (one, two) if isinstance(side, Spec) and side.run]
        self.name_runs([find_run(self.folder, name) for name in named])
        run = named[0] if named else None  # whose alignment `gold` is, too
        both = (replace(s, run=run) if isinstance(s, Spec) and (s.bare or s.gold) else s for s in (one, two))
        first, second = (Side([self._at_level(s)]) if isinstance(s, Signal) else self._side(s) for s in both)
        return first, second

    def _one_maximum(self, u: Spec, v: Spec) -> tuple[Spec, Spec]:
        """Only one side may be a maximum over checkpoints: one that asks for it, else v."""
        if not all(not (s.file or s.gold) and self.step_of(s) == "max" for s in (u, v)):
            return u, v
        if u.step and v.step:
            raise SpecError(f"{u.text} and {v.text} are both @max: give one of them a step")
        return (u, replace(v, step="best")) if u.step else (replace(u, step="best"), v)

    def _side(self, spec: Spec) -> Side:
        signals = self.signals(spec)
        if spec.file or spec.gold:
            return Side(signals)
        run, at = self.run_of(spec), self.step_of(spec)
        ways = {"max": f"max of {len(signals)} checkpoints", "last": "last", "best": f"best by {self.best_by(run)}"}
        on = " on validation" if at == "best" and self.split == "test" else ""
        return Side(signals, run, ways.get(at, "given") + on)

    def signals(self, spec: Spec) -> list[Signal]:
        """What a SPEC means by itself: one signal, or one for each checkpoint with @max."""
        if spec.file:
            return [self._at_level(self.load(spec.file))]
        if spec.gold:
            return [self._at_level(self.extractor(self.run_of(spec) if spec.run else self.group()[-1]).gold())]
        extractor = self.extractor(self.run_of(spec))
        at = self.step_of(spec)
        best = at == "best"
        steps = extractor.steps() if at == "max" else [self.best_step(extractor.run) if best else extractor.step(at)]
        found = [self._at_level(extractor.signal(spec.probe, step, progress=self.progress)) for step in steps]
        return [signal.one_site(spec.site) for signal in found] if spec.site else found

    def load(self, path: Path) -> Signal:
        """A signal from a file; what its values are is known if the file names a registered probe."""
        signal = load_signal(path)
        return replace(signal, quantity=self.registry.quantity(str(signal.meta.get("probe", signal.name))))

    def _at_level(self, signal: Signal) -> Signal:
        """Over tokens or words; a signal from a file has the words of the latest run's split."""
        if self.level == "word" and signal.words is None and signal.meta.get("level") != "word":
            signal = replace(signal, words=lambda: self.extractor(self.group()[-1]).words)
        return at_level(signal, self.level)

    def extractor(self, run: Run) -> Extractor:
        """The extractor of a run, kept so that its corpus is made once."""
        if run.path not in self._extractors:
            self._extractors[run.path] = Extractor(
                run, self.registry, split=self.split, device=self.device, compared=self._compared
            )
        return self._extractors[run.path]

    def performance(self, run: Run, measure: str | None = None) -> Performance:
        """How well a run does on the split in use."""
        return Performance(self.extractor(run), measure, self.progress)

    def best_by(self, run: Run) -> str:
        """The measure by which a run's best checkpoint is chosen; one that stands beside the group keeps its own."""
        return run.best_by if self.stands_beside(run) else self.measure or run.best_by

    def best_step(self, run: Run) -> int:
        """The best checkpoint by the performance in use."""
        return run.best_step() if self.stands_beside(run) else self.performance(run, self.measure).best_step()

    # what a value is worth

    def _doubts(self, side: Side) -> list[caveats.Caveat]:
        """Whether the run of a side was trained at all, by what its log says."""
        run = side.run
        if run is None or self._fits_itself(run):
            return []
        if side.chosen and side.chosen.startswith("best"):
            best, steps = self.best_step(run), self.extractor(run).steps()
            if doubt := caveats.best_is_first(run.name, self.best_by(run), best, steps):
                return [doubt]
        doubt = caveats.never_rose(run.name, run.performance("accuracy"))
        return [doubt] if doubt else []

    def _fits_itself(self, run: Run) -> bool:
        """Whether the model counts instead of learning by steps: its first checkpoint is already trained."""
        model = self.registry.entries["models"].get(run.record.model)
        return not run.recorded and model is not None and supports(model.load(), FitsItself)

    def in_context(self, result: Agreement, rule: Rule) -> Agreement:
        """The same result with ξ and ξ*, where the group has the runs for them and only its runs were compared."""
        measure = self.measure or "accuracy"
        try:
            if not self._of_the_group():
                return result
            first = self.performance(self.first(), measure)
            star = first.at(first.best_step()) if first.curve() else None
        except (SpecError, RunError):
            return result
        result = replace(result, performance=measure, xi_star=star)
        if not self.others() or result.value is None or lower_is_better(rule):
            return result
        curve = self.curve(self.first(), self.others(), rule, measure)
        if not curve:  # the other seeds have no step in common at which both were measured
            return result
        found = agreement.xi(result.value, curve)
        return replace(result, xi=star if found is None else found, passed=found is not None)

    def _of_the_group(self) -> bool:
        """Whether all that was compared so far are runs of the group, or stand beside it."""
        folder, group = self.group()[0].path.parent.resolve(), kin(self.group()[0])
        runs = [extractor.run for extractor in self._extractors.values()]
        beside = [run for run in runs if run.path.parent.resolve() == folder]
        related = [run for run in beside if kin(run) == group or self.stands_beside(run)]
        return len(related) == len(runs) > 0

    def curve(self, first: Run, others: list[Run], rule: Rule, measure: str) -> dict[int, tuple[float, float]]:
        """A(α, α̂(τ)) and p̂(τ), averaged over the `others`, at each step τ that all of them have."""
        attention = self.registry.probes_of("attention")[0]
        alpha = self._at_level(self.extractor(first).signal(attention, self.best_step(first), progress=self.progress))
        scores = [self.performance(run, measure).curve() for run in others]
        steps = sorted(set.intersection(*map(set, scores)))
        curves: list[dict[int, tuple[float | None, float]]] = []
        for run, score in zip(others, scores, strict=True):
            curves.append({})
            for step in steps:
                hat = self._at_level(self.extractor(run).signal(attention, step, progress=self.progress))
                curves[-1][step] = agreement.add_up(alpha, hat, rule).value, score[step]
        return agreement.mean_curve(curves)

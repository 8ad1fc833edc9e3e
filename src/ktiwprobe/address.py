"""Which signals a SPEC means, and `agree`, which compares two of them.

The runs that a SPEC's suffix picks from are the group: those of the latest run's task, model and options. A is its
learned run with the lowest seed, B the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ktiwprobe import agreement
from ktiwprobe.agreement import Agreement, make_metric
from ktiwprobe.errors import KtiwprobeError, RunError, SpecError
from ktiwprobe.extraction import Extractor
from ktiwprobe.options import as_dict, as_text
from ktiwprobe.performance import Performance
from ktiwprobe.pooling import at_level
from ktiwprobe.progress import SILENT, Progress
from ktiwprobe.recipe import make_recipe, recipe_of
from ktiwprobe.registry import Registry, build_registry
from ktiwprobe.run import Run, find_run, find_runs, latest_run, runs_folder
from ktiwprobe.signals import Signal, load_signal
from ktiwprobe.specs import ATTENTIONS, LEXICAL, STAND_INS
from ktiwprobe.specs import Spec as Spec
from ktiwprobe.specs import read_spec as read_spec


def agree(
    u: str | Signal,
    v: str | Signal,
    metric: str = "agreement",
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
    """A(u, v) of two signals, or of what two SPECs mean; what is missing is extracted, u and v are never swapped.

    `performance` is what ξ is measured in and what `best` means: accuracy and the model's own, unless it is said.
    At the level `word` the pieces of a word are one cell, and differently tokenised runs can be compared.
    """
    registry = registry or build_registry()
    rule = make_metric(registry.load("metrics", metric.partition(":")[0]), metric)
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
    us, vs = finder.signals_of_both(u, v)
    pairs = [(a, b) for a in us for b in vs]
    result, _ = agreement.measure(pairs, rule, metric)
    return finder.in_context(result, rule)


class Finder:
    """Looks SPECs up among the runs of a folder."""

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
        self.folder, self.registry, self.task, self.split = folder, registry, task, split
        self.measure, self.level, self.only = performance, level, only
        self.device, self.progress = device, progress
        self._extractors: dict[Path, Extractor] = {}
        self._group: list[Run] | None = None

    # which runs

    def runs(self) -> list[Run]:
        """The runs to look among, the one that decides the group last: those named, else all of the folder."""
        named = dict.fromkeys(find_run(self.folder, name).path for name in self.only)
        return [Run.open(path) for path in reversed(named)] if named else find_runs(self.folder)

    def group(self) -> list[Run]:
        """The runs that belong together: the latest run's task, model and options, of any seed and attention."""
        if self._group is None:
            runs = [run for run in self.runs() if self.task in (None, run.record["task"])]
            if not runs:
                latest_run(self.folder)  # says that there are none at all
                known = sorted({run.record["task"] for run in self.runs()})
                raise SpecError(
                    f"there are no runs of task {self.task!r} in {self.folder}; there are some of {', '.join(known)}"
                )
            main = [run for run in runs if run.record["model"] not in STAND_INS.values()] or runs
            self._group = [run for run in runs if _kin(run) == _kin(main[-1])]
        return self._group

    def around(self, run: Run) -> Finder:
        """The same, for the group of that run instead of the latest's."""
        self._group = [other for other in find_runs(run.path.parent.parent) if _kin(other) == _kin(run)]
        return self

    def stand_ins(self) -> list[Run]:
        """Runs of the models without attention on the group's task, lowest seed of each."""
        folder, found = self.group()[0].path.parent, {}
        for run in sorted(self.runs(), key=lambda run: -run.seed):
            if run.path.parent == folder and run.record["model"] in STAND_INS.values():
                found[run.record["model"]] = run
        beside = [found[model] for model in STAND_INS.values() if model in found]
        return [run for run in beside if run.path not in {mine.path for mine in self.group()}]

    def learned(self) -> list[Run]:
        """A, B, ...: the group's learned runs, lowest seed first."""
        runs = sorted((r for r in self.group() if r.attention == "learned"), key=lambda r: r.seed)
        if not runs:
            raise SpecError(f"no learned run of {self._of()}: train one with `{self._command()}`")
        return runs

    def run_of(self, spec: Spec) -> Run:
        """The run that a SPEC speaks of."""
        if spec.run:
            return find_run(self.folder, spec.run)
        if spec.pick in ATTENTIONS:
            runs = [r for r in self.group() if r.attention == ATTENTIONS[spec.pick]]
            return self._first(runs, spec, f"{self._command()} --attention {ATTENTIONS[spec.pick]}")
        if spec.pick in STAND_INS:
            folder, model = self.group()[0].path.parent, STAND_INS[spec.pick]
            runs = [r for r in self.runs() if r.path.parent == folder and r.record["model"] == model]
            return self._first(runs, spec, self._command(model=model))
        learned = self.learned()
        another = spec.pick == "hat" or spec.probe in LEXICAL
        if spec.pick == "hat" and len(learned) < 2:
            raise SpecError(
                f"{spec.text} needs a second seed of {self._of()}: train one with `{self._command(seed=True)}`"
            )
        return learned[1] if another and len(learned) > 1 else learned[0]

    def _first(self, runs: list[Run], spec: Spec, command: str) -> Run:
        if not runs:
            raise SpecError(f"{spec.text} needs a run that is not there: train it with `{command}`")
        return min(runs, key=lambda run: run.seed)

    def _of(self) -> str:
        record = self.group()[-1].record
        return f"{record['model']} on {record['task']}"

    def _command(self, *, model: str | None = None, seed: bool = False) -> str:
        """What trains another run of the group, or a stand-in `model` beside it."""
        record = self.group()[-1].record
        another = f" --seed {max(r.seed for r in self.group()) + 1}" if seed else ""
        spaces = ("task",) if model else ("task", "model", "train")
        if self.group()[-1].recorded:
            return f"your own loop and ktiwprobe.Recorder, as the others of {record['task']}"
        return f"ktiwprobe train {model or record['model']} --task {record['task']}{another}{self._options(*spaces)}"

    def _options(self, *spaces: str) -> str:
        """The options that make the group what it is, as one writes them."""
        try:
            mine = recipe_of(self.group()[-1], self.registry)
            usual = make_recipe(self.registry, mine.model, mine.task)
        except KtiwprobeError:  # without its plugin the advice can only be shorter
            return ""
        chosen: dict[str, object] = {}
        for space in spaces:
            here, there = (as_dict(getattr(recipe, f"{space}_options")) for recipe in (mine, usual))
            chosen |= {f"{space}.{key}": value for key, value in here.items() if value != there[key]}
        return "".join(
            f" -o {key}={as_text(value)}" for key, value in chosen.items() if key not in ("train.steps", "train.epochs")
        )

    # which steps, and the signals there

    def step_of(self, spec: Spec) -> str:
        """best, last, max or a number: as told, else the paper's choice."""
        if spec.step:
            return spec.step
        if spec.run or spec.pick in (*STAND_INS, "hat"):
            return "best"
        another = spec.pick in ATTENTIONS or (spec.probe in LEXICAL and len(self.learned()) > 1)
        return "max" if another else "best"

    def signals_of_both(self, u: str | Signal, v: str | Signal) -> tuple[list[Signal], list[Signal]]:
        """The signals of u and of v; one side may have several, the checkpoints of @max."""
        sides = [
            side if isinstance(side, Signal) else read_spec(side, self.registry.names("probes")) for side in (u, v)
        ]
        maxima = [isinstance(s, Spec) and not (s.file or s.gold) and self.step_of(s) == "max" for s in sides]
        if all(maxima):
            first, second = sides
            if isinstance(first, Spec) and isinstance(second, Spec):
                if first.step and second.step:
                    raise SpecError(f"{first.text} and {second.text} are both @max: give one of them a step")
                sides = [first, replace(second, step="best")] if first.step else [replace(first, step="best"), second]
        named = next((s.run for s in sides if isinstance(s, Spec) and s.run), None)  # whose alignment `gold` is
        u_signals, v_signals = (
            [self._at_level(s)] if isinstance(s, Signal) else self.signals(replace(s, run=named) if s.gold else s)
            for s in sides
        )
        return u_signals, v_signals

    def signals(self, spec: Spec) -> list[Signal]:
        """What a SPEC means: one signal, or one for each checkpoint with @max."""
        if spec.file:
            return [self._at_level(load_signal(spec.file))]
        if spec.gold:
            return [self._at_level(self.extractor(self.run_of(spec) if spec.run else self.group()[-1]).gold())]
        extractor = self.extractor(self.run_of(spec))
        at = self.step_of(spec)
        best = at == "best"
        steps = extractor.steps() if at == "max" else [self.best_step(extractor.run) if best else extractor.step(at)]
        found = [self._at_level(extractor.signal(spec.probe, step, progress=self.progress)) for step in steps]
        return [signal.one_site(spec.site) for signal in found] if spec.site else found

    def _at_level(self, signal: Signal) -> Signal:
        """Over tokens or words; a signal from a file has the words of the latest run's split."""
        if self.level == "word" and signal.words is None and signal.meta.get("level") != "word":
            signal = replace(signal, words=lambda: self.extractor(self.group()[-1]).words)
        return at_level(signal, self.level)

    def extractor(self, run: Run) -> Extractor:
        """The extractor of a run, kept so that its corpus is made once."""
        if run.path not in self._extractors:
            self._extractors[run.path] = Extractor(run, self.registry, split=self.split, device=self.device)
        return self._extractors[run.path]

    def performance(self, run: Run, measure: str | None = None) -> Performance:
        """How well a run does on the split in use."""
        return Performance(self.extractor(run), measure, self.progress)

    def best_step(self, run: Run) -> int:
        """The best checkpoint by the performance in use; a stand-in keeps its own."""
        stand_in = run.record["model"] in STAND_INS.values()
        return run.best_step() if stand_in else self.performance(run, self.measure).best_step()

    # what a value is worth

    def in_context(self, result: Agreement, rule: object) -> Agreement:
        """The same result with ξ and ξ*, where there are the runs for them and it was of them."""
        measure = self.measure or "accuracy"
        try:
            if not self._of_the_group():
                return result
            learned = self.learned()
            first = self.performance(learned[0], measure)
            star = first.at(first.best_step()) if first.curve() else None
        except (SpecError, RunError):
            return result
        result = replace(result, performance=measure, xi_star=star)
        if len(learned) < 2 or result.value is None or getattr(rule, "lower_is_better", False):
            return result
        found = agreement.xi(result.value, self.curve(learned[0], self.others(), rule, measure))
        return replace(result, xi=star if found is None else found, passed=found is not None)

    def _of_the_group(self) -> bool:
        """Whether all that was compared so far are runs of the group, or stand-ins beside them."""
        folder, kin = self.group()[0].path.parent.resolve(), _kin(self.group()[0])
        runs = [extractor.run for extractor in self._extractors.values()]
        beside = [run for run in runs if run.path.parent.resolve() == folder]
        known = [run for run in beside if _kin(run) == kin or run.record["model"] in STAND_INS.values()]
        return len(known) == len(runs) > 0

    def others(self) -> list[Run]:
        """The runs whose attention is held against A's: B, and of classifiers B to F."""
        learned = self.learned()
        return learned[1:6] if learned[0].record.get("kind") == "classification" else learned[1:2]

    def curve(self, first: Run, others: list[Run], rule: object, measure: str) -> dict[int, tuple[float, float]]:
        """A(α, α̂(τ)) and p̂(τ) at each step τ, as means over the `others` that have it."""
        alpha = self._at_level(self.extractor(first).signal("alpha", self.best_step(first), progress=self.progress))
        points: dict[int, list[tuple[float, float]]] = {}
        for run in others:
            for step, performance in self.performance(run, measure).curve().items():
                hat = self._at_level(self.extractor(run).signal("alpha", step, progress=self.progress))
                value = agreement.add_up(alpha, hat, rule).value  # type: ignore[arg-type]
                if value is not None:
                    points.setdefault(step, []).append((value, performance))
        return {s: tuple(sum(c) / len(c) for c in zip(*p, strict=True)) for s, p in points.items()}


def _kin(run: Run) -> tuple[str, str, str]:
    """Runs that differ only in seed, attention and length."""
    return run.path.parent.name, run.record["model"], run.record["identity"][1]

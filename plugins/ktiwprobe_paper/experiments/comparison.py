"""The numbers of one row of the paper's Table 1: which signals are compared, at which checkpoints, and ξ.

A is a learned run, B the next one, uf a run under uniform attention, px the proxy, ibm IBM Model 1. As published: α and
Δ are read at A's best checkpoint, what they are compared with where it agrees most; in A(β-uf, β-px) the proxy is u.
Every learned run is A in turn, with the others after it as B, C and so on: the first turn is the paper's row, all turns
together show the spread across seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ktiwprobe import Run, Signal
from ktiwprobe.claims.measures import Points
from ktiwprobe.compare.agreement import Sums, add_up, interval, mean_curve, xi
from ktiwprobe.experiments import Context
from ktiwprobe.plugins.capabilities import bounds_of
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.probes.performance import Performance
from ktiwprobe_paper.experiments.published import CHANCE, STAR

Key = TypeVar("Key", bound=Hashable)
Curve = dict[int, Sums]  # A(u, v) by the step of v


@dataclass(frozen=True)
class Runs:
    """What a row rests on."""

    learned: Sequence[Run]  # A, B, ...
    uniform: Sequence[Run]
    proxies: Sequence[Run]  # one for each uniform run
    counts: Sequence[Run]  # IBM Model 1, for translation
    last: Mapping[str, int | None]  # the step up to which each model's runs are read

    def others(self, turn: int) -> list[int]:
        """The learned runs but A, beginning with B."""
        N = len(self.learned)
        return [(turn + k) % N for k in range(1, N)]


@dataclass(frozen=True)
class How:
    """What is measured, and how."""

    rule: Callable[..., Any]
    split: str
    performance: str
    averaged: bool  # whether ξ is read off curves averaged over all others (classification), or off B's (translation)


@dataclass(frozen=True)
class Cell:
    """A number of the row, in the table's unit: percent, BLEU as it is."""

    value: float
    ci: tuple[float, float] | None = None  # over sentences
    turns: Sequence[float] = ()  # the same across seeds
    passed: bool = True  # for ξ: whether another seed's attention ever agrees better


@dataclass
class Row:
    """All cells of a row by their name, and every curve behind them."""

    cells: dict[str, Cell] = field(default_factory=dict)
    curves: dict[str, Points] = field(default_factory=dict)
    signature: str = ""  # how BLEU was computed, in sacreBLEU's words


class Comparison:
    """One row, from runs that are trained."""

    def __init__(self, context: Context, runs: Runs, how: How) -> None:
        self.context, self.runs, self.how = context, runs, how
        self.scale = 1.0 if how.performance == "bleu" else 100.0
        self.performances = [self._performance(run) for run in runs.learned]
        last = self._last(runs.learned[0])
        self.best = [performance.best_step(last) for performance in self.performances]
        self.scores = [performance.curve(last) for performance in self.performances]

    def row(self) -> Row:
        """Every cell, with its interval and its spread."""
        pairs, hats = self._pairs(), self._hats()
        contexts = [self._context(hats, turn) for turn in range(len(self.runs.learned))]
        row = Row()
        for name, curves in pairs.items():
            peaks = [_peak(curve) for curve in curves]
            ci = interval(list(curves[0].values()), bounds=bounds_of(self.how.rule))
            row.cells[f"A({name})"] = Cell(100 * peaks[0], _scaled(ci, 100), [100 * peak for peak in _distinct(curves)])
            row.cells[f"ξ({name})"] = self._xi(peaks, contexts, ci)
            row.curves[f"A({name})"] = {step: sums.value or 0.0 for step, sums in curves[0].items()}
        chances = [_mean(s.baseline for j in self._heard(turn) for s in hats[turn, j].values()) for turn in self._turns]
        row.cells[CHANCE] = Cell(100 * chances[0], None, [100 * chance for chance in chances])
        stars = [self.scale * self.scores[turn][self.best[turn]] for turn in self._turns]
        row.cells[STAR] = Cell(stars[0], None, stars)
        if self.how.performance == "bleu":
            row.signature = self.performances[0].record(self.best[0])["signature"]
        row.curves["A(α, α̂)"] = {step: agreement for step, (agreement, _) in contexts[0].items()}
        row.curves[self.how.performance] = {step: score for step, (_, score) in contexts[0].items()}
        return row

    # which signals meet which

    def _pairs(self) -> dict[str, list[Curve]]:
        """A(u, v) by the pair's name: of each turn, at every checkpoint of v; equal objects where turns share them."""
        turns, several = self._turns, len(self.runs.uniform)
        alphas, deltas = (self._bests(probe) for probe in ("alpha", "delta"))
        proxies, counts = ([self._stand_in(run) for run in runs] for runs in (self.runs.proxies, self.runs.counts))
        found: dict[tuple[str, int], Curve] = {}
        for k, run in enumerate(self.runs.uniform):
            us = {("px", k): proxies[k]} | {("ibm", k): u for u in counts}  # noqa: B035  (there is one, or none)
            for turn in turns[k::several]:
                us |= {("α", turn): alphas[turn], ("Δ", turn): deltas[turn]}
            found |= self._against(us, self._signals(run, "beta"))
        pairs = {
            "α, β-uf": [found["α", turn] for turn in turns],
            "β-uf, β-px": [found["px", turn % several] for turn in turns],
            "Δ, β-uf": [found["Δ", turn] for turn in turns],
            "α, β̂": [self._beta(alphas, turn) for turn in turns],
        }
        if counts:
            pairs["β-uf, β-ibm"] = [found["ibm", turn % several] for turn in turns]
            pairs["α, β-ibm"] = list(self._against(dict(enumerate(alphas)), [(0, counts[0])]).values())
        return pairs

    def _beta(self, alphas: Sequence[Signal], turn: int) -> Curve:
        """A(α, β̂) of one turn: β̂ is B's."""
        b = self.runs.others(turn)[0]
        return self._against({turn: alphas[turn]}, self._signals(self.runs.learned[b], "beta"))[turn]

    def _hats(self) -> dict[tuple[int, int], Curve]:
        """A(α, α̂(τ)) of each turn with each run that it hears."""
        alphas, hats = self._bests("alpha"), {}
        for j, run in enumerate(self.runs.learned):
            us = {(turn, j): alphas[turn] for turn in self._turns if j in self._heard(turn)}
            hats.update(self._against(us, self._signals(run, "alpha")) if us else {})
        return hats

    def _against(self, us: Mapping[Key, Signal], vs: Iterable[tuple[int, Signal]]) -> dict[Key, Curve]:
        """Each u against v, step by step: only one v is in memory at a time."""
        curves: dict[Key, Curve] = {key: {} for key in us}
        for step, v in vs:
            for key, u in us.items():
                curves[key][step] = add_up(u, v, self.how.rule)
        return curves

    # ξ

    def _context(self, hats: Mapping[tuple[int, int], Curve], turn: int) -> dict[int, tuple[float, float]]:
        """A(α, α̂(τ)) and p̂(τ) by step, averaged over the runs that are heard."""
        return mean_curve(
            [
                {
                    step: (sums.value, self.scores[j][step])
                    for step, sums in hats[turn, j].items()
                    if step in self.scores[j]
                }
                for j in self._heard(turn)
            ]
        )

    def _xi(
        self,
        values: Sequence[float],
        contexts: Sequence[Mapping[int, tuple[float, float]]],
        ci: tuple[float, float] | None,
    ) -> Cell:
        """ξ of each turn; the interval is that of A, its ends read off the same curve."""

        def read(value: float, turn: int) -> tuple[float, bool]:
            found = xi(value, contexts[turn])
            star = self.scores[turn][self.best[turn]]
            return self.scale * (star if found is None else found), found is not None

        turns = [read(value, turn) for turn, value in enumerate(values)]
        ends = sorted(read(end, 0)[0] for end in ci or ())
        value, passed = turns[0]
        return Cell(value, (ends[0], ends[-1]) if ends else None, [number for number, _ in turns], passed)

    # signals

    @property
    def _turns(self) -> range:
        return range(len(self.runs.learned))

    def _heard(self, turn: int) -> list[int]:
        """The learned runs whose attention and performance contextualise a turn."""
        others = self.runs.others(turn)
        return others if self.how.averaged else others[:1]

    def _bests(self, probe: str) -> list[Signal]:
        return [self._extractor(run).signal(probe, step, progress=self.context.progress)
                for run, step in zip(self.runs.learned, self.best, strict=True)]  # fmt: skip

    def _stand_in(self, run: Run) -> Signal:
        """Beta of a model without attention, at the checkpoint of its lowest validation loss."""
        step = Performance(self._extractor(run).over("validation")).best_step(self._last(run))
        return self._extractor(run).signal("beta", step, progress=self.context.progress)

    def _signals(self, run: Run, probe: str) -> Iterator[tuple[int, Signal]]:
        last = self._last(run)
        steps = [step for step in run.steps() if last is None or step <= last]
        return self.context.signals(run, probe, steps, split=self.how.split)

    def _performance(self, run: Run) -> Performance:
        return Performance(self._extractor(run), self.how.performance, self.context.progress)

    def _extractor(self, run: Run) -> Extractor:
        return Extractor(run, self.context.registry, split=self.how.split, device=self.context.device)

    def _last(self, run: Run) -> int | None:
        return self.runs.last[run.record.model]


def _peak(curve: Curve) -> float:
    """The highest agreement over checkpoints."""
    return max((sums.value for sums in curve.values() if sums.value is not None), default=0.0)


def _distinct(curves: Sequence[Curve]) -> list[float]:
    """The peaks of those that are not shared between turns."""
    return [_peak(curve) for curve in {id(curve): curve for curve in curves}.values()]


def _mean(values: Iterable[float | None]) -> float:
    return float(np.mean([value for value in values if value is not None]))


def _scaled(ends: tuple[float, float] | None, by: float) -> tuple[float, float] | None:
    return None if ends is None else (by * ends[0], by * ends[1])

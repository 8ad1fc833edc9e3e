"""The numbers of the page: how well the signals of a group agree, at best and over training, and what that is worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ktiwprobe import agreement
from ktiwprobe.address import STAND_INS, Finder
from ktiwprobe.agreement import Agreement, make_metric
from ktiwprobe.errors import SpecError
from ktiwprobe.run import Run
from ktiwprobe.style import SYMBOLS

METRIC, MEASURE = "agreement", "accuracy"
SUPERSCRIPTS = {"hat": "̂", "uf": "ᵘᶠ", "fr": "ᶠʳ", "px": "ᵖˣ", "ibm": "ⁱᵇᵐ", "log": "ˡᵒᵍ"}
Points = list[tuple[int, float]]


class Comparison(NamedTuple):
    """A row of the table: two SPECs, and whether a reader is told what to train where a run for it is missing."""

    u: str
    v: str
    wanted: bool = False


class Reader(Finder):
    """A Finder that works out once what the curve of ξ is."""

    _curve: dict[int, tuple[float, float]] | None = None

    def curve(self, first: Run, others: list[Run], rule: object, measure: str) -> dict[int, tuple[float, float]]:
        """A(α, α̂(τ)) and p̂(τ) at each step τ."""
        if self._curve is None:
            self._curve = super().curve(first, others, rule, measure)
        return self._curve

    def rule(self) -> Callable[..., Any]:
        """The metric of the page."""
        return make_metric(self.registry.load("metrics", METRIC), METRIC)

    def main(self) -> Run:
        """The run the page is about: A, or where none has learned attention the group's lowest seed."""
        learned = [run for run in self.group() if run.attention == "learned"]
        return min(learned or self.group(), key=lambda run: run.seed)

    def attends(self, run: Run) -> bool:
        """Whether the run's model has attention."""
        return hasattr(self.registry.load("models", self.extractor(run).recipe.model), "trace")


def comparisons(finder: Reader) -> list[Comparison]:
    """What the paper's tables compare, as far as it makes sense for these runs."""
    classifies = finder.main().record.get("kind") == "classification"
    beside = ("px", "log") if classifies else ("px", "ibm")
    if not finder.attends(finder.main()):
        return [Comparison("beta@best", "gold")]
    rows = [Comparison("alpha", "beta"), Comparison("alpha", "beta-uf", True), Comparison("alpha", "alpha-hat", True)]
    rows += [Comparison("delta", "beta"), Comparison("delta", "beta-uf"), Comparison("alpha", "alpha-fr")]
    rows += [Comparison("alpha", f"beta-{pick}", True) for pick in beside]
    rows += [Comparison(f"beta-{pick}", "beta-uf") for pick in beside]
    rows += [Comparison("alpha", "gold"), Comparison("beta@best", "gold")]
    return rows + [Comparison("alpha", f"{run.path}:alpha") for run in strangers(finder)]


def strangers(finder: Reader) -> list[Run]:
    """Named runs that are neither of the group nor a stand-in beside it: another model on the same corpus."""
    known = {run.path for run in [*finder.group(), *finder.stand_ins()]}
    return [run for run in finder.runs() if finder.only and run.path not in known]


def compare(finder: Reader) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of the table, and a sentence for each run that would give another."""
    rows, missing = [], []
    for u, v, wanted in comparisons(finder):
        try:
            us, vs = finder.signals_of_both(u, v)
        except SpecError as error:
            missing += [str(error)] if wanted else []
            continue
        result, _ = agreement.measure([(a, b) for a in us for b in vs], finder.rule(), METRIC)
        result = finder.in_context(result, finder.rule(), MEASURE)
        rows.append(_row(result, u, v))
    return rows, missing


def _row(result: Agreement, u: str, v: str) -> dict[str, Any]:
    plain = {**result.to_dict(), "passed": result.passed, "ties": result.ties}
    return {**plain, "label": f"A({symbol(u)}, {symbol(v)})", "specs": [u, v]}


def symbol(spec: str) -> str:
    """A SPEC as the paper writes it: beta-uf is β with a superscript."""
    run, _, rest = spec.partition("@")[0].rpartition(":")
    probe, _, pick = rest.partition("-")
    letter = SYMBOLS.get(probe, probe) + (SUPERSCRIPTS[pick] if pick else "")
    return f"{letter} of {Path(run).name}" if run else letter


def curves(finder: Reader) -> list[dict[str, Any]]:
    """Lines over training steps: agreement of α with β, with β of the uniform run, with α̂, and performance."""
    a = finder.main()
    lines = []
    if finder.attends(a):
        for spec in ("beta@max", "beta-uf@max"):
            lines += _agreement_line(finder, spec)
    hat = passing(finder)
    if hat:
        lines.append(_line("A(α, α̂)", "alpha", "another seed", [(s, hat[s][0]) for s in sorted(hat)], "hat"))
        lines.append(
            _line("p̂", "performance", f"{MEASURE} of that seed", [(s, hat[s][1]) for s in sorted(hat)], "p-hat")
        )
    own = sorted(a.performance(MEASURE).items())
    return [*lines, _line("p", "performance", f"{MEASURE} of {a.path.name}", own, "p")]


def _agreement_line(finder: Reader, spec: str) -> list[dict[str, Any]]:
    try:
        (alpha,), others = finder.signals_of_both("alpha", spec)
    except SpecError:
        return []
    found = [(v.meta["step"], agreement.add_up(alpha, v, finder.rule()).value) for v in others]
    points = [(int(step), value) for step, value in found if value is not None]
    label = spec.partition("@")[0]
    return [_line(f"A(α, {symbol(label)})", "beta", f"β of {others[0].name.partition(':')[0]}", points, label)]


def _line(label: str, look: str, note: str, points: Points, key: str) -> dict[str, Any]:
    return {"key": key, "label": label, "look": look, "note": note, "points": [[s, v] for s, v in points]}


def passing(finder: Reader) -> Mapping[int, tuple[float, float]]:
    """The curve that ξ is read from; empty where there is one seed only."""
    try:
        learned = finder.learned()
    except SpecError:
        return {}
    if len(learned) < 2 or not finder.attends(learned[0]):
        return {}
    others = learned[1:6] if learned[0].record.get("kind") == "classification" else learned[1:2]
    return finder.curve(learned[0], others, finder.rule(), MEASURE)


def per_sentence(finder: Reader, run: Run, steps: list[int]) -> list[list[float | None]]:
    """A(α, β) of each sentence at each of the run's steps. (steps, sentences)"""
    extractor = finder.extractor(run)
    found = []
    for step in steps:
        alpha, beta = (extractor.signal(probe, step, progress=finder.progress) for probe in ("alpha", "beta"))
        sums = agreement.add_up(alpha, beta, finder.rule())
        pairs = zip(sums.top.tolist(), sums.bottom.tolist(), strict=True)
        found.append([top / bottom if bottom else None for top, bottom in pairs])
    return found


def stand_in_names() -> dict[str, str]:
    """The models without attention, by what their β is written as."""
    return {model: symbol(f"beta-{pick}") for pick, model in STAND_INS.items()}

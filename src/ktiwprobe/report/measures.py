"""The numbers of the page: how well the signals of a group agree, at best and over training, and what that is worth."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ktiwprobe import agreement
from ktiwprobe.address import Finder
from ktiwprobe.agreement import Agreement, make_metric
from ktiwprobe.errors import CorpusError, SpecError
from ktiwprobe.run import Run
from ktiwprobe.specs import Spec
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

    def stand_ins(self) -> list[Run]:
        """Models without attention beside the group, as far as they read the same corpus: not in other pieces."""
        return [run for run in super().stand_ins() if run.record["corpus"] == self.main().record["corpus"]]

    def run_of(self, spec: Spec) -> Run:
        """The run that a SPEC speaks of, if it can be compared with the others; said before anything is extracted."""
        run, main = super().run_of(spec), self.main()
        if run.record["corpus"] != main.record["corpus"]:
            raise CorpusError(f"{spec.text} would be of {run.name}, which reads another corpus than {main.name}")
        return run

    def rule(self) -> Callable[..., Any]:
        """The metric of the page."""
        return make_metric(self.registry.load("metrics", METRIC), METRIC)

    def main(self) -> Run:
        """The run the page is about: A, or where none has learned attention the group's lowest seed."""
        learned = [run for run in self.group() if run.attention == "learned"]
        return min(learned or self.group(), key=lambda run: run.seed)

    def attends(self, run: Run) -> bool:
        """Whether the run's model has attention."""
        return self.extractor(run).attends


def comparisons(finder: Reader) -> list[Comparison]:
    """What the paper's tables compare, as far as it makes sense for these runs."""
    classifies = finder.main().record.get("kind") == "classification"
    beside = ("px", "log") if classifies else ("px", "ibm")
    if not finder.attends(finder.main()):
        return [Comparison("beta@best", "gold")]
    rows = [Comparison("alpha", "beta"), Comparison("alpha", "beta-uf", True), Comparison("alpha", "alpha-hat", True)]
    if finder.main().offers("delta"):
        rows += [Comparison("delta", "beta"), Comparison("delta", "beta-uf")]
    rows += [Comparison("alpha", "alpha-fr")]
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
            result, _ = agreement.measure([(a, b) for a in us for b in vs], finder.rule(), METRIC)
        except (SpecError, CorpusError) as error:  # no such run, or one that reads the corpus in other pieces
            missing += [str(error)] if wanted else []
            continue
        result = finder.in_context(result, finder.rule())
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
    a, lines = finder.main(), []
    if finder.attends(a):
        for spec in ("beta@max", "beta-uf@max"):
            lines += _agreement_line(finder, spec)
    if hats := other_seeds(finder):
        whose = hats[0].path.name if len(hats) == 1 else f"{len(hats)} other seeds, mean"
        found = finder.curve(finder.learned()[0], hats, finder.rule(), MEASURE)
        agreeing, performing = ([(step, found[step][i]) for step in sorted(found)] for i in (0, 1))
        lines.append(_line("hat", "A(α, α̂)", f"α̂ of {whose}", agreeing))
        lines.append(_line("p-hat", "p̂", f"{MEASURE} of {whose}", performing))
    return [*lines, _line("p", "p", f"{MEASURE} of {a.path.name}", sorted(a.performance(MEASURE).items()))]


def _agreement_line(finder: Reader, spec: str) -> list[dict[str, Any]]:
    try:
        (alpha,), others = finder.signals_of_both("alpha", spec)
    except SpecError:
        return []
    found = [(v.meta["step"], agreement.add_up(alpha, v, finder.rule()).value) for v in others]
    points = [(int(step), value) for step, value in found if value is not None]
    label = spec.partition("@")[0]
    whose = others[0].name.partition(":")[0].rpartition("/")[2]
    return [_line(label, f"A(α, {symbol(label)})", f"β of {whose}", points)]


def _line(key: str, label: str, note: str, points: Points) -> dict[str, Any]:
    return {"key": key, "label": label, "note": note, "points": [[step, value] for step, value in points]}


def other_seeds(finder: Reader) -> list[Run]:
    """The runs that ξ is read from: B, or B to F of a classifier; none where there is one seed only."""
    learned = sorted((run for run in finder.group() if run.attention == "learned"), key=lambda run: run.seed)
    if not learned or not finder.attends(learned[0]):
        return []
    return learned[1:6] if learned[0].record.get("kind") == "classification" else learned[1:2]


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

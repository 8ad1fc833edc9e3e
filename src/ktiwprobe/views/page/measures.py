"""The numbers of the page: how well the signals of a group agree, at best and over training, and what that is worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ktiwprobe.compare import agreement, caveats
from ktiwprobe.compare.agreement import Agreement, make_metric
from ktiwprobe.compare.caveats import UNINFORMATIVE
from ktiwprobe.compare.finder import Finder
from ktiwprobe.compare.specs import Spec, read_spec
from ktiwprobe.errors import CorpusError, SpecError
from ktiwprobe.runs.run import Run
from ktiwprobe.views.style import SYMBOLS

METRIC, MEASURE = "agreement", "accuracy"
SUPERSCRIPTS = {"hat": "̂", "uf": "ᵘᶠ", "fr": "ᶠʳ", "px": "ᵖˣ", "ibm": "ⁱᵇᵐ", "log": "ˡᵒᵍ"}
Points = list[tuple[int, float]]


class Comparison(NamedTuple):
    """A row of the table: two SPECs."""

    u: Spec
    v: Spec


class Reader(Finder):
    """A Finder that works out once what the curve of ξ is."""

    _curve: dict[int, tuple[float, float]] | None = None

    def curve(
        self, first: Run, others: list[Run], rule: Callable[..., Any], measure: str
    ) -> dict[int, tuple[float, float]]:
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
    main, probes = finder.main(), finder.registry.names("probes")
    beside = ("px", "log") if main.record.get("kind") == "classification" else ("px", "ibm")
    if not finder.attends(main):
        return [Comparison(_of(main, "beta"), read_spec("gold", probes))]
    pairs = [("alpha", v) for v in ("beta", "beta-hat", "beta-uf", "alpha-hat")]
    if main.offers("delta"):
        pairs += [("delta", "beta"), ("delta", "beta-uf")]
    pairs += [("alpha", "alpha-fr"), *(("alpha", f"beta-{pick}") for pick in beside)]
    pairs += [*((f"beta-{pick}", "beta-uf") for pick in beside), ("alpha", "gold"), ("beta", "gold")]
    rows = [Comparison(read_spec(u, probes), read_spec(v, probes)) for u, v in pairs]
    return rows + [Comparison(_of(main, "alpha"), _of(run, "alpha")) for run in strangers(finder)]


def _of(run: Run, probe: str) -> Spec:
    """A SPEC that names its run, made without its text: a path may hold any character."""
    return Spec(f"{run.name}:{probe}", probe, str(run.path))


def strangers(finder: Reader) -> list[Run]:
    """Named runs that are neither of the group nor a stand-in beside it: another model on the same corpus."""
    known = {run.path for run in [*finder.group(), *finder.stand_ins()]}
    return [run for run in finder.runs() if finder.only and run.path not in known]


def compare(finder: Reader) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of the table, and for what could not be compared the reason, each once."""
    rows, missing = [], []
    for u, v in comparisons(finder):
        try:
            result = finder.compare(u, v, finder.rule(), METRIC)
        except (SpecError, CorpusError) as error:  # no such run, or one that reads the corpus in other pieces
            missing.append(str(error))
            continue
        rows.append(_row(finder, result, u, v))
    return rows, list(dict.fromkeys(missing))


def _row(finder: Reader, result: Agreement, u: Spec, v: Spec) -> dict[str, Any]:
    """A row as plain data; `uninformative` is the first warning after which its value says nothing of the model."""
    plain = {**result.to_dict(), "passed": result.passed, "ties": result.ties}
    against = [str(warning) for warning in result.warnings if warning.kind in UNINFORMATIVE]
    label = f"A({symbol(finder, u)}, {symbol(finder, v)})"
    return {**plain, "label": label, "specs": [u.text, v.text], "uninformative": against[0] if against else None}


def symbol(finder: Reader, spec: Spec) -> str:
    """A SPEC as the paper writes it: beta-uf is β with a superscript; of another run than the page's with its name."""
    letter = SYMBOLS.get(spec.probe, spec.probe) or spec.text
    marked = letter + (SUPERSCRIPTS[spec.pick] if spec.pick else "")
    return f"{marked} of {Path(spec.run).name}" if spec.run and spec.run != str(finder.main().path) else marked


def all_warnings(rows: list[dict[str, Any]]) -> list[str]:
    """The warnings of a table's rows, each once."""
    return list(dict.fromkeys(warning for row in rows for warning in row["warnings"]))


def curves(finder: Reader) -> list[dict[str, Any]]:
    """Lines over training: agreement of α with β, β of another seed and of the uniform run, α̂; and performance."""
    a, lines = finder.main(), []
    if finder.attends(a):
        for name in ("beta", "beta-hat", "beta-uf"):
            lines += _agreement_line(finder, name)
    if hats := other_seeds(finder):
        whose = hats[0].path.name if len(hats) == 1 else f"{len(hats)} other seeds, mean"
        found = finder.curve(finder.first(), hats, finder.rule(), MEASURE)
        agreeing, performing = ([(step, found[step][i]) for step in sorted(found)] for i in (0, 1))
        lines.append(_line("hat", "A(α, α̂)", f"α̂ of {whose}", agreeing))
        lines.append(_line("p-hat", "p̂", f"{MEASURE} of {whose}", performing))
    return [*lines, _line("p", "p", f"{MEASURE} of {a.path.name}", sorted(a.performance(MEASURE).items()))]


def _agreement_line(finder: Reader, name: str) -> list[dict[str, Any]]:
    try:
        (mine, others) = finder.sides("alpha", f"{name}@max")
    except SpecError:  # there is no such run, which the table's rows tell
        return []
    alpha = mine.signals[0]
    sums = [(int(v.meta["step"]), agreement.add_up(alpha, v, finder.rule())) for v in others.signals]
    points = [(step, one.value) for step, one in sums if one.value is not None]
    chances = [one.baseline for _, one in sums if one.baseline is not None]
    whose = "" if others.run is None else others.run.path.name
    label = symbol(finder, read_spec(name, finder.registry.names("probes")))
    return [_line(name, f"A(α, {label})", f"β of {whose}", points, chances)]


def _line(key: str, label: str, note: str, points: Points, chances: Sequence[float] = ()) -> dict[str, Any]:
    points_of_page = [[step, value] for step, value in points]
    return {"key": key, "label": label, "note": note, "points": points_of_page, "chance": list(chances)}


def one_chance(rows: Sequence[Mapping[str, Any]], lines: Sequence[Mapping[str, Any]]) -> float | None:
    """The chance level to draw; None where it is not one for all points, as where each step sees other cells."""
    chances = [chance for line in lines for chance in line["chance"]]
    if not rows or caveats.chance_differs(chances):
        return None
    return rows[0]["baseline"]  # type: ignore[no-any-return]


def other_seeds(finder: Reader) -> list[Run]:
    """The runs that ξ is read from: B, or B to F of a classifier; none where there is one seed only."""
    learned = [run for run in finder.group() if run.attention == "learned"]
    return finder.others() if learned and finder.attends(finder.first()) else []


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

"""The numbers of the page: how well the signals of a group agree, at best and over training, and what that is worth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ktiwprobe.compare import agreement, caveats
from ktiwprobe.compare.agreement import Agreement, load_metric
from ktiwprobe.compare.caveats import UNINFORMATIVE
from ktiwprobe.compare.finder import Finder
from ktiwprobe.compare.specs import Spec, read_spec
from ktiwprobe.errors import CorpusError, SpecError
from ktiwprobe.plugins.quantities import GOLD, ROLES, Line
from ktiwprobe.plugins.registry import HAT
from ktiwprobe.plugins.run_kinds import RunKind
from ktiwprobe.runs.run import Run
from ktiwprobe.views import figures, style

MEASURE = "accuracy"
HAT_OVER = "\N{COMBINING CIRCUMFLEX ACCENT}"
Points = list[tuple[int, float]]


class Comparison(NamedTuple):
    """A row of the table: two SPECs, and what it says if v ranks u's peak highest."""

    u: Spec
    v: Spec
    claim: str | None = None


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

    def beside(self) -> dict[str, Run]:
        """Runs that stand beside the group, as far as they read the same corpus: not in other pieces."""
        mine = self.main().record.corpus
        return {name: run for name, run in super().beside().items() if run.record.corpus == mine}

    def run_of(self, spec: Spec) -> Run:
        """The run that a SPEC speaks of, if it can be compared with the others; said before anything is extracted."""
        run, main = super().run_of(spec), self.main()
        if run.record.corpus != main.record.corpus:
            raise CorpusError(f"{spec.text} would be of {run.name}, which reads another corpus than {main.name}")
        return run

    def rule(self) -> Callable[..., Any]:
        """The metric of the page."""
        return load_metric(self.registry)[0]

    def attends(self, run: Run) -> bool:
        """Whether the run's model has attention."""
        return self.extractor(run).attends


def comparisons(finder: Reader) -> list[Comparison]:
    """What the paper's tables compare, as far as it makes sense for these runs; a plugin's probes by their roles."""
    main, registry = finder.main(), finder.registry
    rows = [row for row in _of_group(finder) if all(main.offers(spec.probe) for spec in (row.u, row.v) if spec.probe)]
    if not finder.attends(main):
        gold = Spec(GOLD.symbol)
        return [Comparison(_of(main, name), gold) for name in registry.probes_of("knowledge") if main.offers(name)]
    attention = registry.probes_of("attention")[0]
    return rows + [Comparison(_of(main, attention), _of(run, attention)) for run in other_models(finder)]


def _of_group(finder: Reader) -> Iterator[Comparison]:
    """Attention and saliency against knowledge, A's, another seed's and that of other kinds of runs; then gold."""
    registry = finder.registry
    attention, knowledge, saliency = (registry.probes_of(role) for role in ROLES)
    kinds = {name: kind for name, kind in registry.run_kinds().items() if _fits(kind, finder.main())}
    of_group = [name for name, kind in kinds.items() if not kind.stands_beside]
    beside = [name for name, kind in kinds.items() if kind.stands_beside]
    knowing = [name for name in of_group if kinds[name].shows[0] == "knowledge"]
    for u in attention:
        for v in knowledge:
            meaning = f"{registry.quantity(v).symbol}, {registry.quantity(v).meaning}"
            yield Comparison(Spec(u, u), Spec(v, v), f"{meaning}, ranks highest")
            yield _pair(u, v, v_pick=HAT)
            for name in knowing:
                whose = f"{registry.quantity(v).symbol} of another run ({kinds[name].label})"
                claim = f"{whose}, at the step that agrees best, ranks highest"
                yield _pair(u, v, v_pick=name, claim=claim)
        yield _pair(u, u, v_pick=HAT)
    yield from (_pair(u, v, v_pick=pick) for u in saliency for v in knowledge for pick in (None, *knowing))
    looking = [name for name in of_group if kinds[name].shows[0] == "attention"]
    yield from (_pair(u, u, v_pick=name) for u in attention for name in looking)
    yield from (_pair(u, v, v_pick=name) for u in attention for v in knowledge for name in beside)
    yield from (_pair(v, v, u_pick=one, v_pick=name) for v in knowledge for one in beside for name in knowing)
    yield from (Comparison(Spec(u, u), Spec(GOLD.symbol)) for u in (*attention, *knowledge))


def _fits(kind: RunKind, run: Run) -> bool:
    """Whether runs of a kind are compared on a run's corpus."""
    return not kind.corpora or run.record.kind in kind.corpora


def _pair(
    u: str, v: str, *, u_pick: str | None = None, v_pick: str | None = None, claim: str | None = None
) -> Comparison:
    sides = ((u, u_pick), (v, v_pick))
    one, other = (Spec(f"{probe}-{pick}" if pick else probe, probe, pick=pick) for probe, pick in sides)
    return Comparison(one, other, claim)


def _of(run: Run, probe: str) -> Spec:
    """A SPEC that names its run, made without its text: a path may hold any character."""
    return Spec(f"{run.name}:{probe}", probe, str(run.path))


def other_models(finder: Reader) -> list[Run]:
    """Named runs that are neither of the group nor stand beside it: another model on the same corpus."""
    related = {run.path for run in [*finder.group(), *finder.beside().values()]}
    return [run for run in finder.runs() if finder.only and run.path not in related]


def compare(finder: Reader) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of the table, and for what could not be compared the reason, each once."""
    rows, missing = [], []
    for u, v, claim in comparisons(finder):
        try:
            result = finder.compare(u, v, finder.rule(), finder.registry.default("metrics"))
        except (SpecError, CorpusError) as error:  # no such run, or one that reads the corpus in other pieces
            missing.append(str(error))
            continue
        rows.append({**_row(finder, result, u, v), "claim": claim})
    return rows, list(dict.fromkeys(missing))


def _row(finder: Reader, result: Agreement, u: Spec, v: Spec) -> dict[str, Any]:
    """A row as plain data; `uninformative` is the first warning after which its value says nothing of the model."""
    plain = {**result.to_dict(), "passed": result.passed, "ties": result.ties}
    against = [str(warning) for warning in result.warnings if warning.kind in UNINFORMATIVE]
    label = f"A({symbol(finder, u)}, {symbol(finder, v)})"
    return {**plain, "label": label, "specs": [u.text, v.text], "uninformative": against[0] if against else None}


def symbol(finder: Reader, spec: Spec) -> str:
    """A SPEC as the paper writes it: beta-uf is β with a superscript; of another run than the page's with its name."""
    if spec.gold or spec.file:
        return spec.text
    marked = finder.registry.quantity(spec.probe).symbol
    if spec.pick == HAT:
        marked += HAT_OVER
    elif spec.pick:
        marked += finder.registry.run_kinds()[spec.pick].superscript or f"-{spec.pick}"
    return f"{marked} of {Path(spec.run).name}" if spec.run and spec.run != str(finder.main().path) else marked


def all_warnings(rows: list[dict[str, Any]]) -> list[str]:
    """The warnings of a table's rows, each once."""
    return list(dict.fromkeys(warning for row in rows for warning in row["warnings"]))


def curves(finder: Reader) -> list[dict[str, Any]]:
    """Lines over training: agreement of attention with knowledge, A's, another seed's and that of other kinds of runs;
    with another seed's attention; and performance.
    """
    a, lines, registry = finder.main(), [], finder.registry
    attention = registry.probes_of("attention")[0]
    if finder.attends(a):
        for name in figures.courses_of(registry):
            if name != f"{attention}-{HAT}":
                lines += _agreement_line(finder, attention, name)
    alpha = registry.quantity(attention)
    if hats := other_seeds(finder):
        whose = hats[0].path.name if len(hats) == 1 else f"{len(hats)} other seeds, mean"
        means = finder.curve(finder.first(), hats, finder.rule(), MEASURE)
        agreeing, performing = ([(step, means[step][i]) for step in sorted(means)] for i in (0, 1))
        hat = f"{alpha.symbol}{HAT_OVER}"
        lines.append(_line("hat", f"A({alpha.symbol}, {hat})", f"{hat} of {whose}", agreeing, style.line_of(alpha)))
        solid = style.PERFORMANCE._replace(dash=())
        lines.append(_line("p-hat", f"p{HAT_OVER}", f"{MEASURE} of {whose}", performing, solid))
    mine = sorted(a.performance(MEASURE).items())
    return [*lines, _line("p", "p", f"{MEASURE} of {a.path.name}", mine, style.PERFORMANCE)]


def _agreement_line(finder: Reader, attention: str, name: str) -> list[dict[str, Any]]:
    spec = read_spec(name, finder.registry)
    try:
        (mine, others) = finder.sides(attention, f"{name}@max")
    except SpecError:  # there is no such run: the reasons below the table say so
        return []
    alpha = mine.signals[0]
    sums = [(int(v.meta["step"]), agreement.add_up(alpha, v, finder.rule())) for v in others.signals]
    points = [(step, one.value) for step, one in sums if one.value is not None]
    chances = [one.baseline for _, one in sums if one.baseline is not None]
    whose = "" if others.run is None else others.run.path.name
    label = f"A({finder.registry.quantity(attention).symbol}, {symbol(finder, spec)})"
    letter, kind = finder.registry.quantity(spec.probe).symbol, finder.registry.run_kinds().get(spec.pick or "")
    line = _line(name, label, f"{letter} of {whose}", points, style.line_named(name, finder.registry), chances)
    of = f" ({kind.label})" if kind else " of another seed" if spec.pick == HAT else ""
    return [{**line, "knowledge": f"{letter}{of}"}]


def _line(key: str, label: str, note: str, points: Points, look: Line, chances: Sequence[float] = ()) -> dict[str, Any]:
    points_of_page = [[step, value] for step, value in points]
    about = {"key": key, "label": label, "note": note, "look": look._asdict()}
    return {**about, "points": points_of_page, "chance": list(chances)}


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
    extractor, found = finder.extractor(run), []
    probes = [finder.registry.probes_of(role)[0] for role in ("attention", "knowledge")]
    for step in steps:
        alpha, beta = (extractor.signal(probe, step, progress=finder.progress) for probe in probes)
        sums = agreement.add_up(alpha, beta, finder.rule())
        pairs = zip(sums.top.tolist(), sums.bottom.tolist(), strict=True)
        found.append([top / bottom if bottom else None for top, bottom in pairs])
    return found

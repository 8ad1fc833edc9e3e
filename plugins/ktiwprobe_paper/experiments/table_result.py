"""What is said of the rows of Table 1: ours beside the paper's, how sure each cell is, and what follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ktiwprobe.experiments import Result
from ktiwprobe.plots import curves
from ktiwprobe.probes.performance import BEAM, LIMIT
from ktiwprobe.training.sweep import Job
from ktiwprobe_paper.experiments.comparison import Cell, Row
from ktiwprobe_paper.experiments.published import CHANCE, QUANTITIES, STAR, TABLES, Published

USUAL = {"classification": 6, "translation": 2}  # learned runs in the paper
MODELS = {"classification": "lstm-classifier", "translation": "lstm-seq2seq"}
CLAIMED = ("A(α, β-uf)", "A(β-uf, β-px)", "A(α, β̂)")  # what Table 1's caption says is above chance
ROUNDING = 0.005  # of what the paper prints


@dataclass(frozen=True)
class Plan:
    """What a row needs."""

    label: str
    kind: str
    jobs: dict[str, list[Job]]  # learned, uniform, proxies, counts
    last: dict[str, int | None]  # the step up to which each model's runs are read
    published: int  # steps of the learned runs if nobody cuts them
    note: str

    @property
    def steps(self) -> int:
        """How far the learned runs go."""
        return self.last[MODELS[self.kind]] or 0

    @property
    def counts(self) -> bool:
        """Whether the row is trained in full."""
        return self.steps >= self.published


def make_result(options: Any, plans: Sequence[Plan], rows: Sequence[Row]) -> Result:
    """Table, details, notes and verdict."""
    table = TABLES.get((options.metric, options.split, options.performance))
    printed = [table.row(plan.label) if table else {} for plan in plans]
    all_of = list(zip(plans, rows, printed, strict=True))
    details = [
        {"task": plan.label, "quantity": name, **judged(row.cells[name], paper.get(name)), "counts": plan.counts}
        for plan, row, paper in all_of
        for name in _names(row)
    ]
    full = [row for plan, row, _ in all_of if plan.counts]
    above = [row for row in full if all(is_above_chance(row, name) for name in CLAIMED)]
    return Result(
        verdict=_verdict(len(above), len(full), details),
        holds=len(above) == len(full) if full else None,
        table=[line for each in all_of for line in _lines(*each)],
        details=details,
        curves=[
            {"task": plan.label, "quantity": name, "step": step, "value": value}
            for plan, row, _ in all_of
            for name, points in row.curves.items()
            for step, value in points.items()
        ],
        figures={_file(plan.label): _figure(options, plan, row) for plan, row, _ in all_of},
        notes=[*_notes(options, table), *(_note(plan, row) for plan, row, _ in all_of)],
        digits=2,
    )


def _verdict(above: int, full: int, details: Sequence[Mapping[str, Any]]) -> str:
    if not full:
        return "No row was trained in full, so nothing follows."
    compared = [line["far"] for line in details if line["paper"] is not None and line["counts"]]
    beside = (
        f"; of {len(compared)} cells that the paper prints, {compared.count(False)} are within the interval over "
        f"sentences or the range across seeds and {compared.count(True)} are not."
    )
    return (
        f"In {above} of {full} rows trained in full all three agreements are above chance by their 95 % intervals"
        f"{beside if compared else '.'}"
    )


def is_above_chance(row: Row, name: str) -> bool:
    """Whether the interval's lower end is."""
    ci = row.cells[name].ci
    return ci is not None and ci[0] > row.cells[CHANCE].value


def judged(cell: Cell, paper: tuple[float, bool] | None) -> dict[str, Any]:
    """A cell with all that tells how sure it is, beside the paper's.

    Far is what lies outside both the interval over sentences and the range across seeds.
    """
    low, high = cell.ci or (None, None)
    turns = np.array(cell.turns)
    reach = [*(cell.ci or (cell.value,)), *cell.turns]
    printed, _ = paper or (None, True)
    far = None if printed is None else not min(reach) - ROUNDING <= printed <= max(reach) + ROUNDING
    return {
        "ours": cell.value,
        "low": low,
        "high": high,
        "mean of seeds": float(turns.mean()),
        "sd": float(turns.std(ddof=1)) if len(turns) > 1 else None,
        "n": len(turns),
        "paper": printed,
        "difference": None if printed is None else cell.value - printed,
        "far": far,
    }


def _lines(plan: Plan, row: Row, paper: Mapping[str, tuple[float, bool]]) -> list[dict[str, Any]]:
    """A row as people compare it: A, then ξ, a column for each pair; ours, the paper's, and the difference."""
    steps = f"{plan.steps}" if plan.counts else f"{plan.steps} of {plan.published}, cut"
    ours = {name: (cell.value, cell.passed) for name, cell in row.cells.items()}
    lines = []
    for what, beside in (("A", CHANCE), ("ξ", STAR)):
        names = {
            name: name.removeprefix(f"{what}(").removesuffix(")") for name in _names(row) if name.startswith(f"{what}(")
        }
        names[beside] = f"{CHANCE}, {STAR}"
        about = {"task": plan.label, "steps": steps, "": what}
        lines.append({**about, "whose": "ours", **_texts(names, ours)})
        if paper:
            far = {head: f"{ours[name][0] - paper[name][0]:+.2f}" for name, head in names.items() if name in paper}
            lines += [{**about, "whose": "paper", **_texts(names, paper)}, {**about, "whose": "difference", **far}]
    return lines


def _texts(names: Mapping[str, str], numbers: Mapping[str, tuple[float, bool]]) -> dict[str, str]:
    """Numbers under their heads, with the asterisk of those that are not passed."""
    found = {head: numbers[name] for name, head in names.items() if name in numbers}
    return {head: f"{value:.2f}" + ("" if passed else "*") for head, (value, passed) in found.items()}


def _names(row: Row) -> list[str]:
    """The paper's columns, then ours."""
    return [*QUANTITIES, *(name for name in row.cells if name not in QUANTITIES)]


def _notes(options: Any, table: Published | None) -> list[str]:
    unit = "BLEU" if options.performance == "bleu" else "percent"
    return [
        f"A in percent, ξ and ξ* in {unit}, over the {options.split} split. α and Δ are of run A at its best "
        "checkpoint, β̂ is the β of run B; β̂ and β-uf are read where they agree most; in A(β-uf, β-px) the proxy's "
        "peak is looked for in β-uf. An asterisk: no checkpoint of another seed agrees better, so ξ is ξ*.",
        "Low and high: 95 % over sentences, the maximum over checkpoints taken inside each resample; for ξ the ends of "
        "A's interval, read off the same curve. Mean and sd: every learned run as A in turn, the others as B, C and so "
        "on. Far: the paper's number is outside both that interval and the range across seeds; the paper prints no "
        "uncertainty of its own, so with few seeds of ours far says little.",
        "Chance is the exact expectation of A(α, α̂) under random order, averaged over checkpoints.",
        f"The paper's numbers: {table.source}, {table.label} in its source."
        if table
        else "The paper has no such table, so there is nothing beside ours.",
    ]


def _note(plan: Plan, row: Row) -> str:
    seeds = {kind: ", ".join(str(job.seed) for job in jobs) for kind, jobs in plan.jobs.items() if jobs}
    fewer = len(plan.jobs["learned"]) < USUAL[plan.kind]
    return (
        f"{plan.label}: {plan.steps} steps; seeds of A, B and so on {seeds['learned']}, uniform {seeds['uniform']}, "
        f"proxy {seeds['proxies']}."
        + (f" The paper has {USUAL[plan.kind]} learned runs." if fewer else "")
        + ("" if plan.counts else f" Cut short of {plan.published} steps: does not count.")
        + (f" The data: {plan.note}." if plan.note else "")
        + (f" BLEU: beam {BEAM}, at most {LIMIT} pieces, {row.signature}." if row.signature else "")
    )


def _figure(options: Any, plan: Plan, row: Row) -> Any:
    lines = {name: points for name, points in row.curves.items() if name != options.performance and "ibm" not in name}
    right = {str(options.performance): row.curves[options.performance]}
    return curves(lines, title=plan.label, ylabel=options.metric, baseline=row.cells[CHANCE].value / 100, right=right)


def _file(label: str) -> str:
    return label.replace(":", "-").replace("=", "-")

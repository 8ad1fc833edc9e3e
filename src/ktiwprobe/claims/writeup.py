"""A report as text and as files: a page to read, JSON, the table as CSV and LaTeX, every curve, and the figures."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ktiwprobe.claims.experiment import Report, Result, Row
from ktiwprobe.files import storage
from ktiwprobe.views.plots import save
from ktiwprobe.views.tables import align, cells, latex

PICTURES = ("png", "pdf")
FORMATS = ("table", "markdown", "json", "csv", "latex")


def write_report(report: Report, folder: Path) -> list[Path]:
    """NAME.md, and in NAME/ report.json, table.csv, table.tex, curves.csv and the figures; returns what was written."""
    inside, result = folder / report.name, report.result
    pictures = [save(figure, inside / f"{n}.{end}") for n, figure in result.figures.items() for end in PICTURES]
    texts = {
        folder / f"{report.name}.md": to_markdown(report),
        inside / "table.csv": to_csv(result.details or result.table),
        inside / "table.tex": show_report(report, "latex") + "\n" if result.table else "",
        inside / "curves.csv": to_csv(result.curves),
    }
    for path, text in texts.items():
        if text:
            storage.write_bytes(path, text.encode())
    storage.write_json(inside / "report.json", to_json(report))
    return [*(path for path, text in texts.items() if text), inside / "report.json", *pictures]


def show_report(report: Report, form: str = "table") -> str:
    """A report for a terminal, or for programs and papers."""
    result = report.result
    if form == "json":
        return json.dumps(to_json(report), indent=2)
    if form == "csv":
        return to_csv(result.details or result.table).rstrip("\n")
    if form == "latex":
        return latex(cells(result.table, result.digits))
    if form == "markdown":
        return to_markdown(report).rstrip("\n")
    tables = [align(cells(rows, result.digits)) for rows in (result.table, result.details) if rows]
    notes = "\n".join(f"- {note}" for note in result.notes)
    return "\n\n".join([report.claim, *tables, *([notes] if notes else []), f"{result.verdict} {seen(result)}"])


def to_json(report: Report) -> dict[str, Any]:
    """The report without its figures and curves."""
    kept = ("experiment", "claim", "scale", "command", "date", "machine", "seconds", "seeds", "runs", "versions")
    about = {key: getattr(report, key) for key in kept}
    found = {key: getattr(report.result, key) for key in ("verdict", "holds", "table", "details", "notes")}
    return {**about, **found, "seconds": round(report.seconds, 1)}


def to_csv(rows: Sequence[Row]) -> str:
    """Rows with one head; a cell that a row lacks is empty."""
    if not rows:
        return ""
    text = io.StringIO()
    heads = list(dict.fromkeys(key for row in rows for key in row))
    writer = csv.DictWriter(text, heads, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _rounded(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def to_markdown(report: Report) -> str:
    """The page that people read."""
    result = report.result
    lines = [f"# {report.experiment}", "", report.claim, "", f"**{result.verdict}**", "", seen(result), ""]
    lines += [*_table(result.table, result.digits), ""] if result.table else []
    lines += [f"- {note}" for note in result.notes] + ([""] if result.notes else [])
    lines += [*_table(result.details, result.digits), ""] if result.details else []
    for name in result.figures:
        lines += [f"![{name.replace('-', ' ')}]({report.name}/{name}.png)", ""]
    curves = f" Every point is in [curves.csv]({report.name}/curves.csv)." if result.curves else ""
    made = f"Made by `{report.command}` on {report.date} ({report.machine}, {_versions_text(report)})"
    return "\n".join([*lines, f"{made} from {len(report.runs)} runs.{curves}", ""])


def seen(result: Result) -> str:
    """Whether the claim was seen, as a sentence."""
    word = {True: "yes", False: "no", None: "undecided"}[result.holds]
    return f"Claim seen: {word}."


def _table(rows: Sequence[Row], digits: int) -> list[str]:
    heads, *texts = [[cell.replace("|", "\\|") for cell in row] for row in cells(rows, digits)]
    return ["| " + " | ".join(line) + " |" for line in (heads, ["---"] * len(heads), *texts)]


def _rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _versions_text(report: Report) -> str:
    return ", ".join(f"{name} {number}" for name, number in report.versions.items())

"""Numbers to text: a table for people, JSON and CSV for programs, LaTeX for papers."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ktiwprobe import markup
from ktiwprobe.agreement import Agreement

Record = Mapping[str, Any]
COLUMNS = ("metric", "u", "v", "value", "baseline", "ci", "rows", "skipped", "performance", "xi", "xi_star")


@dataclass(frozen=True)
class Table:
    """Records that show themselves: aligned where they are printed, as a table in a notebook."""

    records: Sequence[Record]

    def __str__(self) -> str:
        return align(cells(self.records))

    def _repr_html_(self) -> str:
        heads, *rows = cells(self.records)
        return markup.table(heads, rows)


def agreement_table(results: Sequence[Agreement]) -> Table:
    """Agreements under each other."""
    return Table([{"metric": result.metric, **_cells(result)} for result in results])


def show_agreement(results: Sequence[Agreement], form: str = "table") -> str:
    """Agreements as `table`, `json` (one object for one result, else a list), `csv` or `latex`."""
    if form == "json":
        records = [result.to_dict() for result in results]
        return json.dumps(records[0] if len(records) == 1 else records, indent=2)
    if form == "csv":
        return _csv(results)
    return _latex(results) if form == "latex" else _table(results)


def _csv(results: Sequence[Agreement]) -> str:
    columns = [c for name in COLUMNS for c in (("ci_low", "ci_high") if name == "ci" else (name,))]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for result in results:
        low, high = result.ci or (None, None)
        record = {**result.to_dict(), "ci_low": low, "ci_high": high}
        writer.writerow(["" if record[c] is None else record[c] for c in columns])
    return out.getvalue().rstrip("\n")


def _cells(result: Agreement) -> dict[str, str]:
    """One row as people read it."""
    xi = _number(result.xi) + ("" if result.passed else "*")
    ci = "-" if result.ci is None else f"[{result.ci[0]:.3f}, {result.ci[1]:.3f}]"
    return {
        "u": result.u,
        "v": result.v,
        "value": _number(result.value),
        "baseline": _number(result.baseline),
        "95 % interval": ci,
        "rows": str(result.rows) + (f" ({result.skipped} skipped)" if result.skipped else ""),
        "ξ": xi,
        "ξ*": _number(result.xi_star),
    }


def _table(results: Sequence[Agreement]) -> str:
    """A line for each quantity where there is one result (names are long), else a line for each result."""
    rows = [_cells(result) for result in results]
    if len(results) > 1:
        heads = ["metric" if head == "value" else head for head in rows[0]]
        named = [{**row, "value": f"{r.metric} {row['value']}"} for r, row in zip(results, rows, strict=True)]
        return align([heads, *(list(row.values()) for row in named)])
    result = results[0]
    labels = {"value": result.metric, "ξ": f"ξ ({result.performance})" if result.performance else "ξ"}
    width = max(len(labels.get(name, name)) for name in rows[0])
    lines = [f"{labels.get(name, name):<{width}}  {cell}" for name, cell in rows[0].items()]
    if result.ties:
        lines.append(f"in {result.ties} rows the highest value of u is tied: the first counts")
    return "\n".join(lines)


def cells(records: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Records as rows of text under a head; what a record lacks is a dash."""
    heads = list(dict.fromkeys(key for record in records for key in record))
    return [heads, *([text_of(record.get(head)) for head in heads] for record in records)]


def text_of(value: Any) -> str:
    """A value as people read it in a table."""
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def align(rows: Sequence[Sequence[Any]]) -> str:
    """Rows of cells in columns, the first row over a rule."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in texts) for i in range(len(texts[0]))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in texts]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])


def _latex(results: Sequence[Agreement]) -> str:
    head = (
        r"\begin{tabular}{lllrrrrr}"
        + "\n"
        + r"$u$ & $v$ & metric & value & baseline & 95\,\% interval & $\xi$ & $\xi^{*}$ \\"
    )
    lines = [head, r"\hline"]
    for result in results:
        cells = _cells(result)
        texts = [result.u, result.v, result.metric]
        numbers = [cells["value"], cells["baseline"], cells["95 % interval"], cells["ξ"], cells["ξ*"]]
        lines.append(" & ".join([*map(_escape, texts), *numbers]) + r" \\")
    return "\n".join([*lines, r"\end{tabular}"])


def _escape(text: str) -> str:
    words = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(f"\\{c}" if c in "_&%#${}" else words.get(c, c) for c in text)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"

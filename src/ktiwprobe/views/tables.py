"""Numbers to text: a table for people, JSON and CSV for programs, LaTeX for papers."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ktiwprobe.compare.agreement import KEYS, Agreement
from ktiwprobe.compare.alignment import MEASURES, Score
from ktiwprobe.views import html

TEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "γ": r"$\gamma$",
    "Δ": r"$\Delta$",
    "ξ": r"$\xi$",
    "±": r"$\pm$",
}
ENDS = ("low", "high")
COLUMNS = {"ci": ("ci_low", "ci_high"), "chosen": ("u_chosen", "v_chosen")}  # of CSV, where a key has two
HAT = "\N{COMBINING CIRCUMFLEX ACCENT}"
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """Records that show themselves: aligned where they are printed, as a table in a notebook."""

    records: Sequence[Record]

    def __str__(self) -> str:
        return align(cells(self.records))

    def _repr_html_(self) -> str:
        heads, *rows = cells(self.records)
        return html.table(heads, rows)


def agreement_table(results: Sequence[Agreement]) -> Table:
    """Agreements under each other; with a column of warnings where there are some."""
    warned = any(result.warnings for result in results)
    records = [{"metric": result.metric, **_cells(result)} for result in results]
    ends = [{"warnings": "; ".join(map(str, result.warnings))} if warned else {} for result in results]
    return Table([{**record, **end} for record, end in zip(records, ends, strict=True)])


def show_agreement(results: Sequence[Agreement], form: str = "table") -> str:
    """Agreements as `table`, `json` (one object for one result, else a list), `csv` or `latex`.

    All of them carry the warnings: a table below it, JSON under a key, CSV in a column, LaTeX as comments.
    """
    if form == "json":
        records = [result.to_dict() for result in results]
        return json.dumps(records[0] if len(records) == 1 else records, indent=2)
    if form == "csv":
        return _csv(results)
    return _latex(results) if form == "latex" else _table(results)


def _csv(results: Sequence[Agreement]) -> str:
    columns = [column for key in KEYS for column in COLUMNS.get(key, (key,))]
    records = []
    for result in results:
        record, (low, high) = result.to_dict(), result.ci or (None, None)
        chosen = {f"{side}_chosen": how for side, how in record["chosen"].items()}
        records.append({**record, "ci_low": low, "ci_high": high, **chosen, "warnings": "; ".join(record["warnings"])})
    return _as_csv(columns, records)


def _as_csv(columns: Sequence[str], records: Sequence[Mapping[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for record in records:
        writer.writerow(["" if record[c] is None else record[c] for c in columns])
    return out.getvalue().rstrip("\n")


def show_score(score: Score, form: str = "table") -> str:
    """How good an alignment is, as `table`, `json`, `csv` or `latex`."""
    record = score.to_dict()
    intervals = {name: record.pop(f"{name}_ci") for name in MEASURES}
    if form == "json":
        return json.dumps(score.to_dict(), indent=2)
    if form == "csv":
        ends = {f"{name}_{end}": pair and pair[k] for name, pair in intervals.items() for k, end in enumerate(ENDS)}
        return _as_csv([*record, *ends], [{**record, **ends}])
    cells = {name: _number(record.pop(name)) for name in MEASURES}
    if form == "latex":
        heads = r"alignment & AER & precision & recall & $F_1$ & links & sure & possible \\"
        counts = [str(record[name]) for name in ("links", "sure", "possible")]
        row = " & ".join([_escape(score.name), *cells.values(), *counts]) + r" \\"
        return "\n".join([r"\begin{tabular}{lrrrrrrr}", heads, r"\hline", row, r"\end{tabular}"])
    ranges = {name: "" if pair is None else f"  [{pair[0]:.3f}, {pair[1]:.3f}]" for name, pair in intervals.items()}
    lines = [("alignment", record.pop("alignment")), *((name, cells[name] + ranges[name]) for name in MEASURES)]
    lines += [(name, str(value)) for name, value in record.items()]
    names = {"aer": "AER", "f1": "F1"}
    return "\n".join(f"{names.get(name, name):<9}  {text}" for name, text in lines)


def _cells(result: Agreement) -> dict[str, str]:
    """One row as people read it."""
    xi = _number(result.xi) + ("" if result.passed else "*")
    ci = "-" if result.ci is None else f"[{result.ci[0]:.3f}, {result.ci[1]:.3f}]"
    return {
        "u": _named(result.u, result.chosen["u"]),
        "v": _named(result.v, result.chosen["v"]),
        "value": _number(result.value),
        "baseline": _number(result.baseline),
        "95 % interval": ci,
        "rows": str(result.rows) + (f" ({result.skipped} skipped)" if result.skipped else ""),
        "ξ": xi,
        "ξ*": _number(result.xi_star),
    }


def _named(name: str, chosen: str | None) -> str:
    """A signal with how its step was chosen."""
    return name if chosen is None else f"{name} ({chosen})"


def _short(result: Agreement) -> dict[str, str]:
    """u and v with one word on how their steps were chosen (best, last, given, max), for a table of many columns."""
    words = {side: how and how.partition(" ")[0] for side, how in result.chosen.items()}
    return {"u": _named(result.u, words["u"]), "v": _named(result.v, words["v"])}


def _warnings(results: Sequence[Agreement], mark: str) -> list[str]:
    """A line for each warning, those that several results share once."""
    return list(dict.fromkeys(f"{mark}{warning}" for result in results for warning in result.warnings))


def _table(results: Sequence[Agreement]) -> str:
    """A line for each quantity where there is one result (names are long), else a line for each result."""
    rows = [_cells(result) for result in results]
    if len(results) > 1:
        heads = ["metric" if head == "value" else head for head in rows[0]]
        named = [
            {**row, **_short(r), "value": f"{r.metric} {row['value']}"} for r, row in zip(results, rows, strict=True)
        ]
        table = align([heads, *(list(row.values()) for row in named)])
        return "\n".join([table, *_warnings(results, "warning: ")])
    result = results[0]
    labels = {"value": result.metric, "ξ": f"ξ ({result.performance})" if result.performance else "ξ"}
    width = max(len(labels.get(name, name)) for name in rows[0])
    lines = [f"{labels.get(name, name):<{width}}  {cell}" for name, cell in rows[0].items()]
    if result.ties:
        lines.append(f"in {result.ties} rows the highest value of u is tied: the first counts")
    return "\n".join([*lines, *_warnings(results, "warning: ")])


def cells(records: Sequence[Mapping[str, Any]], digits: int = 3) -> list[list[str]]:
    """Records as rows of text under a head; what a record lacks is a dash."""
    heads = list(dict.fromkeys(key for record in records for key in record))
    return [heads, *([text_of(record.get(head), digits) for head in heads] for record in records)]


def text_of(value: Any, digits: int = 3) -> str:
    """A value as people read it in a table."""
    if value is None:
        return "-"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)


def latex(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as a tabular, the first row over a rule; Greek letters become their commands."""
    lines = [" & ".join(map(_escape, row)) + r" \\" for row in rows]
    columns = "l" + "r" * (len(rows[0]) - 1)
    return "\n".join([rf"\begin{{tabular}}{{{columns}}}", lines[0], r"\hline", *lines[1:], r"\end{tabular}"])


def align(rows: Sequence[Sequence[Any]]) -> str:
    """Rows of cells in columns, the first row over a rule."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(_width(row[i]) for row in texts) for i in range(len(texts[0]))]
    lines = ["  ".join(_padded(cell, w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in texts]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])


def _width(text: str) -> int:
    """How many columns a text takes: a hat stands over the letter before it."""
    return sum(not unicodedata.combining(character) for character in text)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _latex(results: Sequence[Agreement]) -> str:
    head = (
        r"\begin{tabular}{lllrrrrr}"
        + "\n"
        + r"$u$ & $v$ & metric & value & baseline & 95\,\% interval & $\xi$ & $\xi^{*}$ \\"
    )
    lines = [head, r"\hline"]
    for result in results:
        cells = _cells(result)
        texts = [cells["u"], cells["v"], result.metric]
        numbers = [cells["value"], cells["baseline"], cells["95 % interval"], cells["ξ"], cells["ξ*"]]
        lines.append(" & ".join([*map(_escape, texts), *numbers]) + r" \\")
    return "\n".join([*lines, r"\end{tabular}", *_warnings(results, "% warning: ")])


def _escape(text: str) -> str:
    return "".join(_as_tex(letter) for letter in re.findall(f".{HAT}?", text, re.DOTALL))


def _as_tex(letter: str) -> str:
    """A character, perhaps with a hat over it."""
    plain = letter.removesuffix(HAT)
    tex = f"\\{plain}" if plain in "_&%#${}" else TEX.get(plain, plain)
    return tex if plain == letter else rf"$\hat{{{tex.strip('$')}}}$"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"

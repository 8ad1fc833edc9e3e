"""The page docs/models.md."""

from __future__ import annotations

from pathlib import Path

from benchmarks.models.check import Result


def write_page(path: Path, results: list[Result]) -> None:
    lines = [
        "# Which models can be probed",
        "",
        "| type | kind | outcome | mechanisms | |",
        "| --- | --- | --- | --- | --- |",
    ]
    for one in results:
        lines.append(
            f"| {one.model_type} | {one.kind} | {one.outcome} | {', '.join(one.acted)} | {one.reason.replace('|', '/')} |"
        )
    path.write_text("\n".join(lines) + "\n")

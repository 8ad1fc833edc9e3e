"""`reproduce table` gives the numbers that version 0.1.0 gave, to the last digit, for the same signals and logs.

Trained weights differ between machines, so the runs' signals and logs are replaced by generated whole numbers: what is
left is the arithmetic of the table. The expected numbers, table-0.1.0.json, were written by the code of 0.1.0, with
`python tests/paper/test_table_numbers.py FILE`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ktiwprobe import Run
from ktiwprobe.experiments import reproduce
from ktiwprobe.runs.run import find_runs
from ktiwprobe.signals.signal import load_signal

TASKS = ("toy-sentiment:train=60:validation=40:test=10", "toy-translation:train=40:validation=12:test=10")
EXPECTED = Path(__file__).with_name("table-0.1.0.json")
SCALE = 1000


def draws(*about: Any) -> np.random.Generator:
    """Random numbers that depend on nothing but what they are about."""
    return np.random.default_rng(zlib.crc32(" ".join(map(str, about)).encode()))


def fake(run: Run) -> None:
    """Replace what was measured: signals come closer to one another step by step, and performance rises unevenly."""
    record = run.record
    who = record["task"], record["model"], run.attention, run.seed
    for path in sorted(run.path.glob("signals/*/*/*.safetensors")):
        signal, step = load_signal(path), int(path.parent.name)
        common = draws("common", record["task"]).integers(0, SCALE, signal.values.shape[1])
        own = draws(*who, path.stem, step).integers(0, 4 * SCALE, signal.values.shape)
        replace(signal, values=(common * min(step, 10) + own).astype(np.float32)).save(path)
    rng = draws(*who, "log")
    lines = []
    for line in run.log():
        rise = int(rng.integers(1, 200)) + 20 * min(int(line["step"]), 30)
        lines.append({**line, "accuracy": rise / SCALE, "loss": (SCALE - rise) / 100})
    (run.path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def numbers(folder: Path) -> list[dict[str, Any]]:
    """Every cell of the table with its interval and its spread over seeds."""
    from here import Here

    about: dict[str, Any] = {"runs": folder, "engine": Here(), "device": "cpu", "scale": "small"}
    options = {"tasks": TASKS, "max_steps": 10, "seeds": 3}
    reproduce("table", options=options, **about)
    for run in find_runs(folder):
        fake(run)
    return [dict(line) for line in reproduce("table", options=options, **about).result.details]


def test_the_tables_numbers_are_those_of_the_first_version(tmp_path: Path) -> None:
    """Same runs, steps, intervals and ξ as before; only the name of another seed's beta is new."""
    expected = json.loads(EXPECTED.read_text(encoding="utf-8"))
    found = numbers(tmp_path / "runs")
    assert [line["quantity"].replace("β̂", "β") for line in found] == [line["quantity"] for line in expected]
    assert {line["quantity"] for line in found} >= {"A(α, β̂)", "ξ(α, β̂)"}
    for line, before in zip(found, expected, strict=True):
        assert {**line, "quantity": None} == {**before, "quantity": None}, line["quantity"]
    assert len({line["ours"] for line in found}) > len(found) / 2  # the numbers tell cells apart


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    with tempfile.TemporaryDirectory() as scratch:
        Path(sys.argv[1]).write_text(json.dumps(numbers(Path(scratch) / "runs"), ensure_ascii=False, indent=1) + "\n")

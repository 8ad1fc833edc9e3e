"""The examples run, at tiny size."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.xdist_group("demo")
def test_the_demo_trains_compares_and_draws(tmp_path: Path) -> None:
    """`make demo`'s script prints the table with every comparison and writes its pictures."""
    small = ["--steps", "12", "-o", "hidden=16", "-o", "validation=30"]
    done = subprocess.run(
        [sys.executable, ROOT / "examples/demo.py", "--out", tmp_path / "demo", *small],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for word in ("alpha", "beta", "delta", "gold", "aer", "baseline", "95 % interval", "ξ"):
        assert word in done.stdout
    for picture in ("sentence.png", "training.png"):
        assert (tmp_path / "demo" / picture).read_bytes().startswith(b"\x89PNG")


@pytest.mark.xdist_group("demo")
def test_the_notebook_runs_and_shows_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell of examples/look.ipynb, at tiny size; runs, signals, agreements, tables and views come out as HTML."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(ROOT / "examples/look.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    assert "STEPS, OPTIONS = 350, {}" in first.source
    small = 'STEPS, OPTIONS = 6, {"hidden": 16, "validation": 20, "train": 100}'
    first.source = first.source.replace("STEPS, OPTIONS = 350, {}", small).replace(
        "mkdtemp()", f"mkdtemp(dir={str(tmp_path)!r})"
    )
    NotebookClient(notebook, timeout=60, resources={"metadata": {"path": tmp_path}}).execute()
    shown = [output.data for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output]
    assert len(shown) == 8
    assert sum("text/html" in data for data in shown) == 7
    assert sum("<iframe" in data.get("text/html", "") for data in shown) == 2
    assert "image/svg+xml" in shown[-1]


def test_a_training_of_ones_own_is_traced_and_reported(tmp_path: Path) -> None:
    """examples/trace_my_training.py trains two seeds with a Trainer, records both, compares them and writes a page."""
    small = ["--steps", "6", "--sentences", "8"]
    done = subprocess.run(
        [sys.executable, ROOT / "examples/trace_my_training.py", "--out", tmp_path, *small],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "recorded at steps [0, 4, 6]" in done.stdout
    for word in ("my-bart-s0:alpha", "my-bart-s1:beta", "ξ", "% of outputs"):
        assert word in done.stdout
    assert "my-data/my-bart-s0" in (tmp_path / "report.html").read_text(encoding="utf-8")

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

"""What the tests in a browser do where there is none."""

from __future__ import annotations

import os

import pytest
from benchmarks import chromium


def need_chromium() -> None:
    """Skip what needs a browser where there is none; in CI, which is to test everything, fail."""
    if chromium.is_here():
        return
    if os.environ.get("CI"):
        pytest.fail(f"{chromium.MISSING} (without CI in the environment this is skipped)", pytrace=False)
    pytest.skip(chromium.MISSING)

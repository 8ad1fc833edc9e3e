"""On a machine without Chromium the tests in a browser are skipped with a reason; in CI they fail with it."""

from __future__ import annotations

import pytest
from need import need_chromium


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_without_chromium(tmp_path, monkeypatch, ci, outcome):
    """Either way the sentence says what is missing and how to get it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="no chromium and chromedriver here: apt-get install chromium"):
        need_chromium()


def test_chromium_alone_is_not_enough(tmp_path, monkeypatch):
    """Without the program that drives it the browser cannot be tested."""
    (tmp_path / "chromium").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception):
        need_chromium()

"""A headless Chromium that speaks to nobody, for benchmarks/report.py and the tests in a browser."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

FLAGS = (
    "headless=new", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
    "disable-component-update", "disable-sync", "disable-dev-shm-usage", "window-size=1280,900",
)  # fmt: skip
MISSING = "there is no chromium and chromedriver here: apt-get install chromium chromium-driver"


def is_here() -> bool:
    """Whether this machine has the browser, and the program that drives it."""
    return all(map(shutil.which, ("chromium", "chromedriver")))


def start(profile: Path, **capabilities: Any) -> Chrome:
    """A browser whose profile is a folder of its own; quit it in the end."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*FLAGS, f"user-data-dir={profile}"):
        options.add_argument(f"--{flag}")
    for name, value in capabilities.items():
        options.set_capability(f"goog:{name}", value)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))

"""A headless Chromium and pages for it, made from real tiny runs.

browser     a Chromium that hears what a page logs and asks the network for; skipped where there is none, except in CI
page        opens a report in it at a size, `page(name, width)`, names as in `reports`
reports     folder of pages: group (two seeds, uniform), heads (two heads), label (a classifier), hostile (bad tokens)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hostile
import pytest
from benchmarks import chromium
from need import need_chromium

import tiny
from ktiwprobe import build_registry, train
from ktiwprobe.plugins.registry import Registry
from ktiwprobe.views.page import collect, render

SIZES = {"wide": (1280, 900), "phone": (360, 740)}


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium with its logs switched on."""
    need_chromium()
    logs = {"browser": "ALL", "performance": "ALL"}
    driver = chromium.start(tmp_path_factory.mktemp("chromium"), loggingPrefs=logs)
    still = [{"name": "prefers-reduced-motion", "value": "reduce"}]  # else a click may meet a page that glides
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": still})
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def hostile_registry() -> Registry:
    """The built-in plugins, the tiny one and the hostile one."""
    return build_registry(extra={"tiny": tiny, "hostile": hostile})


RUNS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "group": [("tiny-model", {}), ("tiny-model", {"seed": 1}), ("tiny-model", {"attention": "uniform"})],
    "heads": [("tiny-model", {"options": {"heads": 2}})],
    "label": [("lstm-classifier", {"steps": 10, "options": {"hidden": 8, "task.train": 100, "validation": 20}})],
    "hostile": [("hostile-model", {"options": {"heads": 2}})],
}


@pytest.fixture(scope="session")
def reports(hostile_registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of pages, each beside the folder of its runs."""
    folder = tmp_path_factory.mktemp("reports")
    for name, runs in RUNS.items():
        for model, wishes in runs:
            train(model, runs=folder / name, registry=hostile_registry, device="cpu", **wishes)
        page = render(collect(folder / name, hostile_registry, device="cpu"))
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return folder


@pytest.fixture
def page(browser: Any, reports: Path) -> Iterator[Callable[..., Any]]:
    """Open a report; afterwards, nothing was logged and nothing asked for but the page itself."""

    def go(name: str, size: str = "wide") -> Any:
        width, height = SIZES[size]
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        for kind in ("browser", "performance"):
            browser.get_log(kind)  # what was before is of other pages
        browser.get((reports / f"{name}.html").as_uri())
        return browser

    yield go
    assert [entry["message"] for entry in browser.get_log("browser")] == []
    assert requests(browser) <= {browser.current_url}


def requests(browser: Any) -> set[str]:
    """What the browser asked for since its log was last read."""
    import json

    heard = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return {m["params"]["request"]["url"] for m in heard if m["method"] == "Network.requestWillBeSent"}

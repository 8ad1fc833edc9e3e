"""How the report looks in a real browser: tokens as they are, nothing cut off, colours that can be read."""

from __future__ import annotations

from pathlib import Path

import hostile
import pytest
from selenium.webdriver.common.by import By

BOTH = pytest.mark.parametrize("size", ["wide", "phone"])


@BOTH
def test_hostile_tokens_are_text(page, size):
    """Tokens that look like markup are shown as they are; nothing of them becomes an element."""
    browser = page("hostile", size)
    assert browser.find_elements(By.CSS_SELECTOR, "img, b[onerror]") == []
    tokens = browser.execute_script("return [...new Set(DATA.sentences.flatMap(s => s.source))]")
    assert set(hostile.SOURCE) <= set(tokens)
    for number in range(20):
        browser.execute_script("viewer.choose(arguments[0])", number)
        source, target = browser.execute_script(
            "return [DATA.sentences[viewer.sentence].source, DATA.sentences[viewer.sentence].target]"
        )
        labels = browser.find_elements(By.CSS_SELECTOR, ".heatmap:first-child .columns span")
        assert [label.get_attribute("textContent") for label in labels] == source
        rows = browser.find_elements(By.CSS_SELECTOR, ".heatmap:first-child .rows button")
        assert [row.get_attribute("textContent") for row in rows] == target
    words = {e.get_attribute("textContent") for e in browser.find_elements(By.CSS_SELECTOR, "#dictionary tbody th")}
    assert words == set(hostile.SOURCE)


@BOTH
@pytest.mark.parametrize("name", ["group", "hostile", "label"])
def test_nothing_is_wider_than_the_window(page, name, size):
    """Long words and tables scroll inside their own boxes, never the page."""
    browser = page(name, size)
    wide, window = browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide <= window


def test_directions(page):
    """Each token has its own direction: Hebrew and Arabic from the right, others from the left, Han upright."""
    browser = page("hostile")
    cells = browser.find_elements(By.CSS_SELECTOR, "#dictionary tbody th")
    directions = {cell.text: cell.value_of_css_property("direction") for cell in cells}
    assert directions["مرحبا"] == "rtl"
    assert directions["▁ok"] == directions["東京"] == "ltr"
    assert browser.execute_script("return UPRIGHT.test('東京') && !UPRIGHT.test('مرحبا')")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast(page, theme):
    """Every text has the contrast that WCAG AA asks for, in both themes."""
    browser = page("group")
    browser.find_element(By.CSS_SELECTOR, f'#theme option[value="{theme}"]').click()
    code = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
    assert browser.execute_script(code) == []


@pytest.fixture
def forced_colours(browser):
    """The browser as in a high-contrast mode of its system."""
    command = "Emulation.setEmulatedMedia"
    still = {"name": "prefers-reduced-motion", "value": "reduce"}
    browser.execute_cdp_cmd(command, {"features": [still, {"name": "forced-colors", "value": "active"}]})
    yield
    browser.execute_cdp_cmd(command, {"features": [still]})


def test_high_contrast_keeps_what_colours_tell(forced_colours, page):
    """Where a system chooses all colours, shades and bars stay, and what is chosen has an outline."""
    browser = page("label")
    grounds = "return [...document.querySelectorAll('.strip span')].map(e => getComputedStyle(e).backgroundColor)"
    assert len(set(browser.execute_script(grounds))) > 2
    bar = browser.find_element(By.CSS_SELECTOR, ".bars td")
    assert "linear-gradient" in bar.value_of_css_property("background-image")
    chosen = browser.find_element(By.CSS_SELECTOR, '.items [aria-selected="true"]')
    assert chosen.value_of_css_property("outline-style") == "solid"

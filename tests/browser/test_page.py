"""The report in a real browser: what it shows is what is stored, by mouse and by keyboard, at two sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from ktiwprobe import Run
from ktiwprobe.plugins.registry import Registry
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.runs.listing import find_runs
from ktiwprobe.signals.signal import Signal, make_signal
from ktiwprobe.views.page import viewer_html

BOTH = pytest.mark.parametrize("size", ["wide", "phone"])


def part(browser: Any, name: str) -> Any:
    return browser.find_element(By.CSS_SELECTOR, f'[data-part="{name}"]')


def move(browser: Any, place: int) -> None:
    """Move the slider as a hand does."""
    code = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))"
    browser.execute_script(code, part(browser, "slider"), place)


def bars(browser: Any) -> np.ndarray:
    """The numbers behind the bars. (L, probes)"""
    lines = browser.find_elements(By.CSS_SELECTOR, ".bars tbody tr:not(.room)")
    cells = [[c.get_attribute("data-value") for c in line.find_elements(By.TAG_NAME, "td")] for line in lines]
    return np.array([[float(value.replace("Infinity", "inf")) for value in row] for row in cells])


def pick(browser: Any, t: int) -> None:
    browser.find_elements(By.CSS_SELECTOR, ".heatmap .rows button")[t].click()


def stored(reports: Path, name: str, registry: Registry, step: int) -> list[Signal]:
    """alpha, beta and delta of the run that a report shows."""
    run = find_runs(reports / name)[0]
    extractor = Extractor(run, registry, device="cpu")
    return [extractor.signal(probe, step) for probe in ("alpha", "beta", "delta")]


def shown_rows(signals: list[Signal], sentence: int, t: int, site: Any = None) -> np.ndarray:
    """What the bars must be. (L, probes)"""
    one = [signal.one_site(site) if site and len(signal.sites) > 1 else signal.one_site() for signal in signals]
    return np.stack([signal[sentence][t] for signal in one], 1)


def close(seen: np.ndarray, true: np.ndarray) -> bool:
    """Equal but for the 8 bits, which are spread over each row's range."""
    return bool((np.abs(seen - true) <= np.ptp(true, axis=0) / 500 + 1e-6).all())


@BOTH
def test_the_slider_shows_the_stored_values(page, reports, hostile_registry, size):
    """At each end of the slider the bars hold the signals that are stored for that step."""
    browser = page("group", size)
    number = json.loads(browser.execute_script("return JSON.stringify(DATA.sentences[0].number)"))
    for place, step in ((0, 0), (3, 30), (1, 10)):
        move(browser, place)
        assert part(browser, "step").text.startswith(f"step {step} ·")
        assert close(bars(browser), shown_rows(stored(reports, "group", hostile_registry, step), number, 0))


@BOTH
def test_a_word_is_picked(page, reports, hostile_registry, size):
    """Choosing an output shows its row, says so, and goes on doing so when the slider moves."""
    browser = page("group", size)
    pick(browser, 2)
    pressed = [b.get_attribute("aria-pressed") for b in browser.find_elements(By.CSS_SELECTOR, ".rows button")]
    assert pressed.count("true") == 3  # one in each panel
    assert "output 3 of" in browser.find_element(By.CSS_SELECTOR, ".bars caption").text
    move(browser, 2)
    number = browser.execute_script("return DATA.sentences[0].number")
    assert close(bars(browser), shown_rows(stored(reports, "group", hostile_registry, 20), number, 2))


@BOTH
def test_a_head_is_switched(page, reports, hostile_registry, size):
    """The mean of the heads, the highest, and each of them are the stored ones; β and Δ stay."""
    browser = page("heads", size)
    move(browser, 2)
    signals = stored(reports, "heads", hostile_registry, 20)
    number = browser.execute_script("return DATA.sentences[0].number")
    choice = part(browser, "site")
    assert choice.is_displayed()
    for value, site in (("mean", "mean"), ("max", "max"), ("0", "h0"), ("1", "h1")):
        choice.find_element(By.CSS_SELECTOR, f'option[value="{value}"]').click()
        assert close(bars(browser), shown_rows(signals, number, 0, site))


def test_one_head_needs_no_choice(page):
    """Without several heads or runs nothing asks for one."""
    browser = page("group")
    assert not part(browser, "site").is_displayed()
    assert not part(browser, "run").is_displayed()


def test_pointing_reads_a_cell(page, reports, hostile_registry):
    """The pointer on a cell of any heatmap says the words and the three values."""
    browser = page("group")
    canvas = browser.find_elements(By.CSS_SELECTOR, "canvas")[1]
    side = browser.execute_script("return viewer.panels[1].side")
    wide, high = canvas.size["width"], canvas.size["height"]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    ActionChains(browser).move_to_element_with_offset(
        canvas, int(1.5 * side - wide / 2), int(side / 2 - high / 2)
    ).perform()
    source, target = browser.execute_script("return [DATA.sentences[0].source[1], DATA.sentences[0].target[0]]")
    number, step = browser.execute_script("return [DATA.sentences[0].number, viewer.view.steps[viewer.step]]")
    said = part(browser, "readout").text
    assert said.startswith(f"{source} → {target}: ")
    alpha = stored(reports, "group", hostile_registry, step)[0][number][0, 1]
    assert abs(float(said.split("α ")[1].split()[0]) - alpha) < 0.005


def test_the_canvas_is_painted(page):
    """Every cell has the colour that its value means: α 0 is the ground's end of the scale, gold cells are outlined."""
    browser = page("group")
    move(browser, 3)
    code = """
      const { T, L, side, canvas, grid, links } = viewer.panels[0], colours = rampOf("weights"), wrong = [];
      const read = (of) => of.getContext("2d").getImageData(0, 0, of.width, of.height);
      const [cells, lines] = [canvas, grid].map(read);
      const pixel = (of, x, y) => {
        const at = 4 * (Math.floor(y) * of.width + Math.floor(x));
        return [...of.data.slice(at, at + 4)];
      };
      const gold = new Set(links.map(([t, l]) => t * L + l));
      for (let t = 0; t < T; t++) for (let l = 0; l < L; l++) {
        const seen = pixel(cells, l, t), meant = [...colours[Math.round(255 * viewer.values[0][t * L + l])], 255];
        if (seen.some((c, i) => c !== meant[i])) wrong.push([t, l, seen, meant]);
        const edge = pixel(lines, l * side + 2, (t + .5) * side), dark = edge[3] === 255 && edge[0] < 40;
        if (dark !== gold.has(t * L + l)) wrong.push(["gold", t, l, edge]);
        if (pixel(lines, (l + .5) * side, (t + .5) * side)[3] !== 0) wrong.push(["covered", t, l]);
      }
      const [over, under] = [grid, canvas].map((of) => of.getBoundingClientRect());
      if (["x", "y", "width", "height"].some((edge) => over[edge] !== under[edge])) wrong.push(["moved", over, under]);
      return [gold.size, wrong];
    """
    links, wrong = browser.execute_script(code)
    assert links > 1
    assert wrong == []


def test_the_keyboard_is_enough(page):
    """Tab reaches slider, cells and list; arrows move them; Enter picks; the skip link comes first."""
    browser = page("group")
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    assert browser.switch_to.active_element.text == "Skip to the sentences"
    slider = part(browser, "slider")
    slider.send_keys(Keys.HOME)
    assert part(browser, "step").text.startswith("step 0 ·")
    slider.send_keys(Keys.ARROW_RIGHT)
    assert part(browser, "step").text.startswith("step 10 ·")
    canvas = browser.find_element(By.CSS_SELECTOR, "canvas")
    canvas.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    source, target = browser.execute_script("return [DATA.sentences[0].source[1], DATA.sentences[0].target[1]]")
    assert part(browser, "readout").text.startswith(f"{source} → {target}: ")
    canvas.send_keys(Keys.ENTER)
    assert "output 2 of" in browser.find_element(By.CSS_SELECTOR, ".bars caption").text
    browser.find_element(By.CSS_SELECTOR, '.items [aria-selected="true"]').send_keys(Keys.ARROW_DOWN)
    assert browser.execute_script("return viewer.sentence") == 1
    assert browser.switch_to.active_element.get_attribute("aria-selected") == "true"


def test_play_runs_to_the_end(page):
    """The play button goes through the steps from the first, and stops at the last."""
    browser = page("group")
    move(browser, 3)
    part(browser, "play").click()
    assert part(browser, "step").text.startswith("step 0 ·")
    assert "Pause" in part(browser, "play").text
    code = "const done = arguments[0], look = () => viewer.timer ? setTimeout(look, 50) : done(viewer.step); look()"
    assert browser.execute_async_script(code) == 3
    assert "Play" in part(browser, "play").text


def test_search_and_order(page):
    """The list finds words of either side, counts, and sorts by agreement and by surprise."""
    browser = page("group")
    facts = lambda: [e.text for e in browser.find_elements(By.CSS_SELECTOR, ".items small")]  # noqa: E731
    for order, place, ascending in (("surprise-high", 2, False), ("agreement-low", 1, True), ("surprise-low", 2, True)):
        part(browser, "order").find_element(By.CSS_SELECTOR, f'option[value="{order}"]').click()
        values = [float(fact.split(" · ")[place].replace("A ", "").split()[0]) for fact in facts()]
        assert values == sorted(values, reverse=not ascending)
    part(browser, "search").send_keys("b3")
    words = browser.execute_script("return DATA.sentences.filter(s => s.target.includes('b3')).length")
    assert len(facts()) == words
    assert part(browser, "count").text == f"{words} of 20"
    part(browser, "search").send_keys("nothing")
    assert facts() == []


def test_the_construction_of_xi(page):
    """ξ is drawn from the table's value to the curve of the other seed, and read where that seed's performance is."""
    browser = page("group")
    rows, hat = browser.execute_script("return [DATA.rows, DATA.curves.find(c => c.key === 'hat').points]")
    for place, option in enumerate(part(browser, "which").find_elements(By.TAG_NAME, "option")):
        option.click()
        row = next(r for r in rows if r["label"] == option.text)
        passed = [step for step, value in hat if value > row["value"]]
        told = part(browser, "construction").text
        assert (f"at step τ₀ = {passed[0]};" in told) if passed else ("never passes" in told), (place, told)
        assert f"{row['xi' if passed else 'xi_star']:.3f}" in told
        assert len(browser.find_elements(By.CSS_SELECTOR, "svg .xi-dot")) == (2 if passed else 0)


def test_a_classifier_shows_its_text(page, reports, hostile_registry):
    """With one output the inputs are a text on coloured ground, and the bars are its only row."""
    browser = page("label")
    assert browser.find_elements(By.TAG_NAME, "canvas") == []
    words = browser.find_elements(By.CSS_SELECTOR, ".heatmap:first-child .strip span")
    number, step = browser.execute_script("return [DATA.sentences[0].number, viewer.view.steps[viewer.step]]")
    true = shown_rows(stored(reports, "label", hostile_registry, step), number, 0)
    assert len(words) == len(true)
    assert close(bars(browser), true)


def test_a_long_text_is_painted_where_it_is_seen(browser, tmp_path):
    """Of a text of 300 words the bars in view hold the values, and those further down do once they are scrolled to."""
    values = np.random.default_rng(0).random(300)
    signal = make_signal(values, np.array([300]), np.array([1]), meta={"name": "r:alpha@0", "probe": "alpha"})
    (tmp_path / "long.html").write_text(f"<!doctype html><meta charset=utf-8><body>{viewer_html(signal)}", "utf-8")
    browser.get((tmp_path / "long.html").as_uri())
    browser.switch_to.frame(0)
    look = """
      const [place, scroll, done] = arguments, bars = document.querySelector(".bars");
      bars.scrollTop = scroll;
      setTimeout(() => {
        const line = bars.querySelector(`tr[aria-rowindex="${place + 2}"]`), [word, cell] = line.children;
        const [inner, outer] = [line, bars].map((of) => of.getBoundingClientRect());
        done([word.textContent, cell.dataset.value, inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1]);
      }, 200);
    """
    for place, scroll in ((0, 0), (299, 10_000), (150, 150 * 30), (0, 0)):
        word, value, in_view = browser.execute_async_script(look, place, scroll)
        assert (word, in_view) == (str(place), True)
        assert float(value) == pytest.approx(values[place], abs=0.003)
    count = "return document.querySelectorAll('.bars tbody tr:not(.room)').length"
    few = browser.execute_script(count)
    assert few < 40
    assert browser.execute_script("return document.querySelector('.bars table').ariaRowCount") == "301"
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert browser.execute_script(count) == 300  # paper does not scroll
    browser.execute_script("dispatchEvent(new Event('afterprint'))")
    assert browser.execute_script(count) == few
    browser.switch_to.default_content()


def test_the_snippet_for_notebooks(browser, reports, hostile_registry, tmp_path):
    """`viewer_html` works inside another page, once or twice, with a slider where there are several steps."""
    run: Run = find_runs(reports / "heads")[0]
    extractor = Extractor(run, hostile_registry, device="cpu")
    signals = [extractor.signal(probe, step) for probe in ("alpha", "beta") for step in (0, 30)]
    pieces = viewer_html(signals, 3) + viewer_html(signals[0], -1)
    (tmp_path / "book.html").write_text(f"<!doctype html><meta charset=utf-8><body>{pieces}", encoding="utf-8")
    browser.get_log("browser")
    browser.get((tmp_path / "book.html").as_uri())
    first, second = browser.find_elements(By.TAG_NAME, "iframe")
    browser.switch_to.frame(first)
    move(browser, 0)
    true = np.stack([extractor.signal(p, 0).one_site()[3][0] for p in ("alpha", "beta")], 1)
    assert close(bars(browser), true)
    browser.switch_to.default_content()
    browser.switch_to.frame(second)
    assert not part(browser, "slider").is_displayed()
    assert part(browser, "number").text == f"sentence {len(signals[0]) - 1}"
    browser.switch_to.default_content()
    assert browser.get_log("browser") == []


def test_peaks_are_marked_and_explained(page, reports, hostile_registry):
    """A dot is on the highest signed value of each row of each panel, and a sentence says that it is signed."""
    browser = page("group")
    move(browser, 3)
    number = browser.execute_script("return DATA.sentences[0].number")
    code = """
      return viewer.panels.map(({ dots, side, T, L }) => {
        const { data, width } = dots.getContext("2d").getImageData(0, 0, dots.width, dots.height);
        const unit = side * devicePixelRatio;
        const covered = (t, l) => data[4 * (Math.floor((t + .5) * unit) * width + Math.floor((l + .5) * unit)) + 3] > 0;
        return Array.from({ length: T }, (_, t) => Array.from({ length: L }, (_, l) => l).filter((l) => covered(t, l)));
      });
    """
    marked = browser.execute_script(code)
    for signal, rows in zip(stored(reports, "group", hostile_registry, 30), marked, strict=True):
        assert rows == [[int(row.argmax())] for row in signal[number]]
    notes = [note.text for note in browser.find_elements(By.CSS_SELECTOR, ".notes")]
    assert [note.startswith("● peak: highest signed value") for note in notes] == [False, True, True]
    assert not any("sink" in note for note in notes)


@pytest.mark.parametrize("T", [2, 1])
def test_a_sink_is_told(browser, tmp_path, T):
    """The page says how much weight is on no input: on average and in the chosen row; not for the highest of sites."""
    values = np.array([[0.7, 0.25, 0.3, 0.11], [0.5, 0.4, 0.2, 0.6]])[:, : 2 * T]
    meta = {"name": "r:alpha@0", "probe": "alpha"}
    signal = make_signal(values, np.full(T, 2), np.array([T]), sites=("a", "b"), meta=meta)
    (tmp_path / "sink.html").write_text(f"<!doctype html><meta charset=utf-8><body>{viewer_html(signal)}", "utf-8")
    browser.get((tmp_path / "sink.html").as_uri())
    browser.switch_to.frame(0)
    note, choice = browser.find_element(By.CSS_SELECTOR, ".notes"), part(browser, "site")
    rest = ", on average; in the chosen row" if T == 2 else "."
    assert f"{'23.5' if T == 2 else '7.5'} % of the weight is on no input (a sink){rest}" in note.text
    if T == 2:
        pick(browser, 1)
        assert note.text.endswith("in the chosen row 39.5 %.")
    choice.find_element(By.CSS_SELECTOR, 'option[value="0"]').click()
    assert f"{'32.0' if T == 2 else '5.0'} % of the weight" in note.text
    choice.find_element(By.CSS_SELECTOR, 'option[value="max"]').click()
    assert "weight is on" not in note.text
    browser.switch_to.default_content()

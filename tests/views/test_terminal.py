"""Sentences in a terminal: every number is the signal's, nothing is wider than it may be, no token does harm."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from ktiwprobe import build_registry
from ktiwprobe.errors import UsageError
from ktiwprobe.views import style
from ktiwprobe.views.sentences import Match, Panel, Sentence
from ktiwprobe.views.terminal import NARROWEST, Canvas, canvas_of, draw, figure, fit, make_grid, readable

QUANTITIES = {name: build_registry().quantity(name) for name in ("alpha", "beta", "delta")}
TOKENS = st.one_of(
    st.sampled_from(
        ["the", "▁Haus", "漢字", "e\u0301te\u0301", "שלום", "नमस्ते", "👩‍👩‍👧", "\x1b[31mred", "a\nb", "", " "]
    ),
    st.text(max_size=20),
)


def sentence(values, source=None, target=None, *, probe="alpha", links=None) -> Sentence:
    T, L = values.shape[-2:]
    many = values if values.ndim == 3 else values[None]
    return Sentence(
        run="task/model-s0",
        step=10,
        split="validation",
        number=3,
        of=20,
        source=tuple(source or (f"x{i}" for i in range(L))),
        target=tuple(target or (f"y{i}" for i in range(T))),
        panels=tuple(Panel(probe, "", matrix, QUANTITIES[probe]) for matrix in many),
        links=links,
        right=(1, T),
        accuracy=0.5,
        matches=(Match("α", "β", 1, T),),
        sites=(),
    )


def numbers(lines) -> list[list[str]]:
    """The figures of each output's line, by the output's name; marks and blanks are gone."""
    rows = [re.split(r"[\s\[\]*]+", line.plain.strip(" ]*")) for line in lines if re.match(r"y\d", line.plain)]
    return [row[1:] for row in rows]


@given(st.integers(NARROWEST, 220), st.integers(1, 9), st.integers(1, 40), st.data())
def test_no_line_is_wider_than_the_terminal(width, T, L, data):
    """Whatever the tokens, the sizes and the panels; and no character that a terminal obeys is left."""
    source = data.draw(st.lists(TOKENS, min_size=L, max_size=L))
    target = data.draw(st.lists(TOKENS, min_size=T, max_size=T))
    values = np.random.default_rng(L).normal(size=(3, T, L)).astype(np.float32) * 10
    for theme in (None, "dark"):
        lines = draw(sentence(values, source, target, probe="beta"), Canvas(width, theme))
        assert max(cell_len(line.plain) for line in lines) <= width
        assert not re.search(r"[\x00-\x1f\x7f-\x9f]", "".join(line.plain for line in lines))


@pytest.mark.parametrize("width", [24, 40, 80, 300])
@pytest.mark.parametrize("probe", ["alpha", "beta", "delta"])
def test_every_value_is_shown_once_and_is_the_signals(width, probe):
    """However the inputs are cut into blocks, the numbers read off the screen are the matrix, rounded."""
    rng = np.random.default_rng(0)
    values = rng.dirichlet(np.ones(17), 4) if probe == "alpha" else rng.normal(size=(4, 17)) * 8
    values = values.astype(np.float32)
    rows = numbers(draw(sentence(values, probe=probe), Canvas(width, None)))
    blocks = [
        np.array([[_value(probe, text) for text in row] for row in rows[i : i + 4]]) for i in range(0, len(rows), 4)
    ]
    seen = np.concatenate(blocks, 1)
    told = style.shown(QUANTITIES[probe], values)
    half = 0.005 if probe == "alpha" else np.where(np.abs(told) < 0.95, 0.05, 0.5)
    assert seen.shape == told.shape
    assert (np.abs(seen - told) <= half + 1e-6).all()


def _value(probe: str, text: str) -> float:
    number = 0.0 if text == "·" else float(text)
    return number / 100 if probe == "alpha" else number


@pytest.mark.parametrize("theme", [None, "light", "dark"])
def test_a_single_output_is_a_list_of_its_inputs(theme):
    """Every input stands once, with its value, in as many columns as there is room for."""
    values = np.linspace(0, 1, 11, dtype=np.float32)[None]
    source = [f"w{i}" for i in range(11)]
    for width in (24, 80):
        text = "\n".join(line.plain for line in draw(sentence(values, source), Canvas(width, theme)))
        found = dict(re.findall(r"(w\d+)\s+(\d+|·)", text))
        assert found == {f"w{i}": "·" if i == 0 else str(10 * i) for i in range(11)}


def test_panels_stand_abreast_where_there_is_room_and_below_where_not():
    """Three panels: three times the outputs at 40 columns, once at 200."""
    values = np.zeros((3, 4, 6), np.float32)
    count = {w: len(numbers(draw(sentence(values), Canvas(w, None)))) for w in (40, 200)}
    assert count == {40: 12, 200: 4}


def test_inputs_are_told_in_full_where_their_heads_are_cut():
    """A narrow terminal cuts the words over the columns: they stand once above; a wide one needs no such line."""
    words = ["intricacies", "\x1b[31m", *"abcdefgh"]
    said = {
        width: [line.plain for line in draw(sentence(np.ones((2, 10), np.float32), words), Canvas(width, None))]
        for width in (60, 300)
    }
    assert "inputs intricacies �[31m a b c d e f g h" in said[60]
    assert not any(line.startswith("inputs") for line in said[300])


def test_columns_stay_straight_under_wide_and_combining_characters():
    """All lines of a panel are as wide as each other on the screen."""
    source, target = ["漢字漢字", "e\u0301te\u0301", "👩‍👩‍👧", "ab"], ["翻訳", "o\u0302"]
    lines = draw(sentence(np.ones((2, 4), np.float32), source, target), Canvas(80, None))
    panel = [line.plain for line in lines[3:7]]
    assert "漢字漢字" in panel[1]
    assert {cell_len(line) for line in panel[1:]} == {cell_len(panel[2])}


def test_marks():
    """Known links are in brackets, the highest of a row has a star or is underlined, and a silent row has neither."""
    values = np.array([[0.2, 0.7, 0.1], [-np.inf, -np.inf, -np.inf], [np.nan, 0.3, 0.3]], np.float32)
    plain = make_grid(Panel("beta", "", values, QUANTITIES["beta"]), {(0, 1), (0, 2)}, Canvas(80, None))
    assert plain.texts == [[" +.2 ", "[+.7*", "[+.1]"], [" -∞ "] * 3, ["  ", " +.3*", " +.3 "]]
    colour = make_grid(Panel("beta", "", values, QUANTITIES["beta"]), set(), Canvas(80, "dark"))
    assert [[bool(cell.underline) for cell in row] for row in colour.colours] == [
        [False, True, False],
        [False] * 3,
        [False, True, False],
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_cell_has_the_colour_of_its_scale(theme):
    """The ground is the shared scale's colour at the value, the ink what reads on it."""
    grid = make_grid(
        Panel("alpha", "", np.array([[0.0, 1.0]], np.float32), QUANTITIES["alpha"]), set(), Canvas(80, theme)
    )
    for cell, stop in zip(grid.colours[0], (0, -1), strict=True):
        assert cell.bgcolor.triplet.hex == getattr(style.WEIGHTS, theme)[stop]
        assert tuple(cell.color.triplet) == style.ink_on(style.rgb(cell.bgcolor.triplet.hex))


@pytest.mark.parametrize(
    ("probe", "value", "text"),
    [
        ("alpha", 0.004, "·"), ("alpha", 0.996, "100"), ("alpha", 1.0, "100"), ("beta", -0.04, "0"),
        ("beta", 0.94, "+.9"), ("beta", 0.96, "+1"), ("beta", -12.6, "-13"),
        ("beta", float("-inf"), "-∞"), ("beta", 4321.0, "+4e+03"),
        ("delta", -0.3, "-.3"), ("delta", float("nan"), ""),
    ],
)  # fmt: skip
def test_figures(probe, value, text):
    """As few characters as tell a value."""
    assert figure(QUANTITIES[probe], value) == text


@pytest.mark.parametrize(
    ("token", "shown"), [("a\tb", "a⇥b"), ("\x1b[31m", "�[31m"), ("", "∅"), ("\u202eabc", "�abc"), ("नमस्ते", "नमस्ते")]
)
def test_tokens_are_text(token, shown):
    """What a terminal would obey is shown as a sign; what a script needs stays."""
    assert readable(token) == shown


@given(st.text(max_size=30), st.integers(1, 20))
def test_fit_is_exact(text, width):
    """As many cells as asked for, padded on either side."""
    for right in (False, True):
        assert cell_len(fit(readable(text), width, right=right)) == width


def test_a_narrow_terminal_is_one_sentence():
    """It says how wide it is and how wide it should be."""
    with pytest.raises(UsageError, match=f"is 23 columns wide: at least {NARROWEST}"):
        draw(sentence(np.ones((2, 2), np.float32)), Canvas(23))


@pytest.mark.parametrize(
    ("colours", "ground", "theme"),
    [(None, "15;0", None), ("standard", "", None), ("256", "", "dark"), ("truecolor", "0;15", "light")],
)
def test_the_canvas_follows_the_terminal(monkeypatch, colours, ground, theme):
    """Without 256 colours there are none; a terminal that tells its ground is believed."""
    monkeypatch.setenv("COLORFGBG", ground)
    monkeypatch.delenv("NO_COLOR", raising=False)
    console = Console(width=77, color_system=colours, force_terminal=True)
    assert canvas_of(console) == Canvas(77, theme)
    monkeypatch.setenv("NO_COLOR", "1")
    assert canvas_of(Console(width=77, color_system=colours, force_terminal=True)).theme is None


@pytest.mark.parametrize("theme", [None, "dark"])
@pytest.mark.parametrize(
    ("probe", "meaning"), [("alpha", "its highest value"), ("delta", "its highest signed value, so")]
)
def test_the_legend_says_what_a_peak_is(theme, probe, meaning):
    """The darkest cell of Δ may be negative: the peak is the highest signed value, and the legend says so."""
    values = np.array([[0.2, -0.9, 0.5], [0.1, 0.2, 0.3]], np.float32)
    text = " ".join(line.plain for line in draw(sentence(values, probe=probe), Canvas(200, theme)))
    assert f"the peak of an output: {meaning}" in text
    assert make_grid(Panel("delta", "", values, QUANTITIES["delta"]), set(), Canvas(80, None)).texts[0][1:] == [
        " -1 ",
        " +.6*",
    ]


def test_a_sink_is_told_with_every_output():
    """Weight on no input: its mean, and how much each output leaves there; nothing where no panel has one."""
    shown = sentence(np.array([[0.3, 0.3], [0.5, 0.5]], np.float32))
    assert "sink" not in "".join(line.plain for line in draw(shown, Canvas(200, None)))
    panel = shown.panels[0]._replace(sink=np.array([0.4, 0.0]))
    text = "\n".join(line.plain for line in draw(replace(shown, panels=(panel,)), Canvas(200, None)))
    assert "α 20.0 percent of the weight is on no input (a sink), on average; of each output: y0 40, y1 0" in text

"""A sentence in a terminal: heatmaps of numbers, coloured where colours can be had.

Nothing here is wider than it is told. What does not fit side by side goes below, what does not fit below is cut into
blocks of columns, and tokens are shortened with an ellipsis; their width is that of what the terminal draws, so that
Chinese and combining characters keep the columns straight.
"""

from __future__ import annotations

import math
import os
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.style import Style
from rich.text import Text

from ktiwprobe.errors import UsageError
from ktiwprobe.plugins.quantities import Quantity
from ktiwprobe.views import style
from ktiwprobe.views.sentences import Panel, Sentence

NARROWEST = 24  # columns
LONGEST = 12  # cells that a token may take
READABLE = 5  # cells below which the tokens over columns cannot be read
JOINERS = "\u200c\u200d"  # invisible, and part of how some scripts are written


@dataclass(frozen=True)
class Canvas:
    """Where it is drawn."""

    width: int
    theme: style.Theme | None = "dark"  # None: no colours


@dataclass(frozen=True)
class Grid:
    """A panel as text: what each cell says, and how it looks."""

    title: str
    texts: list[list[str]]  # (T, L)
    colours: list[list[Style]]  # (T, L)

    @property
    def widest(self) -> int:
        """Cells of its longest text."""
        return max(len(text) for row in self.texts for text in row)


def canvas_of(console: Console) -> Canvas:
    """What a console can show; 16 colours are too few for a scale."""
    if console.no_color or console.color_system not in ("256", "truecolor"):
        return Canvas(console.width, None)
    ground = os.environ.get("COLORFGBG", "").rpartition(";")[2]  # how some terminals tell what they look like
    return Canvas(console.width, "light" if ground in ("7", "15") else "dark")


def draw(sentence: Sentence, canvas: Canvas) -> list[Text]:
    """The lines of a sentence's picture, none wider than the canvas."""
    if canvas.width < NARROWEST:
        raise UsageError(f"the terminal is {canvas.width} columns wide: at least {NARROWEST} are needed, widen it")
    links = set() if sentence.links is None else {(int(t), int(place)) for t, place, _ in sentence.links}
    grids = [make_grid(panel, links, canvas) for panel in sentence.panels]
    body = _as_list if len(sentence.target) == 1 else _as_grids
    source, target = (tuple(map(readable, tokens)) for tokens in (sentence.source, sentence.target))
    return [*_headline(sentence, canvas), *body(grids, source, target, canvas), *_legend(sentence, canvas)]


# the cells


def make_grid(panel: Panel, links: set[tuple[int, int]], canvas: Canvas) -> Grid:
    """A panel's cells as text: the highest of a row underlined (or with a star), known links in brackets."""
    texts, colours = [], []
    for t, row in enumerate(style.shown(panel.quantity, panel.values).tolist()):
        peak = _peak(row)
        said = [figure(panel.quantity, value) for value in row]
        star = "*" if canvas.theme is None else ""
        texts.append([_marked(s, (t, i) in links, star if i == peak else "") for i, s in enumerate(said)])
        colours.append([_look(value, panel.quantity, canvas, peak=i == peak) for i, value in enumerate(row)])
    return Grid(panel.title, texts, colours)


def _peak(row: list[float]) -> int:
    """Where the highest value is, the first of equals; -1 where the row says nothing."""
    best = max((value for value in row if not math.isnan(value)), default=-math.inf)
    return -1 if best == -math.inf else row.index(best)


def _marked(text: str, linked: bool, star: str) -> str:
    return f"{'[' if linked else ' '}{text}{star or (']' if linked else ' ')}"


def figure(quantity: Quantity, value: float) -> str:
    """A value in as few characters as tell it: weights in whole percent, others with their sign."""
    if math.isnan(value):
        return ""
    if quantity.is_weight:
        return "·" if value < 0.005 else f"{100 * value:.0f}"
    if math.isinf(value):
        return "-∞"
    tenth = f"{value:+.1f}"
    if abs(float(tenth)) < 1:
        return "0" if float(tenth) == 0 else tenth.replace("0.", ".")
    return f"{value:+.0f}" if abs(value) < 1000 else f"{value:+.0e}"


def _look(value: float, quantity: Quantity, canvas: Canvas, *, peak: bool) -> Style:
    """The colours of a cell, its ink black or white after its ground."""
    if canvas.theme is None or math.isnan(value):
        return Style()
    share = style.share(value, *style.limits(quantity))
    ground = style.colour_at(getattr(style.scale_of(quantity), canvas.theme), share)
    return Style.parse(f"{_hex(style.ink_on(ground))} on {_hex(ground)}{' bold underline' if peak else ''}")


def _hex(colour: style.RGB) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def readable(token: str) -> str:
    """A token that cannot harm a terminal: what has no shape is shown as a sign, blanks too."""
    signs = {" ": "␣", "\t": "⇥", "\n": "↵"}
    shown = (signs.get(c, "�" if unicodedata.category(c)[0] == "C" and c not in JOINERS else c) for c in token)
    return "".join(shown) or "∅"


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Exactly `width` cells: padded, or shortened, with an ellipsis where that leaves enough to read."""
    if cell_len(text) > width:
        text = set_cell_size(text, width - 1) + "…" if width > READABLE else set_cell_size(text, width)
    blanks = " " * (width - cell_len(text))
    return blanks + text if right else text + blanks


# a grid for each panel


def _as_grids(grids: Sequence[Grid], source: Sequence[str], target: Sequence[str], canvas: Canvas) -> Iterator[Text]:
    """Outputs down, inputs across; as many panels abreast as fit, the rest below."""
    label = 1 + min(max(map(cell_len, target)), LONGEST, canvas.width // 4)
    abreast, cell = _layout(grids, source, canvas.width - label)
    columns = max(1, ((canvas.width - label) // abreast - 2) // cell) if abreast > 1 else (canvas.width - label) // cell
    if max(map(cell_len, source)) >= cell:  # their heads are cut
        yield from (*_wrapped(Text(f"inputs {' '.join(source)}"), canvas), Text())
    for first in range(0, len(grids), abreast):
        for block in _blocks(len(source), columns):
            some = grids[first : first + abreast]
            yield from _band(some, [source[i] for i in block], block, target, label, cell)


def _layout(grids: Sequence[Grid], source: Sequence[str], room: int) -> tuple[int, int]:
    """How many panels stand abreast, and how wide a cell is."""
    least = max(grid.widest for grid in grids)
    natural = max(least, 1 + min(LONGEST, max(map(cell_len, source))))
    enough = max(least, min(natural, READABLE))
    for abreast in range(len(grids), 0, -1):
        cell = min(natural, (room // abreast - 2 * (abreast > 1)) // len(source))
        if cell >= enough:
            return abreast, cell
    return 1, min(enough, room)


def _blocks(length: int, most: int) -> list[range]:
    """Positions 0 to length in as few blocks as may be, of about one size."""
    count = -(-length // most)
    size = -(-length // count)
    return [range(start, min(start + size, length)) for start in range(0, length, size)]


def _band(
    grids: Sequence[Grid], heads: Sequence[str], block: range, target: Sequence[str], label: int, cell: int
) -> Iterator[Text]:
    """Panels abreast, over one block of inputs."""
    gap, width = "  ", cell * len(block)
    titles, tokens = Text(" " * label), Text(" " * label)
    for number, grid in enumerate(grids):
        tokens.append((gap if number else "") + "".join(" " + fit(head, cell - 1, right=True) for head in heads))
        titles.append((gap if number else "") + " ").append(fit(grid.title, width - 1), "bold")
    yield from (titles, tokens)
    for t, word in enumerate(target):
        line = Text(fit(word, label - 1) + " ")
        for number, grid in enumerate(grids):
            line.append(gap if number else "")
            for i in block:
                line.append(fit(grid.texts[t][i], cell, right=True), grid.colours[t][i])
        yield line
    yield Text()


# a list for a single output


def _as_list(grids: Sequence[Grid], source: Sequence[str], target: Sequence[str], canvas: Canvas) -> Iterator[Text]:
    """A line for each input, in as many columns as fit, as many panels beside each other as fit."""
    label = 1 + min(max(map(cell_len, source)), LONGEST, canvas.width // 4)
    widths = [max(grid.widest, cell_len(grid.title) + 2) for grid in grids]
    room = canvas.width - label
    yield Text(f"output {fit(target[0], min(cell_len(target[0]), canvas.width - 7))}")
    start = 0
    while start < len(grids):
        stop = start + 1
        while stop < len(grids) and sum(widths[start : stop + 1]) <= room:
            stop += 1
        yield from _columns(grids[start:stop], widths[start:stop], source, label, canvas.width)
        start = stop


def _columns(
    grids: Sequence[Grid], widths: Sequence[int], source: Sequence[str], label: int, room: int
) -> Iterator[Text]:
    """Inputs with their values, down the first column, then the next."""
    each = label + sum(widths)
    height = -(-len(source) // max(1, (room + 2) // (each + 2)))
    starts = range(0, len(source), height)
    head = " " * label + "".join(fit(grid.title, w, right=True) for grid, w in zip(grids, widths, strict=True))
    yield Text("  ".join([head] * len(starts)), "bold")
    for line in range(height):
        text = Text()
        for start in starts:
            if (i := start + line) < len(source):
                text.append(("  " if start else "") + fit(source[i], label - 1) + " ")
                for grid, width in zip(grids, widths, strict=True):
                    text.append(fit(grid.texts[0][i], width, right=True), grid.colours[0][i])
        yield text
    yield Text()


# what is said above and below


def _headline(sentence: Sentence, canvas: Canvas) -> list[Text]:
    """Which sentence of what, what the model gets right, and how its probes agree."""
    accuracy = "" if sentence.accuracy is None else f", accuracy {sentence.accuracy:.3f}"
    first = Text(f"{sentence.run} at step {sentence.step}{accuracy}", style="bold")
    facts = [f"{sentence.right[0]}/{sentence.right[1]} outputs right"]
    facts += [f"A({m.u},{m.v}) {m.hits}/{m.rows}" for m in sentence.matches]
    second = Text(f"{sentence.split} sentence {sentence.number} of {sentence.of}: {', '.join(facts)}")
    lines = [*_wrapped(first, canvas), *_wrapped(second, canvas)]
    if sentence.sites:
        lines += _wrapped(Text(f"sites: {' '.join(map(readable, sentence.sites))}"), canvas)
    return [*lines, Text()]


def _legend(sentence: Sentence, canvas: Canvas) -> list[Text]:
    """What the numbers and marks are."""
    lines = []
    for quantity in dict.fromkeys(panel.quantity for panel in sentence.panels):
        lines += _wrapped(Text.assemble((quantity.symbol, "bold"), f" {_meaning(quantity)}"), canvas)
    lines += [line for text in _sinks(sentence) for line in _wrapped(text, canvas)]
    peak = "* is" if canvas.theme is None else "underlined is"
    both = " ([ * is both)" if canvas.theme is None else ""
    link = "" if sentence.links is None else f"; [ ] a known link{both}"
    meaning = style.peak_meaning(*(panel.quantity for panel in sentence.panels))
    return [*lines, *_wrapped(Text(f"{peak} the peak of an output: its {meaning}{link}"), canvas)]


def _sinks(sentence: Sentence) -> Iterator[Text]:
    """How much weight is on no input; of each output too, where there is one panel of it."""
    told = [panel for panel in sentence.panels if panel.sink is not None]
    for panel in told:
        sink = panel.sink if panel.sink is not None else ()
        rows = [f"{readable(word)} {100 * weight:.0f}" for word, weight in zip(sentence.target, sink, strict=True)]
        each = f"; of each output: {', '.join(rows)}" if len(told) == 1 and len(rows) > 1 else ""
        mean = f"{100 * float(np.mean(sink)):.1f} percent of the weight is on no input (a sink)"
        yield Text.assemble((panel.title, "bold"), f" {mean}{', on average' if len(rows) > 1 else ''}{each}")


def _meaning(quantity: Quantity) -> str:
    if quantity.is_weight:
        return f"{quantity.meaning}, percent"
    if not quantity.is_log_odds:
        return f"{quantity.meaning}, as a share of the output's largest"
    return f"{quantity.meaning}: " + ", ".join(f"{odds:+d} is {style.PERCENT[odds]}" for odds in (-4, -2, 2, 4))


def _wrapped(text: Text, canvas: Canvas) -> list[Text]:
    """At most as wide as the canvas, broken at blanks, and within a word where it must be."""
    return list(text.wrap(Console(width=canvas.width), canvas.width))

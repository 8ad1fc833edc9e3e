"""From signals to links between words, and from two directions to one; numpy only.

A signal has a row for each target word. `argmax` links each target word to its highest source word; the other direction
is a model that translates back, or the same signal read by columns. Two directions are combined as Moses does it.
"""

from __future__ import annotations

from bisect import insort

import numpy as np
from numpy.typing import NDArray

from ktiwprobe.corpus.links import Links
from ktiwprobe.corpus.ragged import Lazy
from ktiwprobe.errors import CorpusError, UnknownNameError, UsageError
from ktiwprobe.signals.signal import Signal

Ints = NDArray[np.int64]
Point = tuple[int, int]  # target word, source word: in this order they are visited

ONE_WAY = ("argmax", "threshold")
TWO_WAYS = ("mutual", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and")
METHODS = (*ONE_WAY, *TWO_WAYS)
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def read_method(text: str) -> tuple[str, float | None]:
    """A method and, of `threshold:at=0.2`, its threshold."""
    name, _, rest = text.partition(":")
    if name not in METHODS:
        raise UnknownNameError("method", name, METHODS)
    if name != "threshold":
        if rest:
            raise UsageError(f"method {name!r} takes no options, and {rest!r} was given")
        return name, None
    try:
        return name, float(rest.removeprefix("at="))
    except ValueError as error:
        raise UsageError(
            f"method 'threshold' needs the value from which cells are links, and {rest!r} was given: write "
            "threshold:at=0.2"
        ) from error


def rows_linked(signal: Signal) -> Links:
    """Each target word with its highest source word, the first of several; a row of nothing but -inf has no link."""
    signal = signal.one_site()
    at = [np.zeros(0, np.int64)]
    for numbers, block in signal.by_length():
        best = block.argmax(1)
        heard = block[np.arange(len(block)), best] > -np.inf
        at.append((signal.starts[numbers] + best)[heard])
    return _cells_linked(signal, np.concatenate(at))


def columns_linked(signal: Signal) -> Links:
    """Each source word with its highest target word, the first of several."""
    signal = signal.one_site()
    row, column, values = _rows(signal), signal.positions, signal.values[0]
    key = signal.sentence_of_row[row] * (column.max(initial=0) + 1) + column
    order = np.lexsort((row, -values, key))
    first = order[np.diff(key[order], prepend=-1) > 0]
    return _cells_linked(signal, first[values[first] > -np.inf])


def above(signal: Signal, at: float) -> Links:
    """All cells whose value is `at` or more."""
    signal = signal.one_site()
    return _cells_linked(signal, np.flatnonzero(signal.values[0] >= at))


def _rows(signal: Signal) -> Ints:
    return np.repeat(np.arange(len(signal.lengths)), signal.lengths)


def _cells_linked(signal: Signal, cells: Ints) -> Links:
    """The chosen cells as sure links."""
    row = _rows(signal)[cells]
    sentence = signal.sentence_of_row[row]
    target = row - signal.first_rows[sentence]
    links = np.stack([signal.positions[cells], target, np.ones_like(target)], 1)
    return Links.at(sentence, links, len(signal), signal.name, _text(signal))


def _text(signal: Signal) -> tuple[Lazy, Lazy] | None:
    """The words of the sentence pairs, looked up when they are asked for."""
    if (text := signal.text) is None:
        return None
    return Lazy(range(len(signal)), lambda row: text(row)[0]), Lazy(range(len(signal)), lambda row: text(row)[1])


def combine(forward: Links, backward: Links, method: str) -> Links:
    """One alignment of two: `forward` links target words to a source word, `backward` source words to a target word."""
    if len(forward) != len(backward):
        raise CorpusError(
            f"{forward.name} has {len(forward)} sentence pairs and {backward.name} has {len(backward)}: "
            "line must match line"
        )
    if method not in TWO_WAYS:
        raise UnknownNameError("method for two directions", method, TWO_WAYS)
    if method == "union":
        cells = np.concatenate([links.cells.values for links in (forward, backward)])
        sentence = np.concatenate([forward.sentence, backward.sentence])
        return Links.at(sentence, cells, len(forward), text=forward.text)
    if method == "mutual":
        shared = np.isin(forward.keys(backward), backward.keys(forward))
        return Links.at(forward.sentence[shared], forward.cells.values[shared], len(forward), text=forward.text)
    grown = [grow(_points(forward, m), _points(backward, m), method) for m in range(len(forward))]
    return Links.of([[(i, j, 1) for j, i in points] for points in grown], text=forward.text)


def _points(links: Links, sentence: int) -> set[Point]:
    return {(j, i) for i, j, _ in links.cells[sentence].tolist()}


def grow(forward: set[Point], backward: set[Point], method: str) -> set[Point]:
    """Moses' symal: the intersection, grown along neighbours in the union; then what is left, first of `forward`.

    Points are visited in order, those added on the way too. Each need be visited only once: a neighbour that may not
    be added now may never be, as words once covered stay so.
    """
    union, points = forward | backward, forward & backward
    targets, sources = {j for j, _ in points}, {i for _, i in points}
    waiting = sorted(points)
    while waiting:
        agenda, waiting = waiting, []
        while agenda:
            here = agenda.pop(0)
            for dj, di in NEIGHBOURS:
                new = here[0] + dj, here[1] + di
                if new in union and not (new[0] in targets and new[1] in sources):
                    points.add(new)
                    targets.add(new[0])
                    sources.add(new[1])
                    insort(agenda if new > here else waiting, new)
    if method != "grow-diag":
        for side in (forward - backward, backward - forward):
            _finish(points, side, targets, sources, both=method == "grow-diag-final-and")
    return points


def _finish(points: set[Point], side: set[Point], targets: set[int], sources: set[int], *, both: bool) -> None:
    """Add the links of one direction whose words (one of them, or both) are not covered yet."""
    for j, i in sorted(side - points):
        if (j not in targets and i not in sources) if both else (j not in targets or i not in sources):
            points.add((j, i))
            targets.add(j)
            sources.add(i)

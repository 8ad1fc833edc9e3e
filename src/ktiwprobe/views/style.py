"""How quantities look, as plain data: the colours and lines that page, terminal and figures share.

Every colour has a form for a light and one for a dark background. Lines are Okabe and Ito's set, which people with any
colour vision tell apart, and each has a dash of its own; scales change in lightness as well as in hue, so that they
survive a grey printer. The signed scale runs from orange to blue, never from red to green.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ktiwprobe.compare.specs import read_spec
from ktiwprobe.errors import SpecError
from ktiwprobe.plugins.quantities import GOLD, UNKNOWN, Line, Quantity
from ktiwprobe.plugins.registry import HAT, Registry, build_registry
from ktiwprobe.plugins.run_kinds import RunKind
from ktiwprobe.signals.signal import Signal

Theme = Literal["light", "dark"]
RGB = tuple[int, int, int]


class Pair(NamedTuple):
    """One colour on a light and on a dark background."""

    light: str
    dark: str


class Scale(NamedTuple):
    """Colours at equal distances, to be interpolated; the ends that mean "nothing" are close to the background."""

    light: tuple[str, ...]
    dark: tuple[str, ...]


BACKGROUND = Pair("#ffffff", "#14181f")
INK = Pair("#1b1f24", "#e8eaed")  # text
FAINT = Pair("#6b7280", "#9aa4b2")  # what stands back: baselines, notes
LINK = Pair("#111111", "#ffffff")  # outline of a known link
HALO = Pair("#ffffff", "#111111")  # around that outline, so that it shows on any cell

# 0 to 1: attention weights, probabilities, agreements, and counts as a share of the highest.
WEIGHTS = Scale(
    light=("#ffffff", "#d8e8f5", "#9fcae6", "#4f9bcb", "#1c6aaf", "#08376e"),
    dark=("#1a1f28", "#15395c", "#14599a", "#2e86c8", "#72b8e8", "#d9efff"),
)
# -1 to 1: log-odds and saliencies as a share of their limit; the middle is 0, an even chance.
SIGNED = Scale(
    light=("#a34a06", "#d9822b", "#f4b778", "#fbe3c8", "#ffffff", "#cfe3f2", "#8abcdf", "#3584bb", "#0b4a86"),
    dark=("#ffb066", "#d9812f", "#96551b", "#50351f", "#1a1f28", "#173a5c", "#195c98", "#4495d3", "#9fd2f7"),
)
# Log-odds beyond these look alike. What is unlikely is nearly everywhere, far below 0: were both ends equally far, it
# would outshine the few cells in which something is known.
LOG_ODDS = (-24.0, 6.0)

PERFORMANCE = Line("#444a52", "#c3c9d1", (1, 2))
# For what has no quantity of its own: trials, models, tasks.
SERIES = (
    Line("#0072b2", "#56b4e9", ()),
    Line("#d55e00", "#ff9248", (6, 2)),
    Line("#007a59", "#2cc79b", (2, 2)),
    Line("#a84f83", "#e59cc6", (8, 2, 2, 2)),
    Line("#a86f00", "#f0b73a", (4, 1, 1, 1)),
    Line("#2f7fb0", "#9ed3f5", (1, 1)),
    Line("#111111", "#f2f2f2", (10, 3)),
)
HAT_DASH = (6, 2, 1, 2)  # of another seed's lines
PERCENT = {-6: "0.2 %", -4: "1.8 %", -2: "12 %", 0: "50 %", 2: "88 %", 4: "98.2 %", 6: "99.8 %"}  # log-odds for readers


def limits(quantity: Quantity) -> tuple[float, float]:
    """What the ends of a quantity's scale stand for, in values as they are `shown`."""
    if quantity.is_weight:
        return 0.0, 1.0
    return LOG_ODDS if quantity.is_log_odds else (-1.0, 1.0)


def scale_of(quantity: Quantity) -> Scale:
    """The colours of a quantity."""
    return WEIGHTS if quantity.is_weight else SIGNED


def peak_meaning(*quantities: Quantity) -> str:
    """What the marked peak of a row is: argmax of u, as metrics take it. On a signed scale it need not be the darkest
    cell.
    """
    weights = all(quantity.is_weight for quantity in quantities)
    return "highest value" if weights else "highest signed value, so a strong negative value is no peak"


def shown(quantity: Quantity, values: NDArray[np.float32]) -> NDArray[np.float64]:
    """Values (..., T, L) as they are shown: weights and log-odds as they are; others, saliencies, as a share of the
    largest of their row, because rows differ by orders of magnitude (a sure output has hardly any gradient).
    """
    exact = values.astype(np.float64)
    if quantity.is_weight or quantity.is_log_odds:
        return exact
    largest = np.max(np.abs(exact), axis=-1, where=np.isfinite(exact), initial=0.0, keepdims=True)
    return exact / np.where(largest > 0, largest, 1.0)


def share(value: float, low: float, high: float) -> float:
    """Where a value lies on its scale, in [0, 1]; where the scale is signed, 0 is in its middle."""
    if low >= 0:
        return min(max((value - low) / (high - low), 0.0), 1.0) if high > low else 0.0
    arm = high if value > 0 else -low
    return 0.5 + 0.5 * min(max(value / arm, -1.0), 1.0) if arm > 0 else 0.5


def colour_at(stops: Sequence[str], where: float) -> RGB:
    """The colour at a share of a scale, between its stops."""
    place = min(max(where, 0.0), 1.0) * (len(stops) - 1)
    before = min(int(place), len(stops) - 2)
    rest = place - before
    pairs = zip(rgb(stops[before]), rgb(stops[before + 1]), strict=True)
    red, green, blue = (round(a + (b - a) * rest) for a, b in pairs)
    return red, green, blue


def rgb(colour: str) -> RGB:
    """#rrggbb as numbers."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def luminance(colour: RGB) -> float:
    """Relative luminance as WCAG defines it, in [0, 1]."""
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: RGB, b: RGB) -> float:
    """WCAG's contrast of two colours, 1 to 21; text needs 4.5."""
    darker, lighter = sorted((luminance(a), luminance(b)))
    return (lighter + 0.05) / (darker + 0.05)


def ink_on(colour: RGB) -> RGB:
    """Black or white, whichever reads better on a colour."""
    return max(((0, 0, 0), (255, 255, 255)), key=lambda ink: contrast(colour, ink))


def line_of(quantity: Quantity, kind: RunKind | None = None, *, hat: bool = False, number: int = 0) -> Line:
    """The line of a quantity, dashed as its run kind is, or as another seed's; `number` chooses where it has none."""
    line = quantity.line or SERIES[number % len(SERIES)]
    return line._replace(dash=kind.dash if kind else HAT_DASH if hat else line.dash)


def with_quantity(signal: Signal) -> Signal:
    """The signal with what its values are, looked up by its probe's name where nobody has said so."""
    if signal.quantity is not UNKNOWN:
        return signal
    return replace(signal, quantity=build_registry().quantity(str(signal.meta.get("probe", signal.name))))


def line_named(text: str, registry: Registry | None = None, *, number: int = 0) -> Line:
    """The line of a SPEC (`beta-uf` is a beta, dashed otherwise); of any other text that of a `number`."""
    registry = registry or build_registry()
    try:
        spec = read_spec(text, registry)
    except SpecError:
        return SERIES[number % len(SERIES)]
    if spec.gold or spec.file:
        return line_of(GOLD, number=number)
    kind = registry.run_kinds().get(spec.pick or "")
    return line_of(registry.quantity(spec.probe), kind, hat=spec.pick == HAT, number=number)

"""What all figures share: type, colour maps, labels at the ends of lines, and how a figure becomes a file."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.colors import LinearSegmentedColormap, Normalize, TwoSlopeNorm
from matplotlib.figure import Figure as Figure

from ktiwprobe.errors import UsageError
from ktiwprobe.files import storage
from ktiwprobe.plugins.quantities import Line, Quantity
from ktiwprobe.views import style

FORMATS = (".png", ".svg", ".pdf")
COLUMN, PAGE = 3.35, 6.9  # inches: a column of a paper, and its page
INK, FAINT = style.INK.light, style.FAINT.light
# DejaVu comes with matplotlib; the others, where they are installed, have what it lacks.
FAMILIES = ("DejaVu Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans", "Noto Sans Arabic", "Noto Sans Hebrew",
            "Noto Sans Devanagari", "WenQuanYi Zen Hei", "IPAGothic", "Droid Sans Fallback")  # fmt: skip
PAPER: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.4,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.edgecolor": INK,
}
# Fonts as TrueType, which publishers accept and readers can search; the same figure is the same file.
FILES: dict[Any, Any] = {"pdf.fonttype": 42, "svg.hashsalt": "ktiwprobe"}


def paper(size: tuple[float, float]) -> Figure:
    """An empty figure of that size in inches; draw on it inside `rc_context(PAPER)`."""
    return Figure(figsize=size, layout="constrained")


@cache
def families() -> list[str]:
    """The families that are installed here."""
    from matplotlib.font_manager import fontManager

    known = {font.name for font in fontManager.ttflist}
    return [name for name in FAMILIES if name in known]


def token(text: str) -> dict[str, Any]:
    """How a token is written: as it is (a $ is no formula), in whatever family has its characters."""
    return {"s": text, "family": families(), "parse_math": False}


def save(figure: Figure, path: str | Path, *, say: Callable[[str], None] | None = None) -> Path:
    """Write a figure; the format follows the file's ending (png, svg, pdf). `say` hears what could not be drawn."""
    path, drawn = Path(path), BytesIO()
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix, {})
    with warnings.catch_warnings(record=say is not None) as caught, rc_context(FILES):
        warnings.simplefilter("always") if say else None
        try:
            figure.savefig(drawn, format=path.suffix[1:], dpi=300, bbox_inches="tight", metadata=undated)
        except ValueError as error:
            raise UsageError(f"cannot write {path}: {error}") from error
    storage.write_bytes(path, drawn.getvalue())
    lacking = {m[1] for w in caught or () if (m := re.match(r"Glyph \d+ \((.*)\) missing", str(w.message)))}
    if say and lacking:
        say(f"no font here has {', '.join(sorted(lacking)[:3])}: boxes stand for {len(lacking)} characters in {path}")
    return path


def colours(quantity: Quantity) -> dict[str, Any]:
    """The map and the limits of a quantity's values, as imshow takes them."""
    low, high = style.limits(quantity)
    norm = Normalize(low, high) if low >= 0 else TwoSlopeNorm(0, low, high)
    return {"cmap": colour_map(style.scale_of(quantity).light), "norm": norm}


def colour_map(stops: Sequence[str]) -> LinearSegmentedColormap:
    """Stops as a map; what is not a number stays white."""
    return LinearSegmentedColormap.from_list("ktiwprobe", stops)


def dashed(line: Line) -> dict[str, Any]:
    """A line's colour and dash, as plot takes them."""
    return {"color": line.light, "linestyle": (0, line.dash) if line.dash else "-"}


def open_frame(axis: Any) -> None:
    """Only the two sides that have a scale."""
    axis.spines[["top", "right"]].set_visible(False)


def label_ends(
    axis: Any,
    ends: Mapping[str, tuple[float, float]],
    colours: Mapping[str, str],
    *,
    size: float = 9,
    gap: float = 0.075,
) -> None:
    """Each label beside the end of its line; where they would meet, moved apart as little as can be."""
    axis.get_xlim(), axis.get_ylim()  # settles the limits, which the transformation needs
    to_share = (axis.transData + axis.transAxes.inverted()).transform
    order = sorted(ends, key=lambda label: ends[label][1])
    heights = spaced([float(to_share(ends[label])[1]) for label in order], gap)
    for label, height in zip(order, heights, strict=True):
        place = {"transform": axis.transAxes, "va": "center", "ha": "left", "fontsize": size, "clip_on": False}
        axis.text(1.02, height, label, color=colours[label], **place)


def spaced(heights: Sequence[float], gap: float) -> list[float]:
    """Rising `heights` at least `gap` apart and inside the frame, the sum of squared moves the smallest there is."""
    from scipy.optimize import isotonic_regression

    if not heights:
        return []
    steps = gap * np.arange(len(heights))
    free = isotonic_regression(np.array(heights) - steps).x  # less the gaps, they need only not fall
    found: list[float] = (free.clip(0.02, max(0.02, 0.98 - steps[-1])) + steps).tolist()
    return found

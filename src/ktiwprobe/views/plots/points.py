"""Words as points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ktiwprobe.views import style
from ktiwprobe.views.plots.frame import COLUMN, FAINT, PAPER, open_frame, paper, token

PLACES = ((3, 2, "left", "bottom"), (-3, 2, "right", "bottom"), (3, -2, "left", "top"), (-3, -2, "right", "top"))


class Cloud(NamedTuple):
    """Points with names; the larger the count, the larger the point."""

    names: Sequence[str]
    x: NDArray[Any]
    y: NDArray[Any]
    counts: NDArray[Any]
    faint: NDArray[np.bool_]  # those that stand back


@rc_context(PAPER)
def scatter(
    cloud: Cloud, *, xlabel: str, ylabel: str, labels: int = 20, yscale: str = "linear", title: str = ""
) -> Figure:
    """Points by name; those farthest out are labelled, as many as find room."""
    figure = paper((COLUMN, COLUMN * 0.9))
    axis = figure.subplots()
    area = 4 + 40 * np.sqrt(cloud.counts / cloud.counts.max())
    for chosen, colour in ((~cloud.faint, style.SERIES[0].light), (cloud.faint, FAINT)):
        axis.scatter(cloud.x[chosen], cloud.y[chosen], area[chosen], color=colour, alpha=0.45, linewidths=0)
    axis.set_yscale(yscale)
    axis.set(xlabel=xlabel, ylabel=ylabel, title=title)
    axis.margins(0.12)
    open_frame(axis)
    _name(figure, axis, cloud, labels)
    return figure


def _name(figure: Figure, axis: Any, cloud: Cloud, labels: int) -> None:
    """Labels beside the extremes, each where it meets no other one nor the frame, and hides at most one point."""
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()  # settles the layout, without which there is no telling what meets what
    renderer, points = canvas.get_renderer(), axis.transData.transform(np.stack([cloud.x, cloud.y], 1))
    taken: list[Any] = []
    for i in _extremes(points):
        look = token(str(cloud.names[i]))
        text = axis.annotate(
            look.pop("s"), (cloud.x[i], cloud.y[i]), (3, 2), textcoords="offset points", fontsize=6, **look
        )
        places = []
        for number, (dx, dy, ha, va) in enumerate(PLACES):
            text.set(position=(dx, dy), ha=ha, va=va)
            box = text.get_window_extent(renderer).padded(2)
            if _inside(box, axis.get_window_extent()) and not any(map(box.overlaps, taken)):
                places.append((box.count_contains(points), number, box))
        hidden, number, box = min(places, default=(2, 0, None), key=lambda place: place[:2])
        if hidden > 1:
            text.remove()
            continue
        dx, dy, ha, va = PLACES[number]
        text.set(position=(dx, dy), ha=ha, va=va)
        taken.append(box)
        if len(taken) == labels:
            return


def _inside(box: Any, frame: Any) -> bool:
    return bool(frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1)


def _extremes(points: NDArray[Any]) -> list[int]:
    """Points on the screen (n, 2), those farthest from the middle first."""
    spread = np.maximum(points.std(0), 1e-9)
    return [int(i) for i in np.argsort(-np.abs((points - np.median(points, 0)) / spread).max(1), kind="stable")]

"""Numbers to figures; the only package that imports matplotlib, and without pyplot, so there is no global state.

Colours and dashes are those of style.py. Every figure function returns a Figure whose type is legible at the width of a
paper's column or page; `save` writes it.
"""

from ktiwprobe.views.plots.courses import Course, Crossing, Points, curves, over_steps, trials
from ktiwprobe.views.plots.frame import FORMATS, Figure, save
from ktiwprobe.views.plots.points import Cloud, scatter
from ktiwprobe.views.plots.squares import Panel, matrices, table
from ktiwprobe.views.plots.words import heatmaps

__all__ = [
    "FORMATS",
    "Cloud",
    "Course",
    "Crossing",
    "Figure",
    "Panel",
    "Points",
    "curves",
    "heatmaps",
    "matrices",
    "over_steps",
    "save",
    "scatter",
    "table",
    "trials",
]

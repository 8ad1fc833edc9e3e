"""Public names for figures; each is defined in `ktiwprobe.views.plots`."""

from ktiwprobe.views.plots import (
    FORMATS,
    Cloud,
    Course,
    Crossing,
    Figure,
    Panel,
    Points,
    curves,
    heatmaps,
    matrices,
    over_steps,
    save,
    scatter,
    table,
    trials,
)

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

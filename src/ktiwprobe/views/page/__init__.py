"""One page that tells a run's whole story: `ktiwprobe report`, and the sentence viewer for notebooks.

measures.py    the agreement table and the curves, as `agree` would compute them
sentences.py   which sentences are shown, and what is known of them
pack.py        their signals, one byte a cell
collect.py     all of it as plain data
page.py        the data into one HTML file that needs nothing else; `viewer_html` for one sentence
assets/        the template, the style sheet and the scripts, as they are written

The drawing is our own, 40 kB of plain SVG, canvas and tables under the licence of the rest. Of the charting libraries
looked at (releases of November 2026, minified) uPlot is the smallest with 51 kB (MIT), but has no heatmap, and its
canvas says nothing to a screen reader; Chart.js has 210 kB (MIT) and needs a plugin for heatmaps, Observable Plot with
d3 490 kB (ISC), Vega with Vega-Lite 780 kB (BSD). None draws the construction of ξ, or a heatmap whose tokens scroll,
are selected and read out: that part would be ours with any of them.
"""

from __future__ import annotations

from ktiwprobe.views.page.collect import collect
from ktiwprobe.views.page.page import render, viewer_html

__all__ = ["collect", "render", "viewer_html"]

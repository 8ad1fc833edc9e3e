"""A sentence in a notebook: the viewer of the report's page, around a few signals."""

from __future__ import annotations

from collections.abc import Sequence

from ktiwprobe.signals.signal import Signal
from ktiwprobe.views.html import View
from ktiwprobe.views.page import viewer_html


def view(signals: Sequence[Signal], sentence: int = 0) -> View:
    """The viewer of one sentence; signals of the same sentences stand side by side, steps of one under a slider."""
    first = signals[0]
    inside = -len(first) <= sentence < len(first)  # else the viewer says what there is
    links = first.links(sentence % len(first)) if first.links and inside else None
    return View(viewer_html(signals, sentence, links=None if links is None else links.tolist()))

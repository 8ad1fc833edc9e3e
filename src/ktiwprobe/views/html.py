"""Small pieces of HTML for notebooks: escaped, compact, and in the notebook's own colours, light or dark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ktiwprobe.plugins.quantities import Quantity
from ktiwprobe.views import style

if TYPE_CHECKING:
    from ktiwprobe.compare.agreement import Agreement
    from ktiwprobe.runs.run import Run
    from ktiwprobe.signals.signal import Signal

TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums;color:inherit;background:none;margin:.2em 0"
LINE = "border:0;border-bottom:1px solid rgba(128,128,128,.35)"
MOST = 24  # outputs and inputs that a preview shows
CELL = f"{LINE};padding:.1em .7em .1em 0;text-align:left;background:none"


@dataclass(frozen=True)
class View:
    """A piece of HTML that a notebook shows."""

    html: str

    def _repr_html_(self) -> str:
        return self.html


def heading(name: str, *facts: str) -> str:
    """A name in bold, and what is to know of it."""
    return f"<div><b>{escape(name)}</b>{''.join(f' · {escape(fact)}' for fact in facts)}</div>"


def paragraph(text: str, size: str = "1em") -> str:
    """A sentence or a few."""
    return f'<div style="font-size:{size};max-width:50em">{escape(text)}</div>'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows of text under their heads."""
    first = "".join(f'<th style="{CELL}">{escape(head)}</th>' for head in heads)
    lines = ["".join(f'<td style="{CELL}">{escape(cell)}</td>' for cell in row) for row in rows]
    return f'<table style="{TABLE}">{"".join(map(_row, [first, *lines]))}</table>'


def pairs(values: Mapping[str, str]) -> str:
    """Names beside their values."""
    cells = (f'<th style="{CELL}">{escape(k)}</th><td style="{CELL}">{escape(v)}</td>' for k, v in values.items())
    return f'<table style="{TABLE}">{"".join(map(_row, cells))}</table>'


def _row(cells: str) -> str:
    return f'<tr style="background:none">{cells}</tr>'


def spark(values: Mapping[int, float], label: str) -> str:
    """A curve as small as a word, in the colour of the text; from 0 to 1, over the order of steps."""
    heights = [values[step] for step in sorted(values) if math.isfinite(values[step])]
    if len(heights) < 2:
        return ""
    points = " ".join(f"{2 + 96 * i / (len(heights) - 1):.1f},{22 - 20 * h:.1f}" for i, h in enumerate(heights))
    line = f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
    title = f"<title>{escape(label)}</title>"
    return f'<svg width="100" height="24" role="img" style="vertical-align:middle">{title}{line}</svg>'


def heatmap(quantity: Quantity, values: NDArray[np.float32], tokens: tuple[Sequence[str], Sequence[str]] | None) -> str:
    """A sentence's values (T, L) as a table of coloured cells, each with its value as a title; its beginning, if long.

    `tokens` are of source and target; without them positions have numbers.
    """
    T, L = (min(size, MOST) for size in values.shape)
    source, target = tokens or tuple([str(i) for i in range(size)] for size in (L, T))
    turned = "writing-mode:vertical-rl;transform:rotate(180deg);padding:.2em;font-weight:normal;text-align:left"
    heads = "".join(f'<th style="border:0;background:none;{turned}">{escape(word)}</th>' for word in source[:L])
    lines = [f'<th style="border:0;background:none"></th>{heads}']
    for word, row, exact in zip(target[:T], style.shown(quantity, values).tolist(), values.tolist(), strict=False):
        cells = "".join(_cell(v, x, quantity) for v, x in zip(row[:L], exact, strict=False))
        lines.append(f'<th style="{CELL};border:0;font-weight:normal">{escape(word)}</th>{cells}')
    return f'<table style="{TABLE}">{"".join(map(_row, lines))}</table>'


def _cell(value: float, exact: float, quantity: Quantity) -> str:
    if math.isnan(value):
        return '<td style="border:0;background:none"></td>'
    share = style.share(value, *style.limits(quantity))
    red, green, blue = style.colour_at(style.scale_of(quantity).light, share)
    look = f"border:0;width:1.3em;height:1.3em;background:rgb({red},{green},{blue})"
    return f'<td style="{look}" title="{exact:.4g}"></td>'


# what notebooks show of the objects that the library returns


def of_run(run: Run) -> str:
    """A run: what it is, and its accuracy over training."""
    facts = [f"{run.record.model} on {run.record.task}", f"{run.attention} attention", f"seed {run.seed}"]
    curve = run.performance()
    top = heading(run.name, *facts, f"{len(run.steps())} checkpoints")
    if not curve:
        return f"{top}<div>no checkpoint is evaluated yet</div>"
    best, last = run.best_step(), max(curve)
    text = f"accuracy {curve[best]:.3f} at step {best}, the best; {curve[last]:.3f} at {last}, the last"
    return f"{top}<div>{spark(curve, text)} {text}</div>"


def of_signal(signal: Signal) -> str:
    """A signal: its size, and its first sentence."""
    sites = [f"mean of {len(signal.sites)} sites"] if len(signal.sites) > 1 else []
    signal = style.with_quantity(signal)
    top = heading(signal.name, f"{len(signal)} sentences", f"{len(signal.lengths)} rows", *sites)
    if not len(signal):
        return top
    first = signal.only(0).one_site()
    tokens = first.tokens()
    return top + heatmap(signal.quantity, first[0], tokens[0] if tokens else None)


def of_agreement(agreement: Agreement) -> str:
    """An agreement: its numbers, and how they came about."""
    texts = {key: _text(value) for key, value in agreement.to_dict().items() if value is not None and key != "metric"}
    return heading(agreement.metric) + pairs({key: text for key, text in texts.items() if text})


def _text(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]" if value else ""
    if isinstance(value, dict):
        return ", ".join(f"{key} {text}" for key, text in value.items() if text)
    return f"{value:.3f}" if isinstance(value, float) else str(value)

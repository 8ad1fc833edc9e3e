"""Plain data into one HTML file that loads nothing; and the viewer of one sentence, for notebooks."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape
from numpy.typing import NDArray

from ktiwprobe.errors import UsageError
from ktiwprobe.plugins.quantities import Line, Quantity
from ktiwprobe.signals.signal import Signal
from ktiwprobe.views import style
from ktiwprobe.views.page.pack import pack

SHARED = (
    "data",
    "colour",
    "heatmap",
    "strip",
    "bars",
    "viewer",
)  # scripts, in the order in which they build on another
WIDE = 2  # pixels of a point of a dash: figures, too, let dashes grow with their lines


def render(data: Mapping[str, Any]) -> str:
    """The page of what `collect` found."""
    inside = {key: data[key] for key in ("about", "rows", "curves", "baseline", "sentences", "views", "dictionary")}
    return _environment().get_template("page.html").render(
        {key: data[key] for key in ("about", "runs", "rows", "missing", "warnings")},
        **{key: data[key] for key in ("curves", "findings", "dictionary")},
        points=_as_table(data["curves"]),
        sampled=sampled(data),
        gold=any(sentence["links"] for sentence in data["sentences"]),
        version=version("ktiwprobe"),
        css=_css(data["curves"]),
        data=as_json({**inside, "style": _style()}),
        script=_scripts(*SHARED, "list", "chart", "dictionary", "page"),
    )  # fmt: skip


def viewer_html(signals: Signal | Iterable[Signal], sentence: int = 0, *, links: Any = None) -> str:
    """The sentence viewer as a frame to put into any page, for one sentence of a few signals.

    Signals of one run and probe at several steps become a slider; other runs and probes stand side by side. `links`
    are known alignments, (t, l, 1 if sure), which are outlined.
    """
    chosen = [style.with_quantity(s) for s in ([signals] if isinstance(signals, Signal) else signals)]
    if not chosen:
        raise UsageError("there is no signal to view: give at least one")
    if not -len(chosen[0]) <= sentence < len(chosen[0]):
        raise UsageError(f"there is no sentence {sentence} in {chosen[0].name}: it has 0 to {len(chosen[0]) - 1}")
    for other in chosen[1:]:
        chosen[0].check_same_rows(other)
    number = sentence % len(chosen[0])
    source, target = _tokens(chosen[0], number)
    shown = {"number": number, "source": list(source), "target": list(target), "links": _links(links)}
    data = {"about": {}, "sentences": [shown], "views": [_view(chosen, number, len(source))], "style": _style()}
    page = _environment().get_template("snippet.html").render(
        title=chosen[0].name, css=_css(), data=as_json(data), script=_scripts(*SHARED, "snippet"), gold=bool(links)
    )  # fmt: skip
    frame = "width: 100%; height: 36rem; border: 0; background: transparent"
    return f'<iframe title="{html.escape(chosen[0].name)}" style="{frame}" srcdoc="{html.escape(page)}"></iframe>'


def _tokens(signal: Signal, number: int) -> tuple[Sequence[str], Sequence[str]]:
    """The tokens of a sentence, or their numbers where nobody knows them."""
    if signal.text is not None:
        return signal.text(number)
    T, L = signal[number].shape[-2:]
    return [str(i) for i in range(L)], [str(i) for i in range(T)]


def _links(links: Any) -> list[list[int]] | None:
    return None if links is None else [[int(part) for part in link] for link in links]


def _view(signals: Sequence[Signal], number: int, width: int) -> dict[str, Any]:
    """The signals of one sentence, those that differ only in their step together."""
    kinds: dict[tuple[str, str], dict[int, Signal]] = {}
    for signal in signals:
        run, _, rest = signal.name.rpartition(":")
        probe = str(signal.meta.get("probe", rest.partition("@")[0]))
        kinds.setdefault((run, probe), {})[int(signal.meta.get("step", 0))] = signal
    steps = sorted(set.intersection(*(set(of_kind) for of_kind in kinds.values())))
    if not steps:  # of no common step: each as it is
        kinds = {kind: {0: next(iter(of_kind.values()))} for kind, of_kind in kinds.items()}
        steps = [0]
    several = len({run for run, _ in kinds}) > 1
    where: tuple[NDArray[np.int64], NDArray[np.int64]] = np.array([number]), np.array([width])
    probes = []
    for (run, probe), of_kind in kinds.items():
        shown = [of_kind[step] for step in steps]
        about = describe(shown[0].quantity)
        label = {"label": f"{about['symbol']} of {run.rpartition('/')[2]}"} if several else {}
        probes.append({"name": probe, **about, **label, **pack(shown, *where)})
    return {"run": signals[0].name.rpartition(":")[0], "steps": steps, "best": len(steps) - 1, "probes": probes}


def as_json(data: Any) -> Markup:
    """JSON that may stand in a script element: no token can end it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704  (no markup is left in it)


def sampled(data: Mapping[str, Any]) -> str:
    """What the page leaves out, in a sentence or two."""
    about, shown, view = data["about"], len(data["sentences"]), data["views"][0]
    which = "all" if shown == about["size"] else f"{shown}, drawn at random with a fixed seed, of"
    said = f"Shown: {which} {about['size']} sentences of the {about['split']} split; table and curves are over all."
    if len(view["steps"]) < view["all_steps"]:
        said += f" The slider has {len(view['steps'])} of {view['all_steps']} checkpoints."
    return said + " Values are kept in 8 bits: each is off by at most 1/506 of the range of its row."


def _as_table(curves: Sequence[Mapping[str, Any]]) -> list[tuple[int, list[float | None]]]:
    columns = [dict(line["points"]) for line in curves]
    steps = sorted({step for column in columns for step in column})
    return [(step, [column.get(step) for column in columns]) for step in steps]


@cache
def _environment() -> Environment:
    loader = PackageLoader("ktiwprobe.views.page", "assets")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["number"] = lambda value: "–" if value is None else f"{value:.3f}"
    environment.filters["code"] = _code
    return environment


def _code(sentence: str) -> Markup:
    """What stands between backquotes as code."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(sentence))))  # noqa: S704  (escaped before)


def _asset(name: str) -> str:
    return files("ktiwprobe.views.page").joinpath("assets", name).read_text(encoding="utf-8")


def _scripts(*names: str) -> Markup:
    return Markup("\n".join(_asset(f"{name}.js") for name in names))  # noqa: S704  (our own files)


def describe(quantity: Quantity) -> dict[str, Any]:
    """What the scripts need to know of a quantity; log-odds are written as probabilities there."""
    unit = ", as a probability" if quantity.is_log_odds else ""
    about = {"symbol": quantity.symbol, "meaning": f"{quantity.meaning}{unit}", "scale": quantity.scale}
    return {**about, "peak": style.peak_meaning(quantity)}


def _css(curves: Sequence[Mapping[str, Any]] = ()) -> Markup:
    """The style sheet, after the colours that page, terminal and figures share, and the look of each curve."""
    pairs = {"ink": style.INK, "faint": style.FAINT, "background": style.BACKGROUND}
    pairs |= {"bar": style.Pair(style.SIGNED.light[6], style.SIGNED.dark[6])}
    pairs |= {"less": style.Pair(style.SIGNED.light[2], style.SIGNED.dark[2])}
    known = "".join(f"  --{name}: light-dark({pair.light}, {pair.dark});\n" for name, pair in pairs.items())
    lines = "".join(
        f"svg .curve{i} {{ --line: light-dark({line.light}, {line.dark}); }}\n"
        f"svg .line.curve{i} {{ stroke: var(--line); stroke-dasharray: {_dashes(line)}; }}\n"
        f"svg .dot.curve{i} {{ fill: var(--line); }}\n"
        for i, line in enumerate(Line(**curve["look"]) for curve in curves)
    )
    return Markup(f":root {{\n{known}}}\n{lines}{_asset('page.css')}")  # noqa: S704  (our own files)


def _dashes(line: Line) -> str:
    return " ".join(str(WIDE * part) for part in line.dash) or "none"


def _style() -> dict[str, Any]:
    """The colours of scales and marks, for the scripts."""
    scales = {"weights": style.WEIGHTS._asdict(), "signed": style.SIGNED._asdict()}
    return {**scales, "gold": style.LINK._asdict(), "halo": style.HALO._asdict(), "log_odds": style.LOG_ODDS}

"""Reading a SPEC: `[RUN:]SYMBOL[SITE][@STEP]`, a signal file, or `gold`.

SYMBOL is a probe's name and, after a dash, a suffix that picks the run: -hat for another seed, or a run kind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ktiwprobe.errors import SpecError, suggest
from ktiwprobe.plugins.quantities import GOLD
from ktiwprobe.plugins.registry import HAT, Registry
from ktiwprobe.signals.signal import SUFFIXES

FORM = re.compile(
    r"(?:(?P<run>.*):)?(?P<symbol>[^\[\]@:]+)(?:\[(?P<site>[^\[\]]+)\])?(?:@(?P<step>[^@\[\]:]+))?", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Spec:
    """A SPEC, read but not yet looked up."""

    text: str
    probe: str = ""
    run: str | None = None
    pick: str | None = None
    site: str | None = None
    step: str | None = None
    file: Path | None = None

    @property
    def gold(self) -> bool:
        """Whether it means the task's own alignment."""
        return self.text == GOLD.symbol

    @property
    def bare(self) -> bool:
        """Whether it is a symbol that names no run: neither RUN nor a suffix."""
        return not (self.gold or self.file or self.run or self.pick)


def read_spec(text: str, registry: Registry) -> Spec:
    """Read a SPEC. A SYMBOL begins with a probe's name, the longest that fits; its suffix is a run kind's, or -hat.

    RUN is all up to the last colon before SYMBOL, so a path may contain any of `@ [ ] :`.
    """
    if text == GOLD.symbol or text.endswith(SUFFIXES):
        return Spec(text, file=None if text == GOLD.symbol else Path(text))
    match = FORM.fullmatch(text)
    if not match:
        raise SpecError(f"{text!r} is not a SPEC: write [RUN:]SYMBOL[SITE][@STEP], a signal file, or gold")
    run, symbol = match["run"], match["symbol"]
    probes, picks = sorted(registry.names("probes"), key=len, reverse=True), (HAT, *registry.run_kinds())
    for probe in probes:
        pick = symbol.removeprefix(f"{probe}-")
        if symbol == probe or (pick != symbol and pick in picks):
            if run and pick in picks:
                raise SpecError(f"{text!r} names its run twice: leave out {run}: or -{pick}")
            return Spec(text, probe, run or None, pick if pick in picks else None, match["site"], match["step"])
    symbols = [*probes, *(f"{probe}-{pick}" for probe in probes for pick in picks)]
    near = suggest(symbol, symbols).partition(" known:")[0]
    raise SpecError(
        f"unknown symbol {symbol!r} in {text!r}{near} probes: {', '.join(sorted(probes))}; "
        f"suffixes: {', '.join(f'-{pick}' for pick in picks)}"
    )

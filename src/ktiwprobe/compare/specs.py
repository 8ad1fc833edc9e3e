"""Reading a SPEC: `[RUN:]SYMBOL[SITE][@STEP]`, a signal file, or `gold`.

SYMBOL is a probe's name and, after a dash, a suffix that picks the run: the paper's superscripts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ktiwprobe.errors import SpecError, suggest
from ktiwprobe.runs.groups import ATTENTIONS, STAND_INS
from ktiwprobe.signals.signal import SUFFIXES

PICKS = ("hat", *ATTENTIONS, *STAND_INS)
LEXICAL = ("beta", "gamma")  # what a model knows of single words: of another seed at the step that agrees best
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
        return self.text == "gold"

    @property
    def bare(self) -> bool:
        """Whether it is a symbol that names no run: neither RUN nor a suffix."""
        return not (self.gold or self.file or self.run or self.pick)


def read_spec(text: str, probes: Iterable[str]) -> Spec:
    """Read a SPEC; `probes` are the names a SYMBOL may begin with, the longest match wins.

    RUN is all up to the last colon before SYMBOL, so a path may contain any of `@ [ ] :`.
    """
    if text == "gold" or text.endswith(SUFFIXES):
        return Spec(text, file=None if text == "gold" else Path(text))
    match = FORM.fullmatch(text)
    if not match:
        raise SpecError(f"{text!r} is not a SPEC: write [RUN:]SYMBOL[SITE][@STEP], a signal file, or gold")
    run, symbol = match["run"], match["symbol"]
    known = sorted(probes, key=len, reverse=True)
    for probe in known:
        if symbol == probe or (symbol.startswith(f"{probe}-") and symbol.removeprefix(f"{probe}-") in PICKS):
            pick = symbol.removeprefix(probe).removeprefix("-") or None
            if run and pick:
                raise SpecError(f"{text!r} names its run twice: leave out {run}: or -{pick}")
            return Spec(text, probe, run or None, pick, match["site"], match["step"])
    symbols = [*known, *(f"{p}-{pick}" for p in known for pick in PICKS)]
    raise SpecError(f"unknown symbol {symbol!r} in {text!r}{suggest(symbol, symbols).partition(' known:')[0]} "
                    f"probes: {', '.join(sorted(known))}; suffixes: {', '.join(f'-{p}' for p in PICKS)}")  # fmt: skip

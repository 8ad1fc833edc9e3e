"""SPEC: how a user names a signal: `[RUN:]SYMBOL[SITE][@STEP]`, a signal file, or `gold`; read here, not looked up.

SYMBOL is a probe's name and, after a dash, a suffix that picks the run: the paper's superscripts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ktiwprobe.errors import SpecError, suggest
from ktiwprobe.signals import SUFFIXES

ATTENTIONS = {"uf": "uniform", "fr": "frozen-beta"}
STAND_INS = {"px": "bow-proxy", "ibm": "ibm1", "log": "logistic-regression"}  # models that take part beside the group's
PICKS = ("hat", *ATTENTIONS, *STAND_INS)
LEXICAL = ("beta", "gamma")


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


def read_spec(text: str, probes: Iterable[str]) -> Spec:
    """Read a SPEC; `probes` are the names a SYMBOL may begin with, the longest match wins."""
    if text == "gold" or text.endswith(SUFFIXES):
        return Spec(text, file=None if text == "gold" else Path(text))
    match = re.fullmatch(r"(?P<head>[^\[\]@]*)(?:\[(?P<site>[^\[\]]+)\])?(?:@(?P<step>[^@\[\]]+))?", text)
    if not match or not match["head"]:
        raise SpecError(f"{text!r} is not a SPEC: write [RUN:]SYMBOL[SITE][@STEP], a signal file, or gold")
    run, _, symbol = match["head"].rpartition(":")
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

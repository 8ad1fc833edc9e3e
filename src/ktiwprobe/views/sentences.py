"""One sentence as several probes see it: what terminal, figure and notebook show, each in its own way; numpy only."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ktiwprobe.compare.agreement import add_up
from ktiwprobe.compare.finder import Finder
from ktiwprobe.compare.metrics import Agreement
from ktiwprobe.errors import SpecError, UnknownNameError
from ktiwprobe.plugins.quantities import GOLD, ROLES, Quantity, Role
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.recording.recorder import recorded_sentences
from ktiwprobe.runs.listing import find_run
from ktiwprobe.runs.run import Run
from ktiwprobe.signals.signal import Signal

PAIRS: tuple[tuple[Role, Role], ...] = (
    ("attention", "knowledge"),
    ("attention", "saliency"),
    ("saliency", "knowledge"),
)  # the roles of the probes whose agreement is shown
ALL = "all"
ROUNDING, HALF_ROUNDING = 1e-3, 1e-2  # of the sum of a row, in single precision and in half precision
HALF_BITS = 0x1FFF  # of a float32's mantissa: those that neither float16 nor bfloat16 has


class Panel(NamedTuple):
    """The values of one probe, of one site where there are several."""

    probe: str
    site: str
    values: NDArray[np.float32]  # (T, L), NaN where a row may not look
    quantity: Quantity
    sink: NDArray[np.float64] | None = None  # (T,) weight of each row that is on no input; None: nothing to tell

    @property
    def title(self) -> str:
        """Its symbol, and its site where that has a name."""
        return f"{self.quantity.symbol} [{self.site}]" if self.site else self.quantity.symbol


class Match(NamedTuple):
    """In how many of a sentence's outputs u's peak is among v's highest."""

    u: str
    v: str
    hits: int
    rows: int


@dataclass(frozen=True, eq=False)
class Sentence:
    """A sentence at one step of a run."""

    run: str
    step: int
    split: str
    number: int
    of: int  # sentences in the split
    source: tuple[str, ...]  # (L,)
    target: tuple[str, ...]  # (T,)
    panels: tuple[Panel, ...]
    links: NDArray[np.int64] | None  # (n, 3): t, l, sure
    right: tuple[int, int]  # outputs that the model gets right, of all
    accuracy: float | None  # of the whole split
    matches: tuple[Match, ...]
    sites: tuple[str, ...]  # that there are to choose from


def see(
    extractor: Extractor, number: int, probes: Sequence[str] = (), *, at: int | str = "best", site: str = "mean"
) -> Sentence:
    """The `number`-th sentence at a step; `site` is one of the model's, `mean`, `max`, or `all` for a panel each."""
    run, step, part = extractor.run, extractor.step(at), extractor.part
    if not 0 <= number < len(part):
        raise UnknownNameError(f"sentence of the {extractor.split} split", str(number), [f"0 to {len(part) - 1}"])
    signals = {probe: extractor.peek(probe, step, number) for probe in probes or extractor.usual_probes()}
    several = next((signal for signal in signals.values() if len(signal.sites) > 1), None)
    if several is None and site != ALL:
        next(iter(signals.values())).one_site(site)  # refuses the name of a site that is not there
    source, target = extractor.tokens(number)
    return Sentence(
        run=run.name,
        step=step,
        split=extractor.split,
        number=number,
        of=len(part),
        source=tuple(source),
        target=tuple(target),
        panels=tuple(panel for probe, signal in signals.items() for panel in panels_of(probe, signal, site)),
        links=None if part.links is None else part.links[number],
        right=_right(extractor, step, number),
        accuracy=run.performance().get(step),
        matches=tuple(_matches(signals, _gold(extractor, number))),
        sites=() if several is None else several.sites,
    )


def _right(extractor: Extractor, step: int, number: int) -> tuple[int, int]:
    """Outputs that the model gets right, of all."""
    if extractor.run.recorded:
        return int(recorded_sentences(extractor.run, step)["right"][number]), int(extractor.part.y.lengths[number])
    correct, total, _ = extractor.model(step).evaluate(extractor.alone(number))
    return int(correct), int(total)


def run_to_show(finder: Finder, name: str | None) -> Run:
    """The run of that name; without one the group's main run, as `agree` takes it."""
    return find_run(finder.folder, name) if name else finder.main()


def new_steps(run: Run, *, pause: float = 1.0) -> Iterator[int]:
    """The newest evaluated step whenever there is a newer one, until nobody trains the run any more."""
    newest = -1
    while True:
        busy = run.busy()  # asked first: what is saved just before the end is not missed
        latest = max(run.performance(), default=-1)
        if latest > newest:
            newest = latest
            yield latest
        elif not busy:
            return
        else:
            time.sleep(pause)


def panels_of(probe: str, signal: Signal, site: str = "mean") -> list[Panel]:
    """The panels of a signal's only sentence."""
    sinks, quantity = weight_on_nothing(signal), signal.quantity
    if len(signal.sites) == 1:
        return [Panel(probe, "", signal[0], quantity, _told(sinks, 0))]
    if site == ALL:
        matrices = enumerate(zip(signal.sites, signal[0], strict=True))
        return [Panel(probe, name, matrix, quantity, _told(sinks, i)) for i, (name, matrix) in matrices]
    chosen = signal.one_site(site)
    sinks = None if sinks is None or site == "max" else _sinks_of_site(sinks, signal, site)
    return [Panel(probe, site, chosen[0], quantity, _told(sinks, 0))]


def weight_on_nothing(signal: Signal) -> NDArray[np.float64] | None:
    """How much weight each row leaves on no input, as under an attention sink: 1 - its sum. (S, rows)

    What is no more than rounding is 0. None where sums mean nothing: for values that are no weights, for the highest
    over sites, and over words, where special tokens are left out.
    """
    no_weights = not signal.quantity.is_weight or signal.quantity is GOLD
    if no_weights or signal.sites == ("max",) or signal.meta.get("level") == "word":
        return None
    before = np.pad(np.cumsum(signal.values, axis=1, dtype=np.float64), ((0, 0), (1, 0)))
    missing = 1 - np.diff(before[:, signal.starts], axis=1)
    rounding = ROUNDING if (signal.values.astype(np.float32).view(np.uint32) & HALF_BITS).any() else HALF_ROUNDING
    return np.where((signal.lengths > 0) & (missing > rounding), missing, 0.0)


def _sinks_of_site(sinks: NDArray[np.float64], signal: Signal, site: str) -> NDArray[np.float64]:
    """The sinks of one site, or their mean. (1, rows)"""
    if site == "mean":
        return np.asarray(sinks.mean(0, keepdims=True))
    which = signal.sites.index(site) if site in signal.sites else int(site)
    return np.asarray(sinks[which][None])


def _told(sinks: NDArray[np.float64] | None, site: int) -> NDArray[np.float64] | None:
    return None if sinks is None or not sinks[site].any() else sinks[site]


def _matches(signals: Mapping[str, Signal], gold: Signal | None) -> list[Match]:
    """How the probes of a sentence agree with each other, and with the known alignment."""
    of_role = {role: [name for name, signal in signals.items() if signal.quantity.role == role] for role in ROLES}
    pairs = [(u, v) for one, other in PAIRS for u in of_role[one] for v in of_role[other]]
    matches = [_match(signals[u], signals[v], Agreement()) for u, v in pairs]
    if gold is not None:
        # Of known links 5 % of a long row are all: its zeros tie. There only the links themselves count.
        judged = [*of_role["attention"], *of_role["knowledge"]]
        matches += [_match(signals[u], gold, Agreement(share=1e-6)) for u in judged]
    return matches


def _match(u: Signal, v: Signal, rule: Agreement) -> Match:
    sums = add_up(u, v, rule)
    return Match(u.quantity.symbol, v.quantity.symbol, int(sums.top.sum()), sums.rows)


def _gold(extractor: Extractor, number: int) -> Signal | None:
    try:
        return extractor.gold().only(number)
    except SpecError:  # the task knows none
        return None

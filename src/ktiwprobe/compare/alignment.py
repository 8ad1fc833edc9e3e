"""Word alignments of what SPECs mean, and how good they are: alignment error rate, precision, recall and F1."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ktiwprobe.compare.agreement import resamples
from ktiwprobe.compare.finder import Finder
from ktiwprobe.compare.linking import ONE_WAY, above, columns_linked, combine, read_method, rows_linked
from ktiwprobe.compare.specs import Spec, read_spec
from ktiwprobe.corpus.links import Links, read_links
from ktiwprobe.errors import CorpusError, SpecError, UnknownNameError, UsageError
from ktiwprobe.files.progress import SILENT, Progress
from ktiwprobe.plugins.quantities import GOLD
from ktiwprobe.plugins.registry import Registry, build_registry
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.runs.run import Run, runs_folder
from ktiwprobe.signals.pooling import LEVELS, over_words
from ktiwprobe.signals.signal import SUFFIXES, Signal

Floats = NDArray[np.float64]
MEASURES = ("aer", "precision", "recall", "f1")


@dataclass(frozen=True)
class Score:
    """An alignment A held to gold links, sure S and possible P (which includes S). All measures are in [0, 1].

    precision = |A & P| / |A|, recall = |A & S| / |S|, F1 their harmonic mean,
    AER = 1 - (|A & S| + |A & P|) / (|A| + |S|); intervals are of 95 %, sentences resampled; None where undefined.
    """

    aer: float | None
    precision: float | None
    recall: float | None
    f1: float | None
    ci: dict[str, tuple[float, float] | None]
    sentences: int
    links: int
    sure: int
    possible: int  # possible only
    name: str = "links"
    gold: str = GOLD.symbol

    def to_dict(self) -> dict[str, Any]:
        """What `align --format json` prints."""
        record = {"alignment": self.name, **asdict(self)}
        ci = {f"{name}_ci": list(pair) if pair else None for name, pair in record.pop("ci").items()}
        return {**{name: record[name] for name in record if name != "name"}, **ci}


def score(links: Links, gold: Links) -> Score:
    """How good links are, where `gold` has the human ones of the same sentence pairs."""
    _check_same_pairs(links, gold)
    counts = _counts(links, gold)
    found = dict(zip(MEASURES, measures(counts.sum(0)), strict=True))
    _, sure, _, _ = counts.sum(0)
    return Score(
        **{name: None if np.isnan(value) else float(value) for name, value in found.items()},
        ci=_intervals(counts),
        sentences=len(links),
        links=len(links.cells.values),
        sure=int(sure),
        possible=len(gold.cells.values) - int(sure),
        name=links.name,
        gold=gold.name,
    )


def _check_same_pairs(links: Links, gold: Links) -> None:
    """Refuse gold of other sentence pairs, as far as it can be told."""
    if len(links) != len(gold):
        raise CorpusError(
            f"{gold.name} has {len(gold)} sentence pairs and {links.name} has {len(links)}: they must be the same "
            "ones; is it the right split?",
            hint="split=test",
        )
    if links.text is None:
        return
    gold.check_inside(*(np.array([len(words) for words in side]) for side in links.text))
    if gold.text is not None:
        for row in range(len(links)):
            for ours, theirs in zip(links.text, gold.text, strict=True):
                if tuple(ours[row]) != tuple(theirs[row]):
                    raise CorpusError(
                        f"sentence {row} of {gold.name} is {' '.join(theirs[row])[:60]!r} and of {links.name} "
                        f"{' '.join(ours[row])[:60]!r}: is it the right split, and the right direction?"
                    )


def _counts(links: Links, gold: Links) -> Floats:
    """|A|, |S|, |A & S| and |A & P| of each sentence. (sentences, 4)"""
    sure = gold.cells.values[:, 2] == 1
    found = np.isin(gold.keys(links), links.keys(gold))
    chosen = (links.sentence, gold.sentence[sure], gold.sentence[sure & found], gold.sentence[found])
    return np.stack([np.bincount(sentence, minlength=len(links)) for sentence in chosen], 1).astype(np.float64)


def measures(counts: Floats) -> Floats:
    """AER, precision, recall and F1 of |A|, |S|, |A & S|, |A & P|; NaN where undefined. (..., 4) -> (4, ...)"""
    a, s, a_s, a_p = np.moveaxis(counts, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        precision, recall = a_p / a, a_s / s
        return np.stack([1 - (a_s + a_p) / (a + s), precision, recall, 2 / (1 / precision + 1 / recall)])


def _intervals(counts: Floats) -> dict[str, tuple[float, float] | None]:
    if len(counts) < 2:
        return dict.fromkeys(MEASURES)
    drawn = np.concatenate([measures(weights @ counts) for weights in resamples(len(counts))], 1)  # (4, resamples)
    found: dict[str, tuple[float, float] | None] = {}
    for name, values in zip(MEASURES, drawn, strict=True):
        known = values[~np.isnan(values)]
        low, high = np.percentile(known, (2.5, 97.5)) if len(known) else (np.nan, np.nan)
        found[name] = (float(low), float(high)) if len(known) else None
    return found


def align(
    u: str | Signal | Links,
    v: str | Signal | Links | None = None,
    method: str | None = None,
    *,
    aligner: Aligner | None = None,
    **wishes: Any,
) -> Links:
    """Links between the words of a split, from u or from u and v, which translates back.

    `method` is one of linking.METHODS: by default argmax, with v grow-diag-final-and. `wishes` are those of Aligner.
    """
    name, at = read_method(method or ("argmax" if v is None else "grow-diag-final-and"))
    if v is not None and name in ONE_WAY:
        raise UsageError(f"method {name!r} reads one direction: leave v out, or choose mutual or grow-diag-final-and")
    aligner = aligner or Aligner(**wishes)
    forward = aligner.find(u)
    if at is not None:
        return _above(forward, at).named(f"{forward.name} {method}")
    first = forward if isinstance(forward, Links) else rows_linked(forward)
    if name == "argmax":
        return first if isinstance(forward, Links) else first.named(f"{first.name} {name}")
    second = _backward(forward, None if v is None else aligner.find(v))
    both = first.name if v is None else f"{first.name} + {second.name}"
    return combine(first, second, name).named(f"{both} {name}")


def _above(forward: Signal | Links, at: float) -> Links:
    if isinstance(forward, Links):
        raise UsageError(f"{forward.name} has links already: a threshold needs a signal")
    return above(forward, at)


def _backward(forward: Signal | Links, back: Signal | Links | None) -> Links:
    """The other direction: of links as they are, of a signal that translates back, or of u's own columns."""
    if isinstance(back, Links):
        return back
    if back is not None:
        _check_back(forward, back)
        return rows_linked(back).reversed()
    if isinstance(forward, Links):
        raise UsageError(f"{forward.name} is one direction: pass the other with v")
    return columns_linked(forward)


def _check_back(forward: Signal | Links, back: Signal) -> None:
    """v must have u's target words as its inputs."""
    if len(forward) != len(back):
        raise CorpusError(f"{forward.name} has {len(forward)} sentence pairs and {back.name} has {len(back)}")
    if isinstance(forward, Signal) and forward.text and back.text:
        for row in range(len(back)):
            (x, y), (back_x, back_y) = forward.text(row), back.text(row)
            if (tuple(x), tuple(y)) != (tuple(back_y), tuple(back_x)):
                raise CorpusError(
                    f"{back.name} is not the way back of {forward.name}: sentence {row} is from "
                    f"{' '.join(back_x)[:60]!r} to {' '.join(back_y)[:60]!r}; train v with -o reverse=true"
                )


class Aligner:
    """Finds what is to be aligned: SPECs among runs, signals from files, links from files."""

    def __init__(
        self,
        *,
        level: str = "word",
        task: str | None = None,
        split: str = "validation",
        runs: str | Path | None = None,
        device: str = "auto",
        registry: Registry | None = None,
        progress: Progress = SILENT,
    ) -> None:
        if level not in LEVELS:
            raise UnknownNameError("level", level, LEVELS)
        self.level, self.registry = level, registry or build_registry()
        self._run: Run | None = None
        self.finder = Finder(runs_folder(runs), self.registry, task=task, split=split, device=device, progress=progress)

    def find(self, what: str | Signal | Links) -> Signal | Links:
        """A signal over words (or over tokens that are of a word), or links."""
        if isinstance(what, Links):
            return what
        if isinstance(what, Signal):
            return self._pooled(what)
        if not what.endswith(SUFFIXES) and Path(what).is_file():
            return read_links(Path(what))
        spec = read_spec(what, self.registry)
        if spec.file:
            return self._pooled(self.finder.load(spec.file))
        if spec.gold:
            return self.gold()
        self._run = self._run or self.finder.run_of(spec)
        (signal,) = self.finder.signals(self._one_step(spec))
        return self._pooled(signal)

    def _extractor(self) -> Extractor:
        """Of the run that was found first, else of the latest: whose words and gold are meant where no run is named."""
        return self.finder.extractor(self._run or self.finder.group()[-1])

    def gold(self, path: str = GOLD.symbol, *, index: int = 0, reverse: bool = False) -> Links:
        """Gold links from a file, or the task's own; `reverse` if the file has the target's words first."""
        if path != GOLD.symbol:
            links = read_links(Path(path), index=index)
            return links.reversed() if reverse else links
        signal = self._pooled(self._extractor().gold()).one_site()
        links = above(signal, 0.5)
        values = links.cells.values
        row = signal.first_rows[links.sentence] + values[:, 1]
        sure = signal.values[0][signal.starts[row] + values[:, 0]] == 1
        cells = np.stack([*values.T[:2], sure.astype(np.int64)], 1)
        return Links.at(links.sentence, cells, len(links), GOLD.symbol, links.text)

    def _one_step(self, spec: Spec) -> Spec:
        """Alignments are of one checkpoint."""
        if spec.step == "max":
            raise SpecError(
                f"{spec.text} is many checkpoints, and an alignment is of one: write @best, @last or a step"
            )
        return replace(spec, step="best") if self.finder.step_of(spec) == "max" else spec

    def _pooled(self, signal: Signal) -> Signal:
        if signal.meta.get("level") == "word":
            return signal
        words = signal.words or (lambda: self._extractor().words)
        if self.level == "token":
            return over_words(replace(signal, words=lambda: words().by_token()))
        return over_words(replace(signal, words=words))

"""Signals as a page holds them: for chosen sentences, one byte a cell and the two ends of each row; numpy only.

A sentence is a full T x L block, the blocks end to end; `codes` has one such line for each step and site. A value is
low + code / 253 * (high - low) of its row, so off by at most 1/506 of the row's range; 254 is -inf, 255 a cell that
the row may not look at.

Two facts about rows cannot be read from codes and are kept beside them, two bytes a row: `peaks`, the input with the
highest value (two cells may have the same code), and `sinks`, the weight that is on no input (rounding adds up). They
have a line for each step and site and, where there are several sites, one for their mean and one for their highest.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ktiwprobe.signals.signal import Signal
from ktiwprobe.views.sentences import weight_on_nothing

FINEST, NEVER, UNSEEN = 253, 254, 255
BYTES_A_ROW = 10  # its two ends, and where its peak is
NO_PEAK = 0xFFFF  # of a row that says nothing
WHOLE = 0xFFFF  # what stands for a weight of 1

Codes = NDArray[np.uint8]
Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the cells of the chosen sentences are in a signal, and where they go in the page."""

    signal: Signal
    sentences: NDArray[np.int64]  # (n,) which are chosen
    widths: NDArray[np.int64]  # (n,) L of each

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """(R,) the chosen rows of the signal."""
        return _ranges(self.signal.first_rows[self.sentences], self.signal.rows[self.sentences].astype(np.int64))

    @cached_property
    def row_starts(self) -> NDArray[np.int64]:
        """(R + 1,) where each row begins in a line of the page."""
        wide = np.repeat(self.widths, self.signal.rows[self.sentences])
        return np.concatenate([[0], np.cumsum(wide, dtype=np.int64)])

    @cached_property
    def cells(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where each cell is in the signal, and where it goes."""
        lengths = self.signal.lengths[self.rows].astype(np.int64)
        here = _ranges(self.signal.starts[self.rows], lengths)
        return here, np.repeat(self.row_starts[:-1], lengths) + self.signal.positions[here]

    def dense(self) -> Floats:
        """The chosen sentences as full blocks, NaN where a row may not look. (S, cells of the page)"""
        here, there = self.cells
        blocks = np.full((len(self.signal.sites), self.row_starts[-1]), np.nan, np.float32)
        blocks[:, there] = self.signal.values[:, here]
        return blocks


def pack(signals: Sequence[Signal], sentences: NDArray[np.int64], widths: NDArray[np.int64]) -> dict[str, Any]:
    """One probe at several steps, for the page: its sites, codes, row ends, peaks and, if it has any, sinks."""
    layout = Layout(signals[0], sentences, widths)
    # A sparse attention may look elsewhere at each step, so each signal has cells of its own in the same rows.
    blocks = [Layout(signal, sentences, widths).dense() for signal in signals]
    codes, ends = (np.stack(parts) for parts in zip(*(quantise(b, layout.row_starts) for b in blocks), strict=True))
    peaks = np.stack([peaks_of(_with_pools(b), layout.row_starts) for b in blocks])
    packed = {"sites": list(signals[0].sites), "codes": _text(codes), "ends": _text(ends.astype("<f4"))}
    packed["peaks"] = _text(peaks.astype("<u2"))
    sinks = [weight_on_nothing(signal) for signal in signals]
    if any(sink is not None and sink[:, layout.rows].any() for sink in sinks):
        kept = np.stack([_with_pools(sink[:, layout.rows]) for sink in sinks if sink is not None])
        packed["sinks"] = _text(np.rint(kept.clip(0, 1) * WHOLE).astype("<u2"))
    return packed


def _with_pools(of_sites: NDArray[Any]) -> NDArray[Any]:
    """Lines of sites and, if there are several, their mean and their highest. (S or S + 2, ...)"""
    if len(of_sites) == 1:
        return of_sites
    return np.concatenate([of_sites, of_sites.mean(0, keepdims=True), of_sites.max(0, keepdims=True)])


def peaks_of(blocks: Floats, row_starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the highest value of each row is, the first of equals; NO_PEAK where a row has none. (S, R)"""
    wide = np.diff(row_starts)
    place = np.arange(row_starts[-1]) - np.repeat(row_starts[:-1], wide)
    highest = np.repeat(np.fmax.reduceat(blocks, row_starts[:-1], axis=1), wide, axis=1)
    at_peak = (blocks == highest) & np.isfinite(blocks)
    peaks: NDArray[np.int64] = np.minimum.reduceat(np.where(at_peak, place, NO_PEAK), row_starts[:-1], axis=1)
    return peaks


def quantise(blocks: Floats, row_starts: NDArray[np.int64]) -> tuple[Codes, Floats]:
    """Codes (S, cells) and the lowest and highest finite value of each row (S, R, 2); 0 and 0 where there is none."""
    finite = np.where(np.isfinite(blocks), blocks, np.nan)
    low, high = (np.nan_to_num(f.reduceat(finite, row_starts[:-1], axis=1)) for f in (np.fmin, np.fmax))
    wide = np.diff(row_starts)
    span = np.repeat(high - low, wide, axis=1)
    share = np.divide(finite - np.repeat(low, wide, axis=1), span, out=np.zeros_like(finite), where=span > 0)
    codes = np.rint(np.nan_to_num(share) * FINEST).astype(np.uint8)
    codes[np.isneginf(blocks)] = NEVER
    codes[np.isnan(blocks)] = UNSEEN
    return codes, np.stack([low, high], -1)


def restore(codes: Codes, ends: Floats, row_starts: NDArray[np.int64]) -> Floats:
    """What the page shows for the codes of `quantise`. (S, cells)"""
    low, high = (np.repeat(ends[..., i], np.diff(row_starts), axis=1) for i in (0, 1))
    values = low + codes.astype(np.float32) / FINEST * (high - low)
    return np.where(codes == UNSEEN, np.nan, np.where(codes == NEVER, -np.inf, values)).astype(np.float32)


def weight(heights: NDArray[np.int64], widths: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many bytes sentences take for one probe, step and site, before base64."""
    return heights * (widths + BYTES_A_ROW)


def _ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Whole numbers from each start on, `counts` of them, end to end."""
    before = np.cumsum(counts) - counts
    places: NDArray[np.int64] = np.arange(counts.sum()) + np.repeat(starts - before, counts)
    return places


def _text(array: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()

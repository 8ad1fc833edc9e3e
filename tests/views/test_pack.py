"""Signals in one byte a cell: what comes out is what went in, but for 1/506 of a row's range."""

from __future__ import annotations

import base64
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ktiwprobe import build_registry
from ktiwprobe.signals.signal import make_signal
from ktiwprobe.views.page.pack import NO_PEAK, Layout, pack, quantise, restore, weight

VALUES = st.floats(-1e4, 1e4, width=32) | st.just(-np.inf) | st.just(np.nan)


@given(arrays(np.float32, (2, 12), elements=VALUES))
def test_no_value_is_off_by_more_than_its_row_allows(blocks):
    """Finite values return within 1/506 of their row's range, -inf and unseen cells exactly."""
    starts = np.array([0, 4, 5, 12])
    back = restore(*quantise(blocks, starts), starts)
    assert (np.isneginf(back) == np.isneginf(blocks)).all()
    assert (np.isnan(back) == np.isnan(blocks)).all()
    for row in (slice(0, 4), slice(4, 5), slice(5, 12)):
        for old, new in zip(blocks[:, row], back[:, row], strict=True):
            finite = old[np.isfinite(old)]
            if len(finite):
                assert np.abs(finite - new[np.isfinite(old)]).max() <= np.ptp(finite) / 506 * 1.001 + 1e-3


def test_peaks_stay_peaks():
    """The highest value of a row has the highest code, and no other row's size changes that."""
    rng = np.random.default_rng(0)
    blocks = rng.normal(size=(1, 60)).astype(np.float32) * np.repeat([1e-3, 1, 1e3], 20)[None].astype(np.float32)
    codes, ends = quantise(blocks, np.array([0, 20, 40, 60]))
    assert (codes.reshape(3, 20).argmax(1) == blocks.reshape(3, 20).argmax(1)).all()
    assert (ends[0, :, 1] == blocks.reshape(3, 20).max(1)).all()


def ragged() -> tuple:
    """A causal signal with two sites: row t sees inputs up to t; sentences of 2 and 3."""
    lengths = np.array([1, 2, 1, 2, 3])
    columns = np.concatenate([np.arange(n) for n in lengths])
    values = np.stack([np.arange(9.0), -np.arange(9.0)])
    return make_signal(values, lengths, np.array([2, 3]), columns, ("a", "b"))


def test_a_sentence_is_a_full_block():
    """A chosen sentence is laid out as T x L, as indexing the signal gives it, whatever else is chosen."""
    signal = ragged()
    blocks = Layout(signal, np.array([1]), np.array([3])).dense()
    np.testing.assert_array_equal(blocks.reshape(2, 3, 3), signal[1])
    both = Layout(signal, np.array([0, 1]), np.array([2, 3])).dense()
    np.testing.assert_array_equal(both[:, 4:], blocks)
    np.testing.assert_array_equal(both[:, :4].reshape(2, 2, 2), signal[0])


def test_what_a_page_holds():
    """Codes are steps x sites x cells in base64, and their size is what the budget counts."""
    signal = ragged()
    sentences, widths = np.array([0, 1]), np.array([2, 3])
    packed = pack([signal, signal, signal], sentences, widths)
    assert packed["sites"] == ["a", "b"]
    codes, ends, peaks = (base64.b64decode(packed[key]) for key in ("codes", "ends", "peaks"))
    assert len(codes) == 3 * 2 * (4 + 9)
    of_pools = 3 * 2 * 5 * 2  # bytes of the peaks of mean and highest
    assert len(codes) + len(ends) + len(peaks) - of_pools == 3 * 2 * weight(np.array([2, 3]), widths).sum()
    assert "sinks" not in packed


def test_a_peak_is_of_the_values_not_of_their_codes():
    """Two values with the same code: the peak is where the higher one is; a silent row has none."""
    values = np.array([0.0, 1.0, 1.0001, -5.0, -np.inf, -np.inf])
    signal = make_signal(values, np.array([4, 2]), np.array([2]), np.array([0, 1, 2, 3, 0, 1]))
    packed = pack([signal], np.array([0]), np.array([4]))
    codes = np.frombuffer(base64.b64decode(packed["codes"]), np.uint8)
    assert codes[1] == codes[2]
    assert np.frombuffer(base64.b64decode(packed["peaks"]), "<u2").tolist() == [2, NO_PEAK]


def test_peaks_of_sites_and_of_their_pools():
    """A line for each site, their mean and their highest, as numpy finds them."""
    values = np.random.default_rng(0).normal(size=(3, 20)).astype(np.float32)
    signal = make_signal(values, np.full(4, 5), np.array([4]), sites=("a", "b", "c"))
    packed = pack([signal], np.array([0]), np.array([5]))
    peaks = np.frombuffer(base64.b64decode(packed["peaks"]), "<u2").reshape(5, 4)
    lines = [*values, values.mean(0), values.max(0)]
    assert peaks.tolist() == [line.reshape(4, 5).argmax(1).tolist() for line in lines]


def test_sinks_are_kept_exactly_where_there_are_any():
    """The weight on nothing of the chosen sentences, to 1/65535; the sum of codes would be off by more."""
    values = np.array([0.7, 0.25, 0.3, 0.1, 0.5, 0.5])
    alpha, delta = (build_registry().quantity(name) for name in ("alpha", "delta"))
    signal = replace(make_signal(values, np.array([2, 2, 2]), np.array([1, 1, 1])), quantity=alpha)
    packed = pack([signal], np.array([1, 2]), np.array([2, 2]))
    sinks = np.frombuffer(base64.b64decode(packed["sinks"]), "<u2") / 65535
    np.testing.assert_allclose(sinks, [0.6, 0.0], atol=1e-5)
    assert "sinks" not in pack([signal], np.array([2]), np.array([2]))
    assert "sinks" not in pack([replace(signal, quantity=delta)], np.array([1]), np.array([2]))


def test_each_step_keeps_its_own_cells() -> None:
    """Where a sparse attention looks at other inputs at another step, values stay with their inputs."""
    cells = ([0, 2], [1, 2])
    signals = [make_signal(np.array([5.0, 7.0]), np.array([2]), np.array([1]), np.array(c)) for c in cells]
    blocks = [Layout(signal, np.array([0]), np.array([3])).dense()[0] for signal in signals]
    np.testing.assert_array_equal(blocks[0], [5.0, np.nan, 7.0])
    np.testing.assert_array_equal(blocks[1], [np.nan, 5.0, 7.0])
    codes = pack(signals, np.array([0]), np.array([3]))["codes"]
    assert codes != pack([signals[0]] * 2, np.array([0]), np.array([3]))["codes"]

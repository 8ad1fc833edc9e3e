"""Warnings: each is there where it should be, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ktiwprobe import Signal, build_registry, extract, train
from ktiwprobe.compare.caveats import FLAT, best_is_first, flat_rows, flat_share, never_rose
from ktiwprobe.plugins.registry import Registry
from ktiwprobe.signals.signal import make_signal

SIZES = {"hidden": 24, "layers": 1, "task.train": 400, "task.validation": 30, "task.test": 4}


def rows(*values: list[float], probe: str = "beta") -> Signal:
    """A signal of one sentence."""
    lengths = np.array([len(row) for row in values])
    flat = np.array([value for row in values for value in row], float)
    signal = make_signal(flat, lengths, np.array([len(values)]), meta={"name": "m:beta@3", "probe": probe})
    return replace(signal, quantity=build_registry().quantity(probe))


def test_a_row_is_flat_where_no_input_doubles_the_odds() -> None:
    """The spread of log-odds counts, wherever they lie; one input, or -inf throughout, does not count."""
    never = -np.inf
    for low in (-20.0, 0.0, 3.0):
        assert flat_share(rows([low, low + 0.9 * FLAT], [low, low])) == 1.0
        assert flat_share(rows([low, low + 1.1 * FLAT], [low, low])) == 0.5
    assert flat_share(rows([1.0], [never, never], [0.0, 9.0])) == 0.0
    assert flat_share(rows([never, 0.0])) == 0.0  # what is impossible from one input is not from another
    assert flat_share(rows([1.0], [never, never])) is None


def test_only_log_odds_can_be_flat() -> None:
    """Weights of attention lie close together by nature; half of the rows are not most."""
    assert flat_rows(rows([0.1, 0.2])) is not None
    assert flat_rows(rows([0.1, 0.2], probe="alpha")) is None
    assert flat_rows(rows([0.1, 0.2], [0.0, 5.0])) is None
    assert flat_rows(rows([1.0])) is None


@pytest.mark.parametrize(("model", "steps"), [("lstm-seq2seq", 250), ("lstm-classifier", 120)])
def test_trained_and_untrained_models_are_told_apart(
    model: str, steps: int, tiny_registry: Registry, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Most rows of an untrained model are flat, few of a trained one: only the untrained one is warned of."""
    options = SIZES if model == "lstm-seq2seq" else {k: v for k, v in SIZES.items() if k != "layers"}
    options = {**options, "checkpoints": f"every:{steps}", "lr": 0.01}
    runs = tmp_path_factory.mktemp("flat")
    run = train(model, steps=steps, options=options, runs=runs, registry=tiny_registry, device="cpu")
    first, last = (extract(run, "beta", at=step, registry=tiny_registry) for step in (0, steps))
    assert flat_rows(first) is not None
    assert flat_rows(last) is None
    share = flat_share(last)
    assert share is not None
    assert share < 0.25


def test_a_best_first_checkpoint_needs_later_ones() -> None:
    """A run of one checkpoint, as of a pretrained model, is nothing to warn of."""
    assert best_is_first("m", "accuracy", 0, [0]) is None
    assert best_is_first("m", "accuracy", 10, [0, 10]) is None
    assert "at step 0, before any update: none of its 2 later" in str(best_is_first("m", "loss", 0, [0, 10, 20]))
    one = "at step 5, its first checkpoint: its one later checkpoint is not better"
    assert one in str(best_is_first("m", "loss", 5, [5, 10]))
    assert never_rose("m", {0: 0.5}) is never_rose("m", {}) is never_rose("m", {0: 0.5, 1: 0.4, 2: 0.6}) is None
    assert never_rose("m", {10: 0.5, 20: 0.5}) is not None

"""Which step of a curve is the best."""

import pytest

from ktiwprobe.errors import RunError
from ktiwprobe.runs.best import best_of


def test_the_best_step_is_the_earliest_of_equals() -> None:
    """Highest accuracy or BLEU, lowest loss or perplexity."""
    curve = {30: 0.2, 0: 0.1, 20: 0.5, 10: 0.5, 40: 0.1}
    assert best_of(curve, "accuracy", "r") == best_of(curve, "bleu", "r") == 10
    assert best_of(curve, "loss", "r") == best_of(curve, "perplexity", "r") == 0


def test_an_empty_curve_has_no_best_step() -> None:
    """The sentence names the run."""
    with pytest.raises(RunError, match="run t/r has no evaluated checkpoint"):
        best_of({}, "accuracy", "t/r")

"""Which checkpoint of a run is the best: the measures of the log, and the one rule that picks a step by one of them."""

from collections.abc import Mapping

from ktiwprobe.errors import RunError

MEASURES = ("accuracy", "loss", "perplexity")  # of every line of the log
LOWER_IS_BETTER = ("loss", "perplexity")


def best_of(curve: Mapping[int, float], measure: str, name: str) -> int:
    """The step at which `curve` (step -> measure) of run `name` is best, the earliest of equals."""
    if not curve:
        raise RunError(f"run {name} has no evaluated checkpoint: resume its training", hint="resume=True")
    sign = -1 if measure in LOWER_IS_BETTER else 1
    return max(curve, key=lambda step: (sign * curve[step], -step))

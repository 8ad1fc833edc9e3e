"""The steps at which the paper keeps checkpoints."""

from collections.abc import Iterable
from itertools import chain, count


def translation() -> Iterable[int]:
    """Appendix, Translation Evaluation."""
    return chain((0, 50, 100, 500, 1000, 1500), count(2000, 2000))


def classification() -> Iterable[int]:
    """Appendix, Classification Evaluation."""
    return chain((0, 10, 50, 100, 150, 200), count(250, 250))

"""What a task must find on this machine, and the figures by which data is known to be the right one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ktiwprobe.corpus.corpus import Corpus
from ktiwprobe.corpus.ragged import Ragged
from ktiwprobe.corpus.tokens import TokenRoles


@dataclass(frozen=True)
class DataNeeds:
    """What a task must find on this machine before it can be loaded; a task that needs nothing has no `needs`."""

    name: str  # of the data set, and of its folder
    folder: Path | None  # where it is; None if it is not here
    files: tuple[str, ...]
    columns: tuple[str, ...]
    fetch: Callable[[], Path] | None = None  # brings it from the hub
    note: str = ""  # how it differs from what a paper used
    paper: Mapping[str, float] = field(default_factory=dict)  # what a paper says of it: keys of `statistics`


def statistics(corpus: Corpus) -> dict[str, float]:
    """Examples of each split, the median length of inputs (of both sides in translation), and words known."""
    found: dict[str, float] = {}
    for name in ("train", "validation"):
        split = corpus.split(name)
        found[f"{name} examples"] = len(split)
        found[f"{name} length"] = _median_length(split.x, corpus.roles("source"))
        if corpus.kind == "translation":
            found[f"{name} target length"] = _median_length(split.y, corpus.roles("target"))
    return {**found, "vocabulary": corpus.source_size}


def _median_length(rows: Ragged, roles: TokenRoles) -> float:
    """Tokens of words in the median row: <s>, </s> and their like do not count."""
    return float(np.median(np.add.reduceat(roles.is_word(rows.values), rows.offsets[:-1], dtype=np.int64)))

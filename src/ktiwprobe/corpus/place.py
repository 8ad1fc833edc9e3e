"""Where data sets are looked for: a folder chosen for a while, else the environment variable KTIWPROBE_DATA."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

_chosen: ContextVar[Path | None] = ContextVar("folder of data sets", default=None)


def data_folder() -> Path | None:
    """The folder that holds a folder for each data set; None if nobody chose one."""
    given = os.environ.get("KTIWPROBE_DATA")
    return _chosen.get() or (Path(given).absolute() if given else None)


@contextlib.contextmanager
def data_in(folder: str | Path | None) -> Iterator[None]:
    """Let tasks look in `folder`, in this thread and in the workers of sweeps begun meanwhile; None changes nothing."""
    token = _chosen.set(Path(folder).absolute() if folder is not None else _chosen.get())
    try:
        yield
    finally:
        _chosen.reset(token)

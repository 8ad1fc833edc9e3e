"""What a run's corpus is made from: files whose size and time of change say whether it must be made to be compared.

A corpus that is made quickly is made and compared each time; only of a slow one are its files kept with the run.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ktiwprobe.errors import KtiwprobeError
from ktiwprobe.files import storage
from ktiwprobe.plugins.capabilities import NeedsData, supports
from ktiwprobe.plugins.options import as_dict
from ktiwprobe.runs.recipe import Recipe
from ktiwprobe.runs.run import Run

QUICK = 0.1  # seconds in which a corpus is rather made than its files looked at


def sources_of(recipe: Recipe) -> dict[str, list[int]]:
    """Size and time of change of the task's and the model's code, of the task's data and of files named by options."""
    return {str(path): [path.stat().st_size, path.stat().st_mtime_ns] for path in sorted(set(_files(recipe)))}


def are_unchanged(run: Run, recipe: Recipe) -> bool:
    """Whether the corpus was slow to make and its files are those of which it was last made and compared."""
    return bool(_kept(run) == sources_of(recipe))


def keep_sources(run: Run, recipe: Recipe, seconds: float) -> None:
    """Keep the files of the run's corpus, which took `seconds` to make, if that is slow; the run may be read-only."""
    if seconds > QUICK and not are_unchanged(run, recipe):
        with contextlib.suppress(OSError, KtiwprobeError):
            storage.write_json(run.sources_path, sources_of(recipe))


def corpus_key(run: Run) -> str:
    """Equal for runs whose corpora are made in one way and had the same contents."""
    record = run.record
    options = [record.options.get(space) for space in ("task", "model")]
    return json.dumps([record.task, record.model, options, record.corpus], sort_keys=True)


def _kept(run: Run) -> Any:
    with contextlib.suppress(KtiwprobeError):
        return storage.read_json(run.sources_path)
    return None


def _files(recipe: Recipe) -> Iterator[Path]:
    task: Any = recipe.registry.load("tasks", recipe.task)
    model: Any = recipe.registry.load("models", recipe.model)
    modules = [sys.modules.get(owner.__module__) for owner in (task, model)]
    named: list[Any] = [module.__file__ for module in modules if module is not None]
    named += [*as_dict(recipe.task_options).values(), *as_dict(recipe.model_options).values()]
    made = task()
    if supports(made, NeedsData):
        named.append(made.needs().folder)
    for name in named:
        path = Path(name) if isinstance(name, (str, Path)) and str(name) else None
        with contextlib.suppress(OSError):  # too long for a path, or not to be read
            if path is not None and path.exists():
                yield from (part for part in (path.iterdir() if path.is_dir() else [path]) if part.is_file())

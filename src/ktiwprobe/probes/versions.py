"""Versions of probes and models: a stored number does not outlive a mistake in what made it.

Whoever changes what a probe or a model's own ways to it mean counts up its `version`; numbers of another version are
computed anew. Those of a recorded run cannot be, so older ones are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ktiwprobe.errors import KtiwprobeError, RunError
from ktiwprobe.files import storage
from ktiwprobe.plugins.capabilities import name_of, version_of
from ktiwprobe.plugins.registry import Registry
from ktiwprobe.runs.run import Run


def version_now(run: Run, registry: Registry) -> int | None:
    """The version that the class of the run's model has now; None where that class is not registered.

    The model of a recorded run is named by its user, so its class is looked up by its own name.
    """
    models = registry.entries["models"]
    if not run.recorded:
        entry = models.get(run.record.model)  # gone with its plugin, perhaps
        return version_of(entry.load()) if entry else None
    name = run.record.owners["model"]
    for entry in models.values():
        target = entry.target
        own = target.partition(":")[2] if isinstance(target, str) else name_of(target)
        if own == name:
            return version_of(entry.load())
    return None


def is_current(stored: Sequence[int], now: Sequence[int | None]) -> bool:
    """Whether numbers are of the versions that there are now; one that cannot be asked is believed."""
    return len(stored) == len(now) and all(b is None or a == b for a, b in zip(stored, now, strict=True))


def refuse_outdated(run: Run, path: Path, now: Sequence[int | None]) -> None:
    """Refuse what was recorded by an older version of the probe or of the model: it cannot be computed again."""
    try:
        stored = storage.read_meta(path).get("version", [version_of.default] * 2)
    except (KtiwprobeError, OSError):  # missing or damaged
        return
    for what, name, then, current in zip(
        ("probe", "model"), (path.stem, run.record.owners["model"]), stored, now, strict=False
    ):
        if current is not None and then < current:
            raise RunError(
                f"{path.stem} of {run.name} was recorded by version {then} of the {what} {name}, which is now "
                f"{current}: the older one had a mistake, and what was recorded cannot be computed again; record the "
                f"run anew (the old numbers can still be read as a signal file, {path})"
            )

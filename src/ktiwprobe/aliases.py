"""Modules of version 0.1 under the names they had; gone in 0.3.

`ktiwprobe` imports this module once, to let Python find the old names. Nothing else does. Importing from an old name
works and warns: the message says where the name is defined now.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any

MOVED = {
    "address": ("compare.finder", "compare.specs"),
    "agreement": ("compare.agreement",),
    "alignment": ("compare.alignment",),
    "cli.progress": ("views.progress",),
    "extraction": ("probes.extraction",),
    "figures": ("views.figures",),
    "hookspecs": ("plugins.hookspecs",),
    "metrics": ("compare.metrics",),
    "probes": ("models.scoring", "probes.definitions"),
    "report": ("views.page",),
    "run": ("runs.run", "runs.listing", "runs.best"),
    "sweep": ("training.sweep",),
    "tables": ("views.tables",),
}
PACKAGES = ("probes",)  # an old module that is a package now: only the names in it are old


def old_name(module: str, name: str) -> Any:
    """What `name` of the old module is now; warns the code that asks."""
    for home in () if name.startswith("__") else MOVED[module]:
        new = import_module(f"ktiwprobe.{home}")
        if hasattr(new, name):
            message = f"ktiwprobe.{module}.{name} has moved: import it from ktiwprobe.{home}"
            asking = _asking()
            place = asking.f_code.co_filename, asking.f_lineno, asking.f_globals.get("__name__")
            warned = asking.f_globals.setdefault("__warningregistry__", {})
            warnings.warn_explicit(message, DeprecationWarning, *place, registry=warned)
            return getattr(new, name)
    raise AttributeError(f"module 'ktiwprobe.{module}' has no attribute {name!r}")


def _asking() -> FrameType:
    """The code that imports: the first frame that is neither here nor in Python's import system."""
    frame = sys._getframe(1)
    while frame.f_back and (frame.f_code.co_filename == __file__ or "importlib" in frame.f_code.co_filename):
        frame = frame.f_back
    return frame


class OldModules(MetaPathFinder, Loader):
    """Finds the modules that are no longer there; asked only after every other finder."""

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """A module whose attributes are looked up in its new homes."""
        old = fullname.removeprefix("ktiwprobe.")
        return ModuleSpec(fullname, self) if fullname != old and old in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        """Look names up when they are asked for."""
        _look_up_names(module)


def _look_up_names(module: ModuleType) -> None:
    old = module.__name__.removeprefix("ktiwprobe.")

    def look_up(name: str) -> Any:
        return old_name(old, name)

    vars(module)["__getattr__"] = look_up


def install() -> None:
    """Let old names be imported."""
    sys.meta_path.append(OldModules())
    for name in PACKAGES:
        _look_up_names(import_module(f"ktiwprobe.{name}"))

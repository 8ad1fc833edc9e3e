"""ktiwprobe: what does an attention model know, when did it learn it, and does its attention follow?

Names are loaded when first used, so that `import ktiwprobe` (which every plugin's hook module does) stays light.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ktiwprobe.hookspecs import hookimpl

if TYPE_CHECKING:
    from ktiwprobe.address import agree
    from ktiwprobe.agreement import Agreement
    from ktiwprobe.alignment import align
    from ktiwprobe.attend import choose
    from ktiwprobe.data import Batch, Corpus, Example, Split, Stream
    from ktiwprobe.errors import KtiwprobeError
    from ktiwprobe.extraction import extract
    from ktiwprobe.options import option
    from ktiwprobe.probing import probe
    from ktiwprobe.protocols import AttentionModel, Model, Task, Trace
    from ktiwprobe.recording import Recorder
    from ktiwprobe.registry import build_registry
    from ktiwprobe.run import Run
    from ktiwprobe.signals import Signal
    from ktiwprobe.torchmodel import NeuralModel, TorchModel
    from ktiwprobe.training import train

# Read when torch loads its thread pool (GNU OpenMP): how long a waiting thread spins before it sleeps. By default so
# long that training crawls beside other work: on two cores that were also busy with other work, two threads made 0.2
# steps a second, with this about 2. On free cores readings of the two were 11 to 16 against 11 to 17: no clear loss.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

__version__ = "0.1.0"

_HOMES = {
    "address": ("agree",),
    "agreement": ("Agreement",),
    "alignment": ("align",),
    "attend": ("choose",),
    "data": ("Batch", "Corpus", "Example", "Split", "Stream"),
    "errors": ("KtiwprobeError",),
    "extraction": ("extract",),
    "options": ("option",),
    "probing": ("probe",),
    "protocols": ("AttentionModel", "Model", "Task", "Trace"),
    "recording": ("Recorder",),
    "registry": ("build_registry",),
    "run": ("Run",),
    "signals": ("Signal",),
    "torchmodel": ("NeuralModel", "TorchModel"),
    "training": ("train",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Agreement",
    "AttentionModel",
    "Batch",
    "Corpus",
    "Example",
    "KtiwprobeError",
    "Model",
    "NeuralModel",
    "Recorder",
    "Run",
    "Signal",
    "Split",
    "Stream",
    "Task",
    "TorchModel",
    "Trace",
    "agree",
    "align",
    "build_registry",
    "choose",
    "extract",
    "hookimpl",
    "option",
    "probe",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'ktiwprobe' has no attribute {name!r}")
    return getattr(import_module(f"ktiwprobe.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF])

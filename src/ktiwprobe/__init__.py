"""ktiwprobe: what does an attention model know, when did it learn it, and does its attention follow?

Names are loaded when first used, so that `import ktiwprobe` (which every plugin's hook module does) stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ktiwprobe import aliases
from ktiwprobe.plugins.hookspecs import hookimpl

if TYPE_CHECKING:
    from ktiwprobe.compare.agreement import Agreement
    from ktiwprobe.compare.alignment import align
    from ktiwprobe.compare.finder import agree
    from ktiwprobe.corpus.batch import Batch
    from ktiwprobe.corpus.corpus import Corpus, Example, Stream
    from ktiwprobe.corpus.split import Split
    from ktiwprobe.errors import KtiwprobeError
    from ktiwprobe.models.attend import choose
    from ktiwprobe.models.base import NeuralModel, TorchModel
    from ktiwprobe.plugins.options import option
    from ktiwprobe.plugins.protocols import AttentionModel, Model, Task, Trace
    from ktiwprobe.plugins.quantities import Quantity, quantity
    from ktiwprobe.plugins.registry import build_registry
    from ktiwprobe.plugins.run_kinds import RunKind
    from ktiwprobe.probes.extraction import extract
    from ktiwprobe.probes.probing import probe
    from ktiwprobe.recording.recorder import Recorder
    from ktiwprobe.runs.run import Run
    from ktiwprobe.signals.signal import Signal
    from ktiwprobe.training.loop import train

__version__ = "0.1.0"

_HOMES = {
    "compare.finder": ("agree",),
    "compare.agreement": ("Agreement",),
    "compare.alignment": ("align",),
    "models.attend": ("choose",),
    "data": ("Batch", "Corpus", "Example", "Split", "Stream"),
    "errors": ("KtiwprobeError",),
    "probes.extraction": ("extract",),
    "plugins.options": ("option",),
    "probes.probing": ("probe",),
    "plugins.quantities": ("Quantity", "quantity"),
    "plugins.run_kinds": ("RunKind",),
    "plugins.protocols": ("AttentionModel", "Model", "Task", "Trace"),
    "recording.recorder": ("Recorder",),
    "plugins.registry": ("build_registry",),
    "runs.run": ("Run",),
    "signals.signal": ("Signal",),
    "models.base": ("NeuralModel", "TorchModel"),
    "training.loop": ("train",),
}
_WITHOUT_TORCH = ("errors", "plugins.options", "plugins.registry", "runs.run", "signals.signal")
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
    "Quantity",
    "Recorder",
    "Run",
    "RunKind",
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
    "quantity",
    "train",
]

aliases.install()


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'ktiwprobe' has no attribute {name!r}")
    if _HOME_OF[name] not in _WITHOUT_TORCH:  # `train`, and what a script may import before it
        from ktiwprobe.training.threads import spin_briefly

        spin_briefly()
    return getattr(import_module(f"ktiwprobe.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF])

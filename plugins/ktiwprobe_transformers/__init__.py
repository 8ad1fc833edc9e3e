"""Any Hugging Face attention model: its attention read, replaced and trained like that of a model of our own."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ktiwprobe_transformers.tracer import Tracer, trace_step

__all__ = ["Tracer", "trace_step"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ktiwprobe_transformers' has no attribute {name!r}")
    return getattr(import_module("ktiwprobe_transformers.tracer"), name)

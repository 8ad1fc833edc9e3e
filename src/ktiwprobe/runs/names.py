"""What the folder of a run is called, in the folder of its task."""

from ktiwprobe.errors import UsageError


def folder_name(model: str, attention: str, seed: int, h6: str = "") -> str:
    """<model>[+h6][-uniform|-frozen-beta]-s<seed>"""
    how = "" if attention == "learned" else f"-{attention}"
    return f"{with_hash(model, h6)}{how}-s{seed}"


def with_hash(name: str, h6: str) -> str:
    """<name>[+h6], where `h6` is a hash of the options that differ from the defaults."""
    return f"{name}+{h6}" if h6 else name


def check_name(name: str, what: str) -> str:
    """The name of a task, model or run, if it can be part of a folder's name and of a SPEC."""
    if not name or name.startswith(".") or set(name) & set("/\\:@[]"):
        raise UsageError(f"{name!r} cannot be the name of a {what}: it is part of a folder's name and of a SPEC")
    return name

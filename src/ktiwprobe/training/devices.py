"""Which device a name means on this machine."""

from __future__ import annotations

import torch

from ktiwprobe.errors import UnknownNameError, UsageError


def choose_device(name: str | torch.device) -> torch.device:
    """The device that `auto`, `cpu` or `cuda` means here; one that a model is on already is taken as it is."""
    if isinstance(name, torch.device):
        return name
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UnknownNameError("device", name, ("auto", "cpu", "cuda")) from error
    if device.type not in ("cpu", "cuda"):
        raise UnknownNameError("device", name, ("auto", "cpu", "cuda"))
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UsageError(f"there is no CUDA device {device.index or 0} here: use auto or cpu", hint="device=auto")
    return device

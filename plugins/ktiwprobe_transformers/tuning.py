"""Which weights learn, and how fast; found out by gradients, since every architecture names its weights otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ktiwprobe.errors import PluginError
from ktiwprobe.models.attend import by_site, uniform
from ktiwprobe.probes.probing import evaluating

if TYPE_CHECKING:
    from ktiwprobe_transformers.model import HfModel

NOTHING = 1e-6  # a gradient below this share of the largest is rounding


def leave_idle_out(model: HfModel) -> None:
    """Weights that the output does not depend on (a pooler that nobody reads) do not learn."""
    learning = [p for p in model.network.parameters() if p.requires_grad]
    for parameter, gradient in zip(learning, _gradients(model, learning, None), strict=True):
        if gradient is None:
            parameter.requires_grad_(False)


def attention_entries(model: HfModel) -> list[nn.Parameter]:
    """The weights of the site's modules that lose all influence once the site's attention is forced.

    Where only a part of a tensor does (queries, keys and values in one, or one head of several), the rest of its
    gradient is masked, so that an optimiser leaves it alone.
    """
    modules = dict.fromkeys(key[0] for place in model.places for key in place.layer.keys)
    parameters = [p for module in modules for p in module.parameters()]
    was = [p.requires_grad for p in parameters]
    for p in parameters:
        p.requires_grad_(True)
    everywhere = uniform(by_site(model.allowed(model.tiny())))  # so that whatever can count, counts
    found, matters = [], False
    forced, own = (_gradients(model, parameters, how) for how in (everywhere, None))
    largest = max((gradient.abs().max() for gradient in own if gradient is not None), default=0.0)
    for parameter, gradient, unforced, before in zip(parameters, forced, own, was, strict=True):
        free = torch.ones_like(parameter, dtype=torch.bool) if gradient is None else gradient == 0
        parameter.requires_grad_(before)
        if free.any():
            found.append(parameter)
            # a bias of keys moves no softmax, so that its gradient is 0 by rounding alone, whatever it serves
            matters |= unforced is not None and bool((unforced[free].abs() > NOTHING * largest).any())
            if not free.all() and before:
                parameter.register_hook(partial(_masked, free))  # type: ignore[no-untyped-call]
    if not matters:
        raise PluginError(
            f"{type(model.network).__name__} has no weights that only say where {model.sites[0]} looks (they "
            "serve other layers too): train it with learned attention",
            hint="attention=learned",
        )
    return found


def _masked(free: Tensor, gradient: Tensor) -> Tensor:
    return gradient * free.to(gradient.device, gradient.dtype)


def _gradients(model: HfModel, parameters: list[nn.Parameter], attend: Tensor | None) -> tuple[Tensor | None, ...]:
    """How a sum of logits, each with a weight of its own, depends on `parameters` under an attention."""
    with torch.enable_grad(), evaluating(model.network):
        logits: Any = model.trace(model.tiny(), attend=attend).logits
        weights = torch.linspace(0.5, 1.5, logits.numel(), device=logits.device).view_as(logits)
        return torch.autograd.grad((logits * weights).sum(), parameters, allow_unused=True)


def slower(model: HfModel, parameters: Iterable[nn.Parameter], *, lr: float, share: float) -> list[dict[str, Any]]:
    """Groups for an optimiser: new weights at `lr`, pretrained ones at a share of it."""
    came = {id(p) for name, p in model.network.named_parameters() if name in model.pretrained}
    groups: list[dict[str, Any]] = [{"params": [], "lr": lr}, {"params": [], "lr": lr * share}]
    for parameter in parameters:
        groups[id(parameter) in came]["params"].append(parameter)
    return [group for group in groups if group["params"]]

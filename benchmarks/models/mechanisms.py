"""Which mechanisms act in a network on one text, shown by measurement and never read from its configuration."""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.models.reference import NoReferenceError, Reference, Sentence, recording
from torch import Tensor


def acting(network: Any, kind: str, sentence: Sentence) -> tuple[str, ...]:
    """Names of the mechanisms, sorted."""
    try:
        reference = Reference(network, kind, sentence)
    except NoReferenceError:
        return ()
    names: set[str] = set()
    for site in reference.sites:
        for number in site:
            names |= _of_call(reference, number)
        if len(site) > 1:
            names.add(f"{len(site)} calls a layer")
    modules = [reference.calls[site[0]].module for site in reference.sites]
    if len(set(modules)) < len(modules):
        names.add("tied layers")
    return tuple(sorted(names | _of_network(reference)))


def _of_call(reference: Reference, number: int) -> set[str]:
    call, names = reference.calls[number], set()
    weights = call.weights[0]
    if call.key_heads < weights.shape[0]:
        names.add("grouped queries")
    if call.query_width != call.value.shape[-1]:
        names.add("latent")
    if (weights.sum(-1) < 0.999).any():
        names.add("sink")
    if (pattern := _pattern((weights > 0).any(0))) is not None:
        names.add(pattern)
    if call.mask is not None and call.mask.is_floating_point() and _has_bias(call.mask):
        names.add("position bias")
    if call.extra.get("softcap") or call.extra.get("softcapping"):
        names.add("soft cap")
    return names


def _has_bias(mask: Tensor) -> bool:
    inside = mask[mask > torch.finfo(mask.dtype).min / 2]
    return bool((inside.abs() > 1e-6).any())


def _pattern(seen: Tensor) -> str | None:
    """How the rows are kept from cells that a plain causal or two-way mask would let them see. (Q, K)"""
    Q, K = seen.shape
    row, column = torch.arange(Q).unsqueeze(1), torch.arange(K)
    back = row - column
    causal = not seen[back < 0].any()
    plain = back >= 0 if causal else torch.ones_like(seen)
    if torch.equal(seen, plain):
        return None
    for size in range(1, K):
        if torch.equal(seen, plain & (back.abs() < size)):
            return f"window {size}" if causal else f"window ±{size - 1}"
        if torch.equal(seen, plain & (row // size == column // size)):
            return f"chunk {size}"
    most = int(seen.sum(-1).max())
    return f"top-{most}" if most < K else "sparse"


@torch.no_grad()
def _of_network(reference: Reference) -> set[str]:
    """Whether rows mix after the last site, and whether anything but attention mixes them."""
    names: set[str] = set()
    if reference.kind in ("causal", "masked"):
        last = reference.sites[-1][0]
        with recording(reference.network, nudge=(last, 0)):
            moved = (reference.run() - reference.logits).abs().amax(-1)
        if (moved[1:] > 1e-6).any():
            names.add("rows mix after the last site")
    return names

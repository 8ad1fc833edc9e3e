"""Which mechanisms act in a network on one text, shown by measurement and never read from its configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import torch
from benchmarks.models.configs import FIRST_WORD
from benchmarks.models.reference import Call, NoReferenceError, Reference, recording
from torch import Tensor, nn

QK_NORM = re.compile(r"(^|_)(q|k|qk|query|key)_?(layer_?)?norm")
LATENT = re.compile(r"(^|_)kv_(a|down)_")
MOVED = 1e-4


def acting(reference: Reference) -> tuple[str, ...]:
    """Names of the mechanisms, sorted."""
    names: set[str] = set()
    for call in reference.calls:
        names |= _of_call(call)
    with suppress(NoReferenceError):
        names |= _of_sites(reference)
    return tuple(sorted(names | _of_network(reference)))


def _of_call(call: Call) -> set[str]:
    weights = call.weights[0]
    acts = {
        "grouped queries": call.key_heads < weights.shape[0],
        "sink": bool((weights.sum(-1) < 0.999).any()),
        "position bias": _has_bias(call),
        "soft cap": call.capped,
    }
    names = {name for name, does in acts.items() if does}
    return names | {pattern for pattern in [pattern_of(call.seen)] if pattern}


def _has_bias(call: Call) -> bool:
    """Whether a query of zeros prefers some positions to others."""
    idle = call.idle[0]
    mean = idle.sum(-1, keepdim=True) / call.seen.sum(-1, keepdim=True)
    return bool(((idle - mean).abs() * call.seen).max() > MOVED)


def pattern_of(seen: Tensor) -> str | None:
    """How rows are kept from cells that a plain causal or two-way mask would let them see. (Q, K)"""
    Q, K = seen.shape
    row, column = torch.arange(Q).unsqueeze(1), torch.arange(K)
    back = row - column
    causal = Q == K and not seen[back < 0].any()
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


def _of_sites(reference: Reference) -> set[str]:
    """Layers that share one module, layers that call attention more than once."""
    sites = reference.sites
    modules = [reference.calls[site[0]].module for site in sites]
    names = {f"{len(site)} calls in a layer" for site in sites if len(site) > 1}
    return names | ({"tied layers"} if len(set(modules)) < len(modules) else set())


@torch.no_grad()
def _of_network(reference: Reference) -> set[str]:
    """What changes the logits when it is switched off."""
    network = reference.network
    named = [(name, part) for name, part in network.named_modules() if "indexer" not in name]
    last = [(name.split(".")[-1], part) for name, part in named]
    norms = [part for name, part in last if QK_NORM.search(name)]
    latent = [part for name, part in last if LATENT.search(name)]
    experts = [part for _, part in last if type(part).__name__.endswith("Experts")]
    acts = {
        "QK norm": _matters(reference, norms, lambda given, _output: given),
        "latent keys and values": _matters(reference, latent, lambda _given, output: output * 0),
        "experts": _matters(reference, experts, lambda _given, output: output * 0),
        "soft cap of logits": _caps_logits(reference),
    }
    if reference.calls and reference.kind in ("causal", "masked"):
        acts["other mixing of rows"] = _mixes_otherwise(reference)
    return {name for name, does in acts.items() if does}


def _matters(reference: Reference, parts: list[nn.Module], change: Any) -> bool:
    """Whether the logits move if the output of the parts is changed."""
    if not parts:
        return False
    handles = [
        part.register_forward_hook(
            lambda _one, given, output: change(given[0], output) if isinstance(output, Tensor) and given else None
        )
        for part in parts
    ]
    try:
        return bool((reference.run() - reference.logits).abs().max() > MOVED)
    finally:
        for handle in handles:
            handle.remove()


def _caps_logits(reference: Reference) -> bool:
    with without_final_cap(reference.network) as capped:
        return capped and bool((reference.run() - reference.logits).abs().max() > MOVED)


@contextmanager
def without_final_cap(network: Any) -> Iterator[bool]:
    """While it lasts, logits are not capped; yields whether the configuration has a cap."""
    config = network.config.get_text_config()
    cap = getattr(config, "final_logit_softcapping", None)
    if cap is not None:
        config.final_logit_softcapping = 1e6
    try:
        yield cap is not None
    finally:
        if cap is not None:
            config.final_logit_softcapping = cap


def _mixes_otherwise(reference: Reference) -> bool:
    """Whether a word still moves the logits of other positions if every attention puts out 0."""
    x = reference.sentence.x.clone()
    place = 0 if reference.kind == "causal" else int(reference.outputs[0]) - 1
    x[place] = FIRST_WORD + (int(x[place]) - FIRST_WORD + 1) % 7
    other = reference.of(replace(reference.sentence, x=x))
    with recording(reference.network, silence=True):
        one, two = reference.run(), other.run()
    away = slice(1, None) if reference.kind == "causal" else slice(None)
    return bool((one - two)[away].abs().max() > MOVED)

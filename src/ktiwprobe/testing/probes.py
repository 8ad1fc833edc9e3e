"""What probes must hold to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ktiwprobe.corpus.batch import Batch
from ktiwprobe.plugins.capabilities import HasModules, HasParameters, supports
from ktiwprobe.plugins.protocols import Probe
from ktiwprobe.plugins.registry import Entry, Owner, Registry, build_registry
from ktiwprobe.probes.probing import probe as run_probe
from ktiwprobe.signals.pooling import check_pooling
from ktiwprobe.signals.signal import Signal
from ktiwprobe.testing.case import CLOSE, Case, make_case
from ktiwprobe.testing.outcome import Failed, Outcome, name_of, raise_failures, run_checks


@dataclass(eq=False)
class ProbeCase:
    """A probe under test on a small trained model."""

    name: str
    function: Probe
    case: Case

    def signal(self, *batches: Batch) -> Signal:
        """What it says of the model over `batches`."""
        registry = Registry()
        registry.entries["probes"][self.name] = Entry("probes", self.name, self.function, Owner("under test"))
        return run_probe(self.case.model, batches, self.name, registry=registry)


def check_probe(
    probe: Any, *, model: str | type | None = None, options: Any = None, registry: Registry | None = None
) -> None:
    """Hold a probe function (or a registered name) to the contract, on a model class (or a registered name).

    Without a `model` it is tried on the default one.
    """
    raise_failures(f"probe {name_of(probe)}", probe_checks(probe, model=model, options=options, registry=registry))


def probe_checks(
    probe: Any, *, model: str | type | None = None, options: Any = None, registry: Registry | None = None
) -> Iterator[Outcome]:
    """Each check and what came of it."""
    registry = registry or build_registry()
    function = registry.load("probes", probe) if isinstance(probe, str) else probe
    case = make_case(registry, model or registry.default("models"), options=options)
    yield from run_checks(CHECKS, ProbeCase(name_of(probe), function, case))


def probe_gives_cells(case: ProbeCase) -> None:
    """It returns (B, T, L) or (B, S, T, L) of numbers, and says how they are pooled, if it says so, as can be."""
    check_pooling(case.signal(case.case.batch))


def probe_ignores_padding(case: ProbeCase) -> None:
    """A sentence alone and in a batch give the same signal."""
    inner = case.case
    whole = case.signal(inner.batch)
    alone = case.signal(*(inner.alone(i) for i in range(len(inner.split))))
    if not np.allclose(whole.values, alone.values, rtol=CLOSE, atol=CLOSE):
        raise Failed("the signal of a sentence depends on its neighbours in the batch: leave padding out of every sum")


def probe_leaves_no_trace(case: ProbeCase) -> None:
    """It leaves the model as it was."""
    model, batch = case.case.model, case.case.batch
    before = {name: tensor.clone() for name, tensor in model.state().items()}
    ids, switches = {part: getattr(batch, part).clone() for part in ("x", "y")}, _switches(model)
    case.function(model, batch)
    changed = [name for name, tensor in model.state().items() if not torch.equal(tensor, before[name])]
    if changed:
        raise Failed(f"it changes {', '.join(changed)} of the model: work on a copy")
    if any(not torch.equal(getattr(batch, part), tensor) for part, tensor in ids.items()):
        raise Failed("it changes the ids of the batch: clone them first")
    for what, was in switches.items():
        if _switches(model)[what] != was:
            raise Failed(f"it leaves {what} changed: put the model back as it was")


def _switches(model: object) -> dict[str, Any]:
    """What a probe may turn in a model and must turn back."""
    parameters = list(model.parameters()) if supports(model, HasParameters) else []
    modules = list(model.modules()) if supports(model, HasModules) else []
    return {
        "the training mode of the model": [m.training for m in modules],
        "requires_grad of its parameters": [p.requires_grad for p in parameters],
        "the gradients of its parameters": [p.grad is not None for p in parameters],
        "a hook on one of its modules": [len(m._forward_hooks) for m in modules],
    }


def probe_repeats_itself(case: ProbeCase) -> None:
    """Two calls give the same numbers."""
    if not np.array_equal(case.signal(case.case.batch).values, case.signal(case.case.batch).values):
        raise Failed("two calls give different numbers: seed what is random, or leave it out")


def probe_knows_its_sentence(case: ProbeCase) -> None:
    """A sentence gives the same signal beside other sentences of its length."""
    alone = case.case.alone(0)
    twice = case.case.split.subset(np.array([0, len(case.case.split) - 1, 0])).batch(np.array([0, 2]))
    one, both = case.signal(alone).values, case.signal(twice).values
    if not np.allclose(np.concatenate([one, one], 1), both, rtol=CLOSE, atol=CLOSE):
        raise Failed(
            "the signal of a sentence depends on how many sentences are in its batch: compute each from itself"
        )


CHECKS = (
    probe_leaves_no_trace,
    probe_gives_cells,
    probe_ignores_padding,
    probe_knows_its_sentence,
    probe_repeats_itself,
)

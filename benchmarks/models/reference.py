"""What alpha, beta and delta of a network must be: each sentence alone, the network's own eager attention, brute force.

Nothing here comes from the plugin under test. A pass records every call of the `eager_attention_forward` that stands
beside the network's classes. Forcing overwrites rows of the output of one call with the value vector of one position,
and the whole network runs again. The gate scales what a look-up of the input ids in any table gives.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn

KINDS = ("causal", "masked", "classifier", "seq2seq")
EAGER = "eager_attention_forward"


class NoReferenceError(Exception):
    """The quantity is not defined for this network, or cannot be measured independently."""


@dataclass(frozen=True)
class Sentence:
    """One text, without padding."""

    x: Tensor  # (L,) input ids
    y: Tensor  # (T,) output ids, or the label
    start: int = 0  # the id that opens an output, for seq2seq
    mask_id: int = -1  # the id that stands on gaps, for masked


@dataclass
class Call:
    """One call of eager attention."""

    module: nn.Module
    forward: int  # which forward pass of the module this call belongs to
    weights: Tensor  # (1, H, Q, K) what each position counts in the output, whatever the function calls its weights
    idle: Tensor  # (1, H, Q, K) the same for a query of zeros: 0 only where rows may not look
    value: Tensor  # (1, H or fewer, K, D)
    output: Tensor  # (1, Q, H, D)
    key_heads: int
    capped: bool  # whether a soft cap changes the weights

    @property
    def seen(self) -> Tensor:
        """Where rows may look. (Q, K)"""
        return self.idle[0].gt(0).any(0)


Site = list[int]
"""The numbers of the calls that one forward pass of an attention module makes; usually one."""


@dataclass
class Recorder:
    """Records the calls of a pass; overwrites the output of some of them."""

    calls: list[Call] = field(default_factory=list)
    forwards: Counter[nn.Module] = field(default_factory=Counter)
    overwrite: dict[int, tuple[Tensor, int]] | None = None  # call -> rows, position; None: the pass is recorded
    silence: bool = False  # all outputs are 0
    count: int = 0

    def __call__(
        self, eager: Any, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, *rest: Any, **extra: Any
    ) -> tuple[Tensor, Any]:
        """Eager attention, recorded or changed."""
        output, weights = eager(module, query, key, value, *rest, **extra)
        if self.silence:
            return torch.zeros_like(output), weights
        if self.overwrite is None:
            self.calls.append(self._call(eager, module, query, key, value, output, rest, extra))
        elif self.count in self.overwrite:
            rows, position = self.overwrite[self.count]
            output = output.clone()
            output[:, rows] = _repeated(value, output.shape[2])[:, :, position].unsqueeze(1)
        self.count += 1
        return output, weights

    def _call(
        self,
        eager: Any,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        output: Tensor,
        rest: Any,
        extra: Any,
    ) -> Call:
        weights = partial(_effective, eager, module, key=key, value=value, rest=rest)
        own = weights(query, extra=extra)
        return Call(
            module=module,
            forward=self.forwards[module],
            weights=own,
            idle=weights(torch.zeros_like(query), extra=extra),
            value=value.detach(),
            output=output.detach(),
            key_heads=key.shape[1],
            capped="softcap" in extra and not torch.equal(own, weights(query, extra={**extra, "softcap": None})),
        )


@torch.no_grad()
def _effective(
    eager: Any, module: nn.Module, query: Tensor, *, key: Tensor, value: Tensor, rest: Any, extra: Any
) -> Tensor:
    """The weights of an attention, read off its output for values that are unit vectors. (1, H, Q, K)

    With a query of zeros only what is masked has no weight, however sharp the attention is.
    """
    K = value.shape[2]
    unit = torch.eye(K, dtype=value.dtype).expand(*value.shape[:2], K, K)
    output: Tensor = eager(module, query, key, unit, *rest, **extra)[0]
    return output.transpose(1, 2)


def _repeated(value: Tensor, heads: int) -> Tensor:
    """Values once for each query head. (1, H, K, D)"""
    return value.repeat_interleave(heads // value.shape[1], 1)


@contextmanager
def recording(network: nn.Module, **how: Any) -> Iterator[Recorder]:
    """While it lasts, every eager attention function of transformers reports to the recorder."""
    recorder = Recorder(**how)
    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            eager = vars(module).get(EAGER) if name.startswith("transformers.models.") else None
            if eager is not None:
                setattr(module, EAGER, partial(recorder, eager))
                stack.callback(setattr, module, EAGER, eager)
        for part in network.modules() if recorder.overwrite is None else ():
            handle = part.register_forward_pre_hook(lambda one, _args: recorder.forwards.update([one]))
            stack.callback(handle.remove)
        yield recorder


class Reference:
    """alpha, beta and delta of one network on one sentence."""

    def __init__(self, network: Any, kind: str, sentence: Sentence) -> None:
        self.network, self.kind, self.sentence = network, kind, sentence

    def of(self, sentence: Sentence) -> Reference:
        """The same of another sentence."""
        return Reference(self.network, self.kind, sentence)

    @cached_property
    def _pass(self) -> tuple[Tensor, list[Call]]:
        with torch.no_grad(), recording(self.network) as recorder:
            logits = self.run()
        return logits, recorder.calls

    @property
    def logits(self) -> Tensor:
        """Of an untouched pass. (T, V)"""
        return self._pass[0]

    @property
    def calls(self) -> list[Call]:
        """Every call of an untouched pass."""
        return self._pass[1]

    # the network

    def run(self) -> Tensor:
        """The logits of the outputs, from the network as its authors call it. (T, V)"""
        x = self.sentence.x.unsqueeze(0)
        given: dict[str, Any] = {"input_ids": x, "attention_mask": torch.ones_like(x)}
        if self.kind == "seq2seq":
            y = self.sentence.y
            given["decoder_input_ids"] = torch.cat([torch.full_like(y[:1], self.sentence.start), y[:-1]]).unsqueeze(0)
        logits: Tensor = self.network(**given).logits
        if self.kind == "classifier":
            return logits.view(1, -1)
        return logits[0][self.outputs] if self.kind == "masked" else logits[0]

    @property
    def outputs(self) -> Tensor:
        """The positions of the gaps."""
        return (self.sentence.x == self.sentence.mask_id).nonzero().flatten()

    def log_odds(self, logits: Tensor) -> Tensor:
        """logit_y - logsumexp(the other logits). (T,)"""
        y = self.sentence.y.unsqueeze(-1)
        own = logits.gather(-1, y)
        return (own - logits.scatter(-1, y, -torch.inf).logsumexp(-1, keepdim=True)).squeeze(-1)

    # where it attends

    def _check_calls(self) -> None:
        """Refuse a network whose attention is not a weighted sum of values."""
        if not self.calls:
            raise NoReferenceError("its eager attention function is never called")
        for call in self.calls:
            sums = call.weights.to(call.value.dtype) @ _repeated(call.value, call.weights.shape[1])
            if sums.transpose(1, 2).shape != call.output.shape or not torch.allclose(
                sums.transpose(1, 2), call.output, atol=1e-4
            ):
                raise NoReferenceError("the output of its eager attention is not weights times values")

    @cached_property
    def sites(self) -> list[Site]:
        """The sites that look from outputs at inputs, in the order of the pass."""
        self._check_calls()
        L, T = len(self.sentence.x), len(self.sentence.y)
        Q = T if self.kind == "seq2seq" else L
        groups: dict[tuple[nn.Module, int], Site] = {}
        for number, call in enumerate(self.calls):
            if tuple(call.weights.shape[2:]) == (Q, L):
                groups.setdefault((call.module, call.forward), []).append(number)
        if not groups:
            shapes = sorted({tuple(call.weights.shape[2:]) for call in self.calls})
            raise NoReferenceError(f"no attention looks from {Q} rows at {L} inputs, only {shapes}")
        return list(groups.values())

    @cached_property
    def queries(self) -> Tensor:
        """The rows of the attention that are outputs. (T,)"""
        if self.kind == "masked":
            return self.outputs
        if self.kind == "classifier":
            return torch.tensor([self._pooled()])
        return torch.arange(len(self.sentence.y))

    @torch.enable_grad()
    def _pooled(self) -> int:
        """The position whose last state the classifier reads."""
        states: list[Tensor] = []

        def keep(_module: nn.Module, _args: Any, output: Any) -> Any:
            state = output[0] if isinstance(output, tuple) else output.last_hidden_state
            states.append(state)
            state.retain_grad()

        handle = self.network.base_model.register_forward_hook(keep)
        try:
            self.run().square().sum().backward()
        finally:
            handle.remove()
        self.network.zero_grad()
        gradient = states[-1].grad
        if gradient is None:
            raise NoReferenceError("its classifier does not read the last states")
        rows = gradient.abs().sum(-1)[0].nonzero().flatten().tolist()
        if len(rows) != 1:
            raise NoReferenceError(f"its classifier reads {len(rows)} positions at once")
        return int(rows[0])

    # the quantities

    def cells(self, site: Site, *, every_head: bool = False) -> Tensor:
        """Where each output may look with any head, or with every head: a query of zeros gives weight there. (T, L)"""
        seen = torch.cat([self.calls[number].idle[0].gt(0) for number in site])[:, self.queries]
        return seen.all(0) if every_head else seen.any(0)

    def alpha(self, site: Site) -> Tensor:
        """(S, T, L), S the heads of the site; calls with the same weights, for parts of the values, count once"""
        weights = [self.calls[number].weights[0] for number in site]
        different = [one for i, one in enumerate(weights) if not any(torch.equal(one, other) for other in weights[:i])]
        return torch.cat(different)[:, self.queries]

    @torch.no_grad()
    def beta(self, site: Site) -> Tensor:
        """Log-odds of y_t if all outputs that may look at l look at l alone. (T, L)"""
        cells, columns = self.cells(site, every_head=True), []
        for position in range(cells.shape[1]):
            rows = self.queries[cells[:, position]]
            with recording(self.network, overwrite=dict.fromkeys(site, (rows, position))):
                columns.append(self.log_odds(self.run()))
        return torch.stack(columns, -1)

    @torch.no_grad()
    def beta_one_row(self, site: Site) -> Tensor:
        """Log-odds of y_t if its row alone looks at l alone, and all other rows as they do. (T, L)"""
        cells = self.cells(site, every_head=True)
        found = torch.full(cells.shape, torch.nan)
        for t, position in cells.nonzero().tolist():
            with recording(self.network, overwrite=dict.fromkeys(site, (self.queries[t : t + 1], position))):
                found[t, position] = self.log_odds(self.run())[t]
        return found

    def delta(self) -> Tensor:
        """d log p(y_t) / d gate_l, where gate_l scales whatever is looked up for the input at position l. (T, L)"""
        gate = torch.ones(len(self.sentence.x), requires_grad=True)
        with gated(self.sentence.x, gate), torch.enable_grad():
            log_p = self.run().log_softmax(-1).gather(-1, self.sentence.y.unsqueeze(-1)).squeeze(-1)
            rows = [torch.autograd.grad(one, gate, retain_graph=True)[0] for one in log_p]
        return torch.stack(rows)


@contextmanager
def gated(x: Tensor, gate: Tensor) -> Iterator[None]:
    """While it lasts, the rows that the ids `x` have in any table of embeddings are scaled by `gate`."""
    look_up = nn.functional.embedding

    def scaled(ids: Tensor, *rest: Any, **extra: Any) -> Tensor:
        rows = look_up(ids, *rest, **extra)
        return rows * gate.to(rows.dtype).unsqueeze(-1) if torch.equal(ids.flatten(), x) else rows

    nn.functional.embedding = scaled
    try:
        yield
    finally:
        nn.functional.embedding = look_up

"""Checks before a model's first number: does it run under the attention and the gate that it is given, and no other?

Each check is a law that holds for every right model and needs a few small passes. The conformance kit runs all of
them; an extraction runs once those that its probe relies on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ktiwprobe.corpus.batch import Batch
from ktiwprobe.errors import ContractError, plugin_errors
from ktiwprobe.models.attend import Under, allowed, by_site, unwrapped
from ktiwprobe.models.scoring import log_odds
from ktiwprobe.models.substitution import Lookups, OtherWeights, ScaledLookups, owners_of, places_of
from ktiwprobe.plugins.capabilities import (
    ChecksItself,
    HasParameters,
    HasState,
    HasStateDict,
    sites_of,
    supports,
)
from ktiwprobe.plugins.protocols import AttentionModel, Probe, Trace
from ktiwprobe.plugins.quantities import quantity_of
from ktiwprobe.probes.definitions import TOLERANCE, check_allowed, model_name

SENTENCES = 2  # tried of a batch; one where there are many sites to try
FEW_SITES = 4
LONG_ENOUGH = 4  # inputs that a sentence should have to be tried
SITES_A_PASS = 32
OTHER_WORDS = 3  # that are tried in the place of each, to see what it is looked up by
LARGEST = 1 << 26  # weights or logits of a pass
WAYS = 4  # in which a site is forced
ATTEMPTS = 3  # with other weights, where the model's own leave its output constant


class Needs(NamedTuple):
    """What a probe relies on: that the model obeys `attend`, that it obeys `gate`."""

    attend: bool
    gate: bool


class _DoesNotMove(ContractError):
    """The output stays the same: either the model ignores what it is given, or its weights make it constant."""


def needs(probe: Probe, model: object) -> Needs:
    """What the function `probe` relies on, by its quantity, for this model."""
    if not supports(model, AttentionModel):
        return Needs(attend=False, gate=False)
    uses = quantity_of(probe, "").uses
    return Needs(attend="attend" in uses or isinstance(model, Under), gate="gate" in uses)


def guard(model: object, batch: Batch, probe: Probe, *, longest: Batch | None = None) -> bool:
    """Refuse a model that would give `probe` a wrong number; False if `batch` leaves it no choice where to look.

    The model's own check reads the `longest` texts too, where windows and the like act.
    """
    need = needs(probe, model)
    inner = unwrapped(model)
    if not supports(inner, AttentionModel):
        return True
    with plugin_errors(f"model {model_name(inner)}"):
        few = few_sentences(inner, batch)
        for texts in (batch, longest):
            if texts is not None:
                check_itself(inner, texts, need)
        if few is None:
            return not any(need)
        if need.attend:
            check_attend(inner, few)
        if need.gate:
            check_gate(model if isinstance(model, Under) else inner, few)
    return True


def check_itself(model: object, batch: Batch, need: Needs) -> None:
    """The check that a model brings of its own, if it does."""
    inner = unwrapped(model)
    if supports(inner, ChecksItself):
        with plugin_errors(f"model {model_name(inner)}"):
            inner.check_faithful(batch, forcing=need.attend)


def check_attend_is_obeyed(model: AttentionModel, batch: Batch) -> bool:
    """Refuse a model that does not run under the attention it is given; False if it had no choice."""
    few = few_sentences(model, batch)
    if few is None:
        return False
    check_attend(model, few)
    return True


@torch.no_grad()
def check_attend(model: AttentionModel, batch: Batch) -> None:
    """Its own alpha changes nothing; each site, alone, obeys `attend`; its own weights then no longer count."""
    check_site_names(model)
    _with_other_weights(_obeys_attend, model, batch)


@torch.no_grad()
def check_gate(model: AttentionModel, batch: Batch) -> bool:
    """`gate` scales the input embedding and nothing else; False if no embedding was looked up to compare with."""
    row = next((i for i, x in enumerate(_inputs(batch)) if bool((x != x[0]).any())), None)
    return row is not None and _with_other_weights(_obeys_gate, model, take(batch, [row]))


def check_site_names(model: object) -> None:
    """A site is addressed by its name, so no two may share one."""
    sites = sites_of(model)
    twice = sorted({site for site in sites if sites.count(site) > 1})
    if twice:
        raise ContractError(f"{model_name(model)} has two sites called {twice[0]!r}: give each site a name of its own")


# under `attend`


def _obeys_attend(model: AttentionModel, batch: Batch) -> bool:
    own, sites = model.trace(batch), max(1, len(sites_of(model)))
    most = max(1, min(SITES_A_PASS, (LARGEST // entries(own) - 1) // WAYS))
    for start in range(0, sites, most):
        hold(model, batch, own, [[site] for site in range(start, min(start + most, sites))])
    return True


def entries(trace: Trace) -> int:
    """How many weights or logits a pass has, whichever are more."""
    return max(1, trace.alpha.numel(), output(trace).numel())


def hold(model: AttentionModel, batch: Batch, own: Trace, tried: list[list[int]]) -> None:
    """Hold groups of sites to the laws of `attend`; `own` is the unforced pass."""
    alpha = own.alpha if sites_of(model) else own.alpha.unsqueeze(1)  # (B, S, T, L)
    at_once = (1 + WAYS * len(tried)) * entries(own) <= LARGEST
    unforced = output(own) if at_once else log_odds(own, batch).unsqueeze(-1)
    _Forced.run(model, batch, alpha, tried, at_once=at_once).check(unforced, tolerance(model, own))


class _Forced:
    """One pass over copies of a batch: the first under the model's own alpha, then four for each group of sites tried.

    In those four these sites look at the first position it may see, at the last, at all of them by random weights, and
    at the one that has the highest of these; the other sites keep their own weights.
    """

    def __init__(
        self, model: AttentionModel, batch: Batch, alpha: Tensor, tried: list[list[int]], *, at_once: bool = True
    ) -> None:
        self.at_once = at_once
        self.model, self.batch, self.alpha, self.tried = model, batch, alpha, tried
        self.sites = sites_of(model)
        self.legal = legal_cells(model, batch)  # (B, S, T, L)
        copies = 1 + WAYS * len(tried)
        self.given = alpha.float().expand(copies, *alpha.shape).clone()  # (copies, B, S, T, L)
        mixed, L = _mixed(self.legal), alpha.shape[-1]
        places = self.legal.int().argmax(-1), _last(self.legal), mixed.argmax(-1)
        first, last, peak = (one_hot(place, L).float() for place in places)
        for k, sites in enumerate(tried):
            for copy, way in zip(self.copies_of(k), (first, last, mixed, peak), strict=True):
                some = self.legal[:, sites].any(-1, keepdim=True)
                given = self.given[copy]
                given[:, sites] = torch.where(some, way[:, sites], given[:, sites])
        self.many = take(batch, list(range(len(batch.x))) * copies)

    @classmethod
    def run(
        cls, model: AttentionModel, batch: Batch, alpha: Tensor, tried: list[list[int]], *, at_once: bool = True
    ) -> _Forced:
        """Prepare and run the pass."""
        forced = cls(model, batch, alpha, tried, at_once=at_once)
        trace = forced.trace()
        forced.outputs = forced.by_copy(output(trace))  # (copies, B, T, V or 1)
        forced.used = forced.by_copy(trace.alpha if forced.sites else trace.alpha.unsqueeze(1))
        return forced

    outputs: Tensor
    used: Tensor

    @staticmethod
    def copies_of(k: int) -> range:
        """The copies in which the k-th group of sites is forced."""
        return range(1 + WAYS * k, 1 + WAYS * (k + 1))

    def trace(self, others: OtherWeights | None = None) -> Trace:
        """The pass; copy by copy, and of its logits only the log-odds, where they are too many at once."""
        if self.at_once:
            attend = self.given.flatten(0, 1)
            return self.model.trace(self.many, attend=attend if self.sites else attend[:, 0])
        traces = []
        for copy, attend in enumerate(self.given):
            if others is not None:
                others.first, others.n = copy, len(self.batch.x)
            trace = self.model.trace(self.batch, attend=attend if self.sites else attend[:, 0])
            traces.append(Trace(None, trace.alpha, log_odds(trace, self.batch)))
        return Trace(None, *(torch.cat([getattr(trace, part) for trace in traces]) for part in ("alpha", "scores")))

    def by_copy(self, values: Tensor) -> Tensor:
        return values.view(-1, len(self.batch.x), *values.shape[1:])

    def check(self, unforced: Tensor, close: float) -> None:
        """Hold every copy to its law."""
        name, real = model_name(self.model), self.batch.y_mask
        off = gap(self.outputs[0][real], unforced[real])
        if not off <= close:
            where = self._at([site for sites in self.tried for site in sites])
            raise ContractError(
                f"{name} changes its output by {off:.2g} when its own alpha is given back as attend{where}: use attend "
                "as it is given, and return the alpha that was used, before dropout"
            )
        for k, sites in enumerate(self.tried):
            self._check_moves(k, sites)
        self._check_own_is_left(close)
        for k, sites in enumerate(self.tried):
            for site in sites:
                self._check_reported(k, site, close)

    def _at(self, tried: list[int]) -> str:
        names = [self.sites[site] for site in tried] if self.sites else []
        what = " at site " if len(names) == 1 else " at sites "
        return what + ", ".join(names[:4]) + (" ..." if len(names) > 4 else "") if names else ""

    def _check_moves(self, k: int, sites: list[int]) -> None:
        """An output whose row can look at different inputs depends on which it looks at, and on how much."""
        first, last, mixed, peak = (self.outputs[copy] for copy in self.copies_of(k))
        legal = self.legal[:, sites].any(1)
        ids = self.batch.x[:, None].expand_as(legal)
        differ = ids.masked_fill(~legal, -1).amax(-1) > ids.masked_fill(~legal, int(ids.max()) + 1).amin(-1)
        rows = differ & self.batch.y_mask  # (B, T)
        moved = ((first != last) | (first != self.outputs[0])).any(-1)
        name, at = model_name(self.model), self._at(sites)
        if (rows & ~moved).any():
            where = f" in output {int((rows & ~moved).nonzero()[0, 1])}" if moved.any() else ""
            raise _DoesNotMove(
                f"{name} ignores attend{at}{where}: its output is the same (difference 0) whichever position it is "
                "told to look at; use choose(own, attend, allowed) for its weights"
            )
        if rows.any() and not (mixed != peak).any(-1)[rows].any():
            raise _DoesNotMove(
                f"{name} looks at the position of highest weight alone{at}: its output is the same (difference 0) "
                "under weights on several positions; use the weights themselves"
            )

    def _check_own_is_left(self, close: float) -> None:
        """Where a row of a site is forced, other weights of its own change nothing in its output."""
        with OtherWeights(self, max(1e-6, TOLERANCE.get(self.alpha.dtype, 0) / 10)) as others:
            again = self.by_copy(output(self.trace(others)))
        for k, sites in enumerate(self.tried):
            for copy in self.copies_of(k):
                row, real = others.rows[copy], torch.arange(len(self.batch.x), device=again.device)
                off = gap(again[copy][real, row], self.outputs[copy][real, row])
                if not off <= close:
                    raise ContractError(
                        f"{model_name(self.model)} still uses its own weights where attend is given{self._at(sites)}: "
                        f"with other own weights its output changes by {off:.2g}; use choose(own, attend, allowed)"
                    )

    def _check_reported(self, k: int, site: int, close: float) -> None:
        rows = self.legal[:, site].any(-1) & self.batch.y_mask  # (B, T)
        for copy in self.copies_of(k):
            off = gap(self.used[copy][:, site][rows].float(), self.given[copy][:, site][rows])
            if not off <= close:
                raise ContractError(
                    f"{model_name(self.model)} returns another alpha than the attend it was given{self._at([site])} "
                    f"(difference {off:.2g}): alpha must be the weights that were used, and allowed(batch) true only "
                    "where a row can be told to look"
                )


# under `gate`


def _obeys_gate(model: AttentionModel, batch: Batch) -> bool:
    return compare_gate(model, batch, random_gate(batch))


def random_gate(batch: Batch, seed: int = 0) -> Tensor:
    """A scale for each input, always the same, and 1 on padding. (B, L)"""
    generator = torch.Generator().manual_seed(seed)
    scale = (0.5 + torch.rand(batch.x.shape, generator=generator)).to(batch.x.device)
    return scale.masked_fill(~batch.x_mask, 1)


@torch.no_grad()
def compare_gate(
    model: AttentionModel,
    batch: Batch,
    scale: Tensor,
    attend: Tensor | None = None,
    others: Mapping[int, Tensor] | None = None,
) -> bool:
    """Hold trace(gate=scale) of one sentence to a pass in which the embeddings of its inputs are scaled instead.

    Besides tables of the words there may be tables of functions of each word. If scaling all of these is not what the
    gate does, it may still scale something that was computed from them, as long as a word with gate 0 is hidden.
    `others` are `other_lookups`, where they are known.
    """
    # Outputs that are all the same cannot be mistaken for the inputs, which are looked for among what is embedded.
    batch = replace(batch, y=batch.y[:, :1].expand_as(batch.y).contiguous())
    under = {} if attend is None else {"attend": attend}
    plain = model.trace(batch, **under)
    gated, real = output(model.trace(batch, gate=scale, **under))[batch.y_mask], batch.y_mask
    if torch.equal(gated, output(plain)[real]):
        raise _DoesNotMove(
            f"{model_name(model)} ignores gate: the output does not depend on gate (difference 0): trace must multiply "
            "its source embeddings by gate.unsqueeze(-1)"
        )
    n, others = int(batch.x_mask.sum()), other_lookups(model, batch) if others is None else others
    with ScaledLookups(batch.x[0, :n], scale[0, :n], others) as lookups:
        expected = output(model.trace(batch, **under))[real]
    off = gap(gated, expected)
    shown = shown_word(model, batch, under) if others and not off <= tolerance(model, plain) else None
    if lookups.count and not off <= tolerance(model, plain) and (not others or shown is not None):
        where = "" if attend is None else " under attend"
        raise ContractError(
            f"the gate of {model_name(model)} does not scale its input embeddings, or not them alone{where}: its "
            f"output differs by {off:.2g} from that with scaled embeddings; multiply what the embedding of batch.x "
            "returns by gate.unsqueeze(-1), before anything is added to it, and nothing else"
        )
    return bool(lookups.count)


def other_lookups(model: AttentionModel, batch: Batch) -> dict[int, Tensor]:
    """Look-ups of one sentence, by number, whose indices are a function of each word and not its id: of which word.

    Seen by changing one word at a time, in copies of the sentence.
    """
    n, ids = int(batch.x_mask.sum()), batch.x[0]
    low, high = int(ids[:n].min()), int(ids[:n].max())
    others = sorted({low + (high - low) * k // OTHER_WORDS for k in range(OTHER_WORDS + 1)})
    changes = [(l, word) for l in range(n) for word in others if word != int(ids[l])]  # noqa: E741
    many = take(batch, [0] * (1 + len(changes)))
    x = many.x.clone()
    for copy, (l, word) in enumerate(changes, 1):  # noqa: E741
        x[copy, l] = word
    with contextlib.suppress(Exception), Lookups() as lookups:  # a model may refuse a text of any words
        model.trace(replace(many, x=x))
        changed = torch.tensor([-1, *(l for l, _ in changes)], device=x.device)  # noqa: E741
        owners = {k: owners_of(indices, changed) for k, indices in enumerate(lookups.indices)}
        exact = {k for k, indices in enumerate(lookups.indices) if places_of(ids[:n], indices)}
        return {k: owner for k, owner in owners.items() if owner is not None and k not in exact}
    return {}


def shown_word(model: AttentionModel, batch: Batch, under: Mapping[str, Tensor]) -> int | None:
    """An input of one sentence that changes the output though its gate is 0, if there is one."""
    for l in range(int(batch.x_mask.sum())):  # noqa: E741
        x = batch.x.clone()
        x[0, l] = batch.x[0, (batch.x[0] != batch.x[0, l]).int().argmax()]
        gate = torch.ones_like(batch.x).float()
        gate[0, l] = 0
        traces = [model.trace(replace(batch, x=ids), gate=gate, **under) for ids in (batch.x, x)]
        if not gap(*(output(trace)[batch.y_mask] for trace in traces)) <= tolerance(model, traces[0]):
            return l
    return None


# what the laws share


def few_sentences(model: object, batch: Batch) -> Batch | None:
    """One or two sentences that leave every site a choice where to look, short but not too short; None: no such."""
    legal = legal_cells(model, batch)
    choice = ((legal.sum(-1) > 1) & batch.y_mask.unsqueeze(1)).any(2)  # (B, S)
    enough = choice.all(1) if choice.all(1).any() else choice.any(1)
    rows = enough.nonzero().flatten().tolist()
    sizes = {row: int(batch.x_mask[row].sum()) for row in rows}
    rows.sort(key=lambda row: (sizes[row] < LONG_ENOUGH, sizes[row] if sizes[row] >= LONG_ENOUGH else -sizes[row]))
    return take(batch, rows[: SENTENCES if legal.shape[1] <= FEW_SITES else 1]) if rows else None


def legal_cells(model: object, batch: Batch) -> Tensor:
    """Where each site may look. (B, S, T, L)"""
    sites = len(sites_of(model))
    mask = by_site(check_allowed(allowed(model, batch), batch, sites))
    return mask.expand(-1, max(1, sites), batch.y.shape[1], -1)


def take(batch: Batch, rows: list[int]) -> Batch:
    """Some sentences of a batch, perhaps more than once."""
    parts = {part.name: getattr(batch, part.name) for part in fields(batch)}
    return replace(batch, **{name: value[rows] for name, value in parts.items() if isinstance(value, Tensor)})


def _mixed(legal: Tensor) -> Tensor:
    """Random weights, always the same, where a row may look. (B, S, T, L)"""
    generator = torch.Generator().manual_seed(0)
    weights = torch.rand(legal.shape, generator=generator).to(legal.device).add(0.1).masked_fill(~legal, 0)
    return weights / weights.sum(-1, keepdim=True).clamp_min(1e-12)


def _last(legal: Tensor) -> Tensor:
    return (legal * torch.arange(1, legal.shape[-1] + 1, device=legal.device)).argmax(-1)


def _inputs(batch: Batch) -> list[Tensor]:
    return [x[mask] for x, mask in zip(batch.x, batch.x_mask, strict=True)]


def output(trace: Trace) -> Tensor:
    """What a model says: its logits, or the scores it returns instead. (B, T, V or 1)"""
    if trace.logits is not None:
        return trace.logits
    if trace.scores is None:
        raise ContractError("a trace has neither logits nor scores: return one of them")
    return trace.scores.unsqueeze(-1)


def gap(a: Tensor, b: Tensor) -> float:
    """The largest difference between two tensors, relative where they exceed 1; NaN if only one is infinite."""
    a, b = a.float(), b.float()
    apart = torch.where(a == b, 0.0, (a - b).abs() / b.abs().clamp_min(1))
    return apart.max().item() if apart.numel() else 0.0


def tolerance(model: object, trace: Trace) -> float:
    """How far rounding may take two ways to one number apart: by the coarsest precision that the model has."""
    kinds = {trace.alpha.dtype, output(trace).dtype}
    kinds |= {parameter.dtype for parameter in model.parameters()} if supports(model, HasParameters) else set()
    return max(TOLERANCE.get(kind, 1e-4) for kind in kinds)


def _with_other_weights(law: Callable[[AttentionModel, Batch], bool], model: AttentionModel, batch: Batch) -> bool:
    """Hold a model to a law; if its output does not move at all, as an untrained one's may not, with other weights."""
    try:
        return law(model, batch)
    except _DoesNotMove as problem:
        for seed in range(ATTEMPTS):
            with _shaken(model, seed) as possible, contextlib.suppress(_DoesNotMove):
                if possible:
                    return law(model, batch)
        raise ContractError(str(problem)) from None


def _weights(model: object) -> list[Tensor]:
    """What can be changed in place: parameters, else what the state of a model refers to."""
    weights: Iterable[Tensor] = ()
    if supports(model, HasParameters):
        weights = model.parameters()
    elif supports(model, HasStateDict):
        weights = model.state_dict().values()
    elif supports(model, HasState):
        weights = model.state().values()
    return [weight for weight in weights if weight.is_floating_point()]


@contextlib.contextmanager
def _shaken(model: object, seed: int) -> Iterator[bool]:
    """Noise on every weight, for a while; False if the model has no weights that can be reached."""
    weights = _weights(model)
    kept = [weight.detach().clone() for weight in weights]
    generator = torch.Generator().manual_seed(seed)
    try:
        for weight in weights:
            noise = torch.randn(weight.shape, generator=generator).to(weight)
            weight.data.add_(noise * (0.5 / max(1, weight.shape[-1]) ** 0.5 if weight.dim() > 1 else 0.1))
        yield bool(weights)
    finally:
        for weight, before in zip(weights, kept, strict=True):
            weight.data.copy_(before)

"""What several ways to one number must agree on: the checks of an extraction on every sentence, and more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ktiwprobe.corpus.batch import Batch
from ktiwprobe.corpus.ragged import Ragged
from ktiwprobe.corpus.split import Split
from ktiwprobe.models.attend import Under, allowed, by_site, uniform
from ktiwprobe.models.scoring import right_outputs
from ktiwprobe.probes.checks import check_far, check_objectives, check_slope, check_ways
from ktiwprobe.probes.guards import _shaken, compare_gate, output, random_gate, take
from ktiwprobe.testing.case import LONGEST, Case, in_evaluation, said
from ktiwprobe.testing.outcome import Failed, Skipped

SENTENCES = 2  # of which the gate is tried under attend
TIE = 1e-5  # logits that differ by less may be ranked either way


def ways_to_force_agree(case: Case) -> None:
    """attend of one row, attend in three dimensions and trace(state=encode(batch), attend=) do what attend does."""
    case.needs_trace()
    rows = (case.of_sites.sum(-1) > 1).any(2).all(1).nonzero().flatten().tolist()
    if rows:
        check_ways(case.model, take(case.batch, rows))


def attend_is_obeyed_far(case: Case) -> None:
    """attend is obeyed in a long sentence too."""
    case.needs_trace()
    long = long_sentence(case.split)
    try:
        with torch.no_grad():
            case.model.trace(long)
    except Exception as error:  # a model may have a limit
        raise Skipped(f"the model reads no sentence of {long.x.shape[1]} tokens ({type(error).__name__})") from error
    check_far(case.model, long)


def long_sentence(split: Split) -> Batch:
    """A sentence of about LONGEST tokens, made of several."""
    rows = [i for i in range(len(split)) if max(len(split.x[i]), len(split.y[i])) <= LONGEST] or [0]
    xs, ys = [split.x[rows[0]]], [split.y[rows[0]]]
    single = bool((split.y.lengths == 1).all())  # one label for all of it
    while True:
        room = LONGEST - max(sum(map(len, xs)), sum(map(len, ys)))
        fitting = [i for i in rows if 0 < max(len(split.x[i]), len(split.y[i])) <= room]
        if not fitting:
            break
        best = max(fitting, key=lambda i: len(split.x[i]))
        xs.append(split.x[best])
        ys += [] if single else [split.y[best]]
    return Split(Ragged.of([np.concatenate(xs)]), Ragged.of([np.concatenate(ys)])).batch(np.array([0]))


def gate_is_obeyed_under_attend(case: Case) -> None:
    """gate scales the source embeddings under a given attention too."""
    case.needs_trace()
    alone_ones = [case.alone(row) for row in range(len(case.split))]
    telling = [alone for alone in alone_ones if (alone.x != alone.x[0, 0]).any()]
    for alone in telling[:SENTENCES]:
        compare_gate(case.model, alone, random_gate(alone), _uniform(case, alone))


def delta_is_a_slope(case: Case) -> None:
    """delta is d log p(y_t) / d gate, by finite differences, under learned and under uniform attention."""
    case.needs_trace()
    for model in (case.model, Under(case.model, uniform)):
        check_slope(model, case.batch)


def objectives_obey_attend(case: Case) -> None:
    """loss and evaluate run under the attend that they are given."""
    case.needs_trace()
    check_objectives(case.model, case.batch)


def _uniform(case: Case, batch: Batch) -> Tensor:
    seen = allowed(case.model, batch)
    return uniform(by_site(seen) if case.sites else seen)


@torch.no_grad()
def right_outputs_have_the_highest_logit(case: Case) -> None:
    """evaluate counts the outputs whose logit is the highest."""
    case.needs_trace()
    if case.model.trace(case.batch).logits is None:
        raise Skipped("the model returns scores, which do not say what is right")
    for batch in _with_likely_outputs(case):
        trace = case.model.trace(batch)
        top = trace.logits.float().topk(2, -1).values
        ties = int(((top[..., 0] - top[..., 1]).abs() <= TIE * top[..., 0].abs().clamp_min(1))[batch.y_mask].sum())
        counted, expected = (float(v) for v in (case.model.evaluate(batch)[0], right_outputs(trace, batch).sum()))
        if abs(counted - expected) > ties:
            raise Failed(
                f"evaluate counts {counted:g} outputs as right where {expected:g} have the highest logit: the first "
                "number must be (logits.argmax(-1) == y)[y_mask].sum()"
            )


def _with_likely_outputs(case: Case) -> Iterator[Batch]:
    """The batch with the likeliest outputs in every other sentence and the second likeliest in the rest.

    Once by the model's weights, and once with others, for which more outputs are likely.
    """
    for seed in (None, 0):
        with _shaken(case.model if seed is not None else None, seed or 0):
            batch = case.batch
            rank = torch.arange(len(batch.y)) % 2
            for t in range(batch.y.shape[1]):
                y, likely = batch.y.clone(), case.model.trace(batch).logits[:, t].topk(2, -1).indices
                y[:, t] = likely.gather(1, rank.unsqueeze(1)).squeeze(1)
                batch = replace(batch, y=y)
            yield batch


@torch.no_grad()
def no_peeking_at_what_comes(case: Case) -> None:
    """Output t depends neither on how many outputs come after it nor, where scores are returned, on which."""
    case.needs_trace()
    batch, T, V = case.batch, case.batch.y.shape[1], case.corpus.target_size
    if T < 2:
        raise Skipped("one output")
    trace = case.model.trace(batch)
    for t in sorted({1, T // 2, T - 1}):
        before, advice = batch.y_mask[:, :t], "shift y by one before reading it"
        cut = batch.y_mask & (torch.arange(T) < t)
        others = [
            (replace(batch, y=batch.y.masked_fill(~cut, 0), y_mask=cut), f"outputs after output {t - 1} are cut off")
        ]
        if trace.logits is None:
            y = batch.y.clone()
            y[:, t] = torch.where(y[:, t] == V - 1, V - 2, V - 1)
            others.append((replace(batch, y=y), f"y_{t} is changed"))
        for other, what in others if case.corpus.kind == "translation" else others[1:]:
            early, late = (output(one)[:, :t][before] for one in (trace, case.model.trace(other)))
            case.same(
                late, early, f"an output before output {t} changes when {what}: {advice}, and leave its length out"
            )


def load_state_replaces_everything(case: Case) -> None:
    """load_state() replaces what a model has computed from other weights."""
    used: Any = case.build(seed=1)
    used = in_evaluation(used)
    said(used, case.batch)
    used.load_state({name: tensor.clone() for name, tensor in case.model.state().items()})
    after = said(used, case.batch)
    for name, values in said(case.model, case.batch).items():
        for before, again in zip(values, after[name], strict=True):
            case.same(
                again,
                before,
                f"after load_state of a model that has already run, {name} is another: compute nothing "
                "from weights once and for all, or forget it in load_state",
            )

"""What it means to run under a chosen attention and a gate: the laws of guards.py on every sentence, and more."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ktiwprobe.corpus.batch import Batch
from ktiwprobe.models.attend import allowed, by_site, one_hot, uniform
from ktiwprobe.models.scoring import log_odds
from ktiwprobe.plugins.capabilities import ChecksItself, HasLoss, HasTrainMode, supports
from ktiwprobe.probes.definitions import beta_by_definition, delta_by_definition
from ktiwprobe.probes.guards import check_attend, check_site_names, compare_gate, other_lookups, output, take
from ktiwprobe.testing.case import Case, in_evaluation
from ktiwprobe.testing.outcome import Failed, Skipped
from ktiwprobe.training.loop import freeze_all_but


def sites_have_names(case: Case) -> None:
    """Every site has a name of its own."""
    case.needs_trace()
    if not case.sites:
        raise Skipped("a single attention without a name")
    check_site_names(case.model)


def attend_is_obeyed(case: Case) -> None:
    """attend replaces the weights of each site, and its own alpha, given back, changes nothing."""
    case.needs_trace()
    choice = (case.of_sites.sum(-1) > 1).any(2).all(1)  # (B,)
    rows = choice.nonzero().flatten().tolist()
    if rows:
        check_attend(case.model, take(case.batch, rows))
    seen = allowed(case.model, case.batch)
    _reported(case, uniform(by_site(seen) if case.sites else seen))
    for only in one_hot(case.batch):
        _reported(case, only.unsqueeze(0) if case.sites else only)


def _reported(case: Case, attend: Tensor) -> None:
    """alpha must be `attend` in rows that may look wherever it asks them to."""
    alpha = case.model.trace(case.batch, attend=attend).alpha
    alpha = alpha if case.sites else alpha.unsqueeze(1)  # (B, S, T, L)
    wanted = (attend if case.sites else attend.unsqueeze(1 if attend.dim() == 3 else 0)).expand_as(alpha)
    legal = case.of_sites.expand_as(alpha)
    rows = legal.any(-1) & (wanted.masked_fill(~legal, 0) == wanted).all(-1)
    advice = "alpha must be the weights that were used, and allowed(batch) true only where a row can be told to look: "
    case.same(alpha[rows].float(), wanted[rows], advice + "return choose(own, attend, allowed)")


def own_weights_are_out(case: Case) -> None:
    """Under attend, no gradient reaches attention_parameters()."""
    case.needs_trace()
    model = case.trained()
    parameters = [p for p in case.attention_parameters(model) if p.requires_grad]
    seen = allowed(model, case.batch)
    attend = uniform(by_site(seen) if case.sites else seen)
    with torch.enable_grad():
        free, forced = (_gradient(output(model.trace(case.batch, attend=a)), case, parameters) for a in (None, attend))
    if forced > 1e-5 * max(1.0, free):
        raise Failed(
            f"under attend a gradient of {forced:.2g} still reaches attention_parameters(): either the model's own "
            "weights count where attend is given (use choose(own, attend, allowed)), or these parameters do more than "
            "to say where to look"
        )


def _gradient(outputs: Tensor, case: Case, parameters: list[torch.nn.Parameter]) -> float:
    """The largest gradient of the outputs, each with a weight of its own."""
    outputs = outputs[case.batch.y_mask].float()
    if not outputs.requires_grad or not parameters:
        return 0.0
    weights = torch.linspace(0.5, 1.5, outputs.numel()).view_as(outputs)
    grads = torch.autograd.grad((outputs * weights).sum(), parameters, allow_unused=True)
    return max((g.abs().max().item() for g in grads if g is not None), default=0.0)


def gate_is_obeyed(case: Case) -> None:
    """gate scales each source embedding and nothing else, and ones change nothing."""
    case.needs_trace()
    batch, real = case.batch, case.batch.y_mask
    ones = torch.ones_like(batch.x).float()
    with torch.no_grad():
        plain, same = (log_odds(case.model.trace(batch, gate=g), batch)[real] for g in (None, ones))
    case.same(plain, same, "gate = ones changes the output: multiply the source embeddings by gate and nothing else")
    influence = delta_by_definition(case.model, batch)
    if not influence[case.seen].abs().gt(0).any():
        raise Failed("the output does not depend on gate: multiply the source embeddings by gate.unsqueeze(-1)")
    outside = influence.masked_fill(batch.x_mask.unsqueeze(1), 0)[real]
    case.same(outside, torch.zeros_like(outside), "the gate of a padding position has an influence: mask it")
    generator = torch.Generator().manual_seed(1)
    scale = (0.5 + torch.rand(batch.x.shape, generator=generator)).masked_fill(~batch.x_mask, 1)
    _gates_sentences(case, scale)


@torch.no_grad()
def _gates_sentences(case: Case, scale: Tensor) -> None:
    """Each sentence alone, against scaled embeddings or hidden words; and all of them together."""
    whole, looked_up = log_odds(case.model.trace(case.batch, gate=scale), case.batch), False
    for row in range(len(case.split)):
        alone = case.alone(row)
        (L,), (T,) = alone.x.shape[1:], alone.y.shape[1:]
        part = scale[row : row + 1, :L]
        apart = log_odds(case.model.trace(alone, gate=part), alone)
        case.same(
            whole[row : row + 1, :T],
            apart,
            "a gated sentence alone and in a batch differ: gate each sentence by its row",
        )
        if (alone.x != alone.x[0, 0]).any():
            others = other_lookups(case.model, alone)
            for gate in (part, torch.full_like(part, 0.5), 2 * part):
                looked_up |= compare_gate(case.model, alone, gate, others=others)
            if not looked_up:
                _hides_words(case, alone)


def _hides_words(case: Case, alone: Batch) -> None:
    """Where no embedding is looked up: a word with gate 0 could be any other word."""
    for l in range(alone.x.shape[1]):  # noqa: E741
        x = alone.x.clone()
        x[0, l] = alone.x[0, (alone.x[0] != alone.x[0, l]).int().argmax()]
        gate = torch.ones_like(alone.x).float()
        gate[0, l] = 0
        before, after = (output(case.model.trace(replace(alone, x=ids), gate=gate)) for ids in (alone.x, x))
        case.same(after, before, f"input {l} has gate 0 and still changes the output: multiply its embedding by gate")


def model_is_faithful(case: Case) -> None:
    """check_faithful(batch, forcing=), a check of the model's own, passes."""
    case.needs_trace()
    if not supports(case.model, ChecksItself):
        raise Skipped("the model brings none")
    case.model.check_faithful(case.batch, forcing=True)


def frozen_beta_stays(case: Case) -> None:
    """One update of attention_parameters() alone changes alpha and not beta."""
    case.needs_trace()
    if not supports(case.model, HasLoss):
        raise Skipped("no loss: the model trains itself")
    model = case.trained()
    parameters = case.attention_parameters(model)
    beta, alpha = beta_by_definition(model, case.batch), model.trace(case.batch).alpha.detach()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        learning = freeze_all_but(model, parameters, case.batch)
        optimiser = model.optimiser(learning, lr=1e-2)
        if supports(model, HasTrainMode):
            model.train()
        model.loss(case.batch).backward()
        optimiser.step()
    after = beta_by_definition(in_evaluation(model), case.batch)
    advice = "training with frozen beta changes beta: attention_parameters() must only say where to look"
    case.same(after[case.forced], beta[case.forced], advice)
    if torch.equal(model.trace(case.batch).alpha, alpha) and (case.of_sites.sum(-1) > 1).any():
        raise Failed(
            "training attention_parameters() leaves alpha as it is: return the parameters that say where to look"
        )

"""Scoring: log-odds, -log p and right outputs against the definition in float64, at any precision of the logits."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ktiwprobe import Batch, Trace
from ktiwprobe.errors import ContractError
from ktiwprobe.models.scoring import (
    log_odds,
    neg_log_p,
    nll_of_log_odds,
    nll_of_logits,
    nll_of_shared_logits,
    right_outputs,
    score,
)
from ktiwprobe.probes.definitions import log_odds as log_odds_of_probes


@pytest.fixture
def batch() -> Batch:
    """Two sentences, three outputs each; one is padding, and one in the middle does not count."""
    ones = torch.ones(2, 3, dtype=torch.bool)
    y_mask = torch.tensor([[True, False, True], [True, True, False]])
    return Batch(ones.long(), ones, torch.tensor([3, 3]), torch.tensor([[0, 3, 2], [1, 1, 0]]), y_mask)


@pytest.fixture
def logits() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).normal(0, 3, (2, 3, 4)))


def by_definition(logits: torch.Tensor, y: torch.Tensor) -> list[list[float]]:
    """P of each output in float64, term by term."""
    rows = zip(logits.double().tolist(), y.tolist(), strict=True)
    return [[math.exp(of[i]) / sum(map(math.exp, of)) for of, i in zip(row, ids, strict=True)] for row, ids in rows]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_scores_are_those_of_the_definition(batch: Batch, logits: torch.Tensor, dtype: torch.dtype) -> None:
    """Half-precision logits are rounded once, when the model makes them, and never in scoring."""
    trace = Trace(logits.to(dtype), torch.zeros(2, 3, 3))
    p = torch.tensor(by_definition(trace.logits, batch.y), dtype=torch.float64)
    real = batch.y_mask
    assert torch.allclose(neg_log_p(trace, batch)[real].double(), -p[real].log(), atol=1e-5)
    assert torch.allclose(log_odds(trace, batch).double(), (p / (1 - p)).log(), atol=1e-5)
    assert neg_log_p(trace, batch).dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    right, total, nll = score(trace, batch)
    best = [[row.index(max(row)) for row in rows] for rows in trace.logits.tolist()]
    assert int(right) == int(((torch.tensor(best) == batch.y) & real).sum())
    assert (int(total), float(nll)) == (4, pytest.approx(float(-p[real].log().sum()), abs=1e-4))


def test_all_ways_to_minus_log_p_agree(batch: Batch, logits: torch.Tensor) -> None:
    """From logits, from log-odds, and from logits that all outputs of a sentence share."""
    each = nll_of_logits(logits, batch.y)
    assert torch.allclose(nll_of_log_odds(log_odds(Trace(logits, logits), batch)), each)
    assert torch.allclose(nll_of_logits(logits, batch.y, reduction="mean"), each.mean())
    shared = logits[:, :1].expand_as(logits)
    assert torch.allclose(nll_of_shared_logits(logits[:, 0], batch.y), nll_of_logits(shared, batch.y))


def test_what_does_not_count_scores_nothing(batch: Batch, logits: torch.Tensor) -> None:
    """Neither in the sum nor among the right ones, even where its p is 0."""
    logits[~batch.y_mask] = -torch.inf
    trace = Trace(logits, logits)
    assert (neg_log_p(trace, batch)[~batch.y_mask] == 0).all()
    assert not right_outputs(trace, batch)[~batch.y_mask].any()


def test_scores_stand_for_logits(batch: Batch) -> None:
    """A trace with scores has -log p, but nothing that says which output is right; one with neither is refused."""
    scores = torch.tensor([[0.5, 1.0, -2.0], [3.0, 0.0, 0.0]], dtype=torch.float16)
    trace = Trace(None, torch.zeros(2, 3, 3), scores)
    assert torch.allclose(neg_log_p(trace, batch)[batch.y_mask], -scores.float().sigmoid().log()[batch.y_mask])
    with pytest.raises(ContractError, match="scores without logits must bring its own evaluate"):
        score(trace, batch)
    with pytest.raises(ContractError, match="neither logits nor scores"):
        neg_log_p(Trace(None, torch.zeros(2, 3, 3)), batch)


def test_there_is_one_log_odds() -> None:
    """The name that probes export is that of scoring."""
    assert log_odds_of_probes is log_odds

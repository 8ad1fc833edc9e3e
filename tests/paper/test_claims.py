"""The paper's claims: their measures on made-up data, and the cheap ones in full."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ktiwprobe import build_registry
from ktiwprobe.claims import measures
from ktiwprobe.compare.agreement import wilson
from ktiwprobe.signals.signal import make_signal
from ktiwprobe_paper.experiments import copying, counts, gradient, locality, multihead, optimal
from ktiwprobe_paper.ibm1 import count_table


def signal(matrix):
    """Rows of one length, each a sentence of its own."""
    values = np.asarray(matrix, np.float32)
    N, L = values.shape
    return make_signal(values.ravel(), np.full(N, L), np.ones(N, int))


def test_shares_have_wilson_intervals():
    """Of 20 of 20 the interval begins at 0.839 (Wilson 1927, by hand: n / (n + z²))."""
    assert wilson(1.0, 20) == pytest.approx((20 / (20 + 1.959964**2), 1.0), abs=1e-6)
    assert measures.share(10, 20) == "10/20 [0.30, 0.70]"


def test_learning_is_the_first_step_above():
    """Not at the threshold, and not later ones."""
    assert measures.learned_at({0: 0.1, 10: 0.95, 20: 0.96, 30: 1.0}) == 20
    assert measures.learned_at({0: 0.1}) is None


def test_peaks_are_counted_against_gold():
    """Rows without a link do not count; of equals the first is the peak."""
    gold = signal([[0, 1, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0.5]])
    found = signal([[0.1, 0.8, 0.1], [0.2, 0.5, 0.3], [1, 0, 0], [0.4, 0.2, 0.4]])
    assert measures.peak_is_gold(found, gold) == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("control", "hard", "holds"),
    [
        ([50, 60], [[90, None], [None, 100]], True),
        ([50, None], [[90, None], [None, 100]], False),  # the control fails
        ([50, 60], [[90, 100], [None, 100]], False),  # a hard one never fails
        ([50, 60], [[40, None], [None, 100]], False),  # a hard one is faster
        ([50, 60], [[None, None], [None, 100]], None),  # nobody is left to be slower
    ],
)
def test_copying_is_judged_as_the_paper_says(control, hard, holds):
    """Sometimes fails, and then slower: not never, not always."""
    assert copying.judged(control, hard) is holds


def test_gamma_is_read_around_the_keyword():
    """At it, after it, on average and at the end; keywords at the last two positions and negatives are left out."""
    gamma = [[5, 3, 1, 0, 2], [9, 9, 9, 9, 9], [7, 7, 7, 7, 7], [0, 4, 2, 1, 3]]
    gold = [[1, 0, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0]]
    found = locality.gamma_around(signal(gamma), signal(gold))
    assert found == pytest.approx({"keyword": 4.5, "one after": 2.5, "mean": 2.1, "last": 2.5})


def test_orders_of_gamma_are_told_apart():
    """Hypothesis 2 and Observation 3 are never both true."""
    early = {"keyword": {1: 4.0}, "one after": {1: 2.0}, "mean": {1: 1.0}, "last": {1: 1.1}}
    late = {"keyword": {1: 1.0}, "one after": {1: 2.0}, "mean": {1: 1.1}, "last": {1: 4.0}}
    assert locality.hypothesis_2(early, 1)
    assert not locality.observation_3(early, 1)
    assert locality.observation_3(late, 1)
    assert not locality.hypothesis_2(late, 1)


def test_the_count_tables_are_one(tiny_corpus):
    """Equation 14 cell by cell is the sparse product."""
    split = tiny_corpus.split("train")
    sizes = tiny_corpus.source_size, tiny_corpus.target_size
    assert np.allclose(counts.by_definition(split, *sizes), count_table(split, *sizes).toarray(), atol=1e-12)


def test_the_first_gradient_nears_the_count_table(tiny_corpus):
    """The error falls with the width as the limit theorem says, for logits and for probabilities times |O|."""
    split = tiny_corpus.split("train")
    C = torch.from_numpy(counts.by_definition(split, tiny_corpus.source_size, tiny_corpus.target_size)).float()
    inputs = torch.zeros(len(split), tiny_corpus.source_size)
    outputs = torch.zeros(len(split), tiny_corpus.target_size)
    for m in range(len(split)):
        inputs[m].index_add_(0, torch.from_numpy(split.x[m]), torch.full((len(split.x[m]),), 1 / len(split.x[m])))
        outputs[m].index_add_(0, torch.from_numpy(split.y[m]), torch.ones(len(split.y[m])))
    problem = gradient.Problem(inputs, outputs, 2 * (C - C.mean(1, keepdim=True)))
    narrow, wide = (np.mean([gradient.errors_at(problem, d, seed) for seed in range(5)], 0) for d in (100, 10000))
    assert narrow[:2] / wide[:2] == pytest.approx(10, rel=0.25)
    assert wide[0] < 0.05
    assert wide[2] == pytest.approx(1, abs=0.1)  # the text's reading, without 1/|O|


def test_the_counterexample_of_appendix_a1():
    """The best attention is (0, 1/2, 1/2) although beta is largest at the first position."""
    weights, lexical = optimal.counterexample()
    assert weights == pytest.approx([0, 0.5, 0.5], abs=1e-4)
    assert lexical.argmax() == 0


class FakeRuns:
    """A context whose trainings end as told: for each head, what data seeds make of it."""

    def __init__(self, fates: dict[int, str]) -> None:
        self.fates, self.asked = fates, []

    def train(self, jobs):
        runs = []
        for job in jobs:
            (head,) = job.options["head_inits"]
            self.asked.append((head, job.seed, job.steps))
            end = {"g": 1.0, "b": 0.3, "n": 0.8}[self.fates[head][job.seed]]
            runs.append(SimpleNamespace(log=lambda end=end, job=job: [{"step": job.steps, "accuracy": end}]))
        return runs


def test_heads_are_judged_by_three_seeds():
    """Good and bad need all seeds; a test ends at the first that contradicts, and once it has learned."""
    context = FakeRuns({0: "ggg", 1: "bbb", 2: "gb?", 3: "n??", 4: "bbg"})
    good, bad = multihead.Search(context, multihead.Sizes(pool=3, most=5, wave=5)).pools()
    assert (good, bad) == ([0], [1])
    asked = {(head, seed) for head, seed, _ in context.asked}
    assert (3, 1) not in asked
    assert (2, 2) not in asked
    assert (0, 0, 200) not in context.asked
    assert (1, 0, 200) in context.asked


def test_pairs_that_end_above_are_counted():
    """All, none, and half where both are the same."""
    assert multihead.share_above([2, 3], [0, 1]) == 1
    assert multihead.share_above([0], [1, 2]) == 0
    assert multihead.share_above([1, 2], [2, 1]) == 0.5


def test_a_full_pool_needs_no_more_tests():
    """Once there are enough good heads, another one is not confirmed; the search ends with both pools full."""
    context = FakeRuns({0: "ggg", 1: "ggg", 2: "bbb", 3: "bbb"})
    search = multihead.Search(context, multihead.Sizes(pool=1, most=4, wave=1))
    assert search.pools() == ([0], [2])
    assert search.tested == 3
    assert (1, 1) not in {(head, seed) for head, seed, _ in context.asked}


@pytest.mark.parametrize("name", sorted(build_registry().names("experiments")))
def test_every_claim_says_what_it_claims(name):
    """A sentence with its place in the paper, and seeds for both scales."""
    claim = build_registry().load("experiments", name)
    assert any(word in claim.claim for word in ("Section", "Appendix"))
    assert len(claim.small_seeds) <= len(claim.seeds)

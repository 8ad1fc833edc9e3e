"""The support table's check: about twelve types, one per mechanism; all pairs of transformers in the slow tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.models import check, mechanisms, page
from benchmarks.models.__main__ import run
from benchmarks.models.reference import Reference

MECHANISMS = [
    pytest.param("llama", "causal", "grouped queries", id="grouped queries"),
    pytest.param("gemma2", "causal", "soft cap", id="soft caps"),
    pytest.param("mistral", "causal", "window 4", id="windows"),
    pytest.param("modernbert", "masked", "window ±2", id="two-way windows"),
    pytest.param("llama4_text", "causal", "chunk 4", id="chunks"),
    pytest.param("gpt_oss", "causal", "sink", id="sinks"),
    pytest.param("t5", "seq2seq", "position bias", id="relative bias"),
    pytest.param("albert", "classifier", "tied layers", id="tied layers"),
    pytest.param("deepseek_v3", "causal", "latent keys and values", id="latent attention"),
    pytest.param("qwen3", "causal", "QK norm", id="QK norm"),
    pytest.param("lfm2", "causal", "other mixing of rows", id="hybrid"),
    pytest.param("deepseek_v32", "causal", "top-3", id="sparse indexer"),
    pytest.param("bart", "seq2seq", "", id="encoder-decoder"),
    pytest.param("diffllama", "causal", "", id="two calls a layer"),
    pytest.param("gemma3n_text", "causal", "window 4", id="states whose first axis is not the batch"),
]


@pytest.mark.parametrize(("model_type", "kind", "mechanism"), MECHANISMS)
def test_one_type_for_each_mechanism_is_right(model_type: str, kind: str, mechanism: str) -> None:
    """alpha, beta and delta equal the reference, and the mechanism acted on the texts."""
    result = check.check(model_type, kind)
    assert (result.outcome, result.reason) == ("right", "")
    assert not mechanism or mechanism in result.acted


@pytest.mark.slow
def test_no_pair_is_wrong_and_none_ends_in_a_traceback() -> None:
    """Every (type, kind) that transformers maps is right, refused, or cannot be built."""
    results = list(run(check.pairs(), workers=2))
    assert len(results) == len(check.pairs())
    assert not [(one.model_type, one.kind, one.reason) for one in results if one.outcome in check.FAULTS]


# the check itself must be able to fail


def test_a_small_difference_is_wrong() -> None:
    """A difference above the tolerance, relative to values above 1."""
    cells = np.tril(np.ones((3, 3), bool))
    expected = np.where(cells, 5.0, np.nan)[None]
    assert check.compare(expected, expected, cells) == (0.0, "")
    assert check.compare(expected + 4e-4, expected, cells)[1] == ""
    assert check.compare(expected + 6e-4, expected, cells)[1] == "off by 0.00012"


def test_other_cells_are_wrong() -> None:
    """A cell that a row may not look at, or a missing one."""
    cells = np.tril(np.ones((3, 3), bool))
    expected = np.where(cells, 5.0, np.nan)[None]
    everywhere = np.full((1, 3, 3), 5.0)
    assert check.compare(everywhere, everywhere, cells)[1] == "3 of 9 cells differ in whether a row may look"
    assert check.compare(np.where(np.eye(3, dtype=bool), 5.0, np.nan)[None], expected, cells)[1].startswith("3 of 9")


def test_wrong_quantities_are_named() -> None:
    """If a quantity is moved by 0.001 or more at one site, the reason names it and the site, and nothing else."""
    torch.manual_seed(0)
    sentences = check.make_sentences("causal")[:2]
    network = check.make_network("llama", "causal")
    ours = {site: check.probed(network, "causal", sentences, site) for site in ("first", "default")}
    sizes = {("first", "alpha"): 0.001, ("first", "delta"): 0.003}
    sizes |= {("default", "beta"): 0.001, ("default", check.ONE_ROW): 0.003}
    for (site, quantity), size in sizes.items():
        for matrix in ours[site][quantity]:
            matrix += size * (1 + np.abs(matrix))
    _, reason = check.largest_difference(network, "causal", sentences, ours)
    assert all(f"{quantity} at the {site} site: off by 0.00" in reason for site, quantity in sizes)
    assert reason.count("at the") == len(sizes)


@torch.no_grad()
def test_the_reference_forces_only_rows_that_may_look() -> None:
    """Under beta of position 3, logits before position 3 are the network's own, and later ones are not."""
    sentence = check.make_sentences("causal")[0]
    reference = Reference(check.make_network("llama", "causal"), "causal", sentence)
    own, beta = reference.log_odds(reference.logits), reference.beta(reference.sites[0])
    torch.testing.assert_close(beta[:3, 3], own[:3])
    assert (beta[3:, 3] - own[3:]).abs().min() > 1e-3


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (lambda row, at: at <= row, None),
        (lambda row, at: (row - at).abs() < 99, None),
        (lambda row, at: (at <= row) & (row - at < 4), "window 4"),
        (lambda row, at: (row - at).abs() < 3, "window ±2"),
        (lambda row, at: (at <= row) & (row // 4 == at // 4), "chunk 4"),
        (lambda row, at: (at <= row) & ((row - at) % 5 == 0), "top-3"),
    ],
)
def test_masks_are_recognised(rule: Any, name: str | None) -> None:
    """Windows, chunks and sparse masks by the cells they leave."""
    place = torch.arange(11)
    assert mechanisms.pattern_of(rule(place.unsqueeze(1), place)) == name


def test_the_page_counts_what_it_lists() -> None:
    """A row for each result, and the share of right ones among those that were built."""
    results = [
        check.Result("llama", "causal", "right", acted=("grouped queries",)),
        check.Result("rwkv", "causal", "refused", "it has no attention | at all"),
        check.Result("layoutlmv2", "classifier", "cannot be built", "a library is missing"),
    ]
    text = page.page_of(results)
    assert "| `llama` | causal | right | grouped queries |  |" in text
    assert r"no attention \| at all" in text
    assert (
        "3 pairs: 1 right, 1 refused, 0 wrong, 0 traceback, 1 cannot be built; 50.0% of the 2 built are right." in text
    )

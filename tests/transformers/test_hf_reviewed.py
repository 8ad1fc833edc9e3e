"""Mistakes that once gave a wrong number in silence, or left the network changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.models.check import make_batch, make_network, make_sentences, wrapped
from torch import Tensor

import hf_tiny
from ktiwprobe import Batch
from ktiwprobe.corpus.tokens import TokenRoles
from ktiwprobe.data import Ragged, Split
from ktiwprobe.errors import CorpusError, KtiwprobeError, PluginError
from ktiwprobe.models.attend import Under, uniform
from ktiwprobe.probes.probing import probe
from ktiwprobe_transformers.faithful import rows_mix
from ktiwprobe_transformers.forcing import watching
from ktiwprobe_transformers.texts import _masked
from ktiwprobe_transformers.tracer import as_model


def tiny(model_type: str, kind: str = "causal", site: str | None = None, **options: Any) -> tuple[Any, Batch]:
    """A network of a type and a padded batch."""
    model = wrapped(make_network(model_type, kind), kind, site)
    model.options = replace(model.options, **options)
    return model, make_batch(make_sentences(kind))


def test_every_output_of_a_masked_text_has_a_gap() -> None:
    """With fewer gaps than outputs, or more, an output would be read at another position."""
    model, batch = hf_tiny.make_model("hf-masked-lm", "bert")
    filled = batch.x.masked_fill(batch.x == model.mask_id, 5)
    with pytest.raises(CorpusError, match="another number of mask tokens than of outputs"):
        model.trace(replace(batch, x=filled))


def test_a_text_that_has_a_mask_token_gets_no_gaps() -> None:
    """What stood there nobody knows."""
    split = Split(Ragged.of([[5, 3, 6, 7], [5, 6, 7, 8]]), Ragged.of([[5], [5]]))
    masked = _masked(split, 3, 0.3, np.random.default_rng(0), TokenRoles())
    assert len(masked) == 1
    assert (masked.x.values == 3).sum() == len(masked.y.values) == 1


@pytest.mark.parametrize("rows", ["all", "single"])
def test_sites_that_move_each_others_mask_are_not_forced_together(rows: str) -> None:
    """In a sparse network forcing the first layer changes what the second may see."""
    model, batch = tiny("deepseek_v32", site="self:all", rows=rows)
    with pytest.raises(PluginError, match=r"depends on the text, and forcing self:0\.h0 changes what self:1\.h3"):
        probe(model, [batch], "beta")


def test_rows_are_seen_to_mix_whichever_outputs_count() -> None:
    """A convolution reaches two positions on: with only far outputs counted rows still mix."""
    model, batch = tiny("lfm2")
    some = torch.zeros_like(batch.y_mask)
    some[0, [7, 10]] = True
    assert rows_mix(model, replace(batch, y_mask=some))


def test_padding_stands_at_the_end() -> None:
    """On the left it would shift positions in some networks and not in others."""
    model, batch = tiny("llama")
    left = replace(batch, x=batch.x.flip(1), x_mask=batch.x_mask.flip(1))
    for run in (model.trace, model.beta):
        with pytest.raises(CorpusError, match="padding must stand at the end"):
            run(left)


def test_masks_are_read_again_after_an_update() -> None:
    """Under uniform attention a sparse network is uniform over what it sees now, not over what it saw before."""
    model, batch = tiny("doge")
    under = Under(model, uniform)
    under.trace(batch)
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    again = Under(wrapped(model.network, "causal", None), uniform).trace(batch)
    torch.testing.assert_close(under.trace(batch).logits, again.logits)


def test_gradient_checkpointing_is_refused_under_a_chosen_attention() -> None:
    """Its second pass would run under the network's own attention and give other gradients."""
    model, batch = tiny("llama")
    model.network.train()
    model.network.gradient_checkpointing_enable()
    with pytest.raises(PluginError, match="gradient checkpointing"):
        Under(model, uniform).loss(batch)
    model.eval()
    probe(model, [batch], "beta")


def test_an_attention_of_three_dimensions_is_for_all_sites() -> None:
    """(B, T, L), also where there are as many sites as sentences."""
    model, batch = tiny("llama")
    four = Batch(*(getattr(batch, name)[[0, 1, 2, 0]] for name in ("x", "x_mask", "x_lengths", "y", "y_mask")))
    assert len(four.x) == len(model.sites)
    weights = uniform(model.allowed(four))
    torch.testing.assert_close(
        model.trace(four, attend=weights).logits, model.trace(four, attend=weights[:, None]).logits
    )


def test_the_attention_of_every_part_is_put_back() -> None:
    """A config sets its parts too; each gets back its own."""
    model, _ = hf_tiny.make_model("hf-seq2seq", "bert+bert")
    network: Any = model.network
    network.encoder.config._attn_implementation = "eager"
    before = [part.config._attn_implementation for part in (network, network.encoder, network.decoder)]
    with watching(network):
        pass
    assert [part.config._attn_implementation for part in (network, network.encoder, network.decoder)] == before
    assert "eager" in before


def test_a_forward_of_its_own_is_put_back() -> None:
    """Models that are spread over devices wrap the forward of their modules."""
    model, batch = tiny("llama")
    layer = model.network.model.layers[0]
    own = layer.forward
    layer.forward = lambda *args, **rest: own(*args, **rest)
    kept = layer.forward
    model.beta(batch)
    assert layer.forward is kept


def test_a_frozen_classifier_is_probed() -> None:
    """Which position it pools is found without gradients of its weights."""
    network = make_network("bert", "classifier").requires_grad_(False)
    assert not wrapped(network, "classifier", None).last


def test_no_random_number_is_drawn() -> None:
    """Wrapping a network in the middle of a training does not change the training."""
    network = make_network("nllb-moe", "seq2seq")
    before = torch.random.get_rng_state()
    as_model(network)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_long_texts_are_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What acts only from some length on is tried when the first text of that length comes."""
    model, batch = tiny("llama")
    states = type(model).states

    def drifting(self: Any, batch: Batch, gate: Tensor | None) -> Tensor:
        logits: Tensor = states(self, batch, gate)
        own = self.network.config._attn_implementation != "eager"
        return logits + 1.0 * (own and batch.x.shape[1] > 8)

    model.network.set_attn_implementation("sdpa")
    monkeypatch.setattr(type(model), "states", drifting)
    short = Batch(batch.x[2:, :5], batch.x_mask[2:, :5], batch.x_lengths[2:], batch.y[2:, :5], batch.y_mask[2:, :5])
    probe(model, [short], "alpha")
    with pytest.raises(KtiwprobeError, match="gives other outputs"):
        probe(model, [short, batch], "alpha")


def test_half_precision_is_not_refused_for_rounding() -> None:
    """Two ways to compute an attention differ more there."""
    network = make_network("llama", "causal").to(torch.bfloat16)
    network.set_attn_implementation("sdpa")
    probe(wrapped(network, "causal", None), [make_batch(make_sentences("causal"))], "alpha")


def test_an_error_inside_the_network_is_a_sentence() -> None:
    """An id that the vocabulary does not have, with file and line."""
    model, batch = tiny("llama")
    with pytest.raises(KtiwprobeError, match="raised IndexError"):
        probe(model, [replace(batch, x=batch.x + 1000)], "alpha")

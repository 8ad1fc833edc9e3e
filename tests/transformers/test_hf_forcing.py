"""Hugging Face models under a chosen attention: the known traps, each with a test."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import hf_tiny
from ktiwprobe.errors import PluginError
from ktiwprobe.models.attend import one_hot, uniform
from ktiwprobe_transformers.forcing import Force, watching


def attentions_of(model: Any, batch: Any) -> Tensor:
    """The attention at the model's last site as transformers itself reports it. (B, H, Q, L)"""
    call, kept = model.network.forward, []

    def forward(*args: Any, **kwargs: Any) -> Any:
        kept.append(call(*args, **kwargs, output_attentions=True))
        return kept[-1]

    model.network.forward = forward
    try:
        model.logits(batch)
    finally:
        del model.network.forward
    found = kept[0].cross_attentions if model.outputs else kept[0].attentions
    return found[-1]


@pytest.mark.parametrize(("name", "config"), hf_tiny.FAMILIES)
@torch.no_grad()
def test_nothing_forced_is_the_eager_model(name: str, config: str) -> None:
    """Under the hook, logits and weights are bit for bit those of the eager implementation, padding and all."""
    model, batch = hf_tiny.make_model(name, config)
    model.network.set_attn_implementation("eager")
    trace = model.trace(batch)
    assert not batch.x_mask.all()
    assert torch.equal(trace.logits, model.logits(batch))
    own = attentions_of(model, batch)
    rows = model.rows(batch)
    if rows is not None:
        own = own.gather(2, rows.clamp_min(0)[:, None, :, None].expand(-1, own.shape[1], -1, own.shape[3]))
    assert torch.equal(trace.alpha, own)


@torch.no_grad()
def test_weights_are_read_from_a_model_that_runs_sdpa() -> None:
    """sdpa returns no attentions; under the hook they are there, and afterwards the model runs sdpa again."""
    model, batch = hf_tiny.make_model("hf-masked-lm", "bert")
    eager = model.trace(batch)
    model.network.set_attn_implementation("sdpa")
    trace = model.trace(batch)
    assert torch.equal(trace.alpha, eager.alpha)
    assert model.network.config._attn_implementation == "sdpa"


def test_everything_is_restored_after_an_error() -> None:
    """An exception inside leaves neither the attention function nor a watch behind."""
    model, batch = hf_tiny.make_model("hf-seq2seq", "t5")
    before = {id(m): m.config._attn_implementation for m in model.network.modules() if hasattr(m, "config")}
    with pytest.raises(RuntimeError, match="on purpose"), watching(model.network) as watch:
        raise RuntimeError("on purpose")
    after = {id(m): m.config._attn_implementation for m in model.network.modules() if hasattr(m, "config")}
    assert after == before
    model.logits(batch)
    assert not watch.turns


@pytest.mark.parametrize("family", ["bert", "llama", "gpt2", "bart", "t5"])
@torch.no_grad()
def test_forcing_equals_replacing_by_hand(family: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One-hot attention at one layer: the same logits as from an eager function rewritten for that layer alone.

    Llama shares keys and values between heads, T5 adds a position bias, and all layers share a config.
    """
    name = {"bert": "hf-masked-lm", "bart": "hf-seq2seq", "t5": "hf-seq2seq"}.get(family, "hf-causal-lm")
    config = hf_tiny.llama_config(tmp_path) if family == "llama" else family
    model, batch = hf_tiny.make_model(name, config, site="cross:0" if name == "hf-seq2seq" else "self:0")
    model.network.set_attn_implementation("eager")
    target, rows = model.places[0].layer.keys[0][0], model.rows(batch)
    home = sys.modules[type(target).__module__]
    eager = home.eager_attention_forward

    def by_hand(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **rest: Any) -> Any:
        output, weights = eager(module, query, key, value, mask, **rest)
        if module is not target:
            return output, weights
        shared = query.shape[1] // value.shape[1]
        everyone = torch.stack([value[:, h // shared] for h in range(query.shape[1])], 2)  # (B, K, H, D)
        forced = output.clone()
        for b in range(len(output)):
            for t in range(output.shape[1]) if rows is None else [t for t in rows[b].tolist() if t >= 0]:
                if weights[b, 0, t, 1] > 0:  # may look at position 1
                    forced[b, t] = everyone[b, 1]
        return forced, weights

    own, ours = model.trace(batch).logits, model.trace(batch, attend=one_hot(batch)[1]).logits
    monkeypatch.setattr(home, "eager_attention_forward", by_hand)
    theirs = model.logits(batch)
    torch.testing.assert_close(ours[batch.y_mask], theirs[batch.y_mask])
    assert not torch.allclose(ours, own)


@torch.no_grad()
def test_only_the_chosen_layer_is_forced() -> None:
    """Layers share a config; the module decides."""
    model, batch = hf_tiny.make_model("hf-masked-lm", "bert")
    first, last = model.layers
    own = {first.keys[0]: Force((0, 1, 2, 3)), last.keys[0]: Force((0, 1, 2, 3))}
    with watching(model.network, own) as plain:
        model.logits(batch)
    with watching(model.network, {**own, last.keys[0]: Force((0, 1, 2, 3), one_hot(batch)[0])}) as forced:
        model.logits(batch)
    assert torch.equal(plain.used[first.keys[0]], forced.used[first.keys[0]])
    assert forced.used[last.keys[0]][..., 0].eq(1).all()


@torch.no_grad()
def test_a_module_that_serves_all_layers_is_forced_at_one_of_its_calls() -> None:
    """ALBERT has one attention module: its layers are its calls."""
    model, batch = hf_tiny.make_model("hf-masked-lm", "albert", site="self:1")
    first, last = model.layers
    assert first.keys[0][0] is last.keys[0][0]
    with watching(model.network, {first.keys[0]: Force((0,)), **model.forces(batch, one_hot(batch)[0])}) as watch:
        model.logits(batch)
    assert not watch.used[first.keys[0]][..., 0].eq(1).all()
    assert watch.used[last.keys[0]][..., 0].eq(1).all()


@torch.no_grad()
def test_a_row_sent_ahead_keeps_its_own_weights() -> None:
    """In a causal model position l is not for rows before l; uniform is over the prefix."""
    model, batch = hf_tiny.make_model("hf-causal-lm", "gpt2")
    own, forced = model.trace(batch).alpha, model.trace(batch, attend=one_hot(batch)[2]).alpha
    assert torch.equal(forced[:, :, :2], own[:, :, :2])
    real = batch.x_mask[:, 2]
    assert forced[real][:, :, 2:, 2].eq(1).all()
    even = model.trace(batch, attend=uniform(model.allowed(batch)).unsqueeze(1)).alpha
    torch.testing.assert_close(even[0, 0, 3, :4], torch.full((4,), 0.25))


@torch.no_grad()
def test_a_row_sent_to_padding_keeps_its_own_weights() -> None:
    """The last column of a padded batch is real for its longest sentence only."""
    model, batch = hf_tiny.make_model("hf-seq2seq", "bart")
    own, forced = model.trace(batch), model.trace(batch, attend=one_hot(batch)[-1])
    short = ~batch.x_mask[:, -1]
    assert short.any()
    assert torch.equal(own.alpha[short], forced.alpha[short])
    assert torch.allclose(own.logits[short], forced.logits[short])
    assert forced.alpha[~short][..., -1].eq(1).all()


@torch.no_grad()
def test_one_head_alone() -> None:
    """Replacing head 1 is replacing all heads, the others by their own weights."""
    one, batch = hf_tiny.make_model("hf-seq2seq", "t5", site="cross:-1.h1")
    every, _ = hf_tiny.make_model("hf-seq2seq", "t5")
    attend = every.trace(batch).alpha
    attend[:, 1] = uniform(batch.x_mask.unsqueeze(1))
    expected = every.trace(batch, attend=attend).logits
    torch.testing.assert_close(one.trace(batch, attend=attend[:, 1:2]).logits, expected)
    assert one.sites == ("cross:1.h1",)


@pytest.mark.parametrize("config", ["bloom", "mamba"])
def test_a_model_that_never_calls_is_refused(config: str) -> None:
    """Bloom attends in a way of its own, Mamba not at all; both take the setting."""
    with pytest.raises(
        PluginError, match=r"(Bloom|Mamba)ForCausalLM .*does not compute its attention.*supported are .*GPT-2"
    ):
        hf_tiny.make_model("hf-causal-lm", config)


def test_dropout_falls_on_the_weights_used_and_not_on_those_told() -> None:
    """In training alpha is before dropout, forced or not; the output is after it."""
    model, batch = hf_tiny.make_model("hf-seq2seq", "bart", dropout=0.5)
    model.train()
    attend = uniform(batch.x_mask.unsqueeze(1)).unsqueeze(1)
    one, other = (model.trace(batch, attend=attend) for _ in range(2))
    assert torch.equal(one.alpha, attend.expand_as(one.alpha))
    assert not torch.allclose(one.logits, other.logits)

"""Architectures from scratch: every type takes the sizes that are asked for, or says in a sentence why not."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import transformers
from benchmarks.models.check import MODELS, pairs

import hf_tiny
from ktiwprobe.errors import KtiwprobeError, OptionError, PluginError
from ktiwprobe_transformers import networks
from ktiwprobe_transformers.loading import make_network
from ktiwprobe_transformers.networks import fresh_config, limit_of
from ktiwprobe_transformers.retokenise import check_lengths
from ktiwprobe_transformers.sizes import make_config

SIZES: dict[str, Any] = {"hidden": 32, "heads": 4, "layers": 2}
COMMANDS = {
    "causal": "hf-causal-lm",
    "masked": "hf-masked-lm",
    "classifier": "hf-classifier",
    "seq2seq": "hf-seq2seq",
}


def build(name: str, config: str, **sizes: Any) -> tuple[Any, Any]:
    """A model from scratch, and the corpus that it reads."""
    cls = hf_tiny.REGISTRY.load("models", name)
    options = cls.Options(config=config, **{**SIZES, **sizes})
    corpus = cls.prepare(hf_tiny.CORPORA[cls.default_task or "toy-translation"], options)
    torch.manual_seed(0)
    return cls.build(corpus, options), corpus


def train_one_step(model: Any, corpus: Any) -> tuple[float, float]:
    """The loss on a few sentences before and after an update on them, without dropout."""
    model.eval()
    batch = corpus.split("train").batch(range(4))
    optimiser = model.optimiser([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    before = model.loss(batch)
    before.backward()
    optimiser.step()
    with torch.no_grad():
        return float(before.detach()), float(model.loss(batch))


@pytest.mark.parametrize(
    ("name", "config", "layers"),
    [
        ("hf-causal-lm", "deepseek_v2", 2),
        ("hf-causal-lm", "deepseek_v3", 2),
        ("hf-causal-lm", "youtu", 2),
        ("hf-causal-lm", "longcat_flash", 4),  # two attentions a layer
        ("hf-causal-lm", "dbrx", 2),
        ("hf-causal-lm", "jamba", 1),  # the other layer is a state space
        ("hf-causal-lm", "qwen3_next", 1),
        ("hf-causal-lm", "gemma3n_text", 2),
        ("hf-masked-lm", "mobilebert", 2),
        ("hf-masked-lm", "esm", 2),
        ("hf-seq2seq", "encoder-decoder", 6),  # in the encoder, in the decoder, and between them
    ],
)
def test_types_take_the_sizes_and_learn(name: str, config: str, layers: int) -> None:
    """Layers, heads and width are those asked for, `ls sites` lists the same ones, and an update lowers the loss."""
    model, corpus = build(name, config)
    assert [layer.heads for layer in model.layers] == [4] * layers
    assert model.text_config.hidden_size == 32
    assert [row["site"] for row in type(model).list_sites(model.options)] == [layer.name for layer in model.layers]
    before, after = train_one_step(model, corpus)
    assert after < before


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("hf-causal-lm", "gptj"),
        ("hf-causal-lm", "codegen"),
        ("hf-classifier", "squeezebert"),
        ("hf-causal-lm", "xlnet"),
    ],
)
def test_types_with_an_attention_of_their_own_say_so(name: str, config: str) -> None:
    """They are built, and refused for what they are, not for their sizes or for the length of a sentence."""
    with pytest.raises(PluginError, match="does not compute its attention with transformers' attention interface"):
        build(name, config)


def test_sizes_that_a_type_cannot_have_are_named() -> None:
    """A type that divides its width by 24 says which width to pass, and takes it."""
    with pytest.raises(OptionError, match=r"'lilt' needs a multiple of 24, and hidden=32 is none: pass -o hidden=48"):
        build("hf-classifier", "lilt")
    assert make_config("lilt", {**SIZES, "hidden": 48, "dropout": 0.0, "positions": 64}).hidden_size == 48


def test_a_type_that_stays_large_is_refused_before_it_takes_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence says how many weights it has."""
    monkeypatch.setattr(networks, "SMALL", 1000)
    monkeypatch.setattr(networks, "MANY", 1)
    with pytest.raises(OptionError, match=r"architecture 'bert' has \d+ million weights even with hidden=32"):
        build("hf-classifier", "bert")


def test_counting_weights_draws_no_random_numbers() -> None:
    """The weights of a network from scratch depend on the seed alone, as before they were counted."""
    model, _ = build("hf-classifier", "bert")
    config = model.network.config
    torch.manual_seed(0)
    expected = make_network(transformers.AutoModelForSequenceClassification, config)
    for ours, theirs in zip(model.network.parameters(), expected.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_positions_without_a_limit_are_none() -> None:
    """XLNet writes -1 where others have a number: no sentence is too long for it."""
    cls = hf_tiny.REGISTRY.load("models", "hf-causal-lm")
    config = fresh_config(cls.Options(config="xlnet", **SIZES), positions=64)
    network = make_network(transformers.AutoModelForCausalLM, config, empty=True)
    assert limit_of(network) is None
    check_lengths(hf_tiny.CORPORA["plain-text"], network)


def test_only_parts_for_text_limit_positions() -> None:
    """The nine codebooks of an audio decoder are no limit for sentences."""
    cls = hf_tiny.REGISTRY.load("models", "hf-causal-lm")
    config = fresh_config(cls.Options(config="moshi", **SIZES), positions=64)
    assert limit_of(make_network(transformers.AutoModelForCausalLM, config, empty=True)) == 64


@pytest.mark.slow
@pytest.mark.parametrize(("model_type", "kind"), pairs())
def test_every_type_learns_or_says_why_not(model_type: str, kind: str) -> None:
    """No type ends in a traceback, neither in training nor in `ls sites`; those that are built have the sizes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of transformers, about small sizes
        try:
            model, corpus = build(COMMANDS[kind], model_type)
        except KtiwprobeError as error:
            assert "\n" not in str(error)
        else:
            assert getattr(model.text_config, "hidden_size", 32) == 32
            assert all(layer.heads % 4 == 0 for layer in model.layers)  # JetMoE has as many for each of its experts
            assert all(torch.isfinite(torch.tensor(train_one_step(model, corpus))))
        try:
            assert MODELS[kind].list_sites(MODELS[kind].Options(config=model_type, **SIZES))
        except KtiwprobeError as error:
            assert "\n" not in str(error)

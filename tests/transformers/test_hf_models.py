"""The Hugging Face models: the conformance kit, the fast beta, rows one at a time, which weights learn, saliency."""

from __future__ import annotations

import dataclasses
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import hf_tiny
from ktiwprobe import build_registry
from ktiwprobe.errors import CorpusError, OptionError, PluginError
from ktiwprobe.models.attend import one_hot
from ktiwprobe.models.scoring import log_odds
from ktiwprobe.plugins.registry import Registry
from ktiwprobe.probes.definitions import delta
from ktiwprobe.testing import check_model
from ktiwprobe_transformers.folding import beside


@pytest.fixture(scope="module")
def quick() -> Registry:
    """Tasks of few sentences."""
    registry = build_registry()
    for name, corpus in hf_tiny.CORPORA.items():
        task = type("Small", (), {"load": staticmethod(partial(lambda corpus, _options: corpus, corpus))})
        entry = registry.entries["tasks"][name]
        registry.entries["tasks"][name] = dataclasses.replace(entry, target=task)
    return registry


def kit(registry: Registry, name: str, **options: Any) -> None:
    """Hold a model to the contract."""
    cls = registry.load("models", name)
    check_model(name, options=cls.Options(**{**hf_tiny.SIZES, **options}), registry=registry)


@pytest.mark.parametrize(("name", "config"), hf_tiny.FAMILIES)
def test_every_family_conforms(name: str, config: str, quick: Registry) -> None:
    """At the default site, the last that looks from outputs at inputs."""
    kit(quick, name, config=config)


def test_grouped_queries_conform(quick: Registry, tmp_path: Path) -> None:
    """A Llama with fewer keys than queries, from its config.json."""
    kit(quick, "hf-causal-lm", config=hf_tiny.llama_config(tmp_path))


@pytest.mark.parametrize(
    ("name", "site", "rows"),
    [
        ("hf-seq2seq", "cross:all", "all"),
        ("hf-seq2seq", "cross:0.h1", "all"),
        ("hf-classifier", "self:0", "all"),
        ("hf-classifier", "self:all", "all"),
        ("hf-causal-lm", "self:0", "single"),
        ("hf-masked-lm", "self:0,self:1.h2", "single"),
    ],
)
def test_other_sites_conform(name: str, site: str, rows: str, quick: Registry) -> None:
    """Earlier layers, several layers, single heads; all rows or one row in a pass."""
    kit(quick, name, site=site, rows=rows)


@torch.no_grad()
def test_single_rows_are_forced_alone() -> None:
    """With rows=single, output t is from a pass in which only row t was told where to look."""
    model, batch = hf_tiny.make_model("hf-causal-lm", "gpt2", site="self:0", rows="single")
    both, _ = hf_tiny.make_model("hf-causal-lm", "gpt2", site="self:0", rows="all")
    attend = both.trace(batch).alpha
    attend[:, :, 3] = one_hot(batch)[1].view(1, -1)
    expected = both.trace(batch, attend=attend).logits[:, 3]
    found = model.trace(batch, attend=one_hot(batch)[1]).logits[:, 3]
    torch.testing.assert_close(found, expected)
    assert not torch.allclose(found, both.trace(batch, attend=one_hot(batch)[1]).logits[:, 3])


@torch.no_grad()
def test_beta_runs_again_only_what_follows_the_site() -> None:
    """The encoder and all that comes before the site run once or twice, however many positions there are."""
    model, batch = hf_tiny.make_model("hf-seq2seq", "bart")
    model.beta(batch)  # the first time it is measured whether that is exact
    calls: Counter[str] = Counter()
    names = {module: name for name, module in model.network.named_modules()}
    for module in names:
        module.register_forward_hook(lambda module, _args, _output: calls.update([names[module]]))
    layer = model.network.get_decoder().layers[0]
    runs: Counter[str] = Counter()
    layer.fc1.register_forward_hook(lambda *_: runs.update(["first"]))
    model.network.get_decoder().layers[1].fc1.register_forward_hook(lambda *_: runs.update(["last"]))
    model.beta(batch)
    assert calls["model.encoder.layers.0"] == 1
    assert runs["first"] == 1
    assert runs["last"] > 1


def test_beta_leaves_the_network_as_it_was() -> None:
    """What is remembered for beta is forgotten after it."""
    model, batch = hf_tiny.make_model("hf-masked-lm", "bert")
    before = model.trace(batch).logits
    model.beta(batch)
    assert torch.equal(model.trace(batch).logits, before)
    assert not any("forward" in vars(module) for module in beside(model.network, model.places[0].layer.keys[0][0]))


@torch.no_grad()
def test_the_limit_of_memory_changes_nothing_but_memory() -> None:
    """Sentence by sentence and position by position, or all at once."""
    model, batch = hf_tiny.make_model("hf-seq2seq", "t5")
    small = model.beta(batch)
    model.options = dataclasses.replace(model.options, memory=1000)
    torch.testing.assert_close(model.beta(batch), small)


@pytest.mark.parametrize("config", ["bart", "gpt2", "llama", "t5"])
def test_attention_parameters_hold_beta_still(config: str) -> None:
    """Updates of them alone move alpha, and not what is said under a forced attention."""
    name = "hf-causal-lm" if config in ("gpt2", "llama") else "hf-seq2seq"
    model, batch = hf_tiny.make_model(name, config)
    alpha, beta = model.trace(batch).alpha.detach(), model.beta(batch)
    legal = torch.ones_like(beta).bool() if name == "hf-seq2seq" else model.allowed(batch)
    learning = model.attention_parameters()
    for parameter in model.parameters():
        parameter.requires_grad_(any(parameter is one for one in learning))
    optimiser = model.optimiser(learning, lr=0.1)
    for _ in range(2):
        optimiser.zero_grad()
        model.loss(batch).backward()
        optimiser.step()
    real = legal & batch.x_mask.unsqueeze(1) & batch.y_mask.unsqueeze(-1)
    torch.testing.assert_close(model.beta(batch)[real], beta[real])
    assert not torch.allclose(model.trace(batch).alpha, alpha)


@pytest.mark.parametrize(
    ("name", "config"), [("hf-classifier", "bert"), ("hf-masked-lm", "roberta"), ("hf-causal-lm", "llama")]
)
def test_delta_is_captums_input_times_gradient(name: str, config: str) -> None:
    """Of log p(y_t), at the word embeddings, summed over their width."""
    captum = pytest.importorskip("captum.attr")
    model, batch = hf_tiny.make_model(name, config)
    model.requires_grad_(True)
    t = 0

    def log_p(_ids: torch.Tensor) -> torch.Tensor:
        return -torch.nn.functional.softplus(-log_odds(model.trace(batch), batch))[:, t]

    layer = captum.LayerGradientXActivation(log_p, model.network.get_input_embeddings())
    theirs = layer.attribute(batch.x).sum(-1)
    ours = delta(model, batch)[:, t]
    torch.testing.assert_close(ours[batch.x_mask], theirs[batch.x_mask], rtol=1e-4, atol=1e-6)


def test_idle_weights_do_not_learn() -> None:
    """The pooler of an encoder whose states are all that is read."""
    model, _ = hf_tiny.make_model("hf-seq2seq", "bert+bert")
    idle = [name for name, parameter in model.named_parameters() if not parameter.requires_grad]
    assert idle
    assert all("pooler" in name for name in idle)


def test_vocabularies_of_their_own() -> None:
    """Source and target that share no ids are kept apart in one table."""
    cls, corpus = hf_tiny.REGISTRY.load("models", "hf-seq2seq"), hf_tiny.CORPORA["toy-translation"]
    corpus = dataclasses.replace(corpus, target_tokens=tuple(corpus.target_tokens))
    options = cls.Options(**hf_tiny.SIZES)
    own = dataclasses.replace(corpus, source_tokens=list(corpus.source_tokens))
    assert not own.joint
    model = cls.build(own, options).eval()
    batch = hf_tiny.some_sentences(own)
    assert model.network.config.vocab_size == own.source_size + own.target_size
    assert model.trace(batch).logits.shape[-1] == own.target_size


@pytest.mark.parametrize(
    ("name", "task", "says"),
    [
        ("hf-seq2seq", "toy-sentiment", "task toy-sentiment is classification, and HfSeq2Seq is for translation"),
        ("hf-classifier", "toy-translation", "task toy-translation is translation, and HfClassifier is for class"),
    ],
)
def test_a_task_of_another_kind_is_refused(name: str, task: str, says: str) -> None:
    """By a sentence that names both."""
    cls = hf_tiny.REGISTRY.load("models", name)
    with pytest.raises(CorpusError, match=says):
        cls.build(hf_tiny.CORPORA[task], cls.Options(**hf_tiny.SIZES))


def test_what_cannot_be_is_told() -> None:
    """Sizes that do not divide, an architecture that nobody knows, one that looks ahead, one that pools everything."""
    with pytest.raises(OptionError, match="hidden=16 is not a multiple of heads=3"):
        hf_tiny.make_model("hf-seq2seq", "bart", heads=3)
    with pytest.raises(OptionError, match="'bert' has no Seq2SeqLM model"):
        hf_tiny.make_model("hf-seq2seq", "bert")
    with pytest.raises(OptionError, match="does not read from left to right"):
        hf_tiny.make_model("hf-causal-lm", "bert")
    with pytest.raises(PluginError, match="Albert"):
        hf_tiny.make_model("hf-masked-lm", "albert")[0].attention_parameters()

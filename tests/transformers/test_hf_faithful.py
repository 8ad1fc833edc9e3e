"""Networks whose numbers would not be their own are refused, each by a sentence that names network, site and size."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from benchmarks.models.check import make_batch, make_network, make_sentences, wrapped
from click.testing import CliRunner
from torch import Tensor

import hf_tiny
from ktiwprobe import Batch
from ktiwprobe.cli import main
from ktiwprobe.errors import ContractError, PluginError
from ktiwprobe.probes.guards import check_attend_is_obeyed, check_gate
from ktiwprobe.probes.probing import probe
from ktiwprobe_transformers.faithful import check_faithful, folds_exactly, rows_mix
from ktiwprobe_transformers.forcing import EAGER


def bert(**options: Any) -> tuple[Any, Batch]:
    """A tiny BERT and a padded batch."""
    return hf_tiny.make_model("hf-masked-lm", "bert", **options)


def change_eager(monkeypatch: pytest.MonkeyPatch, model: Any, change: Any) -> None:
    """Let the network's own eager function do something else; `change` gets it and its arguments."""
    home = sys.modules[type(model.places[0].layer.keys[0][0]).__module__]
    eager = getattr(home, EAGER)
    monkeypatch.setattr(home, EAGER, lambda *args, **rest: change(eager, *args, **rest))


@pytest.mark.parametrize(("name", "config"), hf_tiny.FAMILIES)
def test_honest_networks_pass(name: str, config: str) -> None:
    """Every family that we test with."""
    check_faithful(*hf_tiny.make_model(name, config))


def test_an_eager_function_that_differs_from_the_network_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network runs sdpa; if its eager function computed something else, that is not what it does."""
    model, batch = bert()
    assert model.network.config._attn_implementation == "sdpa"

    def wider(eager: Any, module: Any, query: Tensor, *rest: Any, **extra: Any) -> Any:
        return eager(module, 2 * query, *rest, **extra)

    change_eager(monkeypatch, model, wider)
    with pytest.raises(ContractError, match=r"BertForMaskedLM gives other outputs .*largest difference \d"):
        check_faithful(model, batch)


def test_a_mask_inside_the_function_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the function masks what its mask leaves open, beta would force positions that are never seen."""
    model, batch = bert()
    model.network.set_attn_implementation("eager")

    def local(eager: Any, module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, **rest: Any) -> Any:
        place = torch.arange(key.shape[2])
        far = (place.unsqueeze(1) - place).abs() > 2
        mask = torch.zeros(1, 1, *far.shape) if mask is None else mask
        return eager(module, query, key, value, mask.masked_fill(far, torch.finfo(mask.dtype).min), **rest)

    change_eager(monkeypatch, model, local)
    with pytest.raises(ContractError, match=r"its mask at self:1.h0 says: \d+ cells are masked in another way"):
        check_faithful(model, batch)


def test_an_output_that_is_not_weights_times_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is done to the output after the sum would be lost under a forced attention."""
    model, batch = bert()
    model.network.set_attn_implementation("eager")

    def scaled(eager: Any, *args: Any, **rest: Any) -> Any:
        output, weights = eager(*args, **rest)
        return 0.5 * output, weights

    change_eager(monkeypatch, model, scaled)
    with pytest.raises(ContractError, match=r"self:1.h0 is not its weights times its values .*difference \d"):
        check_faithful(model, batch)


def test_padding_that_shows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that looks at padding reads a text otherwise in another batch."""
    model, batch = bert()
    monkeypatch.setattr(type(model), "states", _ignoring_padding)
    with pytest.raises(ContractError, match="padding changes the outputs of BertForMaskedLM"):
        check_faithful(model, batch)


def _ignoring_padding(model: Any, batch: Batch, gate: Tensor | None) -> Tensor:
    return model.network(input_ids=model.padded(batch)).logits[..., : model.V]


def test_extraction_and_probing_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first number of a network that is not faithful is an error."""
    model, batch = bert()
    monkeypatch.setattr(type(model), "states", _ignoring_padding)
    for name in ("alpha", "beta", "delta"):
        with pytest.raises(ContractError, match="padding changes"):
            probe(model, [batch], name)


@pytest.mark.parametrize(
    ("model_type", "site", "mixes"),
    [("llama", "self:0", True), ("llama", None, False), ("lfm2", None, True), ("bert", None, False)],
)
def test_whether_rows_meet_again_is_measured(model_type: str, site: str | None, mixes: bool) -> None:
    """After the last attention of LFM2 a convolution mixes rows; after that of Llama nothing does."""
    kind = "masked" if model_type == "bert" else "causal"
    model = wrapped(make_network(model_type, kind), kind, site)
    assert rows_mix(model, make_batch(make_sentences(kind))) is mixes


def test_folding_is_measured() -> None:
    """Gemma 3n keeps four copies of its states before the sentences, so what follows a site cannot be run alone."""
    batch = make_batch(make_sentences("causal"))
    for model_type, exact in (("llama", True), ("gemma3n_text", False)):
        assert folds_exactly(wrapped(make_network(model_type, "causal"), "causal", None), batch) is exact


def test_a_differential_attention_is_one_site() -> None:
    """DiffLlama calls the function twice a layer, for two halves of the values: two layers are two sites."""
    model = wrapped(make_network("diffllama", "causal"), "causal", "self:all")
    assert [layer.name for layer in model.layers] == ["self:0", "self:1"]
    assert all(len(layer.keys) == 2 for layer in model.layers)


def test_sites_with_different_windows() -> None:
    """Gemma 2: alpha keeps the union of a windowed and a full layer, 0 outside the window; beta the window alone."""
    model = wrapped(make_network("gemma2", "causal"), "causal", "self:all")
    batch = make_batch(make_sentences("causal"))
    alpha, beta = (probe(model, [batch], name) for name in ("alpha", "beta"))
    prefix = torch.tensor([t + 1 for one in batch.x_lengths.tolist() for t in range(one)])
    assert alpha.lengths.tolist() == prefix.tolist()
    assert beta.lengths.tolist() == prefix.clamp_max(4).tolist()


@pytest.mark.parametrize("kind", ["causal", "classifier"])
def test_sinks_take_weight(kind: str) -> None:
    """Rows of GPT-OSS sum to less than 1; forced, they put nothing on the sink."""
    model, batch = wrapped(make_network("gpt_oss", kind), kind, None), make_batch(make_sentences(kind))
    assert model.sinks
    own = model.trace(batch).alpha.sum(-1)[batch.y_mask.unsqueeze(1).expand(-1, len(model.sites), -1)]
    assert own.max() < 1
    last = torch.nn.functional.one_hot(batch.x_lengths - 1, batch.x.shape[1]).float()[:, None, None]
    forced = model.trace(batch, attend=last).alpha
    assert forced[torch.arange(len(forced)), :, -1 if kind == "classifier" else batch.x_lengths - 1].sum(-1).eq(1).all()


@pytest.mark.parametrize(
    ("model_type", "kind", "reason"),
    [
        ("bart", "classifier", "reads its input twice"),
        ("granite_swa", "causal", "not its weights times its values"),
        ("deepseek_v4", "causal", "attend to their inputs one for one"),
        ("bloom", "causal", "does not compute its attention with transformers' attention interface"),
        ("musicflamingo", "seq2seq", "is no seq2seq"),
    ],
)
def test_what_cannot_be_probed_is_refused_by_a_sentence(model_type: str, kind: str, reason: str) -> None:
    """With the reason."""
    with pytest.raises((PluginError, ContractError), match=reason):
        probe(wrapped(make_network(model_type, kind), kind, None), [make_batch(make_sentences(kind))], "alpha")


def test_a_network_is_called_by_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """In every sentence about forcing and gating, too."""
    model, batch = bert()
    own = type(model).trace
    monkeypatch.setattr(type(model), "trace", lambda self, batch, attend=None, gate=None: own(self, batch))
    with pytest.raises(ContractError, match=r"^BertForMaskedLM ignores attend at site self:1\.h0"):
        check_attend_is_obeyed(model, batch)
    with pytest.raises(ContractError, match=r"^BertForMaskedLM ignores gate"):
        check_gate(model, batch)


def test_an_unknown_architecture_suggests_a_few() -> None:
    """Not all of some hundred types."""
    done = CliRunner().invoke(main, ["ls", "sites", "-o", "config=mistrall"])
    assert done.exit_code in (1, 2)
    assert "unknown architecture 'mistrall'" in done.output
    assert "mistral," in done.output
    assert len(done.output) < 300

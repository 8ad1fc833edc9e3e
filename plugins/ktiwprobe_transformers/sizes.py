"""Architectures from scratch: a model type and a few sizes, whatever its config calls them.

Rules go by the name of a field (NAMES, MOST); few types need values of their own (_of_one_type). A size that no rule
names keeps the default of the config's class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from transformers import CONFIG_MAPPING, EncoderDecoderConfig, PretrainedConfig

from ktiwprobe.data import BOS, EOS, PAD
from ktiwprobe.errors import OptionError, UnknownNameError
from ktiwprobe_transformers.loading import load_config, quiet

_FIELDS = {
    "hidden": "hidden_size d_model n_embd dim emb_dim lru_width dim_model_base d_latents",
    "layers": "num_hidden_layers encoder_layers decoder_layers num_layers num_encoder_layers num_decoder_layers "
    "n_layer n_layers num_self_attends_per_block",
    "heads": "num_attention_heads num_key_value_heads encoder_attention_heads decoder_attention_heads num_heads n_head "
    "n_heads num_encoder_attention_heads num_decoder_attention_heads num_kv_heads kv_n_heads swa_num_attention_heads "
    "swa_num_key_value_heads linear_num_key_heads linear_num_value_heads linear_num_heads num_global_key_value_heads "
    "num_self_attention_heads num_cross_attention_heads attention_heads",
    "inner": "intermediate_size encoder_ffn_dim decoder_ffn_dim d_ff n_inner hidden_dim d_inner "
    "moe_intermediate_size shared_expert_intermediate_size moe_shared_expert_intermediate_size ffn_hidden_size "
    "expert_ffn_hidden_size intermediate_size_mlp feed_forward_size dense_intermediate_size",
    "width": "d_kv head_dim kv_channels swa_head_dim v_head_dim qk_nope_head_dim linear_key_head_dim "
    "linear_value_head_dim linear_head_dim mamba_head_dim mamba_d_head global_head_dim swa_v_head_dim",
    "rotated": "qk_rope_head_dim rotary_dim",
    "rank": "kv_lora_rank q_lora_rank o_lora_rank",
    "state_heads": "mamba_n_heads mamba_num_heads n_mamba_heads",
    "dropout": "dropout dropout_rate hidden_dropout_prob attention_probs_dropout_prob attention_dropout resid_pdrop "
    "embd_pdrop attn_pdrop",
    "positions": "max_position_embeddings n_positions",
    "spread": "init_std initializer_range",
    "one": "n_group topk_group mamba_n_groups mamba_ngroups n_groups",
}
NAMES: Mapping[str, tuple[str, ...]] = {what: tuple(names.split()) for what, names in _FIELDS.items()}
OPTIONAL = ("rotated", "rank", "one")  # a default of None means that the architecture goes without
EXPERTS = [
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "moe_num_experts",
    "moe_num_primary_experts",
    "zero_expert_num",
]
CHOSEN = ["num_experts_per_tok", "moe_k", "moe_top_k", "moe_topk", "top_k_experts", "num_experts_per_token"]
DENSE = ["first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"]
SHARED = ["n_shared_experts", "num_shared_experts", "moe_num_shared_experts"]
FEW_EXPERTS, FEW_CHOSEN = 8, 2
MOST = dict.fromkeys(EXPERTS, FEW_EXPERTS) | dict.fromkeys(CHOSEN, FEW_CHOSEN) | dict.fromkeys(SHARED, 1)
LAYER_LISTS = ("layer_types", "layers_block_type")
NO_ATTENTION = ("linear_attention", "mamba", "mamba2", "conv", "recurrent", "moe", "mlp")
MULTIPLES = {"lilt": ("hidden", 24), "codegen": ("heads", 4)}  # what an architecture divides its sizes by
VOCABULARIES = (
    *("decoder_vocab_size", "src_vocab_size", "tgt_vocab_size"),
    *("vocab_size_per_layer_input", "entity_vocab_size"),
)
SPARE = 8  # positions beyond the longest sentence: some architectures count from 2


def make_config(text: str, sizes: Mapping[str, Any]) -> PretrainedConfig:
    """The config of a type such as `bart`, of a pair such as `bert+gpt2`, or of a config.json with its own sizes."""
    if Path(text).exists():
        return load_config(text, remote_code=False)
    if text == EncoderDecoderConfig.model_type:
        text = "bert+bert"
    if "+" in text:
        encoder, decoder = (_of_type(name, sizes) for name in text.split("+", 1))
        decoder.is_decoder, decoder.add_cross_attention = True, True
        return EncoderDecoderConfig(encoder=encoder.to_dict(), decoder=decoder.to_dict())
    return _of_type(text, sizes)


def _of_type(name: str, sizes: Mapping[str, Any]) -> PretrainedConfig:
    if name not in CONFIG_MAPPING:
        raise UnknownNameError("architecture", name, CONFIG_MAPPING)
    _check_multiples(name, sizes)
    cls = CONFIG_MAPPING[name]
    try:
        with quiet():  # special ids are set later
            config: PretrainedConfig = cls(**_values(cls, derived(sizes)))
            return config
    except (ValueError, TypeError, AttributeError, ArithmeticError, LookupError, StrictDataclassError) as error:
        why = " ".join(str(error).split())[:160]
        raise OptionError(
            f"architecture {name!r} does not take these sizes ({why}): write a config.json and pass -o config=FILE"
        ) from error


def _check_multiples(name: str, sizes: Mapping[str, Any]) -> None:
    if sizes["hidden"] % sizes["heads"]:
        raise OptionError(f"hidden={sizes['hidden']} is not a multiple of heads={sizes['heads']}: make it one")
    what, divisor = MULTIPLES.get(name, ("hidden", 1))
    if sizes[what] % divisor:
        raise OptionError(
            f"architecture {name!r} needs a multiple of {divisor}, and {what}={sizes[what]} is none: pass "
            f"-o {what}={-(-sizes[what] // divisor) * divisor}"
        )


def derived(sizes: Mapping[str, Any]) -> dict[str, Any]:
    """The sizes that were asked for, and those that follow from them."""
    width = sizes["hidden"] // sizes["heads"]
    return {
        "inner": 4 * sizes["hidden"],
        "width": width,
        "rotated": max(2, width // 4 * 2),  # rotations turn pairs
        "rank": max(1, sizes["hidden"] // 2),
        "state_heads": 2 * sizes["heads"],  # of a state space twice as wide as the network
        "one": 1,
        # the usual spread of first weights, 0.02, is for widths near 1000: a small network hardly learns from it
        "spread": sizes["hidden"] ** -0.5,
        **sizes,
    }


def _values(cls: Any, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a config class: by the names of its fields, for its parts, and of its type."""
    default, fields = _default(cls), {field.name for field in dataclasses.fields(cls)}
    values = {
        name: sizes[what]
        for what, names in NAMES.items()
        for name in names
        if name in fields and not (what in OPTIONAL and getattr(default, name, None) is None)
    }
    if {"qk_rope_head_dim", "head_dim"} <= fields:  # there it is the width that is rotated
        values["head_dim"] = sizes["rotated"]
    values |= _experts(default, fields)
    for name in fields & set(DENSE):  # at least one layer has experts
        values[name] = min(sizes["layers"] - 1, getattr(default, name, None) or 0)
    for name in cls.sub_configs:
        if name in fields and isinstance(part := getattr(default, name, None), PretrainedConfig):
            values[name] = {**_values(type(part), sizes), "model_type": part.model_type}
    values |= _of_one_type(cls.model_type, sizes)
    return values | {name: kinds for name in LAYER_LISTS if name in fields and (kinds := _attending(cls, name, values))}


def _experts(default: Any, fields: set[str]) -> dict[str, int]:
    """Few experts where there are many; where there are few or none (0), as many as there are."""
    usual = {name: getattr(default, name, None) for name in fields & MOST.keys()}
    experts = [usual[name] for name in EXPERTS if name in usual]
    if all(number is not None and number <= FEW_EXPERTS for number in experts):
        return {}
    return {name: MOST[name] if number is None else min(MOST[name], number) for name, number in usual.items()}


def _default(cls: Any) -> Any:
    """The config as its class makes it; None if it needs arguments."""
    try:
        return cls()
    except (ValueError, StrictDataclassError):
        return None


def _attending(cls: Any, name: str, values: Mapping[str, Any]) -> list[str] | None:
    """In a hybrid of few layers none may attend: then the last one does, as one of the class's default."""
    kinds, default = getattr(cls(**values), name, None), getattr(_default(cls), name, None)
    attention = [kind for kind in default or () if kind not in NO_ATTENTION]
    if not kinds or not attention or any(kind not in NO_ATTENTION for kind in kinds):
        return None
    return [*kinds[:-1], attention[0]]


def _of_one_type(model_type: str, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of one type that no rule gives, or gives otherwise."""
    hidden, heads, layers, width = (sizes[name] for name in ("hidden", "heads", "layers", "width"))
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    shared = ["linear_attention"] * (layers - 2) + ["hybrid"] * min(2, layers)  # two layers with one attention
    indexer = {"n_heads": heads, "kv_heads": 1, "head_dim": width, "budget": 64, "compress_ratio": 1}
    own: dict[str, dict[str, Any]] = {
        "bamba": {"attn_layer_indices": [layers - 1]},
        "cohere_compass_text": {"rope_parameters": {"sliding_attention": rope, "full_attention": rope}},
        "dbrx": {
            "attn_config": {"kv_n_heads": heads, "rope_theta": 10000.0, "clip_qkv": 8.0},
            "ffn_config": {"ffn_hidden_size": 4 * hidden, "moe_num_experts": FEW_EXPERTS, "moe_top_k": FEW_CHOSEN},
        },
        "diffllama": {"attention_dropout": 0.0},  # it has none
        "falcon_h1": {"mamba_d_ssm": 2 * hidden},
        "gemma3n_text": {"num_kv_shared_layers": 0},
        "gpt_neo": {"attention_types": [[["global"], layers % 2], [["global", "local"], layers // 2]]},
        "jamba": {"attn_layer_period": min(8, layers), "attn_layer_offset": min(4, layers - 1)},
        "layoutlmv3": {"coordinate_size": hidden // 6, "shape_size": hidden // 2 - 2 * (hidden // 6)},
        "lfm2_moe": {"layer_types": ["conv"] * (layers - 1) + ["full_attention"]},
        "mamba2": {"num_heads": 2 * heads},
        "mimo_v2_flash": {"num_key_value_heads": max(1, heads // 2)},  # layers with a window have twice as many
        "mobilebert": {
            "embedding_size": max(1, hidden // 4),
            "intra_bottleneck_size": hidden,
            "normalization_type": "layer_norm",
        },
        "mpt": {"attn_config": {}},
        "neomme": {"head_dim": max(16, width)},  # it rotates a quarter, by two axes
        "nemotron_h": {"layers_block_type": (["linear_attention", "moe", "full_attention", "mlp"] * layers)[:layers]},
        "qwen4_exp_text": {f"indexer_{name}": value for name, value in indexer.items()},
        "reformer": {"axial_pos_embds": False, "attn_layers": (["local", "lsh"] * layers)[:layers]},
        "squeezebert": {"embedding_size": hidden},
        "xmod": {"default_language": "en_XX"},
        "zamba": {"layers_block_type": shared},
        "zamba2": {"layers_block_type": shared},
    }
    return own.get(model_type, {})


def speak(config: PretrainedConfig, vocabulary: int, *, start: int) -> None:
    """Give a fresh config our vocabulary and special ids; `start` opens an output."""
    parts = (getattr(config, name, None) for name in config.sub_configs)
    for part in (config, *(part for part in parts if isinstance(part, PretrainedConfig))):
        part.vocab_size = vocabulary
        part.pad_token_id, part.bos_token_id, part.eos_token_id = PAD, BOS, EOS
        part.decoder_start_token_id = start
        for name in VOCABULARIES:
            if getattr(part, name, None):
                setattr(part, name, vocabulary)
        if hasattr(part, "forced_eos_token_id"):
            part.forced_eos_token_id = None

"""A tiny configuration for every model type of transformers: rules by the name of a field, then exceptions by type.

Windows, chunks and top-k are set so small that they act on the sentences of `check.py`. The values of a field that a
rule does not name stay as they are in the configuration class.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from transformers import CONFIG_MAPPING, PretrainedConfig

VOCABULARY, PAD, BOS, EOS, MASK, FIRST_WORD = 48, 0, 1, 2, 4, 5
HIDDEN, HEADS, GROUPS, WIDTH, INNER, LAYERS, POSITIONS, LABELS = 32, 4, 2, 8, 48, 2, 64, 3
WINDOW, CHUNK, TOP_K, EXPERTS = 4, 4, 3, 4
SPREAD = 0.2

NON_ATTENTION = ("linear_attention", "mamba", "conv", "recurrent", "moe", "mlp")
LISTS = ("layer_types", "mlp_layer_types", "indexer_types")


def _rules() -> dict[str, Any]:
    """The value of each field that has the same meaning in all types."""
    groups: list[tuple[Any, str]] = [
        (VOCABULARY, "vocab_size vocab_size_per_layer_input src_vocab_size tgt_vocab_size decoder_vocab_size"),
        (VOCABULARY, "encoder_hash_byte_group_vocab"),
        (PAD, "pad_token_id pad_index"),
        (BOS, "bos_token_id decoder_start_token_id bos_index"),
        (EOS, "eos_token_id sep_token_id eos_index"),
        (MASK, "mask_token_id mask_index"),
        (3, "unk_index blank_token_id"),
        (None, "forced_eos_token_id forced_bos_token_id suppress_tokens begin_suppress_tokens"),
        (HIDDEN, "hidden_size d_model n_embd dim emb_dim embedding_size input_embedding_size output_embedding_size"),
        (HIDDEN, "hidden_size_global audio_hidden_size"),
        (
            HIDDEN,
            "word_embed_proj_dim cross_attention_hidden_size lru_width hidden_dim_size",
        ),
        (HEADS, "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads"),
        (HEADS, "num_encoder_attention_heads num_decoder_attention_heads attention_heads swa_num_attention_heads"),
        (GROUPS, "num_key_value_heads num_kv_heads num_global_key_value_heads swa_num_key_value_heads"),
        (WIDTH, "head_dim d_kv d_head dim_head kv_channels attention_head_dim attention_head_size swa_head_dim"),
        (WIDTH, "v_head_dim qk_nope_head_dim index_head_dim indexer_head_dim global_head_dim"),
        (4, "qk_rope_head_dim"),
        (16, "kv_lora_rank q_lora_rank o_lora_rank"),
        (LAYERS, "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_encoder_layers"),
        (LAYERS, "num_decoder_layers"),
        (INNER, "intermediate_size encoder_ffn_dim decoder_ffn_dim d_ff n_inner d_inner hidden_dim dim_ff dff ffn_dim"),
        (INNER, "moe_intermediate_size shared_expert_intermediate_size ffn_hidden_size expert_ffn_hidden_size"),
        (INNER, "moe_shared_expert_intermediate_size intermediate_size_mlp prefix_dense_intermediate_size"),
        (INNER, "feed_forward_size block_ff_dim prediction_head_size"),
        (POSITIONS, "max_position_embeddings n_positions max_seq_len n_ctx max_source_positions max_target_positions"),
        (POSITIONS, "context_length original_max_position_embeddings"),
        (SPREAD, "initializer_range init_std initializer_std embed_init_std embedding_initializer_range"),
        (EXPERTS, "num_experts num_local_experts n_routed_experts moe_num_experts moe_num_primary_experts"),
        (2, "num_experts_per_tok moe_k moe_top_k top_k_experts num_experts_per_token moe_topk"),
        (1, "n_group topk_group n_shared_experts moe_num_shared_experts num_shared_experts first_k_dense_replace"),
        (1, "num_dense_layers moe_layer_start_index decoder_sparse_step encoder_sparse_step"),
        (1, "num_sparse_encoder_layers num_sparse_decoder_layers"),
        (0, "num_mtp_layers num_nextn_predict_layers"),
        (WINDOW, "sliding_window sliding_window_size attention_window_size window_size local_attention"),
        (True, "use_sliding_window"),
        (CHUNK, "attention_chunk_size"),
        (TOP_K, "index_topk keep_window_size indexer_budget"),
        (GROUPS, "index_n_heads indexer_n_heads"),
        (2.0, "attn_logit_softcapping final_logit_softcapping"),
        (8, "mamba_d_state ssm_state_size state_size mamba_head_dim mamba_d_head mamba_chunk_size chunk_size"),
        (8, "linear_key_head_dim linear_value_head_dim linear_head_dim"),
        (2, "linear_num_key_heads"),
        (4, "linear_num_value_heads linear_num_heads"),
        (1, "mamba_n_groups mamba_ngroups n_groups"),
        (8, "mamba_n_heads mamba_num_heads"),
        (HIDDEN, "hidden_size_per_layer_input laurel_rank hc_lowrank router_hidden_size adapter_rank gated_norm_rank"),
        (8, "relative_attention_num_buckets relative_attention_max_distance num_buckets relative_max_distance"),
        (8, "position_bias_num_buckets position_bias_max_distance"),
        (LABELS, "num_labels"),
    ]
    return {name: value for value, names in groups for name in names.split()}


RULES = _rules()

SHARED = ["linear_attention", "hybrid", "hybrid", "linear_attention"]  # both hybrid layers use one attention
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}
BY_TYPE: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [0]},
    "big_bird": {"block_size": 1, "num_random_blocks": 1},
    "bigbird_pegasus": {"block_size": 1, "num_random_blocks": 1},
    "codegen": {"rotary_dim": 4},
    "cohere_compass_text": {
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_parameters": {"sliding_attention": ROPE, "full_attention": ROPE},
    },
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8.0},
        "ffn_config": {"moe_num_experts": 4, "moe_top_k": 2, "ffn_hidden_size": 48},
    },
    "deepseek_v4": {"compress_rates": {"compressed_sparse_attention": 2, "heavily_compressed_attention": 4}},
    "esm": {"token_dropout": False, "vocab_list": None},
    "esmc": {"num_key_value_heads": HEADS},
    "falcon_h1": {"mamba_d_ssm": 64},
    "gemma3n_text": {
        "initializer_range": 0.1,  # with 0.2 a mistake of the fast beta stays just below the tolerance
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "num_kv_shared_layers": 2,
        "intermediate_size": [INNER] * 4,
        "activation_sparsity_pattern": [0.0] * 4,
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "gptj": {"rotary_dim": 4},
    "granitemoehybrid": {"layer_types": ["full_attention", "linear_attention"]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 0, "num_hidden_layers": 2},
    "layoutlmv3": {"coordinate_size": 6, "shape_size": 4},
    "led": {"attention_window": WINDOW},
    "lfm2": {"layer_types": ["full_attention", "conv"]},
    "lfm2_moe": {"layer_types": ["full_attention", "conv"]},
    "lilt": {"hidden_size": 48},
    "longcat_flash": {"head_dim": 4, "zero_expert_num": 2},
    "longformer": {"attention_window": WINDOW},
    "longt5": {"local_radius": WINDOW, "global_block_size": WINDOW},
    "mamba2": {"num_heads": 8, "head_dim": 8},
    "minimax_m3_vl_text": {
        "layer_types": ["full_attention", "minimax_m3_sparse"],
        "mlp_layer_types": ["dense", "sparse"],
        "index_block_size": 2,
        "index_topk_blocks": 2,
    },
    "minimax": {"block_size": WINDOW},
    "mobilebert": {"normalization_type": "layer_norm", "intra_bottleneck_size": HIDDEN},
    "mpnet": {"relative_attention_num_buckets": 32},
    "neomme": {"head_dim": 16},
    "pegasus_x": {"block_size": WINDOW, "num_global_tokens": 2},
    "qwen4_exp_text": {
        "indexer_kv_heads": 1,
        "indexer_compress_ratio": 1,
        "ngram_vocab_size_base": 64,
        "make_ngram_vocab_size_divisible_by": 4,
    },
    "reformer": {
        "axial_pos_shape": (8, 8),
        "axial_pos_embds_dim": (16, 16),
        "attn_layers": ["local", "lsh"],
        "local_attn_chunk_length": WINDOW,
        "lsh_attn_chunk_length": WINDOW,
        "hash_seed": 1,
    },
    "xlstm": {"hidden_size": 64, "qk_dim_factor": 1.0},
    "xmod": {"default_language": "en_XX"},
    "zamba": {"layers_block_type": SHARED, "num_hidden_layers": len(SHARED)},
    "zamba2": {"layers_block_type": SHARED, "num_hidden_layers": len(SHARED)},
    "zaya": {"num_experts_per_tok": 1, "layer_types": ["hybrid_sliding", "hybrid"]},
}
NO_GROUPS = ("zamba", "zamba2")  # as many keys as queries
ASSISTANT = {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0, "num_kv_shared_layers": 2}


def tiny_config(model_type: str, kind: str) -> PretrainedConfig:
    """The configuration of a type, small enough for a test; raises whatever its class raises."""
    cls = CONFIG_MAPPING[model_type]
    if model_type == "encoder-decoder":
        return _pair(cls)
    values = tiny_values(cls, model_type)
    if "is_decoder" in _fields(cls):
        values["is_decoder"] = kind == "causal"
    config = cls(**values)
    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = BOS
    config.use_cache = False
    if kind == "classifier":
        config.num_labels = LABELS
    return config


def tiny_values(cls: Any, model_type: str) -> dict[str, Any]:
    """Arguments of a configuration class: rules for its fields, its parts, its lists of layers, exceptions."""
    fields = _fields(cls)
    exceptions = BY_TYPE.get(model_type, {})
    values = {name: RULES[name] for name in fields if name in RULES}
    if "kv_lora_rank" in fields or model_type in NO_GROUPS:  # latent attention has as many keys as queries
        values |= {name: HEADS for name in fields if name == "num_key_value_heads"}
    values |= {name: _zero_of(cls, name) for name in fields if "dropout" in name or name.endswith("pdrop")}
    values |= {name: _tiny_part(cls, name) for name in cls.sub_configs if name in fields and name not in exceptions}
    values |= _lists(cls)
    return values | exceptions


def _zero_of(cls: Any, name: str) -> Any:
    """No dropout: 0, of the type that the class asks for."""
    default = getattr(_default(cls), name, None)
    return 0.0 if default is None else type(default)(0)


def _fields(cls: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(cls)}


def _default(cls: Any) -> Any:
    """The configuration as its class makes it; None if it needs arguments."""
    try:
        return cls()
    except (ValueError, StrictDataclassError):
        return None


def _tiny_part(cls: Any, name: str) -> dict[str, Any] | None:
    """The arguments of a part, such as the text part of a model that also sees images."""
    if cls.model_type == "gemma4_assistant":  # its default is refused by its own check
        part = CONFIG_MAPPING["gemma4_text"]
        return {**tiny_values(part, part.model_type), **ASSISTANT, "model_type": part.model_type}
    part_class = type(getattr(_default(cls), name, None))
    if not issubclass(part_class, PretrainedConfig):
        return None
    model_type = part_class.model_type
    return {**tiny_values(part_class, model_type), "model_type": model_type}


def _lists(cls: Any) -> dict[str, Any]:
    """Lists with an entry for each layer: every kind of layer of the default configuration, once."""
    default = _default(cls)
    kinds = list(dict.fromkeys(getattr(default, "layer_types", None) or ()))
    fields = _fields(cls)
    if "layer_types" not in fields or not kinds:
        return {}
    if kinds == ["full_attention"] and "sliding_window" in fields:  # windows are off by default
        kinds = ["sliding_attention", "full_attention"]
    others = [kind for kind in kinds if kind in NON_ATTENTION]
    attention = [kind for kind in kinds if kind not in NON_ATTENTION]
    layers = [*attention, *others] if others and attention else kinds * (2 if len(kinds) == 1 else 1)
    found: dict[str, Any] = {"layer_types": layers}
    for name in LISTS[1:]:
        entries = list(dict.fromkeys(getattr(default, name, None) or ()))
        if name in fields and entries:
            found[name] = [entries[min(i, len(entries) - 1)] for i in range(len(layers))]
    return found | {name: len(layers) for name in ("num_hidden_layers",) if name in fields}


def _pair(cls: Any) -> PretrainedConfig:
    encoder = {**tiny_values(CONFIG_MAPPING["bert"], "bert"), "model_type": "bert"}
    decoder = {**encoder, "is_decoder": True, "add_cross_attention": True}
    ids = {"decoder_start_token_id": BOS, "pad_token_id": PAD, "eos_token_id": EOS}
    return cls(encoder=encoder, decoder=decoder, **ids)  # type: ignore[no-any-return]

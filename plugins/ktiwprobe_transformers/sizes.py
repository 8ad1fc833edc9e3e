"""Architectures from scratch: a model type and a few sizes, whatever its config calls them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from transformers import CONFIG_MAPPING, EncoderDecoderConfig, PretrainedConfig

from ktiwprobe.data import BOS, EOS, PAD
from ktiwprobe.errors import OptionError, UnknownNameError
from ktiwprobe_transformers.loading import load_config

NAMES: Mapping[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "d_model", "n_embd", "dim"),
    "layers": (
        "num_hidden_layers",
        "encoder_layers",
        "decoder_layers",
        "num_layers",
        "num_decoder_layers",
        "n_layer",
        "n_layers",
    ),
    "heads": (
        "num_attention_heads",
        "num_key_value_heads",
        "encoder_attention_heads",
        "decoder_attention_heads",
        "num_heads",
        "n_head",
        "n_heads",
    ),
    "inner": ("intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "n_inner", "hidden_dim"),
    "width": ("d_kv", "head_dim"),
    "dropout": (
        "dropout",
        "dropout_rate",
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "attention_dropout",
        "resid_pdrop",
        "embd_pdrop",
        "attn_pdrop",
    ),
    "positions": ("max_position_embeddings", "n_positions"),
    "spread": ("init_std", "initializer_range"),
}
SPARE = 8  # positions beyond the longest sentence: some architectures count from 2


def make_config(text: str, sizes: Mapping[str, Any]) -> PretrainedConfig:
    """The config of a type such as `bart`, of a pair such as `bert+gpt2`, or of a config.json with its own sizes."""
    if Path(text).exists():
        return load_config(text, remote_code=False)
    if "+" in text:
        encoder, decoder = (_of_type(name, sizes) for name in text.split("+", 1))
        decoder.is_decoder, decoder.add_cross_attention = True, True
        return EncoderDecoderConfig(encoder=encoder.to_dict(), decoder=decoder.to_dict())
    return _of_type(text, sizes)


def _of_type(name: str, sizes: Mapping[str, Any]) -> PretrainedConfig:
    if name not in CONFIG_MAPPING:
        raise UnknownNameError("architecture", name, CONFIG_MAPPING)
    if sizes["hidden"] % sizes["heads"]:
        raise OptionError(f"hidden={sizes['hidden']} is not a multiple of heads={sizes['heads']}: make it one")
    cls = CONFIG_MAPPING[name]
    known = cls().to_dict()
    # the usual spread of first weights, 0.02, is for widths near 1000: a small network hardly learns from it
    derived = {
        "inner": 4 * sizes["hidden"],
        "width": sizes["hidden"] // sizes["heads"],
        "spread": sizes["hidden"] ** -0.5,
    }
    derived |= sizes
    values = {key: derived[what] for what, keys in NAMES.items() for key in keys if key in known}
    try:
        config: PretrainedConfig = cls(**values)
    except (ValueError, StrictDataclassError) as error:
        why = " ".join(str(error).split())[:160]
        raise OptionError(
            f"architecture {name!r} does not take these sizes ({why}): write a config.json and pass -o config=FILE"
        ) from error
    return config


def speak(config: PretrainedConfig, vocabulary: int, *, start: int) -> None:
    """Give a fresh config our vocabulary and special ids; `start` opens an output."""
    for part in (config, *(getattr(config, name) for name in config.sub_configs)):
        part.vocab_size = vocabulary
        part.pad_token_id, part.bos_token_id, part.eos_token_id = PAD, BOS, EOS
        part.decoder_start_token_id = start
        if hasattr(part, "decoder_vocab_size"):
            part.decoder_vocab_size = vocabulary
        if hasattr(part, "forced_eos_token_id"):
            part.forced_eos_token_id = None

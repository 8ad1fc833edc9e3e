"""The network of a model: pretrained, from scratch, or without weights, only to see its sites."""

from __future__ import annotations

from typing import Any

import transformers
from torch import nn
from transformers import PretrainedConfig

from ktiwprobe import Corpus, Split
from ktiwprobe.data import BOS
from ktiwprobe_transformers.loading import load_config, load_network, make_network
from ktiwprobe_transformers.sizes import SPARE, make_config, speak

FEWEST, ENDLESS = 64, 512  # positions from scratch: at least, and for a stream, whose longest sentence nobody knows


def pretrained_network(auto: str, corpus: Corpus, options: Any) -> tuple[nn.Module, frozenset[str]]:
    """A pretrained network, and the names of the weights that came with it: of a new head none did."""
    config = pretrained_config(options)
    if corpus.kind == "classification":
        config.num_labels = corpus.target_size
    network, missing = load_network(
        getattr(transformers, auto), options.path, config, remote_code=options.remote_code, pickle=options.pickle
    )
    return network, frozenset(name for name, _ in network.named_parameters()) - missing


def pretrained_config(options: Any) -> PretrainedConfig:
    """The config of a pretrained model; one without a padding token pads with what ends a text, as is usual."""
    config = load_config(options.path, remote_code=options.remote_code)
    text = config.get_text_config()
    if getattr(text, "pad_token_id", None) is None:
        ends = getattr(text, "eos_token_id", None)
        text.pad_token_id = ends[0] if isinstance(ends, list) else ends
    return config


def fresh_network(auto: str, corpus: Corpus, options: Any, shift: int) -> nn.Module:
    """A network from scratch for the ids of `corpus`; outputs with ids of their own stand after the inputs'."""
    config = fresh_config(options, positions=_positions(corpus))
    speak(config, corpus.source_size + (corpus.target_size if shift else 0), start=shift + BOS)
    if corpus.kind == "classification":
        config.num_labels = corpus.target_size
    return make_network(getattr(transformers, auto), config)


def empty_network(auto: str, options: Any) -> nn.Module:
    """A network without weights, with the layers and heads that the options say."""
    config = pretrained_config(options) if options.path else fresh_config(options, positions=FEWEST)
    return make_network(getattr(transformers, auto), config, empty=True)


def fresh_config(options: Any, *, positions: int) -> PretrainedConfig:
    """The config of an architecture from scratch."""
    names = ("layers", "hidden", "heads", "dropout")
    return make_config(options.config, {name: getattr(options, name) for name in names} | {"positions": positions})


def _positions(corpus: Corpus) -> int:
    longest = [FEWEST]
    for split in corpus.splits.values():
        sides = (split.x, split.y) if isinstance(split, Split) else ()
        longest += [int(side.lengths.max(initial=0)) for side in sides] or [ENDLESS]
    return max(longest) + SPARE


def limit_of(network: nn.Module) -> int | None:
    """The most positions that a network takes; None if nothing limits them, as with relative positions."""
    config: Any = network.config
    most = [getattr(part, "max_position_embeddings", None) for part in (config, *_parts(config))]
    known = [int(number) for number in most if number]
    for module in network.modules():  # RoBERTa counts positions from after the padding id
        table = getattr(module, "position_embeddings", None)
        if isinstance(table, nn.Embedding) and table.padding_idx is not None:
            known.append(table.num_embeddings - table.padding_idx - 1)
    return min(known, default=None)


def _parts(config: PretrainedConfig) -> list[Any]:
    return [getattr(config, name) for name in config.sub_configs]

"""The network of a model: pretrained, from scratch, or without weights, only to see its sites."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import PretrainedConfig

from ktiwprobe import Corpus, Split
from ktiwprobe.data import BOS
from ktiwprobe.errors import OptionError
from ktiwprobe_transformers.loading import load_config, load_network, make_network
from ktiwprobe_transformers.sizes import SPARE, make_config, speak

FEWEST, ENDLESS = 64, 512  # positions from scratch: at least, and for a stream, whose longest sentence nobody knows
SMALL, MANY = 50_000_000, 500  # weights that are always few enough, and those for each layer and squared width
TEXT_PARTS = ("encoder", "decoder", "text_encoder", "text_config", "generator")


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
    if not Path(options.config).exists():
        with torch.random.fork_rng(devices=[]):  # weights depend on the seed alone
            _check_size(make_network(getattr(transformers, auto), config, empty=True), options)
    return make_network(getattr(transformers, auto), config)


def _check_size(network: nn.Module, options: Any) -> None:
    """Refuse a type that the options do not make small, before its weights take all memory."""
    weights = sum(p.numel() for p in network.parameters())
    if not Path(options.config).exists() and weights > max(SMALL, MANY * options.layers * options.hidden**2):
        raise OptionError(
            f"architecture {options.config!r} has {weights / 1e6:,.0f} million weights even with hidden="
            f"{options.hidden} and layers={options.layers}, since it has other sizes too: write a config.json with "
            "all of them and pass -o config=FILE"
        )


def empty_network(auto: str, options: Any, *, weights: bool = False) -> nn.Module:
    """A network with the layers and heads that the options say: without weights, or with random ones."""
    if options.path:
        return make_network(getattr(transformers, auto), pretrained_config(options), empty=not weights)
    config = fresh_config(options, positions=FEWEST)
    speak(config, FEWEST, start=BOS)
    network = make_network(getattr(transformers, auto), config, empty=not weights)
    _check_size(network, options)
    return network


class _Shapes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Lets a network without weights run as far as shapes go: whatever value it asks for is 0, or none."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, first = func.overloadpacket.__name__, args[0] if args else None
        if isinstance(first, Tensor) and first.is_meta:
            if name in ("_local_scalar_dense", "is_nonzero", "equal"):
                return 0.0 if first.is_floating_point() else 0
            if name in ("nonzero", "nonzero_numpy"):
                none = first.new_empty((0, first.dim()), dtype=torch.int64)
                return none if name == "nonzero" else list(none.unbind(1))
            if name == "_grouped_mm":  # whose shapes are known for one precision only
                return first.new_empty((*first.shape[:-1], args[1].shape[-1]))
            if name == "_to_copy" and (kwargs or {}).get("device", first.device) != first.device:
                return torch.zeros(first.shape, dtype=kwargs.get("dtype") or first.dtype)
        return func(*args, **(kwargs or {}))


def shapes_alone() -> AbstractContextManager[Any]:
    """While it lasts, networks on the meta device can be run to see what they call."""
    return _Shapes()  # type: ignore[no-untyped-call]


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
    known = [int(number) for number in most if number and number > 0]  # XLNet writes -1 for no limit
    for module in network.modules():  # RoBERTa counts positions from after the padding id
        table = getattr(module, "position_embeddings", None)
        if isinstance(table, nn.Embedding) and table.padding_idx is not None:
            known.append(table.num_embeddings - table.padding_idx - 1)
    return min(known, default=None)


def _parts(config: PretrainedConfig) -> list[Any]:
    """The parts of a config that read or write text."""
    return [getattr(config, name, None) for name in config.sub_configs if name in TEXT_PARTS]

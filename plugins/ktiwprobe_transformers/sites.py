"""Where a model attends: found by watching one small pass, named `cross:5.h0`, chosen by `cross:-1` or `self:3.h5`.

Groups: in an encoder-decoder `enc` is the encoder over the input, `self` the decoder over the outputs before, `cross`
the decoder over the input; any other model has `self` only. Layers count from 0, negative ones from the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import nn

from ktiwprobe.errors import OptionError
from ktiwprobe_transformers.forcing import Call, Key

PART = re.compile(r"(?P<group>[a-z]+):(?P<layer>-?\d+|all)(?:\.h(?P<head>\d+))?")
LOOKS = {  # by group and whether there is a decoder
    ("self", False): "from inputs at inputs",
    ("enc", True): "from inputs at inputs",
    ("self", True): "from outputs at outputs",
    ("cross", True): "from outputs at inputs",
}


@dataclass(frozen=True, slots=True)
class Layer:
    """One attention of a model: all its heads."""

    group: str
    index: int
    heads: int
    keys: tuple[Key, ...]  # by which it is forced: the calls that share its queries and keys, nearly always one

    @property
    def name(self) -> str:
        """As in `cross:5`."""
        return f"{self.group}:{self.index}"


@dataclass(frozen=True, slots=True)
class Place:
    """A layer and those of its heads that are read and replaced."""

    layer: Layer
    heads: tuple[int, ...]

    @property
    def names(self) -> list[str]:
        """A site's name for each head."""
        return [f"{self.layer.name}.h{head}" for head in self.heads]


def find_layers(calls: Iterable[Call], *, outputs: int | None = None) -> list[Layer]:
    """The attentions that were called in a pass; a decoder is known by its `outputs`, as many as no input has.

    Calls of one module with the very same queries and keys are one attention, applied to parts of the values in turn
    (differential attention): they are forced together.
    """
    attentions: list[list[Call]] = []
    for call in calls:
        last = attentions[-1] if attentions else []
        if last and last[0].module is call.module and last[0].query is call.query and last[0].key is call.key:
            last.append(call)
        else:
            attentions.append([call])
    layers: list[Layer] = []
    for same in attentions:
        _, heads, queries, keys = same[0].weights.shape
        group = "self" if outputs is None or keys == outputs else "cross" if queries == outputs else "enc"
        index = sum(layer.group == group for layer in layers)
        layers.append(Layer(group, index, heads, tuple(call.place for call in same)))
    return layers


def choose_places(text: str, layers: Sequence[Layer], groups: Sequence[str], model: nn.Module) -> list[Place]:
    """The places that `text` names, in the order of the model; those of `groups` look from outputs at inputs."""
    heads: dict[str, set[int]] = {}
    for part in text.split(","):
        for layer, chosen in _matches(part.strip(), layers, model):
            if layer.group not in groups:
                raise OptionError(
                    f"site {part.strip()!r} of {type(model).__name__} does not look from outputs at inputs: choose "
                    f"from {describe([one for one in layers if one.group in groups])}"
                )
            heads.setdefault(layer.name, set()).update(chosen)
    return [Place(layer, tuple(sorted(heads[layer.name]))) for layer in layers if layer.name in heads]


def _matches(part: str, layers: Sequence[Layer], model: nn.Module) -> list[tuple[Layer, tuple[int, ...]]]:
    match = PART.fullmatch(part)
    group = [layer for layer in layers if match and layer.group == match["group"]]
    if match and match["layer"] != "all":
        index = int(match["layer"])
        group = group[index : index + 1 or None] if -len(group) <= index < len(group) else []
    head = None if match is None or match["head"] is None else int(match["head"])
    found = [(layer, tuple(range(layer.heads)) if head is None else (head,)) for layer in group]
    found = [(layer, chosen) for layer, chosen in found if head is None or head < layer.heads]
    if not found:
        raise OptionError(
            f"unknown site {part!r}: {type(model).__name__} has {describe(layers)}; write {layers[-1].group}:-1, "
            f"{layers[-1].group}:all or {layers[-1].name}.h0"
        )
    return found


def describe(layers: Sequence[Layer]) -> str:
    """All layers in a few words."""
    parts = []
    for group in dict.fromkeys(layer.group for layer in layers):
        names = [layer.name for layer in layers if layer.group == group]
        parts.append(names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}")
    most = max((layer.heads for layer in layers), default=0)
    return f"{', '.join(parts)}, with heads h0 to h{most - 1}"

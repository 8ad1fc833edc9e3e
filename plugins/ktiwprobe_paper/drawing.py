"""Initial weights from a seed of their own: what an experiment needs that holds some of a model's weights fixed.

The distributions are those that torch draws from when it makes a layer.
"""

from collections.abc import Iterable

import torch
from torch import nn


def redraw(modules: Iterable[nn.Module], seed: int) -> None:
    """Draw every weight of `modules` anew: the same seed and modules, the same weights, whatever else was drawn."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in modules:
            for layer in module.modules():
                if isinstance(layer, nn.Embedding):
                    layer.weight.normal_(generator=generator)
                elif isinstance(layer, (nn.Linear, nn.RNNBase)):
                    width = layer.in_features if isinstance(layer, nn.Linear) else layer.hidden_size
                    for weight in layer.parameters():
                        weight.uniform_(-(width**-0.5), width**-0.5, generator=generator)

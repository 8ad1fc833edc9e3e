"""The gate of delta: which tables a network looks its input up in, and scaling what they give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ktiwprobe.probes.probing import evaluating
from ktiwprobe_transformers.forcing import watching
from ktiwprobe_transformers.loading import quiet

if TYPE_CHECKING:
    from ktiwprobe_transformers.model import HfModel


@torch.no_grad()
def embeddings_of_ids(model: HfModel) -> list[nn.Module]:
    """The tables that the network looks its input ids up in: one, or one more for each layer."""
    batch = model.tiny()
    tables: dict[nn.Module, None] = {}

    def look(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> None:
        ids = next((value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)), None)
        if ids is None or ids.shape != batch.x.shape or not torch.equal(ids, batch.x):
            return
        # Some tables of positions are given the ids too, and read nothing but their shape.
        words = F.embedding(ids, module.weight)  # type: ignore[arg-type]
        if output.shape == words.shape and (F.cosine_similarity(output, words, dim=-1) > 0.999).all():
            tables[module] = None

    with ExitStack() as stack:
        for module in model.network.modules():
            if isinstance(module, nn.Embedding):
                stack.callback(module.register_forward_hook(look, with_kwargs=True).remove)
        stack.enter_context(quiet())
        stack.enter_context(evaluating(model.network))
        stack.enter_context(watching(model.network))  # by itself, even while another pass is watched
        model.logits(batch)
    return list(tables)


@contextmanager
def gated(embeddings: Iterable[nn.Module], gate: Tensor | None) -> Iterator[None]:
    """While it lasts, what `embeddings` give for each input position is scaled by `gate` (B, L)."""
    with ExitStack() as stack:
        if gate is not None:
            scale = gate.unsqueeze(-1)
            for embedding in embeddings:
                hook = embedding.register_forward_hook(lambda _module, _args, output: output * scale.to(output.dtype))
                stack.callback(hook.remove)
        yield

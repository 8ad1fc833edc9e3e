"""Many chosen attentions in few passes: only what follows the first forced call runs again, for many copies at once.

In a pass under its own attention the modules that are done before that call is reached are remembered. In later passes
they hand out what they said then, once for each copy of the batch, and the rest of the model runs as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from ktiwprobe import Batch
from ktiwprobe_transformers.forcing import Force, Key, Watch, watching

Memory = Mapping[nn.Module, Any]


def copies(batch: Batch, count: int) -> Batch:
    """The batch `count` times, one after the other."""
    many = {name: getattr(batch, name).repeat(count, 1) for name in ("x", "x_mask", "y", "y_mask")}
    return replace(batch, x_lengths=batch.x_lengths.repeat(count), **many)


def copied(tree: Any, size: int, count: int) -> Any:
    """Every tensor with `size` rows `count` times; others have no batch and serve all copies as they are."""

    def copy(leaf: Any) -> Any:
        many = isinstance(leaf, Tensor) and leaf.dim() > 1 and len(leaf) == size
        return leaf.repeat(count, *[1] * (leaf.dim() - 1)) if many else leaf  # once, too: it may be changed in place

    return tree_map(copy, tree)


def remember(
    network: nn.Module, forces: Mapping[Key, Force], run: Callable[[], Any], *, size: int
) -> tuple[Memory, Watch]:
    """What modules said before the first call of `forces` was reached, in a pass `run` over `size` sentences."""
    key = next(iter(forces))
    said: dict[nn.Module, Any] = {}
    again: set[nn.Module] = set()
    with ExitStack() as stack:
        watch = stack.enter_context(watching(network, forces))

        def note(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            if module in said or key in watch.used or not _reads_states((args, kwargs), size):
                again.add(module)
            said[module] = output

        for module in beside(network, key[0]):
            stack.callback(module.register_forward_hook(note, with_kwargs=True).remove)
        run()
    return {module: output for module, output in said.items() if module not in again}, watch


def beside(network: nn.Module, target: nn.Module) -> Iterator[nn.Module]:
    """The modules next to the way from `network` down to `target`, and those directly below `target`."""
    name = next(name for name, module in network.named_modules() if module is target)
    here, parts = network, name.split(".")
    for part in (*parts, None):
        below = here.named_children()
        yield from (found for other, child in below if other != part for found in _called(child))
        here = here.get_submodule(part) if part else here


def _called(module: nn.Module) -> Iterator[nn.Module]:
    """The module itself or, of a mere container, which is never called, what it contains."""
    if not isinstance(module, (nn.ModuleList, nn.ModuleDict)):
        yield module
        return
    for child in module.children():
        yield from _called(child)


def _reads_states(given: Any, size: int) -> bool:
    """Whether a module was given the states of `size` sentences: then all that it says has a row for each."""
    first = next((leaf for leaf in tree_leaves(given) if isinstance(leaf, Tensor)), None)
    return first is not None and first.is_floating_point() and first.dim() == 3 and len(first) == size


@contextmanager
def recalled(memory: Memory, size: int, count: int) -> Iterator[None]:
    """While it lasts, the remembered modules repeat what they said, for `count` copies."""

    def repeat(output: Any) -> Callable[..., Any]:
        return lambda *_args, **_kwargs: copied(output, size, count)

    with ExitStack() as stack:
        for module, output in memory.items():
            if "forward" in vars(module):  # somebody else's, as of a model that is spread over devices
                stack.callback(setattr, module, "forward", module.forward)
            else:
                stack.callback(vars(module).pop, "forward", None)
            module.forward = repeat(output)
        yield


def copies_at_once(batch: Batch, *, values: int, megabytes: int) -> int:
    """How many copies of a batch may run at once if each of its sentences takes `values` float32 values."""
    return max(1, megabytes * 2**20 // (4 * values * max(1, len(batch.x))))


def one_hot_rows(places: Tensor, size: int, L: int) -> Tensor:
    """For each copy of a batch of `size`, all weight on its place. (places,) -> (places * size, 1, 1, L)"""
    rows = torch.nn.functional.one_hot(places, L).float()
    return rows.repeat_interleave(size, 0)[:, None, None, :]

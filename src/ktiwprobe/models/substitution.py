"""Other values inside a model while it runs: for the weights it would choose itself, or the embeddings it looks up.

Both work below torch's functions, on every operation that the model does, so that it need not cooperate.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

LARGEST = 1 << 22  # entries of a tensor that is compared with the model's weights


class OtherWeights(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it lasts, wherever the model computes the weights that a row would choose itself, others take their place.

    One row of each sentence in each copy: where each row is forced in a pass of its own, the other rows count.
    """

    def __init__(self, forced: Any, close: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.B, self.L, self.n = len(forced.batch.x), forced.alpha.shape[-1], len(forced.many.x)
        self.close = close
        self.wanted: list[tuple[int, Tensor, Tensor, Tensor]] = []  # first sentence of a copy, rows, others, which
        self.rows: dict[int, Tensor] = {}  # the row that is tried, by copy. (B,)
        for k, site in enumerate(forced.tried):
            own, legal = forced.alpha[:, site].float(), forced.legal[:, site]
            high, low = (
                own.masked_fill(~legal, -1).amax(-1, keepdim=True),
                own.masked_fill(~legal, 2).amin(-1, keepdim=True),
            )
            flipped = (high + low - own).masked_fill(~legal, 0)  # the highest weight becomes the lowest
            share = own.masked_fill(~legal, 0).sum(-1, keepdim=True) / flipped.sum(-1, keepdim=True).clamp_min(1e-12)
            telling = ((high - low).squeeze(-1) > 1e-3) & (legal.sum(-1) > 1) & forced.batch.y_mask
            for turn, copy in enumerate(forced.copies_of(k)):
                self._want(copy, turn, own, flipped * share, telling, forced.given[copy])

    def _want(self, copy: int, turn: int, own: Tensor, other: Tensor, telling: Tensor, given: Tensor) -> None:
        """Choose a row of each sentence that cannot be mistaken for a row that was given."""
        rows = given.flatten(1, 2)  # (B, S * T, L)
        clash = (own.unsqueeze(2) - rows.unsqueeze(1)).abs().amax(-1).le(2 * self.close).any(-1)  # (B, T)
        fit = (telling & ~clash).int()
        row = fit.argmax(1) if turn % 2 == 0 else fit.shape[1] - 1 - fit.flip(1).argmax(1)  # (B,): first, or last
        place = row.view(-1, 1, 1).expand(-1, 1, self.L)
        self.rows[copy] = row
        self.wanted.append(
            (copy * self.B, own.gather(1, place), other.gather(1, place), fit.gather(1, row.unsqueeze(1)) > 0)
        )

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for out in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(out, Tensor) and not out.is_nested and out.is_floating_point() and self._fits(out):
                self._replace(out)
        return result

    def _fits(self, out: Tensor) -> bool:
        return (
            out.dim() >= 2
            and out.shape[-1] == self.L
            and out.shape[0] % self.n == 0
            and 0 < out.numel() <= LARGEST
            and all(out.stride())  # an expanded tensor is one that was seen before
        )

    def _replace(self, out: Tensor) -> None:
        flat = out.detach().reshape(self.n, -1, self.L).float().clone()
        changed = False
        for start, own, other, telling in self.wanted:
            block = flat[start : start + self.B]  # (B, m, L)
            hit = ((block - own).abs().amax(-1) <= self.close) & telling  # (B, m)
            if hit.any():
                flat[start : start + self.B] = torch.where(hit.unsqueeze(-1), other, block)
                changed = True
        if changed:
            out.detach().copy_(flat.reshape(out.shape))


class ScaledLookups(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it lasts, what any embedding gives for the inputs of one sentence is scaled, position by position."""

    def __init__(self, ids: Tensor, scale: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ids, self.scale, self.count = ids, scale, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        indices = _looked_up(func.overloadpacket.__name__, args)
        if indices is None or indices.is_nested or indices.numel() < len(self.ids) or indices.device != self.ids.device:
            return out
        flat, n = indices.flatten(), len(self.ids)
        starts = (flat.unfold(0, n, 1) == self.ids).all(-1).nonzero().flatten().tolist()
        if not starts:
            return out
        factor = torch.ones_like(flat, dtype=torch.float32)
        for start in starts:
            factor[start : start + n] = self.scale
        self.count += 1
        return out * factor.view(*indices.shape, 1).to(out.dtype)


def _looked_up(name: str, args: Any) -> Tensor | None:
    """The ids of which an operation returns rows of a table."""
    if name == "embedding":
        return args[1]  # type: ignore[no-any-return]
    table = args[0] if args and isinstance(args[0], Tensor) else None
    if table is None or table.dim() != 2 or not table.is_floating_point():
        return None
    if name == "index" and len(args[1]) == 1 and args[1][0] is not None:
        return args[1][0] if args[1][0].dtype == torch.int64 else None
    return args[2] if name == "index_select" and args[1] == 0 else None

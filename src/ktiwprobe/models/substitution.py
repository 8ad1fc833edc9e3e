"""Other values inside a model while it runs: for the weights it would choose itself, or the embeddings it looks up.

Both work below torch's functions, on every operation that the model does, so that it need not cooperate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

ROWS_AT_ONCE = 1 << 22  # entries of an intermediate tensor


class OtherWeights(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it lasts, wherever the model computes the weights that a row would choose itself, others take their place.

    One row of each sentence in each copy: where each row is forced in a pass of its own, the other rows count.
    """

    def __init__(self, forced: Any, close: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.B, self.L, self.n = len(forced.batch.x), forced.alpha.shape[-1], len(forced.many.x)
        self.close = close
        self.wanted: list[tuple[int, Tensor, Tensor, Tensor]] = []  # copy, rows, others, which
        self.first = 0  # the copy that a pass begins with
        self.rows: dict[int, Tensor] = {}  # the row that is tried, by copy. (B,)
        for k, sites in enumerate(forced.tried):
            rows = [_other_rows(forced.alpha[:, site].float(), forced.legal[:, site]) for site in sites]
            for turn, copy in enumerate(forced.copies_of(k)):
                self._want(copy, turn, rows, forced.batch.y_mask, forced.given[copy])

    def _want(
        self, copy: int, turn: int, sites: list[tuple[Tensor, Tensor, Tensor]], real: Tensor, given: Tensor
    ) -> None:
        """Choose a row of each sentence that cannot be mistaken for a row that was given."""
        rows = given.flatten(1, 2)  # (B, S * T, L)
        fits = [telling & real & ~_near_any(own, rows, 2 * self.close) for own, _, telling in sites]
        fit = torch.stack(fits).any(0).int()  # (B, T)
        row = fit.argmax(1) if turn % 2 == 0 else fit.shape[1] - 1 - fit.flip(1).argmax(1)  # (B,): first, or last
        place = row.view(-1, 1, 1).expand(-1, 1, self.L)
        self.rows[copy] = row
        for (own, other, _), fits_here in zip(sites, fits, strict=True):
            chosen = fits_here.gather(1, row.unsqueeze(1))
            if chosen.any():
                self.wanted.append((copy, own.gather(1, place), other.gather(1, place), chosen))

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
            and out.numel() > 0
            and all(out.stride())  # an expanded tensor is one that was seen before
        )

    def _replace(self, out: Tensor) -> None:
        flat = out.detach().reshape(self.n, -1, self.L)
        changed = False
        for copy, own, other, telling in self.wanted:
            start = (copy - self.first) * self.B
            if not 0 <= start < self.n:
                continue
            block = flat[start : start + self.B].float()  # (B, m, L)
            near = (block[..., :1] - own[..., :1]).abs() <= self.close  # nearly always enough to see that there is none
            if not (near.squeeze(-1) & telling).any():
                continue
            hit = ((block - own).abs().amax(-1) <= self.close) & telling  # (B, m)
            if hit.any():
                flat[start : start + self.B] = torch.where(hit.unsqueeze(-1), other, block).to(flat.dtype)
                changed = True
        if changed and flat.data_ptr() != out.data_ptr():  # reshaping had to copy
            out.detach().copy_(flat.reshape(out.shape))


def _other_rows(own: Tensor, legal: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of weights, others in their place, and which rows differ enough to tell. (B, T, L), (B, T, L), (B, T)"""
    high = own.masked_fill(~legal, -1).amax(-1, keepdim=True)
    low = own.masked_fill(~legal, 2).amin(-1, keepdim=True)
    flipped = (high + low - own).masked_fill(~legal, 0)  # the highest weight becomes the lowest
    share = own.masked_fill(~legal, 0).sum(-1, keepdim=True) / flipped.sum(-1, keepdim=True).clamp_min(1e-12)
    return own, flipped * share, ((high - low).squeeze(-1) > 1e-3) & (legal.sum(-1) > 1)


def _near_any(own: Tensor, rows: Tensor, close: float) -> Tensor:
    """Which rows of weights are nearly those of any row that was given. (B, T, L), (B, N, L) -> (B, T)"""
    near = torch.zeros_like(own[..., 0], dtype=torch.bool)
    for row in torch.split(rows, max(1, ROWS_AT_ONCE // own[0].numel()), 1):
        near |= (own.unsqueeze(2) - row.unsqueeze(1)).abs().amax(-1).le(close).any(-1)
    return near


class Lookups(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it lasts, keeps the indices of every look-up in a table, in order."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.indices: list[Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        indices = _looked_up(func.overloadpacket.__name__, args)
        if indices is not None and not indices.is_nested:
            self.indices.append(indices.detach().clone())
        return func(*args, **(kwargs or {}))


class ScaledLookups(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it lasts, what any embedding gives for the inputs of one sentence is scaled, position by position.

    `others` are look-ups, by number, whose indices are not the ids but a function of each: of which input each of them
    is, -1 for none.
    """

    def __init__(self, ids: Tensor, scale: Tensor, others: Mapping[int, Tensor] | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ids, self.scale, self.others, self.count, self.calls = ids, scale, others or {}, 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        indices = _looked_up(func.overloadpacket.__name__, args)
        if indices is None or indices.is_nested:
            return out
        number, self.calls = self.calls, self.calls + 1
        starts = places_of(self.ids, indices)
        if not starts and number not in self.others:
            return out
        self.count += 1
        factor = torch.ones(indices.shape, device=indices.device)
        for start in starts:
            factor.view(-1)[start : start + len(self.ids)] = self.scale
        if not starts:
            owner = self.others[number].view_as(indices)
            factor = torch.where(owner >= 0, self.scale[owner.clamp_min(0)], factor)
        return out * factor.unsqueeze(-1).to(out.dtype)


def places_of(ids: Tensor, indices: Tensor) -> list[int]:
    """Where the ids of a sentence stand in the indices of a look-up, flattened."""
    if indices.numel() < len(ids) or indices.device != ids.device:
        return []
    return (indices.flatten().unfold(0, len(ids), 1) == ids).all(-1).nonzero().flatten().tolist()


def owners_of(indices: Tensor, changed: Tensor) -> Tensor | None:
    """Of which input each index is a function, -1 for none; None if one is of several, or if none is of any.

    `indices` are those of copies of one sentence, the first as it is; `changed` is the input changed in each copy.
    """
    if indices.numel() % len(changed):
        return None
    rows = indices.reshape(len(changed), -1)
    moved = rows != rows[0]  # (copies, P)
    owner = torch.full_like(rows[0], -1)
    for l in set(changed[1:].tolist()):  # noqa: E741
        mine = moved[changed == l].any(0)
        if (mine & (owner >= 0)).any():
            return None
        owner[mine] = l
    return owner if (owner >= 0).any() else None


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

"""Matrix products as fast as the processor allows, whoever made it.

torch takes products of float32 from MKL, which on AMD processors uses its AVX2 kernels where those for AVX-512 would be
twice as fast (docs/speed.md). oneDNN, the library of torch's LSTM layers, goes by what the processor can do: large
products go there, on such processors only. Everywhere else these are torch's own.
"""

import ctypes
import platform
import sys
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

SMALL = 2**24  # multiplications up to which the time to call oneDNN outweighs its kernels


@cache
def held_back() -> bool:
    """Whether MKL leaves half of this processor unused and oneDNN can be called instead."""
    here = Path("/proc/cpuinfo")
    maker = here.read_text() if here.is_file() else platform.processor()
    if "AuthenticAMD" not in maker or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    if sys.platform == "linux" and hasattr(ctypes.CDLL(None), "mkl_serv_intel_cpu_true"):
        return False  # somebody has answered for the processor (docs/speed.md)
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")  # type: ignore[no-untyped-call]


def multiply(a: Tensor, b: Tensor, space: Tensor | None = None) -> Tensor:
    """(N, K) @ (K, M), or with one more dimension in front of both; autograd does not follow it.

    `space`, of the result's shape, saves torch from asking for memory; oneDNN does not take it.
    """
    if not _to_onednn(a, b):
        return torch.matmul(a, b, out=space)
    if a.dim() == 3:
        return torch.stack([_onednn(*pair) for pair in zip(a, b, strict=True)])
    return _onednn(a, b)


def linear_into(space: Tensor, x: Tensor, weight: Tensor, bias: Tensor) -> None:
    """Write F.linear of x (N, K) to `space` (N, M); autograd does not follow it."""
    if _to_onednn(x, weight.t()):
        space.copy_(_onednn(x, weight.t(), bias))
    else:
        torch.addmm(bias, x, weight.t(), out=space)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """F.linear: x (..., K), weight (M, K), bias (M,)."""
    if not _to_onednn(x, weight.t()):
        return F.linear(x, weight, bias)
    out: Tensor = _Linear.apply(x.reshape(-1, x.shape[-1]), weight, bias)  # type: ignore[no-untyped-call]
    return out.view(*x.shape[:-1], -1)


def _to_onednn(a: Tensor, b: Tensor) -> bool:
    large = a.is_cpu and a.numel() * b.shape[-1] > SMALL
    return large and a.dtype == b.dtype == torch.float32 and held_back()


def _onednn(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    out: Tensor = torch.ops.mkldnn._linear_pointwise(_whole(a), _whole(b).t(), bias, "none", [], "")
    return out


def _whole(a: Tensor) -> Tensor:
    """Without gaps: for parts of a larger matrix oneDNN has no fast kernel."""
    return a if a.is_contiguous() or a.t().is_contiguous() else a.contiguous()


class _Linear(torch.autograd.Function):
    """Its own backward is made of `linear`, so that it can be differentiated again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _onednn(x, weight.t(), bias)

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        return (
            linear(dout, weight.t()) if of_x else None,
            linear(dout.t(), x.t()) if of_weight else None,
            dout.sum(0) if of_bias else None,
        )

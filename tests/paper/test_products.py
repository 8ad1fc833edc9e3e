"""Products by oneDNN: the same numbers and gradients as torch's own, wherever they are used."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ktiwprobe import Split
from ktiwprobe_paper import products
from ktiwprobe_paper.products import linear, multiply
from ktiwprobe_paper.recurrent import Recurrent
from ktiwprobe_paper.seq2seq import Seq2Seq

CLOSE = {"rtol": 1e-4, "atol": 1e-4}


@pytest.fixture(autouse=True)
def everything_by_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small, and whatever processor this is."""
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        pytest.skip("torch comes without oneDNN here")
    monkeypatch.setattr(products, "SMALL", 0)
    monkeypatch.setattr(products, "held_back", lambda: True)


def layouts() -> dict[str, tuple[Tensor, Tensor]]:
    """x and weight of linear, as models have them."""
    whole = torch.randn(40, 64)
    return {
        "plain": (torch.randn(30, 64), whole),
        "three dimensions": (torch.randn(5, 6, 64), whole),
        "strided": (torch.randn(5, 12, 64)[:, ::2], whole),
        "half of a weight": (torch.randn(30, 32), whole[:, 32:]),
        "transposed": (torch.randn(64, 30).t(), torch.randn(64, 40).t()),
        "one row": (torch.randn(1, 64), whole),
    }


@pytest.mark.parametrize("name", layouts())
def test_linear_is_torchs(name: str) -> None:
    """Values, gradients and gradients of gradients."""
    x, weight = layouts()[name]
    leaves = [x.clone().requires_grad_(), weight.clone().requires_grad_(), torch.randn(40, requires_grad=True)]
    found = []
    for function in (linear, F.linear):
        out = function(*leaves)
        first = torch.autograd.grad(out.square().sum(), leaves, create_graph=True)
        second = torch.autograd.grad(sum(part.square().sum() for part in first) / 1e4, leaves)
        found.append([out, *first, *second])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-2)
    torch.testing.assert_close(linear(x, weight), F.linear(x, weight), **CLOSE)


def test_multiply_takes_parts_and_stacks() -> None:
    a, b = torch.randn(2, 7, 16), torch.randn(2, 16, 5)
    torch.testing.assert_close(multiply(a, b), a @ b, **CLOSE)
    torch.testing.assert_close(multiply(a[0].t(), a[1]), a[0].t() @ a[1], **CLOSE)
    torch.testing.assert_close(multiply(a[0][:, ::2], b[0][::2]), a[0][:, ::2] @ b[0][::2], **CLOSE)


def assert_same_by_torch(run: Callable[[], list[Tensor]], monkeypatch: pytest.MonkeyPatch) -> None:
    """`run` asks oneDNN, and torch's own products give what it gives."""
    asked, onednn = [], products._onednn
    monkeypatch.setattr(products, "_onednn", lambda *args: asked.append(1) or onednn(*args))
    ours = run()
    assert asked
    monkeypatch.setattr(products, "held_back", lambda: False)
    for mine, torchs in zip(ours, run(), strict=True):
        torch.testing.assert_close(mine, torchs, **CLOSE)


@pytest.mark.parametrize("both", [True, False])
def test_layers_over_real_tokens_are_the_same(both: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs, final states and all gradients."""
    torch.manual_seed(0)
    net, x, lengths = (
        Recurrent("lstm", 5, 7, layers=2, bidirectional=both),
        torch.randn(4, 9, 5),
        torch.tensor([9, 1, 3, 1]),
    )
    assert net.worth_packing(lengths, 9)

    def run() -> list[Tensor]:
        leaf = x.clone().requires_grad_()
        out, final = net.read(leaf, lengths)
        loss = (out**2).sum() + sum((part**2).sum() for part in final)
        return [out, *final, *torch.autograd.grad(loss, [leaf, *net.parameters()])]

    assert_same_by_torch(run, monkeypatch)


def test_probes_of_a_translator_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = Seq2Seq(12, 12, Seq2Seq.Options(hidden=6)).eval()
    batch = Split.of([[4, 5, 6], [7], [8, 9]], [[5, 6, 3], [10, 3], [3]]).batch(np.arange(3))
    assert_same_by_torch(lambda: [model.beta(batch), model.delta(batch)], monkeypatch)


def test_only_large_float32_on_the_cpu_leaves_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doubles, other devices and small products go where they always went, into the space that was given."""
    monkeypatch.setattr(products, "_onednn", lambda *_: pytest.fail("asked oneDNN"))
    a, b = torch.randn(7, 16, dtype=torch.double), torch.randn(16, 5, dtype=torch.double)
    space = torch.empty(7, 5, dtype=torch.double)
    assert multiply(a, b, space) is space
    assert linear(a, b.t()).dtype == torch.double
    assert linear(a.float().to("meta"), b.t().float().to("meta")).is_meta
    monkeypatch.setattr(products, "SMALL", 7 * 16 * 5)
    multiply(a.float(), b.float())


def test_processors_that_mkl_serves_well_are_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    products.held_back.cache_clear()
    assert not products.held_back()
    products.held_back.cache_clear()

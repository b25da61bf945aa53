"""Kernels of layers against PyTorch on the CPU, with gradients, and without a call on the CPU."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from torch_netcl import fallback, memory


def results(call: Callable[..., Any], device: str, *leaves: torch.Tensor) -> list[torch.Tensor]:
    moved = [x.detach().to(device).requires_grad_(x.is_floating_point() or x.is_complex()) for x in leaves]
    out = call(*moved)
    weights = torch.linspace(0.5, 1.5, out.numel()).view(out.shape).to(device)
    wanted = [x for x in moved if x.requires_grad]
    return [x.cpu() for x in (out.detach(), *torch.autograd.grad((out * weights).sum(), wanted))]


F = nn.functional
X = torch.randn(2, 3, 5, 6, generator=torch.Generator().manual_seed(0))
IDS = torch.tensor([1, 4, 4, 0, 2, 1])


@pytest.mark.parametrize(
    ("call", "leaves"),
    [
        (lambda x: F.interpolate(x, scale_factor=2), (X,)),
        (lambda x: F.interpolate(x, size=(3, 8), mode="nearest-exact"), (X,)),
        (lambda x: F.interpolate(x, size=(7, 3), mode="bilinear"), (X,)),
        (lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear", align_corners=True), (X,)),
        (lambda x: F.interpolate(x, size=(7, 9), mode="bicubic"), (X,)),
        (lambda x: F.interpolate(x[0], size=9, mode="linear"), (X,)),
        (lambda x: F.interpolate(x[None], size=(2, 7, 4), mode="trilinear"), (X,)),
        (lambda x: F.unfold(x, (2, 3), dilation=(1, 2), padding=(1, 2), stride=(2, 1)), (X,)),
        (lambda x: F.fold(x.reshape(-1)[:144].view(1, 12, 12), (4, 5), (2, 2)), (X,)),
        (lambda x: F.pad(x, (1, 2, 2, 0), mode="reflect"), (X,)),
        (lambda x: F.pad(x, (1, 2, 2, 0), mode="replicate"), (X,)),
        (lambda x: F.pad(x, (-1, 2)), (X,)),
        *((lambda a, p=p: torch.cdist(a[0], a[1, :, :4], p), (X,)) for p in (1.0, 2.0, 3.0, float("inf"))),
        (lambda w: F.embedding_bag(IDS.to(w.device), w, IDS.new_tensor([0, 2, 2]).to(w.device)), (X[0, 0],)),
        (lambda w: F.embedding_bag(IDS.view(2, 3).to(w.device), w, mode="sum"), (X[0, 0],)),
        (
            lambda w, s: F.embedding_bag(IDS.view(2, 3).to(w.device), w, mode="sum", per_sample_weights=s),
            (X[0, 0], X[0, 1, :2, :3]),
        ),
        (lambda x: torch.cummax(x, 1)[0], (X,)),
        (lambda x, w, b: F.linear(x, w, b), (X, X[0, 0, :2], X[0, 0, 0, :2])),
        (lambda x, w: F.linear(x[0, 0, :, 0], w.t()), (X, X[0, 0])),
        (lambda x: torch.add(x, x.flip(0), alpha=-1.5) - torch.sub(x, x.exp(), alpha=0.3), (X,)),
        (lambda x: torch.fmod(x, 0.7), (X,)),
        (
            lambda x: (
                x.index_fill(-1, IDS[:2].to(x.device), 3.5)
                + x.index_fill(1, IDS[3:4].to(x.device), x.detach()[0, 0, 0, 0])
            ),
            (X,),
        ),
        (lambda x: x[IDS.to(x.device) % 2, IDS.to(x.device) % 3], (X,)),
        (
            lambda x: x.clone().index_put_((IDS[3:4],), x[1])[:, IDS % 3][torch.tensor([True, False])],
            (X,),
        ),  # of the CPU
    ],
)
def test_values_and_gradients_agree_without_the_cpu(call: Any, leaves: Any) -> None:
    torch.zeros(1, device="ocl")
    fallback.calls.clear()
    for here, there in zip(results(call, "cpu", *leaves), results(call, "ocl", *leaves)):
        torch.testing.assert_close(there, here, rtol=1e-4, atol=1e-5)
    assert fallback.calls == {}


@pytest.mark.parametrize("masked", ["", "causal", "bool", "number"])
@pytest.mark.parametrize(("dtype", "far"), [(torch.float32, 2e-6), (torch.float16, 5e-3), (torch.bfloat16, 4e-2)])
def test_attention_with_dropout_is_the_formula_with_the_weights_that_were_kept(
    dtype: Any, far: float, masked: str
) -> None:
    torch.manual_seed(0)
    leaves = [torch.randn(2, 3, length, 8).to(dtype) for length in (9 if masked == "causal" else 7, 9, 9)]
    masks = {"bool": torch.rand(2, 1, 7, 9) > 0.3, "number": torch.randn(7, 9).to(dtype)}
    mask = masks.get(masked)
    here = [x.double().requires_grad_() for x in leaves]
    there = [x.to("ocl").requires_grad_() for x in leaves]
    fallback.calls.clear()
    out, _, kept, _ = torch.ops.aten._scaled_dot_product_efficient_attention(
        *there, None if mask is None else mask.to("ocl"), True, 0.3, masked == "causal"
    )
    grad = torch.randn(out.shape).to(dtype)
    out.backward(grad.to("ocl"))
    assert fallback.calls == {}
    q, k, v = here
    scores = q @ k.mT * 8**-0.5
    if masked == "causal":
        mask = torch.ones(9, 9, dtype=torch.bool).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else scores + mask
    wanted = (torch.softmax(scores, -1) * kept.cpu() / 0.7) @ v
    wanted.backward(grad.double())
    assert 0.6 < kept.float().mean().item() < 0.8
    for x, y in zip((out, *(x.grad for x in there)), (wanted, *(x.grad for x in here))):
        torch.testing.assert_close(x.cpu().double(), y, rtol=far, atol=far)


def test_attention_with_dropout_draws_anew_on_the_device() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 8, 4, device="ocl", requires_grad=True) for _ in range(3))
    fallback.calls.clear()
    whole = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    drawn = torch.stack([F.scaled_dot_product_attention(q, k, v, dropout_p=0.3, is_causal=True) for _ in range(200)])
    drawn.sum().backward()
    assert fallback.calls == {}
    assert drawn.std(0).max() > 0.1
    assert (drawn.mean(0) - whole).abs().mean() < 0.05
    assert q.grad.abs().max() > 0


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float64])
def test_a_linear_layer_of_any_dtype_has_gradients(dtype: torch.dtype) -> None:
    leaves = [torch.randn(2, 3, 4, dtype=dtype), torch.randn(5, 4, dtype=dtype), torch.randn(5, dtype=dtype)]
    for here, there in zip(*(results(lambda *x: F.linear(*x).abs(), device, *leaves) for device in ("cpu", "ocl"))):
        torch.testing.assert_close(there, here)


def test_a_number_that_changes_makes_no_other_plan_of_a_list() -> None:
    engine = memory.ENGINE
    if engine.name != "cl":
        pytest.skip("plans are of OpenCL devices")
    tensors = [torch.ones(4, device="ocl"), torch.ones(5, device="ocl")]
    torch._foreach_mul_(tensors, 0.5)
    before = len(engine.plans)
    for number in (2.0, 3.0, -0.0, 4.0):
        torch._foreach_add_(tensors, number)
    assert len(engine.plans) == before + 1
    assert [x.tolist() for x in tensors] == [[9.5] * 4, [9.5] * 5]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize(
    "options", [{}, {"num_layers": 2, "bidirectional": True, "batch_first": True}, {"bias": False}]
)
def test_recurrent_layers_are_calls_of_whole_directions(kind: Any, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model, x = kind(5, 7, **options), torch.randn(4, 3, 5)
    seen = []
    for device in ("cpu", "ocl"):
        moved, leaf = copy.deepcopy(model).to(device), x.detach().to(device).requires_grad_()
        fallback.calls.clear()
        out, last = moved(leaf)
        sum((part * part.sin()).sum() for part in (out, *(last if kind is nn.LSTM else (last,)))).backward()
        assert fallback.calls == {}
        seen.append([x.cpu() for x in (out, leaf.grad, *[p.grad for p in moved.parameters()])])
    for here, there in zip(*seen):
        torch.testing.assert_close(there, here, rtol=1e-4, atol=1e-5)


def test_a_recurrent_layer_runs_no_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_netcl import recurrent

    calls = []
    original = recurrent.dispatch.call
    monkeypatch.setattr(recurrent.dispatch, "call", lambda name, *a, **k: calls.append(name) or original(name, *a, **k))
    nn.LSTM(3, 4, 2).to("ocl")(torch.randn(6, 2, 3, device="ocl"))[0].sum().backward()
    assert [name for name in calls if name.startswith("recurrence")] == ["recurrence"] * 2 + ["recurrence_back"] * 2
    with torch.autocast("ocl", dtype=torch.bfloat16):
        assert nn.GRU(3, 4).to("ocl")(torch.randn(6, 2, 3, device="ocl"))[0].dtype is torch.bfloat16
    with pytest.raises(RuntimeError, match="Expected 3, got 5"):
        nn.GRU(3, 4).to("ocl")(torch.randn(6, 2, 5, device="ocl"))


@pytest.mark.parametrize("heads", [4, 2])
def test_attention_is_one_kernel_with_shared_heads_too(heads: int) -> None:
    from netcl.profiling import profile

    tensors = [torch.randn(2, count, 9, 8) for count in (4, heads, heads)]
    results = []
    for place in ("cpu", "ocl"):
        q, k, v = (x.to(place).detach().requires_grad_() for x in tensors)
        with profile() as seen:
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads < 4)
        y.square().sum().backward()
        results.append([x.detach().cpu() for x in (y, q.grad, k.grad, v.grad)])
    assert {launch.op for launch in seen.launches} == {"tiled_attention"}
    for here, there in zip(*results):
        assert torch.allclose(here, there, atol=1e-5)


def test_products_read_swapped_operands_in_place() -> None:
    from netcl.profiling import profile

    a, b, weight, bias = torch.randn(5, 3), torch.randn(5, 4), torch.randn(4, 3), torch.randn(4)
    expected = a.t() @ b, torch.addmm(bias, a, weight.t()), torch.bmm(a[None].mT, b[None])
    a, b, weight, bias = (value.to("ocl") for value in (a, b, weight, bias))
    with profile() as seen:
        results = a.t() @ b, torch.addmm(bias, a, weight.t()), torch.bmm(a[None].mT, b[None])
    assert "copy" not in {launch.name for launch in seen.launches}
    assert all(torch.allclose(one.cpu(), other, atol=1e-5) for one, other in zip(results, expected))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell])
def test_cells_agree_with_first_and_second_gradients(kind: Any, bias: bool) -> None:
    torch.manual_seed(0)
    here = kind(3, 4, bias=bias)
    there = copy.deepcopy(here).to("ocl")
    fallback.calls.clear()
    x, state = torch.randn(2, 3), torch.randn(2, 4)
    results = []
    for cell, device in ((here, "cpu"), (there, "ocl")):
        leaf = x.to(device).requires_grad_()
        states: Any = state.to(device)
        out = cell(leaf, cell(leaf, (states, states) if kind is nn.LSTMCell else states))
        total = sum(part.sin().sum() for part in (out if isinstance(out, tuple) else (out,)))
        (first,) = torch.autograd.grad(total, leaf, create_graph=True)
        results.append([first, *torch.autograd.grad(first.square().sum(), cell.parameters(), allow_unused=True)])
    assert fallback.calls == {}
    for one, other in zip(*results):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(other.cpu(), one, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_packed_sequences_agree(kind: Any) -> None:
    torch.manual_seed(0)
    here = kind(3, 4, 2, bidirectional=True)
    there = copy.deepcopy(here).to("ocl")
    x, lengths = torch.randn(5, 2, 3), torch.tensor([5, 3])
    results = []
    for layer, device in ((here, "cpu"), (there, "ocl")):
        out = layer(nn.utils.rnn.pack_padded_sequence(x.to(device), lengths))[0].data
        results.append([out, *torch.autograd.grad(out.square().sum(), list(layer.parameters()))])
    for one, other in zip(*results):
        torch.testing.assert_close(other.cpu(), one, rtol=1e-4, atol=1e-5)

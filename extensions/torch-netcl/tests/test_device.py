"""Tensors of the device: views, writes, files, numbers, and what PyTorch asks of a device."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from test_registration import output_of
from torch import nn


def ocl(*values: Any, **options: Any) -> torch.Tensor:
    return torch.tensor(*values, device="ocl", **options)


def test_a_view_shows_writes_and_passes_them_on() -> None:
    x = torch.zeros(4, 5, device="ocl")
    view = x.t()[1:4, ::2]
    view.add_(1)
    expected = torch.zeros(4, 5)
    expected.t()[1:4, ::2].add_(1)
    assert torch.equal(x.cpu(), expected)
    assert view._base is x
    assert view.storage_offset() == 1
    assert view.stride() == (1, 10)
    x.fill_(3)
    assert view.eq(3).all()


@pytest.mark.parametrize("offset", [0, 3])
def test_as_strided_reads_and_writes(offset: int) -> None:
    x, y = torch.arange(24.0), torch.arange(24.0, device="ocl")
    for tensor in (x, y):
        tensor.as_strided((3, 4), (5, 2), offset).mul_(-1)
    assert torch.equal(x, y.cpu())
    with pytest.raises(RuntimeError, match="out of bounds"):
        y.as_strided((100,), (1,))


def test_views_in_place_and_resize() -> None:
    x = torch.arange(6.0, device="ocl").view(2, 3)
    assert x.t_().shape == (3, 2)
    assert x.unsqueeze_(0).shape == (1, 3, 2)
    assert x.squeeze_().shape == (3, 2)
    y = torch.arange(4.0, device="ocl")
    assert y.resize_(2, 3).shape == (2, 3)
    assert y.flatten()[:4].tolist() == [0, 1, 2, 3]


def test_bits_are_shown_as_another_dtype() -> None:
    x = ocl([1.0, -2.0])
    assert x.view(torch.int32).tolist() == torch.tensor([1.0, -2.0]).view(torch.int32).tolist()
    z = torch.zeros(2, dtype=torch.complex64, device="ocl")
    torch.view_as_real(z).fill_(2.0)
    assert z.tolist() == [2 + 2j, 2 + 2j]


def test_a_write_into_elements_that_share_memory_is_refused() -> None:
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.zeros(3, 1, device="ocl").expand(3, 3).add_(1)


def test_out_is_filled_and_resized() -> None:
    x, out = torch.randn(3, device="ocl"), torch.empty(0, device="ocl")
    assert torch.exp(x, out=out) is out
    assert torch.allclose(out.cpu(), x.cpu().exp())
    part = torch.zeros(6, device="ocl")
    torch.add(x, x, out=part[::2])
    assert torch.equal(part[::2].cpu(), (x + x).cpu())
    assert part[1::2].eq(0).all()


def test_in_place_has_the_rules_of_dtypes_and_shapes() -> None:
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.ones(2, device="ocl", dtype=torch.int64).mul_(1.5)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        torch.ones(1, device="ocl").add_(torch.ones(3, device="ocl"))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: x + torch.ones(3), RuntimeError),
        (lambda x: x + torch.ones(4, device="ocl"), RuntimeError),
        (lambda x: torch.mm(x, x), RuntimeError),
        (lambda x: torch.mm(torch.ones(2, 2, device="ocl"), torch.ones(2, 2, device="ocl").long()), RuntimeError),
        (lambda x: x[5], IndexError),
        (lambda x: torch.ones(2, device="ocl:1"), RuntimeError),
        (lambda x: x.numpy(), TypeError),
        (lambda x: torch.ones(2, device="ocl").to_sparse(), NotImplementedError),
    ],
)
def test_bad_calls_raise_the_errors_of_pytorch(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call(torch.ones(3, device="ocl"))


def test_no_room_is_pytorchs_error() -> None:
    with pytest.raises((torch.OutOfMemoryError, MemoryError)):
        torch.empty(10**13, device="ocl")


def test_printing() -> None:
    assert repr(ocl([1.0, 2.5])) == "tensor([1.0000, 2.5000], device='ocl:0')"
    assert repr(torch.zeros(0, device="ocl")) == "tensor([], device='ocl:0')"


def test_copies_and_pickles_share_and_keep_what_they_have() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to("ocl")
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin[0].weight.zero_()
    assert not model[0].weight.eq(0).all()
    assert isinstance(twin[0].weight, nn.Parameter)
    x = torch.randn(2, 3, device="ocl")
    whole, row = copy.deepcopy([x, x[1]])
    row.zero_()
    assert whole[1].eq(0).all()
    assert not x[1].eq(0).all()
    again = pickle.loads(pickle.dumps({"x": x, "row": x[1]}))
    assert torch.equal(again["x"].cpu(), x.cpu())
    assert again["row"].device.type == "ocl"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_files_keep_values_and_places(dtype: torch.dtype) -> None:
    x = torch.randn(3, 4).to(dtype).to("ocl")
    stream = io.BytesIO()
    torch.save({"x": x, "view": x[1]}, stream)
    for place, device in ((None, "ocl"), ("cpu", "cpu"), ("ocl", "ocl")):
        stream.seek(0)
        loaded = torch.load(stream, map_location=place)
        assert loaded["x"].device.type == device
        assert torch.equal(loaded["view"].cpu(), x[1].cpu())
        assert loaded["view"].untyped_storage()._cdata == loaded["x"].untyped_storage()._cdata
    stream = io.BytesIO()
    torch.save(x.cpu(), stream)
    stream.seek(0)
    assert torch.load(stream, map_location="ocl").device.type == "ocl"


def test_safetensors(tmp_path: Path) -> None:
    files = pytest.importorskip("safetensors.torch")
    x = torch.randn(3, 4, device="ocl")
    files.save_file({"x": x}, tmp_path / "x.safetensors")
    assert torch.equal(files.load_file(tmp_path / "x.safetensors", device="cpu")["x"], x.cpu())


def test_state_dict_goes_to_the_cpu_and_back() -> None:
    model = nn.Linear(3, 2).to("ocl")
    here = nn.Linear(3, 2)
    here.load_state_dict(model.state_dict())
    assert torch.equal(here.weight, model.weight.cpu())
    here.to("ocl").load_state_dict(nn.Linear(3, 2).state_dict())
    assert here.weight.is_ocl


def test_tied_weights_stay_tied() -> None:
    model = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Linear(3, 3)})
    model["b"].weight = model["a"].weight
    weight = model["a"].weight
    for place in ("ocl", "cpu"):
        model.to(place)
        assert model["b"].weight is model["a"].weight is weight
        assert weight.device.type == place
    assert model.ocl()["a"].weight is weight
    assert weight.is_ocl


def test_seeds_and_states_repeat_numbers() -> None:
    torch.manual_seed(3)
    one = torch.randn(5, device="ocl"), torch.randint(0, 9, (5,), device="ocl")
    torch.manual_seed(3)
    other = torch.randn(5, device="ocl"), torch.randint(0, 9, (5,), device="ocl")
    assert torch.equal(one[0], other[0])
    assert torch.equal(one[1], other[1])
    state = torch.ocl.get_rng_state()
    one_more = torch.rand(4, device="ocl"), torch.multinomial(torch.ones(9, device="ocl"), 5)
    torch.ocl.set_rng_state(state)
    assert torch.equal(torch.rand(4, device="ocl"), one_more[0])
    assert torch.equal(torch.multinomial(torch.ones(9, device="ocl"), 5), one_more[1])
    with torch.random.fork_rng(device_type="ocl"):
        inside = torch.rand(3, device="ocl")
    assert torch.equal(torch.rand(3, device="ocl"), inside)


def test_a_generator_of_the_cpu_draws_its_numbers() -> None:
    drawn = torch.randn(4, device="ocl", generator=torch.Generator().manual_seed(1))
    assert torch.equal(drawn.cpu(), torch.randn(4, generator=torch.Generator().manual_seed(1)))


@pytest.mark.parametrize(
    ("draw", "mean", "deviation"),
    [
        (lambda x: x.normal_(1, 2), 1, 2),
        (lambda x: x.uniform_(-1, 3), 1, 4 / 12**0.5),
        (lambda x: x.exponential_(0.5), 2, 2),
        (lambda x: x.bernoulli_(0.3), 0.3, 0.21**0.5),
        (lambda x: x.random_(0, 11), 5, 10**0.5),
        (lambda x: torch.nn.functional.dropout(x.fill_(1), 0.25), 1, (1 / 3) ** 0.5),
    ],
)
def test_random_numbers_have_their_moments(draw: Any, mean: float, deviation: float) -> None:
    torch.manual_seed(0)
    values = draw(torch.empty(40_000, device="ocl")).cpu()
    assert abs(values.mean() - mean) < 0.04 * max(1, deviation)
    assert abs(values.std() - deviation) < 0.05 * deviation


def test_autocast_casts_and_scaler_scales() -> None:
    x = torch.randn(4, 4, device="ocl", requires_grad=True)
    with torch.autocast("ocl", dtype=torch.bfloat16):
        product = x @ x
        assert product.dtype is torch.bfloat16
        assert product.softmax(-1).dtype is torch.float32
        loss = nn.functional.mse_loss(product, torch.zeros_like(product))
    assert loss.dtype is torch.float32
    scaler = torch.amp.GradScaler("ocl")
    optimizer = torch.optim.SGD([x], lr=0.1)
    before = x.detach().clone()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(x, before)
    assert scaler.get_scale() == 65536.0


def test_accelerator_and_module() -> None:
    assert torch.accelerator.current_accelerator().type == "ocl"
    assert torch.accelerator.device_count() == 1
    torch.accelerator.synchronize()
    torch.ocl.synchronize()
    assert torch.ocl.is_available()
    assert torch.ocl.current_device() == 0
    assert torch.ocl.device_name()
    assert torch.ocl.memory_allocated() == torch.accelerator.memory_allocated() >= 0
    torch.accelerator.empty_cache()
    torch.ocl.set_device(0)
    with torch.ocl.device(0), pytest.raises(RuntimeError, match="NETCL_DEVICE"):
        torch.ocl.set_device(1)
    torch.accelerator.set_device_index(0)
    with pytest.raises(RuntimeError, match="NETCL_DEVICE"):
        torch.accelerator.set_device_index(1)
    assert torch.float32 in torch.accelerator.get_device_capability()["supported_dtypes"]
    for place in (torch.accelerator, torch.accelerator.memory):
        for name in ("get_memory_info", "max_memory_reserved"):
            with pytest.raises(NotImplementedError, match="torch.ocl.memory_allocated"):
                getattr(place, name)()


def test_the_bytes_of_tensors_are_counted() -> None:
    gc.collect()
    before = torch.ocl.memory_allocated()
    torch.ocl.reset_peak_memory_stats()
    x = torch.zeros(1 << 18, device="ocl")
    views = x[1:], x.detach().view(2, -1)
    assert torch.ocl.memory_allocated() == torch.ocl.max_memory_allocated() == before + (1 << 20)
    assert torch.ocl.memory_reserved() >= torch.ocl.memory_allocated()
    x = x.add(1)
    assert torch.ocl.memory_allocated() == before + (2 << 20)
    del x, views
    assert torch.ocl.memory_allocated() == before
    assert torch.ocl.max_memory_allocated() == before + (2 << 20)
    y = torch.empty(0, device="ocl").resize_(1 << 18)
    assert torch.ocl.memory_allocated() >= before + (1 << 20)
    del y
    assert torch.ocl.memory_allocated() == before


@pytest.mark.parametrize("place", ["torch.accelerator", "torch.accelerator.memory"])
def test_no_call_of_the_allocator_in_cpp_is_left(place: str) -> None:
    calls = "empty_cache empty_host_cache memory_stats memory_allocated memory_reserved reset_peak_memory_stats"
    names = [name for name in calls.split() if hasattr(eval(place), name)]
    body = "".join(f"; {place}.{name}()" for name in names)  # in a process that PyTorch may end
    assert output_of(f"import torch; torch.ones(2, device='ocl'){body}; print('end')").strip() == "end"


def test_safetensors_puts_tensors_on_device_0(tmp_path: Path) -> None:
    files = pytest.importorskip("safetensors.torch")
    x = torch.randn(3, 4)
    files.save_file({"x": x}, tmp_path / "x.safetensors")
    loaded = files.load_file(tmp_path / "x.safetensors", device=0)["x"]  # it takes no other name of this device
    assert loaded.device.type == "ocl"
    assert torch.equal(loaded.cpu(), x)
    model = nn.Linear(4, 3).to("ocl")
    files.save_model(model, str(tmp_path / "model.safetensors"))
    assert model.weight.data_ptr() != model.bias.data_ptr()
    assert model.weight[1].data_ptr() == model.weight.data_ptr() + 16
    again = nn.Linear(4, 3).to("ocl")
    files.load_model(again, str(tmp_path / "model.safetensors"))
    assert torch.equal(again.weight.cpu(), model.weight.cpu())


def test_loader_with_pinned_memory() -> None:
    data = torch.utils.data.TensorDataset(torch.randn(6, 2))
    loader = torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True)
    assert [batch[0].to("ocl", non_blocking=True).shape for batch in loader] == [(2, 2)] * 3


def test_what_has_no_kernel_warns_once_and_can_be_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_netcl import fallback

    x = torch.eye(3, device="ocl")
    monkeypatch.setenv("TORCH_NETCL_FALLBACK", "warn")
    fallback._warned.clear()
    with pytest.warns(fallback.FallbackWarning, match="linalg_cholesky_ex"):
        assert torch.equal(torch.linalg.cholesky(x).cpu(), torch.eye(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.linalg.cholesky(x)
    monkeypatch.setenv("TORCH_NETCL_FALLBACK", "error")
    with pytest.raises(NotImplementedError, match="linalg_cholesky_ex"):
        torch.linalg.cholesky(x)
    with pytest.raises(RuntimeError, match="must match"):  # an error of the user stays one
        x + torch.ones(4, device="ocl")
    monkeypatch.setenv("TORCH_NETCL_FALLBACK", "loud")
    with pytest.raises(ValueError, match="expected warn, quiet or error"):
        torch.linalg.cholesky(x)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.fmod(x, 3),
        lambda x: torch.fmod(x.long(), 3),
        lambda x: torch.fmod(x.half(), 0.7),
        lambda x: x.clone().fmod_(2),
        lambda x: torch.fmod(x, 2, out=torch.empty_like(x)),
        lambda x: x * 2j,
        lambda x: torch.fmax(x, torch.tensor(1.5)),
        lambda x: x.long() * torch.tensor(1.5, dtype=torch.float64),
        lambda x: x.long() / 2,
        lambda x: x.half() + torch.tensor(1.0, dtype=torch.float64),
        lambda x: torch.where(x > 1, x, 0.5),
        lambda x: torch.where(x > 1, x.long(), torch.tensor(0.5, dtype=torch.float64)),
        lambda x: torch.where(x > 1, x, torch.tensor(0.5)),
        lambda x: torch.clamp(x.long(), torch.tensor(0.5), torch.tensor(2.5)),
        lambda x: x.masked_fill(x > 1, torch.tensor(9)),
        lambda x: x.bool() + 1,
        lambda x: 2 - x,
        lambda x: 2**x,
        lambda x: torch.fmod(x.half(), torch.tensor(0.5).to(x.device)),
        lambda x: x.long().masked_fill(x > 1, torch.tensor(1.5).to(x.device)),
        lambda x: x.half().index_fill(0, torch.tensor([1]).to(x.device), torch.tensor(2.0).to(x.device)),
        lambda x: x.index_fill(-1, torch.tensor([0, 2]).to(x.device), 3),
    ],
)
def test_numbers_in_the_place_of_tensors_are_promoted_as_on_the_cpu(call: Any) -> None:
    x = torch.tensor([1.0, -5.5, 7.25])
    here, there = call(x), call(x.to("ocl"))
    assert here.dtype is there.dtype
    assert torch.allclose(here, there.cpu())


def test_a_division_of_integers_by_the_number_zero_raises() -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        torch.ones(3, device="ocl").long() // 0


def test_a_dtype_that_the_device_has_not_is_computed_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_netcl import memory

    torch.zeros(1, device="ocl")
    monkeypatch.delitem(memory.DTYPES, torch.float64)
    x = torch.arange(6.0, dtype=torch.float64, device="ocl").view(2, 3).requires_grad_()
    y = (x.t() @ x).exp().sum()
    y.backward()
    here = torch.arange(6.0, dtype=torch.float64).view(2, 3).requires_grad_()
    (here.t() @ here).exp().sum().backward()
    assert torch.equal(x.grad.cpu(), here.grad)
    part = torch.zeros(4, dtype=torch.float64, device="ocl")
    part[1:3].add_(1)
    assert part.float().tolist() == [0, 1, 1, 0]


def test_checkpoints_and_functions_of_functions() -> None:
    x = torch.randn(5, device="ocl", requires_grad=True)
    torch.manual_seed(1)
    loss = torch.utils.checkpoint.checkpoint(
        lambda a: nn.functional.dropout(a.exp(), 0.5).sum(), x, use_reentrant=False
    )
    loss.backward()
    kept = (loss.detach() - (x.grad).sum()).abs().item()  # the gradient of exp is exp: the same elements are kept
    assert kept < 1e-4
    y = x.detach()
    assert torch.allclose(torch.func.vmap(lambda a: a * 2)(y).cpu(), y.cpu() * 2)
    assert torch.allclose(torch.func.grad(lambda a: (a * a).sum())(y).cpu(), y.cpu() * 2)


def test_saved_values_that_were_overwritten_are_noticed() -> None:
    x = torch.randn(3, device="ocl", requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_second_derivatives() -> None:
    results = []
    for device in ("cpu", "ocl"):
        x = torch.linspace(-1, 2, 5).to(device).requires_grad_()
        y = nn.functional.gelu(x).tanh().sum()
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        results.append(second.cpu())
    assert torch.allclose(*results, atol=1e-5)

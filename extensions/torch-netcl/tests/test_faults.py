"""Faults: errors of PyTorch's own classes, no room, work left at the exit, forked workers, threads, other cores."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from test_registration import output_of
from torch import nn

ROOT = Path(__file__).resolve().parents[3]
F = nn.functional


def ones(*shape: int, device: str, **options: Any) -> torch.Tensor:
    return torch.ones(*shape, device=device, **options)


# Calls that PyTorch refuses on the CPU: the class is the same here.
REFUSED = {
    "a product of other shapes": lambda d: ones(2, 3, device=d) @ ones(2, 3, device=d),
    "a product of two dtypes": lambda d: ones(2, 2, device=d) @ ones(2, 2, device=d).long(),
    "a convolution of other channels": lambda d: F.conv2d(ones(1, 3, 4, 4, device=d), ones(3, 2, 1, 1, device=d)),
    "a convolution of two dtypes": lambda d: F.conv2d(ones(1, 3, 4, 4, device=d), ones(3, 3, 1, 1, device=d).half()),
    "floats as indices": lambda d: F.embedding(ones(3, device=d), ones(3, 3, device=d)),
    "bools that are subtracted": lambda d: ones(3, device=d).bool() - ones(3, device=d).bool(),
    "bits of floats": lambda d: ones(3, device=d) & ones(3, device=d),
    "an axis that is not there": lambda d: ones(3, device=d).sum(4),
    "a mean of integers": lambda d: ones(3, device=d).long().mean(),
    "parts of other lengths": lambda d: torch.cat([ones(3, 2, device=d), ones(3, 3, device=d)]),
    "a view of another size": lambda d: ones(3, device=d).view(2),
    "classes that are floats": lambda d: F.nll_loss(ones(2, 3, device=d), ones(2, device=d)),
    "a norm of another shape": lambda d: F.layer_norm(ones(2, 3, device=d), (4,)),
    "one value for a channel": lambda d: nn.BatchNorm1d(3).to(d)(ones(1, 3, device=d)),
    "more than there are": lambda d: ones(3, device=d).topk(9),
    "many elements as a number": lambda d: ones(3, device=d).item(),
    "a leaf that is written": lambda d: ones(3, device=d, requires_grad=True).add_(1),
    "a gradient of many": lambda d: (ones(3, device=d, requires_grad=True) * 2).backward(),
    "a result of another kind": lambda d: torch.add(ones(3, device=d), 1.0, out=ones(3, device=d).long()),
    "a matrix that is not positive": lambda d: torch.linalg.cholesky(-torch.eye(3, device=d)),
    "a probability of 2": lambda d: F.dropout(ones(3, device=d), 2.0),
    "a negative power of integers": lambda d: ones(3, device=d).long() ** -1,
    "a loss of two dtypes": lambda d: F.binary_cross_entropy(ones(3, device=d), ones(3, device=d).half()),
    "a layer whose bias has another dtype": lambda d: F.linear(
        ones(2, 3, device=d), ones(2, 3, device=d), ones(2, device=d).half()
    ),
    "a norm whose weight has another shape": lambda d: F.layer_norm(ones(2, 1, device=d), (1,), ones(2, device=d)),
    "a norm whose weight has another dtype": lambda d: F.group_norm(
        ones(1, 2, 3, device=d), 1, ones(2, device=d).double()
    ),
    "statistics of another dtype": lambda d: F.batch_norm(
        ones(4, 3, device=d), ones(3, device=d).half(), ones(3, device=d)
    ),
    "a weight of other classes": lambda d: F.nll_loss(
        ones(2, 3, device=d), ones(2, device=d).long(), ones(2, device=d)
    ),
    "a condition that is a number": lambda d: torch.where(ones(3, device=d), 1, 2),
    "a mask of another shape": lambda d: ones(3, device=d)[ones(2, device=d).bool()],
    "a mask of another shape that is written": lambda d: ones(3, 3, device=d).index_put(
        (ones(2, device=d).bool(),), ones(1, device=d)
    ),
    "written values of another dtype": lambda d: ones(3, device=d).index_put(
        (ones(1, device=d).long(),), ones(1, device=d).half()
    ),
    "scattered values of another dtype": lambda d: ones(3, device=d).scatter(
        0, ones(1, device=d).long(), ones(1, device=d).half()
    ),
    "a mean of two dtypes": lambda d: ones(3, device=d).lerp(ones(3, device=d).half(), 0.5),
    "a dot of matrices": lambda d: torch.vdot(ones(2, 2, device=d), ones(2, 2, device=d)),
    "a cross of two ranks": lambda d: torch.linalg.cross(ones(3, device=d), ones(1, 3, device=d)),
    "a table of indices": lambda d: ones(3, device=d).index_select(0, ones(1, 1, device=d).long()),
    "an activation of integers": lambda d: F.gelu(ones(3, device=d).long()),
    "an absolute bool": lambda d: ones(3, device=d).bool().abs(),
    "layers of another width": lambda d: nn.LSTM(3, 4).to(d)(ones(2, 1, 5, device=d)),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_bad_calls_have_the_class_of_the_cpu(call: Any) -> None:
    with pytest.raises(Exception) as wanted:
        call("cpu")
    with pytest.raises(wanted.type):
        call("ocl")


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: x + y,
        lambda x, y: x @ y,
        lambda x, y: torch.cat([x, y]),
        lambda x, y: torch.where(x > 0, y, x),
        lambda x, y: F.mse_loss(x, y),
        lambda x, y: nn.Linear(3, 3)(x),
        lambda x, y: torch.add(x, x, out=y),
        lambda x, y: x.masked_fill(y > 0, 1.0),
        lambda x, y: x.addbmm(y[None], x[None]),
        lambda x, y: torch.select_scatter(x, y[0], 0, 1),
        lambda x, y: torch.complex(x, y),
        lambda x, y: torch.linalg.solve_triangular(x, y, upper=True),
    ],
)
def test_two_devices_in_a_call_are_refused(call: Any) -> None:
    with pytest.raises(RuntimeError, match="on the same device"):
        call(torch.ones(3, 3, device="ocl"), torch.ones(3, 3))


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.empty(10**13, device="ocl"),
        lambda: torch.randn(10**12, device="ocl"),
        lambda: torch.ones(10**6, 1, device="ocl") @ torch.ones(1, 10**7, device="ocl"),
        lambda: torch.ones(10**6, 1, device="ocl") + torch.ones(1, 10**7, device="ocl"),
        lambda: torch.ones(1, device="ocl").expand(10**13).clone(),
        lambda: torch.ones(10**6, 1, device="ocl").repeat(1, 10**7),
        lambda: torch.ones(1, device="ocl").resize_(10**13),
        lambda: torch.arange(10**13, device="ocl"),  # made by the host
        lambda: torch.zeros(10**13, dtype=torch.complex64, device="ocl"),
        lambda: torch.fft.fft(torch.ones(1, device="ocl").expand(10**13)),
    ],
)
def test_no_room_is_pytorchs_error_in_every_call(call: Any) -> None:
    with pytest.raises(torch.OutOfMemoryError):
        call()
    assert (torch.ones(2, device="ocl") + 1).tolist() == [2, 2]


def test_a_generator_of_the_device_is_refused_by_pytorch() -> None:
    with pytest.raises(NotImplementedError, match="getNewGenerator"):
        torch.Generator("ocl")


def test_a_process_may_end_with_work_that_is_pending() -> None:
    code = "import torch; x = torch.randn(200, 200, device='ocl')\nfor _ in range(30): x = (x @ x).tanh()\nprint('end')"
    assert output_of(code).strip() == "end"


WORKERS = """
import torch
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    device = "cpu"
    def __len__(self): return 8
    def __getitem__(self, at): return torch.full((3,), float(at), device=self.device)
torch.ones(2, device="ocl").sum().item()
print([x.to("ocl").sum().item() for x in DataLoader(Rows(), batch_size=4, num_workers=2, pin_memory=True)])
Rows.device = "ocl"
try:
    list(DataLoader(Rows(), batch_size=2, num_workers=1))
except RuntimeError as error:
    print("send tensor.cpu()" in str(error) or "was forked" in str(error))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_forked_workers_give_tensors_of_the_cpu_and_name_those_of_the_device() -> None:
    assert output_of(WORKERS).splitlines() == ["[18.0, 66.0]", "True"]


def test_threads_compute_beside_each_other() -> None:
    faults: list[Exception] = []

    def work(number: int) -> None:
        try:
            layer, x = nn.Linear(8, 1).to("ocl"), torch.full((4, 8), float(number), device="ocl")
            optimizer = torch.optim.SGD(layer.parameters(), lr=1e-4)
            for _ in range(10):
                optimizer.zero_grad()
                layer(x).square().mean().backward()
                optimizer.step()
            assert x.eq(number).all()
        except Exception as error:  # noqa: BLE001 - it is asserted
            faults.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


@pytest.mark.skipif(not (ROOT / "alternatives").is_dir(), reason="a tree without the other cores")
def test_import_torch_leaves_another_core_alone() -> None:
    folders = [ROOT / "alternatives" / name / "src" for name in ("netcl-core-torch", "netcl-core-kit")]
    code = "import torch, sys; print(torch.ocl.is_available(), [m for m in sys.modules if m[:5] == 'netcl'])"
    path = os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")])
    assert output_of(code, PYTHONPATH=path).strip() == "True []"
    code = "import torch, netcl.core; print(netcl.core.__file__)\ntry: torch.ones(2, device='ocl')\n"
    code += "except ImportError as error: print('netcl-core' in str(error))"
    assert output_of(code, PYTHONPATH=path).splitlines()[1] == "True"


def test_a_script_under_netcl_run_has_the_facade(tmp_path: Path) -> None:
    pytest.importorskip("netcl.torch", reason="netcl-torch is not installed")
    script = tmp_path / "script.py"
    script.write_text("import torch; print((torch.ones(3) + 1).tolist(), hasattr(torch, 'ocl'))", encoding="utf-8")
    code = f"import sys, runpy; sys.argv = ['netcl.torch', {str(script)!r}]; "
    code += "runpy.run_module('netcl.torch', None, '__main__')"
    assert output_of(code).strip().splitlines()[-1] == "[2.0, 2.0, 2.0] False"

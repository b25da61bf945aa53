"""Objects of programs written for PyTorch: error classes, tensors without memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest

import netcl.torch as torch
from netcl.core.device import device, use_pytorch_names

F, nn = torch.nn.functional, torch.nn


@pytest.fixture
def pytorch_names() -> Iterator[None]:
    use_pytorch_names()
    yield
    use_pytorch_names(False)


def _zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape)


def _infinite() -> nn.Parameter:
    p = nn.Parameter(torch.ones(1))
    p.grad = torch.tensor([math.inf])
    return p


_WHOLE = torch.tensor([1, 2])

# By PyTorch 2.13 on a CPU.
WRONG: dict[type[Exception], dict[str, Callable[[], object]]] = {
    RuntimeError: {
        "add": lambda: _zeros(2) + _zeros(3),
        "matmul": lambda: _zeros(2, 3) @ _zeros(2, 3),
        "matmul of two dtypes": lambda: _zeros(2, 2) @ _zeros(2, 2).double(),
        "linear of two dtypes": lambda: F.linear(_zeros(2, 2), _zeros(2, 2).double()),
        "conv2d of two dtypes": lambda: F.conv2d(_zeros(1, 1, 3, 3).double(), _zeros(1, 1, 3, 3)),
        "bmm": lambda: torch.bmm(_zeros(2, 3), _zeros(2, 3)),
        "view": lambda: _zeros(3).view(2, 2),
        "cat": lambda: torch.cat([_zeros(2, 2), _zeros(3, 3)], 1),
        "stack": lambda: torch.stack([_zeros(2), _zeros(3)]),
        "default_collate": lambda: torch.utils.data.default_collate([_zeros(2), _zeros(3)]),
        "Linear": lambda: nn.Linear(3, 2)(_zeros(1, 4)),
        "Conv2d": lambda: nn.Conv2d(3, 4, 3)(_zeros(1, 2, 8, 8)),
        "LSTM": lambda: nn.LSTM(3, 4)(_zeros(5, 2, 7)),
        "item": lambda: _zeros(2).item(),
        "bool": lambda: bool(_zeros(2)),
        "topk": lambda: _zeros(3).topk(5),
        "einsum": lambda: torch.einsum("ij,jk", _zeros(2, 3), _zeros(2, 3)),
        "multinomial": lambda: torch.multinomial(_zeros(3), 1),
        "arange": lambda: torch.arange(0, 3, -1),
        "linspace": lambda: torch.linspace(0, 1, -1),
        "randint": lambda: torch.randint(5, 5, (2,)),
        "expand": lambda: _zeros(2).expand(3),
        "split": lambda: _zeros(3).split([1, 1]),
        "narrow": lambda: _zeros(3).narrow(0, 1, 5),
        "assignment": lambda: _zeros(3).__setitem__(0, _zeros(2)),
        "mean of integers": _WHOLE.mean,
        "var of integers": _WHOLE.var,
        "softmax of integers": lambda: _WHOLE.softmax(0),
        "norm of integers": _WHOLE.norm,
        "in-place float": lambda: _zeros(3).int().add_(0.5),
        "device": lambda: _zeros(2).to("foo"),
        "numpy of a leaf": lambda: torch.ones(3, requires_grad=True).numpy(),
        "clip_grad_norm_": lambda: nn.utils.clip_grad_norm_([_infinite()], 1.0, error_if_nonfinite=True),
        "grad": lambda: setattr(torch.ones(3, requires_grad=True), "grad", _zeros(2)),
        "gather": lambda: _zeros(3).gather(0, torch.tensor([5])).tolist(),
        "div": lambda: _zeros(2).div(2, rounding_mode="up"),
        "bitwise and": lambda: _zeros(2) & _zeros(2),
    },
    IndexError: {
        "sum": lambda: _zeros(3).sum(2),
        "squeeze": lambda: _zeros(3).squeeze(4),
        "transpose": lambda: _zeros(3).transpose(0, 2),
        "softmax": lambda: F.softmax(_zeros(3), 4),
        "flatten": lambda: _zeros(2).flatten(1, 0),
        "argmax of nothing": lambda: _zeros(0).argmax(),
        "element": lambda: _zeros(3)[5],
        "two indices": lambda: _zeros(3)[1, 1],
        "indices on the device": lambda: _zeros(3)[torch.tensor([7])].tolist(),
        "number as index": lambda: _zeros(3)[1.5],
        "embedding": lambda: nn.Embedding(3, 2)(torch.tensor([5])).tolist(),
        "cross_entropy": lambda: F.cross_entropy(_zeros(2, 3), torch.tensor([0, 5])).item(),
    },
    TypeError: {
        "None": lambda: _zeros(3) + None,
        "text": lambda: _zeros(3) + "a",
        "equal": lambda: torch.equal(_zeros(2), 1),
        "set_grad_enabled": lambda: torch.set_grad_enabled("x"),
        "keyword": lambda: torch.sum(_zeros(2), other=1),
    },
    ValueError: {
        "BatchNorm1d": lambda: nn.BatchNorm1d(3)(_zeros(1, 3)),
        "SGD": lambda: torch.optim.SGD([_zeros(2)], lr=-1.0),
    },
    AssertionError: {"heads": lambda: nn.MultiheadAttention(5, 2)},
}


@pytest.mark.usefixtures("pytorch_names")
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, calls in WRONG.items() for name in calls])
def test_wrong_calls_raise_pytorchs_class(kind: type[Exception], name: str) -> None:
    with pytest.raises(kind):
        WRONG[kind][name]()


def test_whole_numbers_and_two_dtypes_are_computed_without_pytorchs_names() -> None:
    assert _WHOLE.float().mean().item() == 1.5
    assert _WHOLE.mean().item() == 1.5
    assert torch.ones(1, requires_grad=True).numpy().tolist() == [1]


@pytest.mark.usefixtures("pytorch_names")
def test_a_module_is_built_without_memory_and_takes_the_tensors_of_a_state() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 100_000))
    assert {p.device.type for p in model.parameters()} == {"meta"}
    assert model(torch.empty(2, 3, device="meta")).shape == (2, 100_000)
    assert repr(model[0].bias) == "Parameter containing:\ntensor(..., device='meta', size=(4,), requires_grad=True)"
    with pytest.raises(NotImplementedError, match="no data"):
        model.to("cpu")
    model[2] = nn.Linear(4, 2, device="meta")
    with device("cpu"):
        same = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
        model.load_state_dict(same.state_dict(), assign=True)
        x = torch.randn(5, 3)
        assert torch.equal(model(x), same(x))
    assert model[0].weight.requires_grad
    empty = nn.Linear(3, 4, device="meta").to_empty(device="cpu")
    assert (empty.weight.device.type, empty.weight.shape) == ("cpu", (4, 3))

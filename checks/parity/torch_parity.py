"""Forward values, gradients, layers and optimizer steps against PyTorch on the CPU; run by `nox -s parity`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import netcl.autograd as ag
from netcl import nn, optim
from netcl.core import Tensor

RNG = np.random.default_rng(2)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def positive(*shape: int) -> np.ndarray:
    return np.abs(normal(*shape)) + 0.5


LABELS = np.array([3, 0, 2, 1, 3])

# name: (netcl, PyTorch, inputs); every input is differentiated.
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[np.ndarray]]] = {
    "add": (ag.add, torch.add, [normal(3, 1, 5), normal(4, 1)]),
    "sub": (ag.sub, torch.sub, [normal(3, 5), normal(5)]),
    "mul": (ag.mul, torch.mul, [normal(3, 5), normal(3, 1)]),
    "div": (ag.div, torch.div, [normal(3, 5), positive(3, 5)]),
    "pow": (ag.pow, torch.pow, [positive(7), normal(7)]),
    "maximum": (ag.maximum, torch.maximum, [normal(31), normal(31)]),
    "exp": (ag.exp, torch.exp, [normal(17)]),
    "log": (ag.log, torch.log, [positive(17)]),
    "sqrt": (ag.sqrt, torch.sqrt, [positive(17)]),
    "relu": (ag.relu, torch.relu, [normal(33)]),
    "sigmoid": (ag.sigmoid, torch.sigmoid, [normal(33)]),
    "tanh": (ag.tanh, torch.tanh, [normal(33)]),
    "gelu": (ag.gelu, F.gelu, [normal(33)]),
    "silu": (ag.silu, F.silu, [normal(33)]),
    "softplus": (ag.softplus, F.softplus, [normal(33)]),
    "elu": (ag.elu, F.elu, [normal(33)]),
    "sum": (lambda x: ag.sum(x, axis=1), lambda x: x.sum(1), [normal(3, 7, 2)]),
    "mean": (lambda x: ag.mean(x, axis=(0, 2)), lambda x: x.mean((0, 2)), [normal(3, 7, 2)]),
    "max": (lambda x: ag.max(x, axis=1).values, lambda x: x.max(1).values, [normal(5, 13)]),
    "softmax": (ag.softmax, lambda x: F.softmax(x, -1), [normal(5, 13)]),
    "log_softmax": (ag.log_softmax, lambda x: F.log_softmax(x, -1), [normal(5, 13)]),
    "matmul": (ag.matmul, torch.matmul, [normal(2, 1, 5, 7), normal(3, 7, 4)]),
    "conv2d": (
        lambda x, w, b: ag.conv2d(x, w, b, stride=2, padding=1, dilation=1, groups=2),
        lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1, dilation=1, groups=2),
        [normal(2, 4, 9, 7), normal(6, 2, 3, 3), normal(6)],
    ),
    "max_pool2d": (
        lambda x: ag.max_pool2d(x, 3, stride=2, padding=1),
        lambda x: F.max_pool2d(x, 3, stride=2, padding=1),
        [normal(2, 3, 9, 8)],
    ),
    "cross_entropy": (
        lambda x: ag.cross_entropy(x, Tensor.from_host(LABELS)),
        lambda x: F.cross_entropy(x, torch.tensor(LABELS)),
        [normal(5, 4)],
    ),
}


def close(ours: Tensor, theirs: torch.Tensor, tolerance: float = 2e-5) -> None:
    np.testing.assert_allclose(ours.to_host(), theirs.detach().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    ours, theirs, inputs = CASES[name]
    nodes = [ag.Parameter(Tensor.from_host(array)) for array in inputs]
    leaves = [torch.tensor(array, requires_grad=True) for array in inputs]
    out, expected = ours(*nodes), theirs(*leaves)
    close(out, expected)
    weight = normal(*expected.shape)
    ag.sum(ag.mul(out, Tensor.from_host(weight))).backward()
    (expected * torch.tensor(weight)).sum().backward()
    for node, leaf in zip(nodes, leaves, strict=True):
        close(node.grad, leaf.grad)


LAYERS = {
    "Linear": ((7, 5), {}, (3, 7)),
    "Conv2d": ((4, 6, 3), {"padding": 1, "stride": 2, "groups": 2}, (2, 4, 8, 8)),
    "BatchNorm2d": ((4,), {}, (5, 4, 3, 3)),
    "MaxPool2d": ((2,), {}, (2, 3, 8, 8)),
    "Flatten": ((), {}, (2, 3, 4)),
    "ReLU": ((), {}, (2, 3)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_take_torch_weights(name: str) -> None:
    arguments, keywords, shape = LAYERS[name]
    ours, theirs = getattr(nn, name)(*arguments, **keywords), getattr(torch.nn, name)(*arguments, **keywords)
    state = {key: value.numpy() for key, value in theirs.state_dict().items()}
    assert {key: tuple(t.shape) for key, t in ours.state_dict().items()} == {k: v.shape for k, v in state.items()}
    ours.load_state_dict({key: Tensor.from_host(value) for key, value in state.items()})
    x = normal(*shape)
    close(ours(Tensor.from_host(x)), theirs(torch.tensor(x)))
    for key, value in theirs.state_dict().items():
        close(ours.state_dict()[key], value)


OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    "AdamW": {"lr": 0.05, "weight_decay": 0.1},
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_twenty_steps_with_a_cosine_schedule(name: str) -> None:
    start, data = normal(5, 3), normal(5, 3)
    ours, theirs = ag.Parameter(Tensor.from_host(start)), torch.tensor(start, requires_grad=True)
    optimizer = getattr(optim, name)([ours], **OPTIMIZERS[name])
    expected = getattr(torch.optim, name)([theirs], **OPTIMIZERS[name])
    schedule = optim.CosineAnnealingLR(optimizer, T_max=20)
    torch_schedule = torch.optim.lr_scheduler.CosineAnnealingLR(expected, T_max=20)
    for _ in range(20):
        optimizer.zero_grad()
        expected.zero_grad()
        ag.sum(ag.square(ag.sub(ours, Tensor.from_host(data)))).backward()
        (theirs - torch.tensor(data)).square().sum().backward()
        optimizer.step()
        expected.step()
        schedule.step()
        torch_schedule.step()
    close(ours, theirs, 1e-4)

"""Layers against PyTorch with copied weights: outputs, gradients and state after three steps of training."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import nn
from netcl.core import Tensor

torch: Any = pytest.importorskip("torch", reason="PyTorch, to compare with, is not installed")

# class, positional arguments, keyword arguments, input shape
LAYERS: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = [
    ("Linear", (7, 5), {}, (3, 7)),
    ("Linear", (7, 5), {"bias": False}, (2, 3, 7)),
    ("Conv1d", (4, 6, 3), {"stride": 2, "padding": 1, "groups": 2}, (2, 4, 9)),
    ("Conv2d", (3, 8, 3), {"padding": 1}, (2, 3, 8, 7)),
    ("Conv2d", (4, 6, (3, 2)), {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": 2}, (2, 4, 9, 8)),
    ("Conv2d", (3, 4, 4), {"padding": "same", "padding_mode": "reflect"}, (1, 3, 6, 6)),
    ("Conv2d", (3, 4, 3), {"padding": 2, "padding_mode": "circular"}, (1, 3, 5, 5)),
    ("Conv2d", (3, 4, 3), {"padding": 1, "padding_mode": "replicate", "bias": False}, (1, 3, 5, 5)),
    ("Conv3d", (2, 3, 2), {"padding": 1}, (1, 2, 4, 3, 4)),
    ("ConvTranspose1d", (3, 4, 3), {"stride": 2}, (2, 3, 5)),
    ("ConvTranspose2d", (4, 6, 3), {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}, (2, 4, 4, 3)),
    ("ConvTranspose3d", (2, 3, 2), {"dilation": 2}, (1, 2, 3, 3, 3)),
    ("BatchNorm1d", (4,), {}, (6, 4)),
    ("BatchNorm1d", (4,), {"momentum": None}, (6, 4, 3)),
    ("BatchNorm2d", (4,), {"momentum": 0.3, "eps": 1e-3}, (5, 4, 3, 3)),
    ("BatchNorm2d", (4,), {"affine": False, "track_running_stats": False}, (5, 4, 3, 3)),
    ("BatchNorm3d", (2,), {}, (3, 2, 2, 3, 2)),
    ("LayerNorm", ((3, 4),), {}, (5, 3, 4)),
    ("LayerNorm", (4,), {"bias": False, "eps": 1e-3}, (5, 3, 4)),
    ("GroupNorm", (2, 6), {}, (3, 6, 4)),
    ("InstanceNorm2d", (3,), {"affine": True}, (2, 3, 4, 5)),
    ("RMSNorm", (4,), {"eps": 1e-6}, (5, 3, 4)),
    ("ReLU", (), {}, (4, 5)),
    ("ReLU6", (), {}, (4, 5)),
    ("LeakyReLU", (0.3,), {}, (4, 5)),
    ("PReLU", (3,), {}, (2, 3, 4)),
    ("ELU", (1.3,), {}, (4, 5)),
    ("SELU", (), {}, (4, 5)),
    ("CELU", (1.3,), {}, (4, 5)),
    ("GELU", (), {}, (4, 5)),
    ("GELU", (), {"approximate": "tanh"}, (4, 5)),
    ("SiLU", (), {}, (4, 5)),
    ("Mish", (), {}, (4, 5)),
    ("Sigmoid", (), {}, (4, 5)),
    ("Tanh", (), {}, (4, 5)),
    ("Softplus", (2.0,), {}, (4, 5)),
    ("Softsign", (), {}, (4, 5)),
    ("LogSigmoid", (), {}, (4, 5)),
    ("Hardsigmoid", (), {}, (4, 5)),
    ("Hardswish", (), {}, (4, 5)),
    ("Hardtanh", (-0.5, 0.7), {}, (4, 5)),
    ("Threshold", (0.2, -1.0), {}, (4, 5)),
    ("Softmax", (1,), {}, (4, 5, 2)),
    ("LogSoftmax", (-1,), {}, (4, 5)),
    ("GLU", (1,), {}, (4, 6)),
    ("MaxPool1d", (3,), {"stride": 2, "padding": 1}, (2, 3, 8)),
    ("MaxPool2d", (3,), {"stride": 2, "padding": 1, "dilation": 1, "ceil_mode": True}, (2, 3, 8, 7)),
    ("MaxPool3d", (2,), {}, (1, 2, 4, 4, 5)),
    ("AvgPool1d", (2,), {}, (2, 3, 7)),
    ("AvgPool2d", (3,), {"stride": 2, "padding": 1, "count_include_pad": False}, (2, 3, 8, 7)),
    ("AvgPool2d", (2,), {"ceil_mode": True}, (2, 3, 7, 5)),
    ("AvgPool3d", (2,), {}, (1, 2, 4, 4, 4)),
    ("AdaptiveAvgPool1d", (3,), {}, (2, 3, 7)),
    ("AdaptiveAvgPool2d", ((3, 2),), {}, (2, 3, 7, 5)),
    ("AdaptiveMaxPool2d", (2,), {}, (2, 3, 7, 5)),
    ("ZeroPad2d", ((1, 2, 0, 3),), {}, (2, 3, 4, 4)),
    ("ConstantPad1d", (2, 1.5), {}, (2, 3, 4)),
    ("ReflectionPad2d", ((1, 2, 0, 3),), {}, (2, 3, 4, 4)),
    ("ReplicationPad3d", (1,), {}, (1, 2, 3, 3, 3)),
    ("PixelShuffle", (2,), {}, (2, 8, 3, 3)),
    ("Flatten", (), {}, (2, 3, 4)),
    ("Unflatten", (1, (2, 3)), {}, (4, 6)),
]


def close(ours: Tensor, theirs: Any) -> None:
    np.testing.assert_allclose(ours.to_host(), theirs.detach().numpy(), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("at", range(len(LAYERS)), ids=lambda at: f"{LAYERS[at][0]}-{at}")
def test_three_steps(at: int, rng) -> None:
    name, arguments, options, shape = LAYERS[at]
    ours, theirs = getattr(nn, name)(*arguments, **options), getattr(torch.nn, name)(*arguments, **options)
    state = {key: value.numpy().copy() for key, value in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict(state)
    for _ in range(3):
        data = rng.standard_normal(shape).astype(np.float32)
        x, y = ag.Parameter(Tensor.from_host(data)), torch.tensor(data, requires_grad=True)
        out, expected = ours(x), theirs(y)
        close(out, expected)
        weight = rng.standard_normal(out.shape).astype(np.float32)
        ag.sum(ag.mul(out, Tensor.from_host(weight))).backward()
        (expected * torch.tensor(weight)).sum().backward()
        close(x.grad, y.grad)
        for (label, one), (_, other) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
            close(one.grad, other.grad)
            one.write(one.to_host() - 0.1 * one.grad.to_host())
            with torch.no_grad():
                other -= 0.1 * other.grad
            one.grad = other.grad = None
            assert label
    for key, value in theirs.state_dict().items():
        close(ours.state_dict()[key], value)
    data = rng.standard_normal(shape).astype(np.float32)
    close(ours.eval()(Tensor.from_host(data)), theirs.eval()(torch.tensor(data)))


@pytest.mark.parametrize("padding_idx", [None, 2])
def test_embedding(padding_idx: int | None, rng) -> None:
    ours, theirs = nn.Embedding(6, 3, padding_idx), torch.nn.Embedding(6, 3, padding_idx)
    ours.load_state_dict({"weight": theirs.weight.detach().numpy()})
    ids = rng.integers(0, 6, (4, 5))
    out, expected = ours(Tensor.from_host(ids)), theirs(torch.tensor(ids))
    close(out, expected)
    ag.sum(ag.square(out)).backward()
    expected.square().sum().backward()
    close(ours.weight.grad, theirs.weight.grad)


def test_bilinear(normal) -> None:
    ours, theirs = nn.Bilinear(3, 4, 2), torch.nn.Bilinear(3, 4, 2)
    ours.load_state_dict({key: value.numpy() for key, value in theirs.state_dict().items()})
    a, b = normal(5, 3), normal(5, 4)
    close(ours(a, b), theirs(torch.tensor(a.to_host()), torch.tensor(b.to_host())))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("MSELoss", {}),
        ("L1Loss", {"reduction": "sum"}),
        ("SmoothL1Loss", {"beta": 0.5}),
        ("HuberLoss", {"delta": 0.5}),
        ("BCEWithLogitsLoss", {}),
        ("KLDivLoss", {"reduction": "batchmean", "log_target": True}),
        ("CrossEntropyLoss", {"label_smoothing": 0.1}),
        ("CrossEntropyLoss", {"ignore_index": 1, "reduction": "sum"}),
        ("NLLLoss", {"reduction": "none"}),
        ("MultiMarginLoss", {"margin": 0.5}),
        ("CosineEmbeddingLoss", {"margin": 0.2}),
        ("TripletMarginLoss", {"margin": 0.5}),
    ],
)
def test_losses(name: str, options: dict[str, Any], rng) -> None:
    a, b, c = rng.standard_normal((3, 6, 4)).astype(np.float32)
    others: tuple[Any, ...] = (b,)
    if name in ("CrossEntropyLoss", "NLLLoss", "MultiMarginLoss"):
        others = (rng.integers(0, 4, 6),)
    elif name == "CosineEmbeddingLoss":
        others = (b, rng.choice([-1.0, 1.0], 6).astype(np.float32))
    elif name == "TripletMarginLoss":
        others = (b, c)
    elif name == "BCEWithLogitsLoss":
        others = (rng.uniform(0, 1, (6, 4)).astype(np.float32),)
    x, y = ag.Parameter(Tensor.from_host(a)), torch.tensor(a, requires_grad=True)
    loss = getattr(nn, name)(**options)(x, *(Tensor.from_host(other) for other in others))
    expected = getattr(torch.nn, name)(**options)(y, *(torch.tensor(other) for other in others))
    close(loss, expected)
    ag.sum(loss).backward()
    expected.sum().backward()
    close(x.grad, y.grad)


@pytest.mark.parametrize("name", ["Linear", "Conv2d", "ConvTranspose2d", "Embedding", "BatchNorm2d"])
def test_first_values_have_torchs_spread(name: str) -> None:
    arguments = {"Embedding": (200, 50), "BatchNorm2d": (64,), "Linear": (300, 200)}.get(name, (40, 60, 3))
    for key, value in getattr(torch.nn, name)(*arguments).state_dict().items():
        ours = getattr(nn, name)(*arguments).state_dict()[key].to_host().astype(np.float64)
        theirs = value.numpy().astype(np.float64)
        assert abs(ours.mean() - theirs.mean()) <= 6 * theirs.std() / math.sqrt(theirs.size) + 1e-6
        if theirs.size > 1000:
            assert ours.std() == pytest.approx(theirs.std(), rel=0.05)
            if name != "Embedding":
                assert np.abs(ours).max() == pytest.approx(np.abs(theirs).max(), rel=0.02)

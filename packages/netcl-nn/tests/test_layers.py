"""Layers against NumPy in float64: values, and gradients by central differences where the layer adds more than one
op.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import nn
from netcl.core import Tensor
from netcl.core.errors import DTypeError
from netcl.nn.registry import from_config, to_config

Array = np.ndarray[Any, Any]
State = dict[str, Array]


def correlate(x: Array, w: Array, b: Array | None, stride: int = 1, padding: int = 0, groups: int = 1) -> Array:
    spatial = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *[(padding, padding)] * spatial])
    sizes = [(n - k) // stride + 1 for n, k in zip(x.shape[2:], w.shape[2:])]
    out = np.zeros((x.shape[0], w.shape[0], *sizes))
    ins, outs = w.shape[1], w.shape[0] // groups
    for place in np.ndindex(*sizes):
        window = (slice(None), slice(None), *(slice(i * stride, i * stride + k) for i, k in zip(place, w.shape[2:])))
        patch = x[window]
        for g in range(groups):
            part = patch[:, g * ins : (g + 1) * ins].reshape(x.shape[0], -1)
            rows = w[g * outs : (g + 1) * outs].reshape(outs, -1)
            out[(slice(None), slice(g * outs, (g + 1) * outs), *place)] = part @ rows.T
    return out if b is None else out + b.reshape(-1, *(1,) * spatial)


def transposed(x: Array, w: Array, b: Array, stride: int, padding: int, extra: int) -> Array:
    spatial, kernel = x.ndim - 2, w.shape[2:]
    full = [(n - 1) * stride + k + extra for n, k in zip(x.shape[2:], kernel)]
    out = np.zeros((x.shape[0], w.shape[1], *full))
    for place in np.ndindex(*x.shape[2:]):
        window = (slice(None), slice(None), *(slice(i * stride, i * stride + k) for i, k in zip(place, kernel)))
        out[window] += np.einsum("nc,cf...->nf...", x[(slice(None), slice(None), *place)], w)
    crop = (slice(None), slice(None), *(slice(padding, n - padding) for n in full))
    return out[crop] + b.reshape(-1, *(1,) * spatial)


def windows(x: Array, size: int, stride: int, function: Any) -> Array:
    sizes = [(n - size) // stride + 1 for n in x.shape[2:]]
    out = np.zeros((*x.shape[:2], *sizes))
    for place in np.ndindex(*sizes):
        cut = tuple(slice(i * stride, i * stride + size) for i in place)
        out[(slice(None), slice(None), *place)] = function(
            x[(slice(None), slice(None), *cut)].reshape(*x.shape[:2], -1), axis=-1
        )
    return out


def standardized(x: Array, axes: tuple[int, ...], eps: float = 1e-5) -> Array:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def grouped(x: Array, groups: int) -> Array:
    return standardized(x.reshape(x.shape[0], groups, -1), (2,)).reshape(x.shape)


erf = np.vectorize(math.erf)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


Case = tuple[Callable[[], nn.Module], tuple[int, ...], Callable[[Array, State], Array]]

CASES: dict[str, Case] = {
    "Linear": (lambda: nn.Linear(5, 3), (2, 4, 5), lambda x, s: x @ s["weight"].T + s["bias"]),
    "Linear 1-d": (lambda: nn.Linear(5, 3, bias=False), (5,), lambda x, s: x @ s["weight"].T),
    "Identity": (nn.Identity, (2, 3), lambda x, s: x),
    "Flatten": (nn.Flatten, (2, 3, 4), lambda x, s: x.reshape(2, 12)),
    "PixelUnshuffle": (
        lambda: nn.PixelUnshuffle(2),
        (1, 2, 4, 6),
        lambda x, s: x.reshape(1, 2, 2, 2, 3, 2).transpose(0, 1, 3, 5, 2, 4).reshape(1, 8, 2, 3),
    ),
    "Softmin": (lambda: nn.Softmin(dim=1), (3, 4), lambda x, s: np.exp(-x) / np.exp(-x).sum(1, keepdims=True)),
    "Hardshrink": (nn.Hardshrink, (3, 4), lambda x, s: np.where(np.abs(x) > 0.5, x, 0)),
    "Softshrink": (lambda: nn.Softshrink(0.3), (3, 4), lambda x, s: np.sign(x) * np.maximum(np.abs(x) - 0.3, 0)),
    "Tanhshrink": (nn.Tanhshrink, (3, 4), lambda x, s: x - np.tanh(x)),
    "Unflatten": (lambda: nn.Unflatten(1, (2, -1)), (3, 6), lambda x, s: x.reshape(3, 2, 3)),
    "Conv1d": (
        lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2),
        (2, 4, 9),
        lambda x, s: correlate(x, s["weight"], s["bias"], 2, 1, 2),
    ),
    "Conv2d": (
        lambda: nn.Conv2d(3, 4, 3, padding=1),
        (2, 3, 5, 6),
        lambda x, s: correlate(x, s["weight"], s["bias"], 1, 1),
    ),
    "Conv2d same": (
        lambda: nn.Conv2d(3, 2, 3, padding="same", bias=False),
        (1, 3, 4, 4),
        lambda x, s: correlate(x, s["weight"], None, 1, 1),
    ),
    "Conv2d reflect": (
        lambda: nn.Conv2d(3, 2, 3, padding=1, padding_mode="reflect"),
        (1, 3, 4, 5),
        lambda x, s: correlate(np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], mode="reflect"), s["weight"], s["bias"]),
    ),
    "Conv2d circular, even kernel": (
        lambda: nn.Conv2d(1, 2, (2, 4), padding="same", padding_mode="circular"),
        (1, 1, 5, 5),
        lambda x, s: correlate(np.pad(x, [(0, 0), (0, 0), (0, 1), (1, 2)], mode="wrap"), s["weight"], s["bias"]),
    ),
    "Conv3d": (lambda: nn.Conv3d(2, 3, 2), (1, 2, 3, 4, 3), lambda x, s: correlate(x, s["weight"], s["bias"])),
    "DepthwiseConv2d": (
        lambda: nn.DepthwiseConv2d(3, 3, padding=1),
        (2, 3, 4, 4),
        lambda x, s: correlate(x, s["weight"], s["bias"], 1, 1, 3),
    ),
    "ConvTranspose1d": (
        lambda: nn.ConvTranspose1d(3, 2, 3, stride=2),
        (2, 3, 4),
        lambda x, s: transposed(x, s["weight"], s["bias"], 2, 0, 0),
    ),
    "ConvTranspose2d": (
        lambda: nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1),
        (2, 3, 4, 3),
        lambda x, s: transposed(x, s["weight"], s["bias"], 2, 1, 1),
    ),
    "ConvTranspose3d": (
        lambda: nn.ConvTranspose3d(2, 2, 2),
        (1, 2, 2, 3, 2),
        lambda x, s: transposed(x, s["weight"], s["bias"], 1, 0, 0),
    ),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(3), (6, 3), lambda x, s: standardized(x, (0,))),
    "BatchNorm1d (N, C, L)": (lambda: nn.BatchNorm1d(3), (6, 3, 2), lambda x, s: standardized(x, (0, 2))),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(3, affine=False), (4, 3, 2, 2), lambda x, s: standardized(x, (0, 2, 3))),
    "BatchNorm3d": (lambda: nn.BatchNorm3d(2), (3, 2, 2, 2, 2), lambda x, s: standardized(x, (0, 2, 3, 4))),
    "LayerNorm": (lambda: nn.LayerNorm((3, 4)), (2, 3, 4), lambda x, s: standardized(x, (1, 2))),
    "RMSNorm": (lambda: nn.RMSNorm(4), (2, 3, 4), lambda x, s: x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (2, 4, 3, 3), lambda x, s: grouped(x, 2)),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(3), (2, 3, 5), lambda x, s: standardized(x, (2,))),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(3, affine=True), (2, 3, 4, 5), lambda x, s: standardized(x, (2, 3))),
    "InstanceNorm3d": (lambda: nn.InstanceNorm3d(2), (1, 2, 2, 3, 2), lambda x, s: standardized(x, (2, 3, 4))),
    "ReLU": (nn.ReLU, (3, 5), lambda x, s: np.maximum(x, 0)),
    "ReLU6": (nn.ReLU6, (3, 5), lambda x, s: np.clip(x, 0, 6)),
    "LeakyReLU": (lambda: nn.LeakyReLU(0.2), (3, 5), lambda x, s: np.where(x > 0, x, 0.2 * x)),
    "PReLU": (nn.PReLU, (3, 5), lambda x, s: np.where(x > 0, x, 0.25 * x)),
    "PReLU per channel": (lambda: nn.PReLU(3, init=0.5), (2, 3, 4), lambda x, s: np.where(x > 0, x, 0.5 * x)),
    "ELU": (lambda: nn.ELU(1.5), (3, 5), lambda x, s: np.where(x > 0, x, 1.5 * np.expm1(x))),
    "CELU": (lambda: nn.CELU(1.5), (3, 5), lambda x, s: np.where(x > 0, x, 1.5 * np.expm1(x / 1.5))),
    "SELU": (nn.SELU, (3, 5), lambda x, s: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))),
    "GELU": (nn.GELU, (3, 5), lambda x, s: x * (1 + erf(x / math.sqrt(2))) / 2),
    "GELU tanh": (
        lambda: nn.GELU("tanh"),
        (3, 5),
        lambda x, s: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    "SiLU": (nn.SiLU, (3, 5), lambda x, s: x * sigmoid(x)),
    "Mish": (nn.Mish, (3, 5), lambda x, s: x * np.tanh(np.log1p(np.exp(x)))),
    "Sigmoid": (nn.Sigmoid, (3, 5), lambda x, s: sigmoid(x)),
    "Tanh": (nn.Tanh, (3, 5), lambda x, s: np.tanh(x)),
    "Softplus": (lambda: nn.Softplus(2.0), (3, 5), lambda x, s: np.log1p(np.exp(2 * x)) / 2),
    "Softsign": (nn.Softsign, (3, 5), lambda x, s: x / (1 + np.abs(x))),
    "LogSigmoid": (nn.LogSigmoid, (3, 5), lambda x, s: np.log(sigmoid(x))),
    "Hardsigmoid": (nn.Hardsigmoid, (3, 5), lambda x, s: np.clip(x / 6 + 0.5, 0, 1)),
    "Hardswish": (nn.Hardswish, (3, 5), lambda x, s: x * np.clip(x / 6 + 0.5, 0, 1)),
    "Hardtanh": (lambda: nn.Hardtanh(-0.5, 0.75), (3, 5), lambda x, s: np.clip(x, -0.5, 0.75)),
    "Threshold": (lambda: nn.Threshold(0.3, -1.0), (3, 5), lambda x, s: np.where(x > 0.3, x, -1.0)),
    "Softmax": (lambda: nn.Softmax(axis=1), (2, 4, 3), lambda x, s: np.exp(x) / np.exp(x).sum(1, keepdims=True)),
    "LogSoftmax": (nn.LogSoftmax, (2, 4), lambda x, s: x - np.log(np.exp(x).sum(-1, keepdims=True))),
    "GLU": (lambda: nn.GLU(1), (2, 6, 3), lambda x, s: x[:, :3] * sigmoid(x[:, 3:])),
    "MaxPool1d": (lambda: nn.MaxPool1d(2), (2, 3, 7), lambda x, s: windows(x, 2, 2, np.max)),
    "MaxPool2d": (lambda: nn.MaxPool2d(3, stride=2), (2, 3, 7, 8), lambda x, s: windows(x, 3, 2, np.max)),
    "MaxPool3d": (lambda: nn.MaxPool3d(2), (1, 2, 4, 4, 3), lambda x, s: windows(x, 2, 2, np.max)),
    "AvgPool1d": (lambda: nn.AvgPool1d(3, 1), (2, 3, 7), lambda x, s: windows(x, 3, 1, np.mean)),
    "AvgPool2d": (lambda: nn.AvgPool2d(2), (2, 3, 6, 5), lambda x, s: windows(x, 2, 2, np.mean)),
    "AvgPool3d": (lambda: nn.AvgPool3d(2), (1, 2, 4, 4, 3), lambda x, s: windows(x, 2, 2, np.mean)),
    "AdaptiveAvgPool1d": (lambda: nn.AdaptiveAvgPool1d(2), (2, 3, 8), lambda x, s: windows(x, 4, 4, np.mean)),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d(1), (2, 3, 4, 5), lambda x, s: x.mean((2, 3), keepdims=True)),
    "AdaptiveAvgPool3d": (lambda: nn.AdaptiveAvgPool3d(2), (1, 2, 4, 4, 4), lambda x, s: windows(x, 2, 2, np.mean)),
    "AdaptiveMaxPool1d": (lambda: nn.AdaptiveMaxPool1d(2), (2, 3, 8), lambda x, s: windows(x, 4, 4, np.max)),
    "AdaptiveMaxPool2d": (lambda: nn.AdaptiveMaxPool2d((2, 2)), (2, 3, 6, 6), lambda x, s: windows(x, 3, 3, np.max)),
    "AdaptiveMaxPool3d": (lambda: nn.AdaptiveMaxPool3d(2), (1, 2, 4, 4, 4), lambda x, s: windows(x, 2, 2, np.max)),
    "GlobalAvgPool2d": (nn.GlobalAvgPool2d, (2, 3, 4, 5), lambda x, s: x.mean((2, 3))),
    "ZeroPad1d": (lambda: nn.ZeroPad1d((1, 2)), (2, 3, 4), lambda x, s: np.pad(x, [(0, 0), (0, 0), (1, 2)])),
    "ZeroPad2d": (
        lambda: nn.ZeroPad2d((1, 2, 3, 0)),
        (2, 3, 4, 4),
        lambda x, s: np.pad(x, [(0, 0), (0, 0), (3, 0), (1, 2)]),
    ),
    "ZeroPad3d": (lambda: nn.ZeroPad3d(1), (1, 2, 2, 2, 2), lambda x, s: np.pad(x, [(0, 0), (0, 0), *[(1, 1)] * 3])),
    "ConstantPad1d": (
        lambda: nn.ConstantPad1d(1, 2.5),
        (2, 3, 4),
        lambda x, s: np.pad(x, [(0, 0), (0, 0), (1, 1)], constant_values=2.5),
    ),
    "ConstantPad2d": (
        lambda: nn.ConstantPad2d((0, 1, 2, 0), -1.0),
        (2, 3, 4, 4),
        lambda x, s: np.pad(x, [(0, 0), (0, 0), (2, 0), (0, 1)], constant_values=-1.0),
    ),
    "ConstantPad3d": (
        lambda: nn.ConstantPad3d(1, 1.0),
        (1, 1, 2, 2, 2),
        lambda x, s: np.pad(x, [(0, 0), (0, 0), *[(1, 1)] * 3], constant_values=1.0),
    ),
    "ReflectionPad1d": (
        lambda: nn.ReflectionPad1d(2),
        (2, 3, 4),
        lambda x, s: np.pad(x, [(0, 0), (0, 0), (2, 2)], mode="reflect"),
    ),
    "ReflectionPad2d": (
        lambda: nn.ReflectionPad2d((1, 2, 0, 1)),
        (2, 3, 4, 4),
        lambda x, s: np.pad(x, [(0, 0), (0, 0), (0, 1), (1, 2)], mode="reflect"),
    ),
    "ReflectionPad3d": (
        lambda: nn.ReflectionPad3d(1),
        (1, 1, 3, 2, 3),
        lambda x, s: np.pad(x, [(0, 0), (0, 0), *[(1, 1)] * 3], mode="reflect"),
    ),
    "ReplicationPad1d": (
        lambda: nn.ReplicationPad1d((2, 1)),
        (2, 3, 4),
        lambda x, s: np.pad(x, [(0, 0), (0, 0), (2, 1)], mode="edge"),
    ),
    "ReplicationPad2d": (
        lambda: nn.ReplicationPad2d(1),
        (2, 3, 4, 4),
        lambda x, s: np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], mode="edge"),
    ),
    "ReplicationPad3d": (
        lambda: nn.ReplicationPad3d(1),
        (1, 1, 2, 2, 2),
        lambda x, s: np.pad(x, [(0, 0), (0, 0), *[(1, 1)] * 3], mode="edge"),
    ),
    "Upsample": (lambda: nn.Upsample(scale_factor=2), (1, 2, 3, 2), lambda x, s: x.repeat(2, 2).repeat(2, 3)),
    "PixelShuffle": (
        lambda: nn.PixelShuffle(2),
        (1, 8, 2, 3),
        lambda x, s: x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 6),
    ),
    "Unfold": (
        lambda: nn.Unfold((3, 2)),
        (1, 2, 3, 3),
        lambda x, s: np.stack([x[0, :, :, i : i + 2].reshape(-1) for i in (0, 1)], 1)[None],
    ),
    "Fold": (
        lambda: nn.Fold((2, 3), (2, 2)),
        (1, 4, 2),
        lambda x, s: np.stack([x[0, ::2, 0], x[0, 1::2, 0] + x[0, ::2, 1], x[0, 1::2, 1]], 1)[None, None],
    ),
    "Dropout in evaluation": (lambda: nn.Dropout(0.5).eval(), (3, 4), lambda x, s: x),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name: str, normal) -> None:
    make, shape, reference = CASES[name]
    layer, x = make(), normal(*shape)
    state = {key: value.to_host().astype(np.float64) for key, value in layer.state_dict().items()}
    y = layer(x)
    expected = reference(x.to_host().astype(np.float64), state)
    assert y.shape == expected.shape
    assert y.dtype == "float32"
    np.testing.assert_allclose(y.to_host(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in CASES if "eval" not in name])
def test_gradients_reach_input_and_parameters(name: str, normal, rng) -> None:
    make, shape, _ = CASES[name]
    layer, x = make(), ag.Parameter(normal(*shape))
    start = x.to_host().astype(np.float64)
    weights = rng.standard_normal(layer(x).shape).astype(np.float32)
    direction = rng.standard_normal(shape).astype(np.float32)

    def value(offset: float) -> float:
        moved = Tensor.from_host((start + offset * direction).astype(np.float32))
        with ag.no_grad():
            return float((layer(moved).to_host().astype(np.float64) * weights).sum())

    ag.sum(ag.mul(layer(x), Tensor.from_host(weights))).backward()
    slope = (value(1e-3) - value(-1e-3)) / 2e-3
    found = float((x.grad.to_host().astype(np.float64) * direction).sum())
    assert found == pytest.approx(slope, rel=1e-2, abs=2e-2)
    assert all(p.grad is not None and p.grad.shape == p.shape for p in layer.parameters())


def test_bilinear(normal) -> None:
    layer, a, b = nn.Bilinear(3, 4, 2), normal(2, 5, 3), normal(2, 5, 4)
    w, bias = layer.weight.to_host(), layer.bias.to_host()
    expected = np.einsum("nli,oij,nlj->nlo", a.to_host(), w, b.to_host()) + bias
    np.testing.assert_allclose(layer(a, b).to_host(), expected, rtol=1e-4, atol=1e-5)


def test_max_pool_gives_positions(normal) -> None:
    x = normal(2, 3, 4, 4)
    y, positions = nn.MaxPool2d(2, return_indices=True)(x)
    assert positions.dtype == nn.functional.max_pool2d(x, 2, return_indices=True)[1].dtype == "int64"
    flat = x.to_host().reshape(2, 3, 16)
    np.testing.assert_array_equal(
        np.take_along_axis(flat, positions.to_host().reshape(2, 3, 4), 2), y.to_host().reshape(2, 3, 4)
    )


@pytest.mark.parametrize("momentum", [0.3, None])
def test_batch_norm_keeps_running_statistics(momentum: float | None, normal) -> None:
    layer = nn.BatchNorm2d(3, momentum=momentum)
    mean, var = np.zeros(3), np.ones(3)
    for step in range(1, 4):
        x = normal(4, 3, 2, 5)
        layer(x)
        share = momentum or 1 / step
        mean = (1 - share) * mean + share * x.to_host().mean((0, 2, 3))
        var = (1 - share) * var + share * x.to_host().var((0, 2, 3), ddof=1)
    assert layer.num_batches_tracked.item() == 3
    np.testing.assert_allclose(layer.running_mean.to_host(), mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer.running_var.to_host(), var, rtol=1e-5)
    x = normal(2, 3, 2, 2)
    column = (3, 1, 1)
    expected = (x.to_host() - mean.reshape(column)) / np.sqrt(var.reshape(column) + 1e-5)
    np.testing.assert_allclose(layer.eval()(x).to_host(), expected, rtol=1e-4, atol=1e-5)
    assert layer.num_batches_tracked.item() == 3
    layer.reset_running_stats()
    assert layer.running_var.tolist() == [1.0, 1.0, 1.0]


def test_batch_norm_without_running_statistics(normal) -> None:
    layer, x = nn.BatchNorm2d(3, track_running_stats=False).eval(), normal(4, 3, 2, 2)
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    np.testing.assert_allclose(layer(x).to_host(), standardized(x.to_host(), (0, 2, 3)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("p", [0.2, 0.5, 0.0, 1.0])
def test_dropout(p: float) -> None:
    layer, x = nn.Dropout(p), Tensor.ones((100, 100))
    one, two = layer(x).to_host(), layer(x).to_host()
    kept = one != 0
    assert kept.mean() == pytest.approx(1 - p, abs=0.03)
    np.testing.assert_allclose(one[kept], 1 / (1 - p) if p < 1 else 0, rtol=1e-6)
    assert (one != two).any() == (0 < p < 1)


@pytest.mark.parametrize(
    ("layer", "spatial"), [(nn.Dropout1d(0.5), (5,)), (nn.Dropout2d(0.5), (3, 4)), (nn.Dropout3d(0.5), (2, 2, 2))]
)
def test_channel_dropout(layer: nn.Module, spatial: tuple[int, ...]) -> None:
    y = layer(Tensor.ones((20, 30, *spatial))).to_host().reshape(20, 30, -1)
    assert set(np.unique(y)) == {0.0, 2.0}
    assert (y == y[:, :, :1]).all()
    assert (y[:, :, 0] != 0).mean() == pytest.approx(0.5, abs=0.1)


def test_embedding(normal) -> None:
    layer = nn.Embedding(7, 3, padding_idx=2)
    assert not layer.weight.to_host()[2].any()
    ids = np.array([[0, 2], [6, 6]])
    y = layer(Tensor.from_host(ids))
    np.testing.assert_array_equal(y.to_host(), layer.weight.to_host()[ids])
    ag.sum(y).backward()
    expected = np.zeros((7, 3))
    expected[0], expected[6] = 1, 2
    np.testing.assert_array_equal(layer.weight.grad.to_host(), expected)
    with pytest.raises(DTypeError, match="float32"):
        layer(normal(2))
    bad = layer(Tensor.from_host(np.array([7])))
    with pytest.raises(IndexError):
        bad.to_host()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_layers(dtype: str, normal) -> None:
    layer, x = nn.Linear(4, 3, dtype=dtype), normal(2, 4, dtype=dtype)
    y = layer(x)
    assert y.dtype == dtype
    expected = x.to_host().astype(np.float64) @ layer.weight.to_host().T.astype(np.float64) + layer.bias.to_host()
    np.testing.assert_allclose(y.to_host().astype(np.float64), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", CASES)
def test_each_is_rebuilt_from_its_config(name: str) -> None:
    """The config is JSON, and gives a layer with the same options and state; test_model_files.py writes files."""
    layer = CASES[name][0]()
    config = json.loads(json.dumps(to_config(layer)))
    again = from_config(config)
    assert repr(again) == repr(layer)
    assert type(again) is type(layer)
    shapes = [{name: (t.shape, t.dtype) for name, t in each.state_dict().items()} for each in (layer, again)]
    assert shapes[0] == shapes[1]
    assert to_config(again) == to_config(layer)


def test_every_layer_is_tested_here() -> None:
    elsewhere = {
        "CosineSimilarity",
        "PairwiseDistance",
        "Module",
        "Sequential",
        "ModuleList",
        "ModuleDict",
        "Concat",
        "Bilinear",
        "Dropout",
        "Dropout1d",
        "Dropout2d",
        "Dropout3d",
        "Embedding",
        # test_sequences.py, test_models.py, test_bags_and_norms.py
        *("RNNBase", "RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell", "MultiheadAttention", "RotaryEmbedding"),
        *("Transformer", "TransformerEncoder", "TransformerEncoderLayer"),
        *("TransformerDecoder", "TransformerDecoderLayer", "GPT", "SmallVGG", "VisionTransformer"),
        *("EmbeddingBag", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d"),
        # test_parametrized_and_packed.py, checks/parity/torch_modules.py
        *("ParameterList", "ParameterDict", "BufferDict", "SyncBatchNorm", "AlphaDropout", "FeatureAlphaDropout"),
        *("ChannelShuffle", "LocalResponseNorm", "LPPool1d", "LPPool2d", "LPPool3d", "RReLU", "Softmax2d"),
        *("FractionalMaxPool2d", "FractionalMaxPool3d", "UpsamplingNearest2d", "UpsamplingBilinear2d"),
        *("CircularPad1d", "CircularPad2d", "CircularPad3d"),
        *(name for name in nn.__all__ if name.startswith("Lazy")),
    }
    layers = {n for n in nn.__all__ if isinstance(getattr(nn, n), type) and issubclass(getattr(nn, n), nn.Module)}
    layers = {getattr(nn, n).__name__ for n in layers if not n.endswith("Loss")}
    assert layers == {name.split()[0] for name in CASES} | elsewhere


def test_distances_of_rows() -> None:
    a, b = np.random.default_rng(3).normal(size=(2, 4, 5)).astype(np.float32)
    x, y = Tensor.from_host(a), Tensor.from_host(b)
    far = np.sqrt(((a - b + 1e-6) ** 2).sum(-1, keepdims=True))
    np.testing.assert_allclose(nn.PairwiseDistance(keepdim=True)(x, y).numpy(), far, rtol=1e-5)
    cosine = (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1))
    np.testing.assert_allclose(nn.CosineSimilarity()(x, y).numpy(), cosine, rtol=1e-5)


def test_a_class_statement_has_the_constants_of_a_layer() -> None:
    class Doubled(nn.PixelShuffle, shown=("upscale_factor", "training")):
        pass

    assert repr(Doubled(2)) == "Doubled(upscale_factor=2, training=True)"
    assert repr(nn.PixelShuffle(2)) == "PixelShuffle(upscale_factor=2)"
    with pytest.raises(TypeError, match="no keyword arguments"):
        type("Wrong", (nn.PixelShuffle,), {}, show=("upscale_factor",))

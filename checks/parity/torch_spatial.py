"""Convolution, pooling, padding and resampling against PyTorch on the CPU, values and gradients; by `nox -s parity`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import netcl.autograd as ag
from netcl.core import Tensor

RNG = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def distinct(*shape: int) -> np.ndarray:
    return RNG.permutation(np.linspace(-2, 2, int(np.prod(shape)))).reshape(shape).astype(np.float32)


IMAGES = {1: (2, 3, 11), 2: (2, 3, 9, 7), 3: (1, 2, 5, 6, 4)}
# name: (function of (library, "ag" or "F", *inputs), inputs); every input is differentiated.
CASES: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {}


def case(name: str, function: Callable[..., Any], *inputs: np.ndarray) -> None:
    assert name not in CASES
    CASES[name] = (function, list(inputs))


def named(name: str, **attributes: Any) -> Callable[..., Any]:
    """The function of that name of either library, which takes the same arguments."""
    return lambda library, *inputs: getattr(library, name)(*inputs, **attributes)


FLOAT_MODES = {1: ("linear",), 2: ("bilinear", "bicubic"), 3: ("trilinear",)}
for n, shape in IMAGES.items():
    enlarged, reduced = tuple(2 * s + 1 for s in shape[2:]), tuple(s - 2 for s in shape[2:])
    for mode in ("nearest", "nearest-exact", "area", *FLOAT_MODES[n]):
        corners = (False, True) if mode in FLOAT_MODES[n] else (None,)
        ways: tuple[dict[str, Any], ...] = (
            {"size": enlarged}, {"size": reduced}, {"size": (1,) * n}, {"scale_factor": 2}, {"scale_factor": 0.5},
            {"scale_factor": 1.3}, {"scale_factor": 2.5},
        )  # fmt: skip
        for corner, way in product(corners, ways):
            given = {**way, "mode": mode, **({} if corner is None else {"align_corners": corner})}
            case(f"interpolate {n}d {given}", named("interpolate", **given), normal(*shape))
    for mode, ceil, pad in product(("max", "avg"), (False, True), (0, 1)):
        given = {"kernel_size": 3, "stride": 2, "padding": pad, "ceil_mode": ceil}
        case(f"{mode}_pool{n}d {given}", named(f"{mode}_pool{n}d", **given), distinct(*shape))
    case(f"max_pool{n}d dilated", named(f"max_pool{n}d", kernel_size=2, stride=1, dilation=2), distinct(*shape))
    given = {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False}
    case(f"avg_pool{n}d without padding", named(f"avg_pool{n}d", **given), distinct(*shape))
    if n > 1:
        case(f"avg_pool{n}d divided", named(f"avg_pool{n}d", kernel_size=2, divisor_override=3), distinct(*shape))
    for kind, out in product(("max", "avg"), (1, 2, 3, 7)):
        case(
            f"adaptive_{kind}_pool{n}d to {out}", named(f"adaptive_{kind}_pool{n}d", output_size=out), distinct(*shape)
        )
    case(f"lp_pool{n}d", named(f"lp_pool{n}d", norm_type=3.0, kernel_size=2, stride=1), np.abs(normal(*shape)) + 0.1)
    for mode in ("constant", "reflect", "replicate", "circular"):
        pads = [2, 1, 1, 2, 0, 1][: 2 * n]
        case(
            f"pad {n}d {mode}", lambda library, x, pads=pads, mode=mode: library.pad(x, pads, mode=mode), normal(*shape)
        )
    case(f"pad {n}d negative", lambda library, x, n=n: library.pad(x, [-1, 2] * n), normal(*shape))
    kernel = (3, 2, 2)[:n]
    for given in (
        {"padding": "same", "dilation": 2},
        {"padding": "valid", "stride": 2},
        {"padding": 1, "dilation": 2},
        {"groups": 3 - n % 2},
    ):
        c, f, g = 6, 12, given.get("groups", 1)
        x, w = normal(2, c, *(size + 2 for size in shape[2:])), normal(f, c // g, *kernel)
        case(f"conv{n}d {given}", named(f"conv{n}d", **given), x, w, normal(f))
    for given in (
        {"stride": 2, "padding": 1, "output_padding": 1},
        {"stride": 3, "output_padding": 2, "groups": 2},
        {"dilation": 2, "padding": 1, "stride": 2, "output_padding": 1},
    ):
        x, w = normal(2, 4, *(3, 4, 2)[:n]), normal(4, 3, *kernel)
        case(
            f"conv_transpose{n}d {given}",
            named(f"conv_transpose{n}d", **given),
            x,
            w,
            normal(3 * given.get("groups", 1)),
        )

for n, mode, padding, corners in product(
    (2, 3), ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True)
):
    if (n, mode) != (3, "bicubic"):
        given = {"mode": mode, "padding_mode": padding, "align_corners": corners}
        grid = RNG.uniform(-2.5, 2.5, (2, *(4, 3, 5)[:n], n)).astype(np.float32)
        case(f"grid_sample {n}d {given}", named("grid_sample", **given), normal(2, 3, *(5, 6, 4)[:n]), grid)
for corners in (False, True):
    case(f"affine_grid 2d {corners}", named("affine_grid", size=(2, 3, 4, 5), align_corners=corners), normal(2, 2, 3))
    case(
        f"affine_grid 3d {corners}", named("affine_grid", size=(2, 1, 3, 2, 4), align_corners=corners), normal(2, 3, 4)
    )
case("pixel_shuffle", named("pixel_shuffle", upscale_factor=3), normal(2, 18, 2, 3))
case("pixel_unshuffle", named("pixel_unshuffle", downscale_factor=2), normal(2, 3, 4, 6))


def unpooled(n: int) -> Callable[..., Any]:
    def function(library: Any, x: Any) -> Any:
        y, places = getattr(library, f"max_pool{n}d")(x, 2, return_indices=True)
        return getattr(library, f"max_unpool{n}d")(y, places, 2, output_size=tuple(x.shape[2:]))

    return function


for n, shape in IMAGES.items():
    case(f"max_unpool{n}d", unpooled(n), distinct(*shape))


def close(ours: Any, theirs: torch.Tensor, tolerance: float = 2e-5) -> None:
    np.testing.assert_allclose(ours.to_host(), theirs.detach().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    function, inputs = CASES[name]
    nodes = [ag.Parameter(Tensor.from_host(array)) for array in inputs]
    leaves = [torch.tensor(array, requires_grad=True) for array in inputs]
    ours, theirs = function(ag, *nodes), function(F, *leaves)
    close(ours, theirs)
    seed = normal(*theirs.shape)
    theirs.backward(torch.tensor(seed))
    if ours.requires_grad:
        ours.backward(Tensor.from_host(seed))
    for node, leaf in zip(nodes, leaves):
        wanted = np.zeros(leaf.shape, np.float32) if leaf.grad is None else leaf.grad.numpy()
        found = np.zeros(node.shape, np.float32) if node.grad is None else node.grad.to_host()
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_positions_of_maxima(n: int) -> None:
    x = distinct(*IMAGES[n])
    for name, given in (("max_pool", {"kernel_size": 2}), ("adaptive_max_pool", {"output_size": 3})):
        ours = getattr(ag, f"{name}{n}d")(Tensor.from_host(x), **given, return_indices=True)
        theirs = getattr(F, f"{name}{n}d")(torch.tensor(x), **given, return_indices=True)
        for one, other in zip(ours, theirs):
            np.testing.assert_array_equal(one.to_host(), other.numpy())

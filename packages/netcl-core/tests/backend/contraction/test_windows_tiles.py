"""The tiles of the implicit GEMM kernel of GPUs, on results that are stored one by one and by four, and its sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl.core.backend.opencl.contraction import conv, partial_sums
from netcl.core.backend.opencl.contraction.gpu import gpu_kernels
from netcl.core.backend.opencl.templates import Traits
from netcl.core.tuning.tiles import WINDOWS_TILES

BOUND = 1e-6  # over the sum of absolute products
OPTIONS: dict[str, Any] = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
SIDES = {8: "by four", 7: "one by one"}  # of images, by the stores of results


def exact(x: Any, w: Any, grad: Any) -> tuple[Any, Any, Any]:
    """Returns all directions in float64."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))).astype(np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    around = np.pad(grad, ((0, 0), (0, 0), (1, 1), (1, 1))).astype(np.float64)
    turned = np.lib.stride_tricks.sliding_window_view(around, (3, 3), axis=(2, 3))
    return (
        np.einsum("nchwyx,fcyx->nfhw", windows, w, optimize=True),
        np.einsum("nfhwyx,fcyx->nchw", turned, w[:, :, ::-1, ::-1], optimize=True),
        np.einsum("nchwyx,nfhw->fcyx", windows, grad, optimize=True),
    )


@pytest.mark.parametrize("side", list(SIDES), ids=list(SIDES.values()))
@pytest.mark.parametrize(
    "tile",
    [
        pytest.param(tile, id=f"{tile.rows}x{tile.columns}", marks=[] if tile.rows == 32 else pytest.mark.deep)
        for tile, _, _ in WINDOWS_TILES
    ],
)
def test_each_tile_agrees_with_float64(engine: Any, monkeypatch: pytest.MonkeyPatch, tile: Any, side: int) -> None:
    """Of sums of 98 to 324 terms, which are longer than a list of offsets, whole and in three parts."""
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no tiles")
    rng = np.random.default_rng(0)
    shapes = ((2, 11, side, side), (36, 11, 3, 3), (2, 36, side, side))
    x, w, grad = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    X, W, G = (engine.tensor(array, "float32") for array in (x, w, grad))
    calls = {"forward": (X, W, None), "grad_input": (G, W, x.shape), "grad_weight": (X, G, w.shape)}
    scales = exact(*map(np.abs, (x, w, grad)))
    monkeypatch.setattr(gpu_kernels, "blocking", gpu_kernels.blocking.__wrapped__)
    for splits in (1, 3):
        with_splits = tile._replace(splits=splits)
        monkeypatch.setattr(gpu_kernels, "implicit_gemm_tile", lambda device, c, chosen=with_splits: chosen)
        for (kind, (a, b, shape)), wanted, scale in zip(calls.items(), exact(x, w, grad), scales):
            result = engine.read(conv.conv(engine, kind, a, b, shape=shape, variant="windows", **OPTIONS))
            assert (np.abs(result - wanted) / scale).max() < BOUND, (kind, splits)


@pytest.mark.parametrize("size", [12, 7])
def test_partial_sums_that_are_read_ahead_are_added_in_order(
    engine: Any, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """With the bits of float32 sums one after the other, for counts below and above those that are read at a time."""
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no partial sums")
    monkeypatch.setitem(vars(engine), "_traits", Traits(False, 4, 48 * 1024))
    for splits in (1, 2, 8, 9, 10, 26):
        parts = np.random.default_rng(splits).standard_normal((splits, size)).astype(np.float32)
        wanted = parts[0].copy()
        for part in parts[1:]:
            wanted += part
        out = engine.tensor(np.full(size, np.nan), "float32")
        partial_sums.reduce_partials(engine, engine.tensor(parts, "float32"), out, splits)
        assert np.array_equal(engine.read(out), wanted), splits

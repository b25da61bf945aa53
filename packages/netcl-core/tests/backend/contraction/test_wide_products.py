"""The register-tiled products of GPUs: every tile, with and without partial sums, in each layout, against float64."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from netcl.core import Tensor
from netcl.core.backend.opencl.contraction.gpu import gpu_kernels
from netcl.core.tuning.tiles import WIDE_TILES

# Whole tiles, edges, primes, rows that no vector of four elements reads, and sums shorter than a step.
SHAPES = ((128, 128, 64), (130, 67, 37), (64, 192, 200), (257, 129, 17), (196, 68, 100), (64, 64, 3))
BOUND = {"float32": 5e-7, "float64": 1e-15, "float16": 2e-3, "bfloat16": 8e-3}  # over the sum of absolute products


@pytest.mark.parametrize("tile", [tile for tile, _, _ in WIDE_TILES], ids=lambda tile: f"{tile.rows}x{tile.columns}")
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize(
    "dtype", ["float32", *(pytest.param(name, marks=pytest.mark.deep) for name in list(BOUND)[1:])]
)
def test_each_tile_agrees_with_float64(engine, monkeypatch, tile, splits, dtype) -> None:
    if engine.name == "cpu":
        pytest.skip("needs an OpenCL device: NumPy has no tiles")
    monkeypatch.setattr(gpu_kernels, "wide_tile", lambda device, c: tile._replace(splits=splits))
    monkeypatch.setattr(
        gpu_kernels, "blocking", gpu_kernels.blocking.__wrapped__
    )  # without the blockings that are known
    rng = np.random.default_rng(0)

    def drawn(*shape: int) -> Tensor:
        return Tensor.from_host(engine.queue, rng.standard_normal(shape).astype(np.float32), dtype)

    matmul = engine.kernel_modules.gemm.matmul
    for (m, n, k), transpose_a, transpose_b, batch in product(SHAPES, (False, True), (False, True), (1, 2)):
        a = drawn(batch, *((k, m) if transpose_a else (m, k)))
        b = drawn(batch, *((n, k) if transpose_b else (k, n)))
        options = {"transpose_a": transpose_a, "transpose_b": transpose_b, "variant": "wide"}
        result = matmul(engine, a, b, **options).numpy()
        left, right = (x.numpy().astype(np.float64) for x in (a, b))
        left = left.swapaxes(1, 2) if transpose_a else left
        right = right.swapaxes(1, 2) if transpose_b else right
        error = np.abs(result.astype(np.float64) - left @ right) / (np.abs(left) @ np.abs(right) + 1e-30)
        assert error.max() <= BOUND[dtype], (m, n, k, transpose_a, transpose_b, batch)
        assert np.array_equal(result, matmul(engine, a, b, **options).numpy())

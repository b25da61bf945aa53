"""Few long rows on devices with many cores: their reductions are launches of their own, in pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import ops
from netcl.core import DeviceHandle, Tensor
from netcl.core.device import device
from netcl.core.testing import masked
from netcl.profiling import profile
from netcl.runtime.capture import capture


@pytest.fixture
def on_opencl(handle: DeviceHandle) -> Any:
    if handle.backend == "cpu":
        pytest.skip("needs an OpenCL device: NumPy has no launches")
    with masked(handle, is_cpu=False) as gpu, device(gpu):
        yield gpu


@pytest.mark.parametrize("shape", [(64, 3, 32, 32), (3, 2, 150, 160), (70000, 3, 1, 1), (2, 5, 4, 4)])
def test_batch_norm(on_opencl: Any, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal(shape) * 3 + 5
    gain, bias = rng.standard_normal((2, shape[1]))
    x, g, b = (Tensor.from_host(array.astype(np.float32)) for array in (values, gain, bias))
    found = ops.batch_norm(x, None, None, g, b, training=True)
    axes = (0, 2, 3)
    wanted = (values - values.mean(axes, keepdims=True)) / np.sqrt(values.var(axes, keepdims=True) + 1e-5)
    wanted = wanted * gain[:, None, None] + bias[:, None, None]
    np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-4, atol=2e-4)


def test_a_captured_step_has_the_same_bits(on_opencl: Any) -> None:
    rng = np.random.default_rng(0)
    x = Tensor.from_host(rng.standard_normal((48, 2, 32, 32)).astype(np.float32))
    y = Tensor.from_host(rng.standard_normal((48, 2, 32, 32)).astype(np.float32))

    def normed(x: Tensor, y: Tensor) -> Tensor:
        mean = x.mean(dim=(0, 2, 3), keepdim=True)
        spread = ((x - mean) * (x - mean)).mean(dim=(0, 2, 3), keepdim=True)
        return nc.relu((x - mean) / nc.sqrt(spread + 1e-5) + y)

    eager = normed(x, y).numpy()
    np.testing.assert_array_equal(capture(normed, x, y).replay(x, y).numpy(), eager)
    exact = x.numpy().astype(np.float64)
    exact = (exact - exact.mean((0, 2, 3), keepdims=True)) / exact.std((0, 2, 3), keepdims=True) + y.numpy()
    np.testing.assert_allclose(eager, np.maximum(exact, 0), rtol=1e-4, atol=1e-4)


def test_softmax_of_one_long_row_is_cut(on_opencl: Any) -> None:
    values = np.random.default_rng(0).standard_normal((1, 300_000)).astype(np.float32)
    x = Tensor.from_host(values)
    with profile(on_opencl.queue) as seen:
        found = ops.softmax(x, axis=-1)
    kernels = [one.name for one in seen.launches if one.kind == "kernel"]
    assert len(kernels) == 5, kernels  # the maximum and the sum in two launches each, then the quotients
    wanted = np.exp(values.astype(np.float64) - values.max())
    np.testing.assert_allclose(found.numpy(), wanted / wanted.sum(), rtol=1e-4)
    with profile(on_opencl.queue) as seen:
        ops.softmax(x.reshape(3000, 100), axis=-1)
    assert sum(one.kind == "kernel" for one in seen.launches) == 1


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("width", [2048, 2049])  # with equally long pieces, and not
def test_a_mean_and_a_variance_are_as_exact_as_one_rounding(on_opencl: Any, offset: float, width: int) -> None:
    values = (np.random.default_rng(0).standard_normal((61, 3, width)) + offset).astype(np.float32)
    exact = values.astype(np.float64)
    with masked(on_opencl, is_cpu=False, compute_units=64) as many, device(many):
        variance, mean = nc.var_mean(Tensor.from_host(values), dim=(0, 2), correction=0)
        with profile(many.queue) as seen:
            y = ops.batch_norm(Tensor.from_host(values), None, None, training=True)
    np.testing.assert_allclose(mean.numpy(), exact.mean((0, 2)), 1e-7, 1e-9)
    # Around a mean that is rounded to a float.
    np.testing.assert_allclose(variance.numpy(), exact.var((0, 2)), 1e-6 if offset else 3e-7)
    scale = np.sqrt(exact.var((0, 2), keepdims=True) + 1e-5)
    np.testing.assert_allclose(
        y.numpy(), (exact - exact.mean((0, 2), keepdims=True)) / scale, 0, 1e-3 if offset else 1e-6
    )
    kernels = [one.name for one in seen.launches if one.kind == "kernel"]
    assert len(kernels) == (3 if width == 2048 else 5), kernels  # pieces of both in one launch, if these are equal


def test_sums_of_long_columns_are_reduced_in_steps(on_opencl: Any) -> None:
    values = (np.random.default_rng(0).standard_normal((70_000, 12)) + 3).astype(np.float32)
    with masked(on_opencl, is_cpu=False, compute_units=64) as many, device(many):
        x = Tensor.from_host(values)
        with profile(many.queue) as seen:
            found, largest = x.sum(0), x.amax(0)
    # Pieces, pieces of these, of a GPU with many compute units once more, and the rest.
    assert [one.kind for one in seen.launches].count("kernel") in (6, 8)
    np.testing.assert_allclose(found.numpy(), values.astype(np.float64).sum(0), 1e-7)
    assert np.array_equal(largest.numpy(), values.max(0))

"""Borders of elements of a tensor itself in one launch, on devices seen as GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core.device import device
from netcl.core.device.health import launch_log
from netcl.core.engine.registry import engine_for
from netcl.core.errors import UnsupportedError
from netcl.core.testing import masked

MODES = {"reflect": "reflect", "replicate": "edge"}
CASES = [
    ((5,), ((4, 3),)),
    ((3, 4, 1000), ((0, 0), (0, 0), (5, 999))),
    ((2, 5, 3, 7, 4), ((0, 0), (2, 1), (0, 0), (6, 6), (1, 3))),
    ((2, 3, 2, 3, 2, 3), ((1, 1), (2, 0), (0, 1), (1, 0), (1, 1), (2, 2))),
    ((3, 1, 4), ((0, 0), (0, 0), (0, 0))),
    ((0, 4), ((0, 0), (1, 2))),
]


@pytest.fixture
def gpu(engine: Any) -> Iterator[Any]:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no kernels")
    with masked(engine.handle, is_cpu=False) as handle, device(handle):
        yield engine_for(handle)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("shape", "pads"), CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_borders_and_their_gradients(gpu: Any, mode: str, shape: Any, pads: Any, dtype: str) -> None:
    """Sums of whole numbers are exact."""
    rng = np.random.default_rng(0)
    x = rng.integers(-8, 9, shape).astype(np.float32)
    bordered = gpu.border("forward", gpu.tensor(x, dtype), pads=pads, mode=mode)
    assert np.array_equal(bordered.float().numpy(), np.pad(x, pads, mode=MODES[mode]))
    grad = rng.integers(-8, 9, bordered.shape).astype(np.float32)
    wanted = grad
    for axis, pair in enumerate(pads):
        places = np.pad(np.arange(shape[axis]), pair, mode=MODES[mode])
        sums = np.zeros_like(np.moveaxis(wanted, axis, 0)[: shape[axis]])
        np.add.at(sums, places, np.moveaxis(wanted, axis, 0))
        wanted = np.moveaxis(sums, 0, axis)
    found = gpu.border("gradient", gpu.tensor(grad, dtype), pads=pads, mode=mode).float().numpy()
    tolerance = 2.0**-8 if dtype == "bfloat16" else 0.0  # the sums of the edge of an axis need more than eight bits
    assert (abs(found - wanted) <= tolerance * abs(wanted)).all()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16"])
def test_borders_of_other_dtypes(gpu: Any, dtype: str) -> None:
    x = np.random.default_rng(1).integers(0, 2, (3, 6))
    found = gpu.border("forward", gpu.tensor(x, dtype), pads=((1, 1), (3, 4)), mode="reflect").numpy()
    assert np.array_equal(found, np.pad(x, ((1, 1), (3, 4)), mode="reflect"))


def test_pad_takes_one_launch_and_crops_first(gpu: Any) -> None:
    x = gpu.tensor(np.arange(60, dtype=np.float32).reshape(3, 4, 5), "float32")
    log = launch_log(gpu.queue)
    log.clear()
    padded = ops.pad(x, (2, 1, 1, 3), "reflect")
    assert [*log] == ["border"]
    assert np.array_equal(padded.numpy(), np.pad(x.numpy(), ((0, 0), (1, 3), (2, 1)), mode="reflect"))
    cropped = ops.pad(x, (-1, 2, 1, -2), "replicate").numpy()
    assert np.array_equal(cropped, np.pad(x.numpy()[:, :2, 1:], ((0, 0), (1, 0), (0, 2)), mode="edge"))


def test_more_axes_than_a_launch_has_are_refused(gpu: Any) -> None:
    x = gpu.tensor(np.zeros((2,) * 7), "float32")
    with pytest.raises(UnsupportedError, match="pad fewer axes at a time"):
        gpu.border("forward", x, pads=((1, 1),) * 7, mode="reflect")
    assert ops.pad(x, ((1, 1),) * 7, "reflect").shape == (4,) * 7

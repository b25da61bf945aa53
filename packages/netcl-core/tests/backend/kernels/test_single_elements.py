"""Kernels with an element for each work-item, as on GPUs, give the bits of CPUs, with positions of 32 and 64 bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from netcl.core.backend.opencl.kernels import resample
from netcl.core.backend.opencl.kernels.windows import window
from netcl.core.device import device
from netcl.core.engine.registry import engine_for
from netcl.core.testing import masked

# x, kernel, stride, padding, dilation, and the output's sizes if the floor formula does not give them.
WINDOWS: dict[str, tuple[Any, ...]] = {
    "overlapping": ((2, 3, 9, 7), (3, 2), (2, 1), ((1, 1), (1, 0)), (1, 1), None),
    "dilated": ((2, 3, 9, 7), (3, 2), (2, 3), ((1, 1), (1, 0)), (2, 1), None),
    "1d, ceiled": ((1, 2, 11), (3,), (2,), ((1, 1),), (1,), (6,)),
    "3d": ((1, 2, 5, 6, 7), (2, 3, 2), (1, 2, 2), ((0, 1), (1, 1), (1, 0)), (1, 1, 2), None),
    "stride above kernel": ((1, 2, 9, 9), (2, 2), (4, 3), ((0, 0), (0, 0)), (1, 1), None),
    "long row": ((1, 1, 1, 70000), (1, 2), (1, 2), ((0, 0), (0, 0)), (1, 1), None),
    "uneven sections": ((2, 3, 7, 5), (4, 3), (0, 0), ((0, 0), (0, 0)), (1, 1), (2, 3)),
    "more sections than elements": ((1, 2, 3, 2), (2, 1), (0, 0), ((0, 0), (0, 0)), (1, 1), (5, 4)),
}


@pytest.fixture(params=[True, False], ids=["narrow", "wide"])
def gpu(request: pytest.FixtureRequest, engine: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no kernels")
    if not request.param:
        for module in (window, resample):
            real = module._launch_of.__wrapped__
            monkeypatch.setattr(module, "struct", lambda *values, narrow=False, own=module.struct: own(*values))
            monkeypatch.setattr(module, "_launch_of", lambda *given, real=real: real(*given)._replace(narrow=False))
        monkeypatch.setattr(resample, "_nearest_launch", lambda *given: None)
    with masked(engine.handle, is_cpu=False) as handle, device(handle):
        yield engine_for(handle)


def _same(run: Callable[[Any], Any], one: Any, two: Any) -> None:
    for own, other in zip(run(one), run(two)):
        assert one.read(own).tobytes() == two.read(other).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows(gpu: Any, engine: Any, name: str, dtype: str) -> None:
    shape, kernel, stride, padding, dilation, out = WINDOWS[name]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    call: dict[str, Any] = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    pooled = {**call, "shape": out and (*shape[:2], *out)}

    def run(on: Any) -> Any:
        given = on.tensor(x, dtype)
        largest, places = on.window("max", given, **pooled)
        means = [on.window("avg", given, count_include_pad=padded, **pooled) for padded in (True, False)]
        yield from (largest, places, *means)
        yield on.window("max_grad", largest, indices=places, shape=shape, **call)
        yield on.window("avg_grad", means[0], shape=shape, **call)
        if out is None:
            columns = on.window("im2col", given, **call)
            yield columns
            yield on.window("col2im", columns, shape=shape, **call)

    _same(run, gpu, engine)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize(
    ("taps", "places"),
    [(1, (3, 0, 5)), (1, (1, 0, 2)), (1, (0, 4, 5)), (1, (5, -2, 3)), (2, (3, -1, 5)), (4, (9, 2, 5)), (2, (0, 4, 5))],
)
def test_resizing(gpu: Any, engine: Any, axes: int, taps: int, places: tuple[int, int, int]) -> None:
    shape = (2, 5, 6, 7)
    # Whole numbers, since sums of several axes are made in another order in one launch.
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)

    def run(on: Any) -> Any:
        given = on.tensor(x, "float32")
        call: dict[str, Any] = {"taps": taps, "places": [places] * axes}
        larger = on.resample("forward", given, sizes=(11,) * axes, **call)
        yield larger
        yield on.resample("gradient", larger, sizes=shape[-axes:], **call)

    _same(run, gpu, engine)


@pytest.mark.parametrize("size", [1, 3, 4, 1001])
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("uniform", "float32"),
        ("uniform", "bfloat16"),
        ("normal", "float32"),
        ("bits", "int32"),
        ("randint", "int64"),
        ("kept", "bool"),
    ],
)
def test_drawing(gpu: Any, engine: Any, kind: str, dtype: str, size: int) -> None:
    def run(on: Any) -> Any:
        on.write(on.rng_state, np.array([7, 2**32 - 11], np.int64))  # the counter passes 32 bits
        yield on.random(kind, (size,), dtype, offset=9, low=9_000_000 if kind == "kept" else -3, high=70)

    _same(run, gpu, engine)

"""Copies of copies in captured steps: they are composed where strides give it, and replays have the eager bits."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from netcl import ops
from netcl.core import Tensor
from netcl.core.capture.copies import Walk, composed
from netcl.core.device import device
from netcl.core.layout import contiguous_strides
from netcl.core.storage.views import Geometry
from netcl.core.testing import masked
from netcl.profiling.trace import profile
from netcl.runtime.capture import capture


def _drawn_view(rng: np.random.Generator, a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns some view of an array: axes permuted, sliced and split."""
    for _ in range(rng.integers(1, 4)):
        kind = rng.integers(3)
        if kind == 0:
            a = a.transpose(rng.permutation(a.ndim))
        elif kind == 1:
            starts = [int(rng.integers(0, size)) for size in a.shape]
            a = a[tuple(slice(start, None, int(rng.integers(1, 3))) for start in starts)]
        else:
            axis = int(rng.integers(a.ndim))
            size = a.shape[axis]
            parts = (2, size // 2) if size % 2 == 0 else (size, 1)
            a = a.reshape((*a.shape[:axis], *parts, *a.shape[axis + 1 :]))
    return a


def test_a_composed_walk_is_that_of_one_copy_after_another() -> None:
    rng, given = np.random.default_rng(0), 0
    for _ in range(3000):
        source = np.arange(2 * 4 * 6 * 3)
        first = _drawn_view(rng, source.reshape((2, 4, 6, 3)))
        between = np.ascontiguousarray(first)
        second = _drawn_view(
            rng, between.reshape(between.size // between.shape[-1], -1) if rng.random() < 0.5 else between
        )
        step, origin = source.itemsize, between.__array_interface__["data"][0]
        offset = (second.__array_interface__["data"][0] - origin) // step
        read = Geometry(second.shape, tuple(s // step for s in second.strides), offset)
        walk = Walk(read, contiguous_strides(second.shape))
        at = (first.__array_interface__["data"][0] - source.__array_interface__["data"][0]) // step
        found = composed(Geometry(first.shape, tuple(s // step for s in first.strides), at), walk)
        if found is None:
            continue
        given += 1
        out = np.full(second.size, -1)
        shape, strides, offset = found.geometry
        from_source = as_strided(source[offset:], shape, [s * step for s in strides])
        as_strided(out, shape, [s * step for s in found.out_strides])[...] = from_source
        assert np.array_equal(out, second.ravel())
    assert given > 1500


def _heads(x: Tensor) -> Tensor:
    return ops.permute(ops.reshape(x, (*x.shape[:2], 2, -1)), (0, 2, 1, 3))


def _split(x: Tensor) -> Any:
    q, k, v = (_heads(part) for part in ops.split(x, 8, dim=2))
    return ops.add(q, ops.mul(k, v))


def _joined(x: Tensor) -> Any:
    parts = [ops.reshape(ops.permute(ops.mul(_heads(x), s), (0, 2, 1, 3)), x.shape) for s in (1.0, 2.0, 3.0)]
    return ops.cat(parts, 2)


def _written_between(x: Tensor) -> Any:
    """Returns the source of the first copy is written before the second one."""
    y = ops.mul(x, 2.0)
    part = ops.narrow(y, 2, 0, 8)
    y.mul_(3.0)
    return ops.permute(ops.add(part, 0.0), (1, 0, 2)), y


def _read_besides(x: Tensor) -> Any:
    part = ops.narrow(ops.mul(x, 2.0), 2, 8, 8)
    return _heads(part), ops.exp(part), part


@pytest.mark.parametrize(
    ("function", "launches"), [(_split, 4), (_joined, 7), (_written_between, None), (_read_besides, None)]
)
def test_replays_have_the_bits_of_eager_calls(engine: Any, function: Any, launches: int | None) -> None:
    rng = np.random.default_rng(1)
    with device(engine.handle):
        x, y = (Tensor.from_host(rng.standard_normal((3, 5, 24)).astype(np.float32)) for _ in range(2))
        captured = capture(function, x)
        if engine.name == "cl" and engine.handle.device_type == "cpu" and launches is not None:
            assert len(captured) == launches
        for given in (y, x):
            replayed, wanted = captured.replay(given), function(given)
            pairs = zip(replayed, wanted) if isinstance(wanted, tuple) else [(replayed, wanted)]
            for one, other in pairs:
                assert one.numpy().tobytes() == other.numpy().tobytes()


def _cast_then_copied(x: Tensor, half: str) -> Tensor:
    summed = ops.cumsum(x, 2)  # no expression, which the cast would be fused with
    return ops.sum(ops.permute(summed.to(half), (1, 0, 2)), 2)


def _copied_then_cast(x: Tensor, half: str) -> Tensor:
    return ops.cumsum(ops.permute(x.to(half), (1, 0, 2)).to("float32"), 2)


def _joined_then_cast(x: Tensor, half: str) -> Tensor:
    parts = [ops.cumsum(x, axis) for axis in (1, 2)]
    return ops.cumsum(ops.cat(parts, 2).to(half).to("float32"), 2)


def _tiles(x: Tensor, half: str) -> Tensor:
    return ops.sum(ops.permute(ops.cumsum(x, 2).to(half), (2, 1, 0)), 2)


def _cast_read_besides(x: Tensor, half: str) -> Tensor:
    narrow = ops.cumsum(x, 2).to(half)
    return ops.add(ops.sum(ops.permute(narrow, (1, 0, 2)), 2), ops.permute(ops.sum(narrow, 2), (1, 0)))


def _source_written_between(x: Tensor, half: str) -> Tensor:
    summed = ops.cumsum(x, 2)
    narrow = summed.to(half)
    summed.mul_(3.0)
    return ops.add(ops.sum(ops.permute(narrow, (1, 0, 2)), 2), ops.sum(ops.permute(summed, (1, 0, 2)), 2))


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
@pytest.mark.parametrize("shape", [(3, 5, 24), (3, 5, 7), (2, 40, 33)], ids=str)
@pytest.mark.parametrize(
    ("function", "conversions"),
    [
        (_cast_then_copied, 1),
        (_copied_then_cast, 1),
        (_joined_then_cast, 2),
        (_tiles, 1),
        (_cast_read_besides, 0),
        (_source_written_between, 0),
    ],
)
def test_copies_of_gpus_convert(
    handle: Any, function: Any, conversions: int, shape: tuple[int, ...], half: str
) -> None:
    values = np.random.default_rng(2).standard_normal(shape).astype(np.float32) * 100
    values.ravel()[:4] = (np.nan, np.inf, -np.inf, 1e-40)
    is_opencl = handle.backend != "cpu"
    gpu: Any = masked(handle, is_cpu=False) if is_opencl else nullcontext(handle)
    with gpu as place, device(place):
        x = Tensor.from_host(values)
        captured = capture(lambda x: function(x, half), x)
        replayed, wanted = captured.replay(x).numpy(), function(x, half).numpy()
        np.testing.assert_array_equal(np.isnan(replayed), np.isnan(wanted))
        numbers = ~np.isnan(wanted)
        assert replayed[numbers].tobytes() == wanted[numbers].tobytes()
        if is_opencl:
            with profile() as replay:
                captured.replay(x)
            copies = [launch.sizes[:2] for launch in replay.launches if launch.name.startswith("copy_")]
            assert sum(source.nbytes != result.nbytes for source, result in copies) == conversions

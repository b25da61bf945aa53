"""Strided copies of the engines against NumPy's own strided views, for every dtype and rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl.core.device import device
from netcl.core.dtypes import SUPPORTED, numpy_dtype
from netcl.core.engine.registry import engine_for
from netcl.core.testing import masked


def elements(count: int, dtype: str) -> Any:
    return (np.arange(count) % (2 if dtype == "bool" else 120)).astype(numpy_dtype(dtype))


def strides_of(array: Any) -> list[int]:
    return [step // array.itemsize for step in array.strides]


def offset_of(view: Any, base: Any) -> int:
    start = view.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return int(start) // base.itemsize


def check(engine: Any, dtype: str, base: Any, view: Any, target: Any, window: Any) -> None:
    """Copies ``view`` of ``base`` to ``window`` of ``target`` on the engine and in NumPy."""
    assert view.size == 0 or np.shares_memory(view, base)
    out = engine.tensor(target, dtype)
    engine.copy(
        engine.tensor(base, dtype),
        out,
        shape=view.shape,
        source_strides=strides_of(view),
        source_offset=offset_of(view, base) if view.size else 0,
        out_strides=strides_of(window),
        out_offset=offset_of(window, target) if window.size else 0,
    )
    window[...] = view
    assert np.array_equal(engine.read(out), target)


@pytest.mark.parametrize("dtype", SUPPORTED)
def test_common_copies(engine: Any, dtype: str) -> None:
    base = elements(6 * 7 * 8, dtype).reshape(6, 7, 8)
    for view in (
        base,
        base.transpose(2, 0, 1),
        base[::-1, :, ::-1],
        base[1:5:2, 3, ::3],
        np.broadcast_to(base[:, :1], (6, 9, 8)),
        np.broadcast_to(base[0, 0, 0, ...], (4, 3)),
        base[2, 3, 4, ...],
        base[:0],
        base.swapaxes(0, 2)[::2],
    ):
        target = np.zeros(view.shape, base.dtype)
        check(engine, dtype, base, view, target, target)


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_blocks_of_larger_tensors(engine: Any, dtype: str) -> None:
    base = elements(5 * 6 * 7, dtype).reshape(5, 6, 7)
    target = elements(9 * 10 * 11, dtype).reshape(9, 10, 11)
    check(engine, dtype, base, base[1:4], target, target[2:5, 4:10, 1:8])  # assignment, padding, joining
    check(engine, dtype, base, base[:, ::-1, ::2], target, target[1:6, 9:3:-1, ::3])


def test_any_strides_and_any_rank(engine: Any) -> None:
    rng = np.random.default_rng(1)
    for _ in range(120):
        rank = int(rng.integers(0, 10))
        shape = tuple(int(n) for n in rng.integers(1, 4, rank))
        base = elements(int(np.prod([2 * n for n in shape])), "int32").reshape([2 * n for n in shape])
        picks = []
        for n in shape:
            start, step = int(rng.integers(0, 2)), int(rng.choice([1, 2, -1]))
            picks.append(
                slice(start, start + n) if step == 1 else slice(None, None, 2) if step == 2 else slice(n - 1, None, -1)
            )
        view = base[(*picks, Ellipsis)].transpose(rng.permutation(rank))
        if rank and rng.random() < 0.3:
            axis = int(rng.integers(0, rank))
            first = tuple(slice(0, 1) if i == axis else slice(None) for i in range(rank))
            view = np.broadcast_to(view[first], view.shape)
        target = np.zeros(view.shape, np.int32)
        check(engine, "int32", base, view, target, target)


def test_tiles_of_a_transposition_and_long_rows(engine: Any) -> None:
    for rows, columns in ((31, 33), (64, 32), (1, 70001), (70001, 1), (3, 9000), (257, 129)):
        base = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
        for view in (base, base.T, base[:, ::-1]):
            target = np.zeros(view.shape, np.float32)
            check(engine, "float32", base, view, target, target)


def test_a_device_that_is_no_cpu(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no traits")
    from netcl.core.backend.opencl import templates

    monkeypatch.setitem(vars(engine), "_traits", templates.Traits(False, 4, 32 * 1024))
    base = elements(6 * 7 * 8, "int32").reshape(6, 7, 8)
    large = elements(45 * 3 * 70, "int32").reshape(45, 3, 70)
    for whole, view in (
        (base, base.transpose(2, 0, 1)),
        (base, base[::-1, :, ::-1]),
        (large, large.transpose(2, 1, 0)),
        (large, large[::-1, 0, 1:].T),
    ):
        target = np.zeros(view.shape, np.int32)
        check(engine, "int32", whole, view, target, target)


@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float32", "int64"])
def test_elements_that_move_together_on_many_cores(engine: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads that are split and merged, rows of any length and offset, and more dimensions than a launch has."""
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no traits")
    from netcl.core.backend.opencl import templates

    monkeypatch.setitem(vars(engine), "_traits", templates.Traits(False, 4, 32 * 1024))
    heads = elements(2 * 5 * 3 * 64, dtype).reshape(2, 5, 3, 64)
    deep = elements(2 * 3 * 2 * 3 * 2 * 3 * 2 * 8, dtype).reshape(2, 3, 2, 3, 2, 3, 2, 8)
    rows = elements(9 * 24, dtype).reshape(9, 24)
    for whole, view in (
        (heads, heads.transpose(0, 2, 1, 3)),
        (heads, heads.transpose(2, 0, 1, 3)[1:]),
        (heads, heads[:, ::2, :, 16:32]),
        (heads, heads[:, :, ::-1, 1:]),
        (heads, np.broadcast_to(heads[:, :1], heads.shape)),
        (deep, deep.transpose(6, 4, 2, 0, 1, 3, 5, 7)),
        (deep, deep[:, ::2, :, 1:, :, ::-1, :, 4:]),
        (rows, rows[:, 3:]),
        (rows, rows[4:5, 5:6]),
    ):
        target = np.zeros(view.shape, whole.dtype)
        check(engine, dtype, whole, view, target, target)
        around = np.zeros((*view.shape[:-1], view.shape[-1] + 8), whole.dtype)
        for begin in (0, 1, 8):
            check(engine, dtype, whole, view, around, around[..., begin : begin + view.shape[-1]])


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int64"])
def test_results_that_no_cache_holds(engine: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Non-temporal stores at sizes that a test can afford, with unaligned rows."""
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no launches")
    from netcl.core.backend.opencl.kernels.copies import copy

    monkeypatch.setattr(copy, "STREAMED", 1)
    copy._launches.cache_clear()
    for rows, columns in ((64, 48), (300, 80), (128, 33), (13, 640)):
        base = elements(rows * columns, dtype).reshape(rows, columns)
        large = elements(3 * 512 * 512, dtype).reshape(3, 512, 512)
        for view in (base, base.T, base[::-1], base[:, 1:], np.broadcast_to(base[:1], base.shape)):
            target = np.zeros(view.shape, base.dtype)
            check(engine, dtype, base, view, target, target)
            if max(view.shape) <= 512:
                check(engine, dtype, base, view, large, large[1, : view.shape[0], : view.shape[1]])
    copy._launches.cache_clear()


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int64"])
def test_a_block_in_a_tensor_of_one_value_is_one_launch_on_a_gpu(engine: Any, dtype: str) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no launches")
    rng = np.random.default_rng(7)
    with masked(engine.handle, is_cpu=False) as handle, device(handle):
        gpu = engine_for(handle)
        for number in range(60):
            rank = int(rng.integers(0, 7))
            block = rng.integers(0, 9, [int(rng.integers(1, 5)) for _ in range(rank)])
            steps = [int(rng.choice([1, 1, 1, 2, 3])) for _ in range(rank)]
            starts = [int(rng.choice([0, 0, 1, 4])) for _ in range(rank)]
            ends = [start + (n - 1) * step for start, n, step in zip(starts, block.shape, steps)]
            shape = tuple(end + 1 + int(rng.choice([0, 0, 2, 3])) for end in ends)
            value = (0.0, -0.0, 7.0)[number % 3]
            x = gpu.tensor(block, dtype)
            expected = np.full(shape, value).astype(dtype)
            expected[tuple(slice(a, e + 1, s) for a, e, s in zip(starts, ends, steps))] = block
            gpu.launcher.launched.clear()
            out = gpu.scatter_block(x, shape=shape, starts=starts, steps=steps, value=value)
            launches = list(gpu.launcher.launched)
            assert gpu.read(out).tobytes() == expected.tobytes(), (shape, starts, steps, value)
            assert launches == ["scatter_elements"] or rank == 0

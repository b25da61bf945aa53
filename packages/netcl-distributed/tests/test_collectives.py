"""Collectives over the devices of one process against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import netcl.distributed as dist
from netcl.core import DeviceHandle, Tensor
from netcl.core.errors import CollectiveMismatchError, ShapeError


def _spread(
    handles: list[DeviceHandle], shape: tuple[int, ...] = (3, 5), dtype: str = "float32"
) -> tuple[list[Tensor], list[np.ndarray]]:
    rng = np.random.default_rng(7)
    arrays = [rng.integers(-9, 9, shape).astype(dtype) for _ in handles]
    return [Tensor.from_host(handle.queue, a, dtype) for handle, a in zip(handles, arrays)], arrays


@pytest.mark.parametrize("op", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int64"])
def test_all_reduce_gives_every_device_the_same_result(handles: list[DeviceHandle], op: str, dtype: str) -> None:
    tensors, arrays = _spread(handles, dtype=dtype)
    stacked = np.stack(arrays).astype(np.float64)
    expected = getattr(np, op)(stacked, axis=0).astype(dtype)
    assert dist.all_reduce(tensors, op) is tensors
    for tensor in tensors:
        assert tensor.dtype == dtype
        np.testing.assert_allclose(tensor.numpy().astype(np.float64), expected.astype(np.float64), rtol=1e-3)


def test_all_reduce_of_one_tensor_leaves_it(handles: list[DeviceHandle]) -> None:
    tensors, arrays = _spread(handles)
    dist.all_reduce(tensors[0], "mean")
    np.testing.assert_array_equal(tensors[0].numpy(), arrays[0])


def test_all_reduce_of_empty_and_0d_tensors(handles: list[DeviceHandle]) -> None:
    for shape in ((), (0, 4)):
        tensors, arrays = _spread(handles, shape)
        dist.all_reduce(tensors)
        np.testing.assert_array_equal(tensors[-1].numpy(), np.sum(arrays, axis=0))


def test_all_reduce_names_what_differs(handles: list[DeviceHandle]) -> None:
    tensors, _ = _spread(handles)
    tensors[1] = Tensor.zeros((2, 5), queue=handles[1].queue)
    with pytest.raises(CollectiveMismatchError, match=r"rank 1 has \(2, 5\)"):
        dist.all_reduce(tensors)
    with pytest.raises(ValueError, match="op: expected one of"):
        dist.all_reduce(tensors[:1], "median")


def test_broadcast_and_reduce_write_in_place(handles: list[DeviceHandle]) -> None:
    tensors, arrays = _spread(handles)
    last = len(handles) - 1
    assert dist.reduce(tensors, root=last) is tensors[last]
    np.testing.assert_array_equal(tensors[last].numpy(), np.sum(arrays, axis=0))
    dist.broadcast(tensors, root=last)
    for tensor in tensors:
        np.testing.assert_array_equal(tensor.numpy(), np.sum(arrays, axis=0))
    with pytest.raises(ValueError, match="root: expected a rank"):
        dist.broadcast(tensors, root=len(handles))


def test_scatter_and_gather_are_inverse(handles: list[DeviceHandle]) -> None:
    whole = Tensor.from_host(handles[0].queue, np.arange(28, dtype=np.float32).reshape(7, 4))
    parts = [Tensor.empty((7 - 2 * (len(handles) - 1), 4), queue=handles[0].queue)]
    parts += [Tensor.empty((2, 4), queue=handle.queue) for handle in handles[1:]]
    assert all(got is part for got, part in zip(dist.scatter(whole, parts), parts))
    np.testing.assert_array_equal(dist.gather(parts).numpy(), whole.numpy())
    for joined, handle in zip(dist.all_gather(parts), handles):
        assert joined.queue is handle.queue
        np.testing.assert_array_equal(joined.numpy(), whole.numpy())
    assert [p.shape[0] for p in dist.scatter(whole, 3)] == [3, 2, 2]
    with pytest.raises(ShapeError, match="rows in all"):
        dist.scatter(whole, parts[1:])

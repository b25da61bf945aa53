"""Checks of every collective on one rank: run as a script by a launcher, or as a function."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import netcl.distributed as dist
from netcl.core import Tensor
from netcl.core.errors import CollectiveMismatchError
from netcl.distributed import ProcessGroup


def values(rank: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return np.random.default_rng(rank).integers(-3, 4, shape).astype(dtype)


def check_reductions(group: ProcessGroup) -> None:
    for dtype in ("float32", "float16", "int64"):
        for shape in ((), (0, 4), (3, 5)):
            parts = [values(rank, shape, dtype) for rank in range(group.size)]
            stacked = np.stack(parts).astype(np.float64)
            for op in ("sum", "mean", "max", "min", "prod"):
                expected = getattr(np, op)(stacked, axis=0).astype(dtype)
                x = Tensor.from_host(parts[group.rank], dtype)
                assert dist.all_reduce(x, op) is x
                np.testing.assert_allclose(x.numpy(), expected, rtol=1e-3)
                array = parts[group.rank].copy()
                assert group.all_reduce(array, op) is array
                np.testing.assert_allclose(array, expected, rtol=1e-3)
    x = Tensor.from_host(np.full(3, group.rank + 1.0))
    dist.reduce(x, root=group.size - 1)
    total = sum(range(1, group.size + 1))
    expected = np.full(3, total if group.rank == group.size - 1 else group.rank + 1.0)
    np.testing.assert_array_equal(x.numpy(), expected)


def check_long(group: ProcessGroup) -> None:
    """Checks more than one window, and a number of elements that no number of ranks divides."""
    parts = [np.random.default_rng(rank).standard_normal(700_001).astype(np.float32) for rank in range(group.size)]
    expected = parts[0]
    for part in parts[1:]:
        expected = expected + part
    x = parts[group.rank].copy()
    group.all_reduce(x)
    assert x.tobytes() == expected.tobytes(), "sums are made in rank order"
    rows = parts[group.rank][:600_003].reshape(-1, 3)
    mine = group.reduce_scatter(rows)
    joined = group.all_gather(mine)
    assert joined.tobytes() == expected[:600_003].tobytes()
    group.broadcast(x, root=group.size - 1)
    assert x.tobytes() == expected.tobytes()


def check_moves(group: ProcessGroup) -> None:
    rank, size = group.rank, group.size
    x = Tensor.from_host(np.full((2, 3), rank, np.float32))
    dist.broadcast(x, root=size - 1)
    np.testing.assert_array_equal(x.numpy(), np.full((2, 3), size - 1))
    own = Tensor.from_host(np.full((rank + 1, 2), rank, np.int64), "int64")
    whole = np.concatenate([np.full((other + 1, 2), other) for other in range(size)])
    joined = dist.all_gather(own)
    assert joined.dtype == "int64"
    np.testing.assert_array_equal(joined.numpy(), whole)
    at_root = dist.gather(own, root=size - 1)
    assert (at_root is None) == (rank != size - 1)
    out = Tensor.zeros((rank + 1, 2), "int64")
    dist.scatter(joined if rank == 0 else None, out)
    np.testing.assert_array_equal(out.numpy(), own.numpy())
    with pytest.raises(ValueError, match="root: expected a rank"):
        dist.broadcast(x, root=size)
    dist.barrier()


def check_letters(group: ProcessGroup) -> None:
    if group.size == 1:
        return
    ring, back = (group.rank + 1) % group.size, (group.rank - 1) % group.size
    group.send(np.full(5, group.rank), ring)
    got = group.recv(np.zeros(5, np.int64), back)
    np.testing.assert_array_equal(got, np.full(5, back))
    big = np.arange(400_000.0)
    if group.rank == 0:
        group.send(big, 1)
    elif group.rank == 1:
        np.testing.assert_array_equal(group.recv(np.zeros_like(big), 0), big)


def check_handles(group: ProcessGroup) -> None:
    x, y = (Tensor.from_host(np.full(4, value + group.rank, np.float32)) for value in (0.0, 10.0))
    first, second = dist.all_reduce(x, async_op=True), dist.all_reduce(y, "max", overlap=True)
    group.barrier()
    assert first.done()
    assert second.done()
    assert first.wait() is x
    assert second.wait(timeout=1.0) is y
    np.testing.assert_array_equal(x.numpy(), np.full(4, sum(range(group.size))))
    np.testing.assert_array_equal(y.numpy(), np.full(4, 9.0 + group.size))


def check_mismatch(group: ProcessGroup) -> None:
    """Comes last: the group is of no use after it."""
    if group.size == 1:
        return
    with pytest.raises(CollectiveMismatchError, match=rf"rank {group.size - 1} called .*\(4\) and dtype float32"):
        group.all_reduce(np.zeros(4 if group.rank == group.size - 1 else 3, np.float32))


def check_all(group: ProcessGroup) -> None:
    assert (dist.get_rank(), dist.get_world_size()) == (group.rank, group.size)
    for check in (check_reductions, check_long, check_moves, check_letters, check_handles, check_mismatch):
        check(group)


if __name__ == "__main__":
    check_all(dist.init_process_group())
    print(f"rank {dist.get_rank()} of {dist.get_world_size()} is well\n", end="")
    sys.stdout.flush()
    dist.destroy_process_group()

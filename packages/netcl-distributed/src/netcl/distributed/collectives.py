"""The collectives as functions: over a list with one tensor for each local device, or over this rank's tensor in its
group. They run on the host and in rank order, so that results are bit-identical.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from netcl.core import Tensor
from netcl.core.errors import CollectiveMismatchError, ShapeError
from netcl.distributed import in_place
from netcl.distributed.current import current_group
from netcl.distributed.errors import RankFailedError
from netcl.distributed.group import ProcessGroup, Value
from netcl.distributed.reductions import Array, check_op, even_bounds, reduce_in_order
from netcl.distributed.transports.local import local_groups

R = TypeVar("R")


def _group(group: ProcessGroup | None) -> ProcessGroup:
    """Returns the given group, else the one of this thread or process, else one of this process alone."""
    return group or current_group() or local_groups(1)[0]


def _as_list(tensors: Sequence[Tensor], op: str) -> list[Tensor]:
    listed = list(tensors)
    if not listed:
        raise ValueError(f"{op}: a list of tensors, one for each device, is needed; it is empty")
    return listed


def check_equal(tensors: Sequence[Tensor], op: str) -> None:
    """Raises CollectiveMismatchError if shapes or dtypes differ between ranks."""
    first = tensors[0]
    for rank, tensor in enumerate(tensors):
        if tensor.shape != first.shape or tensor.dtype != first.dtype:
            raise CollectiveMismatchError(
                f"{op}: rank 0 has shape {first.shape} and dtype {first.dtype}, "
                f"rank {rank} has {tensor.shape} and {tensor.dtype}"
            )


def _read(tensors: Sequence[Tensor]) -> list[Array]:
    """Returns the values of all tensors; all copies are started before the first one is waited for."""
    transfers = [tensor.to_host_async() for tensor in tensors]
    return [transfer.wait() for transfer in transfers]


def combined(tensors: Sequence[Tensor], op: str, weights: Sequence[float] | None = None) -> Array:
    """Combines the values of all ranks, each times its weight, in rank order; half types are summed in float32."""
    check_op(op)
    values: list[Array] = _read(tensors)
    if weights is not None:
        wide = np.dtype(np.float32) if values[0].dtype == np.float16 else values[0].dtype
        values = [value.astype(wide) * wide.type(weight) for value, weight in zip(values, weights)]
    total = np.empty_like(values[0])
    reduce_in_order(values, op, total)
    return total


def all_reduce(
    tensors: Value | Sequence[Tensor],
    op: str = "sum",
    *,
    overlap: bool = False,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """Replaces each tensor, in place, by the ``op`` (sum, mean, max, min, prod) of all of them; returns its argument.

    ``tensors``: one for each local device, of equal shape and dtype, or this rank's tensor or array, combined over the
    ranks of ``group`` (None: the group of this process). A list in a group of several processes is combined over the
    devices first and then over the processes; their lists must have the same length. ``async_op`` (or its synonym
    ``overlap``): returns a Work. Raises CollectiveMismatchError if shapes or dtypes differ.
    """
    check_op(op)
    later = async_op or overlap
    ranks = _group(group)
    if isinstance(tensors, (Tensor, np.ndarray)):
        return ranks.all_reduce(tensors, op, async_op=later)
    listed = _as_list(tensors, "all_reduce")
    check_equal(listed, "all_reduce")
    if len(listed) == 1:
        work = ranks.all_reduce(listed[0], op, async_op=later)
        return work if later else tensors

    def run() -> Any:
        total = combined(listed, op)
        if ranks.size > 1:
            ranks.all_reduce(total, op)
        for tensor in listed:
            tensor.write(total)
        return tensors

    return ranks.submit(run, "all_reduce") if later else run()


def reduce(
    tensors: Value | Sequence[Tensor],
    root: int = 0,
    op: str = "sum",
    *,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """Writes the ``op`` of all tensors into the one of rank ``root``, or ``dst`` as PyTorch names it, and returns that
    tensor.
    """
    root = root if dst is None else dst
    if isinstance(tensors, (Tensor, np.ndarray)):
        return _group(group).reduce(tensors, root, op, async_op=async_op)
    listed = _as_list(tensors, "reduce")
    check_equal(listed, "reduce")
    _check_root(root, len(listed))
    return listed[root].write(combined(listed, op))


def reduce_scatter(
    tensors: Value | Sequence[Tensor],
    op: str = "sum",
    *,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """Returns each rank's rows (axis 0, split nearly equally) of the ``op`` of all tensors, as new tensors."""
    if isinstance(tensors, (Tensor, np.ndarray)):
        return _group(group).reduce_scatter(tensors, op, async_op=async_op)
    listed = _as_list(tensors, "reduce_scatter")
    check_equal(listed, "reduce_scatter")
    if not listed[0].shape:
        raise ShapeError("reduce_scatter: a tensor needs an axis 0, these are 0-d", op="reduce_scatter")
    total = combined(listed, op)
    bounds = even_bounds(0, total.shape[0], len(listed))
    return [
        Tensor.from_host(tensor.queue, total[low:high], tensor.dtype)
        for tensor, low, high in zip(listed, bounds, bounds[1:])
    ]


def broadcast(
    tensors: Value | Sequence[Tensor],
    root: int = 0,
    *,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """Writes the tensor of rank ``root``, or ``src`` as PyTorch names it, into all the others, in place; returns its
    argument.
    """
    root = root if src is None else src
    if isinstance(tensors, (Tensor, np.ndarray)):
        return _group(group).broadcast(tensors, root, async_op=async_op)
    listed = _as_list(tensors, "broadcast")
    check_equal(listed, "broadcast")
    _check_root(root, len(listed))
    values = listed[root].to_host()
    for rank, tensor in enumerate(listed):
        if rank != root:
            tensor.write(values)
    return tensors


def scatter(
    tensor: Value | None,
    chunks: int | Value | Sequence[Tensor],
    root: int = 0,
    *,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """Splits ``tensor`` along axis 0: into that many nearly equal parts on its device, or into the given tensors, in
    place.

    If ``chunks`` is a single tensor, the ranks of ``group`` each get their rows of the tensor of rank ``root``.
    """
    if isinstance(chunks, (Tensor, np.ndarray)):
        return _group(group).scatter(tensor, chunks, root, async_op=async_op)
    if not isinstance(tensor, Tensor):
        raise TypeError(f"scatter: expected a Tensor, got {type(tensor).__name__}")
    values = tensor.to_host()
    if isinstance(chunks, int):
        if not 1 <= chunks <= max(1, tensor.shape[0] if tensor.shape else 0):
            raise ShapeError(f"scatter: {chunks} parts of a tensor of shape {tensor.shape}")
        return [Tensor.from_host(tensor.queue, part, tensor.dtype) for part in np.array_split(values, chunks)]
    targets = list(chunks)
    rows = sum(target.shape[0] for target in targets)
    if not tensor.shape or rows != tensor.shape[0]:
        raise ShapeError(f"scatter: parts of {rows} rows in all, the tensor has shape {tensor.shape}")
    start = 0
    for target in targets:
        target.write(values[start : start + target.shape[0]])
        start += target.shape[0]
    return targets


def gather(
    tensors: Value | Sequence[Tensor], root: int = 0, *, group: ProcessGroup | None = None, async_op: bool = False
) -> Any:
    """Concatenates all tensors along axis 0, as a new tensor on the device of rank ``root``; in a group returns None on
    the other ranks.
    """
    if isinstance(tensors, (Tensor, np.ndarray)):
        return _group(group).gather(tensors, root, async_op=async_op)
    listed = _as_list(tensors, "gather")
    _check_root(root, len(listed))
    return Tensor.from_host(listed[root].queue, _joined(listed), listed[root].dtype)


def all_gather(
    tensors: Value | Sequence[Any],
    tensor: Value | None = None,
    *,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """Concatenates all tensors along axis 0, as a new tensor on each device.

    With two arguments, as in PyTorch, writes ``tensor`` of rank r into ``tensors[r]`` and returns None or a handle.
    """
    if tensor is not None:
        targets: Any = tensors
        return in_place.all_gather(targets, tensor, _group(group), async_op)
    if isinstance(tensors, (Tensor, np.ndarray)):
        return _group(group).all_gather(tensors, async_op=async_op)
    listed = _as_list(tensors, "all_gather")
    joined = _joined(listed)
    return [Tensor.from_host(tensor.queue, joined, tensor.dtype) for tensor in listed]


def barrier(*, group: ProcessGroup | None = None, async_op: bool = False) -> Any:
    """Returns once all ranks of the group have called it."""
    return _group(group).barrier(async_op=async_op)


def on_root(fn: Callable[[], R], root: int = 0, *, group: ProcessGroup | None = None) -> R | None:
    """Calls ``fn()`` on rank ``root`` only, for example to save a checkpoint, while the others wait.

    Returns its result on that rank, None on the others. If it raises, the error is raised on ``root``, and
    RankFailedError on all others. It must finish within the group's timeout.
    """
    ranks = _group(group)
    _check_root(root, ranks.size)
    if ranks.rank != root:
        failed = ranks.broadcast(np.zeros(1, np.int32), root)
        if failed[0]:
            raise RankFailedError(root, f"rank {root} raised in what it did for all ranks; its error is there")
        return None
    try:
        result = fn()
    except BaseException:
        ranks.broadcast(np.ones(1, np.int32), root)
        raise
    ranks.broadcast(np.zeros(1, np.int32), root)
    return result


def send(
    x: Value,
    to: int | None = None,
    *,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """Sends ``x`` to rank ``to``, or ``dst`` as PyTorch names it, which calls ``recv`` with the same shape and
    dtype.
    """
    return _group(group).send(x, _other("send", "to", to, "dst", dst), async_op=async_op)


def recv(
    x: Value,
    source: int | None = None,
    *,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """Writes the values sent by rank ``source``, or ``src`` as PyTorch names it, into ``x``, and returns it."""
    return _group(group).recv(x, _other("recv", "source", source, "src", src), async_op=async_op)


def _other(op: str, name: str, rank: int | None, other_name: str, other: int | None) -> int:
    if (rank is None) == (other is None):
        raise TypeError(f"{op}: give the other rank, as {name} or as {other_name}")
    return int(other if rank is None else rank)  # type: ignore[arg-type]


def _joined(tensors: Sequence[Tensor]) -> Array:
    first = tensors[0]
    for rank, tensor in enumerate(tensors):
        if not tensor.shape or tensor.shape[1:] != first.shape[1:] or tensor.dtype != first.dtype:
            raise CollectiveMismatchError(
                f"gather: rank 0 has shape {first.shape} and dtype {first.dtype}, "
                f"rank {rank} has {tensor.shape} and {tensor.dtype}; only axis 0 may differ"
            )
    return np.concatenate(_read(tensors))


def _check_root(root: int, size: int) -> None:
    if not 0 <= root < size:
        raise ValueError(f"root: expected a rank from 0 to {size - 1}, got {root}")

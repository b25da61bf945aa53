"""Collectives over the devices of one process: through the host, in rank order, so that bits repeat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from netcl.core import Tensor
from netcl.core.errors import CollectiveMismatchError, ShapeError

__all__ = ["all_gather", "all_reduce", "broadcast", "gather", "reduce", "scatter"]

Array = np.ndarray[Any, Any]

_COMBINE: dict[str, Callable[..., Any]] = {
    "sum": np.add,
    "mean": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "prod": np.multiply,
}


def _as_list(tensors: Tensor | Sequence[Tensor], op: str) -> list[Tensor]:
    listed = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not listed:
        raise ValueError(f"{op}: a list of tensors, one for each device, is needed; it is empty")
    return listed


def check_equal(tensors: Sequence[Tensor], op: str) -> None:
    """CollectiveMismatchError where shapes or dtypes differ between ranks."""
    first = tensors[0]
    for rank, tensor in enumerate(tensors):
        if tensor.shape != first.shape or tensor.dtype != first.dtype:
            raise CollectiveMismatchError(
                f"{op}: rank 0 has shape {first.shape} and dtype {first.dtype}, "
                f"rank {rank} has {tensor.shape} and {tensor.dtype}"
            )


def _read(tensors: Sequence[Tensor]) -> list[Array]:
    """The values of all tensors; all copies are under way before the first is waited for."""
    transfers = [tensor.to_host_async() for tensor in tensors]
    return [transfer.wait() for transfer in transfers]


def combined(tensors: Sequence[Tensor], op: str, weights: Sequence[float] | None = None) -> Array:
    """The values of all ranks, each times its weight, combined in rank order; half types add up in float32."""
    if op not in _COMBINE:
        raise ValueError(f"op is one of {', '.join(_COMBINE)}, not {op!r}")
    values = _read(tensors)
    wide = np.dtype(np.float32) if values[0].dtype == np.float16 else values[0].dtype
    parts = [value.astype(wide) for value in values]
    if weights is not None:
        parts = [part * wide.type(weight) for part, weight in zip(parts, weights)]
    total = parts[0]
    for part in parts[1:]:
        total = _COMBINE[op](total, part)
    return total / len(parts) if op == "mean" and weights is None else total


def all_reduce(tensors: Tensor | Sequence[Tensor], op: str = "sum") -> Tensor | Sequence[Tensor]:
    """Replaces each tensor, in place, by the ``op`` (sum, mean, max, min, prod) of all of them; returns what it was
    given.

    ``tensors`` has one tensor for each device, of equal shape and dtype. CollectiveMismatchError where they differ.
    """
    listed = _as_list(tensors, "all_reduce")
    check_equal(listed, "all_reduce")
    if len(listed) > 1:
        total = combined(listed, op)
        for tensor in listed:
            tensor.write(total)
    elif op not in _COMBINE:
        raise ValueError(f"op is one of {', '.join(_COMBINE)}, not {op!r}")
    return tensors


def reduce(tensors: Tensor | Sequence[Tensor], root: int = 0, op: str = "sum") -> Tensor:
    """The ``op`` of all tensors, written into the one of rank ``root`` and returned."""
    listed = _as_list(tensors, "reduce")
    check_equal(listed, "reduce")
    _check_root(root, len(listed))
    return listed[root].write(combined(listed, op))


def broadcast(tensors: Tensor | Sequence[Tensor], root: int = 0) -> Tensor | Sequence[Tensor]:
    """Writes the tensor of rank ``root`` into all the others, in place; returns what it was given."""
    listed = _as_list(tensors, "broadcast")
    check_equal(listed, "broadcast")
    _check_root(root, len(listed))
    values = listed[root].to_host()
    for rank, tensor in enumerate(listed):
        if rank != root:
            tensor.write(values)
    return tensors


def scatter(tensor: Tensor, chunks: int | Sequence[Tensor]) -> list[Tensor]:
    """Cuts ``tensor`` along axis 0: into that many nearly equal parts on its device, or into the given tensors, in
    place.
    """
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


def gather(tensors: Tensor | Sequence[Tensor], root: int = 0) -> Tensor:
    """All tensors one after the other along axis 0, as a new tensor on the device of rank ``root``."""
    listed = _as_list(tensors, "gather")
    _check_root(root, len(listed))
    return Tensor.from_host(listed[root].queue, _joined(listed), listed[root].dtype)  # type: ignore[no-any-return]


def all_gather(tensors: Tensor | Sequence[Tensor]) -> list[Tensor]:
    """All tensors one after the other along axis 0, as a new tensor on each device."""
    listed = _as_list(tensors, "all_gather")
    joined = _joined(listed)
    return [Tensor.from_host(tensor.queue, joined, tensor.dtype) for tensor in listed]


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
        raise ValueError(f"root is a rank from 0 to {size - 1}, not {root}")

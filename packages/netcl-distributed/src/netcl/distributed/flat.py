"""Tensors of one device and dtype as one flat tensor, so that a collective moves all of them in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from netcl import ops
from netcl.core import Tensor


def by_dtype(tensors: Iterable[Tensor]) -> list[list[Tensor]]:
    """Returns the tensors in groups of one device and dtype, in the order of their first members."""
    groups: dict[tuple[int, str], list[Tensor]] = {}
    for tensor in tensors:
        groups.setdefault((id(tensor.queue), tensor.dtype), []).append(tensor)
    return list(groups.values())


def flatten_tensors(tensors: Sequence[Tensor], like: Tensor) -> Tensor:
    """Returns a new tensor of one axis with the values of ``tensors``, which have the device and dtype of ``like``.

    It is empty if there are no tensors.
    """
    if not tensors:
        return Tensor.empty((0,), like.dtype, queue=like.queue)
    joined: Tensor = ops.cat([ops.reshape(tensor.detach(), (tensor.size,)) for tensor in tensors])
    return joined


def unflatten_into(flat: Tensor, tensors: Iterable[Tensor], start: int = 0) -> None:
    """Writes elements of ``flat`` from ``start`` on into ``tensors``, in place and in order."""
    for tensor in tensors:
        stop = start + tensor.size
        tensor.write(ops.reshape(flat[start:stop], tensor.shape))
        start = stop


def move_flat(collective: Callable[..., Any], tensors: Iterable[Tensor], *args: Any) -> None:
    """Calls ``collective(flat, *args)``, which writes into ``flat``, once for each device and dtype of ``tensors``."""
    for same in by_dtype(tensors):
        flat = flatten_tensors(same, same[0])
        collective(flat, *args)
        unflatten_into(flat, same)

"""Collectives of Python values: all_gather_object, gather_object, broadcast_object_list, scatter_object_list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl.core.errors import ShapeError
from netcl.distributed.collectives import _group
from netcl.distributed.group import ProcessGroup
from netcl.distributed.in_place import root_of
from netcl.distributed.plain_values import decode, encode


def gathered_objects(
    value: Any, group: ProcessGroup, root: int = -1, *, op: str, queue: Any = None
) -> list[Any] | None:
    """Returns the values of all ranks, in rank order, on rank ``root`` (-1: on every rank), else None."""
    data = encode(value, op)
    sizes = [int(count) for count in group.all_gather(np.array([data.size], np.int64))]
    joined = group.all_gather(data) if root < 0 else group.gather(data, root)
    if joined is None:
        return None
    ends = np.cumsum([0, *sizes])
    return [decode(joined[low:high], queue) for low, high in zip(ends, ends[1:])]


def all_gather_object(object_list: list[Any], obj: Any, group: ProcessGroup | None = None) -> None:
    """Writes the ``obj`` of rank r into ``object_list[r]`` of each rank; the list has an item for each rank.

    An object is None, a bool, int, float, str or bytes, an array of numbers or a tensor, or a list, tuple or dict of
    these; tensors arrive on the active device. Nothing is pickled: raises TypeError for other objects, ShapeError if
    the list has another length.

        >>> gathered = [None]
        >>> all_gather_object(gathered, {"loss": 0.5})
        >>> gathered
        [{'loss': 0.5}]
    """
    ranks = _group(group)
    _check_length(object_list, ranks.size, "all_gather_object")
    object_list[:] = gathered_objects(obj, ranks, op="all_gather_object") or []


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    group_dst: int | None = None,
) -> None:
    """Writes the ``obj`` of rank r into ``object_gather_list[r]`` of rank ``dst`` (0); the others give no list.

    The objects are as for ``all_gather_object``. Raises ValueError if rank ``dst`` gives no list or another rank gives
    one.
    """
    ranks = _group(group)
    root = root_of(ranks, group, dst, group_dst, "dst")
    if (object_gather_list is not None) != (ranks.rank == root):
        raise ValueError(
            f"gather_object: rank {root}, and no other, gives object_gather_list; this is rank {ranks.rank}"
        )
    if object_gather_list is not None:
        _check_length(object_gather_list, ranks.size, "gather_object")
    objects = gathered_objects(obj, ranks, root, op="gather_object")
    if object_gather_list is not None:
        object_gather_list[:] = objects or []


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Writes the objects of rank ``src`` (0) into the list of each rank, which has the same length everywhere.

    The objects are as for ``all_gather_object``. ``device`` is accepted and not used: bytes travel by the host.
    Raises CollectiveMismatchError if the lengths differ.
    """
    ranks = _group(group)
    root = root_of(ranks, group, src, group_src, "src")
    data = encode(list(object_list), "broadcast_object_list") if ranks.rank == root else np.empty(0, np.uint8)
    # The length of the list is a part of the shape, which all ranks compare.
    head = np.zeros((1, max(len(object_list), 1)), np.int64)
    head[0, 0] = data.size
    ranks.broadcast(head, root)
    body = data.copy() if ranks.rank == root else np.empty(int(head[0, 0]), np.uint8)
    ranks.broadcast(body, root)
    if ranks.rank != root:
        object_list[:] = decode(body)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: Sequence[Any] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    group_src: int | None = None,
) -> None:
    """Writes item r of the input list of rank ``src`` (0) into the first item of the output list of rank r.

    The objects are as for ``all_gather_object``. Raises ValueError if the output list is empty, or rank ``src`` has not
    one object for each rank.
    """
    ranks = _group(group)
    if not scatter_object_output_list:
        raise ValueError("scatter_object_list: the output list needs an item, which is replaced; it is empty")
    root = root_of(ranks, group, src, group_src, "src")
    objects = list(scatter_object_input_list or []) if ranks.rank == root else [None] * ranks.size
    if len(objects) != ranks.size:
        raise ValueError(
            f"scatter_object_list: rank {root} gives {len(objects)} objects, the group has {ranks.size} ranks"
        )
    broadcast_object_list(objects, group=ranks, group_src=root)
    scatter_object_output_list[0] = objects[ranks.rank]


def _check_length(values: Sequence[Any], size: int, op: str) -> None:
    if len(values) != size:
        raise ShapeError(f"{op}: the list has {len(values)} items, the group {size} ranks; give [None] * {size}")

"""The functions of torch.distributed with PyTorch's arguments: tensors are written in place, results are None or a
handle. The functions of the same names in netcl.distributed return their results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from netcl.core import Tensor, config
from netcl.core.errors import ShapeError
from netcl.distributed.current import current_group, default_group
from netcl.distributed.group import ProcessGroup
from netcl.distributed.in_place import (
    NON_GROUP_MEMBER,
    PendingWork,
    ReduceOp,
    all_gather,
    all_gather_into_tensor,
    flat_values,
    get_backend,
    get_group_rank,
    get_process_group_ranks,
    group_of,
    irecv,
    is_available,
    is_initialized,
    isend,
    issued,
    join_values,
    list_of_ranks,
    message,
    new_group,
    reduce_scatter_tensor,
    reduce_scattered,
    root_of,
    write_into,
)

__all__ = [
    "GroupMember", "P2POp", "PendingWork", "ReduceOp", "all_gather", "all_gather_into_tensor", "all_gather_single",
    "all_reduce", "barrier", "batch_isend_irecv", "broadcast", "gather", "get_backend", "get_global_rank",
    "get_group_rank", "get_node_local_rank", "get_process_group_ranks", "get_rank", "get_world_size", "group",
    "irecv", "is_available", "is_initialized", "isend", "monitored_barrier", "new_group", "recv", "reduce",
    "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor", "scatter", "send",
]  # fmt: skip


class _Members(type):
    """Properties of a class: the default group is looked up at each use."""

    @property
    def WORLD(cls) -> ProcessGroup | None:
        return default_group()


class GroupMember(metaclass=_Members):
    """``WORLD``, the default group, and ``NON_GROUP_MEMBER``, the group that ``new_group`` gives to other ranks."""

    NON_GROUP_MEMBER: Any = NON_GROUP_MEMBER


class group(metaclass=_Members):
    """``group.WORLD``: the default group, or None."""


# -- properties ------------------------------------------------------------------------------------------------------


def get_rank(group: Any = None) -> int:
    """Returns the rank of this process in the group; -1 if it is not a member. Raises ValueError without a group."""
    return -1 if group is GroupMember.NON_GROUP_MEMBER else group_of(group).rank


def get_world_size(group: Any = None) -> int:
    """Returns the number of ranks; -1 if this one is not a member. Raises ValueError without a group."""
    return -1 if group is GroupMember.NON_GROUP_MEMBER else group_of(group).size


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Returns the rank among those of this host; ``fallback_rank`` without a group and a launcher.

    Raises RuntimeError if neither is there.
    """
    found = current_group()
    if found is not None:
        return found.local_rank
    told = config.get("LOCAL_RANK")
    if told is None and fallback_rank is None:
        raise RuntimeError("LOCAL_RANK is not set: start the script with python -m netcl.distributed.run")
    return int(fallback_rank if told is None else told)  # type: ignore[arg-type]


def get_global_rank(group: Any, group_rank: int) -> int:
    """Returns the rank in the default group of a rank of the group; raises ValueError if there is no such rank."""
    found = get_process_group_ranks(group)
    if not 0 <= group_rank < len(found):
        raise ValueError(f"the group has the ranks 0 to {len(found) - 1}, not {group_rank}")
    return found[group_rank]


def _handle(result: Any, async_op: bool) -> PendingWork | None:
    """Returns PyTorch's result of a collective of the group: its handle, or None."""
    return PendingWork.of(result) if async_op else None


# -- collectives -----------------------------------------------------------------------------------------------------


def all_reduce(tensor: Any, op: str = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
    """Writes the reduction over all ranks into ``tensor`` of each."""
    return _handle(group_of(group).all_reduce(tensor, op, async_op=async_op), async_op)


def reduce(
    tensor: Any,
    dst: int | None = None,
    op: str = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """Writes the reduction over all ranks into ``tensor`` of rank ``dst``."""
    ranks = group_of(group)
    root = root_of(ranks, group, dst, group_dst, "dst")
    return _handle(ranks.reduce(tensor, root, op, async_op=async_op), async_op)


def broadcast(
    tensor: Any, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Any:
    """Writes ``tensor`` of rank ``src`` into that of each rank."""
    ranks = group_of(group)
    root = root_of(ranks, group, src, group_src, "src")
    return _handle(ranks.broadcast(tensor, root, async_op=async_op), async_op)


all_gather_single = all_gather_into_tensor


def reduce_scatter(
    output: Any, input_list: Sequence[Any], op: str = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Writes the reduction of item r of the lists of all ranks into ``output`` of rank r; all have one shape.

    Raises ShapeError if the list has not one tensor of that shape for each rank.
    """
    ranks = group_of(group)
    parts = list_of_ranks(input_list, ranks.size, "reduce_scatter")
    for part in parts:
        if tuple(part.shape) != tuple(output.shape):
            raise ShapeError(f"reduce_scatter: a part has shape {part.shape}, the output {output.shape}")
    return reduce_scattered(output, parts, ranks, op, "reduce_scatter", async_op)


reduce_scatter_single = reduce_scatter_tensor


def gather(
    tensor: Any,
    gather_list: Sequence[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """Writes ``tensor`` of rank r into ``gather_list[r]`` of rank ``dst``; the others give no list.

    Raises ValueError if rank ``dst`` gives no list or another rank gives one.
    """
    ranks = group_of(group)
    root = root_of(ranks, group, dst, group_dst, "dst")
    targets, flat = _list_of_root(gather_list, ranks, root, "gather", "gather_list"), flat_values(tensor)

    def work() -> None:
        joined = ranks.gather(flat, root)
        if targets is not None:
            write_into(joined, targets, "gather")

    return issued(ranks, work, "gather", async_op)


def scatter(
    tensor: Any,
    scatter_list: Sequence[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """Writes ``scatter_list[r]`` of rank ``src`` into ``tensor`` of rank r; the others give no list.

    Raises ValueError if rank ``src`` gives no list or another rank gives one.
    """
    ranks = group_of(group)
    root = root_of(ranks, group, src, group_src, "src")
    parts = _list_of_root(scatter_list, ranks, root, "scatter", "scatter_list")
    whole = None if parts is None else join_values([flat_values(part) for part in parts])
    out = _empty(tensor)

    def work() -> None:
        ranks.scatter(whole, out, root)
        write_into(out, [tensor], "scatter")

    return issued(ranks, work, "scatter", async_op)


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: Any = None) -> Any:
    """Returns when all ranks have called it; the limit of time is that of the group."""
    ranks = group_of(group)
    return _handle(ranks.barrier(async_op=async_op), async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """``barrier``: the errors of all barriers name the ranks that are late or gone; the limit is that of the group."""
    group_of(group).barrier()


# -- messages --------------------------------------------------------------------------------------------------------


def send(tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Sends ``tensor`` to rank ``dst``, which calls ``recv`` with the same shape and dtype; raises UnsupportedError for
    a ``tag``.
    """
    message(tensor, dst, group, tag, group_dst, False, False)


def recv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Writes the values that rank ``src`` sends into ``tensor`` and returns ``src``; raises UnsupportedError for a
    ``tag``, and without ``src``.
    """
    return message(tensor, src, group, tag, group_src, True, False)[1]


class P2POp(NamedTuple):
    """A message of ``batch_isend_irecv``: ``op`` is ``isend`` or ``irecv``."""

    op: Callable[..., PendingWork]
    tensor: Any
    peer: int | None = None
    group: Any = None
    tag: int = 0
    group_peer: int | None = None


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[PendingWork]:
    """Starts all messages and returns their handles."""
    return [one.op(one.tensor, one.peer, one.group, one.tag, one.group_peer) for one in p2p_op_list]


# -- values ----------------------------------------------------------------------------------------------------------


def _empty(like: Any) -> Any:
    if isinstance(like, Tensor):
        return Tensor.empty((like.size,), like.dtype, queue=like.queue)
    return np.empty(like.size, like.dtype)


def _list_of_root(given: Any, ranks: ProcessGroup, root: int, op: str, name: str) -> list[Any] | None:
    if (given is not None and len(given) > 0) != (ranks.rank == root):
        raise ValueError(f"{op}: rank {root}, and no other, gives {name}; this is rank {ranks.rank}")
    return list_of_ranks(given, ranks.size, op) if given is not None and ranks.rank == root else None

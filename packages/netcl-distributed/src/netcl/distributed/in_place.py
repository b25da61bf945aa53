"""Collectives that write into given tensors, messages, their handles, and the properties of a group."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from netcl import ops
from netcl.core import Tensor
from netcl.core.errors import CollectiveMismatchError, ShapeError, UnsupportedError
from netcl.distributed.current import backends, current_group, members
from netcl.distributed.flat import flatten_tensors
from netcl.distributed.group import ProcessGroup
from netcl.distributed.transports.local import local_groups
from netcl.distributed.work import CommThread, Work


class _Ops(type):
    @property
    def RedOpType(cls) -> type:
        """The class of the reductions: ReduceOp itself."""
        return cls

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, str) and instance in (cls.SUM, cls.AVG, cls.PRODUCT, cls.MIN, cls.MAX)

    def __getattr__(cls, name: str) -> Any:
        if name in ("BAND", "BOR", "BXOR", "PREMUL_SUM"):
            raise UnsupportedError(f"ReduceOp.{name} is not in netcl; there are SUM, AVG, PRODUCT, MIN and MAX")
        raise AttributeError(f"type object 'ReduceOp' has no attribute {name!r}", name=name, obj=cls)


class ReduceOp(metaclass=_Ops):
    """The reductions by PyTorch's names: each is the name that netcl's collectives take as ``op``.

    >>> import numpy as np
    >>> from netcl.distributed import ReduceOp, all_reduce
    >>> all_reduce(np.ones(2), op=ReduceOp.SUM)
    array([1., 1.])
    """

    SUM = "sum"
    AVG = "mean"
    PRODUCT = "prod"
    MIN = "min"
    MAX = "max"


# The group that ``new_group`` gives to ranks that are not in it.
NON_GROUP_MEMBER: Any = -100


def group_of(group: Any) -> ProcessGroup:
    """Returns ``group``, or if it is None the group of this thread or process.

    Raises ValueError if there is none, or this rank is not a member of ``group``.
    """
    if group is NON_GROUP_MEMBER:
        raise ValueError("this rank is not a member of the given group")
    current: ProcessGroup | None = group if group is not None else current_group()
    if current is None:
        raise ValueError("the default process group has not been initialized; call init_process_group first")
    return current


# -- properties ------------------------------------------------------------------------------------------------------


def is_available() -> bool:
    """Returns True: process groups are there on every system."""
    return True


def is_initialized() -> bool:
    """Returns True if this process, or this thread, is in a group."""
    return current_group() is not None


def get_backend(group: Any = None) -> str:
    """Returns the ``backend`` that ``init_process_group`` was given, else the transport: "local", "shared", "mpi" or
    the name of an entry point. Raises ValueError without a group.
    """
    member_of = group_of(group)
    return backends.get(member_of, "local")


def get_process_group_ranks(group: Any = None) -> list[int]:
    """Returns the ranks of the default group that are in the group."""
    ranks = group_of(group)
    return list(members.get(ranks, range(ranks.size)))


def get_group_rank(group: Any, global_rank: int) -> int:
    """Returns the rank in the group of a rank of the default group; raises ValueError if it is not a member."""
    ranks = get_process_group_ranks(group)
    if global_rank not in ranks:
        raise ValueError(f"rank {global_rank} is not in the group of the ranks {ranks}")
    return ranks.index(global_rank)


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: Any = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """Returns the group of all ranks, or a group of one rank, which the others see as NON_GROUP_MEMBER.

    Raises UnsupportedError for another part of the ranks, and with ``sort_ranks=False`` for another order.
    """
    whole = group_of(None)
    wanted = list(range(whole.size)) if ranks is None else [int(rank) for rank in ranks]
    if sort_ranks:
        wanted.sort()
    if wanted == list(range(whole.size)):
        return whole
    if len(wanted) != 1 or not 0 <= wanted[0] < whole.size:
        raise UnsupportedError(
            f"new_group: the ranks {wanted} of {whole.size} are not in netcl: a group has all ranks in their order, or "
            "one of them. With MPI write netcl.distributed.transports.mpi.MPIGroup(timeout, comm.Split(...))"
        )
    if wanted[0] != whole.rank:
        return NON_GROUP_MEMBER
    alone = local_groups(1, whole.timeout)[0]
    members[alone] = (whole.rank,)
    backends[alone] = backends.get(whole, "local")
    return alone


# -- handles ---------------------------------------------------------------------------------------------------------


class PendingWork(Work):
    """The handle of ``async_op=True``, ``isend`` and ``irecv``, with the methods of PyTorch's."""

    @classmethod
    def of(cls, work: Work) -> PendingWork:
        """Returns the handle of a running collective."""
        return cls(work._future, work._op)

    def wait(self, timeout: Any = None) -> bool:
        """Returns True when the collective has ended; raises its error, or CollectiveTimeoutError after ``timeout``
        (seconds or a timedelta).
        """
        super().wait(_seconds(timeout))
        return True

    def is_completed(self) -> bool:
        """Returns True if the collective has ended, with or without an error."""
        return self.done()

    def is_success(self) -> bool:
        """Returns True if the collective has ended without an error."""
        return self.done() and self._future.exception() is None

    def exception(self) -> BaseException | None:
        """Returns the error of the collective; waits for its end."""
        return self._future.exception()

    def result(self) -> Any:
        """Returns the result of the collective; waits for its end."""
        return super().wait()


def _seconds(timeout: Any) -> float | None:
    """Returns a number of seconds or a timedelta in seconds; None for PyTorch's "no limit", a timedelta of 0 too."""
    value = timeout.total_seconds() if hasattr(timeout, "total_seconds") else timeout
    return None if value is None or value <= 0 else float(value)


def issued(ranks: ProcessGroup, work: Callable[[], Any], op: str, async_op: bool) -> PendingWork | None:
    """Runs a function of collectives of the group, now or, with ``async_op``, in the group's thread."""
    if async_op:
        return PendingWork.of(ranks.submit(work, op))
    work()
    return None


def root_of(ranks: ProcessGroup, group: Any, rank: int | None, group_rank: int | None, name: str) -> int:
    """Returns the rank in the group that PyTorch's pair of arguments names."""
    if rank is not None and group_rank is not None:
        raise ValueError(f"give {name} or group_{name}, not both")
    if group_rank is not None:
        return group_rank
    return 0 if rank is None else rank if group is None else get_group_rank(ranks, rank)


# -- collectives -----------------------------------------------------------------------------------------------------


def all_gather(tensor_list: Sequence[Any], tensor: Any, group: Any = None, async_op: bool = False) -> Any:
    """Writes ``tensor`` of rank r into ``tensor_list[r]`` of each rank; shapes may differ between ranks.

    Raises ShapeError if the list has not one tensor for each rank, CollectiveMismatchError if a tensor has not the size
    of that rank's.
    """
    ranks = group_of(group)
    targets, flat = list_of_ranks(tensor_list, ranks.size, "all_gather"), flat_values(tensor)

    def work() -> None:
        joined = ranks.all_gather(flat)
        write_into(joined, targets, "all_gather")

    return issued(ranks, work, "all_gather", async_op)


def all_gather_into_tensor(output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False) -> Any:
    """Writes the tensors of all ranks, concatenated along axis 0 or stacked, into ``output_tensor`` of each.

    Raises ShapeError if the output has not the elements of all inputs.
    """
    ranks = group_of(group)
    _check_size(output_tensor, input_tensor, ranks.size, "all_gather_into_tensor", "output_tensor", "input_tensor")
    flat = flat_values(input_tensor)

    def work() -> None:
        joined = ranks.all_gather(flat)
        write_into(joined, [output_tensor], "all_gather_into_tensor")

    return issued(ranks, work, "all_gather_into_tensor", async_op)


def reduce_scatter_tensor(
    output: Any, input: Any, op: str = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Writes this rank's part, along axis 0, of the reduction of ``input`` into ``output``.

    Raises ShapeError if the input has not the elements of an output for each rank.
    """
    ranks = group_of(group)
    _check_size(input, output, ranks.size, "reduce_scatter_tensor", "input", "output")
    return reduce_scattered(output, [input], ranks, op, "reduce_scatter_tensor", async_op)


def reduce_scattered(
    output: Any, parts: Sequence[Any], ranks: ProcessGroup, op: str, name: str, async_op: bool
) -> PendingWork | None:
    flat = join_values([flat_values(part) for part in parts])
    rows = flat.reshape((ranks.size, flat.size // ranks.size))

    def work() -> None:
        write_into(ranks.reduce_scatter(rows, op).reshape((-1,)), [output], name)

    return issued(ranks, work, name, async_op)


# -- messages --------------------------------------------------------------------------------------------------------


class _Lanes:
    """The threads of a group for sends, in order, and for receives from each rank, in order: a send that waits for its
    receiver must not delay a receive.
    """

    def __init__(self, ranks: ProcessGroup) -> None:
        self._name = f"netcl-messages-{ranks.rank}"
        self._lanes: dict[int, CommThread] = {}

    def run(self, lane: int, work: Callable[[], Any], op: str, async_op: bool) -> PendingWork | None:
        """Runs a function after those given to the lane before; -1 is the lane of sends."""
        thread = self._lanes.setdefault(lane, CommThread(f"{self._name}-{lane}"))
        if not async_op and thread.idle:
            work()
            return None
        future = thread.submit(work)
        if async_op:
            return PendingWork(future, op)
        future.result()
        return None


_lanes: WeakKeyDictionary[ProcessGroup, _Lanes] = WeakKeyDictionary()
_lock = threading.Lock()


def _lanes_of(ranks: ProcessGroup) -> _Lanes:
    with _lock:
        return _lanes.setdefault(ranks, _Lanes(ranks))


def message(
    tensor: Any, other: int | None, group: Any, tag: int, group_other: int | None, receives: bool, async_op: bool
) -> tuple[PendingWork | None, int]:
    op = "recv" if receives else "send"
    name = "src" if receives else "dst"
    if tag:
        raise UnsupportedError(f"{op}: messages have no tags in netcl, they arrive in order; leave out tag={tag}")
    if other is None and group_other is None:
        raise UnsupportedError(f"{op}: name the other rank by {name}; a receive from any rank is not in netcl")
    ranks = group_of(group)
    rank = root_of(ranks, group, other, group_other, name)
    call = ranks.recv if receives else ranks.send
    made = _lanes_of(ranks).run(rank if receives else -1, lambda: call(tensor, rank), op, async_op)
    return made, rank


def isend(
    tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> PendingWork:
    """Sends as ``send``, but returns a handle at once; ``tensor`` must not change before ``wait()`` returns."""
    made, _ = message(tensor, dst, group, tag, group_dst, False, True)
    assert made is not None
    return made


def irecv(
    tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> PendingWork:
    """Receives as ``recv``, but returns a handle at once; ``tensor`` has its values when ``wait()`` has returned."""
    made, _ = message(tensor, src, group, tag, group_src, True, True)
    assert made is not None
    return made


# -- values ----------------------------------------------------------------------------------------------------------


def flat_values(x: Any) -> Any:
    """Returns the values of a tensor or an array along one axis."""
    return ops.reshape(x.detach(), (x.size,)) if isinstance(x, Tensor) else np.ravel(x)


def join_values(parts: Sequence[Any]) -> Any:
    return flatten_tensors(parts, parts[0]) if isinstance(parts[0], Tensor) else np.concatenate(parts)


def write_into(joined: Any, targets: Sequence[Any], op: str) -> None:
    """Writes consecutive values into the targets, in place."""
    wanted = sum(target.size for target in targets)
    if joined.size != wanted:
        raise CollectiveMismatchError(
            f"{op}: the ranks sent {joined.size} elements in all, the tensors of this rank have {wanted}", op=op
        )
    start = 0
    for target in targets:
        part = joined[start : start + target.size].reshape(target.shape)
        if isinstance(target, Tensor):
            target.write(part)
        else:
            target[...] = part
        start += target.size


def list_of_ranks(tensors: Sequence[Any], size: int, op: str) -> list[Any]:
    if isinstance(tensors, (Tensor, np.ndarray)) or len(tensors) != size:
        count = "one tensor" if isinstance(tensors, (Tensor, np.ndarray)) else f"{len(tensors)} tensors"
        raise ShapeError(f"{op}: expected a list with a tensor for each of the {size} ranks, got {count}", op=op)
    return list(tensors)


def _check_size(large: Any, small: Any, size: int, op: str, large_name: str, small_name: str) -> None:
    if large.size != size * small.size:
        raise ShapeError(
            f"{op}: {large_name} has {large.size} elements, {small_name} {small.size} on each of {size} ranks", op=op
        )

"""torch.distributed over netcl.distributed: groups, and collectives that write in place as PyTorch's do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netcl import distributed
from netcl.core import Tensor
from netcl.core.errors import UnsupportedError

TORCH_NAMES = ("ReduceOp",)
Backend = str


class ReduceOp:
    """The reductions of collectives, by netcl's names."""

    SUM = "sum"
    AVG = "mean"
    MAX = "max"
    MIN = "min"
    PRODUCT = "prod"


reduce_op = ReduceOp


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    **options: Any,
) -> None:
    """Makes this process a rank of the group of its launcher, or of a group of one.

    Launchers are ``python -m netcl.distributed.run`` and mpiexec; raises UnsupportedError for ``world_size`` above 1
    without one, and if the launcher's numbers are others.
    """
    seconds = timeout.total_seconds() if hasattr(timeout, "total_seconds") else timeout
    group = distributed.init_process_group("mpi" if backend == "mpi" else None, seconds)
    if world_size not in (-1, group.size) or rank not in (-1, group.rank):
        size, number = group.size, group.rank
        distributed.destroy_process_group()
        raise UnsupportedError(
            f"init_process_group: this process is rank {number} of {size}, not {rank} of {world_size}; start the "
            f"script with python -m netcl.distributed.run -n {world_size}"
        )


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True if this process is in a group."""
    return distributed.current_group() is not None


def is_nccl_available() -> bool:
    """False."""
    return False


def is_gloo_available() -> bool:
    """False."""
    return False


def is_torchelastic_launched() -> bool:
    """False."""
    return False


def get_backend(group: Any = None) -> str:
    """``"netcl"``."""
    return "netcl"


def get_rank(group: Any = None) -> int:
    """The rank of this process in the group."""
    return int(_group(group).rank)


def get_world_size(group: Any = None) -> int:
    """The number of ranks of the group."""
    return int(_group(group).size)


def _group(group: Any) -> Any:
    found = group or distributed.current_group()
    if found is None:
        raise ValueError("the default process group has not been initialized; call init_process_group first")
    return found


def all_reduce(tensor: Tensor, op: str = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
    """Writes the reduction over all ranks into the tensor of each."""
    work = distributed.all_reduce(tensor, op, group=_group(group), async_op=async_op)
    return work if async_op else None


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Any:
    """Writes the tensor of rank ``src`` into that of each rank."""
    root = src if src is not None else group_src or 0
    work = distributed.broadcast(tensor, root, group=_group(group), async_op=async_op)
    return work if async_op else None


def reduce(tensor: Tensor, dst: int = 0, op: str = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
    """Writes the reduction over all ranks into the tensor of rank ``dst``."""
    work = distributed.reduce(tensor, dst, op, group=_group(group), async_op=async_op)
    return work if async_op else None


def all_gather(tensor_list: Sequence[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> None:
    """Writes the tensor of rank r into ``tensor_list[r]`` of each rank."""
    joined = distributed.all_gather(tensor.detach().unsqueeze(0), group=_group(group))
    for at, one in enumerate(tensor_list):
        one.copy_(joined[at])


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
    """Returns when all ranks have called it."""
    work = distributed.barrier(group=_group(group), async_op=async_op)
    return work if async_op else None


def send(tensor: Tensor, dst: int = 0, group: Any = None, tag: int = 0) -> None:
    """Sends a tensor to rank ``dst``."""
    distributed.send(tensor, dst, group=_group(group))


def recv(tensor: Tensor, src: int = 0, group: Any = None, tag: int = 0) -> int:
    """Writes what rank ``src`` sends into the tensor; returns ``src``."""
    distributed.recv(tensor, src, group=_group(group))
    return src


def new_group(ranks: Sequence[int] | None = None, *args: Any, **kwargs: Any) -> Any:
    """The group of all ranks; raises UnsupportedError for a part of them."""
    group = _group(None)
    if ranks is not None and sorted(ranks) != list(range(group.size)):
        raise UnsupportedError("new_group: groups of a part of the ranks are not in netcl.torch")
    return group

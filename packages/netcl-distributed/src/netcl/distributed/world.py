"""The group of this process or thread: how it is made, which one is meant where none is named, and who this rank is."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from netcl.core import config

if TYPE_CHECKING:
    from netcl.distributed.group import ProcessGroup

__all__ = [
    "active_group",
    "current_group",
    "destroy_process_group",
    "get_local_rank",
    "get_rank",
    "get_world_size",
    "init_process_group",
]

ENTRY_POINTS = "netcl.process_groups"
# What the launchers of MPICH and Intel MPI, Open MPI, and Slurm's srun --mpi set.
_MPI_MARKS = ("PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS")

_default: ProcessGroup | None = None


class _Thread(threading.local):
    group: ProcessGroup | None = None


_thread = _Thread()


def init_process_group(transport: str | None = None, timeout: float | None = None) -> ProcessGroup:
    """Makes this process a rank of a group, which from now on is meant where no group is named.

    ``transport``: "local" (this process alone), "shared" (what ``python -m netcl.distributed.run`` started), "mpi"
    (what mpiexec started; needs mpi4py), or the name of an entry point in ``netcl.process_groups``, a function of the
    timeout that gives a ProcessGroup. None: "shared" or "mpi" where such a launcher started this process, else "local".
    ``timeout``: seconds a collective waits for the other ranks; None: NETCL_DIST_TIMEOUT_S.

    Raises:
        RuntimeError: this process is in a group already.
        ValueError: there is no such transport.
    """
    global _default
    if _default is not None:
        raise RuntimeError(f"this process is in a group already, {_default!r}; destroy_process_group() ends it")
    name = transport or _found()
    limit = float(config.get("DIST_TIMEOUT_S")) if timeout is None else float(timeout)
    _default = _maker(name)(limit)
    return _default


def _found() -> str:
    if config.get("RENDEZVOUS") is not None:
        return "shared"
    return "mpi" if any(mark in os.environ for mark in _MPI_MARKS) else "local"


def _maker(name: str) -> Callable[[float], ProcessGroup]:
    if name == "local":
        from netcl.distributed.local import local_groups

        return lambda timeout: local_groups(1, timeout)[0]
    if name == "shared":
        from netcl.distributed.shared import join

        return join
    if name == "mpi":
        from netcl.distributed.mpi import MPIGroup

        return MPIGroup
    found = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in found:
        known = ", ".join(["local", "shared", "mpi", *sorted(found)])
        raise ValueError(f"there is no transport {name!r}; there are {known}")
    maker: Callable[[float], ProcessGroup] = found[name].load()
    return maker


def destroy_process_group() -> None:
    """Leaves the group that ``init_process_group`` made; without one it does nothing."""
    global _default
    group, _default = _default, None
    if group is not None:
        group.close()


def current_group() -> ProcessGroup | None:
    """The group of this thread, else of this process, else None."""
    return _thread.group or _default


@contextmanager
def active_group(group: ProcessGroup) -> Iterator[None]:
    """Within the block, ``group`` is the group of this thread."""
    outer, _thread.group = _thread.group, group
    try:
        yield
    finally:
        _thread.group = outer


def get_rank() -> int:
    """The rank of this thread or process; before a group is made, that of the launcher, or 0."""
    group = current_group()
    return int(config.get("RANK") or 0) if group is None else group.rank


def get_world_size() -> int:
    """The number of ranks; before a group is made, that of the launcher, or 1."""
    group = current_group()
    return int(config.get("WORLD_SIZE") or 1) if group is None else group.size


def get_local_rank() -> int:
    """The rank among those of this host, such as to pick a device; before a group is made, that of the launcher, or
    0.
    """
    group = current_group()
    return int(config.get("LOCAL_RANK") or 0) if group is None else group.local_rank

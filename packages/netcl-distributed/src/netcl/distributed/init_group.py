"""init_process_group and destroy_process_group: join a group by one of the transports, and leave it."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from importlib.metadata import entry_points
from typing import Any

from netcl.core import config
from netcl.core.errors import UnsupportedError
from netcl.distributed.current import backends, default_group, set_default_group
from netcl.distributed.group import ProcessGroup
from netcl.distributed.transports.local import local_groups
from netcl.distributed.transports.rendezvous import address_of, meet, numbers
from netcl.distributed.transports.shared import join

ENTRY_POINTS = "netcl.process_groups"
# Variables that the launchers of MPICH and Intel MPI, Open MPI, and Slurm's srun --mpi set.
_MPI_MARKS = ("PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS")
# PyTorch's names of backends: the transport is the one that fits the way in which this process was started.
_BACKENDS = ("gloo", "nccl", "ucc", "xccl", "cpu:gloo,cuda:nccl")


def init_process_group(
    transport: str | None = None,
    init_method: str | float | timedelta | None = None,
    timeout: float | timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    *,
    backend: str | None = None,
) -> ProcessGroup:
    """Makes this process a rank of a group, which is then the default group.

    ``transport``: "local" (this process only), "shared" (processes started by ``python -m netcl.distributed.run``),
    "mpi" (processes started by mpiexec; needs mpi4py), or the name of an entry point in ``netcl.process_groups``, a
    function of the timeout that returns a ProcessGroup. None: "shared" or "mpi" if such a launcher started this
    process, else "local". ``timeout``: seconds, or a timedelta, that a collective waits for the other ranks; None:
    NETCL_DIST_TIMEOUT_S.

    The order of the arguments is PyTorch's, and ``backend`` another name of ``transport``: "gloo", "nccl", "ucc" and
    "xccl" mean the transport that None does, and ``get_backend()`` returns them. A number in the place of
    ``init_method`` is the timeout. Without a launcher of netcl, several
    processes of one host meet at a port: ``world_size`` and ``rank``, or the environment variables WORLD_SIZE and RANK,
    number them, ``init_method`` "tcp://localhost:port" or MASTER_ADDR and MASTER_PORT name the port; so do processes of
    ``torch.multiprocessing.spawn`` and of torchrun. ``group_name``, ``pg_options`` and ``device_id`` change nothing.

    Raises:
        RuntimeError: this process is in a group already.
        ValueError: there is no such transport; the rank or the port is not known.
        UnsupportedError: the launcher's numbers are others than ``rank`` and ``world_size``; ``store`` is given; the
            port is on another host.
        CollectiveTimeoutError: another rank did not come to the port in time.
    """
    present = default_group()
    if present is not None:
        raise RuntimeError(f"this process is in a group already, {present!r}; destroy_process_group() ends it")
    if store is not None:
        raise UnsupportedError(
            "init_process_group: store is not in netcl; leave it out, and set MASTER_ADDR and MASTER_PORT"
        )
    if init_method is not None and not isinstance(init_method, str):
        init_method, timeout = None, init_method
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    limit = float(config.get("DIST_TIMEOUT_S")) if seconds is None else float(seconds)
    asked = backend if backend is not None else transport
    name = None if asked is not None and asked.lower() in _BACKENDS else asked
    group, name = _joined(name, limit, init_method, world_size, rank)
    set_default_group(group)
    backends[group] = name if asked is None else asked.lower()
    return group


def _joined(
    name: str | None, timeout: float, init_method: str | None, world_size: int, number: int
) -> tuple[ProcessGroup, str]:
    """Returns the group and the name of its transport."""
    transport = name or _found()
    # The variables of the environment count if there is no launcher of netcl or MPI, which has numbers of its own.
    alone = name is None and transport == "local"
    rank, size = numbers(world_size, number, init_method, os.environ if alone else {})
    if alone and size > 1:
        _, port = address_of(init_method)
        return meet(rank, size, port, timeout), "shared"
    group = _maker(transport)(timeout)
    if size >= 0 and (rank, size) != (group.rank, group.size):
        group.close()
        raise UnsupportedError(
            f"init_process_group: expected rank {rank} of {size}, got rank {group.rank} of {group.size} of transport "
            f"{transport!r}; start the script with python -m netcl.distributed.run -n {size}"
        )
    return group, transport


def _found() -> str:
    if config.get("RENDEZVOUS") is not None:
        return "shared"
    return "mpi" if any(mark in os.environ for mark in _MPI_MARKS) else "local"


def _maker(name: str) -> Callable[[float], ProcessGroup]:
    if name == "local":
        return lambda timeout: local_groups(1, timeout)[0]
    if name == "shared":
        return join
    if name == "mpi":
        # mpi4py is optional, and importing it starts MPI.
        from netcl.distributed.transports.mpi import MPIGroup

        return MPIGroup
    points = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in points:
        known = ", ".join(["local", "shared", "mpi", *sorted(points)])
        raise ValueError(f"there is no transport {name!r}; there are {known}")
    maker: Callable[[float], ProcessGroup] = points[name].load()
    return maker


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Leaves the group that ``init_process_group`` made, or another one; does nothing if there is none."""
    present = default_group()
    ended = present if group is None else group
    if ended is present:
        set_default_group(None)
    if ended is not None:
        ended.close()

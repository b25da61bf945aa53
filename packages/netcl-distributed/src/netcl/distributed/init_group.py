"""init_process_group and destroy_process_group: join a group by one of the transports, and leave it."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import entry_points

from netcl.core import config
from netcl.distributed.current import default_group, set_default_group
from netcl.distributed.group import ProcessGroup
from netcl.distributed.local import local_groups
from netcl.distributed.shared import join

__all__ = ["destroy_process_group", "init_process_group"]

ENTRY_POINTS = "netcl.process_groups"
# Variables that the launchers of MPICH and Intel MPI, Open MPI, and Slurm's srun --mpi set.
_MPI_MARKS = ("PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS")


def init_process_group(transport: str | None = None, timeout: float | None = None) -> ProcessGroup:
    """Makes this process a rank of a group, which is then the default group.

    ``transport``: "local" (this process only), "shared" (processes started by ``python -m netcl.distributed.run``),
    "mpi" (processes started by mpiexec; needs mpi4py), or the name of an entry point in ``netcl.process_groups``, a
    function of the timeout that returns a ProcessGroup. None: "shared" or "mpi" if such a launcher started this
    process, else "local". ``timeout``: seconds that a collective waits for the other ranks; None: NETCL_DIST_TIMEOUT_S.

    Raises:
        RuntimeError: this process is in a group already.
        ValueError: there is no such transport.
    """
    present = default_group()
    if present is not None:
        raise RuntimeError(f"this process is in a group already, {present!r}; destroy_process_group() ends it")
    name = transport or _found()
    limit = float(config.get("DIST_TIMEOUT_S")) if timeout is None else float(timeout)
    group = _maker(name)(limit)
    set_default_group(group)
    return group


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
        from netcl.distributed.mpi import MPIGroup

        return MPIGroup
    found = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in found:
        known = ", ".join(["local", "shared", "mpi", *sorted(found)])
        raise ValueError(f"there is no transport {name!r}; there are {known}")
    maker: Callable[[float], ProcessGroup] = found[name].load()
    return maker


def destroy_process_group() -> None:
    """Leaves the group that ``init_process_group`` made; does nothing if there is none."""
    group = default_group()
    set_default_group(None)
    if group is not None:
        group.close()

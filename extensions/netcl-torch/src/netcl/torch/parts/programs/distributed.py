"""torch.distributed: what a program asks before its first collective; collectives are those of netcl.distributed."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from netcl import distributed
from netcl.distributed.in_place import group_of

F = TypeVar("F", bound=Callable[..., Any])
TORCH_NAMES = ("P2POp", "ReduceOp")
Backend = str
default_pg_timeout: timedelta = timedelta(minutes=30)
default_pg_nccl_timeout: timedelta | None = None
reduce_op = distributed.ReduceOp


def default_group() -> Any:
    """Returns the group of this process; raises ValueError if there is none."""
    return group_of(None)


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Makes this process a rank of a group: see ``netcl.distributed.init_process_group``, whose launcher is
    ``python -m netcl.distributed.run -n 2 -m netcl.torch script.py``.
    """
    if distributed.is_initialized():
        raise ValueError("this process is in a group already; destroy_process_group() ends it")
    distributed.init_process_group(
        backend=backend,
        timeout=timeout,
        init_method=init_method,
        world_size=world_size,
        rank=rank,
        store=store,
        device_id=device_id,
    )


def is_nccl_available() -> bool:
    """False; the name is accepted as a backend, and the transport is netcl's."""
    return False


def is_gloo_available() -> bool:
    """True: the transport over the memory of the host is netcl's."""
    return True


def is_mpi_available() -> bool:
    """True if mpi4py is installed."""
    from importlib.util import find_spec

    return find_spec("mpi4py") is not None


def is_ucc_available() -> bool:
    """False; the name is accepted as a backend, and the transport is netcl's."""
    return False


is_xccl_available = is_ucc_available


def is_backend_available(backend: str) -> bool:
    """True for the backends that ``init_process_group`` takes: gloo, nccl, ucc, xccl, and mpi with mpi4py."""
    name = backend.lower()
    return name in ("gloo", "nccl", "ucc", "xccl") or (name == "mpi" and is_mpi_available())


def is_torchelastic_launched() -> bool:
    """True if torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def record(fn: F, error_handler: Any = None) -> F:
    """The function itself: the launcher prints the error of a rank and ends with its exit code."""
    return fn

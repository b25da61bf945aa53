"""Process groups, collectives, and data-parallel training over devices, processes and hosts."""

from __future__ import annotations

from pkgutil import extend_path

try:
    from netcl.siblings import Checked as _Checked
except ModuleNotFoundError:
    raise ImportError(
        "netcl-distributed needs netcl-core, and its files are not there: pip install --force-reinstall netcl-core"
    ) from None

# An extension may add modules.
__path__ = extend_path(__path__, __name__)

with _Checked("distributed"):
    from netcl.distributed.collectives import (
        all_gather,
        all_reduce,
        barrier,
        broadcast,
        gather,
        on_root,
        recv,
        reduce,
        reduce_scatter,
        scatter,
        send,
    )
    from netcl.distributed.current import current_group, get_local_rank, get_rank, get_world_size
    from netcl.distributed.errors import RankFailedError
    from netcl.distributed.group import ProcessGroup
    from netcl.distributed.in_place import (
        ReduceOp,
        all_gather_into_tensor,
        get_backend,
        irecv,
        is_available,
        is_initialized,
        isend,
        new_group,
        reduce_scatter_tensor,
    )
    from netcl.distributed.init_group import destroy_process_group, init_process_group
    from netcl.distributed.objects import (
        all_gather_object,
        broadcast_object_list,
        gather_object,
        scatter_object_list,
    )
    from netcl.distributed.training.data_parallel import (
        DeviceManager,
        broadcast_params,
        prepare_replicas,
        replicate_params,
        shard_batch,
        shard_sizes,
        sync_grads,
    )
    from netcl.distributed.training.parallel import DataParallel
    from netcl.distributed.training.step import data_parallel_step
    from netcl.distributed.training.sync_batchnorm import SyncBatchNorm, convert_sync_batchnorm
    from netcl.distributed.training.train_step import MeanLoss, TrainStep
    from netcl.distributed.transports.local import local_groups, run_on_devices
    from netcl.distributed.work import Work

__all__ = [
    "DataParallel",
    "DeviceManager",
    "MeanLoss",
    "ProcessGroup",
    "RankFailedError",
    "ReduceOp",
    "SyncBatchNorm",
    "TrainStep",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "broadcast_params",
    "convert_sync_batchnorm",
    "current_group",
    "data_parallel_step",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_local_rank",
    "get_rank",
    "get_world_size",
    "init_process_group",
    "irecv",
    "is_available",
    "is_initialized",
    "isend",
    "local_groups",
    "new_group",
    "on_root",
    "prepare_replicas",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "replicate_params",
    "run_on_devices",
    "scatter",
    "scatter_object_list",
    "send",
    "shard_batch",
    "shard_sizes",
    "sync_grads",
]


def __dir__() -> list[str]:
    """Returns the public names, for completion."""
    return sorted(__all__)

"""Process groups, collectives, and data-parallel training over devices, processes and hosts."""

from __future__ import annotations

from netcl.distributed.siblings import Checked as _Checked

with _Checked():
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
    from netcl.distributed.data_parallel import (
        DeviceManager,
        broadcast_params,
        prepare_replicas,
        replicate_params,
        shard_batch,
        shard_sizes,
        sync_grads,
    )
    from netcl.distributed.errors import RankFailedError
    from netcl.distributed.group import ProcessGroup
    from netcl.distributed.init_group import destroy_process_group, init_process_group
    from netcl.distributed.local import local_groups, run_on_devices
    from netcl.distributed.parallel import DataParallel
    from netcl.distributed.step import data_parallel_step
    from netcl.distributed.sync_batchnorm import SyncBatchNorm, convert_sync_batchnorm
    from netcl.distributed.work import Work

__all__ = [
    "DataParallel",
    "DeviceManager",
    "ProcessGroup",
    "RankFailedError",
    "SyncBatchNorm",
    "Work",
    "all_gather",
    "all_reduce",
    "barrier",
    "broadcast",
    "broadcast_params",
    "convert_sync_batchnorm",
    "current_group",
    "data_parallel_step",
    "destroy_process_group",
    "gather",
    "get_local_rank",
    "get_rank",
    "get_world_size",
    "init_process_group",
    "local_groups",
    "on_root",
    "prepare_replicas",
    "recv",
    "reduce",
    "reduce_scatter",
    "replicate_params",
    "run_on_devices",
    "scatter",
    "send",
    "shard_batch",
    "shard_sizes",
    "sync_grads",
]


def __dir__() -> list[str]:
    """The public names, for completion."""
    return sorted(__all__)

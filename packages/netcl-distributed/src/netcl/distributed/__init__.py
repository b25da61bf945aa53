"""Several devices at one model: collectives, replicas of parameters, and the data-parallel step."""

from __future__ import annotations

from netcl.distributed.collectives import all_gather, all_reduce, broadcast, gather, reduce, scatter
from netcl.distributed.data_parallel import (
    DeviceManager,
    broadcast_params,
    prepare_replicas,
    replicate_params,
    shard_batch,
    shard_sizes,
    sync_grads,
)
from netcl.distributed.step import data_parallel_step

__all__ = [
    "DeviceManager",
    "all_gather",
    "all_reduce",
    "broadcast",
    "broadcast_params",
    "data_parallel_step",
    "gather",
    "prepare_replicas",
    "reduce",
    "replicate_params",
    "scatter",
    "shard_batch",
    "shard_sizes",
    "sync_grads",
]

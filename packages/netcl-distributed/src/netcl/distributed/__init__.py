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
    from netcl.distributed.collectives import all_gather as all_gather
    from netcl.distributed.collectives import all_reduce as all_reduce
    from netcl.distributed.collectives import barrier as barrier
    from netcl.distributed.collectives import broadcast as broadcast
    from netcl.distributed.collectives import gather as gather
    from netcl.distributed.collectives import on_root as on_root
    from netcl.distributed.collectives import recv as recv
    from netcl.distributed.collectives import reduce as reduce
    from netcl.distributed.collectives import reduce_scatter as reduce_scatter
    from netcl.distributed.collectives import scatter as scatter
    from netcl.distributed.collectives import send as send
    from netcl.distributed.current import current_group as current_group
    from netcl.distributed.current import get_local_rank as get_local_rank
    from netcl.distributed.current import get_rank as get_rank
    from netcl.distributed.current import get_world_size as get_world_size
    from netcl.distributed.errors import RankFailedError as RankFailedError
    from netcl.distributed.group import ProcessGroup as ProcessGroup
    from netcl.distributed.in_place import ReduceOp as ReduceOp
    from netcl.distributed.in_place import all_gather_into_tensor as all_gather_into_tensor
    from netcl.distributed.in_place import get_backend as get_backend
    from netcl.distributed.in_place import irecv as irecv
    from netcl.distributed.in_place import is_available as is_available
    from netcl.distributed.in_place import is_initialized as is_initialized
    from netcl.distributed.in_place import isend as isend
    from netcl.distributed.in_place import new_group as new_group
    from netcl.distributed.in_place import reduce_scatter_tensor as reduce_scatter_tensor
    from netcl.distributed.init_group import destroy_process_group as destroy_process_group
    from netcl.distributed.init_group import init_process_group as init_process_group
    from netcl.distributed.objects import all_gather_object as all_gather_object
    from netcl.distributed.objects import broadcast_object_list as broadcast_object_list
    from netcl.distributed.objects import gather_object as gather_object
    from netcl.distributed.objects import scatter_object_list as scatter_object_list
    from netcl.distributed.training.data_parallel import DeviceManager as DeviceManager
    from netcl.distributed.training.data_parallel import broadcast_params as broadcast_params
    from netcl.distributed.training.data_parallel import prepare_replicas as prepare_replicas
    from netcl.distributed.training.data_parallel import replicate_params as replicate_params
    from netcl.distributed.training.data_parallel import shard_batch as shard_batch
    from netcl.distributed.training.data_parallel import shard_sizes as shard_sizes
    from netcl.distributed.training.data_parallel import sync_grads as sync_grads
    from netcl.distributed.training.parallel import DataParallel as DataParallel
    from netcl.distributed.training.step import data_parallel_step as data_parallel_step
    from netcl.distributed.training.sync_batchnorm import SyncBatchNorm as SyncBatchNorm
    from netcl.distributed.training.sync_batchnorm import convert_sync_batchnorm as convert_sync_batchnorm
    from netcl.distributed.training.train_step import MeanLoss as MeanLoss
    from netcl.distributed.training.train_step import TrainStep as TrainStep
    from netcl.distributed.transports.local import local_groups as local_groups
    from netcl.distributed.transports.local import run_on_devices as run_on_devices
    from netcl.distributed.work import Work as Work

__all__ = [
    name
    for name, value in globals().items()
    if getattr(value, "__module__", "").startswith("netcl.") and name[0] != "_"
]


def __dir__() -> list[str]:
    """Returns the public names, for completion."""
    return sorted(__all__)

"""ReplicaSet: the replicas of a DataParallel model on the devices of this process, connected to the other ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from netcl.core import Tensor
from netcl.core.device import DeviceHandle, device
from netcl.core.ops_table import dispatch
from netcl.distributed.current import active_group
from netcl.distributed.group import ProcessGroup
from netcl.distributed.reductions import Array
from netcl.distributed.training.load_balancing import LoadBalancer, alike, kind_of
from netcl.distributed.training.no_sync import LocalGradients
from netcl.distributed.training.replicas import Replica, buckets_of, tensors_of
from netcl.distributed.training.sync_batchnorm import SyncBatchNorm
from netcl.distributed.transports.hierarchical import HierarchicalGroup
from netcl.distributed.transports.local import local_groups
from netcl.ops.random import get_rng_state, set_rng_state


class ReplicaSet:
    """A replica of ``module`` on each of ``handles``, and the ``group`` of this process if there are several.

    ``params`` are the trained parameters of the module, ``counts`` the number of devices of each rank; ``balancer``
    splits a batch among the devices of this process, or among ranks of one device each. Values and random state are
    rank 0's after construction.
    """

    def __init__(
        self,
        module: Any,
        params: list[Tensor],
        handles: Sequence[DeviceHandle],
        group: ProcessGroup | None,
        weights: Sequence[float] | None,
        bucket_bytes: int,
        compression: str | None,
    ) -> None:
        self.module: Any = module
        self.params: list[Tensor] = params
        self.group: ProcessGroup | None = group
        self.local = LocalGradients(params, group)
        # The first replica on the module's device shares its tensors.
        queues = [handle.queue for handle in handles]
        home = queues.index(self.params[0].queue) if self.params[0].queue in queues else -1
        self.counts: list[int] = [len(handles)]
        homes, equal = [home], alike(handles)
        if group is not None:
            _equalize(module, group)
            facts = np.asarray(group.all_gather(np.array([[len(handles), home, kind_of(handles[0])]])))
            self.counts, homes, kinds = facts.T.tolist()
            equal = len(set(kinds)) == 1
        self.synchronizes: bool = bool(_synchronized(module))
        self.one_device_per_rank: bool = max(self.counts) == 1
        devices = len(self.counts) if self.one_device_per_rank else len(handles)
        self.balancer = LoadBalancer(devices, weights, equal if self.one_device_per_rank else alike(handles))
        self.bucket_bytes: int = bucket_bytes
        self._compression = compression
        self._at_home = self.one_device_per_rank and min(homes) == 0
        self.replicas: list[Replica] = [Replica(module, handle, at == home) for at, handle in enumerate(handles)]
        self._connect()

    def _connect(self) -> None:
        """Creates the group of the devices, again after one of them failed, and the buckets."""
        group = self.group
        # Twice the timeout: a device that waits for the leader, which waits for other ranks, must not time out first.
        members = local_groups(len(self.replicas), None if group is None else 2 * group.timeout)
        for replica, member in zip(self.replicas, members):
            replica.member = member
            replica.ranks = (
                member
                if group is None
                else group
                if self.one_device_per_rank
                else HierarchicalGroup(member, group, self.counts)
            )
            for layer in _synchronized(replica.module):
                # The layer was given the group of the processes; here it must use the group of all devices.
                if layer.normalize.group is group and not self.one_device_per_rank:
                    layer.normalize = SyncBatchNorm()
            local = member if member.size > 1 else None
            # One device on each rank, which is the module's: the same condition on all ranks.
            exchange = group.exchange(replica.handle) if group is not None and self._at_home else None
            options = self.bucket_bytes, self._compression
            replica.buckets = buckets_of(replica.params, exchange, local, group, *options)
            replica.own_buckets = (
                replica.buckets if group is None else buckets_of(replica.params, None, local, None, *options)
            )

    def changed(self) -> list[list[tuple[Tensor, Array]]]:
        """Returns the tensors that each replica must overwrite, with the changed values of the module; each is
        read once.
        """
        pairs = [replica.changed() for replica in self.replicas]
        needed = {id(theirs): theirs for changes in pairs for _, theirs in changes}
        transfers = {key: theirs.to_host_async() for key, theirs in needed.items()}
        return [[(ours, transfers[id(theirs)].wait()) for ours, theirs in changes] for changes in pairs]

    def threads(self) -> list[ThreadPoolExecutor]:
        """Returns a thread for each replica if there are several."""
        count = len(self.replicas) if len(self.replicas) > 1 else 0
        return [ThreadPoolExecutor(1, f"netcl-device-{at}") for at in range(count)]

    def run_on_all(self, work: Callable[[int], Any], threads: Sequence[ThreadPoolExecutor] = ()) -> list[Any]:
        """Runs ``work(at)`` for all replicas, each with its device and its group, in ``threads`` or in new ones, or in
        this thread if there is only one. Raises the first error, after all threads have ended.
        """
        if len(self.replicas) == 1:
            replica = self.replicas[0]
            with device(replica.handle), active_group(replica.ranks):
                return [work(0)]
        snapshot = dispatch.snapshot()
        errors: list[BaseException] = []

        def run(at: int) -> Any:
            replica = self.replicas[at]
            try:
                with snapshot.active(), device(replica.handle), active_group(replica.ranks):
                    return work(at)
            except BaseException as error:  # noqa: BLE001 - raised again once all threads have ended
                errors.append(error)
                replica.member.fail(error)
                return None

        used = threads or self.threads()
        futures = [thread.submit(run, at) for at, thread in enumerate(used)]
        results = [future.result() for future in futures]
        for thread in () if threads else used:
            thread.shutdown()
        if errors:
            self._connect()
            raise errors[0]
        return results


def _synchronized(module: Any) -> list[Any]:
    """Returns the layers that compute their statistics over all ranks."""
    return [layer for layer in module.modules() if isinstance(getattr(layer, "normalize", None), SyncBatchNorm)]


def _equalize(module: Any, group: ProcessGroup) -> None:
    """Copies the values and the random state of rank 0 to all ranks."""
    for _, tensor in tensors_of(module):
        group.broadcast(tensor)
    state = get_rng_state()
    numbers = np.array([state["seed"], state["offset"]], np.uint64)
    group.broadcast(numbers)
    set_rng_state({"seed": int(numbers[0]), "offset": int(numbers[1])})

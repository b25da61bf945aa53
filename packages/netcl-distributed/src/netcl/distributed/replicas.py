"""Replica: a copy of a module on one device, which follows its changes and passes its gradients on."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from netcl.core import Tensor
from netcl.core.device import DeviceHandle
from netcl.distributed.buckets import Buckets, Span
from netcl.distributed.group import ProcessGroup
from netcl.distributed.local import LocalGroup

if TYPE_CHECKING:
    from netcl.distributed.staged_buckets import StagedBuckets

__all__ = ["Replica", "tensors_of"]


class Replica:
    """The module on one device; on the module's own device it shares its tensors.

    ``member`` is its rank among the devices of the process, ``ranks`` the group of all devices that train the module.
    """

    def __init__(self, module: Any, handle: DeviceHandle, shares: bool) -> None:
        self.handle: DeviceHandle = handle
        self.shares: bool = shares
        self.source = module
        self.module: Any = copy.deepcopy(module)
        originals = dict(tensors_of(module))
        if shares:
            self.module.replace_tensors(lambda name, tensor: originals[name].detach())
        else:
            self.module.to(handle)
        self.params: list[Tensor] = [param for param in self.module.parameters() if param.requires_grad]
        self.member: LocalGroup
        self.ranks: ProcessGroup
        self.buckets: Buckets | StagedBuckets | None = None
        self.spans: list[Span] = []
        self._seen: dict[str, tuple[int, int]] = {}
        for place, param in enumerate(self.params):
            param.register_hook(self._taker(place))

    def _taker(self, place: int) -> Callable[[Tensor], None]:
        def take(grad: Tensor) -> None:
            if self.buckets is not None:
                self.buckets.add(place, grad)

        return take

    def changed(self) -> list[tuple[Tensor, Tensor]]:
        """Copies the training modes of the module; returns pairs (own tensor, tensor of the module) of the
        tensors that have changed since the last call.
        """
        for ours, theirs in zip(self.module.modules(), self.source.modules()):
            ours.training = theirs.training
        found: list[tuple[Tensor, Tensor]] = []
        if self.shares:
            return found
        for (name, theirs), (_, ours) in zip(tensors_of(self.source), tensors_of(self.module)):
            state = id(theirs), theirs.version
            if self._seen.get(name) != state:
                self._seen[name] = state
                found.append((ours, theirs))
        return found

    def write_buffers_back(self) -> None:
        """Copies this replica's buffers, such as running statistics, to the module."""
        pairs = list(zip(self.source.buffers(), self.module.buffers()))
        transfers = [ours.to_host_async() for _, ours in pairs]
        for (theirs, _), transfer in zip(pairs, transfers):
            theirs.write(transfer.wait())


def tensors_of(module: Any) -> list[tuple[str, Tensor]]:
    """Returns parameters and buffers of a module, with their names."""
    return [*module.named_parameters(), *module.named_buffers()]

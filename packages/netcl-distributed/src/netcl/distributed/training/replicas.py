"""Replica: a copy of a module on one device, which follows its changes and passes its gradients on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from netcl import ops
from netcl.autograd.levels import LEVELS
from netcl.core import Tensor
from netcl.core.device import DeviceHandle
from netcl.distributed.group import ProcessGroup
from netcl.distributed.reductions import Array
from netcl.distributed.training.buckets import Buckets, GradientBuckets, Span
from netcl.distributed.transports.local import LocalGroup

if TYPE_CHECKING or "staging" in LEVELS:
    from netcl.distributed.staging.buckets import StagedBuckets


def buckets_of(
    params: Sequence[Tensor],
    exchange: Any,
    local: ProcessGroup | None,
    group: ProcessGroup | None,
    nbytes: int,
    compression: str | None = None,
) -> GradientBuckets | None:
    """Returns buckets that are summed on the devices by ``exchange``, else on the host over ``local`` and ``group``;
    None without a group.
    """
    if exchange is not None and group is not None:
        return StagedBuckets(params, exchange, group, nbytes, compression)
    return None if local is group is None else Buckets(params, local, group, nbytes, compression)


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
        self.buckets: GradientBuckets | None = None
        self.own_buckets: GradientBuckets | None = None  # for gradients that stay on this rank
        self.taking: GradientBuckets | None = None  # of the running pass
        self.carried: dict[int, Tensor] = {}  # gradients of earlier passes that this pass sends too
        self.spans: list[Span] = []
        self._seen: dict[str, tuple[int, int]] = {}
        for place, param in enumerate(self.params):
            param.register_hook(self._taker(place))

    def _taker(self, place: int) -> Callable[[Tensor], None]:
        def take(grad: Tensor) -> None:
            if self.taking is not None:
                kept = self.carried.pop(place, None)
                self.taking.add(place, grad if kept is None else ops.add(grad, kept.to(grad.queue)))

        return take

    def begin(self, syncs: bool, carried: dict[int, Tensor]) -> None:
        """Prepares a backward pass; ``syncs``: its gradients, and the carried ones, are summed over the ranks."""
        self.taking = self.buckets if syncs else self.own_buckets
        self.carried = dict(carried)
        if self.taking is not None:
            self.taking.begin()

    def finish(self, span: Span) -> Sequence[Array | Tensor | None] | None:
        """Returns the sums of the pass, or None if its gradients are this device's own; ``span`` is the pass's."""
        if self.taking is None:
            return None
        for place, grad in self.carried.items():  # without a gradient in this pass
            self.taking.add(place, grad.to(self.handle.queue))
        self.carried = {}
        sums = self.taking.finish()
        self.spans = [*self.taking.spans, span]
        return sums

    def totals(self, sums: Sequence[Array | Tensor | None] | None, params: Sequence[Tensor]) -> list[Tensor | None]:
        """Returns what ``finish`` has returned as gradients of ``params``, on their device; for None the gradients of
        this device.
        """
        if sums is None:
            return [param.grad for param in self.params]
        return [
            total if total is None or isinstance(total, Tensor) else Tensor.from_host(param.queue, total, param.dtype)
            for param, total in zip(params, sums)
        ]

    def follow(self) -> None:
        """Copies the training modes of the module."""
        for ours, theirs in zip(self.module.modules(), self.source.modules()):
            ours.training = theirs.training

    def changed(self) -> list[tuple[Tensor, Tensor]]:
        """Copies the training modes of the module; returns pairs (own tensor, tensor of the module) of the
        tensors that have changed since the last call.
        """
        self.follow()
        changed: list[tuple[Tensor, Tensor]] = []
        if self.shares:
            return changed
        for (name, theirs), (_, ours) in zip(tensors_of(self.source), tensors_of(self.module)):
            state = id(theirs), theirs.version
            if self._seen.get(name) != state:
                self._seen[name] = state
                changed.append((ours, theirs))
        return changed

    def write_buffers_back(self) -> None:
        """Copies this replica's buffers, such as running statistics, to the module."""
        pairs = list(zip(self.source.buffers(), self.module.buffers()))
        transfers = [ours.to_host_async() for _, ours in pairs]
        for (theirs, _), transfer in zip(pairs, transfers):
            theirs.write(transfer.wait())


def tensors_of(module: Any) -> list[tuple[str, Tensor]]:
    """Returns parameters and buffers of a module, with their names."""
    return [*module.named_parameters(), *module.named_buffers()]

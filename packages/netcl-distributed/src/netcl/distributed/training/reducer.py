"""Reducer: averages the gradients of a model over the ranks while its backward pass continues, whatever its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.autograd.backward import queue_callback
from netcl.core import Tensor
from netcl.distributed.group import ProcessGroup
from netcl.distributed.training.no_sync import NoSync
from netcl.distributed.training.replicas import buckets_of
from netcl.distributed.training.wire import check_compression

if TYPE_CHECKING:
    from netcl.distributed.staging.exchange import StagedExchange


class Reducer(NoSync):
    """Replaces ``grad`` of ``params`` by its mean over the ranks of ``group`` at the end of each backward pass, as
    DistributedDataParallel of PyTorch does.

    Each rank calls its own model with its own inputs, and each rank counts the same. A bucket of ``nbytes`` is sent
    when all of its gradients are known. A parameter without a gradient counts as zero if another rank has one; if none
    has, its ``grad`` is not changed. ``at_end``: all buckets are sent at the end of the pass, so that a parameter may
    get its gradient in several parts, as layers in several checkpoints do.
    """

    def __init__(
        self,
        params: Sequence[Tensor],
        group: ProcessGroup,
        nbytes: int,
        compression: str | None = None,
        at_end: bool = False,
    ) -> None:
        check_compression(compression)
        self._params, self._group, self._at_end = list(params), group, at_end
        self._buckets: Any = buckets_of(self._params, self._exchange(), None, group, nbytes, compression)
        self._known: set[int] = set()
        self._running = False
        self._expected = 0  # backward passes of calls outside of ``no_sync``
        self._hooks = [
            param.register_post_accumulate_grad_hook(partial(self._take, place))
            for place, param in enumerate(self._params)
        ]

    def _exchange(self) -> StagedExchange | None:
        """Returns the exchange between the devices of the ranks, if each has its parameters on one device."""
        queues = {id(param.queue) for param in self._params}
        fits = self._group.all_gather(np.array([len(queues) == 1], np.int32))
        return self._group.exchange(self._params[0].device) if fits.all() else None

    def prepare(self) -> None:
        """Expects the backward pass of a call of the model, unless it is inside ``no_sync``; a pass of the module
        itself, which has not called this function, leaves its gradients on this rank.
        """
        self._expected = self._expected + 1 if self.synchronizes else 0
        self._running = False  # also if a pass has raised before its end

    def _take(self, place: int, param: Tensor) -> None:
        if not self._expected or param.grad is None:
            return
        if not self._running:
            self._running = True
            self._known = set()
            self._buckets.begin()
            queue_callback(self._finish)
        if self._at_end:
            return
        if place in self._known:
            raise RuntimeError(
                f"DistributedDataParallel: parameter {place} of shape {param.shape} got its gradient twice in one "
                "backward pass, as a layer in several checkpoints does; write static_graph=True, which sends the "
                "gradients at the end of the pass"
            )
        self._known.add(place)
        self._buckets.add(place, param.grad)

    def _finish(self) -> None:
        self._running = False
        self._expected = max(self._expected - 1, 0)
        for place, param in enumerate(self._params):
            # With ``at_end``, or without a gradient in this pass and with one of an earlier pass.
            if place not in self._known and param.grad is not None:
                self._buckets.add(place, param.grad)
        for param, total in zip(self._params, self._buckets.finish()):
            if total is not None:
                dtype = param.dtype if param.grad is None else param.grad.dtype
                mean = total / self._group.size
                param.grad = mean if isinstance(mean, Tensor) else Tensor.from_host(param.queue, mean, dtype)

    def remove(self) -> None:
        """Ends the reduction: later backward passes leave the gradients of this rank in ``grad``."""
        for hook in self._hooks:
            hook.remove()

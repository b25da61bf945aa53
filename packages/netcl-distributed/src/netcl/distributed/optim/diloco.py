"""DiLoCo: many local steps on each rank, then one outer step on the mean of the changes, for slow links."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import netcl.autograd as ag
from netcl import ops
from netcl.core import Tensor
from netcl.distributed.collectives import _group
from netcl.distributed.flat import move_flat
from netcl.distributed.group import ProcessGroup
from netcl.distributed.optim.periodic_averaging import WrappedOptimizer
from netcl.distributed.training.wire import all_reduce_compressed, check_compression
from netcl.optim import SGD, Optimizer


class DiLoCo(WrappedOptimizer):
    """Takes steps of ``optim`` on each rank alone, and an outer step on all of them every ``sync_every`` steps
    (Douillard et al. 2023).

    The outer gradient is the mean over the ranks of ``anchor - parameter``, the change since the last outer step.
    Gradient descent with ``outer_lr``, ``outer_momentum`` and ``nesterov`` moves the anchors by it, and the parameters
    continue from the anchors. With ``outer_lr=1, outer_momentum=0, nesterov=False`` this is local SGD: the parameters
    are averaged. The defaults are the paper's. A rank sends its parameters once in ``sync_every`` steps, in one
    collective for each dtype, and has a copy of the parameters and the outer momentum in memory.

    The model is not wrapped in DataParallel: the gradients of the ranks stay local. The constructor copies the
    parameters of rank 0 to all ranks. The state of ``optim`` stays on its rank. ``compression`` "bfloat16" or "float16"
    sends the changes in that dtype, with the same errors as in ``DataParallel``. ``process_group`` None: the group of
    this thread or process.

        >>> import numpy as np, netcl.autograd as ag
        >>> from netcl.optim import AdamW
        >>> p = ag.Parameter(np.ones(2, np.float32))
        >>> optimizer = DiLoCo(AdamW([p], lr=0.1), sync_every=50)
        >>> p.sum().backward()
        >>> optimizer.step()
        >>> optimizer.local_steps
        1
    """

    def __init__(
        self,
        optim: Optimizer,
        sync_every: int = 500,
        outer_lr: float = 0.7,
        outer_momentum: float = 0.9,
        nesterov: bool = True,
        process_group: ProcessGroup | None = None,
        *,
        compression: str | None = None,
    ) -> None:
        super().__init__(optim)
        if sync_every < 1:
            raise ValueError(f"expected sync_every of at least 1, got {sync_every}")
        check_compression(compression)
        self.sync_every: int = sync_every
        self.local_steps: int = 0
        self.group: ProcessGroup = _group(process_group)
        self._compression = compression
        self._anchors: list[Tensor] = []
        move_flat(self.group.broadcast, self._trained())
        self._anchors = [ag.Parameter(_copy(p)) for p in self._trained()]
        self.outer: SGD = SGD(self._anchors, lr=outer_lr, momentum=outer_momentum, nesterov=nesterov)

    def _trained(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"] if p.requires_grad]

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Adds a group to the wrapped optimizer, at the begin of a period; raises RuntimeError within one."""
        if self.local_steps % self.sync_every:
            raise RuntimeError("add_param_group: the ranks are within a period; add the group after an outer step")
        self.optim.add_param_group(group)
        added = [p for p in self.param_groups[-1]["params"] if p.requires_grad]
        for p in added:
            self.group.broadcast(p)
        copies = [ag.Parameter(_copy(p)) for p in added]
        self._anchors += copies
        if copies:
            self.outer.add_param_group({"params": copies})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Takes a local step, and at the end of a period the outer step; returns the loss of ``closure``."""
        loss = self._local_step(closure)
        self.local_steps += 1
        if self.local_steps % self.sync_every == 0:
            self.sync()
        return loss

    def sync(self) -> None:
        """Takes the outer step now; all ranks call it."""
        params = self._trained()
        grads = [ops.sub(anchor.detach(), p.detach()) for anchor, p in zip(self._anchors, params)]
        move_flat(all_reduce_compressed, grads, "mean", self.group, self._compression)
        for anchor, grad in zip(self._anchors, grads):
            anchor.grad = grad
        self.outer.step()
        self.outer.zero_grad()
        for anchor, p in zip(self._anchors, params):
            p.write(anchor.detach())

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the wrapped optimizer, of this rank, and under "outer" the anchors, the state of the
        outer optimizer and the number of local steps.

        A run that is saved right after an outer step continues on any number of ranks from the state of one of them;
        within a period each rank saves its own state and its own parameters.
        """
        outer = {
            "optimizer": self.outer.state_dict(),
            "anchors": [anchor.detach() for anchor in self._anchors],
            "local_steps": self.local_steps,
        }
        return {**self.optim.state_dict(), "outer": outer}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restores a state; raises ValueError if it is none of DiLoCo or has other numbers of parameters."""
        outer = state_dict.get("outer")
        if not isinstance(outer, Mapping) or len(outer["anchors"]) != len(self._anchors):
            raise ValueError(f"DiLoCo: the state has no outer state of {len(self._anchors)} parameters")
        self.outer.check_state_dict(outer["optimizer"])
        self.optim.load_state_dict({name: value for name, value in state_dict.items() if name != "outer"})
        self.outer.load_state_dict(outer["optimizer"])
        for anchor, value in zip(self._anchors, outer["anchors"]):
            anchor.write(value)
        self.local_steps = int(outer["local_steps"])


def _copy(p: Tensor) -> Tensor:
    made: Tensor = Tensor.empty(p.shape, p.dtype, queue=p.queue, persistent=True).write(p.detach())
    return made

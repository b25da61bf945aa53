"""QueueContext: the part of an OpenCL engine that runs expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from netcl.core.backend.opencl.queue.launch import Launcher
    from netcl.core.backend.opencl.queue.transfer import Transfer
    from netcl.core.expr.schedule import Target
    from netcl.core.memory.pools import PersistentBufferPool


class QueueContext(Protocol):
    """A command queue with its launcher, buffers and plans.

    ``plans`` are execution plans (``execution_plan.py``), made for ``target`` and built with ``build_options``.
    ``override_pools`` has by thread the pool of its new tensors, if it is not ``pool``.
    """

    queue: Any
    context: Any
    launcher: Launcher
    transfer: Transfer
    pool: PersistentBufferPool
    target: Target
    build_options: str
    plans: dict[Any, Any]
    override_pools: dict[int, Any]

    @property
    def flag(self) -> Any:
        """The int[8] for kernels' reports of a failed check; reading this property marks a check as pending."""
        ...

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        """Returns a new tensor of undefined content."""
        ...

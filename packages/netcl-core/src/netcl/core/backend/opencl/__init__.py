"""The OpenCL backend: the engine of a command queue, and what finishes queues at exit, interrupts and forks."""

from __future__ import annotations

from netcl.core.backend.opencl.engine import OpenCLBackend
from netcl.core.backend.opencl.queue.shutdown import _after_fork_in_child as _after_fork_in_child
from netcl.core.backend.opencl.queue.shutdown import _before_fork as _before_fork
from netcl.core.backend.opencl.queue.shutdown import (
    install_sigint_handler,
    interruptible_finish,
    register_queue_for_cleanup,
)

__all__ = ["OpenCLBackend", "install_sigint_handler", "interruptible_finish", "register_queue_for_cleanup"]

"""Page-locked memory of the host for gradients that a group sums on the host, such as one over MPI."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from netcl.core import Tensor, config
from netcl.core.errors import OutOfMemoryError
from netcl.distributed.reductions import Array
from netcl.distributed.training.bucket_memory import BucketMemory
from netcl.runtime.staging import Pending, Staging, mark, order_after


class LockedMemory(BucketMemory):
    """BucketMemory that is page-locked, of parameters of one device and of NumPy's dtypes.

    Gradients are copied into it, and sums out of it, on queues of their own: this thread waits for neither, and neither
    waits for more than the work that computes the gradient.
    """

    def _allocated(self, nbytes: int) -> Array:
        self._queue = self._params[0].queue
        self._staging = Staging(self._queue, nbytes)
        self._read: list[Pending] = []
        # Not at the end of the process, when the driver may have ended.
        weakref.finalize(self, self._staging.close).atexit = False
        return self._staging.array

    def receive(self, place: int, grad: Tensor) -> Pending:
        """Begins the copy of the gradient of parameter number ``place``; ``grad`` is kept until it has ended."""
        if grad.dtype != self._params[place].dtype:
            grad = grad.astype(self._params[place].dtype)
        return self._staging.download(grad, 0, grad.size, self._starts[place], [mark(self._queue)])

    def arrive(self, place: int, copy: Pending | None) -> None:
        """Waits until a gradient is in the memory; None for ``copy``: it has zeros there."""
        if copy is None:
            self._parts[place][...] = 0
        else:
            copy.wait()

    def send_back(self, place: int) -> Tensor:
        """Returns a tensor that has the sum of parameter number ``place``: later work of the queue runs after its
        copy.
        """
        param = self._params[place]
        total = Tensor.empty(param.shape, param.dtype, queue=self._queue)
        copied = self._staging.upload(total, 0, total.size, self._starts[place], [mark(self._queue)])
        order_after(self._queue, [copied])
        self._read.append(copied)
        return total

    def reuse(self) -> None:
        """Waits until all sums have been copied."""
        for copied in self._read:
            copied.wait()
        self._read = []


def locked_memory(params: Sequence[Tensor], buckets: Sequence[Sequence[int]]) -> LockedMemory | None:
    """Returns page-locked memory for gradients, by the rule of NETCL_DIST_STAGING; None if the parameters are on
    several devices or of a dtype that NumPy lacks, or the driver refuses so much memory.
    """
    one_device = len({id(param.queue) for param in params}) == 1
    if not one_device or any(param.dtype == "bfloat16" for param in params):
        return None
    staged = config.get("DIST_STAGING")
    if staged == "off" or (staged == "auto" and params[0].device.device_type != "gpu"):
        return None
    try:
        return LockedMemory(params, buckets)
    except (OutOfMemoryError, RuntimeError) as error:
        config.get_logger().warning("gradients pass over pageable memory: page-locked memory was refused %s", error)
        return None

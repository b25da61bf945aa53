"""Interprets arguments of the Trainer: the queue of the model, half precision, steps per epoch, eval mode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from netcl import nn
from netcl.core import DeviceHandle, Tensor
from netcl.core.device import get_active_device
from netcl.core.dtypes import canonical
from netcl.core.errors import BackendMismatchError, DTypeError

__all__ = ["evaluating", "half_dtype", "queue_of", "updates_per_epoch"]


def queue_of(queue_or_handle: Any, parameters: Sequence[Tensor]) -> Any:
    """Returns the queue of the model; raises BackendMismatchError if ``given`` is another one."""
    if callable(queue_or_handle) or isinstance(queue_or_handle, str):
        raise TypeError(f"device_queue must be a queue or DeviceHandle, got {queue_or_handle!r}; a loss is loss_fn=...")
    queue = queue_or_handle.queue if isinstance(queue_or_handle, DeviceHandle) else queue_or_handle
    if not parameters:
        return queue if queue is not None else get_active_device().queue
    first = parameters[0]
    if queue is not None and queue is not first.queue:
        raise BackendMismatchError(
            f"the model's parameters are on {first.device.device_name}, device_queue is another: make the model inside "
            "`with device(...)`, or move it with model.to(device) before making the optimizer"
        )
    return first.queue


def updates_per_epoch(loader: Iterable[Any], group: int) -> int | None:
    """Returns the updates per epoch; None if the loader has no length."""
    try:
        return -(-len(loader) // group)  # type: ignore[arg-type]
    except TypeError:
        return None


def half_dtype(mixed_precision: bool | str) -> str | None:
    """Returns the dtype of autocast; None without autocast."""
    if mixed_precision is False:
        return None
    dtype = "float16" if mixed_precision is True else canonical(mixed_precision)
    if dtype not in ("float16", "bfloat16"):
        raise DTypeError(f"mixed_precision must be False, True, 'float16' or 'bfloat16', got {mixed_precision!r}")
    return dtype


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Sets eval mode inside the block; afterwards each module has its previous mode."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode

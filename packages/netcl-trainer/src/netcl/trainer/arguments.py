"""What the Trainer makes of its arguments: the queue of the model, half precision, steps per epoch, eval mode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from netcl import nn
from netcl.core import DeviceHandle, Tensor
from netcl.core.device import get_active_device
from netcl.core.dtypes import canonical
from netcl.core.errors import BackendMismatchError, DTypeError

__all__ = ["evaluating", "half_dtype", "queue_of", "steps_of"]


def queue_of(given: Any, parameters: Sequence[Tensor]) -> Any:
    """The queue of the model; BackendMismatchError where ``given`` is another."""
    wanted = given.queue if isinstance(given, DeviceHandle) else given
    if not parameters:
        return wanted if wanted is not None else get_active_device().queue
    first = parameters[0]
    if wanted is not None and wanted is not first.queue:
        raise BackendMismatchError(
            f"the model's parameters are on {first.device.device_name}, device_queue is another: make the model inside "
            "`with device(...)`, or move it with model.to(device) before making the optimizer"
        )
    return first.queue


def steps_of(loader: Iterable[Any], group: int) -> int | None:
    """Updates per epoch; None where the loader does not know its length."""
    try:
        return -(-len(loader) // group)  # type: ignore[arg-type]
    except TypeError:
        return None


def half_dtype(mixed_precision: bool | str) -> str | None:
    """The dtype of autocast; None where nothing is cast."""
    if mixed_precision is False:
        return None
    dtype = "float16" if mixed_precision is True else canonical(mixed_precision)
    if dtype not in ("float16", "bfloat16"):
        raise DTypeError(f"mixed_precision is False, True, 'float16' or 'bfloat16', not {mixed_precision!r}")
    return dtype


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode for the block; afterwards each module has the mode it had."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode

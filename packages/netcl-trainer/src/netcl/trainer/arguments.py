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


def device_of(model: Any) -> DeviceHandle | None:
    """Returns the device of the model's first parameter; None if it has none."""
    first = next(iter(model.parameters()), None)
    return None if first is None else first.device


def updates_per_epoch(loader: Iterable[Any], group: int) -> int | None:
    """Returns the updates per epoch; None if the loader has no length."""
    try:
        return -(-len(loader) // group)  # type: ignore[arg-type]
    except TypeError:
        return None


# Lightning's words for the precision of a run; None: float32 alone.
_PRECISIONS = {
    "32": None,
    "32-true": None,
    "16": "float16",
    "16-mixed": "float16",
    "fp16": "float16",
    "bf16": "bfloat16",
    "bf16-mixed": "bfloat16",
}


def half_dtype(mixed_precision: bool | str, precision: str | int | None = None) -> str | None:
    """Returns the dtype of autocast; None without autocast. ``precision`` is the same choice in Lightning's words.

    Raises DTypeError for another word, ValueError if both are given.
    """
    if precision is not None:
        if mixed_precision is not False:
            raise ValueError(f"give precision={precision!r} or mixed_precision={mixed_precision!r}, not both")
        if str(precision) not in _PRECISIONS:
            others = "; make the model with dtype='float64' in place of it" if str(precision).startswith("64") else ""
            raise DTypeError(
                f"precision: expected one of {', '.join(map(repr, _PRECISIONS))}, got {precision!r}{others}"
            )
        return _PRECISIONS[str(precision)]
    if mixed_precision is False:
        return None
    given = "float16" if mixed_precision is True else _PRECISIONS.get(str(mixed_precision)) or mixed_precision
    try:
        dtype = canonical(given)
    except DTypeError:
        dtype = ""
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

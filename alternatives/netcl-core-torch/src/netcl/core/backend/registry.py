"""The engines of queues and tensors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from netcl.core.backend.protocol import DeviceBackend
from netcl.core.device import DeviceHandle, Queue, get_active_device, manager
from netcl.core.errors import BackendMismatchError, UnsupportedError

__all__ = [
    "cpu_engine",
    "engine_for",
    "ensure_same_backend",
    "get_backend",
    "is_opencl",
    "is_queue",
    "register_backend",
]

_lock = threading.Lock()


def engine_for(queue: Any = None) -> DeviceBackend:
    """The engine of a queue or DeviceHandle, made at first use; None is the active device."""
    if queue is None:
        queue = get_active_device()
    found = getattr(getattr(queue, "queue", queue), "engine", None)
    if found is not None:
        return found  # type: ignore[no-any-return]
    with _lock:
        handle = queue if isinstance(queue, DeviceHandle) else manager.default(queue)
        assert handle is not None
        if handle.queue.engine is None:
            handle.queue.engine = DeviceBackend(handle)
        return handle.queue.engine  # type: ignore[no-any-return]


def cpu_engine() -> DeviceBackend:
    """The engine of PyTorch's CPU device."""
    return engine_for(manager.default("cpu"))


def get_backend(tensor: Any) -> DeviceBackend:
    """The engine that computes on ``tensor``."""
    return tensor.engine  # type: ignore[no-any-return]


def ensure_same_backend(tensors: Iterable[Any], op: str = "") -> DeviceBackend:
    """The one engine of all ``tensors``; BackendMismatchError names the devices if they differ."""
    engines = list(dict.fromkeys(tensor.engine for tensor in tensors))
    if len(engines) > 1:
        labels = ", ".join(engine.device_label for engine in engines)
        raise BackendMismatchError(f"{op or 'op'}: tensors are on {labels}; move them with x.to(device)", op=op or None)
    return engines[0]


def is_opencl(tensor: Any) -> bool:
    """False: no data are in OpenCL buffers."""
    return False


def is_queue(value: object) -> bool:
    """True if ``value`` names a device or queue."""
    return isinstance(value, (DeviceHandle, Queue))


def register_backend(name: str, factory: Callable[[Any], Any]) -> None:
    """UnsupportedError: the devices of this core are PyTorch's."""
    raise UnsupportedError(
        f"register_backend({name!r}): this netcl-core has PyTorch's devices only; install the netcl-core of OpenCL"
    )

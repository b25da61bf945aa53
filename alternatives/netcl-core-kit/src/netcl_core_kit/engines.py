"""The engines of queues and tensors.

A core tells by ``use_engine`` the class of its engines, whose objects it makes of a handle.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from netcl_core_kit.device import DeviceHandle, Queue, get_active_device, manager
from netcl_core_kit.errors import BackendMismatchError, UnsupportedError

__all__ = [
    "cpu_engine",
    "engine_for",
    "ensure_same_backend",
    "get_backend",
    "is_opencl",
    "is_queue",
    "register_backend",
    "use_engine",
]

_lock = threading.Lock()
_engine: list[Any] = []


def use_engine(engine: Callable[[DeviceHandle], Any]) -> None:
    """Tells the class of the engines of a core."""
    _engine[:] = [engine]


def engine_for(queue: Any = None) -> Any:
    """The engine of a queue or DeviceHandle, made at first use; None is the active device."""
    if queue is None:
        queue = get_active_device()
    found = getattr(getattr(queue, "queue", queue), "engine", None)
    if found is not None:
        return found
    with _lock:
        handle = queue if isinstance(queue, DeviceHandle) else manager.default(queue)
        if handle is None:
            raise manager._unknown(queue)
        if handle.queue.engine is None:
            handle.queue.engine = _engine[0](handle)
        return handle.queue.engine


def cpu_engine() -> Any:
    """The engine of the CPU."""
    return engine_for(manager.default("cpu"))


def get_backend(tensor: Any) -> Any:
    """The engine that computes on ``tensor``."""
    return tensor.engine


def ensure_same_backend(tensors: Iterable[Any], op: str = "") -> Any:
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
    """UnsupportedError: the devices of this core are those that it finds."""
    raise UnsupportedError(
        f"register_backend({name!r}): this netcl-core has devices of its own only; install the netcl-core of OpenCL"
    )

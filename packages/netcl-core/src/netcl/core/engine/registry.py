"""The engine of each queue: backends by name, one engine per queue, one engine per operation."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from netcl.core.device.discovery import CPUQueue, DeviceHandle, Queue, get_active_device, manager
from netcl.core.errors import BackendMismatchError, DeviceNotFoundError

if TYPE_CHECKING:
    from netcl.core.engine.protocol import DeviceBackend
    from netcl.core.storage.data import TensorData

Factory = Callable[[Any], "DeviceBackend"]


def _lazily(module: str, name: str) -> Factory:
    return lambda queue: getattr(importlib.import_module(module), name)(queue)


_factories: dict[str, Factory] = {
    "cl": _lazily("netcl.core.backend.opencl", "OpenCLBackend"),
    "cpu": _lazily("netcl.core.backend.cpu", "CPUBackend"),
    "meta": _lazily("netcl.core.backend.meta", "MetaBackend"),
}
_engines: dict[Any, DeviceBackend] = {}
_lock = threading.RLock()


def register_backend(name: str, factory: Factory) -> None:
    """Makes ``factory(queue)`` the backend of queues with the ``backend`` attribute ``name``.

    If the factory has ``devices()``, a list of DeviceHandles, the manager finds them by the selectors ``name`` and
    ``name:n``. A distribution does the same by an entry point of the group ``netcl.backends``.
    """
    if hasattr(factory, "devices"):
        _plugins().add(name, factory)
    with _lock:
        _factories[name] = factory


def _factory(name: str) -> Factory:
    if name not in _factories:
        for plugin, factory, _ in _plugins().find().values():
            _factories.setdefault(plugin, factory)
    if name not in _factories:
        problem = _plugins().problems().get(name)
        why = f" ({problem})" if problem else ""
        raise DeviceNotFoundError(f"no backend {name!r}{why}; there are {', '.join(sorted(_factories))}")
    return _factories[name]


def _plugins() -> Any:
    return importlib.import_module("netcl.core.device.plugins")


def engine_for(queue: Any = None) -> DeviceBackend:
    """Returns the engine of a queue or DeviceHandle, made at first use; None is the active device."""
    if queue is None:
        queue = get_active_device().queue
    elif isinstance(queue, DeviceHandle):
        queue = queue.queue
    engine = _engines.get(queue)
    if engine is None:
        with _lock:
            engine = _engines.get(queue)
            if engine is None:
                engine = _engines[queue] = _factory(getattr(queue, "backend", "cl"))(queue)
    return engine


def engines() -> list[DeviceBackend]:
    """Returns the engines that have been made."""
    with _lock:
        return list(_engines.values())


def cpu_engine() -> DeviceBackend:
    """Returns the engine of the process's NumPy queue."""
    return engine_for(manager.default("numpy"))


def is_queue(value: object) -> bool:
    """True if ``value`` names a device or queue: a DeviceHandle, an OpenCL command queue, or a queue of a backend."""
    if isinstance(value, (DeviceHandle, CPUQueue)) or type(value).__name__ == "CommandQueue":
        return True
    # Arrays and lists have no backend; the check of the protocol takes microseconds.
    return isinstance(getattr(value, "backend", None), str) and isinstance(value, Queue)


def get_backend(tensor: TensorData) -> DeviceBackend:
    """Returns the engine that computes on ``tensor``."""
    return tensor.engine  # type: ignore[no-any-return]


def is_opencl(tensor: TensorData) -> bool:
    """True if the data of ``tensor`` are in an OpenCL buffer."""
    return bool(tensor.engine.name == "cl")


def ensure_same_backend(tensors: Iterable[TensorData], op: str = "") -> DeviceBackend:
    """Returns the one engine of all ``tensors``; BackendMismatchError names the devices where they differ."""
    engines: list[DeviceBackend] = list(dict.fromkeys(tensor.engine for tensor in tensors))
    if len(engines) != 1:
        places = " and ".join(engine.device_label for engine in engines)
        raise BackendMismatchError(
            f"{op or 'operation'}: operands live on {places or 'no device'}; move them together with tensor.to(device)",
            op=op,
        )
    return engines[0]

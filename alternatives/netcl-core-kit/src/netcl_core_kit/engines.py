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
    "EngineBase",
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


class EngineBase:
    """What computes on one queue, without what it computes: the device's names, and the errors that checks on the device
    have reported. ``failed(holds, values, size)`` of a core is the position, the value and the size of the first element
    for which ``holds`` is false, None if it is true for all.
    """

    context: Any = None
    device_label: str = ""
    name: str = ""
    queue: Any = None

    def __init__(self, handle: DeviceHandle) -> None:
        self.handle = handle
        self.queue = handle.queue
        self.name = handle.backend
        self.place = handle.queue.place
        self.device_label = f"{handle.device_name} ({handle.selector})"
        self._codes: list[tuple[str, type[Exception]]] = []
        self._reported: list[tuple[Any, int, Any, Any]] = []
        self._lock = threading.Lock()

    def failed(self, holds: Any, values: Any, size: Any) -> tuple[int, Any, int] | None:
        """The position, the value and the size of the first failure."""
        raise NotImplementedError

    def flag_code(self, message: str, error: type[Exception] = IndexError) -> int:
        """The code under which a check raises ``error(message)`` at the next host read."""
        with self._lock:
            if (message, error) not in self._codes:
                self._codes.append((message, error))
            return self._codes.index((message, error)) + 1

    def report(self, holds: Any, code: int, values: Any, size: Any) -> None:
        """Notes a check: where ``holds`` is false the error of ``code`` is raised at the next host read."""
        if self.place.type == "cpu" and bool(holds.all()):
            return
        with self._lock:
            self._reported.append((holds, code, values, size))
        if len(self._reported) > 256:
            self.raise_reported()

    def checks(self) -> int:
        """The number of checks that are noted."""
        return len(self._reported)

    def forget(self, checks: int) -> None:
        """Forgets the checks noted after the first ``checks``."""
        with self._lock:
            del self._reported[checks:]

    def raise_reported(self) -> None:
        """Raises the error of the first check that did not hold."""
        if not self._reported:
            return
        with self._lock:
            reported, self._reported = self._reported, []
        for holds, code, values, size in reported:
            found = self.failed(holds, values, size)
            if found is not None:
                position, value, length = found
                message, error = self._codes[code - 1]
                raise error(message.format(value=value, position=position, size=length, last=length - 1))

    def describe(self, program: Any, shapes: Any) -> list[Any]:
        """The kernels of a program: none."""
        return []


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

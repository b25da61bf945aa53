"""Devices of PyTorch as devices of netcl: handles, queues, selectors, the active device of a thread."""

from __future__ import annotations

import platform
import threading
from collections.abc import Iterable
from typing import Any

import torch

from netcl.core import config
from netcl.core.device_profile import DeviceProfile, profile_of
from netcl.core.errors import DeviceNotFoundError

__all__ = [
    "CPUQueue", "DeviceHandle", "DeviceManager", "Queue", "device", "drivers_loaded", "get_active_device",
    "get_default_device", "manager", "set_default_device", "use_pytorch_names",
]  # fmt: skip


class Queue:
    """The work of one device of PyTorch, in the order of its calls."""

    def __init__(self, place: torch.device) -> None:
        self.place = place
        self.backend = place.type
        self.handle: Any = None
        self.engine: Any = None

    def finish(self) -> None:
        """Waits for all work of the device."""
        if self.place.type != "cpu":
            getattr(torch, self.place.type).synchronize()


class CPUQueue(Queue):
    """The queue of PyTorch's CPU device, where work is complete when the call returns."""

    def __init__(self, place: torch.device | None = None) -> None:
        super().__init__(place or torch.device("cpu"))


class DeviceHandle:
    """A device with its queue; ``context, queue = handle`` unpacks the two. ``backend`` is PyTorch's type of device."""

    device: Any = None

    def __init__(
        self, platform_name: str, device_name: str, backend: str, device_type: str, context: Any, queue: Any
    ) -> None:
        self.platform_name, self.device_name = platform_name, device_name
        self.backend, self.device_type = backend, device_type
        self.context, self.queue = context, queue
        queue.handle = self

    def __iter__(self) -> Any:
        return iter((self.context, self.queue))

    def __eq__(self, other: object) -> bool:
        return other == self if isinstance(other, _Scope) else self is other

    __hash__ = object.__hash__

    @property
    def index(self) -> int | None:
        """With ``use_pytorch_names`` the number of a GPU among the GPUs, else None."""
        return self.queue.place.index if _names.pytorch and self.device_type == "gpu" else None

    @property
    def profile(self) -> DeviceProfile:
        """The capabilities of the device."""
        return profile_of(self)

    @property
    def selector(self) -> str:
        """A selector that finds this device in other processes of this machine too."""
        place = self.queue.place
        return "cpu" if place.type == "cpu" else f"{place.type}:{place.index or 0}"

    @property
    def type(self) -> str:
        """``device_type``; with ``use_pytorch_names``, "cuda" for a GPU."""
        return "cuda" if _names.pytorch and self.device_type == "gpu" else self.device_type

    def __repr__(self) -> str:
        return f"DeviceHandle({self.selector}: {self.device_name})"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _handle(place: torch.device) -> DeviceHandle:
    if place.type == "cpu":
        return DeviceHandle("PyTorch", _processor(), "cpu", "cpu", None, CPUQueue(place))
    found = getattr(torch, place.type)
    name = found.get_device_name(place.index) if hasattr(found, "get_device_name") else place.type
    return DeviceHandle("PyTorch", name, place.type, "gpu", None, Queue(place))


class _Names:
    pytorch = False


_names = _Names()


class DeviceManager:
    """Finds PyTorch's devices and keeps one handle for each; all methods are thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._all: list[DeviceHandle] | None = None

    def _handles(self) -> list[DeviceHandle]:
        """All devices, GPUs first, then the CPU."""
        with self._lock:
            if self._all is None:
                places = []
                for kind in ("cuda", "xpu", "mps"):
                    found = getattr(torch, kind, None)
                    if found is not None and found.is_available():
                        places += [torch.device(kind, number) for number in range(found.device_count())]
                self._all = [_handle(place) for place in (*places, torch.device("cpu"))]
            return self._all

    @property
    def devices(self) -> list[Any]:
        """The pyopencl devices: none."""
        return []

    @property
    def profiles(self) -> list[DeviceProfile]:
        """The profiles of ``devices``: none."""
        return []

    def discover(self) -> list[tuple[Any, Any]]:
        """The OpenCL pairs of platform and device: none, as PyTorch's devices are handles alone."""
        return []

    def gpus(self) -> list[tuple[Any, Any]]:
        """The OpenCL GPUs: none."""
        return []

    def pick_default(self) -> DeviceHandle:
        """The best device, without NETCL_DEVICE."""
        return self._handles()[0]

    def default(self, device: Any = "auto") -> DeviceHandle | None:
        """The handle of a selector: ``auto`` (NETCL_DEVICE, else the best), ``cpu``, ``gpu``, ``cuda``, ``xpu``, ``mps``,
        each with ``:n``, an index among all devices, a part of a device's name, or a handle or a queue.
        """
        handles = self._handles()
        if isinstance(device, DeviceHandle):
            return device
        if isinstance(device, Queue):
            return device.handle  # type: ignore[no-any-return]
        if isinstance(device, _Scope):
            return self.default(device.selector)
        text = str(device).strip().lower() if device is not None else "auto"
        if text in ("auto", ""):
            chosen = str(config.get("DEVICE")).strip().lower()
            if chosen not in ("auto", ""):
                return self.default(chosen)
            return handles[-1] if _names.pytorch else handles[0]
        word, _, number = text.partition(":")
        if word == "numpy":
            word = "cpu"
        if word in ("accel", "opencl"):
            if not number:
                return None
            raise self._unknown(device)
        if word.isdigit() and not number:
            found, place = handles, int(word)
        else:
            place = int(number) if number.isdigit() else 0
            found = [one for one in handles if one.backend == word]
            if word == "gpu" or (_names.pytorch and word in ("cuda", "mps", "xpu")):
                found = [one for one in handles if one.device_type == "gpu"]
                if not found and not number and word == "gpu":
                    return None
            if not found and word not in ("cuda", "xpu", "mps", "gpu"):
                found = [one for one in handles if word in f"{one.platform_name} {one.device_name}".lower()]
        if (number and not number.isdigit()) or place >= len(found):
            raise self._unknown(device)
        return found[place]

    def _unknown(self, device: Any) -> Exception:
        return DeviceNotFoundError(f"there is no device {device!r}; there are:\n{self.describe()}")

    def select(
        self,
        name: str | None = None,
        platform: str | None = None,
        device_type: str | None = None,
        requires: str | Iterable[str] = (),
    ) -> list[DeviceHandle]:
        """All devices that match, best first: parts of the names, the type, and capabilities such as fp16 and fp64."""
        needs = [requires] if isinstance(requires, str) else list(requires)
        return [
            one
            for one in self._handles()
            if (name or "").lower() in one.device_name.lower()
            and (platform or "").lower() in one.platform_name.lower()
            and device_type in (None, one.device_type)
            and all(getattr(one.profile, f"has_{need}", False) for need in needs)
        ]

    def split(self, handle: DeviceHandle, n: int) -> list[DeviceHandle]:
        """n handles on the whole device, each with its own queue."""
        place = handle.queue.place
        made = [_handle(place) for _ in range(n)]
        for number, one in enumerate(made):
            one.device_name = f"{handle.device_name} ({number + 1} of {n})"
        return made

    def describe(self) -> str:
        """One line per device: selector, type and names."""
        lines = [f"{h.selector}: {h.device_type}, {h.platform_name}, {h.device_name}" for h in self._handles()]
        return "\n".join(lines)

    def profile(self, dev: Any = None) -> DeviceProfile:
        """The profile of a handle or a queue; None is the active device."""
        found = get_active_device() if dev is None else self.default(dev)
        assert found is not None
        return found.profile


manager = DeviceManager()


class _Active(threading.local):
    def __init__(self) -> None:
        self.stack: list[DeviceHandle] = []


_active = _Active()
_default: list[DeviceHandle | None] = [None]


def _found(selector: Any) -> DeviceHandle:
    handle = manager.default(selector)
    if handle is None:
        raise manager._unknown(selector)
    return handle


class device:
    """Within the block this thread works on the selector's device, which ``as`` names."""

    manager = manager

    def __init__(self, selector: Any = "auto", index: int | None = None) -> None:
        self.selector = selector if index is None else f"{selector}:{index}"

    def __str__(self) -> str:
        return self.selector.selector if isinstance(self.selector, DeviceHandle) else str(self.selector)

    def __repr__(self) -> str:
        return f"device({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DeviceHandle):
            try:
                return manager.default(self.selector) is other
            except DeviceNotFoundError:
                return False
        return isinstance(other, device) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __enter__(self) -> DeviceHandle:
        _active.stack.append(_found(self.selector))
        return _active.stack[-1]

    def __exit__(self, *error: Any) -> None:
        _active.stack.pop()

    @staticmethod
    def profile(queue: Any = None) -> DeviceProfile:
        """The profile of a queue or a handle."""
        return manager.profile(queue)


_Scope = device  # by a name that no parameter has


def get_active_device() -> DeviceHandle:
    """The device of the innermost ``with device(...)``, else of ``set_default_device``, else the default."""
    if _active.stack:
        return _active.stack[-1]
    return _default[0] or _found("auto")


def get_default_device() -> DeviceHandle:
    """The active device outside of ``with device(...)``."""
    return _default[0] or _found("auto")


def set_default_device(device: Any) -> None:
    """Makes a device the active one of all threads outside of ``with device(...)``; None undoes it."""
    _default[0] = None if device is None else _found(device)


def drivers_loaded() -> bool:
    """True if a driver other than the CPU's is in use, from which on a fork is unsafe."""
    return bool(torch.cuda.is_initialized())


def use_pytorch_names(enabled: bool = True) -> None:
    """Makes "cuda" the best GPU, and "cpu" the default device."""
    _names.pytorch = enabled

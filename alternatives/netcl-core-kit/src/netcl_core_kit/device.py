"""Devices: handles, queues, selectors, the active device of a thread.

A core tells by ``use_devices`` how its devices are found and what a queue of them is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from netcl_core_kit import config
from netcl_core_kit.errors import DeviceNotFoundError

__all__ = [
    "CPUQueue", "DeviceHandle", "DeviceManager", "DeviceProfile", "Queue", "device", "get_active_device", "get_default_device", "manager",
    "set_default_device", "use_devices", "use_pytorch_names",
]  # fmt: skip


@dataclass(frozen=True)
class DeviceProfile:
    """The capabilities of a device."""

    name: str
    vendor: str
    device_type: str
    compute_units: int
    global_mem_size: int
    has_fp16: bool = True
    has_fp64: bool = True


class Queue:
    """The work of one device, in the order of its calls. ``place`` is the device as the core names it: an object with the
    attributes ``type``, a word of selectors, and ``index``, a number or None.
    """

    def __init__(self, place: Any) -> None:
        self.place = place
        self.backend = place.type
        self.handle: Any = None
        self.engine: Any = None

    def finish(self) -> None:
        """Waits for all work of the device."""
        _found_by.wait(self.place)


class CPUQueue(Queue):
    """The queue of a CPU, where work is complete when the call returns."""

    def finish(self) -> None:
        """Nothing."""


class _FoundBy:
    """What a core tells by ``use_devices``."""

    find: Any = None
    wait: Any = None
    profile: Any = None
    words: tuple[str, ...] = ()


_found_by = _FoundBy()


def use_devices(
    find: Callable[[], list[DeviceHandle]],
    wait: Callable[[Any], None],
    profile: Callable[[DeviceHandle], Any],
    words: tuple[str, ...],
) -> None:
    """Tells how a core finds its devices, GPUs first and the CPU last, waits for one, profiles one, and the words for
    kinds of GPUs in selectors.
    """
    _found_by.find, _found_by.wait, _found_by.profile, _found_by.words = find, wait, profile, words


class DeviceHandle:
    """A device with its queue; ``context, queue = handle`` unpacks the two. ``backend`` is the type of
    the queue's place."""

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
    def profile(self) -> Any:
        """The capabilities of the device."""
        return _found_by.profile(self)

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

    def __str__(self) -> str:
        if _names.pytorch:
            return self.type if self.index is None else f"{self.type}:{self.index}"
        return self.selector


class _Names:
    pytorch = False


_names = _Names()


class DeviceManager:
    """Finds the devices of the core and keeps one handle for each; all methods are thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._all: list[DeviceHandle] | None = None

    def _handles(self) -> list[DeviceHandle]:
        """All devices, GPUs first, then the CPU."""
        with self._lock:
            if self._all is None:
                self._all = _found_by.find()
            return self._all

    @property
    def devices(self) -> list[Any]:
        """The pyopencl devices: none."""
        return []

    @property
    def profiles(self) -> list[Any]:
        """The profiles of ``devices``: none."""
        return []

    def discover(self) -> list[tuple[Any, Any]]:
        """The OpenCL pairs of platform and device: none, as devices are handles alone."""
        return []

    def gpus(self) -> list[tuple[Any, Any]]:
        """The OpenCL GPUs: none."""
        return []

    def pick_default(self) -> DeviceHandle:
        """The best device, without NETCL_DEVICE."""
        return self._handles()[0]

    def default(self, device: Any = "auto") -> DeviceHandle | None:
        """The handle of a selector: ``auto`` (NETCL_DEVICE, else the best), ``cpu``, ``gpu``, a kind of GPU,
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
            if word == "gpu" or (_names.pytorch and word in _found_by.words):
                found = [one for one in handles if one.device_type == "gpu"]
                if not found and not number and word == "gpu":
                    return None
            if not found and word not in (*_found_by.words, "gpu"):
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
        return [
            DeviceHandle(
                handle.platform_name, f"{handle.device_name} ({number + 1} of {n})", handle.backend, handle.device_type,
                handle.context, type(handle.queue)(handle.queue.place),
            )
            for number in range(n)
        ]  # fmt: skip

    def describe(self) -> str:
        """One line per device: selector, type and names."""
        lines = [f"{h.selector}: {h.device_type}, {h.platform_name}, {h.device_name}" for h in self._handles()]
        return "\n".join(lines)

    def profile(self, dev: Any = None) -> Any:
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
    def profile(queue: Any = None) -> Any:
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


def use_pytorch_names(enabled: bool = True) -> None:
    """Makes "cuda" the best GPU, and "cpu" the default device."""
    _names.pytorch = enabled

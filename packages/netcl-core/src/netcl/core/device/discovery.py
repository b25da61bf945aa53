"""Devices: discovery, selectors, cached handles with context and queue, and the device a thread works on."""

from __future__ import annotations

import builtins
import re
import threading
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import TracebackType
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np

from netcl.core import config
from netcl.core.device.capabilities import (
    DeviceProfile,
    device_profile,
    has_capabilities,
    profile_of,
    requirements,
    type_of,
)
from netcl.core.device.selectors import (
    OWN_NAMES,
    TYPE_SELECTOR,
    TYPE_WORDS,
    device_line,
    driver_word,
    in_platform,
    matching,
    rank,
    usable,
)
from netcl.core.errors import DeviceNotFoundError, format_bytes
from netcl.core.process import naming


class CPUQueue:
    """The command queue of the NumPy backend, where work is complete when the call returns."""

    backend = "cpu"
    context: None = None
    device: None = None

    def __init__(self, name: str = "cpu") -> None:
        self.name = name

    def finish(self) -> None:
        """Returns at once: nothing is ever pending."""

    def __repr__(self) -> str:
        return f"CPUQueue({self.name!r})"


class MetaQueue(CPUQueue):
    """The queue of the device "meta", where nothing is computed."""

    backend = "meta"

    @property
    def handle(self) -> DeviceHandle:
        """The device."""
        return _META


@runtime_checkable
class Queue(Protocol):
    """The queue of a backend: its engine is made by the backend of this name; queues are hashable and compare by
    identity. ``context`` and ``device`` are None if the backend has none.
    """

    backend: str
    context: Any
    device: Any

    def finish(self) -> None:
        """Waits until all work of the queue is done."""


@dataclass(frozen=True)
class DeviceHandle:
    """A device with its context and queue; ``context, queue = handle`` unpacks both.

    ``backend`` is "cl", "cpu" (NumPy, with None as context and a CPUQueue), or the name of another distribution's
    backend (entry point ``netcl.backends``); ``device_type`` is "gpu", "cpu", "accel" or "other".
    """

    platform_name: str
    device_name: str
    backend: str
    device_type: str
    context: Any
    queue: Any

    def __iter__(self) -> Iterator[Any]:
        yield self.context
        yield self.queue

    @property
    def device(self) -> Any:
        """The pyopencl Device; None for NumPy."""
        return self.queue.device

    @property
    def profile(self) -> DeviceProfile:
        """The capabilities of the device."""
        return profile_of(self)

    @property
    def type(self) -> str:
        """``device_type``; with ``use_pytorch_names``, "cuda" for a GPU."""
        return "cuda" if _pytorch_names and self.device_type == "gpu" else self.device_type

    @property
    def index(self) -> int | None:
        """With ``use_pytorch_names``, the number of a GPU among the GPUs, best first; else None."""
        if not _pytorch_names or self.device_type != "gpu":
            return None
        return next((number for number, (_, dev) in enumerate(manager.gpus()) if dev == self.device), None)

    def __repr__(self) -> str:
        if _pytorch_names:
            return _pytorch_text(self.type, self.index)
        return f"DeviceHandle({str(self)!r}, {self.device_type}, {self.device_name!r}, {self.platform_name!r})"

    def __str__(self) -> str:
        """Returns a short name, which is a selector in this process: ``pocl:0``, ``intel:0``, ``cpu`` for NumPy."""
        if _pytorch_names:
            return self.type if self.index is None else f"{self.type}:{self.index}"
        return manager.short_name(self)

    def _repr_html_(self) -> str:
        """Returns the table of facts that a notebook shows."""
        from html import escape  # its table of entities costs 1 ms, which an import of netcl does not pay

        facts = {"device": str(self), "type": self.device_type, "name": self.device_name, "driver": self.platform_name}
        if self.backend != "meta":
            profile = self.profile
            features = ", ".join(name for name in ("fp16", "fp64") if getattr(profile, f"has_{name}"))
            facts |= {"compute units": str(profile.compute_units), "memory": format_bytes(profile.global_mem_size)}
            facts |= {"features": features} if features else {}
        rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts.items())
        return f"<table class='netcl-device'>{rows}</table>"

    @property
    def selector(self) -> str:
        """A selector that finds this device in other processes too; a sub-device has the selector of its parent."""
        if self.backend == "meta":
            return "meta"
        if self.backend == "cpu":
            return "numpy" if _pytorch_names else "cpu"
        if self.backend != "cl":
            _, _, handles = _plugins().find()[self.backend]
            return f"{self.backend}:{_position(self, handles)}"
        whole_device, cl = self.device, _opencl().cl
        while (parent := whole_device.get_info(cl.device_info.PARENT_DEVICE)) is not None:
            whole_device = parent
        for selector, _, candidate in manager.numbered():
            if candidate == whole_device:
                return selector
        return self.device_name


_META = DeviceHandle("meta", "meta", "meta", "meta", None, MetaQueue("meta"))


def _pytorch_text(kind: str, index: int | None) -> str:
    """Returns the text of a device as PyTorch prints it."""
    return f"device(type={kind!r})" if index is None else f"device(type={kind!r}, index={index})"


@cache
def _opencl() -> Any:
    """Returns the module that imports pyopencl (``cl`` is None without it); loaded when a device is searched for."""
    return import_module("netcl.core.device.opencl_modules")


def _plugins() -> Any:
    """Returns the module of backends of other distributions, which reads the metadata of installed distributions."""
    return import_module("netcl.core.device.plugins")


def _position(handle: DeviceHandle, handles: list[DeviceHandle]) -> int:
    """Returns the index of the handle of the same device; a stream has a separate queue."""
    same = [(entry.platform_name, entry.device_name) for entry in handles]
    return next(
        (index for index, entry in enumerate(handles) if entry.queue is handle.queue),
        same.index((handle.platform_name, handle.device_name)),
    )


Selector: TypeAlias = "str | int | DeviceHandle | None"

_drivers_loaded = False

# True if "cuda" and "cpu" have PyTorch's meanings: use_pytorch_names.
_pytorch_names = False
_GPU_NAMES = frozenset(("cuda", "hip", "mps", "xpu"))


def free_torch_name() -> bool:
    """Returns False, as this core does not compute by PyTorch. A core that does takes PyTorch's modules out of
    ``sys.modules``, so that the name torch is free, finds them still, and returns True.
    """
    return False


def use_pytorch_names(enabled: bool = True) -> None:
    """Sets the meaning of device names in this process, for programs written for PyTorch.

    "cuda", "mps" and "xpu" are the best GPU, with ``:n`` the n-th, "cpu" is the best CPU device of OpenCL, NumPy if
    there is none or if there is a GPU, a number counts GPUs, and the default device is "cpu". NETCL_DEVICE is the
    default device if it is set: a CPU device is "cpu" too, and hides the GPUs; a GPU is "cuda". NumPy is "numpy".
    Sizes and dtypes print as PyTorch's, and tensors if an extension has given the text.
    """
    global _pytorch_names
    _pytorch_names = bool(enabled)
    naming.library = "torch" if enabled else naming.NETCL


@cache
def _has_backend() -> bool:
    """True if this netcl-core has the OpenCL backend; another one may not have it, with or without pyopencl."""
    return find_spec("netcl.core.backend.opencl") is not None


def drivers_loaded() -> bool:
    """True if this process has made its first OpenCL call through netcl; from then on a fork is unsafe."""
    return _drivers_loaded


class DeviceManager:
    """Finds devices and keeps one handle, with one context and queue, per device; all methods are thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._opened: dict[int, DeviceHandle] = {}
        self._selected: dict[tuple[str, ...], DeviceHandle] = {}
        self._numpy = DeviceHandle("NumPy", f"NumPy {np.__version__}", "cpu", "cpu", None, CPUQueue())
        self._said_numpy = False
        self._short_names: dict[tuple[int, str], str] = {}

    def discover(self) -> list[tuple[Any, Any]]:
        """Returns all (platform, device) pairs within NETCL_PLATFORM_FILTER, or [] without pyopencl, backend or driver.

        Each device is listed once, even if the loader knows its driver by two names.
        """
        global _drivers_loaded
        first, cl = not _drivers_loaded, _opencl().cl
        if cl is None or not _has_backend():
            return []
        _opencl().icd.ensure_drivers()
        _drivers_loaded = True
        platform_words = config.get("PLATFORM_FILTER").lower()
        pairs: dict[tuple[int, int], tuple[Any, Any]] = {}
        try:
            platforms = _opencl().with_bound_workers(cl.get_platforms) if first else cl.get_platforms()
        except cl.Error as error:  # how the loader reports that there is no driver
            config.get_logger().debug("no OpenCL platform: %s", error)
            return []
        _opencl().quirks.choose_work_group_method(platforms)
        for platform in platforms:
            if not in_platform(platform_words, platform.name):
                continue
            try:
                for dev in platform.get_devices():
                    _opencl().quirks.name_processor(platform, dev)
                    pairs.setdefault((platform.int_ptr, dev.int_ptr), (platform, dev))
            except cl.Error as error:
                config.get_logger().warning("OpenCL platform %s shows no device: %s", platform.name, error)
        return list(pairs.values())

    def numbered(self) -> Iterator[tuple[str, Any, Any]]:
        """Yields ``discover()`` with selectors: (``opencl:<platform>:<device>``, platform, device)."""
        platforms: list[Any] = []
        count = 0
        for platform, dev in self.discover():
            if not platforms or platforms[-1] != platform:
                platforms.append(platform)
                count = 0
            yield f"opencl:{len(platforms) - 1}:{count}", platform, dev
            count += 1

    def default(self, device: Selector | _Device = "auto") -> DeviceHandle | None:
        """Returns the handle of a selector, the same object each time; devices reached by two selectors share one
        handle.

        Selectors: ``auto`` (NETCL_DEVICE, else the best of GPU, accelerator, OpenCL CPU, NumPy); ``gpu``, ``accel``,
        ``opencl`` (any OpenCL device), ``opencl:cpu``: the best of the type, None if there is none; with ``:n`` the
        n-th best, from 0; ``cpu``: NumPy; ``meta``: shapes and dtypes without memory; a number: the pair of
        ``discover()`` at that index; ``opencl:0:1``: platform and device; else any part, case-insensitive, of a
        platform's or device's name, the best match (``intel:1``: the second). The processor's maker in the name of a
        PoCL device does not count. The name of a backend that another distribution adds, with ``:n``, is the n-th of
        its devices.

        Raises DeviceNotFoundError, listing all devices, for an unknown name or a number out of range, and ImportError
        if a selector needs OpenCL and pyopencl is missing.
        """
        if isinstance(device, _Device):
            device = device._selector
        if isinstance(device, DeviceHandle):
            return device
        text = "auto" if device is None else str(device).strip().lower() or "auto"
        chosen = config.get("DEVICE").lower() if text == "auto" or _pytorch_names else ""
        key = (text, chosen, config.get("PLATFORM_FILTER"), "pytorch" * _pytorch_names)
        handle = self._selected.get(key)
        if handle is None:
            resolve = self._resolve_pytorch if _pytorch_names else self._resolve_auto
            with self._lock:
                handle = self._selected.get(key) or resolve(text, chosen)
                if handle is not None:
                    self._selected[key] = handle
        return handle

    def pick_default(self) -> DeviceHandle:
        """Returns the best device that can be opened, without NETCL_DEVICE; NumPy, logged once, if there is none."""
        for platform, dev in self._ranked():
            try:
                return self._open(platform, dev)
            except DeviceNotFoundError as error:
                config.get_logger().warning("%s; trying the next device", error)
        if not self._said_numpy:
            self._said_numpy = True
            config.get_logger().warning("no OpenCL device, computing with NumPy. %s", self._why_none())
        return self._numpy

    def select(
        self,
        name: str | None = None,
        platform: str | None = None,
        device_type: str | None = None,
        requires: str | Iterable[str] = (),
    ) -> list[DeviceHandle]:
        """Returns all devices that match, best first and NumPy last. ``name`` and ``platform`` are parts of the names.

        ``device_type``: gpu, cpu, accel or other. ``requires``: fp16, fp64, subgroups, svm, int64_atomics,
        command_buffer, or names of OpenCL extensions (cl_...).
        """
        wanted_type = None if device_type is None else TYPE_WORDS.get(device_type.lower())
        if device_type is not None and wanted_type is None:
            raise ValueError(f"expected a device_type of {' '.join(TYPE_WORDS)}, got {device_type!r}")
        needs = requirements(requires)

        def fits(platform_name: str, device_name: str, kind: str, dev: Any) -> bool:
            if name is not None and name.lower() not in device_name.lower():
                return False
            if platform is not None and not in_platform(platform.lower(), platform_name):
                return False
            return wanted_type in (None, kind) and has_capabilities(device_profile(dev), needs)

        handles = [self._open(p, d) for p, d in self._ranked() if fits(p.name, d.name, type_of(d), d)]
        for handle in self._of_plugins():
            kind = wanted_type in (None, handle.device_type) and has_capabilities(handle.profile, needs)
            if kind and _named(handle, name, platform):
                handles.append(handle)
        if fits(self._numpy.platform_name, self._numpy.device_name, "cpu", None):
            handles.append(self._numpy)
        return handles

    @staticmethod
    def _device_type(dev: Any) -> str:
        """Returns the type bitfield of a device as "gpu", "cpu", "accel" or "other"."""
        return type_of(dev)

    @property
    def devices(self) -> list[Any]:
        """The pyopencl devices of ``discover()``."""
        return [dev for _, dev in self.discover()]

    @property
    def profiles(self) -> list[DeviceProfile]:
        """The profiles of ``devices``."""
        return [device_profile(dev) for dev in self.devices]

    def profile(self, dev: Any = None) -> DeviceProfile:
        """Returns the profile of a pyopencl device, a handle or a queue; None is the active device."""
        if dev is None:
            dev = get_active_device()
        return profile_of(dev) if isinstance(dev, DeviceHandle) or hasattr(dev, "finish") else device_profile(dev)

    def split(self, handle: DeviceHandle, n: int) -> list[DeviceHandle]:
        """Returns n handles that divide the device: sub-devices, each with its own context, if the driver can partition
        it.

        Otherwise, and for NumPy, n handles on the whole device, each with its own queue.
        """
        if n < 1:
            raise ValueError(f"expected a number of parts of at least 1, got {n}")
        if n == 1:
            return [handle]
        if handle.backend == "cpu":
            return [replace(handle, queue=CPUQueue(f"cpu:{index}")) for index in range(n)]
        if handle.backend != "cl":
            return [replace(handle, queue=copy(handle.queue)) for _ in range(n)]
        parts = _opencl().sub_devices(handle.device, n)
        if not parts:
            return [replace(handle, queue=_opencl().new_queue(handle.context, handle.device)) for _ in range(n)]
        return [self._new_handle(handle.platform_name, part) for part in parts]

    def short_name(self, handle: DeviceHandle) -> str:
        """Returns a short selector of a device: the driver's word and the position among its devices, best first. A
        sub-device has the name of its whole device.
        """
        if handle.backend != "cl":
            return handle.selector
        whole_device, cl = handle.device, _opencl().cl
        while (parent := whole_device.get_info(cl.device_info.PARENT_DEVICE)) is not None:
            whole_device = parent
        key = (whole_device.int_ptr, config.get("PLATFORM_FILTER"))
        if key not in self._short_names:
            word = driver_word(handle.platform_name)
            devices = [dev for _, dev in matching(self._ranked(), word)]
            known = whole_device in devices
            self._short_names[key] = f"{word}:{devices.index(whole_device)}" if known else handle.selector
        return self._short_names[key]

    def describe(self) -> str:
        """Returns one line per device: selector, type and names. Error messages include it."""
        others = [f"  {h.selector}  {h.device_type:5} {h.device_name} ({h.platform_name})" for h in self._of_plugins()]
        opencl_lines = map(device_line, self.numbered())
        return "\n".join([*opencl_lines, *others, f"  cpu         cpu   {self._numpy.device_name}"])

    def _of_plugins(self) -> list[DeviceHandle]:
        return [handle for _, _, handles in _plugins().find().values() for handle in handles]

    def _ranked(self) -> list[tuple[Any, Any]]:
        return sorted((pair for pair in self.discover() if usable(pair[1])), key=lambda pair: rank(*pair))

    def _resolve_auto(self, text: str, chosen: str) -> DeviceHandle | None:
        if text != "auto":
            return self._resolve(text)
        if chosen == "auto":
            return self.pick_default()
        try:
            handle = self._resolve(chosen)
        except DeviceNotFoundError as error:
            raise DeviceNotFoundError(f"NETCL_DEVICE={chosen!r}: {error}", parameter="NETCL_DEVICE") from None
        if handle is None:
            raise DeviceNotFoundError(f"NETCL_DEVICE={chosen!r}: {self.not_found(chosen)}", parameter="NETCL_DEVICE")
        return handle

    def _chosen(self) -> DeviceHandle | None:
        """Returns the device of NETCL_DEVICE, None if it is not set."""
        chosen = config.get("DEVICE").lower()
        return None if chosen == "auto" else self._resolve_auto("auto", chosen)

    def _resolve_pytorch(self, text: str, chosen: str) -> DeviceHandle | None:
        """Returns the device of a selector under ``use_pytorch_names``."""
        preferred = self._chosen()
        name, _, number = text.partition(":")
        if text == "auto" and preferred is not None:
            return preferred
        if text in ("auto", "cpu", "cpu:0"):
            if preferred is not None and preferred.device_type == "cpu":
                return preferred
            # Next to a GPU it prepares data: small works, and the host reads each result.
            return self._numpy if self.gpus() else self._best_cpu()
        if text.isdecimal() or (name in _GPU_NAMES and (number.isdecimal() or not number)):
            gpus = self.gpus()
            return self._at(gpus, int(text if text.isdecimal() else number or 0), text) if gpus else None
        return self._resolve(text)

    def _best_cpu(self) -> DeviceHandle:
        for platform, dev in self._ranked():
            if type_of(dev) == "cpu":
                try:
                    return self._open(platform, dev)
                except DeviceNotFoundError as error:
                    config.get_logger().warning("%s; trying the next device", error)
        return self._numpy

    def gpus(self) -> list[tuple[Any, Any]]:
        """Returns the (platform, device) pairs of usable GPUs, best first: NETCL_DEVICE's; a CPU there hides all."""
        pairs = [pair for pair in self._ranked() if type_of(pair[1]) == "gpu"]
        preferred = self._chosen() if pairs else None
        if preferred is not None and preferred.device_type == "gpu":
            pairs.sort(key=lambda pair: pair[1] != preferred.device)
        return [] if preferred is not None and preferred.device_type == "cpu" else pairs

    def _resolve(self, text: str) -> DeviceHandle | None:
        if text in ("cpu", "cpu:0", "numpy"):
            return self._numpy
        if text == "meta":
            return _META
        if not text.isdecimal() and text.partition(":")[0] not in OWN_NAMES:
            handle = self._by_plugin(text)
            if handle is not None:
                return handle
        name = text.removeprefix("opencl:").partition(":")[0]
        _opencl().icd.require_pyopencl(
            f"device({text!r})", name in _GPU_NAMES or TYPE_WORDS.get(name) in ("gpu", "accel")
        )
        if text.isdecimal():
            return self._at(self.discover(), int(text), text)
        if re.fullmatch(r"opencl:\d+:\d+", text):
            return self._at([(p, d) for selector, p, d in self.numbered() if selector == text], 0, text)
        of_type = TYPE_SELECTOR.fullmatch(text)
        if of_type:
            pairs = self._ranked()
            kind = of_type["type"] or of_type["cpu"]
            if kind:
                pairs = [pair for pair in pairs if type_of(pair[1]) == TYPE_WORDS[kind]]
            if of_type["index"]:
                return self._at(pairs, int(of_type["index"]), text)
            return self._open(*pairs[0]) if pairs else None
        return self._by_name(text)

    def _by_plugin(self, text: str) -> DeviceHandle | None:
        """Returns the device of another distribution's backend; None if none has the name."""
        name, _, number = text.partition(":")
        handles_of: dict[str, list[DeviceHandle]]
        handles_of = {key.lower(): handles for key, (_, _, handles) in _plugins().find().items()}
        if name not in handles_of:
            problem = _plugins().problems().get(name)
            if problem is not None:
                raise DeviceNotFoundError(f"the backend {name!r} cannot be loaded: {problem}", parameter="device")
            return None
        if (number and not number.isdecimal()) or int(number or 0) >= len(handles_of[name]):
            raise self.not_found(text)
        return handles_of[name][int(number or 0)]

    def _by_name(self, text: str) -> DeviceHandle:
        words = text.removeprefix("opencl:") or text
        name, _, number = words.rpartition(":")
        ranked = self._ranked()
        matches = matching(ranked, words)
        if not matches and name not in ("", "cpu") and number.isdecimal():
            return self._at(matching(ranked, name), int(number), text)
        return self._at(matches, 0, text)

    def _at(self, pairs: list[tuple[Any, Any]], index: int, text: str) -> DeviceHandle:
        if index >= len(pairs):
            raise self.not_found(text)
        return self._open(*pairs[index])

    def not_found(self, selector: object) -> DeviceNotFoundError:
        """Returns the error for a selector without a device, with all devices or, if none, what to install."""
        why = str(_opencl().icd.late_advice()) if self.discover() else self._why_none()
        hint = f"\n{why}" * bool(why)
        if str(selector).partition(":")[0] in _GPU_NAMES and not _pytorch_names:
            meant = "'gpu' is the best GPU of any maker, 'auto' the best device"
            hint = f"\n{selector!r} is PyTorch's word; {meant}, and 'cpu' is NumPy{hint}"
        return DeviceNotFoundError(
            f"no device answers to {selector!r}; there are\n{self.describe()}{hint}", parameter="device"
        )

    def _why_none(self) -> str:
        only = config.get("PLATFORM_FILTER")
        return f"NETCL_PLATFORM_FILTER={only!r} leaves no OpenCL platform." if only else str(_opencl().icd.advice())

    def _open(self, platform: Any, dev: Any) -> DeviceHandle:
        with self._lock:
            handle = self._opened.get(dev.int_ptr)
            if handle is None:
                try:
                    handle = self._new_handle(platform.name, dev)
                except _opencl().cl.Error as error:
                    raise DeviceNotFoundError(
                        f"{dev.name.strip()} ({platform.name.strip()}) cannot be opened: {error}"
                    ) from error
                self._opened[dev.int_ptr] = handle
            return handle

    def _new_handle(self, platform_name: str, dev: Any) -> DeviceHandle:
        context = _opencl().cl.Context([dev])
        queue = _opencl().new_queue(context, dev)
        return DeviceHandle(platform_name.strip(), dev.name.strip(), "cl", type_of(dev), context, queue)


def _named(handle: DeviceHandle, name: str | None, platform: str | None) -> bool:
    by_name = name is None or name.lower() in handle.device_name.lower()
    return by_name and (platform is None or in_platform(platform.lower(), handle.platform_name))


manager: DeviceManager = DeviceManager()


class _Active(threading.local):
    def __init__(self) -> None:
        self.handles: list[DeviceHandle] = []


_active = _Active()


# The texts that PyTorch's devices have; others are selectors of netcl, of devices that are there.
_PYTORCH_DEVICE = re.compile(
    r"(cpu|cuda|ipu|xpu|mkldnn|opengl|opencl|ideep|hip|ve|fpga|maia|xla|lazy|vulkan|mps|meta|hpu|mtia|privateuseone)"
    r"(:\d+)?|auto"
)


class device:
    """Context manager: within the block this thread works on the selector's device, which ``as`` names.

    Raises DeviceNotFoundError on entry if the type has no device. ``manager`` and ``profile(queue)`` are attributes of
    it.

    >>> with device("cpu") as handle:
    ...     handle.backend, get_active_device() is handle
    ('cpu', True)
    """

    manager: ClassVar[DeviceManager] = manager

    def __init__(self, selector: Selector | device = "auto", index: int | None = None) -> None:
        if isinstance(selector, device):
            selector = selector._selector
        self._selector: Selector = selector if index is None else f"{selector}:{index}"
        if _pytorch_names and isinstance(self._selector, str) and not _PYTORCH_DEVICE.fullmatch(self._selector):
            manager.default(self._selector or "none")

    # As PyTorch's object: nc.device("opencl:0:1"), with its type and index, equal to another of the same selector.

    @property
    def type(self) -> str:
        """The selector without indices: ``cpu``, ``gpu``, ``opencl``, ``intel``."""
        return str(self).partition(":")[0]

    @property
    def index(self) -> int | None:
        """The last index of the selector, None if it has none."""
        last = str(self).rpartition(":")[2]
        return int(last) if last.isdigit() else None

    def __str__(self) -> str:
        chosen = self._selector
        if isinstance(chosen, DeviceHandle):
            return str(chosen) if _pytorch_names else chosen.selector
        return "auto" if chosen is None else str(chosen)

    def __repr__(self) -> str:
        return _pytorch_text(self.type, self.index) if _pytorch_names else f"device({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (device, DeviceHandle)):
            return False
        mine, theirs = self._selector, other._selector if isinstance(other, device) else other
        if isinstance(mine, DeviceHandle) or isinstance(theirs, DeviceHandle):
            return manager.default(mine) == manager.default(theirs)
        return str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    @staticmethod
    def profile(q: Any = None) -> DeviceProfile:
        """Returns the profile of a queue, handle or pyopencl device; None is the active device."""
        return manager.profile(q)

    def __enter__(self) -> DeviceHandle:
        handle = manager.default(self._selector)
        if handle is None:
            raise manager.not_found(self._selector)
        _active.handles.append(handle)
        return handle

    def __exit__(
        self, kind: builtins.type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _active.handles.pop()


_default: DeviceHandle | None = None


_Device = device


def set_default_device(device: Selector | _Device) -> None:
    """Makes a device the active one of all threads of this process outside of ``with device(...)``; None undoes it.

    Raises DeviceNotFoundError if it is not there.
    """
    global _default
    if device is None:
        _default = None
        return
    selector = device._selector if isinstance(device, _Device) else device
    handle = manager.default(selector)
    if handle is None:
        raise manager.not_found(selector)
    _default = handle


def get_default_device() -> device:
    """Returns the active device, as ``nc.device``."""
    return device(get_active_device())


def get_active_device() -> DeviceHandle:
    """Returns the device of this thread's innermost ``with device(...)``, of ``set_default_device``, or the default."""
    if _active.handles:
        return _active.handles[-1]
    if _default is not None:
        return _default
    handle = manager.default()
    if handle is None:  # "auto" yields NumPy or raises
        raise AssertionError("unreachable")
    return handle

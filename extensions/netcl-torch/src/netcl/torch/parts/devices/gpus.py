"""The GPUs that ``cuda`` and its relatives mean: the current one, its memory and its properties."""

from __future__ import annotations

import threading
from types import SimpleNamespace, TracebackType
from typing import Any

from netcl.autograd.prediction import flush
from netcl.core import DeviceHandle, manager
from netcl.core.engine.registry import engine_for
from netcl.core.errors import DeviceNotFoundError


class _Current(threading.local):
    index = 0


_current = _Current()


def device_count() -> int:
    """The number of usable GPUs."""
    return len(manager.gpus())


def is_available() -> bool:
    """True if there is a GPU."""
    return device_count() > 0


def current_device() -> int:
    """The number of the current GPU of this thread."""
    return _current.index


def index_of(device: Any = None) -> int:
    """The number of a GPU that a device, a string or a number names; None is the current one."""
    if device is None:
        return _current.index
    if isinstance(device, int):
        return device
    index = getattr(device, "index", None)
    if index is not None and not callable(index):
        return int(index)
    last = str(device).rpartition(":")[2]
    return int(last) if last.isdecimal() else _current.index


def handle_of(device: Any = None) -> DeviceHandle:
    """The open device; raises DeviceNotFoundError if there is no such GPU."""
    index, found = index_of(device), manager.gpus()
    if not 0 <= index < len(found):
        raise DeviceNotFoundError(f"there is no GPU {index}; {len(found)} are usable here")
    handle = manager.default(f"cuda:{index}")
    assert handle is not None
    return handle


def set_device(device: Any) -> None:
    """Makes a GPU the current one of this thread; raises DeviceNotFoundError if it is not there."""
    index = index_of(device)
    handle_of(index)
    _current.index = index


class device:
    """A block in which a GPU is the current one; a negative number or None changes nothing."""

    def __init__(self, device: Any = None) -> None:
        self.idx: int = -1 if device is None else index_of(device)
        self.prev_idx: int = -1

    def __enter__(self) -> None:
        self.prev_idx = _current.index
        if self.idx >= 0:
            set_device(self.idx)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.index = self.prev_idx


def synchronize(device: Any = None) -> None:
    """Waits for the work of a GPU."""
    flush()
    handle_of(device).queue.finish()


def get_device_name(device: Any = None) -> str:
    """The name that the driver reports."""
    return handle_of(device).device_name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of an NVIDIA GPU; (0, 0) of others, which have none."""
    found = handle_of(device).device
    major = getattr(found, "compute_capability_major_nv", 0) if "NVIDIA" in found.vendor else 0
    return int(major), int(found.compute_capability_minor_nv) if major else 0


def get_device_properties(device: Any = None) -> SimpleNamespace:
    """The name, memory in bytes, number of compute units and capability of a GPU."""
    profile, (major, minor) = handle_of(device).profile, get_device_capability(device)
    return SimpleNamespace(
        name=profile.name,
        major=major,
        minor=minor,
        total_memory=profile.global_mem_size,
        multi_processor_count=profile.compute_units,
        max_threads_per_multi_processor=profile.max_work_group_size,
        shared_memory_per_block=profile.local_mem_size,
        is_integrated=int(profile.unified_memory),
    )


def _pool(device: Any) -> Any:
    """The memory pool of a GPU."""
    engine: Any = engine_for(handle_of(device).queue)
    return engine.pool


def memory_stats(device: Any = None) -> dict[str, int]:
    """The counts of the memory pool of a GPU, in bytes; empty without a GPU."""
    if not is_available():
        return {}
    stats = _pool(device).get_stats()
    return {
        "allocated_bytes.all.current": stats["bytes_in_use"],
        "allocated_bytes.all.peak": stats["peak_bytes"],
        "reserved_bytes.all.current": stats["bytes_in_use"] + stats["bytes_cached"],
        "reserved_bytes.all.peak": max(stats["peak_bytes"], stats["bytes_in_use"] + stats["bytes_cached"]),
    }


def memory_allocated(device: Any = None) -> int:
    """The bytes of tensors on a GPU."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors had on a GPU."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Any = None) -> int:
    """The bytes of tensors and of the pool's free buffers on a GPU."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that tensors and free buffers had on a GPU, as far as the pool counts them."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, total) bytes of a GPU; free is what this process has not reserved, as OpenCL does not tell of others."""
    total = handle_of(device).profile.global_mem_size
    return total - memory_reserved(device), total


def empty_cache() -> None:
    """Returns the free buffers of the pools of all GPUs to their drivers; buffers in use stay."""
    for index in range(device_count()):
        _pool(index).clear()


def reset_peak_memory_stats(device: Any = None) -> None:
    """Makes the largest counts start from the memory in use."""
    if is_available():
        _pool(device).reset_peak()

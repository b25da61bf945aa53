"""DLPack: tensors in memory that the host sees, handed to other libraries with and without a copy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netcl.core.engine.protocol import SharesMemory
from netcl.core.layout import contiguous_strides
from netcl.core.storage import views

Array = np.ndarray[Any, Any]

CPU = (1, 0)
_OPENCL = 4


def device_of(x: Any) -> tuple[int, int]:
    """The device in DLPack's numbers: the host for NumPy and OpenCL's CPU devices, else OpenCL and its index."""
    selector = x.device.selector.rpartition(":")[2]
    return CPU if x.is_cpu else (_OPENCL, int(selector) if selector.isdigit() else 0)


def shared(x: Any) -> Array | None:
    """The memory of ``x`` as an array, of a view by its strides; None if the host does not see it.

    The array keeps the memory. Writes into it are not counted, and views of ``x`` that have been read keep what they
    have read.
    """
    geometry = views.geometry_of(x)
    if geometry is None:
        return None
    root: Any = views.root_tensor(x)
    memory: Array | None = x.to_host() if 0 in x.shape else root.array
    if memory is None:
        memory = root.engine.host_memory(root) if isinstance(root.engine, SharesMemory) else None
        if memory is None:
            return None
    begin: Array = memory.reshape(-1)[geometry.offset :]
    if 0 in x.shape or geometry.strides == contiguous_strides(x.shape):
        whole: Array = begin[: math.prod(x.shape)].reshape(x.shape)
        return whole
    steps = tuple(step * memory.itemsize for step in geometry.strides)
    return np.lib.stride_tricks.as_strided(begin, x.shape, steps)


def export(x: Any, stream: Any, max_version: Any, dl_device: Any, copy: bool | None) -> Any:
    """The capsule of ``x.__dlpack__``. BufferError if it requires grad, has no such memory or no such dtype."""
    if stream is not None:
        raise BufferError("__dlpack__: memory of the host has no stream; write stream=None")
    if x.requires_grad:
        raise BufferError("__dlpack__: a tensor that requires grad is not exported; write x.detach()")
    if x.dtype == "bfloat16":
        raise BufferError("__dlpack__: NumPy, which makes the capsule, has no bfloat16; write x.float()")
    wanted = None if dl_device is None else tuple(int(part) for part in dl_device)
    if wanted not in (None, CPU):
        raise BufferError(f"__dlpack__: expected the host, {CPU}, as the device, got {wanted}")
    array = None if copy else shared(x)
    if array is None:
        if copy is False or (copy is None and wanted is None):
            raise BufferError(
                f"__dlpack__: the host does not see the memory of this tensor on {x.engine.device_label} in its shape; "
                "write x.cpu() or x.numpy(), or ask for a copy"
            )
        array = x.to_host()
    try:
        return array.__dlpack__(max_version=max_version)
    except TypeError:  # NumPy before 2.1
        return array.__dlpack__()


def array_of(source: Any) -> Array:
    """The array of an object that has ``__dlpack__``; BufferError if its memory is not the host's."""
    if not hasattr(source, "__dlpack__"):
        raise TypeError(f"from_dlpack: expected an object with __dlpack__, got {type(source).__name__}")
    if isinstance(source, np.ndarray):  # through a capsule, NumPy before 2.1 makes it read-only
        return source
    if source.__dlpack_device__()[0] != CPU[0]:
        raise BufferError(
            f"from_dlpack: the data are on device {tuple(source.__dlpack_device__())}, not in memory of the host; copy "
            "them to the host in the library that they come from"
        )
    try:
        return np.from_dlpack(source)
    except RuntimeError as error:
        raise BufferError(f"from_dlpack: {error}") from error

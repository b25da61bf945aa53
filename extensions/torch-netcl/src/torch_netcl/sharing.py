"""Memory that CPU tensors of PyTorch share with netcl's tensors, on devices that work in place on the host's memory.

Elsewhere values are copied.
"""

from __future__ import annotations

import ctypes
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from netcl.core.dtypes import numpy_dtype
from netcl.core.memory.regions import has_regions
from netcl.core.process.opencl import cl
from netcl.core.tensor import Tensor
from netcl.ops import reshape
from torch_netcl import memory
from torch_netcl.memory import DTYPES, ENGINE

_IN_PLACE = ENGINE.name == "cl" and has_regions(ENGINE.queue)
_ALIGNMENT = 64  # bytes: of PyTorch's memory, and as much as the widest load of a kernel needs
_MOST = 4096  # tensors that were read, and buffers with known addresses
_read: dict[Any, tuple[StorageWeakRef, Any]] = {}  # by the storage, which has no other identity while it is referred to
_addresses: dict[int, tuple[Any, int]] = {}  # by the identity of a buffer
_made: WeakValueDictionary[int, _Owner] = WeakValueDictionary()  # by address


class _Owner:
    """A netcl tensor as the base of an array on its memory."""

    def __init__(self, value: Any, array: Any) -> None:
        self.value, self.__array_interface__ = value, array.__array_interface__


def taken(tensor: torch.Tensor) -> Any:
    """Returns a CPU tensor, of a dtype that the device has, as a netcl tensor: on its memory, or a copy."""
    nbytes, address = tensor.numel() * tensor.dtype.itemsize, tensor.data_ptr() if _IN_PLACE else 0
    if not nbytes or not address or address % _ALIGNMENT or not tensor.is_contiguous() or tensor.is_neg():
        return memory.to_netcl(tensor)
    owner, dtype, shape = _made.get(address), DTYPES[tensor.dtype], tuple(tensor.shape)
    if owner is not None and owner.value.dtype is dtype and owner.value.size == tensor.numel():
        return owner.value if owner.value.shape == shape else reshape(owner.value, shape)
    storage = tensor.untyped_storage()
    key = storage._cdata, address, dtype, shape
    entry = _read.get(key)
    if entry is None:
        for other in [k for k, (ref, _) in _read.items() if ref.expired()] if len(_read) >= _MOST else ():
            del _read[other]
        buffer = cl.Buffer(
            ENGINE.context, cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR, hostbuf=_array(address, nbytes)
        )
        entry = _read[key] = StorageWeakRef(storage), Tensor._wrap(ENGINE, shape, dtype, buffer, None, None)
    return entry[1]


def given(values: list[Any]) -> list[Any]:
    """Returns netcl tensors, whose memory nothing else writes, as CPU tensors when all work is done."""
    if ENGINE.name == "cl":
        ENGINE.finish()
        ENGINE.wait()
    return [_given(value) if isinstance(value, Tensor) else value for value in values]


def _given(value: Any) -> torch.Tensor:
    if not _IN_PLACE or not value.size:
        return memory.from_netcl(value)
    bits, buffer = value.dtype == "bfloat16", value.buffer
    of_region = buffer.flags & cl.mem_flags.USE_HOST_PTR
    whole = buffer.get_host_array((value.nbytes,), np.uint8) if of_region else _array(_address(buffer), value.nbytes)
    owner = _Owner(value, whole)
    array = np.asarray(owner).view(np.int16 if bits else numpy_dtype(value.dtype)).reshape(value.shape)
    tensor = torch.from_numpy(array)
    _made[tensor.data_ptr()] = owner
    return tensor.view(torch.bfloat16) if bits else tensor


def _array(address: int, nbytes: int) -> Any:
    block: Any = (ctypes.c_char * nbytes).from_address(address)
    return np.frombuffer(block, np.uint8)


def _address(buffer: Any) -> int:
    """Returns where a buffer is in the host's memory, by a map that has ended: these drivers move no buffer."""
    known = _addresses.get(id(buffer))
    if known is None:
        if len(_addresses) >= _MOST:
            _addresses.clear()
        access: Any = cl.map_flags.READ | cl.map_flags.WRITE
        mapped, _ = cl.enqueue_map_buffer(ENGINE.queue, buffer, access, 0, (buffer.size,), np.dtype(np.uint8))
        known = _addresses[id(buffer)] = buffer, mapped.ctypes.data
        mapped.base.release(ENGINE.queue)
    return known[1]

"""Tensors of device "ocl": PyTorch's tensor with shape and strides, and a storage that holds one netcl tensor.

PyTorch keeps sizes, strides and offsets, and shares a storage between a tensor, its views and what autograd saves of
it. The storage has the elements as a netcl tensor, whose shape is one in which they are whole. netcl's kernels read
contiguous memory from its beginning: ``take`` gives a tensor as such, by a copy if it is a view that is not whole.
``put`` writes: a tensor that is whole gets another netcl tensor, a view is scattered.

Elements of a dtype that the device has not, such as complex64, are on the host in a ``HostBlock``.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from functools import wraps
from math import prod
from typing import Any

import numpy as np
import torch

from netcl.core.device import device, manager
from netcl.core.dtypes import OBJECTS, SUPPORTED, numpy_dtype
from netcl.core.engine.registry import engine_for
from netcl.core.errors import DeviceLostError, OutOfMemoryError
from netcl.core.layout import contiguous_strides
from netcl.core.storage.views import ViewStorage, separate
from netcl.ops import cast, clone, expand, neg

META = torch._C.DispatchKey.Meta
_create = torch._C._acc.create_empty_tensor
_as_strided = torch.ops.aten.as_strided.default._op_dk
TORCH = {name: getattr(torch, name) for name in SUPPORTED}


class NoKernel(Exception):
    """Raised by a kernel for arguments that it does not take: the call falls back to the CPU."""


def _dtypes(engine: Any) -> dict[torch.dtype, Any]:
    """Returns netcl's dtype of each of PyTorch's that ``engine`` computes in."""
    has_double = engine.name != "cl" or device.profile(engine.queue).has_fp64
    return {TORCH[name]: OBJECTS[name] for name in SUPPORTED if has_double or name != "float64"}


ENGINE: Any = engine_for(manager.default())
DTYPES = _dtypes(ENGINE)


class Account:
    """Counts the bytes of the storages that live, in the words of netcl's pools, for an engine that has none."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a storage may end in the middle of code under this very lock
        self._sizes: dict[Any, int] = {}
        self._used = self._peak = 0

    def count(self, storage: Any) -> None:
        """Counts a storage, new or of another size than before, until it ends."""
        reference, nbytes = weakref.ref(storage, self._ended), storage.nbytes()
        with self._lock:
            self._used += nbytes - self._sizes.get(reference, 0)
            self._sizes[reference] = nbytes
            self._peak = max(self._peak, self._used)

    def _ended(self, reference: Any) -> None:
        with self._lock:
            self._used -= self._sizes.pop(reference)

    def get_stats(self) -> dict[str, int]:
        """Returns bytes_in_use, bytes_allocated, which is the same, and peak_bytes."""
        return {"bytes_in_use": self._used, "bytes_allocated": self._used, "peak_bytes": self._peak}

    def reset_peak(self) -> None:
        """Makes ``peak_bytes`` start from the bytes in use."""
        with self._lock:
            self._peak = self._used


ACCOUNT = None if hasattr(ENGINE, "pool") else Account()


class HostBlock:
    """Elements of a dtype that the device has not: a flat CPU tensor, with the shape and dtype of a netcl tensor."""

    __slots__ = ("dtype", "flat", "shape", "size")

    def __init__(self, flat: torch.Tensor) -> None:
        self.flat, self.shape, self.size, self.dtype = flat, (flat.numel(),), flat.numel(), flat.dtype


class OclStorage(torch.UntypedStorage):
    """The storage of tensors on "ocl"; ``content`` is a netcl tensor or a HostBlock."""

    content: Any

    def nbytes(self) -> int:
        """Returns the bytes of the elements."""
        return int(self.content.size) * int(self.content.dtype.itemsize)

    size = __len__ = nbytes

    def cpu(self) -> torch.UntypedStorage:
        """Returns a copy in the host's memory."""
        return torch.from_numpy(host_bytes(self.content)).untyped_storage()

    def to(self, *, device: Any, non_blocking: bool = False) -> torch.UntypedStorage:
        """Returns a copy on another device, or the storage itself."""
        return self if torch.device(device).type == "ocl" else self.cpu().to(device=device)

    def clone(self) -> torch.UntypedStorage:
        """Returns a copy on the device."""
        content = self.content
        copied = HostBlock(content.flat.clone()) if isinstance(content, HostBlock) else clone(content)
        return hold(_create((0,), torch.uint8), copied).untyped_storage()

    def data_ptr(self) -> int:
        """Returns a number that no other storage has while this one lives; it is no address."""
        return self._cdata

    def copy_(self, source: Any, non_blocking: bool | None = None) -> Any:
        """Copies the bytes of another storage of the same size."""
        other = source if isinstance(source, torch.UntypedStorage) else source._untyped_storage
        taken = host_bytes(other.content) if isinstance(other, OclStorage) else _bytes_of(other)
        store_bytes(self, taken)
        return self

    def _write_file(self, file: Any, is_real_file: bool, save_size: bool, element_size: int) -> None:
        self.cpu()._write_file(file, is_real_file, save_size, element_size)

    def _set_from_file(self, file: Any, offset: Any, is_real_file: bool, element_size: int) -> OclStorage:
        host = torch.UntypedStorage(self.nbytes())
        host._set_from_file(file, offset, is_real_file, element_size)
        store_bytes(self, _bytes_of(host))
        return self

    def __getitem__(self, index: Any) -> Any:
        return self.cpu()[index]

    def tolist(self) -> list[int]:
        """Returns the bytes as numbers."""
        return host_bytes(self.content).tolist()  # type: ignore[no-any-return]


def _bytes_of(storage: torch.UntypedStorage) -> Any:
    return torch.empty(0, dtype=torch.uint8).set_(storage).numpy().copy()


def host_bytes(content: Any) -> Any:
    """Returns the elements of a storage's content as an array of bytes."""
    if isinstance(content, HostBlock):
        return _bytes_of(content.flat.untyped_storage())
    return np.array(content.engine.read(content)).reshape(-1).view(np.uint8)


def content_of(raw: Any, dtype: torch.dtype) -> Any:
    """Returns bytes as the content of a storage of ``dtype``."""
    whole = raw[: len(raw) // dtype.itemsize * dtype.itemsize]
    if dtype not in DTYPES:
        flat = torch.empty(len(whole) // dtype.itemsize, dtype=dtype)
        if len(whole):
            flat.view(torch.uint8).copy_(torch.from_numpy(whole))
        return HostBlock(flat)
    name = DTYPES[dtype]
    return ENGINE.tensor(whole.view(numpy_dtype(name)), name)


def store_bytes(storage: OclStorage, raw: Any) -> None:
    """Gives ``storage`` other bytes in the dtype that it has."""
    dtype = storage.content.dtype
    storage.content = content_of(raw, dtype if isinstance(dtype, torch.dtype) else TORCH[str(dtype)])


def hold(tensor: torch.Tensor, content: Any) -> torch.Tensor:
    """Gives the whole tensor ``tensor`` its content, and returns it."""
    storage = tensor.untyped_storage()
    storage.__class__ = OclStorage
    storage.content = content  # type: ignore[attr-defined]
    if ACCOUNT is not None:
        ACCOUNT.count(storage)
    return tensor


def give(value: Any) -> torch.Tensor:
    """Returns a netcl tensor, which no other tensor shares memory with, as a tensor of PyTorch."""
    if type(value._storage) is ViewStorage:
        value = separate(value)
    return hold(_create(value.shape, TORCH[value.dtype]), value)


def new(shape: Any, dtype: torch.dtype) -> torch.Tensor:
    """Returns a contiguous tensor of undefined values."""
    shape = tuple(shape)
    if dtype in DTYPES:
        return give(ENGINE.empty(shape, DTYPES[dtype]))
    return hold(_create(shape, dtype), HostBlock(torch.empty(prod(shape), dtype=dtype)))


def strided(tensor: torch.Tensor, size: Any, stride: Any, offset: Any = None) -> torch.Tensor:
    """Returns a view of the storage of ``tensor``."""
    return _as_strided(META, tensor, size, stride, offset)  # type: ignore[no-any-return]


def elsewhere(tensor: torch.Tensor) -> RuntimeError:
    """Returns PyTorch's error for a tensor that is not on the device."""
    places = f"ocl:0 and {tensor.device}!"
    return RuntimeError(f"Expected all tensors to be on the same device, but found at least two devices, {places}")


def retyped(tensor: torch.Tensor, storage: Any) -> Any:
    """Returns the content of the storage in the dtype of ``tensor``, which it has from now on."""
    if tensor.device.type != "ocl":
        raise elsewhere(tensor)
    dtype = tensor.dtype
    content = storage.content
    if content.dtype is not DTYPES.get(dtype, dtype):
        content = storage.content = content_of(host_bytes(content), dtype)
    return content


def take(tensor: torch.Tensor) -> Any:
    """Returns a tensor of PyTorch as a netcl tensor: its own memory if it is whole, else a copy of what it shows.

    Raises NoKernel for a dtype that the device has not.
    """
    storage: Any = tensor.untyped_storage()
    try:
        content = storage.content
        if content.dtype is not DTYPES[tensor.dtype]:
            content = retyped(tensor, storage)
    except (AttributeError, KeyError):
        retyped(tensor, storage)  # raises for a tensor of another device
        raise NoKernel(f"{tensor.dtype} has no kernels on {ENGINE.device_label}") from None
    if tensor.is_contiguous():
        shape = tensor.shape
        if shape == content.shape:
            return content
        if tensor.numel() == content.size:
            return content._alias(tuple(shape))  # no view of netcl's has the place of a content
    return _gathered(tensor, content)


def _gathered(tensor: torch.Tensor, content: Any) -> Any:
    shape, strides = tuple(tensor.shape), tensor.stride()
    out = ENGINE.empty(shape, content.dtype)  # a neg bit has only the imaginary part of a conjugated tensor
    if out.size:
        ENGINE.copy(
            content,
            out,
            shape=shape,
            source_strides=strides,
            source_offset=tensor.storage_offset(),
            out_strides=contiguous_strides(shape),
            out_offset=0,
        )
    return neg(out) if tensor.is_neg() else out


def put(tensor: torch.Tensor, value: Any) -> None:
    """Writes ``value``, a netcl tensor that broadcasts and that nothing else shares memory with, into ``tensor``."""
    storage: Any = tensor.untyped_storage()
    dtype = DTYPES.get(tensor.dtype)
    content = storage.content
    if dtype is None:
        raise NoKernel(f"{tensor.dtype} has no kernels on {ENGINE.device_label}")
    if content.dtype is not dtype:
        content = retyped(tensor, storage)
    if value.dtype is not dtype:
        value = cast(value, dtype=dtype)
    shape = tensor.shape
    if tensor.is_contiguous() and (shape == content.shape or tensor.numel() == content.size):
        if value.shape != shape:
            value = expand(value, tuple(shape))
        storage.content = separate(value) if type(value._storage) is ViewStorage else value
        return
    check_single(tensor)
    _scatter(tensor, content, value)


def check_single(tensor: torch.Tensor) -> None:
    """Raises PyTorch's RuntimeError if elements of ``tensor`` share memory with each other."""
    if (
        not tensor.is_contiguous()
        and tensor.numel()
        and any(step == 0 and size > 1 for size, step in zip(tensor.shape, tensor.stride()))
    ):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory "
            "location. Please clone() the tensor before performing the operation."
        )


def _scatter(tensor: torch.Tensor, content: Any, value: Any) -> None:
    shape = tuple(tensor.shape)
    if 0 in shape:
        return
    strides = contiguous_strides(value.shape)
    lead = len(shape) - len(strides)
    steps = [0] * lead + [0 if size == 1 else step for size, step in zip(value.shape, strides)]
    ENGINE.copy(
        value,
        content,
        shape=shape,
        source_strides=steps,
        source_offset=0,
        out_strides=tensor.stride(),
        out_offset=tensor.storage_offset(),
    )
    content._storage.written()


def to_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a contiguous copy of a tensor on the CPU, without gradient."""
    if tensor.dtype in DTYPES:
        values = from_netcl(take(tensor))
    else:
        block = retyped(tensor, tensor.untyped_storage())
        values = block.flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).clone()
    if tensor.is_conj():
        values = values.conj().resolve_conj()
    return values


def from_netcl(value: Any) -> torch.Tensor:
    """Returns a netcl tensor as a tensor on the CPU."""
    stored = np.ascontiguousarray(value.engine.read(value)).reshape(value.shape)
    if not stored.flags.writeable or stored is getattr(value, "array", None):
        stored = stored.copy()
    if value.dtype == "bfloat16":
        return torch.from_numpy(stored.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(stored)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a CPU tensor, contiguous, without a gradient, a conjugation or the like that is still to be done."""
    values = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return torch.zeros(values.shape, dtype=values.dtype) if values._is_zerotensor() else values


def from_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a copy of a CPU tensor on the device, contiguous."""
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise NotImplementedError(f"device 'ocl' has strided tensors only, got layout {tensor.layout}")
    if tensor.dtype in DTYPES:
        return give(to_netcl(tensor))
    flat = _plain(tensor).reshape(-1).clone()
    return hold(_create(tuple(tensor.shape), tensor.dtype), HostBlock(flat))


def to_netcl(tensor: torch.Tensor) -> Any:
    """Returns a copy of a CPU tensor, of a dtype that the device has, as a netcl tensor."""
    values = _plain(tensor)
    array = values.view(torch.int16).numpy().view(np.uint16) if values.dtype is torch.bfloat16 else values.numpy()
    return ENGINE.tensor(array, DTYPES[tensor.dtype])


def put_cpu(tensor: torch.Tensor, values: torch.Tensor) -> None:
    """Writes CPU values of the same shape, converted to its dtype, into ``tensor``."""
    values = values.detach().to(tensor.dtype)
    if tensor.is_conj():
        values = values.conj()
    if tensor.is_neg():
        values = values.neg()
    if tensor.dtype in DTYPES:
        put(tensor, to_netcl(values.expand(tensor.shape)))
        return
    check_single(tensor)
    block = retyped(tensor, tensor.untyped_storage())
    block.flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).copy_(values)


FATAL = (OutOfMemoryError, MemoryError, DeviceLostError)


def is_full(error: Exception) -> bool:
    """Returns True for an error of netcl, NumPy or PyTorch that says that there is no room."""
    return isinstance(error, FATAL[:2]) or "can't allocate memory" in str(error)


def roomy(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns ``function`` with PyTorch's error for no room."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (*FATAL[:2], RuntimeError) as error:
            if is_full(error) and not isinstance(error, torch.OutOfMemoryError):
                raise torch.OutOfMemoryError(str(error)) from error
            raise

    return call

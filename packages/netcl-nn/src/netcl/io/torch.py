"""Reads PyTorch's ``.pt`` files without executing anything in them and without PyTorch.

Two formats are read: the zip archive of PyTorch 1.6 and later, and the sequence of pickles before it. Names in a file
have only the meanings that this module defines, so a file of a whole model, or of anything but tensors and plain
containers, is refused. Every size in a file is checked against the size of the file before it is used.
"""

from __future__ import annotations

import io
import math
import os
import struct
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from netcl.core import Tensor
from netcl.core.dtypes import OBJECTS, from_bfloat16, numpy_dtype
from netcl.core.errors import from_here
from netcl.io import pickled_arrays
from netcl.io.budget import Budget, Meter
from netcl.io.checksum import crc32
from netcl.io.errors import CheckpointError
from netcl.io.load_into import load_into, placeholder
from netcl.io.pickles import MAX_BYTES, PickleError, read_pickle
from netcl.io.reading import open_regular, reading
from netcl.io.stored_zip import members_of, place_of
from netcl.nn.module import Module
from netcl.nn.placement import queue_of
from netcl.nn.state import IncompatibleKeys

Array = np.ndarray[Any, Any]

# PyTorch's storage classes and the dtypes of their elements, by netcl's names if netcl supports them.
STORAGES = {
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}
# Creates the value for a tensor from (shape, dtype, function that reads its values).
Make = Callable[[tuple[int, ...], str, Callable[[], Array]], Any]
_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
_CHUNK = 1 << 20
# Of a tensor without elements.
_TENSOR_MEMORY, _TENSOR_SECONDS = 1000, 8e-5


@dataclass(frozen=True)
class StorageType:
    """A storage class: the dtype of its elements, None for one of bytes."""

    dtype: str | None


@dataclass(frozen=True)
class Storage:
    """The elements that tensors are views of; ``dtype`` is None if each tensor gives its own."""

    key: str
    dtype: str | None
    elements: int


@dataclass(frozen=True)
class StorageRange:
    """The byte range of a storage in the file."""

    offset: int
    nbytes: int


@from_here
def load_torch(
    path: str | os.PathLike[str],
    model: Module | None = None,
    *,
    queue: Any = None,
    strict: bool = True,
    budget: Budget | None = None,
) -> Any:
    """Returns the object that ``torch.save`` wrote to ``path``: dicts, lists and tuples of plain values and tensors.

    Tensors are created on ``queue`` (None: the active device), as plain Tensors, also for parameters; equal views of
    one storage are one Tensor. dtypes are returned as DType. With ``model`` the file must be its state, which is read
    into it tensor by tensor, with the result of ``model.load_state_dict``: ``missing_keys`` and ``unexpected_keys``,
    which ``strict=False`` allows. Raises CheckpointError for a file that is damaged or truncated, contains anything but
    tensors and plain values (nothing in it is ever executed), has an unsupported dtype, exceeds ``budget`` (None:
    ``Budget()``), or that does not fit the model; nothing is written to the model then.
    """
    with open_regular(path) as file:
        return read_torch(file, os.fstat(file.fileno()).st_size, path, model, queue, strict, budget)


def read_torch(
    file: BinaryIO,
    size: int,
    path: str | os.PathLike[str],
    model: Module | None = None,
    queue: Any = None,
    strict: bool = True,
    budget: Budget | None = None,
) -> Any:
    """Reads like ``load_torch`` from an open binary file of ``size`` bytes; CheckpointError calls it ``path``."""
    place = queue_of(queue)
    with reading(path, size, budget, "is not read as a file of PyTorch") as state:
        read = _read_archive if file.read(4) == b"PK\x03\x04" else _read_sequence
        file.seek(0)
        make = _keep if model is not None else partial(_on_queue, place)
        value = read(file, state.meter, make)
        if model is not None:
            return _write_into(model, value, path, strict)
        return value


@dataclass(frozen=True)
class _UnreadTensor:
    """A tensor that has not been read from the file yet."""

    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], Array]


def _keep(shape: tuple[int, ...], dtype: str, read: Callable[[], Array]) -> Any:
    return _UnreadTensor(shape, dtype, read)


def _on_queue(queue: Any, shape: tuple[int, ...], dtype: str, read: Callable[[], Array]) -> Any:
    return Tensor.from_host(queue, read(), dtype)


def _write_into(model: Module, state: Any, path: str | os.PathLike[str], strict: bool) -> IncompatibleKeys:
    """Reads the tensors of a state one by one into ``model``; raises CheckpointError if it is not a state or does not
    fit.
    """
    if not isinstance(state, Mapping) or not all(isinstance(value, _UnreadTensor) for value in state.values()):
        kinds = f"the keys {', '.join(map(str, state))}" if isinstance(state, Mapping) else f"a {type(state).__name__}"
        raise CheckpointError(
            f"holds no state of a model but {kinds[:300]}; load it without a model and pass the part that is one", path
        )
    described = {name: placeholder(value.shape, value.dtype) for name, value in state.items()}
    return load_into(model, described, lambda names: ((name, state[name].read()) for name in names), path, strict)[1]


def _read_archive(file: BinaryIO, meter: Meter, make: Make) -> Any:
    """Reads the zip format: ``<name>/data.pkl`` and one member per storage, ``<name>/data/<key>``."""
    members = {info.filename: info for info in members_of(file, meter)}
    pickled = [name for name in members if name.endswith("/data.pkl") and name.count("/") == 1]
    if len(pickled) != 1:
        raise PickleError("it has no data.pkl, or more than one")
    prefix = pickled[0].removesuffix("data.pkl")
    order = _read_member(file, members[prefix + "byteorder"], 16) if prefix + "byteorder" in members else b"little"
    if order not in (b"little", b"big"):
        raise PickleError(f"its byte order is {order!r}")
    places: dict[str, StorageRange] = {}
    room = file.seek(0, os.SEEK_END)

    def find(key: str) -> StorageRange:
        nonlocal room
        if key not in places:
            name = f"{prefix}data/{key}"
            if name not in members:
                raise PickleError(f"it lacks {name[:200]}")
            room -= members[name].file_size
            if room < 0:
                raise PickleError("its storages overlap")
            places[key] = _checked_member(file, members[name])
        return places[key]

    tensors = _Tensors(file, meter, find, make, "<" if order == b"little" else ">")
    program = io.BytesIO(_read_member(file, members[pickled[0]], MAX_BYTES))
    return read_pickle(program, tensors.names(), _storage, pickled_arrays.build, meter)


def _read_member(file: BinaryIO, info: zipfile.ZipInfo, limit: int) -> bytes:
    """Returns the bytes of an uncompressed member; raises PickleError if there are more than ``limit``."""
    if info.file_size > limit:
        raise PickleError(f"{info.filename} has {info.file_size} bytes, at most {limit} are read")
    place = _checked_member(file, info)
    file.seek(place.offset)
    return file.read(place.nbytes)


def _checked_member(file: BinaryIO, info: zipfile.ZipInfo) -> StorageRange:
    """Returns the byte range of a member after comparing its bytes with their checksum."""
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
        raise PickleError(f"{info.filename} is compressed or encrypted")
    place = place_of(file, info)
    file.seek(place)
    checksum, left = 0, info.file_size
    while left:
        piece = file.read(min(left, _CHUNK))
        if not piece:
            raise PickleError(f"{info.filename} is cut short")
        checksum, left = crc32(piece, checksum), left - len(piece)
    if checksum != info.CRC:
        raise PickleError(f"{info.filename} is damaged: it does not have the CRC that it was saved with")
    return StorageRange(place, info.file_size)


def _read_sequence(file: BinaryIO, meter: Meter, make: Make) -> Any:
    """Reads the format before PyTorch 1.6: pickles of a magic number, a version, the machine, the value and the keys of
    its storages, followed by their bytes.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if read_pickle(file, {}, meter=meter) != _MAGIC or read_pickle(file, {}, meter=meter) != _PROTOCOL:
        raise PickleError("it begins as no file of PyTorch does")
    machine = read_pickle(file, {}, meter=meter)
    order = "<" if not isinstance(machine, dict) or machine.get("little_endian", True) else ">"
    start = file.tell()
    storages: dict[str, Storage] = {}

    def collect(identity: Any) -> Storage:
        storage = _storage(identity)
        storages[storage.key] = storage
        return storage

    # The offsets of the storages are known only after the value, so it is read twice, the first time without tensors.
    read_pickle(file, {**_Tensors.SHAPELESS, **_NAMES}, collect, pickled_arrays.build, meter)
    keys = read_pickle(file, {}, meter=meter)
    if not isinstance(keys, list):
        raise PickleError("it has no list of its storages")
    places: dict[str, StorageRange] = {}
    for key in keys:
        # Other types than text could take unbounded time to hash or to print.
        if not isinstance(key, str) or key not in storages or key in places:
            raise PickleError("it lists a storage twice, or one that nothing in it uses")
        (elements,) = struct.unpack(order + "q", file.read(8))
        nbytes = elements * _itemsize(storages[key].dtype)
        if not 0 <= nbytes <= size - file.tell():
            raise PickleError(f"its storage {key} has {elements} elements, more than the file holds")
        places[key] = StorageRange(file.tell(), nbytes)
        file.seek(nbytes, os.SEEK_CUR)
    tensors = _Tensors(file, meter, places.__getitem__, make, order)
    file.seek(start)
    return read_pickle(file, tensors.names(), _storage, pickled_arrays.build, meter)


def _itemsize(dtype: str | None) -> int:
    return 1 if dtype is None else 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize


def _storage(identity: Any) -> Storage:
    """Returns the storage of a persistent id, ("storage", class, key, location, number of elements)."""
    if not isinstance(identity, tuple) or len(identity) not in (5, 6) or identity[0] != "storage":
        raise PickleError("it holds a module or another object beside tensors; save the state_dict() instead")
    _, kind, key, _, elements, *view = identity
    if not isinstance(kind, StorageType) or not isinstance(key, str) or type(elements) is not int or elements < 0:
        raise PickleError("it is damaged (a storage is described by what is none)")
    if view and view[0] is not None:
        raise PickleError("it has views of storages of views, which PyTorch stopped writing in version 0.4")
    return Storage(key, kind.dtype, elements)


def _size(sizes: Any = ()) -> tuple[Any, ...]:
    return tuple(sizes)


def _device(kind: Any, index: Any = None) -> str:
    if not isinstance(kind, str) or not (index is None or type(index) is int):
        raise PickleError("it is damaged (a device is no text)")
    return kind if index is None else f"{kind}:{index}"


_NAMES: dict[str, Any] = {
    **{f"torch {name}": StorageType(dtype) for name, dtype in STORAGES.items()},
    **{f"torch {dtype}": dtype for dtype in ("int8", "int16", "uint16", "uint32", "uint64")},
    **{f"torch {name}": dtype for name, dtype in OBJECTS.items()},
    "torch.storage UntypedStorage": StorageType(None),
    "torch Tensor": "Tensor",
    "torch.nn.parameter Parameter": "Parameter",
    "torch Size": _size,
    "torch device": _device,
    **pickled_arrays.NAMES,
}


class _Tensors:
    """Creates the tensors of a pickle from the storages of a file."""

    REBUILDING = ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3")
    # The same names for the first reading, which creates no tensors.
    SHAPELESS: Mapping[str, Callable[..., Any]] = {
        **{f"torch._utils {name}": lambda *arguments: None for name in REBUILDING},
        "torch._utils _rebuild_parameter": lambda *arguments: None,
        "torch._utils _rebuild_parameter_with_state": lambda *arguments: None,
        "torch._tensor _rebuild_from_type_v2": lambda *arguments: None,
    }

    def __init__(
        self, file: BinaryIO, meter: Meter, find: Callable[[str], StorageRange], make: Make, order: Any
    ) -> None:
        self.file, self.find, self.make, self.order = file, find, make, order
        # Tensors may overlap, but a file with tensors of many times its own size is hostile.
        self.meter = meter
        # A tensor with wide strides takes little memory, and reads its whole span.
        self.reads = Meter(meter.budget, file.seek(0, os.SEEK_END), 8)
        self.made: dict[Any, Any] = {}

    def names(self) -> dict[str, Any]:
        """Returns the meanings of the names in a file."""
        return {
            **_NAMES,
            **{f"torch._utils {name}": self.rebuild for name in self.REBUILDING},
            "torch._utils _rebuild_parameter": _first,
            "torch._utils _rebuild_parameter_with_state": _first,
            "torch._tensor _rebuild_from_type_v2": self.rebuild_typed,
        }

    def rebuild_typed(self, function: Any, kind: Any, arguments: Any, state: Any = None) -> Any:
        """Creates a tensor without its additional attributes."""
        meaning = self.names().get(getattr(function, "text", ""))
        if meaning is None or meaning not in (self.rebuild, _first) or kind not in ("Tensor", "Parameter"):
            raise PickleError("it holds a tensor of a class of its own")
        return meaning(*arguments)

    def rebuild(
        self,
        storage: Any,
        offset: Any,
        shape: Any,
        strides: Any,
        requires_grad: Any = False,
        hooks: Any = None,
        dtype: Any = None,
        metadata: Any = None,
    ) -> Any:
        """Creates the view of a storage with this offset, shape and strides, counted in elements."""
        if not isinstance(storage, Storage):
            raise PickleError("it is damaged (a tensor has no storage)")
        name = storage.dtype if storage.dtype is not None else dtype
        if not isinstance(name, str) or name not in OBJECTS:
            shown = name if isinstance(name, str) else "of its own"
            raise PickleError(f"a tensor has the dtype {shown}, which netcl lacks")
        numbers = (offset, *shape, *strides)
        if len(shape) != len(strides) or any(type(n) is not int or not 0 <= n < 2**62 for n in numbers):
            raise PickleError("it is damaged (a tensor has no proper shape)")
        key = (storage.key, name, offset, tuple(shape), tuple(strides), requires_grad is True)
        if key not in self.made:
            self.meter.spend(_TENSOR_MEMORY, "its tensors")
            self.meter.take(_TENSOR_SECONDS, "making its tensors")
            stored = np.dtype(numpy_dtype(name)).newbyteorder(self.order)
            values = self._view(storage, stored, *key[2:5])
            read = (lambda: from_bfloat16(values())) if name == "bfloat16" else values
            self.made[key] = self.make(key[3], name, read)
            if requires_grad is True and isinstance(self.made[key], Tensor):
                self.made[key].requires_grad = True
        return self.made[key]

    def _view(
        self, storage: Storage, dtype: np.dtype[Any], offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> Callable[[], Array]:
        """Returns the function that reads a view of a storage; the view is checked against the file's size at once."""
        place = self.find(storage.key)
        if math.prod(shape) == 0:
            return partial(np.empty, shape, dtype.newbyteorder("="))
        # The elements from the first to the last one of the view.
        span = 1 + sum((length - 1) * stride for length, stride in zip(shape, strides))
        if (offset + span) * dtype.itemsize > place.nbytes:
            raise PickleError(f"a tensor of shape {shape} reaches beyond its storage of {place.nbytes} bytes")
        self.reads.spend(span * dtype.itemsize, f"reading a tensor of shape {shape}")
        self.meter.spend(math.prod(shape) * dtype.itemsize, f"a tensor of shape {shape}")
        return partial(self._read, place.offset + offset * dtype.itemsize, dtype, span, shape, strides)

    def _read(
        self, start: int, dtype: np.dtype[Any], span: int, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> Array:
        self.file.seek(start)
        data = self.file.read(span * dtype.itemsize)
        if len(data) != span * dtype.itemsize:
            raise PickleError("it ends early")
        view = np.ndarray(shape, dtype, data, strides=[stride * dtype.itemsize for stride in strides])
        return np.asarray(view, dtype.newbyteorder("="), order="C")


def _first(value: Any, *rest: Any) -> Any:
    return value

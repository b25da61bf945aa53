"""TensorData: shape, dtype and storage of a tensor, which is all that backends read; the base of Tensor."""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from netcl.core import dtypes
from netcl.core.dtypes import OBJECTS, DType
from netcl.core.process import late_launches
from netcl.core.storage.gradients import find, grad_fn_of, load
from netcl.core.storage.size import Shape
from netcl.core.storage.storage import Storage, Upload

if TYPE_CHECKING:
    from typing_extensions import Self

TensorT = TypeVar("TensorT", bound="TensorData")
_NO_UPLOAD = Upload()


def _upload_field(name: str, doc: str) -> Any:
    """A field of the storage's last copy from the host."""

    def get(tensor: TensorData) -> Any:
        upload = tensor._storage.upload
        return None if upload is None else getattr(upload, name)

    def put(tensor: TensorData, value: Any) -> None:
        storage = tensor._storage
        storage.upload = (storage.upload or _NO_UPLOAD)._replace(**{name: value})

    return property(get, put, doc=doc)


class TensorData:
    """A contiguous block of memory on a device, with its shape and dtype, and its place in the gradient graph.

    The memory is in a ``Storage`` that aliases share: on OpenCL a ``buffer``, on the NumPy backend an ``array``; to ask
    for them computes deferred storage. ``_base`` is the place of a tensor among the views of one tensor in the gradient
    graph; it is None outside of the graph.
    """

    __slots__ = (
        "__dict__",  # the user's own attributes; made at the first of them
        "__weakref__",
        "_base",
        "_grad",
        "_grad_fn",
        "_requires_grad",
        "_storage",
        "dtype",
        "engine",
        "shape",
    )
    engine: Any  # a DeviceBackend: its calls take TensorData
    shape: tuple[int, ...]
    dtype: DType
    _storage: Storage
    _base: Any
    _requires_grad: bool
    _grad: Any
    _grad_fn: Any

    def _begin(self, engine: Any, storage: Storage, shape: tuple[int, ...], dtype: str) -> Self:
        """Sets every slot; the arguments are trusted. Planned ops of OpenCL repeat these lines."""
        self.engine = engine
        self.shape = shape if type(shape) is Shape else Shape(shape)
        self.dtype = OBJECTS[dtype]
        self._storage = storage
        self._requires_grad = False
        self._grad = None
        self._grad_fn = None
        self._base = None
        return self

    @classmethod
    def _wrap(cls, engine: Any, shape: tuple[int, ...], dtype: str, buffer: Any, array: Any, allocation: Any) -> Self:
        """A tensor on memory that an engine has just allocated; the arguments are trusted."""
        return cls.__new__(cls)._begin(engine, Storage.of(buffer, array, allocation), shape, dtype)

    # -- the storage ---------------------------------------------------------------------------------------------

    def _ready_storage(self) -> Storage:
        """The storage, with its content computed; launches that write it may still wait for their programs."""
        storage = self._storage
        if storage.deferred is not None:
            storage.materialize()
            storage = self._storage  # another one, if the tensor has become a reshape of a value
        return storage

    @property
    def buffer(self) -> Any:
        """The storage on OpenCL, None on NumPy; all work on it so far is on its queue."""
        buffer = self._ready_storage().buffer
        late_launches.enqueue()
        return buffer

    @buffer.setter
    def buffer(self, buffer: Any) -> None:
        self._storage.buffer = buffer

    @property
    def array(self) -> Any:
        """The storage on NumPy in this tensor's shape, None on OpenCL."""
        storage = self._storage
        if storage.deferred is not None:
            storage.materialize()
            storage = self._storage
        array = storage.array
        return array if array is None or array.shape == self.shape else array.reshape(self.shape)

    @array.setter
    def array(self, array: Any) -> None:
        self._storage.array = array

    @property
    def pool_handle(self) -> Any:
        """The allocation that returns the buffer to its pool when the last tensor on it is gone."""
        return self._storage.allocation

    @pool_handle.setter
    def pool_handle(self, allocation: Any) -> None:
        self._storage.allocation = allocation

    @property
    def persistent(self) -> bool:
        """True if the storage never goes into a pool's free list."""
        return self._storage.persistent

    @persistent.setter
    def persistent(self, flag: bool) -> None:
        self._storage.persistent = flag

    @property
    def version(self) -> int:
        """The number of in-place writes into the storage, which other tensors may share. ``data``'s are not counted."""
        return self._storage.version & 0x3FFFFFFF  # modulo UNCOUNTED; the fastest form

    @property
    def storage_id(self) -> int:
        """A number that all tensors on the same storage share, and no others while one of them lives."""
        return self._storage.identity

    pending_event: Any = _upload_field("event", "The event of a copy into this tensor that may be under way.")
    pending_release: Any = _upload_field("release", "What is released when that copy has ended.")
    host_ref: Any = _upload_field("host_ref", "The host array that the copy reads, or that the device works on.")

    # -- the device ----------------------------------------------------------------------------------------------

    @property
    def queue(self) -> Any:
        """The queue of the device that holds the data."""
        return self.engine.queue

    @property
    def context(self) -> Any:
        """The OpenCL context of that device, None on NumPy."""
        return self.engine.context

    @property
    def backend(self) -> str:
        """The backend's name: ``cl`` or ``cpu``."""
        return self.engine.name  # type: ignore[no-any-return]

    # -- the gradient --------------------------------------------------------------------------------------------

    def _set_requires_grad(self, flag: bool) -> None:
        if self._grad_fn is not None and grad_fn_of(self) is not None:
            advice = "" if flag else "; write x.detach()"
            raise RuntimeError(f"requires_grad can be set on leaves of a graph only, not on results of ops{advice}")
        if flag:
            if not dtypes.is_floating(self.dtype):
                raise RuntimeError(f"only tensors of floating dtypes can require grad, not {self.dtype}")
            find()  # what records the ops on this tensor; without it the flag is a mark of leaves
        if self._storage.deferred is not None:
            self._storage.materialize()  # what was called before does not see the flag
        if flag is not self._requires_grad:
            self._before_flag()
        self._requires_grad = flag

    def _before_flag(self) -> None:
        """Called before ``requires_grad`` changes."""

    if TYPE_CHECKING:

        @property
        def requires_grad(self) -> bool: ...
        @requires_grad.setter
        def requires_grad(self, flag: bool) -> None: ...

    else:
        requires_grad = property(
            attrgetter("_requires_grad"), _set_requires_grad, doc="Whether the gradient of this tensor is wanted."
        )

    def _refuse_in_place(self, what: str) -> None:
        if self._grad_fn is not None and grad_fn_of(self) is not None:
            load().refuse_in_place(self, what)

    # -- shape ---------------------------------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements (the buffer may be larger)."""
        return math.prod(self.shape) * dtypes.SIZES[self.dtype]


def requires_grad(values: Iterable[Any]) -> bool:
    """True if one of the arguments of a call, or an element of a list among them, is a tensor that requires grad."""
    for value in values:
        if isinstance(value, TensorData):
            if value._requires_grad:
                return True
        elif type(value) in (list, tuple) and requires_grad(value):
            return True
    return False

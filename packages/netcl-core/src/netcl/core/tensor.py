"""Tensor: a contiguous block of device memory with its shape, dtype and place; its operators call the op table by
name.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from netcl.core import dispatch, dtypes
from netcl.core.backend.registry import cpu_engine, engine_for, is_queue
from netcl.core.errors import BackendMismatchError, DTypeError, ShapeError

if TYPE_CHECKING:
    from typing_extensions import Self

    from netcl.core.backend.base import DeviceBackend, HostTransfer
    from netcl.core.device import DeviceHandle

Array = np.ndarray[Any, Any]
_MOST_ELEMENTS = sys.maxsize // 8
_T = TypeVar("_T", bound="Tensor")


def _np_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy dtype in which elements of ``dtype`` are stored."""
    return dtypes.numpy_dtype(dtype)


def _dtype_nbytes(dtype: str) -> int:
    """Bytes of one element of ``dtype``."""
    return dtypes.itemsize(dtype)


def check_shape(shape: Any) -> tuple[int, ...]:
    """A shape given as an int or a sequence of ints, as a tuple; ShapeError where a length is negative or not whole, or
    where no memory could have so many elements.
    """
    try:
        sizes = tuple(shape)
    except TypeError:  # an int, or nothing that a shape could be
        sizes = (shape,)
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
            raise ShapeError(f"a shape needs whole, non-negative lengths, not {sizes}")
    sizes = tuple([int(size) for size in sizes])
    if math.prod(sizes) > _MOST_ELEMENTS or max(sizes, default=0) > _MOST_ELEMENTS:
        raise ShapeError(f"a tensor of shape {sizes} has more elements than memory can be addressed")
    return sizes


def _default_dtype(data: Array) -> str:
    """The dtype of host data by the contract: ints and bool keep theirs, 8- and 16-bit ones become int32, float64
    becomes float32.
    """
    kind, size = data.dtype.kind, data.dtype.itemsize
    if kind == "b":
        return "bool"
    if kind in "iu":
        return "int32" if size <= 2 or (kind, size) == ("i", 4) else "int64"
    if data.dtype.name in ("float16", "bfloat16"):
        return str(data.dtype.name)
    if kind == "f":
        return "float32"
    raise DTypeError(
        f"host data of dtype {data.dtype} has no counterpart; convert it to one of {', '.join(dtypes.SUPPORTED)}"
    )


def to_storage(data: Any, dtype: str | None) -> tuple[Array, str]:
    """Host data as a contiguous array in the storage dtype of ``dtype`` (default: by the contract), and the dtype's
    name.
    """
    array = np.asarray(data)
    if dtype is None:
        dtype = _default_dtype(array)
    elif array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        _default_dtype(array)
    dtype = dtypes.canonical(dtype)
    if dtype == "bfloat16":
        if array.dtype.name == "bfloat16":
            return np.ascontiguousarray(array).view(np.uint16).reshape(array.shape), dtype
        return dtypes.to_bfloat16(np.ascontiguousarray(array, dtype=np.float32)).reshape(array.shape), dtype
    # ascontiguousarray would make a 0-d array 1-d; asarray with order keeps the rank.
    return np.asarray(array, dtype=_np_dtype(dtype), order="C"), dtype


class _FromHost:
    """``Tensor.from_host(...)`` makes a tensor, ``t.from_host(data)`` overwrites one."""

    def __get__(self, instance: Tensor | None, owner: type[Tensor]) -> Callable[..., Any]:
        return owner._from_host if instance is None else instance.write


@dataclass(init=False, eq=False, repr=False, slots=True)
class Tensor(dispatch.Operand):
    """An n-dimensional array on a device: contiguous, of fixed shape and dtype.

    On OpenCL the data lie in ``buffer``, on the NumPy backend in ``array``. There are no views: ``reshape`` shares
    the storage, everything else copies. ``pool_handle`` is the lease that returns the buffer to its pool when the
    last tensor on it is gone.
    """

    buffer: Any
    shape: tuple[int, ...]
    dtype: str
    context: Any
    queue: Any
    pool_handle: Any = None
    persistent: bool = False
    requires_grad: bool = False
    grad: Tensor | None = None
    grad_fn: Callable[..., Any] | None = None
    backend: str = "cl"
    array: Array | None = None
    pending_event: Any = None
    pending_release: Any = None
    host_ref: Array | None = field(default=None)

    __array_priority__: ClassVar[float] = 1000.0

    def __init__(
        self,
        buffer: Any,
        shape: Sequence[int],
        dtype: str,
        context: Any,
        queue: Any,
        pool_handle: Any = None,
        persistent: bool = False,
        requires_grad: bool = False,
        grad: Tensor | None = None,
        grad_fn: Callable[..., Any] | None = None,
        backend: str | None = None,
        array: Array | None = None,
        pending_event: Any = None,
        pending_release: Any = None,
        host_ref: Array | None = None,
    ) -> None:
        self.buffer = buffer
        self.shape = check_shape(shape)
        self.dtype = dtypes.canonical(dtype)
        # mypy does not see the slots of the base class.
        engine = engine_for(queue) if queue is not None or backend != "cpu" else cpu_engine()
        self.engine = engine  # type: ignore[misc]
        self.queue = self.engine.queue
        self.context = context if context is not None else self.engine.context
        self.pool_handle = pool_handle
        self.persistent = persistent
        self.requires_grad = requires_grad
        self.grad = grad
        self.grad_fn = grad_fn
        self.backend = self.engine.name
        self.array = array
        self.pending_event = pending_event
        self.pending_release = pending_release
        self.host_ref = host_ref
        self._version = [0]  # type: ignore[misc]

    @classmethod
    def _wrap(
        cls: type[_T],
        engine: DeviceBackend,
        shape: tuple[int, ...],
        dtype: str,
        buffer: Any,
        array: Array | None,
        handle: Any,
    ) -> _T:
        """A tensor on storage that an engine has just allocated; the arguments are trusted."""
        self = cls.__new__(cls)
        self.buffer = buffer
        self.shape = shape
        self.dtype = dtype
        self.engine = engine
        self.queue = engine.queue
        self.context = engine.context
        self.pool_handle = handle
        self.persistent = False
        self.requires_grad = False
        self.grad = None
        self.grad_fn = None
        self.backend = engine.name
        self.array = array
        self.pending_event = None
        self.pending_release = None
        self.host_ref = None
        self._version = [0]
        return self

    def _alias(self, cls: type[_T], shape: tuple[int, ...]) -> _T:
        """A tensor of ``cls`` on the same storage, without the gradient fields."""
        other = cls._wrap(self.engine, shape, self.dtype, self.buffer, self.array, self.pool_handle)
        if self.array is not None and shape != self.shape:
            other.array = self.array.reshape(shape)
        other.persistent = self.persistent
        other.host_ref = self.host_ref
        other._version = self._version
        return other

    # -- making tensors ------------------------------------------------------------------------------------------

    from_host: ClassVar[_FromHost] = _FromHost()

    @classmethod
    def _from_host(
        cls,
        *args: Any,
        dtype: str | None = None,
        backend: str | None = None,
        async_copy: bool | None = None,
        use_pinned: bool | None = None,
        copy: bool = True,
        requires_grad: bool = False,
        persistent: bool = False,
    ) -> Tensor:
        """``Tensor.from_host(queue, data, dtype=None)`` or ``Tensor.from_host(data, dtype=None)``: host data on a
        device.

        Any array-like; the value is that at the call. ints and bool keep their dtype (8- and 16-bit become int32),
        float64 becomes float32 unless ``dtype`` says otherwise. ``copy=False`` lets a device that shares the host's
        memory work on ``data`` itself. DTypeError: data without a counterpart (complex, structured, objects).
        """
        queue, rest = (args[0], args[1:]) if args and (args[0] is None or is_queue(args[0])) else (None, args)
        if not 1 <= len(rest) <= 2:
            raise TypeError("from_host takes (queue, data, dtype=None) or (data, dtype=None)")
        engine = cpu_engine() if backend == "cpu" and queue is None else engine_for(queue)
        if backend is not None and backend != engine.name:
            raise BackendMismatchError(
                f"from_host: backend={backend!r} does not fit the queue of {engine.device_label}"
            )
        dtype = rest[1] if len(rest) == 2 else dtype
        source = rest[0].numpy() if isinstance(rest[0], Tensor) else rest[0]
        data, name = to_storage(source, dtype)
        buffer, event, pending, host_ref = engine.upload(
            data, name, async_copy=async_copy, use_pinned=use_pinned, copy=copy, persistent=persistent
        )
        tensor = cls._wrap(engine, data.shape, name, *buffer)
        tensor.pending_event, tensor.pending_release, tensor.host_ref = event, pending, host_ref
        tensor.persistent, tensor.requires_grad = persistent, requires_grad
        return tensor

    @staticmethod
    def from_shape(
        queue: Any,
        shape: int | Sequence[int],
        dtype: str = "float32",
        pool: Any = None,
        backend: str | None = None,
        fill: float | None = 0,
        *,
        persistent: bool = False,
        requires_grad: bool = False,
    ) -> Tensor:
        """A tensor of ``shape`` filled with ``fill`` (None: undefined content), from ``pool`` or the queue's own."""
        engine = cpu_engine() if queue is None and backend == "cpu" else engine_for(queue)
        name = dtypes.canonical(dtype)
        tensor = engine.empty(check_shape(shape), name, persistent=persistent, pool=pool)
        if fill is not None:
            engine.fill(tensor, fill)
        tensor.requires_grad = requires_grad
        return tensor

    @staticmethod
    def full(
        shape: int | Sequence[int],
        value: float,
        dtype: str = "float32",
        *,
        context: Any = None,
        queue: Any = None,
        requires_grad: bool = False,
        persistent: bool = False,
    ) -> Tensor:
        """A tensor of ``shape`` whose elements are all ``value``."""
        return Tensor.from_shape(queue, shape, dtype, fill=value, persistent=persistent, requires_grad=requires_grad)

    @staticmethod
    def zeros(shape: int | Sequence[int], dtype: str = "float32", **place: Any) -> Tensor:
        """Zeros of ``shape``; ``context= queue= requires_grad= persistent=`` as in ``full``."""
        return Tensor.full(shape, 0, dtype, **place)

    @staticmethod
    def ones(shape: int | Sequence[int], dtype: str = "float32", **place: Any) -> Tensor:
        """Ones of ``shape``; keyword arguments as in ``full``."""
        return Tensor.full(shape, 1, dtype, **place)

    @staticmethod
    def empty(
        shape: int | Sequence[int],
        dtype: str = "float32",
        *,
        context: Any = None,
        queue: Any = None,
        requires_grad: bool = False,
        persistent: bool = False,
    ) -> Tensor:
        """A tensor of ``shape`` with undefined content."""
        return Tensor.from_shape(queue, shape, dtype, fill=None, persistent=persistent, requires_grad=requires_grad)

    @staticmethod
    def _host_made(data: Array, dtype: str | None, queue: Any, requires_grad: bool, persistent: bool) -> Tensor:
        return Tensor.from_host(queue, data, dtype, requires_grad=requires_grad, persistent=persistent)  # type: ignore[no-any-return]

    @staticmethod
    def eye(
        n: int,
        m: int | None = None,
        dtype: str = "float32",
        *,
        context: Any = None,
        queue: Any = None,
        requires_grad: bool = False,
        persistent: bool = False,
    ) -> Tensor:
        """The (n, m) matrix with ones on its diagonal; m defaults to n."""
        return Tensor._host_made(np.eye(n, m, dtype=np.float32), dtype, queue, requires_grad, persistent)

    @staticmethod
    def arange(
        start: float,
        stop: float | None = None,
        step: float = 1,
        dtype: str | None = None,
        *,
        context: Any = None,
        queue: Any = None,
        requires_grad: bool = False,
        persistent: bool = False,
    ) -> Tensor:
        """Numbers from ``start`` (0 when only a stop is given) to before ``stop``; whole numbers give int64."""
        data = np.arange(start) if stop is None else np.arange(start, stop, step)
        return Tensor._host_made(data, dtype, queue, requires_grad, persistent)

    @staticmethod
    def rand(*shape: Any, **place: Any) -> Tensor:
        """Uniform float32 numbers in [0, 1) from the generator that ``ops.manual_seed`` seeds."""
        return Tensor._random("rand", shape, **place)

    @staticmethod
    def randn(*shape: Any, **place: Any) -> Tensor:
        """Standard normal float32 numbers from the generator that ``ops.manual_seed`` seeds."""
        return Tensor._random("randn", shape, **place)

    @staticmethod
    def _random(
        op: str,
        shape: Sequence[Any],
        *,
        dtype: str = "float32",
        context: Any = None,
        queue: Any = None,
        requires_grad: bool = False,
        persistent: bool = False,
    ) -> Tensor:
        sizes = check_shape(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
        tensor = dispatch.call(op, sizes, dtype=dtype, queue=queue)
        if persistent:
            kept = tensor.engine.empty(sizes, tensor.dtype, persistent=True)
            kept.write(tensor)
            tensor = kept
        tensor.requires_grad = requires_grad
        return tensor  # type: ignore[no-any-return]

    # -- reading and writing -------------------------------------------------------------------------------------

    def to_host(self) -> Array:
        """The values as a new array of ``shape``, after all work before; bfloat16 reads as float32."""
        stored = self.engine.read(self)
        return dtypes.from_bfloat16(stored) if self.dtype == "bfloat16" else stored

    numpy = to_host

    def to_host_async(self) -> HostTransfer:
        """Starts a copy to the host: ``.wait()`` gives the array, ``.done()`` says whether it has arrived, ``.event``
        is the device's event.
        """
        return self.engine.read_async(self)

    def wait(self) -> Self:
        """Waits for a pending copy into this tensor, and raises what the device has reported."""
        self.engine.wait(self.pending_event)
        self.pending_event = self.pending_release = None
        return self

    def write(self, data: Any) -> Self:
        """Overwrites the content in place with host values or another tensor of the same shape, converted to this
        dtype.
        """
        if isinstance(data, Tensor) and data.engine is self.engine:
            if data.shape != self.shape:
                raise ShapeError(f"write: values of shape {data.shape} into a tensor of shape {self.shape}")
            dispatch.assign(self, data)
        else:
            stored, _ = to_storage(data.numpy() if isinstance(data, Tensor) else data, self.dtype)
            if stored.shape != self.shape:
                raise ShapeError(f"write: values of shape {stored.shape} into a tensor of shape {self.shape}")
            self.engine.write(self, stored)
        self._version[0] += 1
        return self

    def item(self) -> Any:
        """The one element as a Python number; ShapeError where there are more or none."""
        if self.size != 1:
            raise ShapeError(f"item: a tensor of shape {self.shape} has {self.size} elements, not one")
        return self.to_host().reshape(-1)[0].item()

    def tolist(self) -> Any:
        """The values as nested Python lists (a number for a 0-d tensor)."""
        return self.to_host().tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("a tensor's values are copied to the host; copy=False cannot be kept")
        values = self.to_host()
        return values if dtype is None else values.astype(dtype, copy=False)

    def __dlpack__(self, **kwargs: Any) -> Any:
        if self.array is None or self.dtype == "bfloat16":
            raise BufferError(
                f"DLPack needs memory of the host: this is a {self.dtype} tensor on {self.engine.device_label}; "
                "use .cpu() or .numpy()"
            )
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        if self.array is None:
            raise BufferError(f"DLPack needs memory of the host: this tensor is on {self.engine.device_label}")
        return (1, 0)

    # -- facts ---------------------------------------------------------------------------------------------------

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
        return self.size * dtypes.itemsize(self.dtype)

    @property
    def device(self) -> DeviceHandle:
        """The handle of the device that holds the data."""
        return self.engine.handle

    @property
    def storage(self) -> Any:
        """``buffer`` on OpenCL, ``array`` on NumPy: for backends."""
        return self.buffer if self.array is None else self.array

    @property
    def version(self) -> int:
        """How often the storage was written in place; tensors on the same storage count together."""
        return self._version[0]

    @property
    def storage_id(self) -> int:
        """A number that all tensors on the same storage share, and no others while one of them lives."""
        return id(self._version)

    def __repr__(self) -> str:
        values = np.array2string(
            self.to_host(), precision=4, threshold=64, edgeitems=3, separator=", ", prefix="Tensor("
        )
        grad = ", requires_grad=True" if self.requires_grad else ""
        return f"Tensor({values}, dtype={self.dtype}, device={self.engine.device_label!r}{grad})"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise TypeError("iteration over a 0-d tensor")
        return (self[i] for i in range(self.shape[0]))

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(f"the truth value of a tensor of shape {self.shape} is ambiguous; use any() or all()")
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        if dtypes.is_floating(self.dtype):
            raise TypeError(f"a {self.dtype} tensor is no index")
        return int(self.item())

    # -- places and copies ---------------------------------------------------------------------------------------

    def to(self, device: Any = None, dtype: str | None = None) -> Tensor:
        """This tensor on ``device`` (selector, handle or queue) and in ``dtype``; itself where nothing changes.

        The copy is part of the gradient graph where one is recorded; else it requires grad where this tensor does.
        """
        result: Tensor = self
        if device is not None:
            engine = engine_for(_queue_of(device))
            if engine is not self.engine:
                result = dispatch.call("transfer", self, engine.queue, record=self.requires_grad)
                if result.grad_fn is None:
                    result.requires_grad = self.requires_grad
        return result if dtype is None else result.astype(dtype)

    def cpu(self) -> Tensor:
        """This tensor on the NumPy backend."""
        return self.to("cpu")

    def astype(self, dtype: str) -> Tensor:
        """The values converted to ``dtype``; itself where it has it already."""
        name = dtypes.canonical(dtype)
        return self if name == self.dtype else dispatch.call("cast", self, dtype=name, record=True)

    def clone(self) -> Tensor:
        """A copy of its own, part of the gradient graph."""
        return dispatch.call("clone", self, record=True)  # type: ignore[no-any-return]

    def detach(self) -> Tensor:
        """The same storage outside of the gradient graph."""
        return self._alias(Tensor, self.shape)

    # -- operators: each one calls its row of the op table ---------------------------------------------------------

    def __add__(self, other: Any) -> Tensor:
        return _call("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _call("add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return _call("sub", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _call("sub", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return _call("mul", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _call("mul", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return _call("div", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return _call("div", other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return _call("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return _call("floor_divide", other, self)

    def __mod__(self, other: Any) -> Tensor:
        return _call("mod", self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return _call("mod", other, self)

    def __pow__(self, other: Any) -> Tensor:
        return _call("pow", self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return _call("pow", other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return _call("matmul", self, other)

    def __neg__(self) -> Tensor:
        return _call("neg", self)

    def __abs__(self) -> Tensor:
        return _call("abs", self)

    def __eq__(self, other: object) -> Any:
        return _call("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return _call("ne", self, other)

    def __lt__(self, other: Any) -> Tensor:
        return _call("lt", self, other)

    def __le__(self, other: Any) -> Tensor:
        return _call("le", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return _call("gt", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return _call("ge", self, other)

    def __and__(self, other: Any) -> Tensor:
        return _call("logical_and", self, other)

    def __or__(self, other: Any) -> Tensor:
        return _call("logical_or", self, other)

    def __xor__(self, other: Any) -> Tensor:
        return _call("logical_xor", self, other)

    def __invert__(self) -> Tensor:
        return _call("logical_not", self)

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __getitem__(self, key: Any) -> Tensor:
        return _call("getitem", self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        dispatch.call("setitem", self, key, value)
        self._version[0] += 1

    # -- methods: the rows of the same name ------------------------------------------------------------------------

    def sum(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Sum over ``axis`` (int, tuple or None for all)."""
        return _call("sum", self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Mean over ``axis`` (int, tuple or None for all)."""
        return _call("mean", self, axis=axis, keepdims=keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Largest element over ``axis``; NaN wins."""
        return _call("max", self, axis=axis, keepdims=keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Smallest element over ``axis``; NaN wins."""
        return _call("min", self, axis=axis, keepdims=keepdims)

    def prod(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Product over ``axis``."""
        return _call("prod", self, axis=axis, keepdims=keepdims)

    def var(self, axis: Any = None, keepdims: bool = False, ddof: int = 0) -> Tensor:
        """Variance over ``axis``, with divisor n - ddof."""
        return _call("var", self, axis=axis, keepdims=keepdims, ddof=ddof)

    def std(self, axis: Any = None, keepdims: bool = False, ddof: int = 0) -> Tensor:
        """Standard deviation over ``axis``, with divisor n - ddof."""
        return _call("std", self, axis=axis, keepdims=keepdims, ddof=ddof)

    def all(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Whether all elements over ``axis`` are true."""
        return _call("all", self, axis=axis, keepdims=keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Whether any element over ``axis`` is true."""
        return _call("any", self, axis=axis, keepdims=keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """Position of the first largest element along ``axis``, int64."""
        return _call("argmax", self, axis=axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """Position of the first smallest element along ``axis``, int64."""
        return _call("argmin", self, axis=axis, keepdims=keepdims)

    def softmax(self, axis: int = -1) -> Tensor:
        """exp(x) / sum(exp(x)) along ``axis``."""
        return _call("softmax", self, axis=axis)

    def exp(self) -> Tensor:
        """e to the power of each element."""
        return _call("exp", self)

    def log(self) -> Tensor:
        """Natural logarithm of each element."""
        return _call("log", self)

    def sqrt(self) -> Tensor:
        """Square root of each element."""
        return _call("sqrt", self)

    def relu(self) -> Tensor:
        """max(x, 0)."""
        return _call("relu", self)

    def tanh(self) -> Tensor:
        """Hyperbolic tangent of each element."""
        return _call("tanh", self)

    def sigmoid(self) -> Tensor:
        """1 / (1 + exp(-x))."""
        return _call("sigmoid", self)

    def clamp(self, min: float | None = None, max: float | None = None) -> Tensor:
        """Each element limited to [min, max]; None is no limit."""
        return _call("clamp", self, min=min, max=max)

    def reshape(self, *shape: Any) -> Tensor:
        """The same storage with another shape; one length may be -1."""
        return _call("reshape", self, shape=shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)

    def transpose(self, *axes: Any) -> Tensor:
        """A copy with axes in another order: two axes swapped, a whole permutation, or reversed when none is given."""
        return _call("transpose", self, axes=axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)

    def permute(self, *axes: Any) -> Tensor:
        """A copy with the axes in the order ``axes``."""
        return _call("permute", self, axes=axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)

    @property
    def T(self) -> Tensor:
        """A copy with the axes reversed."""
        return self.transpose()

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """The same storage with the axes start_dim..end_dim merged."""
        return _call("flatten", self, start_dim=start_dim, end_dim=end_dim)

    def squeeze(self, axis: Any = None) -> Tensor:
        """The same storage without axes of length one."""
        return _call("squeeze", self, axis=axis)

    def unsqueeze(self, axis: int) -> Tensor:
        """The same storage with an axis of length one at ``axis``."""
        return _call("unsqueeze", self, axis=axis)


def _call(name: str, *args: Any, **kwargs: Any) -> Tensor:
    return dispatch.call(name, *args, record=True, **kwargs)  # type: ignore[no-any-return]


def _queue_of(device: Any) -> Any:
    if isinstance(device, str):
        from netcl.core.device import manager
        from netcl.core.errors import DeviceNotFoundError

        handle = manager.default(device)
        if handle is None:
            raise DeviceNotFoundError(f"there is no {device!r} device here")
        return handle.queue
    return device

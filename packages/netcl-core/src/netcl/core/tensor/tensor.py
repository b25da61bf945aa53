"""Tensor: a contiguous block of device memory with shape, dtype and place; its operators call the op table."""

from __future__ import annotations

import copy
import importlib
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

import numpy as np

from netcl.core import dtypes
from netcl.core.device.discovery import DeviceHandle, manager
from netcl.core.device.discovery import device as device_context
from netcl.core.engine.protocol import HostTransfer
from netcl.core.engine.registry import cpu_engine, engine_for, is_queue
from netcl.core.errors import (
    ArgumentError,
    BackendMismatchError,
    DeviceNotFoundError,
    ShapeError,
    from_here,
    shorten_traceback,
)
from netcl.core.layout import contiguous_strides, normalize_axes
from netcl.core.ops_table import dispatch
from netcl.core.process import naming
from netcl.core.process.hook_stack import before_write, event, hooks_of_thread, is_passed, settle
from netcl.core.storage import gradients
from netcl.core.storage.host import check_shape, to_storage
from netcl.core.storage.size import Count
from netcl.core.storage.storage import Storage, Upload, lock
from netcl.core.storage.views import Geometry, UntypedStorage, ViewStorage, flush, geometry_of
from netcl.core.tensor import dlpack, in_place, printing
from netcl.core.tensor.absent import ABSENT, AbsentMember
from netcl.core.tensor.creation import Creation
from netcl.core.tensor.memory_format import channels_last, channels_last_3d, check_format
from netcl.core.tensor.typed_storage import TypedStorage

if TYPE_CHECKING:
    from typing_extensions import Self

Array = np.ndarray[Any, Any]
_T = TypeVar("_T", bound="Tensor")


def _np_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy dtype in which elements of ``dtype`` are stored."""
    return dtypes.numpy_dtype(dtype)


def _dtype_nbytes(dtype: str) -> int:
    """Bytes of one element of ``dtype``."""
    return dtypes.itemsize(dtype)


class _FromHost:
    """``Tensor.from_host(...)`` makes a tensor, ``t.from_host(data)`` overwrites one."""

    def __get__(self, instance: Tensor | None, owner: type[Tensor]) -> Callable[..., Tensor]:
        return owner._from_host if instance is None else instance.write


# The slots are TensorData's; the fields of the original API's dataclass are read through them.
@dataclass(init=False, eq=False, repr=False)
class Tensor(Creation["Tensor"]):
    """An n-dimensional array on a device: contiguous, of fixed shape and dtype.

    On OpenCL the data are in ``buffer``, on the NumPy backend in ``array``. Results of reshape, transpose, basic
    indexing and the like are views: writes in place show in what they are views of, and the reverse. Results of ops,
    leaves and plain tensors are all of this one class; gradients are computed by netcl-autograd, which is loaded by
    ``backward`` or ``requires_grad = True``.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # for dataclasses.fields; the slots and properties have the types
        buffer: Any
        shape: tuple[int, ...]
        dtype: dtypes.DType
        context: Any
        queue: Any
        pool_handle: Any
        persistent: bool
        requires_grad: bool
        grad: Tensor | None
        grad_fn: Callable[..., Any] | None
        backend: str
        array: Array | None
        pending_event: Any
        pending_release: Any
        host_ref: Array | None

    @overload
    def __init__(self, *sizes: int) -> None: ...

    @overload
    def __init__(self, data: Any, /) -> None: ...

    @overload
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
    ) -> None: ...

    def __init__(self, *args: Any, **fields: Any) -> None:
        """``Tensor(3, 4)`` has these sizes and undefined values, ``Tensor([1.0, 2.0])`` the values of a list, an array
        or a tensor; both have the default dtype and are on the active device. Else the fields of a tensor on a buffer.
        """
        if not fields and all(type(size) is int for size in args):
            self._adopt(type(self).empty(check_shape(args or (0,)), dtypes.get_default_dtype()))
        elif len(args) == 1 and "shape" not in fields:
            if fields:
                names = ", ".join(f"{name}=..." for name in fields)
                raise TypeError(f"Tensor(data) has the default dtype and device; write netcl.tensor(data, {names})")
            self._adopt(type(self).from_host(np.asarray(args[0]), dtype=dtypes.get_default_dtype()))
        else:
            self._begin_on_buffer(*args, **fields)

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if naming.subclassed is not None:
            naming.subclassed(cls)

    def as_subclass(self, cls: type[_T]) -> _T:
        """This tensor as one of ``cls``, a subclass of Tensor, on the same storage and place in the gradient graph."""
        if not issubclass(cls, Tensor):
            raise TypeError(f"as_subclass: expected a subclass of Tensor, got {cls!r}")
        made = dispatch.call("reshape", self, self.shape, record=True)
        made.__class__ = cls
        return made  # type: ignore[no-any-return]

    def _is_view(self) -> bool:
        """True if this tensor is a view of another one."""
        settle("a base was read", reads=True)  # predicted calls know none
        storage = self._ready_storage()  # first, as a deferred tensor has its base with it
        return hasattr(self._base, "group") or isinstance(storage, ViewStorage)

    @staticmethod
    def _make_subclass(cls: type[_T], data: Tensor, require_grad: bool = False) -> _T:
        """A leaf of the class ``cls`` on the storage of ``data``."""
        made: Any = data.detach()
        made.__class__ = cls
        if require_grad:
            made.requires_grad = True
        return made  # type: ignore[no-any-return]

    def _adopt(self, made: Tensor) -> None:
        self._begin(made.engine, made._storage, made.shape, made.dtype)

    def _begin_on_buffer(
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
        engine = engine_for(queue) if queue is not None or backend != "cpu" else cpu_engine()
        storage = Storage.of(buffer, array, pool_handle)
        storage.persistent = persistent
        if not (pending_event is None and pending_release is None and host_ref is None):
            storage.upload = Upload(pending_event, pending_release, host_ref)
        self._begin(engine, storage, check_shape(shape), dtypes.canonical(dtype))
        self.grad, self.grad_fn = grad, grad_fn
        if requires_grad:
            self.requires_grad = True

    def _on(self, storage: Storage, shape: tuple[int, ...], dtype: str) -> Tensor:
        """A tensor on ``storage``, which is on this tensor's engine, without the gradient fields."""
        return _new(Tensor)._begin(self.engine, storage, shape, dtype)

    def _alias(self, shape: tuple[int, ...]) -> Tensor:
        """A tensor on the same storage, without the gradient fields."""
        if self._storage.deferred is not None:
            with lock:
                if self._storage.deferred is not None:
                    self._storage.deferred[0].keep(self)
        return _new(Tensor)._begin(self.engine, self._storage, shape, self.dtype)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in ABSENT]

    # -- making tensors ------------------------------------------------------------------------------------------

    from_host: ClassVar[_FromHost] = _FromHost()

    @classmethod
    @from_here
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

        Any array-like; the value is that at the call. Tensors and arrays keep a supported dtype, except that an array
        of float64 becomes float32 unless ``dtype`` says otherwise. Python integers are int64, and OverflowError if they
        do not fit. ``copy=False`` lets a device that shares the host's memory work on ``data`` itself. DTypeError: data
        without a counterpart (complex, structured, objects).
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
        source = rest[0]
        if isinstance(source, Tensor):
            dtype = source.dtype if dtype is None else dtype
            source = source.to_host()
        tensor = cls._uploaded(engine, source, dtype, async_copy, use_pinned, copy, persistent)
        if requires_grad:
            tensor.requires_grad = True
        return tensor

    @classmethod
    def _uploaded(
        cls,
        engine: Any,
        source: Any,
        dtype: str | None,
        async_copy: bool | None = None,
        use_pinned: bool | None = None,
        copy: bool = True,
        persistent: bool = False,
    ) -> Tensor:
        """``from_host`` on an engine."""
        data, name = to_storage(source, dtype)
        buffer, event, pending, host_ref = engine.upload(
            data, name, async_copy=async_copy, use_pinned=use_pinned, copy=copy, persistent=persistent
        )
        tensor = cls._wrap(engine, data.shape, name, *buffer)
        tensor._storage.upload = Upload(event, pending, host_ref)
        tensor._storage.persistent = persistent
        return tensor

    # -- reading and writing -------------------------------------------------------------------------------------

    def to_host(self) -> Array:
        """The values as a new array of ``shape``, after all work before; bfloat16 reads as float32."""
        try:
            stored = self.engine.read(self)
        except Exception as error:
            shorten_traceback(error)
            raise
        return dtypes.from_bfloat16(stored) if self.dtype == "bfloat16" else stored

    def numpy(self, *, force: bool = False) -> Array:
        """``to_host()``, of a tensor that requires grad too. Under ``use_pytorch_names`` that raises RuntimeError
        without ``force``, as in PyTorch.
        """
        if self._requires_grad and not force and naming.is_foreign():
            raise RuntimeError("numpy: the tensor requires grad; write x.detach().numpy()")
        return self.to_host()

    def to_host_async(self) -> HostTransfer:
        """Starts a copy to the host: ``.wait()`` gives the array, ``.done()`` says whether it has arrived, ``.event``
        is the device's event.
        """
        return self.engine.read_async(self)

    def wait(self) -> Self:
        """Waits for a pending copy into this tensor, and raises what the device has reported."""
        storage = self._storage
        if storage.deferred is not None:
            storage.materialize()
            storage = self._storage
        upload = storage.upload or Upload()
        self.engine.wait(upload.event)
        storage.upload = Upload(host_ref=upload.host_ref)
        return self

    def write(self, data: Any) -> Self:
        """Overwrites the content with host values or another tensor of the same shape, converted to this dtype."""
        self._refuse_in_place("write")
        if isinstance(data, Tensor) and data.engine is self.engine:
            if data.shape != self.shape:
                raise ShapeError(f"write: values of shape {data.shape} into a tensor of shape {self.shape}")
            dispatch.assign(self, data)
        else:
            stored, _ = to_storage(data.to_host() if isinstance(data, Tensor) else data, self.dtype)
            if stored.shape != self.shape:
                raise ShapeError(f"write: values of shape {stored.shape} into a tensor of shape {self.shape}")
            before_write(self)
            self.engine.write(self, stored)
            self._storage.written()
            flush((self,))
        return self

    def item(self) -> Any:
        """The one element as a Python number; raises ShapeError if there are more or none."""
        if math.prod(self.shape) != 1:
            raise ShapeError(f"item: a tensor of shape {self.shape} has {self.size} elements, not one")
        return self.to_host().item()

    def tolist(self) -> Any:
        """The values as nested Python lists (a number for a 0-d tensor)."""
        return self.to_host().tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("a tensor's values are copied to the host; copy=False cannot be kept")
        values = self.to_host()
        return values if dtype is None else values.astype(dtype, copy=False)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The functions of the array API standard on tensors, netcl.array_api; ValueError for an unknown version."""
        namespace = importlib.import_module("netcl.array_api")
        if api_version not in (None, "2021.12", "2022.12", "2023.12", namespace.__array_api_version__):
            raise ValueError(f"netcl.array_api has version {namespace.__array_api_version__}, not {api_version!r}")
        return namespace

    def to_device(self, device: Any, /, *, stream: None = None) -> Tensor:
        """``to(device)``, by the name of the array API standard; raises ValueError for a ``stream``."""
        if stream is not None:
            raise ValueError("to_device: a device of netcl has its own queue and takes no stream")
        return self.to(device)

    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule for ``from_dlpack`` of another library, on the memory of this tensor if the host sees it: on NumPy
        and on OpenCL's CPU devices. Other memory is copied if ``copy`` is True or ``dl_device`` is the host.

        BufferError if that is not possible, and for a tensor that requires grad.
        """
        return dlpack.export(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.device_of(self)

    # -- facts ---------------------------------------------------------------------------------------------------

    @property
    def device(self) -> DeviceHandle:
        """The handle of the device that holds the data."""
        return self.engine.handle

    def __repr__(self) -> str:
        if naming.text_of_tensor is not None and naming.is_foreign():
            return naming.text_of_tensor(self)
        name = type(self).__name__
        is_meta = self.engine.name == "meta"
        values = f"..., size={tuple(self.shape)}" if is_meta else printing.shown(self.to_host(), f"{name}(")
        made = self.grad_fn
        graph = f", grad_fn={_shown(made)}" if made is not None else ", requires_grad=True" * self.requires_grad
        return f"{name}({values}, dtype={self.dtype}, device={str(self.device)!r}{graph})"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise TypeError("iteration over a 0-d tensor")
        return map(self.__getitem__, range(self.shape[0]))

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ArgumentError(f"the truth value of a tensor of shape {self.shape} is ambiguous; use any() or all()")
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __format__(self, spec: str) -> str:
        # One element is formatted as the number that it is, as PyTorch does: f"{loss:.4f}".
        as_number = not self.shape and (spec or naming.is_foreign())
        return format(self.item(), spec) if as_number else format(str(self), spec)

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if dtypes.is_floating(self.dtype):
            raise TypeError(f"a {self.dtype} tensor is no index")
        return int(self.item())

    @property
    def size(self) -> Count:
        """The number of elements; called, as ``x.size()`` or ``x.size(0)``, the lengths of the axes."""
        return Count.of(self.shape)

    # -- places and copies ---------------------------------------------------------------------------------------

    def to(self, *args: Any, device: Any = None, dtype: Any = None, copy: bool = False, **unused: Any) -> Tensor:
        """This tensor on a device (selector, handle or queue) and in a dtype; itself if nothing changes.

        ``to(device)``, ``to(dtype)``, ``to(device, dtype)`` or ``to(other)``, which takes both from another tensor;
        with ``copy`` always a copy. ``non_blocking`` and ``memory_format`` change nothing here. The copy is part of the
        gradient graph if one is recorded; else it requires grad if this tensor does.
        """
        if unused:
            if unknown := set(unused) - {"non_blocking", "memory_format"}:
                raise TypeError(f"to() got an unexpected keyword argument {unknown.pop()!r}")
            check_format("to", unused.get("memory_format"))
        for given in args:
            if isinstance(given, Tensor):
                device, dtype = given.engine.queue, given.dtype
            elif given is None or isinstance(given, bool):
                continue  # to(None, dtype), to(device, dtype, non_blocking)
            elif isinstance(given, dtypes.DType) or dtypes.is_dtype(given):
                dtype = given
            else:
                device = given
        result: Tensor = self
        if device is not None:
            engine = engine_for(queue_of(device))
            if engine is not self.engine:
                result = dispatch.call("transfer", self, engine.queue, record=self.requires_grad)
                if result.grad_fn is None:
                    result.requires_grad = self.requires_grad
        if dtype is not None:
            result = result.astype(dtype)
        return result.clone() if copy and result is self else result

    def cpu(self) -> Tensor:
        """This tensor on the NumPy backend."""
        return self.to("cpu")

    def astype(self, dtype: str) -> Tensor:
        """The values converted to ``dtype``; itself if it has that dtype."""
        name = dtypes.canonical(dtype)
        return self if name == self.dtype else dispatch.call("cast", self, dtype=name, record=True)

    def clone(self, *, memory_format: Any = None) -> Tensor:
        """A copy of its own, part of the gradient graph. ``memory_format`` changes nothing."""
        check_format("clone", memory_format)
        return dispatch.call("clone", self, record=True)  # type: ignore[no-any-return]

    def __copy__(self) -> Tensor:
        copied = self._alias(self.shape)._with_flag(self)
        copied.__dict__.update(self.__dict__)
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if self.grad_fn is not None:
            raise RuntimeError(
                "deepcopy: only leaves can be copied, not results of recorded ops; write x.detach() first"
            )
        copied = _new(type(self))
        made = dispatch.call("clone", self.detach(), record=False)
        copied._begin(made.engine, made._storage, made.shape, made.dtype)
        memo[id(self)] = copied._with_flag(self)
        if self.grad is not None:
            copied.grad = copy.deepcopy(self.grad, memo)
        copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return copied

    def _with_flag(self, other: Tensor) -> Tensor:
        if other.requires_grad:
            self.requires_grad = True
        return self

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        if self.grad_fn is not None:
            raise RuntimeError(
                "pickle: only leaves can be pickled, not results of recorded ops; write x.detach() first"
            )
        args = (type(self), self.engine.read(self), self.dtype, self.device.selector, self.requires_grad)
        return (_unpickled, args, dict(self.__dict__)) if self.__dict__ else (_unpickled, args)

    def _before_flag(self) -> None:
        settle("requires_grad was set")

    @event
    def detach(self) -> Tensor:
        """The same storage outside of the gradient graph."""
        return self._alias(self.shape)

    # -- memory --------------------------------------------------------------------------------------------------

    @property
    def data(self) -> Tensor:
        """The same storage outside of the gradient graph; writes into it are not counted, so that backward does not
        see them. To set it puts this tensor on the storage of another one.
        """
        return in_place.data_of(self)  # type: ignore[no-any-return]

    @data.setter
    def data(self, data: Tensor) -> None:
        in_place.set_data(self, data)

    def _geometry(self) -> Geometry:
        geometry = geometry_of(self)
        return Geometry(self.shape, contiguous_strides(self.shape)) if geometry is None else geometry

    def stride(self, dim: int | None = None) -> Any:
        """The steps between elements along the axes, or along ``dim``, in elements of the storage; of a view in those
        of what it is a view of.
        """
        strides = self._geometry().strides
        return strides if dim is None else strides[normalize_axes(dim, self.ndim, "stride")[0]]

    def storage_offset(self) -> int:
        """The position of the first element in the storage, of a view in that of what it is a view of."""
        return self._geometry().offset

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """True if the elements follow each other in C order in the storage, of a view in what it is a view of.

        No tensor has another ``memory_format``: True for ``channels_last`` only if C order is the same order.
        """
        check_format("is_contiguous", memory_format)
        if memory_format in (channels_last, channels_last_3d):
            rank = 4 if memory_format is channels_last else 5
            plane = self.shape[2:]
            return self.ndim == rank and self._geometry().is_contiguous and (self.shape[1] == 1 or set(plane) == {1})
        return self._geometry().is_contiguous

    def contiguous(self, memory_format: Any = None) -> Tensor:
        """This tensor if it is contiguous, else a copy of its own, part of the gradient graph. ``memory_format``
        changes nothing: elements stay in C order.
        """
        check_format("contiguous", memory_format)
        return self if self.is_contiguous() else dispatch.call("contiguous", self, record=True)

    @property
    def _version(self) -> int:
        settle("a version was read", reads=True)  # calls that are predicted count when they are computed
        return self.version

    def untyped_storage(self) -> UntypedStorage:
        """The storage that this tensor shares with what it is a view of and with all its views."""
        view = self._storage
        elements = view.extent if isinstance(view, ViewStorage) else self.size
        return UntypedStorage(self, elements * dtypes.itemsize(self.dtype))

    def storage(self) -> TypedStorage:
        """The elements of ``untyped_storage()``, in this tensor's dtype."""
        return TypedStorage(self)

    def data_ptr(self) -> int:
        """A number for the place of the first element: equal for tensors that begin at the same element of a storage,
        different for others. On the NumPy backend it is the address; on OpenCL it is no address that a program can use.
        """
        return self.untyped_storage().data_ptr() + self.storage_offset() * dtypes.itemsize(self.dtype)

    # -- gradients: netcl-autograd does what these ask for ---------------------------------------------------------

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward passes have added up here; None for none."""
        grad = self._grad
        if self._requires_grad and self._grad_fn is None and hooks_of_thread.state[1] and is_passed():
            return in_place.read_gradient(self)  # type: ignore[no-any-return]
        if type(grad) is gradients.Shared:
            grad = grad.value if grad.before_use is None and not grad.watched else grad.grad
        return grad  # type: ignore[no-any-return]

    @grad.setter
    def grad(self, grad: Tensor | None) -> None:
        if grad is not None and getattr(grad, "shape", self.shape) != self.shape:
            raise ShapeError(f"grad: expected the shape {self.shape} of the tensor, got {grad.shape}")
        if hooks_of_thread.state[1]:
            if self._requires_grad and self._grad_fn is None and (grad is None or isinstance(grad, Tensor)):
                in_place.set_gradient(self, grad)
                return
            settle("a gradient was set")  # by no call, so that a captured step would not do it
        shared = self._grad
        if type(shared) is gradients.Shared:
            if shared.before_use is None and not shared.watched:
                shared.value = grad
            else:
                shared.grad = grad
        else:
            self._grad = grad

    @property
    def grad_fn(self) -> Any:
        """The function that carries the gradient of this tensor further; None for a leaf, and outside of the graph."""
        made = self._grad_fn
        return made if made is None or type(made) is not gradients.Mark else gradients.grad_fn_of(self)

    @grad_fn.setter
    def grad_fn(self, made: Callable[..., Any] | None) -> None:
        self._grad_fn = made

    @property
    def value(self) -> Tensor:
        """A tensor on the same storage, outside of the graph."""
        return self.detach()

    @property
    def op_name(self) -> str:
        """The op that gave this tensor; empty for a leaf."""
        return "" if self.grad_fn is None else gradients.load().op_name(self)

    @property
    def creation_trace(self) -> str | None:
        """The place in the code where the op was called, while anomalies are detected."""
        return None if self.grad_fn is None else gradients.load().creation_trace(self)

    @property
    def parents(self) -> tuple[Any, ...]:
        """The destinations of the gradient: leaves as tensors, other values as the nodes that computed them."""
        return () if self.grad_fn is None else gradients.load().parents(self)

    @event
    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
        *,
        grad: Any = None,
    ) -> None:
        """Adds the gradient of this tensor to ``grad`` of every leaf that requires it, or of the leaves ``inputs``.

        ``gradient``, or ``grad``, is the gradient of the tensor itself, of its shape; a tensor of one element needs
        none. The graph is freed unless ``retain_graph`` (default: ``create_graph``); with ``create_graph`` the
        gradients can be differentiated again. ImportError if netcl-autograd is not installed.
        """
        if gradient is not None and grad is not None:
            raise TypeError("backward: grad is another name of gradient; give one of them")
        first = grad if gradient is None else gradient
        try:
            gradients.load().backward(self, first, bool(retain_graph), create_graph, inputs)
        except Exception as error:
            shorten_traceback(error)
            raise

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Any:
        """Calls ``hook(grad)`` when the gradient of this tensor is known; a Tensor that it returns takes the gradient's
        place. ``remove()`` of the result takes the hook off.
        """
        return gradients.load().register_hook(self, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> Any:
        """Calls ``hook(self)`` after a backward pass has added to ``grad`` of this leaf; ``remove()`` of the result
        takes the hook off. RuntimeError if it is no leaf or requires no grad.
        """
        return gradients.load().register_post_accumulate_grad_hook(self, hook)

    def retain_grad(self) -> None:
        """Makes backward passes keep the gradient of this tensor, the result of an op, in ``grad``, which adds up; a
        leaf's is kept anyway. RuntimeError if the tensor does not require grad.
        """
        gradients.load().retain_grad(self)

    @property
    def retains_grad(self) -> bool:
        """True if ``retain_grad`` was called on this tensor, and it is no leaf."""
        return self.grad_fn is not None and gradients.load().retains_grad(self)


def _refuses_prediction(
    leaves: Sequence[Any] | None,
    tensor: Tensor,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
    *,
    grad: Any = None,
) -> str | None:
    """Returns why a call of ``backward`` cannot be predicted; None if it can."""
    if retain_graph or create_graph or inputs is not None or gradient is not None or grad is not None:
        return "a backward pass with options"
    return gradients.load().refuses_prediction(tensor, leaves)


_backward: Any = Tensor.backward.__wrapped__  # type: ignore[attr-defined]
Tensor.detach.__wrapped__.aliases = True  # type: ignore[attr-defined]
_backward.refuses, _backward.changes_gradients, _backward.makes_gradients = _refuses_prediction, True, True
for _name in ABSENT:
    setattr(Tensor, _name, AbsentMember(_name))

_new = Tensor.__new__
Tensor.__init__.__signature__ = inspect.signature(Tensor._begin_on_buffer)  # type: ignore[attr-defined]


def _unpickled(cls: type[Tensor], stored: Array, dtype: str, selector: str, requires_grad: bool) -> Tensor:
    """The tensor of a pickle, on the device of its selector or, if that is not here, the active device."""
    try:
        engine = engine_for(queue_of(selector))
    except DeviceNotFoundError:
        engine = engine_for(None)
    made: Any = engine.tensor(stored, dtype)
    tensor = _new(cls)._begin(made.engine, made._storage, made.shape, made.dtype)
    if requires_grad:
        tensor.requires_grad = True
    return tensor


def _shown(grad_fn: Any) -> str:
    """``grad_fn`` as ``repr`` of its tensor shows it: ``<MulBackward>``, or the name of a function."""
    text = repr(grad_fn)
    return f"<{grad_fn.__name__}>" if hasattr(grad_fn, "__name__") else text if text[:1] == "<" else f"<{text}>"


@from_here
def queue_of(device: Any) -> Any:
    if isinstance(device, (str, int, device_context)):
        handle = manager.default(device)
        if handle is None:
            raise DeviceNotFoundError(f"there is no {device!r} device here")
        return handle.queue
    return device

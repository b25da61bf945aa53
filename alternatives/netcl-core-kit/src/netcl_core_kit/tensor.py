"""The methods of Tensor that are equal in every core."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from typing import Any

import numpy as np

from netcl_core_kit import gradients, in_place
from netcl_core_kit.dispatch import TABLE, _core, _local, before_write, call_row
from netcl_core_kit.dtypes import canonical, is_floating, itemsize, kind
from netcl_core_kit.errors import DTypeError, ShapeError
from netcl_core_kit.host_draws import draw_on_host

__all__ = ["HostTransfer", "TensorBase", "as_method"]


def _op(name: str, *args: Any, **kwargs: Any) -> Any:
    """Calls a row: recorded, or within another op as that op is."""
    row = TABLE[name]
    return call_row(row, args, kwargs, True if _local.mode is None else None)


class HostTransfer:
    """A copy to the host under way: ``wait()`` gives the array, ``done()`` says whether it is there."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor
        self.event: Any = None

    def wait(self) -> Any:
        """The values, in the tensor's shape; raises what the device has reported."""
        return self._tensor.numpy()

    def done(self) -> bool:
        """True: the copy is made when it is waited for."""
        return True


class TensorBase:
    """The methods of Tensor that need no memory of their own: made of rows, of the graph, of other methods.

    A core's Tensor inherits these, and has: ``engine``, ``shape``, ``dtype``, ``ndim``, ``size``, ``numpy``, ``item``,
    ``detach``, ``is_contiguous``; ``full``, ``from_host`` and ``_made(value, engine, requires_grad, persistent)``;
    ``_share(other)``, ``_reshaped(shape)``, ``_store(source)``, which writes a tensor that broadcasts into its memory, and
    ``_overlaps()``, true if elements share memory.
    """

    engine: Any
    _requires_grad = False
    _recorded = False
    _cell: Any = None
    _view: Any = None
    _kept: Any = None
    grad_fn: Any = None
    persistent = False
    __array_priority__ = 1000
    __hash__ = object.__hash__

    @classmethod
    def from_shape(
        cls, queue: Any, shape: Any, dtype: str = "float32", pool: Any = None, backend: str | None = None,
        fill: float | None = 0, *, persistent: bool = False, requires_grad: bool = False,
    ) -> Any:  # fmt: skip
        """A tensor of ``shape`` filled with ``fill`` (None: undefined content)."""
        if fill is None:
            return cls.empty(shape, dtype, queue=queue, persistent=persistent, requires_grad=requires_grad)
        return cls.full(shape, fill, dtype, queue=queue, persistent=persistent, requires_grad=requires_grad)

    @classmethod
    def zeros(cls, shape: Any, dtype: str = "float32", **place: Any) -> Any:
        """Zeros of ``shape``; keyword arguments as in ``full``."""
        return cls.full(shape, 0, dtype, **place)

    @classmethod
    def ones(cls, shape: Any, dtype: str = "float32", **place: Any) -> Any:
        """Ones of ``shape``; keyword arguments as in ``full``."""
        return cls.full(shape, 1, dtype, **place)

    @classmethod
    def arange(
        cls, start: float, stop: float | None = None, step: float = 1, dtype: str | None = None, *, context: Any = None,
        queue: Any = None, requires_grad: bool = False, persistent: bool = False,
    ) -> Any:  # fmt: skip
        """Numbers from ``start`` (0 when only a stop is given) to before ``stop``; whole numbers give int64."""
        first, last = (0, start) if stop is None else (start, stop)
        whole = all(isinstance(one, (int, np.integer)) for one in (first, last, step))
        dtype = canonical(dtype) if dtype is not None else "int64" if whole else "float32"
        array = np.arange(first, last, step, dtype=np.int64 if whole else np.float64)
        return cls.from_host(
            _core.engine_for(queue).queue, array, dtype, requires_grad=requires_grad, persistent=persistent
        )

    @classmethod
    def rand(cls, *shape: Any, **place: Any) -> Any:
        """Uniform float32 numbers in [0, 1)."""
        return cls._drawn("rand", shape, **place)

    @classmethod
    def randn(cls, *shape: Any, **place: Any) -> Any:
        """Standard normal float32 numbers."""
        return cls._drawn("randn", shape, **place)

    @classmethod
    def _drawn(
        cls, name: str, shape: Any, dtype: str = "float32", context: Any = None, queue: Any = None,
        requires_grad: bool = False, persistent: bool = False,
    ) -> Any:  # fmt: skip
        made = _op(name, *shape, dtype=dtype, queue=queue)
        return cls._made(made._t, made.engine, requires_grad, persistent)

    @property
    def queue(self) -> Any:
        """The queue of the device that holds the data."""
        return self.engine.queue

    @property
    def backend(self) -> str:
        """The backend's name: PyTorch's type of device."""
        return self.engine.name

    @property
    def device(self) -> Any:
        """The handle of the device that holds the data."""
        return self.engine.handle

    @property
    def requires_grad(self) -> bool:
        """Whether the gradient of this tensor is wanted."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if self.grad_fn is not None:
            advice = "" if wanted else "; write x.detach()"
            raise RuntimeError(f"requires_grad can be set on leaves of a graph only, not on results of ops{advice}")
        if wanted:
            if not is_floating(self.dtype):
                raise RuntimeError(f"only tensors of floating dtypes can require grad, not {self.dtype}")
            gradients.load()
        self._requires_grad = bool(wanted)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Sets ``requires_grad``; returns the tensor."""
        self.requires_grad = requires_grad
        return self

    @property
    def grad(self) -> Any:
        """The gradient that backward passes have added up here; None for none."""
        return None if self._cell is None else self._cell[0]

    @grad.setter
    def grad(self, value: Any) -> None:
        if self._cell is None:
            self._cell = [None]
        self._cell[0] = value

    @property
    def is_leaf(self) -> bool:
        """True if no recorded op gave this tensor."""
        return self.grad_fn is None

    @property
    def value(self) -> Any:
        """A tensor on the same storage, outside of the graph."""
        return self.detach()

    @property
    def T(self) -> Any:
        """The tensor with its axes reversed."""
        return _op("permute", self, tuple(range(self.ndim))[::-1])

    mT = property(lambda self: _op("matrix_transpose", self), doc="The last two axes swapped.")

    def detach_(self) -> Any:
        """Takes this tensor out of the gradient graph."""
        if gradients._methods[0] is not None:
            gradients._methods[0].detached(self)
        self.grad_fn, self._requires_grad, self._recorded = None, False, False
        return self

    @property
    def is_cuda(self) -> bool:
        """True on a GPU."""
        return self.device.device_type == "gpu"

    def to_host_async(self) -> HostTransfer:
        """Starts a copy to the host: ``.wait()`` gives the array."""
        return HostTransfer(self)

    def wait(self) -> Any:
        """Waits for work on this tensor, and raises what the device has reported."""
        self.queue.finish()
        self.engine.raise_reported()
        return self

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(f"the truth of a tensor of shape {self.shape} is not defined; write any() or all()")
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        if kind(self.dtype) == 2:
            raise TypeError(f"a tensor of dtype {self.dtype} is no index")
        return int(self.item())

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("a 0-d tensor has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[position] for position in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __repr__(self) -> str:
        place = "requires_grad=True" if self.grad_fn is None else f"grad_fn={self.grad_fn!r}"
        note = f", {place}" if self.requires_grad else ""
        values = np.array2string(self.numpy(), separator=", ")
        return f"{type(self).__name__}({values}, dtype={self.dtype}, device={self.backend}{note})"

    def __format__(self, text: str) -> str:
        return format(self.item(), text) if text and self.size == 1 else format(repr(self), text)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuilt, (type(self), self.numpy(), self.dtype, self.requires_grad, self.persistent)

    def astype(self, dtype: str) -> Any:
        """The values converted to ``dtype``; itself if it has that dtype."""
        return self if self.dtype == (name := canonical(dtype)) else _op("cast", self, dtype=name)

    def to(self, *args: Any, device: Any = None, dtype: Any = None, copy: bool = False, **unused: Any) -> Any:
        """This tensor on a device and in a dtype; itself if nothing changes."""
        for one in args:
            if isinstance(one, _core.tensor):
                device, dtype = one.queue, one.dtype
            elif isinstance(one, bool) or one is None:
                continue
            else:
                try:
                    dtype = canonical(one)
                except DTypeError:
                    device = one
        result = self
        if device is not None:
            queue = _core.engine_for(device).queue
            if queue is not self.queue:
                result = _op("transfer", result, queue)
                if self.requires_grad and not result.requires_grad and is_floating(self.dtype):
                    result.requires_grad = True
        if dtype is not None:
            result = result.astype(dtype)
        return result.clone() if copy and result is self else result

    def to_device(self, device: Any, /, *, stream: None = None) -> Any:
        """``to(device)``, by the name of the array API standard; ValueError for a ``stream``."""
        if stream is not None:
            raise ValueError("to_device takes no stream")
        return self.to(device)

    def cpu(self) -> Any:
        """This tensor on the CPU."""
        return self.to("cpu")

    def _new(self, size: Any, value: Any, dtype: Any, device: Any, requires_grad: bool) -> Any:
        queue = self.queue if device is None else _core.engine_for(device).queue
        shape = size[0] if len(size) == 1 and isinstance(size[0], (list, tuple)) else size
        return _core.tensor.full(shape, value, dtype or self.dtype, queue=queue, requires_grad=requires_grad)

    def new_zeros(self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
        """Zeros of ``size``, in the dtype and on the device of this tensor."""
        return self._new(size, 0, dtype, device, requires_grad)

    def new_ones(self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
        """Ones of ``size``, in the dtype and on the device of this tensor."""
        return self._new(size, 1, dtype, device, requires_grad)

    new_empty = new_zeros

    def clone(self, *, memory_format: Any = None) -> Any:
        """A copy of its own, part of the gradient graph."""
        return _op("clone", self)

    def contiguous(self, memory_format: Any = None) -> Any:
        """This tensor if it is contiguous, else a copy of its own."""
        return self if self.is_contiguous() else self.clone()

    def backward(
        self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None,
        *, grad: Any = None,
    ) -> None:  # fmt: skip
        """Adds the gradient of this tensor to ``grad`` of every leaf that requires it, or of the leaves ``inputs``."""
        retain = create_graph if retain_graph is None else retain_graph
        gradients.methods().backward(self, gradient if grad is None else grad, retain, create_graph, inputs)

    def register_hook(self, hook: Any) -> Any:
        """Calls ``hook(grad)`` when the gradient of this tensor is known."""
        return gradients.methods().register_hook(self, hook)

    def register_post_accumulate_grad_hook(self, hook: Any) -> Any:
        """Calls ``hook(leaf)`` after the gradient of this leaf has been added up."""
        return gradients.methods().register_post_accumulate_grad_hook(self, hook)

    def retain_grad(self) -> None:
        """Keeps the gradient of this result in ``grad``."""
        gradients.methods().retain_grad(self)

    @property
    def retains_grad(self) -> bool:
        """True if ``retain_grad`` was called."""
        return gradients._methods[0] is not None and bool(gradients.methods().retains_grad(self))

    @property
    def op_name(self) -> str:
        """The op that gave this tensor; empty for a leaf."""
        return gradients.methods().op_name(self) if self.grad_fn is not None else ""

    @property
    def creation_trace(self) -> str | None:
        """The place in the code where the op was called, while anomalies are detected."""
        return gradients.methods().creation_trace(self) if self.grad_fn is not None else None

    @property
    def parents(self) -> tuple[Any, ...]:
        """The destinations of the gradient."""
        return gradients.methods().parents(self) if self.grad_fn is not None else ()

    def write(self, data: Any) -> Any:
        """Overwrites the content in place with host values or another tensor of the same shape."""
        source = data if isinstance(data, _core.tensor) else _core.tensor.from_host(self.queue, data, self.dtype)
        if source.shape != self.shape:
            raise ShapeError(f"write: shape {source.shape} into {self.shape}")
        if self.grad_fn is not None:
            gradients.methods().refuse_in_place(self, "write")
        before_write(self, source)
        self._store(source)
        return self

    def copy_(self, source: Any, non_blocking: bool = False) -> Any:
        """Copies ``source`` in place, broadcast and converted."""
        return in_place.copy(self, source)

    def fill_(self, value: Any) -> Any:
        """Sets every element to ``value`` in place."""
        return in_place.fill(self, value)

    def zero_(self) -> Any:
        """Sets every element to 0 in place."""
        return in_place.fill(self, 0)

    def _draw(self, name: str, generator: Any, *args: float) -> Any:
        with _core.drawing_from(generator):
            return in_place.copy(self, _op(name, *args, self.shape, queue=self.queue))

    def uniform_(self, from_: float = 0.0, to: float = 1.0, *, generator: Any = None, **named: float) -> Any:
        """Sets the elements to uniform numbers in [from_, to); ``**{"from": 0.5}`` is PyTorch's name of from_."""
        from_ = named.pop("from", from_)
        if named:
            raise TypeError(f"uniform_() got an unexpected keyword argument {next(iter(named))!r}")
        return self._draw("uniform", generator, from_, to)

    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Any:
        """Sets the elements to normal numbers."""
        return self._draw("normal", generator, mean, std)

    def random_(self, from_: int = 0, to: int | None = None, *, generator: Any = None) -> Any:
        """Sets the elements to whole numbers in [from_, to), or from 0 to the largest that the dtype has."""
        digits = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8, "bool": 0}
        bits = digits.get(self.dtype, itemsize(self.dtype) * 8 - (not self.dtype.startswith("u")))
        if to is None:
            with _core.drawing_from(generator):
                array = draw_on_host(self.engine, "random", self.shape, self.dtype)
            if array is not None:
                return in_place.copy(self, array)
        return self._draw("randint", generator, from_, 2**bits + (bits in (24, 53)) if to is None else to)

    def exponential_(self, lambd: float = 1.0, *, generator: Any = None) -> Any:
        """Sets the elements to numbers of the exponential distribution with rate ``lambd``, above 0."""
        self._draw("uniform", generator, 0.0, 1.0)
        return in_place.copy(self, _op("div", _op("neg", _op("log1p", _op("neg", self.detach()))), float(lambd)))

    def __getitem__(self, key: Any) -> Any:
        return _op("getitem", self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        found = gradients._methods[0]
        if found is None or not found.assigned(self, key, value):
            _op("setitem", self, key, value)

    def _reduced(self, name: str, dim: Any, keepdim: bool, dtype: Any, names: dict[str, Any]) -> Any:
        dim, keepdim = names.pop("axis", dim), names.pop("keepdims", keepdim)
        if names:
            raise TypeError(f"{name} has no parameter {', '.join(names)}")
        return _op(name, self, dim, keepdim, dtype=dtype)

    def sum(self, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, **numpy_names: Any) -> Any:
        """The sum over ``dim``."""
        return self._reduced("sum", dim, keepdim, dtype, numpy_names)

    def mean(self, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, **numpy_names: Any) -> Any:
        """The mean over ``dim``."""
        return self._reduced("mean", dim, keepdim, dtype, numpy_names)

    def prod(self, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, **numpy_names: Any) -> Any:
        """The product over ``dim``."""
        return self._reduced("prod", dim, keepdim, dtype, numpy_names)

    def div(self, b: Any = None, *, other: Any = None, rounding_mode: str | None = None) -> Any:
        """The quotient; with ``rounding_mode`` "floor" or "trunc" rounded."""
        quotient = _op("div", self, other if b is None else b)
        if rounding_mode not in (None, "floor", "trunc"):
            raise ValueError(f"div: rounding_mode is None, 'floor' or 'trunc', not {rounding_mode!r}")
        return quotient if rounding_mode is None else _op(rounding_mode, quotient)

    def softmax(self, dim: Any = None, dtype: Any = None, *, axis: Any = None) -> Any:
        """exp(x) / sum(exp(x)) along ``dim`` (default: the last)."""
        chosen = axis if axis is not None else -1 if dim is None else dim
        return _op("softmax", self, chosen, dtype=dtype)

    def reshape(self, *sizes: Any, shape: Any = None) -> Any:
        """The elements in another shape, given as lengths or one sequence."""
        return _op("reshape", self, shape if shape is not None else _sequence(sizes))

    view = reshape

    def permute(self, *axes: Any, dims: Any = None) -> Any:
        """The axes in another order, given as numbers or one sequence."""
        return _op("permute", self, dims if dims is not None else _sequence(axes))

    def transpose(self, *axes: Any, dim0: int | None = None, dim1: int | None = None) -> Any:
        """Two axes exchanged; none given reverses all axes, and more are a permutation."""
        return _op("transpose", self, _sequence((*axes, *(dim for dim in (dim0, dim1) if dim is not None))))

    def expand(self, *sizes: Any) -> Any:
        """A view broadcast to the shape."""
        return _op("expand", self, _sequence(sizes))

    def __getattr__(self, name: str) -> Any:
        if name in TABLE and name in _core.names():  # a function that netcl-autograd has added
            return lambda *args, **kwargs: _op(name, self, *args, **kwargs)
        if name in _CASTS:
            return lambda: self.astype(_CASTS[name])
        if name == "t":
            return lambda: self.transpose(0, 1) if self.ndim > 1 else self
        if name in _SHAPED:
            return lambda *args, **kwargs: _restructured(self, name, args, kwargs)
        if name.endswith("_") and name[:-1] in TABLE and not name.startswith("_"):
            return lambda *args, **kwargs: in_place.write(self, _op(name[:-1], self, *args, **kwargs))
        raise AttributeError(f"Tensor has no attribute {name!r}")


def _rebuilt(kind_of: Any, array: Any, dtype: str, requires_grad: bool, persistent: bool) -> Any:
    made = kind_of.__new__(kind_of)
    gradients.make_leaf(made, _core.tensor.from_host(array, dtype))
    made.persistent = persistent
    if requires_grad:
        made.requires_grad = True
    return made


_CASTS = {
    "double": "float64", "float": "float32", "half": "float16", "bfloat16": "bfloat16", "long": "int64", "int": "int32",
    "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool",
}  # fmt: skip
_SHAPED = ("unsqueeze_", "squeeze_", "transpose_", "t_", "swapaxes_", "swapdims_")


def _restructured(tensor: Any, name: str, args: Any, kwargs: Any) -> Any:
    """Another view of the same storage in place of ``tensor``."""

    def view(old: Any) -> Any:
        if name == "t_":
            return _op("transpose", old, 0, 1) if old.ndim > 1 else old
        return _op("transpose" if name.startswith("swap") else name[:-1], old, *args, **kwargs)

    if gradients._methods[0] is not None:
        return gradients._methods[0].restructured(tensor, name, view)
    gradients.become(tensor, view(tensor.detach()))
    return tensor


def _sequence(given: tuple[Any, ...]) -> Any:
    if len(given) == 1 and isinstance(given[0], (list, tuple)):
        return tuple(given[0])
    return given


def _operator(name: str, swapped: bool = False) -> Any:
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, (_core.tensor, numbers.Number, np.ndarray, np.generic)):
            return NotImplemented
        return _op(name, other, self) if swapped else _op(name, self, other)

    return method


def _in_place(name: str) -> Any:
    def method(self: Any, other: Any) -> Any:
        return in_place.write(self, _op(name, self, other))

    return method


for _name, _row in {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "mod", "pow": "pow",
    "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "left_shift",
    "rshift": "right_shift",
}.items():  # fmt: skip
    setattr(TensorBase, f"__{_name}__", _operator(_row))
    setattr(TensorBase, f"__r{_name}__", _operator(_row, True))
    setattr(TensorBase, f"__i{_name}__", _in_place(_row))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(TensorBase, f"__{_name}__", _operator(_name))
TensorBase.__hash__ = object.__hash__  # type: ignore[method-assign]
for _name, _row in (("neg", "neg"), ("abs", "abs"), ("invert", "bitwise_not")):
    setattr(TensorBase, f"__{_name}__", lambda self, _row=_row: _op(_row, self))
TensorBase.__pos__ = lambda self: self  # type: ignore[attr-defined]


def as_method(name: str) -> Any:
    """The row ``name`` as a method: the tensor is its first argument."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _op(name, self, *args, **kwargs)

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = f"``netcl.{name}`` of this tensor."
    return method


def _method(name: str, parameters: str) -> Any:
    """A method of the signature that the contract lists."""
    scope: dict[str, Any] = {"_op": _op}
    names = [one.split("=")[0] for one in parameters.split(", ") if one]
    exec(f"def {name}(self, {parameters}): return _op({name!r}, self, {', '.join(names)})", scope)
    scope[name].__doc__ = f"``netcl.{name}`` of this tensor."
    scope[name].__qualname__ = f"Tensor.{name}"
    return scope[name]


for _name in ("exp", "log", "relu", "sigmoid", "sqrt", "tanh"):
    setattr(TensorBase, _name, _method(_name, ""))
for _name in ("all", "any", "argmax", "argmin", "max", "min"):
    setattr(TensorBase, _name, _method(_name, "axis=None, keepdims=False"))
for _name in ("std", "var"):
    setattr(TensorBase, _name, _method(_name, "axis=None, correction=1, keepdims=False"))
for _name, _parameters in (
    ("clamp", "min=None, max=None"), ("flatten", "start_dim=0, end_dim=-1"), ("squeeze", "axis=None"), ("unsqueeze", "axis"),
):  # fmt: skip
    setattr(TensorBase, _name, _method(_name, _parameters))

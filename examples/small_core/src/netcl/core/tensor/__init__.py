"""Tensor: a NumPy array with a storage, which its views share; methods and operators call rows of the op table."""

from types import SimpleNamespace

import numpy as np

from netcl.core.device import manager
from netcl.core.dtypes import OBJECTS, canonical, numpy_dtype
from netcl.core.engine.protocol import HostTransfer
from netcl.core.engine.registry import engine_for, is_queue
from netcl.core.errors import DTypeError
from netcl.core.layout import fitting
from netcl.core.ops_table.dispatch import call


class Tensor:
    """An array on the device; results of reshape, permute, expand and basic indexing share its memory."""

    grad = grad_fn = None
    persistent = requires_grad = False
    __hash__ = object.__hash__
    __array_priority__ = 100

    def __init__(self, buffer, shape, dtype, context, queue, *unused, **options):
        given = options.get("array")
        self.array, self.queue, self.context = np.empty(shape, dtype) if given is None else given, queue, context
        self.requires_grad = options.get("requires_grad", False)
        self.storage = SimpleNamespace(version=0, start=self.array.ctypes.data)

    shape = property(lambda self: self.array.shape)
    ndim = property(lambda self: self.array.ndim)
    size = property(lambda self: self.array.size)
    nbytes = property(lambda self: self.array.nbytes)
    strides = property(lambda self: tuple(step // self.array.itemsize for step in self.array.strides))
    dtype = property(lambda self: OBJECTS[self.array.dtype.name])
    engine = property(lambda self: engine_for(self.queue))
    backend = property(lambda self: self.engine.name)
    device = property(lambda self: self.engine.handle)
    version = property(lambda self: self.storage.version)
    storage_id = property(lambda self: id(self.storage))
    value = property(lambda self: self.detach())
    T = property(lambda self: self.transpose())

    data = property(
        lambda self: tensor_of(self.array, Tensor, self.queue, self.storage, False), lambda *two: _share(*two)
    )

    @classmethod
    def from_host(cls, *args, dtype=None, requires_grad=False, **options):
        queue, (data, *rest) = (args[0], args[1:]) if is_queue(args[0]) else (None, args)
        array, dtype = np.array(getattr(data, "array", data)), rest[0] if rest else dtype
        narrow = "float32" if array.dtype == "float64" and not isinstance(data, Tensor) else array.dtype
        made = tensor_of(np.array(array, canonical(dtype or narrow), order="C"), cls, queue)
        made.requires_grad = requires_grad
        return made

    @classmethod
    def full(cls, shape, value, dtype="float32", **place):
        return cls.from_host(np.full(shape, value, numpy_dtype(dtype)), dtype=dtype, **place)

    @classmethod
    def from_shape(cls, queue, shape, dtype="float32", pool=None, backend=None, fill=0, **place):
        return cls.full(shape, fill or 0, dtype, **place)

    @classmethod
    def arange(cls, start, stop=None, step=1, dtype=None, **place):
        start, stop = (0, start) if stop is None else (start, stop)
        return cls.from_host(np.arange(start, stop, step), dtype=dtype, **place)

    @classmethod
    def eye(cls, n, m=None, dtype="float32", **place):
        return cls.from_host(np.eye(n, m), dtype=dtype, **place)

    def item(self):
        with fitting("item", self.shape):
            return self.array.item()

    def to(self, *args, device=None, dtype=None, copy=False, **unused):
        for one in args:
            other = isinstance(one, Tensor)
            if other or not (is_queue(one) or one in ("cpu", "cpu:0", "auto")):
                dtype = one.dtype if other else one
            if other or dtype is not one:
                device = one.queue if other else one
        manager.default(device)
        changed = self if dtype is None else self.astype(dtype)
        return changed.clone() if copy and changed is self else changed

    def put(self, values, key=...):
        """Writes host values into ``self[key]`` and counts the write."""
        values = np.asarray(values)
        if "fiub".index(self.array.dtype.kind) > "fiub".index(values.dtype.kind) and values.dtype.kind != "u":
            raise DTypeError(f"{values.dtype} cannot be written into {self.dtype}; convert with astype")
        with fitting("a write", values.shape, self.shape):
            self.array[key] = values
        self.storage.version += self.counted
        return self

    def transpose(self, *axes, dim0=None, dim1=None):
        order, axes = list(range(self.ndim)), axes or tuple(at for at in (dim0, dim1) if at is not None)
        if len(axes) == 2:
            order[axes[0]], order[axes[1]] = order[axes[1]], order[axes[0]]
        return self.permute(order if len(axes) == 2 else axes or order[::-1])

    def flatten(self, start_dim=0, end_dim=-1):
        first, last = start_dim % max(self.ndim, 1), end_dim % max(self.ndim, 1)
        return self.reshape((*self.shape[:first], -1, *self.shape[last + 1 :]))

    def softmax(self, dim=None, dtype=None, *, axis=None):
        at = -1 if dim is axis is None else axis if dim is None else dim
        weights = (self - self.max(at, True)).exp()
        return weights / weights.sum(at, True)


def tensor_of(array, cls=Tensor, queue=None, storage=None, counted=True):
    """A tensor of an array, which it keeps; on the storage that the array is a part of."""
    engine = engine_for(queue)
    made = cls(None, array.shape, array.dtype.name, engine.context, engine.queue, array=np.asarray(array))
    made.storage, made.counted = storage or made.storage, counted
    return made


def _share(tensor, other):
    tensor.array, tensor.storage = other.array, other.storage


def _named(name):
    """A method that calls a row by the names of PyTorch or NumPy."""
    return lambda self, *args, **kwargs: call(name, self, *args, **kwargs)


def _several(name):
    """A method that takes lengths or axes one by one or as a sequence."""
    return lambda self, *args, **kwargs: call(name, self, *(args[:1] if len(args) == 1 else [args] * bool(args)),
                                              *kwargs.values())  # fmt: skip


def _filled(number):
    """A class method that makes a tensor of one number."""
    return classmethod(lambda cls, shape, dtype="float32", **place: cls.full(shape, number, dtype, **place))


METHODS = {
    "zeros": _filled(0),
    "ones": _filled(1),
    "empty": _filled(0),
    "numpy": lambda self, *, force=False: self.array.copy(),
    "to_host": lambda self: self.array.copy(),
    "to_host_async": lambda self: HostTransfer(self.array.copy()),
    "tolist": lambda self: self.array.tolist(),
    "wait": lambda self: self,
    "cpu": lambda self: self,
    "to_device": lambda self, device, /, *, stream=None: self.to(device),
    "data_ptr": lambda self: self.array.ctypes.data,
    "storage_offset": lambda self: (self.data_ptr() - self.storage.start) // self.array.itemsize,
    "stride": lambda self, dim=None: self.strides if dim is None else self.strides[dim],
    "is_contiguous": lambda self, memory_format=None: self.array.flags.c_contiguous,
    "untyped_storage": lambda self: self.storage,
    "detach": lambda self: tensor_of(self.array, Tensor, self.queue, self.storage),
    "clone": lambda self, *, memory_format=None: call("clone", self),
    "contiguous": lambda self, memory_format=None: self if self.is_contiguous() else self.clone(),
    "astype": lambda self, dtype: self if canonical(dtype) == self.dtype else call("cast", self, dtype=dtype),
    "write": lambda self, data: self.put(np.asarray(getattr(data, "array", data)).astype(self.array.dtype)),
    "squeeze": lambda self, axis=None: self.reshape(self.array.squeeze(axis).shape),
    "unsqueeze": lambda self, axis: self.reshape(np.expand_dims(self.array, axis).shape),
    "std": lambda self, *args, **kwargs: call("sqrt", call("var", self, *args, **kwargs)),
    "reshape": _several("reshape"),
    "permute": _several("permute"),
    "__bool__": lambda self: bool(self.array),
    "__len__": lambda self: len(self.array),
    "__int__": lambda self: int(self.array),
    "__float__": lambda self: float(self.array),
    "__iter__": lambda self: (self[place] for place in range(len(self))),
    "__getitem__": lambda self, key: call("getitem", self, key),
    "__setitem__": lambda self, key, value: call("setitem", self, key, value),
}
# Methods by the names of their rows; operators with those of their rows after a colon.
NAMED = """exp log sqrt tanh relu sigmoid clamp any all argmax argmin var sum mean prod max:amax min:amin __neg__:neg
    __abs__:abs __invert__:bitwise_not __lt__:lt __le__:le __gt__:gt __ge__:ge __eq__:eq __ne__:ne"""
BINARY = """add sub mul mod pow matmul truediv:div floordiv:floor_divide and:bitwise_and or:bitwise_or xor:bitwise_xor
    lshift:left_shift rshift:right_shift"""
METHODS |= {pair.split(":")[0]: _named(pair.split(":")[-1]) for pair in NAMED.split()}
for _place, _row in ((pair.split(":")[0], pair.split(":")[-1]) for pair in BINARY.split()):
    METHODS[f"__{_place}__"] = _named(_row)
    METHODS[f"__r{_place}__"] = lambda self, other, row=_row: call(row, other, self)
    METHODS[f"__i{_place}__"] = lambda self, other, row=_row: self.put(call(row, self, other).array)
for _name, _function in METHODS.items():
    setattr(Tensor, _name, _function)

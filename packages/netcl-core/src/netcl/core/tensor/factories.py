"""Functions that make tensors, with PyTorch's names, call forms and defaults: ``nc.zeros(2, 3)``, ``nc.tensor([1.0])``.

``dtype=None`` is the default dtype for floating values (``set_default_dtype``). ``device``: a selector, handle, queue
or ``nc.device``; None is the active device. ``layout``, ``pin_memory`` and ``memory_format`` are accepted and change no
result: there is one layout.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.core import dtypes, layout
from netcl.core.dtypes import get_default_dtype
from netcl.core.engine.registry import engine_for
from netcl.core.errors import ArgumentError, ShapeError, from_here
from netcl.core.expr import Expr, Index, Scalar, cast
from netcl.core.ops_table import dispatch
from netcl.core.storage.host import check_shape, to_storage
from netcl.core.tensor import dlpack
from netcl.core.tensor.generator import Generator, drawing_from
from netcl.core.tensor.host_bounds import check_elements
from netcl.core.tensor.memory_format import Accepted, check_accepted
from netcl.core.tensor.methods import with_zero_gradient
from netcl.core.tensor.tensor import Tensor, queue_of

if TYPE_CHECKING:
    from typing_extensions import Unpack


def is_tensor(obj: Any) -> bool:
    """Returns True for tensors, and for sparse ones."""
    return isinstance(obj, Tensor) or hasattr(type(obj), "__netcl_op__")


def _queue(device: Any) -> Any:
    return None if device is None else queue_of(device)


def _sizes(given: tuple[Any, ...], size: Any) -> tuple[int, ...]:
    """The shape of lengths, of one sequence, or of ``size=``."""
    if size is not None:
        if given:
            raise TypeError("give the size by position or by name, not both")
        return check_shape(size)
    return check_shape(given[0] if len(given) == 1 and not isinstance(given[0], (int, np.integer)) else given)


def _flagged(made: Any, requires_grad: bool) -> Tensor:
    if requires_grad:
        made.requires_grad = True
    return made  # type: ignore[no-any-return]


@from_here
def _on_device(data: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    stored, name = to_storage(data, dtype)
    return _flagged(engine_for(_queue(device)).tensor(stored, name), requires_grad)


_FEW, _MOST = 1 << 20, 1 << 100  # elements: below the first there is room, above the second there is none


def _check_elements(op: str, count: Any, device: Any) -> None:
    """Raises OutOfMemoryError if ``count`` elements that are made on the host do not fit a device."""
    if isinstance(count, (int, float)) and not -_FEW < count < _FEW:
        check_elements(op, int(min(abs(count), _MOST)), engine_for(_queue(device)).queue)


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **same: Unpack[Accepted]
) -> Tensor:
    """Returns a new tensor with the values of ``data``: numbers, nested sequences, arrays or tensors.

    The dtype of arrays and tensors is kept; Python floats become the default dtype, ints int64, bools bool. Raises
    DTypeError for data without a counterpart (complex, strings, objects).

    >>> tensor([1.0, 2.0], device="cpu").dtype, tensor([1, 2], device="cpu").dtype
    ('float32', 'int64')
    """
    check_accepted("tensor", same)
    if isinstance(data, Tensor):
        source = data.detach() if device is None else data.detach().to(device)
        made = source.clone() if dtype is None else source.to(dtype, copy=True)
        return _flagged(made.detach(), requires_grad)
    if dtype is None:
        array = np.asarray(data)
        is_own = hasattr(data, "dtype")
        if is_own and array.dtype == np.float64:
            dtype = "float64"
        elif not is_own and array.dtype.kind == "f":
            dtype = _of_elements(data)
    return _on_device(data, dtype, device, requires_grad)


def _of_elements(data: Any) -> str:
    """The dtype of nested Python sequences: the default one, or that of the arrays and NumPy numbers in them."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return dtypes.canonical(getattr(data, "dtype", get_default_dtype()))


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns ``data`` itself if it is a tensor of that dtype and device, else a tensor with its values."""
    if isinstance(data, Tensor):
        placed = data if device is None else data.to(device)
        return placed if dtype is None else placed.to(dtype)
    return tensor(data, dtype=dtype, device=device)


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """Returns a tensor of an array, which shares its memory if the active device works on the host's memory, and has a
    copy else. Raises TypeError for anything but an array.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy: expected an array, got {type(array).__name__}; write nc.tensor(data)")
    return Tensor._uploaded(engine_for(), array, "float64" if array.dtype == np.float64 else None, copy=False)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Returns a tensor of an object that has ``__dlpack__``, on its memory if the device works on the host's memory.

    ``copy``: True always copies, False raises ValueError if the memory cannot be shared or is read-only, None copies
    then.
    BufferError if the data are not in memory of the host.
    """
    if isinstance(ext_tensor, Tensor):
        moved = ext_tensor.detach() if device is None else ext_tensor.detach().to(device)
        if copy is False and moved.untyped_storage() != ext_tensor.untyped_storage():
            raise ValueError("from_dlpack: another device needs a copy, which copy=False forbids")
        return moved.clone() if copy else moved
    array = dlpack.array_of(ext_tensor)
    if copy is False and not array.flags.writeable:
        raise ValueError("from_dlpack: the memory is read-only, which copy=False forbids to copy")
    alone = bool(copy) or not array.flags.writeable  # NumPy before 2.1 makes all but its own arrays read-only
    made: Tensor = Tensor.from_host(_queue(device), array, str(array.dtype), copy=alone)
    if copy is False and array.size:
        memory = dlpack.shared(made)
        if memory is None or not np.may_share_memory(memory, array):
            raise ValueError(
                f"from_dlpack: {made.engine.device_label} cannot work on this memory, which copy=False forbids to copy"
            )
    return made


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool | None = None
) -> Tensor:
    """Returns a tensor of a tensor, an array, an object with ``__dlpack__``, or numbers in sequences: on the same
    memory if that is possible and dtype and device allow it.

    ``copy``: True always copies, False raises ValueError if the memory cannot be shared, None copies if it must.
    """
    if isinstance(obj, Tensor):
        made = as_tensor(obj.detach(), dtype, device)
        shared = made.untyped_storage() == obj.untyped_storage()
        made = made.clone().detach() if copy and shared else made
    elif isinstance(obj, np.ndarray):
        name = str(obj.dtype) if dtype is None else dtypes.canonical(dtype)
        made = Tensor.from_host(_queue(device), obj, name, copy=bool(copy) or not obj.flags.writeable)
        shared = name == str(obj.dtype) and _shares(made, obj)
    elif hasattr(obj, "__dlpack__"):
        made = from_dlpack(obj, device=device, copy=copy)
        shared = dtype is None or dtypes.canonical(dtype) == made.dtype
        made = made if dtype is None else made.to(dtype)
    else:
        made, shared = tensor(obj, dtype=dtype, device=device), False
    if copy is False and not shared:
        raise ValueError(
            "asarray: another dtype or device, or data that are no array, need a copy; copy=False forbids it"
        )
    return _flagged(made, bool(requires_grad))


def _shares(made: Tensor, array: np.ndarray[Any, Any]) -> bool:
    memory = dlpack.shared(made)
    return not array.size or (memory is not None and bool(np.may_share_memory(memory, array)))


def scalar_tensor(
    s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **same: Unpack[Accepted]
) -> Tensor:
    """Returns the 0-d tensor of a number, of the default dtype."""
    check_accepted("scalar_tensor", same)
    return tensor(s, dtype=dtype or get_default_dtype(), device=device, requires_grad=requires_grad)


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """Returns the vector of ``count`` elements (-1: all) of ``dtype`` that begin at byte ``offset`` of an object with a
    buffer, on its memory if that can be written and the device works on the host's memory.

    Raises ValueError if the buffer is too short or is no whole number of elements.
    """
    name = dtypes.canonical(dtype)
    data = np.frombuffer(buffer, dtypes.numpy_dtype(name), count, offset)
    return _of_memory(data, name, requires_grad)


def from_file(
    filename: Any,
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **same: Unpack[Accepted],
) -> Tensor:
    """Returns the vector of the first ``size`` elements of ``dtype`` in a file. With ``shared`` the file is mapped into
    memory, made longer if it is too short, and written by writes into the tensor if the device works on the host's
    memory. Raises ValueError if the file is too short and not shared.
    """
    check_accepted("from_file", same)
    name = dtypes.canonical(dtype or get_default_dtype())
    stored = dtypes.numpy_dtype(name)
    if not shared:
        data = np.fromfile(filename, stored, size)
        if data.size < size:
            raise ValueError(f"from_file: expected {size} elements of {name} in {filename}, got {data.size}")
        return _of_memory(data, name, requires_grad, device)
    with open(filename, "ab") as file:
        if file.tell() < size * stored.itemsize:
            file.truncate(size * stored.itemsize)
    mapped: Any = np.memmap(filename, stored, "r+", shape=(size,)) if size else np.zeros(0, stored)
    return _of_memory(mapped, name, requires_grad, device)


def _of_memory(data: Any, name: str, requires_grad: bool, device: Any = None) -> Tensor:
    if name == "bfloat16":  # its bits; there is no such array
        return _flagged(engine_for(_queue(device)).tensor(data.copy(), name), requires_grad)
    made = Tensor.from_host(_queue(device), data, name, copy=not data.flags.writeable)
    return _flagged(made, requires_grad)


def full(
    size: int | Sequence[int],
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **same: Unpack[Accepted],
) -> Tensor:
    """Returns a tensor of ``size`` filled with ``fill_value``, by default in the dtype of the value."""
    check_accepted("full", same)
    if dtype is None:
        kind = fill_value.item() if isinstance(fill_value, (Tensor, np.generic)) else fill_value
        dtype = "bool" if isinstance(kind, bool) else "int64" if isinstance(kind, int) else get_default_dtype()
    value: Any = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    return _flagged(Tensor.full(check_shape(size), value, dtype, queue=_queue(device)), requires_grad)


def zeros(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **same: Unpack[Accepted],
) -> Tensor:
    """Returns zeros of ``sizes``, given as lengths or one sequence, or of ``size``."""
    check_accepted("zeros", same)
    return full(_sizes(sizes, size), 0, dtype=dtype or get_default_dtype(), device=device, requires_grad=requires_grad)


def ones(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **same: Unpack[Accepted],
) -> Tensor:
    """Returns ones of ``sizes``, given as lengths or one sequence, or of ``size``."""
    check_accepted("ones", same)
    return full(_sizes(sizes, size), 1, dtype=dtype or get_default_dtype(), device=device, requires_grad=requires_grad)


def empty(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **same: Unpack[Accepted],
) -> Tensor:
    """Returns a tensor of ``sizes``, or of ``size``, with undefined content."""
    check_accepted("empty", same)
    return _flagged(
        Tensor.empty(_sizes(sizes, size), dtype or get_default_dtype(), queue=_queue(device)), requires_grad
    )


def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **same: Unpack[Accepted],
) -> Tensor:
    """Returns a tensor of ``size`` with undefined content and a step of ``stride`` elements along each axis."""
    check_accepted("empty_strided", same)
    none = Tensor.empty((0,), dtype or get_default_dtype(), queue=_queue(device))
    return none.new_empty_strided(size, stride, requires_grad=requires_grad)


def empty_permuted(
    size: Sequence[int],
    physical_layout: Sequence[int],
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **same: Unpack[Accepted],
) -> Tensor:
    """Returns a tensor of ``size`` with undefined content and its axes in the order ``physical_layout`` in memory."""
    check_accepted("empty_permuted", same)
    order = tuple(physical_layout)
    if sorted(order) != [*builtins.range(len(size))]:
        raise ShapeError(f"empty_permuted: expected each axis of {tuple(size)} once, got {tuple(physical_layout)}")
    strides = [0] * len(order)
    for axis, step in zip(order, layout.contiguous_strides([size[axis] for axis in order])):
        strides[axis] = step
    return empty_strided(size, strides, dtype=dtype, device=device, requires_grad=requires_grad)


def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **same: Unpack[Accepted],
) -> Tensor:
    """Returns the (n, m) matrix with ones on its diagonal; m defaults to n."""
    check_accepted("eye", same)
    if n < 0:
        raise ArgumentError(f"eye: expected n from 0 on, got {n}")
    _check_elements("eye", n * (n if m is None else m), device)
    return _flagged(Tensor.eye(n, m, dtype or get_default_dtype(), queue=_queue(device)), requires_grad)


def arange(
    start: Any,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **same: Unpack[Accepted],
) -> Tensor:
    """Returns the numbers from ``start`` (0 if only an end is given) to before ``end``; whole numbers give int64,
    others the default dtype. Raises ValueError for a step of zero or one that leads away from the end.
    """
    check_accepted("arange", same)
    first, last = (0, start) if end is None else (start, end)
    if step == 0 or (last - first) * step < 0:
        raise ArgumentError(f"arange: a step of {step} does not lead from {first} to {last}")
    if not all(isinstance(x, (int, np.integer)) for x in (first, last, step)):
        _check_elements("arange", (last - first) / step, device)
        return _on_device(np.arange(first, last, step), dtype or get_default_dtype(), device, requires_grad)
    first, step = int(first), int(step)
    count, name = -(-(int(last) - first) // step), dtypes.canonical(dtype or "int64")
    _check_elements("arange", count, device)
    if not 0 < count < 1 << 31 or not -(1 << 63) <= first < 1 << 63:
        return _on_device(np.arange(first, last, step), name, device, requires_grad)
    # By a kernel, so that a captured step may make it.
    scalars = {"first": first, "step": step}
    made: Any = engine_for(_queue(device)).run((_counted(name),), (), scalars, shapes=((count,),))
    return _flagged(made[0], requires_grad)


@lru_cache(maxsize=16)
def _counted(dtype: str) -> Expr:
    return cast(Scalar("first", "int64") + Scalar("step", "int64") * cast(Index(0), "int64"), dtype)


def range(
    start: Any,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **same: Unpack[Accepted],
) -> Tensor:
    """Returns the numbers from ``start`` (0 if only an end is given) to ``end``, which is included, in the default
    dtype. PyTorch's old form: ``arange``, which leaves the end out, is as in Python.
    """
    check_accepted("range", same)
    first, last = (0, start) if end is None else (start, end)
    if step == 0 or (last - first) * step < 0:
        raise ArgumentError(f"range: a step of {step} does not lead from {first} to {last}")
    _check_elements("range", (last - first) / step, device)
    data = first + step * np.arange(int((last - first) / step) + 1)
    return _on_device(data, dtype or get_default_dtype(), device, requires_grad)


def linspace(
    start: float,
    end: float,
    steps: int,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **same: Unpack[Accepted],
) -> Tensor:
    """Returns ``steps`` numbers at equal distances from ``start`` to ``end``, both included."""
    check_accepted("linspace", same)
    if steps < 0:
        raise ArgumentError(f"linspace: expected steps from 0 on, got {steps}")
    _check_elements("linspace", steps, device)
    return _on_device(np.linspace(start, end, steps), dtype or get_default_dtype(), device, requires_grad)


def logspace(
    start: float,
    end: float,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **same: Unpack[Accepted],
) -> Tensor:
    """Returns ``base`` to the power of ``steps`` numbers from ``start`` to ``end``."""
    check_accepted("logspace", same)
    _check_elements("logspace", steps, device)
    return _on_device(np.logspace(start, end, steps, base=base), dtype or get_default_dtype(), device, requires_grad)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Returns the coordinates of a grid: tensor i varies along axis i; with ``indexing="xy"`` the first two axes are
    exchanged. Raises ShapeError for tensors of more than one axis.
    """
    vectors = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    if indexing not in ("ij", "xy"):
        raise ArgumentError(f"meshgrid: expected indexing 'ij' or 'xy', got {indexing!r}")
    if any(x.ndim > 1 for x in vectors):
        raise ShapeError(f"meshgrid: expected vectors, got shapes {[x.shape for x in vectors]}")
    order = (
        [1, 0, *builtins.range(2, len(vectors))]
        if indexing == "xy" and len(vectors) > 1
        else list(builtins.range(len(vectors)))
    )
    axis_of = {which: axis for axis, which in enumerate(order)}
    shape = tuple(int(vectors[which].size) for which in order)
    spread = (
        x.reshape([-1 if axis == axis_of[i] else 1 for axis in builtins.range(len(vectors))])
        for i, x in enumerate(vectors)
    )
    return tuple(x.expand(shape).clone() for x in spread)


# -- like another tensor -----------------------------------------------------------------------------------------------


def _like(x: Tensor, value: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    queue = x.engine.queue if device is None else queue_of(device)
    made = Tensor.from_shape(
        queue, x.shape, dtype or x.dtype, backend=x.backend if device is None else None, fill=value
    )
    return _flagged(made, requires_grad)


def zeros_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **same: Unpack[Accepted]
) -> Tensor:
    """Returns zeros of the shape, dtype and device of ``input``."""
    check_accepted("zeros_like", same)
    return _like(input, 0, dtype, device, requires_grad)


def ones_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **same: Unpack[Accepted]
) -> Tensor:
    """Returns ones of the shape, dtype and device of ``input``."""
    check_accepted("ones_like", same)
    return _like(input, 1, dtype, device, requires_grad)


def empty_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **same: Unpack[Accepted]
) -> Tensor:
    """Returns a tensor with undefined content of the shape, dtype and device of ``input``."""
    check_accepted("empty_like", same)
    return _like(input, None, dtype, device, requires_grad)


def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **same: Unpack[Accepted],
) -> Tensor:
    """Returns a tensor filled with ``fill_value`` of the shape, dtype and device of ``input``."""
    check_accepted("full_like", same)
    return _like(input, fill_value, dtype, device, requires_grad)


# -- drawn -------------------------------------------------------------------------------------------------------------


def _drawn(
    generator: Generator | None, op: str, *limits: Any, shape: Any, dtype: Any, device: Any, requires_grad: bool
) -> Tensor:
    with drawing_from(generator):
        made = dispatch.call(op, *limits, shape=shape, dtype=dtypes.canonical(dtype), queue=_queue(device))
    return _flagged(made, requires_grad)


def _drawn_like(
    x: Tensor, op: str, generator: Generator | None, dtype: Any, device: Any, requires_grad: bool
) -> Tensor:
    queue = x.engine.queue if device is None else queue_of(device)
    with drawing_from(generator):
        made = dispatch.call(op, 0.0, 1.0, shape=x.shape, dtype=dtypes.canonical(dtype or x.dtype), queue=queue)
    return _flagged(made, requires_grad)


def rand(
    *sizes: Any,
    size: Any = None,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **same: Unpack[Accepted],
) -> Tensor:
    """Returns uniform numbers in [0, 1) from ``generator``, or from the one that ``manual_seed`` seeds."""
    check_accepted("rand", same)
    options = {"dtype": dtype or get_default_dtype(), "device": device, "requires_grad": requires_grad}
    return _drawn(generator, "uniform", 0.0, 1.0, shape=_sizes(sizes, size), **options)


def randn(
    *sizes: Any,
    size: Any = None,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **same: Unpack[Accepted],
) -> Tensor:
    """Returns standard normal numbers from ``generator``, or from the one that ``manual_seed`` seeds."""
    check_accepted("randn", same)
    options = {"dtype": dtype or get_default_dtype(), "device": device, "requires_grad": requires_grad}
    return _drawn(generator, "normal", 0.0, 1.0, shape=_sizes(sizes, size), **options)


def randint(
    low: int = 0,
    high: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = "int64",
    device: Any = None,
    requires_grad: bool = False,
    **same: Unpack[Accepted],
) -> Tensor:
    """Returns whole numbers in [low, high), called as ``randint(high, size)`` or ``randint(low, high, size)``."""
    check_accepted("randint", same)
    if size is None:
        low, high, size = (0, low, high) if not isinstance(high, int) else (low, high, None)
    elif high is None:
        low, high = 0, low
    if size is None:
        raise TypeError("randint needs a size: nc.randint(high, (2, 3)) or nc.randint(low, high, (2, 3))")
    options = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _drawn(generator, "randint", low, high, shape=check_shape(size), **options)


def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: Any = "int64",
    device: Any = None,
    requires_grad: bool = False,
    **same: Unpack[Accepted],
) -> Tensor:
    """Returns the numbers 0 to n - 1 in random order."""
    check_accepted("randperm", same)
    with drawing_from(generator):
        made = dispatch.call("randperm", n, dtype=dtype, queue=_queue(device))
    return _flagged(made, requires_grad)


def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **same: Unpack[Accepted],
) -> Tensor:
    """Returns normal numbers of ``size``, or with means and deviations from tensors that broadcast, with gradients of
    zero as in PyTorch: ``mean + std * nc.randn_like(mean)`` has others.
    """
    check_accepted("normal", same)
    if size is not None:
        options = {"dtype": dtype or get_default_dtype(), "device": device, "requires_grad": requires_grad}
        return _drawn(generator, "normal", mean, std, shape=check_shape(size), **options)
    if not isinstance(std, Tensor) and not std >= 0:
        raise ArgumentError(f"normal: expected std of 0 or more, got {std}")
    moments = [x for x in (mean, std) if isinstance(x, Tensor)]
    if not moments:
        raise TypeError("normal of two numbers needs a size: nc.normal(0.0, 1.0, (2, 3))")
    shape = np.broadcast_shapes(*(x.shape for x in moments))
    with drawing_from(generator):
        noise = dispatch.call("normal", 0.0, 1.0, shape=shape, dtype=moments[0].dtype, queue=moments[0].engine.queue)
    mean, std = (x.detach() if isinstance(x, Tensor) else x for x in (mean, std))
    return with_zero_gradient(noise * std + mean, *moments)  # type: ignore[no-any-return]


def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **same: Unpack[Accepted],
) -> Tensor:
    """Returns uniform numbers in [0, 1) of the shape, dtype and device of ``input``."""
    check_accepted("rand_like", same)
    return _drawn_like(input, "uniform", generator, dtype, device, requires_grad)


def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **same: Unpack[Accepted],
) -> Tensor:
    """Returns standard normal numbers of the shape, dtype and device of ``input``."""
    check_accepted("randn_like", same)
    return _drawn_like(input, "normal", generator, dtype, device, requires_grad)


def randint_like(
    input: Tensor,
    low: int,
    high: int | None = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **same: Unpack[Accepted],
) -> Tensor:
    """Returns whole numbers in [low, high), or [0, low), of the shape, dtype and device of ``input``."""
    check_accepted("randint_like", same)
    made, limits = empty_like(input, dtype=dtype, device=device), (0, low) if high is None else (low, high)
    return _flagged(made.random_(*limits, generator=generator), requires_grad)


@dispatch.takes_out
def bernoulli(input: Tensor, *, generator: Generator | None = None) -> Tensor:
    """Returns 1 with the probability that ``input`` has at each place, else 0, in its dtype; takes ``out``."""
    return input.bernoulli(generator=generator)


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Returns numbers of the Poisson distribution with the mean that ``input`` has at each place, in its dtype; drawn
    on the host. Raises ValueError for negative means.
    """
    with drawing_from(generator):
        return dispatch.call("poisson", input.detach(), record=False)  # type: ignore[no-any-return]


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Returns the number of successes in ``count`` trials, each with probability ``prob``, which broadcast, in the
    dtype of count; drawn on the host. Raises ValueError for negative counts and for what is no probability.
    """
    with drawing_from(generator):
        return dispatch.call("binomial", count.detach(), prob.detach(), record=False)  # type: ignore[no-any-return]


@dispatch.takes_out
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Returns positions, int64, drawn with the probabilities of the last axis; their sum may differ from 1.

    Without ``replacement`` positions differ. Takes ``out``. Raises ValueError for negative or too few probabilities
    that are not zero.
    """
    return input.multinomial(num_samples, replacement, generator=generator)


from_here(globals())

"""The methods of tensors, as one table: PyTorch's names, each for a row of the op table or for a function here.

The row of an op states its methods by ``forms``; ``method_names``, which tools/write_stubs.py writes, lists them for
tensors that are made before netcl.ops is loaded. A method with call forms of its own is a function below, under
``@_method``.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import inspect
import math
import operator
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any, Generic, TypeVar, cast

import numpy as np

from netcl.core import dtypes
from netcl.core.errors import (
    ArgumentError,
    DTypeError,
    OutOfRangeError,
    ShapeError,
    UnsupportedError,
    from_here,
    name_argument,
    shorten_traceback,
)
from netcl.core.layout import broadcast_shapes, contiguous_strides, every_axis_if_empty, normalize_axes
from netcl.core.ops_table import dispatch
from netcl.core.ops_table.table import TABLE
from netcl.core.process import grad_mode, naming
from netcl.core.process.user_frame import level_outside
from netcl.core.storage import views
from netcl.core.storage.size import Size
from netcl.core.tensor import in_place, memory_format, method_names
from netcl.core.tensor.generator import Generator, drawing_from
from netcl.core.tensor.host_draws import draw_on_host
from netcl.core.tensor.operators import Operators, ResultT, check_power
from netcl.core.tensor.signatures import Later, as_written, with_first

# Functions here that also exist as ``name_``, which gives the tensor the values of the result.
_IN_PLACE = """
add addbmm addmv addr clamp clamp_max clamp_min clip deg2rad div divide float_power fmod frac gcd index_fill lcm ldexp
masked_scatter polygamma pow put rad2deg round scatter sub subtract true_divide
"""

_Method = Callable[..., Any]
_FUNCTIONS: dict[str, _Method] = {}
_F = TypeVar("_F", bound=_Method)


def _method(function: _F) -> _F:
    """Makes a function of a tensor a method of the same name."""
    _FUNCTIONS[function.__name__] = function
    return function


_call = functools.partial(dispatch.call, record=True)


_INT = frozenset((int,))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Operators)


def _sizes(given: tuple[Any, ...]) -> tuple[int, ...]:
    """Lengths that were passed one by one, or as one sequence."""
    if _INT.issuperset(map(builtins.type, given)):
        return given
    sizes: Any = given[0] if len(given) == 1 and not isinstance(given[0], int) else given
    return tuple([operator.index(size) for size in (sizes if isinstance(sizes, tuple) or np.ndim(sizes) else (sizes,))])


def _named(given: tuple[Any, ...], by_name: Any) -> tuple[Any, ...]:
    """Lengths or axes, given by position or by PyTorch's name of them."""
    if by_name is None:
        return _sizes(given)
    if given:
        raise TypeError("give the numbers by position or by name, not both")
    return _sizes((by_name,))


def _axis(x: Any, dim: int, op: str) -> int:
    (at,) = normalize_axes(dim, max(x.ndim, 1), op)
    return at


# -- shape -------------------------------------------------------------------------------------------------------------


@_method
def dim(x: Any) -> int:
    """The number of axes."""
    return len(x.shape)


@_method
def numel(x: Any) -> int:
    """The number of elements."""
    return int(x.size)


@_method
def reshape(x: Any, *sizes: Any, shape: Any = None) -> Any:
    """The elements in another shape, given as lengths or one sequence; one length may be -1. Raises ShapeError."""
    return _call("reshape", x, _named(sizes, shape))


@_method
def view(x: Any, *shape: Any, size: Any = None) -> Any:
    """The same storage in another shape, one length may be -1. ShapeError if no strides give it: write ``reshape``.

    ``view(dtype)`` is refused with DTypeError.
    """
    if len(shape) == 1 and isinstance(shape[0], str):
        raise DTypeError(
            f"view: the bits of a tensor cannot be read as {shape[0]}; to convert values, write x.to(dtype)"
        )
    return _viewed(x, _named(shape, size))


def _viewed(x: Any, shape: tuple[int, ...]) -> Any:
    known = views.geometry_of(x)
    result = _call("reshape", x, shape)
    if known is None or known.reshaped(result.shape) is None:
        raise ShapeError(f"view: no strides give shape {result.shape} on this view of {x.shape}; write x.reshape(...)")
    return result


@_method
def ravel(x: Any) -> Any:
    """The elements in one axis."""
    return _call("reshape", x, shape=(-1,) if x.size else (0,))


@_method
def expand(x: Any, *sizes: Any, size: Any = None) -> Any:
    """Broadcast to ``sizes``; -1 keeps the length of an axis."""
    return _call("expand", x, _named(sizes, size))


@_method
def repeat(x: Any, *sizes: Any, repeats: Any = None) -> Any:
    """The tensor repeated as a whole, sizes[a] times along axis a, at least one number for each axis.

    For every element repeated in a row, as ``numpy.repeat`` does, write ``repeat_interleave``.
    """
    counts = _named(sizes, repeats)
    if len(counts) < x.ndim:
        raise ShapeError(f"repeat: {len(counts)} numbers for {x.ndim} axes; give one for each axis of shape {x.shape}")
    return _call("tile", x, counts)


@_method
def tile(x: Any, *sizes: Any, dims: Any = None) -> Any:
    """The tensor repeated as a whole, sizes[a] times along axis a; missing numbers in front are 1."""
    return _call("tile", x, _named(sizes, dims))


@_method
def repeat_interleave(x: Any, repeats: Any, dim: int | None = None, *, output_size: int | None = None) -> Any:
    """Every element ``repeats`` times in a row along ``dim``; None flattens. ``repeats``: an int or one for each
    element. ``output_size``, the length of the result, is not needed.
    """
    if isinstance(repeats, int):
        return _call("repeat", x, repeats, dim)
    counts = np.asarray(repeats)
    source = x if dim is not None else ravel(x)
    at = 0 if dim is None else _axis(x, dim, "repeat_interleave")
    if counts.ndim > 1 or counts.size not in (1, source.shape[at]):
        raise ShapeError(f"repeat_interleave: {counts.size} counts for {source.shape[at]} elements")
    positions = np.repeat(np.arange(source.shape[at]), counts)
    return _call("index_select", source, at, x.engine.tensor(positions, "int64"))


@_method
def permute(x: Any, *axes: Any, dims: Any = None) -> Any:
    """The axes in another order, given as numbers or one sequence."""
    return _call("permute", x, _named(axes, dims))


@_method
def transpose(x: Any, *axes: Any, dim0: int | None = None, dim1: int | None = None) -> Any:
    """Two axes exchanged; none given reverses all axes, and more are a permutation, as in NumPy."""
    if dim0 is not None or dim1 is not None:
        axes = (*axes, *(axis for axis in (dim0, dim1) if axis is not None))
    return _call("transpose", x, _sizes(axes) if axes else ())


def _swapped(x: Any, first: int, second: int, op: str) -> Any:
    order = list(range(x.ndim))
    a, b = _axis(x, first, op), _axis(x, second, op)
    if x.ndim:
        order[a], order[b] = order[b], order[a]
    return _call("permute", x, tuple(order))


@_method
def swapaxes(x: Any, axis0: int, axis1: int) -> Any:
    """Two axes exchanged."""
    return _swapped(x, axis0, axis1, "swapaxes")


@_method
def swapdims(x: Any, dim0: int, dim1: int) -> Any:
    """Two axes exchanged."""
    return _swapped(x, dim0, dim1, "swapdims")


@_method
def t(x: Any) -> Any:
    """The transpose of a matrix; tensors of fewer axes unchanged. Raises ShapeError if there are more."""
    if x.ndim > 2:
        raise ShapeError(f"t: shape {x.shape} has more than two axes; write x.mT or x.transpose(dim0, dim1)")
    return _swapped(x, 0, 1, "t") if x.ndim == 2 else x


@_method
def movedim(x: Any, source: Any, destination: Any) -> Any:
    """The axes ``source`` (int or several) at the positions ``destination``; the others keep their order."""
    moved = [_axis(x, axis, "movedim") for axis in _sizes((source,))]
    places = [_axis(x, axis, "movedim") for axis in _sizes((destination,))]
    if len(moved) != len(places):
        raise ShapeError(f"movedim: {len(moved)} axes for {len(places)} positions")
    order = [axis for axis in range(x.ndim) if axis not in moved]
    for place, axis in sorted(zip(places, moved)) if x.ndim else ():
        order.insert(place, axis)
    return _call("permute", x, tuple(order))


_FUNCTIONS["moveaxis"] = movedim


@_method
def unflatten(x: Any, dim: int, sizes: Sequence[int]) -> Any:
    """The axis ``dim`` as several axes of lengths ``sizes``; one length may be -1."""
    at = _axis(x, dim, "unflatten")
    length, product = x.shape[at], math.prod(sizes)
    if -1 in sizes and product < 0 and length % -product == 0:
        sizes = [length // -product if size == -1 else size for size in sizes]
    if math.prod(sizes) != length or min(sizes, default=0) < 0:
        raise ShapeError(f"unflatten: an axis of length {length} does not fit sizes {tuple(sizes)}")
    return _call("reshape", x, shape=(*x.shape[:at], *sizes, *x.shape[at + 1 :]))


@_method
def flip(x: Any, *axes: Any, dims: Any = None) -> Any:
    """The elements in reverse order along axes, given as numbers or one sequence."""
    return _call("flip", x, axis=_named(axes, dims) if axes or dims is not None else None)


@_method
def roll(x: Any, shifts: Any, dims: Any = None) -> Any:
    """The elements moved ``shifts`` positions along ``dims``, cyclically; None rolls the flattened tensor."""
    return _call("roll", x, shifts, dims)


@_method
def select(x: Any, dim: int, index: int) -> Any:
    """Position ``index`` of one axis, without it."""
    at = _axis(x, dim, "select")
    return _call("getitem", x, (slice(None),) * at + (int(index),))


@_method
def unfold(x: Any, dimension: int, size: int, step: int) -> Any:
    """Windows of ``size`` elements along an axis, ``step`` positions from one to the next, in a new last axis."""
    at = _axis(x, dimension, "unfold")
    if not x.ndim:
        return unfold(ravel(x), 0, size, step)[0]
    length = x.shape[at]
    count = (length - size) // step + 1 if step > 0 else 0
    if 0 < size <= step and count > 0 and count * step <= length:  # slices: their gradient is a copy
        whole = _call("narrow", x, at, 0, count * step)
        return movedim(_call("narrow", unflatten(whole, at, (count, step)), at + 1, 0, size), at + 1, -1)
    return _call("windows", x, at, size, step)


@_method
def as_strided(x: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """The elements of the storage at storage_offset + i * stride, of shape ``size``: a view; a write into elements that
    share memory is refused. The offset is by default that of the tensor.

    Raises ShapeError for negative numbers and outside of the storage.
    """
    offset = x.storage_offset() if storage_offset is None else storage_offset
    if (tuple(size), tuple(stride), offset) == (x.shape, x.stride(), x.storage_offset()):
        return _call("reshape", x, x.shape)
    return _call("as_strided", _stored(x, "as_strided"), tuple(size), tuple(stride), offset)


def _stored(x: Any, op: str) -> Any:
    """A tensor of all elements of the storage of ``x``: in the gradient graph the one that ``x`` is a view of. Of a
    leaf that shows a part of its storage it is a copy in which that part is the leaf.
    """
    if views.whole(x):
        return x
    group = getattr(x._base, "group", None)
    base = None if group is None else group.base()
    if base is not None and views.whole(base):
        return base
    whole = views.root_tensor(x)
    if x._requires_grad and x._grad_fn is None and grad_mode.state.enabled:
        size, stride, offset = x.shape, x.stride(), x.storage_offset()
        return _replaced(whole, x, lambda copied: _call("as_strided", copied, size, stride, offset))
    if x._requires_grad and grad_mode.state.enabled:
        raise UnsupportedError(f"{op}: the tensor that this is a view of is gone; write x.clone().{op}(...)")
    whole._base = x._base if x._base is in_place.DATA else None
    return whole


def _resized(x: Any, sizes: tuple[int, ...], op: str) -> Any:
    if x._requires_grad:
        raise RuntimeError(f"{op}: a tensor that requires grad keeps its shape; write x.reshape(...)")
    if min(sizes, default=0) < 0:
        raise ShapeError(f"{op}: expected lengths of 0 and more, got {sizes}")
    if sizes == x.shape:
        return x
    whole, offset, count = _stored(x, op), x.storage_offset(), math.prod(sizes)
    if offset + count <= whole.size:
        strides = contiguous_strides(sizes)
        return in_place.restructure(x, op, lambda old: as_strided(old, sizes, strides, offset))
    if whole is not x or any(ref() is not None for ref in x._storage.views or ()):
        raise UnsupportedError(
            f"{op}: {count} elements in a storage of {whole.size} that views share; write x = x.new_empty({sizes})"
        )
    larger = _made(x, (count,), None, None, False)
    if x.size:
        in_place.copy(_call("narrow", larger, 0, 0, x.size), ravel(x))
    in_place.set_data(x, larger.reshape(sizes))
    return x


@_method
def resize_(x: Any, *sizes: Any, memory_format: Any = None) -> Any:
    """Gives the tensor another shape in place: the first elements of its storage, or if that is too small new memory;
    the elements behind the present ones are undefined.

    Raises RuntimeError for a tensor that requires grad, UnsupportedError if it grows and has views or is one.
    """
    return _resized(x, _sizes(sizes), "resize_")


@_method
def resize_as_(x: Any, the_template: Any, *, memory_format: Any = None) -> Any:
    """``resize_`` to the shape of ``the_template``."""
    return _resized(x, tuple(the_template.shape), "resize_as_")


@_method
def as_strided_scatter(x: Any, src: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """A copy in which ``as_strided(size, stride, storage_offset)`` is ``src``."""
    offset = x.storage_offset() if storage_offset is None else storage_offset
    whole = _replaced(_stored(x, "as_strided_scatter"), src, lambda copied: as_strided(copied, size, stride, offset))
    return whole if views.whole(x) else as_strided(whole, x.shape, x.stride(), x.storage_offset())


_MOST_PARTS = 1 << 16  # of a shorter axis; each is a tensor


@_method
def tensor_split(x: Any, indices_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Parts along ``dim``: so many of nearly equal length, or parts that begin at the given positions."""
    at = _axis(x, dim, "tensor_split")
    length = x.shape[at]
    if _is_tensor(indices_or_sections):
        if indices_or_sections.dtype != "int64":
            raise DTypeError(f"tensor_split: expected positions of int64, got {indices_or_sections.dtype}")
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        if indices_or_sections <= 0:
            raise ShapeError(f"tensor_split: {indices_or_sections} parts; there must be one at least")
        if indices_or_sections > max(length, _MOST_PARTS):
            most = f"{_MOST_PARTS}, or the length of the axis, which is {length}"
            raise ShapeError(f"tensor_split: {indices_or_sections} parts; there may be at most {most}")
        whole, more = divmod(length, indices_or_sections)
        ends = np.cumsum([whole + (i < more) for i in range(indices_or_sections)])[:-1].tolist()
    else:
        ends = [int(i) for i in indices_or_sections]
    bounds = [slice(a, b) for a, b in zip([None, *ends], [*ends, None])]
    return tuple(_call("getitem", x, (slice(None),) * at + (bound,)) for bound in bounds)


def _equal_parts(op: str, x: Any, indices_or_sections: Any, dim: int, least_axes: int) -> tuple[Any, ...]:
    """Returns the parts along ``dim``; raises ShapeError for too few axes, or parts that cannot be of equal length."""
    if x.ndim < least_axes:
        raise ShapeError(f"{op}: expected a tensor of at least {least_axes} axes, got shape {x.shape}")
    parts = indices_or_sections
    if isinstance(parts, int) and parts > 0 and x.shape[dim] % parts:
        raise ShapeError(
            f"{op}: {parts} equal parts of an axis of length {x.shape[dim]}; write x.tensor_split({parts}, {dim})"
        )
    return tensor_split(x, parts, dim)


@_method
def hsplit(x: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Equal parts along the second axis, along the first of a vector, or parts that begin at the given positions."""
    return _equal_parts("hsplit", x, indices_or_sections, 0 if x.ndim == 1 else 1, 1)


@_method
def vsplit(x: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Equal parts along the first axis, or parts that begin at the given positions."""
    return _equal_parts("vsplit", x, indices_or_sections, 0, 2)


@_method
def dsplit(x: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Equal parts along the third axis, or parts that begin at the given positions."""
    return _equal_parts("dsplit", x, indices_or_sections, 2, 3)


@_method
def split_with_sizes(x: Any, split_sizes: Sequence[int], dim: int = 0) -> Any:
    """Parts of the given sizes along ``dim``."""
    return _call("split", x, list(split_sizes), dim)


@_method
def narrow_copy(x: Any, dim: int, start: int, length: int) -> Any:
    """``narrow`` as a copy."""
    return _call("clone", _call("narrow", x, dim, start, length))


@_method
def unsafe_chunk(x: Any, chunks: int, dim: int = 0) -> Any:
    """``chunk``."""
    return _call("chunk", x, chunks, dim)


@_method
def unsafe_split(x: Any, split_size: int, dim: int = 0) -> Any:
    """``split``."""
    return _call("split", x, split_size, dim)


@_method
def unsafe_split_with_sizes(x: Any, split_sizes: Sequence[int], dim: int = 0) -> Any:
    """``split_with_sizes``."""
    return _call("split", x, list(split_sizes), dim)


@_method
def dim_order(x: Any, *, ambiguity_check: bool = False) -> tuple[int, ...]:
    """The axes from the one with the largest step in memory to the one with the least."""
    strides = x.stride()
    return tuple(sorted(range(x.ndim), key=lambda axis: -strides[axis]))


@_method
def is_set_to(x: Any, tensor: Any) -> bool:
    """True if both show the same elements of the same storage in the same shape."""
    return bool(views.root_of(x) is views.root_of(tensor) and views.geometry_of(x) == views.geometry_of(tensor))


@_method
def diag_embed(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices with the last axis on their diagonal, in the axes ``dim1`` and ``dim2`` of the result."""
    n = x.shape[-1] + abs(offset)
    column = np.arange(n)
    here = column - (offset if offset > 0 else 0)  # the element of a column's diagonal
    inside = (here >= 0) & (here < x.shape[-1])
    if not x.shape[-1]:
        return movedim(_made(x, (*x.shape[:-1], n, n), 0, x.dtype, x.requires_grad), (-2, -1), (dim1, dim2))
    spread = _call("index_select", x, x.ndim - 1, x.engine.tensor(np.where(inside, here, 0), "int64"))
    mask = x.engine.tensor((column[:, None] == column - offset) & inside, "bool")
    square = _call("where", mask, _call("unsqueeze", spread, -2), False if x.dtype == "bool" else 0)
    return movedim(square, (-2, -1), (dim1, dim2))


# -- sparse forms ------------------------------------------------------------------------------------------------------


def _sparse() -> Any:
    return importlib.import_module("netcl.core.tensor.sparse")


@_method
def to_sparse(x: Any, sparse_dim: int | None = None, *, layout: Any = None) -> Any:
    """The elements that are not zero, as a SparseTensor in COO with positions in the first ``sparse_dim`` axes, by
    default all, or in ``layout``. Their number is read on the host; gradients flow to this tensor.
    """
    if layout is memory_format.sparse_csr:
        return to_sparse_csr(x)
    if layout not in (None, memory_format.sparse_coo):
        raise UnsupportedError(f"to_sparse: expected layout nc.sparse_coo or nc.sparse_csr, got {layout!r}")
    return _sparse().of_dense(x, sparse_dim)


@_method
def to_sparse_csr(x: Any, dense_dim: int | None = None) -> Any:
    """The elements of a matrix that are not zero, as a SparseTensor in CSR; ShapeError for other tensors."""
    if x.ndim != 2 or dense_dim:
        raise ShapeError(f"to_sparse_csr: shape {x.shape} is no matrix")
    return _sparse().of_dense(x, None, memory_format.sparse_csr)


@_method
def to_dense(x: Any, dtype: Any = None, *, masked_grad: bool | None = None) -> Any:
    """This tensor, in ``dtype`` if given: it is dense."""
    return x if dtype is None else x.astype(dtype)


@_method
def sparse_dim(x: Any) -> int:
    """0: the tensor is dense."""
    return 0


@_method
def dense_dim(x: Any) -> int:
    """The number of axes: the tensor is dense."""
    return len(x.shape)


@_method
def sparse_mask(x: Any, mask: Any) -> Any:
    """The elements at the positions of ``mask``, a SparseTensor of this shape, zeros among them."""
    return _sparse().at_positions(x, mask)


# -- forms of rows that have more parameters here --------------------------------------------------------------------


@_method
def norm(x: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None, **numpy_names: Any) -> Any:
    """The p-norm over ``dim``, (sum |x|^p)^(1/p), of the elements as ``dtype``; None is all axes.

    ``p``: a number, inf, -inf, ``"fro"`` or None for 2, or ``"nuc"`` for the sum of the singular values of a matrix.
    The gradient at 0 is 0. Raises ShapeError for the extremes of no elements.
    """
    x = x if dtype is None else x.to(dtype)
    kept = _axes("norm", dim, keepdim, numpy_names)
    if p == "nuc":
        axes = (-2, -1) if kept["axis"] is None else kept["axis"]
        return _call("linalg_matrix_norm", x, "nuc", axes, kept["keepdims"])
    if isinstance(p, str) and p != "fro":
        raise ArgumentError(f"norm: expected p a number, 'fro' or 'nuc', got {p!r}")
    return _call("norm", x, 2 if p in (None, "fro") else p, **kept)


@_method
def scatter(
    x: Any,
    dim: Any = None,
    index: Any = None,
    src: Any = None,
    *,
    value: Any = None,
    reduce: Any = None,
    axis: Any = None,
) -> Any:
    """``x`` with src[.., i, ..] in place of [.., index[.., i, ..], ..] along ``dim``; of equal indices the last wins.

    ``src`` (or ``value``) is a number or has at least the index's lengths; off the axis the index may be shorter than
    x. ``reduce``: ``"add"`` or ``"multiply"`` combines with the element that is there.
    """
    source, dim = value if src is None else src, axis if dim is None else dim
    if reduce is None:
        return _call("scatter", x, dim, index, source)
    if reduce not in ("add", "multiply"):
        raise ArgumentError(f"scatter: expected reduce 'add' or 'multiply', got {reduce!r}; scatter_reduce has others")
    if not _is_tensor(source):
        source = _made(x, index.shape, source, None, False)
    if reduce == "add":
        return _call("scatter_add", x, dim, index, source)
    return _call("scatter_reduce", x, dim, index, source, "prod")


@_method
def unique(
    x: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements, or with ``dim`` the distinct slices along it, in order, regardless of ``sorted``.

    With the position of each element or slice among them (``return_inverse``, int64) and the number of its occurrences
    (``return_counts``, int64). The first of equal elements gets the gradient. Read on the host; raises CaptureError
    while a step is captured.
    """
    if dim is None:
        return _call("unique", x, sorted, return_inverse, return_counts)
    at = _axis(x, dim, "unique")
    rows = np.moveaxis(x.detach().to_host(), at, 0)
    _, first, inverse, counts = np.unique(
        rows.reshape(len(rows), -1), return_index=True, return_inverse=True, return_counts=True, axis=0
    )
    results = [_call("index_select", x, at, x.engine.tensor(first.astype(np.int64), "int64"))]
    if return_inverse:
        results.append(x.engine.tensor(inverse.reshape(-1).astype(np.int64), "int64"))
    if return_counts:
        results.append(x.engine.tensor(counts.astype(np.int64), "int64"))
    return tuple(results) if len(results) > 1 else results[0]


# -- dtype and place ---------------------------------------------------------------------------------------------------


def _converter(name: str, dtype: str) -> _Method:
    def convert(x: Any, memory_format: Any = None) -> Any:
        return x.astype(dtype) if memory_format is None else x.to(dtype=dtype, memory_format=memory_format)

    convert.__name__, convert.__doc__ = name, f"The values as {dtype}."
    return convert


for _name, _dtype in {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "long": "int64", "int": "int32",
    "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool",
}.items():  # fmt: skip
    _FUNCTIONS[_name] = _converter(_name, _dtype)


_TYPE_NAMES = {
    "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16",
    "LongTensor": "int64", "IntTensor": "int32", "ShortTensor": "int16", "CharTensor": "int8", "ByteTensor": "uint8",
    "BoolTensor": "bool",
}  # fmt: skip


@_method
def type(x: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The values as ``dtype``, by name, as PyTorch's ``"FloatTensor"`` or as the class ``nc.FloatTensor``; without one,
    such a name for this tensor. A type of GPUs, ``torch.cuda.FloatTensor``, also moves them there.
    """
    if dtype is None:
        names = {known: name for name, known in _TYPE_NAMES.items()}
        return f"{naming.library}.{'cuda.' * x.is_cuda}{names.get(x.dtype, dtypes.canonical(x.dtype))}"
    if isinstance(dtype, builtins.type) and issubclass(dtype, Operators):
        home, dtype = None, dtypes.get_default_dtype()
    elif isinstance(dtype, builtins.type):  # nc.FloatTensor
        home, dtype = getattr(dtype, "home", None), getattr(dtype, "dtype", dtype)
    else:
        place, _, name = str(dtype).rpartition(".")
        home, dtype = "cuda" if place.endswith("cuda") else None, _TYPE_NAMES.get(name, dtype)
    return x.astype(dtype) if home is None else x.to(home, dtype)


@_method
def new(x: Any, *args: Any, **options: Any) -> Any:
    """A tensor of this dtype and on this device: of the lengths ``x.new(2, 3)`` or of a size with undefined content, or
    of data as ``x.new_tensor``.
    """
    if len(args) == 1 and not isinstance(args[0], (int, Size)):
        return x.new_tensor(args[0], dtype=x.dtype, **options)
    return x.new_empty(args[0] if args and isinstance(args[0], Size) else args or (0,), **options)


@_method
def is_floating_point(x: Any) -> bool:
    """True for floating dtypes."""
    return dtypes.is_floating(x.dtype)


@_method
def is_complex(x: Any) -> bool:
    """False: there are no complex dtypes."""
    return False


@_method
def is_signed(x: Any) -> bool:
    """True for dtypes with negative numbers."""
    return not (x.dtype == "bool" or x.dtype.startswith("uint"))


@_method
def is_nonzero(x: Any) -> bool:
    """True if the one element is not zero; ShapeError if there are more or none."""
    return bool(x.item())


@_method
def is_same_size(x: Any, other: Any) -> bool:
    """True if the shapes are equal."""
    return bool(x.shape == other.shape)


@_method
def element_size(x: Any) -> int:
    """Bytes of one element."""
    return dtypes.itemsize(x.dtype)


@_method
def cuda(x: Any, device: Any = None, non_blocking: bool = False) -> Any:
    """The tensor on a GPU, the first one or the one of that number: ``x.to("gpu:1")``."""
    return x.to("gpu" if device is None else f"gpu:{device}" if isinstance(device, int) else device)


def _never(name: str) -> None:
    def known(x: Any) -> bool:
        return False

    known.__name__, known.__doc__ = name, "False: there is no such state of a tensor here."
    _FUNCTIONS[name] = known


for _name in ("is_conj", "is_distributed", "is_inference", "is_neg", "is_pinned", "is_shared"):
    _never(_name)


@_method
def const_data_ptr(x: Any) -> int:
    """``data_ptr()``."""
    return int(x.data_ptr())


@_method
def pin_memory(x: Any, device: Any = None) -> Any:
    """The tensor itself: copies to and from devices go through pinned memory where the driver has it."""
    return x


@_method
def get_device(x: Any) -> int:
    """Returns the index of the tensor's device among the devices of its type, -1 for a CPU."""
    return -1 if x.is_cpu else int(x.device.selector.rpartition(":")[2])


# -- new tensors of the same device and dtype --------------------------------------------------------------------------


def _made(x: Any, shape: Sequence[int], fill_value: Any, dtype: Any, requires_grad: bool) -> Any:
    return builtins.type(x).from_shape(
        x.engine.queue,
        tuple(shape),
        dtype or x.dtype,
        backend=x.engine.name,
        fill=fill_value,
        requires_grad=requires_grad,
    )


@_method
def new_zeros(x: Any, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Zeros of ``size``, of this tensor's dtype and device."""
    return _placed(_made(x, _sizes(size), 0, dtype, False), device, requires_grad)


@_method
def new_ones(x: Any, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Ones of ``size``, of this tensor's dtype and device."""
    return _placed(_made(x, _sizes(size), 1, dtype, False), device, requires_grad)


@_method
def new_empty(x: Any, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor of ``size`` with undefined content, of this tensor's dtype and device."""
    return _placed(_made(x, _sizes(size), None, dtype, False), device, requires_grad)


@_method
def new_empty_strided(
    x: Any, size: Any, stride: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """A tensor of ``size`` and ``stride`` with undefined content, of this tensor's dtype and device."""
    shape, steps = tuple(size), tuple(stride)
    reach = 0 if 0 in shape else 1 + sum((length - 1) * step for length, step in zip(shape, steps))
    return _placed(
        as_strided(new_empty(x, (max(reach, 0),), dtype=dtype, device=device), shape, steps), None, requires_grad
    )


@_method
def new_full(
    x: Any, size: Sequence[int], fill_value: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """A tensor of ``size`` filled with ``fill_value``, of this tensor's dtype and device."""
    return _placed(_made(x, size, fill_value, dtype, False), device, requires_grad)


@_method
def new_tensor(x: Any, data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor with the values of ``data``, of this tensor's dtype and device."""
    made = x.engine.tensor(np.asarray(data), str(dtypes.canonical(dtype or x.dtype)))
    return _placed(made, device, requires_grad)


def _placed(made: Any, device: Any, requires_grad: bool) -> Any:
    made = made if device is None else made.to(device)
    if requires_grad:
        made.requires_grad = True
    return made


# -- arithmetic --------------------------------------------------------------------------------------------------------


@_method
def add(x: Any, other: Any, *, alpha: Any = 1) -> Any:
    """x + alpha * other."""
    return _call("add", x, _scaled(other, alpha))


@_method
def sub(x: Any, other: Any, *, alpha: Any = 1) -> Any:
    """x - alpha * other."""
    return _call("sub", x, _scaled(other, alpha))


def _scaled(other: Any, alpha: Any) -> Any:
    if isinstance(alpha, int) and alpha == 1:
        return other
    return _call("mul", other, alpha) if _is_tensor(other) else other * alpha


@_method
def div(x: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """x / other; ``rounding_mode``: ``floor``, ``trunc`` (their gradients are zero) or None for the exact quotient."""
    if rounding_mode is None:
        return _call("div", x, other)
    if rounding_mode == "floor":
        quotient = _call("floor_divide", x.detach(), other.detach() if _is_tensor(other) else other)
        return with_zero_gradient(quotient, x, other)
    if rounding_mode != "trunc":
        raise ArgumentError(f"div: expected rounding_mode None, 'floor' or 'trunc', got {rounding_mode!r}")
    if dtypes.is_floating(dtypes.promote(x.dtype, other.dtype if _is_tensor(other) else builtins.type(other))):
        return _call("trunc", _call("div", x, other))
    lowered = _call("floor_divide", x, other)
    inexact = _call("logical_and", _call("lt", lowered, 0), _call("ne", _call("mod", x, other), 0))
    return _call("add", lowered, inexact)


@_method
def pow(x: Any, exponent: Any) -> Any:
    """x to the power of ``exponent``; integers to an integer power stay integers. Raises ValueError for integers to a
    negative number; to negative elements of a tensor they are truncated to 0 (except for 1 and -1).
    """
    check_power(x, exponent)
    return _call("pow", x, exponent)


@_method
def prelu(x: Any, weight: Any) -> Any:
    """x if positive, else ``weight`` x: a weight of one element, or one for each position of axis 1."""
    if weight.ndim == 1:
        if weight.shape[0] == 1:
            weight = _call("reshape", weight, ())
        elif x.ndim < 2 or weight.shape[0] != x.shape[1]:
            raise ShapeError(f"prelu: weight {weight.shape} for x {x.shape}; expected one element, or x.shape[1]")
        else:
            weight = _call("reshape", weight, (-1,) + (1,) * (x.ndim - 2))
    return _call("prelu", x, weight)


@_method
def round(x: Any, *, decimals: int = 0) -> Any:
    """Each element rounded to ``decimals`` digits after the point, halves to even."""
    if decimals == 0:
        return _call("round", x)
    scale = 10.0**decimals
    return _call("div", _call("round", _call("mul", x, scale)), scale)


def _reduction(name: str) -> None:
    def reduce(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, **numpy_names: Any) -> Any:
        if numpy_names or dtype is not None:
            return _call(name, x, dtype=dtype, **_axes(name, dim, keepdim, numpy_names))
        return _call(name, x, dim, keepdim)

    reduce.__name__ = name
    reduce.__doc__ = (
        f"The {name} over ``dim`` (int, several or None for all) in ``dtype``, of the elements as ``dtype``."
    )
    _FUNCTIONS[name] = reduce


def _axes(name: str, dim: Any, keepdim: bool, numpy_names: dict[str, Any]) -> dict[str, Any]:
    """The axes and whether they are kept, in PyTorch's or NumPy's names; TypeError if one is given twice."""
    for own, given, default in (("axis", dim, None), ("keepdims", keepdim, False)):
        if own in numpy_names and given is not default:
            raise TypeError(f"{name}: give {'dim' if own == 'axis' else 'keepdim'} or {own}, not both")
    names = {
        "axis": numpy_names.pop("axis", every_axis_if_empty(dim)),
        "keepdims": numpy_names.pop("keepdims", keepdim),
    }
    if numpy_names:
        raise TypeError(f"{name}() got an unexpected keyword argument {next(iter(numpy_names))!r}")
    return names


for _name in ("sum", "mean", "prod"):
    _reduction(_name)
_FUNCTIONS.update(divide=div, true_divide=div, subtract=sub)


@_method
def softmax(x: Any, dim: Any = None, dtype: Any = None, *, axis: Any = None) -> Any:
    """exp(x) / sum(exp(x)) along ``dim`` (default: the last), of the elements as ``dtype``."""
    return _normalized("softmax", x, dim, dtype, axis)


@_method
def log_softmax(x: Any, dim: Any = None, dtype: Any = None, *, axis: Any = None) -> Any:
    """log(softmax(x)) along ``dim`` (default: the last), of the elements as ``dtype``."""
    return _normalized("log_softmax", x, dim, dtype, axis)


def _normalized(name: str, x: Any, dim: Any, dtype: Any, axis: Any) -> Any:
    if dim is not None and axis is not None:
        raise TypeError(f"{name}: give dim or axis, not both")
    at = dim if dim is not None else -1 if axis is None else axis
    return _call(name, x, axis=at, dtype=dtype)


@_method
def clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    """Each element, at least ``min`` and at most ``max``, numbers or tensors that broadcast; NaN if one of them is.

    The gradient passes to x within the limits and at them, else to the limit that is the result. The dtype is the
    promoted one. Raises RuntimeError without a limit, TypeError for a number with a tensor.
    """
    tensors = [_is_tensor(limit) for limit in (min, max) if limit is not None]
    if not tensors:
        raise RuntimeError("clamp: at least one of min and max has to be a limit")
    if not any(tensors):
        return _call("clamp", x, min=min, max=max)
    if not all(tensors):
        raise TypeError("clamp: one limit is a tensor and one a number; write netcl.full_like(tensor, number)")
    return _call("clamp_between", x, min, max)


def _clip(x: Any, min: Any = None, max: Any = None) -> Any:
    """``clamp``."""
    return clamp(x, min, max)


_clip.__name__ = "clip"
_FUNCTIONS["clip"] = _clip


@_method
def fmod(x: Any, other: Any) -> Any:
    """The remainder of x / other with the sign of x, as in C."""
    if dtypes.is_integer(x.dtype) and (dtypes.is_integer(other.dtype) if _is_tensor(other) else isinstance(other, int)):
        # The magnitude of the least integer is none: the remainder with the divisor's sign is moved by one divisor.
        remainder = _call("mod", x, other)
        moved = _call("lt", _call("mul", _call("sign", remainder), _call("sign", x)), 0)
        return _call("where", moved, _call("sub", remainder, other), remainder)
    negative = _call("lt", x, 0)
    magnitude = _call("mod", _call("where", negative, _call("neg", x), x), abs(other))  # |x| has no derivative at 0
    return _call("where", negative, _call("neg", magnitude), magnitude)


@_method
def float_power(x: Any, exponent: Any) -> Any:
    """x to the power of ``exponent`` in float64."""
    return _call("pow", x.astype("float64"), exponent.astype("float64") if _is_tensor(exponent) else exponent)


@_method
def positive(x: Any) -> Any:
    """The tensor itself; TypeError for bool."""
    if x.dtype == "bool":
        raise TypeError("positive: + is not defined on bool tensors; write x.int()")
    return x


@_method
def aminmax(x: Any, *, dim: int | None = None, keepdim: bool = False) -> tuple[Any, Any]:
    """The least and the greatest element, over ``dim`` or all."""
    return _call("amin", x, axis=dim, keepdims=keepdim), _call("amax", x, axis=dim, keepdims=keepdim)


@_method
def nansum(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum without the elements that are NaN."""
    values = _call("where", _call("isnan", x), 0, x)
    return _call("sum", values if dtype is None else values.astype(dtype), dim=dim, keepdims=keepdim)


@_method
def nanmean(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The mean of the elements that are not NaN."""
    there = _call("logical_not", _call("isnan", x)).astype(dtype or x.dtype)
    return _call("div", nansum(x, dim, keepdim, dtype=dtype), _call("sum", there, dim=dim, keepdims=keepdim))


@_method
def inner(x: Any, other: Any) -> Any:
    """The sums of products over the last axes of both."""
    return _call("tensordot", x, other, ([-1], [-1])) if x.ndim and other.ndim else _call("mul", x, other)


@_method
def dot(x: Any, tensor: Any) -> Any:
    """The inner product of two vectors; of matrices write ``x @ tensor``, or NumPy's ``netcl.ops.dot``."""
    if _is_tensor(tensor) and (x.ndim != 1 or tensor.ndim != 1):
        raise ShapeError(f"dot: expected two vectors, got shapes {x.shape} and {tensor.shape}; write x @ tensor")
    return _call("dot", x, tensor)


@_method
def polygamma(x: Any, n: int) -> Any:
    """The n-th derivative of the digamma function."""
    return _call("polygamma", n, x)


@_method
def dist(x: Any, other: Any, p: float = 2) -> Any:
    """The p-norm of the difference of all elements."""
    return _call("norm", _call("sub", x, other), p)


@_method
def allclose(x: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """True if all elements are as close as ``isclose`` asks for."""
    return bool(_call("all", _call("isclose", x, other, rtol, atol, equal_nan)))


@_method
def equal(x: Any, other: Any) -> bool:
    """True if the shapes and all elements are equal."""
    if not _is_tensor(other):
        raise UnsupportedError(f"equal: expected a Tensor as other, got {type(other).__name__}")
    return bool(x.shape == other.shape) and bool(_call("all", _call("eq", x, other)))


def with_zero_gradient(value: Any, *operands: Any) -> Any:
    """``value``, a constant of the operands: it requires a gradient if one of them does, and theirs is zero."""
    for x in operands:
        if _is_tensor(x) and x.requires_grad:
            value = _call("where", True, value, _call("sum", x))
    return value


@_method
def angle(x: Any) -> Any:
    """The angle of a number in the complex plane: pi if it is negative, else 0; NaN for NaN."""
    floating = x if dtypes.is_floating(x.dtype) else x.astype("float32")
    angles = _call("mul", _call("lt", floating, 0), math.pi).astype(floating.dtype)
    return _call("where", _call("isnan", floating), floating.detach(), with_zero_gradient(angles, floating))


@_method
def conj(x: Any) -> Any:
    """The tensor itself: there are no complex dtypes."""
    return x


for _name in ("conj_physical", "resolve_conj", "resolve_neg", "conj_physical_"):
    _FUNCTIONS[_name] = conj


@_method
def isposinf(x: Any) -> Any:
    """True where an element is positive infinity."""
    return _call("eq", x, math.inf) if dtypes.is_floating(x.dtype) else _made(x, x.shape, 0, "bool", False)


@_method
def isneginf(x: Any) -> Any:
    """True where an element is negative infinity."""
    return _call("eq", x, -math.inf) if dtypes.is_floating(x.dtype) else _made(x, x.shape, 0, "bool", False)


@_method
def fmax(x: Any, other: Any) -> Any:
    """The larger element of both; of a number and NaN the number."""
    return _call("where", _call("logical_or", _call("ge", x, other), _call("isnan", other)), x, other)


@_method
def fmin(x: Any, other: Any) -> Any:
    """The smaller element of both; of a number and NaN the number."""
    return _call("where", _call("logical_or", _call("le", x, other), _call("isnan", other)), x, other)


def _integers(name: str, function: Any, x: Any, other: Any) -> Any:
    dtype = dtypes.promote(x.dtype, other.dtype if _is_tensor(other) else builtins.type(other))
    if not dtypes.is_integer(dtype):
        raise DTypeError(f"{name}: expected integers, got {dtype}")
    return x.engine.tensor(function(x.to_host(), np.asarray(other)).astype(dtypes.numpy_dtype(dtype)), dtype)


@_method
def gcd(x: Any, other: Any) -> Any:
    """The greatest common divisor of each pair of integers; computed on the host."""
    return _integers("gcd", np.gcd, x, other)


@_method
def lcm(x: Any, other: Any) -> Any:
    """The least common multiple of each pair of integers; computed on the host."""
    return _integers("lcm", np.lcm, x, other)


@_method
def ldexp(x: Any, other: Any) -> Any:
    """x * 2**other."""
    power = _call("exp2", other if dtypes.is_floating(other.dtype) else other.astype("float32"))
    return _call("mul", x, power)


@_method
def frexp(x: Any) -> tuple[Any, Any]:
    """(mantissa, exponent) with x = mantissa * 2**exponent and the mantissa in [0.5, 1); exponents from the host."""
    if not dtypes.is_floating(x.dtype):
        raise DTypeError(f"frexp: expected floating values, got {x.dtype}")
    exponents = np.frexp(x.to_host())[1].astype(np.int32)
    half = exponents // 2  # two factors, since one would overflow for subnormal numbers
    down = [x.engine.tensor(np.ldexp(1.0, -part), "float32").astype(x.dtype) for part in (half, exponents - half)]
    return _call("mul", _call("mul", x, down[0]), down[1]), x.engine.tensor(exponents, "int32")


@_method
def logaddexp2(x: Any, other: Any) -> Any:
    """log2(2**x + 2**other)."""
    scale = math.log(2.0)
    return _call("div", _call("logaddexp", _call("mul", x, scale), _call("mul", other, scale)), scale)


@_method
def sum_to_size(x: Any, *size: Any) -> Any:
    """The sum over the axes that broadcasting ``size`` to this shape adds or repeats."""
    wanted = _sizes(size)
    lead = x.ndim - len(wanted)
    if not wanted:
        return _call("sum", x)
    if lead < 0 or any(a not in (1, b) for a, b in zip(wanted, x.shape[lead:])):
        raise ShapeError(f"sum_to_size: shape {wanted} does not broadcast to {x.shape}")
    axes = [*range(lead), *(lead + i for i, a in enumerate(wanted) if a == 1 and x.shape[lead + i] != 1)]
    return _call("reshape", _call("sum", x, axis=tuple(axes)) if axes else x, shape=wanted)


@_method
def nanmedian(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median of the elements that are not NaN, NaN if there are none: of all, or along ``dim`` with positions."""
    if dim is None:
        return nanmedian(ravel(x), 0)[0] if x.ndim and x.size else _call("median", x)
    at = _axis(x, dim, "nanmedian")
    if not x.ndim:
        return _call("median", x, dim=dim, keepdim=keepdim)
    if not dtypes.is_floating(x.dtype):
        return _call("median", x, dim=dim, keepdim=keepdim)
    ranked = _call("sort", x, at)  # NaN is last
    there = _call("sum", _call("logical_not", _call("isnan", x)).astype("int64"), axis=at, keepdims=True)
    middle = _call("clamp", _call("floor_divide", _call("sub", there, 1), 2), min=0)
    parts = [_call("gather", part, at, middle) for part in (ranked[0], ranked[1])]
    kept = parts if keepdim else [_call("squeeze", part, at) for part in parts]
    return builtins.type(ranked)(*kept)


@_method
def nanquantile(x: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear") -> Any:
    """The quantiles ``q`` of the elements that are not NaN, NaN if there are none, over ``dim`` or all."""
    flat = ravel(x) if dim is None else x
    at = 0 if dim is None else _axis(x, dim, "nanquantile")
    ranked = _call("sort", flat, at)[0]
    there = _call("sum", _call("logical_not", _call("isnan", flat)).astype(x.dtype), axis=at, keepdims=True)
    values = []
    shares = np.asarray(q, np.float64)
    for share in shares.reshape(-1).tolist():
        if not 0 <= share <= 1:
            raise ArgumentError(f"nanquantile: expected q between 0 and 1, got {share}")
        place = _call("clamp", _call("mul", _call("sub", there, 1), share), min=0)
        low, high = _call("floor", place), _call("ceil", place)
        if interpolation == "linear":
            weight = _call("sub", place, low)
        elif interpolation == "midpoint":
            weight = _call("mul", _call("ceil", _call("sub", place, low)), 0.5)
        elif interpolation in ("lower", "higher"):
            weight = _call("mul", _call("ceil", _call("sub", place, low)), float(interpolation == "higher"))
        elif interpolation == "nearest":
            weight = _call("sub", _call("round", place), low)
        else:
            raise ArgumentError(f"nanquantile: no interpolation {interpolation!r}")
        ends = [_call("gather", ranked, at, each.astype("int64")) for each in (low, high)]
        value = _call("lerp", *ends, weight)
        values.append(value if keepdim and dim is not None else _call("squeeze", value, at))
    if keepdim and dim is None:
        values = [_call("reshape", value, shape=(1,) * x.ndim) for value in values]
    return _call("stack", values, 0) if shares.ndim else values[0]


# -- matrices ----------------------------------------------------------------------------------------------------------


def _weighted(x: Any, beta: Any, product: Any, alpha: Any) -> Any:
    dtype = dtypes.promote(x.dtype, product.dtype)
    if not dtypes.is_floating(dtype):  # as in PyTorch, without digits after the point
        beta, alpha = (bool(n) if dtype == "bool" else int(n) for n in (beta, alpha))
    scaled = _call("mul", product, alpha)
    return scaled if beta == 0 else _call("add", _call("mul", x, beta), scaled)


@_method
def addmv(x: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * x + alpha * mat @ vec."""
    return _weighted(x, beta, _call("mv", mat, vec), alpha)


@_method
def addr(x: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * x + alpha * outer(vec1, vec2)."""
    result = _weighted(x, beta, _call("outer", vec1, vec2), alpha)
    if not dtypes.is_floating(result.dtype) and (int(beta) != beta or int(alpha) != alpha):
        raise ArgumentError(f"addr: expected a whole beta and alpha for {result.dtype}, got {beta} and {alpha}")
    return result


@_method
def addbmm(x: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * x + alpha * the sum of the products of a batch of matrices."""
    product = _call("bmm", batch1, batch2)
    return _weighted(x, beta, _call("sum", product, axis=0).astype(product.dtype), alpha)


@_method
def diagflat(x: Any, offset: int = 0) -> Any:
    """The matrix with all elements on its diagonal ``offset``."""
    return _call("diag", ravel(x), offset)


@_method
def cross(x: Any, other: Any, dim: int | None = None) -> Any:
    """The cross product along ``dim``; None is the first axis of length 3, unlike in ``netcl.linalg.cross``."""
    if dim is None:
        shape = np.broadcast_shapes(x.shape, other.shape)
        dim = next((axis for axis, size in enumerate(shape) if size == 3), None)
        if dim is None:
            raise ShapeError(f"cross: no axis of shape {shape} has length 3")
    return _call("linalg_cross", x, other, axis=dim)


@_method
def qr(x: Any, some: bool = True) -> Any:
    """(Q, R) with x = Q R: Q with as many columns as R has rows, or square without ``some``."""
    return _call("linalg_qr", x, mode="reduced" if some else "complete")


@_method
def svd(x: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """(U, S, V) with x = U diag(S) V^T; unlike ``netcl.linalg.svd``, which has the transpose of V."""
    if not compute_uv:
        zeros = [_made(x, (*x.shape[:-2], n, n), 0, x.dtype, False) for n in x.shape[-2:]]
        return zeros[0], _call("linalg_svdvals", x), zeros[1]
    u, s, vh = _call("linalg_svd", x, full_matrices=not some)
    return u, s, _swapped(vh, -2, -1, "svd")


@_method
def cholesky_inverse(x: Any, upper: bool = False) -> Any:
    """The inverse of x x^T for the Cholesky factor x, with ``upper`` of x^T x. The gradient is that of a full x."""
    return _call("linalg_inv", _squared(x, upper))


@_method
def cholesky_solve(x: Any, input2: Any, upper: bool = False) -> Any:
    """The solution of A y = x for the matrix A with Cholesky factor ``input2``; the gradient is that of a full one."""
    return _call("linalg_solve", _squared(input2, upper), x)


def _squared(factor: Any, upper: bool) -> Any:
    rest = _call("tril", factor.detach(), -1) if upper else _call("triu", factor.detach(), 1)
    kept = _call("sub", factor, rest)
    other = _swapped(kept, -2, -1, "cholesky")
    return _call("matmul", other, kept) if upper else _call("matmul", kept, other)


@_method
def lu(x: Any, pivot: bool = True, get_infos: bool = False) -> tuple[Any, ...]:
    """(LU, pivots), with ``get_infos`` also 0 or the first zero of U, as ``netcl.linalg.lu_factor`` gives them."""
    return _call("linalg_lu_factor_ex" if get_infos else "linalg_lu_factor", x, pivot=pivot)


@_method
def lu_solve(x: Any, LU_data: Any, LU_pivots: Any) -> Any:
    """The solution of A y = x by the factors of A that ``lu`` gives."""
    return _call("linalg_lu_solve", LU_data, LU_pivots, x)


@_method
def triangular_solve(
    x: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Any, Any]:
    """(the solution of A y = x, a copy of A) for a triangular A; the other triangle is not read."""
    kept = _call("triu" if upper else "tril", A, (1 if upper else -1) if unitriangular else 0)
    if unitriangular:
        kept = _call("add", kept, A.engine.tensor(np.eye(A.shape[-1]), A.dtype))
    return _call("linalg_solve", _swapped(kept, -2, -1, "triangular_solve") if transpose else kept, x), A.clone()


# -- positions ---------------------------------------------------------------------------------------------------------


@_method
def take(x: Any, index: Any) -> Any:
    """The elements at positions of the flattened tensor, in the shape of ``index``."""
    return _call("take", x, index)


@_method
def take_along_dim(x: Any, indices: Any, dim: int | None = None, *, axis: int | None = None) -> Any:
    """The elements at ``indices`` along ``dim``, one for each of the other positions; None takes of the flat tensor."""
    if dim is not None and axis is not None:
        raise TypeError("take_along_dim: give dim or axis, not both")
    at = axis if dim is None else dim
    return _call("take", ravel(x), ravel(indices)) if at is None else _call("take_along_axis", x, indices, at)


@_method
def index_fill(x: Any, dim: int, index: Any, value: Any) -> Any:
    """A copy with ``value`` at the positions ``index`` of an axis."""
    if not x.ndim:
        return _call("reshape", index_fill(ravel(x), dim, index, value), ())
    at = _axis(x, dim, "index_fill")
    positions = np.asarray(index).reshape(-1)
    chosen = np.zeros(x.shape[at], bool)
    if positions.size and not (-x.shape[at] <= positions.min() and positions.max() < x.shape[at]):
        raise OutOfRangeError(
            f"index_fill: positions {positions.min()} to {positions.max()} in an axis of length {x.shape[at]}"
        )
    chosen[positions] = True
    mask = x.engine.tensor(chosen.reshape((-1,) + (1,) * (x.ndim - at - 1)), "bool")
    return _call("masked_fill", x, mask, value)


@_method
def where(x: Any, condition: Any, other: Any) -> Any:
    """Returns this tensor's elements under ``condition``, elsewhere the elements of ``other``."""
    return _call("where", condition, x, other)


@_method
def masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    """Returns a copy: its elements under the mask are the elements of ``source``, in order; ``x`` and the mask
    broadcast. ShapeError if the elements are too few.
    """
    elements = mask.to_host() if _is_tensor(mask) else np.asarray(mask)
    shape = broadcast_shapes((x.shape, elements.shape), "masked_scatter")
    chosen, x = np.broadcast_to(elements, shape), x if x.shape == shape else _call("expand", x, shape)
    wanted = int(chosen.sum())
    if source.size < wanted:
        raise ShapeError(f"masked_scatter: {wanted} elements under the mask and {int(source.size)} in the source")
    order = np.where(chosen, np.cumsum(chosen).reshape(shape) - 1, 0)
    if not wanted:
        return _call("clone", x)
    spread = _call("take", source, x.engine.tensor(order, "int64"))
    return _call("where", x.engine.tensor(np.array(chosen), "bool"), spread, x)


@_method
def put(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """A copy with the elements of ``source`` at positions of the flattened tensor, added there with ``accumulate``."""
    flat = _call("index_put", ravel(x), (ravel(index),), ravel(source), accumulate)
    return _call("reshape", flat, shape=x.shape)


@_method
def nonzero_static(x: Any, *, size: int, fill_value: int = -1) -> Any:
    """The first ``size`` rows of ``nonzero``, with rows of ``fill_value`` if there are fewer."""
    positions = _call("nonzero", x)[:size]
    missing = _made(x, (size - positions.shape[0], x.ndim), fill_value, "int64", False)
    return _call("concatenate", positions, missing) if missing.shape[0] else positions


@_method
def select_scatter(x: Any, src: Any, dim: int, index: int) -> Any:
    """A copy in which ``select(dim, index)`` is ``src``."""
    return _replaced(x, src, lambda copied: select(copied, dim, index))


@_method
def slice_scatter(
    x: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    """A copy in which the positions ``start:end:step`` of an axis are ``src``."""
    at = _axis(x, dim, "slice_scatter")
    return _replaced(x, src, lambda copied: copied[(slice(None),) * at + (slice(start, end, step),)])


@_method
def diagonal_scatter(x: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A copy in which ``diagonal(offset, dim1, dim2)`` is ``src``."""
    return _replaced(x, src, lambda copied: _call("diagonal", copied, offset, dim1, dim2))


def _replaced(x: Any, src: Any, view: Callable[[Any], Any]) -> Any:
    copied = _call("clone", x)
    shown = view(copied)
    if shown.shape != src.shape:
        raise ShapeError(f"values of shape {src.shape} for elements of shape {shown.shape}; the shapes must be equal")
    in_place.copy(shown, src)
    return copied


# -- in place ----------------------------------------------------------------------------------------------------------


@_method
def copy_(x: Any, src: Any, non_blocking: bool = False) -> Any:
    """Gives the tensor the values of ``src``, broadcast and converted to its dtype."""
    if _is_tensor(src) and src.engine is not x.engine:
        src = src.to(x.engine.queue)
    return in_place.copy(x, src)


@_method
def bernoulli(x: Any, p: Any = None, *, generator: Generator | None = None) -> Any:
    """Draws 1 with the probability that each element is, or ``p``, else 0; the tensor keeps its values."""
    shares = x if p is None else p
    with drawing_from(generator):
        if _is_tensor(shares):
            drawn = _call("bernoulli", shares.detach().expand(x.shape).contiguous()).astype(x.dtype)
        else:
            drawn = _call("bernoulli", shares, shape=x.shape, dtype=x.dtype, queue=x.engine.queue)
    return with_zero_gradient(drawn, x, shares)


@_method
def multinomial(x: Any, num_samples: int, replacement: bool = False, *, generator: Generator | None = None) -> Any:
    """Returns positions drawn with the probabilities of the last axis, which need not add up to 1: int64.

    Without ``replacement`` positions differ. Raises ValueError for negative or too few probabilities that are not zero.
    """
    if x.is_meta:
        return _made(x, (*x.shape[:-1], num_samples), 0, "int64", False)
    weights = x.to_host().astype(np.float64)
    if (weights < 0).any() or not np.isfinite(weights).all() or (weights.sum(-1) <= 0).any():
        raise ArgumentError("multinomial: probabilities are finite, not negative and not all zero")
    if not weights.size:
        return _made(x, (*x.shape[:-1], num_samples), 0, "int64", False)
    if not replacement and num_samples > (weights > 0).sum(-1).min():
        raise ArgumentError(
            f"multinomial: {num_samples} samples without replacement need as many probabilities above 0"
        )
    shape = (*x.shape[:-1], num_samples if replacement else x.shape[-1])
    with drawing_from(generator):
        drawn = draw_on_host(x.engine, "multinomial", x, num_samples, replacement, x.dtype)
        if drawn is not None:
            return x.engine.tensor(drawn, "int64")
        uniform = _call("uniform", 0.0, 1.0, shape=shape, dtype="float32", queue=x.engine.queue).to_host()
    if replacement:
        ends = np.cumsum(weights, -1) / weights.sum(-1, keepdims=True)
        drawn = (uniform[..., :, None] >= ends[..., None, :]).sum(-1)
    else:
        # The largest of u^(1/w) are a sample without replacement (Efraimidis and Spirakis, 2006).
        with np.errstate(divide="ignore"):
            keys = np.where(weights > 0, np.log(np.maximum(uniform, 1e-300)) / weights, -np.inf)
        drawn = np.argsort(-keys, -1)[..., :num_samples]
    return x.engine.tensor(np.ascontiguousarray(np.minimum(drawn, x.shape[-1] - 1)), "int64")


def _draw(x: Any, name: str, *limits: Any, generator: Generator | None, dtype: Any = None) -> Any:
    with drawing_from(generator):
        drawn = _call(name, *limits, shape=x.shape, dtype=dtype or x.dtype, queue=x.engine.queue)
    return in_place.copy(x, drawn)


def _draw_by(
    x: Any,
    kind: str,
    *options: float,
    generator: Generator | None,
    by: Callable[[Callable[..., Any]], Any],
    continuous: bool = True,
) -> Any:
    """Fills ``x`` with PyTorch's numbers of a ``kind``, or with ``by(draw)`` of an op that draws in its shape; raises
    DTypeError for integers if the distribution is ``continuous``.
    """
    if continuous and not dtypes.is_floating(x.dtype):
        raise DTypeError(f"{kind}_: expected a floating dtype, got {x.dtype}")

    def draw(name: str, *limits: float, dtype: str = "float32") -> Any:
        return _call(name, *limits, shape=x.shape, dtype=dtype, queue=x.engine.queue)

    with drawing_from(generator):
        array = draw_on_host(x.engine, kind, *options, x.shape, x.dtype)
        return in_place.copy(x, by(draw) if array is None else x.engine.tensor(array, x.dtype))


@_method
def normal_(x: Any, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Any:
    """Sets the elements to normal numbers from ``generator``, or from the one that ``manual_seed`` seeds."""
    return _draw(x, "normal", mean, std, generator=generator)


@_method
def uniform_(x: Any, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None, **named: Any) -> Any:
    """Sets the elements to uniform numbers in [from_, to); PyTorch's name ``from`` is a word of Python."""
    return _draw(x, "uniform", _lowest("uniform_", named, from_), to, generator=generator)


def _lowest(name: str, named: dict[str, Any], default: Any) -> Any:
    """The argument ``from`` of a call, which no signature can have."""
    lowest = named.pop("from", default)
    if named:
        raise TypeError(f"{name}() got an unexpected keyword argument {next(iter(named))!r}")
    return lowest


@_method
def bernoulli_(x: Any, p: Any = 0.5, *, generator: Generator | None = None) -> Any:
    """Sets the elements to 1 with probability ``p``, a number or a tensor that broadcasts, else to 0."""
    if _is_tensor(p):
        return in_place.copy(x, bernoulli(x, p, generator=generator))
    return _draw(x, "bernoulli", p, generator=generator, dtype="float32")


@_method
def random_(
    x: Any,
    low: int | None = None,
    high: int | None = None,
    *,
    to: int | None = None,
    generator: Generator | None = None,
    **named: Any,
) -> Any:
    """Sets the elements to whole numbers in [low, high): ``random_(low, high)``, ``random_(high)`` from 0, or
    ``random_()`` up to the largest number that the dtype holds exactly. ``from`` and ``to`` are PyTorch's names.
    """
    lowest = _lowest("random_", named, None)
    if lowest is not None or to is not None:
        low, high = (0 if lowest is None else lowest), high if to is None else to
    elif high is None and low is not None:
        low, high = 0, low
    bits = {"float32": 24, "float64": 53, "float16": 11, "bfloat16": 8, "bool": 1}.get(x.dtype)
    if low is not None and high is not None:
        if x.dtype == "bool" and not 0 <= low < high <= 2:
            raise ValueError(f"random_: expected limits of bool, 0 to 2, got {low} and {high}")
        return _draw(x, "randint", low, high, generator=generator, dtype="int64")
    last = 2**bits + 1 if bits else int(np.iinfo(x.dtype).max)
    if low is not None:
        return _draw(x, "randint", low, last, generator=generator, dtype="int64")
    return _draw_by(
        x, "random", generator=generator, by=lambda draw: draw("randint", 0, last, dtype="int64"), continuous=False
    )


@_method
def exponential_(x: Any, lambd: float = 1.0, *, generator: Generator | None = None) -> Any:
    """Sets the elements to numbers of the exponential distribution with rate ``lambd``, above 0."""
    if not lambd > 0:
        raise ArgumentError(f"exponential_: expected a rate above 0, got {lambd}")
    smallest = 2.0 ** -{"float64": 53, "float16": 11, "bfloat16": 8}.get(x.dtype, 24)

    def transformed(draw: Callable[..., Any]) -> Any:
        waits = _call("neg", _call("log1p", _call("neg", draw("uniform", 0.0, 1.0, dtype=x.dtype))))
        return _call("div", _call("clamp", waits, min=smallest), lambd)

    return _draw_by(x, "exponential", lambd, generator=generator, by=transformed)


@_method
def fill_diagonal_(x: Any, fill_value: Any, wrap: bool = False) -> Any:
    """Sets the elements of the main diagonal of a matrix to ``fill_value``."""
    if x.ndim != 2 or wrap:
        raise ShapeError(f"fill_diagonal_: expected a matrix and wrap=False, got shape {x.shape}, wrap={wrap}")
    rows, columns = x.shape
    mask = x.engine.tensor(np.eye(rows, columns, dtype=bool), "bool")
    return in_place.write(x, _call("masked_fill", x, mask, fill_value))


@_method
def requires_grad_(x: Any, requires_grad: bool = True) -> Any:
    """Sets ``requires_grad``; returns the tensor."""
    x.requires_grad = requires_grad
    return x


@_method
def apply_(x: Any, callable: Callable[[Any], Any]) -> Any:
    """Gives every element the value that a Python function has for it; on the host, and slow."""
    return in_place.copy(x, np.vectorize(callable, otypes=[float])(x.to_host()))


@_method
def map_(x: Any, tensor: Any, callable: Callable[[Any, Any], Any]) -> Any:
    """Gives every element the value that a Python function has for it and for that of ``tensor``; on the host, slow."""
    return in_place.copy(x, np.vectorize(callable, otypes=[float])(x.to_host(), tensor.to_host()))


@_method
def cauchy_(x: Any, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Any:
    """Sets the elements to numbers of the Cauchy distribution; ``sigma`` must be above 0."""
    if not sigma > 0:
        raise ArgumentError(f"cauchy_: expected sigma above 0, got {sigma}")

    def transformed(draw: Callable[..., Any]) -> Any:
        tangent = _call("tan", _call("mul", draw("uniform", -0.5, 0.5), math.pi))
        return _call("add", _call("mul", tangent, sigma), median)

    return _draw_by(x, "cauchy", median, sigma, generator=generator, by=transformed)


@_method
def log_normal_(x: Any, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Any:
    """Sets the elements to the exponentials of normal numbers; ``std`` must be above 0."""
    if not std > 0:
        raise ArgumentError(f"log_normal_: expected std above 0, got {std}")
    return _draw_by(
        x,
        "log_normal",
        mean,
        std,
        generator=generator,
        by=lambda draw: _call("exp", draw("normal", mean, std, dtype=x.dtype)),
    )


@_method
def geometric_(x: Any, p: float, *, generator: Generator | None = None) -> Any:
    """Sets the elements to the number of trials up to the first success, which has probability ``p`` in each."""
    if not 0 < p < 1:
        raise ArgumentError(f"geometric_: expected p between 0 and 1, got {p}")
    if x.dtype == "bool":
        raise DTypeError("geometric_: expected numbers, got bool")

    def transformed(draw: Callable[..., Any]) -> Any:
        trials = _call("ceil", _call("div", _call("log1p", _call("neg", draw("uniform", 0.0, 1.0))), math.log1p(-p)))
        return _call("clamp", trials, min=1)

    return _draw_by(x, "geometric", p, generator=generator, by=transformed, continuous=False)


@_method
def detach_(x: Any) -> Any:
    """Takes the tensor out of the gradient graph: it is a leaf that requires no grad. RuntimeError for a view."""
    return in_place.detach(x)


# -- methods of one expression -----------------------------------------------------------------------------------------

_EXPRESSIONS: dict[str, tuple[_Method, str]] = {
    "view_as": (lambda x, other: _viewed(x, other.shape), "``x.view(other.shape)``."),
    "reshape_as": (lambda x, other: _call("reshape", x, shape=other.shape), "``x.reshape(other.shape)``."),
    "expand_as": (lambda x, other: _call("expand", x, other.shape), "``x.expand(other.shape)``."),
    "adjoint": (lambda x: _swapped(x, -2, -1, "adjoint"), "The last two axes exchanged."),
    "fliplr": (lambda x: _call("flip", x, axis=1), "The elements in reverse order along the second axis."),
    "flipud": (lambda x: _call("flip", x, axis=0), "The elements in reverse order along the first axis."),
    "to_sparse_coo": (lambda x: to_sparse(x), "``to_sparse()``."),
    "type_as": (lambda x, other: x.to(other), "The values in the dtype of ``other``, on its device."),
    "clamp_min": (lambda x, min: clamp(x, min), "Each element, at least ``min``, a number or a tensor."),
    "clamp_max": (lambda x, max: clamp(x, None, max), "Each element, at most ``max``, a number or a tensor."),
    "frac": (lambda x: _call("sub", x, _call("trunc", x)), "x - trunc(x)."),
    "deg2rad": (lambda x: _call("mul", x, np.pi / 180), "Degrees as radians."),
    "rad2deg": (lambda x: _call("mul", x, 180 / np.pi), "Radians as degrees."),
    "vdot": (lambda x, other: dot(x, other), "The inner product of two vectors."),
    "isreal": (lambda x: _made(x, x.shape, 1, "bool", False), "True for every element: there are no complex dtypes."),
    "msort": (lambda x: _call("sort", x, 0)[0], "The elements sorted along the first axis."),
    "argwhere": (lambda x: _call("nonzero", x), "The indices of the elements that are not zero, one row for each."),
    "fill_": (lambda x, value: in_place.fill(x, value), "Sets every element to ``value``."),
    "zero_": (lambda x: in_place.fill(x, 0), "Sets every element to zero."),
}
for _name, (_function, _doc) in _EXPRESSIONS.items():
    _function.__name__ = _function.__qualname__ = _name
    _function.__doc__ = _doc
    _function.__annotations__ = dict.fromkeys([*inspect.signature(_function).parameters, "return"], "Any")
    _FUNCTIONS[_name] = _function


def _restructuring(name: str) -> None:
    function = _FUNCTIONS.get(name)

    def change(x: Any, *args: Any, **kwargs: Any) -> Any:
        return in_place.restructure(
            x,
            f"{name}_",
            lambda old: _call(name, old, *args, **kwargs) if function is None else function(old, *args, **kwargs),
        )

    change.__name__ = f"{name}_"
    change.__doc__ = f"``{name}`` in place: the tensor has the shape of the result, on the same storage; returns it."
    if function is not None:
        change.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    _FUNCTIONS[f"{name}_"] = change


# Methods with a form ``name_`` that changes the shape and the strides of the tensor, and writes nothing.
RESTRUCTURING = ("as_strided", "squeeze", "unsqueeze", "transpose", "t", "swapaxes", "swapdims")
for _name in RESTRUCTURING:
    _restructuring(_name)


# -- old forms ---------------------------------------------------------------------------------------------------------

# Methods with PyTorch's deprecated forms, which have numbers in front of the operands: the names of these numbers.
_NUMBERS_FIRST = {
    **dict.fromkeys(("add", "sub"), ("alpha",)),
    **dict.fromkeys(("addcdiv", "addcmul"), ("value",)),
    **dict.fromkeys(("addbmm", "addmm", "addmv", "addr", "baddbmm"), ("beta", "alpha")),
}


def _with_old_forms(name: str, function: _Method) -> _Method:
    """Returns ``function``, which also takes the deprecated forms of ``name`` if it has some: x.add(2, y)."""
    names = _NUMBERS_FIRST.get(name)
    if names is None:
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            numbers = [value for value in args if isinstance(value, (int, float)) and not isinstance(value, bool)]
            tensors = [value for value in args if _is_tensor(value)]
            operands = 1 if name in ("add", "sub") else 2
            fits = 0 < len(numbers) <= len(names) and len(tensors) == 1 + operands == len(args) - len(numbers)
            starts = _is_tensor(args[0]) or names[0] == "beta"
            if not (fits and starts and all(map(_is_tensor, args[-operands:]))):
                shorten_traceback(error)
                raise
        by_name = dict(zip(names, numbers))
        written = ", ".join(f"{key}={value}" for key, value in by_name.items())
        warnings.warn(
            f"{name}: numbers in front of operands are deprecated; write {written} after them",
            stacklevel=level_outside(),
        )
        return function(*tensors, **kwargs, **by_name)

    return call


# -- the class ---------------------------------------------------------------------------------------------------------


def _as_function(method: _Method) -> _Method:
    """Returns a method as a function of the front: its first parameter is PyTorch's ``input``."""

    signature = inspect.signature(method)
    has_out = "out" in signature.parameters

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if "out" in kwargs and not has_out:
                return dispatch.into(method.__name__, call, args, kwargs)
            return method(kwargs.pop("input"), **kwargs) if not args and "input" in kwargs else method(*args, **kwargs)
        except Exception as error:
            name_argument(error, method.__name__, call.__signature__, args, kwargs)  # type: ignore[attr-defined]
            raise

    first, *more = signature.parameters.values()
    call.__signature__ = signature.replace(parameters=[first.replace(name="input"), *more])  # type: ignore[attr-defined]
    return call


class _Functions(Mapping[str, _Method]):
    """Maps names to the functions of methods. A function is made when it is first read: all signatures take 6 ms."""

    def __init__(self) -> None:
        self._methods: dict[str, _Method] = {}
        self._made: dict[str, _Method] = {}

    def add(self, name: str, method: _Method) -> None:
        """Adds the function ``name`` of a method."""
        self._methods[name] = method

    def sign(self, name: str, signature: inspect.Signature) -> None:
        """Gives the function ``name`` the signature of a method."""
        self._methods[name].__signature__ = signature  # type: ignore[attr-defined]
        self._made.pop(name, None)

    def __getitem__(self, name: str) -> _Method:
        if name not in self._made:
            self._made[name] = _with_old_forms(name, _as_function(self._methods[name]))
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._methods)

    def __len__(self) -> int:
        return len(self._methods)


# Functions of a tensor, under PyTorch's names, that are no rows of the op table: ``netcl.movedim(x, 0, 1)``.
_FRONT = """
as_strided as_strided_scatter lu lu_solve
addbmm addmv addr adjoint aminmax angle argwhere cholesky_inverse cholesky_solve clamp_max clamp_min conj conj_physical
cross deg2rad diag_embed diagflat diagonal_scatter dist divide dsplit fliplr flipud float_power fmax fmin fmod frac
frexp gcd get_device hsplit index_fill inner is_complex is_conj is_distributed is_floating_point is_inference is_neg
is_nonzero is_same_size is_signed isneginf isposinf isreal lcm ldexp logaddexp2 masked_scatter moveaxis
movedim msort nanmean nanmedian nanquantile nansum narrow_copy nonzero_static norm numel positive prelu put qr rad2deg
ravel repeat_interleave resolve_conj resolve_neg select select_scatter slice_scatter split_with_sizes subtract svd
swapaxes swapdims t take_along_dim tensor_split triangular_solve true_divide unflatten unsafe_chunk unsafe_split
unique unsafe_split_with_sizes vdot vsplit
"""
FUNCTIONS = _Functions()
for _name in _FRONT.split():
    FUNCTIONS.add(_name, _FUNCTIONS[_name])

# Functions that write into their first operand, of functions here that do.
_FRONT_IN_PLACE = """
addmv as_strided clamp clamp_max clamp_min clip conj_physical deg2rad detach fill frac gcd lcm ldexp rad2deg resize_as
round zero
"""

# Rows with a parameter of PyTorch's function that only the method has.
_EXTENDED = {
    "add": "alpha", "sub": "alpha", "div": "rounding_mode", "round": "decimals", "sum": "dtype", "mean": "dtype",
    "prod": "dtype", "softmax": "dtype", "log_softmax": "dtype",
}  # fmt: skip

# Rows that take more shapes than the method, which is PyTorch's.
_NARROWER = ("dot",)

# Rows that take numbers: the method takes tensors too, and refuses a call without either.
_OF_NUMBERS = ("clamp", "clip")


def extended(name: str, function: _Method) -> _Method:
    """The function of a row, which calls the method of the same name if arguments are given that only that takes."""
    more = _EXTENDED.get(name)
    if more is None and name not in (*_OF_NUMBERS, *_NARROWER, "pow"):
        return _with_old_forms(name, function)
    method = _as_function(_FUNCTIONS[name])

    def call_of_method(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    def call_of_power(*args: Any, **kwargs: Any) -> Any:
        if len(args) > 1 or "exponent" in kwargs:
            check_power(args[0] if args else kwargs.get("input"), args[1] if len(args) > 1 else kwargs["exponent"])
        return function(*args, **kwargs)

    def call_with_more(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs) if more in kwargs else function(*args, **kwargs)

    def call_with_limits(*args: Any, **kwargs: Any) -> Any:
        limits = [value for value in (*args[1:], kwargs.get("min"), kwargs.get("max")) if value is not None]
        if limits and not any(map(_is_tensor, limits)):
            return function(*args, **kwargs)
        return method(*args, **kwargs)

    of_name = {"pow": call_of_power, **dict.fromkeys(_NARROWER, call_of_method)}
    call = of_name.get(name) or (call_with_limits if more is None else call_with_more)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{function.__doc__}\n\n``{more}``: as that of the method." if more else method.__doc__
    call.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    call.row = function.row  # type: ignore[attr-defined]
    return _with_old_forms(name, call)


def _of_row(method: str, row: str) -> _Method:
    """The method that calls a row, recorded."""

    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        return dispatch.call(row, x, *args, record=True, **kwargs)

    def call_with_flag(x: Any, *args: Any, **kwargs: Any) -> Any:
        # PyTorch's x.std(False): the flag ``unbiased`` in place of the axes, which are all.
        if args and isinstance(args[0], builtins.bool):
            args, kwargs = (None, *args[1:]), {**kwargs, "unbiased": args[0]}
        return dispatch.call(row, x, *args, record=True, **kwargs)

    called = call_with_flag if row in ("std", "var") else call
    called.__doc__ = f"``netcl.{row}`` of this tensor."
    called.__name__ = method
    return called


def describe() -> None:
    """Gives methods the signatures and docstrings of their rows; ``netcl.ops`` calls it when it is loaded.

    Adds the methods of rows that ``method_names`` does not list yet.
    """
    for row in TABLE.values():
        known = (name for name in row.names("x") if ROWS.get(name) != row.name)
        _add_forms(dict.fromkeys(known, row.name), row.names("x", written=True), row.names("nc", written=True))
    for name, method in _FUNCTIONS.items():
        signature = with_first(as_written(cast(FunctionType, method)), "self")
        method.__signature__ = getattr(Methods, name).__signature__ = signature  # type: ignore[attr-defined]
    for name, row_name in ROWS.items():
        method, row = getattr(Methods, name), TABLE[row_name]
        method.__signature__, method.__doc__ = with_first(_of_row_named(row_name), "self"), row.doc
    for name in IN_PLACE:
        getattr(Methods, f"{name}_").__signature__ = getattr(Methods, name).__signature__
    for name in FRONT_IN_PLACE:
        method = getattr(Methods, f"{name}_", None)
        FUNCTIONS.sign(f"{name}_", method.__signature__ if method else Later(_of_row_named(name)))


def _of_row_named(name: str) -> Callable[[], inspect.Signature]:
    return lambda: TABLE[name].signature


def _writing(name: str, method: _Method) -> _Method:
    """The form of a method that writes the result into the tensor."""

    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        return in_place.write(x, method(x, *args, **kwargs))

    call.__doc__ = f"``{name}`` in place: gives this tensor the values of the result, and returns it."
    call.__name__ = f"{name}_"
    return call


# Properties that are False for every tensor: kinds of devices and of tensors that there are not.
NEVER = (
    *("is_ipu", "is_maia", "is_mkldnn", "is_mps", "is_mtia", "is_nested", "is_quantized", "is_sparse_csr"),
    *("is_vulkan", "is_xla", "is_xpu"),
)


class Methods(Operators[ResultT], Generic[ResultT]):
    """The methods of a tensor; the methods of the table are added below. A base of Tensor."""

    __slots__ = ()

    @property
    def T(self) -> ResultT:
        """The tensor with its axes reversed."""
        return cast(ResultT, _call("transpose", self))

    @property
    def mT(self) -> ResultT:
        """The tensor with its last two axes exchanged, of a 0-d tensor itself; ShapeError of a vector."""
        if self.ndim == 0:
            return cast(ResultT, self)
        if self.ndim < 2:
            raise ShapeError(f"mT: expected a matrix or a stack of them, got shape {self.shape}")
        return cast(ResultT, _swapped(self, -2, -1, "mT"))

    @property
    def H(self) -> ResultT:
        """The transpose of a matrix, which for real numbers is its conjugate transpose."""
        return cast(ResultT, t(self))

    mH = mT

    @property
    def real(self) -> ResultT:
        """The tensor itself: there are no complex dtypes."""
        return cast(ResultT, self)

    @property
    def is_cuda(self) -> bool:
        """False, as the device is reached through OpenCL, or is NumPy; with ``use_pytorch_names`` True on a GPU."""
        return bool(self.engine.handle.type == "cuda")

    @property
    def is_meta(self) -> bool:
        """True if the tensor has a shape and a dtype only, and no data: on the device "meta"."""
        return bool(self.engine.name == "meta")

    @property
    def is_cpu(self) -> bool:
        """True on a CPU, through OpenCL or NumPy."""
        return bool(self.engine.handle.device_type == "cpu")

    @property
    def is_sparse(self) -> bool:
        """False: tensors are dense; ``to_sparse`` gives a SparseTensor."""
        return False

    @property
    def layout(self) -> memory_format.layout:
        """``nc.strided``: the layout of tensors other than SparseTensor."""
        return memory_format.strided

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return dtypes.itemsize(self.dtype)

    @property
    def is_leaf(self) -> bool:
        """True if the tensor is no result of a recorded op."""
        return self._grad_fn is None or cast(Any, self).grad_fn is None


def _add_forms(rows: dict[str, str], in_place: Iterable[str], front: Iterable[str]) -> None:
    """Adds methods (name -> row), the forms ``name_`` of methods, and functions of that form, unless they exist."""
    for name, row in rows.items():
        ROWS[name] = row
        setattr(Methods, name, _with_old_forms(name, _of_row(name, row)))
    for name in (name for name in in_place if name not in IN_PLACE):
        IN_PLACE.append(name)
        setattr(Methods, f"{name}_", _writing(name, getattr(Methods, name)))
    for name in (name for name in front if name not in FRONT_IN_PLACE):
        FRONT_IN_PLACE.append(name)
        FUNCTIONS.add(f"{name}_", getattr(Methods, f"{name}_", None) or _writing(name, _of_row(name, name)))


# Methods -> their rows, and names with a form ``name_``: as a method, and as a function.
ROWS: dict[str, str] = {}
IN_PLACE: list[str] = []
FRONT_IN_PLACE: list[str] = []
for _name, _function in _FUNCTIONS.items():
    setattr(Methods, _name, from_here(_with_old_forms(_name, _function)))
for _name in NEVER:
    setattr(Methods, _name, property(_FUNCTIONS["is_conj"], doc="False: there are no such tensors here."))
for _name, _same in {"ndimension": "dim", "nelement": "numel"}.items():
    setattr(Methods, _name, _FUNCTIONS[_same])
_add_forms({}, _IN_PLACE.split(), _FRONT_IN_PLACE.split())
_listed = (entry.partition("=") for entry in method_names.ROWS.split())
_add_forms({name: row or name for name, _, row in _listed}, method_names.IN_PLACE.split(), method_names.FRONT.split())

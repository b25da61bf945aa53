"""SparseTensor: matrices and arrays that store the elements other than zero, in COO or CSR.

The elements are a tensor, and every op is a few ops on it, so that gradients flow to the elements and to dense
operands. Positions are on the host (``sparse_pattern``). An op that would need zeros too raises UnsupportedError.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from netcl.core import dtypes
from netcl.core.device.discovery import DeviceHandle
from netcl.core.engine.registry import engine_for
from netcl.core.errors import ShapeError, UnsupportedError, from_here
from netcl.core.layout import broadcast_shapes, normalize_axes
from netcl.core.ops_table import dispatch
from netcl.core.ops_table.table import OpRow, by_own_names
from netcl.core.process.grad_mode import state
from netcl.core.storage.host import check_shape, to_storage
from netcl.core.storage.size import Count, Size
from netcl.core.tensor.memory_format import layout as Layout
from netcl.core.tensor.memory_format import sparse_coo, sparse_csr
from netcl.core.tensor.sparse_pattern import Array, Pattern
from netcl.core.tensor.tensor import Tensor, queue_of

# Functions that are 0 at 0: only stored elements are computed.
_AT_ZERO = """
abs asin asinh atan atanh ceil erf erfinv expm1 floor log1p neg relu round sign sin sinh sqrt square tan tanh trunc
"""
# Operators without a sparse form.
_REFUSED = "lt le gt ge eq ne mod floordiv and or xor getitem rtruediv rpow bool iter array"


def _call(name: str, *args: Any, **kwargs: Any) -> Any:
    return dispatch.call(name, *args, record=True, **kwargs)


def _refuse(op: str, why: str = "is not defined for sparse tensors") -> NoReturn:
    raise UnsupportedError(f"{op} {why}; write x.to_dense()", op=op)


def _without_form(name: str) -> Callable[..., Any]:
    def refuse(x: Any, *others: Any) -> Any:
        if others and (others[0] is None or isinstance(others[0], str)) and name in ("eq", "ne"):
            return NotImplemented
        _refuse(name)

    refuse.__name__ = f"__{name}__"
    return refuse


class SparseTensor:
    """A tensor of ``shape`` that stores only some elements; the others are zero.

    ``layout`` is ``nc.sparse_coo``, with positions of any number of leading axes and elements that are tensors of the
    other axes, or ``nc.sparse_csr``, a matrix by rows. Made by ``sparse_coo_tensor``, ``sparse_csr_tensor`` and
    ``Tensor.to_sparse``. It is no ``Tensor``: ops without a sparse form raise UnsupportedError, which says to write
    ``x.to_dense()``.
    """

    __array_priority__: float = 2000.0  # tensors and arrays leave mixed operators to this class
    __array_ufunc__: None = None

    def __init__(self, pattern: Pattern, elements: Tensor, kind: Layout, owned: bool = False) -> None:
        self._pattern: Pattern = pattern
        self._elements: Tensor = elements
        self._layout: Layout = kind
        self._owned: bool = owned  # the elements are a leaf of this tensor alone

    def _like(self, elements: Tensor) -> SparseTensor:
        """Other elements at the same positions."""
        return SparseTensor(self._pattern, elements, self._layout)

    # -- facts ---------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[builtins.int, ...]:
        """The lengths of all axes."""
        return Size((*self._pattern.sizes, *self._elements.shape[1:]))

    @property
    def ndim(self) -> builtins.int:
        """The number of axes."""
        return len(self.shape)

    @property
    def dtype(self) -> str:
        """The dtype of the elements."""
        return self._elements.dtype

    @property
    def device(self) -> DeviceHandle:
        """The device of the elements."""
        return self._elements.device

    @property
    def queue(self) -> Any:
        """The queue of that device."""
        return self._elements.queue

    @property
    def layout(self) -> Layout:
        """``nc.sparse_coo`` or ``nc.sparse_csr``."""
        return self._layout

    @property
    def is_sparse(self) -> bool:
        """True for COO, as in PyTorch."""
        return self._layout is sparse_coo

    @property
    def is_sparse_csr(self) -> bool:
        """True for CSR."""
        return self._layout is sparse_csr

    @property
    def is_cuda(self) -> bool:
        """False: the device is reached through OpenCL, or is NumPy."""
        return False

    @property
    def size(self) -> Count:
        """The number of elements, with zeros; called, the shape, or the length of an axis."""
        return Count.of(self.shape)

    def dim(self) -> builtins.int:
        """The number of axes."""
        return len(self.shape)

    def numel(self) -> builtins.int:
        """The number of elements, with zeros."""
        return math.prod(self.shape)

    def __len__(self) -> builtins.int:
        return self.shape[0]

    def sparse_dim(self) -> builtins.int:
        """The number of axes with positions."""
        return len(self._pattern.sizes)

    def dense_dim(self) -> builtins.int:
        """The number of axes of each element."""
        return self._elements.ndim - 1

    def _nnz(self) -> builtins.int:
        return self._pattern.count

    def is_floating_point(self) -> bool:
        """True for floating dtypes."""
        return dtypes.is_floating(self.dtype)

    def __repr__(self) -> str:
        shown = f"size={tuple(self.shape)}, nnz={self._nnz()}, dtype={self.dtype}, layout={self._layout!r}"
        names = ("indices", "values") if self.is_sparse else ("crow_indices", "col_indices", "values")
        parts = [self._pattern.indices] if self.is_sparse else [self._pattern.starts, self._pattern.indices[1]]
        texts = [np.array2string(part, separator=", ") for part in (*parts, self._elements.to_host())]
        given = ", ".join(f"{name}={text}" for name, text in zip(names, texts))
        return f"SparseTensor({given}, {shown})"

    # -- positions and elements ----------------------------------------------------------------------------------

    def _of_layout(self, op: str, kind: Layout) -> None:
        if self._layout is not kind:
            form = "x.to_sparse_coo()" if kind is sparse_coo else "x.to_sparse_csr()"
            raise UnsupportedError(f"{op}: the layout is {self._layout!r}; write {form}.{op}()")

    def _coalesced(self, op: str) -> None:
        self._of_layout(op, sparse_coo)
        if not self._pattern.coalesced:
            raise UnsupportedError(f"{op}: positions may occur twice; write x.coalesce().{op}()")

    def _positions(self, values: Array) -> Tensor:
        made: Tensor = engine_for(self.queue).tensor(values, "int64")
        return made

    def is_coalesced(self) -> bool:
        """True if the positions of this COO tensor are sorted and distinct."""
        self._of_layout("is_coalesced", sparse_coo)
        return self._pattern.coalesced

    def coalesce(self) -> SparseTensor:
        """This COO tensor with sorted and distinct positions: elements at the same one are added in their order."""
        self._of_layout("coalesce", sparse_coo)
        return self._merged()

    def _merged(self) -> SparseTensor:
        if self._pattern.coalesced:
            return self
        pattern, inverse = self._pattern.merged
        return SparseTensor(pattern, _summed(self._elements, inverse, pattern.count), self._layout)

    def indices(self) -> Tensor:
        """The positions (sparse_dim, nnz), int64, of a coalesced COO tensor."""
        self._coalesced("indices")
        return self._positions(self._pattern.indices)

    def values(self) -> Tensor:
        """The elements (nnz, ...) of a CSR or a coalesced COO tensor."""
        if self.is_sparse:
            self._coalesced("values")
        return self._elements

    def _indices(self) -> Tensor:
        self._of_layout("_indices", sparse_coo)
        return self._positions(self._pattern.indices)

    def _values(self) -> Tensor:
        self._of_layout("_values", sparse_coo)
        return self._elements

    def crow_indices(self) -> Tensor:
        """The number of elements before each row of a CSR matrix, and that of all, int64."""
        self._of_layout("crow_indices", sparse_csr)
        return self._positions(self._pattern.starts)

    def col_indices(self) -> Tensor:
        """The columns (nnz,) of the elements of a CSR matrix, int64."""
        self._of_layout("col_indices", sparse_csr)
        return self._positions(self._pattern.indices[1])

    # -- other layouts, dtypes and devices -----------------------------------------------------------------------

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
        """The dense tensor, in ``dtype`` if given; elements at the same position are added. The gradient of an element
        is that at its position, for any ``masked_grad``.
        """
        elements = self._elements if dtype is None else self._elements.astype(dtype)
        pattern, count = self._pattern, math.prod(self._pattern.sizes)
        flat = _summed(elements, pattern.linear, count)
        return _call("reshape", flat, shape=self.shape)  # type: ignore[no-any-return]

    def to_sparse(self, sparse_dim: builtins.int | None = None, *, layout: Any = None) -> SparseTensor:
        """This tensor in COO, or in ``layout``; ``sparse_dim`` is the one it has."""
        if sparse_dim not in (None, self.sparse_dim()):
            raise ShapeError(f"to_sparse: sparse_dim is {self.sparse_dim()} here; write x.to_dense().to_sparse(...)")
        return self.to_sparse_csr() if layout is sparse_csr else self.to_sparse_coo()

    def to_sparse_coo(self) -> SparseTensor:
        """This tensor in COO."""
        return self if self.is_sparse else SparseTensor(self._pattern, self._elements, sparse_coo)

    def to_sparse_csr(self, dense_dim: builtins.int | None = None) -> SparseTensor:
        """This matrix in CSR; raises ShapeError for other tensors."""
        if self.is_sparse_csr:
            return self
        if self.sparse_dim() != 2 or self.dense_dim():
            raise ShapeError(
                f"to_sparse_csr: expected a matrix of numbers, got {self.shape} with {self.dense_dim()} dense axes"
            )
        merged = self._merged()
        return SparseTensor(merged._pattern, merged._elements, sparse_csr)

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        """This tensor on a device and in a dtype, as ``Tensor.to``; itself if nothing changes."""
        arguments = tuple(value._elements if isinstance(value, SparseTensor) else value for value in args)
        moved = self._elements.to(*arguments, **kwargs)
        return self if moved is self._elements else self._like(moved)

    def astype(self, dtype: Any) -> SparseTensor:
        """The elements converted to ``dtype``."""
        return self.to(dtype=dtype)

    type = astype

    def cpu(self) -> SparseTensor:
        """This tensor on the NumPy backend."""
        return self.to("cpu")

    def float(self) -> SparseTensor:
        """The elements as float32."""
        return self.to(dtype="float32")

    def double(self) -> SparseTensor:
        """The elements as float64."""
        return self.to(dtype="float64")

    def half(self) -> SparseTensor:
        """The elements as float16."""
        return self.to(dtype="float16")

    def bfloat16(self) -> SparseTensor:
        """The elements as bfloat16."""
        return self.to(dtype="bfloat16")

    def long(self) -> SparseTensor:
        """The elements as int64."""
        return self.to(dtype="int64")

    def int(self) -> SparseTensor:
        """The elements as int32."""
        return self.to(dtype="int32")

    def clone(self) -> SparseTensor:
        """A copy of the elements at the same positions, part of the gradient graph."""
        return self._like(self._elements.clone())

    def detach(self) -> SparseTensor:
        """The same elements outside of the gradient graph."""
        return self._like(self._elements.detach())

    # -- gradients -----------------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """True if the gradient of the elements is wanted."""
        return self._elements.requires_grad

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        if not self.is_leaf:
            raise UnsupportedError("requires_grad: this tensor was computed from others; write x.detach()")
        if flag != self.requires_grad:
            self._elements = self._elements.detach()  # elements that others may hold keep their flag
            self._elements.requires_grad = self._owned = bool(flag)

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        """Sets ``requires_grad`` and returns this tensor."""
        self.requires_grad = requires_grad
        return self

    @property
    def is_leaf(self) -> bool:
        """True if the elements are no result of recorded ops and belong to this tensor."""
        return self._owned or not self._elements.requires_grad

    @property
    def grad(self) -> SparseTensor | None:
        """The gradient of a leaf's elements, at the same positions; None for none."""
        grad = self._elements.grad if self._owned else None
        return None if grad is None else self._like(grad)

    @grad.setter
    def grad(self, grad: SparseTensor | None) -> None:
        if grad is not None and (grad._pattern is not self._pattern or not self._owned):
            raise UnsupportedError("grad: only the gradient of a leaf can be set, and to one at its positions, or None")
        self._elements.grad = None if grad is None else grad._elements

    @property
    def grad_fn(self) -> Any:
        """The function that carries the gradient of the elements further; None for a leaf."""
        return self._elements.grad_fn

    # -- operators -----------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> SparseTensor:
        result: SparseTensor = _add(self, other)
        return result

    def __radd__(self, other: Any) -> Any:
        return _add(other, self)

    def __sub__(self, other: Any) -> SparseTensor:
        result: SparseTensor = _sub(self, other)
        return result

    def __rsub__(self, other: Any) -> Any:
        return _sub(other, self)

    def __mul__(self, other: Any) -> SparseTensor:
        return _mul(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> SparseTensor:
        return _div(self, other)

    def __neg__(self) -> SparseTensor:
        return self._like(_call("neg", self._elements))

    def __abs__(self) -> SparseTensor:
        return _at_zero("abs", self)

    def __pow__(self, other: Any) -> SparseTensor:
        return _pow(self, other)

    def __matmul__(self, other: Any) -> Any:
        return matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return matmul(other, self)

    def __hash__(self) -> Any:
        return id(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(Tensor, name):
            raise AttributeError(f"'SparseTensor' object has no attribute {name!r}")
        raise AttributeError(f"sparse tensors have no {name!r}; write x.to_dense().{name}")

    # -- methods -------------------------------------------------------------------------------------------------

    def add(self, other: Any, *, alpha: Any = 1) -> SparseTensor:
        """``x + alpha * other``, both sparse."""
        result: SparseTensor = _add(self, other if alpha == 1 else _mul(other, alpha))
        return result

    def sub(self, other: Any, *, alpha: Any = 1) -> SparseTensor:
        """``x - alpha * other``, both sparse."""
        result: SparseTensor = _sub(self, other if alpha == 1 else _mul(other, alpha))
        return result

    def mul(self, other: Any) -> SparseTensor:
        """``x * other``: a number, a tensor that broadcasts to this shape, or a sparse tensor."""
        return _mul(self, other)

    def div(self, other: Any) -> SparseTensor:
        """``x / other`` for a number or a tensor of one element."""
        return _div(self, other)

    def pow(self, exponent: Any) -> SparseTensor:
        """Each element to the power of a number above 0."""
        return _pow(self, exponent)

    def mm(self, mat2: Any) -> Any:
        """``x @ mat2``."""
        return matmul(self, mat2)

    def matmul(self, other: Any) -> Any:
        """``x @ other``: a dense matrix or vector, which gives a dense result, or a sparse matrix."""
        return matmul(self, other)

    def mv(self, vec: Tensor) -> Tensor:
        """``x @ vec``."""
        return matmul(self, vec)  # type: ignore[no-any-return]

    def sum(self, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        """The sum of all elements, a dense scalar, or over the axes ``dim``, sparse in the axes that remain."""
        return sum_over(self, dim, keepdim, dtype)

    def permute(self, *dims: Any) -> SparseTensor:
        """The axes in the order ``dims``: axes with positions stay among themselves."""
        return _permute(self, dims[0] if len(dims) == 1 and not isinstance(dims[0], builtins.int) else dims)

    def transpose(self, dim0: Any, dim1: Any) -> SparseTensor:
        """Two axes exchanged."""
        order = list(range(self.ndim))
        a, b = (normalize_axes(d, self.ndim, "transpose")[0] for d in (dim0, dim1))
        order[a], order[b] = order[b], order[a]
        return _permute(self, order)

    def t(self) -> SparseTensor:
        """The transpose of a matrix."""
        if self.ndim != 2:
            raise ShapeError(f"t: shape {self.shape} is no matrix; write x.transpose(dim0, dim1)")
        return _permute(self, (1, 0))

    @property
    def T(self) -> SparseTensor:
        """The tensor with its axes reversed."""
        return _permute(self, range(self.ndim)[::-1])

    @property
    def mT(self) -> SparseTensor:
        """The tensor with its last two axes exchanged."""
        return self.transpose(-2, -1)

    @classmethod
    def __netcl_op__(cls, row: OpRow, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Returns the result of an op of the table with a sparse operand; UnsupportedError if it has no sparse form."""
        if row.name in _AT_ZERO.split():
            return _at_zero(row.name, *args, **kwargs)
        function = _FORMS.get(row.name)
        if function is None:
            _refuse(row.name)
        return function(*args, **by_own_names(row, dict(kwargs)))

    if not TYPE_CHECKING:
        for _name in _REFUSED.split():
            vars()[f"__{_name}__"] = _without_form(_name)
        del _name


# -- sums at positions -------------------------------------------------------------------------------------------------


def _summed(elements: Tensor, places: Array, count: int) -> Tensor:
    """(count, ...) with the elements added at ``places`` in their order, zeros elsewhere."""
    engine = engine_for(elements.queue)
    zeros = engine.zeros((count, *elements.shape[1:]), elements.dtype)
    if not len(places) or not zeros.size:
        return zeros  # type: ignore[no-any-return]
    return _call("index_add", zeros, 0, engine.tensor(places, "int64"), elements)  # type: ignore[no-any-return]


def _taken(elements: Tensor, places: Array) -> Tensor:
    at = engine_for(elements.queue).tensor(places, "int64")
    return _call("index_select", elements, 0, at)  # type: ignore[no-any-return]


def _number(value: Any) -> bool:
    """True for a number, and for a dense tensor of one element and no axes."""
    if isinstance(value, (builtins.bool, builtins.int, builtins.float, np.generic)):
        return True
    return isinstance(value, Tensor) and value.ndim == 0


# -- elements ----------------------------------------------------------------------------------------------------------


def _at_zero(name: str, x: SparseTensor) -> SparseTensor:
    """A function that is 0 at 0, of the sum of elements at the same position."""
    merged = x._merged()
    return merged._like(_call(name, merged._elements))


def _both(op: str, a: Any, b: Any) -> None:
    if a.shape != b.shape or a.layout is not b.layout or a.sparse_dim() != b.sparse_dim():
        raise ShapeError(
            f"{op}: {a.layout!r} {tuple(a.shape)} and {b.layout!r} {tuple(b.shape)}; both have one shape and layout"
        )


def _add(a: Any, b: Any) -> Any:
    """a + b: two sparse tensors, or a dense one and a sparse one, which gives a dense result."""
    if isinstance(b, SparseTensor) and isinstance(a, Tensor):
        return _added_to_dense(a, b)
    if not isinstance(a, SparseTensor) or not isinstance(b, SparseTensor):
        _refuse("add", "of a sparse tensor and what is not sparse has no zeros left")
    _both("add", a, b)
    pattern = Pattern(a._pattern.sizes, np.concatenate([a._pattern.indices, b._pattern.indices], 1), False)
    both = SparseTensor(pattern, _call("cat", [a._elements, b._elements], 0), a.layout)
    return both._merged() if a._pattern.coalesced and b._pattern.coalesced else both


def _added_to_dense(dense: Tensor, b: SparseTensor) -> Tensor:
    shape = broadcast_shapes((dense.shape, b.shape), "add")
    if shape != dense.shape or shape != tuple(b.shape):
        return _call("add", dense, b.to_dense())  # type: ignore[no-any-return]
    dtype = dtypes.promote(dense.dtype, b.dtype)
    rows = _call("reshape", dense.astype(dtype), shape=(math.prod(b._pattern.sizes), *b._elements.shape[1:]))
    places = engine_for(b.queue).tensor(b._pattern.linear, "int64")
    total = _call("index_add", rows, 0, places, b._elements.astype(dtype)) if b._nnz() else rows
    return _call("reshape", total, shape=shape)  # type: ignore[no-any-return]


def _sub(a: Any, b: Any) -> Any:
    return _add(a, -b)


def _mul(a: Any, b: Any) -> SparseTensor:
    """a * b, with elements where both have some: a sparse tensor and a number, a dense or a sparse tensor."""
    x, other = (a, b) if isinstance(a, SparseTensor) else (b, a)
    if _number(other):
        return x._like(_call("mul", x._elements, other))
    if isinstance(other, SparseTensor):
        return _intersection(x, other)
    if not isinstance(other, Tensor):
        _refuse("mul", f"takes numbers and tensors, not {builtins.type(other).__name__}")
    whole = _call("expand", other, tuple(broadcast_shapes((other.shape, x.shape), "mul")))
    if whole.shape != x.shape:
        _refuse("mul", f"of a sparse tensor {tuple(x.shape)} and {other.shape} has a larger shape")
    merged = x._merged()
    flat = _call("reshape", whole, shape=(math.prod(x._pattern.sizes), *x._elements.shape[1:]))
    return merged._like(_call("mul", merged._elements, _taken(flat, merged._pattern.linear)))


def _intersection(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    _both("mul", a, b)
    a, b = a._merged(), b._merged()
    _, left, right = np.intersect1d(a._pattern.linear, b._pattern.linear, assume_unique=True, return_indices=True)
    pattern = Pattern(a._pattern.sizes, a._pattern.indices[:, left], True)
    return SparseTensor(pattern, _call("mul", _taken(a._elements, left), _taken(b._elements, right)), a.layout)


def _div(a: Any, b: Any) -> SparseTensor:
    if not isinstance(a, SparseTensor) or not _number(b):
        _refuse("div", "of sparse tensors is by a number")
    return a._like(_call("div", a._elements, b))


def _pow(a: Any, b: Any) -> SparseTensor:
    if not isinstance(a, SparseTensor) or not isinstance(b, (builtins.int, builtins.float)) or not b > 0:
        _refuse("pow", "of sparse tensors is to a number above 0")
    merged = a._merged()
    return merged._like(_call("pow", merged._elements, b))


# -- axes --------------------------------------------------------------------------------------------------------------


def _permute(x: SparseTensor, axes: Iterable[Any]) -> SparseTensor:
    order = tuple(normalize_axes(axis, x.ndim, "permute")[0] for axis in axes)
    sparse = x.sparse_dim()
    if sorted(order) != list(range(x.ndim)) or any((axis < sparse) != (at < sparse) for at, axis in enumerate(order)):
        raise ShapeError(
            f"permute: {order} of shape {tuple(x.shape)}, where {sparse} axes have positions; these and the others "
            "stay among themselves"
        )
    elements = x._elements
    if order[sparse:] != tuple(range(sparse, x.ndim)):
        elements = _call("permute", elements, axes=(0, *(axis - sparse + 1 for axis in order[sparse:])))
    turned = SparseTensor(x._pattern.permuted(order[:sparse]), elements, sparse_coo)
    return turned.to_sparse_csr() if x.is_sparse_csr else turned


def _transpose(x: SparseTensor, axes: Any = ()) -> SparseTensor:
    order = axes or range(x.ndim)[::-1]
    return x.transpose(*order) if len(order) == 2 and x.ndim != 2 else _permute(x, order)


def sum_over(x: SparseTensor, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    """The sum of all elements, a dense scalar, or over some axes: sparse, or dense if no axis with positions remains.

    With ``keepdims`` the axes remain, with a length of 1.
    """
    elements = x._elements if dtype is None else x._elements.astype(dtype)
    if axis is None:
        total = _call("sum", elements)
        return _call("reshape", total, shape=(1,) * x.ndim) if keepdims else total
    gone, sparse = normalize_axes(axis, x.ndim, "sum"), x.sparse_dim()
    inner = tuple(a - sparse + 1 for a in gone if a >= sparse)
    if inner:
        elements = _call("sum", elements, axis=inner, keepdims=keepdims)
    kept = [a for a in range(sparse) if a not in gone]
    if not kept:
        total = _call("sum", elements, axis=0)
        return _call("reshape", total, shape=((1,) * sparse + elements.shape[1:])) if keepdims else total
    if keepdims:
        indices = np.where(np.isin(np.arange(sparse), gone)[:, None], 0, x._pattern.indices)
        sizes = tuple(1 if a in gone else size for a, size in enumerate(x._pattern.sizes))
    else:
        indices, sizes = x._pattern.indices[kept], tuple(x._pattern.sizes[a] for a in kept)
    coalesced = x._pattern.coalesced and len(kept) == sparse
    return SparseTensor(Pattern(sizes, indices, coalesced), elements, sparse_coo)._merged()


def softmax(x: SparseTensor, axis: Any = -1, dtype: Any = None, *, logarithm: bool = False) -> SparseTensor:
    """softmax over the stored elements along an axis with positions; the others count as -inf, and stay zero."""
    x = x._merged() if dtype is None else x._merged().astype(dtype)
    (at,) = normalize_axes(axis, x.ndim, "softmax")
    if at >= x.sparse_dim():
        return x._like(_call("log_softmax" if logarithm else "softmax", x._elements, axis=at - x.sparse_dim() + 1))
    kept = [a for a in range(x.sparse_dim()) if a != at]
    rest = Pattern(tuple(x._pattern.sizes[a] for a in kept), x._pattern.indices[kept], False)
    merged, group = rest.merged
    if not x._nnz():
        return x
    engine, values = engine_for(x.queue), x._elements
    index = engine.tensor(group, "int64")
    start = engine.empty((merged.count, *values.shape[1:]), values.dtype)
    engine.fill(start, -math.inf)
    most = _call("index_reduce", start, 0, index, values.detach(), "amax")
    shifted = _call("sub", values, _call("index_select", most, 0, index))
    powers = _call("exp", shifted)
    total = _call("index_select", _summed(powers, group, merged.count), 0, index)
    return x._like(_call("sub", shifted, _call("log", total)) if logarithm else _call("div", powers, total))


def log_softmax(x: SparseTensor, axis: Any = -1, dtype: Any = None) -> SparseTensor:
    """log of ``softmax``, for stored elements."""
    return softmax(x, axis, dtype, logarithm=True)


# -- products ----------------------------------------------------------------------------------------------------------


def _matrix(x: SparseTensor, op: str) -> SparseTensor:
    if x.sparse_dim() != 2 or x.dense_dim():
        raise ShapeError(f"{op}: expected a matrix of numbers as a sparse operand, got shape {tuple(x.shape)}")
    return x._merged()


def matmul(a: Any, b: Any, tile: int = 16, *, transpose_a: bool = False, transpose_b: bool = False) -> Any:
    """Returns a @ b of one or two sparse matrices: sparse if both are, else dense. Two axes at most."""
    a = a.mT if transpose_a else a
    b = b.mT if transpose_b else b
    for matrix in (a, b):
        if isinstance(matrix, np.ndarray) or not isinstance(matrix, (Tensor, SparseTensor)):
            _refuse("matmul", f"takes tensors, not {builtins.type(matrix).__name__}")
    if b.ndim not in (1, 2) or a.ndim not in (1, 2) or a.shape[-1] != b.shape[0]:
        raise ShapeError(
            f"matmul: shapes {tuple(a.shape)} and {tuple(b.shape)}, one of them sparse; they are matrices or "
            "vectors, and the last length of the first equals the first of the second"
        )
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return _call("matmul", a, b)
    if isinstance(a, SparseTensor) and isinstance(b, SparseTensor):
        return _sparse_product(_matrix(a, "matmul"), _matrix(b, "matmul"))
    if isinstance(a, SparseTensor):
        column = b.ndim == 1
        product = _product(_matrix(a, "matmul"), _call("reshape", b, shape=(-1, 1)) if column else b)
        return _call("reshape", product, shape=(a.shape[0],)) if column else product
    if a.ndim == 1:
        return matmul(b.mT, a)
    return _call("permute", matmul(b.mT, _call("permute", a, axes=(1, 0))), axes=(1, 0))


def _product(a: SparseTensor, b: Tensor) -> Tensor:
    engine = engine_for(a.queue)
    recorded = state.enabled and (a.requires_grad or b.requires_grad)
    here, there = a._pattern.on(engine, recorded)
    return _call("csr_matmul", a._elements, b, here, there)  # type: ignore[no-any-return]


def _sparse_product(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """Each element (i, k) of ``a`` times each of row k of ``b``, and sums at the same position."""
    if a.layout is not b.layout:
        raise UnsupportedError(f"matmul: layouts {a.layout!r} and {b.layout!r}; write x.to_sparse_coo()")
    (rows, inner), starts = a._pattern.indices, b._pattern.starts
    counts = starts[inner + 1] - starts[inner]
    left = np.repeat(np.arange(a._nnz()), counts)
    right = np.arange(len(left)) - np.repeat(np.cumsum(counts) - counts, counts) + starts[inner[left]]
    indices = np.stack([rows[left], b._pattern.indices[1][right]])
    products = _call("mul", _taken(a._elements, left), _taken(b._elements, right))
    sizes = (a._pattern.sizes[0], b._pattern.sizes[1])
    return SparseTensor(Pattern(sizes, indices, False), products, a.layout)._merged()


def addmm(x: Any, a: Any, b: Any, beta: float = 1.0, alpha: float = 1.0) -> Any:
    """Returns beta * x + alpha * a @ b; ``a`` or ``b`` is sparse, and the others are dense."""
    if isinstance(x, SparseTensor) or isinstance(a, SparseTensor) and isinstance(b, SparseTensor):
        _refuse("addmm", "takes one sparse matrix, a factor")
    product = matmul(a, b)
    return _call("add", _call("mul", x, beta), _call("mul", product, alpha))


def _linear(x: Any, weight: Any, bias: Any = None) -> Any:
    product = matmul(x, weight.mT)
    return product if bias is None else _call("add", product, bias)


def spmm(input: SparseTensor, mat2: Tensor) -> Tensor:
    """Returns ``input @ mat2`` for a sparse matrix and a dense one. Raises ShapeError.

    A segment reduction over rows, with the same bits on every run; gradients flow to the elements and to ``mat2``.
    """
    return matmul(input, mat2)  # type: ignore[no-any-return]


_FORMS: dict[str, Callable[..., Any]] = {
    "add": _add, "sub": _sub, "mul": _mul, "div": _div, "pow": _pow, "sum": sum_over, "softmax": softmax,
    "log_softmax": log_softmax, "permute": _permute, "transpose": _transpose, "matmul": matmul, "mm": matmul,
    "mv": matmul, "addmm": addmm, "linear": _linear, "clone": SparseTensor.clone,
}  # fmt: skip


# -- making sparse tensors ---------------------------------------------------------------------------------------------


def _host(indices: Any, op: str) -> Array:
    values = indices.to_host() if isinstance(indices, Tensor) else np.asarray(indices)
    if values.size == 0:
        return values.astype(np.int64)
    if values.dtype.kind not in "iu":
        raise ShapeError(f"{op}: expected whole numbers as positions, got {values.dtype}")
    return np.asarray(values, np.int64)


def _elements_of(values: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    if isinstance(values, Tensor):
        made = values if device is None else values.to(device)
        made = made if dtype is None else made.to(dtype)
    else:
        array = np.asarray(values)
        if dtype is None and array.dtype.kind == "f" and not hasattr(values, "dtype"):
            dtype = dtypes.get_default_dtype()
        if dtype is None and array.dtype == np.float64:
            dtype = "float64"
        made = engine_for(None if device is None else queue_of(device)).tensor(*to_storage(array, dtype))
    if requires_grad:
        made = made.detach()
        made.requires_grad = True
    return made


@from_here
def sparse_coo_tensor(
    indices: Any,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """Returns the tensor in COO with ``values`` (nnz, ...) at ``indices`` (axes, nnz), whole numbers on the host or a
    device; at the same position values add up. ``sparse_coo_tensor(size)`` has no elements.

    ``size`` is by default as small as the indices allow. The gradient of ``values`` flows; with ``requires_grad`` the
    result is a leaf of its own. Positions are always checked: IndexError for one that is out of range, ShapeError.
    ``is_coalesced=True`` says that positions are sorted and distinct: ValueError if they are not.

    >>> sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3), device="cpu").to_dense().tolist()
    [[0.0, 0.0, 3.0], [4.0, 0.0, 5.0]]
    """
    op = "sparse_coo_tensor"
    if values is None:
        size = check_shape(indices if size is None else size)
        indices, values = np.empty((len(size), 0), np.int64), np.empty((0,), dtypes.get_default_dtype())
    elements = _elements_of(values, dtype, device, requires_grad)
    places = _host(indices, op)
    places = places.reshape(places.shape[0], -1) if places.ndim == 1 and not places.size else places
    if places.ndim != 2 or elements.ndim < 1 or places.shape[1] != elements.shape[0]:
        raise ShapeError(
            f"{op}: indices {places.shape} for values {elements.shape}; they are (axes, nnz) and (nnz, ...)"
        )
    if size is None:
        sizes = tuple(int(row.max()) + 1 if len(row) else 0 for row in places)
    else:
        whole = check_shape(size)
        sizes = whole[: len(places)]
        if len(sizes) < len(places) or whole[len(places) :] != elements.shape[1:]:
            raise ShapeError(f"{op}: size {whole} for indices {places.shape} and values {elements.shape}")
    for axis, (row, length) in enumerate(zip(places, sizes)):
        _check_range(op, row, length, f"axis {axis}")
    pattern = Pattern(sizes, places, False)
    steps = np.diff(pattern.linear)
    # PyTorch calls one element, or none, not coalesced; nothing depends on it but is_coalesced().
    if is_coalesced and not bool((steps > 0).all()):
        raise ValueError(f"{op}: is_coalesced=True, but the positions are not sorted or occur twice")
    return SparseTensor(Pattern(sizes, places, bool(is_coalesced)), elements, sparse_coo, requires_grad)


def _check_range(op: str, places: Array, length: int, what: str) -> None:
    wrong = np.flatnonzero((places < 0) | (places >= length))
    if wrong.size:
        raise IndexError(
            f"{op}: index {places[wrong[0]]} at position {wrong[0]} is out of range for {what} of {length}"
        )


@from_here
def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:
    """Returns the matrix in CSR with ``values`` (nnz,) in the columns ``col_indices``; the values of row r begin at
    ``crow_indices[r]`` and end before ``crow_indices[r + 1]``. Columns rise within a row.

    Other arguments are as in ``sparse_coo_tensor``. The positions are always checked: IndexError, ShapeError or
    ValueError.

    >>> sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 4.0, 5.0], (2, 3), device="cpu").to_dense().tolist()
    [[0.0, 0.0, 3.0], [4.0, 0.0, 5.0]]
    """
    op = "sparse_csr_tensor"
    elements = _elements_of(values, dtype, device, requires_grad)
    starts, columns = _host(crow_indices, op), _host(col_indices, op)
    if starts.ndim != 1 or columns.ndim != 1 or elements.shape != columns.shape or not len(starts):
        raise ShapeError(
            f"{op}: crow_indices {starts.shape}, col_indices {columns.shape} and values {elements.shape}; they are of "
            "one axis, the last two of one length"
        )
    sizes = (len(starts) - 1, int(columns.max(initial=-1)) + 1) if size is None else check_shape(size)
    if len(sizes) != 2 or sizes[0] != len(starts) - 1:
        raise ShapeError(f"{op}: size {sizes} for {len(starts)} crow_indices; it is (rows, columns)")
    counts = np.diff(starts)
    if starts[0] != 0 or starts[-1] != len(columns) or (counts < 0).any():
        raise ValueError(f"{op}: crow_indices rise from 0 to {len(columns)}, the number of values")
    _check_range(op, columns, sizes[1], "columns, a number")
    pattern = Pattern(sizes, np.stack([np.repeat(np.arange(sizes[0]), counts), columns]), True)
    if not (np.diff(pattern.linear) > 0).all():
        raise ValueError(f"{op}: the columns of a row rise, and none occurs twice")
    return SparseTensor(pattern, elements, sparse_csr, requires_grad)


def of_dense(x: Tensor, sparse_dim: int | None = None, kind: Layout = sparse_coo) -> SparseTensor:
    """The elements of ``x`` that are not zero: positions in the first ``sparse_dim`` axes, by default all. Their number
    is read on the host; gradients flow to ``x``.
    """
    axes = x.ndim if sparse_dim is None else sparse_dim
    if not 0 <= axes <= x.ndim or not axes and x.ndim:
        raise ShapeError(f"to_sparse: expected sparse_dim from 1 to {x.ndim}, got {axes}")
    sizes, inner = x.shape[:axes], x.shape[axes:]
    engine = engine_for(x.queue)
    rows = _call("reshape", x, shape=(math.prod(sizes), *inner))
    mask = _call("ne", rows.detach(), 0)
    if inner:
        mask = _call("any", mask, axis=tuple(range(1, mask.ndim)))
    places = engine.nonzero(mask).to_host() if mask.size else np.empty(0, np.int64)
    split = np.unravel_index(places, sizes) if sizes else ()
    pattern = Pattern(tuple(sizes), np.array(split, np.int64).reshape(axes, len(places)), True)
    return SparseTensor(pattern, _taken(rows, places), kind)


def at_positions(x: Tensor, mask: SparseTensor) -> SparseTensor:
    """The elements of ``x`` at the positions of ``mask``, of the same shape, each once."""
    if not isinstance(mask, SparseTensor) or mask.shape != x.shape:
        raise ShapeError(f"sparse_mask: expected a SparseTensor of shape {x.shape} as mask, got {mask!r}")
    pattern = mask._pattern.merged[0]
    rows = _call("reshape", x, shape=(math.prod(pattern.sizes), *x.shape[len(pattern.sizes) :]))
    return SparseTensor(pattern, _taken(rows, pattern.linear), mask.layout)

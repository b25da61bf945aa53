"""Selecting by tensors of indices: whole rows, single elements, embeddings and one-hot codes.

Indices on the host are checked at once. Indices on the device are clamped, and the next host read raises IndexError,
which names the op. Negative indices count from the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl.core.dtypes import canonical, is_floating
from netcl.core.engine.protocol import OUT_OF_RANGE
from netcl.core.errors import DTypeError, IndexDTypeError, OutOfRangeError, ShapeError
from netcl.core.expr import Index, Load, apply, cast
from netcl.core.layout import broadcast_shapes, contiguous_strides, normalize_axes
from netcl.core.storage.host import check_shape
from netcl.core.tensor import Tensor
from netcl.ops.domains import Cases, compared
from netcl.ops.elementwise import cast as cast_op
from netcl.ops.elementwise import floor_divide, mod
from netcl.ops.shape import expand, reshape, strided_slice
from netcl.ops.table import METHOD, as_dtype, composite, computed, engine_of, of_scalars

# -- indices -----------------------------------------------------------------------------------------------------------


def indices_on(op: str, engine: Any, indices: Any, extent: int | None) -> Tensor:
    """Returns ``indices`` as an int32 or int64 tensor of ``engine``; IndexError for host values outside [-n, n)."""
    if isinstance(indices, Tensor):
        engine_of(op, indices)
        if is_floating(indices.dtype) or indices.dtype == "bool":
            raise IndexDTypeError(f"{op}: expected whole numbers as indices, got {indices.dtype}")
        if indices.size and extent == 0:
            raise OutOfRangeError(f"{op}: there is no position to name on an axis of length 0")
        return as_index(indices)
    return engine.tensor(wrapped(op, indices, extent), "int64")  # type: ignore[no-any-return]


def as_index(indices: Tensor) -> Tensor:
    """Returns integers as int32 if that holds every value of their dtype, else as int64, the dtypes of positions."""
    return as_dtype(indices, "int64" if indices.dtype in ("int64", "uint32", "uint64") else "int32")


def wrapped(op: str, indices: Any, extent: int | None) -> np.ndarray[Any, Any]:
    """Returns host indices as nonnegative int64; raises IndexError for one outside [-extent, extent)."""
    values = np.asarray(indices)
    if values.size == 0:
        values = values.astype(np.int64)
    if values.dtype.kind not in "iu":
        raise IndexDTypeError(f"{op}: expected whole numbers as indices, got {values.dtype}")
    if extent is None:
        return np.asarray(values.astype(np.int64), order="C")
    if values.size and not (-extent <= int(values.min()) and int(values.max()) < extent):
        at = int(np.argmax((values < -extent) | (values >= extent)))
        raise OutOfRangeError(OUT_OF_RANGE.format(op).format(value=values.flat[at], position=at, size=extent))
    signed = values.astype(np.int64, order="C")
    signed[signed < 0] += extent
    return signed


def broadcasts(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    """True if ``shape`` broadcasts to ``wanted``."""
    return len(shape) <= len(wanted) and all(n in (1, m) for n, m in zip(reversed(shape), reversed(wanted)))


def cropped(x: Tensor, sizes: Sequence[int]) -> Tensor:
    """Returns the first ``sizes`` positions of each axis, or ``x`` itself if that is all of it."""
    if x.shape == tuple(sizes):
        return x
    return strided_slice(x, [0] * x.ndim, [1] * x.ndim, sizes)  # type: ignore[no-any-return]


def per_element(op: str, axis: int, shape: tuple[int, ...], index: Any, engine: Any) -> tuple[int, Tensor]:
    """Returns axis and indices of an op with one index per element; off the axis they may be shorter than ``shape``."""
    (at,) = normalize_axes(axis, len(shape), op)
    places = indices_on(op, engine, index, shape[at])
    if places.ndim != len(shape) or any(a != at and n > shape[a] for a, n in enumerate(places.shape)):
        raise ShapeError(
            f"{op}: index {places.shape} for shape {shape}; it has as many axes, and is longer in axis {axis} alone"
        )
    return at, places


# -- the rows that autograd has rules for ------------------------------------------------------------------------------


def _take_at_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (5, 3)), np.array([[4, 0], [0, -1]])), {"axis": 0}
    yield (rng.uniform(-2, 2, (2, 3, 5)), rng.integers(-5, 5, (2, 3, 2))), {"axis": 2, "rows": False}


def _take_at_reference(x: Any, index: Any, axis: int, rows: bool = True) -> Any:
    return np.take(x, index, axis) if rows else np.take_along_axis(x, index, axis)


@computed(domain=compared(_take_at_cases, _take_at_reference))
def take_at(x: Tensor, index: Tensor, axis: int, rows: bool = True, op: str = "take", wrap: bool = True) -> Tensor:
    """Returns np.take(x, index, axis) for ``rows``, else np.take_along_axis; an index out of range is reported under
    the name ``op``, a negative one if not ``wrap``.
    """
    engine = engine_of(op, x, index)
    final = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]) if rows else index.shape
    if 0 in final:
        return engine.empty(final, x.dtype)  # type: ignore[no-any-return]
    return engine.index("take" if rows else "gather", x, index, axis=axis, op=op, wrap=wrap)


def _select_grad_reference(grad: Any, index: Any, axis: int, shape: Any) -> Any:
    out = np.zeros(shape)
    np.add.at(
        np.moveaxis(out, axis, 0),
        index.reshape(-1),
        np.moveaxis(grad.reshape(*shape[:axis], -1, *shape[axis + 1 :]), axis, 0),
    )
    return out


def _select_grad_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (4, 3)), np.array([4, 0, 0, 2])), {"axis": 0, "shape": (5, 3)}
    yield (rng.uniform(-2, 2, (2, 2, 3, 2)), np.array([[1, 6, 2], [0, 0, 3]])), {"axis": 1, "shape": (2, 7, 2)}


@computed(dtypes="numbers", domain=compared(_select_grad_cases, _select_grad_reference))
def index_select_grad(grad_output: Tensor, index: Any, axis: int, shape: Any) -> Tensor:
    """Returns the gradient of ``index_select`` by x, of shape ``shape``: slices are added at their origin in order."""
    engine = engine_of("index_select_grad", grad_output)
    wanted = tuple(int(size) for size in shape)
    (at,) = normalize_axes(axis, len(wanted), "index_select_grad")
    places = indices_on("index_select_grad", engine, index, wanted[at])
    expected = (*wanted[:at], *places.shape, *wanted[at + 1 :])
    if grad_output.shape != expected:
        raise ShapeError(f"index_select_grad: grad_output {grad_output.shape}; expected {expected}")
    if 0 in expected or 0 in wanted:
        return engine.zeros(wanted, grad_output.dtype)  # type: ignore[no-any-return]
    return engine.index("take_grad", grad_output, places, axis=at, shape=wanted, op="index_select")


def _gather_grad_reference(grad: Any, index: Any, axis: int, shape: Any) -> Any:
    out = np.zeros(shape)
    places = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    places[axis] = index
    np.add.at(out, tuple(places), grad)
    return out


def _gather_grad_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (6, 3)), rng.integers(0, 4, (6, 3))), {"axis": 0, "shape": (4, 3)}
    yield (rng.uniform(-2, 2, (2, 3, 2)), rng.integers(0, 5, (2, 3, 2))), {"axis": 2, "shape": (2, 3, 5)}


@computed(dtypes="numbers", domain=compared(_gather_grad_cases, _gather_grad_reference))
def gather_grad(grad_output: Tensor, index: Any, axis: int, shape: Any) -> Tensor:
    """Returns the gradient of ``gather`` by x, of shape ``shape``: each is added at its origin, in a fixed order."""
    engine = engine_of("gather_grad", grad_output)
    wanted = tuple(int(size) for size in shape)
    at, places = per_element("gather_grad", axis, wanted, index, engine)
    same = (*places.shape[:at], wanted[at], *places.shape[at + 1 :]) == wanted
    if grad_output.shape != places.shape or not same:
        raise ShapeError(f"gather_grad: grad_output {grad_output.shape} and index {places.shape} for shape {wanted}")
    if 0 in places.shape or 0 in wanted:
        return engine.zeros(wanted, grad_output.dtype)  # type: ignore[no-any-return]
    return engine.index("gather_grad", grad_output, places, axis=at, shape=wanted, op="gather")


# -- whole slices ------------------------------------------------------------------------------------------------------


def select(op: str, x: Tensor, axis: int, index: Any) -> Tensor:
    """Returns the slices of ``x`` along ``axis`` at ``index``, for the op of this name."""
    engine = engine_of(op, x)
    (at,) = normalize_axes(axis, x.ndim, op)
    return take_at(x, indices_on(op, engine, index, x.shape[at]), at, True, op)  # type: ignore[no-any-return]


def _select_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (5, 3)),), {"axis": 0, "index": np.array([4, 0, 0, -1])}
    yield (rng.uniform(-2, 2, (2, 7, 3)),), {"axis": 1, "index": np.array([[1, 6, 2], [0, 0, 3]], np.int32)}
    yield (rng.uniform(-2, 2, (4,)),), {"axis": -1, "index": np.array([], np.int64)}


@composite(domain=compared(_select_cases, lambda x, axis, index: np.take(x, index, axis)), forms=METHOD)
@of_scalars("x index")
def index_select(x: Tensor, axis: int, index: Any) -> Tensor:
    """Returns the positions ``index`` (a tensor or host values of any shape) on ``axis``, which the index's axes
    replace; a 0-d tensor names one position, and keeps the axis.
    """
    return select("index_select", x, axis, index)


def _take_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (5, 3)),), {"indices": [[7, 0], [-1, 2]]}
    yield (rng.uniform(-2, 2, (5, 3)),), {"indices": 2, "axis": 1}


@composite(domain=compared(_take_cases, lambda x, indices, axis=None: np.take(x, indices, axis)))
def take(x: Tensor, indices: Any, axis: int | None = None) -> Tensor:
    """Returns the elements at ``indices`` along ``axis``, or of the flattened tensor for None; as NumPy's take."""
    engine_of("take", x)
    return select("take", reshape(x, (x.size,)), 0, indices) if axis is None else select("take", x, axis, indices)


# -- single elements ---------------------------------------------------------------------------------------------------


def _gather_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (4, 3)),), {"axis": 0, "index": rng.integers(-4, 4, (6, 3))}
    yield (rng.uniform(-2, 2, (2, 3, 5)),), {"axis": -1, "index": rng.integers(0, 5, (2, 3, 2)).astype(np.int32)}
    yield (rng.uniform(-2, 2, (4, 3)),), {"axis": 1, "index": rng.integers(0, 3, (2, 5))}


def _gather_reference(x: Any, axis: int, index: Any) -> Any:
    region = tuple(slice(None if a == axis % x.ndim else n) for a, n in enumerate(index.shape))
    return np.take_along_axis(x[region], index, axis)


@composite(domain=compared(_gather_cases, _gather_reference), forms=METHOD)
@of_scalars("index x")
def gather(x: Tensor, axis: int, index: Any) -> Tensor:
    """Returns out[.., i, ..] = x[.., index[.., i, ..], ..] along ``axis``; off the axis ``index`` is x's shape or
    shorter, and ``out`` has its shape.
    """
    engine = engine_of("gather", x)
    if isinstance(index, Tensor) and not index.size:  # of any shape, as in PyTorch
        return reshape(strided_slice(reshape(x, (x.size,)), [0], [1], [0]), index.shape)  # type: ignore[no-any-return]
    at, places = per_element("gather", axis, x.shape, index, engine)
    region = cropped(x, (*places.shape[:at], x.shape[at], *places.shape[at + 1 :]))
    return take_at(region, places, at, False, "gather")  # type: ignore[no-any-return]


def _along_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (4, 3)),), {"indices": rng.integers(-4, 4, (2, 3)), "axis": 0}
    yield (rng.uniform(-2, 2, (2, 1, 5)),), {"indices": rng.integers(0, 5, (1, 3, 2))}
    yield (rng.uniform(-2, 2, (2, 3)),), {"indices": np.array([5, 0, 0]), "axis": None}


@composite(domain=compared(_along_cases, lambda x, indices, axis=-1: np.take_along_axis(x, indices, axis)))
def take_along_axis(x: Tensor, indices: Any, axis: int | None = -1) -> Tensor:
    """As NumPy's: ``gather`` with x and ``indices`` broadcast to each other off the axis; None flattens x."""
    op = "take_along_axis"
    engine = engine_of(op, x)
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    (at,) = normalize_axes(axis, x.ndim, op)
    places = indices_on(op, engine, indices, x.shape[at])
    if places.ndim != x.ndim:
        raise ShapeError(f"{op}: indices {places.shape} for shape {x.shape}; they have as many axes")
    around = broadcast_shapes([(*t.shape[:at], 1, *t.shape[at + 1 :]) for t in (x, places)], op)
    x, places = (_widened(t, (*around[:at], t.shape[at], *around[at + 1 :])) for t in (x, places))
    return take_at(x, places, at, False, op)  # type: ignore[no-any-return]


def _widened(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return x if x.shape == shape else expand(x, shape)


# -- embeddings and codes ----------------------------------------------------------------------------------------------


def _rows_cases(rng: np.random.Generator) -> Cases:
    yield (np.array([[1, 3], [0, 1]]), rng.uniform(-1, 1, (4, 5))), {"padding": -1}


@computed(domain=compared(_rows_cases, lambda index, weight, padding: weight[index]))
def embedding_rows(index: Tensor, weight: Tensor, padding: int) -> Tensor:
    """Returns ``take_at`` on axis 0, with a gradient that omits the row ``padding``."""
    return take_at.row.call(weight, index, 0, True, "embedding", False)  # type: ignore[misc, no-any-return]


def _embedding_cases(rng: np.random.Generator) -> Cases:
    yield (np.array([[1, 3], [0, 1]]), rng.uniform(-1, 1, (4, 5))), {}


@composite(domain=compared(_embedding_cases, lambda indices, weight: weight[indices]))
def embedding(indices: Any, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """Returns the rows of weight (num, dim) at ``indices`` (...): (..., dim). The row ``padding_idx`` gets no gradient.

    The gradients of equal indices are added in their order: the same bits each time. Raises IndexError for an index
    outside [0, num), or a ``padding_idx`` outside [-num, num).
    """
    engine = engine_of("embedding", weight)
    if weight.ndim != 2:
        raise ShapeError(f"embedding: weight {weight.shape}; expected (num, dim)")
    count = weight.shape[0]
    if not isinstance(indices, Tensor) and np.size(indices) and np.min(indices) < 0:
        raise OutOfRangeError(f"embedding: index {np.min(indices)} is negative; rows are 0..{count - 1}")
    places = indices_on("embedding", engine, indices, count)
    if padding_idx is None:
        return take_at(weight, places, 0, True, "embedding", False)  # type: ignore[no-any-return]
    if not -count <= padding_idx < count:
        raise OutOfRangeError(f"embedding: padding_idx {padding_idx} is out of range for {count} rows")
    return embedding_rows(places, weight, padding_idx % count)  # type: ignore[no-any-return]


def _one_hot_cases(rng: np.random.Generator) -> Cases:
    yield (np.array([2, 0, 1]),), {"num_classes": 4}
    yield (np.array([[2, 0], [1, 1]], np.int32),), {"num_classes": 3}


def _classes_of(indices: np.ndarray[Any, Any]) -> int:
    """Returns the number of classes up to the largest index; raises OutOfRangeError if there is none or one below 0."""
    if indices.size == 0 or indices.min() < 0:
        lowest = indices.min() if indices.size else "no index"
        raise OutOfRangeError(f"one_hot: expected indices of 0 or more, got {lowest}; for no index give num_classes")
    return int(indices.max()) + 1


@computed(domain=compared(_one_hot_cases, lambda i, num_classes: np.eye(num_classes)[i], gradient=False))
def one_hot(indices: Any, num_classes: int | None = None, dtype: str = "int64") -> Tensor:
    """Returns 1 at the index and 0 elsewhere: (...) gives (..., num_classes). None reads the largest index on the host.

    Host indices go to the active device. Raises IndexError for one outside [0, num_classes).
    """
    if not isinstance(indices, Tensor):
        values = wrapped("one_hot", indices, None)
        bound = _classes_of(values) if num_classes is None else num_classes
        if values.size and (values.min() < 0 or values.max() >= bound):
            at = int(np.argmax((values < 0) | (values >= bound)))
            raise OutOfRangeError(
                f"one_hot: index {values.flat[at]} at position {at} is out of range for {bound} classes"
            )
        indices, num_classes = Tensor.from_host(values), bound
    engine = engine_of("one_hot", indices)
    if is_floating(indices.dtype) or indices.dtype == "bool":
        raise DTypeError(f"one_hot: expected whole numbers as indices, got {indices.dtype}")
    indices = as_index(indices)
    count = _classes_of(indices.to_host()) if num_classes is None else num_classes
    if count < 1 and indices.size:
        raise OutOfRangeError(f"one_hot: each index is out of range for {count} classes")
    final = (*indices.shape, count)
    if 0 in final:
        return engine.empty(final, dtype)  # type: ignore[no-any-return]
    index = Load(0, indices.dtype)
    code = engine.flag_code("one_hot: index {value} at position {position} is out of range for {size} classes")
    known = apply("require", (index >= 0) & (index < count), index, code, count)
    hit = cast(apply("eq", known, Index(len(final) - 1)), canonical(dtype))
    column = indices._alias((*indices.shape, 1))
    return engine.run((hit,), (column,), shapes=(final,))[0]  # type: ignore[no-any-return]


@composite(
    domain=compared(
        lambda rng: iter(
            [((rng.integers(0, 24, (3, 4)),), {"shape": (2, 3, 4)}), ((rng.integers(0, 7, 5),), {"shape": 7})]
        ),
        lambda indices, shape: np.unravel_index(indices, shape),
        gradient=False,
    )
)
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Returns the positions along each axis of a tensor of ``shape`` at the flat positions ``indices``: one tensor for
    each axis, int64, of the shape of the indices. Raises DTypeError unless they are whole numbers.
    """
    engine_of("unravel_index", indices)
    if is_floating(indices.dtype) or indices.dtype == "bool":
        raise DTypeError(f"unravel_index: expected whole numbers as indices, got {indices.dtype}")
    sizes = check_shape(shape)
    steps = contiguous_strides(sizes)
    wide = cast_op(indices, dtype="int64")
    return tuple(mod(floor_divide(wide, step), size) for size, step in zip(sizes, steps))

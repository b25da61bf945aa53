"""Addressing by tensors of indices: taking, gathering, embeddings, one-hot codes and masks.

Indices on the host are checked at once. Indices on the device are clamped, and the next host read raises IndexError
naming the op.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from netcl.core.dispatch import Domain
from netcl.core.dtypes import canonical, is_floating
from netcl.core.errors import DTypeError, ShapeError
from netcl.core.expr import Index, Load, apply, cast
from netcl.core.layout import normalize_axes
from netcl.core.tensor import Tensor
from netcl.ops.elementwise import add, ne, where
from netcl.ops.shape import reshape, unsqueeze
from netcl.ops.table import as_dtype, composite, computed, elementwise, engine_of

Cases = Iterator[tuple[tuple[Any, ...], dict[str, Any]]]


def indices_on(op: str, engine: Any, indices: Any, extent: int) -> Tensor:
    """``indices`` as an int32 or int64 tensor of ``engine``; host values outside of [-extent, extent) raise
    IndexError.
    """
    if isinstance(indices, Tensor):
        engine_of(op, indices)
        if is_floating(indices.dtype) or indices.dtype == "bool":
            raise DTypeError(f"{op}: indices are whole numbers, not {indices.dtype}", op=op)
        return as_dtype(indices, "int32") if indices.dtype == "uint8" else indices
    values = np.asarray(indices)
    if values.size == 0:
        values = values.astype(np.int64)
    if values.dtype.kind not in "iu":
        raise DTypeError(f"{op}: indices are whole numbers, not {values.dtype}", op=op)
    if values.size and not (-extent <= int(values.min()) and int(values.max()) < extent):
        wrong = values[(values < -extent) | (values >= extent)].flat[0]
        raise IndexError(f"{op}: index {wrong} is out of range for a length of {extent}")
    wrapped = np.where(values < 0, values.astype(np.int64) + extent, values.astype(np.int64))
    return engine.tensor(np.asarray(wrapped, order="C"), "int64")  # type: ignore[no-any-return]


def _select_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (5, 3)),), {"axis": 0, "index": np.array([4, 0, 0, -1])}
    yield (rng.uniform(-2, 2, (2, 7, 3)),), {"axis": 1, "index": np.array([[1, 6, 2], [0, 0, 3]], np.int32)}
    yield (rng.uniform(-2, 2, (4,)),), {"axis": -1, "index": np.array([], np.int64)}


@computed(domain=Domain(cases=_select_cases, reference=lambda x, axis, index: np.take(x, index, axis)))
def index_select(x: Tensor, axis: int, index: Any) -> Tensor:
    """The positions ``index`` (a tensor or host values of any shape) on ``axis``; the index's axes take its place."""
    engine = engine_of("index_select", x)
    (at,) = normalize_axes(axis, x.ndim, "index_select")
    places = indices_on("index_select", engine, index, x.shape[at])
    final = (*x.shape[:at], *places.shape, *x.shape[at + 1 :])
    if x.shape[at] == 0 and places.size:
        raise IndexError(f"index_select: axis {axis} of shape {x.shape} has no position to select")
    return engine.index("take", x, places, axis=at) if 0 not in final else engine.empty(final, x.dtype)


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


@computed(domain=Domain(cases=_select_grad_cases, reference=_select_grad_reference))
def index_select_grad(grad_output: Tensor, index: Any, axis: int, shape: Any) -> Tensor:
    """The gradient of ``index_select`` by x, of shape ``shape``: each slice added where it came from, in a fixed
    order.
    """
    engine = engine_of("index_select_grad", grad_output)
    wanted = tuple(int(size) for size in shape)
    (at,) = normalize_axes(axis, len(wanted), "index_select_grad")
    places = indices_on("index_select_grad", engine, index, wanted[at])
    expected = (*wanted[:at], *places.shape, *wanted[at + 1 :])
    if grad_output.shape != expected:
        raise ShapeError(
            f"index_select_grad: grad_output {grad_output.shape}; expected {expected}", op="index_select_grad"
        )
    if 0 in expected or 0 in wanted:
        return engine.zeros(wanted, grad_output.dtype)
    return engine.index("take_grad", grad_output, places, axis=at, shape=wanted)


def _take_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (5, 3)),), {"indices": [[7, 0], [-1, 2]]}
    yield (rng.uniform(-2, 2, (5, 3)),), {"indices": 2, "axis": 1}


@composite(domain=Domain(cases=_take_cases, reference=lambda x, indices, axis=None: np.take(x, indices, axis)))
def take(x: Tensor, indices: Any, axis: int | None = None) -> Tensor:
    """The elements at ``indices`` along ``axis``, or of the flattened tensor for None; as NumPy's take."""
    if axis is None:
        return index_select(reshape(x, (x.size,)), 0, indices)  # type: ignore[no-any-return]
    return index_select(x, axis, indices)  # type: ignore[no-any-return]


def _gather_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (4, 3)),), {"axis": 0, "index": rng.integers(-4, 4, (6, 3))}
    yield (rng.uniform(-2, 2, (2, 3, 5)),), {"axis": -1, "index": rng.integers(0, 5, (2, 3, 2)).astype(np.int32)}


def _along(op: str, axis: int, shape: tuple[int, ...], index: Any, engine: Any) -> tuple[int, Tensor]:
    (at,) = normalize_axes(axis, len(shape), op)
    places = indices_on(op, engine, index, shape[at])
    if places.ndim != len(shape) or any(a != at and places.shape[a] != shape[a] for a in range(len(shape))):
        raise ShapeError(f"{op}: index {places.shape} and x {shape} may differ in axis {axis} alone", op=op)
    if places.size and shape[at] == 0:
        raise IndexError(f"{op}: axis {axis} of shape {shape} has no position to select")
    return at, places


@computed(domain=Domain(cases=_gather_cases, reference=lambda x, axis, index: np.take_along_axis(x, index, axis)))
def gather(x: Tensor, axis: int, index: Any) -> Tensor:
    """out[.., i, ..] = x[.., index[.., i, ..], ..] along ``axis``; index has x's shape but for that axis."""
    engine = engine_of("gather", x)
    at, places = _along("gather", axis, x.shape, index, engine)
    return engine.index("gather", x, places, axis=at) if places.size else engine.empty(places.shape, x.dtype)


def _gather_grad_reference(grad: Any, index: Any, axis: int, shape: Any) -> Any:
    out = np.zeros(shape)
    places = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    places[axis] = index
    np.add.at(out, tuple(places), grad)
    return out


def _gather_grad_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (6, 3)), rng.integers(0, 4, (6, 3))), {"axis": 0, "shape": (4, 3)}
    yield (rng.uniform(-2, 2, (2, 3, 2)), rng.integers(0, 5, (2, 3, 2))), {"axis": 2, "shape": (2, 3, 5)}


@computed(domain=Domain(cases=_gather_grad_cases, reference=_gather_grad_reference))
def gather_grad(grad_output: Tensor, index: Any, axis: int, shape: Any) -> Tensor:
    """The gradient of ``gather`` by x, of shape ``shape``: each element added where it came from, in a fixed order."""
    engine = engine_of("gather_grad", grad_output)
    wanted = tuple(int(size) for size in shape)
    at, places = _along("gather_grad", axis, wanted, index, engine)
    if grad_output.shape != places.shape:
        raise ShapeError(f"gather_grad: grad_output {grad_output.shape} for index {places.shape}", op="gather_grad")
    if 0 in places.shape or 0 in wanted:
        return engine.zeros(wanted, grad_output.dtype)
    return engine.index("gather_grad", grad_output, places, axis=at, shape=wanted)


def _scatter_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (4, 3)),), {"axis": 0, "index": rng.integers(0, 4, (6, 3)), "src": 1.5}


def _scatter_reference(x: Any, axis: int, index: Any, src: Any) -> Any:
    return x + _gather_grad_reference(np.broadcast_to(src, index.shape), index, axis, x.shape)


@composite(domain=Domain(cases=_scatter_cases, reference=_scatter_reference))
def scatter_add(x: Tensor, axis: int, index: Any, src: Any) -> Tensor:
    """x with src[.., i, ..] added at [.., index[.., i, ..], ..] along ``axis``; src has the index's shape, or is a
    number.
    """
    engine = engine_of("scatter_add", x)
    at, places = _along("scatter_add", axis, x.shape, index, engine)
    if not isinstance(src, Tensor):
        value, src = float(src), engine.empty(places.shape, x.dtype)
        engine.fill(src, value)
    return add(x, gather_grad(src, places, at, x.shape))  # type: ignore[no-any-return]


_hold = elementwise(
    "_hold",
    "v1 ? v0 : stop_gradient(v0)",
    "x, whose gradient stops where the mask is false.",
    operands="x mask",
    domain=Domain(
        cases=lambda rng: iter([((rng.uniform(-1, 1, 4), np.array([True, False, True, True])), {})]),
        reference=lambda x, mask: x,
        gradient=False,
    ),
)


def _embedding_cases(rng: np.random.Generator) -> Cases:
    yield (np.array([[1, 3], [0, 1]]), rng.uniform(-1, 1, (4, 5))), {}


@composite(domain=Domain(cases=_embedding_cases, reference=lambda indices, weight: weight[indices]))
def embedding(indices: Any, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """The rows of weight (num, dim) at ``indices`` (...): (..., dim). The row ``padding_idx`` gets no gradient."""
    if weight.ndim != 2:
        raise ShapeError(f"embedding: weight {weight.shape}; expected (num, dim)", op="embedding")
    places = indices_on("embedding", weight.engine, indices, weight.shape[0])
    rows = index_select(weight, 0, places)
    if padding_idx is None:
        return rows  # type: ignore[no-any-return]
    return _hold(rows, unsqueeze(ne(places, padding_idx % weight.shape[0]), -1))  # type: ignore[no-any-return]


def _one_hot_cases(rng: np.random.Generator) -> Cases:
    yield (np.array([2, 0, 1]),), {"num_classes": 4}
    yield (np.array([[2, 0], [1, 1]], np.int32),), {"num_classes": 3}


@computed(domain=Domain(cases=_one_hot_cases, reference=lambda i, num_classes: np.eye(num_classes)[i], gradient=False))
def one_hot(indices: Any, num_classes: int | None = None, dtype: str = "int64") -> Tensor:
    """1 at the index and 0 elsewhere: (...) gives (..., num_classes). None reads the largest index on the host."""
    if not isinstance(indices, Tensor):
        indices = Tensor.from_host(np.asarray(indices))
    engine = engine_of("one_hot", indices)
    if is_floating(indices.dtype) or indices.dtype == "bool":
        raise DTypeError(f"one_hot: indices are whole numbers, not {indices.dtype}", op="one_hot")
    count = int(indices.numpy().max(initial=-1)) + 1 if num_classes is None else num_classes
    final = (*indices.shape, count)
    if 0 in final:
        return engine.empty(final, dtype)
    index = Load(0, indices.dtype)
    known = apply(
        "require", (index >= 0) & (index < count), index, engine.flag_code("one_hot: an index is out of range")
    )
    hit = cast(apply("eq", known, Index(len(final) - 1)), canonical(dtype))
    column = indices._alias(Tensor, (*indices.shape, 1))
    return engine.run((hit,), (column,), shapes=(final,))[0]


def _fill_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-1, 1, (3, 4)), rng.random(4) > 0.5), {"value": -1.5}


@composite(domain=Domain(cases=_fill_cases, reference=lambda x, mask, value: np.where(mask, value, x)))
def masked_fill(x: Tensor, mask: Tensor, value: float) -> Tensor:
    """x with ``value`` where the mask, which broadcasts, is true."""
    return where(mask, value, x)  # type: ignore[no-any-return]

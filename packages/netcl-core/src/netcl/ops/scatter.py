"""Writing and adding at tensors of indices, into a copy: scatter, index_add, index_copy, and counting by bins.

If a position is named twice the last one wins, in the order of the indices; sums are added in that order. Both give the
same bits on every run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from netcl.core.dtypes import integer_range, is_floating, is_unsigned, promote
from netcl.core.engine.protocol import OUT_OF_RANGE
from netcl.core.engine.recording import host_read_allowed
from netcl.core.errors import ArgumentError, DTypeError, OutOfRangeError, ShapeError
from netcl.core.expr import Index, Load, apply, cast, reduce
from netcl.core.layout import contiguous_strides, normalize_axes
from netcl.core.tensor import Tensor
from netcl.ops.domains import Cases, compared
from netcl.ops.elementwise import cast as cast_op
from netcl.ops.elementwise import div, floor_divide, maximum, minimum, mul, neg
from netcl.ops.index import cropped, index_select_grad, indices_on, per_element, take_at
from netcl.ops.shape import expand, strided_copy, write_slice
from netcl.ops.sort import sort
from netcl.ops.table import METHOD, WRITTEN, OpFunction, composite, computed, engine_of, of_scalars

# -- the rows that autograd has rules for ------------------------------------------------------------------------------


def _on_copy(x: Tensor, region: tuple[int, ...], change: Callable[[Tensor], object]) -> Tensor:
    """Returns a copy of ``x`` with the first ``region`` positions of each axis written by ``change``."""
    strides = contiguous_strides(x.shape)
    result = strided_copy(x, x.shape, strides)
    if region == x.shape:
        change(result)
    else:
        part = strided_copy(x, region, strides)
        change(part)
        write_slice(part, result, [0] * x.ndim, [1] * x.ndim)
    return result


def _changed(
    kinds: tuple[str, str], op: str, x: Tensor, index: Tensor, source: Tensor, axis: int, rows: bool
) -> Tensor:
    engine = engine_of(op, x, index, source)
    region = x.shape if rows else (*index.shape[:axis], x.shape[axis], *index.shape[axis + 1 :])
    kind = kinds[0 if rows else 1]
    return _on_copy(x, region, lambda part: engine.index(kind, source, index, axis=axis, out=part, op=op))


def _at_reference(x: Any, index: Any, source: Any, axis: int, rows: bool, add: bool) -> Any:
    out, axis = np.array(x), axis % x.ndim
    grid = np.ogrid[tuple(slice(n) for n in source.shape)]
    if rows:
        key: list[Any] = [slice(None)] * x.ndim
        key[axis] = index.reshape(-1)
        source = source.reshape(*x.shape[:axis], -1, *x.shape[axis + 1 :])
    else:
        key = list(grid)
        key[axis] = index
    if add:
        np.add.at(out, tuple(key), source)
    else:
        out[tuple(key)] = source
    return out


def _at_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (5, 3)), np.array([4, 0, 0, -1]), rng.uniform(-2, 2, (4, 3))), {"axis": 0}
    yield (
        (rng.uniform(-2, 2, (2, 4, 3)), np.array([[1, 3], [1, 0]], np.int32), rng.uniform(-2, 2, (2, 2, 2, 3))),
        {"axis": 1},
    )
    yield (
        (rng.uniform(-2, 2, (3, 4)), rng.integers(-4, 4, (2, 6)), rng.uniform(-2, 2, (2, 6))),
        {"axis": 1, "rows": False},
    )


@computed(
    domain=compared(
        _at_cases, lambda x, index, source, axis, rows=True: _at_reference(x, index, source, axis, rows, False)
    )
)
def put_at(
    x: Tensor, index: Tensor, source: Tensor, axis: int, rows: bool = True, op: str = "put", shared: bool = False
) -> Tensor:
    """Returns a copy of x with ``source`` written at the positions that ``take_at`` reads; the last of equal indices
    wins. With ``shared`` the others have its gradient too.
    """
    return _changed(("put", "scatter"), op, x, index, source, axis, rows)


@computed(
    dtypes="numbers",
    domain=compared(
        _at_cases, lambda x, index, source, axis, rows=True: _at_reference(x, index, source, axis, rows, True)
    ),
)
def add_at(x: Tensor, index: Tensor, source: Tensor, axis: int, rows: bool = True, op: str = "add") -> Tensor:
    """Returns a copy of x with ``source`` added at the positions of ``take_at``, in the order of the indices."""
    return _changed(("take_grad", "gather_grad"), op, x, index, source, axis, rows)


def _last_reference(index: Any, axis: int, shape: Any, rows: bool = True) -> Any:
    numbers = np.arange(index.size).reshape(index.shape)
    table = np.zeros(shape[axis] if rows else shape, np.int64)
    if rows:
        table[index.reshape(-1)] = numbers.reshape(-1)
        return table[index] == numbers
    key = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    key[axis] = index
    table[tuple(key)] = numbers
    return table[tuple(key)] == numbers


def _last_cases(rng: np.random.Generator) -> Cases:
    yield (np.array([[4, 0], [0, -1]]),), {"axis": 0, "shape": (5, 3)}
    yield (rng.integers(0, 3, (2, 6)),), {"axis": 1, "shape": (2, 3), "rows": False}


@computed(domain=compared(_last_cases, _last_reference, gradient=False))
def last_at(index: Tensor, axis: int, shape: Any, rows: bool = True) -> Tensor:
    """Masks the indices that are the last to name their position: ``put_at`` keeps their source."""
    engine = engine_of("put", index)
    if index.size == 0:
        return engine.empty(index.shape, "bool")  # type: ignore[no-any-return]
    wanted = (shape[axis],) if rows else (*index.shape[:axis], shape[axis], *index.shape[axis + 1 :])
    flat = index._alias((index.size,) if rows else index.shape)
    at = 0 if rows else axis
    number = cast(Index(at), "int32")
    (numbers,) = engine.run((number,), (flat,))
    table = engine.empty(wanted, "int32")
    engine.index("put" if rows else "scatter", numbers, flat, axis=at, out=table, op="put")
    winners = engine.index("take" if rows else "gather", table, flat, axis=at, op="put")
    result: Tensor = engine.run((apply("eq", Load(0, "int32"), Load(1, "int32")),), (winners, numbers))[0]
    return result._alias(index.shape)


# -- whole slices ------------------------------------------------------------------------------------------------------


def fitting(op: str, x: Tensor, source: Tensor) -> Tensor:
    """Returns ``source`` in x's dtype; raises DTypeError if that cannot hold it."""
    if source.dtype == x.dtype:
        return source
    if promote(x.dtype, source.dtype) != x.dtype:
        raise DTypeError(f"{op}: {source.dtype} values do not fit into {x.dtype}; convert with astype")
    return cast_op(source, dtype=x.dtype)  # type: ignore[no-any-return]


def of_bools(op: OpFunction, *operands: Any, **attributes: Any) -> Tensor:
    """Returns the result of an op on bools as PyTorch defines it: computed in int32, True if that is not zero."""
    whole = (cast_op(x, dtype="int32") if isinstance(x, Tensor) and x.dtype == "bool" else x for x in operands)
    return cast_op(op(*whole, **attributes), dtype="bool")  # type: ignore[no-any-return]


def _slices(op: str, x: Tensor, axis: int, index: Any, source: Any) -> tuple[int, Tensor, Tensor]:
    engine = engine_of(op, x, source)
    (at,) = normalize_axes(axis, x.ndim, op)
    positions = indices_on(op, engine, index, x.shape[at])
    expected = (*x.shape[:at], *positions.shape, *x.shape[at + 1 :])
    if source.shape != expected:
        raise ShapeError(
            f"{op}: source {source.shape} for index {positions.shape} on axis {axis} of {x.shape}; expected {expected}"
        )
    return at, positions, fitting(op, x, source)


def _slice_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (5, 3)), 0, np.array([4, 0, 0, -1]), rng.uniform(-2, 2, (4, 3))), {}
    yield (rng.uniform(-2, 2, (2, 4)), -1, np.array([], np.int64), rng.uniform(-2, 2, (2, 0))), {}


def _index_add_reference(x: Any, axis: int, index: Any, source: Any, alpha: float = 1) -> Any:
    return _at_reference(x, np.asarray(index, np.int64), source * alpha, axis, True, True)


@composite(
    domain=compared(
        lambda rng: (
            ((x, axis, index, source), {"alpha": alpha})
            for ((x, axis, index, source), _), alpha in zip(_slice_cases(rng), (-0.5, 1))
        ),
        _index_add_reference,
    ),
    forms=WRITTEN,
)
def index_add(x: Tensor, axis: int, index: Any, source: Tensor, alpha: float = 1) -> Tensor:
    """Returns x with alpha * source[.., i, ..] added at [.., index[i], ..] along ``axis``, in the order of i."""
    if bool(x.ndim) != bool(source.ndim):
        raise ShapeError(f"index_add: source {source.shape} for x {x.shape}; expected one with as many axes")
    return _index_added(x, axis, index, source, alpha)  # type: ignore[no-any-return]


@of_scalars("x index source")
def _index_added(x: Tensor, axis: int, index: Any, source: Tensor, alpha: float) -> Tensor:
    if x.dtype == "bool":
        return of_bools(index_add, x, axis, index, source, alpha)
    if is_unsigned(x.dtype):
        alpha %= integer_range(x.dtype)[1] + 1
    at, positions, values = _slices("index_add", x, axis, index, source)
    return add_at(x, positions, values if alpha == 1 else mul(values, alpha), at, True, "index_add")  # type: ignore[no-any-return]


@composite(
    domain=compared(
        _slice_cases, lambda x, axis, index, source: _at_reference(x, np.asarray(index, int), source, axis, True, False)
    ),
    forms=WRITTEN,
)
@of_scalars("x index source")
def index_copy(x: Tensor, axis: int, index: Any, source: Tensor) -> Tensor:
    """Returns x with source[.., i, ..] in place of [.., index[i], ..] along ``axis``; the last equal index wins."""
    at, positions, values = _slices("index_copy", x, axis, index, source)
    return put_at(x, positions, values, at, True, "index_copy")  # type: ignore[no-any-return]


# -- single elements ---------------------------------------------------------------------------------------------------


def _elements(op: str, x: Tensor, axis: int, index: Any, src: Any) -> tuple[int, Tensor, Tensor]:
    engine = engine_of(op, x)
    at, positions = per_element(op, axis, x.shape, index, engine)
    if not isinstance(src, Tensor):
        filled = engine.empty(positions.shape, x.dtype)
        engine.fill(filled, src)
        return at, positions, filled
    engine_of(op, x, src)
    if src.ndim == 0:
        src = expand(src, positions.shape)
    if src.ndim != positions.ndim or any(n < m for n, m in zip(src.shape, positions.shape)):
        raise ShapeError(f"{op}: src {src.shape} for index {positions.shape}; it has as many axes, and none shorter")
    return at, positions, cropped(fitting(op, x, src), positions.shape)


def _element_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-2, 2, (4, 3)), 0, rng.integers(0, 4, (6, 3)), rng.uniform(-2, 2, (6, 3))), {}
    yield (rng.uniform(-2, 2, (4, 3)), -1, rng.integers(-3, 3, (2, 5)), rng.uniform(-2, 2, (3, 6))), {}
    yield (rng.uniform(-2, 2, (4, 3)), 0, rng.integers(0, 4, (6, 3)), 1.5), {}


def _element_reference(x: Any, axis: int, index: Any, src: Any, add: bool) -> Any:
    values = np.broadcast_to(src, index.shape) if np.ndim(src) == 0 else src[tuple(map(slice, index.shape))]
    return _at_reference(x, np.asarray(index, int), values, axis, False, add)


@composite(domain=compared(_element_cases, lambda x, axis, index, src: _element_reference(x, axis, index, src, False)))
@of_scalars("x index")
def scatter(x: Tensor, axis: int, index: Any, src: Any) -> Tensor:
    """Returns x with src[.., i, ..] in place of [.., index[.., i, ..], ..] along ``axis``; of equal indices the last
    wins.

    ``src`` is a number or has at least the index's lengths; off the axis the index may be shorter than x.
    """
    at, positions, values = _elements("scatter", x, axis, index, src)
    return put_at(x, positions, values, at, False, "scatter")  # type: ignore[no-any-return]


@composite(
    domain=compared(_element_cases, lambda x, axis, index, src: _element_reference(x, axis, index, src, True)),
    forms=WRITTEN,
)
@of_scalars("x index")
def scatter_add(x: Tensor, axis: int, index: Any, src: Any) -> Tensor:
    """Returns x with src[.., i, ..] added at [.., index[.., i, ..], ..] along ``axis``, i rising; see ``scatter``."""
    if x.dtype == "bool":
        return of_bools(scatter_add, x, axis, index, src)
    at, positions, values = _elements("scatter_add", x, axis, index, src)
    return add_at(x, positions, values, at, False, "scatter_add")  # type: ignore[no-any-return]


# -- reductions by index -----------------------------------------------------------------------------------------------

_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def _reduce_reference(x: Any, index: Any, source: Any, axis: int, how: str, include_self: bool = True) -> Any:
    out = np.array(x)
    key = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    key[axis] = index
    places = tuple(key)
    neutral = {"sum": 0, "mean": 0, "prod": 1, "amax": -np.inf, "amin": np.inf}
    function = {"sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}
    if not include_self:
        out[places] = neutral[how]
    function[how].at(out, places, source)
    if how == "mean":
        count = np.full(x.shape, float(include_self))
        np.add.at(count, places, 1.0)
        out = out / np.maximum(count, 1)
    return out


def _reduce_cases(rng: np.random.Generator) -> Cases:
    for how in _REDUCTIONS:
        x = rng.permutation(np.linspace(-2, 2, 24))
        for include_self in (True, False):
            yield (
                (x[:12].reshape(4, 3), rng.integers(0, 4, (6, 2)), x[12:].reshape(6, 2)),
                {"axis": 0, "how": how, "include_self": include_self},
            )


def _marked(x: Tensor, index: Tensor, axis: int, value: float) -> Tensor:
    """Returns x with ``value`` at the positions that ``index`` names."""
    filled = x.engine.empty(index.shape, x.dtype)
    x.engine.fill(filled, value)
    return put_at(x, index, filled, axis, False, "scatter_reduce")  # type: ignore[no-any-return]


@computed(dtypes="numbers", domain=compared(_reduce_cases, _reduce_reference, second=False))
def reduce_at(x: Tensor, index: Tensor, source: Tensor, axis: int, how: str, include_self: bool = True) -> Tensor:
    """Returns x with the elements of ``source`` combined at [.., index[.., i, ..], ..] along ``axis``: sum, prod, mean,
    amax or amin, together with x's own element if ``include_self``. The same bits on every run.
    """
    engine_of("scatter_reduce", x, index, source)
    if index.size == 0:
        return _on_copy(x, x.shape, lambda part: None)
    if how in ("sum", "mean"):
        start = x if include_self else _marked(x, index, axis, 0)
        total = add_at(start, index, source, axis, False, "scatter_reduce")
        return total if how == "sum" else _averaged(total, _counts(x, index, axis, include_self))
    if how == "prod":
        return _product_at(x, index, source, axis, include_self)
    # In rising order along the axis the largest of equal indices is written last, and wins; NaN is the largest.
    signed = source if how == "amax" else neg(source)
    (at,) = normalize_axes(axis, x.ndim, "scatter_reduce")
    values, order = sort(signed, at)
    values = values if how == "amax" else neg(values)
    written = put_at(x, take_at(index, order, at, False), values, at, False, "scatter_reduce")
    if not include_self:
        return written  # type: ignore[no-any-return]
    return (maximum if how == "amax" else minimum)(written, x)  # type: ignore[no-any-return]


def _counts(x: Tensor, index: Tensor, axis: int, include_self: bool) -> Tensor:
    """Returns the number of elements that are combined at each position of x, at least 1."""
    start, ones = x.engine.empty(x.shape, "int32"), x.engine.empty(index.shape, "int32")
    x.engine.fill(start, int(include_self))
    x.engine.fill(ones, 1)
    count = add_at(start, index, ones, axis, False, "scatter_reduce")
    return maximum(count, 1)  # type: ignore[no-any-return]


def _averaged(total: Tensor, count: Tensor) -> Tensor:
    if is_floating(total.dtype):
        return cast_op(div(total, count), dtype=total.dtype)  # type: ignore[no-any-return]
    return cast_op(floor_divide(total, count), dtype=total.dtype)  # type: ignore[no-any-return]


def _product_at(x: Tensor, index: Tensor, source: Tensor, axis: int, include_self: bool) -> Tensor:
    """Multiplies on the host: no engine multiplies at indices."""
    engine = x.engine
    host_read_allowed(engine)
    out, factors = (np.array(operand.to_host()) for operand in (x, source))
    key = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    places = index.to_host().astype(np.int64)
    extent = out.shape[axis]
    wrong = (places < -extent) | (places >= extent)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise OutOfRangeError(
            OUT_OF_RANGE.format("scatter_reduce").format(value=places.flat[at], position=at, size=extent)
        )
    key[axis] = places
    if not include_self:
        out[tuple(key)] = 1
    np.multiply.at(out, tuple(key), factors)
    return engine.tensor(out, x.dtype)  # type: ignore[no-any-return]


def _how(op: str, reduce: str, allowed: tuple[str, ...]) -> str:
    if reduce not in allowed:
        raise ArgumentError(f"{op}: expected one of {', '.join(allowed)} as reduce, got {reduce!r}")
    return reduce


@composite(
    domain=compared(
        lambda rng: (
            ((x, at["axis"], index, source, at["how"]), {"include_self": at["include_self"]})
            for (x, index, source), at in _reduce_cases(rng)
        ),
        lambda x, axis, index, source, how, include_self: _reduce_reference(
            x, np.asarray(index), source, axis, how, include_self
        ),
        second=False,
    ),
    forms=WRITTEN,
)
@of_scalars("x index")
def scatter_reduce(x: Tensor, axis: int, index: Any, src: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """Returns x with src[.., i, ..] combined at [.., index[.., i, ..], ..] along ``axis`` by ``reduce``: sum, prod,
    mean, amax or amin; without ``include_self`` the elements of x that are named do not take part. Shapes as in
    ``scatter``.

    Equal extremes share the gradient evenly. The mean of integers is rounded down.
    """
    how = _how("scatter_reduce", reduce, _REDUCTIONS)
    if x.dtype == "bool":
        return of_bools(scatter_reduce, x, axis, index, src, reduce, include_self=include_self)
    at, positions, values = _elements("scatter_reduce", x, axis, index, src)
    return reduce_at(x, positions, values, at, how, include_self)  # type: ignore[no-any-return]


def _index_reduce_cases(rng: np.random.Generator) -> Cases:
    for how in _REDUCTIONS[1:]:
        x = rng.permutation(np.linspace(-2, 2, 30))
        yield (x[:12].reshape(4, 3), 0, np.array([1, 3, 1, 0, 1, 3]), x[12:].reshape(6, 3), how), {}
        yield (x[:12].reshape(4, 3), 0, np.array([1, 3]), x[12:18].reshape(2, 3), how), {"include_self": False}


@composite(
    domain=compared(
        _index_reduce_cases,
        lambda x, axis, index, source, how, include_self=True: _reduce_reference(
            x, np.broadcast_to(np.asarray(index)[:, None], source.shape), source, axis, how, include_self
        ),
        second=False,
    ),
    forms=WRITTEN,
)
@of_scalars("x index source")
def index_reduce(x: Tensor, axis: int, index: Any, source: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """Applies ``scatter_reduce`` to whole slices: source[.., i, ..] at [.., index[i], ..] by prod, mean, amax or amin;
    index (n,), source x's shape with n for the axis.
    """
    how = _how("index_reduce", reduce, _REDUCTIONS[1:])
    if x.dtype == "bool":
        return of_bools(index_reduce, x, axis, index, source, reduce, include_self=include_self)
    at, positions, values = _slices("index_reduce", x, axis, index, source)
    if positions.ndim != 1:
        raise ShapeError(f"index_reduce: index {positions.shape}; expected (n,)")
    column = positions._alias((1,) * at + positions.shape + (1,) * (x.ndim - at - 1))
    return reduce_at(x, expand(column, values.shape), values, at, how, include_self)  # type: ignore[no-any-return]


# -- counting ----------------------------------------------------------------------------------------------------------


def _bincount_cases(rng: np.random.Generator) -> Cases:
    yield (np.array([3, 0, 3, 1]),), {"minlength": 6}
    yield (np.array([3, 0, 3, 1]), rng.uniform(-1, 1, 4)), {}
    yield (np.array([], np.int64),), {"minlength": 2}


@composite(
    domain=compared(_bincount_cases, lambda x, weights=None, minlength=0: np.bincount(x, weights, minlength)),
    forms=METHOD,
)
def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Returns the number of occurrences of 0, 1, ... in x (n,), or the sum of its ``weights``: (max(largest + 1,
    minlength),).

    int64, or the dtype of the weights. Reads the largest element on the host. Raises ValueError for a negative element.
    """
    engine = engine_of("bincount", x, weights)
    if x.ndim != 1 or weights is not None and weights.shape != x.shape:
        shapes = f"x {x.shape}" + ("" if weights is None else f" and weights {weights.shape}")
        raise ShapeError(f"bincount: {shapes}; expected one axis, of the same length")
    if is_floating(x.dtype) or x.dtype == "bool":
        raise DTypeError(f"bincount: expected whole numbers, got {x.dtype}")
    host_read_allowed(engine)
    largest = -1
    if x.size:
        value = cast(Load(0, x.dtype), "int64")
        worst = apply("where", value < 0, np.iinfo(np.int64).max, value)  # one read returns both
        largest = engine.run((reduce("max", worst, (0,)),), (x,), shapes=((1,),))[0].item()
    if largest == np.iinfo(np.int64).max:
        raise ArgumentError("bincount: x has a negative element")
    counted = engine.empty(x.shape, "int64") if weights is None else weights
    if weights is None:
        engine.fill(counted, 1)
    return index_select_grad(counted, x, 0, (max(largest + 1, minlength),))  # type: ignore[no-any-return]

"""Reductions over any axes, and the ops built on them: one expression each, regardless of the number of passes."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from netcl.core.dtypes import canonical, is_floating
from netcl.core.errors import AxisError, DTypeError
from netcl.core.expr import Const, Expr, Index, apply, reduce, size_of
from netcl.core.expr import cast as cast_expr
from netcl.core.expr import mean as mean_of
from netcl.core.expr.statistics import squared_deviations
from netcl.core.layout import reduced_axes
from netcl.core.ops_table.dispatch import Domain, Space
from netcl.core.process.naming import refuse
from netcl.core.storage.data import TensorData
from netcl.core.tensor import Tensor
from netcl.ops.domains import compared
from netcl.ops.elementwise import maximum, minimum
from netcl.ops.index import take_along_axis
from netcl.ops.ranked import Ranked
from netcl.ops.shape import stack
from netcl.ops.table import METHOD, composite, expression, reduced

Axis = Any

_FURTHEST = 2**31 - 1  # of the positions that an expression's int32 counts


def _cases(rng: np.random.Generator) -> Any:
    for shape, axes in (
        ((7,), (None, 0)),
        ((3, 5), (None, 0, 1, -1)),
        ((2, 3, 4), ((0, 2), (1,), 2)),
        ((), (None,)),
        ((1, 1), (0,)),
    ):
        for axis in axes:
            # Distinct values, so that extrema have no ties and differences stay on one side of them.
            yield (rng.permutation(np.linspace(-1.9, 1.9, int(np.prod(shape)))).reshape(shape),), {"axis": axis}
    yield (rng.uniform(-2, 2, (3, 4)),), {"axis": 1, "keepdims": True}


def _reference(function: Any, **extra: Any) -> Any:
    return lambda x, axis=None, keepdims=False, **kw: function(x, axis=axis, keepdims=keepdims, **extra, **kw)


def _domain(function: Any, **more: Any) -> Domain:
    return Domain(cases=_cases, reference=_reference(function), **more)


def _in_dtype(kind: str, x: Expr, axis: Axis, dtype: Any, space: Space) -> Expr:
    """Returns the reduction of ``x`` converted to ``dtype``, in it; None: its own, int64 for integers and bool."""
    if dtype is None:
        return reduce(kind, x, space.axes(axis))
    wanted = canonical(dtype)
    # Integers are accumulated in int64; cut to their width, the result has the bits of their own arithmetic.
    return cast_expr(reduce(kind, cast_expr(x, wanted), space.axes(axis)), wanted)


def _as_floating(op: str, x: Expr, dtype: Any) -> Expr:
    if dtype is None:
        if not is_floating(x.dtype):
            refuse(f"{op}: expected a floating dtype, got {x.dtype}; write x.float(), or dtype=")
        return x
    wanted = canonical(dtype)
    if not is_floating(wanted):
        raise DTypeError(f"{op}: expected a floating dtype, got {wanted}; convert the result with astype")
    return cast_expr(x, wanted)


@expression(shapes=reduced, amp="float32", domain=_domain(np.sum))
def sum(x: Expr, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None, space: Space) -> Expr:
    """Returns the sum over ``axis`` (int, tuple, or None for all) of x converted to ``dtype``, the dtype of the result;
    None is x's, int64 for integers and bool.
    """
    return _in_dtype("sum", x, axis, dtype, space)


reduce_sum = sum


@expression(shapes=reduced, amp="float32", domain=_domain(np.mean))
def mean(x: Expr, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None, space: Space) -> Expr:
    """Returns the mean over ``axis`` of x converted to the floating ``dtype`` (None: x's, float32 for integers and
    bool). Raises DTypeError for another ``dtype``.
    """
    return mean_of(_as_floating("mean", x, dtype), space.axes(axis))


reduce_mean = mean


@expression(shapes=reduced, amp="float32", domain=_domain(np.prod))
def prod(x: Expr, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None, space: Space) -> Expr:
    """Returns the product over ``axis`` of x converted to ``dtype``, as in ``sum``; its gradient is right for zeros."""
    return _in_dtype("prod", x, axis, dtype, space)


def _extremum(kind: str, x: Expr, axis: Axis, space: Space) -> Expr:
    axes = space.axes(axis)
    shape = space.shapes[0]
    assert shape is not None
    if builtins.any(shape[a] == 0 for a in axes):
        raise AxisError(f"{space.op}: no largest or smallest of no elements, shape {shape}, axis {axis}")
    return reduce(kind, x, axes)


@expression(shapes=reduced, amp="float32", domain=_domain(np.max, second=False), forms=METHOD)
def amax(x: Expr, axis: Axis = None, keepdims: bool = False, *, space: Space) -> Expr:
    """Returns the largest element over ``axis``; NaN wins; ties share the gradient evenly. ShapeError if empty."""
    return _extremum("max", x, axis, space)


@expression(shapes=reduced, amp="float32", domain=_domain(np.min, second=False), forms=METHOD)
def amin(x: Expr, axis: Axis = None, keepdims: bool = False, *, space: Space) -> Expr:
    """Returns the smallest element over ``axis``; NaN wins; ties share the gradient evenly. ShapeError if empty."""
    return _extremum("min", x, axis, space)


def _along(function: Any) -> Domain:
    return compared(
        lambda rng: (case for case in _cases(rng) if isinstance(case[1]["axis"], int)),
        _reference(function),
        second=False,
    )


@expression(shapes=reduced, amp="float32", domain=_along(np.max))
def max_along(x: Expr, axis: int = -1, keepdims: bool = False, *, space: Space) -> Expr:
    """Returns ``max`` along one axis: the first of equal elements gets the gradient."""
    return _extremum("max", x, axis, space)


@expression(shapes=reduced, amp="float32", domain=_along(np.min))
def min_along(x: Expr, axis: int = -1, keepdims: bool = False, *, space: Space) -> Expr:
    """Returns ``min`` along one axis: the first of equal elements gets the gradient."""
    return _extremum("min", x, axis, space)


def _found(values: Any, indices: Any) -> Domain:
    """Returns the cases of ``max`` and ``min``: all elements, or one axis, which gives positions too."""

    def reference(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        extremes = values(x, axis=axis, keepdims=keepdims)
        return extremes if axis is None else (extremes, indices(x, axis=axis, keepdims=keepdims))

    def cases(rng: np.random.Generator) -> Any:
        return (case for case in _cases(rng) if not isinstance(case[1]["axis"], tuple))

    return compared(cases, reference, second=False)


def _extreme(op: str, x: Tensor, axis: Any, keepdims: bool, rows: tuple[Any, Any, Any, Any]) -> Tensor | Ranked:
    over_all, along, position, of_two = rows
    if axis is None:
        value: Tensor = over_all(x, keepdims=keepdims)
        return value
    if isinstance(axis, TensorData):
        larger: Tensor = of_two(x, axis)
        return larger
    if not isinstance(axis, (int, np.integer)):
        raise TypeError(f"{op}: axis is one int, for values and indices; write a{op}() for the values over {axis}")
    return Ranked(along(x, axis=axis, keepdims=keepdims), position(x, axis=axis, keepdims=keepdims))


@composite(amp="float32", domain=_found(np.max, np.argmax), forms=METHOD)
def max(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor | Ranked:
    """Returns the largest element; along an ``axis`` the largest elements and their positions, int64, as ``values`` and
    ``indices``; with a tensor in place of an axis, the larger of two elements each, as ``maximum``.

    NaN wins. Along an axis the first of equal elements is taken and gets the gradient; over all elements they share it.
    For values alone write ``amax``. Raises ShapeError for no elements.
    """
    return _extreme("max", x, axis, keepdims, (amax, max_along, argmax, maximum))


@composite(amp="float32", domain=_found(np.min, np.argmin), forms=METHOD)
def min(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor | Ranked:
    """Returns the smallest element, or along an ``axis`` values and positions; NaN wins; all else as in ``max``."""
    return _extreme("min", x, axis, keepdims, (amin, min_along, argmin, minimum))


def _truth(x: Expr) -> Expr:
    """Returns 1 or 0, in a dtype with an infinite extremum of nothing."""
    return cast_expr(cast_expr(x, "bool"), "float32")


@expression(shapes=reduced, domain=_domain(np.any, gradient=False), forms=METHOD)
def any(x: Expr, axis: Axis = None, keepdims: bool = False, *, space: Space) -> Expr:
    """True if any element over ``axis`` is nonzero; False for no elements."""
    return reduce("max", _truth(x), space.axes(axis)) > 0.0


@expression(shapes=reduced, domain=_domain(np.all, gradient=False), forms=METHOD)
def all(x: Expr, axis: Axis = None, keepdims: bool = False, *, space: Space) -> Expr:
    """True if every element over ``axis`` is nonzero; True for no elements."""
    return reduce("min", _truth(x), space.axes(axis)) > 0.0


@expression(shapes=reduced, domain=_domain(np.count_nonzero, gradient=False), forms=METHOD)
def count_nonzero(x: Expr, axis: Axis = None, keepdims: bool = False, *, space: Space) -> Expr:
    """Returns the number of nonzero elements over ``axis``, int64."""
    return reduce("sum", cast_expr(x, "bool"), space.axes(axis))


def _variance(x: Expr, axis: Axis, correction: float, space: Space) -> Expr:
    if isinstance(axis, bool):
        raise TypeError(f"{space.op}: {axis} is no axis; write unbiased={axis}")
    axes = space.axes(axis)
    correction = 1 if correction is None else correction
    if not is_floating(x.dtype):
        refuse(f"{space.op}: expected a floating dtype, got {x.dtype}; write x.float()")
    value = x if is_floating(x.dtype) else cast_expr(x, "float32")
    total, count = squared_deviations(value, axes)[1], size_of(axes, value.dtype)
    # Of no elements it is NaN, whatever the divisor; one below zero counts as zero.
    return apply("where", count > 0.0, total, float("nan")) / apply("maximum", count - float(correction), 0.0)


def safe_root(total: Expr) -> Expr:
    """Returns sqrt(total), with gradient 0 at total 0, as in PyTorch's norms and deviations."""
    zero = apply("eq", total, 0.0)
    return apply("where", zero, 0.0, apply("sqrt", apply("where", zero, 1.0, total)))


def _spread(function: Any) -> Domain:
    def reference(x: Any, axis: Any = None, correction: Any = 1, keepdims: bool = False) -> Any:
        return function(x, axis=axis, ddof=correction, keepdims=keepdims)

    def cases(rng: np.random.Generator) -> Any:
        yield from (case for case in _cases(rng) if case[0][0].size > 1)
        yield (rng.uniform(-2, 2, (3, 4)),), {"axis": 1, "correction": 0}

    return compared(cases, reference)


@expression(shapes=reduced, amp="float32", domain=_spread(np.var), forms=METHOD)
def var(x: Expr, axis: Axis = None, correction: Any = 1, keepdims: bool = False, *, space: Space) -> Expr:
    """Returns the variance over ``axis`` with divisor n - correction, from deviations from the mean.

    ``unbiased=False`` and ``ddof=0`` are other names of ``correction=0``; a correction of None is 1.
    """
    return _variance(x, axis, correction, space)


@expression(shapes=reduced, amp="float32", domain=_spread(np.std), forms=METHOD)
def std(x: Expr, axis: Axis = None, correction: Any = 1, keepdims: bool = False, *, space: Space) -> Expr:
    """Returns the standard deviation over ``axis`` with divisor n - correction, as in ``var``."""
    return safe_root(_variance(x, axis, correction, space))


def _two_moments(function: Any) -> Domain:
    spread = _spread(function)

    def reference(x: Any, axis: Any = None, correction: Any = 1, keepdims: bool = False) -> Any:
        return spread.reference(x, axis, correction, keepdims), np.mean(x, axis=axis, keepdims=keepdims)  # type: ignore[misc]

    return compared(spread.cases, reference)


@composite(amp="float32", domain=_two_moments(np.var))
def var_mean(x: Tensor, axis: Any = None, correction: Any = 1, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """Returns ``var`` and ``mean`` over ``axis``."""
    reduced_axes(axis, x.ndim, "var_mean")
    return var(x, axis, correction, keepdims), mean(x, axis, keepdims)


@composite(amp="float32", domain=_two_moments(np.std))
def std_mean(x: Tensor, axis: Any = None, correction: Any = 1, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """Returns ``std`` and ``mean`` over ``axis``."""
    reduced_axes(axis, x.ndim, "std_mean")
    return std(x, axis, correction, keepdims), mean(x, axis, keepdims)


def _norm_cases(rng: np.random.Generator) -> Any:
    yield from _cases(rng)
    for p in (1, 3, 0.5, -1, float("inf"), -float("inf")):
        yield (rng.permutation(np.linspace(-1.9, 2, 20)).reshape(4, 5),), {"p": p, "axis": 1}


def _norm_reference(x: Any, p: float = 2, axis: Any = None, keepdims: bool = False) -> Any:
    if np.isinf(p):
        return (np.max if p > 0 else np.min)(np.abs(x), axis=axis, keepdims=keepdims)
    return np.sum(np.abs(x) ** p, axis=axis, keepdims=keepdims) ** (1 / p)


@expression(shapes=reduced, amp="float32", domain=compared(_norm_cases, _norm_reference))
def norm(x: Expr, p: Any = 2, axis: Axis = None, keepdims: bool = False, *, space: Space) -> Expr:
    """Returns the p-norm over ``axis``, (sum |x|^p)^(1/p); p 0 counts the nonzero elements, inf and -inf are the
    extremes of |x|.

    Its gradient at 0 is 0. Raises ShapeError for the extremes of no elements.
    """
    if not is_floating(x.dtype):
        refuse(f"norm: expected a floating dtype, got {x.dtype}; write x.float()")
    return p_norm(x if is_floating(x.dtype) else cast_expr(x, "float32"), p, axis, space)


def p_norm(x: Expr, p: float, axis: Axis, space: Space) -> Expr:
    """Returns the p-norm of a floating expression over ``axis``, as in ``norm``."""
    axes, size = space.axes(axis), apply("abs", x)
    if p == 2:
        return safe_root(reduce("sum", x * x, axes))
    if p in (float("inf"), -float("inf")):
        return _extremum("max" if p > 0 else "min", size, axis, space)
    if p == 0:
        return reduce("sum", cast_expr(apply("ne", x, 0.0), x.dtype), axes)
    if p == 1:
        return reduce("sum", size, axes)
    if p < 0:  # 0 if an element is 0: no derivative there
        zero = apply("eq", x, 0.0)
        total = reduce("sum", apply("where", zero, float("inf"), apply("where", zero, 1.0, size) ** p), axes)
        return total ** (1.0 / p)
    # Powers below 1 have no derivative at 0, nor does the root of an empty sum.
    zero = apply("eq", x, 0.0)
    total = reduce("sum", apply("where", zero, 0.0, apply("where", zero, 1.0, size) ** p), axes)
    none = apply("eq", total, 0.0)
    return apply("where", none, 0.0, apply("where", none, 1.0, total) ** (1.0 / p))


def _position(kind: str, x: Expr, axis: int | None, space: Space) -> Expr:
    at = space.axis(axis if axis is not None else 0)
    best = _extremum(kind, x, at, space)
    # NaN is the extremum if there is one; it equals nothing, not even itself.
    hit = apply("eq", x, best) | apply("ne", x, x) if is_floating(x.dtype) else apply("eq", x, best)
    first = reduce("min", apply("where", hit, Index(at), Const(2**31 - 1, "int32")), at)
    return cast_expr(first, "int64")


def _arg_cases(rng: np.random.Generator) -> Any:
    for case, attributes in _cases(rng):
        if isinstance(attributes["axis"], int) or attributes["axis"] is None:
            yield case, attributes


def _positions_along(function: Any) -> Domain:
    return compared(
        lambda rng: (c for c in _arg_cases(rng) if c[1]["axis"] is not None),
        lambda x, axis, keepdims=False: function(x, axis, keepdims=keepdims),
        gradient=False,
    )


@expression(
    shapes=reduced,
    name="argmax_along",
    domain=_positions_along(np.argmax),
)
def argmax_along(x: Expr, axis: int = -1, keepdims: bool = False, *, space: Space) -> Expr:
    """Returns the position of the first largest element along one axis, int64; NaN counts as largest."""
    return _position("max", x, axis, space)


@expression(
    shapes=reduced,
    name="argmin_along",
    domain=_positions_along(np.argmin),
)
def argmin_along(x: Expr, axis: int = -1, keepdims: bool = False, *, space: Space) -> Expr:
    """Returns the position of the first smallest element along one axis, int64; NaN counts as smallest."""
    return _position("min", x, axis, space)


def _whole(op: str, x: Tensor, axis: int | None, keepdims: bool, along: Any, extremum: Any) -> Tensor:
    if reduced_axes(axis, x.ndim, op) and axis is not None:
        if x.shape[axis] > _FURTHEST:
            return _of_parts(x, axis, keepdims, along, extremum)
        return along(x, axis=axis, keepdims=keepdims)  # type: ignore[no-any-return]
    flat = _whole(op, x.reshape(-1), 0, False, along, extremum)
    return flat.reshape((1,) * x.ndim) if keepdims else flat


def _of_parts(x: Tensor, axis: int, keepdims: bool, along: Any, extremum: Any) -> Tensor:
    """Returns the position of an extremum of an axis too long for one program: that of the first part with it."""
    size, at, best = x.shape[axis], [], []
    for start in range(0, size, _FURTHEST):
        part = x.narrow(axis, start, builtins.min(_FURTHEST, size - start))
        at.append(along(part, axis=axis, keepdims=keepdims) + start)
        best.append(extremum(part, axis=axis, keepdims=keepdims))
    first = along(stack(best), axis=0, keepdims=True)
    return take_along_axis(stack(at), first, 0)[0]  # type: ignore[no-any-return]


@composite(
    domain=compared(
        _arg_cases, lambda x, axis=None, keepdims=False: np.argmax(x, axis, keepdims=keepdims), gradient=False
    ),
    forms=METHOD,
)
def argmax(x: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Returns the position of the first largest element along ``axis``, or of the flattened tensor for None; int64."""
    return _whole("argmax", x, axis, keepdims, argmax_along, amax)


@composite(
    domain=compared(
        _arg_cases, lambda x, axis=None, keepdims=False: np.argmin(x, axis, keepdims=keepdims), gradient=False
    ),
    forms=METHOD,
)
def argmin(x: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Returns the position of the first smallest element along ``axis``, or of the flattened tensor for None; int64."""
    return _whole("argmin", x, axis, keepdims, argmin_along, amin)


def _lse_reference(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


@expression(shapes=reduced, amp="float32", domain=compared(_cases, _lse_reference), forms=METHOD)
def logsumexp(x: Expr, axis: Axis = None, keepdims: bool = False, *, space: Space) -> Expr:
    """Returns log(sum(exp(x))) over ``axis``, without overflow."""
    axes = space.axes(axis)
    x = x if is_floating(x.dtype) else cast_expr(x, "float32")
    largest = apply("stop_gradient", reduce("max", x, axes))
    finite = apply("where", apply("isfinite", largest), largest, 0.0)
    return apply("log", reduce("sum", apply("exp", x - finite), axes)) + finite


def _softmax_reference(x: Any, axis: int = -1) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _softmax_cases(rng: np.random.Generator) -> Any:
    for shape, axis in (((5,), -1), ((3, 7), -1), ((3, 7), 0), ((2, 3, 4), 1), ((2, 1), -1)):
        yield (rng.uniform(-3, 3, shape),), {"axis": axis}


@expression(amp="float32", domain=compared(_softmax_cases, _softmax_reference))
def softmax(x: Expr, axis: Axis = -1, *, dtype: Any = None, space: Space) -> Expr:
    """Returns exp(x) / sum(exp(x)) over ``axis``, shifted by the maximum so that it cannot overflow, of x converted to
    the floating ``dtype`` (None: its own).
    """
    x, axes = _as_floating("softmax", x, dtype), space.axes(axis)
    weight = apply("exp", x - apply("stop_gradient", reduce("max", x, axes)))
    return weight / reduce("sum", weight, axes)


@expression(amp="float32", domain=compared(_softmax_cases, lambda x, axis=-1: np.log(_softmax_reference(x, axis))))
def log_softmax(x: Expr, axis: Axis = -1, *, dtype: Any = None, space: Space) -> Expr:
    """Returns x - log(sum(exp(x))) over ``axis``, without overflow, of x converted to ``dtype`` as in ``softmax``."""
    x, axes = _as_floating("log_softmax", x, dtype), space.axes(axis)
    centred = x - apply("stop_gradient", reduce("max", x, axes))
    return centred - apply("log", reduce("sum", apply("exp", centred), axes))

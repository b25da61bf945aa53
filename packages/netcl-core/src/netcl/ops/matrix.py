"""Norms, powers, diagonals and vector products of matrices: compositions of the ops of `factorizations` and others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index as as_index
from typing import Any

import numpy as np

from netcl.core.dtypes import canonical, is_floating
from netcl.core.errors import ArgumentError, DTypeError, ShapeError
from netcl.core.layout import broadcast_shapes, normalize_axes
from netcl.core.tensor import Tensor
from netcl.ops.arrange import flip, part
from netcl.ops.domains import compared
from netcl.ops.elementwise import abs as absolute
from netcl.ops.elementwise import add, cast, clone, mul, sub, where
from netcl.ops.factorizations import derived, inv, slogdet, svdvals, transposed, well_conditioned
from netcl.ops.linalg import matmul
from netcl.ops.reduce import amax, amin, norm
from netcl.ops.reduce import sum as sum_of
from netcl.ops.scan import cumprod
from netcl.ops.shape import concatenate, expand, permute, reshape, sampled, view
from netcl.ops.table import METHOD, composite, engine_of, viewed

# -- norms -------------------------------------------------------------------------------------------------------------


def _floating(op: str, x: Tensor, dtype: Any) -> Tensor:
    """Returns ``x`` in ``dtype`` (None: its own); raises DTypeError unless that is floating."""
    wanted = x.dtype if dtype is None else canonical(dtype)
    if not is_floating(x.dtype) or not is_floating(wanted):
        raise DTypeError(f"{op}: expected floating dtypes, got {x.dtype} (dtype={dtype}); convert with astype")
    return x if wanted == x.dtype else cast(x, dtype=wanted)


def _norm_cases(rng: np.random.Generator) -> Any:
    x = rng.permutation(np.linspace(-1.9, 2, 24)).reshape(2, 3, 4)
    for attributes in ({}, {"axis": 1}, {"ord": 1, "axis": (0, 2)}, {"ord": math.inf, "axis": -1, "keepdims": True}):
        yield (x,), attributes
    yield (x,), {"ord": 3.0, "axis": 2}


def _vector_norm(x: Any, ord: float = 2, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    if math.isinf(ord):
        return np.abs(x).max(axis, keepdims=keepdims)
    return (np.abs(x) ** ord).sum(axis, keepdims=keepdims) ** (1 / ord)


@derived("linalg_vector_norm", compared(_norm_cases, _vector_norm, second=False))
def vector_norm(x: Tensor, ord: float = 2, axis: Any = None, keepdims: bool = False, *, dtype: Any = None) -> Tensor:
    """Returns (sum |x|^ord)^(1/ord) over ``axis`` (None: all); ord inf and -inf are the extremes of |x|, 0 counts
    nonzeros.
    """
    return norm(_floating("linalg_vector_norm", x, dtype), ord, axis, keepdims)  # type: ignore[no-any-return]


def _matrix_norm_cases(rng: np.random.Generator) -> Any:
    x = well_conditioned(rng, 2, 3, 4)
    for order in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        yield (x,), {"ord": order}
    yield (x,), {"ord": 1, "axis": (2, 0), "keepdims": True}
    yield (x,), {"ord": 2, "axis": (0, 1), "keepdims": True}


def _matrix_norm(x: Any, ord: Any = "fro", axis: Any = (-2, -1), keepdims: bool = False) -> Any:
    return np.linalg.norm(x, ord, axis, keepdims)


@derived("linalg_matrix_norm", compared(_matrix_norm_cases, _matrix_norm, second=False))
def matrix_norm(
    x: Tensor, ord: Any = "fro", axis: Sequence[int] = (-2, -1), keepdims: bool = False, *, dtype: Any = None
) -> Tensor:
    """Returns the norm of the matrices on the two axes ``axis``.

    ``ord``: "fro" (root of the sum of squares), "nuc" (sum of the singular values), 2 and -2 (largest and smallest
    singular value), 1 and -1 (largest and smallest column sum of |x|), inf and -inf (row sums). Raises ValueError for
    another order.
    """
    op = "linalg_matrix_norm"
    x = _floating(op, x, dtype)
    if isinstance(axis, (int, np.integer)) or len(tuple(axis)) != 2:
        raise ShapeError(f"{op}: axis {axis} names two axes", parameter="axis")
    rows, columns = (normalize_axes(a, x.ndim, op)[0] for a in axis)
    if rows == columns:
        raise ShapeError(f"{op}: axis {axis} names one axis twice in shape {x.shape}", parameter="axis")
    if ord == "fro":
        return norm(x, 2, (rows, columns), keepdims)  # type: ignore[no-any-return]
    if ord in ("nuc", 2, -2):
        others = [a for a in range(x.ndim) if a not in (rows, columns)]
        values = svdvals(permute(x, [*others, rows, columns]))
        norms = sum_of(values, -1) if ord == "nuc" else (amax if ord == 2 else amin)(values, -1)
        if keepdims:
            norms = reshape(norms, tuple(1 if a in (rows, columns) else n for a, n in enumerate(x.shape)))
        return norms  # type: ignore[no-any-return]
    if isinstance(ord, str) or ord not in (1, -1, math.inf, -math.inf):
        raise ArgumentError(f"{op}: expected ord 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got {ord!r}")
    along, across = (rows, columns) if ord in (1, -1) else (columns, rows)
    sums = sum_of(absolute(x), along, keepdims=True)
    norms = (amax if ord > 0 else amin)(sums, across, keepdims=True)
    if keepdims:
        return norms  # type: ignore[no-any-return]
    return reshape(norms, tuple(n for a, n in enumerate(x.shape) if a not in (rows, columns)))  # type: ignore[no-any-return]


@derived(
    "linalg_norm",
    compared(
        lambda rng: iter(
            [
                ((well_conditioned(rng, 3, 4),), {}),
                ((well_conditioned(rng, 3, 4),), {"ord": "nuc"}),
                ((well_conditioned(rng, 3, 4),), {"ord": 1, "axis": 0}),
            ]
        ),
        lambda x, ord=None, axis=None, keepdims=False: np.linalg.norm(x, ord, axis, keepdims),
        second=False,
    ),
)
def matrix_or_vector_norm(
    x: Tensor, ord: Any = None, axis: Any = None, keepdims: bool = False, *, dtype: Any = None
) -> Tensor:
    """Returns ``vector_norm`` or ``matrix_norm``: without ``ord`` the 2-norm of all elements of ``axis``; else of the
    vectors on one axis or of the matrices on two (None: of x, which then has one or two axes).
    """
    if ord is None:
        return vector_norm(x, 2, axis, keepdims, dtype=dtype)  # type: ignore[no-any-return]
    axes = None if axis is None else (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    if axes is None and x.ndim not in (1, 2) or axes is not None and len(axes) not in (1, 2):
        raise ShapeError(
            f"linalg_norm: with ord {ord!r}, expected one or two axes, got axis {axis} of shape {x.shape}",
            parameter="axis",
        )
    if len(axes if axes is not None else x.shape) == 2:
        return matrix_norm(x, ord, (-2, -1) if axes is None else axes, keepdims, dtype=dtype)  # type: ignore[no-any-return]
    if isinstance(ord, str):
        raise ArgumentError(f"linalg_norm: ord {ord!r} is a norm of matrices; axis {axis} of {x.shape} has vectors")
    return vector_norm(x, ord, axis, keepdims, dtype=dtype)  # type: ignore[no-any-return]


# -- powers, determinants ----------------------------------------------------------------------------------------------


def _power_cases(rng: np.random.Generator) -> Any:
    for n in (0, 1, 2, 5, -2):
        yield (well_conditioned(rng, 2, 3, 3) / 2,), {"n": n}


@derived(
    "linalg_matrix_power",
    compared(
        lambda rng: (case for case in _power_cases(rng) if case[1]["n"] != 0), lambda x, n: np.linalg.matrix_power(x, n)
    ),
    "x.matrix_power",
)
def matrix_power(x: Tensor, n: int) -> Tensor:
    """Returns x (..., k, k) to a power: x^n by repeated squaring, the identity for 0, of the inverse if n < 0."""
    op = "linalg_matrix_power"
    engine_of(op, x)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{op}: expected a matrix or a stack of them, (..., n, n), got shape {x.shape}")
    exponent = as_index(n)
    if exponent < 0:
        x, exponent = inv(x), -exponent
    if exponent == 0:
        identity = x.engine.tensor(np.eye(x.shape[-1]), x.dtype)
        return where(False, x, expand(identity, x.shape))  # type: ignore[no-any-return]
    result = None
    while exponent:
        if exponent & 1:
            result = x if result is None else matmul(result, x)
        exponent >>= 1
        if exponent:
            x = matmul(x, x)
    return result  # type: ignore[return-value]


def _exponential(x: Any) -> Any:
    squarings = max(0, math.ceil(math.log2(np.abs(x).sum(-1).max())) + 1)
    result = np.eye(x.shape[-1])
    for k in range(24, 0, -1):
        result = np.eye(x.shape[-1]) + x / 2.0**squarings @ result / k
    for _ in range(squarings):
        result = result @ result
    return result


@composite(
    amp="float32",
    domain=compared(
        lambda rng: iter([((rng.uniform(-1, 1, shape),), {}) for shape in ((3, 3), (2, 2, 2), (1, 1))]),
        _exponential,
        second=False,
    ),
    forms=METHOD,
)
def matrix_exp(x: Tensor) -> Tensor:
    """Returns the exponential of matrices by scaling, 18 terms of its series, and squaring; halves in float32."""
    engine_of("matrix_exp", x)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"matrix_exp: expected square matrices, got shape {x.shape}")
    if x.size == 0:
        return clone(x)  # type: ignore[no-any-return]
    if x.dtype in ("float16", "bfloat16"):
        return cast(matrix_exp(cast(x, dtype="float32")), dtype=x.dtype)  # type: ignore[no-any-return]
    largest = float(np.abs(x.to_host().astype(np.float64)).sum(-1).max())
    squarings = max(0, math.ceil(math.log2(largest)) + 1) if largest > 0 and math.isfinite(largest) else 0
    scaled = mul(x, 2.0**-squarings)
    identity = x.engine.tensor(np.eye(x.shape[-1]), x.dtype)
    result = add(identity, mul(scaled, 1 / 18))
    for k in range(17, 0, -1):
        result = add(identity, matmul(mul(scaled, 1 / k), result))
    for _ in range(squarings):
        result = matmul(result, result)
    return result  # type: ignore[no-any-return]


@derived(
    "logdet",
    compared(lambda rng: iter([((well_conditioned(rng, 2, 3, 3),), {})]), lambda x: np.linalg.slogdet(x)[1]),
    METHOD,
)
def logdet(x: Tensor) -> Tensor:
    """Returns the logarithm of the determinant of x (..., n, n): NaN if that is negative, -inf if it is zero."""
    sign, logarithm = slogdet(x)
    return where(sign < 0, float("nan"), logarithm)  # type: ignore[no-any-return]


@derived(
    "linalg_vander",
    compared(
        lambda rng: iter(
            [((rng.uniform(-2, 2, shape),), n) for shape, n in (((4,), {}), ((2, 3), {"N": 5}), ((3,), {"N": 1}))]
        ),
        lambda x, N=None: x[..., None] ** np.arange(x.shape[-1] if N is None else N),
        second=False,
    ),
)
def vandermonde(x: Tensor, *, N: int | None = None) -> Tensor:
    """Returns the powers 0 to N - 1 of each element, in a new last axis: (..., n) gives (..., n, N); N is n by default.
    A 0-d tensor is a vector of one element. Raises ShapeError for a negative N.
    """
    op = "linalg_vander"
    engine_of(op, x)
    if N is not None and as_index(N) < 0:
        raise ShapeError(f"{op}: expected N from 0, got {N}")
    if not x.ndim:
        x = reshape(x, (1,))
    count = x.shape[-1] if N is None else as_index(N)
    x = cast(x, dtype="int64") if not is_floating(x.dtype) and x.dtype != "int64" else x
    ones = x.engine.tensor(np.ones((*x.shape, 1)), x.dtype)
    if count < 2:
        return part(ones, x.ndim, 0, count)
    powers = cumprod(expand(reshape(x, (*x.shape, 1)), (*x.shape, count - 1)), x.ndim)
    return concatenate(ones, powers, axis=x.ndim)  # type: ignore[no-any-return]


@composite(
    amp="float32",
    domain=compared(
        lambda rng: iter([((rng.uniform(-2, 2, 4),), n) for n in ({}, {"N": 3, "increasing": True}, {"N": 6})]),
        np.vander,
        second=False,
    ),
)
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Returns the powers N - 1 to 0 of a vector's elements as columns (n, N), 0 to N - 1 if ``increasing``; N: n."""
    engine_of("vander", x)
    if x.ndim != 1:
        raise ShapeError(f"vander: expected a vector, got shape {x.shape}; linalg.vander takes stacks")
    powers = vandermonde(x, N=N)
    return powers if increasing else flip(powers, 1)  # type: ignore[no-any-return]


# -- views of matrices -------------------------------------------------------------------------------------------------


@viewed(
    domain=sampled(
        lambda x, offset=0, dim1=0, dim2=1: np.diagonal(x, offset, dim1, dim2),
        ((3, 4), {}),
        ((4, 3), {"offset": -1}),
        ((2, 3, 4), {"offset": 1, "dim1": -2, "dim2": -1}),
        ((2, 3, 4), {"dim1": 2, "dim2": 0}),
        ((2, 2), {"offset": 5}),
    ),
    forms=METHOD,
)
def diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Returns the elements [i, i + offset] of the axes ``dim1`` and ``dim2``, as the last axis of a view."""
    op = "diagonal"
    engine_of(op, x)
    (first,), (second,) = normalize_axes(dim1, x.ndim, op), normalize_axes(dim2, x.ndim, op)
    if first == second:
        raise ShapeError(f"{op}: dim1 {dim1} and dim2 {dim2} are one axis of shape {x.shape}")
    return view(x, "diagonal", as_index(offset), first, second)


@composite(
    name="linalg_diagonal",
    domain=sampled(
        lambda x, offset=0, dim1=-2, dim2=-1: np.diagonal(x, offset, dim1, dim2), ((2, 3, 4), {"offset": 1})
    ),
)
def matrix_diagonal(x: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Returns ``diagonal`` of the last two axes."""
    return diagonal(x, offset, dim1, dim2)  # type: ignore[no-any-return]


@composite(name="matrix_transpose", domain=sampled(transposed, ((2, 3, 4), {}), ((3, 4), {})))
def matrix_transpose(x: Tensor) -> Tensor:
    """Returns the last two axes swapped. Raises ShapeError for fewer than two."""
    if x.ndim < 2:
        raise ShapeError(f"matrix_transpose: expected a matrix or a stack of them, got shape {x.shape}")
    return permute(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])  # type: ignore[no-any-return]


# -- products of vectors -----------------------------------------------------------------------------------------------


def _pairs(*pairs: tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]) -> Any:
    def cases(rng: np.random.Generator) -> Any:
        for first, second, attributes in pairs:
            yield (rng.uniform(-1, 1, first), rng.uniform(-1, 1, second)), attributes

    return cases


@composite(
    name="linalg_cross",
    domain=compared(
        _pairs(((3,), (3,), {}), ((2, 3), (3,), {}), ((3, 4), (3, 4), {"axis": 0})),
        lambda a, b, axis=-1: (
            np.cross(a, b, axis=axis) if a.ndim == b.ndim else np.cross(a, np.broadcast_to(b, a.shape), axis=axis)
        ),
    ),
)
def cross(a: Tensor, b: Tensor, *, axis: int = -1) -> Tensor:
    """Returns the vector products of a and b, which broadcast, along ``axis`` of length 3."""
    op = "linalg_cross"
    engine_of(op, a, b)
    if a.ndim != b.ndim and axis >= 0:
        raise ShapeError(f"{op}: shapes {a.shape} and {b.shape} have as many axes, or axis is negative")
    shape = broadcast_shapes((a.shape, b.shape), op)
    (at,) = normalize_axes(axis, len(shape), op)
    if (a.shape[at - len(shape)], b.shape[at - len(shape)]) != (3, 3):
        raise ShapeError(f"{op}: expected length 3 of axis {axis}, got shapes {a.shape} and {b.shape}")
    a, b = (x if x.shape == shape else expand(x, shape) for x in (a, b))

    def turned(x: Tensor, by: int) -> Tensor:
        return concatenate(part(x, at, by, 3 - by), part(x, at, 0, by), axis=at)  # type: ignore[no-any-return]

    return sub(mul(turned(a, 1), turned(b, 2)), mul(turned(a, 2), turned(b, 1)))  # type: ignore[no-any-return]


@composite(
    name="linalg_vecdot",
    domain=compared(
        _pairs(((5,), (5,), {}), ((2, 3), (3,), {}), ((3, 4), (3, 4), {"axis": 0})),
        lambda a, b, axis=-1: (a * b).sum(axis),
    ),
)
def vecdot(a: Tensor, b: Tensor, *, axis: int = -1) -> Tensor:
    """Returns the inner products of a and b, which broadcast, along ``axis``; integers are summed in int64."""
    engine_of("linalg_vecdot", a, b)
    return sum_of(mul(a, b), axis)  # type: ignore[no-any-return]

"""Products, distances, statistics and integrals, over matmul, elementwise rows and reductions."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

import netcl.ops as ops
from netcl.core.dtypes import is_floating
from netcl.core.errors import DTypeError, ShapeError
from netcl.core.layout import aligned, normalize_axes
from netcl.core.process.user_frame import level_outside
from netcl.core.tensor import Tensor

AMP = {
    **dict.fromkeys(("addmm", "baddbmm", "bilinear", "bmm", "dot", "kron", "mm", "mv", "outer", "tensordot"), "half"),
    **dict.fromkeys(("cdist", "corrcoef", "cov", "cumulative_trapezoid", "matrix_exp", "pairwise_distance"), "float32"),
    **dict.fromkeys(("pdist", "renorm", "std_mean", "trapezoid", "vander", "var_mean"), "float32"),
}


def _ranks(op: str, text: str, *pairs: tuple[Tensor, int]) -> None:
    if any(x.ndim != rank for x, rank in pairs):
        shapes = " and ".join(str(x.shape) for x, _ in pairs)
        raise ShapeError(f"{op}: needs {text}, not shapes {shapes}; matmul takes stacks")


def addcmul(x: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Any:
    """x + value tensor1 tensor2, broadcast. Integers stay integers, if ``value`` is one; else raises DTypeError."""
    if not any(is_floating(one.dtype) for one in (x, tensor1, tensor2)):
        if value != int(value):
            raise DTypeError(f"addcmul: value {value} for integers; convert with astype")
        value = int(value)
    return ops.add(x, ops.mul(ops.mul(tensor1, tensor2), value))


def addcdiv(x: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Any:
    """x + value tensor1 / tensor2, broadcast. Raises DTypeError for integers to be divided."""
    if not is_floating(tensor1.dtype) and not is_floating(tensor2.dtype):
        raise DTypeError("addcdiv does not divide integers; convert with astype, or use floor_divide", op="addcdiv")
    return ops.add(x, ops.mul(ops.div(tensor1, tensor2), float(value)))


def bias_add(x: Tensor, bias: Tensor, axis: int | None = None) -> Any:
    """x plus a vector along ``axis`` (default: 1 for images of rank 4 and 5, else the last)."""
    (at,) = normalize_axes((1 if x.ndim in (4, 5) else -1) if axis is None else axis, x.ndim, "bias_add")
    return ops.add(x, ops.reshape(bias, (-1,) + (1,) * (x.ndim - at - 1)))


def glu(x: Tensor, axis: int = -1) -> Any:
    """a * sigmoid(b), with a and b the halves of x along ``axis``."""
    (at,) = normalize_axes(axis, x.ndim, "glu")
    if x.shape[at] % 2:
        raise ShapeError(f"glu: axis {at} of shape {x.shape} has no two halves", parameter="axis")
    a, b = ops.chunk(x, 2, at)
    return ops.mul(a, ops.sigmoid(b))


def bmm(a: Tensor, b: Tensor) -> Any:
    """The products of two stacks of matrices, (B, M, K) and (B, K, N)."""
    _ranks("bmm", "shapes (B, M, K) and (B, K, N)", (a, 3), (b, 3))
    if a.shape[0] != b.shape[0]:
        raise ShapeError(f"bmm: needs shapes (B, M, K) and (B, K, N), not {a.shape} and {b.shape}")
    return ops.matmul(a, b)


def mm(a: Tensor, b: Tensor) -> Any:
    """The product of two matrices, (M, K) and (K, N)."""
    _ranks("mm", "shapes (M, K) and (K, N)", (a, 2), (b, 2))
    return ops.matmul(a, b)


def mv(a: Tensor, b: Tensor) -> Any:
    """The product of a matrix (M, K) and a vector (K,)."""
    _ranks("mv", "shapes (M, K) and (K,)", (a, 2), (b, 1))
    return ops.matmul(a, b)


def outer(a: Tensor, b: Tensor) -> Any:
    """The products of all pairs of two vectors: (n,) and (m,) give (n, m)."""
    _ranks("outer", "two vectors", (a, 1), (b, 1))
    return ops.mul(ops.reshape(a, (a.shape[0], 1)), b)


def dot(a: Tensor, b: Tensor) -> Any:
    """The inner product of two vectors (0-d), or the product of matrices."""
    if a.ndim > 2 or b.ndim > 2:
        raise ShapeError(f"dot: needs vectors or matrices, not {a.shape} and {b.shape}; matmul takes stacks")
    return ops.matmul(a, b)


def trace(x: Tensor, diagonal: int = 0) -> Any:
    """The sum of a matrix's diagonal."""
    if x.ndim != 2:
        raise ShapeError(f"trace: needs a matrix, not shape {x.shape}")
    return ops.sum(ops.diag(x, diagonal))


def _added(op: str, rank: int, x: Tensor, a: Tensor, b: Tensor, beta: float, alpha: float) -> Any:
    _ranks(op, "matrices" if rank == 2 else "stacks of matrices", (a, rank), (b, rank))
    product: Any = ops.matmul(a, b)
    if x.ndim > rank or any(size not in (1, full) for size, full in zip(x.shape[::-1], product.shape[::-1])):
        raise ShapeError(f"{op}: x {x.shape} does not broadcast to {product.shape}")
    if alpha != 1:
        product = ops.mul(product, alpha)
    if beta == 0:
        return product
    return ops.add(x if beta == 1 else ops.mul(x, beta), product)


def addmm(x: Tensor, a: Tensor, b: Tensor, beta: float = 1.0, alpha: float = 1.0) -> Any:
    """beta x + alpha a @ b for matrices a (M, K) and b (K, N); x broadcasts to (M, N), and is ignored at beta 0."""
    return _added("addmm", 2, x, a, b, beta, alpha)


def baddbmm(x: Tensor, a: Tensor, b: Tensor, beta: float = 1.0, alpha: float = 1.0) -> Any:
    """beta x + alpha a @ b for stacks a (B, M, K) and b (B, K, N), as in ``addmm``."""
    return _added("baddbmm", 3, x, a, b, beta, alpha)


def tensordot(a: Tensor, b: Tensor, axes: Any = 2) -> Any:
    """The sum of products over axes of both: the last ``axes`` of a with the first of b, or the axes of a and of b that
    ``axes`` names in two lists.
    """
    if isinstance(axes, int):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise ShapeError(f"tensordot: axes {axes} for shapes {a.shape} and {b.shape}")
        axes = (range(a.ndim - axes, a.ndim), range(axes))
    of_a, of_b = (
        [normalize_axes(axis, x.ndim, "tensordot")[0] for axis in ([each] if isinstance(each, int) else each)]
        for x, each in zip((a, b), axes)
    )
    if [a.shape[axis] for axis in of_a] != [b.shape[axis] for axis in of_b]:
        raise ShapeError(f"tensordot: axes {of_a} of {a.shape} and {of_b} of {b.shape} differ")
    free_a = [axis for axis in range(a.ndim) if axis not in of_a]
    free_b = [axis for axis in range(b.ndim) if axis not in of_b]
    inner = math.prod(a.shape[axis] for axis in of_a)
    left = ops.reshape(ops.permute(a, [*free_a, *of_a]), (math.prod(a.shape[axis] for axis in free_a), inner))
    right = ops.reshape(ops.permute(b, [*of_b, *free_b]), (inner, math.prod(b.shape[axis] for axis in free_b)))
    shape = [*(a.shape[axis] for axis in free_a), *(b.shape[axis] for axis in free_b)]
    return ops.reshape(ops.matmul(left, right), shape)


def kron(a: Tensor, b: Tensor) -> Any:
    """The Kronecker product: every element of a times all of b, (a0, a1) and (b0, b1) give (a0 b0, a1 b1)."""
    rank = max(a.ndim, b.ndim)
    wide, narrow = aligned(a.shape, rank), aligned(b.shape, rank)
    left = ops.reshape(a, [size for one in wide for size in (one, 1)])
    right = ops.reshape(b, [size for one in narrow for size in (1, one)])
    return ops.reshape(ops.mul(left, right), [m * n for m, n in zip(wide, narrow)])


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """y_k = input1^T W_k input2 + b_k: (..., in1) and (..., in2) with weight (out, in1, in2) give (..., out)."""
    lead, shapes = input1.shape[:-1], (input1.shape, input2.shape, weight.shape)
    if weight.ndim != 3 or shapes[:2] != ((*lead, weight.shape[1]), (*lead, weight.shape[2])):
        raise ShapeError(f"bilinear: shapes {shapes}; expected (..., in1), (..., in2), (out, in1, in2)")
    out, in1, in2 = weight.shape
    rows = math.prod(lead)
    table = ops.reshape(ops.permute(weight, (1, 0, 2)), (in1, out * in2))
    partial = ops.reshape(ops.matmul(ops.reshape(input1, (rows, in1)), table), (rows, out, in2))
    result = ops.reshape(ops.matmul(partial, ops.reshape(input2, (rows, in2, 1))), (*lead, out))
    return result if bias is None else ops.add(result, bias)


def masked_fill(x: Tensor, mask: Tensor, value: Any) -> Any:
    """x with ``value`` (a number or a 0-d tensor) where the mask, which broadcasts to x, is true."""
    if mask.dtype != "bool":
        raise DTypeError(f"masked_fill: the mask is bool, not {mask.dtype}")
    shape = aligned(mask.shape, x.ndim) if mask.ndim <= x.ndim else mask.shape
    if mask.ndim > x.ndim or any(size not in (1, own) for size, own in zip(shape, x.shape)):
        raise ShapeError(f"masked_fill: the mask {mask.shape} does not broadcast to {x.shape}")
    if isinstance(value, Tensor) and value.ndim:
        raise ShapeError(f"masked_fill: value {value.shape}; expected a number or a 0-d tensor")
    return ops.where(mask, value, x)


def fill(x: Tensor, value: Any) -> Any:
    """A tensor like x with every element ``value``, a number or a 0-d tensor, in x's dtype; the gradient of x is 0."""
    if isinstance(value, Tensor):
        if value.ndim:
            raise ShapeError(f"fill: value {value.shape}; expected a number or a 0-d tensor")
        value = ops.cast(value, dtype=x.dtype)
    elif not is_floating(x.dtype):
        value = bool(value) if x.dtype == "bool" else int(value)
    return ops.where(Tensor.from_host(x.queue, np.ones((), bool), "bool"), value, x)


def var_mean(x: Tensor, axis: Any = None, correction: Any = 1, keepdims: bool = False) -> Any:
    """``var`` and ``mean`` over ``axis``."""
    return ops.var(x, axis, correction, keepdims), ops.mean(x, axis, keepdims)


def std_mean(x: Tensor, axis: Any = None, correction: Any = 1, keepdims: bool = False) -> Any:
    """``std`` and ``mean`` over ``axis``."""
    return ops.std(x, axis, correction, keepdims), ops.mean(x, axis, keepdims)


def _norm_of_difference(a: Any, b: Any, p: float, eps: float = 0.0, keepdims: bool = False) -> Any:
    difference = ops.sub(a, b)
    return ops.norm(ops.add(difference, eps) if eps else difference, p, -1, keepdims)


def cdist(a: Tensor, b: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Any:
    """The p-norms of the differences of all pairs of rows: a (..., P, M) and b (..., R, M) give (..., P, R), computed
    without the expansion of the square for each ``compute_mode``.
    """
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-1]:
        raise ShapeError(f"cdist: needs shapes (..., P, M) and (..., R, M), not {a.shape} and {b.shape}")
    return _norm_of_difference(ops.unsqueeze(a, -2), ops.unsqueeze(b, -3), float(p))


def pdist(x: Tensor, p: float = 2.0) -> Any:
    """The p-norms of the differences of all pairs of rows i < j of x (N, M), row by row: (N (N - 1) / 2,)."""
    if x.ndim != 2:
        raise ShapeError(f"pdist: needs shape (N, M), not {x.shape}")
    first, second = np.triu_indices(x.shape[0], 1)
    return _norm_of_difference(ops.index_select(x, 0, first), ops.index_select(x, 0, second), float(p))


def pairwise_distance(a: Tensor, b: Tensor, p: float = 2.0, eps: float = 1e-06, keepdims: bool = False) -> Any:
    """The p-norm of a - b + eps over the last axis, broadcast."""
    return _norm_of_difference(a, b, float(p), float(eps), keepdims)


def _areas(op: str, y: Tensor, x: Tensor | None, dx: float, axis: int) -> tuple[Any, int]:
    (at,) = normalize_axes(axis, y.ndim, op)
    values: Any = y if is_floating(y.dtype) else ops.cast(y, dtype="float32")
    length = max(y.shape[at] - 1, 0)
    sums = ops.add(ops.narrow(values, at, min(1, y.shape[at]), length), ops.narrow(values, at, 0, length))
    if x is None:
        return ops.mul(sums, dx / 2), at
    places: Any = ops.reshape(x, (-1,) + (1,) * (y.ndim - at - 1)) if x.ndim == 1 else x
    along = at - y.ndim
    steps = ops.diff(places if is_floating(places.dtype) else ops.cast(places, dtype=values.dtype), 1, along)
    return ops.mul(ops.mul(sums, steps), 0.5), at


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1, axis: int = -1) -> Any:
    """The integral of y along ``axis`` by the trapezoidal rule, for samples at x or at the distance ``dx``."""
    areas, at = _areas("trapezoid", y, x, dx, axis)
    return ops.sum(areas, at)


def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1, axis: int = -1) -> Any:
    """The integrals of y along ``axis`` from its first sample to each other one, as in ``trapezoid``."""
    areas, at = _areas("cumulative_trapezoid", y, x, dx, axis)
    return ops.cumsum(areas, at)


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Any:
    """The powers N - 1 to 0 of each element of a vector as the columns of a matrix (n, N), or 0 to N - 1."""
    if x.ndim != 1:
        raise ShapeError(f"vander: needs a vector, not shape {x.shape}")
    count = x.shape[0] if N is None else N
    ones: Any = ops.where(ops.isnan(x), ops.mul(x, 0) if is_floating(x.dtype) else 1, 1) if count else x
    columns = [ops.cast(ones, dtype=x.dtype)] if count else []
    while len(columns) < count:
        columns.append(ops.mul(columns[-1], x))
    if not count:
        return ops.getitem(ops.reshape(x, (-1, 1)), (slice(None), slice(0, 0)))
    return ops.stack(columns if increasing else columns[::-1], 1)


def matrix_exp(x: Tensor) -> Any:
    """The exponential of a matrix or a stack of them, by scaling, the first 18 terms of its series, and squaring."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"matrix_exp: takes square matrices, not shape {x.shape}")
    if x.size == 0:
        return ops.clone(x)
    largest = float(np.abs(x.numpy().astype(np.float64)).sum(-1).max())
    squarings = max(0, math.ceil(math.log2(largest)) + 1) if 0 < largest < math.inf else 0
    scaled = ops.mul(x, 2.0**-squarings)
    one = Tensor.from_host(x.queue, np.eye(x.shape[-1]), x.dtype)
    result: Any = ops.add(one, ops.mul(scaled, 1 / 18))
    for k in range(17, 0, -1):
        result = ops.add(one, ops.matmul(ops.mul(scaled, 1 / k), result))
    for _ in range(squarings):
        result = ops.matmul(result, result)
    return result


def cov(x: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Any:
    """The covariances of the rows of x (variables, observations): (variables, variables); 0-d for a vector."""
    if x.ndim > 2:
        raise ShapeError(f"cov: needs (variables, observations) or a vector, not shape {x.shape}")
    rows: Any = ops.reshape(x, (1, -1)) if x.ndim < 2 else x
    rows = rows if is_floating(rows.dtype) else ops.cast(rows, dtype="float32")
    for name, one in (("fweights", fweights), ("aweights", aweights)):
        if one is not None and one.shape != rows.shape[1:]:
            raise ShapeError(f"cov: {name} {one.shape} for {rows.shape[1]} observations", parameter=name)
        if one is not None and is_floating(one.dtype) != (name == "aweights"):
            raise DTypeError(f"cov: {name} of {one.dtype}", parameter=name)
    given = [ops.cast(one, dtype=rows.dtype) for one in (fweights, aweights) if one is not None]
    if not given:
        divisor: Any = float(max(rows.shape[1] - correction, 0))
        if divisor == 0:
            warnings.warn(
                f"cov: {rows.shape[1]} observations less correction {correction} leave no divisor",
                stacklevel=level_outside(),
            )
        centred = weighted = ops.sub(rows, ops.mean(rows, 1, keepdims=True))
    else:
        weights: Any = given[0] if len(given) == 1 else ops.mul(given[0], given[1])
        total = ops.sum(weights)
        centred = ops.sub(rows, ops.div(ops.sum(ops.mul(rows, weights), 1, keepdims=True), total))
        weighted = ops.mul(centred, weights)
        share: Any = correction
        if aweights is not None and correction:
            share = ops.mul(ops.div(ops.sum(ops.mul(weights, given[-1])), total), correction)
        divisor = ops.clamp(ops.sub(total, share), min=0.0)
    result = ops.div(ops.matmul(centred, weighted, transpose_b=True), divisor)
    return ops.reshape(result, ()) if x.ndim < 2 else result


def corrcoef(x: Tensor) -> Any:
    """The correlations of the rows of x (variables, observations), in [-1, 1]; 1, 0-d, for a vector."""
    c: Any = ops.cov(x)
    if c.ndim == 0:
        return ops.div(c, c)
    deviations = ops.sqrt(ops.diag(c))
    scaled = ops.div(ops.div(c, ops.reshape(deviations, (-1, 1))), ops.reshape(deviations, (1, -1)))
    return ops.clamp(scaled, min=-1.0, max=1.0)


def renorm(x: Tensor, p: float, axis: int, maxnorm: float) -> Any:
    """x with each slice at one position of ``axis`` scaled to the p-norm ``maxnorm``, if its norm is larger."""
    if not is_floating(x.dtype):
        raise DTypeError(f"renorm: expected floating dtypes, got {x.dtype}; convert with astype")
    if x.ndim < 2 or p <= 0 or maxnorm < 0:
        raise ShapeError(f"renorm: x {x.shape}, p {p}, maxnorm {maxnorm}; p > 0, maxnorm >= 0")
    (at,) = normalize_axes(axis, x.ndim, "renorm")
    norms = ops.norm(x, p, tuple(a for a in range(x.ndim) if a != at), True)
    factor = ops.div(float(maxnorm), ops.add(norms, 1e-7))
    return ops.mul(x, ops.where(ops.gt(norms, float(maxnorm)), factor, 1.0))

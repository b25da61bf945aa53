"""Matrix products: every rank combination of NumPy's matmul, and the ops that reduce to it."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netcl.core.device.capabilities import profile_of
from netcl.core.dtypes import FLOATING, c_type, canonical, is_floating, promote
from netcl.core.engine.epilogue import added
from netcl.core.engine.product import Product
from netcl.core.errors import ArgumentError, ShapeError
from netcl.core.expr import Load, cast, reduce
from netcl.core.layout import aligned, broadcast_shapes, normalize_axes
from netcl.core.ops_table.dispatch import Cases, set_shape
from netcl.core.process.naming import refuse
from netcl.core.tensor import Tensor
from netcl.ops.arrange import diag
from netcl.ops.domains import compared, few
from netcl.ops.elementwise import add, mul
from netcl.ops.elementwise import cast as cast_op
from netcl.ops.reduce import sum as sum_op
from netcl.ops.shape import permute, reshape
from netcl.ops.table import (
    METHOD,
    WRITTEN,
    OpFunction,
    as_dtype,
    composite,
    elementwise,
    engine_of,
    floating,
    multiplied,
)

if TYPE_CHECKING:
    from netcl.core.kernels.primitives import KernelSpec


def _pairs(*shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> Any:
    def cases(rng: np.random.Generator) -> Cases:
        for a, b in shapes:
            yield (rng.uniform(-1, 1, a), rng.uniform(-1, 1, b)), {}

    return cases


def _matmul_cases(rng: np.random.Generator) -> Cases:
    shapes: Any = [
        ((3, 5), (5, 2)),
        ((7,), (7,)),
        ((4,), (4, 3)),
        ((3, 4), (4,)),
        ((2, 3, 5), (5, 4)),
        ((5,), (2, 5, 4)),
        ((2, 1, 3, 5), (4, 5, 2)),
        ((1, 1), (1, 1)),
        ((0, 3), (3, 2)),
        ((2, 0), (0, 3)),
        ((37, 41), (41, 43)),
    ]
    yield from _pairs(*shapes)(rng)
    yield (rng.uniform(-1, 1, (5, 3)), rng.uniform(-1, 1, (2, 4, 5))), {"transpose_a": True, "transpose_b": True}


def _matmul_reference(a: Any, b: Any, tile: int = 16, transpose_a: bool = False, transpose_b: bool = False) -> Any:
    return np.matmul(np.swapaxes(a, -1, -2) if transpose_a else a, np.swapaxes(b, -1, -2) if transpose_b else b)


def _matmul_product(
    a: Tensor, b: Tensor, tile: int = 16, *, transpose_a: bool = False, transpose_b: bool = False
) -> Product | None:
    """Returns the product that a call of ``matmul`` is; None for dtypes that are converted, and without elements."""
    if a.dtype != b.dtype or a.dtype not in FLOATING or 0 in (*a.shape, *b.shape):
        return None
    transpose_a, transpose_b, _, final, matrices = _form(a.shape, b.shape, bool(transpose_a), bool(transpose_b))
    left, right = (shape or x.shape for x, shape in zip((a, b), matrices))
    return Product(left, right, a.dtype, transpose_a, transpose_b, shape=final)


@multiplied(_matmul_product, amp="half", domain=compared(_matmul_cases, _matmul_reference), forms="x.* x.mm x.mv")
def matmul(a: Tensor, b: Tensor, tile: int = 16, *, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """Returns a @ b by NumPy's rules: vectors, matrices, stacks of matrices with leading axes that broadcast; dtypes
    are promoted.

    ``transpose_a`` and ``transpose_b`` swap the last two axes of an operand without a copy (no effect on vectors). Sums
    are accumulated in float32 for the half types, and for integers in int64, with their dtype kept. ``tile`` is the
    edge of a plain kernel's tile, and changes no result beyond rounding. Raises ShapeError, which names the shapes.
    """
    engine_of("matmul", a, b)
    if tile <= 0:
        raise ArgumentError(f"matmul: expected a positive tile, got {tile}")
    transpose_a, transpose_b, inner, final, matrices = _form(a.shape, b.shape, bool(transpose_a), bool(transpose_b))
    dtype = a.dtype if a.dtype == b.dtype else _promoted("matmul", a, b)
    if inner == 0 or 0 in final:
        return a.engine.zeros(final, dtype)  # type: ignore[no-any-return]
    computed_in = dtype if dtype in FLOATING else _exact_float(a, b, math.prod(final), inner)
    if computed_in is None:
        return _whole_matmul(a, b, transpose_a, transpose_b, final, dtype)
    left, right = (x if shape is None else x._alias(shape) for x, shape in zip((a, b), matrices))
    result = a.engine.matmul(
        as_dtype(left, computed_in), as_dtype(right, computed_in), transpose_a=transpose_a, transpose_b=transpose_b
    )
    if computed_in != dtype:
        (result,) = a.engine.run((cast(cast(Load(0, computed_in), "int64"), dtype),), (result,))
    if result.shape != final:
        set_shape(result, final)
    return result


class _Form(NamedTuple):
    """A product by the shapes of its operands: the transposes with an effect, the length of sums, the shape of the
    result, and the shapes of the operands in the product, None for their own.
    """

    transpose_a: bool
    transpose_b: bool
    inner: int
    final: tuple[int, ...]
    matrices: tuple[tuple[int, ...] | None, tuple[int, ...] | None]


@lru_cache(maxsize=4096)
def _form(a: tuple[int, ...], b: tuple[int, ...], transpose_a: bool, transpose_b: bool) -> _Form:
    transpose_a, transpose_b = transpose_a and len(a) > 1, transpose_b and len(b) > 1
    rows, inner = _matrix(a, transpose_a, row=True)
    inner_b, columns = _matrix(b, transpose_b, row=False)
    if not a or not b or inner != inner_b:
        how = "".join(
            f", {name}=True" for name, on in (("transpose_a", transpose_a), ("transpose_b", transpose_b)) if on
        )
        raise ShapeError(
            f"matmul: shapes {a} and {b}{how} do not fit; the last length of the first must equal "
            "the one before the last "
            "of the second"
        )
    batch = broadcast_shapes((a[:-2], b[:-2]), "matmul") if len(a) > 2 or len(b) > 2 else ()
    final = (*batch, *((rows,) if len(a) > 1 else ()), *((columns,) if len(b) > 1 else ()))
    left = (1, inner) if len(a) == 1 else None
    if len(b) <= 2 and len(a) > 2 and not transpose_a:
        left = (math.prod(a[:-1]), inner)  # one large product instead of a stack of small ones
    return _Form(transpose_a, transpose_b, inner, final, (left, (inner, 1) if len(b) == 1 else None))


def _matrix(shape: tuple[int, ...], transposed: bool, row: bool) -> tuple[int, int]:
    if len(shape) < 2:
        length = shape[0] if shape else -1
        return (1, length) if row else (length, 1)
    return (shape[-1], shape[-2]) if transposed else (shape[-2], shape[-1])


# The bits of integers without their signs, and the products above which a product of floats is faster.
_BITS = {"uint8": 8, "int8": 7, "int16": 15}
_LEAST_PRODUCTS = 1 << 18


def _exact_float(a: Tensor, b: Tensor, results: int, inner: int) -> str | None:
    """Returns the floating dtype with exact sums of ``inner`` products; None if none, or ``results`` are few."""
    if not {a.dtype, b.dtype} <= _BITS.keys() or results * inner < _LEAST_PRODUCTS:
        return None
    bits = _BITS[a.dtype] + _BITS[b.dtype] + (inner - 1).bit_length()
    if bits <= 24 and "int16" not in (a.dtype, b.dtype):  # a matrix unit may take 8 bits of float32
        return "float32"
    return "float64" if bits <= 53 and profile_of(a.engine.queue).has_fp64 else None


def _whole_matmul(
    a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool, final: tuple[int, ...], dtype: str
) -> Tensor:
    """Returns the product of integers as one reducing expression, in the low bits of int64; of bool True if not 0."""
    left = _swapped(a) if transpose_a else a
    right = _swapped(b) if transpose_b else b
    left = left._alias((*(left.shape if left.ndim > 1 else (1, *left.shape)), 1))
    columns = right.shape if right.ndim > 1 else (*right.shape, 1)
    right = right._alias((*columns[:-2], 1, *columns[-2:]))
    space = broadcast_shapes((left.shape, right.shape), "matmul")
    kept = (*space[:-2], 1, space[-1])
    product = cast(Load(0, a.dtype), "int64") * cast(Load(1, b.dtype), "int64")
    total = cast(reduce("sum", product, len(space) - 2), dtype)
    (result,) = a.engine.run((total,), (left, right), shapes=(kept,))
    set_shape(result, final)
    return result


def _swapped(x: Tensor) -> Tensor:
    order = [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2]
    return permute.row.call(x, order)  # type: ignore[misc, no-any-return]


_TILED_MATMUL = """\
// One work-item computes one element of c = a @ b, a work-group of TILE x TILE one tile of it.
// Local memory: 2 * TILE * TILE elements. Global size: n and m, each rounded up to a multiple of TILE.
__kernel __attribute__((reqd_work_group_size(TILE, TILE, 1)))
void matmul(__global const T *a, __global const T *b, __global T *c, const int m, const int n, const int k) {
    __local ACC tile_a[TILE][TILE];
    __local ACC tile_b[TILE][TILE];
    const int column = get_global_id(0), row = get_global_id(1);
    const int x = get_local_id(0), y = get_local_id(1);
    ACC sum = 0;
    for (int start = 0; start < k; start += TILE) {
        tile_a[y][x] = row < m && start + x < k ? LOAD_ELEMENT(a, (size_t)row * k + start + x) : 0;
        tile_b[y][x] = column < n && start + y < k ? LOAD_ELEMENT(b, (size_t)(start + y) * n + column) : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0; i < TILE; i++)
            sum = mad(tile_a[y][i], tile_b[i][x], sum);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (row < m && column < n)
        STORE_ELEMENT(sum, c, (size_t)row * n + column);
}
"""
_ELEMENTS = {
    "half": "#define LOAD_ELEMENT(p, i) vload_half(i, p)\n#define STORE_ELEMENT(v, p, i) vstore_half(v, i, p)\n",
    "plain": "#define LOAD_ELEMENT(p, i) (p)[i]\n#define STORE_ELEMENT(v, p, i) ((p)[i] = (v))\n",
    "double": "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n",
}


def build_matmul_kernel(context: Any = None, tile: int = 16, dtype: str = "float") -> tuple[KernelSpec, Any]:
    """Returns the plain tiled product c = a @ b of row-major matrices as (KernelSpec, built kernel); without a context
    the kernel is None.

    Arguments of the kernel: a (m, k), b (k, n), c (m, n), then m, n, k as int32. Global size (n, m), each rounded up to
    a multiple of ``tile``, local size (tile, tile). ``dtype``: float, half (stored as half, summed in float) or double.
    """
    from netcl.core.kernels.primitives import KernelSpec, PrimitiveBuilder

    name = canonical(dtype)
    if name not in ("float32", "float16", "float64"):
        raise ArgumentError(f"build_matmul_kernel: expected dtype float, half or double, got {dtype!r}")
    if tile <= 0:
        raise ArgumentError(f"build_matmul_kernel: expected a positive tile, got {tile}")
    kind = c_type(name)
    head = _ELEMENTS["double"] if kind == "double" else ""
    head += f"#define TILE {tile}\n#define T {kind}\n#define ACC {'double' if kind == 'double' else 'float'}\n"
    spec = KernelSpec("matmul", src=head + _ELEMENTS["half" if kind == "half" else "plain"] + _TILED_MATMUL)
    return spec, None if context is None else PrimitiveBuilder(dtype).build(context, spec)


@composite(amp="half", domain=compared(_pairs(((2, 3, 5), (2, 5, 4)), ((0, 2, 3), (0, 3, 2))), np.matmul), forms=METHOD)
def bmm(a: Tensor, b: Tensor) -> Tensor:
    """Returns the products of two stacks of matrices, (B, M, K) and (B, K, N)."""
    if a.ndim != 3 or b.ndim != 3 or a.shape[0] != b.shape[0]:
        raise ShapeError(f"bmm: expected shapes (B, M, K) and (B, K, N), got {a.shape} and {b.shape}")
    return matmul(a, b)  # type: ignore[no-any-return]


@composite(amp="half", domain=compared(_pairs(((3, 5), (5, 4))), np.matmul))
def mm(a: Tensor, b: Tensor) -> Tensor:
    """Returns the product of two matrices, (M, K) and (K, N)."""
    if a.ndim != 2 or b.ndim != 2:
        raise ShapeError(f"mm: expected shapes (M, K) and (K, N), got {a.shape} and {b.shape}; matmul takes stacks")
    return matmul(a, b)  # type: ignore[no-any-return]


@composite(amp="half", domain=compared(_pairs(((3, 5), (5,))), np.matmul))
def mv(a: Tensor, b: Tensor) -> Tensor:
    """Returns the product of a matrix (M, K) and a vector (K,)."""
    if a.ndim != 2 or b.ndim != 1:
        raise ShapeError(f"mv: expected shapes (M, K) and (K,), got {a.shape} and {b.shape}; matmul takes stacks")
    return matmul(a, b)  # type: ignore[no-any-return]


def _linear_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-1, 1, (4, 5)), rng.uniform(-1, 1, (3, 5)), rng.uniform(-1, 1, 3)), {}
    yield (rng.uniform(-1, 1, (2, 3, 5)), rng.uniform(-1, 1, (1, 5)), rng.uniform(-1, 1, 1)), {}
    yield (rng.uniform(-1, 1, 5), rng.uniform(-1, 1, (3, 5))), {}
    yield (rng.uniform(-1, 1, (0, 5)), rng.uniform(-1, 1, (3, 5))), {}


def _linear_product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Product | None:
    """Returns the product that a call of ``linear`` is; None for dtypes that are converted, and without elements."""
    dtype = x.dtype
    if weight.dtype != dtype or (bias is not None and bias.dtype != dtype) or 0 in (*x.shape, *weight.shape):
        return None
    rows, added = (math.prod(x.shape[:-1]), x.shape[-1]), None if bias is None else bias.shape
    return Product(rows, weight.shape, dtype, transpose_b=True, added=added, shape=(*x.shape[:-1], weight.shape[0]))


@multiplied(_linear_product, amp="half", domain=compared(_linear_cases, lambda x, w, b=0.0: x @ w.T + b))
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns x @ weight.T + bias: x (..., in), weight (out, in), bias (out,); gives (..., out)."""
    engine = engine_of("linear", x, weight, bias)
    if (
        weight.ndim != 2
        or not x.shape
        or x.shape[-1] != weight.shape[1]
        or (bias is not None and bias.shape != weight.shape[:1])
    ):
        raise ShapeError(
            f"linear: x {x.shape}, weight {weight.shape}, bias {None if bias is None else bias.shape}; expected x "
            "(..., in), weight "
            "(out, in), bias (out,)"
        )
    _promoted("linear", x, weight)
    if x.dtype not in FLOATING and weight.dtype not in FLOATING:
        result = matmul(x, weight, transpose_b=True)
        return result if bias is None else add(result, bias)  # type: ignore[no-any-return]
    x, weight, bias = floating("linear", x, weight, bias)
    final = (*x.shape[:-1], weight.shape[0])
    if 0 in final or weight.shape[1] == 0:
        result = engine.zeros(final, x.dtype)
    else:
        rows = x._alias((math.prod(x.shape[:-1]), x.shape[-1]))
        result = engine.matmul(rows, weight, transpose_b=True, epilogue=None if bias is None else added(bias))
        if result.shape != final:
            set_shape(result, final)
        return result
    if bias is not None and result.size:
        engine.run((Load(0, x.dtype) + Load(1, x.dtype),), (result, bias), out=(result,))
    return result  # type: ignore[no-any-return]


def _promoted(op: str, a: Tensor, b: Tensor) -> str:
    """The dtype of a product."""
    if a.dtype != b.dtype:
        refuse(f"{op}: expected operands of one dtype, got {a.dtype} and {b.dtype}; write x.to(dtype)")
    return promote(a.dtype, b.dtype)


@composite(amp="half", domain=compared(_pairs(((3,), (4,)), ((0,), (2,))), np.outer), forms="x.* x.ger")
def outer(a: Tensor, b: Tensor) -> Tensor:
    """Returns the products of all pairs of two vectors: (n,) and (m,) give (n, m)."""
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(f"outer: expected two vectors, got shapes {a.shape} and {b.shape}")
    return mul(reshape(a, (a.shape[0], 1)), b)  # type: ignore[no-any-return]


@composite(amp="half", domain=compared(_pairs(((5,), (5,)), ((3, 5), (5,))), np.dot))
def dot(a: Tensor, b: Tensor) -> Tensor:
    """Returns the inner product of two vectors (0-d), or the product of matrices."""
    if a.ndim > 2 or b.ndim > 2:
        raise ShapeError(f"dot: expected vectors or matrices, got shapes {a.shape} and {b.shape}; matmul takes stacks")
    return matmul(a, b)  # type: ignore[no-any-return]


@composite(domain=compared(lambda rng: iter([((rng.uniform(-1, 1, (3, 4)),), {})]), np.trace), forms=METHOD)
def trace(x: Tensor, diagonal: int = 0) -> Tensor:
    """Returns the sum of a matrix's diagonal."""
    if x.ndim != 2:
        raise ShapeError(f"trace: expected a matrix, got shape {x.shape}")
    return sum_op(diag(x, diagonal))  # type: ignore[no-any-return]


def _scaled_cases(*shapes: tuple[int, ...]) -> Any:
    def cases(rng: np.random.Generator) -> Cases:
        yield tuple(rng.uniform(-1, 1, shape) for shape in shapes), {"beta": 0.5, "alpha": -2.0}
        yield tuple(rng.uniform(-1, 1, shape) for shape in ((1,), *shapes[1:])), {}

    return cases


def _added_reference(x: Any, a: Any, b: Any, beta: float = 1.0, alpha: float = 1.0) -> Any:
    return beta * x + alpha * (a @ b)


weighted_sum: OpFunction = elementwise(
    "weighted_sum",
    "beta * v0 + alpha * v1",
    "Returns beta a + alpha b, broadcast: the last step of ``addmm``.",
    operands="a b",
    beta=1.0,
    alpha=1.0,
    domain=few(lambda a, b: a + b, (-2, 2), (-2, 2)),
)


def _added(op: str, rank: int, x: Tensor, a: Tensor, b: Tensor, beta: float, alpha: float) -> Tensor:
    if a.ndim != rank or b.ndim != rank or a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"{op}: needs {'(B, M, K) and (B, K, N)' if rank == 3 else '(M, K) and (K, N)'}, "
            f"not {a.shape} and {b.shape}"
        )
    product = matmul(a, b)
    if broadcast_shapes((x.shape, product.shape), op) != product.shape:
        raise ShapeError(f"{op}: input {x.shape} does not broadcast to {product.shape}")
    if not is_floating(promote(x.dtype, product.dtype)):  # as in PyTorch, without digits after the point
        beta, scaled = int(beta), mul(product, int(alpha))
        return add(mul(x, beta), scaled) if beta else scaled  # type: ignore[no-any-return]
    if beta == 0:  # so that not even a NaN of the input counts
        return product if alpha == 1 else mul(product, alpha)  # type: ignore[no-any-return]
    return weighted_sum(x, product, beta=beta, alpha=alpha)  # type: ignore[no-any-return]


@composite(amp="half", domain=compared(_scaled_cases((3, 4), (3, 5), (5, 4)), _added_reference), forms=WRITTEN)
def addmm(x: Tensor, a: Tensor, b: Tensor, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """Returns beta x + alpha a @ b for matrices a (M, K) and b (K, N); x broadcasts to (M, N), and is ignored at beta
    0. beta and alpha of whole numbers are whole, without the digits after the point.
    """
    return _added("addmm", 2, x, a, b, beta, alpha)


@composite(amp="half", domain=compared(_scaled_cases((2, 3, 4), (2, 3, 5), (2, 5, 4)), _added_reference), forms=WRITTEN)
def baddbmm(x: Tensor, a: Tensor, b: Tensor, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """Returns beta x + alpha a @ b for stacks a (B, M, K), b (B, K, N); x broadcasts to (B, M, N), as in ``addmm``."""
    return _added("baddbmm", 3, x, a, b, beta, alpha)


def _tensordot_cases(rng: np.random.Generator) -> Cases:
    def of(*shapes: tuple[int, ...]) -> tuple[Any, ...]:
        return tuple(rng.uniform(-1, 1, shape) for shape in shapes)

    yield of((2, 3, 4), (3, 4, 5)), {}
    yield of((2, 3, 4), (5, 4, 2)), {"axes": ((0, -1), (2, 1))}
    yield of((2, 3), (4,)), {"axes": 0}


@composite(amp="half", domain=compared(_tensordot_cases, np.tensordot))
def tensordot(a: Tensor, b: Tensor, axes: Any = 2) -> Tensor:
    """Returns the sum of products over axes of both: the last ``axes`` of a with the first of b, or the axes of a and
    of b that ``axes`` names in two lists. An axis of length 1 fits one of any length.
    """
    if isinstance(axes, int):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise ShapeError(f"tensordot: axes {axes} for shapes {a.shape} and {b.shape}")
        axes = (range(a.ndim - axes, a.ndim), range(axes))
    of_a, of_b = ([each] if isinstance(each, int) else list(each) for each in axes)
    of_a = [normalize_axes(axis, a.ndim, "tensordot")[0] for axis in of_a]
    of_b = [normalize_axes(axis, b.ndim, "tensordot")[0] for axis in of_b]
    if len(of_a) == len(of_b):
        wide_a = [i for i, j in zip(of_a, of_b) if b.shape[j] == 1 != a.shape[i]]
        wide_b = [j for i, j in zip(of_a, of_b) if a.shape[i] == 1 != b.shape[j]]
        a = cast_op(sum_op(a, wide_a, keepdims=True), dtype=a.dtype) if wide_a else a
        b = cast_op(sum_op(b, wide_b, keepdims=True), dtype=b.dtype) if wide_b else b
    if [a.shape[axis] for axis in of_a] != [b.shape[axis] for axis in of_b]:
        raise ShapeError(f"tensordot: axes {of_a} of {a.shape} and {of_b} of {b.shape} have different lengths")
    free_a = [axis for axis in range(a.ndim) if axis not in of_a]
    free_b = [axis for axis in range(b.ndim) if axis not in of_b]
    inner = math.prod(a.shape[axis] for axis in of_a)
    left = reshape(_permuted(a, [*free_a, *of_a]), (math.prod(a.shape[axis] for axis in free_a), inner))
    right = reshape(_permuted(b, [*of_b, *free_b]), (inner, math.prod(b.shape[axis] for axis in free_b)))
    shape = [*(a.shape[axis] for axis in free_a), *(b.shape[axis] for axis in free_b)]
    return reshape(matmul(left, right), shape)  # type: ignore[no-any-return]


def _permuted(x: Tensor, order: list[int]) -> Tensor:
    return x if order == sorted(order) else permute(x, order)


@composite(amp="half", domain=compared(_pairs(((2, 3), (4, 2)), ((2, 3), (4,)), ((), (2, 2))), np.kron), forms=METHOD)
def kron(a: Tensor, b: Tensor) -> Tensor:
    """Returns the Kronecker product: every element of a times all of b, (a0, a1) and (b0, b1) give (a0 b0, a1 b1)."""
    rank = max(a.ndim, b.ndim)
    wide, narrow = aligned(a.shape, rank), aligned(b.shape, rank)
    left = reshape(a, [size for pair in zip(wide, (1,) * rank) for size in pair])
    right = reshape(b, [size for pair in zip((1,) * rank, narrow) for size in pair])
    return reshape(mul(left, right), [m * n for m, n in zip(wide, narrow)])  # type: ignore[no-any-return]


def _bilinear_reference(a: Any, b: Any, weight: Any, bias: Any = 0.0) -> Any:
    return np.einsum("...oj,...j->...o", np.einsum("...i,oij->...oj", a, weight), b) + bias


def _bilinear_cases(rng: np.random.Generator) -> Cases:
    for lead, bias in (((4,), True), ((2, 3), False), ((), True)):
        operands = [rng.uniform(-1, 1, (*lead, 3)), rng.uniform(-1, 1, (*lead, 2)), rng.uniform(-1, 1, (5, 3, 2))]
        yield (*operands, *([rng.uniform(-1, 1, 5)] if bias else [])), {}


@composite(amp="half", domain=compared(_bilinear_cases, _bilinear_reference))
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns y_k = input1^T W_k input2 + b_k: (..., in1) and (..., in2) with weight (out, in1, in2) give (..., out).
    Raises ShapeError if the shapes do not match.
    """
    engine_of("bilinear", input1, input2, weight, bias)
    lead = input1.shape[:-1]
    if (
        weight.ndim != 3
        or input1.shape != (*lead, weight.shape[1])
        or input2.shape != (*lead, weight.shape[2])
        or (bias is not None and bias.shape != weight.shape[:1])
    ):
        raise ShapeError(
            f"bilinear: input1 {input1.shape}, input2 {input2.shape}, weight {weight.shape}, "
            f"bias {None if bias is None else bias.shape}; expected (..., in1), (..., in2), (out, in1, in2) and (out,)"
        )
    out, in1, in2 = weight.shape
    # (rows, in1) @ (in1, out * in2), then a product with input2 along in2.
    table = reshape(permute(weight, (1, 0, 2)), (in1, out * in2))
    partial = reshape(matmul(reshape(input1, (math.prod(lead), in1)), table), (math.prod(lead), out, in2))
    result = reshape(matmul(partial, reshape(input2, (math.prod(lead), in2, 1))), (*lead, out))
    return result if bias is None else add(result, bias)  # type: ignore[no-any-return]

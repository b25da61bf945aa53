"""Products of matrices: every rank combination of NumPy's matmul, and what reduces to it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.core.dispatch import Domain, set_shape
from netcl.core.dtypes import c_type, canonical, is_floating, promote
from netcl.core.errors import ShapeError
from netcl.core.expr import Load, cast, reduce
from netcl.core.layout import broadcast_shapes
from netcl.core.tensor import Tensor
from netcl.ops.elementwise import mul
from netcl.ops.reduce import sum as sum_op
from netcl.ops.shape import diag, permute, reshape, strided_slice
from netcl.ops.table import as_dtype, composite, computed, engine_of, floating

if TYPE_CHECKING:
    from netcl.core.kernels.primitives import KernelSpec

Cases = Iterator[tuple[tuple[Any, ...], dict[str, Any]]]


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


@computed(amp="half", domain=Domain(cases=_matmul_cases, reference=_matmul_reference))
def matmul(a: Tensor, b: Tensor, tile: int = 16, *, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """a @ b by NumPy's rules: vectors, matrices, stacks of matrices whose leading axes broadcast; dtypes are promoted.

    ``transpose_a`` and ``transpose_b`` swap the last two axes of an operand without a copy (they leave vectors alone).
    Sums are kept in float32 for the half types; whole numbers give exact int64. ``tile`` is the edge of a plain
    kernel's tile, and changes no result beyond rounding. ShapeError names the shapes that do not fit.
    """
    engine_of("matmul", a, b)
    if tile <= 0:
        raise ValueError(f"matmul: tile must be positive, not {tile}")
    transpose_a, transpose_b = transpose_a and a.ndim > 1, transpose_b and b.ndim > 1
    rows, inner = _matrix(a.shape, transpose_a, row=True)
    inner_b, columns = _matrix(b.shape, transpose_b, row=False)
    if not a.shape or not b.shape or inner != inner_b:
        how = "".join(
            f", {name}=True" for name, on in (("transpose_a", transpose_a), ("transpose_b", transpose_b)) if on
        )
        raise ShapeError(
            f"matmul: shapes {a.shape} and {b.shape}{how} do not fit; the last length of the first has to equal "
            "the one before the last "
            "of the second",
            op="matmul",
        )
    batch = broadcast_shapes((a.shape[:-2], b.shape[:-2]), "matmul")
    final = (*batch, *((rows,) if a.ndim > 1 else ()), *((columns,) if b.ndim > 1 else ()))
    dtype = promote(a.dtype, b.dtype)
    if not is_floating(dtype):
        return _whole_matmul(a, b, transpose_a, transpose_b, final)
    if inner == 0 or 0 in final:
        return a.engine.zeros(final, dtype)
    left = a._alias(Tensor, (1, inner)) if a.ndim == 1 else a
    right = b._alias(Tensor, (inner, 1)) if b.ndim == 1 else b
    if right.ndim == 2 and left.ndim > 2 and not transpose_a:
        left = left._alias(
            Tensor, (math.prod(left.shape[:-1]), inner)
        )  # one large product in place of a stack of small ones
    result = a.engine.matmul(
        as_dtype(left, dtype), as_dtype(right, dtype), transpose_a=transpose_a, transpose_b=transpose_b
    )
    set_shape(result, final)
    return result


def _matrix(shape: tuple[int, ...], transposed: bool, row: bool) -> tuple[int, int]:
    if len(shape) < 2:
        length = shape[0] if shape else -1
        return (1, length) if row else (length, 1)
    return (shape[-1], shape[-2]) if transposed else (shape[-2], shape[-1])


def _whole_matmul(a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool, final: tuple[int, ...]) -> Tensor:
    """The product of whole numbers as one reducing expression over (..., row, inner, column), exact in int64."""
    left = _swapped(a) if transpose_a else a
    right = _swapped(b) if transpose_b else b
    left = left._alias(Tensor, (*(left.shape if left.ndim > 1 else (1, *left.shape)), 1))
    columns = right.shape if right.ndim > 1 else (*right.shape, 1)
    right = right._alias(Tensor, (*columns[:-2], 1, *columns[-2:]))
    space = broadcast_shapes((left.shape, right.shape), "matmul")
    kept = (*space[:-2], 1, space[-1])
    product = cast(Load(0, a.dtype), "int64") * cast(Load(1, b.dtype), "int64")
    (result,) = a.engine.run((reduce("sum", product, len(space) - 2),), (left, right), shapes=(kept,))
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
    """The plain tiled product c = a @ b of row-major matrices as (KernelSpec, built kernel); without a context the
    kernel is None.

    Arguments of the kernel: a (m, k), b (k, n), c (m, n), then m, n, k as int32. Global size (n, m), each rounded up
    to a multiple of ``tile``, local size (tile, tile). ``dtype``: float, half (stored as half, summed in float) or
    double.
    """
    from netcl.core.kernels.primitives import KernelSpec, PrimitiveBuilder

    name = canonical(dtype)
    if name not in ("float32", "float16", "float64"):
        raise ValueError(f"build_matmul_kernel: dtype is float, half or double, not {dtype!r}")
    if tile <= 0:
        raise ValueError(f"build_matmul_kernel: tile must be positive, not {tile}")
    kind = c_type(name)
    head = _ELEMENTS["double"] if kind == "double" else ""
    head += f"#define TILE {tile}\n#define T {kind}\n#define ACC {'double' if kind == 'double' else 'float'}\n"
    spec = KernelSpec("matmul", src=head + _ELEMENTS["half" if kind == "half" else "plain"] + _TILED_MATMUL)
    return spec, None if context is None else PrimitiveBuilder(dtype).build(context, spec)


@composite(amp="half", domain=Domain(cases=_pairs(((2, 3, 5), (2, 5, 4)), ((0, 2, 3), (0, 3, 2))), reference=np.matmul))
def bmm(a: Tensor, b: Tensor) -> Tensor:
    """The products of two stacks of matrices, (B, M, K) and (B, K, N)."""
    if a.ndim != 3 or b.ndim != 3 or a.shape[0] != b.shape[0]:
        raise ShapeError(f"bmm: needs shapes (B, M, K) and (B, K, N), not {a.shape} and {b.shape}", op="bmm")
    return matmul(a, b)  # type: ignore[no-any-return]


def _linear_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-1, 1, (4, 5)), rng.uniform(-1, 1, (3, 5)), rng.uniform(-1, 1, 3)), {}
    yield (rng.uniform(-1, 1, (2, 3, 5)), rng.uniform(-1, 1, (1, 5)), rng.uniform(-1, 1, 1)), {}
    yield (rng.uniform(-1, 1, 5), rng.uniform(-1, 1, (3, 5))), {}
    yield (rng.uniform(-1, 1, (0, 5)), rng.uniform(-1, 1, (3, 5))), {}


@computed(amp="half", domain=Domain(cases=_linear_cases, reference=lambda x, w, b=0.0: x @ w.T + b))
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x @ weight.T + bias: x (..., in), weight (out, in), bias (out,); gives (..., out)."""
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
            "(out, in), bias (out,)",
            op="linear",
        )
    x, weight, bias = floating("linear", x, weight, bias)
    final = (*x.shape[:-1], weight.shape[0])
    if 0 in final or weight.shape[1] == 0:
        result = engine.zeros(final, x.dtype)
    else:
        rows = x._alias(Tensor, (math.prod(x.shape[:-1]), x.shape[-1]))
        result = engine.matmul(rows, weight, transpose_b=True)
        set_shape(result, final)
    if bias is not None and result.size:
        engine.run((Load(0, x.dtype) + Load(1, x.dtype),), (result, bias), out=(result,))
    return result


@composite(amp="half", domain=Domain(cases=_pairs(((3,), (4,)), ((0,), (2,))), reference=np.outer))
def outer(a: Tensor, b: Tensor) -> Tensor:
    """The products of all pairs of two vectors: (n,) and (m,) give (n, m)."""
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(f"outer: needs two vectors, not shapes {a.shape} and {b.shape}", op="outer")
    return mul(reshape(a, (a.shape[0], 1)), b)  # type: ignore[no-any-return]


@composite(amp="half", domain=Domain(cases=_pairs(((5,), (5,)), ((3, 5), (5,))), reference=np.dot))
def dot(a: Tensor, b: Tensor) -> Tensor:
    """The inner product of two vectors (0-d), or the product of matrices."""
    if a.ndim > 2 or b.ndim > 2:
        raise ShapeError(
            f"dot: needs vectors or matrices, not shapes {a.shape} and {b.shape}; matmul takes stacks", op="dot"
        )
    return matmul(a, b)  # type: ignore[no-any-return]


@composite(domain=Domain(cases=lambda rng: iter([((rng.uniform(-1, 1, (3, 4)),), {})]), reference=np.trace))
def trace(x: Tensor, diagonal: int = 0) -> Tensor:
    """The sum of a matrix's diagonal."""
    if x.ndim != 2:
        raise ShapeError(f"trace: needs a matrix, not shape {x.shape}", op="trace")
    return sum_op(diag(x, diagonal))  # type: ignore[no-any-return]


# -- einsum ------------------------------------------------------------------------------------------------------------

_EINSUMS: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = (
    ("ij,jk->ik", ((3, 4), (4, 5))),
    ("bij,bkj->bik", ((2, 3, 4), (2, 5, 4))),
    ("i,j->ji", ((3,), (4,))),
    ("ii->i", ((4, 4),)),
    ("ii", ((4, 4),)),
    ("ijk->kj", ((2, 3, 4),)),
    ("...ij,jk->...ik", ((2, 3, 4), (4, 5))),
    ("ab,bc,cd->ad", ((2, 3), (3, 4), (4, 2))),
    ("bhqd,bhkd->bhqk", ((2, 2, 3, 4), (2, 2, 5, 4))),
    ("ij,kj->", ((2, 3), (4, 3))),
)


def _einsum_cases(rng: np.random.Generator) -> Cases:
    for equation, shapes in _EINSUMS:
        yield (equation, *(rng.uniform(-1, 1, shape) for shape in shapes)), {}


@composite(amp="half", domain=Domain(cases=_einsum_cases, reference=np.einsum))
def einsum(equation: str, *operands: Tensor) -> Tensor:
    """Einstein's sum, ``einsum("bij,bjk->bik", a, b)``: pairs in opt_einsum's order, each a matmul of permuted
    operands.

    Ellipsis and repeated labels are understood, as in NumPy; without ``->`` the output has the labels that occur once,
    sorted.
    """
    import opt_einsum

    terms, output = _labels(equation, [x.shape for x in operands])
    sizes: dict[str, int] = {}
    for term, x in zip(terms, operands):
        for label, size in zip(term, x.shape):
            if sizes.setdefault(label, size) != size:
                raise ShapeError(
                    f"einsum {equation!r}: label {label!r} has lengths {sizes[label]} and {size}", op="einsum"
                )
    path, _ = opt_einsum.contract_path(
        ",".join(terms) + "->" + output, *[np.broadcast_to(0.0, x.shape) for x in operands]
    )
    left = [_diagonal(term, x) for term, x in zip(terms, operands)]
    for picks in path:
        chosen = [left.pop(i) for i in sorted(picks, reverse=True)]
        wanted = set(output).union(*(term for term, _ in left))
        labels, value = chosen.pop()
        while chosen:
            after = wanted.union(*(term for term, _ in chosen[:-1]))
            labels, value = _contract((labels, value), chosen.pop(), after)
        left.append((labels, value))
    labels, value = _summed(*left[0], set(output))
    return permute(value, [labels.index(label) for label in output])  # type: ignore[no-any-return]


def _labels(equation: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[str], str]:
    """The labels of each operand and of the output, the ellipsis spelled out."""
    text = equation.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    fresh = [chr(code) for code in range(192, 240) if chr(code) not in text]
    if len(terms) != len(shapes):
        raise ShapeError(f"einsum {equation!r}: {len(terms)} terms for {len(shapes)} operands", op="einsum")
    spans = [len(shape) - len(term.replace("...", "")) for term, shape in zip(terms, shapes)]
    widest = max((span for term, span in zip(terms, spans) if "..." in term), default=0)
    for i, (term, span) in enumerate(zip(terms, spans)):
        if (
            span < 0
            or (span and "..." not in term)
            or not term.replace("...", "A").isalpha()
            and term not in ("", "...")
        ):
            raise ShapeError(f"einsum {equation!r}: term {term!r} does not describe shape {shapes[i]}", op="einsum")
        terms[i] = term.replace("...", "".join(fresh[widest - span : widest]))
    if not arrow:
        joined = "".join(terms)
        lead = "".join(fresh[:widest])
        output = lead + "".join(sorted(c for c in set(joined) - set(lead) if joined.count(c) == 1))
    output = output.replace("...", "".join(fresh[:widest]))
    unknown = set(output) - set("".join(terms))
    if unknown or len(set(output)) != len(output):
        raise ShapeError(f"einsum {equation!r}: the output names a label twice or one that no operand has", op="einsum")
    return terms, output


def _diagonal(labels: str, x: Tensor) -> tuple[str, Tensor]:
    """``x`` with every repeated label made one axis, the diagonal of those that bear it."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            one, two = labels.index(label), labels.rindex(label)
            rest = [a for a in range(x.ndim) if a not in (one, two)]
            n, lead = x.shape[one], [x.shape[a] for a in rest]
            flat = reshape(permute(x, [*rest, one, two]), (*lead, n * n))
            x = strided_slice(flat, [0] * len(flat.shape), [1] * len(lead) + [n + 1], [*lead, n])
            labels = "".join(labels[a] for a in rest) + label
    return labels, x


def _summed(labels: str, x: Tensor, wanted: set[str]) -> tuple[str, Tensor]:
    """``x`` summed over the labels that nobody wants."""
    gone = tuple(a for a, label in enumerate(labels) if label not in wanted)
    kept = "".join(label for label in labels if label in wanted)
    return kept, sum_op(x, axis=gone) if gone else x


def _contract(one: tuple[str, Tensor], two: tuple[str, Tensor], wanted: set[str]) -> tuple[str, Tensor]:
    """The product of two operands, summed over the labels that no later operand or output has."""
    (a_labels, a), (b_labels, b) = _summed(*one, wanted | set(two[0])), _summed(*two, wanted | set(one[0]))
    both = [label for label in a_labels if label in b_labels]
    batch = [label for label in both if label in wanted]
    inner = [label for label in both if label not in wanted]
    a_free = [label for label in a_labels if label not in both]
    b_free = [label for label in b_labels if label not in both]
    size = dict(zip(a_labels + b_labels, a.shape + b.shape))

    def arranged(labels: str, x: Tensor, *groups: list[str]) -> Tensor:
        order = [label for group in (batch, *groups) for label in group]
        moved = permute(x, [labels.index(label) for label in order]) if "".join(order) != labels else x
        lengths = [math.prod(size[label] for label in group) for group in groups]
        return reshape(moved, (*(size[label] for label in batch), *lengths))  # type: ignore[no-any-return]

    result = matmul(arranged(a_labels, a, a_free, inner), arranged(b_labels, b, inner, b_free))
    labels = [*batch, *a_free, *b_free]
    return "".join(labels), reshape(result, tuple(size[label] for label in labels))

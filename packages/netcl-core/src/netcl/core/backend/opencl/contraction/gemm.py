"""Matrix products on OpenCL devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from netcl.core import config
from netcl.core.backend.opencl.contraction.fused_epilogue import (
    COLUMN,
    RESULT,
    FusedEpilogue,
    OperandLayout,
    fuse_epilogue,
)
from netcl.core.backend.opencl.contraction.launch import contract, epilogue_lanes, reads_float32, writes_float32
from netcl.core.backend.opencl.queue.plans.noted_plan import run_planned
from netcl.core.backend.opencl.queue.plans.planned_op import planned_op
from netcl.core.backend.opencl.storage import in_float32
from netcl.core.backend.opencl.templates import Traits, profile, traits
from netcl.core.engine.epilogue import Epilogue, check, run_alone, sum_expression
from netcl.core.tuning.candidates import candidates, choose, product_kernel, product_unit, swaps
from netcl.core.tuning.measurements import fastest_kernel
from netcl.core.tuning.problems import Contraction

if TYPE_CHECKING:
    from netcl.core.engine.product import Product
    from netcl.core.expr.nodes import Expr
    from netcl.core.storage.data import TensorData


class _Matrices(NamedTuple):
    shape: tuple[int, ...]
    swapped: bool  # True if the contractions compute out^T = B^T A^T
    contractions: tuple[Contraction, ...]
    kernel: str | None  # the cheapest; None if there is nothing to compute
    sizes: tuple[int, int, int] | None  # key in measurements; None if such a product is not measured


def _batch_strides(batch: tuple[int, ...], shape: tuple[int, ...]) -> list[int]:
    """Returns the element strides over ``batch`` of a contiguous tensor of ``shape`` (its last two dimensions are the
    matrix).
    """
    strides = [0] * len(batch)
    step = shape[-1] * shape[-2]
    for axis in range(1, len(shape) - 1):
        if shape[-2 - axis] != 1:
            strides[-axis] = step
        step *= shape[-2 - axis]
    return strides


def _merge_batch(batch: tuple[int, ...], *strides: list[int]) -> list[tuple[int, ...]]:
    """Returns the batch as (count, strides...) per dimension, adjacent ones merged if every operand has one stride over
    both.
    """
    dims: list[tuple[int, ...]] = []
    for count, *steps in zip(batch, *strides):
        if count == 1:
            continue
        if dims and all(outer == inner * count for outer, inner in zip(dims[-1][1:], steps)):
            dims[-1] = (dims[-1][0] * count, *steps)
        else:
            dims.append((count, *steps))
    return dims


@lru_cache(maxsize=1024)
def matrices_of(
    a: tuple[int, ...], b: tuple[int, ...], transpose_a: bool, transpose_b: bool, device: Traits
) -> _Matrices:
    """Returns the contractions of a product of these shapes."""
    m, k = (a[-1], a[-2]) if transpose_a else (a[-2], a[-1])
    n = b[-2] if transpose_b else b[-1]
    rank = max(len(a), len(b))
    a = (1,) * (rank - len(a)) + a
    b = (1,) * (rank - len(b)) + b
    batch = tuple(y if x == 1 else x for x, y in zip(a[:-2], b[:-2]))
    shape = (*batch, m, n)
    if prod(b[:-2]) == 1 and not transpose_a:
        # One B for all: the batch of A is more rows.
        m, a, batch = prod(a[:-1]), (prod(a[:-1]), k), ()
    a_row, a_k = (1, m) if transpose_a else (k, 1)
    b_k, b_n = (1, k) if transpose_b else (n, 1)
    dims = _merge_batch(
        batch, _batch_strides(batch, a), _batch_strides(batch, b), _batch_strides(batch, (*batch, m, n))
    )
    outer, dims = dims[:-2], [(1, 0, 0, 0)] * (2 - len(dims)) + dims[-2:]
    swapped = False
    out_row, out_n = n, 1
    if swaps(device.is_cpu, m, n):
        swapped = True
        m, n, a_row, a_k, b_k, b_n, out_row, out_n = n, m, b_n, b_k, a_k, a_row, out_n, out_row
        dims = [(count, second, first, third) for count, first, second, third in dims]
        outer = [(count, second, first, third) for count, first, second, third in outer]
    contraction = Contraction(
        m=m, k=(1, 1, 1, k), n=(1, 1, 1, n), a_row=a_row, a_k=(0, 0, 0, a_k), b_k=(0, 0, 0, b_k), b_n=(0, 0, 0, b_n),
        out_row=out_row, out_n=(0, 0, 0, out_n), batch=(dims[0][0], dims[1][0]), a_batch=(dims[0][1], dims[1][1]),
        b_batch=(dims[0][2], dims[1][2]), out_batch=(dims[0][3], dims[1][3]),
    )  # fmt: skip
    contractions = []
    for indices in product(*(range(dim[0]) for dim in outer)):
        offsets = [sum(i * dim[which] for i, dim in zip(indices, outer)) for which in (1, 2, 3)]
        contractions.append(replace(contraction, a_offset=offsets[0], b_offset=offsets[1], out_offset=offsets[2]))
    alone = len(contractions) == 1 and not contraction.empty and prod(contraction.batch) == 1
    kernel = choose(device, contraction, "matmul") if contractions else None
    sizes = ((n, m, k) if swapped else (m, n, k)) if alone else None
    return _Matrices(shape, swapped, tuple(contractions), kernel, sizes)


def kernels(engine: Any, a: tuple[int, ...], b: tuple[int, ...], dtype: str = "float32") -> tuple[str, ...]:
    """Returns the variants worth measuring for contiguous matrices of these shapes."""
    c = matrices_of(a, b, False, False, traits(engine)).contractions[0]
    return candidates(traits(engine), c, "matmul", _unit(engine, c, dtype))


def _unit(engine: Any, c: Contraction, dtype: str) -> str | None:
    """Returns the matrix unit for a product; None if the device has none, or another kernel is faster."""
    return None if traits(engine).is_cpu else product_unit(profile(engine), c, dtype)


def _chosen(engine: Any, plan: _Matrices, dtype: str) -> str | None:
    """Returns the kernel of a product; None if there is nothing to compute."""
    if plan.kernel is None:
        return None
    c, measured = plan.contractions[0], None
    if plan.sizes is not None:
        measured = fastest_kernel(engine, "matmul", plan.sizes, dtype)
    unit = _unit(engine, c, dtype)
    return unit or plan.kernel if measured is None else product_kernel(traits(engine), c, measured, unit)


def _fuse(
    engine: Any, plan: _Matrices, epilogue: Epilogue, out: TensorData, variant: str | None
) -> FusedEpilogue | None:
    """Returns the epilogue fused into the product; None if it needs a separate kernel."""
    lanes = epilogue_lanes(engine, plan.contractions[0], out, variant) if len(plan.contractions) == 1 else 0
    return (
        fuse_epilogue(epilogue, [operand_layout(plan, operand.shape) for operand in epilogue.operands], lanes)
        if lanes
        else None
    )


def operand_layout(plan: _Matrices, shape: tuple[int, ...]) -> OperandLayout | None:
    """Returns the layout of an operand of an epilogue; None if it has none."""
    (c,) = plan.contractions
    if shape == plan.shape:
        return OperandLayout(c.out_offset, c.out_row, c.out_batch, RESULT)
    if prod(shape) == 1:
        return OperandLayout()
    column, row = prod(shape) == shape[-1], shape[-1] == 1 and prod(shape) == shape[-2] == prod(plan.shape[:-1])
    if column or row:
        return OperandLayout(stride_kind=COLUMN) if column != plan.swapped else OperandLayout(row=1)
    return None


def matmul(
    engine: Any,
    a: TensorData,
    b: TensorData,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out: TensorData | None = None,
    epilogue: Epilogue | None = None,
    variant: str | None = None,
    half: str | None = None,
    wide: bool = False,
) -> TensorData:
    """Computes (..., M, K) @ (..., K, N) after the transposes, batches broadcast; sums in float32 (or float64).

    ``half`` is the half type of a product with float32 operands, or with ``wide`` a float32 result, as
    ``float32_roles`` allows: they are rounded to it when they are loaded or stored.

    ``variant`` forces ``rows`` (A in place, if it is small), ``packed``, ``dot`` or ``stream`` (GEMV, if the layout
    allows them), ``wide``, ``windows`` (split-K), ``tiled``, ``broadcast`` (``tiled`` if the device has no sub-groups),
    ``slices`` (skinny, split-K), ``direct``, or a matrix unit by its name in ``netcl.core.tuning.unit_table``.
    """
    dtype = half or a.dtype
    if epilogue is not None:
        check(epilogue, dtype)
    plan = matrices_of(a.shape, b.shape, transpose_a, transpose_b, traits(engine))
    result: TensorData = engine.empty(plan.shape, "float32" if wide else dtype) if out is None else out
    chosen = variant or _chosen(engine, plan, dtype)
    expression, operands = (None, ()) if epilogue is None else epilogue
    stored = (half, a.dtype, b.dtype, wide) if half else dtype
    shapes = tuple([operand.shape for operand in operands])
    key = _key(a.shape, b.shape, transpose_a, transpose_b, stored, chosen, expression, shapes, result.shape)
    tensors = (b, a, *operands, result) if plan.swapped else (a, b, *operands, result)
    if half:
        tensors = tuple(in_float32(x, half) for x in tensors)
    run_planned(engine, key, partial(_multiply, plan, chosen, expression), tensors, planned=variant is None)
    if out is not None:
        out._storage.written()
    return result


def _key(*described: Any) -> tuple[Any, ...]:
    """Returns the key of the execution plan of a product: everything that decides its launches."""
    return ("matmul", *described, config.get("KERNEL_STRATEGY"))


def planned(engine: Any, product: Product) -> Callable[[Sequence[Any]], Any] | None:
    """Returns the function that repeats the op ``product``; see ``planned_op.py``. None if there was no such
    product.
    """
    a, b, dtype, transpose_a, transpose_b, added, shape = product
    device = traits(engine)
    plan = matrices_of(a, b, transpose_a, transpose_b, device)
    sizes, chosen, strategy = plan.sizes, _chosen(engine, plan, dtype), config.get("KERNEL_STRATEGY")
    measured = sizes and fastest_kernel(engine, "matmul", sizes, dtype)
    expression, shapes = (None, ()) if added is None else (sum_expression(dtype), (added,))
    plan_of_launches = engine.plans.get(
        _key(a, b, transpose_a, transpose_b, dtype, chosen, expression, shapes, plan.shape)
    )
    if plan_of_launches is None:
        return None
    places = ((1, 0) if plan.swapped else (0, 1)) + (2,) * (added is not None)
    repeat: Any = planned_op(engine, plan_of_launches, places, [(shape, dtype)])

    def call(args: Sequence[Any]) -> Any:
        if engine.intercepting or (sizes and fastest_kernel(engine, "matmul", sizes, dtype) != measured):
            return None
        # On CPUs measurements and shapes alone choose the kernel.
        if not device.is_cpu and (_chosen(engine, plan, dtype), config.get("KERNEL_STRATEGY")) != (chosen, strategy):
            return None
        return repeat(args)

    return call


def float32_roles(
    engine: Any,
    a: TensorData,
    b: TensorData,
    half: str,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    epilogue: Epilogue | None = None,
    **options: Any,
) -> tuple[bool, bool, bool]:
    """Returns three booleans, for A, B and the result of a product in ``half``: True if it may be stored in float32."""
    plan = matrices_of(a.shape, b.shape, transpose_a, transpose_b, traits(engine))
    variant = _chosen(engine, plan, half)
    device, contractions = traits(engine), plan.contractions
    reads = device.is_cpu and all(reads_float32(device, c, variant) for c in contractions)
    writes = all(writes_float32(device, c, variant) for c in contractions)
    result: Any = SimpleNamespace(shape=plan.shape, size=prod(plan.shape), dtype=half)
    fused = epilogue is None or (writes and _fuse(engine, plan, epilogue, result, variant) is not None)
    return reads, reads, writes and fused


def _multiply(
    plan: _Matrices,
    variant: str | None,
    expression: Expr | None,
    engine: Any,
    first: TensorData,
    second: TensorData,
    *others: TensorData,
) -> None:
    """Runs the contractions of a product into the last of ``others``; with an ``expression`` the tensors before it are
    the operands of the epilogue.
    """
    *operands, result = others
    epilogue = None if expression is None else Epilogue(expression, tuple(operands))
    fused = None if epilogue is None else _fuse(engine, plan, epilogue, result, variant)
    for c in plan.contractions:
        contract(engine, c, first, second, result, variant=variant, fused=fused)
    if epilogue is not None and fused is None and result.size:
        run_alone(engine, epilogue, result)

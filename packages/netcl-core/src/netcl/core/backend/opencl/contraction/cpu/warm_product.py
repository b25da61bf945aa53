"""The warm call of a matrix product on CPU devices: one kernel into a fresh result, without a plan at each call.

A product of one row with 784 x 512 weights takes 20 to 30 microseconds on two cores of a Xeon with AVX-512; the way
through the op's checks, the plan and the general launch took 38 more on Intel's runtime and 80 on PoCL, whose threads
take the core of the host. ``warm_product`` keeps what they found, by the shapes of the operands. Products of several
launches (packed rows, split-K, an epilogue of its own) have no warm call, and a kernel that was measured to be faster
takes the long way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from netcl.core.backend.epilogue import Epilogue, sum_expression
from netcl.core.backend.opencl.contraction.cpu.cpu_tiles import row_strides, rows_launch, splits_for
from netcl.core.backend.opencl.contraction.fused_epilogue import FusedEpilogue, fuse_epilogue
from netcl.core.backend.opencl.contraction.gemm import gemv_launch, matrices_of, operand_layout
from netcl.core.backend.opencl.contraction.problem import ProductLaunch
from netcl.core.backend.opencl.expressions.fast_path import one_launch
from netcl.core.backend.opencl.templates import traits
from netcl.core.tuning.measurements import fastest_kernel

if TYPE_CHECKING:
    from netcl.core.backend.product import Product
    from netcl.core.tensor.tensor import Tensor
    from netcl.core.tuning.problems import Contraction

_A, _B, _ADDED = 0, 1, 2  # positions in the arguments of an op, in place of their tensors
_RESULT = "result"


def warm_product(
    engine: Any, product: Product, shape: tuple[int, ...]
) -> Callable[[Sequence[Any]], Tensor | None] | None:
    """A function that repeats ``product`` on an op's arguments into a tensor of ``shape``, or returns None if it takes
    the long way this time; None if the product always does.
    """
    if not traits(engine).is_cpu:
        return None
    plan = matrices_of(product.a, product.b, product.transpose_a, product.transpose_b, True)
    if len(plan.contractions) != 1 or plan.contractions[0].empty:
        return None
    (c,) = plan.contractions
    dtype, fused = product.dtype, None
    if product.added is not None:
        layouts = [operand_layout(plan, product.added)]
        lanes = traits(engine).vector if plan.variant is None else 1
        fused = fuse_epilogue(Epilogue(sum_expression(dtype), (_ADDED,)), layouts, lanes)  # type: ignore[arg-type]
        if fused is None:
            return None
    tensors = (_B, _A, _RESULT) if plan.swapped else (_A, _B, _RESULT)
    launch = _launch(engine, c, tensors, dtype, plan.variant, fused)
    if launch is None:
        return None
    given = [(index, argument) for index, argument in enumerate(launch.args) if type(argument) is int]
    args = [None if type(argument) in (int, str) else argument for argument in launch.args]
    prepared = engine.launcher.prepare(launch.text, launch.name, launch.global_size, launch.local_size, args)
    again = one_launch(engine, prepared, shape, dtype, given, launch.args.index(_RESULT), ())
    measured = plan.sizes

    def warm(args: Sequence[Any]) -> Tensor | None:
        if engine.intercepting or (measured and fastest_kernel(engine, "matmul", measured, dtype) is not None):
            return None
        return again(args)

    return warm


def _launch(
    engine: Any, c: Contraction, tensors: Sequence[Any], dtype: str, variant: str | None, fused: FusedEpilogue | None
) -> ProductLaunch | None:
    """The one launch of a product; None if it has several."""
    if variant is not None:
        return gemv_launch(engine, c, tensors, dtype, variant, fused)
    strides = row_strides(engine, c, dtype)
    if strides is None or splits_for(engine, c, dtype) > 1:
        return None
    return rows_launch(engine, c, tensors, dtype, strides, fused)


__all__ = ["warm_product"]

"""GEMM kernels for GPUs: tiled in local memory, register-tiled, with sub-groups, and with one work-item per result."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from netcl.core.backend.opencl.contraction.fused_epilogue import FusedEpilogue, finished_parts, trailing_args
from netcl.core.backend.opencl.contraction.problem import strides_argument
from netcl.core.backend.opencl.templates import Traits, filled, source, struct, traits
from netcl.core.tuning.problems import Contraction, dense_steps
from netcl.core.tuning.tiles import SPAN, SUB_GROUPS_TILE, tiled_edge
from netcl.core.tuning.unit_table import UNITS

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

SHORT, LONG = ("OFFSET", "int"), ("OFFSET", "long")  # offsets within a matrix have 32 bits or 64
_UNFINISHED = ("finished(sum, row, column, to)", "(sum)")  # the definition of templates without an epilogue
_ROLLED = {"unroll": "", "unroll_by_4": "", "unroll_sums": ""}  # the parts of templates before loops, empty
EPILOGUE_VARIANTS = ("wide", "broadcast", "tiled", "direct", "windows", "slices", *UNITS)  # that take epilogues


def epilogue_source(
    device: Traits,
    dtype: str,
    names: tuple[str, ...],
    defines: tuple[tuple[str, object], ...],
    epilogue: str,
    operands: int,
    parts: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Returns the templates ``names`` for a dtype, with an epilogue of ``operands`` operands, 0: without one, and more
    ``parts`` of the templates.
    """
    finishing = ("contract_operands", "contract_finished") if operands else ()
    operand_count = ("OPERANDS", operands) if operands else _UNFINISHED
    text = source(("storage", *finishing, *names), ((f"DTYPE_{dtype.upper()}", 1), *defines, operand_count))
    # Sums stay in registers only if the loops over them are unrolled, which compilers do not do by themselves if a long
    # epilogue follows. The compilers of CPUs, which run these kernels in tests, become slow by it.
    unroll = {} if device.is_cpu else {"unroll": "#pragma unroll", "unroll_by_4": "#pragma unroll 4"}
    sums = {} if device.is_cpu or not operands else {"unroll_sums": "#pragma unroll"}
    return filled(text, {**_ROLLED, **unroll, **sums, **finished_parts(epilogue, operands), **parts}) + epilogue


@lru_cache(maxsize=256)
def gpu_program(device: Traits, dtype: str, epilogue: str = "", operands: int = 0) -> tuple[str, int]:
    """Returns the text and the group's edge of the GPU template."""
    edge = tiled_edge(device)
    names = ("contract_strides", "contract_gpu")
    return epilogue_source(device, dtype, names, (("EDGE", edge), LONG), epilogue, operands), edge


@lru_cache(maxsize=32)
def plain_program(dtype: str) -> str:
    """Returns the text of the simplest kernel, for drivers that do not build the others."""
    defines = ((f"DTYPE_{dtype.upper()}", 1), ("PLAIN", 1), _UNFINISHED)
    text = source(("storage", "contract_strides", "contract_gpu"), defines)
    return filled(text, _ROLLED | finished_parts("", 0))


def contract_tiled(
    engine: Any, c: Contraction, a: TensorData, b: TensorData, out: TensorData, fused: FusedEpilogue | None
) -> None:
    """Runs the GPU kernel with tiles of 64 x 64 (32 x 32 if groups are small) through local memory."""
    epilogue, operands, more = trailing_args(fused, b)
    text, edge = gpu_program(traits(engine), a.dtype, epilogue, operands)
    size = (-(-prod(c.n) // (4 * edge)) * edge, -(-c.m // (4 * edge)) * edge, prod(c.batch))
    engine.launch(text, "tiled", size, (edge, edge, 1), [a, b, out, strides_argument(c), *more])


def contract_direct(
    engine: Any, c: Contraction, a: TensorData, b: TensorData, out: TensorData, fused: FusedEpilogue | None
) -> None:
    """Runs the kernel with one work-item per output."""
    epilogue, operands, more = trailing_args(fused, b)
    _one_by_one(engine, c, gpu_program(traits(engine), a.dtype, epilogue, operands)[0], [a, b, out], more)


def contract_plain(engine: Any, c: Contraction, a: TensorData, b: TensorData, out: TensorData) -> None:
    """Runs the plain kernel, for drivers that do not build the others."""
    _one_by_one(engine, c, plain_program(a.dtype), [a, b, out], [])


def _one_by_one(engine: Any, c: Contraction, text: str, tensors: list[TensorData], more: list[Any]) -> None:
    local = (1, 1, 1) if traits(engine).is_cpu else None
    engine.launch(text, "direct", (prod(c.n), c.m, prod(c.batch)), local, [*tensors, strides_argument(c), *more])


@lru_cache(maxsize=1024)
def wide_argument(c: Contraction) -> Any:
    """Returns the argument of the kernels of contract_product.cl; None if an index has gaps or offsets are too long."""
    steps = dense_steps(c)
    if steps is None:
        return None
    a_k, b_k, b_n, out_n = steps
    return struct(
        c.m, prod(c.k), prod(c.n), c.batch[1], c.a_row, a_k, b_k, b_n, c.out_row, out_n,
        c.a_offset, c.b_offset, c.out_offset, c.a_batch, c.b_batch, c.out_batch,
    )  # fmt: skip


@lru_cache(maxsize=256)
def _wide_program(device: Traits, dtype: str, epilogue: str, operands: int) -> str:
    names = ("contract_tile", "contract_product", "contract_wide")
    return epilogue_source(device, dtype, names, (("SPAN_ROWS", SPAN), ("SPAN", SPAN), SHORT), epilogue, operands)


def contract_wide(
    engine: Any, c: Contraction, a: TensorData, b: TensorData, out: TensorData, fused: FusedEpilogue | None
) -> None:
    """Runs the GPU kernel for large matrices: tiles of 128 x 128."""
    epilogue, operands, more = trailing_args(fused, b)
    text = _wide_program(traits(engine), a.dtype, epilogue, operands)
    size = (-(-prod(c.n) // SPAN) * 16, -(-c.m // SPAN) * 16, prod(c.batch))
    engine.launch(text, "wide", size, (16, 16, 1), [a, b, out, wide_argument(c), *more])


@lru_cache(maxsize=256)
def _broadcast_program(device: Traits, dtype: str, epilogue: str, operands: int) -> str:
    defines = (*zip(("ROWS", "COLUMNS", "GROUP"), SUB_GROUPS_TILE), SHORT)
    return epilogue_source(device, dtype, ("contract_product", "contract_broadcast"), defines, epilogue, operands)


def contract_broadcast(
    engine: Any, c: Contraction, a: TensorData, b: TensorData, out: TensorData, fused: FusedEpilogue | None
) -> None:
    """Runs the GPU kernel for sub-groups: work-items broadcast the elements of A to each other."""
    rows, columns, group = SUB_GROUPS_TILE
    epilogue, operands, more = trailing_args(fused, b)
    text = _broadcast_program(traits(engine), a.dtype, epilogue, operands)
    size = (-(-prod(c.n) // (columns * group)) * group, -(-c.m // rows), prod(c.batch))
    engine.launch(text, "broadcast", size, (group, 1, 1), [a, b, out, wide_argument(c), *more])

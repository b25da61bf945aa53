"""The kernels of contractions on GPUs without matrix units, by the templates of their rows in ``candidates``.

``wide`` is register-tiled, ``tiled`` tiled in local memory, ``broadcast`` uses sub-groups, ``direct`` and ``plain``
have a work-item for each result. ``windows`` is implicit GEMM of convolutions. In ``slices``, for a few rows, the
work-items of a group split k. ``wide``, ``windows`` and ``slices`` have split-K.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netcl.core.backend.opencl.contraction.fused_epilogue import FusedEpilogue, finished_parts, trailing_args
from netcl.core.backend.opencl.contraction.problem import strides_argument
from netcl.core.backend.opencl.storage import value_dtype
from netcl.core.backend.opencl.templates import Traits, filled_program, struct, traits
from netcl.core.tuning.candidates import CONTRACTIONS
from netcl.core.tuning.problems import Contraction, dense_steps
from netcl.core.tuning.tiles import (
    DEEP,
    SKINNY_ROWS,
    SUB_GROUPS_TILE,
    implicit_gemm_tile,
    skinny_group,
    tiled_edge,
    wide_tile,
)

if TYPE_CHECKING:
    from netcl.core.storage.data import TensorData


SHORT, LONG = ("OFFSET", "int"), ("OFFSET", "long")  # offsets within a matrix have 32 bits or 64
_UNFINISHED = ("finished(sum, row, column, to)", "(sum)")  # the definition of templates without an epilogue
_ROLLED = {"unroll": "", "unroll_by_4": "", "unroll_sums": ""}  # the parts of templates before loops, empty
_ALONG_COLUMNS = 8  # of a work-group of ``slices`` with neighbouring work-items along k
_GROUPS = 1056  # work-groups of ``slices`` that keep a large GPU's memory busy
_LEAST_SPLIT = 256  # least products of a partial sum of ``slices``
_VECTOR = 4  # elements of 32 bits in a vector of ``wide``


class Blocking(NamedTuple):
    """The definitions of a kernel's templates, the results and the work-items of a work-group along rows and columns,
    and the number of partial sums (split-K).
    """

    defines: tuple[tuple[str, object], ...]
    rows: int
    columns: int
    group: tuple[int, int]  # work-items along columns and along rows
    splits: int = 1


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
    all_names = ("storage", *finishing, *names)
    all_defines = ((f"DTYPE_{dtype.upper()}", 1), *defines, operand_count)
    # Sums stay in registers only if the loops over them are unrolled, which compilers do not do by themselves if a long
    # epilogue follows. The compilers of CPUs, which run these kernels in tests, become slow by it.
    unroll = {} if device.is_cpu else {"unroll": "#pragma unroll", "unroll_by_4": "#pragma unroll 4"}
    sums = {} if device.is_cpu or not operands else {"unroll_sums": "#pragma unroll"}
    all_parts = {**_ROLLED, **unroll, **sums, **finished_parts(epilogue, operands), **parts}
    return filled_program(all_names, all_defines, all_parts, epilogue)


def result_defines(out: TensorData) -> tuple[tuple[str, object], ...]:
    """Returns the definition of a kernel with a result of a half type that is stored in float32; none for others."""
    return () if value_dtype(out.dtype) == out.dtype else (("OUT_IN_FLOAT32", 1),)


@lru_cache(maxsize=1024)
def program(
    device: Traits,
    kernel: str,
    dtype: str,
    defines: tuple[tuple[str, object], ...],
    epilogue: str = "",
    operands: int = 0,
) -> str:
    """Returns the text of a kernel; that of ``plain`` is the simplest, for drivers that do not build the others."""
    if kernel == "plain":
        device = device._replace(is_cpu=True)  # nothing is unrolled
    return epilogue_source(device, dtype, ("roles", *CONTRACTIONS[kernel].parts), defines, epilogue, operands)


# ---------------------------------------------------------------------------------------------------------- blockings


def _wide(device: Traits, c: Contraction) -> Blocking:
    steps = dense_steps(c)
    assert steps is not None
    a_k, b_k, b_n, out_n = steps
    tile, k, n = wide_tile(device, c), prod(c.k), prod(c.n)
    a_along, b_along = a_k == 1, b_k == 1
    a_lanes = _lanes(k if a_along else c.m, c.a_row if a_along else a_k, c.a_offset, *c.a_batch)
    b_lanes = _lanes(k if b_along else n, b_n if b_along else b_k, c.b_offset, *c.b_batch)
    defines = (
        ("SPAN_ROWS", tile.rows), ("ITEMS_X", tile.columns // 8), ("ITEMS_Y", tile.rows // 8),
        ("A_ALONG", int(a_along)), ("B_ALONG", int(b_along)),
        ("A_LANES", a_lanes if a_along or c.a_row == 1 else 1), ("B_LANES", b_lanes if b_along or b_n == 1 else 1),
        ("OUT_LANES", _lanes(n, c.out_row, c.out_offset, *c.out_batch) if out_n == 1 else 1), SHORT,
    )  # fmt: skip
    return Blocking(defines, tile.rows, tile.columns, (tile.columns // 8, tile.rows // 8), tile.splits)


def _lanes(*distances: int) -> int:
    """Returns the elements that a work-item loads or stores at a time, by what begins at their multiples."""
    return _VECTOR if all(step % _VECTOR == 0 for step in distances) else 1


def _broadcast(device: Traits, c: Contraction) -> Blocking:
    rows, columns, group = SUB_GROUPS_TILE
    return Blocking((*zip(("ROWS", "COLUMNS", "GROUP"), SUB_GROUPS_TILE), SHORT), rows, columns * group, (group, 1))


def _tiled(device: Traits, c: Contraction) -> Blocking:
    edge = tiled_edge(device)
    return Blocking((("EDGE", edge), LONG), 4 * edge, 4 * edge, (edge, edge))


def _direct(device: Traits, c: Contraction) -> Blocking:
    return Blocking((("EDGE", tiled_edge(device)), LONG), 1, 1, (1, 1))


def _plain(device: Traits, c: Contraction) -> Blocking:
    return Blocking((("PLAIN", 1),), 1, 1, (1, 1))


def _run(extents: tuple[int, ...], steps: tuple[int, ...]) -> int:
    """Returns the adjacent elements along an index, up or down."""
    inner = [(extent, step) for extent, step in zip(extents, steps) if extent != 1]
    return inner[-1][0] if inner and abs(inner[-1][1]) == 1 else 1


def _dense_run(extents: tuple[int, ...], steps: tuple[int, ...]) -> int:
    """Returns the adjacent elements along the inner levels of an index."""
    run = 1
    for extent, step in zip(reversed(extents), reversed(steps)):
        if extent != 1 and step != run:
            break
        run *= extent
    return run


def _windows(device: Traits, c: Contraction) -> Blocking:
    rows, columns, splits = implicit_gemm_tile(device, c)
    a_along = _run(c.k, c.a_k) > (c.m if c.a_row == 1 else 1)
    b_along = _run(c.k, c.b_k) > _run(c.n, c.b_n)
    group = columns // 8, max(8, rows // 8)
    defines = (
        ("SPAN_ROWS", rows), ("ITEMS_X", group[0]), ("ITEMS_Y", group[1]),
        ("A_ALONG", int(a_along)), ("B_ALONG", int(b_along)),
        ("OUT_LANES", _lanes(_dense_run(c.n, c.out_n), c.out_row, c.out_offset, *c.out_batch)), SHORT,
    )  # fmt: skip
    return Blocking(defines, rows, columns, group, splits)


def _slices(device: Traits, c: Contraction) -> Blocking:
    group, along = skinny_group(device), c.b_k[3] == 1 and c.k[3] > 1
    rows, columns = min(c.m, SKINNY_ROWS), _ALONG_COLUMNS if along else group // 4
    count = -(-c.m // rows) * -(-prod(c.n) // columns) * prod(c.batch)
    defines = (("GROUP", group), ("ROWS", rows), ("COLUMNS", columns), ("ALONG", int(along)), LONG)
    splits = max(1, min(_GROUPS // count, prod(c.k) // _LEAST_SPLIT))
    return Blocking(defines, rows, columns, (group, 1), splits)


@lru_cache(maxsize=1024)
def blocking(kernel: str, device: Traits, c: Contraction) -> Blocking:
    """Returns the blocking of a contraction."""
    return _KERNELS[kernel][0](device, c)


# ---------------------------------------------------------------------------------------------------------- arguments


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


@lru_cache(maxsize=1024)
def _windows_argument(c: Contraction, splits: int, out_part: int) -> Any:
    k = prod(c.k)
    # The kernel divides by the extents even if there is nothing to sum.
    k_extents = tuple(max(extent, 1) for extent in c.k)
    return struct(
        c.m, k, prod(c.n), c.batch[1], splits, -(-k // splits), int(c.accumulate), int(c.partial or splits > 1),
        c.a_row, c.out_row, c.a_offset, c.b_offset, c.out_offset, out_part, c.a_batch, c.b_batch, c.out_batch,
        k_extents, c.a_k, c.b_k, c.n, c.b_n, c.out_n,
    )  # fmt: skip


def _dense_arguments(c: Contraction, splits: int, out_part: int) -> list[Any]:
    return [wide_argument(c)]


def _strided_arguments(c: Contraction, splits: int, out_part: int) -> list[Any]:
    return [strides_argument(c)]


def _windows_arguments(c: Contraction, splits: int, out_part: int) -> list[Any]:
    return [_windows_argument(c, splits, out_part)]


def _wide_arguments(c: Contraction, splits: int, out_part: int) -> list[Any]:
    return [wide_argument(c), np.int32(splits), np.int32(_part(c, splits, DEEP)), np.int64(out_part)]


def _slices_arguments(c: Contraction, splits: int, out_part: int) -> list[Any]:
    return [wide_argument(c), np.int32(splits), np.int32(_part(c, splits)), np.int64(out_part)]


def _part(c: Contraction, splits: int, deep: int = 1) -> int:
    """Returns the products of each of ``splits`` partial sums, a multiple of ``deep``."""
    return -(-prod(c.k) // (splits * deep)) * deep


_KERNELS: dict[str, tuple[Callable[[Traits, Contraction], Blocking], Callable[..., list[Any]]]] = {
    "wide": (_wide, _wide_arguments),
    "broadcast": (_broadcast, _dense_arguments),
    "tiled": (_tiled, _strided_arguments),
    "direct": (_direct, _strided_arguments),
    "plain": (_plain, _strided_arguments),
    "windows": (_windows, _windows_arguments),
    "slices": (_slices, _slices_arguments),
}


def contract(
    engine: Any,
    kernel: str,
    c: Contraction,
    block: Blocking,
    a: TensorData,
    b: TensorData,
    out: TensorData,
    out_part: int = 0,
    fused: FusedEpilogue | None = None,
) -> None:
    """Runs a contraction into ``out``: partial sum s goes to ``out`` + s * ``out_part``; without split-K, the
    result.
    """
    device, (columns, rows) = traits(engine), block.group
    epilogue, operands, more = trailing_args(fused, b)
    text = program(device, kernel, a.dtype, (*block.defines, *result_defines(out)), epilogue, operands)
    size = (-(-prod(c.n) // block.columns) * columns, -(-c.m // block.rows) * rows, prod(c.batch) * block.splits)
    group = (columns, rows, 1) if device.is_cpu or columns * rows > 1 else None
    arguments = [a, b, out, *_KERNELS[kernel][1](c, block.splits, out_part), *more]
    engine.launch(text, "direct" if kernel == "plain" else kernel, size, group, arguments)

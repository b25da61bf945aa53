"""GEMM on the matrix units of GPUs: one generated kernel over a table of units, each with a software twin."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from netcl.core.backend.opencl.contraction.fused_epilogue import FusedEpilogue, trailing_args
from netcl.core.backend.opencl.contraction.gpu_tiles import SHORT, epilogue_source, wide_argument
from netcl.core.backend.opencl.templates import Traits, traits
from netcl.core.tuning.problems import Contraction

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

_KINDS = {"float16": "f16", "bfloat16": "bf16"}
_ELEMENTS = {"float16": "convert_float(as_half((ushort)(x)))", "bfloat16": "as_float((uint)(x) << 16)"}


class Tiles(NamedTuple):
    """The blocking of the kernel: a work-group's results, its warps along m and n, the block of k, the ring's stages."""

    m: int = 128
    n: int = 128
    k: int = 32
    warps_m: int = 2
    warps_n: int = 2
    stages: int = 4


@lru_cache(maxsize=256)
def program(
    device: Traits, unit: str, dtype: str, tiles: Tiles, along: tuple[bool, bool], epilogue: str = "", operands: int = 0
) -> str:
    """The text of the kernel on a unit (``ptx``, ``twin``) for operands that are contiguous ``along`` k, or across."""
    defines = (
        ("SPAN_M", tiles.m), ("SPAN_N", tiles.n), ("SPAN_K", tiles.k), ("WARPS_M", tiles.warps_m),
        ("WARPS_N", tiles.warps_n), ("STAGES", tiles.stages), ("GROUP_ROWS", 8), ("A_ALONG", int(along[0])),
        ("B_ALONG", int(along[1])), ("KIND", f'"{_KINDS[dtype]}"'), ("ELEMENT(x)", _ELEMENTS[dtype]), SHORT,
    )  # fmt: skip
    names = ("contract_product", "matrix_unit_tile", f"matrix_unit_{unit}", "contract_matrix_unit")
    return epilogue_source(device, dtype, names, defines, epilogue, operands)


def contract_on_unit(
    engine: Any, c: Contraction, a: TensorData, b: TensorData, out: TensorData, fused: FusedEpilogue | None,
    unit: str, tiles: Tiles,
) -> None:
    """out = A B on the matrix unit, for 16-bit operands with rows that begin at multiples of 16 bytes."""
    epilogue, operands, more = trailing_args(fused, b)
    along = (c.a_k[3] == 1, c.b_k[3] == 1)
    text = program(traits(engine), unit, a.dtype, tiles, along, epilogue, operands)
    items = 32 * tiles.warps_m * tiles.warps_n
    groups = -(-prod(c.n) // tiles.n) * -(-c.m // tiles.m)
    engine.launch(text, "matrix_unit", (groups * items, 1, prod(c.batch)), (items, 1, 1), [a, b, out, wide_argument(c), *more])

"""The contractions of GPUs: tiles through local memory, sub-groups, and the kernel of one work-item per result."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

from netcl.core.capabilities import profile_of

from .contraction_form import Contraction, places_argument
from .templates import Traits, source, struct, traits

if TYPE_CHECKING:
    from netcl.core.tensor import Tensor

SPAN = 128  # edge of a tile of the GPU kernel for large matrices
_EDGE = 16  # edge of a work-group of the GPU kernel, whose tile has four times as many elements; 8 for small groups
SUB_GROUPS_TILE = (8, 2, 64)  # of the kernel for sub-groups: rows, columns of a work-item, work-items of a group
_SUB_GROUPS = {"cl_khr_subgroups", "cl_intel_subgroups"}
LEAST_GROUP = (_EDGE // 2) ** 2  # work-items of the smallest group that the tiled kernel takes


@lru_cache(maxsize=32)
def gpu_program(device: Traits, dtype: str) -> tuple[str, int]:
    """The text and the group's edge of the GPU template."""
    edge = _EDGE if device.group >= _EDGE * _EDGE else _EDGE // 2
    defines = ((f"DTYPE_{dtype.upper()}", 1), ("EDGE", edge))
    return source(("storage", "contract_places", "contract_parts", "contract_gpu"), defines), edge


@lru_cache(maxsize=32)
def plain_program(dtype: str) -> str:
    """The text of the kernel that asks least of a compiler."""
    defines = ((f"DTYPE_{dtype.upper()}", 1), ("PLAIN", 1))
    return source(("storage", "contract_places", "contract_parts", "contract_gpu"), defines)


def contract_tiled(engine: Any, c: Contraction, a: Tensor, b: Tensor, out: Tensor) -> None:
    """The GPU kernel: tiles of 64 x 64 (32 x 32 where groups are small) through local memory."""
    text, edge = gpu_program(traits(engine), a.dtype)
    size = (-(-prod(c.n) // (4 * edge)) * edge, -(-c.m // (4 * edge)) * edge, prod(c.batch))
    engine.launch(text, "tiled", size, (edge, edge, 1), [a, b, out, places_argument(c)])


def contract_direct(engine: Any, c: Contraction, a: Tensor, b: Tensor, out: Tensor, text: str | None = None) -> None:
    """The kernel of one work-item per output, of the GPU template or of ``text``."""
    text = text or gpu_program(traits(engine), a.dtype)[0]
    local = (1, 1, 1) if traits(engine).is_cpu else None
    engine.launch(text, "direct", (prod(c.n), c.m, prod(c.batch)), local, [a, b, out, places_argument(c)])


@lru_cache(maxsize=1024)
def wide_argument(c: Contraction) -> Any:
    """The argument of the kernels of contract_product.cl; None where an index has gaps or offsets are too long."""
    steps = []
    for extents, strides in ((c.k, c.a_k), (c.k, c.b_k), (c.n, c.b_n), (c.n, c.out_n)):
        levels = [(extent, step) for extent, step in zip(extents, strides) if extent != 1] or [(1, 0)]
        if any(outer[1] != inner[0] * inner[1] for outer, inner in pairwise(levels)):
            return None
        steps.append(levels[-1][1])
    a_k, b_k, b_n, out_n = steps
    m, k, n = c.m, prod(c.k), prod(c.n)
    far = max(m * c.a_row + k * a_k, n * b_n + k * b_k, m * c.out_row + n * out_n)
    if far >= 2**31 or c.parts or min(c.a_row, c.out_row, *steps) < 0:
        return None
    return struct(
        m, k, n, c.batch[1], c.a_row, a_k, b_k, b_n, c.out_row, out_n, c.a_offset, c.b_offset, c.out_offset,
        c.a_batch, c.b_batch, c.out_batch,
    )  # fmt: skip


def unrolled(device: Traits) -> tuple[tuple[str, int], ...]:
    """The definition that has the GPU kernels unrolled."""
    return () if device.is_cpu else (("UNROLL", 1),)


def contract_wide(engine: Any, c: Contraction, a: Tensor, b: Tensor, out: Tensor) -> None:
    """The GPU kernel for large matrices: tiles of 128 x 128."""
    defines = ((f"DTYPE_{a.dtype.upper()}", 1), ("SPAN_ROWS", SPAN), ("SPAN", SPAN), *unrolled(traits(engine)))
    text = source(("storage", "contract_tile", "contract_product", "contract_wide"), defines)
    size = (-(-prod(c.n) // SPAN) * 16, -(-c.m // SPAN) * 16, prod(c.batch))
    engine.launch(text, "wide", size, (16, 16, 1), [a, b, out, wide_argument(c)])


def is_wide(device: Traits, c: Contraction) -> bool:
    """Whether the kernel for large matrices can run a contraction, and pays."""
    enough = min(c.m, prod(c.n)) >= SPAN // 2 and device.group >= 256 and device.local_memory >= 36 * 1024
    return enough and wide_argument(c) is not None


def has_broadcast(engine: Any, c: Contraction) -> bool:
    """Whether the kernel for sub-groups can run a contraction."""
    able = _SUB_GROUPS & profile_of(engine.queue).extensions and traits(engine).group >= SUB_GROUPS_TILE[2]
    return bool(able) and not c.accumulate and wide_argument(c) is not None


def contract_broadcast(engine: Any, c: Contraction, a: Tensor, b: Tensor, out: Tensor) -> None:
    """The GPU kernel for sub-groups, whose work-items hand each other the elements of A."""
    rows, columns, group = SUB_GROUPS_TILE
    defines = ((f"DTYPE_{a.dtype.upper()}", 1), ("ROWS", rows), ("COLUMNS", columns), ("GROUP", group))
    size = (-(-prod(c.n) // (columns * group)) * group, -(-c.m // rows), prod(c.batch))
    text = source(("storage", "contract_product", "contract_broadcast"), defines)
    engine.launch(text, "broadcast", size, (group, 1, 1), [a, b, out, wide_argument(c)])

"""Direct convolution of images with few channels on CPU devices: all three directions, without padded copies."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from netcl.core.backend.opencl.contraction.fused_epilogue import FusedEpilogue, OperandLayout, members, operand_parts
from netcl.core.backend.opencl.contraction.partial_sums import reduce_partials
from netcl.core.backend.opencl.contraction.problem import compute_dtype
from netcl.core.backend.opencl.storage import value_dtype
from netcl.core.backend.opencl.templates import filled_program, struct, traits
from netcl.core.tuning.small_channels import MOST_TAPS, MOST_TOGETHER, Problem, Tile, share_of, tile_of

if TYPE_CHECKING:
    from netcl.core.storage.data import TensorData

# The file and the kernel of each direction.
_KERNELS = {
    "forward": ("contract_channels_forward", "channels_forward"),
    "grad_input": ("contract_channels_input", "channels_input"),
    "grad_weight": ("contract_channels_weights", "channels_weights"),
}


class _Launch(NamedTuple):
    units: int
    scratch: int  # elements of a work-item
    argument: Any
    single: bool  # an image is one block


@lru_cache(maxsize=512)
def _launch_of(p: Problem, tile: Tile, layouts: tuple[OperandLayout, ...] | None = None) -> _Launch | None:
    """Returns the launch of a problem; None if the scratch of a work-item is too small for it."""
    share = share_of(p, tile)
    if share is None:
        return None
    argument = struct(
        p.channels, p.filters, p.taps, p.size, p.out, p.sides, p.stride, p.dilation, p.low, share.block,
        share.blocks, share.each, share.total, share.scratch, share.strip, share.run,
        share.together, share.apart, int(layouts is not None), members(layouts),
    )  # fmt: skip
    return _Launch(share.units, share.scratch, argument, share.blocks == 1)


@lru_cache(maxsize=64)
def _program(
    kind: str, dtype: str, tile: Tile, epilogue: str, operands: int, roles: tuple[tuple[str, int], ...] = ()
) -> str:
    defines = (
        (f"DTYPE_{dtype.upper()}", 1), ("VECTOR", tile.vector), ("ROWS", tile.rows), ("SPAN", tile.span),
        ("MOST_TAPS", MOST_TAPS), ("MOST_TOGETHER", MOST_TOGETHER), ("OPERANDS", operands), *roles,
    )  # fmt: skip
    names = ("storage", "roles", "contract_operands", "contract_channels", _KERNELS[kind][0])
    value = "operand_vector(e{k}, g.operands[{i}], filter, start_of_vector, left)"
    return filled_program(names, defines, operand_parts(epilogue, operands, "REALV", value), epilogue)


def run(
    engine: Any, p: Problem, a: TensorData, b: TensorData, out: TensorData, fused: FusedEpilogue | None = None
) -> None:
    """Runs one direction, with the operands of ``conv``, into ``out``; the forward direction takes an epilogue."""
    text, operands, layouts = fused or ("", (), None)
    dtype = value_dtype(out.dtype)
    tile = tile_of(traits(engine), p.kind, dtype)
    launch = _launch_of(p, tile, layouts)
    assert launch is not None  # small_channels.chosen has checked it
    weights = p.kind == "grad_weight"
    roles: tuple[tuple[str, int], ...] = (("A_IN_FLOAT32", 1),) if b.dtype != value_dtype(b.dtype) else ()  # weights
    copies: tuple[TensorData, ...] = ()
    if launch.single and dtype != compute_dtype(dtype) and p.kind != "grad_input":
        roles = (*roles, ("COPIED", 1))
        copies = (engine.empty((launch.units, p.channels * prod(p.size)), compute_dtype(dtype)),)
    program = _program(p.kind, dtype, tile, text, max(1, len(operands)), roles)
    scratch: TensorData = engine.empty((launch.units * launch.scratch,), compute_dtype(dtype))
    target = engine.empty((launch.units, out.size), compute_dtype(dtype)) if weights else out
    more = (operands or (a,)) if p.kind == "forward" else ()
    engine.launch(
        program, _KERNELS[p.kind][1], (launch.units,), (1,), [a, b, target, scratch, launch.argument, *copies, *more]
    )
    if weights:
        reduce_partials(engine, target, out, launch.units)

"""Runs contractions on OpenCL devices, by the kernels of their rows in ``candidates``. Matrix products and convolutions
share them.

If a driver does not build a template, the engine's fallback uses the plain one (``variant="plain"``: a loop per
output).
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

from netcl.core.backend.opencl.contraction.cpu.cpu_tiles import contract_rows, rows_for, splits_for
from netcl.core.backend.opencl.contraction.cpu.thin import contract_depthwise, contract_gemv
from netcl.core.backend.opencl.contraction.gpu import gpu_kernels
from netcl.core.backend.opencl.contraction.matrix_unit import matrix_units
from netcl.core.backend.opencl.contraction.partial_sums import matrices_of_result, reduce_partials
from netcl.core.backend.opencl.contraction.problem import compute_dtype
from netcl.core.backend.opencl.templates import Traits, traits
from netcl.core.tuning.candidates import CONTRACTIONS, choose, runnable
from netcl.core.tuning.matrix_units import tile_of
from netcl.core.tuning.problems import Contraction
from netcl.core.tuning.unit_table import UNITS

if TYPE_CHECKING:
    from netcl.core.backend.opencl.contraction.fused_epilogue import FusedEpilogue
    from netcl.core.storage.data import TensorData

_THIN = {"dot": contract_gemv, "stream": contract_gemv, "planes": contract_depthwise, "taps": contract_depthwise}


def is_on_rows(kernel: str) -> bool:
    """True for the blocked kernels of CPUs, which share rows of A between calls."""
    return CONTRACTIONS[kernel].functions == ("contract",)


def epilogue_lanes(engine: Any, c: Contraction, out: TensorData, variant: str | None) -> int:
    """Returns the vector width of an epilogue that ``contract`` can fuse; 0 if it cannot: the kernel has no epilogue
    (such as ``plain``), or with split-K the results are not adjacent matrices.
    """
    device = traits(engine)
    kernel = runnable(device, c, variant or choose(device, c))
    if kernel not in _THIN and _splits(engine, c, out, kernel) > 1:
        return int(matrices_of_result(c) is not None)
    lanes = CONTRACTIONS[kernel].lanes
    return device.vector if lanes is None else lanes * (kernel in _THIN or not (c.partial or c.accumulate))


def reads_float32(device: Traits, c: Contraction, variant: str | None) -> bool:
    """True if the kernel of ``contract`` takes operands of a half type that are stored in float32."""
    return is_on_rows(runnable(device, c, variant or choose(device, c)))


def writes_float32(device: Traits, c: Contraction, variant: str | None) -> bool:
    """True if the kernel of ``contract`` writes a result of a half type that is stored in float32."""
    return runnable(device, c, variant or choose(device, c)) not in _THIN


def _splits(engine: Any, c: Contraction, out: TensorData, kernel: str) -> int:
    """Returns the number of partial sums (split-K) of ``contract``; one if ``out`` holds more than this contraction."""
    if c.partial or c.m * prod(c.n) * prod(c.batch) != out.size:
        return 1
    if is_on_rows(kernel):
        return splits_for(engine, c, out.dtype)
    return int(_block(kernel, traits(engine), c).splits)


def _block(kernel: str, device: Traits, c: Contraction) -> Any:
    """Returns the tile of a matrix unit or the blocking of another kernel of GPUs."""
    return tile_of(kernel, device, c) if kernel in UNITS else gpu_kernels.blocking(kernel, device, c)


def contract(
    engine: Any,
    c: Contraction,
    a: TensorData,
    b: TensorData,
    out: TensorData,
    *,
    variant: str | None = None,
    fused: FusedEpilogue | None = None,
) -> None:
    """Runs a contraction into ``out``."""
    if c.empty:
        return
    device = traits(engine)
    kernel = runnable(device, c, variant or choose(device, c))
    if kernel in _THIN:
        _THIN[kernel](engine, kernel, c, a, b, out, fused)
        return
    splits = _splits(engine, c, out, kernel)
    target = out if splits == 1 else engine.empty((splits, out.size), compute_dtype(out.dtype))
    within = fused if splits == 1 else None
    if is_on_rows(kernel):
        form = c if splits == 1 else replace(c, partial=True)
        rows = rows_for(engine, c, a, kernel)
        contract_rows(engine, form, rows, b, target, splits=splits, out_part=out.size, fused=within)
    else:
        block = _block(kernel, device, c)
        block = block if block.splits == splits else block._replace(splits=splits)
        if kernel in UNITS:
            matrix_units.contract(engine, c, block, a, b, target, out.size, within)
        else:
            gpu_kernels.contract(engine, kernel, c, block, a, b, target, out.size, within)
    if splits > 1:
        reduce_partials(engine, target, out, splits, fused, matrices_of_result(c))

"""Scans of long rows in one pass over the data, on devices with operations of a warp."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from netcl.core.backend.opencl.kernels.scans.scan_states import scan_program, state_words
from netcl.core.backend.opencl.kernels.warps.cleared import cleared
from netcl.core.backend.opencl.kernels.warps.warp_templates import WARP_TEMPLATES
from netcl.core.backend.opencl.templates import Traits, struct
from netcl.core.dtypes import itemsize

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

__all__ = ["SweepScan", "sweep_rows", "sweep_scan"]

_GROUP = 256  # work-items of a group
_STRETCH = 16  # positions of a work-item
_FAN = 64  # tiles whose states are published together, too


class SweepScan(NamedTuple):
    """The scan of rows in tiles; ``warp`` is a row of the table of warps."""

    warp: str
    rows: int
    extent: int
    tiles: int  # of a row


@lru_cache(maxsize=256)
def sweep_scan(kind: str, dtype: str, rows: int, extent: int, device: Traits, warp: str) -> SweepScan | None:
    """The scan of rows in tiles; None if the device has no room for it."""
    # Of an element the value, and of an extremum its place; of a work-item two states.
    places = 4 if kind in ("max", "min") else 0
    local = _GROUP * ((_STRETCH + 1) * (max(itemsize(dtype), 4) + places) + 8 * state_words(kind, dtype)) + 64
    if device.group < _GROUP or local > device.local_memory:
        return None
    return SweepScan(warp, rows, extent, -(-extent // (_GROUP * _STRETCH)))


def sweep_rows(how: SweepScan, kind: str, reverse: bool, engine: Any, x: TensorData, *results: TensorData) -> None:
    """Writes the scan of the rows of ``x``, of an extremum also the positions."""
    states = how.rows * (how.tiles + -(-how.tiles // _FAN))
    work = cleared(engine, 2 + 2 * state_words(kind, x.dtype) * states)
    numbers = {"GROUP": _GROUP, "STRETCH": _STRETCH, "FAN": _FAN, "REVERSE": int(reverse)}
    text = scan_program(kind, x.dtype, WARP_TEMPLATES[how.warp], "scan_sweep", **numbers)
    argument = struct(how.rows, how.extent, 1, _GROUP * _STRETCH, how.tiles, 1, int(reverse))
    engine.launch(text, "row_sweep", (how.rows * how.tiles * _GROUP,), (_GROUP,), [x, work, *results, argument])

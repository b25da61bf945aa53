"""Scans of long rows in one pass over the data, on devices with operations of a warp."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netcl.core.backend.opencl.kernels.scans.scan_states import scan_program, state_words
from netcl.core.backend.opencl.kernels.warps import look_back
from netcl.core.backend.opencl.kernels.warps.warp_templates import WARP_TEMPLATES
from netcl.core.backend.opencl.templates import Traits, struct
from netcl.core.dtypes import itemsize

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

_GROUP = 128  # work-items of a group
_STRETCHES = (32, 16)  # positions of a work-item: as many as local memory has room for


class SweepScan(NamedTuple):
    """The scan of rows in tiles; ``warp`` is a row of the table of warps."""

    warp: str
    rows: int
    extent: int
    stretch: int  # positions of a work-item
    tiles: int  # of a row


@lru_cache(maxsize=256)
def sweep_scan(kind: str, dtype: str, rows: int, extent: int, device: Traits, warp: str) -> SweepScan | None:
    """Returns the scan of rows in tiles; None if the device has no room for it."""
    # Of an element the value, and of an extremum its place; of a work-item two states.
    size = max(itemsize(dtype), 4) + (4 if kind in ("max", "min") else 0)
    states = 8 * state_words(kind, dtype)
    for stretch in _STRETCHES if device.group >= _GROUP else ():
        if _GROUP * ((stretch + 1) * size + states) + 64 <= device.local_memory:
            return SweepScan(warp, rows, extent, stretch, -(-extent // (_GROUP * stretch)))
    return None


def sweep_rows(how: SweepScan, kind: str, reverse: bool, engine: Any, x: TensorData, *results: TensorData) -> None:
    """Writes the scan of the rows of ``x``; for an extremum also the positions."""
    signals = engine.signals(look_back.signal_words(how.rows, how.tiles, state_words(kind, x.dtype)))
    numbers = {"GROUP": _GROUP, "STRETCH": how.stretch, "FAN": look_back.FAN, "REVERSE": int(reverse)}
    templates = (WARP_TEMPLATES[how.warp], look_back.TEMPLATE, "scan_sweep")
    text = scan_program(kind, x.dtype, *templates, **numbers)
    argument = struct(how.rows, how.extent, 1, _GROUP * how.stretch, how.tiles, 1, int(reverse))
    arguments = [x, signals, np.uint32(signals.size), *results, argument]
    engine.launch(text, "row_sweep", (how.rows * how.tiles * _GROUP,), (_GROUP,), arguments)

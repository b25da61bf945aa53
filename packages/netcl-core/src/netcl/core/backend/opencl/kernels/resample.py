"""Resizing along one axis on OpenCL devices, and its gradient."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from netcl.core.backend.opencl.templates import Traits, per_work_item, source, struct, traits

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData


_UNITS = 64  # work-items that keep the cores of a CPU busy
_GROUP = 128  # work-items of a group on other devices, with one element each


class _Launch(NamedTuple):
    shape: tuple[int, ...]
    size: tuple[int, int, int]
    argument: Any
    narrow: bool  # all products of positions fit in 32 bits


@lru_cache(maxsize=512)
def _launch_of(
    kind: str, x: tuple[int, ...], axis: int, size: int, places: tuple[int, int, int], device: Traits
) -> _Launch:
    shape = (*x[:axis], size, *x[axis + 1 :])
    before, after = prod(shape[:axis]), prod(shape[axis + 1 :])
    extent, out = (x[axis], size) if kind == "forward" else (size, x[axis])
    step, start, unit = places
    most = max(prod(x), prod(shape), abs(step) * out + abs(start), unit * (extent + 4) + abs(start))
    narrow = not device.is_cpu and most + _GROUP < 1 << 31
    if device.is_cpu:
        lines, width = max(1, per_work_item(before, device)), max(1, after)
        block = max(1, -(-size * min(before, _UNITS) // _UNITS))
        items = (-(-after // width), -(-before // lines), -(-size // block))
    else:
        lines = width = block = 0
        items = (-(-prod(shape) // _GROUP) * _GROUP, 1, 1)
    argument = struct(before, extent, out, after, places, lines, block, width, narrow=narrow)
    return _Launch(shape, items, argument, narrow)


@lru_cache(maxsize=256)
def _program(dtype: str, taps: int, single: bool, narrow: bool) -> str:
    dtype = "uint8" if dtype == "bool" else dtype
    defines: list[tuple[str, object]] = [(f"DTYPE_{dtype.upper()}", 1), ("TAPS", taps)]
    defines.append(("PLACE", "int" if narrow else "long"))
    return source(("storage", "resample"), (*defines, *([("SINGLE", 1)] if single else [])))


def resample(
    engine: Any, kind: str, x: TensorData, *, axis: int, size: int, taps: int, places: tuple[int, int, int]
) -> TensorData:
    """``forward`` resizes ``axis`` to ``size`` outputs, each a sum of ``taps`` neighbours: 1, 2 or 4 with the weights
    of nearest, linear or cubic interpolation.

    With places = (step, start, unit), output o is at (step * o + start) / unit; neighbours outside are the border's.
    ``gradient`` takes the gradient of such a result back to ``size`` inputs, summed without atomics; it computes on
    float32 and float64, and so does ``forward`` with more than one tap.
    """
    device = traits(engine)
    launch = _launch_of(kind, x.shape, axis, size, places, device)
    out: TensorData = engine.empty(launch.shape, x.dtype)
    if out.size:
        text = _program(x.dtype, taps, not device.is_cpu, launch.narrow)
        name = "resize" if kind == "forward" else "resize_gradient"
        local = (1, 1, 1) if device.is_cpu else (_GROUP, 1, 1) if device.group >= _GROUP else None
        engine.launch(text, name, launch.size, local, [x, out, launch.argument])
    return out

"""Resizing on OpenCL devices, and its gradient: axis by axis, or nearest neighbours of all axes in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from netcl.core.backend.opencl.templates import Traits, magic, per_work_item, source, struct, traits
from netcl.core.storage.data import TensorData

Places = tuple[int, int, int]

_UNITS = 64  # work-items that keep the cores of a CPU busy
_GROUP = 128  # work-items of a group on other devices, with one element each
_EACH = 4  # elements of a work-item where all axes are resized in one launch
_SMALL_UNIT = 8  # whole factors up to here have programs of their own


class _Launch(NamedTuple):
    shape: tuple[int, ...]
    size: tuple[int, int, int]
    argument: Any
    narrow: bool  # all products of positions fit in 32 bits


@lru_cache(maxsize=512)
def _launch_of(kind: str, x: tuple[int, ...], axis: int, size: int, places: Places, device: Traits) -> _Launch:
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


@lru_cache(maxsize=512)
def _nearest_launch(
    kind: str, x: tuple[int, ...], sizes: tuple[int, ...], places: tuple[Places, ...], group: int
) -> tuple[tuple[int, ...], int, Any, str] | None:
    """Returns the shape of the result, the work-items in groups of ``group``, the argument and the statements with
    constants of the program; None if a position or a product does not fit in 32 bits.
    """
    rank = len(sizes)
    shape = (*x[:-rank], *sizes)
    before, after = (x, shape) if kind == "forward" else (shape, x)
    extent, out = ((1,) * (3 - rank) + sizes_of[-rank:] for sizes_of in (before, after))
    whole = ((0, 0, 1),) * (3 - rank) + places
    reach = [abs(step) * o + abs(start) + unit * (e + 1) for e, o, (step, start, unit) in zip(extent, out, whole)]
    if max(prod(x), prod(shape), *reach) + _GROUP * _EACH >= 1 << 31:
        return None
    divisors = zip(*map(magic, out if kind == "forward" else extent))
    argument = struct(prod(x[:-rank]), extent, out, *zip(*whole), *divisors, narrow=True)
    fixed = ""
    if all(start == 0 and step in (0, 1) and unit <= _SMALL_UNIT for step, start, unit in whole):
        names = ("step", "start", "unit")
        fixed = " ".join(f"g.{n}[{d}] = {v};" for d, place in enumerate(whole) for n, v in zip(names, place))
    return shape, -(-prod(shape) // (group * _EACH)) * group, argument, fixed


@lru_cache(maxsize=256)
def _nearest_program(dtype: str, fixed: str) -> str:
    dtype = "uint8" if dtype == "bool" else dtype
    return source(
        ("storage", "division", "resample_nearest"), ((f"DTYPE_{dtype.upper()}", 1), ("EACH", _EACH), ("FIXED", fixed))
    )


def resample(
    engine: Any, kind: str, x: TensorData, *, sizes: Sequence[int], taps: int, places: Sequence[Places]
) -> TensorData:
    """Resizes (``forward``) the last axes to ``sizes``, each output a sum of ``taps`` neighbours along each: 1, 2 or 4
    with the weights of nearest, linear or cubic interpolation.

    With places = (step, start, unit) of an axis, its output o is at (step * o + start) / unit; neighbours outside are
    the border's. ``gradient`` takes the gradient of such a result back to ``sizes`` inputs, summed without atomics; it
    computes on float32 and float64, and so does ``forward`` with more than one tap.
    """
    places = [(step, start, unit) for step, start, unit in places]  # of plain tuples
    device = traits(engine)
    if taps == 1 and not device.is_cpu and len(sizes) <= 3:
        group = min(_GROUP, device.group)
        launch = _nearest_launch(kind, x.shape, tuple(sizes), tuple(places), group)
        if launch is not None:
            shape, items, argument, fixed = launch
            out: TensorData = engine.empty(shape, x.dtype)
            if out.size:
                name = "nearest" if kind == "forward" else "nearest_gradient"
                engine.launch(_nearest_program(x.dtype, fixed), name, (items,), (group,), [x, out, argument])
            return out
    first = x.ndim - len(sizes)
    axes = range(first, x.ndim)
    for axis in reversed(axes) if kind == "forward" else axes:  # for enlarging, the long axes come last
        x = _along(engine, kind, x, axis, int(sizes[axis - first]), taps, places[axis - first])
    return x


def _along(engine: Any, kind: str, x: TensorData, axis: int, size: int, taps: int, places: Places) -> TensorData:
    """Resizes one axis."""
    device = traits(engine)
    launch = _launch_of(kind, x.shape, axis, size, places, device)
    out: TensorData = engine.empty(launch.shape, x.dtype)
    if out.size:
        text = _program(x.dtype, taps, not device.is_cpu, launch.narrow)
        name = "resize" if kind == "forward" else "resize_gradient"
        local = (1, 1, 1) if device.is_cpu else (_GROUP, 1, 1) if device.group >= _GROUP else None
        engine.launch(text, name, launch.size, local, [x, out, launch.argument])
    return out

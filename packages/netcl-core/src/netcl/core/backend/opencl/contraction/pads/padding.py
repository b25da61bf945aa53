"""Copies images for convolutions: zero-padded, as strided samples, or spread with zeros between elements."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from netcl.core.backend.opencl.contraction.problem import compute_dtype
from netcl.core.backend.opencl.contraction.recorded_copies import copied
from netcl.core.backend.opencl.templates import Traits, divisor, per_work_item, source, struct, traits
from netcl.core.dtypes import itemsize

if TYPE_CHECKING:
    from netcl.core.storage.data import TensorData

Triple = tuple[int, int, int]

_GROUP, _EACH = 128, 4  # work-items, and the elements of one
_SMALL, _RECENT = 1 << 16, 16  # elements of a copy that a recording keeps, and copies that it keeps

_FILES = {"pad": "pad_pad", "sample": "pad_sample", "spread": "pad_spread"}  # of each kernel


@lru_cache(maxsize=1024)
def _launch(
    planes: int, extent: Triple, low: Triple, padded: Triple, first: int, images: int, device: Traits
) -> tuple[bool, int, int, Any]:
    rows, begin = images * planes * padded[0] * padded[1], first * planes * prod(extent)
    block = per_work_item(rows, device, padded[2])
    each, items, group = _grid(rows, padded[2], block, device, images * planes * prod(extent))
    if each:
        argument = struct(rows * padded[2], begin, extent, low, *map(divisor, padded))
    else:
        argument = struct(rows, block, begin, extent, padded, low)
    return each, items, group, argument


def _grid(rows: int, width: int, block: int, device: Traits, read: int = 0) -> tuple[bool, int, int]:
    """Returns True if a work-item has several elements in place of rows, then the numbers of work-items, in all and of
    a group; ``read`` are the elements that are read at positions of 32 bits.
    """
    if device.is_cpu or max(rows * width, read) >= (1 << 31) - _GROUP * _EACH:
        return False, -(-rows // block), 1
    group = min(_GROUP, device.group)
    return True, -(-rows * width // (group * _EACH)) * group, group


def _program(dtype: str, kernel: str, each: bool, widened: bool = False) -> str:
    """Returns the text of a kernel, which declares the argument of ``_launch`` or ``_sampling`` for the same ``each``;
    ``widened``: ``pad`` with a result in the computing type.
    """
    access = "storage" if widened else "elements"
    defines: list[tuple[str, object]] = [(f"DTYPE_{dtype.upper()}", 1), ("WIDENED", 1)] if widened else []
    defines += [] if widened else [("BYTES", itemsize(dtype))]
    defines += [("EACH", _EACH)] if each else []
    return source((access, "division", "pad", _FILES[kernel]), tuple(defines))


def padded_images(
    engine: Any,
    x: TensorData,
    planes: int,
    extent: Triple,
    low: Triple,
    padded: Triple,
    first: int,
    images: int,
    widened: bool = False,
) -> TensorData:
    """Returns ``images`` images of x from ``first`` on, (images, planes, *padded). Each has x's three dimensions
    ``extent`` with ``low`` zeros before each, cut off if ``low`` is negative or ``padded`` too short; ``widened``: in
    the computing type.
    """
    dtype = compute_dtype(x.dtype) if widened else x.dtype
    block = planes, extent, low, padded, first, images

    def padded_copy() -> TensorData:
        out: TensorData = engine.empty((images, planes, *padded), dtype)
        each, items, group, argument = _launch(*block, traits(engine))
        text = _program(x.dtype, "pad", each, dtype != x.dtype)
        engine.launch(text, "pad", (items,), (group,), [x, out, argument])
        return out

    # A convolution and its gradient by the weights pad the same images. Large copies are repeated, not kept.
    if images * planes * prod(padded) > _SMALL:
        return padded_copy()
    return copied(engine, x, "padded", (block, str(dtype)), padded_copy, _RECENT)


@lru_cache(maxsize=256)
def _sampling(planes: int, extent: Triple, result: Triple, step: Triple, device: Traits) -> tuple[bool, int, int, Any]:
    rows = planes * result[0] * result[1]
    block = max(1, per_work_item(rows, device, result[2]))
    each, items, group = _grid(rows, result[2], block, device)
    if each:
        argument = struct(rows * result[2], extent, *map(divisor, (*result, *step)))
    else:
        argument = struct(rows, block, extent, result, step)
    return each, items, group, argument


def resampled(engine: Any, name: str, x: TensorData, extent: Triple, result: Triple, step: Triple) -> TensorData:
    """Returns for ``sample`` every step-th element of images of three dimensions ``extent``, in the shape ``result``;
    for ``spread`` x's elements at every step-th element of the result, zeros elsewhere.
    """
    shape = x.shape[:2] + result[5 - x.ndim :]
    out: TensorData = engine.empty(shape, x.dtype)
    if out.size:
        each, items, group, argument = _sampling(prod(shape[:2]), extent, result, step, traits(engine))
        engine.launch(_program(x.dtype, name, each), name, (items,), (group,), [x, out, argument])
    return out

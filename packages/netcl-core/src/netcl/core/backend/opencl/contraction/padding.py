"""Copies of images for convolutions: zero-padded, strided samples, or spread with zeros between elements."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from netcl.core.backend.opencl.templates import Traits, per_work_item, source, struct, traits
from netcl.core.dtypes import itemsize

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

Triple = tuple[int, int, int]

_FILES = {"pad": "pad_pad", "sample": "pad_sample", "spread": "pad_spread"}  # of each kernel


@lru_cache(maxsize=1024)
def _launch(
    planes: int, extent: Triple, low: Triple, padded: Triple, first: int, images: int, device: Traits
) -> tuple[int, Any]:
    rows = images * planes * padded[0] * padded[1]
    block = per_work_item(rows, device)
    return -(-rows // block), struct(rows, block, first * planes * prod(extent), extent, padded, low)


def _program(dtype: str, kernel: str) -> str:
    return source(("elements", "pad", _FILES[kernel]), (("BYTES", itemsize(dtype)),))


def padded_images(
    engine: Any, x: TensorData, planes: int, extent: Triple, low: Triple, padded: Triple, first: int, images: int
) -> TensorData:
    """``images`` images of x from ``first`` on, (images, planes, *padded): x's of three dimensions ``extent`` with
    ``low`` zeros before each, cut off where ``low`` is negative or ``padded`` too short.
    """
    out: TensorData = engine.empty((images, planes, *padded), x.dtype)
    items, argument = _launch(planes, extent, low, padded, first, images, traits(engine))
    text = _program(x.dtype, "pad")
    engine.launch(text, "pad", (items,), (1,) if traits(engine).is_cpu else None, [x, out, argument])
    return out


@lru_cache(maxsize=256)
def _sampling(planes: int, extent: Triple, result: Triple, step: Triple, device: Traits) -> tuple[int, Any]:
    rows = planes * result[0] * result[1]
    block = max(1, per_work_item(rows, device))
    return -(-rows // block), struct(rows, block, extent, result, step)


def resampled(engine: Any, name: str, x: TensorData, extent: Triple, result: Triple, step: Triple) -> TensorData:
    """``sample``: every step-th element of images of three dimensions ``extent``, so many as ``result`` says;
    ``spread``: x's elements at every step-th of the result, zeros elsewhere.
    """
    shape = x.shape[:2] + result[5 - x.ndim :]
    out: TensorData = engine.empty(shape, x.dtype)
    if out.size:
        items, argument = _sampling(prod(shape[:2]), extent, result, step, traits(engine))
        text = _program(x.dtype, name)
        engine.launch(text, name, (items,), (1,) if traits(engine).is_cpu else None, [x, out, argument])
    return out

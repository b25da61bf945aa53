"""Copies of images with zeros around them, which convolutions read instead of asking at each tap."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from netcl.core.dtypes import itemsize

from .templates import Traits, share, source, struct, traits

if TYPE_CHECKING:
    from netcl.core.tensor import Tensor

Triple = tuple[int, int, int]


@lru_cache(maxsize=1024)
def _launch(
    planes: int, extent: Triple, low: Triple, padded: Triple, first: int, images: int, device: Traits
) -> tuple[int, Any]:
    rows = images * planes * padded[0] * padded[1]
    block = share(rows, device)
    return -(-rows // block), struct(rows, block, first * planes * prod(extent), extent, padded, low)


def padded_images(
    engine: Any, x: Tensor, planes: int, extent: Triple, low: Triple, padded: Triple, first: int, images: int
) -> Tensor:
    """``images`` images of x from ``first`` on, (images, planes, *padded): x's of three dimensions ``extent`` with
    ``low`` zeros before each, cut off where ``low`` is negative or ``padded`` too short.
    """
    out: Tensor = engine.empty((images, planes, *padded), x.dtype)
    items, argument = _launch(planes, extent, low, padded, first, images, traits(engine))
    text = source(("pad",), (("BYTES", itemsize(x.dtype)),))
    engine.launch(text, "pad", (items,), (1,) if traits(engine).is_cpu else None, [x, out, argument])
    return out

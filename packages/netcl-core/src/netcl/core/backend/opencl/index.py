"""Taking, gathering and their gradients on OpenCL devices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netcl.core.dtypes import itemsize

from .templates import Traits, source, struct, traits

if TYPE_CHECKING:
    from netcl.core.tensor import Tensor

_UNITS = 16  # work-items that walk all indices
_COPIES = 64  # work-items that copy rows


class _Plan(NamedTuple):
    shape: tuple[int, ...]
    size: tuple[int, int, int]
    argument: Any


@lru_cache(maxsize=512)
def _plan(
    kind: str, x: tuple[int, ...], indices: tuple[int, ...], axis: int, shape: tuple[int, ...] | None, device: Traits
) -> _Plan:
    table = x if shape is None else shape  # what the indices point into
    axis %= len(table)
    before, extent, after = prod(table[:axis]), table[axis], prod(table[axis + 1 :])
    count = prod(indices) if kind.startswith("take") else indices[axis]
    if kind == "take":
        result = table[:axis] + indices + table[axis + 1 :]
    else:
        result = indices if kind == "gather" else table
    if kind in ("take", "gather"):
        rows = before * count
        block = -(-rows // _COPIES) if device.is_cpu else 1
        width = after if device.is_cpu else 1
        size = (-(-after // max(width, 1)), -(-rows // max(block, 1)), 1)
    else:
        # Row ranges of a result keep a work-item's share together; gathers own whole columns.
        block = max(1, -(-extent * before // _UNITS)) if kind == "take_grad" else extent
        width = after if kind == "take_grad" else max(1, -(-after * before // _UNITS))
        if not device.is_cpu:
            width = 1
        size = (-(-after // max(width, 1)), -(-extent // max(block, 1)) if kind == "take_grad" else 1, before)
    return _Plan(result, size, struct(before, extent, after, count, max(block, 1), max(width, 1)))


def index(
    engine: Any, kind: str, x: Tensor, indices: Tensor, *, axis: int, shape: Sequence[int] | None = None
) -> Tensor:
    """``take`` as np.take and ``gather`` as np.take_along_axis (equal shapes but for the axis), and their gradients.

    ``take_grad`` and ``gather_grad`` add the rows or elements of ``x``, a gradient, into zeros of ``shape``, in the
    order of the indices. An index outside [-n, n) is clamped and reported at the next host read.
    """
    device = traits(engine)
    plan = _plan(kind, x.shape, indices.shape, axis, None if shape is None else tuple(shape), device)
    out: Tensor = engine.empty(plan.shape, x.dtype)
    if out.size == 0:
        return out
    code = np.int32(engine.flag_code(f"{kind.removesuffix('_grad')}: an index is out of range"))
    integer = "long" if indices.dtype == "int64" else "int"
    local = (1, 1, 1) if device.is_cpu else None
    if kind in ("take", "gather"):
        size = itemsize(x.dtype)
        text = source(("index",), (("BYTES", size), ("INDEX", integer)))
        args = [x, indices, out, engine.flag, code, plan.argument]
        engine.launch(f"index-{size}-{integer}", text, kind, plan.size, local, args)
        return out
    key = f"index_gradient-{x.dtype}-{integer}"
    text = source(("storage", "index"), ((f"DTYPE_{x.dtype.upper()}", 1), ("INDEX", integer)))
    sums = engine.empty(plan.shape, "float32") if x.dtype in ("float16", "bfloat16") else out
    name = "take_gradient" if kind == "take_grad" else "gather_gradient"
    engine.launch(key, text, name, plan.size, local, [x, indices, sums, engine.flag, code, plan.argument])
    if sums is not out:
        block = -(-out.size // _COPIES) if device.is_cpu else 1
        args = [sums, out, np.int64(out.size), np.int64(block)]
        engine.launch(key, text, "narrow", (-(-out.size // block),), (1,) if device.is_cpu else None, args)
    return out

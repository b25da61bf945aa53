"""Pads a tensor with its own elements on OpenCL devices, and computes the gradient, each in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

from netcl.core.backend.opencl.templates import Traits, magic, source, struct, traits
from netcl.core.errors import UnsupportedError
from netcl.core.layout import contiguous_strides
from netcl.core.storage.data import TensorData

_DIMS = 6
_GROUP = 128  # work-items of a group
_EACH = 4  # elements of a work-item


@lru_cache(maxsize=64)
def _program(dtype: str, mode: str, dims: int) -> str:
    dtype = "uint8" if dtype == "bool" else dtype
    defines = ((f"DTYPE_{dtype.upper()}", 1), ("REFLECT", int(mode == "reflect")), ("DIMS", dims), ("EACH", _EACH))
    return source(("storage", "division", "border"), defines)


@lru_cache(maxsize=512)
def _launch(
    kind: str, x: tuple[int, ...], pads: tuple[tuple[int, int], ...], device: Traits
) -> tuple[tuple[int, ...], int, int, int, Any]:
    """Returns the shape of the result, the dimensions, the work-items of all groups and of one, and the argument."""
    forward = kind == "forward"
    shape = tuple(n + (low + high if forward else -low - high) for n, (low, high) in zip(x, pads))
    inner = x if forward else shape
    dims: list[tuple[int, int, int]] = []  # without a border, neighbours are joined
    for extent, (low, high) in zip(inner, pads):
        if dims and not low and not high and not any(dims[-1][1:]):
            dims[-1] = (dims[-1][0] * extent, 0, 0)
        else:
            dims.append((extent, low, high))
    if len(dims) > _DIMS or max(prod(x), prod(shape)) >= 1 << 31:
        raise UnsupportedError(
            f"a border of more than {_DIMS} axes, or of 2**31 elements: {x} and {pads}; pad fewer axes at a time",
            op="border",
        )
    count = max(1, len(dims))
    dims[:0] = [(1, 0, 0)] * (_DIMS - len(dims))
    extents, lows, highs = zip(*dims)
    whole = tuple(map(sum, dims))
    strides = contiguous_strides(extents if forward else whole)
    divisors = zip(*map(magic, whole if forward else extents))
    argument = struct(prod(shape), extents, lows, highs, *divisors, strides, narrow=True)
    group = min(_GROUP, device.group)
    return shape, count, -(-prod(shape) // (group * _EACH)) * group, group, argument


def border(engine: Any, kind: str, x: TensorData, *, pads: Sequence[Sequence[int]], mode: str) -> TensorData:
    """See ``DeviceBackend.border``."""
    around = tuple((int(low), int(high)) for low, high in pads)
    shape, dims, items, group, argument = _launch(kind, x.shape, around, traits(engine))
    out: TensorData = engine.empty(shape, x.dtype)
    if out.size:
        name = "border" if kind == "forward" else "border_gradient"
        engine.launch(_program(x.dtype, mode, dims), name, (items,), (group,), [x, out, argument])
    return out

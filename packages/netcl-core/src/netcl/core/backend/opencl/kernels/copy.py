"""Strided copies on OpenCL devices: transposition, slicing, joining, padding, expansion and assignment; and fills."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.core.backend.opencl import templates
from netcl.core.backend.opencl.templates import Traits, per_work_item, struct, traits
from netcl.core.dtypes import itemsize
from netcl.core.expr.c_types import STREAM
from netcl.core.expr.schedule import STREAMED
from netcl.core.tensor.host import to_storage

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

_DIMS = 6
_LONG = 4096  # elements of a row that one tile holds at most
_SQUARE = 64  # edge of a tile where rows of the source are columns of the result, on a CPU
_LINES = (256, 16)  # the same where sixteen elements of the result are a cache line
_LINE = 64
_SHARED = 32  # the same in local memory, where a group of _GROUP work-items copies it
_GROUP = 128

Dim = tuple[int, int, int]  # extent, stride in the source, stride in the result


def _joined(shape: Sequence[int], source_strides: Sequence[int], out_strides: Sequence[int]) -> list[Dim]:
    """The dimensions without those of extent one, neighbours joined where both strides allow it."""
    dims: list[Dim] = []
    for extent, s, o in zip(shape, source_strides, out_strides):
        if extent == 1:
            continue
        if dims and dims[-1][1] == s * extent and dims[-1][2] == o * extent:
            dims[-1] = (dims[-1][0] * extent, s, o)
        else:
            dims.append((extent, s, o))
    return dims


@lru_cache(maxsize=8)
def _program(size: int, is_cpu: bool) -> str:
    defines: tuple[tuple[str, object], ...] = (("BYTES", size),)
    return STREAM + "\n" + templates.source(("copy",), defines if is_cpu else (*defines, ("TILE", _SHARED)))


@lru_cache(maxsize=1024)
def _launches(
    shape: tuple[int, ...],
    source_strides: tuple[int, ...],
    source_offset: int,
    out_strides: tuple[int, ...],
    out_offset: int,
    size: int,
    device: Traits,
) -> tuple[str, tuple[tuple[int, Any], ...]]:
    """The kernel, and its work-items (or groups) and argument for each launch."""
    dims = _joined(shape, source_strides, out_strides)
    dims.sort(key=lambda dim: -abs(dim[2]))
    transposing = len(dims) > 1 and abs(dims[-1][1]) > 1
    if transposing:
        # The dimension along which the source is read in order comes next to the last.
        nearest = min(range(len(dims) - 1), key=lambda d: abs(dims[d][1]) or 1 << 62)
        dims.insert(len(dims) - 2, dims.pop(nearest))
    outer, inner = dims[: max(0, len(dims) - _DIMS)], dims[max(0, len(dims) - _DIMS) :]
    inner = [(1, 0, 0)] * (_DIMS - len(inner)) + inner
    rows, columns = inner[-2][0], inner[-1][0]
    shared = transposing and not device.is_cpu and 0 < abs(inner[-2][1]) < abs(inner[-1][1])
    if shared:
        tile = (_SHARED, _SHARED)
    elif not device.is_cpu:
        tile = (1, 1)
    elif transposing:
        tile = _LINES if size * _LINES[1] == _LINE and inner[-2][1] == inner[-1][2] == 1 else (_SQUARE, _SQUARE)
    else:
        tile = (max(1, _LONG // max(columns, 1)), _LONG)
    counts = (-(-rows // tile[0]), -(-columns // tile[1]))
    tiles = prod(counts) * prod(dim[0] for dim in inner[:-2])
    block = per_work_item(tiles, device)
    starts = (out_offset, *(dim[2] for dim in dims[:-1]))
    streams = prod(shape) * size >= STREAMED and not any(start * size % _LINE for start in starts)
    launches = []
    for place in product(*(range(dim[0]) for dim in outer)):
        start = source_offset + sum(i * dim[1] for i, dim in zip(place, outer))
        target = out_offset + sum(i * dim[2] for i, dim in zip(place, outer))
        extents, steps, out_steps = zip(*inner)
        argument = struct(
            tiles, block, int(transposing and device.is_cpu), int(streams), start, target,
            tile, counts, extents, steps, out_steps,
        )  # fmt: skip
        launches.append((-(-tiles // block), argument))
    return "copy_tiles" if shared else "copy", tuple(launches)


def copy(
    engine: Any,
    source: TensorData,
    out: TensorData,
    *,
    shape: Sequence[int],
    source_strides: Sequence[int],
    source_offset: int,
    out_strides: Sequence[int],
    out_offset: int,
) -> None:
    """Copies a block of ``shape`` between tensors of one dtype; strides and offsets in elements.

    Strides may be 0 in the source (repetition) and negative in both (reversal); the two must not overlap in memory.
    """
    if prod(shape) == 0:
        return
    device = traits(engine)
    size = itemsize(out.dtype)
    text = _program(size, device.is_cpu)
    name, launches = _launches(
        tuple(shape), tuple(source_strides), source_offset, tuple(out_strides), out_offset, size, device
    )
    group = min(_GROUP, device.group) if name == "copy_tiles" else 1 if device.is_cpu else None
    for items, argument in launches:
        sizes = ((items * (group or 1),), None if group is None else (group,))
        engine.launch(text, name, *sizes, [source, out, argument])


def fill(engine: Any, tensor: TensorData, value: float) -> None:
    """Sets every element to ``value``; the first content of a persistent tensor is never recorded."""
    stored = to_storage(value, tensor.dtype)[0]
    launcher = engine.launcher
    recording, launcher.recording = launcher.recording, None if tensor.persistent else launcher.recording
    try:
        capacity = tensor.pool_handle.bucket_size if tensor.pool_handle is not None else 0
        number = stored.view(np.uint8)[()] if stored.dtype == np.bool_ else stored[()]
        engine.transfer.fill(tensor, tensor.nbytes, number, capacity)
    finally:
        launcher.recording = recording

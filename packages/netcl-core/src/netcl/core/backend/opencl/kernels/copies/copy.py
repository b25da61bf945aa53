"""Strided copies on OpenCL devices: transposition, slicing, joining, padding, expansion and assignment; and fills."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import lru_cache
from itertools import dropwhile, product
from math import gcd, prod
from typing import Any

import numpy as np

from netcl.core.backend.opencl import templates
from netcl.core.backend.opencl.queue.plans.execution_plan import ExecutionPlan, Step
from netcl.core.backend.opencl.queue.plans.noted_plan import run_planned
from netcl.core.backend.opencl.queue.plans.planned_op import planned_op
from netcl.core.backend.opencl.storage import stored_dtype
from netcl.core.backend.opencl.templates import Traits, magic, per_work_item, struct, traits
from netcl.core.dtypes import c_type, itemsize
from netcl.core.engine.product import Copies
from netcl.core.engine.recording import unrecorded
from netcl.core.expr import c_types
from netcl.core.expr.c_types import STREAM
from netcl.core.expr.schedule import STREAMED
from netcl.core.layout import block_of, contiguous_strides
from netcl.core.storage.data import TensorData
from netcl.core.storage.host import to_storage

_DIMS = 6
_LONG = 4096  # elements of a row that one tile holds at most
_SQUARE = 64  # edge of a tile where rows of the source are columns of the result, on a CPU
_LINES = (256, 16)  # the same where sixteen elements of the result are a cache line
_LINE = 64
_SHARED = 32  # the same in local memory, where a group of _GROUP work-items copies it
_GROUP = 128
_EACH = 4  # elements of a work-item if the position of each is computed separately
_WIDEST = 16  # bytes that a work-item moves at most

Dim = tuple[int, int, int]  # extent, stride in the source, stride in the result
Kind = int | tuple[str, str]  # bytes of an element, or the dtypes of source and result if they differ


def _joined(shape: Sequence[int], source_strides: Sequence[int], out_strides: Sequence[int]) -> list[Dim]:
    """Returns the dimensions of more than one element, with neighbours joined if both strides allow it."""
    dims: list[Dim] = []
    for extent, s, o in zip(shape, source_strides, out_strides):
        if extent == 1:
            continue
        if dims and dims[-1][1] == s * extent and dims[-1][2] == o * extent:
            dims[-1] = (dims[-1][0] * extent, s, o)
        else:
            dims.append((extent, s, o))
    return dims


@lru_cache(maxsize=64)
def _program(kernel: str, kind: Kind, whole: int = 1, dims: int = 0, group: int = 0) -> str:
    """Returns the text of a kernel for elements that are ``whole`` adjacent ones of a ``kind``; for ``dims``
    dimensions, and groups of ``group`` work-items, if that matters.
    """
    defines: dict[str, object] = {"DIMS": dims, "EACH": _EACH} if dims else {}
    if kernel == "copy_tiles":
        defines |= {"TILE": _SHARED, "GROUP": group}
    names = ("division", kernel) if dims else ("copy_block", kernel)
    if isinstance(kind, int):
        defined = ("BYTES", kind * whole), *defines.items()
        return templates.filled_program(("elements", *names), defined, {"stream": STREAM})
    parts = {"conversion": _conversion(*kind, whole)}
    return templates.filled_program(("converted_elements", *names), tuple(defines.items()), parts)


def _conversion(source: str, result: str, whole: int) -> str:
    """Returns what elements.cl has, for ``whole`` adjacent elements of two dtypes that are converted as floats."""
    real, first = c_types.lanes("float", whole), f"{whole} * (i)"
    through = [c_types.lanes(c_type(dtype), whole) if whole > 1 else "" for dtype in (source, result)]
    return "\n".join(
        [
            *([c_types.bfloat16_helper(whole)] if result == "bfloat16" else ()),
            f"typedef {real} element;",
            f"typedef {c_type(source)} source_element;",
            f"typedef {c_type(result)} result_element;",
            f"#define GET(p, i) {c_types.load('(p)', first, source, whole, through[0])}",
            f"#define PUT(x, p, i) {c_types.store('(p)', first, '(x)', result, whole, through[1])}",
        ]
    )


@lru_cache(maxsize=1024)
def _launches(
    shape: tuple[int, ...],
    source_strides: tuple[int, ...],
    source_offset: int,
    out_strides: tuple[int, ...],
    out_offset: int,
    kind: Kind,
    device: Traits,
) -> tuple[str, str, int | None, tuple[tuple[int, Any], ...]]:
    """Returns the text and name of the kernel, a group's work-items, and work-items and argument for each launch."""
    size = kind if isinstance(kind, int) else itemsize("float32")
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
        launches = _by_elements(inner, outer, (source_offset, out_offset), kind, device)
        if launches is not None:
            return launches
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
    arguments = _arguments(
        inner, outer, (source_offset, out_offset), (tiles, block, int(transposing and device.is_cpu), int(streams)),
        (tile, counts),
    )  # fmt: skip
    if shared:
        group = min(_GROUP, device.group)
        sizes = tuple((tiles * group, argument) for argument in arguments)
        return _program("copy_tiles", kind, group=group), "copy_tiles", group, sizes
    alone = 1 if device.is_cpu else None
    return _program("copy", kind), "copy", alone, tuple((-(-tiles // block), argument) for argument in arguments)


def _arguments(
    inner: list[Dim], outer: list[Dim], offsets: tuple[int, int], head: tuple[int, ...], tiling: tuple[Any, ...]
) -> list[Any]:
    """Returns the argument of each launch: one for each position in the dimensions ``outer``."""
    extents, steps, out_steps = zip(*inner)
    return [struct(*head, *starts, *tiling, extents, steps, out_steps) for starts in _starts(outer, offsets)]


def _starts(outer: list[Dim], offsets: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Yields each launch's offsets in source and result: one for each position in the dimensions ``outer``."""
    for position in product(*(range(dim[0]) for dim in outer)):
        source, out = (
            offset + sum(i * dim[k] for i, dim in zip(position, outer)) for k, offset in enumerate(offsets, 1)
        )
        yield source, out


def _by_elements(
    inner: list[Dim], outer: list[Dim], offsets: tuple[int, int], kind: Kind, device: Traits
) -> tuple[str, str, int | None, tuple[tuple[int, Any], ...]] | None:
    """Returns launches with a few elements per work-item; adjacent elements at the start of all rows move as one
    element of up to 16 bytes. None if there are too many for 32-bit positions.
    """
    whole, last = 1, inner[-1]
    if last[1] == last[2] == 1:
        steps = [abs(step) for dim in (*outer, *inner[:-1]) for step in dim[1:]]
        size = kind if isinstance(kind, int) else itemsize("float32")
        whole = gcd(_WIDEST // size, last[0], *offsets, *steps)
        inner, outer = ([(n, s // whole, o // whole) for n, s, o in dims] for dims in (inner, outer))
        inner[-1] = (last[0] // whole, 1, 1)
        offsets = offsets[0] // whole, offsets[1] // whole
    while prod(dim[0] for dim in inner) >= 1 << 31 and len(inner) > 1:
        outer, inner = [*outer, inner[0]], inner[1:]
    count = prod(dim[0] for dim in inner)
    if count >= 1 << 31:
        return None
    dims = max(1, sum(1 for _ in dropwhile(lambda dim: dim[0] == 1, inner)))
    inner = [(1, 0, 0)] * (_DIMS - len(inner)) + inner
    group = min(_GROUP, device.group)
    items = -(-count // (group * _EACH)) * group
    extents, *strides = zip(*inner)
    numbers = (extents, *zip(*map(magic, extents)), *strides)
    name = "copy_elements"
    text = _program(name, kind, whole, dims)
    return text, name, group, tuple((items, struct(count, *starts, *numbers)) for starts in _starts(outer, offsets))


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
    """Copies a block of ``shape`` between tensors of one dtype; strides and offsets in elements. Strides may be 0 in
    the source (repetition) and negative in both (reversal); the two must not overlap in memory. On a GPU one may be
    float32 and the other a half type.
    """
    if prod(shape) == 0:
        return
    dtype = stored_dtype(out.dtype)
    kind = itemsize(dtype) if source.dtype == dtype else (source.dtype, dtype)
    block = tuple(shape), tuple(source_strides), source_offset, tuple(out_strides), out_offset, kind

    def compute(engine: Any, source: TensorData, out: TensorData) -> None:
        text, name, group, launches = _launches(*block, traits(engine))
        for items, argument in launches:
            engine.launch(text, name, (items,), None if group is None else (group,), [source, out, argument])

    # Offsets may differ from call to call, so that a plan pays from the second call on.
    run_planned(engine, ("copy", *block), compute, (source, out), first=2)


def planned(engine: Any, copies: Copies) -> Callable[[Sequence[Any]], Any] | None:
    """Returns the function that repeats the op ``copies`` by plans (see ``planned_op.py``); None if one is missing."""
    steps: list[Step] = []
    count, size = len(copies.blocks), itemsize(copies.dtype)
    for place, block in enumerate(copies.blocks):
        plan = engine.plans.get(("copy", *block, size))
        if not isinstance(plan, ExecutionPlan) or plan.others:
            return None
        steps += [
            step._replace(tensors=tuple(count if each else place for each in step.tensors)) for step in plan.steps
        ]
    repeat: Any = planned_op(engine, ExecutionPlan(tuple(steps)), range(count), [(copies.shape, copies.dtype)])
    return lambda args: None if engine.intercepting else repeat(args)


def scatter_block(
    engine: Any, x: TensorData, *, shape: Sequence[int], starts: Sequence[int], steps: Sequence[int], value: float
) -> TensorData:
    """Returns a tensor of ``shape`` full of ``value`` that holds ``x`` at starts + i * steps."""
    out: TensorData = engine.empty(tuple(shape), x.dtype)
    if out.size == 0:
        return out
    launch = None
    if x.size and not traits(engine).is_cpu:
        size = itemsize(x.dtype)
        bits = int(np.frombuffer(to_storage(value, x.dtype)[0].tobytes() * (8 // size), np.int64)[0])
        launch = _scattered(x.shape, tuple(shape), tuple(starts), tuple(steps), bits, size, traits(engine))
    if launch is not None:
        text, group, items, argument = launch
        engine.launch(text, "scatter_elements", (items,), (group,), [x, out, argument])
        return out
    fill(engine, out, value)
    if x.size:
        strides, offset = block_of(out.shape, starts, steps)
        copy(
            engine, x, out, shape=x.shape, source_strides=contiguous_strides(x.shape), source_offset=0,
            out_strides=strides, out_offset=offset,
        )  # fmt: skip
    return out


@lru_cache(maxsize=32)
def _scattered_program(size: int, dims: int, stepped: int) -> str:
    defines = (("BYTES", size), ("DIMS", dims), ("EACH", _EACH), ("STEPPED", stepped))
    return templates.source(("elements", "division", "scatter_elements"), defines)


@lru_cache(maxsize=1024)
def _scattered(
    x: tuple[int, ...], shape: tuple[int, ...], starts: tuple[int, ...], steps: tuple[int, ...], bits: int,
    size: int, device: Traits,
) -> tuple[str, int, int, Any] | None:  # fmt: skip
    """Returns the text, the work-items of a group and of all, and the argument of one launch, for elements of ``size``
    bytes; None if it has too many dimensions or elements, or a step back. ``bits``: eight bytes of repeated values.
    """
    dims = list[list[int]]()  # extent, size of the block, start and step
    for dim in zip(shape, x, starts, steps):
        extent, block, start, step = dim
        if dims and dims[-1][3] == 1 and (block, start, step) == (extent, 0, 1):
            dims[-1] = [extent * part for part in dims[-1][:3]] + [1]
        else:
            dims.append([*dim])
    whole = 1
    if dims and dims[-1][3] == 1:
        whole = gcd(_WIDEST // size, *dims[-1][:3])
        dims[-1][:3] = [part // whole for part in dims[-1][:3]]
    count = prod(shape) // whole
    if not 0 < len(dims) <= _DIMS or count >= 1 << 31 or min(steps) < 1:
        return None
    stepped = int(any(dim[3] != 1 for dim in dims))
    rank = len(dims)
    dims[:0] = [[1, 1, 0, 1]] * (_DIMS - rank)
    extents, blocks, begins, each = zip(*dims)
    strides = contiguous_strides(blocks)
    argument = struct(count, bits, extents, *zip(*map(magic, extents)), blocks, begins, each, strides)
    group = min(_GROUP, device.group)
    text = _scattered_program(size * whole, rank, stepped)
    return text, group, -(-count // (group * _EACH)) * group, argument


def _stored(value: Any, dtype: str) -> Any:
    """Returns a number as a NumPy scalar in the storage dtype of ``dtype``."""
    stored = to_storage(value, dtype)[0]
    return stored.view(np.uint8)[()] if stored.dtype == np.bool_ else stored[()]


@lru_cache(maxsize=256)
def _number(value: float, text: str, dtype: str) -> Any:
    return _stored(value, dtype)


def fill(engine: Any, tensor: TensorData, value: float) -> None:
    """Sets every element to ``value``; the first content of a persistent tensor is never recorded."""
    # By its text: 0.0 and -0.0 are equal.
    number = _number(value, repr(value), tensor.dtype) if type(value) in (int, float) else _stored(value, tensor.dtype)
    capacity = tensor.pool_handle.bucket_size if tensor.pool_handle is not None else 0
    with unrecorded(engine.launcher) if tensor.persistent else nullcontext():
        engine.transfer.fill(tensor, tensor.nbytes, number, capacity)

"""Taking, gathering, writing and adding at indices on OpenCL devices, and the places of what is true."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.core.backend.base import host_read_allowed
from netcl.core.dtypes import itemsize
from netcl.core.expr import Load, cast, reduce

from .templates import Traits, share, source, struct, traits

if TYPE_CHECKING:
    from netcl.core.tensor import Tensor

_COPIES = 64  # work-items of a CPU that copy rows
_WALKERS = 1 << 16  # work-items of other devices that walk all indices
_LISTERS = 1 << 14  # work-items of other devices that list what is true
_GROUP = 128
_TABLES = 1024  # tables that other devices than CPUs sum up at most
_SHARE = 256  # indices of one table at least

Size = tuple[int, ...]


def _grid(columns: int, rows: int, outer: int, device: Traits) -> tuple[Size, Size]:
    """Work-items and groups; on devices that are no CPU with so many more that groups are full."""
    if device.is_cpu:
        return (columns, rows, outer), (1, 1, 1)
    group = min(_GROUP, device.group)
    wide = min(group, 1 << max(0, columns - 1).bit_length())
    high = min(group // wide, 1 << max(0, rows - 1).bit_length())
    return (-(-columns // wide) * wide, -(-rows // high) * high, outer), (wide, high, 1)


@lru_cache(maxsize=512)
def _moving(before: int, extent: int, after: int, count: int, device: Traits) -> tuple[Size, Size, Any]:
    """The launch of kernels that move rows: a few work-items with many rows each on a CPU, else one per element."""
    rows = before * count
    block, width = (-(-rows // _COPIES), after) if device.is_cpu else (1, 1)
    size, local = _grid(-(-after // max(width, 1)), -(-rows // max(block, 1)), 1, device)
    return size, local, struct(before, extent, after, count, max(block, 1), max(width, 1), 0, rows)


@lru_cache(maxsize=512)
def _walking(
    table: tuple[int, int, int], count: int, total: int, columns: bool, keep: bool, units: int, device: Traits
) -> tuple[Size, Size, Any]:
    """The launch of kernels in which each work-item owns a part of the result and walks all indices.

    ``columns``: each column has indices of its own, so that on a CPU the columns are shared out first.
    """
    before, extent, after = table
    width = after if device.is_cpu else 1
    if device.is_cpu and columns:
        width = -(-after * before // units)
    across = -(-after // max(width, 1))
    block = max(1, -(-extent * before * across // (units if device.is_cpu else _WALKERS)))
    size, local = _grid(across, -(-extent // block), before, device)
    return size, local, struct(before, extent, after, count, block, max(width, 1), int(keep), total)


def _tables(extent: int, count: int, units: int, device: Traits) -> int:
    """In how many tables many indices into few positions are added up first; 1: in the result itself."""
    tables = min(units if device.is_cpu else _TABLES, count // _SHARE)
    return tables if tables > 1 and extent * tables <= count else 1


def index(
    engine: Any,
    kind: str,
    x: Tensor,
    indices: Tensor,
    *,
    axis: int,
    shape: Sequence[int] | None = None,
    out: Tensor | None = None,
    op: str = "",
) -> Tensor:
    """``take`` as np.take and ``gather`` as np.take_along_axis (equal shapes but for the axis), and what undoes them.

    ``take_grad`` and ``gather_grad`` add the rows or elements of ``x`` into zeros of ``shape``, or to what ``out``
    holds, in the order of the indices. ``put`` and ``scatter`` write them into ``out``, where the last of equal
    indices wins. An index outside [-n, n) is clamped, and the next host read names ``op``.
    """
    device = traits(engine)
    whole = tuple(out.shape if out is not None else x.shape if shape is None else shape)
    axis %= len(whole)
    before, extent, after = prod(whole[:axis]), whole[axis], prod(whole[axis + 1 :])
    by_row = kind in ("take", "take_grad", "put")
    count = indices.size if by_row else indices.shape[axis]
    if out is None:
        result = whole
        if kind in ("take", "gather"):
            result = whole[:axis] + indices.shape + whole[axis + 1 :] if by_row else indices.shape
        target: Tensor = engine.empty(result, x.dtype)
    else:
        target = out
    if target.size == 0 or out is not None and x.size == 0:
        return target
    code = np.int32(engine.flag_code(f"{op or kind.removesuffix('_grad')}: an index is out of range"))
    integer = "long" if indices.dtype == "int64" else "int"
    table = before, extent, after
    units = 2 * engine.target.units
    if kind.endswith("_grad"):
        _add(engine, x, indices, target, table, count, by_row, out is not None, units, code)
        return target
    width = itemsize(x.dtype)
    key, text = f"index-{width}-{integer}", source(("index",), (("BYTES", width), ("INDEX", integer)))
    if out is not None and device.is_cpu:
        size, local, argument = _walking(table, count, before * count, not by_row, True, units, device)
        engine.launch(key, text, f"{kind}_in_order", size, local, [x, indices, target, engine.flag, code, argument])
        return target
    size, local, argument = _moving(*table, count, device)
    if out is None:
        engine.launch(key, text, kind, size, local, [x, indices, target, engine.flag, code, argument])
        return target
    winner = engine.empty((extent,) if by_row else target.shape, "int32")
    engine.fill(winner, -1)
    own = _moving(1, extent, 1, count, device) if by_row else (size, local, argument)
    engine.launch(key, text, "claim", *own[:2], [indices, winner, engine.flag, code, own[2]])
    engine.launch(key, text, kind, size, local, [x, indices, winner, target, argument])
    return target


def _add(
    engine: Any,
    x: Tensor,
    indices: Tensor,
    target: Tensor,
    table: tuple[int, int, int],
    count: int,
    by_row: bool,
    keep: bool,
    units: int,
    code: Any,
) -> None:
    """Adds up in float32 or wider, in tables of parts of the indices where these are many, and rounds once."""
    device, integer = traits(engine), "long" if indices.dtype == "int64" else "int"
    key = f"index_gradient-{x.dtype}-{integer}"
    text = source(("storage", "index"), ((f"DTYPE_{x.dtype.upper()}", 1), ("INDEX", integer)))
    wide = "float32" if x.dtype in ("float16", "bfloat16") else x.dtype
    tables = _tables(table[1], count, units, device) if table[0] == table[2] == 1 else 1
    if tables > 1:
        part = -(-count // tables)
        sums = engine.empty((tables, table[1]), wide)
        size, local, argument = _walking((tables, table[1], 1), part, count, True, False, units, device)
        engine.launch(key, text, "gather_gradient", size, local, [x, indices, sums, engine.flag, code, argument])
        total = reduce("sum", Load(0, wide), 0)
        row = target._alias(type(target), (1, table[1]))
        if keep:
            total = total + cast(Load(1, x.dtype), wide)
        engine.run((cast(total, x.dtype),), (sums, row) if keep else (sums,), shapes=(row.shape,), out=(row,))
        return
    sums = target
    if wide != x.dtype:
        sums = engine.empty(target.shape, wide)
        if keep:
            engine.run((cast(Load(0, x.dtype), wide),), (target,), out=(sums,))
    size, local, argument = _walking(table, count, table[0] * count, not by_row, keep, units, device)
    name = "take_gradient" if by_row else "gather_gradient"
    engine.launch(key, text, name, size, local, [x, indices, sums, engine.flag, code, argument])
    if sums is not target:
        engine.run((cast(Load(0, wide), x.dtype),), (sums,), out=(target,))


def nonzero(engine: Any, mask: Tensor) -> Tensor:
    """The flat positions of what is true in ``mask`` (bool), int64, in order. Their number is read on the host."""
    host_read_allowed(engine)
    device = traits(engine)
    if mask.size == 0:
        return engine.empty((0,), "int64")  # type: ignore[no-any-return]
    block = max(share(mask.size, device), -(-mask.size // _LISTERS))
    local = (1 if device.is_cpu else min(64, device.group),)
    items = -(-mask.size // block // local[0]) * local[0]
    text, sizes = source(("nonzero",), ()), (np.int64(mask.size), np.int64(block))
    counts = engine.empty((items,), "int64")
    engine.launch("nonzero", text, "count_true", (items,), local, [mask, counts, *sizes])
    ends = np.cumsum(engine.read(counts))
    out: Tensor = engine.empty((int(ends[-1]),), "int64")
    if out.size:
        starts = engine.tensor(np.concatenate(([0], ends[:-1])), "int64")
        engine.launch("nonzero", text, "list_true", (items,), local, [mask, starts, out, *sizes])
    return out

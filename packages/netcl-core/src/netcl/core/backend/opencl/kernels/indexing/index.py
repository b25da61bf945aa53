"""Takes, gathers, writes and adds at indices on OpenCL devices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np

from netcl.core.backend.opencl.templates import Traits, source, struct, traits
from netcl.core.dtypes import itemsize
from netcl.core.engine.protocol import OUT_OF_RANGE
from netcl.core.expr import Expr, Load, Scalar, cast, place_of, reduce
from netcl.core.expr.c_types import report
from netcl.core.storage.data import TensorData

_COPIES = 64  # work-items of a CPU that copy rows
_WALKERS = 1 << 16  # work-items of other devices that iterate over all indices
_WORD = 8  # bytes
_GROUP = 128
_GROUPS = (1 << 16) - 1  # groups in the second and the third dimension
_TABLES = 1024  # tables that other devices than CPUs sum up at most
_SHARE = 256  # indices of one table at least
_SORTED = 512  # indices that other devices than CPUs sort before they add

# The files of kernels that have one of their own; the others are in index_in_order.cl.
_FILES = {
    "take": "index_take",
    "gather": "index_gather",
    "put": "index_put",
    "scatter": "index_scatter",
    "claim": "index_claim",
    "sorted_gradient": "index_sorted_gradient",
}
_BY_ROWS = ("put_in_order", "take_gradient")  # kernels with an index for a row
_IN_ORDER = {"put": "put_in_order", "scatter": "scatter_in_order"}

# On a vector an element is a row.
_BY_ROW = {"gather": "take", "scatter": "put", "gather_grad": "take_grad"}

Size = tuple[int, ...]


def _grid(columns: int, rows: int, outer: int, device: Traits) -> tuple[Size, Size]:
    """Returns the work-items and groups: except on CPUs full groups, and no more than every device starts."""
    if device.is_cpu:
        return (columns, rows, outer), (1, 1, 1)
    group = min(_GROUP, device.group)
    wide = min(group, 1 << max(0, columns - 1).bit_length())
    high = min(group // wide, 1 << max(0, rows - 1).bit_length())
    down, deep = min(-(-rows // high), _GROUPS), min(outer, _GROUPS)
    return (-(-columns // wide) * wide, down * high, deep), (wide, high, 1)


@lru_cache(maxsize=512)
def _moving(before: int, extent: int, after: int, count: int, device: Traits) -> tuple[Size, Size, Any]:
    """Returns the launch of kernels that move rows: on a CPU few work-items with many rows, else one per element."""
    rows = before * count
    width = max(after, 1) if device.is_cpu else 1
    _, local = _grid(-(-after // width), rows, 1, device)
    block = max(1, -(-rows // (_COPIES if device.is_cpu else _GROUPS * local[1])))
    size, local = _grid(-(-after // width), -(-rows // block), 1, device)
    return size, local, struct(before, extent, after, count, block, width, 0, rows)


@lru_cache(maxsize=512)
def _walking(
    table: tuple[int, int, int], count: int, total: int, columns: bool, keep: bool, units: int, device: Traits
) -> tuple[Size, Size, Any]:
    """Returns the launch of kernels in which each work-item owns a part of the result and iterates over all indices.
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
    """Returns the number of tables in which many indices into few positions are added first; 1: in the result."""
    tables = min(units if device.is_cpu else _TABLES, count // _SHARE)
    return tables if tables > 1 and extent * tables <= count else 1


def _integer(dtype: str) -> str:
    return "long" if dtype == "int64" else "int"


_REPORT = "REPORT(code, value, at, size)", report("code", "value", "at", "size")


def _program(size: int, indices: str, is_cpu: bool, kernel: str) -> str:
    """Returns the text of a kernel that moves elements of ``size`` bytes."""
    alone = (("ALONE", 1),) if is_cpu and kernel == "take" else ()
    return _text(kernel, ("index", "elements"), (("BYTES", size), ("INDEX", _integer(indices)), _REPORT, *alone))


def _sum_program(dtype: str, indices: str, kernel: str) -> str:
    """Returns the text of a kernel that adds elements."""
    defines = ((f"DTYPE_{dtype.upper()}", 1), ("INDEX", _integer(indices)), _REPORT, ("ADDED", 1))
    return _text(kernel, ("storage", "index"), defines)


def _text(kernel: str, names: tuple[str, ...], defines: tuple[tuple[str, object], ...]) -> str:
    if kernel not in _FILES:
        defines += (("KERNEL", kernel), ("BY_ROW", int(kernel in _BY_ROWS)))
    return source((*names, _FILES.get(kernel, "index_in_order")), defines)


def index(
    engine: Any,
    kind: str,
    x: TensorData,
    indices: TensorData,
    *,
    axis: int,
    shape: Sequence[int] | None = None,
    out: TensorData | None = None,
    op: str = "",
    wrap: bool = True,
) -> TensorData:
    """Computes ``take`` as np.take and ``gather`` as np.take_along_axis (equal shapes but for the axis), and their
    gradients.

    ``take_grad`` and ``gather_grad`` add the rows or elements of ``x`` into zeros of ``shape``, or to what ``out``
    holds, in the order of the indices. ``put`` and ``scatter`` write them into ``out``, where the last of equal
    indices wins. An index outside [-n, n) is clamped, and the next host read names ``op``.
    """
    device = traits(engine)
    whole = tuple(out.shape if out is not None else x.shape if shape is None else shape)
    axis %= len(whole)
    before, extent, after = prod(whole[:axis]), whole[axis], prod(whole[axis + 1 :])
    number = engine.flag_code(OUT_OF_RANGE.format(op or kind.removesuffix("_grad")))
    code = np.int32(number if wrap else -number)  # the kernels take a negative code as: no negative indices
    kind = _BY_ROW.get(kind, kind) if len(whole) == 1 else kind
    by_row = kind in ("take", "take_grad", "put")
    count = indices.size if by_row else indices.shape[axis]
    if out is None:
        result = whole
        if kind in ("take", "gather"):
            result = whole[:axis] + indices.shape + whole[axis + 1 :] if by_row else indices.shape
        target: TensorData = engine.empty(result, x.dtype)
    else:
        target = out
    if target.size == 0 or out is not None and x.size == 0:
        return target
    table = before, extent, after
    units = 2 * engine.target.units
    if kind.endswith("_grad"):
        _Sum(engine, x, indices, table, count, by_row, units, code).into(target, keep=out is not None)
        return target
    element = itemsize(x.dtype)
    if kind == "take" and device.is_cpu and after > 1:  # rows are copied in words
        word = gcd(after * element, _WORD)
        table, element = (before, extent, after * element // word), word
    text = partial(_program, element, indices.dtype, device.is_cpu)
    if out is not None and device.is_cpu:
        size, local, argument = _walking(table, count, before * count, not by_row, True, units, device)
        name = _IN_ORDER[kind]
        engine.launch(text(name), name, size, local, [x, indices, target, engine.flag, code, argument])
        return target
    size, local, argument = _moving(*table, count, device)
    if out is None:
        engine.launch(text(kind), kind, size, local, [x, indices, target, engine.flag, code, argument])
        return target
    winner = engine.empty((extent,) if by_row else target.shape, "int32")
    engine.fill(winner, -1)
    launch_sizes = _moving(1, extent, 1, count, device) if by_row else (size, local, argument)
    engine.launch(text("claim"), "claim", *launch_sizes[:2], [indices, winner, engine.flag, code, launch_sizes[2]])
    engine.launch(text(kind), kind, size, local, [x, indices, winner, target, argument])
    return target


class _Sum(NamedTuple):
    """Adds rows or elements to a table, in float32 or wider, and rounds once."""

    engine: Any
    x: TensorData
    indices: TensorData
    table: tuple[int, int, int]
    length: int
    by_row: bool
    units: int
    code: Any

    def into(self, target: TensorData, keep: bool) -> None:
        """Adds all rows to zeros, or with ``keep`` to the existing values."""
        engine, dtype, (before, extent, after) = self.engine, self.x.dtype, self.table
        device = traits(engine)
        wide = "float32" if dtype in ("float16", "bfloat16") else dtype
        tables = _tables(extent, self.length, self.units, device) if before == after == 1 else 1
        if tables > 1:
            self._in_tables(target, tables, wide, keep)
            return
        sums = target if wide == dtype else engine.empty(target.shape, wide)
        if keep and sums is not target:
            engine.run((cast(Load(0, dtype), wide),), (target,), out=(sums,))
        if self.by_row and not device.is_cpu and self.length >= _SORTED and extent < 1 << 31:
            if not keep:
                engine.fill(sums, 0)
            self._sorted(sums)
        else:
            self._walk("take_gradient" if self.by_row else "gather_gradient", sums, self.table, self.length, keep)
        if sums is not target:
            engine.run((cast(Load(0, wide), dtype),), (sums,), out=(target,))

    def _launch(self, name: str, launch: tuple[Size, Size, Any], before: list[Any], behind: list[Any]) -> None:
        size, local, argument = launch
        text = _sum_program(self.x.dtype, self.indices.dtype, name)
        self.engine.launch(text, name, size, local, [self.x, *before, *behind, argument])

    def _walk(self, name: str, sums: TensorData, table: tuple[int, int, int], count: int, keep: bool) -> None:
        total = self.table[0] * self.length
        columns = name == "gather_gradient"
        launch = _walking(table, count, total, columns, keep, self.units, traits(self.engine))
        self._launch(name, launch, [self.indices, sums], [self.engine.flag, self.code])

    def _in_tables(self, target: Any, tables: int, wide: str, keep: bool) -> None:
        """Adds many indices into a short vector: parts of them concurrently, each into a separate table."""
        dtype, extent = self.x.dtype, self.table[1]
        sums = self.engine.empty((tables, extent), wide)
        self._walk("gather_gradient", sums, (tables, extent, 1), -(-self.length // tables), False)
        total = reduce("sum", Load(0, wide), 0)
        row = target._alias((1, extent))
        if keep:
            total = total + cast(Load(1, dtype), wide)
        operands = (sums, row) if keep else (sums,)
        self.engine.run((cast(total, dtype),), operands, shapes=(row.shape,), out=(row,))

    def _sorted(self, sums: TensorData) -> None:
        """Adds many rows on many cores: sorts equal indices next to each other, in their original order."""
        engine, (before, extent, after) = self.engine, self.table
        (positions,) = engine.run((_position(self.indices.dtype, abs(int(self.code))),), (self.indices,), {"n": extent})
        positions, order = engine.sort("sort", positions._alias((self.length,)), size=self.length)
        size, local = _grid(after, self.length, before, traits(engine))
        argument = struct(*self.table, self.length, 1, 1, 1, before * self.length)
        self._launch("sorted_gradient", (size, local, argument), [positions, order], [sums])


@lru_cache(maxsize=64)
def _position(dtype: str, code: int) -> Expr:
    return cast(place_of(Load(0, dtype), Scalar("n", "int64"), code), "int32")

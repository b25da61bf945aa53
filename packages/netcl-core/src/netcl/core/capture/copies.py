"""Copy propagation in a captured step: a strided copy of a strided copy, such as a slice whose axes are permuted, or a
permuted gradient that is written into a block of a larger one, reads what the first copy has read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from netcl.core.capture.call_log import LoggedCall, Ref
from netcl.core.layout import contiguous_strides

__all__ = ["with_composed_copies"]

_Key = tuple[int, int]
_Shape = tuple[int, ...]


class _Source(NamedTuple):
    """The elements, in C order, that a copy has written: those of ``ref`` by ``shape``, ``strides`` and ``offset``."""

    ref: Ref
    shape: _Shape
    strides: _Shape
    offset: int


class _Walk(NamedTuple):
    """The shape of a copy, and the strides and the offset in its source, and the strides in its target."""

    shape: _Shape
    strides: _Shape
    offset: int
    out_strides: _Shape


def with_composed_copies(calls: Sequence[LoggedCall], kept: Iterable[int]) -> list[LoggedCall]:
    """The calls, in which copies do not read copies that nothing but copies reads. Those are still there, but dead;
    ``kept`` are numbers of tensors that are needed besides.
    """
    kept, others = set(kept), _others(calls)
    versions: dict[int, int] = {}
    sources: dict[_Key, _Source] = {}
    found = []
    for call in calls:
        if call.method == "copy":
            source, target = call.args[0], call.args[1]
            first = sources.get((source.number, source.version))
            if first is not None and versions.get(first.ref.number, first.ref.version) == first.ref.version:
                call = _composed(call, first)
                source = call.args[0]
            key = (target.number, target.version + 1)
            if target.number not in kept and key not in others and _is_whole(call):
                walk = _walk(call)
                sources[key] = _Source(source, walk.shape, walk.strides, walk.offset)
        versions.update((number, versions.get(number, 0) + 1) for number in call.writes)
        versions.update(call.makes)
        found.append(call)
    return found


def _others(calls: Sequence[LoggedCall]) -> set[_Key]:
    """The values that other calls than copies read, or that copies write into."""
    found = set()
    for call in calls:
        keys = set(call.reads)
        if call.method == "copy":
            keys.discard((call.args[0].number, call.args[0].version))
        found |= keys
    return found


def _walk(call: LoggedCall) -> _Walk:
    given = call.kwargs
    return _Walk(
        tuple(given["shape"]), tuple(given["source_strides"]), given["source_offset"], tuple(given["out_strides"])
    )


def _is_whole(call: LoggedCall) -> bool:
    """True if a copy writes all elements of its target, in C order."""
    shape = tuple(call.kwargs["shape"])
    whole = prod(shape) == prod(call.args[1].shape) and call.kwargs["out_offset"] == 0
    return whole and tuple(call.kwargs["out_strides"]) == contiguous_strides(shape)


def _composed(call: LoggedCall, first: _Source) -> LoggedCall:
    """The copy ``call`` of what ``first`` has copied, from the source of that one; itself if no strides give it."""
    walk = composed(first.shape, first.strides, first.offset, _walk(call))
    if walk is None:
        return call
    named = {
        **call.kwargs,
        "shape": walk.shape,
        "source_strides": walk.strides,
        "source_offset": walk.offset,
        "out_strides": walk.out_strides,
    }
    old, ref = call.args[0], first.ref
    reads = (call.reads - {(old.number, old.version)}) | {(ref.number, ref.version)}
    return replace(call, args=(ref, *call.args[1:]), kwargs=named, reads=reads)


def composed(shape: _Shape, strides: _Shape, offset: int, walk: _Walk) -> _Walk | None:
    """The walk through the elements that ``shape``, ``strides`` and ``offset`` name in a source, in place of ``walk``
    through these elements in C order; None if its axes do not stay within axes of ``shape``, or span whole ones.
    """
    rows = contiguous_strides(shape)
    reach = [walk.offset // row % size for row, size in zip(rows, shape)]  # the last place in each axis
    start = offset + sum(place * step for place, step in zip(reach, strides))
    axes: list[tuple[int, int, int]] = []
    for size, step, out_step in zip(walk.shape, walk.strides, walk.out_strides):
        parts = []
        while size > 1:
            axis = next((a for a, row in enumerate(rows) if row <= step < row * shape[a] and step % row == 0), None)
            if axis is None:
                return None
            stride = step // rows[axis]
            if reach[axis] + (size - 1) * stride < shape[axis]:
                count = size
            elif stride == 1 and reach[axis] == 0 and size % shape[axis] == 0:
                count = shape[axis]
            else:
                return None
            reach[axis] += (count - 1) * stride
            parts.append((count, stride * strides[axis], out_step))
            size, step, out_step = size // count, rows[axis] * shape[axis], out_step * count
        axes += reversed(parts)
    if not axes:
        axes = [(1, 0, 0)]
    sizes, steps, out_steps = zip(*axes)
    return _Walk(sizes, steps, start, out_steps)

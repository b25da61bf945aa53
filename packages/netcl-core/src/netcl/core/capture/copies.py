"""Copy propagation in a captured step: a strided copy of a strided copy (such as a slice with permuted axes, or a
permuted gradient written into a block of a larger one) reads what the first copy has read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from netcl.core.graph.call import LoggedCall, Ref
from netcl.core.layout import contiguous_strides
from netcl.core.storage.views import Geometry

__all__ = ["Walk", "composed", "with_composed_copies"]

_Key = tuple[int, int]


class _Source(NamedTuple):
    """The elements, in C order, that a copy has written: of ``ref`` by ``geometry``."""

    ref: Ref
    geometry: Geometry


class Walk(NamedTuple):
    """The elements of its source that a copy reads, and the strides in its target."""

    geometry: Geometry
    out_strides: tuple[int, ...]


def with_composed_copies(calls: Sequence[LoggedCall], kept: Iterable[int]) -> list[LoggedCall]:
    """Returns the calls; copies in them do not read copies that only copies read. Such copies are still there, but
    dead; ``kept`` are numbers of tensors that are needed besides.
    """
    kept, others = set(kept), _others(calls)
    versions: dict[int, int] = {}
    sources: dict[_Key, _Source] = {}
    rewritten = []
    for call in calls:
        if call.method == "copy":
            source, target = call.args[0], call.args[1]
            first = sources.get((source.number, source.version))
            if first is not None and versions.get(first.ref.number, first.ref.version) == first.ref.version:
                call = _composed(call, first)
                source = call.args[0]
            key = (target.number, target.version + 1)
            if target.number not in kept and key not in others and _is_whole(call):
                sources[key] = _Source(source, _walk(call).geometry)
        versions.update((number, versions.get(number, 0) + 1) for number in call.writes)
        versions.update(call.makes)
        rewritten.append(call)
    return rewritten


def _others(calls: Sequence[LoggedCall]) -> set[_Key]:
    """Returns the values that other calls than copies read, and the targets of copies."""
    others = set()
    for call in calls:
        keys = set(call.reads)
        if call.method == "copy":
            keys.discard((call.args[0].number, call.args[0].version))
        others |= keys
    return others


def _walk(call: LoggedCall) -> Walk:
    arguments = call.kwargs
    source = Geometry(tuple(arguments["shape"]), tuple(arguments["source_strides"]), arguments["source_offset"])
    return Walk(source, tuple(arguments["out_strides"]))


def _is_whole(call: LoggedCall) -> bool:
    """True if a copy writes all elements of its target, in C order."""
    (shape, *_), out_strides = _walk(call)
    whole = prod(shape) == prod(call.args[1].shape) and call.kwargs["out_offset"] == 0
    return whole and out_strides == contiguous_strides(shape)


def _composed(call: LoggedCall, first: _Source) -> LoggedCall:
    """Returns the copy ``call`` of what ``first`` has copied, from the source of that one; itself if no strides give
    it.
    """
    walk = composed(first.geometry, _walk(call))
    if walk is None:
        return call
    shape, strides, offset = walk.geometry
    read = {"shape": shape, "source_strides": strides, "source_offset": offset}
    named = {**call.kwargs, **read, "out_strides": walk.out_strides}
    old, ref = call.args[0], first.ref
    reads = (call.reads - {(old.number, old.version)}) | {(ref.number, ref.version)}
    return replace(call, args=(ref, *call.args[1:]), kwargs=named, reads=reads)


def composed(first: Geometry, walk: Walk) -> Walk | None:
    """Returns the walk through the source of ``first``, in place of ``walk`` through the elements of ``first`` in C
    order; None if its axes do not stay within axes of ``first``, or span whole ones.
    """
    shape, strides, offset = first
    (sizes, steps, begin), out_strides = walk
    rows = contiguous_strides(shape)
    reach = [begin // row % size for row, size in zip(rows, shape)]  # the last place in each axis
    start = offset + sum(place * step for place, step in zip(reach, strides))
    axes: list[tuple[int, int, int]] = []
    for size, step, out_step in zip(sizes, steps, out_strides):
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
    sizes, steps, out_strides = zip(*(axes or [(1, 0, 0)]))
    return Walk(Geometry(sizes, steps, start), out_strides)

"""Copy propagation in a captured step: a strided copy of a strided copy (such as a slice with permuted axes, or a
permuted gradient written into a block of a larger one) reads what the first copy has read. On a GPU a copy also does
the work of a cast before or after it, if no expression could.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

from netcl.core.capture.casts import Cast, cast_of
from netcl.core.graph.call import LoggedCall, Ref, is_expression, without_dead_calls
from netcl.core.layout import contiguous_strides
from netcl.core.storage.views import Geometry

__all__ = ["Walk", "composed", "with_composed_copies", "with_converting_copies"]

_Key = tuple[int, int]
_FUSED = ("run", "matmul", "conv")  # calls that a cast of their result is fused with


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


def with_converting_copies(
    engine: Any, calls: Sequence[LoggedCall], live: Iterable[int], outside: Iterable[int]
) -> list[LoggedCall]:
    """Returns the calls; copies in them read the source of a cast that they alone read, or write the result of a cast
    that alone reads them, if copies of ``engine`` convert. A cast that could be fused with an expression or an epilogue
    stays. Dead calls go, but casts that this made dead are still there.
    """
    if not getattr(engine, "converts_copies", False):
        return list(calls)
    calls = without_dead_calls(calls, {*live, *outside})
    log, rewritten = _Log(calls, {*live, *outside}), dict(enumerate(calls))
    for at, call in enumerate(calls):
        cast = cast_of(at, call)
        if cast is None or prod(cast.result.shape) >= 1 << 31:
            continue
        reader, copies = log.only_reader(cast.result), log.copies_for(cast)
        if reader is not None and log.is_copy(reader) and log.may_be_read(cast, reader):
            rewritten[reader] = _reading(calls[reader], cast.source)
        elif copies and all(rewritten[copy] is calls[copy] for copy in copies):
            rewritten.update((copy, _writing(calls[copy], cast.result, copy == copies[-1])) for copy in copies)
            del rewritten[at]
    return list(rewritten.values())


class _Log:
    """The readers and writers of tensors among ``calls``; tensors with numbers in ``kept`` are needed besides."""

    def __init__(self, calls: Sequence[LoggedCall], kept: set[int]) -> None:
        self._calls = calls
        self._kept = kept
        self._readers: dict[_Key, list[int]] = {}
        self._uses: dict[int, set[int]] = {}  # by tensor: the calls that read it
        self._writers: dict[int, list[int]] = {}
        for at, call in enumerate(calls):
            for key in call.reads:
                self._readers.setdefault(key, []).append(at)
                self._uses.setdefault(key[0], set()).add(at)
            for number in call.writes:
                self._writers.setdefault(number, []).append(at)

    def only_reader(self, ref: Ref) -> int | None:
        """Returns the number of the call that alone needs the value; None if there are others, or none."""
        readers = self._readers.get((ref.number, ref.version), [])
        return readers[0] if len(readers) == 1 and ref.number not in self._kept else None

    def is_copy(self, at: int) -> bool:
        """True if a call is a copy between tensors of one dtype."""
        call = self._calls[at]
        return call.method == "copy" and not call.kept and call.args[0].dtype == call.args[1].dtype

    def may_be_read(self, cast: Cast, reader: int) -> bool:
        """True if the source of a cast is as it was when ``reader`` runs, and no call that made it takes the cast."""
        writers = self._writers.get(cast.source.number, ())
        makers = [writer for writer in writers if writer < cast.at]
        unchanged = not any(cast.at < writer < reader for writer in writers)
        return unchanged and not (makers and self._calls[makers[-1]].method in _FUSED)

    def copies_for(self, cast: Cast) -> list[int]:
        """Returns the copies that make the source of a cast, such as a concatenation, if nothing else reads it, and no
        expression reads the result; else none.
        """
        number, result = cast.source.number, cast.result
        copies = self._writers.get(number, [])
        alone = number not in self._kept and self._uses[number] <= {*copies, cast.at}
        others = all(self.is_copy(at) and self._calls[at].args[0].number != number for at in copies)
        readers = self._readers.get((result.number, result.version), ())
        fused = any(is_expression(self._calls[reader]) for reader in readers)
        return copies if alone and others and not fused else []


def _reading(call: LoggedCall, source: Ref) -> LoggedCall:
    """Returns the copy ``call`` from ``source``."""
    old = call.args[0]
    reads = (call.reads - {(old.number, old.version)}) | {(source.number, source.version)}
    return replace(call, args=(source, *call.args[1:]), reads=reads)


def _writing(call: LoggedCall, result: Ref, last: bool) -> LoggedCall:
    """Returns the copy ``call`` into the new tensor ``result``, which the ``last`` of its copies completes."""
    source = call.args[0]
    reads, writes = frozenset(((source.number, source.version),)), frozenset((result.number,))
    return replace(call, args=(source, result), results=result if last else None, reads=reads, writes=writes)


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
    return _reading(replace(call, kwargs={**call.kwargs, **read, "out_strides": walk.out_strides}), first.ref)


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

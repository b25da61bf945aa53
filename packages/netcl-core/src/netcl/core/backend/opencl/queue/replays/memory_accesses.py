"""The memory that a recorded launch reads and writes, by the roles of its kernel's arguments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from netcl.core.expr.kernel_source import KernelText, Role
from netcl.core.process.opencl import cl


class Span(NamedTuple):
    """Bytes of memory: ``base`` is a buffer of its own, or 0 for memory of this process, which buffers may share."""

    base: int
    begin: int
    end: int


class Accesses(NamedTuple):
    """The memory that launches read, and the memory they write."""

    reads: frozenset[Span] = frozenset()
    writes: frozenset[Span] = frozenset()

    def conflict(self, other: Accesses) -> bool:
        """True if either writes memory that the other reads or writes, so that their order matters."""
        return _overlap(self.writes, other.writes | other.reads) or _overlap(self.reads, other.writes)

    def __or__(self, other: Accesses) -> Accesses:
        return Accesses(self.reads | other.reads, self.writes | other.writes)


def accesses(source: str, name: str, args: Sequence[Any]) -> Accesses:
    """Returns the accesses of a launch of kernel ``name`` of a text; each of ``args`` is a buffer, an object with a
    buffer, or a number. A kernel that declares no arguments writes all its buffers.
    """
    declared = source.kernels.get(name, ()) if isinstance(source, KernelText) else ()
    roles = [argument.role for argument in declared] or [Role.WRITE] * len(args)
    reads: set[Span] = set()
    writes: set[Span] = set()
    for role, arg in zip(roles, args, strict=True):
        buffer = getattr(arg, "buffer", arg)
        if isinstance(buffer, cl.MemoryObject):
            # A kernel may read memory that it writes as well; the order of launches is the same.
            (reads if role is Role.READ else writes).add(_span(buffer))
    return Accesses(frozenset(reads), frozenset(writes))


def _span(buffer: Any) -> Span:
    if buffer.flags & cl.mem_flags.USE_HOST_PTR:
        memory = buffer.get_host_array((buffer.size,), np.uint8)
        return Span(0, memory.ctypes.data, memory.ctypes.data + buffer.size)
    whole = buffer.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT)
    if whole is None:
        return Span(buffer.int_ptr, 0, buffer.size)
    span = _span(whole)
    return Span(span.base, span.begin + buffer.offset, span.begin + buffer.offset + buffer.size)


def _overlap(some: Iterable[Span], others: frozenset[Span]) -> bool:
    return any(a.base == b.base and a.begin < b.end and b.begin < a.end for a in some for b in others)

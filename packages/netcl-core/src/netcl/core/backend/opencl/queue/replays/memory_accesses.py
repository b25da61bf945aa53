"""The memory that a recorded launch reads and writes, by the roles of its kernel's arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from netcl.core.expr.kernel_source import Role
from netcl.core.process.opencl import cl

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


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
    buffer, or a number.
    """
    roles = _roles(source, name)
    is_declared = roles is not None and len(roles) == len(args)
    reads: set[Span] = set()
    writes: set[Span] = set()
    for position, arg in enumerate(args):
        buffer = getattr(arg, "buffer", arg)
        if not isinstance(buffer, cl.MemoryObject):
            continue
        span = _span(buffer)
        # A kernel may read memory that it writes as well; the order of launches is the same.
        (reads if is_declared and roles is not None and roles[position] is Role.READ else writes).add(span)
    return Accesses(frozenset(reads), frozenset(writes))


@lru_cache(maxsize=1024)
def _roles(source: str, name: str) -> tuple[Role, ...] | None:
    """Returns the roles of a kernel's parameters, None if they cannot be read from its text: pointers to const are read
    only.
    """
    parameter_lists = re.findall(
        rf"__kernel\b[^;{{}}]*?\bvoid\s+{name}\s*\(([^{{}}]*)\)\s*\{{", _COMMENT.sub("", source)
    )
    declared = {tuple(map(_role, parameters.split(","))) for parameters in parameter_lists if "#" not in parameters}
    return declared.pop() if len(parameter_lists) == len(declared) == 1 else None


def _role(parameter: str) -> Role:
    if "*" not in parameter:
        return Role.SCALAR
    return Role.READ if re.search(r"\bconst\b", parameter.partition("*")[0]) else Role.WRITE


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

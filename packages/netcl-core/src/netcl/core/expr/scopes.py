"""The parameters of a kernel's text besides its expressions, and the blocks (scopes) of the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from netcl.core.dtypes import compute_type
from netcl.core.expr.nodes import Apply, Expr, Reduce
from netcl.core.expr.rewrite import axes_of, walk

Axes = tuple[int, ...]

BLOCK = 64  # steps of a loop that a float sum adds up without its rounding error


@dataclass(frozen=True)
class Layout:
    """The parameters of a kernel's text besides its expressions; sizes are launch arguments instead.

    ``loads[slot]`` and ``outputs[k]`` name the axes along which an operand varies. ``width`` is the number of lanes of
    a vector, ``group`` the number of work-items that share a row, or on a GPU a piece of the only axis. ``across`` of
    them take turns along the last axis (0: all), while the others share the outermost reduced axis. ``split`` is a
    reduced axis: each work-item takes one of ``parts`` pieces. ``block`` is the number of steps that a float sum adds
    plainly. On a CPU (``cpu``) vectors are read and written by plain accesses at any address, and functions are
    computed in vectors also for single values; elsewhere plain accesses need vectors that are ``aligned``. ``exact``:
    the last axis is whole vectors, so that no single values are left; ``once``: it is at most one of each work-item
    that takes turns. ``narrow`` positions have 32 bits. ``streams``:
    vectors of the outputs, which are aligned, go past the caches of a CPU. ``item`` and ``group_item`` are the
    expressions for the number of the work-item and of its group.
    """

    rank: int
    loads: Mapping[int, Axes]
    outputs: tuple[Axes, ...]
    reduced: Axes
    width: int = 8
    group: int = 1
    across: int = 0
    split: int | None = None
    block: int = BLOCK
    cpu: bool = False
    aligned: bool = False
    exact: bool = False
    once: bool = False
    narrow: bool = False
    streams: bool = False
    item: str = "get_global_id(0)"
    group_item: str = "get_group_id(0)"

    @property
    def grid(self) -> Axes:
        """The axes that are distributed over work-items."""
        return tuple(axis for axis in range(self.rank) if axis not in self.reduced)

    @property
    def turns(self) -> int:
        """The work-items that take turns along the last axis."""
        return self.across or self.group

    @property
    def flat(self) -> bool:
        """True if the work-items of a group take turns along a piece of the only axis."""
        return self.rank == 1 and not self.reduced and not self.cpu

    @property
    def columns(self) -> bool:
        """True if the last axis is on the grid."""
        return self.rank > 0 and self.rank - 1 not in self.reduced


@dataclass(eq=False)
class Scope:
    """A block of the kernel: the axes that it binds, its lines so far, and the values written in it.

    In a ``strip`` of several vectors along the last axis the lines that differ from vector to vector are in loops over
    ``u``; a value that other such loops of the scope may use is kept in an array, unless the scope is a ``leaf``, which
    has one loop.
    """

    parent: Scope | None
    binds: frozenset[int]
    vector: bool = False
    whole: bool = False  # whole vectors of the last axis are walked, as vectors or lane by lane
    floor: bool = False  # nothing that is written inside may stand before this scope
    strip: str = ""  # the head of the loops over u
    leaf: bool = False
    end: str = ""  # end of the whole vectors of the last axis, once this scope has its loop
    arrays: list[str] = field(default_factory=list)
    values: dict[Expr, tuple[str, bool]] = field(default_factory=dict)
    _lines: list[tuple[bool, str]] = field(default_factory=list)  # True if it differs along a strip, and the line

    def add(self, *lines: str, each: bool = True) -> None:
        """Appends lines; ``each`` in a strip: one run for each vector."""
        self._lines.extend((bool(self.strip) and each, line) for line in lines)

    def block(self, head: str, inner: Scope) -> None:
        """Appends ``inner`` as a braced block."""
        self.add(f"{head} {{".lstrip(), *("  " + line for line in inner.lines()), "}", each=False)

    def lines(self) -> list[str]:
        """Returns the lines of the block."""
        if self.leaf:
            self._lines.sort(key=lambda line: line[0])
        result, inside = list(self.arrays), False
        for each, line in self._lines:
            if each != inside:
                result.append(self.strip + " {" if each else "}")
                inside = each
            result.append("  " + line if each else line)
        return [*result, "}"] if inside else result


_FOUR_BYTES = ("float", "int", "uint")


def vectorizable(outputs: Sequence[Expr], layout: Layout) -> bool:
    """True if all values that vary along the last axis have four-byte types and primitives on vectors."""
    if not layout.rank:
        return False
    present = {slot: frozenset(axes) for slot, axes in layout.loads.items()}
    memo: dict[Expr, frozenset[int]] = {}
    last = layout.rank - 1
    for node in walk(outputs):
        varies = last in axes_of(node, present, memo)
        if varies and compute_type(node.dtype) not in _FOUR_BYTES:
            return False
        if varies and isinstance(node, Apply) and not node.prim.vector:
            return False
        if isinstance(node, Reduce) and last in node.axes and compute_type(node.dtype) not in _FOUR_BYTES:
            return False
    return True

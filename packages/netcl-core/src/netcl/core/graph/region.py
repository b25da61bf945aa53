"""Regions (fusion groups): calls of expressions, composed to one program.

A region has one iteration space. While it grows its axes are counted from ``LAST`` downwards, the last axis being
``LAST - 1``, so that operands of higher rank add axes at the front without renaming any. A value has
the axis of each of its dimensions; dimensions of length one have none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from netcl.core.expr import Const, Expr, Index, Load, Reduce, Scalar, cast, size_of
from netcl.core.expr.rewrite import rebuild
from netcl.core.layout import aligned
from netcl.core.ops_table.program import Bound, Program
from netcl.core.ops_table.records import Record

Shape = tuple[int, ...]

LAST = 32
MAX_STAGES = 64  # ops of a region: a kernel has to stay small enough for every driver to compile
MAX_INPUTS = 24

_NO_INPUTS = (None,) * MAX_INPUTS


@dataclass(frozen=True, eq=False)
class Value:
    """An input or a result in a region: ``axes`` of its dimensions other than one, ``node`` whether it was recorded.

    ``alias`` is the value that it shares its storage with: a reshape to the same dimensions other than one. ``grouped``
    are the orders of summation in its reductions (``expr/schedule.py``).
    """

    expr: Expr
    shape: Shape
    dtype: str
    axes: tuple[int, ...]
    requires_grad: bool
    node: bool = False
    alias: int | None = None
    grouped: frozenset[Any] = frozenset()


@dataclass(frozen=True, eq=False)
class Stage:
    """One call in a region: ``axes`` of its own iteration space in the region's, ``names`` of its scalars there."""

    name: str
    program: Program | None  # None: a reshape
    operands: tuple[int, ...]
    results: tuple[int, ...]
    shapes: tuple[Shape, ...]
    axes: tuple[int | None, ...]
    names: Mapping[str, str]
    recorded: bool


@dataclass(frozen=True, eq=False)
class Region:
    """Calls of one iteration space: ``sizes`` of its axes, ``reduced`` the ones that reductions run over."""

    values: tuple[Value, ...] = ()
    inputs: tuple[int, ...] = ()
    stages: tuple[Stage, ...] = ()
    sizes: Mapping[int, int] = field(default_factory=dict)
    reduced: frozenset[int] | None = None
    scalars: tuple[str, ...] = ()

    @property
    def last_results(self) -> tuple[int, ...]:
        """The numbers of the last call's results."""
        return self.stages[-1].results


@dataclass(frozen=True, eq=False)
class Fused(Program):
    """The program of a region for some of its results; ``arranged`` are shapes that inputs must get first. ``record``
    has the function that repeats its launches, ``epilogues`` what it is as the epilogue of contractions.
    """

    region: Region = field(default_factory=Region)
    results: tuple[int, ...] = ()
    arranged: tuple[Shape | None, ...] = ()
    shift: int = 0
    record: Record = field(default_factory=Record)
    epilogues: dict[Any, Any] = field(default_factory=dict)

    def run(self, inputs: tuple[Any, ...], scalars: Mapping[str, Any]) -> Sequence[Any]:
        """Returns the results for inputs in their arranged shapes; by their execution plan from the second run on."""
        record, arguments = self.record, self._arguments(inputs, scalars)
        result = record.again(arguments)
        if result is not None:
            return result if isinstance(result, tuple) else (result,)
        results = Bound(self, inputs, dict(scalars)).run()
        if not record.computed:
            record.computed = True
            make = None if self.relaxed else getattr(inputs[0].engine, "planned", None)
            record.again = (make and make(self, arguments, scalars)) or record.again
        return results

    def _arguments(self, inputs: tuple[Any, ...], scalars: Mapping[str, Any]) -> tuple[Any, ...]:
        """Inputs and launch scalars at the positions that these are named after."""
        return (*inputs, *_NO_INPUTS[len(inputs) :], *scalars.values()) if scalars else inputs


# -- composing expressions ---------------------------------------------------------------------------------------------


def substitute(
    expressions: Sequence[Expr], axes: Sequence[int | None], loads: Sequence[Expr], names: Mapping[str, str]
) -> tuple[Expr, ...]:
    """Expressions of one op in a region: axis i becomes ``axes[i]`` (None: it has one element), slot s ``loads[s]``."""

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Load):
            return loads[node.slot]
        if isinstance(node, Index):
            axis = axes[node.axis]
            return Const(0, "int32") if axis is None else Index(axis)
        if isinstance(node, Reduce):
            there = tuple(sorted(a for a in (axes[axis] for axis in node.axes) if a is not None))
            return Reduce(node.kind, node.arg, there) if there else cast(node.arg, node.dtype)
        if isinstance(node, Scalar):
            if node.name.startswith("size:"):
                known = [axes[int(axis)] for axis in node.name[5:].split(",")]
                return size_of([axis for axis in known if axis is not None], node.dtype)
            return Scalar(names[node.name], node.dtype)
        return None

    # Nodes are rewritten after their arguments: the replacement of a load is not walked again.
    return rebuild(expressions, change)


def shifted(expressions: Sequence[Expr], shift: int) -> tuple[Expr, ...]:
    """Expressions with every axis ``shift`` lower."""

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Index):
            return Index(node.axis - shift)
        if isinstance(node, Reduce):
            return Reduce(node.kind, node.arg, tuple(axis - shift for axis in node.axes))
        if isinstance(node, Scalar) and node.name.startswith("size:"):
            return size_of([int(axis) - shift for axis in node.name[5:].split(",")], node.dtype)
        return None

    return rebuild(expressions, change) if shift else tuple(expressions)


def _shape_on(value: Value, low: int) -> Shape:
    """Returns the shape of a value over all axes from ``low`` on."""
    sizes = dict(zip(value.axes, (size for size in value.shape if size != 1)))
    return tuple(sizes.get(axis, 1) for axis in range(low, LAST))


def fuse(region: Region, results: tuple[int, ...], relaxed: bool = False) -> Fused:
    """Returns the program of ``region`` that computes ``results``, over an iteration space without unused axes."""
    low = min(region.sizes, default=LAST)
    values = region.values
    names = list(dict.fromkeys(stage.name for stage in region.stages))
    arranged: list[Shape | None] = []
    for index in region.inputs:
        shape = _shape_on(values[index], low)
        fits = len(values[index].shape) <= LAST - low and aligned(values[index].shape, LAST - low) == shape
        arranged.append(None if fits else shape)
    return Fused(
        name=f"jit({'+'.join(names[:6])}{'+...' if len(names) > 6 else ''})",
        outputs=shifted([values[index].expr for index in results], low),
        shapes=tuple(_shape_on(values[index], low) for index in results),
        finals=tuple(values[index].shape for index in results),
        present={slot: frozenset(a - low for a in values[i].axes) for slot, i in enumerate(region.inputs)},
        single=False,
        relaxed=relaxed,
        region=region,
        results=results,
        arranged=tuple(arranged),
        shift=low,
    )

"""Decides if a call can be fused into a jitted or captured region: axis mapping, legality and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

from netcl.core.dtypes import is_floating
from netcl.core.expr import Apply, Expr, Load, Reduce
from netcl.core.expr.cost import RECOMPUTE_BUDGET, repeated
from netcl.core.expr.nodes import stored
from netcl.core.expr.rewrite import axes_of, slots, walk
from netcl.core.graph.region import (
    LAST,
    MAX_INPUTS,
    MAX_STAGES,
    Region,
    Shape,
    Stage,
    Value,
    fuse,
    substitute,
)  # fmt: skip
from netcl.core.layout import aligned
from netcl.core.ops_table.program import Bound, Program

if TYPE_CHECKING:
    from netcl.core.expr.schedule import Target

SMALL = 1 << 15  # elements that one work-item may walk alone
FEW_ROWS = 64
HOST_ELEMENTS = 1 << 14  # on NumPy a region keeps all its values until it ends, which costs more for large ones


def _reductions(expressions: Sequence[Expr]) -> set[tuple[int, ...]]:
    return {node.axes for node in walk(expressions) if isinstance(node, Reduce)}


def _mapped(
    region: Region, operands: Sequence[tuple[Shape, Value | None]], rank: int
) -> tuple[tuple[int | None, ...], dict[int, int]] | None:
    """Returns the region's axis of each axis of an op, and the region's sizes with the op; None if they do not fit."""
    lengths = [1] * rank
    axes: list[int | None] = [None] * rank
    for shape, value in operands:
        wide = [axis for axis, size in enumerate(aligned(shape, rank)) if size != 1]
        for position, axis in enumerate(wide):
            lengths[axis] = aligned(shape, rank)[axis]
            if value is not None:
                if axes[axis] not in (None, value.axes[position]):
                    return None
                axes[axis] = value.axes[position]
    sizes = dict(region.sizes)
    following = LAST
    for axis in reversed(range(rank)):
        if lengths[axis] == 1:
            axes[axis] = None
            continue
        there = axes[axis]
        there = following - 1 if there is None else there
        if there < 0 or there >= following or sizes.setdefault(there, lengths[axis]) != lengths[axis]:
            return None
        axes[axis] = following = there
    return tuple(axes), sizes


def wide(shape: Sequence[int]) -> Shape:
    """Returns the lengths of a shape that are not 1."""
    return tuple(size for size in shape if size != 1)


def _results(
    program: Program, axes: Sequence[int | None], exprs: Sequence[Expr], requires: bool, node: bool
) -> list[Value] | None:
    made = []
    for expr, shape, final in zip(exprs, program.shapes, program.finals):
        if wide(shape) != wide(final):
            return None
        there = tuple(a for a, size in zip(axes, shape) if size != 1 and a is not None)
        if len(there) != len(wide(shape)):  # an axis of the result alone, which no operand maps to the region's
            return None
        made.append(Value(expr, final, expr.dtype, there, requires and is_floating(expr.dtype), node))
    return made


def extend(
    region: Region,
    name: str,
    ready: Bound,
    refs: Sequence[Any],
    recorded: bool,
    node: bool,
    host: bool,
    target: Target | None = None,
) -> Region | None:
    """Returns the region after a call on the tensors ``refs``: numbers of values, or for new inputs tuples (position
    among the new ones, requires_grad). None if the call cannot be fused into the region; with a ``target`` of kernels,
    also if sums would then add up in another order.
    """
    program = ready.program
    shapes = [tensor.shape for tensor in ready.inputs]
    every = [*shapes, *program.shapes, *program.finals]
    if any(0 in shape for shape in every) or len(region.stages) >= MAX_STAGES:
        return None
    rank = len(program.shapes[0])
    if rank > LAST // 2:
        return None
    values = list(region.values)
    known = [(shape, None if isinstance(ref, tuple) else values[ref]) for shape, ref in zip(shapes, refs)]
    mapped = _mapped(region, known, rank)
    if mapped is None:
        return None
    axes, sizes = mapped
    inputs, numbers = list(region.inputs), dict[int, int]()
    operands: list[int] = []
    for tensor, ref in zip(ready.inputs, refs):
        if not isinstance(ref, tuple):
            operands.append(ref)
            continue
        if ref[0] not in numbers:
            numbers[ref[0]] = len(values)
            inputs.append(len(values))
            there = tuple(a for a, size in zip(axes, aligned(tensor.shape, rank)) if size != 1 and a is not None)
            requires = ref[1] and is_floating(tensor.dtype)
            values.append(Value(Load(len(inputs) - 1, tensor.dtype), tensor.shape, tensor.dtype, there, requires))
        operands.append(numbers[ref[0]])
    if len(inputs) > MAX_INPUTS:
        return None
    loads = [stored(values[index].expr) for index in operands]  # a half value is rounded, as it is between two calls
    # Named by their position after all inputs, where an engine's fast path finds numbers among arguments.
    names = {old: f"v{MAX_INPUTS + len(region.scalars) + k}" for k, old in enumerate(ready.scalars)}
    exprs = substitute(program.outputs, axes, loads, names)
    reduced = _reduced_axes(region, program, axes, sizes, loads, exprs)
    if reduced is _REFUSED:
        return None
    total = 1
    for size in sizes.values():
        total *= size
    if host and total > HOST_ELEMENTS:
        return None
    requires = recorded and any(values[index].requires_grad for index in operands)
    made = _results(program, axes, exprs, requires, node)
    if made is None:
        return None
    first = len(values)
    results = tuple(range(first, first + len(made)))
    stage = Stage(name, program, tuple(operands), results, tuple(shapes), axes, names, requires)
    after = Region(
        (*values, *made),
        tuple(inputs),
        (*region.stages, stage),
        sizes,
        reduced,
        (*region.scalars, *names.values()),
    )
    if target is not None and reduced is not None:
        grouped = _grouped(after, results, ready, target)
        if grouped is None:
            return None
        made = [replace(value, grouped=own) for value, own in zip(made, grouped)]
        after = replace(after, values=(*values, *made))
    return after


def _grouped(region: Region, results: tuple[int, ...], ready: Bound, target: Target) -> list[frozenset[Any]] | None:
    """Returns the summation orders of the last call's ``results``; None if they differ from the calls one by one."""
    stage, orders = region.stages[-1], list[frozenset[Any]]()
    own = target.groupings(ready.program.outputs, ready.program.shapes, stage.shapes)
    for number, output, alone in zip(results, ready.program.outputs, own):
        program = fuse(region, (number,))
        shapes = tuple(
            tensor if there is None else there
            for there, tensor in zip(program.arranged, (region.values[slot].shape for slot in region.inputs))
        )
        (together,) = target.groupings(program.outputs, program.shapes, shapes)
        before = [region.values[stage.operands[slot]].grouped for slot in slots((output,))]
        apart = alone.union(*before)
        if together != apart or (len(apart) > 1 and any(before) and {alone, *before} - {apart, frozenset()}):
            return None
        orders.append(together)
    return orders


_REFUSED = frozenset((-1,))


def _reduced_axes(
    region: Region,
    program: Program,
    axes: Sequence[int | None],
    sizes: Mapping[int, int],
    loads: Sequence[Expr],
    exprs: Sequence[Expr],
) -> frozenset[int] | None:
    """Returns the axes that the region reduces over with a call fused into it, ``_REFUSED`` if that would cost more
    than it saves: other axes than before, much recomputation in each pass, columns, or few whole rows.
    """
    own = {
        frozenset(a for a in (axes[axis] for axis in each) if a is not None) for each in _reductions(program.outputs)
    }
    own.discard(frozenset())
    if own and region.reduced is not None and own != {region.reduced}:
        return _REFUSED
    inner = any(_reductions((load,)) for load in loads)
    if not own and not inner:
        return region.reduced
    if repeated([exprs]) - repeated([program.outputs]) > RECOMPUTE_BUDGET:
        return _REFUSED
    reduced = region.reduced
    if own:
        reduced = next(iter(own)) if len(own) == 1 else frozenset().union(*own)
    assert reduced is not None
    total = rows = 1
    for axis, size in sizes.items():
        total *= size
        rows *= 1 if axis in reduced else size
    trailing = max(reduced) == LAST - 1 and max(reduced) - min(reduced) == len(reduced) - 1
    if inner and total > SMALL and (rows < FEW_ROWS or not trailing):
        present = {slot: frozenset(region.values[index].axes) for slot, index in enumerate(region.inputs)}
        for load in exprs:
            for node in walk((load,)):
                if isinstance(node, Load):
                    present.setdefault(node.slot, frozenset(a for a in axes if a is not None))
        if any(_reductions((e,)) and axes_of(e, present, {}) & reduced for e in exprs):
            return _REFUSED
    return reduced


def alias(region: Region, ref: int, shape: Shape, recorded: bool, node: bool) -> Region | None:
    """Returns the region after a reshape of value ``ref`` that adds or drops dimensions of one; None for any other."""
    value = region.values[ref]
    if wide(value.shape) != wide(shape) or ref in region.inputs:
        return None
    requires = recorded and value.requires_grad
    number = len(region.values)
    made = replace(value, shape=shape, requires_grad=requires, node=node, alias=ref)
    stage = Stage("reshape", None, (ref,), (number,), (value.shape,), (), {}, requires)
    return Region(
        (*region.values, made), region.inputs, (*region.stages, stage), region.sizes, region.reduced, region.scalars
    )


def pays(before: Region, after: Region, ready: Bound) -> bool:
    """Returns True if fusion recomputes at most ``RECOMPUTE_BUDGET`` operations per element."""
    return _recomputed(after) - _recomputed(before) - repeated([ready.program.outputs]) <= RECOMPUTE_BUDGET


def _recomputed(region: Region) -> int:
    """Operations per element that the kernels of a region's results compute more than once."""
    groups: dict[Any, list[Expr]] = {}
    for stage in region.stages:
        for number in stage.results:
            value = region.values[number]
            reduced = frozenset(a for node in walk((value.expr,)) if isinstance(node, Reduce) for a in node.axes)
            groups.setdefault((reduced, frozenset(value.axes) - reduced), []).append(value.expr)
    return repeated([*groups.values()])


def has_same_bits(after: Region) -> bool:
    """Returns True if each element has the bits of the unfused call: if all is exact, if whole rows are computed at
    once, or if the kernels walk all elements in one line.
    """
    nodes = walk([value.expr for value in after.values])
    inexact = [node for node in nodes if isinstance(node, Apply) and not node.prim.exact]
    present = {slot: frozenset(after.values[number].axes) for slot, number in enumerate(after.inputs)}
    memo: dict[Expr, frozenset[int]] = {}
    if all(LAST - 1 not in axes_of(node, present, memo) for node in inexact):
        return True
    size = prod(after.sizes.values())
    whole = all(prod(after.values[number].shape) in (1, size) for number in after.inputs)
    return whole and not any(isinstance(node, Reduce) for node in nodes)


def makes_sincos(before: Region, after: Region) -> bool:
    """Returns True if fusion joins sine and cosine of a value: compilers make one call, with other bits in Intel's."""
    angles = _angles(after)
    return bool(angles) and bool(angles - _angles(before))


def _angles(region: Region) -> set[Expr]:
    """Returns the values with both a sine and a cosine in a region."""
    nodes = [node for node in walk([value.expr for value in region.values]) if isinstance(node, Apply)]
    sines, cosines = ({node.args[0] for node in nodes if node.prim.name == name} for name in ("sin", "cos"))
    return sines & cosines

"""Plans the kernels of a set of expressions, with their layouts, temporaries and launch sizes.

Outputs that reduce over the same axes share a kernel. An expression that reduces over different axes in turn is cut
into stages, unless one work-item of a CPU needs few steps for it; a large reduction to few values is cut into pieces,
and a second kernel reduces their results. The grouping of a reduction depends on its own axes, not on the other
expressions of the plan: ``Target.groupings`` compares it between two plans.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from netcl.core.dtypes import is_floating, itemsize
from netcl.core.expr.kernel_source import KernelSource
from netcl.core.expr.nodes import Apply, Const, Expr, Index, Load, Reduce, Scalar, cast, reduce
from netcl.core.expr.numpy_eval import scalar_value
from netcl.core.expr.opencl_c import render, scalars_of, uses_flag
from netcl.core.expr.opencl_loops import STRIP
from netcl.core.expr.rewrite import axes_of, rebuild, slots, substitute_all, walk
from netcl.core.expr.scopes import BLOCK, Layout
from netcl.core.layout import aligned, broadcast_shapes, collapse

Shape = tuple[int, ...]

NESTED = 1 << 15  # steps of a reduction inside a reduction that one work-item may take
MIN_ITEM = 1 << 12  # elements that make a work-item worth its launch
LONG_ITEM = 1 << 15  # elements of a CPU's work-item if there are many: balances the load of the cores
STREAMED = 1 << 24  # bytes of outputs that no cache would hold together with their inputs
PIECE = 1 << 14  # least elements of a piece of a large reduction, on devices with many cores half as many
MANY_PIECES = 64  # above, pieces are reduced in two launches where each work-item of a GPU walks along them
SHORT_PIECE = 16  # least rows of a piece that a work-item of a GPU walks along
LONG_ROW = 1 << 16  # elements of a row that is worth a second launch if all rows are too few to fill a GPU
WHOLE = 1 << 24  # most elements of a piece: whole numbers up to here are floats, so counts add up exactly
FLAT_GROUP = (
    128  # work-items of a group that shares nothing; a GPU starts smaller ones too slowly to fill its memory bus
)
LEAST_GROUP = 32  # work-items that share a row at least
TRIPS = 3  # vectors of a row that are worth a work-item of a larger group
TURNS = (4, 8, 16, 32, 64, 128)  # work-items that may take turns along a short axis
WIDE = (1 << 31) - (1 << 20)  # elements of an iteration space with 64-bit positions; a step past the end fits


@dataclass(frozen=True)
class Target:
    """The device class a plan is made for: lanes of a vector, most work-items that share a row, compute units, and
    whether it is a CPU. ``streams``: large outputs may go past the caches of a CPU.
    """

    width: int
    group: int
    units: int
    is_cpu: bool
    streams: bool = True

    @property
    def flat_group(self) -> int:
        """The work-items of a group that shares nothing."""
        return 1 if self.is_cpu else min(FLAT_GROUP, self.group)

    def groupings(
        self, outputs: tuple[Expr, ...], shapes: tuple[Shape, ...], inputs: tuple[Shape, ...]
    ) -> tuple[frozenset[Any], ...]:
        """Returns each output's orders of float reductions: it has the same bits in two plans with the same orders."""
        return _groupings(outputs, shapes, inputs, self)


@dataclass(frozen=True)
class Launch:
    """One kernel of a plan, of the expressions ``written``: ``inputs`` and ``outputs`` are slots (inputs, then outputs,
    then temporaries of the plan); ``grouping`` is the order of summation in its reductions.
    """

    written: tuple[Expr, ...]
    layout: Layout
    grouping: tuple[Any, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    flag: bool
    numbers: tuple[int, ...]
    scalars: tuple[tuple[str, str], ...]
    items: int
    group: int

    @cached_property
    def kernel(self) -> KernelSource:
        """The text of the kernel in parts."""
        return render(self.written, self.layout)

    @property
    def name(self) -> str:
        """The name of the kernel."""
        return self.kernel.name

    @cached_property
    def source(self) -> str:
        """The OpenCL C text of the kernel."""
        return self.kernel.to_source()


@dataclass
class Plan:
    """The launches of a run in order, the temporaries between them, and the sizes bound to its scalars."""

    launches: list[Launch] = field(default_factory=list)
    temporaries: list[tuple[Shape, str]] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)


@dataclass
class _Stage:
    """Expressions still to be planned, with the shape and the slot of each result."""

    outputs: list[Expr]
    shapes: list[Shape]
    slots: list[int]

    def append(self, output: Expr, shape: Shape, slot: int) -> None:
        self.outputs.append(output)
        self.shapes.append(shape)
        self.slots.append(slot)


class _Planner:
    def __init__(
        self,
        outputs: Sequence[Expr],
        shapes: Sequence[Shape],
        inputs: Sequence[Shape],
        space: Shape,
        target: Target,
        sizes: dict[str, int],
    ) -> None:
        self.target = target
        self.space = space
        self.rank = len(space)
        self.inputs = len(inputs)
        self.shapes: dict[int, Shape] = {slot: aligned(shape, self.rank) for slot, shape in enumerate(inputs)}
        self.plan = Plan(sizes=sizes)
        self.next = len(inputs) + len(outputs)
        self.stage(
            _Stage(
                list(outputs), [aligned(s, self.rank) for s in shapes], [len(inputs) + k for k in range(len(outputs))]
            )
        )

    def present(self) -> dict[int, frozenset[int]]:
        return {slot: frozenset(a for a, n in enumerate(shape) if n != 1) for slot, shape in self.shapes.items()}

    def temporary(self, shape: Shape, dtype: str) -> int:
        slot, self.next = self.next, self.next + 1
        self.shapes[slot] = shape
        self.plan.temporaries.append((shape, dtype))
        return slot

    def kept(self, stage: _Stage, value: Expr, shape: Shape) -> Expr:
        """Makes ``stage`` store ``value`` in a temporary, and returns its load. Half types are stored as float32, since
        the value would not be rounded without the temporary.
        """
        dtype = "float32" if value.dtype in ("float16", "bfloat16") else value.dtype
        slot = self.temporary(shape, dtype)
        stage.append(cast(value, dtype), shape, slot)
        return cast(Load(slot, dtype), value.dtype)

    # -- stages --------------------------------------------------------------------------------------------------------

    def stage(self, stage: _Stage) -> None:
        """Plans ``stage``: cuts expressions that reduce over different axes, plans a kernel per group that fits."""
        while (first := self.cut(stage)) is not None:  # the next cut may read the results of ``first``
            self.stage(first)
        groups: dict[Any, _Stage] = {}
        for output, shape, slot in zip(stage.outputs, stage.shapes, stage.slots):
            reduced = frozenset(axis for node in walk((output,)) if isinstance(node, Reduce) for axis in node.axes)
            kept = frozenset(axis for axis, size in enumerate(shape) if size != 1) - reduced
            key: Any = reduced, kept
            if reduced:  # in one kernel if neither changes how the other is grouped
                key += self.cut_whole([output]) is not None, tuple(self.lines([output], [shape])[1])
            group = groups.setdefault(key, _Stage([], [], []))
            group.outputs.append(output)
            group.shapes.append(shape)
            group.slots.append(slot)
        for group in groups.values():
            reduced_first = self.spread(group)
            if reduced_first is not None:
                self.stage(reduced_first)
                self.stage(group)
            elif not self.pieces(group):
                self.kernel(group)

    def cut_whole(self, outputs: Sequence[Expr]) -> tuple[list[Reduce], Shape] | None:
        """Returns the reductions in ``outputs`` over inputs alone, and the shape of their results, if they are large
        enough to be cut into pieces; else None.
        """
        nodes = [node for node in walk(outputs) if isinstance(node, Reduce) and not _axis_sets(node.arg)]
        if not nodes:
            return None
        axes, present, memo = nodes[0].axes, self.present(), dict[Expr, frozenset[int]]()
        shapes = [
            tuple(n if axis in axes_of(node, present, memo) else 1 for axis, n in enumerate(self.space))
            for node in nodes
        ]
        if any(node.axes != axes for node in nodes) or shapes != shapes[:1] * len(nodes):
            return None
        return None if self.cut_of(axes, shapes[0]) is None else (nodes, shapes[0])

    def spread(self, stage: _Stage) -> _Stage | None:
        """Replaces large reductions over few long rows, such as in batch norm, by temporaries; returns the stage that
        computes them, and outputs that need nothing else, in pieces.

        None if the stage has only reductions, which ``pieces`` cuts, or enough rows.
        """
        cuttable = self.cut_whole(stage.outputs)
        if cuttable is None:
            return None
        nodes, kept = cuttable
        squares = self.squares(stage, kept)
        inner = [node for node in walk(stage.outputs) if isinstance(node, Reduce) and node not in squares]
        if all(shape == kept for shape in stage.shapes) and not any(_axis_sets(node.arg) for node in inner):
            return None
        first, rest = _Stage([], [], []), _Stage([], [], [])
        ready = dict.fromkeys((*nodes, *squares))  # in an order that a kernel's text may depend on
        replaced: dict[Expr, Expr] = {}
        for output, shape, slot in zip(stage.outputs, stage.shapes, stage.slots):
            done = shape == kept and all(node in ready for node in walk((output,)) if isinstance(node, Reduce))
            (first if done else rest).append(output, shape, slot)
            if done and output in ready and output.dtype not in ("float16", "bfloat16"):
                self.shapes[slot] = shape
                replaced[output] = Load(slot, output.dtype)
        used = walk(rest.outputs)
        for node in ready:
            if node not in replaced and node in used:
                replaced[node] = self.kept(first, node, kept)
        stage.outputs, stage.shapes, stage.slots = list(substitute_all(rest.outputs, replaced)), rest.shapes, rest.slots
        return first

    def squares(self, stage: _Stage, kept: Shape) -> dict[Reduce, Reduce]:
        """Returns the sums of squared deviations from means in ``stage``, each with the sum of its mean, which
        ``pieces`` computes along with it; empty if rows cannot be cut evenly.
        """
        sum_of = dict[Reduce, Reduce]()
        for node in walk(stage.outputs):
            of = _deviates_from(node)
            if of is not None and isinstance(node, Reduce) and not _axis_sets(of.arg):
                sum_of[node] = of
        cut = self.cut_of(next(iter(sum_of)).axes, kept) if sum_of else None
        return sum_of if cut is not None and self.space[cut[0]] == cut[1] * cut[2] else {}

    def cut(self, stage: _Stage) -> _Stage | None:
        """Replaces inner results by temporaries in outputs that reduce over other axes; returns the stage for them."""
        points: dict[Expr, None] = {}
        for output in stage.outputs:
            if len(_axis_sets(output)) > 1 and not self.nests(output):
                points.update(dict.fromkeys(self.cut_points(output)))
        if not points:
            return None
        present, memo = self.present(), dict[Expr, frozenset[int]]()
        first = _Stage([], [], [])
        replaced: dict[Expr, Expr] = {}
        for node in points:
            axes = axes_of(node, present, memo)
            shape = tuple(size if axis in axes else 1 for axis, size in enumerate(self.space))
            replaced[node] = self.kept(first, node, shape)
        stage.outputs = list(substitute_all(stage.outputs, replaced))
        return first

    def nests(self, output: Expr) -> bool:
        """True if one work-item may repeat the inner reductions of ``output`` at each step of the outer loop. Never if
        a group shares a row: its work-items run the outer loop separately, and the inner loop has barriers.
        """
        if self.target.group > 1:
            return False
        present, memo = self.present(), dict[Expr, frozenset[int]]()
        around = [(output, ()), *((node.arg, node.axes) for node in walk((output,)) if isinstance(node, Reduce))]
        return all(
            math.prod(self.space[axis] for axis in axes_of(root, present, memo).union(axes))
            * math.prod(self.space[axis] for axis in inner.axes)
            <= NESTED
            for root, axes in around
            for inner in walk((root,))
            if isinstance(inner, Reduce) and inner.axes != axes
        )

    def cut_points(self, output: Expr) -> list[Expr]:
        """Returns small arguments of outer reductions, else the outermost reductions over one kind of axes."""
        present, memo = self.present(), dict[Expr, frozenset[int]]()
        small = []
        for node in walk((output,)):
            if isinstance(node, Reduce) and _axis_sets(node.arg) and len(_axis_sets(node.arg)) == 1:
                (inner,) = _axis_sets(node.arg)
                if inner != node.axes and not set(inner) & axes_of(node.arg, present, memo):
                    small.append(node.arg)
        if small:
            return small
        pure = [n for n in walk((output,)) if isinstance(n, Reduce) and len(_axis_sets(n)) == 1]
        covered = {inner for node in pure for inner in walk((node.arg,)) if isinstance(inner, Reduce)}
        used_outside = {
            child
            for node in walk((output,))
            if not (isinstance(node, Reduce) and node in pure)
            for child in _outside(node, pure)
        }
        return [node for node in pure if node not in covered or node in used_outside]

    def pieces(self, stage: _Stage, again: bool = False) -> bool:
        """Plans a large reduction to few values as pieces and a second reduction, or on many cores ``again`` pieces, if
        they are many; returns False if the stage is not such a reduction.

        Squared deviations from a mean m are summed around the mean p of each piece, then around m: the sum over pieces
        of what each has, s, with the sum r of its deviations and its length n, is of s + (p - m) (2 r + n (p - m))
        (Chan et al. 1983, with r for what the rounding of p leaves).
        """
        nodes = [node for node in walk(stage.outputs) if isinstance(node, Reduce)]
        if not nodes:
            return False
        axes = nodes[0].axes
        kept = tuple(1 if axis in axes else size for axis, size in enumerate(stage.shapes[0]))
        squares = self.squares(stage, kept)
        if any(_axis_sets(node.arg) for node in nodes if node not in squares):
            return False
        if any(set(axes) & {a for a, n in enumerate(shape) if n != 1} for shape in stage.shapes):
            return False
        cut = self.cut_again(axes, kept) if again else self.cut_of(axes, kept)
        if cut is None:
            return False
        split, parts, size = cut
        block = 1 if again else BLOCK
        shape = tuple(parts if axis == split else n for axis, n in enumerate(kept))
        pieces: dict[Expr, Expr] = {node: node for node in nodes}
        deviations: dict[Expr, tuple[Expr, Expr]] = {}  # the length of a piece, and the sum of its deviations
        for node, of in squares.items():
            name = f"piece{len(self.plan.sizes)}"
            self.plan.sizes[name] = size * math.prod(self.space[axis] for axis in axes if axis != split)
            length, deviation, mean = Scalar(name, node.dtype), *_deviation(node)
            from_own_mean = substitute_all((deviation,), {mean: of / length})[0]
            pieces[node], rest = reduce("sum", from_own_mean * from_own_mean, axes), reduce("sum", from_own_mean, axes)
            pieces[rest] = rest
            deviations[node] = length, rest
        stage_of_pieces = _Stage([], [], [])
        loads = {node: self.kept(stage_of_pieces, value, shape) for node, value in pieces.items()}
        second: dict[Expr, Expr] = {
            node: Reduce(node.kind, loads[node], (split,)) for node in nodes if node not in squares
        }
        for node, of in squares.items():
            piece, rest = deviations[node]
            left, (_, mean) = loads[rest], _deviation(node)
            away = loads[of] / piece - substitute_all((mean,), {of: second[of]})[0]
            term = loads[node] + away * (left + left + piece * away)
            second[node] = reduce("sum", term, (split,))
        self.kernel(stage_of_pieces, cut, block)
        outer, self.space = (
            self.space,
            tuple(parts if a == split else 1 if a in axes else n for a, n in enumerate(self.space)),
        )
        whole = _Stage(list(substitute_all(stage.outputs, second)), stage.shapes, stage.slots)
        if not self.pieces(whole, again=True):
            self.kernel(whole, block=1)  # without plain additions of blocks: sums of pieces are large, and few
        self.space = outer
        return True

    def cut_of(self, axes: Sequence[int], kept: Shape) -> tuple[int, int, int] | None:
        """Returns the best axis to cut a reduction to ``kept``, the number of pieces and their length along it: equal
        pieces if possible, else the last is shorter; None if it is best left whole.
        """
        split = max(axes, key=lambda axis: self.space[axis])
        last = self.last_of(axes, kept)
        extent, whole = self.space[split], 16 if split == last else 1
        parts = min(self.parts(math.prod(self.space[axis] for axis in axes), kept[: last + 1]), extent)
        if parts < 2:
            return None
        counts = (*range(parts, 2 * parts + 1), *range(parts - 1, max(1, parts // 2), -1))
        size = next((extent // n for n in counts if extent % (n * whole) == 0), 0)
        size = size or _ceil(_ceil(extent, parts), whole) * whole
        return split, _ceil(extent, size), size

    def last_of(self, axes: Sequence[int], kept: Shape) -> int:
        """Returns the last axis of the loops of a reduction over ``axes`` to ``kept``."""
        return max((a for a, n in enumerate(self.space) if n != 1 and (a in axes or kept[a] != 1)), default=0)

    def cut_again(self, axes: Sequence[int], kept: Shape) -> tuple[int, int, int] | None:
        """Returns the same for the pieces themselves; None unless work-items of a GPU would loop over many of them."""
        (split,) = axes
        extent = self.space[split]
        if self.target.is_cpu or kept[self.last_of(axes, kept)] == 1 or extent <= MANY_PIECES:
            return None
        size = math.isqrt(extent)
        return split, _ceil(extent, size), size

    def parts(self, walked: int, results: Shape) -> int:
        """Returns the best number of pieces of a reduction of ``walked`` elements to each of ``results``."""
        target, count, last = self.target, math.prod(results), results[-1] if results else 1
        if last == 1:  # a work-item, or a group, loops over a row
            there, least = count, PIECE
            needed = 4 * target.units if count % target.units else 0  # else all cores have as many rows
            if not target.is_cpu:
                needed, least = (8 if walked >= LONG_ROW else 2) * target.units, PIECE // 2
        elif target.is_cpu:  # a work-item loops over columns, many at a time
            there, needed, least = count // last * _ceil(last, STRIP), 4 * target.units, max(BLOCK, PIECE // last)
        else:
            there, needed = _ceil(count, target.width), 1024 * target.units
            # No more launches than with pieces of a block.
            least = BLOCK if walked < 2 * BLOCK else SHORT_PIECE
            if walked <= BLOCK * MANY_PIECES:
                least = max(least, _ceil(walked, MANY_PIECES))
        parts = min(_ceil(needed, there), walked // least) if there < needed else 1
        return max(parts, _ceil(walked, WHOLE))

    def lines(
        self, outputs: Sequence[Expr], shapes: Sequence[Shape], split: tuple[int, int, int] | None = None
    ) -> tuple[Shape, list[tuple[int, ...]]]:
        """Returns the space of a kernel of ``outputs``, and the groups of axes that it collapses."""
        used = slots(outputs)
        sets = sorted({node.axes for node in walk(outputs) if isinstance(node, Reduce)})
        indexed = {node.axis for node in walk(outputs) if isinstance(node, Index)}
        relevant = {axis for axes in sets for axis in axes} | {a for s in shapes for a, n in enumerate(s) if n != 1}
        space = tuple(size if axis in relevant else 1 for axis, size in enumerate(self.space))
        parts = [
            [
                *(self.shapes[slot][axis] != 1 for slot in used),
                *(shape[axis] != 1 for shape in shapes),
                *(axis in axes for axes in sets),
                *(axis == other for other in indexed),
                split is not None and axis == split[0],
            ]
            for axis in range(self.rank)
        ]
        return space, collapse(space, parts)

    # -- one kernel ----------------------------------------------------------------------------------------------------

    def kernel(self, stage: _Stage, split: tuple[int, int, int] | None = None, block: int = BLOCK) -> None:
        """Plans one launch: collapses the axes, renders the text, and sizes the grid."""
        outputs = stage.outputs
        space, groups = self.lines(outputs, stage.shapes, split)
        used = slots(outputs)
        sets = sorted({node.axes for node in walk(outputs) if isinstance(node, Reduce)})
        position = {axis: number for number, group in enumerate(groups) for axis in group}
        sizes = [math.prod(space[axis] for axis in group) for group in groups]

        def axes_present(shape: Shape) -> tuple[int, ...]:
            return tuple(sorted({position[axis] for axis, size in enumerate(shape) if size != 1 and axis in position}))

        order = {slot: number for number, slot in enumerate(used)}

        def change(node: Expr) -> Expr | None:
            if isinstance(node, Load):
                return Load(order[node.slot], node.dtype)
            if isinstance(node, Index):
                return Index(position[node.axis]) if node.axis in position else Const(0, "int32")
            if isinstance(node, Reduce):
                axes = tuple(sorted({position[axis] for axis in node.axes if axis in position}))
                return Reduce(node.kind, node.arg, axes) if axes else cast(node.arg, node.dtype)
            return None

        written = rebuild(outputs, change)
        reduced = tuple(sorted({position[axis] for axes in sets for axis in axes if axis in position}))
        columns = bool(groups) and len(groups) - 1 not in reduced
        cpu = self.target.is_cpu
        written_bytes = sum(math.prod(shape) * itemsize(node.dtype) for node, shape in zip(outputs, stage.shapes))
        in_vectors = bool(sizes) and (len(sizes) == 1 or sizes[-1] % self.target.width == 0)
        shares = bool(reduced) and not (cpu or columns)
        flat = len(groups) == 1 and not (reduced or cpu)
        group = self.sharing(sizes, reduced, split) if shares else self.target.flat_group if flat else 1
        exact = in_vectors and not cpu and len(sizes) > 1
        across = self.across(sizes, reduced, group) if len(sets) == 1 and shares else 0
        last = 0 if not sizes else split[2] if split is not None and groups[-1][-1] == split[0] else sizes[-1]
        layout = Layout(
            rank=len(groups),
            loads={order[slot]: axes_present(self.shapes[slot]) for slot in used},
            outputs=tuple(axes_present(shape) for shape in stage.shapes),
            reduced=reduced,
            width=self.target.width,
            group=group,
            across=across,
            split=None if split is None or split[0] not in position else position[split[0]],
            block=block,
            cpu=cpu,
            aligned=in_vectors,
            exact=exact,
            once=exact and shares and last <= (across or group) * self.target.width,
            narrow=not cpu and math.prod(self.space) < WIDE,
            streams=cpu and in_vectors and self.target.streams and written_bytes >= STREAMED,
        )
        cut = None if split is None or layout.split is None else (layout.split, *split[1:])
        grouped = tuple(sizes[axis] for axis in reduced), columns, layout.group, layout.across
        numbers, items = self.grid(layout, sizes, split)
        self.plan.launches.append(
            Launch(
                written=tuple(written),
                layout=layout,
                grouping=(*grouped, cut and reduced.index(cut[0]), cut and cut[1:], block),
                inputs=tuple(used),
                outputs=tuple(stage.slots),
                flag=uses_flag(written),
                numbers=(*sizes, *numbers),
                scalars=tuple((s.name, s.dtype) for s in scalars_of(written)),
                items=items,
                group=group if shares else self.target.flat_group,
            )
        )

    def sharing(self, sizes: Sequence[int], reduced: Sequence[int], split: tuple[int, int, int] | None) -> int:
        """Returns the work-items that share a row: a power of two, each with some vectors of it."""
        walked = math.prod(sizes[axis] for axis in reduced)
        if split is not None:
            walked = _ceil(walked, split[1])
        work_items = max(1, walked // (self.target.width * TRIPS))
        return min(max(LEAST_GROUP, 1 << (work_items.bit_length() - 1)), self.target.group)

    def across(self, sizes: Sequence[int], reduced: Sequence[int], group: int) -> int:
        """Returns the work-items of a group that take turns along a short last axis; 0: all of them."""
        if len(reduced) < 2:
            return 0
        vectors = _ceil(sizes[-1], self.target.width)
        return next((turns for turns in TURNS if vectors <= turns and turns * 2 <= group), 0)

    def grid(self, layout: Layout, sizes: Sequence[int], split: tuple[int, int, int] | None) -> tuple[list[int], int]:
        """Returns the numbers after sizes in the parameters (rows, rows_each, chunk ...), and the global size."""
        pieces = split[1] if split is not None and layout.split is not None else 1
        if layout.flat:
            chunk = layout.group * layout.width
            return [chunk], _ceil(sizes[0], chunk) * layout.group
        outer = [axis for axis in layout.grid if not (layout.columns and axis == layout.rank - 1)]
        rows = math.prod(sizes[axis] for axis in outer) * pieces
        total = math.prod(sizes)
        target, width = self.target, layout.width
        # Not if a work-item keeps sums of columns: strips of few columns use few bytes of a page.
        many = max(4 * target.units, 0 if layout.columns and layout.reduced else total // LONG_ITEM)
        needed = max(1, min(total // MIN_ITEM, many)) if target.is_cpu else max(rows, 1)
        numbers: list[int]
        if layout.columns:
            length = sizes[-1]
            if target.is_cpu:
                chunks = 1 if rows >= needed else _ceil(needed, max(rows, 1))
                chunk = max(_ceil(_ceil(length, chunks), width) * width, width)
            else:
                chunk = width
            chunks = max(1, _ceil(length, chunk))
            each = max(1, rows // max(1, needed // chunks)) if target.is_cpu else 1
            numbers = [rows, each, chunk, chunks]
            items = _ceil(rows, each) * chunks
        else:
            each = max(1, _ceil(rows, needed))
            numbers = [rows, each]
            items = _ceil(rows, each) * layout.group
        if split is not None and layout.split is not None:
            numbers += [split[1], split[2]]
        return numbers, max(items, 1)


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _axis_sets(root: Expr) -> set[tuple[int, ...]]:
    return {node.axes for node in walk((root,)) if isinstance(node, Reduce)}


def _deviation(node: Reduce) -> tuple[Expr, Expr]:
    """Returns the deviation in a sum of squared deviations, and its mean."""
    deviation = node.arg.children[0]
    return deviation, deviation.children[1]


def _deviates_from(node: Expr) -> Reduce | None:
    """Returns the sum of the mean if ``node`` adds up squared deviations from it; else None."""
    if not (isinstance(node, Reduce) and node.kind == "sum" and _is(node.arg, "mul")):
        return None
    deviation, other = node.arg.children
    if deviation is not other or not _is(deviation, "sub"):
        return None
    value, mean = deviation.children
    total, count = mean.children if _is(mean, "div") else (None, None)
    same = isinstance(total, Reduce) and total.kind == "sum" and total.arg is value and total.axes == node.axes
    return total if same and isinstance(count, Scalar) else None  # type: ignore[return-value]


def _is(node: Expr, name: str) -> bool:
    return isinstance(node, Apply) and node.prim.name == name


def _outside(node: Expr, pure: Sequence[Expr]) -> list[Expr]:
    return [child for child in node.children if child in pure]


def make_plan(
    outputs: Sequence[Expr], shapes: Sequence[Shape], inputs: Sequence[Shape], space: Shape, target: Target
) -> Plan:
    """Returns the plan that computes ``outputs`` (of ``shapes``) from inputs of ``shapes``, over the space."""
    names = (node.name for node in walk(outputs) if isinstance(node, Scalar) and node.name.startswith("size:"))
    sizes = {name: int(scalar_value(name, {}, space)) for name in names}
    if not target.is_cpu:
        outputs, shapes, inputs, space = _merged(outputs, shapes, inputs, space)
    return _Planner(outputs, shapes, inputs, space, target, sizes).plan


def _merged(
    outputs: Sequence[Expr], shapes: Sequence[Shape], inputs: Sequence[Shape], space: Shape
) -> tuple[Sequence[Expr], list[Shape], list[Shape], Shape]:
    """Returns the same with one axis in the place of adjacent ones, before the last, that are alike in all tensors and
    reductions: a sum over both is cut into pieces as one axis.
    """
    rank = len(space)
    wholes = [aligned(shape, rank) for shape in (*shapes, *inputs)]
    nodes = walk(outputs)
    indexed = {node.axis for node in nodes if isinstance(node, Index)}
    uses = [
        (*(shape[axis] != 1 for shape in wholes), *(axis in node.axes for node in nodes if isinstance(node, Reduce)))
        for axis in range(rank)
    ]
    groups: list[list[int]] = []
    for axis in range(rank):
        joins = groups and 0 < axis < rank - 1 and uses[axis] == uses[axis - 1] and not {axis, axis - 1} & indexed
        if joins:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    if len(groups) == rank:
        return outputs, list(shapes), list(inputs), space
    place = {axis: number for number, group in enumerate(groups) for axis in group}

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Reduce):
            return Reduce(node.kind, node.arg, tuple(sorted({place[axis] for axis in node.axes})))
        return Index(place[node.axis]) if isinstance(node, Index) else None

    merged = [tuple(math.prod(shape[axis] for axis in group) for group in groups) for shape in (*wholes, space)]
    count = len(outputs)
    return rebuild(outputs, change), merged[:count], merged[count:-1], merged[-1]


def _ordered(root: Expr) -> bool:
    """True if the bits of ``root`` depend on the order of a reduction; see ``Launch.grouping``."""
    return any(isinstance(node, Reduce) and is_floating(node.dtype) for node in walk((root,)))


@lru_cache(maxsize=1024)
def _groupings(
    outputs: tuple[Expr, ...], shapes: tuple[Shape, ...], inputs: tuple[Shape, ...], target: Target
) -> tuple[frozenset[Any], ...]:
    if not any(map(_ordered, outputs)):
        return (frozenset(),) * len(outputs)
    orders = dict.fromkeys(range(len(inputs)), frozenset[Any]())
    for launch in make_plan(outputs, shapes, inputs, broadcast_shapes([*inputs, *shapes], "run"), target).launches:
        for slot, output in zip(launch.outputs, launch.written):
            order = frozenset((launch.grouping,)) if _ordered(output) else frozenset[Any]()
            orders[slot] = order.union(*(orders[launch.inputs[place]] for place in slots((output,))))
    return tuple(orders[len(inputs) + place] for place in range(len(outputs)))

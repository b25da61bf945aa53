"""The code generator: writes one OpenCL C kernel for a group of expressions over one iteration space.

The axes of the space are *grid* axes (each work-item or work-group takes places along them) or *reduced* axes (walked
by loops inside). A value is written in the scope of the innermost axis it depends on, so what does not change in a
loop stands before it; reductions over the same axes at the same depth share a loop. The last axis is walked in
vectors with a scalar loop for the rest, never with a guard inside a loop, and all positions are size_t (see
docs/explanation: what CPU drivers make of other forms).

* last axis on the grid: a work-item takes ``chunk`` neighbouring places along it, for some rows of the other grid axes;
* last axis reduced: a work-group of ``layout.group`` work-items (one on CPU devices) walks each row together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING

from netcl.core.dtypes import c_type, compute_type, is_floating
from netcl.core.expr import c_types as c
from netcl.core.expr.nodes import Apply, Const, Expr, Index, Load, Reduce, Scalar
from netcl.core.expr.rewrite import axes_of, walk

if TYPE_CHECKING:
    from netcl.core.kernels.primitives import KernelSpec

Axes = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """What the text of a kernel depends on beside its expressions; no sizes, those are given at launch.

    ``loads[slot]`` and ``outputs[k]`` name the axes along which an operand varies. ``width`` is the number of lanes
    of a vector, ``group`` the number of work-items that walk a row together, ``split`` a reduced axis of which each
    work-item takes one of ``parts`` pieces.
    """

    rank: int
    loads: Mapping[int, Axes]
    outputs: tuple[Axes, ...]
    reduced: Axes
    width: int = 8
    group: int = 1
    split: int | None = None

    @property
    def grid(self) -> Axes:
        """The axes that are shared out among work-items."""
        return tuple(axis for axis in range(self.rank) if axis not in self.reduced)

    @property
    def columns(self) -> bool:
        """Whether the last axis is on the grid."""
        return self.rank > 0 and self.rank - 1 not in self.reduced


@dataclass(eq=False)
class _Scope:
    """A block of the kernel: the axes that it binds, its lines so far, and the values written in it."""

    parent: _Scope | None
    binds: frozenset[int]
    vector: bool = False
    end: str = ""  # where the whole vectors of the last axis end, once it is walked in this scope
    floor: bool = False  # nothing that is written inside may stand before this scope
    lines: list[str] = field(default_factory=list)
    values: dict[Expr, tuple[str, bool]] = field(default_factory=dict)

    def add(self, *lines: str) -> None:
        self.lines.extend(lines)

    def block(self, head: str, inner: _Scope, indent: str = "  ") -> None:
        """Appends ``inner`` as a braced block."""
        self.lines.append(head + " {")
        self.lines.extend(indent + line for line in inner.lines)
        self.lines.append("}")


def vectorizable(outputs: Sequence[Expr], layout: Layout) -> bool:
    """Whether all values that vary along the last axis have four-byte types and primitives that take vectors."""
    if not layout.rank:
        return False
    present = {slot: frozenset(axes) for slot, axes in layout.loads.items()}
    memo: dict[Expr, frozenset[int]] = {}
    last = layout.rank - 1
    for node in walk(outputs):
        varies = last in axes_of(node, present, memo)
        if varies and compute_type(node.dtype) not in ("float", "int"):
            return False
        if varies and isinstance(node, Apply) and not node.prim.vector:
            return False
        if isinstance(node, Reduce) and last in node.axes and compute_type(node.dtype) not in ("float", "int"):
            return False
    return True


class _Writer:
    def __init__(self, outputs: Sequence[Expr], layout: Layout) -> None:
        self.outputs = list(outputs)
        self.layout = layout
        self.last = layout.rank - 1
        self.width = layout.width if vectorizable(outputs, layout) else 1
        self.present = {slot: frozenset(axes) for slot, axes in layout.loads.items()}
        self.varies: dict[Expr, frozenset[int]] = {}
        self.nodes = walk(outputs)
        self.depth: dict[Expr, int] = {}
        for node in self.nodes:
            inner = max((self.depth[child] for child in node.children), default=0)
            self.depth[node] = inner + isinstance(node, Reduce)
        self.count = 0
        self.scratch: set[str] = set()
        self.root = _Scope(None, frozenset())

    # -- values --------------------------------------------------------------------------------------------------------

    def free(self, node: Expr) -> frozenset[int]:
        return axes_of(node, self.present, self.varies)

    def home(self, node: Expr, scope: _Scope) -> _Scope:
        """The innermost scope around ``scope`` that binds an axis along which ``node`` varies."""
        free = self.free(node)
        while scope.parent is not None and not scope.floor and not (scope.binds & free):
            scope = scope.parent
        return scope

    def name(self, prefix: str = "t") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def emit(self, node: Expr, scope: _Scope) -> tuple[str, bool]:
        """The text of a value and whether it is a vector; writes what it needs where that belongs."""
        if isinstance(node, Const):
            return c.literal(node), False
        if isinstance(node, Scalar):
            return scalar_name(node), False
        home = self.home(node, scope)
        if node not in home.values:
            home.values[node] = self.write(node, home)
        return home.values[node]

    def declare(self, scope: _Scope, dtype: str, text: str, vector: bool) -> tuple[str, bool]:
        name = self.name()
        scope.add(f"{c.value_type(dtype, self.width if vector else 1)} {name} = {text};")
        return name, vector

    def write(self, node: Expr, scope: _Scope) -> tuple[str, bool]:
        width = self.width
        if isinstance(node, Load):
            vector = scope.vector and self.last in self.present[node.slot]
            offset = self.offset(self.layout.loads[node.slot])
            return self.declare(
                scope, node.dtype, c.load(f"in{node.slot}", offset, node.dtype, width if vector else 1), vector
            )
        if isinstance(node, Index):
            vector = scope.vector and node.axis == self.last and width > 1
            text = f"(int)i{node.axis}"
            if vector:
                text = f"(int{width})({text}) + (int{width})({', '.join(map(str, range(width)))})"
            return self.declare(scope, "int32", text, vector)
        if isinstance(node, Reduce):
            self.reduce(node, scope)
            return scope.values[node]
        assert isinstance(node, Apply)
        parts = [self.emit(arg, scope) for arg in node.args]
        vector = any(is_vector for _, is_vector in parts)
        if node.prim.name == "require":
            return self.require(scope, parts)
        if node.prim.name == "stop_gradient":
            return parts[0]
        texts = [
            text if is_vector or not vector else c.broadcast(text, arg.dtype, width)
            for (text, is_vector), arg in zip(parts, node.args)
        ]
        if node.prim.name.startswith("to_"):
            text = c.convert(texts[0], node.args[0].dtype, node.dtype, width if vector else 1)
        else:
            template = node.prim.opencl
            if isinstance(template, dict):
                template = template["float" if is_floating(node.args[0].dtype) else "int"]
            text = template.format(*texts)
            if node.dtype == "uint8":
                text = f"(({text}) & 255)"
        return self.declare(scope, node.dtype, text, vector)

    def require(self, scope: _Scope, parts: list[tuple[str, bool]]) -> tuple[str, bool]:
        (condition, vector), value, (code, _) = parts
        failed = f"any(({condition}) == 0)" if vector else f"!({condition})"
        scope.add(f"if ({failed}) atomic_max(flag, {code});")
        return value

    def offset(self, axes: Axes, part: int | None = None) -> str:
        """The position in elements of an operand that varies along ``axes``, in the current loops."""
        text = ""
        for axis in axes:
            index, size = ("part", "parts") if axis == part else (f"i{axis}", f"n{axis}")
            if not text:
                text = index
            else:
                text = f"({text}) * {size} + {index}" if " " in text else f"{text} * {size} + {index}"
        return f"({text})" if " " in text else text or "0"

    # -- reductions ----------------------------------------------------------------------------------------------------

    def reduce(self, node: Reduce, scope: _Scope) -> None:
        """Writes the loops of ``node`` and of all reductions that can share them, and their results, into ``scope``."""
        group = [node] + [
            other
            for other in self.nodes
            if isinstance(other, Reduce)
            and other is not node
            and other.axes == node.axes
            and self.depth[other] == self.depth[node]
            and other not in scope.values
            and self.free(other) == self.free(node)
        ]
        across = self.last in node.axes
        accumulators: dict[Reduce, tuple[str, str, bool]] = {}
        for member in group:
            name, start = self.name("acc"), c.identity(member.kind, member.dtype)
            lanes_kept = scope.vector and self.last in self.free(member)
            is_vector = (across and self.width > 1) or lanes_kept
            scope.add(f"{c.value_type(member.dtype, self.width if is_vector else 1)} {name} = {start};")
            rest = ""
            if across and self.width > 1:
                rest = self.name("acc")
                scope.add(f"{c.value_type(member.dtype)} {rest} = {start};")
            accumulators[member] = (name, rest, is_vector)

        def accumulate(inner: _Scope) -> None:
            for member, (name, rest, is_vector) in accumulators.items():
                text, value_vector = self.emit(member.arg, inner)
                text = c.convert(text, member.arg.dtype, member.dtype, self.width if value_vector else 1)
                wide = is_vector and (inner.vector or not across)
                if wide and not value_vector:
                    text = c.broadcast(text, member.dtype, self.width)
                target = name if wide or not rest else rest
                if not text.isidentifier():
                    text, _ = self.declare(inner, member.dtype, text, wide)
                inner.add(f"{target} = {c.combine(member.kind, target, text)};")

        self.loops(scope, node.axes, accumulate)
        for member, (name, rest, is_vector) in accumulators.items():
            if across and is_vector:
                name = self.fold(scope, member, name, rest)
            if across and self.layout.group > 1:
                name = self.fold_group(scope, member, name)
            scope.values[member] = (name, is_vector and not across)

    def fold(self, scope: _Scope, member: Reduce, name: str, rest: str) -> str:
        """The lanes of an accumulator and the rest's accumulator as one value, in a fixed order."""
        width = self.width
        while width > 1:
            width //= 2
            half = self.name()
            scope.add(
                f"{c.value_type(member.dtype, width)} {half} = {c.combine(member.kind, f'{name}.lo', f'{name}.hi')};"
            )
            name = half
        total = self.name()
        scope.add(f"{c.value_type(member.dtype)} {total} = {c.combine(member.kind, name, rest)};")
        return total

    def fold_group(self, scope: _Scope, member: Reduce, name: str) -> str:
        """The values of all work-items of the group as one, by a tree in local memory."""
        kind = c.value_type(member.dtype)
        scratch, total = f"scratch_{kind}", self.name()
        place = f"{scratch}[lid]"
        self.scratch.add(kind)
        scope.add(
            f"{place} = {name};",
            "barrier(CLK_LOCAL_MEM_FENCE);",
            f"for (uint step = {self.layout.group // 2}; step > 0; step >>= 1) {{",
            f"  if (lid < step) {place} = {c.combine(member.kind, place, f'{scratch}[lid + step]')};",
            "  barrier(CLK_LOCAL_MEM_FENCE);",
            "}",
            f"{kind} {total} = {scratch}[0];",
            "barrier(CLK_LOCAL_MEM_FENCE);",
        )
        return total

    def loops(self, scope: _Scope, axes: Axes, body: Callable[[_Scope], None]) -> None:
        """Walks ``axes``, outermost first, and calls ``body(scope)`` inside."""
        if not axes:
            body(scope)
            return
        axis, rest = axes[0], axes[1:]
        low, high = ("low", "high") if axis == self.layout.split else ("0", f"n{axis}")
        if axis != self.last:
            inner = _Scope(scope, frozenset((axis,)), scope.vector)
            self.loops(inner, rest, body)
            scope.block(f"for (size_t i{axis} = {low}; i{axis} < {high}; ++i{axis})", inner)
            return
        self.stretch(scope, low, high, body)

    def stretch(self, scope: _Scope, low: str, high: str, body: Callable[[_Scope], None], shared: bool = True) -> None:
        """Walks the last axis: whole vectors, then single places; a group takes turns where ``shared``."""
        axis, width, group = f"i{self.last}", self.width, self.layout.group if shared else 1
        bind = frozenset((self.last,))
        start = low
        if width > 1:
            if not scope.end:
                scope.end = self.name("end")
                span = high if low == "0" else f"({high} - {low})"
                scope.add(f"size_t {scope.end} = {'' if low == '0' else low + ' + '}{span} / {width} * {width};")
            end = scope.end
            inner = _Scope(scope, bind, True)
            body(inner)
            first = _plus(low, f"lid * {width}" if group > 1 else "")
            scope.block(f"for (size_t {axis} = {first}; {axis} < {end}; {axis} += {width * group})", inner)
            start = end
        inner = _Scope(scope, bind, False)
        body(inner)
        first = _plus(start, "lid" if group > 1 else "")
        step = f"++{axis}" if group == 1 else f"{axis} += {group}"
        scope.block(f"for (size_t {axis} = {first}; {axis} < {high}; {step})", inner)

    # -- the kernel ----------------------------------------------------------------------------------------------------

    def stores(self, scope: _Scope, which: Sequence[int]) -> None:
        """Writes the outputs ``which`` at the current place."""
        pending = []
        for k in which:
            text, vector = self.emit(self.outputs[k], scope)
            dtype = self.outputs[k].dtype
            wide = scope.vector and self.last in self.layout.outputs[k] and self.width > 1
            if wide and not vector:
                text = c.broadcast(text, dtype, self.width)
            offset = self.offset(self.layout.outputs[k], self.layout.split)
            pending.append(c.store(f"out{k}", offset, text, dtype, self.width if wide else 1))
        scope.add(*pending)  # after all values: an output may alias an input

    def body(self) -> list[str]:
        layout, root = self.layout, self.root
        rows = _Scope(
            root, frozenset(layout.grid) - ({self.last} if layout.columns else set()), floor=layout.split is not None
        )
        if layout.columns:
            self.stretch(rows, "start", "stop", self.place_outputs, shared=False)
        else:
            self.place_outputs(rows)
        lines = list(root.lines)
        outer = [axis for axis in layout.grid if not (layout.columns and axis == self.last)]
        head = self.row_head(outer)
        item = "item" if layout.columns or layout.group == 1 else "get_group_id(0)"
        if layout.group > 1 and not layout.columns:
            lines.insert(0, "uint lid = get_local_id(0);")
        for kind in sorted(self.scratch):
            lines.insert(0, f"__local {kind} scratch_{kind}[{layout.group}];")
        if item == "item":
            lines.append("size_t item = get_global_id(0);")
        if layout.columns:
            lines.append("size_t start = item % chunks * chunk;")
            lines.append(f"size_t stop = min(start + chunk, n{self.last});")
            item = "item / chunks"
        lines.append(f"size_t first = {item} * rows_each;")
        lines.append("for (size_t row = first; row < min(first + rows_each, rows); ++row) {")
        lines.extend("  " + line for line in [*head, *rows.lines])
        lines.append("}")
        return lines

    def row_head(self, outer: Sequence[int]) -> list[str]:
        """The positions along the grid axes ``outer`` (and of the piece) from the number of the row."""
        lines = []
        left = "row"
        steps = ([("part", "parts")] if self.layout.split is not None else []) + [
            (f"i{a}", f"n{a}") for a in reversed(outer)
        ]
        for number, (index, size) in enumerate(steps):
            if number == len(steps) - 1:
                lines.append(f"size_t {index} = {left};")
            else:
                lines.append(f"size_t {index} = {left} % {size};")
                left = self.name("left")
                lines.append(f"size_t {left} = {lines[-1].split('=')[1].split('%')[0].strip()} / {size};")
        if self.layout.split is not None:
            lines.append("size_t low = part * part_size;")
            lines.append(f"size_t high = min(low + part_size, n{self.layout.split});")
        return lines

    def place_outputs(self, rows: _Scope) -> None:
        """The outputs of a place on the grid: single values at once, the others in loops over their reduced axes."""
        by_axes: dict[Axes, list[int]] = {}
        for k, axes in enumerate(self.layout.outputs):
            walked = tuple(axis for axis in axes if axis in self.layout.reduced and axis != self.layout.split)
            by_axes.setdefault(walked, []).append(k)
        for walked, which in by_axes.items():
            if walked:
                self.loops(rows, walked, partial(self.stores, which=which))
                continue
            if self.layout.group > 1:
                single = _Scope(rows, frozenset())
                self.stores(single, which)
                rows.block("if (lid == 0)", single)
            else:
                self.stores(rows, which)

    def parameters(self) -> list[str]:
        """The kernel's parameters; ``schedule`` gives arguments in this order."""
        loaded = {node.slot: node.dtype for node in self.nodes if isinstance(node, Load)}
        params = [f"__global const {c_type(loaded[slot])} *in{slot}" for slot in sorted(loaded)]
        params += [f"__global {c_type(out.dtype)} *out{k}" for k, out in enumerate(self.outputs)]
        if uses_flag(self.outputs):
            params.append("__global int *flag")
        params += [f"const ulong n{axis}" for axis in range(self.layout.rank)]
        params += ["const ulong rows", "const ulong rows_each"]
        if self.layout.columns:
            params += ["const ulong chunk", "const ulong chunks"]
        if self.layout.split is not None:
            params += ["const ulong parts", "const ulong part_size"]
        return params + [f"const {compute_type(s.dtype)} {scalar_name(s)}" for s in scalars_of(self.outputs)]

    def preamble(self) -> str:
        lines = [c.PRAGMAS["contract"]]
        if any(compute_type(node.dtype) == "double" for node in self.nodes):
            lines.append(c.PRAGMAS["double"])
        if any(out.dtype == "bfloat16" for out in self.outputs):
            lines.append(c.bfloat16_helper(1))
            if self.width > 1:
                lines.append(c.bfloat16_helper(self.width))
        return "\n".join(lines)


def _plus(a: str, b: str) -> str:
    if not b:
        return a
    return b if a == "0" else f"{a} + {b}"


def scalar_name(scalar: Scalar) -> str:
    """The parameter of a launch scalar: ``s_slope_float``, or ``s_size_0_2_int`` for ``size:0,2``."""
    return f"s_{scalar.name.replace(':', '_').replace(',', '_')}_{compute_type(scalar.dtype)}"


def scalars_of(outputs: Sequence[Expr]) -> list[Scalar]:
    """The launch scalars of expressions, in the order of the kernel's parameters."""
    found = {(node.name, compute_type(node.dtype)): node for node in walk(outputs) if isinstance(node, Scalar)}
    return [found[key] for key in sorted(found)]


def uses_flag(outputs: Sequence[Expr]) -> bool:
    """Whether a kernel of these expressions can raise the queue's flag."""
    return any(isinstance(node, Apply) and node.prim.name == "require" for node in walk(outputs))


def render(outputs: Sequence[Expr], layout: Layout) -> KernelSpec:
    """The kernel of ``outputs`` over the axes of ``layout``, as a KernelSpec named after its kind and content."""
    from netcl.core.kernels.primitives import KernelSpec

    writer = _Writer(outputs, layout)
    body = "\n    ".join(writer.body())
    params, preamble = writer.parameters(), writer.preamble()
    inside = any(set(axes) & set(layout.reduced) for axes in layout.outputs)
    kind = "map" if not layout.reduced else "rows" if inside else "reduce"
    digest = blake2b("\n".join([*params, preamble, body, str(layout.group)]).encode(), digest_size=5).hexdigest()
    return KernelSpec(f"{kind}_{digest}", params, body, preamble, workgroup_size=layout.group)

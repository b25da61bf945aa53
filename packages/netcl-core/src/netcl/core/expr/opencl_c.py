"""The code generator: writes one OpenCL C kernel for a group of expressions over one iteration space.

The axes of the space are *grid* axes (each work-item or work-group takes places along them) or *reduced* axes (loops
inside). A value is written in the scope of the innermost axis it depends on, so loop invariants are computed before the
loop; reductions over the same axes at the same depth share a loop. The loop over the last axis is in vectors with a
scalar loop for the rest, never with a guard inside (docs/explanation/waist.md says what CPU drivers make of other
forms). Positions are size_t, on GPUs uint where the sizes allow it.

* last axis on the grid: a work-item takes ``chunk`` neighbouring places along it, for some rows of the other grid axes;
* last axis reduced: a work-group of ``layout.group`` work-items (one on CPU devices) walks each row together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b

from netcl.core.dtypes import c_type, compute_type, is_floating
from netcl.core.expr import c_types as c
from netcl.core.expr.kernel_source import Argument, KernelSource, Role
from netcl.core.expr.nodes import Apply, Const, Expr, Index, Load, Reduce, Scalar
from netcl.core.expr.opencl_loops import LoopWriter
from netcl.core.expr.rewrite import walk
from netcl.core.expr.scopes import Axes, Layout, Scope


class _Writer(LoopWriter):
    def __init__(self, outputs: Sequence[Expr], layout: Layout) -> None:
        super().__init__(outputs, layout)
        self.packed: set[str] = set()
        self.spill = self.find_spill()
        self.root = Scope(None, frozenset())

    # -- values --------------------------------------------------------------------------------------------------------

    def home(self, node: Expr, scope: Scope) -> Scope:
        """Returns the innermost scope around ``scope`` that binds an axis of ``node``."""
        free = self.free(node)
        while scope.parent is not None and not scope.floor and not (scope.binds & free):
            scope = scope.parent
        return scope

    def emit(self, node: Expr, scope: Scope) -> tuple[str, bool]:
        """Returns the text of a value, and True if it is a vector; writes the values it needs into their scopes."""
        if isinstance(node, Const):
            return c.literal(node), False
        if isinstance(node, Scalar):
            return scalar_name(node), False
        home = self.home(node, scope)
        if node not in home.values:
            home.values[node] = self.write(node, home)
        return home.values[node]

    def write(self, node: Expr, scope: Scope) -> tuple[str, bool]:
        width = self.width
        if isinstance(node, Load):
            vector = scope.vector and self.last in self.present[node.slot]
            offset = self.offset(self.layout.loads[node.slot])
            lanes = width if vector else 1
            return self.declare(
                scope,
                node.dtype,
                c.load(f"in{node.slot}", offset, node.dtype, lanes, self.through(node.dtype, lanes)),
                vector,
            )
        if isinstance(node, Index):
            return self.position(node, "int32", scope)
        if isinstance(node, Reduce):
            self.reduce(node, scope)
            return scope.values[node]
        assert isinstance(node, Apply)
        if node.prim.name == "to_int64" and isinstance(node.args[0], Index):
            return self.position(node.args[0], "int64", scope)  # may exceed 31 bits
        parts = [self.emit(arg, scope) for arg in node.args]
        vector = any(is_vector for _, is_vector in parts)
        if node.prim.name == "require":
            return self.require(node, scope, parts)
        if node.prim.name == "stop_gradient":
            return parts[0]
        texts = [
            text if is_vector or not vector else c.broadcast(text, arg.dtype, width)
            for (text, is_vector), arg in zip(parts, node.args)
        ]
        if self.layout.cpu and not vector and self.layout.width > 1 and self.is_function(node):
            texts = [c.broadcast(text, arg.dtype, self.layout.width) for text, arg in zip(texts, node.args)]
            text = f"({c.applied(node, texts, self.layout.width)}).s0"
        else:
            text = c.applied(node, texts, width if vector else 1)
        return self.declare(scope, node.dtype, text, vector)

    def position(self, node: Index, dtype: str, scope: Scope) -> tuple[str, bool]:
        """Declares the position along an axis as an int32 or int64; see ``write``."""
        vector = scope.vector and node.axis == self.last and self.width > 1
        text = f"({c.value_type(dtype, 1)})i{node.axis}"
        if vector:
            kind = c.value_type(dtype, self.width)
            text = f"({kind})({text}) + ({kind})({', '.join(map(str, range(self.width)))})"
        return self.declare(scope, dtype, text, vector)

    def is_function(self, node: Apply) -> bool:
        """True if a driver may compute ``node`` to other bits in a scalar than in a vector."""
        floats = all(compute_type(arg.dtype) == "float" for arg in (node, *node.args))
        return floats and node.prim.vector and not node.prim.exact

    def through(self, dtype: str, width: int) -> str:
        """Returns the type of plain accesses to vectors of stored ``dtype``; empty if there are none."""
        if width == 1 or dtype == "float16":
            return ""
        if not self.layout.cpu:
            return c.lanes(c_type(dtype), width) if self.layout.aligned else ""
        name, declaration = c.packed(dtype, width)
        self.packed.add(declaration)
        return name

    # -- values kept in the output -------------------------------------------------------------------------------------

    def find_spill(self) -> Expr | None:
        """Returns a costly value that both the last reduction and the output after it use at the same positions, such
        as the exp of a softmax; it is spilled to the output's memory in between. Returns None if the output needs
        another input there, since the output may alias an input.
        """
        reductions = [node for node in self.nodes if isinstance(node, Reduce)]
        if not reductions or len(self.outputs) > 1 or self.layout.split is not None:
            return None
        output, deepest = self.outputs[0], max(self.depth[node] for node in reductions)
        last = [node for node in reductions if self.depth[node] == deepest]
        before = {node for sum_ in last for node in walk((sum_.arg,))}
        axes = frozenset(last[0].axes)
        whole = frozenset(self.layout.outputs[0])
        shared = all(node.axes == last[0].axes and self.free(node) == self.free(last[0]) for node in last)
        if (
            output.dtype != "float32"
            or not shared
            or not axes <= whole
            or not before.issuperset(node for node in reductions if node not in last)
        ):
            return None
        outer, stack = set[Expr](), [output]
        while stack:
            node = stack.pop()
            if node not in outer and not isinstance(node, Reduce):
                outer.add(node)
                stack.extend(node.children)
        for node in reversed(self.nodes):
            costly = isinstance(node, Apply) and self.is_function(node) and node.dtype == "float32"
            if node in outer and node in before and costly and self.free(node) == whole:
                if self.reads_beside(output, node, axes):
                    return None
                return node
        return None

    def reads_beside(self, output: Expr, kept: Expr, axes: frozenset[int]) -> bool:
        """True if ``output`` loads along ``axes``, outside of reductions, for another value than ``kept``."""
        seen, stack = {kept}, [output]
        while stack:
            node = stack.pop()
            if node in seen or isinstance(node, Reduce):
                continue
            seen.add(node)
            if isinstance(node, Load) and self.free(node) & axes:
                return True
            stack.extend(node.children)
        return False

    def passed(self, scope: Scope) -> None:
        if self.spill is not None and self.spill in scope.values:
            text, vector = scope.values[self.spill]
            self.put(scope, 0, text, vector)

    def put(self, scope: Scope, k: int, text: str, vector: bool) -> None:
        """Writes a value to output ``k`` at the current place."""
        dtype, lanes = self.outputs[k].dtype, self.width if vector else 1
        offset = self.offset(self.layout.outputs[k], self.layout.split)
        streams = self.layout.streams and vector and self.spill is None
        scope.add(c.store(f"out{k}", offset, text, dtype, lanes, self.through(dtype, lanes), streams))

    def require(self, node: Apply, scope: Scope, parts: list[tuple[str, bool]]) -> tuple[str, bool]:
        """Writes what raises the flag if the condition is false, with the value of the first failing lane."""
        (condition, vector), (value, wide), (code, _), (size, _) = parts
        first = next((load for load in walk((node.args[1],)) if isinstance(load, Load)), None)
        axes = () if first is None else self.layout.loads[first.slot]
        position, step = self.offset(axes) if first is not None else "-1", int(self.last in axes)
        lines = []
        for lane in range(self.width if vector else 1):
            holds = f"({condition}).s{lane:x}" if vector else condition
            failing = f"({value}).s{lane:x}" if wide else value
            place = f"{position} + {lane}" if step and lane else position
            failed = c.report(code, failing, place, size, is_floating(node.dtype))
            lines.append(f"  if (!({holds})) {failed}" if vector else f"  {failed}")
        scope.add(f"if (any(({condition}) == 0)) {{" if vector else f"if (!({condition})) {{", *lines, "}")
        return value, wide

    def offset(self, axes: Axes, part: int | None = None) -> str:
        """Returns the position, in elements, of an operand that varies along ``axes``, in the current loops."""
        text = ""
        for axis in axes:
            index, size = ("part", "parts") if axis == part else (f"i{axis}", f"n{axis}")
            if not text:
                text = index
            else:
                text = f"({text}) * {size} + {index}" if " " in text else f"{text} * {size} + {index}"
        return f"({text})" if " " in text else text or "0"

    # -- the kernel ----------------------------------------------------------------------------------------------------

    def stores(self, scope: Scope, which: Sequence[int]) -> None:
        """Writes the outputs ``which`` at the current place."""
        if self.spill is not None:
            lanes = self.width if scope.vector else 1
            place = self.offset(self.layout.outputs[0])
            kept = c.load("out0", place, "float32", lanes, self.through("float32", lanes))
            scope.values[self.spill] = self.declare(scope, "float32", kept, lanes > 1)
        pending = []
        for k in which:
            text, vector = self.emit(self.outputs[k], scope)
            wide = scope.vector and self.last in self.layout.outputs[k] and self.width > 1
            if wide and not vector:
                text = c.broadcast(text, self.outputs[k].dtype, self.width)
            pending.append((k, text, wide))
        for k, text, wide in pending:  # after all values: an output may alias an input
            self.put(scope, k, text, wide)

    def body(self) -> tuple[list[str], str, list[str]]:
        """Returns the statements before the work-item's number, its declaration if needed, and those after it."""
        layout, root = self.layout, self.root
        rows = Scope(
            root, frozenset(layout.grid) - ({self.last} if layout.columns else set()), floor=layout.split is not None
        )
        if layout.columns:
            axis_sets = {node.axes for node in self.nodes if isinstance(node, Reduce)}
            if layout.flat:
                self.stretch(rows, "low", "high", self.place_outputs)
            elif layout.cpu and self.width > 1 and len(axis_sets) == 1:
                self.strips(rows, "start", "stop", self.place_outputs)
            else:
                self.stretch(rows, "start", "stop", self.place_outputs, shared=False)
        else:
            self.place_outputs(rows)
        before, number, lines = list(root.lines()), "", []
        outer = [axis for axis in layout.grid if not (layout.columns and axis == self.last)]
        head = self.row_head(outer)
        item = "item" if layout.columns or layout.group == 1 else layout.group_item
        if layout.group > 1 and (layout.flat or not layout.columns):
            before.insert(0, "uint lid = get_local_id(0);")
        for name in sorted(self.scratch):
            before.insert(0, f"__local {name.partition('_')[2]} {name}[{layout.group}];")
        if layout.narrow:
            before[:0] = [f"const uint {name} = (uint){name}_;" for name in self.numbers()]
        if self.by_group and layout.group_item == Layout.group_item:
            item = "item"
            number = f"{self.place} item = {layout.group_item};"
        if layout.flat:
            lines.append(f"{self.place} low = {item if number else layout.group_item} * chunk;")
            lines.append(f"{self.place} high = min(low + chunk, n0);")
            return before, number, [*lines, *rows.lines()]
        if item == "item" and not number:
            number = f"{self.place} item = {layout.item};"
        if layout.columns:
            lines.append(f"{self.place} start = item % chunks * chunk;")
            lines.append(f"{self.place} stop = min(start + chunk, n{self.last});")
            item = "item / chunks"
        lines.append(f"{self.place} first = {item} * rows_each;")
        lines.append(f"for ({self.place} row = first; row < min(first + rows_each, rows); ++row) {{")
        lines.extend("  " + line for line in [*head, *rows.lines()])
        lines.append("}")
        return before, number, lines

    def row_head(self, outer: Sequence[int]) -> list[str]:
        """Returns the positions along the grid axes ``outer`` (and of the piece) from the number of the row."""
        lines = []
        left = "row"
        steps = ([("part", "parts")] if self.layout.split is not None else []) + [
            (f"i{a}", f"n{a}") for a in reversed(outer)
        ]
        for number, (index, size) in enumerate(steps):
            if number == len(steps) - 1:
                lines.append(f"{self.place} {index} = {left};")
            else:
                lines.append(f"{self.place} {index} = {left} % {size};")
                left = self.name("left")
                lines.append(f"{self.place} {left} = {lines[-1].split('=')[1].split('%')[0].strip()} / {size};")
        if self.layout.split is not None:
            lines.append(f"{self.place} low = part * part_size;")
            lines.append(f"{self.place} high = min(low + part_size, n{self.layout.split});")
        return lines

    def place_outputs(self, rows: Scope) -> None:
        """Writes the outputs of a place on the grid: single values at once, others in loops over their reduced axes."""
        by_axes: dict[Axes, list[int]] = {}
        for k, axes in enumerate(self.layout.outputs):
            walked = tuple(axis for axis in axes if axis in self.layout.reduced and axis != self.layout.split)
            by_axes.setdefault(walked, []).append(k)
        for walked, which in by_axes.items():
            if walked:
                self.loops(rows, walked, partial(self.stores, which=which))
                continue
            if self.layout.group > 1 and not self.layout.columns:
                single = Scope(rows, frozenset())
                self.stores(single, which)
                rows.block("if (lid == 0)", single)
            else:
                self.stores(rows, which)

    def arguments(self) -> list[Argument]:
        """Returns the kernel's arguments in the order of ``schedule``."""
        loaded = {node.slot: node.dtype for node in self.nodes if isinstance(node, Load)}
        parameters = [Argument(Role.READ, c_type(loaded[slot]), f"in{slot}") for slot in sorted(loaded)]
        parameters += [Argument(Role.WRITE, c_type(out.dtype), f"out{k}") for k, out in enumerate(self.outputs)]
        if uses_flag(self.outputs):
            parameters.append(Argument(Role.WRITE, "int", "flag"))
        narrow = "_" if self.layout.narrow else ""
        parameters += [Argument(Role.SCALAR, "ulong", name + narrow) for name in self.numbers()]
        scalars = scalars_of(self.outputs)
        return parameters + [
            Argument(Role.SCALAR, compute_type(scalar.dtype), scalar_name(scalar)) for scalar in scalars
        ]

    @property
    def by_group(self) -> bool:
        """True if the text counts groups, and not work-items."""
        return self.layout.flat or (self.layout.group > 1 and not self.layout.columns)

    def joins(self) -> bool:
        """True if horizontal fusion may merge the kernel: its work-items share nothing. Local memory and barriers in
        functions gave wrong numbers on a newer PoCL.
        """
        layout = self.layout
        own = layout.group_item == Layout.group_item if self.by_group else layout.item == Layout.item
        return own and not layout.streams and not self.scratch

    def numbers(self) -> list[str]:
        """Returns the names of sizes and counts, in the order of the kernel's parameters."""
        if self.layout.flat:
            return ["n0", "chunk"]
        names = [*(f"n{axis}" for axis in range(self.layout.rank)), "rows", "rows_each"]
        if self.layout.columns:
            names += ["chunk", "chunks"]
        if self.layout.split is not None:
            names += ["parts", "part_size"]
        return names

    def preamble(self) -> str:
        lines = [c.PRAGMAS["contract"]]
        if any(compute_type(node.dtype) == "double" for node in self.nodes):
            lines.append(c.PRAGMAS["double"])
        if any(out.dtype == "bfloat16" for out in self.outputs):
            lines.append(c.bfloat16_helper(1))
            if self.width > 1:
                lines.append(c.bfloat16_helper(self.width))
        lines.extend(sorted(self.packed))
        if self.layout.streams:
            lines.append(c.STREAM)
        return "\n".join(lines)


def scalar_name(scalar: Scalar) -> str:
    """Returns the parameter of a launch scalar: ``s_slope_float``, or ``s_size_0_2_int`` for ``size:0,2``."""
    return f"s_{scalar.name.replace(':', '_').replace(',', '_')}_{compute_type(scalar.dtype)}"


def scalars_of(outputs: Sequence[Expr]) -> list[Scalar]:
    """Returns the launch scalars of expressions, in the order of the kernel's parameters."""
    by_name = {(node.name, compute_type(node.dtype)): node for node in walk(outputs) if isinstance(node, Scalar)}
    return [by_name[key] for key in sorted(by_name)]


def uses_flag(outputs: Sequence[Expr]) -> bool:
    """True if a kernel of these expressions can raise the queue's flag."""
    return any(isinstance(node, Apply) and node.prim.name == "require" for node in walk(outputs))


def render(outputs: Sequence[Expr], layout: Layout) -> KernelSource:
    """Returns the kernel of ``outputs`` over the axes of ``layout``, named after its kind and content. Its text is
    ``to_source()``; ``KernelSpec.from_source`` turns it into a kernel that can be built, run and tuned.
    """
    writer = _Writer(outputs, layout)
    before, number, lines = writer.body()
    body = "\n    ".join([*before, *filter(None, [number]), *lines])
    arguments, preamble = tuple(writer.arguments()), writer.preamble()
    inside = any(set(axes) & set(layout.reduced) for axes in layout.outputs)
    kind = "map" if not layout.reduced else "rows" if inside else "reduce"
    digest = blake2b(
        "\n".join([*map(str, arguments), preamble, body, str(layout.group)]).encode(), digest_size=5
    ).hexdigest()
    attributes = c.LOOPING if layout.cpu else ""
    whole = KernelSource(f"{kind}_{digest}", arguments, preamble, body, attributes, layout.group)
    if not writer.joins():
        return whole
    return replace(whole, head="\n    ".join(before), item=number, body="\n    ".join(lines), by_group=writer.by_group)

"""Writes the loops of a kernel over its axes, and the reductions inside.

Float sums are right to about one rounding, whatever their length: some steps (``Layout.block``) are added plainly, then
the block is added to a total with its rounding error (``c_types.exact_sum``). The lanes of a vector and the work-items
of a group are combined in the same way, in a fixed order. A sum has the same lanes in every kernel: a kernel of single
values takes them in turn (``LoopWriter.lanes``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from netcl.core.dtypes import compute_type, is_floating
from netcl.core.expr import c_types as c
from netcl.core.expr.nodes import Expr, Reduce
from netcl.core.expr.rewrite import axes_of, walk
from netcl.core.expr.scopes import Axes, Layout, Scope, vectorizable

TREES = 4  # reductions of a group's work-items that share barriers, and take local memory at once
UNROLLED = 4  # places of a row of several axes whose loads are under way together
PIECES = 8  # pieces of a large sum whose loads are under way together on a GPU
STRIP = 2048  # most elements along the last axis that a CPU's work-item carries through a reduction of other axes


@dataclass(frozen=True)
class _Sum:
    """The variables of a reduction: ``term`` accumulates the values, of a ``careful`` float sum one block, which is
    then added to ``total`` and ``error``. A max or min of floats tracks NaN separately in ``nan``: the next step then
    waits for one instruction instead of three. With several ``lanes`` that are not a vector the names are elements
    ``[u]`` of arrays.
    """

    member: Reduce
    vector: bool
    term: str
    total: str = ""
    error: str = ""
    nan: str = ""
    lanes: int = 1

    @property
    def careful(self) -> bool:
        return bool(self.total)

    def each(self, statement: str) -> str:
        """Returns the statement, repeated for each lane if the lanes are not a vector."""
        return statement if self.lanes == 1 else f"for (uint u = 0; u < {self.lanes}; ++u) {statement}"


class LoopWriter(ABC):
    """The loops and reductions of a kernel; a subclass writes the values inside."""

    def __init__(self, outputs: Sequence[Expr], layout: Layout) -> None:
        self.outputs: list[Expr] = list(outputs)
        self.layout: Layout = layout
        self.last: int = layout.rank - 1
        self.width: int = layout.width if vectorizable(outputs, layout) else 1
        self.exact: bool = layout.exact and self.width > 1
        self.once: bool = layout.once and self.exact
        self.present: dict[int, frozenset[int]] = {slot: frozenset(axes) for slot, axes in layout.loads.items()}
        self.varies: dict[Expr, frozenset[int]] = {}
        self.nodes: list[Expr] = walk(outputs)
        self.depth: dict[Expr, int] = {}
        for node in self.nodes:
            inner = max((self.depth[child] for child in node.children), default=0)
            self.depth[node] = inner + isinstance(node, Reduce)
        # Each reduction keeps some arrays of this length, and drivers bound the private memory of a work-item.
        reductions = sum(isinstance(node, Reduce) for node in self.nodes)
        self.strip: int = max(STRIP >> (reductions.bit_length() - 1), 256) if reductions else 0
        self.place: str = "uint" if layout.narrow else "size_t"
        self.count: int = 0
        self.scratch: set[str] = set()

    @abstractmethod
    def emit(self, node: Expr, scope: Scope) -> tuple[str, bool]:
        """Returns the text of a value and whether it is a vector; writes what it needs where that belongs."""

    @abstractmethod
    def passed(self, scope: Scope) -> None:
        """Takes the end of a reduction's loop body; its values are in ``scope``."""

    def free(self, node: Expr) -> frozenset[int]:
        """Returns the axes along which ``node`` varies."""
        return axes_of(node, self.present, self.varies)

    def lanes(self, member: Reduce) -> int:
        """Returns the lanes of a reduction along the last axis: the same in every kernel of the device, so that all
        kernels with a sum give the same bits. 1 for whole numbers, and for doubles on GPUs, so that adjacent work-items
        read adjacent elements.
        """
        if not is_floating(member.dtype) or (compute_type(member.dtype) == "double" and not self.layout.cpu):
            return self.width
        return self.layout.width

    def name(self, prefix: str = "t") -> str:
        """Returns a name not used before."""
        self.count += 1
        return f"{prefix}{self.count}"

    def declare(self, scope: Scope, dtype: str, text: str, vector: bool, prefix: str = "t") -> tuple[str, bool]:
        """Declares a variable of ``scope`` with the value ``text``; returns its name, and True if it is a vector."""
        name, kind = self.name(prefix), c.value_type(dtype, self.width if vector else 1)
        if not scope.strip or scope.leaf or not vector:
            scope.add(f"{kind} {name} = {text};", each=vector)
            return name, vector
        scope.arrays.append(f"{kind} {name}[{self.strip // self.width}];")
        name += "[u]"
        scope.add(f"{name} = {text};")
        return name, vector

    # -- reductions ----------------------------------------------------------------------------------------------------

    def reduce(self, node: Reduce, scope: Scope) -> None:
        """Writes into ``scope`` the loops of ``node``, of all reductions that can share them, and their results."""
        group = [node] + [
            other
            for other in self.nodes
            if isinstance(other, Reduce)
            and other is not node
            and other.axes == node.axes
            and self.depth[other] == self.depth[node]
            and other not in scope.values
            and self.free(other) == self.free(node)
            and (self.last not in node.axes or self.lanes(other) == self.lanes(node))
        ]
        across = self.last in node.axes
        lanes = self.lanes(node) if across else 1
        wide: list[_Sum] = []  # accumulators of whole vectors
        single: list[_Sum] = []  # accumulators of single values
        for member in group:
            kept = scope.vector and self.last in self.free(member)
            if kept or (across and self.width > 1):
                wide.append(self.begin(scope, member, True))
            elif lanes > 1:
                wide.append(self.begin(scope, member, False, lanes))
            if not kept and not (across and self.exact):
                single.append(self.begin(scope, member, False))

        def accumulate(inner: Scope) -> None:
            whole = bool(wide) and (inner.whole or not across)
            vectors = whole and wide[0].vector
            for sum_ in wide if whole else single:
                member = sum_.member
                text, value_vector = self.emit(member.arg, inner)
                text = c.convert(text, member.arg.dtype, member.dtype, self.width if value_vector else 1)
                if vectors and not value_vector:
                    text = c.broadcast(text, member.dtype, self.width)
                if not text.isidentifier():
                    text, _ = self.declare(inner, member.dtype, text, vectors)
                if sum_.nan:
                    sign = ">" if member.kind == "max" else "<"
                    inner.add(f"{sum_.term} = ({text} {sign} {sum_.term}) ? {text} : {sum_.term};", each=vectors)
                    inner.add(f"{sum_.nan} = {sum_.nan} | ({text} != {text});", each=vectors)
                else:
                    inner.add(f"{sum_.term} = {c.combine(member.kind, member.dtype, sum_.term, text)};", each=vectors)
            self.passed(inner)

        either = wide or single
        self.loops(scope, node.axes, accumulate, (wide, single) if across else (either, either))
        results = [
            self.finish(scope, member, wide[number] if wide else None, single[number] if single else None, across)
            for number, member in enumerate(group)
        ]
        if across and self.layout.group > 1:
            for start in range(0, len(group), TREES):
                stop = start + TREES
                results[start:stop] = self.fold_group(scope, group[start:stop], results[start:stop])
        for member, (name, error, vector) in zip(group, results):
            if error:
                name, vector = self.declare(scope, member.dtype, c.rounded_sum(name, error), vector)
            scope.values[member] = name, vector

    def begin(self, scope: Scope, member: Reduce, vector: bool, lanes: int = 1) -> _Sum:
        """Declares the variables of a reduction with their initial values."""

        def variable(dtype: str, start: str, prefix: str) -> str:
            if lanes == 1:
                return self.declare(scope, dtype, start, vector, prefix)[0]
            name = self.name(prefix)
            scope.add(f"{c.value_type(dtype)} {name}[{lanes}] = {{{', '.join([start] * lanes)}}};")
            return f"{name}[u]"

        term = variable(member.dtype, c.identity(member.kind, member.dtype), "acc")
        if member.kind in ("max", "min") and is_floating(member.dtype):
            return _Sum(member, vector, term, nan=variable("int32", "0", "nan"), lanes=lanes)
        if member.kind != "sum" or not is_floating(member.dtype) or compute_type(member.dtype) != "float":
            return _Sum(member, vector, term, lanes=lanes)
        total, error = (variable(member.dtype, "0.0f", name) for name in ("total", "error"))
        return _Sum(member, vector, term, total, error, lanes=lanes)

    def finish(
        self, scope: Scope, member: Reduce, wide: _Sum | None, single: _Sum | None, across: bool
    ) -> tuple[str, str, bool]:
        """Returns a work-item's value after a reduction's loops, its error ("": none), and True if they are vectors."""
        for sum_ in (wide, single):
            if sum_ is not None and sum_.nan:
                none = c.broadcast("NAN", member.dtype, self.width) if sum_.vector else "NAN"
                scope.add(sum_.each(f"{sum_.term} = {sum_.nan} ? {none} : {sum_.term};"), each=sum_.vector)
        if not across:
            kept = wide or single
            assert kept is not None
            return (kept.total, kept.error, kept.vector) if kept.careful else (kept.term, "", kept.vector)
        name, error = "", ""
        if single is not None:
            name, error = (single.total, single.error) if single.careful else (single.term, "")
        if wide is not None:
            name, error = self.fold(scope, wide, name, error)
        return name, error, False

    def fold(self, scope: Scope, wide: _Sum, rest: str, rest_error: str) -> tuple[str, str]:
        """Combines an accumulator's lanes, and the rest's if there is one, to one value (and error), in fixed order."""
        member, width = wide.member, self.width
        name, error = (wide.total, wide.error) if wide.careful else (wide.term, "")
        if wide.lanes > 1:
            name, error = self.fold_array(scope, wide, name, error)
        while width > (0 if rest else 1):
            width //= 2
            kind = c.value_type(member.dtype, max(width, 1))
            a, b = (f"{name}.lo", f"{name}.hi") if width else (name, rest)
            both = self.name()
            scope.add(f"{kind} {both} = {c.combine(member.kind, member.dtype, a, b)};", each=False)
            if error:
                part, errors = self.name(), f"{error}.lo + {error}.hi" if width else f"{error} + {rest_error}"
                error = self.name("error")
                scope.add(
                    f"{kind} {part} = {both} - {a};",
                    f"{kind} {error} = {errors} + (({a} - ({both} - {part})) + ({b} - {part}));",
                    each=False,
                )
            name = both
        return name, error

    def fold_array(self, scope: Scope, wide: _Sum, name: str, error: str) -> tuple[str, str]:
        """Combines lanes of an accumulator that is no vector to one value (and error), in the order of ``fold``."""
        step = wide.lanes
        while step > 1:
            step //= 2
            other = name.replace("[u]", f"[u + {step}]")
            if error:
                text = c.exact_sum(wide.member.dtype, 1, name, error, other)
                text = f"{{ {error} += {error.replace('[u]', f'[u + {step}]')}; {text} }}"
            else:
                text = f"{name} = {c.combine(wide.member.kind, wide.member.dtype, name, other)};"
            scope.add(f"for (uint u = 0; u < {step}; ++u) {text}", each=False)
        return name.replace("[u]", "[0]"), error.replace("[u]", "[0]")

    def fold_group(
        self, scope: Scope, members: Sequence[Reduce], items: Sequence[tuple[str, str, bool]]
    ) -> list[tuple[str, str, bool]]:
        """Combines the values of a group's work-items to one for each reduction, by trees in local memory."""
        before, steps, totals, after = [], [], list[tuple[str, str, bool]](), []
        for number, (member, (name, error, _)) in enumerate(zip(members, items)):
            kind = c.value_type(member.dtype)
            scratch, errors = f"scratch{number}_{kind}", f"errors{number}_{kind}"
            here, there, total = f"{scratch}[lid]", f"{scratch}[lid + step]", self.name()
            self.scratch.add(scratch)
            before.append(f"{here} = {name};")
            after.append(f"{kind} {total} = {scratch}[0];")
            if not error:
                steps.append(f"{here} = {c.combine(member.kind, member.dtype, here, there)};")
                totals.append((total, "", False))
                continue
            self.scratch.add(errors)
            before.append(f"{errors}[lid] = {error};")
            steps.append(f"{errors}[lid] += {errors}[lid + step];")
            steps.append(c.exact_sum(member.dtype, 1, here, f"{errors}[lid]", there))
            left = self.name("error")
            after.append(f"{kind} {left} = {errors}[0];")
            totals.append((total, left, False))
        scope.add(
            *before,
            "barrier(CLK_LOCAL_MEM_FENCE);",
            f"for (uint step = {self.layout.group // 2}; step > 0; step >>= 1) {{",
            "  if (lid < step) {",
            *(f"    {step}" for step in steps),
            "  }",
            "  barrier(CLK_LOCAL_MEM_FENCE);",
            "}",
            *after,
            "barrier(CLK_LOCAL_MEM_FENCE);",
            each=False,
        )
        return totals

    # -- loops ---------------------------------------------------------------------------------------------------------

    def loops(
        self,
        scope: Scope,
        axes: Axes,
        body: Callable[[Scope], None],
        sums: tuple[Sequence[_Sum], Sequence[_Sum]] = ((), ()),
        outermost: bool = True,
    ) -> None:
        """Writes loops over ``axes``, outermost first, and calls ``body(scope)`` inside; ``sums`` are the accumulators
        of whole vectors along the last axis, and of single places. The work-items of a group share the outermost loop
        if few of them take turns along the last axis.
        """
        if not axes:
            body(scope)
            return
        axis, rest = axes[0], axes[1:]
        low, high = ("low", "high") if axis == self.layout.split else ("0", f"n{axis}")
        if axis == self.last:
            self.stretch(scope, low, high, body, sums, guarded=not outermost)
        elif rest:
            inner = Scope(scope, frozenset((axis,)), scope.vector, strip=scope.strip)
            self.loops(inner, rest, body, sums, outermost=False)
            start, step = low, 1
            if outermost and self.layout.turns < self.layout.group and axes[-1] == self.last:
                start = _plus(low, f"lid / {self.layout.turns}")
                step = self.layout.group // self.layout.turns
            if self.once and axes[-1] == self.last:
                if outermost:  # a work-item without a vector has no turns at all
                    end = "high" if self.last == self.layout.split else f"n{self.last}"
                    start = f"{self.own_place()} < {end} ? {start} : {high}"
                if len(rest) == 1:
                    scope.add(f"#pragma unroll {UNROLLED}", each=False)
            scope.block(f"for ({self.place} i{axis} = {start}; i{axis} < {high}; {_advance(f'i{axis}', step)})", inner)
        else:
            leaf = Scope(None, frozenset((axis,)), scope.vector, strip=scope.strip, leaf=bool(scope.strip))
            self.walk(scope, leaf, body, f"i{axis}", low, high, 1, sums[0])

    def walk(
        self,
        scope: Scope,
        inner: Scope,
        body: Callable[[Scope], None],
        index: str,
        low: str,
        high: str,
        step: int,
        sums: Sequence[_Sum],
        lane: str = "",
        short: bool = False,
    ) -> None:
        """Writes one loop with ``body(inner)`` inside, in blocks if it has careful sums, unless it is ``short`` enough
        for one block. ``lane`` is the start of the work-items of a group. A work-item of a GPU that adds pieces alone
        has one loop without blocks, of which the compiler loads several pieces ahead.
        """
        careful = [sum_ for sum_ in sums if sum_.careful]
        blocks = Scope(scope, frozenset(), scope.vector, strip=scope.strip) if careful else scope
        inner.parent = blocks
        body(inner)
        start, stop = low, high
        single = bool(careful) and self.layout.block == 1 and not (self.layout.cpu or lane)
        if careful and not short and not single:
            start, stop = self.name("block"), self.name("stop")
            blocks.add(f"{self.place} {stop} = min({start} + {self.layout.block * step}, {high});", each=False)
        lanes = sums[0].lanes if sums else 1
        counter = index if lanes == 1 else self.name("at")
        head = f"for ({self.place} {counter} = {_plus(start, lane)}; {counter} < {stop}; {_advance(counter, step)})"
        if lanes > 1:
            head += f" for ({self.place} {index} = {counter}, u = 0; u < {lanes}; ++{index}, ++u)"
        for sum_ in careful:
            blocks.add(sum_.each(f"{sum_.term} = 0.0f;"), each=sum_.vector)
        if self.layout.cpu and (short or any(_ordered(sum_) for sum_ in sums)):
            blocks.add(c.SHORT_LOOP if short else c.ORDERED_LOOP, each=False)
        blocks.block("" if single else head, inner)
        if not careful:
            return
        for sum_ in careful:
            width = self.width if sum_.vector else 1
            text = c.exact_sum(sum_.member.dtype, width, sum_.total, sum_.error, sum_.term)
            blocks.add(sum_.each(text), each=sum_.vector)
        if single:
            scope.add(f"#pragma unroll {PIECES}", each=False)
        elif short:
            head = ""
        else:
            head = f"for ({self.place} {start} = {low}; {start} < {high}; {start} += {self.layout.block * step})"
        scope.block(head, blocks)

    def stretch(
        self,
        scope: Scope,
        low: str,
        high: str,
        body: Callable[[Scope], None],
        sums: tuple[Sequence[_Sum], Sequence[_Sum]] = ((), ()),
        shared: bool = True,
        guarded: bool = False,
    ) -> None:
        """Writes the loops over the last axis: whole vectors, then single places if any are left; a group takes turns
        if ``shared``. If each work-item has one vector at most there is no loop; ``guarded``: it has one.
        """
        if self.once and shared:
            self.single_vector(scope, high, body, sums[0], guarded)
            return
        axis, width, turns = f"i{self.last}", self.width, self.layout.turns if shared else 1
        bind = frozenset((self.last,))
        start = low
        item = "" if not shared or self.layout.group == 1 else "lid"
        if turns < self.layout.group and item:
            item = f"lid % {turns}"
        lanes = max(width, sums[0][0].lanes if sums[0] else 1)
        if lanes > 1:
            end = high if self.exact else self.whole(scope, low, high, lanes)
            lane = item and f"{item} * {lanes}"
            inner = Scope(None, bind, width > 1, whole=True)
            self.walk(scope, inner, body, axis, low, end, lanes * turns, sums[0], lane)
            start = end
        if self.exact:
            return
        self.walk(scope, Scope(None, bind), body, axis, start, high, turns, sums[1], item, short=lanes > 1)

    def own_place(self) -> str:
        """Returns the place of the only vector of a work-item along the last axis."""
        turns = self.layout.turns
        item = "lid" if turns == self.layout.group else f"lid % {turns}"
        return _plus("low" if self.last == self.layout.split else "0", f"{item} * {self.width}")

    def single_vector(
        self, scope: Scope, high: str, body: Callable[[Scope], None], sums: Sequence[_Sum], guarded: bool
    ) -> None:
        """Writes ``body`` for the only vector of a work-item along the last axis."""
        careful = [sum_ for sum_ in sums if sum_.careful]
        inner = Scope(scope, frozenset((self.last,)), True, whole=True)
        inner.add(f"{self.place} i{self.last} = {self.own_place()};", each=False)
        for sum_ in careful:
            inner.add(f"{sum_.term} = 0.0f;")
        body(inner)
        for sum_ in careful:
            inner.add(c.exact_sum(sum_.member.dtype, self.width, sum_.total, sum_.error, sum_.term))
        scope.block("" if guarded else f"if ({self.own_place()} < {high})", inner)

    def whole(self, scope: Scope, low: str, high: str, lanes: int) -> str:
        """Returns the name of the end of the whole vectors between ``low`` and ``high``."""
        if not scope.end:
            scope.end = self.name("end")
            span = high if low == "0" else f"({high} - {low})"
            text = f"{'' if low == '0' else low + ' + '}{span} / {lanes} * {lanes}"
            scope.add(f"{self.place} {scope.end} = {text};", each=False)
        return scope.end

    def strips(self, scope: Scope, low: str, high: str, body: Callable[[Scope], None]) -> None:
        """Writes loops over the last axis in strips of several vectors, then over single places. Reductions of other
        axes keep a strip of results, so that they read memory in order.
        """
        axis, width, bind = f"i{self.last}", self.width, frozenset((self.last,))
        end = self.whole(scope, low, high, width)
        head = f"for ({self.place} u = 0, {axis} = strip; u < count; ++u, {axis} += {width})"
        strip = Scope(scope, bind, True, strip=head)
        strip.add(
            f"{self.place} count = min(({self.place}){self.strip // width}, ({end} - strip) / {width});", each=False
        )
        body(strip)
        scope.block(f"for ({self.place} strip = {low}; strip < {end}; strip += {self.strip})", strip)
        single = Scope(scope, bind)
        body(single)
        scope.add(c.SHORT_LOOP, each=False)
        scope.block(f"for ({self.place} {axis} = {end}; {axis} < {high}; ++{axis})", single)


def _ordered(sum_: _Sum) -> bool:
    """True for a sum of single floats: Intel's compiler would change its order by vectorising it."""
    return not sum_.vector and is_floating(sum_.member.dtype) and sum_.member.kind in ("sum", "prod")


def _plus(a: str, b: str) -> str:
    if not b:
        return a
    return b if a == "0" else f"{a} + {b}"


def _advance(index: str, step: int) -> str:
    return f"++{index}" if step == 1 else f"{index} += {step}"

"""Emits expressions as ONNX nodes, so that every elementwise or reducing op of the table can be exported."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from netcl.autograd.levels import need
from netcl.core.dtypes import is_integer
from netcl.core.errors import UnsupportedError
from netcl.core.expr import Apply, Const, Expr, Index, Load, Reduce, Scalar
from netcl.core.layout import broadcast_shapes
from netcl.io.onnx.graph import Graph, Pair, Value
from netcl.io.onnx.node import OF_OPS
from netcl.io.onnx.tracing import TracedOp

_REDUCTIONS = {"sum": "Sum", "prod": "Prod", "max": "Max", "min": "Min"}


class _Writer:
    """Emits the expressions of one op."""

    def __init__(
        self, graph: Graph, inputs: Sequence[Value], scalars: Mapping[str, float | int], name: str, rank: int
    ) -> None:
        self.graph, self.scalars, self.name = graph, scalars, name
        first, second = (broadcast_shapes([value.shapes[trace] for value in inputs], name) for trace in (0, 1))
        self.space: Pair = (first, second)
        self.rank = rank
        self.inputs = [self._aligned(value) for value in inputs]
        self._done: dict[Expr, Value] = {}

    def _aligned(self, value: Value) -> Value:
        lead = (1,) * (self.rank - value.rank)
        return self.graph.reshape(value, (lead + value.shapes[0], lead + value.shapes[1]))

    def value(self, node: Expr) -> Value:
        """Returns the value of an expression, emitted at most once."""
        if node not in self._done:
            self._done[node] = self._written(node)
        return self._done[node]

    def _written(self, node: Expr) -> Value:
        graph = self.graph
        if isinstance(node, Load):
            return self.inputs[node.slot]
        if isinstance(node, Const):
            return graph.constant(node.value, node.dtype)
        if isinstance(node, Scalar):
            return graph.constant(self._scalar(node.name), node.dtype)
        if isinstance(node, Index):
            return self._index(node.axis)
        if isinstance(node, Reduce):
            return self._reduced(node)
        assert isinstance(node, Apply)
        return self._applied(node)

    def _scalar(self, name: str) -> float | int:
        if not name.startswith("size:"):
            return self.scalars[name]
        axes = [int(axis) for axis in name.removeprefix("size:").split(",") if axis]
        first, second = (math.prod(shape[axis] for axis in axes) for shape in self.space)
        if first != second:
            raise self._unfit("counts the samples of the batch")
        return first

    def _unfit(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"{self.name} {what}; export with dynamic_batch=False", op=self.name)

    def _index(self, axis: int) -> Value:
        size = self.space[0][axis]
        if size != self.space[1][axis]:
            raise self._unfit("numbers the samples of the batch")
        places = np.arange(size, dtype=np.int32).reshape([size if other == axis else 1 for other in range(self.rank)])
        return self.graph.constant(places, "int32")

    def _reduced(self, node: Reduce) -> Value:
        value = self.value(node.arg)
        value = self._aligned(value) if value.rank < self.rank else value
        over = set(node.axes)
        first, second = (
            tuple(full if axis in over else size for axis, (full, size) in enumerate(zip(space, shape)))
            for space, shape in zip(self.space, value.shapes)
        )
        value = self.graph.expand(value, (first, second))
        if node.dtype != node.arg.dtype or node.arg.dtype == "bool":
            value = self.graph.cast(value, node.dtype)
        return self.graph.reduce(_REDUCTIONS[node.kind], value, node.axes)

    def _applied(self, node: Apply) -> Value:
        name, values = node.prim.name, [self.value(arg) for arg in node.args]
        if name.startswith("to_"):
            return self.graph.cast(values[0], node.dtype)
        if name in ("stop_gradient", "require"):
            return values[len(values) // 2]
        if name in OF_OPS:
            return self._node(OF_OPS[name], node.dtype, *values)
        if name not in _COMPOSED:
            raise UnsupportedError(f"{self.name}: ONNX has no {name}", op=self.name)
        return _COMPOSED[name](self, node.dtype, *values)

    def _node(self, op: str, dtype: str, *values: Value) -> Value:
        first, second = (broadcast_shapes([value.shapes[trace] for value in values], self.name) for trace in (0, 1))
        if op in ("Max", "Min") and dtype == "bool":
            op = "Or" if op == "Max" else "And"
        return self.graph.add(op, values, (first, second), dtype)

    def number(self, value: float, like: Value) -> Value:
        """Returns a number in the dtype of a value."""
        return self.graph.constant(value, like.dtype)


def _chain(*ops: tuple[Any, ...]) -> Callable[..., Value]:
    """Emits a primitive as a chain of nodes: (op, operands...), an operand being the previous value (0), a number
    (float), or an argument of the primitive ("a", "b", "c").
    """

    def write(writer: _Writer, dtype: str, *values: Value) -> Value:
        named = dict(zip("abc", values))
        result = values[0]
        for op, *operands in ops:
            arguments = [
                result if operand == 0 and type(operand) is int
                else named[operand] if isinstance(operand, str)
                else writer.number(operand, result)
                for operand in operands
            ]  # fmt: skip
            result = writer._node(op, "bool" if op in ("Equal", "Not", "IsNaN", "IsInf", "Or") else dtype, *arguments)
        return result

    return write


def _logaddexp(writer: _Writer, dtype: str, a: Value, b: Value) -> Value:
    largest = writer._node("Max", dtype, a, b)
    gap = writer._node("Neg", dtype, writer._node("Abs", dtype, writer._node("Sub", dtype, a, b)))
    rest = writer._node("Add", dtype, writer._node("Exp", dtype, gap), writer.number(1.0, gap))
    return writer._node("Add", dtype, largest, writer._node("Log", dtype, rest))


def _trunc(writer: _Writer, dtype: str, a: Value) -> Value:
    size = writer._node("Floor", dtype, writer._node("Abs", dtype, a))
    return writer._node("Mul", dtype, writer._node("Sign", dtype, a), size)


def _floor_divide(writer: _Writer, dtype: str, a: Value, b: Value) -> Value:
    if is_integer(dtype):
        rest = writer._node("Mod", dtype, a, b)
        return writer._node("Div", dtype, writer._node("Sub", dtype, a, rest), b)
    return writer._node("Floor", dtype, writer._node("Div", dtype, a, b))


def _mod(writer: _Writer, dtype: str, a: Value, b: Value) -> Value:
    if is_integer(dtype):
        return writer._node("Mod", dtype, a, b)
    whole = writer._node("Floor", dtype, writer._node("Div", dtype, a, b))
    return writer._node("Sub", dtype, a, writer._node("Mul", dtype, whole, b))


def _isfinite(writer: _Writer, dtype: str, a: Value) -> Value:
    odd = writer._node("Or", "bool", writer._node("IsNaN", "bool", a), writer._node("IsInf", "bool", a))
    return writer._node("Not", "bool", odd)


def _hypot(writer: _Writer, dtype: str, a: Value, b: Value) -> Value:
    squares = [writer._node("Mul", dtype, side, side) for side in (a, b)]
    return writer._node("Sqrt", dtype, writer._node("Add", dtype, *squares))


_COMPOSED: Mapping[str, Callable[..., Value]] = {
    "rsqrt": _chain(("Sqrt", "a"), ("Reciprocal", 0)),
    "exp2": _chain(("Mul", "a", math.log(2.0)), ("Exp", 0)),
    "expm1": _chain(("Exp", "a"), ("Sub", 0, 1.0)),
    "log1p": _chain(("Add", "a", 1.0), ("Log", 0)),
    "log2": _chain(("Log", "a"), ("Mul", 0, 1.0 / math.log(2.0))),
    "log10": _chain(("Log", "a"), ("Mul", 0, 1.0 / math.log(10.0))),
    "erfc": _chain(("Erf", "a"), ("Neg", 0), ("Add", 0, 1.0)),
    "ne": _chain(("Equal", "a", "b"), ("Not", 0)),
    "fma": _chain(("Mul", "a", "b"), ("Add", 0, "c")),
    "logaddexp": _logaddexp,
    "trunc": _trunc,
    "floor_divide": _floor_divide,
    "mod": _mod,
    "isfinite": _isfinite,
    "hypot": _hypot,
}


def write_expression(graph: Graph, step: TracedOp) -> list[Value]:
    """Emits the nodes of an op that is an expression; returns its results."""
    need("programs", "export of an op that is an expression")
    from netcl.core.ops_table.dispatch import bound

    ready, again = (bound(call.row, call.args, call.kwargs) for call in (step.first, step.second))
    if ready.scalars != again.scalars:
        raise UnsupportedError(
            f"{step.name} uses numbers that depend on the batch; export with dynamic_batch=False", op=step.name
        )
    inputs = [graph.value(a, b) for a, b in zip(ready.inputs, again.inputs)]
    rank = max(value.rank for value in inputs)
    whole = _reduces(ready.program.outputs)
    writer = _Writer(graph, inputs, ready.scalars, step.name, rank if whole else 0)
    values = []
    for number, output in enumerate(ready.program.outputs):
        shapes = (step.first.results[number].shape, step.second.results[number].shape)
        value = writer.value(output)
        spread = (ready.program.shapes[number], again.program.shapes[number])
        if len(value.shapes[0]) < len(spread[0]) or math.prod(value.shapes[0]) != math.prod(spread[0]):
            value = graph.expand(value, spread)
        values.append(graph.reshape(value, shapes))
    return values


def _reduces(outputs: Sequence[Expr]) -> bool:
    """True if the expression refers to an axis, so that all values must have the same number of axes."""
    seen: set[Expr] = set()
    waiting = list(outputs)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (Reduce, Index)):
            return True
        if node not in seen:
            seen.add(node)
            waiting.extend(node.children)
    return False

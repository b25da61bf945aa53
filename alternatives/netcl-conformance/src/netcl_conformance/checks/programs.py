"""Level programs: interned nodes, programs of rows, rewriting, derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core.expr import Const, Load, Reduce, Scalar, apply, cast, reduce, vjp
from netcl.core.expr.rewrite import axes_of, slots, substitute_all, walk
from netcl.core.ops_table.dispatch import TABLE, bound, call, evaluate, row_of
from netcl.ops.table import elementwise
from netcl_conformance.registry import check
from netcl_conformance.values import assert_close, tensor

X = np.array([[1.0, -2.0, 0.5], [3.0, 4.0, -1.0]], np.float32)


@check("programs")
def equal_structure_is_one_node() -> None:
    a, b = Load(0, "float32"), Scalar("s", "float32")
    assert (a + b) is (Load(0, "float32") + Scalar("s", "float32"))
    assert (a + b) is not (b + a)
    assert (a + b).children == (a, b)
    assert (a < b).dtype == "bool"
    assert cast(a, "int32").dtype == "int32"
    assert (a * 2).children[1] is Const(2.0, "float32")
    total = reduce("sum", a, (1, 0))
    assert isinstance(total, Reduce)
    assert (total.kind, total.axes, total.arg) == ("sum", (0, 1), a)
    assert {node.slot for node in walk((a + Load(2, "float32"),)) if isinstance(node, Load)} == {0, 2}
    assert set(slots((a + Load(2, "float32"),))) == {0, 2}
    assert substitute_all((a + b,), {a: Load(1, "float32")})[0] is Load(1, "float32") + b
    assert axes_of(a + b, {0: frozenset((1,))}, {}) == frozenset((1,))


@check("programs")
def rows_of_texts_have_programs() -> None:
    name = "conformance_scaled_sum"
    if name not in TABLE:
        elementwise(name, "v0 * factor + v1", "v0 factor + v1", operands="a b", factor=3.0)
    x, y = tensor(X), tensor(np.array([1.0, 2.0, 3.0], np.float32))
    assert_close(call(name, x, y), X * 3 + np.array([1, 2, 3]))
    assert_close(call(name, x, 1, factor=2.0), X * 2 + 1)
    ready = bound(row_of(name), (x, y), {"factor": 2.0})
    program = ready.program
    assert ready.inputs == (x, y)
    assert ready.scalars["factor"] == 2.0
    assert (program.name, program.shapes, program.finals, program.single) == (name, ((2, 3),), ((2, 3),), True)
    assert {slot: set(axes) for slot, axes in program.present.items()} == {0: {0, 1}, 1: {1}}
    assert_close(ready.run()[0], X * 2 + np.array([1, 2, 3]))


@check("programs")
def derivatives_are_those_of_differences() -> None:
    a, b, grad = Load(0, "float32"), Load(1, "float32"), Load(2, "float32")
    out = apply("tanh", a * b) + apply("where", a > 0, a, 0.0)
    present = {0: frozenset((0, 1)), 1: frozenset((1,)), 2: frozenset((0, 1))}
    gradients: Any = vjp((out,), (grad,), (0, 1), present)
    y, g = np.array([2.0, 0.5, -0.3], np.float32), np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 1.0]], np.float32)
    given = (tensor(X), tensor(y), tensor(g))
    one, two = evaluate(gradients, given, shapes=[(2, 3), (1, 3)])
    inner = g * (1 - np.tanh(X * y) ** 2)
    assert_close(one, inner * y + g * (X > 0), tolerance=(1e-4, 1e-5))
    assert_close(two, (inner * X).sum(0, keepdims=True), tolerance=(1e-4, 1e-5))

"""Level expressions: texts, builders, evaluation in place and on many inputs, derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core.dispatch import TABLE, bound, evaluate, evaluate_each, reduce_each, row_of
from netcl.core.errors import ExpressionError
from netcl.core.expr import Const, Index, Load, Reduce, Scalar, apply, cast, mean, parse, reduce, size_of, vjp
from netcl.core.expr.rewrite import axes_of, slots, substitute_all, walk
from netcl.ops.table import elementwise
from netcl_conformance.checks.tensor import raises
from netcl_conformance.registry import check
from netcl_conformance.values import assert_close, tensor

X = np.array([[1.0, -2.0, 0.5], [3.0, 4.0, -1.0]], np.float32)


@check("expressions")
def texts_are_read_as_c() -> None:
    y = np.array([2.0, 0.5, -3.0], np.float32)
    for text, wanted in (
        ("v0 > 0 ? v0 : 0.1 * v0", np.where(X > 0, X, 0.1 * X)),
        ("fmax(v0, v1) - -v1 * 2", np.maximum(X, y) + y * 2),
        ("exp(-v0) / (1 + exp(-v0))", np.exp(-X) / (1 + np.exp(-X))),
        ("v0 < v1 && v0 != 0.5 || false ? INFINITY : sqrt(fabs(v1))",
         np.where((y > X) & (X != 0.5), np.inf, np.sqrt(abs(y)))),
    ):  # fmt: skip
        (found,) = evaluate((parse(text, 2),), (tensor(X), tensor(y)), shapes=[(2, 3)])
        assert_close(found, wanted.astype(np.float32))
    assert "position" in raises(ExpressionError, parse, "v0 + ", 1)
    raises(ExpressionError, parse, "v0 + v1", 1)
    raises(ExpressionError, parse, "no_such(v0)", 1)


@check("expressions")
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


@check("expressions")
def reductions_indices_and_sizes_refer_to_the_space() -> None:
    a = Load(0, "float32")
    found = evaluate(
        (a - mean(a, 1), reduce("max", a, 0), cast(Index(1), "float32") * size_of((0, 1), "float32")),
        (tensor(X),),
        shapes=[(2, 3), (1, 3), (1, 3)],
    )
    for one, wanted in zip(found, (X - X.mean(1, keepdims=True), X.max(0, keepdims=True), np.arange(3.0)[None] * 6)):
        assert_close(one, wanted.astype(np.float32))


@check("expressions")
def evaluation_writes_in_place_after_reading() -> None:
    p, m = tensor(X), tensor(np.ones_like(X))
    a, b, rate = Load(0, "float32"), Load(1, "float32"), Scalar("rate", "float32")
    before, identity = p.version, p.storage_id
    evaluate((a - rate * b, a + b), (p, m), {"rate": 0.5}, out=(p, m))
    assert_close(p, X - 0.5)
    assert_close(m, X + 1)
    assert p.version > before
    assert p.storage_id == identity
    many = [(tensor(np.full(n, n, np.float32)), tensor(np.ones(n, np.float32))) for n in (1, 3, 5)]
    shared = tensor(np.array(10, np.float32))
    evaluate_each((a + b * Load(2, "float32"),), many, (shared,), out=[(one,) for one, _ in many])
    assert [one.tolist() for one, _ in many] == [[11.0], [13.0] * 3, [15.0] * 5]
    parts = reduce_each("sum", a * a, [(one,) for one, _ in many])
    assert parts.ndim == 1
    assert float(parts.sum()) == 121 + 3 * 169 + 5 * 225


@check("expressions")
def rows_of_texts_have_programs() -> None:
    name = "conformance_shifted"
    if name not in TABLE:
        elementwise(name, "v0 * factor + v1", "v0 factor + v1", operands="a b", factor=3.0)
    from netcl.core.dispatch import call

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


@check("expressions")
def derivatives_are_those_of_differences() -> None:
    a, b, grad = Load(0, "float32"), Load(1, "float32"), Load(2, "float32")
    out = apply("tanh", a * b) + apply("where", a > 0, a, 0.0)
    present = {0: frozenset((0, 1)), 1: frozenset((1,)), 2: frozenset((0, 1))}
    found: Any = vjp((out,), (grad,), (0, 1), present)
    y, g = np.array([2.0, 0.5, -0.3], np.float32), np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 1.0]], np.float32)
    gradients = [found[slot] for slot in (0, 1)] if isinstance(found, dict) else list(found)
    given = (tensor(X), tensor(y), tensor(g))
    one, two = evaluate(gradients, given, shapes=[(2, 3), (1, 3)])
    inner = g * (1 - np.tanh(X * y) ** 2)
    assert_close(one, inner * y + g * (X > 0), tolerance=(1e-4, 1e-5))
    assert_close(two, (inner * X).sum(0, keepdims=True), tolerance=(1e-4, 1e-5))

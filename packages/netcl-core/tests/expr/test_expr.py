"""The expression language: interning, parsing, rewriting, gradients and evaluation."""

from __future__ import annotations

import numpy as np
import pytest

from netcl.core.errors import ExpressionError, ShapeError
from netcl.core.expr import (
    Const,
    Index,
    Load,
    Primitive,
    Reduce,
    Scalar,
    apply,
    cast,
    derive,
    evaluate,
    mean,
    parse,
    reduce,
    register_primitive,
    simplify,
    size_of,
    substitute,
    vjp,
)
from netcl.core.expr.rewrite import axes_of, slots, walk

X, Y = Load(0, "float32"), Load(1, "float32")


def value(expression, *arrays, **scalars):
    stored = [np.asarray(array, dtype=np.float32) for array in arrays]
    return evaluate((expression,), stored, scalars)[0]


def test_equal_structure_is_one_object():
    assert X + Y is Load(0, "float32") + Load(1, "float32")
    assert X + Y is not Y + X
    assert Const(0.0, "float32") is not Const(-0.0, "float32")
    assert Const(float("nan"), "float32") is Const(float("nan"), "float32")


def test_numbers_are_weak():
    assert (Load(0, "float16") * 2).dtype == "float16"
    assert (Load(0, "int32") * 2).dtype == "int32"
    assert (Load(0, "int32") * 2.5).dtype == "float32"
    assert (Load(0, "float16") + Load(1, "bfloat16")).dtype == "float32"
    assert (Load(0, "int64") / Load(1, "int64")).dtype == "float32"
    assert (X < 1).dtype == "bool"


@pytest.mark.parametrize(
    "text, function",
    [
        ("v0 + v1 * 2", lambda a, b: a + b * 2),
        ("(v0 + v1) * 2.0f", lambda a, b: (a + b) * 2),
        ("-v0 - -v1", lambda a, b: b - a),
        ("v0 > v1 ? v0 : v1", np.maximum),
        ("v0 > 0 ? 1.0f : v1 > 0 ? 2.0f : 3.0f", lambda a, b: np.where(a > 0, 1, np.where(b > 0, 2, 3))),
        ("MUL(ADD(v0, v1), 2.0f)", lambda a, b: (a + b) * 2),
        ("fmax(fabs(v0), 1e-1f)", lambda a, b: np.maximum(np.abs(a), 0.1)),
        ("RELU(v0) + 0x10", lambda a, b: np.maximum(a, 0) + 16),
        ("v0 > 0 && !(v1 > 0) || v0 < -1", lambda a, b: ((a > 0) & ~(b > 0)) | (a < -1)),
        ("exp(-v0 * v0 / 2.)", lambda a, b: np.exp(-a * a / 2)),
    ],
)
def test_parse(text, function):
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-2, 2, (2, 50)).astype(np.float32)
    np.testing.assert_allclose(value(parse(text, 2), a, b), function(a, b), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "text, position, reason",
    [
        ("v0 +", 4, "expected a value"),
        ("v0 $ v1", 3, "a character that no token begins with"),
        ("v0 + v2", 5, "v2 is not one of the 2 inputs"),
        ("sine(v0)", 0, "unknown function 'sine'"),
        ("v0 v1", 3, "expected an operator or the end"),
        ("(v0 + v1", 8, r"expected '\)'"),
        ("v0 + slope", 5, "unknown name 'slope'"),
        ("exp(v0, v1)", 0, "exp: expected 1 arguments, got 2"),
    ],
)
def test_parse_errors_show_the_position(text, position, reason):
    with pytest.raises(ExpressionError, match=reason) as caught:
        parse(text, 2)
    caret = str(caught.value).splitlines()[-1]
    assert caret.index("^") - 2 == position


def test_scalars_and_indices():
    slope = Scalar("slope", "float32")
    leaky = parse("v0 > 0 ? v0 : slope * v0", 1, {"slope": slope})
    assert value(leaky, [-2.0, 3.0], slope=0.5).tolist() == [-1.0, 3.0]
    assert value(X + cast(Index(1), "float32"), np.zeros((2, 3))).tolist() == [[0, 1, 2], [0, 1, 2]]


def test_reductions_keep_their_axes_and_broadcast():
    x = np.arange(6.0).reshape(2, 3)
    centred = X - mean(X, 1)
    np.testing.assert_allclose(value(centred, x), x - x.mean(1, keepdims=True))
    assert value(reduce("sum", X, (0, 1)), x).tolist() == [[15.0]]
    assert value(size_of((0, 1), "float32") * X, x)[1, 2] == 30.0
    assert reduce("sum", X, ()) is X
    assert Reduce("sum", Load(0, "uint8"), (0,)).dtype == "int64"
    with pytest.raises(ExpressionError, match="sorted, distinct"):
        Reduce("sum", X, (1, 0))
    with pytest.raises(ExpressionError, match="unknown reduction 'median'"):
        Reduce("median", X, (0,))
    with pytest.raises(ShapeError, match="more axes, 1 at least"):  # of the last axis but one of a vector
        Index(-1)


def test_a_long_sum_of_floats_is_exact():
    ones = np.ones((3, 2**20), np.float32)
    assert value(reduce("sum", X, 1), ones).tolist() == [[2**20]] * 3
    assert value(reduce("sum", X, 0), ones.T).tolist() == [[2**20] * 3]


def test_substitute_and_walk():
    inner = apply("exp", X)
    outer = inner * Y
    assert substitute(outer, {inner: X}) is X * Y
    order = walk((outer,))
    assert order.index(X) < order.index(inner) < order.index(outer)
    assert slots((outer,)) == [0, 1]
    deep = X
    for _ in range(3000):
        deep = deep + 1.0
    assert len(walk((deep,))) == 3002


def test_simplify_changes_no_bit():
    assert simplify(X * 1.0) is X
    assert simplify(1.0 * X / 1.0) is X
    assert simplify(apply("neg", -X)) is X
    kept = X + 0.0
    assert simplify(kept) is kept


def test_axes_of_reductions():
    present = {0: frozenset({0, 1}), 1: frozenset({1})}
    assert axes_of(X + Y, present, {}) == {0, 1}
    assert axes_of(reduce("sum", X, 0) + Y, present, {}) == {1}


@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid", "sin", "sqrt", "erf", "log1p", "atan", "abs"])
def test_derivatives(name):
    x = np.linspace(0.3, 1.7, 9).astype(np.float64)
    expression = apply(name, Load(0, "float64") * 0.7)
    slope = evaluate((derive(expression, 0),), [x])[0]
    h = 1e-6
    high, low = (evaluate((expression,), [x + step])[0] for step in (h, -h))
    np.testing.assert_allclose(slope, (high - low) / (2 * h), rtol=1e-7)


def test_gradients_of_broadcast_inputs_are_summed_back():
    rng = np.random.default_rng(1)
    x, y, g = rng.normal(size=(4, 3)), rng.normal(size=(1, 3)), rng.normal(size=(4, 3))
    product = Load(0, "float64") * Load(1, "float64")
    present = {0: frozenset({0, 1}), 1: frozenset({1}), 2: frozenset({0, 1})}
    by_x, by_y = vjp((product,), (Load(2, "float64"),), (0, 1), present)
    found = evaluate((by_x, by_y), [x, y, g])
    np.testing.assert_allclose(found[0], g * y)
    np.testing.assert_allclose(found[1], (g * x).sum(0, keepdims=True))


def test_gradient_stops():
    present = {0: frozenset(), 1: frozenset()}
    assert vjp((apply("stop_gradient", X) * Y,), (Const(1.0, "float32"),), (0,), present) == (None,)
    assert derive(apply("floor", X), 0) is None
    assert derive(cast(X, "int32"), 0) is None


def test_failed_requirements_are_reported():
    seen = []
    checked = apply("require", X < 3, X, 7, 40)

    def failed(*report):
        seen.append(report)

    evaluate((checked,), [np.array([1.0, 5.0], np.float32)], failed=failed)
    evaluate((checked,), [np.array([1.0, 2.0], np.float32)], failed=failed)
    evaluate((checked,), [np.array([[1.0], [2.0], [4.0]], np.float32)], shape=(3, 5), failed=failed)
    assert seen == [(7, 5.0, 1, 40), (7, 4.0, 2, 40)]


def test_unknown_and_doubled_primitives():
    with pytest.raises(ExpressionError, match="unknown primitive 'cube'"):
        apply("cube", X)
    with pytest.raises(ExpressionError, match="expected 2 arguments, got 1"):
        apply("add", X)
    with pytest.raises(ExpressionError, match="'add' exists already"):
        register_primitive(Primitive("add", 2, "{0} + {1}", np.add, None, "promote"))

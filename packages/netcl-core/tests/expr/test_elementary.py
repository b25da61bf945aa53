"""Elementary functions: the bounds of ``prims.ULP`` over all of float32, bits, whole powers, bool, special values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor
from netcl.core.errors import DTypeError
from netcl.core.expr import PRIMITIVES, Load, apply, special
from netcl.core.expr.prims import ULP

UNARY: dict[str, Any] = {
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": special.erf,
    "erfc": special.erfc,
    "lgamma": special.lgamma,
}
BINARY: dict[str, Any] = {
    "div": np.divide,
    "pow": np.power,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "logaddexp": np.logaddexp,
}
CANCELLING = ("lgamma", "logaddexp")
SMALLEST, LARGEST = 2.0**-126, 1e36


def normal(values: Any) -> Any:
    """Returns the numbers that are neither denormal nor about to overflow."""
    return values[(np.abs(values) >= SMALLEST) & (np.abs(values) < LARGEST)]


def everywhere() -> Any:
    """Returns Float32 numbers of every exponent and both signs, and more of them where functions bend."""
    rng = np.random.default_rng(0)
    with np.errstate(invalid="ignore"):
        all_bits = np.linspace(0, 2**32 - 1, 2**17).astype(np.uint32).view(np.float32)
        parts = [all_bits, rng.uniform(-10, 10, 2**15).astype(np.float32), rng.uniform(-1, 1, 2**15).astype(np.float32)]
        return normal(np.concatenate(parts))


def units(name: str, found: Any, wanted: Any) -> float:
    """Returns the largest error in units in the last place; results that become 0 or infinity do not count"""
    with np.errstate(all="ignore"):
        assert np.array_equal(np.isnan(found), np.isnan(wanted)), name
        counts = (np.abs(wanted) >= SMALLEST) & (np.abs(wanted) < LARGEST)
        scale = np.maximum(np.abs(wanted), 1) if name in CANCELLING else np.abs(wanted)
        unit = np.spacing(scale.astype(np.float32)).astype(np.float64)
        return float(np.max(np.where(counts, np.abs(found.astype(np.float64) - wanted) / unit, 0)))


@pytest.mark.parametrize("table", [UNARY, BINARY], ids=["unary", "binary"])
def test_errors_stay_within_the_stated_units(table: dict[str, Any], engine: Any) -> None:
    if table is UNARY:
        arrays = [everywhere()]
    else:
        rng = np.random.default_rng(1)
        arrays = [rng.uniform(0.01, 20, 2**15).astype(np.float32), rng.uniform(-8, 8, 2**15).astype(np.float32)]
    loads = [Load(slot, "float32") for slot in range(len(arrays))]
    outputs = tuple(apply(name, *loads) for name in table)  # one kernel for all of them
    results = engine.run(outputs, tuple(Tensor.from_host(array) for array in arrays))
    worst = {}
    for (name, exact), result in zip(table.items(), results):
        with np.errstate(all="ignore"):
            wanted = np.asarray(exact(*(array.astype(np.float64) for array in arrays)))
        worst[name] = units(name, result.numpy(), wanted)
    assert {name: error for name, error in worst.items() if error > ULP[name]} == {}


def test_every_elementary_function_has_a_bound() -> None:
    assert set(ULP) == {*UNARY, *BINARY}
    exact = {"floor", "ceil", "round", "trunc", "fma", "copysign", "nextafter"}
    assert {name for name, prim in PRIMITIVES.items() if prim.dtype == "float"} == {*ULP, *exact}


def test_erf_and_erfc_of_numpy_are_those_of_python() -> None:
    x = np.concatenate([np.linspace(-6, 27, 5001), [0.0, -0.0, np.inf, -np.inf]])
    for ours, theirs in ((special.erf, math.erf), (special.erfc, math.erfc)):
        np.testing.assert_allclose(ours(x), [theirs(float(each)) for each in x], rtol=2e-15, atol=1e-300)
    assert np.isnan(special.erfc(np.array(np.nan)))
    assert special.erf(np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_inverse_of_erf_in_both_precisions() -> None:
    x = np.concatenate([np.linspace(-0.999, 0.999, 401), [1 - 1e-12, -1 + 1e-9, 1e-30]])
    y = ops.erfinv(Tensor.from_host(x, "float64")).numpy()
    back = np.where(np.abs(x) > 0.5, np.sign(y) * (1 - special.erfc(np.abs(y))), special.erf(y))
    np.testing.assert_allclose(back, x, rtol=1e-15)
    tail = ops.erfinv(Tensor.from_host(np.array([1 - 1e-12]), "float64")).numpy()
    assert special.erfc(tail)[0] == pytest.approx(1 - (1 - 1e-12), rel=1e-12)
    single = ops.erfinv(Tensor.from_host(x[:401].astype(np.float32))).numpy()
    np.testing.assert_allclose(single, ops.erfinv(Tensor.from_host(x[:401].astype(np.float32), "float64")), rtol=1e-6)


def test_special_values(engine: Any) -> None:
    x = Tensor.from_host(np.array([-2.0, -1.0, 0.0, 1.0, 2.0, np.nan], np.float32))
    np.testing.assert_array_equal(ops.erfinv(x), np.array([np.nan, -np.inf, 0, np.inf, np.nan, np.nan]))
    np.testing.assert_allclose(
        ops.digamma(x), [np.nan, np.nan, -np.inf, -np.euler_gamma, 1 - np.euler_gamma, np.nan], rtol=1e-5
    )
    a, b = np.array([np.inf, -np.inf, np.inf, np.nan, -3e38, 3e38]), np.array([np.inf, -np.inf, -np.inf, 0, 3e38, 3e38])
    found = ops.logaddexp(Tensor.from_host(a.astype(np.float32)), Tensor.from_host(b.astype(np.float32)))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, np.logaddexp(a, b).astype(np.float32))
    # Weights that carry nothing, and ends that are met exactly.
    lerp = ops.lerp(
        Tensor.from_host(np.array([0.1, 0.1, 2], np.float32)), Tensor.full((3,), 0.7), Tensor.arange(3) * 0.5
    )
    np.testing.assert_array_equal(lerp, np.array([0.1, 0.4, 0.7], np.float32))


INT_MIN = -(2**31)


def test_bits_of_whole_numbers(engine: Any) -> None:
    a = np.array([0, 1, -1, 5, INT_MIN, 2**31 - 1], np.int32)
    b = np.array([3, 31, 32, -1, 33, 7], np.int32)
    x, y = Tensor.from_host(a), Tensor.from_host(b)
    assert (x & y).dtype == "int32"
    np.testing.assert_array_equal((6 & x).numpy(), 6 & a)
    np.testing.assert_array_equal((~x).numpy(), ~a)
    np.testing.assert_array_equal((x << y).numpy(), np.left_shift(a, b))
    np.testing.assert_array_equal((x >> y).numpy(), np.right_shift(a, b))
    bytes_ = Tensor.from_host(np.array([1, 200, 255]), "uint8")
    assert (~bytes_).dtype == "uint8"
    np.testing.assert_array_equal((~bytes_).numpy(), [254, 55, 0])


def test_operators_of_bool_are_logical(engine: Any) -> None:
    t, f = np.array([True, True, False, False] * 9), np.array([True, False, True, False] * 9)
    x, y = Tensor.from_host(t), Tensor.from_host(f)
    for found, wanted in ((x & y, t & f), (x | y, t | f), (x ^ y, t ^ f), (~x, ~t), (x & True, t)):
        assert found.dtype == "bool"
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_bits_of_floats_are_refused(engine: Any) -> None:
    x = Tensor.ones(3)
    for call in (lambda: x & 1, lambda: ~x, lambda: x << 1, lambda: ops.bitwise_xor(x, x)):
        with pytest.raises(DTypeError, match="expected whole numbers or bool, got float32"):
            call()


def test_arithmetic_of_bool_is_numpys(engine: Any) -> None:
    """In OpenCL C a true lane of a vector is -1, so each of these could go wrong."""
    t, f = np.array([True, True, False, False] * 9), np.array([True, False, True, False] * 9)
    x, y = Tensor.from_host(t), Tensor.from_host(f)
    for name, of in (("add", np.add), ("mul", np.multiply), ("maximum", np.maximum), ("minimum", np.minimum)):
        np.testing.assert_array_equal(getattr(ops, name)(x, y).numpy(), of(t, f), err_msg=name)
    for name, of in (("lt", np.less), ("le", np.less_equal), ("eq", np.equal), ("ge", np.greater_equal)):
        np.testing.assert_array_equal(getattr(ops, name)(x, y).numpy(), of(t, f), err_msg=name)
    np.testing.assert_array_equal(ops.add(x, 2).numpy(), t + 2)
    np.testing.assert_array_equal(ops.amax(y.reshape(4, 9), axis=1).numpy(), f.reshape(4, 9).max(1))
    np.testing.assert_array_equal(ops.min(y.reshape(4, 9), axis=1).values.numpy(), f.reshape(4, 9).min(1))
    for call in (lambda: x - y, lambda: -x, lambda: x**y, lambda: x // y):
        with pytest.raises(DTypeError, match="not defined on bool"):
            call()


def test_whole_powers_stay_whole(engine: Any) -> None:
    a, b = np.array([0, 1, -1, 2, -3, 7, 10], np.int32), np.array([0, 5, 7, 30, 3, 11, 9], np.int32)
    found = Tensor.from_host(a) ** Tensor.from_host(b)
    assert found.dtype == "int32"
    np.testing.assert_array_equal(found.numpy(), np.power(a, b))
    np.testing.assert_array_equal((Tensor.from_host(a) ** 2).numpy(), a**2)
    wide = Tensor.from_host(np.array([3, -2], np.int64)) ** np.array([39, 63])
    np.testing.assert_array_equal(wide.numpy(), np.array([3, -2], np.int64) ** np.array([39, 63]))
    below = Tensor.from_host(np.array([1, -1, -1, 5])) ** Tensor.from_host(np.array([-2, -2, -3, -1]))
    assert below.tolist() == [1, 1, -1, 0]
    assert (Tensor.from_host(a) ** 0.5).dtype == "float32"

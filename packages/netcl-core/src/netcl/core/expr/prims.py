"""The table of primitives: per scalar operation its OpenCL C text, NumPy function, gradient rule and dtype rule.

Gradient rules are in vector-Jacobian form: ``vjp(grad, out, *args)``. They are themselves expressions, so gradients of
gradients exist. At a kink they follow PyTorch (relu'(0) = 0, abs'(0) = 0, ties of maximum share evenly). ``ULP`` states
how exact the elementary functions are in float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from netcl.core.dtypes import SUPPORTED, is_floating
from netcl.core.errors import UnsupportedError
from netcl.core.expr import special
from netcl.core.expr.nodes import VJP, Expr, Primitive, apply, cast, register_primitive


def _fma(a: Any, b: Any, c: Any) -> Any:
    """Computes a * b + c rounded once: products of float32 are exact in float64 (products of float64 are rounded)."""
    return (np.multiply(a, b, dtype=np.float64) + c).astype(np.result_type(a, b, c))


def _row(
    name: str,
    arity: int,
    opencl: str | dict[str, str],
    numpy: Any,
    vjp: VJP | None,
    dtype: str = "promote",
    vector: bool = True,
    *,
    cost: int = 8,
    exact: bool = False,
    flops: int = 1,
) -> None:
    register_primitive(Primitive(name, arity, opencl, numpy, vjp, dtype, vector, cost, exact, flops))


_exact = partial(_row, cost=1, exact=True)  # as cheap as an addition, and the same bits on every driver


def _select(condition: Expr, grad: Expr) -> Expr:
    return apply("where", condition, grad, 0.0)


def _maximum_vjp(grad: Expr, out: Expr, a: Expr, b: Expr) -> Sequence[Expr]:
    return _shares(grad, a, b, "lt")


def _minimum_vjp(grad: Expr, out: Expr, a: Expr, b: Expr) -> Sequence[Expr]:
    return _shares(grad, a, b, "gt")


def _shares(grad: Expr, a: Expr, b: Expr, loses: str) -> Sequence[Expr]:
    """Returns the gradient for the operand that does not lose, half of it each for equals, for both if one is NaN."""
    share = grad * apply("where", apply("eq", a, b), 0.5, cast(1.0, a.dtype))
    return apply("where", apply(loses, a, b), 0.0, share), apply("where", apply(loses, b, a), 0.0, share)


def _no_slope(grad: Expr, out: Expr, a: Expr, b: Expr) -> Sequence[Expr]:
    """Raises UnsupportedError, as PyTorch does, if a gradient of zero would hide a mistake."""
    raise UnsupportedError(
        "floor_divide has no gradient; detach() its operands, or write a.div(b, rounding_mode='floor')",
        op="floor_divide",
    )


def _pow_vjp(grad: Expr, out: Expr, a: Expr, b: Expr) -> Sequence[Expr]:
    # b == 0 has derivative 0 by a, also at a == 0; log(a) is used only where the power is not zero.
    constant = apply("eq", b, 0.0)
    slope = b * apply("pow", a, apply("where", constant, 1.0, b - 1.0))  # finite at 0, for the second derivative
    by_b = apply("where", apply("eq", a, 0.0) & (b >= 0.0), 0.0, out * apply("log", a))
    return apply("where", constant, 0.0, grad * slope), grad * by_b


def _atan2_vjp(grad: Expr, out: Expr, a: Expr, b: Expr) -> Sequence[Expr]:
    origin = apply("eq", a, 0.0) & apply("eq", b, 0.0)
    total = apply("where", origin, 1.0, a * a + b * b)
    return grad * b / total, -(grad * a) / total


def digamma(x: Expr) -> Expr:
    """Returns the derivative of log gamma: below 8 lifted by its recurrence, then Stirling's series; reflected below 0
    (Abramowitz and Stegun 1964, 6.3.5, 6.3.7 and 6.3.18).
    """
    nearest = apply("round", x)
    negative = apply("le", x, 0.0)
    # Each branch gets arguments at which it is finite, since 0 * inf would spoil the gradient of the other one.
    a = apply("where", negative, 1.0 - x, x)
    lifted = apply("where", a < 8.0, a + 8.0, a)
    below = apply("where", a < 8.0, a, 1.0)
    steps = 1.0 / below
    for k in range(1, 8):
        steps = steps + 1.0 / (below + float(k))
    inverse = 1.0 / lifted
    s = inverse * inverse
    series = s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s * (1 / 132 - s * (691 / 32760 - s / 12.0))))))
    value = apply("log", lifted) - 0.5 * inverse - series - apply("where", a < 8.0, steps, 0.0)
    pole = apply("eq", x, nearest)
    angle = apply("where", x < 0.0, x - nearest, 0.25) * math.pi
    # Not the tangent: its derivatives at half-integers are differences of infinities.
    turned = value - apply("cos", angle) / apply("sin", angle) * math.pi
    at_zero = apply("where", apply("eq", x, 0.0), -1.0 / x, turned)  # the sign of the infinity is that of -x
    return apply("where", negative, apply("where", pole & (x < 0.0), float("nan"), at_zero), value)


# Units in the last place by which a float32 result may be off, if it is not denormal: OpenCL's bound for drivers
# (OpenCL C 3.0, table 65), with closer bounds for erf, erfc, hypot and pow; erf, logaddexp, sigmoid and lgamma are
# statements of netcl's own. Measured over a grid of all float32 numbers: below 3 on NumPy, PoCL 3.0 and Intel's
# runtime. The unit of lgamma and logaddexp is that of 1 where the result is smaller: near their zeros digits cancel.
ULP: dict[str, float] = {
    "div": 2.5, "sqrt": 3, "rsqrt": 2, "exp": 3, "exp2": 3, "expm1": 3, "log": 3, "log2": 3, "log10": 4, "log1p": 2,
    "sin": 4, "cos": 4, "tan": 5, "asin": 4, "acos": 4, "atan": 5, "atan2": 6, "sinh": 4, "cosh": 4, "tanh": 5,
    "asinh": 4, "acosh": 4, "atanh": 5, "sigmoid": 6, "erf": 6, "erfc": 8, "lgamma": 8, "pow": 8, "hypot": 4,
    "logaddexp": 4,
}  # fmt: skip

# An integer by which one can divide, and 1 if C's quotient, truncated towards zero, is one above the floor. Division by
# 0, and of the least number by -1, ends the process on CPUs; also in a lane with a discarded result, so that both are
# excluded from the operands and not only from the results.
_DIVISOR = "(({1} == 0 || {1} == -1) ? 1 : {1})"
_BELOW = f"(({{0}} % {_DIVISOR}) != 0 && (({{0}} < 0) != ({{1}} < 0)))"
_UNSIGNED_DIVISOR = "({1} == 0 ? 1 : {1})"

# The floats of NumPy and Python: the quotient of a - fmod(a, b), which is a multiple of b, so that 1 // 0.1 is 9.
_REMAINDER = "fmod({0}, {1})"
_MULTIPLES = f"(({{0}} - {_REMAINDER}) / {{1}} - (({_REMAINDER} != 0 && (({_REMAINDER} < 0) != ({{1}} < 0))) ? 1 : 0))"
_FLOORED = f"(floor({_MULTIPLES}) + ({_MULTIPLES} - floor({_MULTIPLES}) > 0.5f ? 1 : 0))"

# Arithmetic. Whole-number division by zero gives zero, as NumPy does.
_exact("add", 2, "{0} + {1}", np.add, lambda g, out, a, b: (g, g))
_exact("sub", 2, "{0} - {1}", np.subtract, lambda g, out, a, b: (g, -g))
_exact("mul", 2, "{0} * {1}", np.multiply, lambda g, out, a, b: (g * b, g * a))
_exact("div", 2, "{0} / {1}", np.divide, lambda g, out, a, b: (g / b, -(g * out) / b), "float", cost=3)
# Of the least integer, -x overflows, which is undefined in C: compilers then convert it, and |x|, to a positive float.
_exact("neg", 1, {"float": "-{0}", "int": "{signed}(0 - {unsigned}({0}))"}, np.negative, lambda g, out, a: (-g,))
_exact("abs", 1, {"float": "fabs({0})", "int": "{signed}(abs({0}))"}, np.abs, lambda g, out, a: (g * apply("sign", a),))
_exact(
    "sign",
    1,
    {
        "float": "(({0} != {0}) ? {0} : sign({0}) + 0.0f)",  # of -0 it is 0
        "int": "({0} > 0 ? 1 : ({0} < 0 ? -1 : 0))",
        "uint": "({0} != 0 ? {0} - {0} + 1 : {0})",
    },
    np.sign,
    None,
)
_exact(
    "maximum", 2, "((({0} > {1}) | ({0} != {0})) ? {0} : {1})", np.maximum, _maximum_vjp
)  # NaN propagates, unlike fmax
_exact("minimum", 2, "((({0} < {1}) | ({0} != {0})) ? {0} : {1})", np.minimum, _minimum_vjp)
_row(
    "floor_divide",
    2,
    {
        "float": f"({{1}} == 0 ? {{0}} / {{1}} : {_MULTIPLES} != 0 ? {_FLOORED} : ({{0}} / {{1}}) * 0)",
        "int": f"({{1}} == 0 ? 0 : {{1}} == -1 ? -{{0}} : {{0}} / {_DIVISOR} - {_BELOW})",
        "uint": f"({{1}} == 0 ? 0 : {{0}} / {_UNSIGNED_DIVISOR})",
    },
    np.floor_divide,
    _no_slope,
    vector=False,
)
_row(
    "mod",
    2,
    {
        "float": f"({_REMAINDER} != 0 ? {_REMAINDER} + ((({_REMAINDER} < 0) != ({{1}} < 0)) ? {{1}} : 0)"
        f" : copysign({_REMAINDER}, {{1}}))",
        "int": f"({{1}} == 0 ? 0 : {{0}} % {_DIVISOR} + ({_BELOW} ? {{1}} : 0))",
        "uint": f"({{1}} == 0 ? 0 : {{0}} % {_UNSIGNED_DIVISOR})",
    },
    np.mod,
    lambda g, out, a, b: (g, -g * apply("stop_gradient", apply("floor_divide", a, b))),
    vector=False,
)
_row("pow", 2, "pow({0}, {1})", np.power, _pow_vjp, "float")
_row("atan2", 2, "atan2({0}, {1})", np.arctan2, _atan2_vjp, "float")
_row("hypot", 2, "hypot({0}, {1})", np.hypot, lambda g, out, a, b: (g * a / out, g * b / out), "float")
_exact(
    "copysign",
    2,
    "copysign({0}, {1})",
    np.copysign,
    lambda g, out, a, b: (g * apply("where", apply("eq", a, 0.0), 0.0, out / a), None),
    "float",
)
_exact(
    "nextafter",
    2,
    "nextafter({0}, {1})",
    np.nextafter,
    lambda g, out, a, b: (_select(apply("ne", a, b), g), None),
    "float",
)
_row(
    "logaddexp",
    2,
    # The difference of equal infinities is NaN, for which fmax takes its other argument, never above 0.
    "(((({0} > {1}) | ({0} != {0})) ? {0} : {1}) + log1p(exp(-fmax(fabs({0} - {1}), sign({0}) - 1.0f))))",
    np.logaddexp,
    lambda g, out, a, b: (g * apply("sigmoid", a - b), g * apply("sigmoid", b - a)),
    "float",
)
_exact("fma", 3, "fma({0}, {1}, {2})", _fma, lambda g, out, a, b, c: (g * b, g * a, g), "float", False, flops=2)

# Elementary functions.
_exact("sqrt", 1, "sqrt({0})", np.sqrt, lambda g, out, a: (g * 0.5 / out,), "float", cost=3)
_row("rsqrt", 1, "rsqrt({0})", lambda a: 1 / np.sqrt(a), lambda g, out, a: (g * -0.5 * out / a,), "float", cost=3)
_row("exp", 1, "exp({0})", np.exp, lambda g, out, a: (g * out,), "float")
_row("exp2", 1, "exp2({0})", np.exp2, lambda g, out, a: (g * out * math.log(2.0),), "float")
_row("expm1", 1, "expm1({0})", np.expm1, lambda g, out, a: (g * apply("exp", a),), "float")  # out + 1 loses digits
_row("log", 1, "log({0})", np.log, lambda g, out, a: (g / a,), "float")
_row("log1p", 1, "log1p({0})", np.log1p, lambda g, out, a: (g / (a + 1.0),), "float")
_row("log2", 1, "log2({0})", np.log2, lambda g, out, a: (g / (a * math.log(2.0)),), "float")
_row("log10", 1, "log10({0})", np.log10, lambda g, out, a: (g / (a * math.log(10.0)),), "float")
# PoCL's sin, cos and tan give numbers below 2^-7 the value at 2^-7 in a vector of floats with another huge element, and
# are off in the second digit for doubles next to the denormal ones: these have the first terms of the series.
_SMALL, _TINY = "fabs({0}) < 0.0078125f", "fabs({0}) < 1e-30f"


def _near_zero(name: str, small: str, tiny: str) -> dict[str, str]:
    """Returns the texts of a function with the value ``small`` for small floats, and ``tiny`` for tiny doubles."""
    single = f"({_SMALL} ? {small} : {name}({{0}}))"
    return {"float": single, "int": single, "double": f"({_TINY} ? {tiny} : {name}({{0}}))"}


_row(
    "sin",
    1,
    _near_zero("sin", "{0} * (1.0f - {0} * {0} * 0.16666667f)", "{0}"),
    np.sin,
    lambda g, out, a: (g * apply("cos", a),),
    "float",
)
_row(
    "cos",
    1,
    _near_zero("cos", "1.0f - {0} * {0} * 0.5f", "{0} * {0} + 1.0f"),
    np.cos,
    lambda g, out, a: (-g * apply("sin", a),),
    "float",
)
_row(
    "tan",
    1,
    _near_zero("tan", "{0} * (1.0f + {0} * {0} * 0.33333334f)", "{0}"),
    np.tan,
    lambda g, out, a: (g * (1.0 + out * out),),
    "float",
)
_row("asin", 1, "asin({0})", np.arcsin, lambda g, out, a: (g * apply("rsqrt", 1.0 - a * a),), "float")
_row("acos", 1, "acos({0})", np.arccos, lambda g, out, a: (-g * apply("rsqrt", 1.0 - a * a),), "float")
_row("atan", 1, "atan({0})", np.arctan, lambda g, out, a: (g / (1.0 + a * a),), "float")
_row("sinh", 1, "sinh({0})", np.sinh, lambda g, out, a: (g * apply("cosh", a),), "float")
_row("cosh", 1, "cosh({0})", np.cosh, lambda g, out, a: (g * apply("sinh", a),), "float")
# PoCL's tanh of large floats is 1 - 2^-24: 1 + tanh(x) would not go to 0.
_TANH = "(fabs({0}) > LIMIT ? sign({0}) : tanh({0}))"
_row(
    "tanh",
    1,
    {
        k: _TANH.replace("LIMIT", limit)
        for k, limit in (("float", "9.0625f"), ("int", "9.0625f"), ("double", "19.0625f"))
    },
    np.tanh,
    lambda g, out, a: (g * (1.0 - out * out),),
    "float",
)
_row("asinh", 1, "asinh({0})", np.arcsinh, lambda g, out, a: (g * apply("rsqrt", a * a + 1.0),), "float")
_row("acosh", 1, "acosh({0})", np.arccosh, lambda g, out, a: (g * apply("rsqrt", a * a - 1.0),), "float")
_row("atanh", 1, "atanh({0})", np.arctanh, lambda g, out, a: (g / (1.0 - a * a),), "float")
_row(
    "sigmoid",
    1,
    "(1.0f / (1.0f + exp(-{0})))",
    lambda a: (1 / (1 + np.exp(-a))).astype(np.asarray(a).dtype),
    lambda g, out, a: (g * out * (1.0 - out),),
    "float",
)


def _polynomial(x: str, *coefficients: str) -> str:
    """Returns the text of a polynomial, the highest power first, by Horner's rule."""
    first, *others = (f"{{real}}({coefficient}f)" for coefficient in coefficients)
    return reduce(lambda text, coefficient: f"fma({text}, {x}, {coefficient})", others, first)


def _erf() -> dict[str, str]:
    """Returns the texts of erf: for floats the minimax polynomials of N. Juffa (2014), within 1.3 units: one up to
    0.9277, and one with the distance from 1 as its exponential. PoCL's erf takes 2.3 times as long.
    """
    near = _polynomial(
        "({0} * {0})", "-5.96761703e-4", "4.99119423e-3", "-2.67681349e-2", "1.12819925e-1", "-3.76125336e-1",
        "1.28379166e-1",
    )  # fmt: skip
    far = _polynomial(
        "fabs({0})", "-1.72853470e-5", "3.83197126e-4", "-3.88396438e-3", "2.42546219e-2", "-1.06777877e-1",
        "-6.34846687e-1", "-1.28717512e-1",
    )  # fmt: skip
    rest = f"copysign(1.0f - exp(fma({far}, fabs({{0}}), -fabs({{0}}))), {{0}})"
    single = f"(fabs({{0}}) > 0.9277344f ? {rest} : fma({near}, {{0}}, {{0}}))"
    return {"float": single, "int": single, "double": "erf({0})"}


_row(
    "erf",
    1,
    _erf(),
    special.erf,
    lambda g, out, a: (g * (2.0 / math.sqrt(math.pi)) * apply("exp", -(a * a)),),
    "float",
)
_row(
    "erfc",
    1,
    "erfc({0})",
    special.erfc,
    lambda g, out, a: (g * (-2.0 / math.sqrt(math.pi)) * apply("exp", -(a * a)),),
    "float",
)
_row("lgamma", 1, "lgamma({0})", special.lgamma, lambda g, out, a: (g * digamma(a),), "float")
_exact("floor", 1, "floor({0})", np.floor, None, "float")
_exact("ceil", 1, "ceil({0})", np.ceil, None, "float")
_exact("round", 1, "rint({0})", np.rint, None, "float")
_exact("trunc", 1, "trunc({0})", np.trunc, None, "float")

# Bits of whole numbers. What is shifted beyond the width, or by less than nothing, is gone, as in NumPy; C leaves it
# open.
_row("bitwise_and", 2, {"int": "({0} & {1})"}, np.bitwise_and, None)
_row("bitwise_or", 2, {"int": "({0} | {1})"}, np.bitwise_or, None)
_row("bitwise_xor", 2, {"int": "({0} ^ {1})"}, np.bitwise_xor, None)
_row("bitwise_not", 1, {"int": "(~{0})"}, np.bitwise_not, None)
_WIDTH = "(8 * (int)sizeof({0}))"
_row(
    "left_shift",
    2,
    {
        "int": f"(({{1}} < 0 || {{1}} >= {_WIDTH}) ? 0 : {{0}} << ({{1}} & ({_WIDTH} - 1)))",
        "uint": f"({{1}} >= {_WIDTH} ? 0 : {{0}} << ({{1}} & ({_WIDTH} - 1)))",
    },
    np.left_shift,
    None,
    vector=False,
)
_row(
    "right_shift",
    2,
    {
        "int": f"({{0}} >> (({{1}} < 0 || {{1}} >= {_WIDTH}) ? {_WIDTH} - 1 : {{1}}))",
        "uint": f"({{1}} >= {_WIDTH} ? 0 : {{0}} >> ({{1}} & ({_WIDTH} - 1)))",
    },
    np.right_shift,
    None,
    vector=False,
)

# Comparisons and logic: 1 or -1 is true in OpenCL C, so masks are combined bitwise.
_exact("eq", 2, "({0} == {1})", np.equal, None, "compare")
_exact("ne", 2, "({0} != {1})", np.not_equal, None, "compare")
_exact("lt", 2, "({0} < {1})", np.less, None, "compare")
_exact("le", 2, "({0} <= {1})", np.less_equal, None, "compare")
_exact("gt", 2, "({0} > {1})", np.greater, None, "compare")
_exact("ge", 2, "({0} >= {1})", np.greater_equal, None, "compare")
_exact("isnan", 1, "({0} != {0})", np.isnan, None, "predicate")
_exact("isinf", 1, "(fabs({0}) == INFINITY)", np.isinf, None, "predicate")
_exact("isfinite", 1, "(fabs({0}) < INFINITY)", np.isfinite, None, "predicate")
_exact("signbit", 1, "(signbit({0}) != 0)", np.signbit, None, "predicate")
_exact("logical_and", 2, "({0} & {1})", np.logical_and, None, "logical")
_exact("logical_or", 2, "({0} | {1})", np.logical_or, None, "logical")
_exact("logical_xor", 2, "({0} ^ {1})", np.logical_xor, None, "logical")
_exact("logical_not", 1, "({0} == 0)", np.logical_not, None, "logical")
_exact(
    "where",
    3,
    "({0} ? {1} : {2})",
    np.where,
    lambda g, out, c, a, b: (None, _select(c, g), _select(apply("logical_not", c), g)),
    "where",
    flops=0,
)

# Identity with a meaning: no gradient; the value that a store in the dtype and a load of it give; a check on the device
# that raises the queue's flag with a code (see engine.flag_code), the value that failed, its position in its operand,
# and a size that the message names.
_exact("stop_gradient", 1, "{0}", lambda a: a, None, flops=0)
_exact("stored", 1, "", lambda a: a, lambda g, out, a: (g,), cost=4, flops=0)  # its text depends on the dtype
_exact(
    "require",
    4,
    "",
    lambda condition, value, code, size: value,
    lambda g, out, c, value, code, size: (None, g, None, None),
    "require",
    flops=0,
)


def _cast_vjp(g: Expr, out: Expr, a: Expr) -> Sequence[Expr | None]:
    return (cast(g, a.dtype) if is_floating(a.dtype) else None,)


def _cast_row(dtype: str) -> None:
    # The text of a cast depends on both dtypes and on the vector width; the generator writes it.
    _exact(f"to_{dtype}", 1, "", lambda a: a, _cast_vjp if is_floating(dtype) else None, dtype, flops=0)


for _dtype in SUPPORTED:
    _cast_row(_dtype)

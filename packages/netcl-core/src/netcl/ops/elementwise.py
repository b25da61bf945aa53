"""Elementwise ops, one row each: as text over v0, v1, ..., or as a builder of expressions if text does not suffice."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core.dtypes import integer_range, is_floating, is_integer, is_unsigned, itemsize, promote
from netcl.core.errors import DTypeError, UnsupportedError
from netcl.core.expr import Const, Expr, apply, parse
from netcl.core.expr import cast as cast_expr
from netcl.core.layout import normalize_axes
from netcl.core.ops_table.dispatch import Domain
from netcl.core.tensor import Tensor
from netcl.ops.domains import BOOLS, FLAT, KINK, POSITIVE, UNIT, compared, few
from netcl.ops.shape import reshape
from netcl.ops.table import METHOD, WRITTEN, WRITTEN_TOO, OpFunction, composite, elementwise, expression

# -- arithmetic --------------------------------------------------------------------------------------------------------

add: OpFunction = elementwise("add", "v0 + v1", "Returns a + b, broadcast.", operands="a b", forms="a.*")
sub: OpFunction = elementwise("sub", "v0 - v1", "Returns a - b, broadcast.", operands="a b", forms="a.subtract")
mul: OpFunction = elementwise(
    "mul", "v0 * v1", "Returns a * b, broadcast.", operands="a b", forms=f"{WRITTEN} x.multiply x.multiply_ a.multiply"
)
div: OpFunction = elementwise(
    "div",
    "v0 / v1",
    "Returns a / b, broadcast; integers give float32.",
    operands="a b",
    domain=POSITIVE,
    forms="a.divide",
)
floor_divide: OpFunction = elementwise(
    "floor_divide",
    "floor_divide(v0, v1)",
    "Returns floor(a / b); integers divided by zero give zero. Its gradient raises UnsupportedError.",
    operands="a b",
    domain=Domain(0.3, 3.0, gradient=False),
    forms=WRITTEN,
)
mod: OpFunction = elementwise(
    "mod",
    "mod(v0, v1)",
    "Returns a - floor(a / b) * b: the sign of b, as in Python.",
    operands="a b",
    domain=Domain(0.3, 3.0, gradient=False),
    forms="x.remainder x.remainder_ a.remainder",
)


@expression(domain=POSITIVE, forms="a.*")
def pow(a: Expr, b: Expr) -> Expr:
    """Returns a to the power of b; integers to an integer power stay integers, their negative powers are truncated to 0
    (except for 1 and -1).
    """
    dtype = promote(a.dtype, b.dtype)
    return apply("pow", a, b) if is_floating(dtype) else _whole_power(cast_expr(a, dtype), cast_expr(b, dtype))


def _whole_power(base: Expr, exponent: Expr) -> Expr:
    """Exponentiates by squaring, one step per bit of the exponent; overflow wraps, as in NumPy."""
    dtype = base.dtype
    if dtype == "bool":
        raise DTypeError("pow is not defined on bool; convert with astype", op="pow")
    result: Expr = Const(1, dtype)
    power = base
    unsigned = is_unsigned(dtype)
    for bit in range(8 * itemsize(dtype) - (not unsigned)):
        result = apply("where", apply("ne", apply("bitwise_and", exponent, 1 << bit), 0), result * power, result)
        power = power * power
    if unsigned:
        return result
    odd = apply("ne", apply("bitwise_and", exponent, 1), 0)
    by_sign = apply("where", apply("eq", base, -1), apply("where", odd, base, Const(1, dtype)), Const(0, dtype))
    below = apply("where", apply("eq", base, 1), base, by_sign)
    return apply("where", exponent < 0, below, result)


lerp: OpFunction = elementwise(
    "lerp",
    "abs(v2) < 0.5f ? v0 + v2 * (v1 - v0) : v1 - (v1 - v0) * (1.0f - v2)",
    "Returns a + weight (b - a), exact at weight 0 and 1.",
    operands="a b weight",
    domain=few(lambda a, b, w: a + w * (b - a), (-2, 2), (-2, 2), (0.1, 0.4)),
    forms=WRITTEN,
)
hypot: OpFunction = elementwise(
    "hypot",
    "hypot(v0, v1)",
    "Returns sqrt(a^2 + b^2), without intermediate overflow.",
    operands="a b",
    domain=few(np.hypot, (0.2, 3), (-3, -0.2)),
    forms=f"{WRITTEN} a.*",
)
copysign: OpFunction = elementwise(
    "copysign",
    "copysign(v0, v1)",
    "Returns |a| with the sign of b, also of a zero.",
    operands="a b",
    domain=few(np.copysign, (0.2, 3), (-3, -0.2), second=False),
    forms=f"{WRITTEN} a.*",
)


@expression(
    domain=Domain(
        cases=lambda rng: iter([((rng.uniform(-2, 2, (3, 5)), rng.uniform(-2, 2, 5)), {})]),
        reference=lambda a, b: a,  # within a unit in the last place; tests compare the bits
    ),
    forms=f"{WRITTEN} a.*",
)
def nextafter(a: Expr, b: Expr) -> Expr:
    """Returns the next number after a towards b in the dtype that the two promote to; integers are compared as float32.

    Its gradient by a is 1, or 0 if the two are equal; by b it is 0.
    """
    dtype = promote(a.dtype, b.dtype)
    if dtype in _SIXTEEN_BITS:
        return cast_expr(_next_of_16_bits(cast_expr(a, "float32"), cast_expr(b, "float32"), dtype), dtype)
    dtype = dtype if is_floating(dtype) else "float32"
    return apply("nextafter", cast_expr(a, dtype), cast_expr(b, dtype))


# Bits of the fraction, the smallest exponent and the largest number.
_SIXTEEN_BITS = {"float16": (10, -14, 65504.0), "bfloat16": (7, -126, 3.3895313892515355e38)}


def _next_of_16_bits(a: Expr, b: Expr, dtype: str) -> Expr:
    """Steps by the distance of neighbors, which arithmetic in float32 represents."""
    bits, least, largest = _SIXTEEN_BITS[dtype]
    size = apply("abs", a)
    # Just below a power of two the logarithm is smaller by at least 7e-4, so that 1e-4 covers its rounding error.
    exponent = apply("floor", apply("log2", apply("where", size > 0.0, size, 1.0)) + 1e-4)
    exponent = apply("maximum", exponent, float(least))
    unit = apply("exp2", exponent - float(bits))
    up = apply("gt", b, a)
    inward = apply("ne", a > 0.0, up)
    edge = inward & apply("eq", size, apply("exp2", exponent)) & (exponent > float(least))
    step = apply("where", apply("eq", a, 0.0), 2.0 ** (least - bits), apply("where", edge, unit * 0.5, unit))
    moved = apply("where", up, a + step, a - step)
    moved = apply("where", apply("isinf", a), apply("where", up, -largest, largest), moved)
    fixed = apply("stop_gradient", b)
    moved = apply("where", apply("eq", a, b), fixed, moved)
    return apply("where", apply("ne", a, a), a, apply("where", apply("ne", b, b), fixed, moved))


heaviside: OpFunction = elementwise(
    "heaviside",
    "v0 == 0 ? v1 : (v0 > 0)",
    "Returns 0 if a is negative or NaN, 1 if it is positive, b if it is zero. Its gradient raises UnsupportedError.",
    operands="a b",
    domain=few(np.heaviside, (-3, 3), (-3, 3), kinks=(0.0,), gradient=False),
    forms=WRITTEN,
)
logaddexp: OpFunction = elementwise(
    "logaddexp",
    "logaddexp(v0, v1)",
    "Returns log(exp(a) + exp(b)), without overflow.",
    operands="a b",
    domain=few(np.logaddexp, (-3, 3), (-3, 3)),
    amp="float32",
    forms=f"{METHOD} a.*",
)
maximum: OpFunction = elementwise(
    "maximum", "maximum(v0, v1)", "Returns the larger of a and b; NaN wins.", operands="a b", forms=f"{METHOD} a.*"
)
minimum: OpFunction = elementwise(
    "minimum", "minimum(v0, v1)", "Returns the smaller of a and b; NaN wins.", operands="a b", forms=f"{METHOD} a.*"
)
atan2: OpFunction = elementwise(
    "atan2",
    "atan2(v0, v1)",
    "Returns the angle of the point (b, a).",
    operands="a b",
    domain=POSITIVE,
    forms=f"{WRITTEN} x.arctan2 x.arctan2_ a.*",
)
neg: OpFunction = elementwise(
    "neg", "-v0", "Returns -x.", forms=f"{WRITTEN_TOO} x.negative x.negative_ nc.negative_ a.negative"
)
abs: OpFunction = elementwise(
    "abs", "abs(v0)", "Returns |x|.", domain=KINK, forms=f"{WRITTEN_TOO} x.absolute x.absolute_ a.*"
)


@expression(domain=FLAT, forms=f"{WRITTEN} x.sgn x.sgn_ a.*")
def sign(x: Expr) -> Expr:
    """Returns -1, 0 or 1; NaN stays NaN, and a bool itself."""
    return x if x.dtype == "bool" else apply("sign", x)


@expression(forms=f"{WRITTEN_TOO} a.*")
def square(x: Expr) -> Expr:
    """Returns x squared; a bool gives int64."""
    x = cast_expr(x, "int64") if x.dtype == "bool" else x
    return x * x


sqrt: OpFunction = elementwise(
    "sqrt", "sqrt(v0)", "Returns the square root.", domain=POSITIVE, forms=f"{WRITTEN_TOO} a.*"
)
rsqrt: OpFunction = elementwise("rsqrt", "rsqrt(v0)", "Returns 1 / sqrt(x).", domain=POSITIVE, forms=WRITTEN_TOO)
reciprocal: OpFunction = elementwise(
    "reciprocal", "1.0f / v0", "Returns 1 / x.", domain=POSITIVE, forms=f"{WRITTEN_TOO} a.*"
)
exp: OpFunction = elementwise(
    "exp", "exp(v0)", "Returns e to the power of x.", amp="float32", forms=f"{WRITTEN_TOO} a.*"
)
expm1: OpFunction = elementwise(
    "expm1", "expm1(v0)", "Returns exp(x) - 1, exact near zero.", amp="float32", forms=f"{WRITTEN_TOO} a.*"
)
log: OpFunction = elementwise(
    "log", "log(v0)", "Returns the natural logarithm.", domain=POSITIVE, amp="float32", forms=f"{WRITTEN_TOO} a.*"
)
log1p: OpFunction = elementwise(
    "log1p",
    "log1p(v0)",
    "Returns log(1 + x), exact near zero.",
    domain=POSITIVE,
    amp="float32",
    forms=f"{WRITTEN_TOO} a.*",
)
exp2: OpFunction = elementwise(
    "exp2", "exp2(v0)", "Returns 2 to the power of x.", domain=few(np.exp2), amp="float32", forms=WRITTEN_TOO
)
log10: OpFunction = elementwise(
    "log10",
    "log10(v0)",
    "Returns the logarithm to base 10.",
    domain=few(np.log10, (0.2, 3.0)),
    amp="float32",
    forms=f"{WRITTEN_TOO} a.*",
)
log2: OpFunction = elementwise(
    "log2", "log2(v0)", "Returns the logarithm to base 2.", domain=POSITIVE, amp="float32", forms=f"{WRITTEN_TOO} a.*"
)
sin: OpFunction = elementwise("sin", "sin(v0)", "Returns the sine of x in radians.", forms=f"{WRITTEN_TOO} a.*")
cos: OpFunction = elementwise("cos", "cos(v0)", "Returns the cosine of x in radians.", forms=f"{WRITTEN_TOO} a.*")
tan: OpFunction = elementwise(
    "tan", "tan(v0)", "Returns the tangent of x in radians.", domain=UNIT, forms=f"{WRITTEN_TOO} a.*"
)
asin: OpFunction = elementwise(
    "asin",
    "asin(v0)",
    "Returns the inverse sine, in radians.",
    domain=UNIT,
    forms=f"{WRITTEN_TOO} x.arcsin x.arcsin_ nc.arcsin_ a.*",
)
acos: OpFunction = elementwise(
    "acos",
    "acos(v0)",
    "Returns the inverse cosine, in radians.",
    domain=UNIT,
    forms=f"{WRITTEN_TOO} x.arccos x.arccos_ nc.arccos_ a.*",
)
atan: OpFunction = elementwise(
    "atan",
    "atan(v0)",
    "Returns the inverse tangent, in radians.",
    forms=f"{WRITTEN_TOO} x.arctan x.arctan_ nc.arctan_ a.*",
)
sinh: OpFunction = elementwise("sinh", "sinh(v0)", "Returns the hyperbolic sine.", forms=f"{WRITTEN_TOO} a.*")
cosh: OpFunction = elementwise("cosh", "cosh(v0)", "Returns the hyperbolic cosine.", forms=f"{WRITTEN_TOO} a.*")
asinh: OpFunction = elementwise(
    "asinh",
    "asinh(v0)",
    "Returns the inverse hyperbolic sine.",
    domain=few(np.arcsinh),
    forms=f"{WRITTEN_TOO} x.arcsinh x.arcsinh_ nc.arcsinh_ a.*",
)
acosh: OpFunction = elementwise(
    "acosh",
    "acosh(v0)",
    "Returns the inverse hyperbolic cosine; NaN below 1.",
    domain=few(np.arccosh, (1.2, 4)),
    forms=f"{WRITTEN_TOO} x.arccosh x.arccosh_ nc.arccosh_ a.*",
)
atanh: OpFunction = elementwise(
    "atanh",
    "atanh(v0)",
    "Returns the inverse hyperbolic tangent; NaN beyond 1.",
    domain=few(np.arctanh, (-0.9, 0.9)),
    forms=f"{WRITTEN_TOO} x.arctanh x.arctanh_ nc.arctanh_ a.*",
)


def _to_whole(op: str, prim: str, x: Expr) -> Expr:
    if x.dtype == "bool":
        raise DTypeError(f"{op} is not defined on bool; convert with astype", op=op)
    return apply(prim, x) if is_floating(x.dtype) else x


@expression(domain=FLAT, forms=f"{WRITTEN_TOO} a.*")
def floor(x: Expr) -> Expr:
    """Returns the largest integer not above x; integers unchanged."""
    return _to_whole("floor", "floor", x)


@expression(domain=FLAT, forms=f"{WRITTEN_TOO} a.*")
def ceil(x: Expr) -> Expr:
    """Returns the smallest integer not below x; integers unchanged."""
    return _to_whole("ceil", "ceil", x)


@expression(domain=FLAT, forms="a.*")
def round(x: Expr) -> Expr:
    """Returns the nearest integer, halves to even; integers unchanged."""
    return _to_whole("round", "round", x)


@expression(domain=FLAT, forms=f"{WRITTEN_TOO} x.fix x.fix_ nc.fix_ a.*")
def trunc(x: Expr) -> Expr:
    """Returns x truncated towards zero; integers unchanged."""
    return _to_whole("trunc", "trunc", x)


# -- comparison and logic: bool results --------------------------------------------------------------------------------

eq: OpFunction = elementwise(
    "eq", "v0 == v1", "Returns a == b.", operands="a b", domain=BOOLS, forms=f"{WRITTEN} a.equal"
)
ne: OpFunction = elementwise(
    "ne",
    "v0 != v1",
    "Returns a != b.",
    operands="a b",
    domain=BOOLS,
    forms=f"{WRITTEN} x.not_equal x.not_equal_ a.not_equal",
)
lt: OpFunction = elementwise(
    "lt", "v0 < v1", "Returns a < b.", operands="a b", domain=BOOLS, forms=f"{WRITTEN} x.less x.less_ a.less"
)
le: OpFunction = elementwise(
    "le",
    "v0 <= v1",
    "Returns a <= b.",
    operands="a b",
    domain=BOOLS,
    forms=f"{WRITTEN} x.less_equal x.less_equal_ a.less_equal",
)
gt: OpFunction = elementwise(
    "gt", "v0 > v1", "Returns a > b.", operands="a b", domain=BOOLS, forms=f"{WRITTEN} x.greater x.greater_ a.greater"
)
ge: OpFunction = elementwise(
    "ge",
    "v0 >= v1",
    "Returns a >= b.",
    operands="a b",
    domain=BOOLS,
    forms=f"{WRITTEN} x.greater_equal x.greater_equal_ a.greater_equal",
)
logical_and: OpFunction = elementwise(
    "logical_and", "v0 && v1", "True if both are nonzero.", operands="a b", domain=BOOLS, forms=f"{WRITTEN} a.*"
)
logical_or: OpFunction = elementwise(
    "logical_or", "v0 || v1", "True if one or both are nonzero.", operands="a b", domain=BOOLS, forms=f"{WRITTEN} a.*"
)
logical_xor: OpFunction = elementwise(
    "logical_xor",
    "logical_xor(v0, v1)",
    "True if exactly one is nonzero.",
    operands="a b",
    domain=BOOLS,
    forms=f"{WRITTEN} a.*",
)
logical_not: OpFunction = elementwise("logical_not", "!v0", "True if x is zero.", domain=BOOLS, forms=f"{WRITTEN} a.*")
isnan: OpFunction = elementwise("isnan", "isnan(v0)", "True if x is NaN.", domain=BOOLS, forms=f"{METHOD} a.*")
signbit: OpFunction = elementwise(
    "signbit",
    "signbit(v0)",
    "True if the sign bit of x is set, also of -0 and NaN.",
    domain=BOOLS,
    forms=f"{METHOD} a.*",
)
isinf: OpFunction = elementwise("isinf", "isinf(v0)", "True if x is infinite.", domain=BOOLS, forms=f"{METHOD} a.*")
isfinite: OpFunction = elementwise(
    "isfinite", "isfinite(v0)", "True if x is neither infinite nor NaN.", domain=BOOLS, forms=f"{METHOD} a.*"
)


def _where_cases(rng: np.random.Generator) -> Any:
    for shape in ((5,), (3, 7), ()):
        yield (rng.random(shape) > 0.5, rng.uniform(-2, 2, shape), rng.uniform(-2, 2, shape)), {}
    yield (rng.random((3, 1)) > 0.5, rng.uniform(-2, 2, (4,)), 1.5), {}


where: OpFunction = elementwise(
    "where",
    "v0 ? v1 : v2",
    "Returns a if the condition is true, else b.",
    operands="condition a b",
    domain=compared(_where_cases, np.where),
)


def _clamp_cases(rng: np.random.Generator) -> Any:
    for limits in ({"min": -0.6, "max": 0.7}, {"min": 0.1}, {"max": 0.2}):
        yield (rng.permutation(np.linspace(-1.95, 1.95, 14)).reshape(2, 7),), limits


@expression(domain=compared(_clamp_cases, lambda x, min=None, max=None: np.clip(x, min, max)))
def clamp(x: Expr, min: Any = None, max: Any = None) -> Expr:
    """Returns x limited to [min, max], NaN if a limit is; None is no limit. The gradient passes within the limits and
    at them.

    A bound beyond an integer dtype of x is the dtype's own: uint8 limited to [10, 300] is at least 10. Limits are
    numbers; ``netcl.clamp`` and the method take tensors too.
    """
    for bound, within, nearest in ((min, "ge", "maximum"), (max, "le", "minimum")):
        if isinstance(bound, Tensor):
            raise TypeError("clamp: the limits of this function are numbers; for tensors write netcl.clamp")
        if type(bound) is int and is_integer(x.dtype):
            least, most = integer_range(x.dtype)
            bound = least if bound < least else most if bound > most else bound
        if bound is not None:  # the gradient is zero also where x or the bound is NaN
            x = apply("where", apply(within, x, bound), x, apply(nearest, apply("stop_gradient", x), bound))
    return x


def _between_cases(rng: np.random.Generator) -> Any:
    x = rng.permutation(np.linspace(-1.95, 1.95, 12)).reshape(3, 4)
    low, high = rng.permutation(np.linspace(-1.7, 0.3, 4)), rng.permutation(np.linspace(0.4, 1.7, 3)).reshape(3, 1)
    yield (x, low, high), {}
    yield (x, low), {}
    yield (x, None, high), {}
    yield (x, high, low), {}


def _between_reference(x: Any, min: Any = None, max: Any = None) -> Any:
    above = x if min is None else np.maximum(x, min)
    return above if max is None else np.minimum(above, max)


@expression(domain=compared(_between_cases, _between_reference))
def clamp_between(x: Expr, min: Expr | None = None, max: Expr | None = None) -> Expr:
    """Returns x limited to [min, max], tensors that broadcast; NaN if one of them is, ``max`` if ``min`` is larger.

    The gradient is PyTorch's: x has it within the limits and at them, a limit if x is beyond it, min only if it is less
    than max; at NaN all gradients are zero.
    """
    raised = x if min is None else apply("maximum", x, min)
    limited = raised if max is None else apply("minimum", raised, max)
    result = apply("stop_gradient", limited)
    if max is not None:
        result = apply("where", apply("gt", raised, max), max, result)
    if min is not None:
        below = apply("lt", x, min)
        result = apply("where", below if max is None else below & apply("lt", min, max), min, result)
    within = [apply(test, x, limit) for test, limit in (("ge", min), ("le", max)) if limit is not None]
    if within:
        result = apply("where", within[0] & within[-1], x, result)
    return result


clip = clamp


def _finite_cases(rng: np.random.Generator) -> Any:
    x = rng.uniform(-2, 2, (3, 5))
    yield (x,), {}


@expression(domain=compared(_finite_cases, np.nan_to_num), forms=WRITTEN_TOO)
def nan_to_num(x: Expr, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Expr:
    """Returns x with ``nan`` for NaN, ``posinf`` for infinity and ``neginf`` for -infinity; None is the largest
    (smallest) finite number of x's dtype. Their gradient is zero; integers are unchanged.
    """
    if not is_floating(x.dtype):
        return x
    largest = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float64": float(np.finfo("float64").max)}
    limit = largest.get(x.dtype, float(np.finfo("float32").max))
    high, low = limit if posinf is None else posinf, -limit if neginf is None else neginf
    finite = apply("where", apply("isfinite", x), x, 0.0)
    infinite = apply("where", x > 0.0, Const(float(high), x.dtype), Const(float(low), x.dtype))
    beyond = apply("where", apply("isnan", x), nan, infinite)
    return apply("where", apply("isfinite", x), finite, beyond)


def _close_cases(rng: np.random.Generator) -> Any:
    x = np.array([1.0, 2.0, 0.0, np.nan, np.inf, np.inf, -np.inf])
    y = np.array([1.0, 2.5, 1e-9, np.nan, np.inf, -np.inf, 3.0])
    for attributes in ({}, {"rtol": 0.3}, {"atol": 1.0}, {"equal_nan": True}):
        yield (x, y), attributes
    yield (rng.integers(0, 3, (4, 5)), rng.integers(0, 3, (5,))), {}


@expression(domain=compared(_close_cases, np.isclose, gradient=False), forms=METHOD)
def isclose(a: Expr, b: Expr, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Expr:
    """True if |a - b| <= atol + rtol |b|, or a equals b; NaN equals NaN with ``equal_nan`` only."""
    dtype = promote(a.dtype, b.dtype)
    same = apply("eq", a, b)
    wide = dtype if is_floating(dtype) else "float64" if dtype == "int64" else "float32"
    x, y = cast_expr(a, wide), cast_expr(b, wide)
    near = apply("isfinite", y) & (apply("abs", x - y) <= atol + apply("abs", y * rtol))
    close = same | near
    if equal_nan and is_floating(dtype):
        close = close | (apply("isnan", x) & apply("isnan", y))
    return close


def allclose(a: Tensor, b: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """True if ``isclose`` holds for all elements; a bool, so the result is read on the host."""
    return bool(isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan).to_host().all())


def equal(a: Tensor, b: Tensor) -> bool:
    """True if a and b have one shape and equal elements; a bool, so the result is read on the host."""
    if not isinstance(b, Tensor):
        raise UnsupportedError(f"equal: expected a Tensor as b, got {type(b).__name__}")
    return a.shape == b.shape and bool(eq(a, b).to_host().all())


_scaled = elementwise(
    "added_product",
    "v0 + value * v1 * v2",
    "Returns a + value b c: the floating part of ``addcmul``.",
    operands="a b c",
    value=1.0,
    domain=few(lambda a, b, c: a + b * c, (-2, 2), (-2, 2), (-2, 2)),
)
_divided = elementwise(
    "added_quotient",
    "v0 + value * v1 / v2",
    "Returns a + value b / c: the floating part of ``addcdiv``.",
    operands="a b c",
    value=1.0,
    domain=few(lambda a, b, c: a + b / c, (-2, 2), (-2, 2), (0.5, 2)),
)


def _three(low: float) -> Any:
    def cases(rng: np.random.Generator) -> Any:
        x, y, z = (rng.uniform(low, 2, shape) for shape in ((3, 1), (5,), (3, 5)))
        yield (x, y, z), {"value": -0.5}
        yield (z, y, x), {}

    return cases


@composite(domain=compared(_three(-2), lambda x, a, b, value=1.0: x + value * a * b), forms=WRITTEN)
def addcmul(x: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """Returns x + value tensor1 tensor2, broadcast. Integers stay integers if ``value`` is one, else DTypeError."""
    if not any(is_floating(operand.dtype) for operand in (x, tensor1, tensor2)):
        if value != int(value):
            raise DTypeError(f"addcmul: value {value} for integers; convert with astype")
        product = mul(tensor1, tensor2)
        return add(x, product if value == 1 else mul(product, int(value)))  # type: ignore[no-any-return]
    return _scaled(x, tensor1, tensor2, value=float(value))  # type: ignore[no-any-return]


@composite(domain=compared(_three(0.5), lambda x, a, b, value=1.0: x + value * a / b), forms=WRITTEN)
def addcdiv(x: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """Returns x + value tensor1 / tensor2, broadcast. Raises DTypeError for integers to be divided, as PyTorch does."""
    if not is_floating(tensor1.dtype) and not is_floating(tensor2.dtype):
        raise DTypeError("addcdiv does not divide integers; convert with astype, or use floor_divide", op="addcdiv")
    return _divided(x, tensor1, tensor2, value=float(value))  # type: ignore[no-any-return]


def _cast_cases(rng: np.random.Generator) -> Any:
    for dtype in ("float32", "int32", "bool", "float16"):
        yield (rng.integers(-3, 4, (3, 5)).astype(np.float64),), {"dtype": dtype}


@expression(domain=compared(_cast_cases, lambda x, dtype: x.astype(dtype), gradient=False))
def cast(x: Expr, *, dtype: str = "float32") -> Expr:
    """Returns x converted to ``dtype``: floats to integers by truncation, to bool True for any nonzero element."""
    return cast_expr(x, dtype)


@expression(forms=METHOD)
def clone(x: Expr) -> Expr:
    """Returns a copy of x."""
    return x


# -- text given by the user --------------------------------------------------------------------------------------------


@expression(
    name="elementwise_binary",
    domain=compared(
        lambda rng: iter([((rng.random(4), rng.random(4)), {"expression": "MUL(ADD(v0, v1), 2.0f)"})]),
        lambda a, b, expression: (a + b) * 2,
    ),
)
def elementwise_binary(a: Expr, b: Expr, expression: str = "") -> Expr:
    """Returns the expression in C over v0 and v1, as ``"MUL(ADD(v0, v1), 2.0f)"``; ExpressionError has a position."""
    return parse(expression, [a, b])


@expression(
    name="elementwise_unary",
    domain=compared(
        lambda rng: iter([((rng.random(4),), {"expression": "RELU(v0) * 2.0f"})]),
        lambda x, expression: np.maximum(x, 0) * 2,
    ),
)
def elementwise_unary(x: Expr, expression: str = "") -> Expr:
    """Returns the expression in C over v0; raises ExpressionError with the position of a syntax error."""
    return parse(expression, [x])


def _bias_cases(rng: np.random.Generator) -> Any:
    yield (rng.uniform(-1, 1, (3, 5)), rng.uniform(-1, 1, 5)), {}
    yield (rng.uniform(-1, 1, (2, 3, 4, 5)), rng.uniform(-1, 1, 3)), {}
    yield (rng.uniform(-1, 1, (2, 3, 4)), rng.uniform(-1, 1, 3)), {"axis": 1}


def _bias_reference(x: Any, bias: Any, axis: int | None = None) -> Any:
    at = (1 if x.ndim >= 4 else -1) if axis is None else axis
    shape = [1] * x.ndim
    shape[at] = -1
    return x + bias.reshape(shape)


@composite(domain=compared(_bias_cases, _bias_reference))
def bias_add(x: Tensor, bias: Tensor, axis: int | None = None) -> Tensor:
    """Returns x plus a vector along ``axis`` (default: 1 for images of rank 4 and 5, else the last)."""
    (at,) = normalize_axes((1 if x.ndim in (4, 5) else -1) if axis is None else axis, x.ndim, "bias_add")
    return add(x, reshape(bias, (-1,) + (1,) * (x.ndim - at - 1)))  # type: ignore[no-any-return]

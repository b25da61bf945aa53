"""Elementwise ops, one row each: as text over v0, v1, ..., or as a builder of expressions where it takes more."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core.dispatch import Domain
from netcl.core.errors import ShapeError
from netcl.core.expr import Expr, apply, parse
from netcl.core.expr import cast as cast_expr
from netcl.core.tensor import Tensor
from netcl.ops.shape import chunk, reshape
from netcl.ops.table import composite, elementwise, expression

_POSITIVE = Domain(0.2, 3.0)
_UNIT = Domain(-0.9, 0.9)
_FLAT = Domain(kinks=(-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0), second=False)
_BOOLS = Domain(gradient=False)

# -- arithmetic --------------------------------------------------------------------------------------------------------

add = elementwise("add", "v0 + v1", "a + b, broadcast.", operands="a b")
sub = elementwise("sub", "v0 - v1", "a - b, broadcast.", operands="a b")
mul = elementwise("mul", "v0 * v1", "a * b, broadcast.", operands="a b")
div = elementwise("div", "v0 / v1", "a / b, broadcast; whole numbers give float32.", operands="a b", domain=_POSITIVE)
floor_divide = elementwise(
    "floor_divide",
    "floor_divide(v0, v1)",
    "floor(a / b); whole numbers by zero give zero.",
    operands="a b",
    domain=Domain(0.3, 3.0, gradient=False),
)
mod = elementwise(
    "mod",
    "mod(v0, v1)",
    "a - floor(a / b) * b: the sign of b, as in Python.",
    operands="a b",
    domain=Domain(0.3, 3.0, gradient=False),
)
pow = elementwise("pow", "pow(v0, v1)", "a to the power of b.", operands="a b", domain=_POSITIVE)
maximum = elementwise("maximum", "maximum(v0, v1)", "The larger of a and b; NaN wins.", operands="a b")
minimum = elementwise("minimum", "minimum(v0, v1)", "The smaller of a and b; NaN wins.", operands="a b")
atan2 = elementwise("atan2", "atan2(v0, v1)", "The angle of the point (b, a).", operands="a b", domain=_POSITIVE)
neg = elementwise("neg", "-v0", "-x.")
abs = elementwise("abs", "abs(v0)", "|x|.", domain=Domain(kinks=(0.0,)))
sign = elementwise("sign", "sign(v0)", "-1, 0 or 1; NaN stays.", domain=_FLAT)
square = elementwise("square", "v0 * v0", "x squared.")
sqrt = elementwise("sqrt", "sqrt(v0)", "Square root.", domain=_POSITIVE)
rsqrt = elementwise("rsqrt", "rsqrt(v0)", "1 / sqrt(x).", domain=_POSITIVE)
reciprocal = elementwise("reciprocal", "1.0f / v0", "1 / x.", domain=_POSITIVE)
exp = elementwise("exp", "exp(v0)", "e to the power of x.", amp="float32")
expm1 = elementwise("expm1", "expm1(v0)", "exp(x) - 1, exact near zero.", amp="float32")
log = elementwise("log", "log(v0)", "Natural logarithm.", domain=_POSITIVE, amp="float32")
log1p = elementwise("log1p", "log1p(v0)", "log(1 + x), exact near zero.", domain=_POSITIVE, amp="float32")
log2 = elementwise("log2", "log2(v0)", "Logarithm to base 2.", domain=_POSITIVE, amp="float32")
sin = elementwise("sin", "sin(v0)", "Sine of x in radians.")
cos = elementwise("cos", "cos(v0)", "Cosine of x in radians.")
tan = elementwise("tan", "tan(v0)", "Tangent of x in radians.", domain=_UNIT)
asin = elementwise("asin", "asin(v0)", "Inverse sine, in radians.", domain=_UNIT)
acos = elementwise("acos", "acos(v0)", "Inverse cosine, in radians.", domain=_UNIT)
atan = elementwise("atan", "atan(v0)", "Inverse tangent, in radians.")
sinh = elementwise("sinh", "sinh(v0)", "Hyperbolic sine.")
cosh = elementwise("cosh", "cosh(v0)", "Hyperbolic cosine.")
erf = elementwise("erf", "erf(v0)", "The error function.")
floor = elementwise("floor", "floor(v0)", "The largest whole number not above x.", domain=_FLAT)
ceil = elementwise("ceil", "ceil(v0)", "The smallest whole number not below x.", domain=_FLAT)
round = elementwise("round", "rint(v0)", "The nearest whole number, halves to even.", domain=_FLAT)
trunc = elementwise("trunc", "trunc(v0)", "x without its fraction.", domain=_FLAT)

# -- comparison and logic: bool results --------------------------------------------------------------------------------

eq = elementwise("eq", "v0 == v1", "a == b.", operands="a b", domain=_BOOLS)
ne = elementwise("ne", "v0 != v1", "a != b.", operands="a b", domain=_BOOLS)
lt = elementwise("lt", "v0 < v1", "a < b.", operands="a b", domain=_BOOLS)
le = elementwise("le", "v0 <= v1", "a <= b.", operands="a b", domain=_BOOLS)
gt = elementwise("gt", "v0 > v1", "a > b.", operands="a b", domain=_BOOLS)
ge = elementwise("ge", "v0 >= v1", "a >= b.", operands="a b", domain=_BOOLS)
logical_and = elementwise("logical_and", "v0 && v1", "Whether both are not zero.", operands="a b", domain=_BOOLS)
logical_or = elementwise("logical_or", "v0 || v1", "Whether one is not zero.", operands="a b", domain=_BOOLS)
logical_xor = elementwise(
    "logical_xor", "logical_xor(v0, v1)", "Whether just one is not zero.", operands="a b", domain=_BOOLS
)
logical_not = elementwise("logical_not", "!v0", "Whether x is zero.", domain=_BOOLS)
isnan = elementwise("isnan", "isnan(v0)", "Whether x is NaN.", domain=_BOOLS)
isinf = elementwise("isinf", "isinf(v0)", "Whether x is infinite.", domain=_BOOLS)
isfinite = elementwise("isfinite", "isfinite(v0)", "Whether x is neither infinite nor NaN.", domain=_BOOLS)


def _where_cases(rng: np.random.Generator) -> Any:
    for shape in ((5,), (3, 7), ()):
        yield (rng.random(shape) > 0.5, rng.uniform(-2, 2, shape), rng.uniform(-2, 2, shape)), {}
    yield (rng.random((3, 1)) > 0.5, rng.uniform(-2, 2, (4,)), 1.5), {}


where = elementwise(
    "where",
    "v0 ? v1 : v2",
    "a where the condition holds, else b.",
    operands="condition a b",
    domain=Domain(cases=_where_cases, reference=np.where),
)


def _clamp_cases(rng: np.random.Generator) -> Any:
    for limits in ({"min": -0.6, "max": 0.7}, {"min": 0.1}, {"max": 0.2}):
        yield (rng.permutation(np.linspace(-1.95, 1.95, 14)).reshape(2, 7),), limits


@expression(domain=Domain(cases=_clamp_cases, reference=lambda x, min=None, max=None: np.clip(x, min, max)))
def clamp(x: Expr, min: Any = None, max: Any = None) -> Expr:
    """x limited to [min, max]; None is no limit. The gradient passes inside the limits and on them."""
    for bound, beyond in ((min, "lt"), (max, "gt")):
        if bound is not None:
            x = apply("where", apply(beyond, x, bound), bound, x)
    return x


clip = clamp


def _cast_cases(rng: np.random.Generator) -> Any:
    for dtype in ("float32", "int32", "bool", "float16"):
        yield (rng.integers(-3, 4, (3, 5)).astype(np.float64),), {"dtype": dtype}


@expression(domain=Domain(cases=_cast_cases, reference=lambda x, dtype: x.astype(dtype), gradient=False))
def cast(x: Expr, *, dtype: str = "float32") -> Expr:
    """x converted to ``dtype``: floats to whole numbers by truncation, anything but zero is True."""
    return cast_expr(x, dtype)


@expression()
def clone(x: Expr) -> Expr:
    """A copy of x."""
    return x


# -- activations -------------------------------------------------------------------------------------------------------

relu = elementwise(
    "relu", "v0 <= 0 ? 0.0f : v0", "max(x, 0), NaN stays; the gradient at 0 is 0.", domain=Domain(kinks=(0.0,))
)
leaky_relu = elementwise(
    "leaky_relu",
    "v0 > 0 ? v0 : slope * v0",
    "x where positive, else slope * x.",
    slope=0.01,
    domain=Domain(kinks=(0.0,)),
)
elu = elementwise(
    "elu",
    "v0 > 0 ? v0 : alpha * expm1(minimum(v0, 0.0f))",
    "x where positive, else alpha (exp(x) - 1).",
    alpha=1.0,
    domain=Domain(kinks=(0.0,)),
)
celu = elementwise(
    "celu",
    "v0 > 0 ? v0 : alpha * expm1(minimum(v0, 0.0f) / alpha)",
    "x where positive, else alpha (exp(x / alpha) - 1).",
    alpha=1.0,
    domain=Domain(kinks=(0.0,)),
)
selu = elementwise(
    "selu",
    "1.0507009873554805f * (v0 > 0 ? v0 : 1.6732632423543772f * expm1(minimum(v0, 0.0f)))",
    "Scaled ELU whose fixed point has mean 0 and variance 1 (Klambauer et al. 2017).",
    domain=Domain(kinks=(0.0,)),
)
sigmoid = elementwise("sigmoid", "sigmoid(v0)", "1 / (1 + exp(-x)).")
tanh = elementwise("tanh", "tanh(v0)", "Hyperbolic tangent.")
silu = elementwise("silu", "v0 * sigmoid(v0)", "x * sigmoid(x), also called swish.")
swish = silu
mish = elementwise("mish", "v0 * tanh(maximum(v0, 0.0f) + log1p(exp(-abs(v0))))", "x * tanh(softplus(x)) (Misra 2019).")
softplus = elementwise(
    "softplus",
    "(maximum(v0 * beta, 0.0f) + log1p(exp(-abs(v0 * beta)))) / beta",
    "log(1 + exp(beta x)) / beta.",
    beta=1.0,
)
softsign = elementwise("softsign", "v0 / (1.0f + abs(v0))", "x / (1 + |x|).", domain=Domain(kinks=(0.0,)))
logsigmoid = elementwise(
    "logsigmoid",
    "minimum(v0, 0.0f) - log1p(exp(-abs(v0)))",
    "log(sigmoid(x)), without overflow.",
    domain=Domain(kinks=(0.0,)),
)
relu6 = elementwise(
    "relu6", "v0 <= 0 ? 0.0f : (v0 >= 6 ? 6.0f : v0)", "x limited to [0, 6].", domain=Domain(kinks=(0.0,))
)
hard_sigmoid = elementwise(
    "hard_sigmoid", "v0 <= -3 ? 0.0f : (v0 >= 3 ? 1.0f : v0 / 6 + 0.5f)", "x / 6 + 1/2 limited to [0, 1]."
)
hard_swish = elementwise(
    "hard_swish", "v0 <= -3 ? 0.0f : (v0 >= 3 ? v0 : v0 * (v0 / 6 + 0.5f))", "x * hard_sigmoid(x)."
)
hard_tanh = elementwise(
    "hard_tanh",
    "v0 <= min_val ? min_val : (v0 >= max_val ? max_val : v0)",
    "x limited to [min_val, max_val].",
    min_val=-1.0,
    max_val=1.0,
    domain=Domain(kinks=(-1.0, 1.0)),
)
threshold = elementwise(
    "threshold",
    "v0 > threshold ? v0 : value",
    "x above the threshold, else value.",
    threshold=0.1,
    value=0.0,
    domain=Domain(kinks=(0.1,)),
)
prelu = elementwise(
    "prelu",
    "v0 > 0 ? v0 : v1 * v0",
    "x where positive, else alpha * x, with alpha a tensor that broadcasts.",
    operands="x alpha",
    domain=Domain(kinks=(0.0,)),
)


@expression()
def gelu(x: Expr, *, approximate: str = "none") -> Expr:
    """x * Phi(x), with the normal distribution function by erf, or by tanh for ``approximate="tanh"`` (Hendrycks and
    Gimpel 2016).
    """
    if approximate == "tanh":
        return parse("0.5f * v0 * (1.0f + tanh(0.7978845608028654f * (v0 + 0.044715f * v0 * v0 * v0)))", [x])
    if approximate != "none":
        raise ValueError(f"gelu: approximate is 'none' or 'tanh', not {approximate!r}")
    return parse("0.5f * v0 * (1.0f + erf(v0 * 0.7071067811865476f))", [x])


def _glu_cases(rng: np.random.Generator) -> Any:
    yield (rng.uniform(-2, 2, (3, 6)),), {}
    yield (rng.uniform(-2, 2, (4, 5)),), {"axis": 0}


def _glu_reference(x: Any, axis: int = -1) -> Any:
    a, b = np.split(x, 2, axis)
    return a / (1 + np.exp(-b))


@composite(domain=Domain(cases=_glu_cases, reference=_glu_reference))
def glu(x: Tensor, axis: int = -1) -> Tensor:
    """a * sigmoid(b), with a and b the halves of x along ``axis`` (Dauphin et al. 2017)."""
    if x.ndim == 0 or x.shape[axis] % 2:
        raise ShapeError(f"glu: axis {axis} of shape {x.shape} has no two halves", op="glu", parameter="axis")
    a, b = chunk(x, 2, axis)
    return mul(a, sigmoid(b))  # type: ignore[no-any-return]


# -- text given by the user --------------------------------------------------------------------------------------------


@expression(
    name="elementwise_binary",
    domain=Domain(
        cases=lambda rng: iter([((rng.random(4), rng.random(4)), {"expression": "MUL(ADD(v0, v1), 2.0f)"})]),
        reference=lambda a, b, expression: (a + b) * 2,
    ),
)
def elementwise_binary(a: Expr, b: Expr, expression: str = "") -> Expr:
    """The expression in C over v0 and v1, for example ``"MUL(ADD(v0, v1), 2.0f)"``; ExpressionError shows what cannot
    be read.
    """
    return parse(expression, [a, b])


@expression(
    name="elementwise_unary",
    domain=Domain(
        cases=lambda rng: iter([((rng.random(4),), {"expression": "RELU(v0) * 2.0f"})]),
        reference=lambda x, expression: np.maximum(x, 0) * 2,
    ),
)
def elementwise_unary(x: Expr, expression: str = "") -> Expr:
    """The expression in C over v0; ExpressionError shows what cannot be read."""
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


@composite(domain=Domain(cases=_bias_cases, reference=_bias_reference))
def bias_add(x: Tensor, bias: Tensor, axis: int | None = None) -> Tensor:
    """x plus a vector along ``axis`` (default: 1 for images of rank 4 and 5, else the last)."""
    at = ((1 if x.ndim in (4, 5) else -1) if axis is None else axis) % x.ndim
    return add(x, reshape(bias, (-1,) + (1,) * (x.ndim - at - 1)))  # type: ignore[no-any-return]

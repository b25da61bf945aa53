"""Activations, one row each; gradients at their kinks are PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core.dtypes import is_floating
from netcl.core.errors import ArgumentError, ShapeError
from netcl.core.expr import Expr, apply, parse
from netcl.core.expr import cast as cast_expr
from netcl.core.layout import normalize_axes
from netcl.core.ops_table.dispatch import Domain
from netcl.core.tensor import Tensor
from netcl.ops.arrange import chunk
from netcl.ops.domains import KINK, compared, few
from netcl.ops.elementwise import mul
from netcl.ops.table import METHOD, WRITTEN_TOO, OpFunction, composite, elementwise, expression

relu: OpFunction = elementwise(
    "relu",
    "v0 <= 0 ? 0 : v0",
    "Returns max(x, 0), NaN stays NaN; the gradient at 0 is 0.",
    domain=KINK,
    forms=WRITTEN_TOO,
)
leaky_relu: OpFunction = elementwise(
    "leaky_relu",
    "v0 > 0 ? v0 : slope * v0",
    "Returns x if positive, else slope * x.",
    slope=0.01,
    domain=KINK,
)
elu: OpFunction = elementwise(
    "elu",
    "v0 > 0 ? v0 : alpha * expm1(v0 > 0 ? 0.0f : v0)",
    "Returns x if positive, else alpha (exp(x) - 1).",
    alpha=1.0,
    domain=KINK,
    forms="F.* F.*_",
)
celu: OpFunction = elementwise(
    "celu",
    "v0 > 0 ? v0 : alpha * expm1((v0 > 0 ? 0.0f : v0) / alpha)",
    "Returns x if positive, else alpha (exp(x / alpha) - 1).",
    alpha=1.0,
    domain=KINK,
    forms="nc.*_ F.* F.*_",
)
selu: OpFunction = elementwise(
    "selu",
    "1.0507009873554805f * (v0 > 0 ? v0 : 1.6732632423543772f * expm1(v0 > 0 ? 0.0f : v0))",
    "Returns the scaled ELU with a fixed point of mean 0 and variance 1 (Klambauer et al. 2017).",
    domain=KINK,
    forms="nc.*_ F.* F.*_",
)
sigmoid: OpFunction = elementwise("sigmoid", "sigmoid(v0)", "Returns 1 / (1 + exp(-x)).", forms=WRITTEN_TOO)
tanh: OpFunction = elementwise("tanh", "tanh(v0)", "Returns the hyperbolic tangent.", forms=f"{WRITTEN_TOO} a.*")
silu: OpFunction = elementwise("silu", "v0 * sigmoid(v0)", "Returns x * sigmoid(x), also called swish.", forms="F.*")
swish = silu
mish: OpFunction = elementwise(
    "mish", "v0 * tanh(logaddexp(v0, 0.0f))", "Returns x * tanh(softplus(x)) (Misra 2019).", forms="F.*"
)
softplus: OpFunction = elementwise(
    "softplus",
    "v0 * beta > threshold ? v0 : logaddexp(v0 * beta, 0.0f) / beta",
    "Returns log(1 + exp(beta x)) / beta; x if beta x is above the threshold, where the two are equal to rounding.",
    beta=1.0,
    threshold=20.0,
)
softsign: OpFunction = elementwise("softsign", "v0 / (1.0f + abs(v0))", "Returns x / (1 + |x|).", domain=KINK)
logsigmoid: OpFunction = elementwise(
    "logsigmoid",
    "-logaddexp(0.0f - v0, 0.0f)",  # a float before it is negated, which the least integer cannot be
    "Returns log(sigmoid(x)), without overflow.",
)
relu6: OpFunction = elementwise(
    "relu6", "v0 <= 0 ? 0 : (v0 >= 6 ? 6 : v0)", "Returns x limited to [0, 6].", domain=KINK, forms="F.*"
)
hard_sigmoid: OpFunction = elementwise(
    "hard_sigmoid",
    "v0 <= -3.0f ? 0.0f : (v0 >= 3 ? 1.0f : v0 / 6 + 0.5f)",
    "Returns x / 6 + 1/2 limited to [0, 1].",
    forms="F.hardsigmoid",
)
hard_swish: OpFunction = elementwise(
    "hard_swish",
    "v0 <= -3.0f ? 0.0f : (v0 >= 3 ? v0 : v0 * (v0 / 6 + 0.5f))",
    "Returns x * hard_sigmoid(x).",
    forms="F.hardswish",
)


def _numbers(x: Expr, *values: Any) -> tuple[Any, ...]:
    """Returns the numbers in the dtype of x if that is not floating, truncated as PyTorch does."""
    return values if is_floating(x.dtype) else tuple(cast_expr(cast_expr(v, "int64"), x.dtype) for v in values)


@expression(domain=Domain(kinks=(-1.0, 1.0)), forms="F.hardtanh F.hardtanh_")
def hard_tanh(x: Expr, min_val: float = -1.0, max_val: float = 1.0) -> Expr:
    """Returns x limited to [min_val, max_val]; limits of integers are truncated."""
    low, high = _numbers(x, min_val, max_val)
    return apply("where", x <= low, low, apply("where", x >= high, high, x))


@expression(domain=Domain(kinks=(0.1,)), forms="nc.*_ F.* F.*_")
def threshold(x: Expr, threshold: float = 0.1, value: float = 0.0) -> Expr:
    """Returns x above the threshold, else value; both are truncated for integers."""
    limit, other = _numbers(x, threshold, value)
    return apply("where", x <= limit, other, x)


prelu: OpFunction = elementwise(
    "prelu",
    "v0 > 0 ? v0 : v1 * v0",
    "Returns x if positive, else alpha * x, with alpha a tensor that broadcasts.",
    operands="x alpha",
    domain=KINK,
)
softshrink: OpFunction = elementwise(
    "softshrink",
    "v0 > lambd ? v0 - lambd : (v0 < -lambd ? v0 + lambd : v0 * 0.0f)",
    "Returns x moved towards 0 by lambd, 0 within [-lambd, lambd].",
    lambd=0.5,
    domain=few(lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0), kinks=(-0.5, 0.5)),
)
hardshrink: OpFunction = elementwise(
    "hardshrink",
    "(v0 >= -lambd && v0 <= lambd) ? 0.0f : v0",
    "Returns x, but 0 within [-lambd, lambd].",
    lambd=0.5,
    domain=few(lambda x: np.where(np.abs(x) <= 0.5, 0, x), kinks=(-0.5, 0.5)),
    forms=METHOD,
)
# The difference of a small x and its tanh has few digits: below 1.47, where tanh is 0.9, it is x y P(y) / Q(y) with
# y = x^2, the ninth convergent of Lambert's continued fraction of tanh, right to 4e-14; its coefficients are positive,
# so nothing cancels.
tanhshrink: OpFunction = elementwise(
    "tanhshrink",
    "abs(tanh(v0)) < 0.9f ? v0 * v0 * v0"
    " * (11486475.0f + v0 * v0 * (810810.0f + v0 * v0 * (12870.0f + v0 * v0 * 44.0f)))"
    " / (34459425.0f + v0 * v0 * (16216200.0f + v0 * v0 * (945945.0f + v0 * v0 * (13860.0f + v0 * v0 * 45.0f))))"
    " : v0 - tanh(v0)",
    "Returns x - tanh(x), without cancellation at small x.",
    domain=few(lambda x: x - np.tanh(x)),
)


@expression(domain=few(lambda x: np.log(x / (1 - x)), (0.1, 0.9)), forms=WRITTEN_TOO)
def logit(x: Expr, eps: Any = None) -> Expr:
    """Returns log(x / (1 - x)), the inverse of ``sigmoid``; with ``eps``, x is first clamped to [eps, 1 - eps]; without
    it the result beyond [0, 1] is NaN.
    """
    value = x if is_floating(x.dtype) else cast_expr(x, "float32")
    if eps is not None:
        value = apply("where", value < eps, eps, value)
        value = apply("where", value > 1.0 - eps, 1.0 - eps, value)
    return apply("log", value / (1.0 - value))


@expression()
def gelu(x: Expr, *, approximate: str = "none") -> Expr:
    """Returns x * Phi(x), with the normal distribution function by erf, or by tanh for ``approximate="tanh"``
    (Hendrycks and Gimpel 2016).
    """
    if approximate == "tanh":
        return parse("0.5f * v0 * (1.0f + tanh(0.7978845608028654f * (v0 + 0.044715f * v0 * v0 * v0)))", [x])
    if approximate != "none":
        raise ArgumentError(f"gelu: expected approximate 'none' or 'tanh', got {approximate!r}")
    return parse("0.5f * v0 * (1.0f + erf(v0 * 0.7071067811865476f))", [x])


def _glu_cases(rng: np.random.Generator) -> Any:
    yield (rng.uniform(-2, 2, (3, 6)),), {}
    yield (rng.uniform(-2, 2, (4, 5)),), {"axis": 0}


def _glu_reference(x: Any, axis: int = -1) -> Any:
    a, b = np.split(x, 2, axis)
    return a / (1 + np.exp(-b))


@composite(domain=compared(_glu_cases, _glu_reference))
def glu(x: Tensor, axis: int = -1) -> Tensor:
    """Returns a * sigmoid(b), with a and b the halves of x along ``axis`` (Dauphin et al. 2017)."""
    (axis,) = normalize_axes(axis, x.ndim, "glu")
    if x.shape[axis] % 2:
        raise ShapeError(f"glu: axis {axis} of shape {x.shape} has no two halves", parameter="axis")
    a, b = chunk(x, 2, axis)
    return mul(a, sigmoid(b))  # type: ignore[no-any-return]

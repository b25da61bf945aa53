"""Rows of PyTorch's backward overloads, and of others that netcl has not, as expressions of netcl's op table.

Each is one program: its kernels are made, recorded and planned as those of netcl's own rows. The names begin with
``aten_``. Texts are in netcl's expression language over v0, v1, ...
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt
from typing import Any

from netcl.core.expr import Expr, apply, cast, mean, reduce
from netcl.core.expr.statistics import standardized, widened
from netcl.core.ops_table import dispatch
from netcl.core.ops_table.dispatch import Space
from netcl.ops.table import elementwise, expression
from torch_netcl.memory import NoKernel

GRADIENTS: dict[str, Callable[..., Any]] = {}
_ROOT = 1 / sqrt(2)
_DENSITY = 1 / sqrt(2 * pi)
_TANH = sqrt(2 / pi)


def _define(name: str, text: str, operands: str = "g x", **attributes: Any) -> Callable[..., Any]:
    """Registers the row ``aten_NAME`` of a text, and returns its function."""
    return elementwise(f"aten_{name}", text, f"Computes aten::{name}.", operands=operands, **attributes)


def _unary(overload: str, text: str, operands: str = "g x", **attributes: Any) -> None:
    GRADIENTS[overload] = _define(overload.replace(".", "_"), text, operands, **attributes)


_unary("sigmoid_backward", "v0 * (v1 * (1.0f - v1))")
_unary("tanh_backward", "v0 * (1.0f - v1 * v1)")
_unary("threshold_backward", "v1 <= threshold ? 0.0f : v0", threshold=0.0)
_unary("silu_backward", "v0 * (sigmoid(v1) * (1.0f + v1 * (1.0f - sigmoid(v1))))")
_unary(
    "mish_backward",
    "v0 * (tanh(logaddexp(v1, 0.0f)) + v1 * sigmoid(v1) * (1.0f - tanh(logaddexp(v1, 0.0f)) "
    "* tanh(logaddexp(v1, 0.0f))))",
)
_unary("hardtanh_backward", "(v1 <= low || v1 >= high) ? 0.0f : v0", low=-1.0, high=1.0)
_unary("hardswish_backward", "v1 < -3.0f ? 0.0f : (v1 <= 3.0f ? v0 * (v1 / 3.0f + 0.5f) : v0)")
_unary("hardsigmoid_backward", "(v1 > -3.0f && v1 < 3.0f) ? v0 / 6.0f : 0.0f")
_unary("hardshrink_backward", "(v1 >= -lambd && v1 <= lambd) ? 0.0f : v0", lambd=0.5)
_unary("softshrink_backward", "(v1 >= -lambd && v1 <= lambd) ? 0.0f : v0", lambd=0.5)
_unary("softplus_backward", "v1 * beta > threshold ? v0 : v0 * sigmoid(v1 * beta)", beta=1.0, threshold=20.0)
_log_sigmoid = _define("log_sigmoid_backward", "v0 * sigmoid(0.0f - v1)")
_leaky = _define("leaky_relu_backward", "v1 > 0 ? v0 : v0 * slope", slope=0.01)
_elu = _define(
    "elu_backward",
    "v1 <= 0 ? v0 * inner * scale * alpha * exp((v1 > 0 ? 0.0f : v1) * inner) : v0 * scale",
    alpha=1.0,
    scale=1.0,
    inner=1.0,
)
_elu_result = _define(
    "elu_backward_result", "v1 <= 0 ? v0 * inner * (v1 + scale * alpha) : v0 * scale", alpha=1.0, scale=1.0, inner=1.0
)
_define(
    "scaled_elu",
    "v0 > 0 ? v0 * scale : scale * alpha * expm1((v0 > 0 ? 0.0f : v0) * inner)",
    "x",
    alpha=1.0,
    scale=1.0,
    inner=1.0,
)
_gelu = _define(
    "gelu_backward", f"v0 * (0.5f * (1.0f + erf(v1 * {_ROOT!r}f)) + v1 * exp(-0.5f * v1 * v1) * {_DENSITY!r}f)"
)
_INNER = f"tanh({_TANH!r}f * (v1 + 0.044715f * v1 * v1 * v1))"
_gelu_tanh = _define(
    "gelu_backward_tanh",
    f"v0 * (0.5f * (1.0f + {_INNER}) + 0.5f * v1 * (1.0f - {_INNER} * {_INNER}) "
    f"* {_TANH!r}f * (1.0f + 0.134145f * v1 * v1))",
)
_define("floor_quotient", "floor(v0 / v1)", "a b")
plus_scaled = _define("plus_scaled", "v0 + v2 * v1", "a b alpha")  # alpha is a number


def gradient(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a function of netcl's tensors as the row of overloads."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        GRADIENTS.update(dict.fromkeys(names, function))
        return function

    return add


GRADIENTS |= {
    "gelu_backward": lambda grad, x, *, approximate="none": (_gelu if approximate == "none" else _gelu_tanh)(grad, x)
}


@gradient("elu_backward")
def elu_backward(grad, alpha, scale, input_scale, is_result, x):
    """Returns the gradient of the ELU, by its operand or its result."""
    numbers = float(alpha), float(scale), float(input_scale)
    return (_elu_result if is_result else _elu)(grad, x, *numbers)


GRADIENTS |= {
    "leaky_relu_backward": lambda grad, x, slope, self_is_result: _leaky(grad, x, float(slope)),
    "log_sigmoid_backward": lambda grad, x, buffer: _log_sigmoid(grad, x),
}


_prelu_x = _define("prelu_backward_x", "v1 > 0 ? v0 : v0 * v2", "g x w")
_prelu_weight = _define("prelu_backward_weight", "v1 > 0 ? 0.0f : v0 * v1")
GRADIENTS |= {"_prelu_kernel_backward": lambda grad, x, weight: (_prelu_x(grad, x, weight), _prelu_weight(grad, x))}


@expression(name="aten_softmax_backward")
def _softmax_backward(g: Expr, y: Expr, axis: int = -1, *, space: Space) -> Expr:
    """Returns y (g - sum(g y))."""
    grad, out = widened(g), widened(y)
    return cast(out * (grad - reduce("sum", grad * out, space.axes(axis))), g.dtype)


@expression(name="aten_log_softmax_backward")
def _log_softmax_backward(g: Expr, y: Expr, axis: int = -1, *, space: Space) -> Expr:
    """Returns g - exp(y) sum(g)."""
    grad = widened(g)
    return cast(grad - apply("exp", widened(y)) * reduce("sum", grad, space.axes(axis)), g.dtype)


@expression(name="aten_dropped_weights_backward")
def _dropped_weights_backward(
    g: Expr, weights: Expr, kept: Expr, scale: float = 1.0, factor: float = 1.0, *, space: Space
) -> tuple[Expr, Expr]:
    """Returns the gradient by scores of dropped weights, and these: softmax's of g, times ``scale``."""
    weight = widened(weights)
    dropped = apply("where", kept, weight * factor, 0.0)
    through = widened(g) * dropped
    by_scores = scale * (through - weight * reduce("sum", through, space.axes(-1)))
    return cast(by_scores, weights.dtype), cast(dropped, weights.dtype)


def _of_softmax(name: str) -> Callable[..., Any]:
    def backward(grad: Any, out: Any, dim: int, input_dtype: Any) -> Any:
        if not grad.ndim or not grad.size:
            raise NoKernel("0-d")
        return dispatch.call(name, grad, out, axis=dim)

    return backward


GRADIENTS["_softmax_backward_data"] = _of_softmax("aten_softmax_backward")
GRADIENTS["_log_softmax_backward_data"] = _of_softmax("aten_log_softmax_backward")


# -- softmax and normalizations ----------------------------------------------------------------------------------------


@expression(name="aten_layer_norm")
def _layer_norm(
    x: Expr, weight: Expr | None = None, bias: Expr | None = None, axes: Any = (), eps: float = 1e-5, *, space: Space
) -> tuple[Expr, Expr, Expr]:
    """Returns the normalized x, the mean and 1 / sqrt(var + eps)."""
    value, scale, average, _ = standardized(x, space.axes(axes), eps)  # type: ignore[arg-type]
    if weight is not None:
        value = value * widened(weight)
    if bias is not None:
        value = value + widened(bias)
    return cast(value, x.dtype), average, scale


@expression(name="aten_layer_norm_backward")
def _layer_norm_backward(
    g: Expr, x: Expr, average: Expr, scale: Expr, weight: Expr | None = None, axes: Any = (), *, space: Space
) -> Expr:
    """Returns scale (g - mean(g) - n mean(g n)) with n the normalized x, and g times the weight, over ``axes``."""
    over = space.axes(axes)
    grad = widened(g) if weight is None else widened(g) * widened(weight)
    normal = (widened(x) - widened(average)) * widened(scale)
    return cast(widened(scale) * (grad - mean(grad, over) - normal * mean(grad * normal, over)), x.dtype)


@expression(name="aten_norm_sums")
def _norm_sums(g: Expr, x: Expr, average: Expr, scale: Expr, axes: Any = (), *, space: Space) -> tuple[Expr, Expr]:
    """Returns the sums over ``axes`` of g times the normalized x, and of g, in the dtype of statistics."""
    over, grad = space.axes(axes), widened(g)
    normal = (widened(x) - widened(average)) * widened(scale)
    return reduce("sum", grad * normal, over), reduce("sum", grad, over)

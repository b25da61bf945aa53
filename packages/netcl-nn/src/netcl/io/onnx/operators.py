"""Imports ONNX operators that are elementwise or reductions, as functions of netcl.autograd."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.dtypes import canonical, is_floating
from netcl.io.onnx.node import OF_OPS, Given, Node, Operator, axes_of, host, numbers

# -- elementwise -------------------------------------------------------------------------------------------------------


def _plain(function: Callable[..., Any]) -> Operator:
    def run(node: Node, *inputs: Any) -> Any:
        return function(*inputs)

    return run


def _folded(function: Callable[..., Any]) -> Operator:
    def run(node: Node, first: Any, *rest: Any) -> Any:
        for other in rest:
            first = function(first, other)
        return first

    return run


def _scaled(function: Callable[..., Any], **defaults: float) -> Operator:
    """Returns a function with float attributes, in the order of its arguments."""

    def run(node: Node, x: Any) -> Any:
        return function(x, *(float(node.get(name, default)) for name, default in defaults.items()))

    return run


def _hard_sigmoid(x: Any, alpha: float, beta: float) -> Any:
    return ag.clamp(x * alpha + beta, 0.0, 1.0)


def _mean(node: Node, *inputs: Any) -> Any:
    return _folded(ag.add)(node, *inputs) / float(len(inputs))


def _clip(node: Node, x: Any, low: Given = None, high: Given = None) -> Any:
    low = node.get("min") if low is None else low
    high = node.get("max") if high is None else high
    bounds = [None if bound is None else np.asarray(host(bound)).item() for bound in (low, high)]
    return x if bounds == [None, None] else ag.clamp(x, *bounds)


def _pow(node: Node, a: Any, b: Any) -> Any:
    result = ag.pow(a, b)
    return result if result.dtype == a.dtype else result.astype(a.dtype)


def _div(node: Node, a: Any, b: Any) -> Any:
    if is_floating(a.dtype):
        return a / b
    # ONNX truncates the quotient of integers towards zero.
    return (ag.sign(a) * ag.sign(b) * ag.floor_divide(ag.abs(a), ag.abs(b))).astype(a.dtype)


def _mod(node: Node, a: Any, b: Any) -> Any:
    if not node.get("fmod", 0):
        return ag.mod(a, b)
    return (ag.sign(a) * ag.mod(ag.abs(a), ag.abs(b))).astype(a.dtype)


def _cast(node: Node, x: Any, *like: Any) -> Any:
    dtype = like[0].dtype if like else node.get("to")
    return x.astype(canonical(dtype))


def _prelu(node: Node, x: Any, slope: Any) -> Any:
    return ag.where(x > 0, x, x * slope)


def _thresholded(x: Any, alpha: float) -> Any:
    return ag.where(x > alpha, x, ag.mul(x, 0.0))


def _gelu(node: Node, x: Any) -> Any:
    approximate = node.get("approximate", "none")
    return ag.gelu(x, approximate=approximate)


def _isinf(node: Node, x: Any) -> Any:
    signs = [sign for sign, name in ((1.0, "detect_positive"), (-1.0, "detect_negative")) if node.get(name, 1)]
    matches = [ag.eq(x, sign * math.inf) for sign in signs]
    return matches[0] if len(matches) == 1 else ag.logical_or(*matches) if matches else ag.ne(x, x) & ag.eq(x, x)


def _shrink(x: Any, bias: float, lambd: float) -> Any:
    nothing = ag.mul(x, 0.0)
    return ag.where(x < -lambd, x + bias, ag.where(x > lambd, x - bias, nothing))


def _dropout(node: Node, x: Any, ratio: Given = None, training: Given = None) -> Any:
    """Returns the input unless the module trains; the module decides, not the graph."""
    if training is not None and np.asarray(host(training)).item():
        raise node.refuse("training_mode")
    p = float(node.get("ratio", 0.5) if ratio is None else np.asarray(host(ratio)).item())
    if node.training[0] and p > 0:
        return ag.dropout(x, p)
    kept = ag.eq(x, x) | ag.ne(x, x)
    return (x, kept) if len(node.outputs) > 1 else x


# -- reductions --------------------------------------------------------------------------------------------------------


def _reduction(function: Callable[..., Any]) -> Operator:
    def run(node: Node, x: Any, axes: Given = None) -> Any:
        chosen = axes_of(node, axes)
        if not chosen and node.get("noop_with_empty_axes", 0):
            return x if function is not _square_sum else x * x
        y = function(x, axis=tuple(chosen) if chosen else None, keepdims=bool(node.get("keepdims", 1)))
        return y if y.dtype == x.dtype else y.astype(x.dtype)

    return run


def _extreme(function: Callable[..., Any], nothing: float) -> Operator:
    """Returns the maximum or minimum; for no elements, the identity of the reduction."""
    some = _reduction(function)

    def run(node: Node, x: Any, axes: Given = None) -> Any:
        if x.size:
            return some(node, x, axes)
        chosen = {axis % x.ndim for axis in axes_of(node, axes) or range(x.ndim)}
        kept = bool(node.get("keepdims", 1))
        shape = [1 if dim in chosen else size for dim, size in enumerate(x.shape) if kept or dim not in chosen]
        return Tensor.full(shape, nothing > 0 if x.dtype == "bool" else nothing, x.dtype, queue=x.queue)

    return run


def _square_sum(x: Any, axis: Any, keepdims: bool) -> Any:
    return ag.sum(x * x, axis=axis, keepdims=keepdims)


def _log_sum(x: Any, axis: Any, keepdims: bool) -> Any:
    return ag.log(ag.sum(x, axis=axis, keepdims=keepdims))


def _l1(x: Any, axis: Any, keepdims: bool) -> Any:
    return ag.sum(ag.abs(x), axis=axis, keepdims=keepdims)


def _l2(x: Any, axis: Any, keepdims: bool) -> Any:
    return ag.sqrt(ag.sum(x * x, axis=axis, keepdims=keepdims))


def _argument(function: Callable[..., Any]) -> Operator:
    def run(node: Node, x: Any) -> Any:
        axis, keepdims = node.get("axis", 0), bool(node.get("keepdims", 1))
        if not node.get("select_last_index", 0):
            return function(x, axis=axis, keepdims=keepdims)
        return x.shape[axis] - 1 - function(ag.flip(x, axis), axis=axis, keepdims=keepdims)

    return run


def _cumsum(node: Node, x: Any, axis: Any) -> Any:
    (dim,) = numbers(axis)
    y = ag.cumsum(x, dim, reverse=bool(node.get("reverse", 0)))
    y = y if y.dtype == x.dtype else y.astype(x.dtype)
    return y - x if node.get("exclusive", 0) else y


def _topk(node: Node, x: Any, k: Given = None) -> Any:
    count = node.get("k") if k is None else numbers(k)[0]
    return tuple(ag.topk(x, count, axis=node.get("axis", -1), largest=bool(node.get("largest", 1))))


OPERATORS: dict[str, Operator] = {
    **{name: _plain(getattr(ag, op)) for op, name in OF_OPS.items()},
    **{f"Bitwise{name}": _plain(getattr(ag, f"bitwise_{name.lower()}")) for name in ("And", "Not", "Or", "Xor")},
    **{
        name: _plain(getattr(ag, name.lower()))
        for name in ("MatMul", "Mish", "Reciprocal", "Relu", "Softplus", "Softsign")
    },
    "Identity": _plain(lambda x: x),
    "HardSwish": _plain(lambda x: x * _hard_sigmoid(x, 1.0 / 6.0, 0.5)),
    "Max": _folded(ag.maximum),
    "Min": _folded(ag.minimum),
    "Sum": _folded(ag.add),
    "Mean": _mean,
    "Pow": _pow,
    "Div": _div,
    "Mod": _mod,
    "Clip": _clip,
    "Cast": _cast,
    "CastLike": _cast,
    "PRelu": _prelu,
    "LeakyRelu": _scaled(ag.leaky_relu, alpha=0.01),
    "Elu": _scaled(ag.elu, alpha=1.0),
    "Celu": _scaled(ag.celu, alpha=1.0),
    "Selu": _scaled(
        lambda x, alpha, gamma: gamma * ag.where(x > 0, x, alpha * ag.expm1(ag.minimum(x, 0.0))),
        alpha=1.67326319217681884765625,
        gamma=1.05070102214813232421875,
    ),
    "HardSigmoid": _scaled(_hard_sigmoid, alpha=0.2, beta=0.5),
    "ThresholdedRelu": _scaled(_thresholded, alpha=1.0),
    "Shrink": _scaled(_shrink, bias=0.0, lambd=0.5),
    "Gelu": _gelu,
    "IsInf": _isinf,
    "Dropout": _dropout,
    "ReduceSum": _reduction(ag.sum),
    "ReduceMean": _reduction(ag.mean),
    "ReduceMax": _extreme(ag.amax, -math.inf),
    "ReduceMin": _extreme(ag.amin, math.inf),
    "ReduceProd": _reduction(ag.prod),
    "ReduceL1": _reduction(_l1),
    "ReduceL2": _reduction(_l2),
    "ReduceSumSquare": _reduction(_square_sum),
    "ReduceLogSum": _reduction(_log_sum),
    "ReduceLogSumExp": _reduction(ag.logsumexp),
    "ArgMax": _argument(ag.argmax),
    "ArgMin": _argument(ag.argmin),
    "CumSum": _cumsum,
    "TopK": _topk,
}

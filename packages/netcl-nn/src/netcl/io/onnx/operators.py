"""ONNX's operators as functions of netcl.autograd, so that an imported graph can be trained on.

A value at run time is a Tensor, or a NumPy array where it is a size, an index or another constant of the graph: those
are known on the host, and operators on them alone are ONNX's own reference (model.py). A function here gets the node
and its inputs, with at least one Tensor among them, and gives its output, or a tuple of its outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.dtypes import canonical, is_floating
from netcl.core.errors import UnsupportedError

Given = Any  # a Tensor, an array, or None where an optional input is left out


@dataclass(frozen=True)
class Node:
    """One node: its operator, names, attributes as plain values, and the version of the operators that it means."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    opset: int
    name: str = ""
    training: list[bool] = field(default_factory=lambda: [False])

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.attributes.get(name, default)

    def refuse(self, what: str) -> UnsupportedError:
        """The error about something that this operator is not imported with."""
        return UnsupportedError(f"ONNX {self.op} ({self.name or self.outputs[0]}): {what} is not supported", op=self.op)


Operator = Callable[..., Any]


def numbers(value: Given) -> list[int]:
    """Whole numbers on the host: sizes, axes, indices."""
    return [int(n) for n in np.ravel(value.to_host() if isinstance(value, Tensor) else value)]


def axes_of(node: Node, given: Given, at: str = "axes") -> list[int] | None:
    """Axes, which were an attribute once and are an input now; None where neither is there."""
    if node.get(at) is not None:
        return [int(axis) for axis in node.get(at)]
    return None if given is None else numbers(given)


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
    """A function with float attributes, in the order of its arguments."""

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
    bounds = [None if bound is None else np.asarray(_host(bound)).item() for bound in (low, high)]
    return x if bounds == [None, None] else ag.clamp(x, *bounds)


def _host(value: Any) -> Any:
    return value.to_host() if isinstance(value, Tensor) else value


def _pow(node: Node, a: Any, b: Any) -> Any:
    result = ag.pow(a, b)
    return result if result.dtype == a.dtype else result.astype(a.dtype)


def _div(node: Node, a: Any, b: Any) -> Any:
    if is_floating(a.dtype):
        return a / b
    # ONNX cuts the quotient of whole numbers towards zero.
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
    found = [ag.eq(x, sign * math.inf) for sign in signs]
    return found[0] if len(found) == 1 else ag.logical_or(*found) if found else ag.ne(x, x) & ag.eq(x, x)


def _shrink(x: Any, bias: float, lambd: float) -> Any:
    nothing = ag.mul(x, 0.0)
    return ag.where(x < -lambd, x + bias, ag.where(x > lambd, x - bias, nothing))


def _dropout(node: Node, x: Any, ratio: Given = None, training: Given = None) -> Any:
    """Passes everything unless the module trains, which is up to it and not to the graph."""
    if training is not None and np.asarray(_host(training)).item():
        raise node.refuse("training_mode")
    p = float(node.get("ratio", 0.5) if ratio is None else np.asarray(_host(ratio)).item())
    if node.training[0] and p > 0:
        return ag.dropout(x, p)
    kept = ag.eq(x, x) | ag.ne(x, x)
    return (x, kept) if len(node.outputs) > 1 else x


# -- contractions ------------------------------------------------------------------------------------------------------


def _padding(node: Node, spatial: Sequence[int], kernel: Sequence[int], strides: Any, dilations: Any) -> Any:
    """(before, behind) per axis, from pads or auto_pad."""
    auto = node.get("auto_pad", "NOTSET")
    rank = len(kernel)
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        pairs = []
        for size, k, stride, dilation in zip(spatial, kernel, strides, dilations):
            total = max((math.ceil(size / stride) - 1) * stride + dilation * (k - 1) + 1 - size, 0)
            less, more = total // 2, total - total // 2
            pairs.append((less, more) if auto == "SAME_UPPER" else (more, less))
        return pairs
    pads = node.get("pads", [0] * (2 * rank)) if auto == "NOTSET" else [0] * (2 * rank)
    return list(zip(pads[:rank], pads[rank:]))


def _conv(node: Node, x: Any, weight: Any, bias: Any = None) -> Any:
    kernel = weight.shape[2:]
    rank = len(kernel)
    strides, dilations = list(node.get("strides", [1] * rank)), list(node.get("dilations", [1] * rank))
    padding = _padding(node, x.shape[2:], kernel, strides, dilations)
    function = {1: ag.conv1d, 2: ag.conv2d, 3: ag.conv3d}.get(rank)
    if function is None:
        raise node.refuse(f"a kernel of {rank} axes")
    return function(x, weight, bias, stride=strides, padding=padding, dilation=dilations, groups=node.get("group", 1))


def _conv_transpose(node: Node, x: Any, weight: Any, bias: Any = None) -> Any:
    kernel = weight.shape[2:]
    rank = len(kernel)
    strides, dilations = list(node.get("strides", [1] * rank)), list(node.get("dilations", [1] * rank))
    extra = list(node.get("output_padding", [0] * rank))
    full = [(n - 1) * s + d * (k - 1) + 1 + e for n, s, d, k, e in zip(x.shape[2:], strides, dilations, kernel, extra)]
    wanted, auto = node.get("output_shape"), node.get("auto_pad", "NOTSET")
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [n * s for n, s in zip(x.shape[2:], strides)]
    pads = list(node.get("pads", [0] * (2 * rank)))
    if wanted is not None:
        totals = [size - out for size, out in zip(full, list(wanted)[-rank:])]
        less, more = [total // 2 for total in totals], [total - total // 2 for total in totals]
        pads = [*less, *more] if auto == "SAME_UPPER" else [*more, *less]
    # Computed in full, then cut: pads may differ on the two sides, and be longer than the kernel.
    function = {1: ag.conv_transpose1d, 2: ag.conv_transpose2d, 3: ag.conv_transpose3d}.get(rank)
    if function is None:
        raise node.refuse(f"a kernel of {rank} axes")
    y = function(x, weight, None, stride=strides, dilation=dilations, groups=node.get("group", 1))
    cut = [(0, 0), (0, 0), *((-low, e - high) for low, high, e in zip(pads[:rank], pads[rank:], extra))]
    y = ag.pad(y, cut) if any(pair != (0, 0) for pair in cut) else y
    return y if bias is None else y + bias.reshape((1, -1, *[1] * rank))


def _gemm(node: Node, a: Any, b: Any, c: Any = None) -> Any:
    transposed = bool(node.get("transA", 0)), bool(node.get("transB", 0))
    product = ag.matmul(a, b, transpose_a=transposed[0], transpose_b=transposed[1])
    alpha, beta = float(node.get("alpha", 1.0)), float(node.get("beta", 1.0))
    product = product if alpha == 1.0 else product * alpha
    return product if c is None else product + (c if beta == 1.0 else c * beta)


def _einsum(node: Node, *operands: Any) -> Any:
    equation = node.get("equation")
    return ag.einsum(equation.decode() if isinstance(equation, bytes) else equation, *operands)


# -- pooling and normalisation -----------------------------------------------------------------------------------------


def _window(node: Node, x: Any) -> tuple[list[int], list[int], list[int], Any]:
    kernel = list(node.get("kernel_shape"))
    rank = len(kernel)
    strides, dilations = list(node.get("strides", [1] * rank)), list(node.get("dilations", [1] * rank))
    if rank > 3:
        raise node.refuse(f"a kernel of {rank} axes")
    return kernel, strides, dilations, _padding(node, x.shape[2:], kernel, strides, dilations)


def _bordered(x: Any, padding: Any, value: float) -> Any:
    """``x`` with the border itself, where ``padding`` of a pooling cannot be so wide or differs on the two sides."""
    return ag.pad(x, [(0, 0), (0, 0), *padding], value=value) if any(pair != (0, 0) for pair in padding) else x


def _max_pool(node: Node, x: Any) -> Any:
    if len(node.outputs) > 1 or node.get("storage_order", 0):
        raise node.refuse("the second output")
    kernel, strides, dilations, padding = _window(node, x)
    function = {1: ag.max_pool1d, 2: ag.max_pool2d, 3: ag.max_pool3d}[len(kernel)]
    lowest = -math.inf if is_floating(x.dtype) else 0 if x.dtype == "uint8" else -(2**31)
    x = _bordered(x, padding, lowest)
    return function(x, kernel, strides, 0, dilations, bool(node.get("ceil_mode", 0)))


def _average_pool(node: Node, x: Any) -> Any:
    kernel, strides, dilations, padding = _window(node, x)
    if any(dilation != 1 for dilation in dilations):
        raise node.refuse("dilation")
    function = {1: ag.avg_pool1d, 2: ag.avg_pool2d, 3: ag.avg_pool3d}[len(kernel)]
    ceil, counted = bool(node.get("ceil_mode", 0)), bool(node.get("count_include_pad", 0))
    if all(low == high and 2 * low <= k for (low, high), k in zip(padding, kernel)):
        return function(x, kernel, strides, [low for low, _ in padding], ceil, counted)
    total = function(_bordered(x, padding, 0.0), kernel, strides, 0, ceil)
    if counted:
        return total
    # The share of each window that lies inside.
    ones = Tensor.ones((1, 1, *x.shape[2:]), x.dtype, queue=x.queue)
    return total / function(_bordered(ones, padding, 0.0), kernel, strides, 0, ceil)


def _lp_pool(node: Node, x: Any) -> Any:
    kernel, strides, dilations, padding = _window(node, x)
    p = float(node.get("p", 2))
    if any(dilation != 1 for dilation in dilations):
        raise node.refuse("dilation")
    function = {1: ag.avg_pool1d, 2: ag.avg_pool2d, 3: ag.avg_pool3d}[len(kernel)]
    powers = ag.pow(ag.abs(_bordered(x, padding, 0.0)), p)
    mean = function(powers, kernel, strides, 0, bool(node.get("ceil_mode", 0)))
    return ag.pow(mean * float(math.prod(kernel)), 1.0 / p)


def _global(function: Callable[..., Any]) -> Operator:
    def run(node: Node, x: Any) -> Any:
        return function(x, axis=tuple(range(2, x.ndim)), keepdims=True)

    return run


def _batch_norm(node: Node, x: Any, weight: Any, bias: Any, mean: Any, var: Any) -> Any:
    """With the statistics of the file, or, while the module trains, of the batch, which move them."""
    if node.get("training_mode", 0) or len(node.outputs) > 1:
        raise node.refuse("training_mode")
    # ONNX's momentum is the share of the old statistics.
    momentum = 1.0 - float(node.get("momentum", 0.9))
    eps = float(node.get("epsilon", 1e-5))
    return ag.batch_norm(x, mean, var, weight, bias, training=node.training[0], momentum=momentum, eps=eps)


def _layer_norm(node: Node, x: Any, weight: Any, bias: Any = None) -> Any:
    axis, eps = node.get("axis", -1) % x.ndim, float(node.get("epsilon", 1e-5))
    y = ag.layer_norm(x, x.shape[axis:], eps=eps) * weight
    y = y if bias is None else y + bias
    if len(node.outputs) == 1:
        return y
    axes = tuple(range(axis, x.ndim))
    return y, ag.mean(x, axis=axes, keepdims=True), ag.rsqrt(ag.var(x, axis=axes, keepdims=True) + eps)


def _rms_norm(node: Node, x: Any, weight: Any) -> Any:
    axis = node.get("axis", -1) % x.ndim
    return ag.rms_norm(x, x.shape[axis:], eps=float(node.get("epsilon", 1e-5))) * weight


def _instance_norm(node: Node, x: Any, weight: Any, bias: Any) -> Any:
    return ag.instance_norm(x, weight, bias, eps=float(node.get("epsilon", 1e-5)))


def _group_norm(node: Node, x: Any, weight: Any, bias: Any) -> Any:
    groups = node.get("num_groups")
    if node.opset < 21:  # one weight per group then
        weight, bias = (ag.repeat(v, x.shape[1] // groups, axis=0) for v in (weight, bias))
    return ag.group_norm(x, groups, weight, bias, eps=float(node.get("epsilon", 1e-5)))


def _local_response(node: Node, x: Any) -> Any:
    size = node.get("size")
    low = (size - 1) // 2
    squares = ag.pad(x * x, [(0, 0), (low, size - 1 - low), *[(0, 0)] * (x.ndim - 2)])
    total = ag.narrow(squares, 1, 0, x.shape[1])
    for at in range(1, size):
        total = total + ag.narrow(squares, 1, at, x.shape[1])
    scale = total * (float(node.get("alpha", 1e-4)) / size) + float(node.get("bias", 1.0))
    return x / ag.pow(scale, float(node.get("beta", 0.75)))


def _lp_norm(node: Node, x: Any) -> Any:
    length = ag.norm(x, p=node.get("p", 2), axis=node.get("axis", -1), keepdims=True)
    return x / ag.where(ag.eq(length, 0), 1.0, length)


def _mean_variance(node: Node, x: Any) -> Any:
    axes = tuple(node.get("axes", (0, 2, 3)))
    centred = x - ag.mean(x, axis=axes, keepdims=True)
    return centred / (ag.sqrt(ag.mean(centred * centred, axis=axes, keepdims=True)) + 1e-9)


def _soft(function: Callable[..., Any]) -> Operator:
    def run(node: Node, x: Any) -> Any:
        if node.opset >= 13:
            return function(x, axis=node.get("axis", -1))
        # Everything from the axis on was one axis then.
        axis = node.get("axis", 1) % max(x.ndim, 1)
        rows = x.reshape((math.prod(x.shape[:axis]), -1))
        return function(rows, axis=-1).reshape(x.shape)

    return run


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
    """The largest or smallest element; of no elements, what is beyond all of them."""
    some = _reduction(function)

    def run(node: Node, x: Any, axes: Given = None) -> Any:
        if x.size:
            return some(node, x, axes)
        chosen = {axis % x.ndim for axis in axes_of(node, axes) or range(x.ndim)}
        kept = bool(node.get("keepdims", 1))
        shape = [1 if at in chosen else size for at, size in enumerate(x.shape) if kept or at not in chosen]
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
    (at,) = numbers(axis)
    y = ag.cumsum(x, at, reverse=bool(node.get("reverse", 0)))
    y = y if y.dtype == x.dtype else y.astype(x.dtype)
    return y - x if node.get("exclusive", 0) else y


def _topk(node: Node, x: Any, k: Given = None) -> Any:
    count = node.get("k") if k is None else numbers(k)[0]
    return tuple(ag.topk(x, count, axis=node.get("axis", -1), largest=bool(node.get("largest", 1))))


OPERATORS: dict[str, Operator] = {
    **{
        name: _plain(getattr(ag, name.lower()))
        for name in (
            *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor"),
            *("IsNaN", "Log", "Mish", "Neg", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Sqrt"),
            *("Tan", "Tanh", "Add", "Sub", "Mul", "MatMul", "Where", "Softplus", "Softsign"),
        )
    },
    **{
        name: _plain(function)
        for name, function in {
            "Identity": lambda x: x,
            "Equal": ag.eq,
            "Less": ag.lt,
            "LessOrEqual": ag.le,
            "Greater": ag.gt,
            "GreaterOrEqual": ag.ge,
            "And": ag.logical_and,
            "Or": ag.logical_or,
            "Xor": ag.logical_xor,
            "Not": ag.logical_not,
            "HardSwish": lambda x: x * _hard_sigmoid(x, 1.0 / 6.0, 0.5),
            "BitwiseAnd": ag.bitwise_and,
            "BitwiseOr": ag.bitwise_or,
            "BitwiseXor": ag.bitwise_xor,
            "BitwiseNot": ag.bitwise_not,
        }.items()
    },
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
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "Einsum": _einsum,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "LpPool": _lp_pool,
    "GlobalAveragePool": _global(ag.mean),
    "GlobalMaxPool": _global(ag.amax),
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _rms_norm,
    "InstanceNormalization": _instance_norm,
    "GroupNormalization": _group_norm,
    "LRN": _local_response,
    "LpNormalization": _lp_norm,
    "MeanVarianceNormalization": _mean_variance,
    "Softmax": _soft(ag.softmax),
    "LogSoftmax": _soft(ag.log_softmax),
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

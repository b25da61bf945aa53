"""Imports ONNX operators that correspond to layers: convolution, matrix products, pooling, normalization, softmax."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.dtypes import integer_range, is_floating
from netcl.io.onnx.node import Node, Operator

# -- contractions ------------------------------------------------------------------------------------------------------


def _padding(node: Node, spatial: Sequence[int], kernel: Sequence[int], strides: Any, dilations: Any) -> Any:
    """Returns (before, after) per axis, from pads or auto_pad."""
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
    out_shape, auto = node.get("output_shape"), node.get("auto_pad", "NOTSET")
    if out_shape is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        out_shape = [n * s for n, s in zip(x.shape[2:], strides)]
    pads = list(node.get("pads", [0] * (2 * rank)))
    if out_shape is not None:
        totals = [size - out for size, out in zip(full, list(out_shape)[-rank:])]
        less, more = [total // 2 for total in totals], [total - total // 2 for total in totals]
        pads = [*less, *more] if auto == "SAME_UPPER" else [*more, *less]
    # Computed in full, then cropped: pads may differ on the two sides and exceed the kernel.
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


def _padded(x: Any, padding: Any, value: float) -> Any:
    """Pads ``x`` explicitly if the ``padding`` of a pooling cannot be so wide or differs on the two sides."""
    return ag.pad(x, [(0, 0), (0, 0), *padding], value=value) if any(pair != (0, 0) for pair in padding) else x


def _max_pool(node: Node, x: Any) -> Any:
    if len(node.outputs) > 1 or node.get("storage_order", 0):
        raise node.refuse("the second output")
    kernel, strides, dilations, padding = _window(node, x)
    function = {1: ag.max_pool1d, 2: ag.max_pool2d, 3: ag.max_pool3d}[len(kernel)]
    lowest = -math.inf if is_floating(x.dtype) else integer_range(x.dtype)[0]
    x = _padded(x, padding, lowest)
    return function(x, kernel, strides, 0, dilations, bool(node.get("ceil_mode", 0)))


def _average_pool(node: Node, x: Any) -> Any:
    kernel, strides, dilations, padding = _window(node, x)
    if any(dilation != 1 for dilation in dilations):
        raise node.refuse("dilation")
    function = {1: ag.avg_pool1d, 2: ag.avg_pool2d, 3: ag.avg_pool3d}[len(kernel)]
    ceil, counted = bool(node.get("ceil_mode", 0)), bool(node.get("count_include_pad", 0))
    if all(low == high and 2 * low <= k for (low, high), k in zip(padding, kernel)):
        return function(x, kernel, strides, [low for low, _ in padding], ceil, counted)
    total = function(_padded(x, padding, 0.0), kernel, strides, 0, ceil)
    if counted:
        return total
    # The fraction of each window that is inside.
    ones = Tensor.ones((1, 1, *x.shape[2:]), x.dtype, queue=x.queue)
    return total / function(_padded(ones, padding, 0.0), kernel, strides, 0, ceil)


def _lp_pool(node: Node, x: Any) -> Any:
    kernel, strides, dilations, padding = _window(node, x)
    p = float(node.get("p", 2))
    if any(dilation != 1 for dilation in dilations):
        raise node.refuse("dilation")
    function = {1: ag.avg_pool1d, 2: ag.avg_pool2d, 3: ag.avg_pool3d}[len(kernel)]
    powers = ag.pow(ag.abs(_padded(x, padding, 0.0)), p)
    mean = function(powers, kernel, strides, 0, bool(node.get("ceil_mode", 0)))
    return ag.pow(mean * float(math.prod(kernel)), 1.0 / p)


def _global(function: Callable[..., Any]) -> Operator:
    def run(node: Node, x: Any) -> Any:
        return function(x, axis=tuple(range(2, x.ndim)), keepdims=True)

    return run


def _batch_norm(node: Node, x: Any, weight: Any, bias: Any, mean: Any, var: Any) -> Any:
    """Uses the statistics of the file or, while the module trains, the statistics of the batch, which update them."""
    if node.get("training_mode", 0) or len(node.outputs) > 1:
        raise node.refuse("training_mode")
    # ONNX's momentum is the weight of the old statistics.
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
    return y, ag.mean(x, axis=axes, keepdims=True), ag.rsqrt(ag.var(x, axis=axes, correction=0, keepdims=True) + eps)


def _rms_norm(node: Node, x: Any, weight: Any) -> Any:
    axis = node.get("axis", -1) % x.ndim
    return ag.rms_norm(x, x.shape[axis:], eps=float(node.get("epsilon", 1e-5))) * weight


def _instance_norm(node: Node, x: Any, weight: Any, bias: Any) -> Any:
    return ag.instance_norm(x, weight, bias, eps=float(node.get("epsilon", 1e-5)))


def _group_norm(node: Node, x: Any, weight: Any, bias: Any) -> Any:
    groups = node.get("num_groups")
    if node.opset < 21:  # then there is one weight per group
        weight, bias = (ag.repeat(v, x.shape[1] // groups, axis=0) for v in (weight, bias))
    return ag.group_norm(x, groups, weight, bias, eps=float(node.get("epsilon", 1e-5)))


def _local_response(node: Node, x: Any) -> Any:
    size = node.get("size")
    low = (size - 1) // 2
    squares = ag.pad(x * x, [(0, 0), (low, size - 1 - low), *[(0, 0)] * (x.ndim - 2)])
    total = ag.narrow(squares, 1, 0, x.shape[1])
    for offset in range(1, size):
        total = total + ag.narrow(squares, 1, offset, x.shape[1])
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
        # Before opset 13 all axes from ``axis`` on were flattened into one.
        axis = node.get("axis", 1) % max(x.ndim, 1)
        rows = x.reshape((math.prod(x.shape[:axis]), -1))
        return function(rows, axis=-1).reshape(x.shape)

    return run


LAYER_OPERATORS: dict[str, Operator] = {
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
}

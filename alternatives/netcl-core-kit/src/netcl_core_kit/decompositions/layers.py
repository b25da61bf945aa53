"""Functions of layers: norms, pooling, convolutions of other layouts, attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import netcl.ops as ops
from netcl.core.dtypes import is_floating
from netcl.core.errors import DTypeError, ShapeError
from netcl.core.layout import broadcast_shapes
from netcl.core.ops_table.dispatch import assign
from netcl.core.tensor import Tensor

AMP = {
    **dict.fromkeys(("batch_norm", "conv_tbc", "depthwise_conv2d", "scaled_dot_product_attention"), "half"),
    **dict.fromkeys(
        ("group_norm", "instance_norm", "layer_norm", "local_response_norm", "rms_norm", "rope"), "float32"
    ),
}


def _wide(x: Tensor) -> Any:
    """x in float32 at least, in which statistics are computed."""
    return x if x.dtype in ("float32", "float64") else ops.cast(x, dtype="float32")


def _scaled(y: Any, weight: Any, bias: Any, dtype: str) -> Any:
    y = y if weight is None else ops.mul(y, weight)
    y = y if bias is None else ops.add(y, bias)
    return y if y.dtype == dtype else ops.cast(y, dtype=dtype)


def _standardized(x: Tensor, axes: tuple[int, ...], eps: float) -> Any:
    wide = _wide(x)
    centred = ops.sub(wide, ops.mean(wide, axes, True))
    return ops.mul(centred, ops.rsqrt(ops.add(ops.mean(ops.square(centred), axes, True), eps)))


def _trailing(op: str, x: Tensor, normalized_shape: Any, *given: Tensor | None) -> tuple[int, ...]:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape or x.shape[-len(shape) :] != shape or any(one is not None and one.shape != shape for one in given):
        shapes = [None if one is None else one.shape for one in given]
        raise ShapeError(f"{op}: x {x.shape}, normalized_shape {shape}, weight and bias {shapes}")
    return tuple(range(x.ndim - len(shape), x.ndim))


def layer_norm(
    x: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-05
) -> Any:
    """Normalizes over the last axes, of lengths ``normalized_shape``; weight and bias have that shape."""
    axes = _trailing("layer_norm", x, normalized_shape, weight, bias)
    return _scaled(_standardized(x, axes, eps), weight, bias, x.dtype)


def rms_norm(x: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float = 1e-06) -> Any:
    """x / sqrt(mean(x^2) + eps) over the last axes, times weight."""
    axes = _trailing("rms_norm", x, normalized_shape, weight)
    wide = _wide(x)
    scale = ops.rsqrt(ops.add(ops.mean(ops.square(wide), axes, True), eps))
    return _scaled(ops.mul(wide, scale), weight, None, x.dtype)


def group_norm(
    x: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-05
) -> Any:
    """Normalizes x (N, C, ...) over ``num_groups`` groups of channels; weight and bias (C,)."""
    if x.ndim < 2 or num_groups < 1 or x.shape[1] % num_groups:
        raise ShapeError(f"group_norm: x {x.shape}, num_groups {num_groups}; C a multiple of it")
    n, c, *spatial = x.shape
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and value.shape != (c,):
            raise ShapeError(f"group_norm: {name} {value.shape} for x {x.shape}; expected ({c},)")
    groups = (num_groups, c // num_groups)
    w, b = (None if value is None else ops.reshape(value, (*groups, 1)) for value in (weight, bias))
    apart = ops.reshape(x, (n, *groups, math.prod(spatial)))
    return ops.reshape(_scaled(_standardized(apart, (2, 3), eps), w, b, x.dtype), x.shape)


def instance_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-05) -> Any:
    """Normalizes each channel of each sample of x (N, C, ...) over its spatial axes."""
    if x.ndim < 3:
        raise ShapeError(f"instance_norm: x {x.shape}; expected (N, C, spatial...)")
    return ops.group_norm(x, x.shape[1], weight, bias, eps)


def _move(running: Tensor | None, value: Any, momentum: float) -> None:
    if running is not None:
        plain = value.detach()
        assign(
            running, ops.add(ops.mul(running.detach(), 1 - momentum), ops.mul(plain.astype(running.dtype), momentum))
        )


def batch_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Any:
    """Normalizes x (N, C, ...) per channel by statistics of the batch, which move the running ones, or by these."""
    if x.ndim < 2:
        raise ShapeError(f"batch_norm: x {x.shape}; expected (N, C, ...)")
    c = x.shape[1]
    given = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    for name, value in given.items():
        if value is not None and value.shape != (c,):
            text = f"batch_norm: {name} {value.shape} for x {x.shape}; expected ({c},)"
            raise ShapeError(text, op="batch_norm", parameter=name)
    column = (c,) + (1,) * (x.ndim - 2)
    w, b = (None if value is None else ops.reshape(value, column) for value in (weight, bias))
    wide = _wide(x)
    if training:
        count = int(x.size) // c if c else 0
        if count == 1:
            raise ShapeError(f"batch_norm: x {x.shape} has one element per channel; training needs more")
        axes = (0, *range(2, x.ndim))
        mean = ops.mean(wide, axes, True)
        centred = ops.sub(wide, mean)
        var = ops.mean(ops.square(centred), axes, True)
        if count:
            _move(running_mean, ops.reshape(mean, (c,)), momentum)
            _move(running_var, ops.mul(ops.reshape(var, (c,)), count / (count - 1)), momentum)
    elif running_mean is None or running_var is None:
        raise ValueError("batch_norm: running_mean and running_var are needed unless training")
    else:
        centred, var = ops.sub(wide, ops.reshape(running_mean, column)), ops.reshape(running_var, column)
    return _scaled(ops.mul(centred, ops.rsqrt(ops.add(var, eps))), w, b, x.dtype)


def local_response_norm(x: Tensor, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0) -> Any:
    """x / (k + alpha m)^beta of x (N, C, spatial...), with m the mean of x^2 over ``size`` neighboring channels."""
    if x.ndim < 3 or not isinstance(size, (int, np.integer)) or size < 1:
        raise ShapeError(f"local_response_norm: x {x.shape}, size {size!r}")
    if x.size == 0:
        return x
    channels, before = x.shape[1], int(size) // 2
    around = [(0, 0), (before, (int(size) - 1) // 2)] + [(0, 0)] * (x.ndim - 2)
    squares = ops.pad(ops.square(x), around)
    total: Any = ops.narrow(squares, 1, 0, channels)
    for place in range(1, int(size)):
        total = ops.add(total, ops.narrow(squares, 1, place, channels))
    return ops.div(x, ops.pow(ops.add(ops.mul(total, alpha / int(size)), k), beta))


def depthwise_conv2d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1
) -> Any:
    """conv2d with one group per channel: x (N, C, H, W), weight (C * multiplier, 1, kH, kW), bias (C * multiplier,)."""
    if x.ndim not in (3, 4):
        raise ShapeError(f"depthwise_conv2d: x {x.shape}; expected (N, C, H, W) or (C, H, W)")
    return ops.conv2d(x, weight, bias, stride, padding, dilation, groups=x.shape[-3])


def conv_tbc(x: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Any:
    """The convolution of sequences with the time first: x (T, N, C), weight (K, C, F) and bias (F,) give (T', N, F)."""
    if x.ndim != 3 or weight.ndim != 3 or x.shape[2] != weight.shape[1] or bias.shape != weight.shape[2:]:
        raise ShapeError(
            f"conv_tbc: x {x.shape}, weight {weight.shape}, bias {bias.shape}; expected (T, N, C), (K, C, F) and (F,)"
        )
    result = ops.conv1d(ops.permute(x, (1, 2, 0)), ops.permute(weight, (2, 1, 0)), bias, padding=pad)
    return ops.permute(result, (2, 0, 1))


def avg_pool1d(
    x: Tensor,
    kernel_size: Any = 2,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The average of each window of x (N, C, L) or (C, L): ``avg_pool2d`` of images with one row."""
    if x.ndim not in (2, 3):
        raise ShapeError(f"avg_pool1d: x {x.shape}; expected (N, C, L) or (C, L)")

    def across(value: Any, row: int) -> Any:
        return (row, int(value) if isinstance(value, (int, np.integer)) else tuple(value)[0])

    windows = (across(kernel_size, 1), None if stride is None else across(stride, 1), across(padding, 0))
    y = ops.avg_pool2d(ops.unsqueeze(x, -2), *windows, ceil_mode, count_include_pad, divisor_override)
    return ops.squeeze(y, -2)


def _lp_pool(op: str, x: Tensor, norm_type: float, pool: Any, *options: Any) -> Any:
    if not norm_type > 0:
        raise ValueError(f"{op}: norm_type is a positive number, not {norm_type!r}")
    return ops.pow(pool(ops.pow(ops.abs(x), float(norm_type)), *options), 1 / norm_type)


def lp_pool1d(x: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """(sum of |x|^norm_type)^(1 / norm_type) of each window of x (N, C, L) or (C, L)."""
    return _lp_pool("lp_pool1d", x, norm_type, ops.avg_pool1d, kernel_size, stride, 0, ceil_mode, True, 1)


def lp_pool2d(x: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """(sum of |x|^norm_type)^(1 / norm_type) of each window of x (N, C, H, W) or (C, H, W)."""
    return _lp_pool("lp_pool2d", x, norm_type, ops.avg_pool2d, kernel_size, stride, 0, ceil_mode, True, 1)


_MOST_SECTIONS = 1 << 16  # of a shorter axis


def _adaptive(op: str, n: int, x: Tensor, output_size: Any) -> Any:
    """Means of sections of nearly equal length, along each axis by a product with a matrix of their weights."""
    if x.ndim not in (n + 1, n + 2):
        raise ShapeError(f"{op}: x {x.shape}; expected (N, C) or (C,) and {n} axes")
    sizes = (output_size,) * n if output_size is None or isinstance(output_size, int) else tuple(output_size)
    most = max(_MOST_SECTIONS, *x.shape)
    if len(sizes) != n or any(size is not None and not 1 <= size <= most for size in sizes):
        raise ShapeError(f"{op}: output_size {output_size}; expected {n} numbers from 1 to {most}, or None")
    y: Any = _wide(x)
    for axis, size in zip(range(x.ndim - n, x.ndim), sizes):
        length = x.shape[axis]
        if size is None or size == length:
            continue
        weights = np.zeros((length, size))
        for place in range(size):
            start, end = place * length // size, -(-(place + 1) * length // size)
            weights[start:end, place] = 1 / (end - start)
        table = Tensor.from_host(x.queue, weights, y.dtype)
        order = [*(a for a in range(x.ndim) if a != axis), axis]
        back = [order.index(a) for a in range(x.ndim)]
        y = ops.permute(ops.matmul(ops.permute(y, order), table), back)
    return y if y.dtype == x.dtype else ops.cast(y, dtype=x.dtype)


def adaptive_avg_pool1d(x: Tensor, output_size: Any) -> Any:
    """The means of ``output_size`` sections of x (N, C, L) or (C, L)."""
    return _adaptive("adaptive_avg_pool1d", 1, x, output_size)


def adaptive_avg_pool2d(x: Tensor, output_size: Any) -> Any:
    """The means of ``output_size`` sections of x (N, C, H, W) or (C, H, W)."""
    return _adaptive("adaptive_avg_pool2d", 2, x, output_size)


def adaptive_avg_pool3d(x: Tensor, output_size: Any) -> Any:
    """The means of ``output_size`` sections of x (N, C, D, H, W) or (C, D, H, W)."""
    return _adaptive("adaptive_avg_pool3d", 3, x, output_size)


def rrelu(x: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Any:
    """x if positive, else x times a slope, uniform in [lower, upper) for each element; their middle unless training."""
    if not lower <= upper:
        raise ValueError(f"rrelu: lower {lower} is above upper {upper}")
    if not training:
        return ops.leaky_relu(x, slope=(lower + upper) / 2)
    if not is_floating(x.dtype):
        raise DTypeError(f"rrelu: expected floating dtypes, got {x.dtype}; convert with astype")
    return ops.prelu(x, ops.uniform(lower, upper, shape=x.shape, dtype=x.dtype, queue=x.queue))


def rope(x: Tensor, positions: Tensor | int | None = None, base: float = 10000.0, interleaved: bool = False) -> Any:
    """Rotary position embedding of x (..., T, D), D even: pair i of position p rotated by p / base^(2i / D)."""
    if x.ndim < 2 or x.shape[-1] % 2 or not x.shape[-1]:
        raise ShapeError(f"rope: x {x.shape}; expected (..., T, D) with an even D")
    if not is_floating(x.dtype):
        raise DTypeError(f"rope: expected floating dtypes, got {x.dtype}")
    wide, half = _wide(x), x.shape[-1] // 2
    rates = Tensor.from_host(x.queue, float(base) ** (-np.arange(half) / half), wide.dtype)
    if isinstance(positions, Tensor):
        places: Any = ops.cast(ops.unsqueeze(positions, -1), dtype=wide.dtype)
    else:
        counted = np.arange(x.shape[-2], dtype=np.float64) + (positions or 0)
        places = Tensor.from_host(x.queue, counted[:, None], wide.dtype)
    angles = ops.mul(places, rates)
    cosine, sine = ops.cos(angles), ops.sin(angles)
    if interleaved:
        a, b = ops.unbind(ops.reshape(wide, (*x.shape[:-1], half, 2)), -1)
    else:
        a, b = ops.chunk(wide, 2, -1)
    turned = [ops.sub(ops.mul(a, cosine), ops.mul(b, sine)), ops.add(ops.mul(b, cosine), ops.mul(a, sine))]
    y = ops.reshape(ops.stack(turned, -1), x.shape) if interleaved else ops.cat(turned, -1)
    return y if y.dtype == x.dtype else ops.cast(y, dtype=x.dtype)


def scaled_dot_product_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """softmax(scale q k^T + mask) v: q (..., queries, E), k (..., keys, E), v (..., keys, V)."""
    op = "scaled_dot_product_attention"
    visible: Any = None
    if min(q.ndim, k.ndim, v.ndim) < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ShapeError(f"{op}: q {q.shape}, k {k.shape}, v {v.shape}; expected (..., L, E), (..., S, E), (..., S, V)")
    lead = [one.shape[: -3 if enable_gqa else -2] for one in (q, k, v)]
    broadcast_shapes(lead, f"{op}: q {q.shape}, k {k.shape}, v {v.shape}: leading")
    if mask is not None and is_causal:
        raise ValueError(f"{op}: give mask or is_causal, not both")
    if mask is not None and mask.dtype != "bool" and not is_floating(mask.dtype):
        raise DTypeError(f"{op}: mask of {mask.dtype}; expected bool or floating")
    factor = (1 / math.sqrt(q.shape[-1]) if q.shape[-1] else 1.0) if scale is None else float(scale)
    if enable_gqa:
        if min(q.ndim, k.ndim) < 3 or not k.shape[-3] or q.shape[-3] % k.shape[-3]:
            raise ShapeError(f"{op}: heads of q {q.shape} are a multiple of those of k {k.shape}")
        k, v = (ops.repeat(one, q.shape[-3] // k.shape[-3], -3) for one in (k, v))
    scores: Any = ops.matmul(ops.mul(q, factor), k, transpose_b=True)
    if is_causal:
        visible = ops.causal_mask(q.shape[-2], k.shape[-2], queue=q.queue)
    elif mask is not None and mask.dtype == "bool":
        visible = mask
    elif mask is not None:
        scores = ops.add(scores, mask)
    hidden = ops.eq(scores, -math.inf) if visible is None else ops.logical_not(visible)
    scores = ops.where(hidden, -math.inf, scores)
    # A query without a visible key gives 0: its scores are replaced before the softmax, its weights after it.
    none = ops.all(ops.eq(scores, -math.inf), -1, True)
    weights: Any = ops.where(none, 0.0, ops.softmax(ops.where(none, 0.0, scores), -1))
    if dropout_p:
        weights = ops.dropout(weights, dropout_p)
    return ops.matmul(weights, v)

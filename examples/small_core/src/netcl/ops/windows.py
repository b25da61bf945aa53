"""Convolution and pooling, by NumPy's windows."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from netcl.core.errors import ShapeError
from netcl.core.tensor import Tensor, tensor_of
from netcl.ops.table import computed


def _pair(value):
    return (value, value) if np.ndim(value) == 0 else tuple(value)


def _windows(array, kernel, stride, dilation):
    """(..., out height, out width, kernel height, kernel width)."""
    spans = [(size - 1) * step + 1 for size, step in zip(kernel, dilation)]
    found = sliding_window_view(array, spans, (-2, -1))
    return found[..., :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]


@computed(amp="half")
def conv2d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride=1, padding=0, dilation=1, groups=1, algo=None):
    """The convolution of (N, C, H, W) or (C, H, W) with (F, C / groups, kernel...)."""
    if x.ndim == 3:
        batch = tensor_of(x.array[None])
        return conv2d(batch, weight, bias, stride, padding, dilation, groups)[0]
    stride, dilation, kernel = _pair(stride), _pair(dilation), weight.shape[2:]
    if x.ndim != 4 or weight.ndim != 4 or x.shape[1] != weight.shape[1] * groups:
        raise ShapeError(f"conv2d: x {x.shape}, weight {weight.shape}, groups {groups}", op="conv2d")
    if padding == "same":
        padding = [((size - 1) * step // 2, -((size - 1) * step // -2)) for size, step in zip(kernel, dilation)]
    borders = [_pair(one) for one in _pair(0 if padding == "valid" else padding)]
    array = np.pad(x.array, [(0, 0), (0, 0), *borders])
    parts = zip(np.split(_windows(array, kernel, stride, dilation), groups, 1), np.split(weight.array, groups, 0))
    result = np.concatenate([np.einsum("nchwij,fcij->nfhw", a, b, optimize=True) for a, b in parts], 1)
    return tensor_of(result if bias is None else result + bias.array[:, None, None])


def _pooled(x, kernel, stride, padding, dilation, ceil_mode, outside):
    """The windows of x with its border, and those of a mask: 2 for elements, 1 for the border, 0 beyond it."""
    kernel, dilation, padding = _pair(kernel), _pair(dilation), _pair(padding)
    stride = kernel if stride is None else _pair(stride)
    borders = []
    for size, extent, step, edge, gap in zip(x.shape[-2:], kernel, stride, padding, dilation):
        room, span = size + 2 * edge, (extent - 1) * gap + 1
        more = -(room - span) % step if ceil_mode else 0
        if more and room - span + more >= size + edge:
            more = 0
        borders.append((edge, more))
    inner = [(0, 0)] * (x.ndim - 2) + [(edge, edge) for edge, _ in borders]
    beyond = [(0, 0)] * (x.ndim - 2) + [(0, more) for _, more in borders]
    mask = np.pad(np.pad(np.full(x.shape, 2), inner, constant_values=1), beyond)
    wide = np.pad(x.array, np.add(inner, beyond), constant_values=outside)
    return [_windows(one, kernel, stride, dilation) for one in (wide, mask)]


@computed()
def max_pool2d(x: Tensor, kernel_size=2, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest element of each window."""
    least = -np.inf if x.array.dtype.kind == "f" else np.iinfo(x.array.dtype).min
    windows, _ = _pooled(x, kernel_size, stride, padding, dilation, ceil_mode, least)
    result = tensor_of(windows.max((-2, -1)))
    if not return_indices:
        return result
    flat = np.broadcast_to(np.arange(x.shape[-2] * x.shape[-1]).reshape(x.shape[-2:]), x.shape)
    places, _ = _pooled(tensor_of(flat), kernel_size, stride, padding, dilation, ceil_mode, -1)
    first = windows.reshape(*windows.shape[:-2], -1).argmax(-1)[..., None]
    found = np.take_along_axis(places.reshape(*places.shape[:-2], -1), first, -1)
    return result, tensor_of(found[..., 0].astype("int32"))


@computed()
def avg_pool2d(
    x: Tensor, kernel_size=2, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    """The average of each window."""
    windows, mask = _pooled(x, kernel_size, stride, padding, 1, ceil_mode, 0)
    counted = (mask > (0 if count_include_pad else 1)).sum((-2, -1))
    return tensor_of((windows.sum((-2, -1), dtype="float64") / (divisor_override or counted)).astype(x.dtype))

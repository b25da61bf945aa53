"""Rows of images that are resized, sampled and cut into windows, of distances, and of bags of embeddings."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import inf, prod
from typing import Any

import torch

from netcl import ops
from netcl.core.ops_table import dispatch
from torch_netcl.memory import ENGINE, to_netcl
from torch_netcl.rows import floats, refuse

TABLE: dict[str, Callable[..., Any]] = {}


# -- resizing ----------------------------------------------------------------------------------------------------------


def _place(extent: int, length: int, factor: float | None, mode: str, aligned: bool) -> tuple[int, int, int]:
    """Returns where output o reads an axis, (step o + start) / unit, as (step, start, unit)."""
    if aligned:
        return (extent - 1, 0, length - 1) if length > 1 else (0, 0, 1)
    scale = 1 / Fraction(factor).limit_denominator(2**16) if factor else Fraction(extent, length)
    step, unit = scale.numerator, scale.denominator
    return (step, 0, unit) if mode == "near" else (2 * step, step if mode == "exact" else step - unit, 2 * unit)


def _add_resize(name: str, mode: str, rank: int, taps: int) -> None:
    def places(sizes: Any, out: Any, options: Any) -> Any:
        aligned, *factors = options if taps > 1 else (False, *options)
        factors = [*factors, *[None] * rank][:rank]
        return tuple([_place(*axis, mode, bool(aligned)) for axis in zip(sizes, out, factors)])

    def forward(x: Any, out: Any, *options: Any) -> Any:
        sizes = x.shape[2:] if x.ndim == rank + 2 and x.size and min(out) > 0 else refuse("shape")
        return dispatch.call("resample", x, tuple(out), taps, places(sizes, out, options))

    def backward(grad: Any, out: Any, shape: Any, *options: Any) -> Any:
        return dispatch.call("resample_grad", grad, tuple(shape), taps, places(shape[2:], out, options))

    TABLE[name], TABLE[f"{name}_backward"] = forward, backward


for _rank, _linear in ((1, "linear1d"), (2, "bilinear2d"), (3, "trilinear3d")):
    _add_resize(f"upsample_nearest{_rank}d", "near", _rank, 1)
    _add_resize(f"_upsample_nearest_exact{_rank}d", "exact", _rank, 1)
    _add_resize(f"upsample_{_linear}", "smooth", _rank, 2)
_add_resize("upsample_bicubic2d", "smooth", 2, 4)


# -- windows, borders and grids ----------------------------------------------------------------------------------------


def _columns(x, kernel, dilation, padding, stride):
    """Returns the windows of images as columns."""
    rows = ops.im2col(x if x.ndim == 4 and x.size else refuse("shape"), kernel, stride, padding, dilation)
    return ops.permute(ops.reshape(rows, (x.shape[0], -1, rows.shape[1])), (0, 2, 1))


def _image(x, size, kernel, dilation, padding, stride):
    """Returns the sums of columns at the places of their windows."""
    count, depth, length = x.shape if x.ndim == 3 and x.size else refuse("shape")
    rows = ops.reshape(ops.permute(x, (0, 2, 1)), (count * length, depth))
    return ops.col2im(rows, (count, depth // prod(kernel), *size), kernel, stride, padding, dilation)


def _border_back(mode: str) -> Callable[..., Any]:
    def back(grad: Any, x: Any, pad: Any) -> Any:
        sides = [tuple(pad[at : at + 2]) for at in range(0, len(pad), 2)][::-1]
        if min(pad) < 0 or not x.size:
            refuse("a negative pad")
        return dispatch.call("border_grad", grad, [(0, 0)] * (x.ndim - len(sides)) + sides, mode)

    return back


def _sampled(x, grid, mode, padding, aligned):
    """Returns images at the positions of a grid."""
    how = ("bilinear", "nearest", "bicubic")[mode], ("zeros", "border", "reflection")[padding]
    return ops.grid_sample(
        x if x.size and grid.size and x.dtype == grid.dtype else refuse("shape"), grid, *how, aligned
    )


TABLE |= {
    "im2col": _columns,
    "col2im": _image,
    **{f"reflection_pad{rank}d_backward": _border_back("reflect") for rank in (1, 2, 3)},
    **{f"replication_pad{rank}d_backward": _border_back("replicate") for rank in (1, 2, 3)},
    **dict.fromkeys(("grid_sampler_2d", "grid_sampler_3d"), _sampled),
}


# -- distances ---------------------------------------------------------------------------------------------------------


def _distances(a, b, p, compute_mode=None):
    """Returns the p-norms of the differences of all pairs of rows."""
    return ops.cdist(floats(a), b, p) if a.size and b.size and a.dtype == b.dtype else refuse("empty")


def _distances_back(grad, a, b, p, far):
    """Returns the gradient of distances by a; 0 where rows are equal."""
    grad, far = ops.unsqueeze(grad, -1), ops.unsqueeze(far, -1)
    apart = ops.sub(ops.unsqueeze(a, -2), ops.unsqueeze(b, -3))
    size = ops.abs(apart)
    if p == inf:
        slope = ops.mul(ops.sign(apart), ops.eq(size, far))
    elif p == 1:
        slope = ops.sign(apart)
    elif p == 2:
        slope = ops.div(apart, far)
    else:
        slope = ops.mul(ops.sign(apart), ops.pow(ops.div(size, far), p - 1)) if p > 1 else refuse("a norm below 1")
    return ops.sum(ops.where(ops.eq(far, 0), 0.0, ops.mul(grad, slope)), -2)


TABLE |= {"_cdist_forward": _distances, "_cdist_backward": _distances_back}


# -- bags of embeddings ------------------------------------------------------------------------------------------------


def _bags(weight, indices, offsets, scale=False, mode=0, sparse=False, weights=None, last=False, padding_idx=-1):
    """Returns the sum (mode 0) or mean (1) of the rows of each bag, the bag of each row, and the lengths of bags."""
    if mode == 2 or padding_idx >= 0 or sparse or scale or not indices.size or offsets.size <= last:
        refuse("the largest, a padding, a sparse gradient, or nothing")
    starts = ops.getitem(offsets, slice(0, -1)) if last else offsets
    bag = ops.sub(ops.searchsorted(starts, to_netcl(torch.arange(indices.size)), right=True), 1)
    lengths = ops.bincount(bag, None, starts.size)
    rows = ops.take(weight, indices, 0)
    rows = rows if weights is None else ops.mul(rows, ops.unsqueeze(weights, -1))
    total = ops.index_add(ENGINE.zeros((starts.size, weight.shape[1]), rows.dtype), 0, bag, rows)
    if mode:
        total = ops.div(total, ops.cast(ops.unsqueeze(ops.clamp(lengths, 1, None), -1), dtype=total.dtype))
    return total, bag, lengths, ENGINE.zeros((starts.size,), "int64")


def _bags_back(grad, indices, offsets, bag, lengths, largest, count, scale, mode, sparse, weights, padding_idx=-1):
    """Returns the gradient of bags by the table of rows."""
    if mode == 2 or sparse or scale or padding_idx >= 0 or bag.size != indices.size:
        refuse("the largest, a padding, or a sparse gradient")
    if mode:
        grad = ops.div(grad, ops.cast(ops.unsqueeze(ops.clamp(lengths, 1, None), -1), dtype=grad.dtype))
    rows = ops.take(grad, bag, 0)
    rows = rows if weights is None else ops.mul(rows, ops.unsqueeze(weights, -1))
    return dispatch.call("index_select_grad", rows, indices, 0, (count, grad.shape[1]))


def _weights_back(grad, weight, indices, offsets, bag, mode, padding_idx=-1):
    """Returns the gradient of bags by the weights of rows."""
    grad = grad if padding_idx < 0 and bag.size == indices.size else refuse("a padding")
    return ops.sum(ops.mul(ops.take(grad, bag, 0), ops.take(weight, indices, 0)), -1)


TABLE |= {
    **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only"), _bags),
    "_embedding_bag_backward": _bags_back,
    "_embedding_bag_per_sample_weights_backward": _weights_back,
}

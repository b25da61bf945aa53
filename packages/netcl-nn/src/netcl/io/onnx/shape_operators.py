"""Imports ONNX operators that move elements: shapes, slices, indices, padding, resizing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.io.onnx.node import Given, Node, Operator, axes_of, host, numbers


def _shape(node: Node, x: Any) -> Any:
    return np.array(x.shape[node.get("start", 0) : node.get("end")], np.int64)


def _size(node: Node, x: Any) -> Any:
    return np.array(x.size, np.int64)


def _reshape(node: Node, x: Any, shape: Given = None) -> Any:
    target = list(node.get("shape", ())) if shape is None else numbers(shape)
    if not node.get("allowzero", 0):
        target = [x.shape[axis] if size == 0 else size for axis, size in enumerate(target)]
    return ag.reshape(x, target)


def _transpose(node: Node, x: Any) -> Any:
    return ag.permute(x, node.get("perm") or list(range(x.ndim))[::-1])


def _flatten(node: Node, x: Any) -> Any:
    axis = node.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return ag.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


def _squeeze(node: Node, x: Any, axes: Given = None) -> Any:
    chosen = axes_of(node, axes)
    return ag.squeeze(x, None if chosen is None else tuple(chosen))


def _unsqueeze(node: Node, x: Any, axes: Given = None) -> Any:
    chosen = axes_of(node, axes) or []
    rank = x.ndim + len(chosen)
    places = {axis % rank for axis in chosen}
    sizes = iter(x.shape)
    return ag.reshape(x, [1 if dim in places else next(sizes) for dim in range(rank)])


def _concat(node: Node, *tensors: Any) -> Any:
    return ag.cat(list(tensors), axis=node.get("axis"))


def _split(node: Node, x: Any, split: Given = None) -> Any:
    axis = node.get("axis", 0)
    sizes = axes_of(node, split, "split")
    if sizes is None:
        count, length = node.get("num_outputs", len(node.outputs)), x.shape[axis]
        each = -(-length // count)
        sizes = [min(each, length - number * each) for number in range(count)]
    return tuple(ag.split(x, sizes, axis))


def _slice(
    node: Node, x: Any, starts: Given = None, ends: Given = None, axes: Given = None, steps: Given = None
) -> Any:
    first, last = axes_of(node, starts, "starts") or [], axes_of(node, ends, "ends") or []
    chosen = axes_of(node, axes) or list(range(len(first)))
    strides = [1] * len(first) if steps is None else numbers(steps)
    for start, end, axis, step in zip(first, last, chosen, strides):
        size = x.shape[axis]
        places = range(size)[slice(start, end if step > 0 or end >= -size else None, step)]
        x = _taken(x, axis % x.ndim, places)
    return x


def _taken(x: Any, axis: int, places: range) -> Any:
    """Returns the elements at ``places`` of an axis."""
    if places == range(x.shape[axis]):
        return x
    if not len(places):
        return ag.narrow(x, axis, 0, 0)
    low = min(places[0], places[-1])
    whole = ag.narrow(x, axis, low, abs(places[-1] - places[0]) + 1)
    key = (slice(None),) * axis + (slice(None, None, abs(places.step)),)
    if places.step < 0:
        whole = ag.flip(whole, axis)
    return whole if abs(places.step) == 1 else whole[key]


def _index(node: Node, x: Any, index: Any, axis: int) -> Any:
    """Returns indices on the device of ``x``, counted from the front."""
    if not isinstance(index, Tensor):
        index = np.asarray(index, np.int64)
        return Tensor.from_host(x.queue, np.where(index < 0, index + x.shape[axis], index))
    index = index if index.dtype in ("int32", "int64") else index.astype("int64")
    return ag.where(index < 0, index + x.shape[axis], index)


def _gather(node: Node, x: Any, indices: Any) -> Any:
    axis = node.get("axis", 0) % x.ndim
    if not isinstance(x, Tensor):
        raise node.refuse("a constant with indices on the device")
    return ag.take(x, _index(node, x, indices, axis), axis=axis)


def _gather_elements(node: Node, x: Any, indices: Any) -> Any:
    axis = node.get("axis", 0) % x.ndim
    return ag.take_along_axis(x, _index(node, x, indices, axis), axis=axis)


def _gather_nd(node: Node, x: Any, indices: Any) -> Any:
    if node.get("batch_dims", 0):
        raise node.refuse("batch_dims")
    depth = indices.shape[-1]
    strides = [math.prod(x.shape[axis + 1 : depth]) for axis in range(depth)]
    sizes = x.shape[:depth]
    places = np.asarray(host(indices), np.int64)
    places = np.where(places < 0, places + np.array(sizes), places)
    flat = Tensor.from_host(x.queue, (places * np.array(strides)).sum(-1))
    rows = x.reshape((math.prod(sizes), *x.shape[depth:]))
    return ag.take(rows, flat, axis=0)


def _scatter_elements(node: Node, x: Any, indices: Any, updates: Any) -> Any:
    axis = node.get("axis", 0) % x.ndim
    reduction = node.get("reduction", "none")
    index = _index(node, x, indices, axis)
    if reduction == "none":
        return ag.scatter(x, axis, index, updates)
    if reduction == "add":
        return ag.scatter_add(x, axis, index, updates)
    raise node.refuse(f"the reduction {reduction}")


def _expand(node: Node, x: Any, shape: Any) -> Any:
    return ag.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(numbers(shape))))


def _tile(node: Node, x: Any, repeats: Any) -> Any:
    return ag.tile(x, numbers(repeats))


def _pad(node: Node, x: Any, pads: Given = None, value: Given = None, axes: Given = None) -> Any:
    mode = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}[
        node.get("mode", "constant")
    ]
    amounts = axes_of(node, pads, "pads") or []
    chosen = axes_of(node, axes) or list(range(x.ndim))
    pairs = [(0, 0)] * x.ndim
    for number, axis in enumerate(chosen):
        pairs[axis % x.ndim] = (amounts[number], amounts[number + len(chosen)])
    filling = node.get("value", 0.0) if value is None else np.asarray(host(value)).item()
    return ag.pad(x, pairs, mode=mode, value=filling)


def _depth_to_space(node: Node, x: Any) -> Any:
    r = node.get("blocksize")
    n, c, h, w = x.shape
    if node.get("mode", "DCR") == "CRD":
        return ag.pixel_shuffle(x, r)
    blocks = ag.permute(x.reshape((n, r, r, c // (r * r), h, w)), (0, 3, 4, 1, 5, 2))
    return blocks.reshape((n, c // (r * r), h * r, w * r))


def _space_to_depth(node: Node, x: Any) -> Any:
    r = node.get("blocksize")
    n, c, h, w = x.shape
    order = (0, 1, 3, 5, 2, 4) if node.get("mode", "DCR") == "CRD" else (0, 3, 5, 1, 2, 4)
    blocks = ag.permute(x.reshape((n, c, h // r, r, w // r, r)), order)
    return blocks.reshape((n, c * r * r, h // r, w // r))


def _trilu(node: Node, x: Any, k: Given = None) -> Any:
    diagonal = 0 if k is None else numbers(k)[0]
    return (ag.triu if node.get("upper", 1) else ag.tril)(x, diagonal)


def _one_hot(node: Node, indices: Any, depth: Any, values: Any) -> Any:
    (count,) = numbers(depth)
    off, on = np.asarray(host(values)).tolist()
    axis = node.get("axis", -1)
    index = indices if indices.dtype in ("int32", "int64") else indices.astype("int64")
    index = ag.where(index < 0, index + count, index)
    places = Tensor.from_host(indices.queue, np.arange(count))
    rank = indices.ndim + 1
    axis = axis % rank
    hot = ag.eq(ag.unsqueeze(index, axis), places.reshape([count if dim == axis else 1 for dim in range(rank)]))
    dtype = values.dtype if isinstance(values, Tensor) else np.asarray(values).dtype.name
    return (hot.astype(dtype) * (on - off) + off).astype(dtype)


def _resize(node: Node, x: Any, roi: Given = None, scales: Given = None, sizes: Given = None) -> Any:
    """Resizes the spatial axes by nearest, linear or cubic interpolation, in the modes that PyTorch has too."""
    if node.opset < 11:
        scales = roi if scales is None else scales
    mode, rank = node.get("mode", "nearest"), x.ndim - 2
    how = node.get("coordinate_transformation_mode", "half_pixel") if node.opset >= 11 else "asymmetric"
    rounding = node.get("nearest_mode", "round_prefer_floor") if node.opset >= 11 else "floor"
    if node.get("axes") or node.get("antialias", 0) or node.get("exclude_outside", 0):
        raise node.refuse("axes, antialias or exclude_outside")
    names: dict[str, Any] = {
        "nearest": "nearest",
        "linear": {1: "linear", 2: "bilinear", 3: "trilinear"}.get(rank),
        "cubic": "bicubic" if rank == 2 and node.get("cubic_coeff_a", -0.75) == -0.75 else None,
    }
    supported = (how, rounding) == ("asymmetric", "floor") if mode == "nearest" else how in _LINEAR_MODES
    if not supported or names.get(mode) is None:
        raise node.refuse(f"{mode} with {how} and {rounding} over {x.ndim} axes")
    if sizes is not None and np.size(host(sizes)):
        target = numbers(sizes)
        options: dict[str, Any] = {"size": target[2:]}
        exact, same = True, target[:2] == list(x.shape[:2])
    else:
        factors = [float(f) for f in np.ravel(host(scales))] if scales is not None else list(node.get("scales", ()))
        lengths = [size * factor for size, factor in zip(x.shape, factors)]
        target, options = [math.floor(length) for length in lengths], {"scale_factor": factors[2:]}
        exact, same = all(length == int(length) for length in lengths), factors[:2] == [1.0, 1.0]
    odd = (how == "align_corners" and not exact) or (how == "pytorch_half_pixel" and 1 in target[2:])
    if not same or odd or node.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise node.refuse(f"{mode} with {how} from {x.shape} to {tuple(target)}")
    return ag.interpolate(x, mode=names[mode], align_corners=how == "align_corners" and mode != "nearest", **options)


_LINEAR_MODES = ("half_pixel", "pytorch_half_pixel", "align_corners")


SHAPE_OPERATORS: dict[str, Operator] = {
    "Shape": _shape,
    "Size": _size,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "ScatterElements": _scatter_elements,
    "Expand": _expand,
    "Tile": _tile,
    "Pad": _pad,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Trilu": _trilu,
    "OneHot": _one_hot,
    "Resize": _resize,
    "Upsample": _resize,
}

"""Reductions, scans, sorts."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import torch

from netcl.core.errors import DTypeError
from netcl.ops.kernels import HALF, WIDER, T, as_float, axes_of, axis_of, exactly, rows, silently, with_dtype


def _none(x: T, axes: tuple[int, ...], name: str) -> None:
    exactly(name, all(x.shape[axis] for axis in axes), f"no elements over axes {axes} of shape {tuple(x.shape)}")


def _wide(x: T, dtype: Any) -> T:
    """x as its sum or product is computed: integers and bool in int64."""
    if dtype is not None:
        return with_dtype(x, dtype)
    return x if x.is_floating_point() else x.to(torch.int64)


def _sum(x: T, axis: Any = None, keepdims: bool = False, *, dtype: Any = None) -> T:
    axes, x = axes_of(x, axis, "sum"), _wide(x, dtype)
    made = x.dtype
    x = x.to(WIDER.get(made, made))
    if not axes:
        return x.clone().to(made)
    return (torch.sum(x, axes, keepdim=keepdims) if x.dtype != torch.bool else x.any(dim=axes, keepdim=keepdims)).to(
        made
    )


def _mean(x: T, axis: Any = None, keepdims: bool = False, *, dtype: Any = None) -> T:
    axes, x = axes_of(x, axis, "mean"), with_dtype(x, dtype, True)
    return torch.mean(x, axes, keepdim=keepdims) if axes else x.clone()


def _prod(x: T, axis: Any = None, keepdims: bool = False, *, dtype: Any = None) -> T:
    axes, x = axes_of(x, axis, "prod"), _wide(x, dtype)
    made, value = x.dtype, x.float() if x.dtype in HALF else x
    if axis is None and not keepdims:
        return torch.prod(value).to(made)
    for one in reversed(axes):
        value = torch.prod(value, one, keepdim=keepdims)
    return value.to(made) if axes else value.clone().to(made)


def _extreme(name: str) -> Any:
    function = getattr(torch, name)

    def compute(x: T, axis: Any = None, keepdims: bool = False) -> T:
        axes = axes_of(x, axis, name)
        _none(x, axes, name)
        value = x.to(WIDER[x.dtype]) if x.dtype in WIDER else x
        return function(value, axes, keepdim=keepdims).to(x.dtype) if axes else x.clone()  # type: ignore[no-any-return]

    return compute


def _truth(name: str) -> Any:
    def compute(x: T, axis: Any = None, keepdims: bool = False) -> T:
        axes, value = axes_of(x, axis, name), x if x.dtype == torch.bool else x != 0
        if not axes:
            return value.clone()
        return getattr(torch, name)(value, axes, keepdim=keepdims)  # type: ignore[no-any-return]

    return compute


def _comparable(x: T) -> T:
    """x in a dtype of the same order in which PyTorch compares."""
    return x.to(torch.uint8) if x.dtype == torch.bool else x.to(WIDER.get(x.dtype, x.dtype))


def _position(name: str) -> Any:
    """argmax or argmin: the first of equal elements, as PyTorch's, and of NaNs."""
    function = getattr(torch, name)

    def compute(x: T, axis: int | None = None, keepdims: bool = False) -> T:
        _none(x, axes_of(x, axis, name), name)
        found = function(_comparable(x), None if axis is None else axis_of(x, axis, name))
        if not keepdims:
            return found  # type: ignore[no-any-return]
        return found.reshape((1,) * x.dim()) if axis is None else found.unsqueeze(axis)  # type: ignore[no-any-return]

    return compute


class _Pair(NamedTuple):
    """Values and positions."""

    values: T
    indices: T


def _pair_of(found: Any, x: T) -> _Pair:
    """PyTorch's values and positions, in the dtype of x."""
    return _Pair(found.values.to(x.dtype), found.indices)


def _along(name: str) -> Any:
    """max or min: over all elements, or along an axis values and positions, of which the first gets the gradient."""
    function, whole = getattr(torch, name), _extreme(f"a{name}")

    def compute(x: T, axis: Any = None, keepdims: bool = False) -> Any:
        if isinstance(axis, T):
            return getattr(torch, f"{name}imum")(x, axis)
        if axis is None:
            return whole(x, None, keepdims)
        axis = axis_of(x, axis, name)
        _none(x, (axis,) if x.dim() else (), name)
        return _pair_of(function(_comparable(x), axis, keepdims), x)

    return compute


def _spread(name: str) -> Any:
    """var or std, of half types in float32."""
    function = getattr(torch, name)

    def compute(x: T, axis: Any = None, correction: Any = 1, keepdims: bool = False) -> T:
        axes, x = axes_of(x, axis, name), as_float(x)
        value = x.float() if x.dtype in HALF else x
        if not axes:
            value, axes, keepdims = value.unsqueeze(-1), (x.dim(),), False
        # PyTorch warns of a result that is infinite or NaN for want of elements.
        few = math.prod(value.shape[axis] for axis in axes) <= correction
        call = partial(silently, function) if few else function
        return call(value, axes, correction=correction, keepdim=keepdims).to(x.dtype)  # type: ignore[no-any-return]

    return compute


def _norm(x: T, p: Any = 2, axis: Any = None, keepdims: bool = False) -> T:
    axes, x = axes_of(x, axis, "norm"), as_float(x)
    if p in (math.inf, -math.inf):
        _none(x, axes, "norm")
    if not axes:
        return x.abs()
    return torch.linalg.vector_norm(x, 2 if p == "fro" else p, axes, keepdim=keepdims)


def _softmax(function: Any, name: str) -> Any:
    def compute(x: T, axis: Any = -1, *, dtype: Any = None) -> T:
        x = with_dtype(x, dtype, True)
        axes = axes_of(x, axis, name)
        if len(axes) == 1:
            return function(x, axes[0])  # type: ignore[no-any-return]
        rest = [one for one in range(x.dim()) if one not in axes]
        moved = x.permute(*rest, *axes)
        value = function(moved.reshape(*(x.shape[one] for one in rest), -1), -1).reshape(moved.shape)
        back = sorted(range(x.dim()), key=[*rest, *axes].__getitem__)
        return value.permute(*back).contiguous()

    return compute


def _scan(function: Any, name: str) -> Any:
    def compute(x: T, axis: int, dtype: Any = None, reverse: bool = False) -> T:
        x = _wide(x, dtype)
        made, axis = x.dtype, axis_of(x, axis, name)
        value = x.to(torch.float64) if x.is_floating_point() and x.device.type != "mps" else x.to(WIDER.get(made, made))
        value = function(value.flip(axis) if reverse else value, axis)
        return (value.flip(axis) if reverse else value).to(made)

    return compute


def _cumulative(name: str) -> Any:
    """cummax or cummin: the position is the last of equal elements."""
    function = getattr(torch, name)
    return lambda x, axis: _pair_of(function(_comparable(x), axis_of(x, axis, name)), x)


def _linear_recurrence(x: T, decay: T, axis: int = -1, reverse: bool = False) -> T:
    exactly("linear_recurrence", x.shape == decay.shape, f"x is {tuple(x.shape)}, decay {tuple(decay.shape)}")
    axis = axis_of(x, axis, "linear_recurrence")
    if not x.dim():
        return as_float(x).clone()
    xs, decays = list(as_float(x).unbind(axis)), list(as_float(decay).unbind(axis))
    steps: list[T] = []
    for position in range(len(xs) - 1, -1, -1) if reverse else range(len(xs)):
        steps.append(xs[position] + decays[position] * steps[-1] if steps else xs[position] + 0 * decays[position])
    return torch.stack(steps[::-1] if reverse else steps, axis) if steps else x.clone()


def _sort(x: T, axis: int = -1, descending: bool = False, stable: bool = True) -> _Pair:
    axis = axis_of(x, axis, "sort")
    return _pair_of(torch.sort(_comparable(x), dim=axis, descending=descending, stable=True), x)


def _part(x: T, axis: int, start: int, length: int, descending: bool = False) -> _Pair:
    """A part of the elements in order along an axis."""
    found = _sort(x, axis, descending)
    return _Pair(*(one.narrow(axis, start, length).clone() if x.dim() else one for one in found))


def _topk(x: T, k: int, axis: int = -1, largest: bool = True, sorted: bool = True) -> _Pair:
    axis = axis_of(x, axis, "topk")
    exactly("topk", 0 <= k <= (x.shape[axis] if x.dim() else 1), f"k {k} for shape {tuple(x.shape)}")
    return _part(x, axis, 0, k, largest)


def _kth(x: T, k: int, axis: int = -1, keepdims: bool = False) -> _Pair:
    axis = axis_of(x, axis, "kthvalue")
    exactly("kthvalue", 1 <= k <= (x.shape[axis] if x.dim() else 1), f"k {k} for shape {tuple(x.shape)}")
    found = _part(x, axis, k - 1, 1)
    return found if keepdims or not x.dim() else _Pair(*(one.squeeze(axis) for one in found))


def _by_torch(name: str, default: int | None) -> Any:
    """median or mode: PyTorch's values and positions along an axis, or the value of all elements."""
    function = getattr(torch, name)

    def compute(x: T, axis: int | None = default, keepdims: bool = False) -> Any:
        _none(x, axes_of(x, axis, name), name)
        if axis is None:
            found = function(_comparable(x)).to(x.dtype)
            return found.reshape((1,) * x.dim()) if keepdims else found
        return _pair_of(function(_comparable(x), axis_of(x, axis, name), keepdims), x)

    return compute


def _searchsorted(
    sorted_sequence: T, values: Any, right: bool = False, side: str | None = None, out_int32: bool = False
) -> T:
    if side not in (None, "left", "right"):
        raise ValueError(f"searchsorted: expected side left or right, got {side!r}")
    values = values if isinstance(values, T) else torch.as_tensor(values, dtype=sorted_sequence.dtype)
    right = right or side == "right"
    dtype = torch.promote_types(sorted_sequence.dtype, values.dtype)
    a, b = sorted_sequence.to(dtype).contiguous(), values.to(dtype).contiguous()
    found = torch.searchsorted(a, b, right=right, out_int32=out_int32)
    if a.is_floating_point():  # NaN is the largest
        numbers = (~torch.isnan(a)).sum(-1, keepdim=a.dim() > 1)
        found = torch.where(torch.isnan(b), numbers if not right else a.shape[-1], found).to(found.dtype)
    return found


def _unique(x: T, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Any:
    found = torch.unique(_comparable(x), return_inverse=True, return_counts=True)
    return _distinct(x, found, None, return_inverse, return_counts)


def _consecutive(x: T, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None) -> Any:
    axis = None if axis is None else axis_of(x, axis, "unique_consecutive")
    found = torch.unique_consecutive(_comparable(x), return_inverse=True, return_counts=True, dim=axis)
    return _distinct(x, found, axis, return_inverse, return_counts)


def _distinct(x: T, found: Any, axis: int | None, return_inverse: bool, return_counts: bool) -> Any:
    """The first of equal elements, which gets their gradient, and what else is wanted."""
    _, inverse, counts = found
    last = torch.full_like(counts, inverse.numel())
    first = last.scatter_reduce(0, inverse.reshape(-1), torch.arange(inverse.numel(), device=x.device), "amin")
    values = x.reshape(-1)[first] if axis is None else x.index_select(axis, first)
    results = (values, *([inverse] if return_inverse else []), *([counts] if return_counts else []))
    return results if len(results) > 1 else values


def _histc(x: T, bins: int = 100, min: float = 0, max: float = 0) -> T:
    if bins < 1 or min > max:
        raise ValueError(f"histc: {bins} bins from {min} to {max}")
    return torch.histc(x.float() if x.dtype in HALF else x, bins, min, max).to(x.dtype)


def _histogram(x: T, bins: Any = 10, range: Any = None, density: bool = False, weight: Any = None) -> tuple[T, T]:
    wide = as_float(x).reshape(-1)
    if isinstance(bins, int):
        if bins < 1 or (range is not None and not range[0] < range[1]):
            raise ValueError(f"histogram: {bins} bins over {range}")
        ends = (float(wide.min()), float(wide.max())) if wide.numel() and range is None else (0.0, 1.0)
        low, high = ends if range is None else range
        if not math.isfinite(low) or not math.isfinite(high):
            raise ValueError(f"histogram: the range of the elements, [{low}, {high}], is not finite")
        low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
        edges = torch.linspace(low, high, bins + 1, dtype=torch.float64, device=x.device).to(wide.dtype)
    else:
        edges = bins.to(wide.dtype) if isinstance(bins, T) else torch.tensor(bins, dtype=wide.dtype, device=x.device)
        if edges.dim() != 1 or len(edges) < 2 or bool((edges[1:] < edges[:-1]).any()):
            raise ValueError("histogram: edges are a rising sequence of two or more")
    place = torch.searchsorted(edges, wide, right=True) - 1
    place = torch.where(wide == edges[-1], len(edges) - 2, place)
    inside = (wide >= edges[0]) & (wide <= edges[-1])
    sums = None if weight is None else weight.to(wide.dtype).reshape(-1)[inside]
    counts = torch.bincount(place[inside], sums, minlength=len(edges) - 1)
    return (counts.to(wide.dtype) / (counts.sum() * torch.diff(edges)) if density else counts), edges


def _bincount(x: T, weights: T | None = None, minlength: int = 0) -> T:
    if x.numel() and bool((x < 0).any()):
        raise ValueError("bincount: x has a negative element")
    length = max(int(x.max()) + 1 if x.numel() else 0, minlength)
    if weights is None:
        return torch.bincount(x.to(torch.int64), minlength=length)
    return torch.zeros(length, dtype=weights.dtype, device=x.device).index_add(0, x.to(torch.int64), weights)


def _logcumsumexp(x: T, axis: int) -> T:
    if not x.is_floating_point():
        raise DTypeError("logcumsumexp takes floating tensors")
    return torch.logcumsumexp(x, axis_of(x, axis, "logcumsumexp"))


_AXIS = "x: Tensor, axis=None, keepdims=False"
rows("float32", {
    f"sum({_AXIS}, *, dtype=None)": _sum, f"reduce_sum({_AXIS}, *, dtype=None)": _sum,
    f"mean({_AXIS}, *, dtype=None)": _mean, f"reduce_mean({_AXIS}, *, dtype=None)": _mean,
}, reads="nothing")  # fmt: skip
rows("float32", {
    f"prod({_AXIS}, *, dtype=None)": _prod, f"amax({_AXIS})": _extreme("amax"), f"amin({_AXIS})": _extreme("amin"),
    f"max({_AXIS})": _along("max"), f"min({_AXIS})": _along("min"),
    "var(x: Tensor, axis=None, correction=1, keepdims=False)": _spread("var"),
    "std(x: Tensor, axis=None, correction=1, keepdims=False)": _spread("std"),
    "norm(x: Tensor, p=2, axis=None, keepdims=False)": _norm,
    f"logsumexp({_AXIS})": lambda x, axis=None, keepdims=False: torch.logsumexp(
        as_float(x), axes_of(x, axis, "logsumexp"), keepdim=keepdims) if x.dim() else as_float(x).clone(),
    "cumsum(x: Tensor, axis, dtype=None, reverse=False)": _scan(torch.cumsum, "cumsum"),
    "cumprod(x: Tensor, axis, dtype=None)": _scan(torch.cumprod, "cumprod"),
    "logcumsumexp(x: Tensor, axis)": _logcumsumexp,
    "linear_recurrence(x: Tensor, decay: Tensor, axis=-1, reverse=False)": _linear_recurrence,
})  # fmt: skip
rows("float32", {
    "softmax(x: Tensor, axis=-1, *, dtype=None)": _softmax(torch.softmax, "softmax"),
    "log_softmax(x: Tensor, axis=-1, *, dtype=None)": _softmax(torch.log_softmax, "log_softmax"),
}, reads="result")  # fmt: skip
rows("widest", {
    "sort(x: Tensor, axis=-1, descending=False, stable=True)": _sort,
    "topk(x: Tensor, k, axis=-1, largest=True, sorted=True)": _topk,
    "kthvalue(x: Tensor, k, axis=-1, keepdims=False)": _kth,
    "median(x: Tensor, axis=None, keepdims=False)": _by_torch("median", None),
    "mode(x: Tensor, axis=-1, keepdims=False)": _by_torch("mode", -1),
    "unique(x: Tensor, sorted=True, return_inverse=False, return_counts=False)": _unique,
    "unique_consecutive(x: Tensor, return_inverse=False, return_counts=False, axis=None)": _consecutive,
    "cummax(x: Tensor, axis)": _cumulative("cummax"), "cummin(x: Tensor, axis)": _cumulative("cummin"),
    "bincount(x: Tensor, weights: Tensor | None = None, minlength=0)": _bincount,
})  # fmt: skip
rows("widest", {
    f"all({_AXIS})": _truth("all"), f"any({_AXIS})": _truth("any"),
    f"argmax({_AXIS})": _position("argmax"), f"argmin({_AXIS})": _position("argmin"),
    f"count_nonzero({_AXIS})": lambda x, axis=None, keepdims=False: _sum(x != 0, axis, keepdims),
    "searchsorted(sorted_sequence: Tensor, values: Tensor, right=False, side=None, out_int32=False)": _searchsorted,
    "histogram(x: Tensor, bins=10, range=None, density=False, weight=None)": _histogram,
}, gradient=False)  # fmt: skip
rows("widest", {"histc(x: Tensor, bins=100, min=0, max=0)": _histc}, gradient=False, dtypes="floating")

"""Reductions, scans, sorts."""

from __future__ import annotations

import math
from typing import Any

import torch

from netcl.core.errors import DTypeError
from netcl.ops.kernels import HALF, WIDER, T, as_float, axes_of, axis_of, exactly, rows, with_dtype


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


def _position(name: str) -> Any:
    function = torch.max if name == "argmax" else torch.min

    def compute(x: T, axis: int | None = None, keepdims: bool = False) -> T:
        value = x.to(torch.int64) if x.dtype == torch.bool or x.dtype in WIDER else x
        axes = axes_of(x, axis, name)
        _none(x, axes, name)
        if axis is None:
            found = _first(function, value.reshape(-1), 0)
            return found.reshape((1,) * x.dim()) if keepdims else found.reshape(())
        if not x.dim():
            return torch.zeros((), dtype=torch.int64, device=x.device)
        found = _first(function, value, axes[0])
        return found if keepdims else found.squeeze(axes[0])

    return compute


def _first(function: Any, x: T, axis: int) -> T:
    """The position of the first largest or smallest element, of the first NaN if there is one; ``axis`` has length 1."""
    best = function(x, axis, keepdim=True).values
    same = (x == best) | (torch.isnan(x) if x.is_floating_point() else False)
    if x.is_floating_point():
        same = torch.where(torch.isnan(best), torch.isnan(x), x == best)
    return torch.max(same.to(torch.uint8), axis, keepdim=True).indices if x.device.type != "cpu" else (
        same.to(torch.uint8).argmax(axis, keepdim=True))  # fmt: skip


def _along(name: str) -> Any:
    """max or min: over all elements, or along an axis values and positions, of which the first gets the gradient."""
    position, whole = _position(f"arg{name}"), _extreme(f"a{name}")

    def compute(x: T, axis: Any = None, keepdims: bool = False) -> Any:
        if isinstance(axis, T):
            return getattr(torch, f"{name}imum")(x, axis)
        if axis is None:
            return whole(x, None, keepdims)
        if not x.dim():
            axis_of(x.reshape(1), axis, name)
            return _pair(x.clone(), torch.zeros((), dtype=torch.int64, device=x.device))
        places = position(x.detach(), axis_of(x, axis, name), True)
        return _pair(*_dropped(torch.gather(x, axis, places), places, axis, keepdims))

    return compute


class _Pair(tuple):  # type: ignore[type-arg]
    """Values and positions."""

    _fields = ("values", "indices")
    values = property(lambda self: self[0])
    indices = property(lambda self: self[1])

    def __new__(cls, values: Any, indices: Any) -> Any:
        return tuple.__new__(cls, (values, indices))


def _pair(values: T, indices: T) -> Any:
    return _Pair(values, indices)


def _dropped(values: T, places: T, axis: int, keepdims: bool) -> tuple[T, T]:
    return (values, places) if keepdims else (values.squeeze(axis), places.squeeze(axis))


def _var(x: T, axis: Any = None, correction: Any = 1, keepdims: bool = False) -> T:
    axes, x = axes_of(x, axis, "var"), as_float(x)
    if not axes:
        x, axes = x.unsqueeze(-1), (x.dim(),)
        return torch.var(x, axes, correction=int(correction))
    wide = x.float() if x.dtype in HALF else x
    return torch.var(wide, axes, correction=correction, keepdim=keepdims).to(x.dtype)


def _std(x: T, axis: Any = None, correction: Any = 1, keepdims: bool = False) -> T:
    x = as_float(x)
    wide = x.float() if x.dtype in HALF else x
    return torch.std(wide, axes_of(x, axis, "std"), correction=correction, keepdim=keepdims).to(x.dtype)


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

    def compute(x: T, axis: int) -> Any:
        axis = axis_of(x, axis, name)
        values, places = function(x.to(WIDER[x.dtype]) if x.dtype in WIDER else x, axis)
        return _pair(values.to(x.dtype), places)

    return compute


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


def _sorted(x: T, axis: int, descending: bool) -> tuple[T, T]:
    if not x.dim():
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    value = x.to(WIDER.get(x.dtype, x.dtype)) if x.dtype != torch.bool else x.to(torch.uint8)
    keys = value.detach() + 0 if value.is_floating_point() else value  # -0 equals 0
    places = torch.sort(keys, dim=axis, descending=descending, stable=True).indices
    return torch.gather(x, axis, places) if x.dtype not in WIDER else torch.gather(value, axis, places).to(
        x.dtype
    ), places


def _sort(x: T, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    return _pair(*_sorted(x, axis_of(x, axis, "sort") if x.dim() else -1, descending))


def _topk(x: T, k: int, axis: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    axis = axis_of(x, axis, "topk")
    if not x.dim():
        return _pair(x.clone(), torch.zeros((), dtype=torch.int64, device=x.device))
    exactly("topk", 0 <= k <= x.shape[axis], f"k {k} for an axis of {x.shape[axis]}")
    values, places = _sorted(x, axis, largest)
    return _pair(values.narrow(axis, 0, k).clone(), places.narrow(axis, 0, k).clone())


def _kth(x: T, k: int, axis: int = -1, keepdims: bool = False) -> Any:
    axis = axis_of(x, axis, "kthvalue")
    exactly("kthvalue", 1 <= k <= x.shape[axis], f"k {k} for an axis of {x.shape[axis]}")
    values, places = _sorted(x, axis, False)
    return _pair(*_dropped(values.narrow(axis, k - 1, 1), places.narrow(axis, k - 1, 1), axis, keepdims))


def _median(x: T, axis: int | None = None, keepdims: bool = False) -> Any:
    _none(x, axes_of(x, axis, "median"), "median")
    whole = axis is None
    flat, axis = (x.reshape(-1), 0) if whole else (x, axis_of(x, axis or 0, "median"))
    if not flat.dim():
        flat = flat.reshape(1)
    values, places = _sorted(flat, axis, False)
    middle = torch.full_like(places.narrow(axis, 0, 1), (flat.shape[axis] - 1) // 2)
    if flat.is_floating_point():
        number = torch.isnan(flat).sum(axis, keepdim=True)
        middle = torch.where(number > 0, flat.shape[axis] - number, middle)
    value, place = values.gather(axis, middle), places.gather(axis, middle)
    if whole:
        return value.reshape((1,) * x.dim() if keepdims else ())
    return _pair(*_dropped(value, place, axis, keepdims))


def _mode(x: T, axis: int = -1, keepdims: bool = False) -> Any:
    _none(x, axes_of(x, axis, "mode"), "mode")
    found = torch.mode(_comparable(x), axis_of(x, axis, "mode"), keepdims)
    return _pair(found.values.to(x.dtype), found.indices)


def _searchsorted(
    sorted_sequence: T, values: Any, right: bool = False, side: str | None = None, out_int32: bool = False
) -> T:
    if side not in (None, "left", "right"):
        raise ValueError(f"searchsorted: side is left or right, not {side!r}")
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
    return _runs(
        torch.unique(_comparable(x), sorted=sorted, return_inverse=return_inverse, return_counts=return_counts), x
    )


def _consecutive(x: T, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None) -> Any:
    axis = None if axis is None else axis_of(x, axis, "unique_consecutive")
    return _runs(
        torch.unique_consecutive(_comparable(x), return_inverse=return_inverse, return_counts=return_counts, dim=axis),
        x,
    )


def _comparable(x: T) -> T:
    return x.to(WIDER.get(x.dtype, x.dtype))


def _runs(found: Any, x: T) -> Any:
    return (found[0].to(x.dtype), *found[1:]) if isinstance(found, tuple) else found.to(x.dtype)


def _histc(x: T, bins: int = 100, min: float = 0, max: float = 0) -> T:
    if bins < 1 or min > max:
        raise ValueError(f"histc: {bins} bins from {min} to {max}")
    return torch.histc(x.float() if x.dtype in HALF else x, bins, min, max).to(x.dtype)


def _histogram(x: T, bins: Any = 10, range: Any = None, density: bool = False) -> tuple[T, T]:
    wide = as_float(x).reshape(-1)
    if isinstance(bins, int):
        if bins < 1 or (range is not None and not range[0] < range[1]):
            raise ValueError(f"histogram: {bins} bins over {range}")
        low, high = (
            range if range is not None else (float(wide.min()), float(wide.max())) if wide.numel() else (0.0, 1.0)
        )
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
    counts = torch.bincount(place[inside], minlength=len(edges) - 1)
    if density:
        return counts.to(wide.dtype) / (counts.sum() * torch.diff(edges)), edges
    return counts, edges


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
    "var(x: Tensor, axis=None, correction=1, keepdims=False)": _var,
    "std(x: Tensor, axis=None, correction=1, keepdims=False)": _std,
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
    "median(x: Tensor, axis=None, keepdims=False)": _median,
    "mode(x: Tensor, axis=-1, keepdims=False)": _mode,
    "cummax(x: Tensor, axis)": _cumulative("cummax"), "cummin(x: Tensor, axis)": _cumulative("cummin"),
    "bincount(x: Tensor, weights: Tensor | None = None, minlength=0)": _bincount,
})  # fmt: skip
rows("widest", {
    f"all({_AXIS})": _truth("all"), f"any({_AXIS})": _truth("any"),
    f"argmax({_AXIS})": _position("argmax"), f"argmin({_AXIS})": _position("argmin"),
    f"count_nonzero({_AXIS})": lambda x, axis=None, keepdims=False: _sum(x != 0, axis, keepdims),
    "unique(x: Tensor, sorted=True, return_inverse=False, return_counts=False)": _unique,
    "unique_consecutive(x: Tensor, return_inverse=False, return_counts=False, axis=None)": _consecutive,
    "searchsorted(sorted_sequence: Tensor, values: Tensor, right=False, side=None, out_int32=False)": _searchsorted,
    "histogram(x: Tensor, bins=10, range=None, density=False)": _histogram,
}, gradient=False)  # fmt: skip
rows("widest", {"histc(x: Tensor, bins=100, min=0, max=0)": _histc}, gradient=False, dtypes="floating")

"""Convolutions, pools, normalizations, attention, resampling, losses of sequences."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from netcl_core_kit.arguments import attend, check_attention, check_recurrence, padding_of, sections_of, several
from netcl_core_kit.ctc import ctc_arguments

from netcl.core.dtypes import NAMES
from netcl.core.errors import ShapeError
from netcl.core.ops_table.dispatch import call
from netcl.ops.kernels import HALF, T, as_float, composites, exactly, rows, silently
from netcl.ops.linalg import _alike
from netcl.ops.random import _unit
from netcl.ops.shape import _last
from netcl.ops.table import _engine_of


def _conv(rank: int, transposed: bool = False) -> Any:
    function = getattr(F, f"conv{rank}d")
    name = f"conv{rank}d"

    def compute(
        x: T, weight: T, bias: T | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
        algo: str | None = None,
    ) -> T:  # fmt: skip
        exactly(name, x.dim() in (rank + 1, rank + 2), f"x {tuple(x.shape)} for {rank} spatial axes")
        x, weight, bias = _alike(name, x, weight, bias)
        steps, gaps = several(stride, rank), several(dilation, rank)
        pairs = padding_of(padding, weight.shape[2:], steps, gaps, x.shape[-rank:])
        if any(a != b for a, b in pairs):
            x, pairs = F.pad(x, [side for pair in reversed(pairs) for side in pair]), [(0, 0)] * rank
        return function(x, weight, bias, steps, [a for a, _ in pairs], gaps, groups)  # type: ignore[no-any-return]

    return compute


def _conv_gradient(rank: int, by_input: bool) -> Any:
    conv = _conv(rank)

    def compute(a: T, b: T, shape: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> T:
        again = torch.is_grad_enabled()
        with torch.enable_grad():
            wanted = torch.zeros(tuple(shape), dtype=a.dtype, device=a.device, requires_grad=True)
            if by_input:
                value, upstream = conv(wanted, b, None, stride, padding, dilation, groups), a
            else:
                value, upstream = conv(a, wanted, None, stride, padding, dilation, groups), b
            return torch.autograd.grad(value, wanted, upstream.expand(value.shape), create_graph=again)[0]

    return compute


def _conv_transpose(rank: int) -> Any:
    function = getattr(F, f"conv_transpose{rank}d")

    def compute(
        x: T, weight: T, bias: T | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
        groups: int = 1, dilation: Any = 1,
    ) -> T:  # fmt: skip
        x, weight, bias = _alike("conv_transpose", x, weight, bias)
        steps, gaps, more = several(stride, rank), several(dilation, rank), several(output_padding, rank)
        pairs = padding_of(padding, weight.shape[2:], steps, gaps, x.shape[-rank:])
        if all(a == b for a, b in pairs) and all(m < max(s, d) for m, s, d in zip(more, steps, gaps)):
            return function(x, weight, bias, steps, [a for a, _ in pairs], more, groups, gaps)  # type: ignore[no-any-return]
        value = function(x, weight, None, steps, 0, 0, groups, gaps)
        value = F.pad(value, [side for (a, b), m in zip(reversed(pairs), reversed(more)) for side in (-a, m - b)])
        return value if bias is None else value + bias.reshape(-1, *(1,) * rank)  # type: ignore[no-any-return]

    return compute


def _im2col(x: T, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1) -> T:
    rank = x.dim() - 2
    kernel, steps, gaps = (several(one, rank) for one in (kernel_size, stride, dilation))
    pairs = padding_of(padding, kernel, steps, gaps, x.shape[2:])
    x = F.pad(x, [side for pair in reversed(pairs) for side in pair])
    for axis, (k, s, d) in enumerate(zip(kernel, steps, gaps)):
        x = x.unfold(2 + axis, d * (k - 1) + 1, s)[..., ::d]
    order = [0, *range(2, 2 + rank), 1, *range(2 + rank, 2 + 2 * rank)]
    rows_of = x.shape[0] * math.prod(x.shape[2 : 2 + rank])
    return x.permute(order).reshape(rows_of, -1).clone()


def _col2im(columns: T, shape: Any, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1) -> T:
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        image = torch.zeros(tuple(shape), dtype=as_float(columns).dtype, device=columns.device, requires_grad=True)
        value = _im2col(image, kernel_size, stride, padding, dilation)
        exactly("col2im", value.shape == columns.shape, f"columns are {tuple(columns.shape)}, not {tuple(value.shape)}")
        (found,) = torch.autograd.grad(value, image, as_float(columns), create_graph=again)
    return found.to(columns.dtype)


# -------------------------------------------------------------------------------------------------------------- pools


def _floating(x: T) -> T:
    return x if x.is_floating_point() else x.to(torch.float64)


def _max_pool(rank: int) -> Any:
    function, name = getattr(F, f"max_pool{rank}d"), f"max_pool{rank}d"

    def compute(
        x: T, kernel_size: Any = 2, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:  # fmt: skip
        _ranked(x, rank, name)
        kernel = several(kernel_size, rank)
        steps = kernel if stride is None else several(stride, rank)
        given = (kernel, steps, several(padding, rank), several(dilation, rank), ceil_mode)
        values, places = function(_floating(x), *given, return_indices=True)
        return (values.to(x.dtype), places.to(torch.int32)) if return_indices else values.to(x.dtype)

    return compute


def _ranked(x: T, rank: int, name: str) -> None:
    exactly(name, x.dim() in (rank + 1, rank + 2), f"x has shape {tuple(x.shape)}, not {rank} spatial axes")


def _avg_pool(rank: int) -> Any:
    function, name = getattr(F, f"avg_pool{rank}d"), f"avg_pool{rank}d"

    def compute(
        x: T, kernel_size: Any = 2, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> T:  # fmt: skip
        _ranked(x, rank, name)
        kernel = several(kernel_size, rank)
        steps = kernel if stride is None else several(stride, rank)
        given = [kernel, steps, several(padding, rank), ceil_mode, count_include_pad]
        if divisor_override is not None and (not isinstance(divisor_override, int) or not divisor_override):
            expected = "expected a whole number other than 0 as divisor_override"
            raise ValueError(f"{name}: {expected}, got {divisor_override}")
        value = x.float() if rank == 3 and x.dtype in HALF else as_float(x)  # which PyTorch's CPU has not in half types
        return function(value, *given, divisor_override).to(as_float(x).dtype)  # type: ignore[no-any-return]

    return compute


def _lp_pool(x: T, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> T:
    total = _avg_pool(3)(as_float(x).abs() ** norm_type, kernel_size, stride, 0, ceil_mode, True, 1)
    return total ** (1 / norm_type)  # type: ignore[no-any-return]


def _adaptive_avg(rank: int) -> Any:
    function = getattr(F, f"adaptive_avg_pool{rank}d")

    def compute(x: T, output_size: Any) -> T:
        _ranked(x, rank, f"adaptive_avg_pool{rank}d")
        return function(as_float(x), sections_of(output_size, x, rank))  # type: ignore[no-any-return]

    return compute


def _adaptive_max(rank: int) -> Any:
    function = getattr(F, f"adaptive_max_pool{rank}d")

    def compute(x: T, output_size: Any, return_indices: bool = False) -> Any:
        _ranked(x, rank, f"adaptive_max_pool{rank}d")
        values, places = function(_floating(x), sections_of(output_size, x, rank), return_indices=True)
        return (values.to(x.dtype), places.to(torch.int32)) if return_indices else values.to(x.dtype)

    return compute


def _fractional(rank: int) -> Any:
    name = f"fractional_max_pool{rank}d"

    def compute(
        x: T, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
        _random_samples: Any = None,
    ) -> Any:  # fmt: skip
        _ranked(x, rank, name)
        exactly(name, (output_size is None) != (output_ratio is None), "give either output_size or output_ratio")
        batched = x if x.dim() == rank + 2 else x.unsqueeze(0)
        count = (*batched.shape[:2], rank)
        samples = _unit(math.prod(count), x.device) if _random_samples is None else torch.as_tensor(_random_samples)
        samples = samples.to(x.device, torch.float64).reshape(count)
        sizes, kernel = x.shape[-rank:], several(kernel_size, rank)
        ratio = (output_ratio,) * rank if isinstance(output_ratio, (int, float)) else output_ratio
        given = [int(n * r) for n, r in zip(sizes, ratio)] if output_size is None else several(output_size, rank)
        places = torch.arange(math.prod(sizes), device=x.device).reshape(sizes).expand(batched.shape)
        for axis, (n, k, out) in enumerate(zip(sizes, kernel, given)):
            exactly(name, out >= 1 and out + k - 1 <= n, f"{out} windows of {k} in {n}")
            # Of PyTorch's order of samples: the last axis first in two dimensions.
            sample = samples[:, :, rank - 1 - axis if rank == 2 else axis].unsqueeze(-1)
            step = (n - k) / (out - 1) if out > 1 else 0.0
            first = ((torch.arange(out, device=x.device) + sample) * step).long() - (sample * step).long()
            first[..., -1] = n - k
            own = (first.unsqueeze(-1) + torch.arange(k, device=x.device)).flatten(2)
            index = own.reshape(*count[:2], *(-1 if one == axis else 1 for one in range(rank)))
            index = index.expand([m if one != axis + 2 else out * k for one, m in enumerate(batched.shape)])
            batched, places = (torch.gather(one, 2 + axis, index) for one in (batched, places))
        values, where = getattr(F, f"max_pool{rank}d")(batched, kernel, kernel, return_indices=True)
        found = values, places.flatten(2).gather(2, where.flatten(2)).reshape(where.shape)
        values, where = found if x.dim() == rank + 2 else (one[0] for one in found)
        return (values, where) if return_indices else values

    return compute


def _unpool(rank: int) -> Any:
    def compute(x: T, indices: T, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> T:
        kernel = several(kernel_size, rank)
        steps, pads = kernel if stride is None else several(stride, rank), several(padding, rank)
        size = None if output_size is None else list(output_size)
        if size is None:
            size = [(n - 1) * s - 2 * p + k for n, k, s, p in zip(x.shape[-rank:], kernel, steps, pads)]
        size = size[-rank:]
        flat = torch.zeros((*x.shape[:-rank], math.prod(size)), dtype=x.dtype, device=x.device)
        place = indices.to(torch.int64).reshape(*x.shape[:-rank], -1)
        if place.numel() and int(place.max()) >= flat.shape[-1]:
            raise IndexError(f"max_unpool{rank}d: an index is outside of {tuple(size)}")
        whole = place + flat.shape[-1] * torch.arange(math.prod(flat.shape[:-1]), device=x.device).reshape(
            *flat.shape[:-1], 1)  # fmt: skip
        return _Placed.apply(flat.reshape(-1), whole.reshape(-1), x.reshape(-1)).reshape(*x.shape[:-rank], *size)

    return compute


class _Placed(torch.autograd.Function):
    """`_last` with a gradient for each value, also for those of equal places."""

    @staticmethod
    def forward(ctx: Any, x: T, places: T, values: T) -> T:
        ctx.save_for_backward(places)
        return _last(x, places, values)

    @staticmethod
    def backward(ctx: Any, grad: T) -> Any:
        return None, None, grad[ctx.saved_tensors[0]]


# ----------------------------------------------------------------------------------------------------- normalizations


class _Running(NamedTuple):
    """Running statistics, which are written in place: no operands, of which autocast would pass copies."""

    mean: Any
    var: Any


def _batch_normalized(
    x: T, weight: T | None, bias: T | None, running: _Running, training: bool, momentum: float, eps: float
) -> T:
    made = as_float(x).dtype
    value = x.float() if x.device.type == "cpu" and x.dtype in HALF else as_float(x)
    params = torch.float32 if value.dtype in HALF else value.dtype
    stats = [one if one is None else one._t.detach() for one in running]
    used = [one if one is None else one.to(params) for one in (weight, bias, *stats)]
    result = torch.batch_norm(value, *used, training, momentum, eps, True).to(made)
    for one, new in zip(stats, used[2:]):
        if training and one is not None and new is not one:  # it was converted
            one.copy_(new)
    return result


def _batch_norm(
    x: Any, running_mean: Any = None, running_var: Any = None, weight: Any = None, bias: Any = None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    exactly("batch_norm", x.ndim >= 2, f"x has shape {x.shape}, not (N, C, ...)")
    for name, one in (("running_mean", running_mean), ("running_var", running_var), ("weight", weight), ("bias", bias)):
        exactly("batch_norm", one is None or one.shape == (x.shape[1],), f"{name} does not fit x of shape {x.shape}")
    if not training and (running_mean is None or running_var is None):
        raise ValueError("batch_norm: without training it needs running_mean and running_var")
    if training or not (running_mean.requires_grad or running_var.requires_grad):
        return call("batch_normalized", x, weight, bias, _Running(running_mean, running_var), training, momentum, eps)
    # PyTorch has no gradient for these.
    aligned = [one if one is None else call("reshape", one, (-1, *(1,) * (x.ndim - 2)))
               for one in (running_mean, running_var, weight, bias)]  # fmt: skip
    result = call("mul", call("sub", x, aligned[0]), call("rsqrt", call("add", aligned[1], eps)))
    result = result if weight is None else call("mul", result, aligned[2])
    return result if bias is None else call("add", result, aligned[3])


def _layer_norm(x: T, normalized_shape: Any, weight: T | None = None, bias: T | None = None, eps: float = 1e-5) -> T:
    shape = _normalized("layer_norm", x, normalized_shape, weight, bias)
    return F.layer_norm(*_first("layer_norm", as_float(x), shape, weight, bias), eps)


def _normalized(name: str, x: T, shape: Any, *params: Any) -> tuple[int, ...]:
    shape = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(shape)
    exactly(name, tuple(x.shape[len(x.shape) - len(shape) :]) == shape, f"x {tuple(x.shape)} does not end in {shape}")
    for one in params:
        exactly(name, one is None or tuple(one.shape) == shape, f"a parameter of another shape than {shape}")
    return shape


def _first(name: str, x: T, shape: Any, *params: Any) -> list[Any]:
    return [x, shape, *(one if one is None else one.to(x.dtype) for one in params)]


def _rms_norm(x: T, normalized_shape: Any, weight: T | None = None, eps: float = 1e-6) -> T:
    shape = _normalized("rms_norm", x, normalized_shape, weight)
    return F.rms_norm(*_first("rms_norm", as_float(x), list(shape), weight), eps)


def _group_norm(x: T, num_groups: int, weight: T | None = None, bias: T | None = None, eps: float = 1e-5) -> T:
    exactly("group_norm", x.dim() >= 2 and x.shape[1] % num_groups == 0, f"{num_groups} groups for x {tuple(x.shape)}")
    value, groups, *params = _first("group_norm", as_float(x), num_groups, weight, bias)
    return F.group_norm(value, groups, *params, eps)


# ---------------------------------------------------------------------------------------------- attention, resampling


def _scores(q: T, k: T, mask: T | None, is_causal: bool, scale: float | None) -> T:
    scores = torch.matmul(q, k.transpose(-1, -2)) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    return _softmax_of(scores, mask, is_causal)


def _softmax_of(scores: T, mask: T | None, is_causal: bool) -> T:
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
    seen = seen.tril() if is_causal else seen
    if mask is not None and mask.dtype == torch.bool:
        seen = seen & mask
    elif mask is not None:
        scores = scores + mask
    scores = torch.where(seen, scores, -torch.inf)
    some = (scores > -torch.inf).any(-1, keepdim=True)
    return torch.where(some, torch.softmax(torch.where(some, scores, 0.0), -1), 0.0)


def _heads(q: T, k: T, v: T, enable_gqa: bool) -> tuple[T, T]:
    if enable_gqa and q.dim() > 2 and q.shape[-3] != k.shape[-3]:
        exactly(
            "scaled_dot_product_attention",
            q.shape[-3] % k.shape[-3] == 0,
            f"q has {q.shape[-3]} heads, which are no multiple of the {k.shape[-3]} grouped heads of k",
        )
        k, v = (one.repeat_interleave(q.shape[-3] // k.shape[-3], -3) for one in (k, v))
    return k, v


def _weights(scores: T, mask: T | None = None, causal: bool = False, scale: float | None = None) -> T:
    return _softmax_of(as_float(scores) * (1 if scale is None else scale), mask, causal)


def _attention(
    q: T,
    k: T,
    v: T,
    mask: T | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> T:
    k, v = _heads(q, k, v, enable_gqa)
    check_attention(*(one if one is None else (NAMES[one.dtype], tuple(one.shape)) for one in (q, k, v, mask)))
    if q.device.type == "cpu" or mask is not None:
        wide = [one.float() if one.dtype in HALF else one for one in (q, k, v)]
        return torch.matmul(_scores(wide[0], wide[1], mask, is_causal, scale), wide[2]).to(q.dtype)
    return F.scaled_dot_product_attention(q, k, v, None, 0.0, is_causal, scale=scale)


def _interpolate(
    x: T, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> T:  # fmt: skip
    exactly("interpolate", (size is None) != (scale_factor is None), "give either size or scale_factor")
    try:
        result = F.interpolate(
            as_float(x), size, scale_factor, mode, align_corners if "linear" in mode or mode == "bicubic" else None,
            recompute_scale_factor, antialias)  # fmt: skip
    except (NotImplementedError, ValueError) as error:
        raise ShapeError(f"interpolate: {error}") from None
    return result


def _grid_sample(x: T, grid: T, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = False) -> T:
    exactly("grid_sample", x.dim() in (4, 5) and grid.dim() == x.dim() and grid.shape[-1] == x.dim() - 2,
            f"x {tuple(x.shape)}, grid {tuple(grid.shape)}")  # fmt: skip
    if mode not in ("bilinear", "nearest", "bicubic") or padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(f"grid_sample: mode {mode!r}, padding_mode {padding_mode!r}")
    return F.grid_sample(x, grid.to(x.dtype), mode, padding_mode, align_corners)


def _affine_grid(theta: T, size: Any, align_corners: bool = False) -> T:
    exactly("affine_grid", theta.dim() == 3 and len(size) in (4, 5) and tuple(theta.shape[1:]) == (len(size) - 2, len(size) - 1)
            and theta.shape[0] == size[0], f"theta {tuple(theta.shape)} for size {tuple(size)}")  # fmt: skip
    return silently(F.affine_grid, theta, list(size), align_corners)


# ---------------------------------------------------------------------------------------------------------- sequences


def _recurrence(
    x: T, weight: T, state: T, bias: T | None = None, cell: T | None = None, kind: str = "tanh", reverse: bool = False
) -> Any:
    made, shapes = x.dtype, [None if one is None else tuple(one.shape) for one in (x, weight, state, bias, cell)]
    check_recurrence(kind, *shapes)
    if made in HALF:
        x, weight, state, bias, cell = (one if one is None else one.float() for one in (x, weight, state, bias, cell))
    states: list[T] = []
    cells: list[T] = []
    values: list[T] = []
    h, c = state, cell
    for step in reversed(range(x.shape[0])) if reverse else range(x.shape[0]):
        own = F.linear(h, weight, bias)
        if kind == "lstm":
            i, f, g, o = (x[step] + own).chunk(4, -1)
            i, f, g, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
            c = f * c + i * g
            h = o * torch.tanh(c)
            cells.append(c)
            values.append(torch.cat((i, f, g, o), -1))
        elif kind == "gru":
            (xr, xz, xn), (hr, hz, hn) = x[step].chunk(3, -1), own.chunk(3, -1)
            r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
            n = torch.tanh(xn + r * hn)
            h = (1 - z) * n + z * h
            values.append(torch.cat((r, z, n, hn), -1))
        else:
            h = torch.tanh(x[step] + own) if kind == "tanh" else torch.relu(x[step] + own)
        states.append(h)
    empty = torch.zeros(0, dtype=made, device=x.device)

    def whole(parts: list[T]) -> T:
        return torch.stack(parts[::-1] if reverse else parts).to(made) if parts else empty

    return whole(states), whole(cells), whole(values)


def _ctc(
    log_probs: T, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = "mean",
    zero_infinity: bool = False,
) -> T:  # fmt: skip
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"reduction is 'mean', 'sum' or 'none', not {reduction!r}")
    single, wide = log_probs.dim() == 2, log_probs.float() if log_probs.dtype in HALF else log_probs
    lp = wide.unsqueeze(1) if single else wide
    exactly("ctc_loss", lp.dim() == 3, f"log_probs {tuple(log_probs.shape)} is not (T, N, C) or (T, C)")
    steps, count, classes = lp.shape
    if not 0 <= blank < classes:
        raise ValueError(f"ctc_loss: blank {blank} is none of {classes} classes")
    given = [
        one.cpu().numpy() if isinstance(one, T) else np.asarray(one) for one in (targets, input_lengths, target_lengths)
    ]
    on_device = [isinstance(one, T) for one in (targets, input_lengths, target_lengths)]
    found = ctc_arguments(_engine_of([lp]), *given, on_device, tuple(lp.shape), blank, single)
    labels, lengths_in, lengths = (torch.as_tensor(one, device=lp.device) for one in found)
    path = torch.full((count, 2 * labels.shape[1] + 1), blank, device=lp.device)
    path[:, 1::2] = labels
    skips = F.pad((path[:, 2:] != path[:, :-2]) & (path[:, 2:] != blank), (2, 0))[:, : path.shape[1]]
    low = torch.tensor(-1e30, dtype=lp.dtype, device=lp.device)
    emit = torch.gather(lp, 2, path.expand(steps, *path.shape))
    place = torch.arange(path.shape[1], device=lp.device)
    alpha = torch.where(place < 2, emit[0], low) if steps else torch.where(place < 0, 0.0, low).expand(path.shape)
    alpha = torch.where((place == 0) | (lengths.unsqueeze(1) > 0), alpha, low)
    for step in range(1, steps):
        one = F.pad(alpha, (1, 0), value=-1e30)[:, :-1]
        two = torch.where(skips, F.pad(alpha, (2, 0), value=-1e30)[:, :-2], low)
        moved = torch.logsumexp(torch.stack((alpha, one, two)), 0) + emit[step]
        alpha = torch.where((step < lengths_in).unsqueeze(1), moved, alpha)
    end = 2 * lengths.unsqueeze(1)
    last = torch.gather(alpha, 1, end), torch.gather(alpha, 1, (end - 1).clamp(min=0))
    both = torch.logsumexp(torch.cat((last[0], torch.where(end > 0, last[1], low)), 1), 1)
    possible = both > -1e29
    loss = torch.where(possible, -both, 0.0 if zero_infinity else torch.inf)
    if reduction == "sum":
        return loss.sum()
    if reduction == "mean":
        return (loss / lengths.clamp(min=1)).mean()
    return loss[0] if single else loss


_CONV = "x: Tensor, weight: Tensor, bias: Tensor | None = None, stride=1, padding=0, dilation=1"
_GRADIENT = "shape, stride=1, padding=0, dilation=1, groups=1"
_NORM = "weight: Tensor | None = None, bias: Tensor | None = None"
for _rank in (1, 2, 3):
    rows("half", {
        f"conv{_rank}d({_CONV}, groups=1, algo=None)": _conv(_rank),
    })  # fmt: skip
    rows("half", {
        f"conv{_rank}d_grad_input(grad_output: Tensor, weight: Tensor, {_GRADIENT})": _conv_gradient(_rank, True),
        f"conv{_rank}d_grad_weight(x: Tensor, grad_output: Tensor, {_GRADIENT})": _conv_gradient(_rank, False),
        f"conv_transpose{_rank}d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride=1, padding=0, "
        "output_padding=0, groups=1, dilation=1)": _conv_transpose(_rank),
})  # fmt: skip
    rows("widest", {
        f"max_pool{_rank}d(x: Tensor, kernel_size=2, stride=None, padding=0, dilation=1, ceil_mode=False, "
        "return_indices=False)": _max_pool(_rank),
        f"adaptive_avg_pool{_rank}d(x: Tensor, output_size)": _adaptive_avg(_rank),
        f"adaptive_max_pool{_rank}d(x: Tensor, output_size, return_indices=False)": _adaptive_max(_rank),
        f"max_unpool{_rank}d(x: Tensor, indices: Tensor, kernel_size, stride=None, padding=0, output_size=None)":
            _unpool(_rank),
})  # fmt: skip
    if _rank > 1:
        rows("widest", {
            f"avg_pool{_rank}d(x: Tensor, kernel_size=2, stride=None, padding=0, ceil_mode=False, count_include_pad=True, "
            "divisor_override=None)": _avg_pool(_rank),
            f"fractional_max_pool{_rank}d(x: Tensor, kernel_size, output_size=None, output_ratio=None, "
            "return_indices=False, _random_samples=None)": _fractional(_rank),
        })  # fmt: skip
rows("half", {
    "attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, is_causal=False, scale=None, "
    "enable_gqa=False)": _attention,
    "attention_weights(scores: Tensor, mask: Tensor | None = None, causal=False, scale=None)": _weights,
})  # fmt: skip
rows("half", {
    "batch_normalized(x: Tensor, weight: Tensor | None, bias: Tensor | None, running, training, momentum, eps)":
        _batch_normalized,
})  # fmt: skip
composites("half", {
    f"batch_norm(x: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, {_NORM}, training=False, "
    "momentum=0.1, eps=1e-05)": _batch_norm,
    "scaled_dot_product_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropout_p=0.0, "
    "is_causal=False, scale=None, enable_gqa=False)": attend,
})  # fmt: skip
rows("float32", {
    f"layer_norm(x: Tensor, normalized_shape, {_NORM}, eps=1e-05)": _layer_norm,
    "rms_norm(x: Tensor, normalized_shape, weight: Tensor | None = None, eps=1e-06)": _rms_norm,
    f"group_norm(x: Tensor, num_groups, {_NORM}, eps=1e-05)": _group_norm,
    "grid_sample(x: Tensor, grid: Tensor, mode='bilinear', padding_mode='zeros', align_corners=False)": _grid_sample,
    "affine_grid(theta: Tensor, size, align_corners=False)": _affine_grid,
    "ctc_loss(log_probs: Tensor, targets, input_lengths, target_lengths, blank=0, reduction='mean', "
    "zero_infinity=False)": _ctc,
})  # fmt: skip
rows("float32", {
    "recurrence(x: Tensor, weight: Tensor, state: Tensor, bias: Tensor | None = None, cell: Tensor | None = None, "
    "kind='tanh', reverse=False)": _recurrence,
}, dtypes="floating")  # fmt: skip
rows("widest", {
    "lp_pool3d(x: Tensor, norm_type, kernel_size, stride=None, ceil_mode=False)": _lp_pool,
    "interpolate(x: Tensor, size=None, scale_factor=None, mode='nearest', align_corners=None, "
    "recompute_scale_factor=None, antialias=False)": _interpolate,
    "upsample(x: Tensor, size=None, scale_factor=None, mode='nearest', align_corners=None)": _interpolate,
})  # fmt: skip
rows("widest", {
    "im2col(x: Tensor, kernel_size, stride=1, padding=0, dilation=1)": _im2col,
    "col2im(columns: Tensor, shape, kernel_size, stride=1, padding=0, dilation=1)": _col2im,
}, dtypes="numbers")  # fmt: skip

"""Pooling over windows: maxima with their positions, averages, adaptive sizes; and enlarging by repetition."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from netcl.core.dispatch import Domain
from netcl.core.errors import ShapeError
from netcl.core.tensor import Tensor
from netcl.ops.reduce import max as max_op
from netcl.ops.reduce import mean
from netcl.ops.shape import concatenate, expand, part, permute, reshape
from netcl.ops.table import OpFunction, composite, computed, engine_of, floating
from netcl.ops.windows import output_sizes, paddings, per_axis

Cases = Iterator[tuple[tuple[Any, ...], dict[str, Any]]]
_LAYOUT = {1: "L", 2: "H, W", 3: "D, H, W"}


def _geometry(
    op: str, shape: Sequence[int], kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> tuple[dict[str, Any], tuple[int, ...]]:
    """The engine's window arguments, and the output's spatial sizes."""
    n = len(shape) - 2
    if n < 1:
        raise ShapeError(f"{op}: x {tuple(shape)}; expected (N, C, spatial...)", op=op)
    kernel = per_axis(op, "kernel_size", kernel_size, n)
    steps = kernel if stride is None else per_axis(op, "stride", stride, n)
    dilations = per_axis(op, "dilation", dilation, n)
    pads = paddings(op, padding, kernel, steps, dilations)
    if any(max(pair) * 2 > k * d for pair, k, d in zip(pads, kernel, dilations)):
        raise ShapeError(
            f"{op}: padding {padding} is more than half of kernel_size {kernel}", op=op, parameter="padding"
        )
    windows: dict[str, Any] = {"kernel": kernel, "stride": steps, "padding": pads, "dilation": dilations}
    return windows, output_sizes(op, shape[2:], ceil_mode=ceil_mode, **windows)


def _taps(x: Any, fill: float, windows: dict[str, Any], sizes: Sequence[int]) -> Any:
    """All windows side by side on a last axis, ``fill`` outside of x: for the references."""
    rows = zip(x.shape[2:], windows["kernel"], windows["stride"], windows["padding"], windows["dilation"], sizes)
    pads = [(low, max(high, (o - 1) * s + d * (k - 1) + 1 - size - low)) for size, k, s, (low, high), d, o in rows]
    padded = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)
    taps = []
    for tap in np.ndindex(*windows["kernel"]):
        rows = zip(tap, windows["dilation"], sizes, windows["stride"])
        taps.append(
            padded[tuple([slice(None)] * 2 + [slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, o, s in rows])]
        )
    return np.stack(taps, -1)


def _max_reference(
    x: Any, kernel_size: Any = 2, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    windows, sizes = _geometry("max_pool", x.shape, kernel_size, stride, padding, dilation, ceil_mode)
    return _taps(x, -np.inf, windows, sizes).max(-1)


def _avg_reference(
    x: Any,
    kernel_size: Any = 2,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    windows, sizes = _geometry("avg_pool", x.shape, kernel_size, stride, padding, 1, ceil_mode)
    total = _taps(x, 0.0, windows, sizes).sum(-1)
    inside = np.ones((1, 1, *x.shape[2:]))
    if count_include_pad:  # the padding counts, what ceil_mode adds behind it does not
        inside = np.pad(inside, [(0, 0), (0, 0), *windows["padding"]], constant_values=1.0)
        windows = {**windows, "padding": ((0, 0),) * (x.ndim - 2)}
    return total / _taps(inside, 0.0, windows, sizes).sum(-1)


_POOLS: dict[int, tuple[tuple[tuple[int, ...], dict[str, Any]], ...]] = {
    1: (((2, 3, 9), {}), ((2, 3, 9), {"kernel_size": 3, "stride": 2, "padding": 1})),
    2: (
        ((2, 3, 6, 8), {}),
        ((1, 2, 7, 5), {"kernel_size": (3, 2), "stride": (2, 1), "padding": 1}),
        ((2, 2, 7, 6), {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
        ((0, 2, 4, 4), {}),
    ),
    3: (((1, 2, 4, 5, 4), {"kernel_size": 2}), ((1, 1, 4, 4, 5), {"kernel_size": (1, 2, 3), "stride": 1})),
}


def _cases(n: int, *more: tuple[tuple[int, ...], dict[str, Any]]) -> Callable[[np.random.Generator], Cases]:
    def cases(rng: np.random.Generator) -> Cases:
        for shape, attributes in (*_POOLS[n], *more):
            yield (rng.permutation(np.linspace(-2, 2, math.prod(shape))).reshape(shape),), attributes

    return cases


def _all_ranks(rng: np.random.Generator) -> Cases:
    for n in (1, 2, 3):
        yield from _cases(n)(rng)


def _positions_reference(x: Any, **attributes: Any) -> Any:
    """The maxima and their flat positions within the spatial plane."""
    attributes = {"kernel_size": 2, "stride": None, "padding": 0, "dilation": 1, "ceil_mode": False, **attributes}
    windows, sizes = _geometry("max_pool", x.shape, *attributes.values())
    plane = np.broadcast_to(np.arange(math.prod(x.shape[2:]), dtype=np.float64).reshape(x.shape[2:]), x.shape)
    best = _taps(x, -np.inf, windows, sizes).argmax(-1)[..., None]
    positions = np.take_along_axis(_taps(plane, -1.0, windows, sizes), best, -1)[..., 0]
    return _max_reference(x, **attributes), positions.astype(np.int32)


@computed(name="max_pool", domain=Domain(cases=_all_ranks, reference=_positions_reference))
def max_pool(
    x: Tensor, kernel_size: Any = 2, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> tuple[Tensor, Tensor]:
    """The largest element of each window of x (N, C, spatial...), and its flat position in the spatial plane as
    int32.
    """
    engine = engine_of("max_pool", x)
    windows, sizes = _geometry("max_pool", x.shape, kernel_size, stride, padding, dilation, ceil_mode)
    shape = (*x.shape[:2], *sizes)
    if 0 in shape or 0 in x.shape:
        return engine.empty(shape, x.dtype), engine.empty(shape, "int32")
    return engine.window("max", x, shape=shape, **windows)  # type: ignore[no-any-return]


def _max_grad_cases(rng: np.random.Generator) -> Cases:
    for operands, attributes in _all_ranks(rng):
        if operands[0].size:
            y, positions = _positions_reference(*operands, **attributes)
            yield (rng.uniform(-1, 1, y.shape), positions), {"shape": operands[0].shape, **attributes}


def _max_grad_reference(grad: Any, positions: Any, shape: Any, **attributes: Any) -> Any:
    out = np.zeros((shape[0] * shape[1], math.prod(shape[2:])))
    flat = positions.reshape(out.shape[0], -1)
    np.add.at(out, (np.arange(out.shape[0])[:, None], flat), grad.reshape(flat.shape))
    return out.reshape(shape)


@computed(name="max_pool_grad", domain=Domain(cases=_max_grad_cases, reference=_max_grad_reference))
def max_pool_grad(
    grad_output: Tensor,
    indices: Tensor,
    shape: Any,
    kernel_size: Any = 2,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The gradient of ``max_pool`` by x, of shape ``shape``: each gradient added at the position its maximum came
    from.
    """
    engine = engine_of("max_pool_grad", grad_output, indices)
    wanted = tuple(int(size) for size in shape)
    windows, sizes = _geometry("max_pool_grad", wanted, kernel_size, stride, padding, dilation, ceil_mode)
    if grad_output.shape != (*wanted[:2], *sizes) or indices.shape != grad_output.shape:
        raise ShapeError(
            f"max_pool_grad: grad_output {grad_output.shape}, indices {indices.shape}; expected "
            f"{(*wanted[:2], *sizes)}",
            op="max_pool_grad",
        )
    if grad_output.size == 0 or 0 in wanted:
        return engine.zeros(wanted, grad_output.dtype)
    return engine.window("max_grad", grad_output, indices=indices, shape=wanted, **windows)  # type: ignore[no-any-return]


@computed(name="avg_pool", domain=Domain(cases=_all_ranks, reference=_avg_reference))
def avg_pool(
    x: Tensor,
    kernel_size: Any = 2,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The average of each window of x (N, C, spatial...); zeros of the padding count unless count_include_pad is
    False.
    """
    engine = engine_of("avg_pool", x)
    (x,) = floating("avg_pool", x)
    windows, sizes = _geometry("avg_pool", x.shape, kernel_size, stride, padding, 1, ceil_mode)
    shape = (*x.shape[:2], *sizes)
    if 0 in shape or 0 in x.shape:
        return engine.zeros(shape, x.dtype)
    return engine.window("avg", x, shape=shape, count_include_pad=count_include_pad, **windows)  # type: ignore[no-any-return]


def _avg_grad_cases(rng: np.random.Generator) -> Cases:
    attributes: dict[str, Any]
    for shape, attributes in (
        ((1, 2, 5), {"kernel_size": 3, "stride": 2, "padding": 1}),
        *_POOLS[2][:3],
        *_POOLS[3][:1],
    ):
        small = (1, 1, *shape[2:])
        yield (rng.uniform(-1, 1, _avg_reference(np.zeros(small), **attributes).shape),), {"shape": small, **attributes}
    yield (rng.uniform(-1, 1, (1, 1, 3, 3)),), {"shape": (1, 1, 4, 4), "padding": 1, "count_include_pad": False}


def _avg_grad_reference(grad: Any, shape: Any, **attributes: Any) -> Any:
    out = np.zeros(shape)
    for place in np.ndindex(*out.shape):
        unit = np.zeros(shape)
        unit[place] = 1.0
        out[place] = np.sum(_avg_reference(unit, **attributes) * grad)
    return out


@computed(name="avg_pool_grad", domain=Domain(cases=_avg_grad_cases, reference=_avg_grad_reference))
def avg_pool_grad(
    grad_output: Tensor,
    shape: Any,
    kernel_size: Any = 2,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The gradient of ``avg_pool`` by x, of shape ``shape``; linear, and ``avg_pool`` is its gradient."""
    engine = engine_of("avg_pool_grad", grad_output)
    wanted = tuple(int(size) for size in shape)
    windows, sizes = _geometry("avg_pool_grad", wanted, kernel_size, stride, padding, 1, ceil_mode)
    if grad_output.shape != (*wanted[:2], *sizes):
        raise ShapeError(
            f"avg_pool_grad: grad_output {grad_output.shape}; expected {(*wanted[:2], *sizes)} for shape {wanted}",
            op="avg_pool_grad",
        )
    if grad_output.size == 0 or 0 in wanted:
        return engine.zeros(wanted, grad_output.dtype)
    return engine.window(  # type: ignore[no-any-return]
        "avg_grad", grad_output, shape=wanted, count_include_pad=count_include_pad, **windows
    )


def _rank(op: str, x: Tensor, n: int) -> None:
    if x.ndim != n + 2:
        raise ShapeError(f"{op}: x {x.shape}; expected (N, C, {_LAYOUT[n]})", op=op)


def _pools(n: int) -> tuple[OpFunction, OpFunction, OpFunction, OpFunction]:
    """max_pool{n}d, avg_pool{n}d and their adaptive forms."""

    def maximum(
        x: Tensor,
        kernel_size: Any = 2,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        _rank(f"max_pool{n}d", x, n)
        y, indices = max_pool(x, kernel_size, stride, padding, dilation, ceil_mode)
        return (y, indices) if return_indices else y

    def average(
        x: Tensor,
        kernel_size: Any = 2,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Tensor:
        _rank(f"avg_pool{n}d", x, n)
        return avg_pool(x, kernel_size, stride, padding, ceil_mode, count_include_pad)  # type: ignore[no-any-return]

    def adaptive_average(x: Tensor, output_size: Any) -> Tensor:
        return _adaptive(f"adaptive_avg_pool{n}d", n, x, output_size, avg_pool, mean)

    def adaptive_maximum(x: Tensor, output_size: Any) -> Tensor:
        return _adaptive(f"adaptive_max_pool{n}d", n, x, output_size, lambda *a: max_pool(*a)[0], max_op)

    layout = _LAYOUT[n]
    windows = "Windows of kernel_size every stride (default: kernel_size) over the padded input"
    sections = (
        f"output_size (an int or {n}) sections of each axis, from floor(i * size / out) to ceil((i + 1) * size / out)"
    )

    def row(kind: str, function: Any, doc: str, domain: Domain) -> OpFunction:
        return composite(name=f"{kind}_pool{n}d", doc=doc, domain=domain)(function)

    dilated = ((2, 2, *(7,) * n), {"kernel_size": 2, "stride": 1, "dilation": 2})
    return (
        row(
            "max",
            maximum,
            f"The largest element of each window of x (N, C, {layout}); NaN wins. {windows}; ceil_mode rounds "
            "sizes up.\n\nThe padding is "
            "never chosen. "
            "return_indices adds the flat positions within a plane, int32.",
            Domain(cases=_cases(n, dilated), reference=_max_reference, second=False),
        ),
        row(
            "avg",
            average,
            f"The average of each window of x (N, C, {layout}). {windows}; ceil_mode rounds sizes up.\n\nThe "
            "padding counts as zeros unless "
            "count_include_pad is False.",
            Domain(cases=_cases(n), reference=_avg_reference),
        ),
        row(
            "adaptive_avg",
            adaptive_average,
            f"The averages of x (N, C, {layout}) over {sections}.",
            Domain(cases=_adaptive_cases(n), reference=_adaptive_reference(np.mean)),
        ),
        row(
            "adaptive_max",
            adaptive_maximum,
            f"The maxima of x (N, C, {layout}) over {sections}.",
            Domain(cases=_adaptive_cases(n), reference=_adaptive_reference(np.max), second=False),
        ),
    )


def _sections(size: int, out: int) -> list[tuple[int, int]]:
    return [(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]


def _adaptive(
    op: str, n: int, x: Tensor, output_size: Any, pool: Callable[..., Any], reduction: Callable[..., Any]
) -> Tensor:
    """Sections are rectangles, so the axes can be reduced one after the other; equal sections are plain pooling."""
    _rank(op, x, n)
    sizes = per_axis(op, "output_size", output_size, n)
    if 0 in x.shape[2:]:
        raise ShapeError(f"{op}: x {x.shape} has no spatial elements", op=op)
    if all(size % out == 0 for size, out in zip(x.shape[2:], sizes)):
        kernel = tuple(size // out for size, out in zip(x.shape[2:], sizes))
        return pool(x, kernel, kernel)  # type: ignore[no-any-return]
    for axis, out in enumerate(sizes, 2):
        parts = [part(x, axis, low, high - low) for low, high in _sections(x.shape[axis], out)]
        x = concatenate(*(reduction(one, axis=axis, keepdims=True) for one in parts), axis=axis)
    return x


def _adaptive_cases(n: int) -> Callable[[np.random.Generator], Cases]:
    def cases(rng: np.random.Generator) -> Cases:
        for shape, out in (((2, 3, *(6,) * n), 3), ((1, 2, *(7, 5, 4)[:n]), (3, 2, 4)[:n]), ((2, 2, *(5,) * n), 1)):
            yield (rng.permutation(np.linspace(-2, 2, math.prod(shape))).reshape(shape),), {"output_size": out}

    return cases


def _adaptive_reference(function: Any) -> Callable[..., Any]:
    def reference(x: Any, output_size: Any) -> Any:
        for axis, out in enumerate(per_axis("", "", output_size, x.ndim - 2), 2):
            parts = [np.take(x, range(low, high), axis) for low, high in _sections(x.shape[axis], out)]
            x = np.concatenate([function(one, axis=axis, keepdims=True) for one in parts], axis)
        return x

    return reference


max_pool1d, avg_pool1d, adaptive_avg_pool1d, adaptive_max_pool1d = _pools(1)
max_pool2d, avg_pool2d, adaptive_avg_pool2d, adaptive_max_pool2d = _pools(2)
max_pool3d, avg_pool3d, adaptive_avg_pool3d, adaptive_max_pool3d = _pools(3)


# -- the other way: from small to large --------------------------------------------------------------------------------


def _shuffle_reference(x: Any, upscale_factor: int) -> Any:
    n, c, h, w = x.shape
    r = upscale_factor
    return x.reshape(n, c // (r * r), r, r, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // (r * r), h * r, w * r)


@composite(
    domain=Domain(
        cases=lambda rng: iter([((rng.uniform(-1, 1, (2, 8, 3, 2)),), {"upscale_factor": 2})]),
        reference=_shuffle_reference,
    )
)
def pixel_shuffle(x: Tensor, upscale_factor: int) -> Tensor:
    """Channels to pixels: (N, C r^2, H, W) gives (N, C, H r, W r) (Shi et al. 2016)."""
    r = upscale_factor
    if x.ndim != 4 or r < 1 or x.shape[1] % (r * r):
        raise ShapeError(
            f"pixel_shuffle: x {x.shape}, upscale_factor {r}; expected (N, C * {r}^2, H, W)", op="pixel_shuffle"
        )
    n, c, h, w = x.shape
    apart = permute(reshape(x, (n, c // (r * r), r, r, h, w)), (0, 1, 4, 2, 5, 3))
    return reshape(apart, (n, c // (r * r), h * r, w * r))  # type: ignore[no-any-return]


def _nearest_reference(x: Any, size: Any = None, scale_factor: Any = None) -> Any:
    for axis, out in enumerate(_target(x.shape, size, scale_factor), 2):
        x = np.take(x, np.arange(out) * x.shape[axis] // out, axis)
    return x


def _target(shape: Sequence[int], size: Any, scale_factor: Any) -> tuple[int, ...]:
    n = len(shape) - 2
    if (size is None) == (scale_factor is None) or n < 1:
        raise ShapeError(
            f"upsample: give size or scale_factor, for x (N, C, spatial...), not {tuple(shape)}", op="upsample"
        )
    if size is not None:
        return per_axis("upsample", "size", size, n)
    factors = (scale_factor,) * n if isinstance(scale_factor, (int, float)) else tuple(scale_factor)
    return per_axis("upsample", "scale_factor", tuple(math.floor(s * f) for s, f in zip(shape[2:], factors)), n)


def _nearest_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-1, 1, (2, 3, 4)),), {"scale_factor": 2}
    yield (rng.uniform(-1, 1, (1, 2, 3, 2)),), {"scale_factor": (2, 3)}
    yield (rng.uniform(-1, 1, (1, 2, 3, 5)),), {"size": (7, 3)}


@composite(domain=Domain(cases=_nearest_cases, reference=_nearest_reference))
def upsample(x: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest") -> Tensor:
    """x (N, C, spatial...) resized to ``size`` or by ``scale_factor``; nearest: output i takes input floor(i * in /
    out).
    """
    if mode != "nearest":
        raise ValueError(f"upsample: mode is 'nearest', not {mode!r}")
    for axis, out in enumerate(_target(x.shape, size, scale_factor), 2):
        length = x.shape[axis]
        if length and out % length == 0:
            before, behind = x.shape[: axis + 1], x.shape[axis + 1 :]
            apart = expand(reshape(x, (*before, 1, *behind)), (*before, out // length, *behind))
            x = reshape(apart, (*before[:-1], out, *behind))
        else:
            x = concatenate(*(part(x, axis, i * length // out, 1) for i in range(out)), axis=axis)
    return x

"""Pooling over windows: maxima with their positions, averages, power averages."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from netcl.core.errors import ArgumentError, ShapeError
from netcl.core.ops_table.dispatch import Cases, Domain
from netcl.core.tensor import Tensor
from netcl.ops.domains import compared
from netcl.ops.elementwise import abs, pow
from netcl.ops.shape import reshape
from netcl.ops.table import OpFunction, composite, computed, engine_of, floating
from netcl.ops.windows import output_sizes, paddings, per_axis, strides

LAYOUT = {1: "L", 2: "H, W", 3: "D, H, W"}


def _geometry(
    op: str, shape: Sequence[int], kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Returns the engine's window arguments, and the output's spatial sizes."""
    n = len(shape) - 2
    if n < 1:
        raise ShapeError(f"{op}: x {tuple(shape)}; expected (N, C, spatial...)")
    kernel = per_axis(op, "kernel_size", kernel_size, n)
    steps = strides(op, stride, kernel)
    dilations = per_axis(op, "dilation", dilation, n)
    pads = paddings(op, padding, kernel, steps, dilations)
    if any(max(pair) * 2 > k * d for pair, k, d in zip(pads, kernel, dilations)):
        raise ShapeError(f"{op}: padding {padding} is more than half of kernel_size {kernel}", parameter="padding")
    windows: dict[str, Any] = {"kernel": kernel, "stride": steps, "padding": pads, "dilation": dilations}
    return windows, output_sizes(op, shape[2:], ceil_mode=ceil_mode, **windows)


def _divisor(op: str, divisor_override: Any) -> int:
    if divisor_override is None:
        return 0
    if not isinstance(divisor_override, (int, np.integer)) or divisor_override == 0:
        raise ArgumentError(f"{op}: expected a whole number other than 0 as divisor_override, got {divisor_override!r}")
    return int(divisor_override)


def _taps(x: Any, fill: float, windows: dict[str, Any], sizes: Sequence[int]) -> Any:
    """Returns all windows on a new last axis, ``fill`` outside of x: for the references."""
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
    divisor_override: int | None = None,
) -> Any:
    windows, sizes = _geometry("avg_pool", x.shape, kernel_size, stride, padding, 1, ceil_mode)
    total = _taps(x, 0.0, windows, sizes).sum(-1)
    if divisor_override:
        return total / divisor_override
    inside = np.ones((1, 1, *x.shape[2:]))
    if count_include_pad:  # the padding counts, the positions that ceil_mode adds after it do not
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


def positions_reference(x: Any, **attributes: Any) -> Any:
    """Returns the maxima and their flat positions within the spatial plane."""
    attributes = {"kernel_size": 2, "stride": None, "padding": 0, "dilation": 1, "ceil_mode": False, **attributes}
    windows, sizes = _geometry("max_pool", x.shape, *attributes.values())
    plane = np.broadcast_to(np.arange(math.prod(x.shape[2:]), dtype=np.float64).reshape(x.shape[2:]), x.shape)
    best = _taps(x, -np.inf, windows, sizes).argmax(-1)[..., None]
    positions = np.take_along_axis(_taps(plane, -1.0, windows, sizes), best, -1)[..., 0]
    return _max_reference(x, **attributes), positions.astype(np.int32)


@computed(dtypes="numbers", name="max_pool", domain=compared(_all_ranks, positions_reference))
def max_pool(
    x: Tensor, kernel_size: Any = 2, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> tuple[Tensor, Tensor]:
    """Returns the largest element of each window of x (N, C, spatial...), and its flat position in the plane, int32."""
    engine = engine_of("max_pool", x)
    windows, sizes = _geometry("max_pool", x.shape, kernel_size, stride, padding, dilation, ceil_mode)
    shape = (*x.shape[:2], *sizes)
    if 0 in shape or 0 in x.shape:
        return engine.empty(shape, x.dtype), engine.empty(shape, "int32")
    return engine.window("max", x, shape=shape, **windows)  # type: ignore[no-any-return]


def _max_grad_cases(rng: np.random.Generator) -> Cases:
    for operands, attributes in _all_ranks(rng):
        if operands[0].size:
            y, positions = positions_reference(*operands, **attributes)
            yield (rng.uniform(-1, 1, y.shape), positions), {"shape": operands[0].shape, **attributes}


def _max_grad_reference(grad: Any, positions: Any, shape: Any, **attributes: Any) -> Any:
    out = np.zeros((shape[0] * shape[1], math.prod(shape[2:])))
    flat = positions.reshape(out.shape[0], -1)
    np.add.at(out, (np.arange(out.shape[0])[:, None], flat), grad.reshape(flat.shape))
    return out.reshape(shape)


@computed(dtypes="numbers", name="max_pool_grad", domain=compared(_max_grad_cases, _max_grad_reference))
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
    """Returns the gradient of ``max_pool`` by x, of shape ``shape``: each is added at the position of its maximum."""
    engine = engine_of("max_pool_grad", grad_output, indices)
    wanted = tuple(int(size) for size in shape)
    windows, sizes = _geometry("max_pool_grad", wanted, kernel_size, stride, padding, dilation, ceil_mode)
    if grad_output.shape != (*wanted[:2], *sizes) or indices.shape != grad_output.shape:
        raise ShapeError(
            f"max_pool_grad: grad_output {grad_output.shape}, indices {indices.shape}; expected {(*wanted[:2], *sizes)}"
        )
    if grad_output.size == 0 or 0 in wanted:
        return engine.zeros(wanted, grad_output.dtype)  # type: ignore[no-any-return]
    return engine.window("max_grad", grad_output, indices=indices, shape=wanted, **windows)  # type: ignore[no-any-return]


def _avg_cases(*ranks: int) -> Callable[[np.random.Generator], Cases]:
    def cases(rng: np.random.Generator) -> Cases:
        for n in ranks:
            pad = {"kernel_size": 2, "padding": 1}
            yield from _cases(n, ((1, 2, *(4,) * n), {"divisor_override": 3, **pad}))(rng)
            yield from _cases(n, ((1, 2, *(4,) * n), {"count_include_pad": False, **pad}))(rng)

    return cases


@computed(name="avg_pool", domain=compared(_avg_cases(1, 2, 3), _avg_reference))
def avg_pool(
    x: Tensor,
    kernel_size: Any = 2,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Returns the average of each window of x (N, C, spatial...); zeros of the padding count unless count_include_pad
    is False. ``divisor_override`` replaces the count as the divisor.
    """
    engine = engine_of("avg_pool", x)
    (x,) = floating("avg_pool", x)
    divisor = _divisor("avg_pool", divisor_override)
    windows, sizes = _geometry("avg_pool", x.shape, kernel_size, stride, padding, 1, ceil_mode)
    shape = (*x.shape[:2], *sizes)
    if 0 in shape or 0 in x.shape:
        return engine.zeros(shape, x.dtype)  # type: ignore[no-any-return]
    return engine.window(  # type: ignore[no-any-return]
        "avg", x, shape=shape, count_include_pad=count_include_pad, divisor=divisor, **windows
    )


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
    yield (rng.uniform(-1, 1, (1, 1, 2, 2)),), {"shape": (1, 1, 4, 4), "divisor_override": 3}


def _avg_grad_reference(grad: Any, shape: Any, **attributes: Any) -> Any:
    out = np.zeros(shape)
    for place in np.ndindex(*out.shape):
        unit = np.zeros(shape)
        unit[place] = 1.0
        out[place] = np.sum(_avg_reference(unit, **attributes) * grad)
    return out


@computed(dtypes="numbers", name="avg_pool_grad", domain=compared(_avg_grad_cases, _avg_grad_reference))
def avg_pool_grad(
    grad_output: Tensor,
    shape: Any,
    kernel_size: Any = 2,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Returns the gradient of ``avg_pool`` by x, of shape ``shape``; linear, and ``avg_pool`` is its gradient."""
    engine = engine_of("avg_pool_grad", grad_output)
    divisor = _divisor("avg_pool_grad", divisor_override)
    wanted = tuple(int(size) for size in shape)
    windows, sizes = _geometry("avg_pool_grad", wanted, kernel_size, stride, padding, 1, ceil_mode)
    if grad_output.shape != (*wanted[:2], *sizes):
        raise ShapeError(
            f"avg_pool_grad: grad_output {grad_output.shape}; expected {(*wanted[:2], *sizes)} for shape {wanted}"
        )
    if grad_output.size == 0 or 0 in wanted:
        return engine.zeros(wanted, grad_output.dtype)  # type: ignore[no-any-return]
    return engine.window(  # type: ignore[no-any-return]
        "avg_grad", grad_output, shape=wanted, count_include_pad=count_include_pad, divisor=divisor, **windows
    )


def check_rank(op: str, x: Tensor, n: int) -> None:
    """Raises ShapeError unless x is (N, C, n spatial axes), or (C, n spatial axes)."""
    if x.ndim not in (n + 1, n + 2):
        raise ShapeError(f"{op}: x {x.shape}; expected (N, C, {LAYOUT[n]}) or (C, {LAYOUT[n]})")


def in_batch(op: str, x: Tensor, n: int, pool: Callable[[Tensor], Any]) -> Any:
    """Returns ``pool(x)`` of x (N, C, spatial...), or its one item for x (C, spatial...) as a batch of one."""
    check_rank(op, x, n)
    if x.ndim == n + 2:
        return pool(x)
    pooled = pool(reshape(x, (1, *x.shape)))
    if isinstance(pooled, tuple):
        return tuple(reshape(each, each.shape[1:]) for each in pooled)
    return reshape(pooled, pooled.shape[1:])


def _pools(n: int) -> tuple[OpFunction, OpFunction]:
    """Makes max_pool{n}d and avg_pool{n}d."""

    def maximum(
        x: Tensor,
        kernel_size: Any = 2,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        name = f"max_pool{n}d"
        y, indices = in_batch(
            name, x, n, lambda batch: max_pool(batch, kernel_size, stride, padding, dilation, ceil_mode)
        )
        return (y, indices) if return_indices else y

    def average(
        x: Tensor,
        kernel_size: Any = 2,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        options = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
        return in_batch(f"avg_pool{n}d", x, n, lambda batch: avg_pool(batch, *options))  # type: ignore[no-any-return]

    layout = LAYOUT[n]
    windows = "Windows of kernel_size every stride (default: kernel_size) over the padded input"

    def row(kind: str, function: Any, doc: str, domain: Domain) -> OpFunction:
        return composite(name=f"{kind}_pool{n}d", doc=doc, domain=domain)(function)

    dilated = ((2, 2, *(7,) * n), {"kernel_size": 2, "stride": 1, "dilation": 2})
    return (
        row(
            "max",
            maximum,
            f"Returns the largest element of each window of x (N, C, {layout}) or (C, {layout}); NaN wins. {windows}; "
            "ceil_mode rounds sizes up.\n\nThe padding is "
            "never chosen. "
            "return_indices adds the flat positions within a plane, int32.",
            compared(_cases(n, dilated), _max_reference, second=False),
        ),
        row(
            "avg",
            average,
            f"Returns the average of each window of x (N, C, {layout}) or (C, {layout}). {windows}; ceil_mode rounds "
            "up.\n\nThe padding counts as zeros unless "
            "count_include_pad is False; divisor_override replaces the count as the divisor.",
            compared(_avg_cases(n), _avg_reference),
        ),
    )


avg_pool1d: OpFunction
max_pool1d: OpFunction
max_pool1d, avg_pool1d = _pools(1)
avg_pool2d: OpFunction
max_pool2d: OpFunction
max_pool2d, avg_pool2d = _pools(2)
avg_pool3d: OpFunction
max_pool3d: OpFunction
max_pool3d, avg_pool3d = _pools(3)


# -- power averages ----------------------------------------------------------------------------------------------------


def _power_reference(x: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    windows, sizes = _geometry("lp_pool", x.shape, kernel_size, stride, 0, 1, ceil_mode)
    return (_taps(np.abs(x), 0.0, windows, sizes) ** norm_type).sum(-1) ** (1 / norm_type)


def _power(n: int) -> OpFunction:
    name = f"lp_pool{n}d"

    def pooled(x: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
        engine_of(name, x)
        if not norm_type > 0:
            raise ArgumentError(f"{name}: expected a positive number as norm_type, got {norm_type!r}")
        powers = pow(abs(x), float(norm_type))
        sums = in_batch(name, powers, n, lambda batch: avg_pool(batch, kernel_size, stride, 0, ceil_mode, True, 1))
        return pow(sums, 1 / norm_type)  # type: ignore[no-any-return]

    def cases(rng: np.random.Generator) -> Cases:
        for shape, attributes in (((2, 2, *(5,) * n), {"kernel_size": 2}), ((1, 2, *(5,) * n), {"kernel_size": 3})):
            values = rng.uniform(0.3, 1, shape) * rng.choice([-1, 1], shape)
            yield (values,), {"norm_type": 2.0 if attributes["kernel_size"] == 2 else 3.0, "stride": 1, **attributes}

    doc = f"""Returns (sum of |x|^p over each window)^(1 / p), p = norm_type, of x (N, C, {LAYOUT[n]}) or without N.

    ``stride`` defaults to kernel_size; ceil_mode rounds sizes up."""
    return composite(name=name, doc=doc, domain=compared(cases, _power_reference))(pooled)


lp_pool3d: OpFunction
lp_pool2d: OpFunction
lp_pool1d: OpFunction
lp_pool1d, lp_pool2d, lp_pool3d = _power(1), _power(2), _power(3)

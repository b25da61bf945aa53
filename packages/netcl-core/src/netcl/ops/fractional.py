"""Max pooling over windows at random places: one window for each output of a given number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl.core.dtypes import is_floating
from netcl.core.errors import ArgumentError, DTypeError, ShapeError
from netcl.core.tensor import Tensor
from netcl.ops.arrange import part
from netcl.ops.domains import Cases, compared
from netcl.ops.elementwise import add, cast, floor, mul, sub
from netcl.ops.index import gather
from netcl.ops.pool import in_batch
from netcl.ops.random import uniform
from netcl.ops.reduce import max
from netcl.ops.shape import cat, expand, reshape
from netcl.ops.table import OpFunction, composite, engine_of
from netcl.ops.windows import per_axis


def _starts(samples: Any, extent: int, out: int, kernel: int) -> Any:
    """Returns the first positions of windows along an axis, of samples (N, C): (N, C, out); the last ends with it."""
    if out == 1:
        return np.full((*samples.shape, 1), extent - kernel)
    alpha = (extent - kernel) / (out - 1)
    starts = np.floor((np.arange(out) + samples[..., None]) * alpha) - np.floor(samples[..., None] * alpha)
    starts[..., -1] = extent - kernel
    return starts.astype(np.int64)


def _reference(
    x: Any, kernel_size: Any, output_size: Any, return_indices: bool = False, _random_samples: Any = None
) -> Any:
    n = len(output_size)
    kernel = per_axis("fractional_max_pool", "kernel_size", kernel_size, n)
    order = (1, 0) if n == 2 else (0, 1, 2)
    samples = np.asarray(_random_samples, np.float64)
    starts = [
        _starts(samples[..., order[axis]], x.shape[2 + axis], output_size[axis], kernel[axis]) for axis in range(n)
    ]
    result = np.empty((*x.shape[:2], *output_size))
    places = np.empty(result.shape, np.int64)
    for at in np.ndindex(*result.shape):
        first = [int(starts[axis][at[0], at[1], at[2 + axis]]) for axis in range(n)]
        window = x[at[:2]][tuple(slice(f, f + k) for f, k in zip(first, kernel))]
        inner = np.unravel_index(int(window.argmax()), window.shape)
        result[at] = window[inner]
        places[at] = np.ravel_multi_index([f + int(i) for f, i in zip(first, inner)], x.shape[2:])
    return (result, places) if return_indices else result


def _begins(samples: Tensor, extent: int, out: int, kernel: int) -> Tensor:
    """Returns ``_starts`` on the device: (N, C, out), int64."""
    place = samples.engine.queue
    last = Tensor.full((*samples.shape, 1), extent - kernel, "int64", queue=place)
    if out == 1:
        return last
    alpha = (extent - kernel) / (out - 1)
    each = reshape(samples, (*samples.shape, 1))
    steps = Tensor.arange(out - 1, dtype="int64", queue=place)
    moved = sub(floor(mul(add(each, cast(steps, dtype=samples.dtype)), alpha)), floor(mul(each, alpha)))
    return cat([cast(moved, dtype="int64"), last], 2)  # type: ignore[no-any-return]


def _sizes(op: str, shape: Sequence[int], output_size: Any, output_ratio: Any, kernel: Sequence[int]) -> Sequence[int]:
    n = len(kernel)
    if (output_size is None) == (output_ratio is None):
        raise ArgumentError(f"{op}: give output_size or output_ratio, and not both")
    if output_size is not None:
        wanted = per_axis(op, "output_size", output_size, n)
    else:
        ratios = (output_ratio,) * n if isinstance(output_ratio, (int, float)) else tuple(output_ratio)
        if len(ratios) != n or any(not 0 < ratio < 1 for ratio in ratios):
            raise ArgumentError(
                f"{op}: expected a number between 0 and 1, or {n} of them, as output_ratio, got {output_ratio!r}"
            )
        wanted = tuple(int(size * ratio) for size, ratio in zip(shape, ratios))
    if any(out < 1 or out + k - 1 > size for size, out, k in zip(shape, wanted, kernel)):
        raise ShapeError(
            f"{op}: {tuple(wanted)} windows of {tuple(kernel)} do not fit spatial sizes {tuple(shape)}; an axis needs "
            "output_size + kernel_size - 1 positions"
        )
    return wanted


def _pool(n: int) -> OpFunction:
    op = f"fractional_max_pool{n}d"
    # The samples of the last axis come first in 2-D, and of the first axis in 3-D, as in PyTorch.
    order = (1, 0) if n == 2 else (0, 1, 2)

    def pooled(x: Tensor, kernel: Sequence[int], sizes: Sequence[int], samples: Tensor) -> tuple[Tensor, Tensor]:
        batch, spatial = x.shape[:2], x.shape[2:]
        index: Any = None
        for axis in range(n):
            drawn = reshape(part(samples, 2, order[axis], 1), batch)
            first = _begins(drawn, spatial[axis], sizes[axis], kernel[axis])
            inside = Tensor.arange(kernel[axis], dtype="int64", queue=x.engine.queue)
            # (N, C, outputs of this axis, taps of this axis), each among the axes of all
            taps = add(reshape(first, (*batch, sizes[axis], 1)), inside)
            shape = [*batch, *(1,) * (2 * n)]
            shape[2 + axis], shape[2 + n + axis] = sizes[axis], kernel[axis]
            along = mul(reshape(taps, shape), math.prod(spatial[axis + 1 :]))
            index = along if index is None else add(index, along)
        windows, count = math.prod(sizes), math.prod(kernel)
        index = reshape(expand(index, (*batch, *sizes, *kernel)), (*batch, windows * count))
        taken = gather(reshape(x, (*batch, math.prod(spatial))), 2, index)
        best = max(reshape(taken, (*batch, windows, count)), axis=3)
        places = gather(reshape(index, (*batch, windows, count)), 3, reshape(best.indices, (*batch, windows, 1)))
        final = (*batch, *sizes)
        return reshape(best.values, final), reshape(places, final)

    def function(
        x: Tensor,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        engine = engine_of(op, x)
        if not is_floating(x.dtype):
            raise DTypeError(f"{op}: expected floating dtypes, got {x.dtype}; convert with astype")
        kernel = per_axis(op, "kernel_size", kernel_size, n)
        sizes = _sizes(op, x.shape[-n:], output_size, output_ratio, kernel)
        wide = "float64" if x.dtype == "float64" else "float32"
        shape = (x.shape[0] if x.ndim == n + 2 else 1, x.shape[-n - 1], n)
        if _random_samples is None:
            samples = uniform(0.0, 1.0, shape=shape, dtype=wide, queue=engine.queue)
        elif isinstance(_random_samples, Tensor):
            samples = cast(_random_samples.detach(), dtype=wide)
        else:
            samples = engine.tensor(np.asarray(_random_samples), wide)
        if samples.shape != shape:
            raise ShapeError(f"{op}: _random_samples {samples.shape}; expected {shape}")
        values, indices = in_batch(op, x, n, lambda batch: pooled(batch, kernel, sizes, samples))
        return (values, indices) if return_indices else values

    def cases(rng: np.random.Generator) -> Cases:
        shape = (2, 3, 7, 6) if n == 2 else (1, 2, 5, 6, 4)
        sizes = (((3, 4), 2), ((5, 1), (3, 2))) if n == 2 else (((2, 3, 2), 2), ((4, 1, 3), (2, 3, 1)))
        for at, (out, kernel) in enumerate(sizes):
            values = rng.permutation(np.linspace(-2, 2, math.prod(shape))).reshape(shape)
            # Samples at which no start is within rounding of a whole number.
            drawn = np.array([0.13, 0.37, 0.59, 0.71, 0.83, 0.29] * 3)[: shape[0] * shape[1] * n]
            attributes = {"output_size": out, "kernel_size": kernel, "_random_samples": drawn.reshape(*shape[:2], n)}
            yield (values,), attributes
            if at == len(sizes) - 1:
                yield (values,), {**attributes, "return_indices": True}

    spatial = "H, W" if n == 2 else "D, H, W"
    doc = f"""Returns the largest element of each of ``output_size`` windows of kernel_size per axis, at random places,
    of x (N, C, {spatial}) or (C, {spatial}) (Graham 2014).

    ``output_ratio`` gives the number of windows as a share of each axis, in place of output_size. return_indices adds
    the flat positions within a plane, int64. ``_random_samples`` (N, C, {n}) in [0, 1) set the places. Raises
    ShapeError if the windows do not fit."""
    domain = compared(cases, _reference, second=False)
    return composite(name=op, doc=doc, domain=domain)(function)


fractional_max_pool3d: OpFunction
fractional_max_pool2d: OpFunction
fractional_max_pool2d, fractional_max_pool3d = _pool(2), _pool(3)

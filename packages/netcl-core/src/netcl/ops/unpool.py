"""Unpooling: writes maxima back to the positions that max pooling returned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl.core.errors import ShapeError
from netcl.core.tensor import Tensor
from netcl.ops.domains import Cases, compared
from netcl.ops.elementwise import add
from netcl.ops.index import indices_on
from netcl.ops.pool import LAYOUT, check_rank, positions_reference
from netcl.ops.reduce import sum as sum_of
from netcl.ops.scatter import put_at
from netcl.ops.shape import reshape
from netcl.ops.table import OpFunction, composite, engine_of
from netcl.ops.windows import per_axis, strides


def _unpool_reference(x: Any, indices: Any, **attributes: Any) -> Any:
    sizes = _unpooled(x.shape, **attributes)
    out = np.zeros((*x.shape[:2], math.prod(sizes)))
    flat = indices.reshape(*x.shape[:2], math.prod(x.shape[2:]))
    np.put_along_axis(out, flat.astype(np.int64), x.reshape(flat.shape), 2)
    return out.reshape(*x.shape[:2], *sizes)


def _unpooled(
    shape: Sequence[int], kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None, op: str = ""
) -> tuple[int, ...]:
    """Returns the spatial sizes before the pooling: the given ones, or the smallest that yield ``shape``."""
    n = len(shape) - 2
    kernel = per_axis(op, "kernel_size", kernel_size, n)
    steps = strides(op, stride, kernel)
    pads = per_axis(op, "padding", padding, n, 0)
    least = tuple((size - 1) * s - 2 * p + k for size, s, p, k in zip(shape[2:], steps, pads, kernel))
    if output_size is None:
        if min(least) < 0:
            raise ShapeError(f"{op}: x {tuple(shape)} with padding {pads} gives the negative size {least}")
        return least
    wanted = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * n
    sizes = per_axis(op, "output_size", wanted[-n:] if len(wanted) == n + 2 else wanted, n)
    if any(not default - s < size < default + s for size, default, s in zip(sizes, least, steps)):
        raise ShapeError(
            f"{op}: output_size {sizes}; {least} may be off by less than the stride {steps}", parameter="output_size"
        )
    return sizes


def _unpool(n: int) -> OpFunction:
    name = f"max_unpool{n}d"

    def unpool(
        x: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
    ) -> Tensor:
        engine = engine_of(name, x, indices)
        check_rank(name, x, n)
        if indices.shape != x.shape:
            raise ShapeError(f"{name}: indices {indices.shape} for x {x.shape}; expected one for each element")
        if x.ndim == n + 1:
            batch, places = reshape(x, (1, *x.shape)), reshape(indices, (1, *x.shape))
            y = unpool(batch, places, kernel_size, stride, padding, output_size)
            return reshape(y, y.shape[1:])  # type: ignore[no-any-return]
        sizes = _unpooled(x.shape, kernel_size, stride, padding, output_size, name)
        planes = (*x.shape[:2], math.prod(x.shape[2:]))
        whole = (*x.shape[:2], math.prod(sizes))
        blank, places = engine.zeros(whole, x.dtype), indices_on(name, engine, indices, whole[2])
        if not x.size:
            return reshape(add(blank, sum_of(x)), (*x.shape[:2], *sizes))  # type: ignore[no-any-return]
        placed = put_at(blank, reshape(places, planes), reshape(x, planes), 2, False, name, shared=True)
        return reshape(placed, (*x.shape[:2], *sizes))  # type: ignore[no-any-return]

    def cases(rng: np.random.Generator) -> Cases:
        for size, kernel, stride in ((4, 2, 2), (5, 2, 2), (5, 2, 3)):  # without equal indices
            shape = (2, 2, *(size,) * n)
            values = rng.permutation(np.linspace(-2, 2, math.prod(shape))).reshape(shape)
            attributes = {"kernel_size": kernel, "stride": stride}
            more = {"output_size": shape[2:]} if kernel == stride else {}
            yield positions_reference(values, **attributes), {**attributes, **more}

    doc = f"""Returns the inverse of max_pool{n}d, with zeros for dropped elements: x (N, C, {LAYOUT[n]}) at
    ``indices``, or both without N.

    ``indices`` are flat positions within a plane, as max_pool{n}d(return_indices=True) returns them; of elements
    with equal indices the last stays, and each has the gradient at its position. ``output_size`` gives the sizes
    (spatial, or all) if several lead to x's; the default is (size - 1) * stride - 2 * padding + kernel_size."""
    return composite(name=name, doc=doc, domain=compared(cases, _unpool_reference))(unpool)


max_unpool3d: OpFunction
max_unpool2d: OpFunction
max_unpool1d: OpFunction
max_unpool1d, max_unpool2d, max_unpool3d = _unpool(1), _unpool(2), _unpool(3)

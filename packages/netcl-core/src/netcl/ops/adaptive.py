"""Adaptive pooling: averages and maxima over a given number of sections of each spatial axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from netcl.core.errors import ShapeError
from netcl.core.expr import Load, mean, size_of
from netcl.core.ops_table.dispatch import Cases, Domain
from netcl.core.tensor import Tensor
from netcl.ops.domains import compared
from netcl.ops.pool import LAYOUT, in_batch
from netcl.ops.table import OpFunction, composite, computed, engine_of, floating
from netcl.ops.windows import per_axis


def _sections(size: int, out: int) -> list[tuple[int, int]]:
    return [(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]


def adaptive_reference(function: Any) -> Callable[..., Any]:
    """Sections are rectangles, so the axes can be reduced one after the other."""

    def reference(x: Any, output_size: Any) -> Any:
        wanted = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * (x.ndim - 2)
        for axis, out in enumerate(wanted, 2):
            parts = [np.take(x, range(low, high), axis) for low, high in _sections(x.shape[axis], out or x.shape[axis])]
            x = np.concatenate([function(section, axis=axis, keepdims=True) for section in parts], axis)
        return x

    return reference


def _sizes(op: str, x: Sequence[int], output_size: Any) -> tuple[int, ...]:
    """Returns the output's spatial sizes; None keeps an axis as it is."""
    n = len(x) - 2
    if n < 1:
        raise ShapeError(f"{op}: x {tuple(x)}; expected (N, C, spatial...)")
    requested = output_size if isinstance(output_size, (tuple, list)) else (output_size,)
    requested = requested * n if len(requested) == 1 else requested
    if len(requested) == n:
        requested = tuple(extent if size is None else size for size, extent in zip(requested, x[2:]))
    sizes = per_axis(op, "output_size", requested, n)
    if 0 in x[2:]:
        raise ShapeError(f"{op}: x {tuple(x)} has no spatial elements")
    return sizes


def _windows(extents: Sequence[int], sizes: Sequence[int]) -> dict[str, Any]:
    """Returns the engine's windows: sections, or plain windows if all sections have one size."""
    n = len(sizes)
    rest: dict[str, Any] = {"padding": ((0, 0),) * n, "dilation": (1,) * n}
    if all(extent % out == 0 for extent, out in zip(extents, sizes)):
        kernel = tuple(extent // out for extent, out in zip(extents, sizes))
        return {"kernel": kernel, "stride": kernel, **rest}
    # A section begins at most (out - gcd) / out into an element, and its end is rounded up.
    longest = tuple(-(-(out - math.gcd(extent, out) + extent) // out) for extent, out in zip(extents, sizes))
    return {"kernel": longest, "stride": (0,) * n, **rest}


_SHAPES: dict[int, tuple[tuple[tuple[int, ...], Any], ...]] = {
    1: (((2, 3, 6), 3), ((1, 2, 7), 3), ((2, 2, 3), 5)),
    2: (((2, 3, 6, 6), 3), ((1, 2, 7, 5), (3, 2)), ((2, 2, 5, 4), (None, 3)), ((0, 2, 5, 5), 2)),
    3: (((1, 2, 4, 4, 2), (2, 2, 1)), ((1, 2, 5, 3, 4), (3, 2, 4)), ((1, 1, 2, 3, 3), 1)),
}


def _cases(*ranks: int) -> Callable[[np.random.Generator], Cases]:
    def cases(rng: np.random.Generator) -> Cases:
        for n in ranks:
            for shape, out in _SHAPES[n]:
                yield (rng.permutation(np.linspace(-2, 2, math.prod(shape))).reshape(shape),), {"output_size": out}

    return cases


def _positions_reference(x: Any, output_size: Any) -> Any:
    """Returns the maxima, and their flat positions in the spatial plane."""
    y = adaptive_reference(np.max)(x, output_size)
    planes = x.reshape(*x.shape[:2], math.prod(x.shape[2:]))
    positions = np.zeros(y.shape, np.int32)
    for place in np.ndindex(*y.shape):  # all elements of a plane differ
        positions[place] = int(np.flatnonzero(planes[place[:2]] == y[place])[0])
    return y, positions


@computed(dtypes="numbers", domain=compared(_cases(1, 2, 3), _positions_reference, second=False))
def adaptive_max_pool(x: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """Returns the largest element of each section of x (N, C, spatial...), and its flat int32 position in the plane."""
    engine = engine_of("adaptive_max_pool", x)
    sizes = _sizes("adaptive_max_pool", x.shape, output_size)
    shape = (*x.shape[:2], *sizes)
    if 0 in x.shape:
        return engine.empty(shape, x.dtype), engine.empty(shape, "int32")
    return engine.window("max", x, shape=shape, **_windows(x.shape[2:], sizes))  # type: ignore[no-any-return]


def _max_grad_cases(rng: np.random.Generator) -> Cases:
    for operands, attributes in _cases(1, 2, 3)(rng):
        if operands[0].size:
            y, positions = _positions_reference(*operands, **attributes)
            yield (rng.uniform(-1, 1, y.shape), positions), {"shape": operands[0].shape}


def _max_grad_reference(grad: Any, positions: Any, shape: Any) -> Any:
    out = np.zeros((shape[0] * shape[1], math.prod(shape[2:])))
    flat = positions.reshape(out.shape[0], -1)
    np.add.at(out, (np.arange(out.shape[0])[:, None], flat), grad.reshape(flat.shape))
    return out.reshape(shape)


@computed(dtypes="numbers", domain=compared(_max_grad_cases, _max_grad_reference))
def adaptive_max_pool_grad(grad_output: Tensor, indices: Tensor, shape: Any) -> Tensor:
    """Returns the gradient of ``adaptive_max_pool`` by x, of shape ``shape``: each is added at its maximum."""
    engine = engine_of("adaptive_max_pool_grad", grad_output, indices)
    wanted = tuple(int(size) for size in shape)
    if grad_output.shape[:2] != wanted[:2] or indices.shape != grad_output.shape or len(wanted) != grad_output.ndim:
        raise ShapeError(
            f"adaptive_max_pool_grad: grad_output {grad_output.shape}, indices {indices.shape} for shape {wanted}"
        )
    if grad_output.size == 0 or 0 in wanted:
        return engine.zeros(wanted, grad_output.dtype)  # type: ignore[no-any-return]
    windows = _windows(wanted[2:], grad_output.shape[2:])
    return engine.window("max_grad", grad_output, indices=indices, shape=wanted, **windows)  # type: ignore[no-any-return]


@computed(domain=compared(_cases(1, 2, 3), adaptive_reference(np.mean)))
def adaptive_avg_pool(x: Tensor, output_size: Any) -> Tensor:
    """Returns the average of each section of x (N, C, spatial...)."""
    engine = engine_of("adaptive_avg_pool", x)
    (x,) = floating("adaptive_avg_pool", x)
    sizes = _sizes("adaptive_avg_pool", x.shape, output_size)
    shape = (*x.shape[:2], *sizes)
    if 0 in x.shape:
        return engine.zeros(shape, x.dtype)  # type: ignore[no-any-return]
    if set(sizes) == {1}:  # a sum that work-items share
        means = mean(Load(0, x.dtype), tuple(range(2, x.ndim)))
        return engine.run((means,), (x,), shapes=(shape,))[0]
    return engine.window("avg", x, shape=shape, **_windows(x.shape[2:], sizes))  # type: ignore[no-any-return]


def _avg_grad_cases(rng: np.random.Generator) -> Cases:
    for shape, out in (*_SHAPES[1], ((1, 2, 3, 4), (2, 3)), ((1, 1, 3, 2, 3), (2, 2, 1))):
        y = adaptive_reference(np.mean)(np.zeros(shape), out)
        yield (rng.uniform(-1, 1, y.shape),), {"shape": shape}


def _avg_grad_reference(grad: Any, shape: Any) -> Any:
    out = np.zeros(shape)
    for place in np.ndindex(*out.shape):
        unit = np.zeros(shape)
        unit[place] = 1.0
        out[place] = np.sum(adaptive_reference(np.mean)(unit, grad.shape[2:]) * grad)
    return out


@computed(dtypes="numbers", domain=compared(_avg_grad_cases, _avg_grad_reference))
def adaptive_avg_pool_grad(grad_output: Tensor, shape: Any) -> Tensor:
    """Returns the gradient of ``adaptive_avg_pool`` by x, of shape ``shape``; linear."""
    engine = engine_of("adaptive_avg_pool_grad", grad_output)
    wanted = tuple(int(size) for size in shape)
    if grad_output.shape[:2] != wanted[:2] or len(wanted) != grad_output.ndim:
        raise ShapeError(f"adaptive_avg_pool_grad: grad_output {grad_output.shape} for shape {wanted}")
    if grad_output.size == 0 or 0 in wanted:
        return engine.zeros(wanted, grad_output.dtype)  # type: ignore[no-any-return]
    if set(grad_output.shape[2:]) == {1}:
        share = Load(0, grad_output.dtype) / size_of(tuple(range(2, len(wanted))), grad_output.dtype)
        return engine.run((share,), (grad_output,), shapes=(wanted,))[0]
    windows = _windows(wanted[2:], grad_output.shape[2:])
    return engine.window("avg_grad", grad_output, shape=wanted, **windows)  # type: ignore[no-any-return]


# -- by the number of axes, under PyTorch's names ----------------------------------------------------------------------


def _pools(n: int) -> tuple[OpFunction, OpFunction]:
    """Returns adaptive_avg_pool{n}d and adaptive_max_pool{n}d."""

    def average(x: Tensor, output_size: Any) -> Tensor:
        name = f"adaptive_avg_pool{n}d"
        engine_of(name, x)
        return in_batch(name, x, n, lambda batch: adaptive_avg_pool(batch, output_size))  # type: ignore[no-any-return]

    def maximum(x: Tensor, output_size: Any, return_indices: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        name = f"adaptive_max_pool{n}d"
        engine_of(name, x)
        y, positions = in_batch(name, x, n, lambda batch: adaptive_max_pool(batch, output_size))
        return (y, positions) if return_indices else y

    sections = (
        f"output_size (an int or {n}, None keeps an axis) sections of each axis, from floor(i * size / out) to "
        "ceil((i + 1) * size / out)"
    )

    def row(kind: str, function: Any, doc: str, domain: Domain) -> OpFunction:
        return composite(name=f"adaptive_{kind}_pool{n}d", doc=doc, domain=domain)(function)

    return (
        row(
            "avg",
            average,
            f"Returns the averages of x (N, C, {LAYOUT[n]}) or (C, {LAYOUT[n]}) over {sections}.",
            compared(_cases(n), adaptive_reference(np.mean)),
        ),
        row(
            "max",
            maximum,
            f"Returns the maxima of x (N, C, {LAYOUT[n]}) or (C, {LAYOUT[n]}) over {sections}; return_indices adds "
            "their flat positions within a plane, int32.",
            compared(_cases(n), adaptive_reference(np.max), second=False),
        ),
    )


adaptive_max_pool1d: OpFunction
adaptive_avg_pool1d: OpFunction
adaptive_avg_pool1d, adaptive_max_pool1d = _pools(1)
adaptive_max_pool2d: OpFunction
adaptive_avg_pool2d: OpFunction
adaptive_avg_pool2d, adaptive_max_pool2d = _pools(2)
adaptive_max_pool3d: OpFunction
adaptive_avg_pool3d: OpFunction
adaptive_avg_pool3d, adaptive_max_pool3d = _pools(3)

"""Unfolding images into columns of windows, and its adjoint."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netcl.core.errors import ShapeError
from netcl.core.tensor import Tensor
from netcl.ops.domains import Cases, compared
from netcl.ops.table import as_dtype, computed, engine_of
from netcl.ops.windows import output_sizes, paddings, per_axis

_CASES: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 3, 5, 4), {"kernel_size": (3, 2), "padding": 1}),
    ((1, 2, 6, 7), {"kernel_size": 2, "stride": (2, 1), "dilation": (1, 2)}),
    ((2, 2, 7), {"kernel_size": 3, "stride": 2}),
)


def _geometry(op: str, n: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any) -> dict[str, Any]:
    kernel = per_axis(op, "kernel_size", kernel_size, n)
    steps, dilations = per_axis(op, "stride", stride, n), per_axis(op, "dilation", dilation, n)
    return {
        "kernel": kernel,
        "stride": steps,
        "padding": paddings(op, padding, kernel, steps, dilations),
        "dilation": dilations,
    }


def _reference(x: Any, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1) -> Any:
    n = x.ndim - 2
    g = _geometry("im2col", n, kernel_size, stride, padding, dilation)
    sizes = output_sizes("im2col", x.shape[2:], **g)
    padded = np.pad(x, [(0, 0), (0, 0), *g["padding"]])
    columns = np.zeros((x.shape[0], *sizes, x.shape[1], *g["kernel"]))
    for tap in np.ndindex(*g["kernel"]):
        window = tuple(
            slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, o, s in zip(tap, g["dilation"], sizes, g["stride"])
        )
        place, taken = (..., *tap), (slice(None), slice(None), *window)
        columns[place] = np.moveaxis(padded[taken], 1, -1)
    return columns.reshape(x.shape[0] * math.prod(sizes), x.shape[1] * math.prod(g["kernel"]))


def _adjoint(columns: Any, shape: Any, **geometry: Any) -> Any:
    out = np.zeros(shape)
    for place in np.ndindex(*out.shape):
        unit = np.zeros(shape)
        unit[place] = 1.0
        out[place] = np.sum(_reference(unit, **geometry) * columns)
    return out


def _unfold_cases(rng: np.random.Generator) -> Cases:
    for shape, attributes in _CASES:
        yield (rng.uniform(-1, 1, shape),), attributes


def _fold_cases(rng: np.random.Generator) -> Cases:
    for shape, attributes in _CASES:
        yield (rng.uniform(-1, 1, _reference(np.zeros(shape), **attributes).shape),), {"shape": shape, **attributes}


@computed(domain=compared(_unfold_cases, _reference))
def im2col(x: Tensor, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1) -> Tensor:
    """Returns the windows of x (N, C, *S) as rows: (N * prod(O), C * prod(kernel)), O the output sizes of a
    convolution.

    ``kernel_size``, ``stride``, ``padding`` and ``dilation`` are the convolution's.
    """
    engine = engine_of("im2col", x)
    if x.dtype == "bool":
        return as_dtype(im2col(as_dtype(x, "uint8"), kernel_size, stride, padding, dilation), "bool")
    if x.ndim < 3:
        raise ShapeError(f"im2col: x {x.shape}; expected (N, C, spatial...)")
    geometry = _geometry("im2col", x.ndim - 2, kernel_size, stride, padding, dilation)
    sizes = output_sizes("im2col", x.shape[2:], **geometry)
    rows, columns = x.shape[0] * math.prod(sizes), x.shape[1] * math.prod(geometry["kernel"])
    if rows == 0 or columns == 0:
        return engine.empty((rows, columns), x.dtype)  # type: ignore[no-any-return]
    return engine.window("im2col", x, **geometry)  # type: ignore[no-any-return]


@computed(dtypes="numbers", domain=compared(_fold_cases, _adjoint))
def col2im(
    columns: Tensor, shape: Any, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1
) -> Tensor:
    """Returns the adjoint of ``im2col``: ``columns``, rows of windows, summed into an image of ``shape`` (N, C, *S).

    ``kernel_size``, ``stride``, ``padding`` and ``dilation`` are as in the ``im2col`` call.
    """
    engine = engine_of("col2im", columns)
    wanted = tuple(int(size) for size in shape)
    geometry = _geometry("col2im", len(wanted) - 2, kernel_size, stride, padding, dilation)
    sizes = output_sizes("col2im", wanted[2:], **geometry)
    expected = (wanted[0] * math.prod(sizes), wanted[1] * math.prod(geometry["kernel"]))
    if columns.shape != expected:
        raise ShapeError(f"col2im: columns {columns.shape}; expected {expected} for shape {wanted}")
    if 0 in expected or 0 in wanted:
        return engine.zeros(wanted, columns.dtype)  # type: ignore[no-any-return]
    return engine.window("col2im", columns, shape=wanted, **geometry)  # type: ignore[no-any-return]

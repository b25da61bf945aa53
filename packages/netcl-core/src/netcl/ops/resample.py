"""Resizing images: interpolation of every mode, and moving channels to pixels and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from netcl.core.dtypes import is_floating
from netcl.core.errors import ArgumentError, DTypeError, ShapeError
from netcl.core.ops_table.dispatch import Cases, Domain
from netcl.core.tensor import Tensor
from netcl.ops.adaptive import adaptive_avg_pool, adaptive_reference
from netcl.ops.domains import compared
from netcl.ops.linalg import matmul
from netcl.ops.shape import permute, reshape
from netcl.ops.table import as_dtype, composite, computed, engine_of, floating
from netcl.ops.windows import per_axis

Place = tuple[int, int, int]

# mode -> neighbors along an axis, and its spatial ranks; area is adaptive average pooling.
_MODES: dict[str, tuple[int, tuple[int, ...]]] = {
    "nearest": (1, (1, 2, 3)),
    "nearest-exact": (1, (1, 2, 3)),
    "linear": (2, (1,)),
    "bilinear": (2, (2,)),
    "bicubic": (4, (2,)),
    "trilinear": (2, (3,)),
    "area": (0, (1, 2, 3)),
}


# -- one axis after the other ------------------------------------------------------------------------------------------


def _matrix(extent: int, out: int, taps: int, place: Place) -> Any:
    """Returns the weights (out, extent) of one axis, from the definition, in float64."""
    step, start, unit = place
    matrix = np.zeros((out, extent))
    for o in range(out):
        at = Fraction(step * o + start, unit)
        whole = math.floor(at)
        t = float(at - whole)
        a = -0.75
        near = [((a + 2) * d - (a + 3)) * d * d + 1 for d in (t, 1 - t)]
        far = [((a * d - 5 * a) * d + 8 * a) * d - 4 * a for d in (1 + t, 2 - t)]
        weights = {1: [1.0], 2: [1 - t, t], 4: [far[0], *near, far[1]]}[taps]
        for k, weight in enumerate(weights, whole - (taps == 4)):
            matrix[o, min(max(k, 0), extent - 1)] += weight
    return matrix


def _reference(x: Any, size: Any, taps: int, places: Any) -> Any:
    for axis, (out, place) in enumerate(zip(size, places), 2):
        x = np.moveaxis(np.tensordot(_matrix(x.shape[axis], out, taps, place), x, (1, axis)), 0, axis)
    return x


def _reference_grad(grad: Any, shape: Any, taps: int, places: Any) -> Any:
    for axis, (size, place) in enumerate(zip(shape[2:], places), 2):
        grad = np.moveaxis(np.tensordot(_matrix(size, grad.shape[axis], taps, place).T, grad, (1, axis)), 0, axis)
    return grad


_SAMPLES: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 3, 3, 5), {"size": (7, 2), "taps": 2, "places": ((6, -4, 14), (10, 3, 4))}),
    ((1, 2, 4, 3), {"size": (5, 6), "taps": 4, "places": ((3, 0, 4), (6, -3, 12))}),
    ((2, 2, 3, 4), {"size": (6, 3), "taps": 1, "places": ((3, 0, 6), (4, 0, 3))}),
    ((2, 3, 1), {"size": (3,), "taps": 2, "places": ((0, 0, 1),)}),
)


def _cases(rng: np.random.Generator) -> Cases:
    for shape, attributes in _SAMPLES:
        yield (rng.uniform(-1, 1, shape),), attributes


def _grad_cases(rng: np.random.Generator) -> Cases:
    for shape, attributes in _SAMPLES:
        rest = {name: value for name, value in attributes.items() if name != "size"}
        yield (rng.uniform(-1, 1, (*shape[:2], *attributes["size"])),), {"shape": shape, **rest}


def _wide(x: Tensor) -> str:
    """Returns the dtype for sums of weighted neighbors, axis by axis."""
    return "float32" if x.dtype in ("float16", "bfloat16") else x.dtype


@computed(domain=compared(_cases, _reference))
def resample(x: Tensor, size: Any, taps: int, places: Any) -> Tensor:
    """Returns x (N, C, *S) at ``size`` positions per spatial axis: nearest (``taps`` 1), linear (2) or cubic (4)
    weights.

    ``places`` has (step, start, unit) per axis: output o is at (step * o + start) / unit. Neighbors outside take the
    border's value. ``interpolate`` computes these arguments.
    """
    engine = engine_of("resample", x)
    if taps > 1 and not is_floating(x.dtype):
        raise DTypeError(f"interpolate: expected a floating dtype for weighted neighbours, got {x.dtype}")
    wide = x if taps == 1 else as_dtype(x, _wide(x))
    result = engine.resample("forward", wide, sizes=size, taps=taps, places=places)
    return as_dtype(result, x.dtype)


@computed(domain=compared(_grad_cases, _reference_grad))
def resample_grad(grad_output: Tensor, shape: Any, taps: int, places: Any) -> Tensor:
    """Returns the gradient of ``resample`` by x, of shape ``shape``; linear, and ``resample`` is its gradient."""
    engine = engine_of("resample_grad", grad_output)
    wide = as_dtype(grad_output, _wide(grad_output))
    result = engine.resample("gradient", wide, sizes=shape[2:], taps=taps, places=places)
    return as_dtype(result, grad_output.dtype)


# -- interpolation as in PyTorch ---------------------------------------------------------------------------------------


def _target(
    op: str, shape: Sequence[int], size: Any, scale_factor: Any, recompute: bool | None = None
) -> tuple[tuple[int, ...], list[Fraction]]:
    """Returns spatial sizes, and input positions per output position of each axis: by the sizes if ``recompute``."""
    n = len(shape) - 2
    if (size is None) == (scale_factor is None):
        sizes_text = f"size={size}, scale_factor={scale_factor}"
        raise ShapeError(f"{op}: expected either size or scale_factor, got {sizes_text}", parameter="size")
    if size is not None:
        if recompute:
            raise ArgumentError(f"{op}: expected a scale_factor with recompute_scale_factor, got size {size}")
        sizes = per_axis(op, "size", size, n)
        return sizes, [Fraction(extent, out) for extent, out in zip(shape[2:], sizes)]
    factors = [float(factor) for factor in np.ravel(scale_factor)]
    factors = factors * n if len(factors) == 1 else factors
    if len(factors) != n or any(not math.isfinite(factor) or factor <= 0 for factor in factors):
        raise ShapeError(
            f"{op}: expected a positive number or {n} of them as scale_factor, got {scale_factor!r}",
            parameter="scale_factor",
        )
    sizes = per_axis(op, "scale_factor", tuple(math.floor(extent * f) for extent, f in zip(shape[2:], factors)), n)
    if recompute:
        return sizes, [Fraction(extent, out) for extent, out in zip(shape[2:], sizes)]
    return sizes, [1 / Fraction(factor).limit_denominator(2**16) for factor in factors]


def _places(mode: str, extent: int, out: int, scale: Fraction, align_corners: bool) -> Place:
    """Returns the position of output o in an axis: (step * o + start) / unit."""
    if align_corners:
        return (extent - 1, 0, out - 1) if out > 1 else (0, 0, 1)
    num, den = scale.numerator, scale.denominator
    if mode == "nearest":
        return num, 0, den
    if mode == "nearest-exact":
        return 2 * num, num, 2 * den
    return 2 * num, num - den, 2 * den  # (o + 1/2) * scale - 1/2: pixels are squares


def _smooth(extent: int, out: int, taps: int, scale: float) -> Any:
    """Returns the weights (out, extent) of one axis with antialiasing: the triangle (``taps`` 2) or Keys' cubic filter
    with a = -1/2 (4), stretched by ``scale`` if the axis shrinks, and normalized.
    """
    stretch = max(scale, 1.0)
    support = taps / 2 * stretch
    matrix = np.zeros((out, extent))
    for o in range(out):
        centre = scale * (o + 0.5)
        first, last = max(int(centre - support + 0.5), 0), min(int(centre + support + 0.5), extent)
        at = np.abs((np.arange(first, last) - centre + 0.5) / stretch)
        if taps == 2:
            weights = np.maximum(1 - at, 0)
        else:
            near, far = (1.5 * at - 2.5) * at * at + 1, ((-0.5 * at + 2.5) * at - 4) * at + 2
            weights = np.where(at < 1, near, np.where(at < 2, far, 0))
        matrix[o, first:last] = weights / weights.sum()
    return matrix


def _antialiased(x: Tensor, sizes: Sequence[int], scales: Sequence[Fraction], taps: int, align_corners: bool) -> Tensor:
    """Returns each axis multiplied by its matrix of weights, the last axis first."""
    (wide,) = floating("interpolate", x)
    for axis in (3, 2):
        extent, out, scale = wide.shape[axis], sizes[axis - 2], float(scales[axis - 2])
        if align_corners:
            scale = (extent - 1) / (out - 1) if out > 1 else 0.0
        weights = wide.engine.tensor(_smooth(extent, out, taps, scale), wide.dtype)
        wide = matmul(wide, weights, transpose_b=True) if axis == 3 else matmul(weights, wide)
    return wide  # type: ignore[no-any-return]


def _interpolate(
    op: str,
    x: Tensor,
    size: Any,
    scale_factor: Any,
    mode: str,
    align_corners: bool | None,
    recompute: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    engine_of(op, x)
    if mode not in _MODES:
        raise ArgumentError(f"{op}: expected one of {', '.join(_MODES)} as mode, got {mode!r}")
    taps, ranks = _MODES[mode]
    if x.ndim - 2 not in ranks:
        wanted = " or ".join(str(rank + 2) for rank in ranks)
        raise ShapeError(f"{op}: mode {mode!r} is for {wanted} dimensions, and x is {x.shape}")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ArgumentError(f"{op}: expected mode bilinear or bicubic with antialias, got {mode!r}")
    if align_corners and taps < 2:
        raise ArgumentError(
            f"{op}: expected mode linear, bilinear, bicubic or trilinear with align_corners, got {mode!r}"
        )
    sizes, scales = _target(op, x.shape, size, scale_factor, recompute)
    if 0 in x.shape[2:]:
        raise ShapeError(f"{op}: x {x.shape} has no spatial elements")
    if mode == "area":
        return adaptive_avg_pool(x, sizes)  # type: ignore[no-any-return]
    if antialias:
        return _antialiased(x, sizes, scales, taps, bool(align_corners))
    rows = zip(x.shape[2:], sizes, scales)
    places = tuple(_places(mode, extent, out, scale, bool(align_corners)) for extent, out, scale in rows)
    return resample(x, sizes, taps, places)  # type: ignore[no-any-return]


_RESIZED: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 3, 4), {"scale_factor": 2}),
    ((1, 2, 3, 2), {"scale_factor": (2, 3)}),
    ((1, 2, 3, 5), {"size": (7, 3)}),
    ((1, 2, 5, 4), {"size": (3, 6), "mode": "nearest-exact"}),
    ((2, 2, 5), {"size": 8, "mode": "linear"}),
    ((1, 2, 3, 5), {"scale_factor": 2.5, "mode": "bilinear"}),
    ((1, 2, 4, 5), {"size": (7, 3), "mode": "bilinear", "align_corners": True}),
    ((2, 1, 4, 5), {"size": (6, 3), "mode": "bicubic"}),
    ((1, 1, 4, 3), {"size": (7, 1), "mode": "bicubic", "align_corners": True}),
    ((1, 2, 3, 2, 3), {"size": (2, 4, 5), "mode": "trilinear"}),
    ((1, 2, 5, 6), {"size": (3, 4), "mode": "area"}),
    ((0, 2, 3), {"size": 5}),
)


def _interpolated(
    x: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool = False
) -> Any:
    """Returns each axis by its matrix of weights."""
    sizes, scales = _target("interpolate", x.shape, size, scale_factor)
    if mode == "area":
        return adaptive_reference(np.mean)(x, sizes)
    places = [_places(mode, *row, align_corners) for row in zip(x.shape[2:], sizes, scales)]
    return _reference(x, sizes, _MODES[mode][0], places)


def _resized(*which: int) -> Domain:
    def cases(rng: np.random.Generator) -> Cases:
        for i in which:
            yield (rng.uniform(-1, 1, _RESIZED[i][0]),), _RESIZED[i][1]

    return compared(cases, _interpolated)


@composite(domain=_resized(*range(len(_RESIZED))))
def interpolate(
    x: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Returns x (N, C, spatial...) resized to ``size``, or by ``scale_factor`` (sizes are rounded down): numbers for
    all axes or one per axis.

    ``mode``: nearest (input floor(o * in / out)) and nearest-exact (the nearest centre) for one to three axes, linear
    for one, bilinear and bicubic (a = -0.75) for two, trilinear for three, area (the mean of the section) for one to
    three. Output o is at (o + 1/2) * in / out - 1/2; with ``align_corners`` at o * (in - 1) / (out - 1). Neighbors
    outside take the border's value. ``recompute_scale_factor`` uses in / out of the rounded sizes in place of the given
    factor. ``antialias`` (bilinear and bicubic) averages over a filter as wide as the step between outputs, with
    weights from the host. Raises ShapeError if both or neither of size and scale_factor are given, or if the
    mode does not support the rank.
    """
    options = (align_corners, recompute_scale_factor, antialias)
    return _interpolate("interpolate", x, size, scale_factor, mode, *options)


@composite(domain=_resized(0, 1, 5))
def upsample(
    x: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """Returns x (N, C, spatial...) resized to ``size`` or by ``scale_factor``; the same as ``interpolate``."""
    return _interpolate("upsample", x, size, scale_factor, mode, align_corners)


# -- channels and pixels -----------------------------------------------------------------------------------------------


def _shuffle_reference(x: Any, upscale_factor: int) -> Any:
    *lead, c, h, w = x.shape
    r = upscale_factor
    apart = np.moveaxis(x.reshape(*lead, c // (r * r), r, r, h, w), (-4, -3), (-3, -1))
    return apart.reshape(*lead, c // (r * r), h * r, w * r)


def _factor(op: str, name: str, factor: Any) -> int:
    if not isinstance(factor, (int, np.integer)) or factor < 1:
        raise ShapeError(f"{op}: expected a whole number from 1 as {name}, got {factor!r}", parameter=name)
    return int(factor)


def _apart(x: Tensor, lead: tuple[int, ...], block: tuple[int, ...], order: tuple[int, ...], final: Any) -> Tensor:
    front = len(lead)
    split = permute(reshape(x, (*lead, *block)), (*range(front), *(front + axis for axis in order)))
    return reshape(split, final)  # type: ignore[no-any-return]


@composite(
    domain=compared(
        lambda rng: iter(
            [((rng.uniform(-1, 1, shape),), {"upscale_factor": 2}) for shape in ((2, 8, 3, 2), (4, 2, 3))]
        ),
        _shuffle_reference,
    )
)
def pixel_shuffle(x: Tensor, upscale_factor: int) -> Tensor:
    """Channels to pixels: (..., C r^2, H, W) gives (..., C, H r, W r) (Shi et al. 2016)."""
    r = _factor("pixel_shuffle", "upscale_factor", upscale_factor)
    if x.ndim < 3 or x.shape[-3] % (r * r):
        raise ShapeError(f"pixel_shuffle: x {x.shape}, upscale_factor {r}; expected (..., C * {r}^2, H, W)")
    *lead, c, h, w = x.shape
    c //= r * r
    return _apart(x, tuple(lead), (c, r, r, h, w), (0, 3, 1, 4, 2), (*lead, c, h * r, w * r))


def _unshuffle_reference(x: Any, downscale_factor: int) -> Any:
    *lead, c, h, w = x.shape
    r = downscale_factor
    apart = np.moveaxis(x.reshape(*lead, c, h // r, r, w // r, r), (-3, -1), (-4, -3))
    return apart.reshape(*lead, c * r * r, h // r, w // r)


@composite(
    domain=compared(
        lambda rng: iter(
            [((rng.uniform(-1, 1, shape),), {"downscale_factor": 2}) for shape in ((2, 2, 4, 6), (3, 2, 4))]
        ),
        _unshuffle_reference,
    )
)
def pixel_unshuffle(x: Tensor, downscale_factor: int) -> Tensor:
    """Pixels to channels, the inverse of ``pixel_shuffle``: (..., C, H r, W r) gives (..., C r^2, H, W)."""
    r = _factor("pixel_unshuffle", "downscale_factor", downscale_factor)
    if x.ndim < 3 or x.shape[-2] % r or x.shape[-1] % r:
        raise ShapeError(f"pixel_unshuffle: x {x.shape}, downscale_factor {r}; expected (..., C, H * {r}, W * {r})")
    *lead, c, h, w = x.shape
    h, w = h // r, w // r
    return _apart(x, tuple(lead), (c, h, r, w, r), (0, 2, 4, 1, 3), (*lead, c * r * r, h, w))

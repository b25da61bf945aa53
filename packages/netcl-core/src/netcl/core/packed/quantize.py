"""Packs float matrices, by ops on their device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netcl.core.dtypes import is_floating
from netcl.core.engine.packed_formats import format_of
from netcl.core.errors import ArgumentError, DTypeError, ShapeError
from netcl.core.ops_table.dispatch import call
from netcl.core.packed.tensor import PackedTensor
from netcl.core.tensor import Tensor

_MOST = 1 << 23  # numbers at a time
# Trials for the scale of a sub-block of Q4_K: its numbers span so many of its fifteen steps.
_SPANS = (14.25, 14.5, 14.75, 15.0, 15.25, 15.5)


def quantize(weight: Any, format: str) -> PackedTensor:
    """Returns a matrix (rows, columns), a tensor or an array of floats, in a packed format: Q8_0, Q4_0 or Q4_K.

    Q8_0 and Q4_0 scale each block to its largest number. Q4_K fits scale and minimum of 32 neighbours by least squares.
    Numbers that are not finite, or in a block with a scale beyond float16, have no packed form: the result has other
    numbers in their block.
    """
    row = format_of(format)
    if format not in _PACKERS:
        raise ArgumentError(f"quantize: expected one of {', '.join(_PACKERS)} as format, got {format}")
    x = weight.detach() if isinstance(weight, Tensor) else Tensor.from_host(weight)
    if x.ndim != 2 or x.shape[1] % row.block:
        raise ShapeError(
            f"quantize: expected a matrix with columns in whole blocks of {row.block}, got shape {tuple(x.shape)}"
        )
    if not is_floating(x.dtype):
        raise DTypeError(f"quantize: expected floating dtypes, got {x.dtype}; convert with astype")
    rows, columns = x.shape
    if not rows * columns:
        return PackedTensor.from_blocks(b"", x.shape, format, x.queue)
    step = max(1, _MOST // columns)
    packed: list[list[Tensor]] = []
    for first in range(0, rows, step):
        some = x[first : first + step].to("float32")
        count = some.shape[0]
        fields = _PACKERS[format](some.reshape(-1, row.block))
        packed.append([
            fields[field.name].to(field.dtype).reshape(count, -1) for field in row.fields
        ])  # fmt: skip
    parts = packed[0] if len(packed) == 1 else [call("cat", list(each), 0, record=False) for each in zip(*packed)]
    return PackedTensor(parts, (rows, columns), format)


def _op(name: str) -> Callable[..., Any]:
    return lambda *args, **kwargs: call(name, *args, record=False, **kwargs)


_abs, _amax, _amin, _argmax, _clamp, _floor, _gather, _sum, _trunc, _where = map(
    _op, ("abs", "amax", "amin", "argmax", "clamp", "floor", "gather", "sum", "trunc", "where")
)


def _inverse(scale: Tensor) -> Tensor:
    """Returns 1 / scale, and 0 for 0."""
    return _where(scale == 0, 0.0, 1 / scale)  # type: ignore[no-any-return]


def _nibbles(quants: Tensor, half: int) -> Tensor:
    """Returns bytes with the quants of each ``2 * half`` neighbours: the first half of them in the lower bits."""
    pairs = quants.reshape(-1, 2, half)
    return pairs[:, 0] + pairs[:, 1] * 16


def _q8_0(x: Tensor) -> dict[str, Tensor]:
    d = _amax(_abs(x), 1, keepdims=True) / 127
    scaled = x * _inverse(d)
    size = _abs(scaled)
    whole = _floor(size)
    rounded = whole + _floor((size - whole) * 2)
    return {"d": d, "qs": _where(scaled < 0, -rounded, rounded)}


def _q4_0(x: Tensor) -> dict[str, Tensor]:
    d = _gather(x, 1, _argmax(_abs(x), 1, keepdims=True)) / -8
    return {"d": d, "qs": _nibbles(_clamp(_trunc(x * _inverse(d) + 8.5), 0, 15), 16)}


def _fitted(x: Tensor) -> tuple[Tensor, Tensor]:
    """Returns scales and minima (at most 0) of rows, the nearest of several trials. Large numbers have more weight."""
    weight = _abs(x) + _op("sqrt")(_sum(x * x, 1, keepdims=True) / x.shape[1])
    low = _clamp(_amin(x, 1, keepdims=True), max=0.0)
    width = _amax(x, 1, keepdims=True) - low
    sums = [_sum(each, 1, keepdims=True) for each in (weight, weight * x)]
    scale, least = width / 15, low
    best: Tensor | None = None
    for span in _SPANS:
        quants = _clamp(_floor((x - low) * (_inverse(width) * span) + 0.5), 0, 15)
        heavy = weight * quants
        by_one, by_two, by_x = (_sum(each, 1, keepdims=True) for each in (heavy, heavy * quants, heavy * x))
        free = _inverse(sums[0] * by_two - by_one * by_one)
        own_scale = (sums[0] * by_x - sums[1] * by_one) * free
        own_low = (by_two * sums[1] - by_one * by_x) * free
        above = own_low > 0
        own_scale, own_low = _where(above, by_x * _inverse(by_two), own_scale), _where(above, 0.0, own_low)
        miss = quants * own_scale + own_low - x
        error = _sum(weight * miss * miss, 1, keepdims=True)
        error = _where((free == 0) | (own_scale < 0), float("inf"), error)
        better = error < float("inf") if best is None else error < best
        scale, least = _where(better, own_scale, scale), _where(better, own_low, least)
        best = error if best is None else _where(better, error, best)
    return scale, -least


def _q4_k(x: Tensor) -> dict[str, Tensor]:
    groups = x.reshape(-1, 32)
    steps: list[Tensor] = []
    wholes: list[Tensor] = []
    for values in _fitted(groups):
        eight = values.reshape(-1, 8)
        whole = (_amax(eight, 1, keepdims=True) / 63).to("float16").to("float32")
        wholes.append(whole)
        steps.append(_clamp(_floor(eight * _inverse(whole) + 0.5), 0, 63))
    scale, least = ((whole * step).reshape(-1, 1) for whole, step in zip(wholes, steps))
    quants = _clamp(_floor((groups + least) * _inverse(scale) + 0.5), 0, 15)
    return {"d": wholes[0], "dmin": wholes[1], "scales": steps[0], "mins": steps[1], "qs": _nibbles(quants, 32)}


_PACKERS: dict[str, Callable[[Tensor], dict[str, Tensor]]] = {"Q8_0": _q8_0, "Q4_0": _q4_0, "Q4_K": _q4_k}

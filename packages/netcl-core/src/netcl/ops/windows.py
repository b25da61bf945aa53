"""Arguments of convolutions and pooling: strides, paddings and sizes, checked and expanded per axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl.core.errors import ArgumentError, ShapeError

Pair = tuple[int, int]


def per_axis(op: str, name: str, value: Any, rank: int, least: int = 1) -> tuple[int, ...]:
    """Returns one int for all axes or one per axis, as a tuple; ShapeError for a wrong count or one below ``least``."""
    values = (value,) * rank if isinstance(value, (int, np.integer)) else tuple(value)
    values = values * rank if len(values) == 1 else values
    if len(values) != rank or any(not isinstance(v, (int, np.integer)) or v < least for v in values):
        raise ShapeError(
            f"{op}: expected a number from {least} or {rank} of them as {name}, got {value!r}", parameter=name
        )
    return tuple(int(v) for v in values)


def strides(op: str, value: Any, kernel: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the steps of a pooling per axis; None and an empty list are the lengths of the kernel."""
    if value is None or (isinstance(value, (tuple, list)) and not value):
        return kernel
    return per_axis(op, "stride", value, len(kernel))


def paddings(
    op: str, value: Any, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[Pair, ...]:
    """Returns (before, after) per axis from an int, an int or a pair per axis, "valid" or "same" (stride 1 only)."""
    rank = len(kernel)
    if value == "valid":
        return ((0, 0),) * rank
    if isinstance(value, str):
        if value != "same":
            raise ArgumentError(
                f"{op}: expected a number, numbers per axis, 'same' or 'valid' as padding, got {value!r}"
            )
        if any(step != 1 for step in stride):
            raise ShapeError(f"{op}: expected stride 1 with padding 'same', got {tuple(stride)}", parameter="padding")
        totals = [d * (k - 1) for k, d in zip(kernel, dilation)]
        return tuple((total // 2, total - total // 2) for total in totals)
    if not isinstance(value, (int, np.integer)) and any(isinstance(v, (tuple, list)) for v in value):
        pairs = [per_axis(op, "padding", v, 2, 0) for v in value]
        pairs = pairs * rank if len(pairs) == 1 else pairs
        if len(pairs) != rank:
            raise ShapeError(f"{op}: padding {value} has {len(pairs)} pairs for {rank} axes", parameter="padding")
        return tuple((low, high) for low, high in pairs)
    return tuple((p, p) for p in per_axis(op, "padding", value, rank, 0))


def span(kernel: int, dilation: int) -> int:
    """Returns the number of positions from the first to the last tap of a kernel."""
    return dilation * (kernel - 1) + 1


def output_sizes(
    op: str,
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[Pair],
    dilation: Sequence[int],
    ceil_mode: bool = False,
) -> tuple[int, ...]:
    """Returns the spatial sizes after the windows: (size + padding - span) / stride + 1, rounded down, or up in
    ceil_mode.

    In ceil_mode a last window that would begin in the padding at the end is omitted, as in PyTorch. Raises ShapeError
    if a window does not fit.
    """
    result = []
    for size, k, step, (low, high), d in zip(sizes, kernel, stride, padding, dilation):
        room = size + low + high - span(k, d)
        if room < 0:
            raise ShapeError(
                f"{op}: a window of {tuple(kernel)} (dilation {tuple(dilation)}) does not fit spatial sizes "
                f"{tuple(sizes)} with padding "
                f"{tuple(padding)}"
            )
        count = (-(-room // step) if ceil_mode else room // step) + 1
        if ceil_mode and (count - 1) * step >= size + low:
            count -= 1
        result.append(count)
    return tuple(result)

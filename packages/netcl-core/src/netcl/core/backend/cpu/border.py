"""Pads a tensor with its own elements in NumPy, and computes the gradient, axis by axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl.core.backend.cpu.storage import Array, store, widened
from netcl.core.storage.data import TensorData

Pads = tuple[tuple[int, int], ...]
_NUMPY = {"reflect": "reflect", "replicate": "edge"}


def _forward(x: Array, out: Array, pads: Pads, mode: str) -> None:
    out[...] = np.pad(x, pads, mode=_NUMPY[mode])  # type: ignore[call-overload]


def _gradient(grad: Array, out: Array, pads: Pads, mode: str, dtype: str) -> None:
    total = widened(grad, dtype)
    for axis, (low, high) in enumerate(pads):
        if low or high:
            places = np.pad(np.arange(out.shape[axis]), (low, high), mode=_NUMPY[mode])  # type: ignore[call-overload]
            sums = np.zeros((out.shape[axis], *np.moveaxis(total, axis, 0).shape[1:]), total.dtype)
            np.add.at(sums, places, np.moveaxis(total, axis, 0))
            total = np.moveaxis(sums, 0, axis)
    store(out, total, dtype)


def border(engine: Any, kind: str, x: TensorData, *, pads: Sequence[Sequence[int]], mode: str) -> TensorData:
    """See ``DeviceBackend.border``."""
    around = tuple((int(low), int(high)) for low, high in pads)
    sign = 1 if kind == "forward" else -1
    out: TensorData = engine.empty(tuple(n + sign * sum(pair) for n, pair in zip(x.shape, around)), x.dtype)
    if out.size and kind == "forward":
        engine.launch(_forward, x.array, out.array, around, mode)
    elif out.size:
        engine.launch(_gradient, x.array, out.array, around, mode, x.dtype)
    return out

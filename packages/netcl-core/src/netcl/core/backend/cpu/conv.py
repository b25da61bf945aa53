"""Convolution with NumPy: im2col on the padded images and a matrix product, a block of images at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from netcl.core.backend.cpu.storage import Array, store, widened
from netcl.core.engine.epilogue import Epilogue, check, run_alone
from netcl.core.storage.data import TensorData

_WORKSPACE = 16 * 2**20  # bytes of windows at a time; a single image may take more


Place = tuple[Any, ...]


class _Convolution(NamedTuple):
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int
    dtype: str


def _padded(x: Array, padding: Sequence[tuple[int, int]]) -> Array:
    return np.pad(x, [(0, 0), (0, 0), *padding]) if any(map(any, padding)) else x


def _taps(kernel: Sequence[int], out: Sequence[int], call: _Convolution) -> Iterator[tuple[Place, Place]]:
    """Returns the index of each tap, and the padded positions it reads, one for each output, after (N, C)."""
    front = (slice(None), slice(None))
    for tap in product(*map(range, kernel)):
        starts = [t * d for t, d in zip(tap, call.dilation)]
        place = (slice(b, b + (o - 1) * s + 1, s) for b, o, s in zip(starts, out, call.stride))
        yield (*front, *tap), (*front, *place)


def _columns(x: Array, kernel: Sequence[int], out: Sequence[int], call: _Convolution) -> Array:
    """Returns windows of padded images (N, C, ...) as (N, groups, C / groups * taps, outputs)."""
    columns = np.empty((*x.shape[:2], *kernel, *out), x.dtype)
    for tap, place in _taps(kernel, out, call):
        columns[tap] = x[place]
    depth = x.shape[1] // call.groups
    return columns.reshape(x.shape[0], call.groups, depth * prod(kernel), prod(out))


def _blocks(images: int, elements: int, itemsize: int) -> Iterator[slice]:
    step = max(1, _WORKSPACE // max(1, elements * itemsize))
    return (slice(first, first + step) for first in range(0, images, step))


def _forward(a: Array, b: Array, out: Array, call: _Convolution) -> None:
    weight = widened(b, call.dtype)
    kernel, places, groups = b.shape[2:], out.shape[2:], call.groups
    rows = weight.reshape(groups, b.shape[0] // groups, -1)
    for block in _blocks(len(a), a.shape[1] * prod(kernel) * prod(places), weight.itemsize):
        x = _padded(widened(a[block], call.dtype), call.padding)
        with np.errstate(all="ignore"):
            result = np.matmul(rows, _columns(x, kernel, places, call))
        store(out[block], result.reshape(len(x), *out.shape[1:]), call.dtype)


def _direct(a: Array, b: Array, out: Array, call: _Convolution) -> None:
    """Computes a convolution without im2col: one product for each tap of the kernel."""
    weight, x = widened(b, call.dtype), _padded(widened(a, call.dtype), call.padding)
    groups = call.groups
    total = np.zeros((len(a), groups, b.shape[0] // groups, prod(out.shape[2:])), weight.dtype)
    rows = weight.reshape(groups, b.shape[0] // groups, b.shape[1], *b.shape[2:])
    for tap, place in _taps(b.shape[2:], out.shape[2:], call):
        tap_index = (slice(None), *tap)
        with np.errstate(all="ignore"):
            total += np.matmul(rows[tap_index], x[place].reshape(len(a), groups, b.shape[1], -1))
    store(out, total.reshape(out.shape), call.dtype)


def _grad_weight(a: Array, b: Array, out: Array, call: _Convolution) -> None:
    kernel, places, groups = out.shape[2:], b.shape[2:], call.groups
    total = np.zeros((groups, out.shape[0] // groups, prod(out.shape[1:])), widened(b[:0], call.dtype).dtype)
    for block in _blocks(len(a), a.shape[1] * prod(kernel) * prod(places), total.itemsize):
        x = _padded(widened(a[block], call.dtype), call.padding)
        grad = widened(b[block], call.dtype).reshape(len(x), *total.shape[:2], prod(places))
        with np.errstate(all="ignore"):
            total += np.matmul(grad, _columns(x, kernel, places, call).swapaxes(-1, -2)).sum(axis=0)
    store(out, total.reshape(out.shape), call.dtype)


def _grad_input(a: Array, b: Array, out: Array, call: _Convolution) -> None:
    weight = widened(b, call.dtype)
    kernel, places, groups = b.shape[2:], a.shape[2:], call.groups
    rows = weight.reshape(groups, b.shape[0] // groups, -1).swapaxes(-1, -2)
    inner: Place = (Ellipsis, *(slice(low, low + size) for size, (low, _) in zip(out.shape[2:], call.padding)))
    whole = [size + low + high for size, (low, high) in zip(out.shape[2:], call.padding)]
    for block in _blocks(len(a), out.shape[1] * prod(kernel) * prod(places), weight.itemsize):
        grad = widened(a[block], call.dtype)
        with np.errstate(all="ignore"):
            columns = np.matmul(rows, grad.reshape(len(grad), groups, -1, prod(places)))
        columns = columns.reshape(len(grad), out.shape[1], *kernel, *places)
        total = np.zeros((len(grad), out.shape[1], *whole), weight.dtype)
        for tap, place in _taps(kernel, places, call):
            with np.errstate(all="ignore"):
                total[place] += columns[tap]
        store(out[block], total[inner], call.dtype)


_FUNCTIONS = {"forward": _forward, "grad_input": _grad_input, "grad_weight": _grad_weight}


def conv(
    engine: Any,
    kind: str,
    a: TensorData,
    b: TensorData,
    *,
    stride: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    groups: int,
    shape: Sequence[int] | None = None,
    algo: str | None = None,
    epilogue: Epilogue | None = None,
) -> TensorData:
    """Computes a convolution: ``forward`` (x, weight), ``grad_input`` (grad, weight), ``grad_weight`` (x, grad). With
    ``algo="naive"`` forward computes one product per tap and needs no workspace.
    """
    if epilogue is not None:
        check(epilogue, a.dtype)
    call = _Convolution(tuple(stride), tuple((low, high) for low, high in padding), tuple(dilation), groups, a.dtype)
    if kind == "forward":
        sizes = zip(a.shape[2:], b.shape[2:], stride, padding, dilation)
        places = tuple((size + low + high - d * (k - 1) - 1) // s + 1 for size, k, s, (low, high), d in sizes)
        shape = (a.shape[0], b.shape[0], *places)
    assert shape is not None
    out: TensorData = engine.empty(tuple(shape), a.dtype)
    if out.size:
        function = _direct if (kind, algo) == ("forward", "naive") else _FUNCTIONS[kind]
        engine.launch(function, a.array, b.array, out.array, call)
        if epilogue is not None:
            run_alone(engine, epilogue, out)
    return out

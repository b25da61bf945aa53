"""Padding: a constant border, other borders concatenated from slices; negative padding crops."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from netcl.core.errors import ArgumentError, ShapeError
from netcl.core.storage.views import owned
from netcl.core.tensor import Tensor
from netcl.ops.arrange import part
from netcl.ops.domains import Cases, compared
from netcl.ops.shape import concatenate, expand, sampled, strided_scatter, strided_slice
from netcl.ops.table import composite, computed, engine_of

_NUMPY = {"reflect": "reflect", "replicate": "edge"}  # modes that ``border`` has, with NumPy's names
_AXES = 6  # at most of a border in one launch


def _pairs(pads: Any, rank: int) -> list[tuple[int, int]]:
    """Returns (before, after) per axis, from an int, PyTorch's flat list (last axis first) or NumPy's list of pairs."""
    if isinstance(pads, (int, np.integer)):
        return [(int(pads), int(pads))] * rank
    values = list(pads)
    if values and isinstance(values[0], (tuple, list)):
        pairs = [(int(low), int(high)) for low, high in values]
        pairs = pairs * rank if len(pairs) == 1 else pairs
    elif len(values) % 2 == 0:
        pairs = [(int(values[i]), int(values[i + 1])) for i in range(len(values) - 2, -1, -2)]
        pairs = [(0, 0)] * (rank - len(pairs)) + pairs
    else:
        pairs = []
    if len(pairs) != rank:
        raise ShapeError(
            f"pad: {pads} for {rank} axes; pads are a number, (before, behind, ...) of the last axes, last first, "
            "or a pair per axis",
            parameter="pads",
        )
    return pairs


def _pad_reference(x: Any, pads: Any, mode: str = "constant", value: float = 0.0) -> Any:
    names = {"constant": "constant", "circular": "wrap", **_NUMPY}
    extra = {"constant_values": value} if mode == "constant" else {}
    if x.ndim == 0:
        return x
    pairs = _pairs(pads, x.ndim)
    kept = tuple(slice(max(-low, 0), size - max(-high, 0)) for (low, high), size in zip(pairs, x.shape))
    added = [(max(low, 0), max(high, 0)) for low, high in pairs]
    return np.pad(x[kept], added, mode=names[mode], **extra)  # type: ignore[call-overload]


_PADS = sampled(
    _pad_reference,
    ((2, 3, 4), {"pads": (1, 2)}),
    ((3, 4), {"pads": ((1, 0), (0, 2)), "value": 1.5}),
    ((2, 4, 5), {"pads": (1, 2, 3, 0), "mode": "reflect"}),
    ((4, 5), {"pads": 2, "mode": "replicate"}),
    ((4, 5), {"pads": (2, 1, 0, 3), "mode": "circular"}),
    ((2, 3, 4), {"pads": (-1, 2, 1, -2)}),
    ((2, 2, 3, 4, 3), {"pads": (1, 2, 1, -1, 2, 1), "mode": "reflect"}),
    ((), {"pads": 1}),
)


_BORDERED: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 4, 5), {"pads": ((0, 0), (1, 0), (2, 3)), "mode": "reflect"}),
    ((2, 3, 2, 4), {"pads": ((0, 0), (1, 2), (0, 0), (3, 3)), "mode": "reflect"}),
    ((3, 4, 1), {"pads": ((2, 1), (0, 3), (1, 2)), "mode": "replicate"}),
)


def _border_adjoint(grad: Any, pads: Any, mode: str) -> Any:
    for axis, (low, high) in enumerate(pads):
        size = grad.shape[axis] - low - high
        places = np.pad(np.arange(size), (low, high), mode=_NUMPY[mode])  # type: ignore[call-overload]
        sums = np.zeros_like(np.moveaxis(grad, axis, 0)[:size])
        np.add.at(sums, places, np.moveaxis(grad, axis, 0))
        grad = np.moveaxis(sums, 0, axis)
    return grad


def _adjoint_cases(rng: np.random.Generator) -> Cases:
    for shape, attributes in _BORDERED:
        whole = [n + low + high for n, (low, high) in zip(shape, attributes["pads"])]
        yield (rng.uniform(-1, 1, whole),), attributes


@computed(domain=sampled(_pad_reference, *_BORDERED))
def border(x: Tensor, pads: Any, mode: str) -> Tensor:
    """Returns ``pad`` with the mirror image without the edge (``reflect``) or the edge (``replicate``), in the dtype of
    ``x``. ``pads`` is a pair (before, after) for each axis, none negative or too wide; an axis of n elements has before
    + n + after. Raises UnsupportedError for more than six axes or 2**31 elements.
    """
    return engine_of("border", x).border("forward", x, pads=pads, mode=mode)


@computed(domain=compared(_adjoint_cases, _border_adjoint))
def border_grad(grad_output: Tensor, pads: Any, mode: str) -> Tensor:
    """Returns the gradient of ``border`` by x: the gradients of each element and of its copies in the border, added in
    one order, in the dtype of ``grad_output``. Axes of that have before + n + after elements, the result's n.
    """
    engine = engine_of("border_grad", grad_output)
    return engine.border("gradient", grad_output, pads=pads, mode=mode)


@composite(domain=_PADS)
def pad(x: Tensor, pads: Any, mode: str = "constant", value: float = 0.0) -> Tensor:
    """Returns ``x`` with a border: ``constant`` (``value``), ``reflect`` (without the edge), ``replicate`` (the edge),
    ``circular``.

    ``pads``: a number for every side, (before, after, ...) of the last axes, last first, as in PyTorch, or a pair per
    axis, as in NumPy; a negative number crops. Raises ShapeError for a ``reflect`` border as wide as the axis or wider,
    or a ``circular`` one wider.
    """
    engine = engine_of("pad", x)
    pairs, whole = _pairs(pads, x.ndim), x
    if mode != "constant" and mode not in _BORDERS:
        raise ArgumentError(f"pad: expected mode constant, reflect, replicate or circular, got {mode!r}")
    if mode == "replicate":
        pairs = [_within(low, high, size) for (low, high), size in zip(pairs, x.shape)]
    if any(low < 0 or high < 0 for low, high in pairs):
        x = _cut(x, pairs)
        pairs = [(max(low, 0), max(high, 0)) for low, high in pairs]
    if mode == "constant":
        shape = [low + size + high for (low, high), size in zip(pairs, x.shape)]
        return strided_scatter(x, shape, [low for low, _ in pairs], [1] * x.ndim, value)  # type: ignore[no-any-return]
    for axis, (low, high) in enumerate(pairs):
        size = x.shape[axis]
        longest = {"reflect": size - 1, "circular": size}.get(mode, max(low, high) if size else 0)
        if max(low, high) > longest and (low or high):
            raise ShapeError(f"pad: {mode} padding ({low}, {high}) is too wide for axis {axis} of shape {x.shape}")
    if mode in _NUMPY and engine.borders_at_once and x.ndim <= _AXES and _size(x.shape, pairs) < 1 << 31:
        x = border(x, tuple(pairs), mode) if any(map(any, pairs)) else x
    else:
        for axis, (low, high) in enumerate(pairs):
            if low or high:
                x = concatenate(*_BORDERS[mode](x, axis, low, high), axis=axis)
    return owned(x, whole)  # type: ignore[no-any-return]


def _size(shape: Sequence[int], pairs: list[tuple[int, int]]) -> int:
    return prod(low + size + high for size, (low, high) in zip(shape, pairs))


def _within(low: int, high: int, size: int) -> tuple[int, int]:
    """The padding of an axis with the same result that leaves at least one element to repeat."""
    if 0 < size <= -low:
        return 1 - size, low + size + high - 1
    return (low + size + high - 1, 1 - size) if 0 < size <= -high else (low, high)


def _cut(x: Tensor, pairs: list[tuple[int, int]]) -> Tensor:
    """Returns ``x`` cropped by the negative padding."""
    starts = [max(-low, 0) for low, _ in pairs]
    sizes = [size - start - max(-high, 0) for start, (_, high), size in zip(starts, pairs, x.shape)]
    if min(sizes) < 0:
        raise ShapeError(f"pad: {pairs} cuts off more than there is of shape {x.shape}", parameter="pads")
    return strided_slice(x, starts, [1] * x.ndim, sizes)  # type: ignore[no-any-return]


def _reflected(x: Tensor, axis: int, low: int, high: int) -> list[Tensor]:
    n = x.shape[axis]
    before = [part(x, axis, low, low, -1)] if low else []
    return [*before, x, *([part(x, axis, n - 2, high, -1)] if high else [])]


def _replicated(x: Tensor, axis: int, low: int, high: int) -> list[Tensor]:
    n = x.shape[axis]
    before = [_spread(part(x, axis, 0, 1), axis, low)] if low else []
    return [*before, x, *([_spread(part(x, axis, n - 1, 1), axis, high)] if high else [])]


def _spread(edge: Tensor, axis: int, size: int) -> Tensor:
    return expand(edge, (*edge.shape[:axis], size, *edge.shape[axis + 1 :]))  # type: ignore[no-any-return]


def _circular(x: Tensor, axis: int, low: int, high: int) -> list[Tensor]:
    n = x.shape[axis]
    before = [part(x, axis, n - low, low)] if low else []
    return [*before, x, *([part(x, axis, 0, high)] if high else [])]


_BORDERS = {"reflect": _reflected, "replicate": _replicated, "circular": _circular}

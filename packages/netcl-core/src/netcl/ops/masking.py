"""Selection by masks: masked_fill, masked_select, and the positions of nonzero elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.core.dtypes import is_floating
from netcl.core.errors import ArgumentError, DTypeError, ShapeError
from netcl.core.expr import Load, apply
from netcl.core.layout import broadcast_shapes, contiguous_strides
from netcl.core.tensor import Tensor
from netcl.ops.arrange import part
from netcl.ops.domains import Cases, compared
from netcl.ops.elementwise import cast, where
from netcl.ops.index import take_at
from netcl.ops.shape import expand, reshape
from netcl.ops.table import METHOD, WRITTEN, composite, computed, engine_of


def _check_mask(op: str, mask: Tensor) -> None:
    if mask.dtype != "bool":
        raise DTypeError(f"{op}: expected a bool mask, got {mask.dtype}")


def _stored(op: str, x: Tensor, value: Any) -> Any:
    """Returns the number as an element of x stores it; raises ArgumentError if an integer dtype has no such number."""
    if isinstance(value, Tensor) or is_floating(x.dtype):
        return value
    if x.dtype == "bool":
        return bool(value)
    limits = np.iinfo(x.dtype)
    if not limits.min <= value <= limits.max:
        raise ArgumentError(f"{op}: expected a value that {x.dtype} holds, got {value}; convert x with astype")
    return int(value)


def _fill_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-1, 1, (3, 4)), rng.random(4) > 0.5), {"value": -1.5}
    yield (rng.uniform(-1, 1, (3, 4)), rng.random((3, 1)) > 0.5), {"value": 2.0}


@composite(domain=compared(_fill_cases, lambda x, mask, value: np.where(mask, value, x)), forms=WRITTEN)
def masked_fill(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    """Returns x with ``value`` (a number or a 0-d tensor) where the mask is true; x and the mask broadcast."""
    engine_of("masked_fill", x, mask)
    _check_mask("masked_fill", mask)
    if isinstance(value, Tensor) and value.ndim:
        raise ShapeError(f"masked_fill: value {value.shape}; expected a number or a 0-d tensor")
    return where(mask, _stored("masked_fill", x, value), x)  # type: ignore[no-any-return]


@composite(
    domain=compared(
        lambda rng: iter(
            [((rng.uniform(-1, 1, (3, 4)),), {"value": 2.5}), ((rng.uniform(-1, 1, ()),), {"value": 1.0})]
        ),
        lambda x, value: np.full_like(x, value),
    )
)
def fill(x: Tensor, value: Any) -> Tensor:
    """Returns a tensor like x full of ``value``, a number or a 0-d tensor, in x's dtype; the gradient of x is 0."""
    engine = engine_of("fill", x)
    if isinstance(value, Tensor):
        if value.ndim:
            raise ShapeError(f"fill: value {value.shape}; expected a number or a 0-d tensor")
        value = cast(value, dtype=x.dtype)
    return where(engine.tensor(np.ones((), bool), "bool"), _stored("fill", x, value), x)  # type: ignore[no-any-return]


def true_positions(op: str, mask: Tensor) -> Tensor:
    """Returns the flat positions of true elements, int64: a host read of their number. CaptureError while recording."""
    return engine_of(op, mask).nonzero(mask)


def _masked_cases(rng: np.random.Generator) -> Cases:
    yield (rng.uniform(-1, 1, (3, 4)), rng.random((3, 4)) > 0.5), {}
    yield (rng.uniform(-1, 1, (3, 1)), np.array([True, False, True, True])), {}
    yield (rng.uniform(-1, 1, 3), np.zeros(3, bool)), {}


def _masked_reference(x: Any, mask: Any) -> Any:
    x, mask = np.broadcast_arrays(x, mask)
    return x[mask]


@composite(domain=compared(_masked_cases, _masked_reference), forms=METHOD)
def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """Returns the elements of x where the mask is true, (n,), in order; the two broadcast to each other.

    One host read, for n; Raises CaptureError while a step is captured.
    """
    engine_of("masked_select", x, mask)
    _check_mask("masked_select", mask)
    shape = broadcast_shapes((x.shape, mask.shape), "masked_select")
    if mask.shape != shape:
        mask = expand(mask, shape)
    if x.shape != shape:
        x = expand(x, shape)
    places = true_positions("masked_select", mask)
    return take_at(reshape(x, (x.size,)), places, 0, True, "masked_select")  # type: ignore[no-any-return]


def _nonzero_cases(rng: np.random.Generator) -> Cases:
    yield (rng.integers(0, 2, (3, 5)),), {}
    yield (np.array([0.0, -1.5, 0.0, 2.0]),), {"as_tuple": True}
    yield (np.zeros((2, 0, 3)),), {}
    yield (np.zeros(()),), {}
    yield (np.array(rng.random((2, 3, 4)) > 0.5),), {"as_tuple": True}


def _nonzero_reference(x: Any, as_tuple: bool = False) -> Any:
    if x.ndim == 0:
        return np.zeros((int(x != 0), 0), np.int64)
    return np.nonzero(x) if as_tuple else np.argwhere(x)


@computed(domain=compared(_nonzero_cases, _nonzero_reference, gradient=False), forms=METHOD)
def nonzero(x: Tensor, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]:
    """Returns the positions of nonzero elements, in order: int64 (n, rank), or ``as_tuple`` one (n,) per axis.

    One host read, for n; Raises CaptureError while a step is captured.
    """
    engine = engine_of("nonzero", x)
    if x.dtype != "bool":
        (x,) = engine.run((apply("ne", Load(0, x.dtype), 0),), (x,))
    flat = true_positions("nonzero", x)
    if x.ndim == 0:
        return (flat,) if as_tuple else engine.empty((flat.size, 0), "int64")
    places = flat._alias((flat.size, 1))
    if x.ndim > 1:
        strides = engine.tensor(np.array(contiguous_strides(x.shape)).clip(1), "int64")
        extents = engine.tensor(np.array(x.shape).clip(1), "int64")
        whole = apply("floor_divide", Load(0, "int64"), Load(1, "int64"))
        (places,) = engine.run((apply("mod", whole, Load(2, "int64")),), (places, strides, extents))
    if not as_tuple:
        return places
    return tuple(part(places, 1, axis, 1)._alias((flat.size,)) for axis in range(x.ndim))

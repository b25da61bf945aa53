"""torch.masked: reductions, scans and softmax of the elements that a mask selects, all of them without one.

An element that is left out counts as the identity of the operation. ``mask`` is broadcast to the input.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import netcl as nc
from netcl.array_api import iinfo
from netcl.core import Tensor
from netcl.core.dtypes import is_floating
from netcl.core.errors import DTypeError

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean",
    "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip
TORCH_NAMES = (*__all__, "_input_mask", "_output_mask")

_INF = math.inf


def _axes(input: Tensor, dim: Any) -> tuple[int, ...]:
    """The axes that a reduction names, all of them by None and ()."""
    every = tuple(range(input.ndim))
    return every if dim is None or dim == () else (dim,) if isinstance(dim, int) else tuple(dim)


def _as(input: Tensor, dtype: Any) -> Any:
    return input if dtype is None else input.to(dtype)


def _kept(x: Any, mask: Any, identity: float) -> Any:
    """The elements of ``x``, with ``identity``, or the end of the integers for an infinite one, for those left out."""
    if mask is None:
        return x
    if math.isinf(identity) and not is_floating(x.dtype):
        if x.dtype == "bool":
            raise DTypeError("masked: a bool has no infinity; expected numbers")
        limits = iinfo(x.dtype)
        identity = limits.max if identity > 0 else limits.min
    return nc.where(mask.bool(), x, nc.full((), identity, dtype=x.dtype, device=x.device))


def _counts(x: Any, mask: Any, axes: Any, keepdim: bool) -> Any:
    ones = nc.ones_like(x.detach(), dtype="int64")
    return _kept(ones, mask, 0).sum(axes, keepdim)


def _reduced(name: str, function: Callable[..., Any], identity: float, doc: str) -> Callable[..., Tensor]:
    def reduction(
        input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
    ) -> Tensor:
        x = _kept(_as(input, dtype), mask, identity)
        result: Tensor = function(x, _axes(x, dim), keepdim) if x.ndim else function(x)
        return result

    reduction.__name__, reduction.__doc__ = name, doc
    return reduction


def _product(x: Any, axes: Any = (), keepdim: bool = False) -> Any:
    for axis in sorted((axis % x.ndim for axis in axes), reverse=True):
        x = x.prod(axis, keepdim)
    return x.prod() if not axes else x


sum: Callable[..., Tensor] = _reduced("sum", lambda x, *rest: x.sum(*rest), 0, "The sum of the selected elements.")
prod: Callable[..., Tensor] = _reduced("prod", _product, 1, "The product of the selected elements.")
amax: Callable[..., Tensor] = _reduced(
    "amax", lambda x, *rest: x.amax(*rest), -_INF, "The largest of the selected elements; -inf of none."
)
amin: Callable[..., Tensor] = _reduced(
    "amin", lambda x, *rest: x.amin(*rest), _INF, "The least of the selected elements; inf of none."
)
logsumexp: Callable[..., Tensor] = _reduced(
    "logsumexp",
    lambda x, *rest: x.logsumexp(*rest).to(x.dtype),
    -_INF,
    "log(sum(exp(x))) of the selected elements in their dtype; -inf of none.",
)


def _at(name: str, identity: float, doc: str) -> Callable[..., Tensor]:
    def position(
        input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
    ) -> Tensor:
        x = _kept(_as(input, dtype), mask, identity)
        result: Tensor = getattr(x, name)(dim, keepdim).to(x.dtype)
        return result

    position.__name__, position.__doc__ = name, doc
    return position


argmax: Callable[..., Tensor] = _at(
    "argmax", -_INF, "The position of the largest of the selected elements, in their dtype."
)
argmin: Callable[..., Tensor] = _at(
    "argmin", _INF, "The position of the least of the selected elements, in their dtype."
)


def _along(name: str, function: Callable[..., Any], identity: float, doc: str) -> Callable[..., Tensor]:
    def op(input: Tensor, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
        x = _as(input, dtype)
        result: Tensor = function(_kept(x, mask, identity), dim)
        return result if is_floating(result.dtype) else result.to(x.dtype)

    op.__name__, op.__doc__ = name, doc
    return op


cumsum: Callable[..., Tensor] = _along("cumsum", nc.cumsum, 0, "The sums of the selected elements up to each position.")
cumprod: Callable[..., Tensor] = _along(
    "cumprod", nc.cumprod, 1, "The products of the selected elements up to each position."
)
softmax: Callable[..., Tensor] = _along(
    "softmax", nc.softmax, -_INF, "The softmax of the selected elements, 0 for the others; NaN of none."
)
log_softmax: Callable[..., Tensor] = _along("log_softmax", nc.log_softmax, -_INF, "The logarithm of ``softmax``.")
softmin: Callable[..., Tensor] = _along(
    "softmin", lambda x, dim: nc.softmax(-x, dim), _INF, "The softmax of the negative selected elements."
)


def mean(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The mean of the selected elements; NaN of none. Raises ValueError for integers without a floating ``dtype``."""
    x = _as(input, dtype)
    if not is_floating(x.dtype):
        raise ValueError(f"mean(): expected a floating dtype, got {x.dtype}; write dtype=torch.float32")
    axes = _axes(x, dim)
    return _kept(x, mask, 0).sum(axes, keepdim) / _counts(x, mask, axes, keepdim)  # type: ignore[no-any-return]


def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Tensor:
    """The variance of the selected elements, the sum of squares divided by their number minus ``correction``."""
    if unbiased is not None and correction is not None:
        raise RuntimeError("Only one of unbiased and correction may be given")
    less = correction if correction is not None else 1 if unbiased is None else int(unbiased)
    x = _as(input, dtype)
    x = x if is_floating(x.dtype) else x.to("float32")
    axes = _axes(x, dim)
    centre = _kept(x, mask, 0).sum(axes, True) / _counts(x, mask, axes, True)
    rest = x - centre
    number = nc.clamp(_counts(x, mask, axes, keepdim) - less, min=0)
    return _kept(rest * rest, mask, 0).sum(axes, keepdim) / number  # type: ignore[no-any-return]


def std(input: Tensor, dim: Any = None, unbiased: bool | None = None, **options: Any) -> Tensor:
    """The square root of ``var``."""
    return nc.sqrt(var(input, dim, unbiased, **options))


def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Tensor:
    """The norm of the selected elements of order ``ord``."""
    order = 2.0 if ord is None else ord
    x = _kept(_as(input, dtype), mask, _INF if order == -_INF else 0)
    return nc.linalg.vector_norm(x, order, _axes(x, dim), keepdim)


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None
) -> Tensor:
    """The selected elements divided by their norm, which is at least ``eps``; 0 for the others."""
    x = _as(input, dtype)
    length = nc.clamp(norm(x, ord, dim, keepdim=True, mask=mask), min=eps)
    return _kept(x, mask, 0) / length  # type: ignore[no-any-return]


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None
) -> Tensor:
    """log(exp(input) + exp(other)) of the elements that the masks select; -inf of none."""
    a, b = _kept(_as(input, dtype), input_mask, -_INF), _kept(_as(other, dtype), other_mask, -_INF)
    return nc.logaddexp(a, b)


def median(input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:
    """The lower median of the selected elements; NaN of none. Raises ValueError for integers without any."""
    x = _as(input, dtype)
    wide = x if is_floating(x.dtype) else x.to("float32")
    if wide is not x and bool((_counts(x, mask, (dim,), False) == 0).any()):
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    result = _kept(wide, mask, math.nan).nanmedian(dim, keepdim)[0]
    return result.to(x.dtype)  # type: ignore[no-any-return]


def _input_mask(input: Tensor, *args: Any, mask: Tensor | None = None, **options: Any) -> Tensor:
    """Returns the mask of a call as a bool of the shape of ``input``. Raises ValueError if there is none."""
    if mask is None:
        raise ValueError("_input_mask: expected mask=, a tensor that broadcasts to the input, got None")
    return nc.broadcast_to(mask.bool(), input.shape)


def _output_mask(op: Callable[..., Any], input: Tensor, *args: Any, **options: Any) -> Tensor:
    """Returns where the result of ``op(input, *args, **options)``, a function of this module, has selected elements.

    Raises ValueError for another function.
    """
    if op.__name__ not in __all__ or op.__name__ == "logaddexp":
        raise ValueError(f"_output_mask: expected a function of torch.masked with a mask, got {op.__name__}")
    selected = _input_mask(input, **options)
    if op.__name__ in ("cumprod", "cumsum", "log_softmax", "normalize", "softmax", "softmin"):
        return selected
    position = 1 if op.__name__ == "norm" else 0  # after the order of a norm
    dim = args[position] if len(args) > position else options.get("dim")
    return selected.any(_axes(input, dim), options.get("keepdim", False))

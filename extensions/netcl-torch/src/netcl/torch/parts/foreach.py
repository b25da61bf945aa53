"""torch._foreach_*: an operation for each tensor of a list, with lists or single values as its other arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import netcl as nc
from netcl.core import Tensor

# Methods of tensors with a form in place, and the operations that have one form, or other names.
_METHODS = (
    "abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min cos cosh div erf erfc exp expm1 floor frac lerp "
    "lgamma log log10 log1p log2 mul neg pow reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc"
)
_OTHERS: dict[str, Callable[..., Any]] = {
    "clone": Tensor.clone,
    "copy_": Tensor.copy_,
    "max": Tensor.amax,
    "mm": Tensor.mm,
    "norm": lambda x, ord=2, dtype=None: nc.linalg.vector_norm(x, ord, dtype=dtype),
    "powsum": lambda x, ord=2, dtype=None: (x if dtype is None else x.to(dtype)).abs().pow(ord).sum(),
    "zero_": Tensor.zero_,
}
_SAME = {"maximum": "clamp_min", "minimum": "clamp_max"}
_WEIGHTED = ("addcdiv", "addcmul")  # with a factor, or a list or tensor of them, as the fourth argument


def _operations() -> dict[str, Callable[..., Any]]:
    names = {name: name for name in _METHODS.split()} | _SAME
    methods = {f"{name}{end}": getattr(Tensor, f"{method}{end}") for name, method in names.items() for end in ("", "_")}
    return {f"_foreach_{name}": each for name, each in (methods | _OTHERS).items()}


def _over_lists(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function ``name``: ``operation`` of the tensors of a list, the list itself for one in place."""

    def foreach(self: Any, *args: Any, **kwargs: Any) -> Sequence[Tensor]:
        if isinstance(self, (int, float)):  # _foreach_pow(2.0, exponents)
            return tuple(nc.pow(self, exponent) for exponent in args[0])
        if not isinstance(self, (tuple, list)):
            raise TypeError(f"{name}(): argument 'self' must be tuple of Tensors, not {type(self).__name__}")
        if not self:
            raise RuntimeError("Tensor list must have at least one tensor.")
        if name.rstrip("_").endswith(_WEIGHTED) and len(args) == 3:
            weights = args[2].tolist() if isinstance(args[2], Tensor) else args[2]
            args, kwargs = args[:2], {**kwargs, "value": weights}
        rows = [_row(name, value, len(self)) for value in (*args, *kwargs.values())]
        made = []
        for at, x in enumerate(self):
            values = [row[at] for row in rows]
            made.append(operation(x, *values[: len(args)], **dict(zip(kwargs, values[len(args) :]))))
        return self if name.endswith("_") else tuple(made)

    foreach.__name__ = foreach.__qualname__ = name
    foreach.__doc__ = f"``{name.removeprefix('_foreach_')}`` of each tensor of a list."
    return foreach


def _row(name: str, value: Any, count: int) -> Sequence[Any]:
    """Returns a value for each of ``count`` tensors."""
    if not isinstance(value, (tuple, list)):
        return [value] * count
    if len(value) != count:
        raise RuntimeError(f"Tensor lists must have the same number of tensors, got {count} and {len(value)}")
    return value


globals().update({name: _over_lists(name, operation) for name, operation in _operations().items()})
TORCH_NAMES = tuple(_operations())

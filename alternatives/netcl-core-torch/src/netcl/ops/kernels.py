"""Makers of rows from functions of PyTorch, and conversions that many of them share."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from netcl_core_kit.rows import composites, new_row
from netcl_core_kit.shapes import exactly

from netcl.core.dtypes import NAMES, TORCH, canonical, kind, promote
from netcl.core.errors import DTypeError
from netcl.core.layout import broadcast_shapes, normalize_axes
from netcl.core.ops_table.dispatch import Domain, Kernel

__all__ = ["as_float", "axes_of", "composites", "exactly", "pair", "rows", "silently", "unified", "with_dtype"]

T = torch.Tensor
HALF = (torch.float16, torch.bfloat16)
# Dtypes in which PyTorch hardly computes, by the one in which it is done instead.
WIDER = {torch.uint16: torch.int32, torch.uint32: torch.int64, torch.uint64: torch.int64}


def rows(
    amp: str, table: Mapping[str, Any], *, elementwise: bool = False, gradient: bool = True, constant: bool = False,
    dtypes: str = "any", kernel: type[Kernel] = Kernel,
    reads: str = "all", by_all: bool = True,
) -> None:  # fmt: skip
    """Registers a row for each signature of ``table`` with the function of PyTorch that computes it; ``reads``: what of
    operands and results its gradient reads, all, result (the result alone) or nothing; ``by_all``: has every
    operand a gradient?
    """
    for text, compute in table.items():
        found = kernel(text.split("(")[0], compute, elementwise)
        row = new_row(text, amp, dtypes, call=found)
        found.of(row)
        row.saves = {}  # a gradient reads what PyTorch has saved
        row.domain = Domain(gradient=gradient and by_all and not constant and row.operands[:1] != ("tensors",))
        if gradient:
            found.differentiable, found.reads = not constant, reads
            row.vjp = _no_influence if constant else found.vjp


def _no_influence(recorded: Any, grad: Any) -> dict[str, Any]:
    """The gradient of a row that is constant almost everywhere: none."""
    return {}


def as_float(x: T) -> T:
    """x, as float32 if it is not floating."""
    return x if x.is_floating_point() else x.to(torch.float32)


def axes_of(x: T, axis: Any, name: str) -> tuple[int, ...]:
    """The axes of x that ``axis`` names."""
    return normalize_axes(tuple(axis) if isinstance(axis, list) else axis, x.dim(), name)


def axis_of(x: T, axis: int, name: str) -> int:
    """One axis of x."""
    return normalize_axes(axis, max(x.dim(), 1), name)[0]


def silently(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Calls a function of PyTorch without its warnings, which are not netcl's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **options)


def with_dtype(x: T, dtype: Any, floating: bool = False) -> T:
    """x converted to ``dtype``; None is its own, with ``floating`` float32 for other dtypes."""
    if dtype is None:
        return as_float(x) if floating else x
    name = canonical(dtype)
    if floating and kind(name) != 2:
        raise DTypeError(f"the result has a floating dtype, not {name}")
    return x.to(TORCH[name])


def _number(value: Any, dtype: str, place: Any) -> T:
    if kind(dtype) == 1 and not isinstance(value, bool):
        limits = torch.iinfo(TORCH[dtype])
        if not limits.min <= value <= limits.max:
            raise OverflowError(f"the number {value} is beyond {dtype}, [{limits.min}, {limits.max}]")
    return torch.tensor(value, dtype=TORCH[dtype])


def unified(name: str, *values: Any, floating: bool = False) -> tuple[T, ...]:
    """Operands of an elementwise op as tensors of the dtype to which they promote; numbers and 0-d tensors do not raise
    it within a kind.
    """
    tensors = [one for one in values if isinstance(one, T)]
    first = tensors[0]
    if len(tensors) == len(values) and all(one.dtype == first.dtype for one in tensors):
        dtype = NAMES[first.dtype]
    else:
        wide = [NAMES[one.dtype] for one in tensors if one.dim()]
        flat = [NAMES[one.dtype] for one in tensors if not one.dim()]
        weak = [type(one) for one in values if not isinstance(one, T)]
        dtype = promote(*(wide or flat))
        above = [one for one in flat if kind(one) > kind(dtype)]
        if above:
            dtype = promote(*above)
        dtype = promote(dtype, *weak)
    if floating and kind(dtype) != 2:
        dtype = "float32"
    if len(tensors) > 1:
        broadcast_shapes([tuple(one.shape) for one in tensors], name)
    made = TORCH[dtype]
    return tuple(
        (one if one.dtype == made else one.to(made)) if isinstance(one, T) else _number(one, dtype, first.device)
        for one in values
    )


def pair(
    name: str, function: Callable[..., Any], *, floating: bool = False, compare: bool = False
) -> Callable[..., Any]:
    """The row of an elementwise function of promoted operands."""

    def compute(*values: Any) -> T:
        given = unified(name, *values, floating=floating)
        wider = WIDER.get(given[0].dtype)
        if wider is None:
            return function(*given)  # type: ignore[no-any-return]
        result: T = function(*(one.to(wider) for one in given))
        return result if compare or result.dtype != wider else result.to(given[0].dtype)

    return compute


def numbers(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Dtypes in which PyTorch does not compute are widened for a function of one tensor."""

    def widened(x: T, *args: Any, **kwargs: Any) -> Any:
        wider = WIDER.get(x.dtype)
        if wider is None:
            return compute(x, *args, **kwargs)
        result = compute(x.to(wider), *args, **kwargs)
        return result.to(x.dtype) if isinstance(result, T) and result.dtype == wider else result

    return widened

"""Ops on the extremes of their dtypes: NaN, infinities, both zeros, subnormals and the ends of the integers, compared
with NumPy, or with NumPy's engine if NumPy lacks the function.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from netcl.core.dtypes import from_bfloat16, integer_range, is_floating, is_unsigned, to_bfloat16
from netcl.core.engine.protocol import DeviceBackend
from netcl.core.engine.registry import cpu_engine
from netcl.core.errors import DTypeError
from netcl.core.ops_table.dispatch import TABLE, OpRow, call_row, row_of
from netcl.core.tensor.tensor import Tensor

Array = np.ndarray[Any, Any]

# Of each float dtype: the rounding unit, the smallest normal number and the smallest number, and the largest.
_FLOATS = {
    "float32": (2.0**-23, 2.0**-126, 2.0**-149, (2 - 2.0**-23) * 2.0**127),
    "float64": (2.0**-52, 2.0**-1022, 5e-324, (2 - 2.0**-52) * 2.0**1023),
    "float16": (2.0**-10, 2.0**-14, 2.0**-24, 65504.0),
    "bfloat16": (2.0**-7, 2.0**-126, 2.0**-133, (2 - 2.0**-7) * 2.0**127),
}
_RELATIVE = {"float32": 2e-6, "float64": 1e-13, "float16": 2e-3, "bfloat16": 1.6e-2}

REFERENCES: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in (
        "abs", "floor_divide", "mod", "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos",
        "tan", "sinh", "cosh", "tanh", "floor", "ceil", "trunc", "square", "reciprocal", "maximum", "minimum", "hypot",
        "logaddexp", "isnan", "isinf", "isfinite", "signbit", "logical_and", "logical_or", "logical_xor",
        "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor", "where", "copysign", "nextafter",
    )},
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "round": np.rint,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "atan2": np.arctan2, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "bitwise_not": np.invert, "left_shift": np.left_shift,
    "right_shift": np.right_shift, "clone": np.copy,
    "sign": lambda x: x if x.dtype == bool else np.sign(x),
}  # fmt: skip

# Rows that reduce or scan an axis, with attributes; the samples are rows of a matrix.
_ALONG: dict[str, dict[str, Any]] = {
    **{name: {"axis": 1} for name in (
        "sum", "prod", "amax", "amin", "any", "all", "count_nonzero", "argmax", "argmin", "mean", "sort", "argsort",
        "cummax", "cummin", "cumsum",
    )},
    "topk": {"k": 2},
}  # fmt: skip


_FLOATS_ONLY = ("lerp",)  # of integers the difference wraps on one engine and not on another; PyTorch refuses them
# Logarithms near their zeros have rounding units of 1; vectors of the drivers' expm1 and log1p lose the sign of zero.
_ABSOLUTE = ("lgamma", "elu", "celu", "selu", "xlog1py")
_TOTALS = ("sum", "mean", "prod", "cumsum")  # their zeros have the sign of the first term or not


class Sample(NamedTuple):
    """Operands of an op, as they are stored in ``dtype`` (a condition: bool), and its attributes."""

    operands: tuple[Array, ...]
    attributes: dict[str, Any]


def extremes(dtype: str) -> Array:
    """Returns the extremes of a dtype among plain numbers, in the arithmetic dtype of NumPy."""
    if dtype == "bool":
        return np.array([False, True])
    if not is_floating(dtype):
        low, high = integer_range(dtype)
        numbers = {low, low + 1, high - 1, high, 0, 1, 2, 7} | (set() if is_unsigned(dtype) else {-1, -2, -7})
        return np.array(sorted(numbers), dtype)
    unit, normal, smallest, largest = _FLOATS[dtype]
    positive = [0.0, smallest, normal, unit, 0.1, 0.5, 1.0, 1.0 + unit, 1.5, 2.5, 3.0, 1000.0, largest, np.inf]
    values = np.array([np.nan, *positive, *(-number for number in positive)])
    if dtype == "bfloat16":
        return from_bfloat16(to_bfloat16(values))
    return values.astype(dtype).astype(np.float64 if dtype == "float64" else np.float32)


def extreme_ops() -> tuple[str, ...]:
    """Returns the rows of the op table that are elementwise, reduce, scan or sort."""
    importlib.import_module("netcl.ops")
    return tuple(name for name, row in TABLE.items() if name in _ALONG or name == "clamp" or _is_elementwise(row))


def _is_elementwise(row: OpRow) -> bool:
    text = isinstance(row.expression, str)
    return 1 <= len(row.operands) <= 3 and (text or row.expression is not None and row.domain.cases is None)


def samples(name: str, dtype: str) -> Iterator[Sample]:
    """Returns all combinations of extremes for the operands of an op, with a tail beyond vectors, and for elementwise
    ops an empty and a 0-d sample.
    """
    row, values = row_of(name), extremes(dtype)
    if name in _FLOATS_ONLY and not is_floating(dtype):
        return
    if name in _ALONG:
        if name == "mean" and not is_floating(dtype):
            values = values[np.abs(values.astype(np.float64)) <= 7]  # so that sums are exact
        many = np.stack([np.roll(values, shift) for shift in range(len(values))])
        yield Sample((many[:, :5],), _ALONG[name])
        finite = values
        if is_floating(dtype):
            finite = values[np.isfinite(values)]
            if name in _TOTALS:  # the order of additions shows if large terms cancel, or a product overflows
                finite = values[(abs(values) >= 0.1) & (abs(values) <= 3)]
        yield Sample((np.stack([finite, finite[::-1]]),), _ALONG[name])
        return
    if name == "clamp":
        low, high = (0, 7) if not is_floating(dtype) else (-0.5, 2.5)
        yield Sample((values,), {"min": low, "max": high})
        yield Sample((values,), {"min": low})
        return
    arity = len(row.operands)
    if arity == 3:
        values = values[:: max(1, len(values) // 7)]
    grids = np.meshgrid(*[values] * arity, indexing="ij")
    operands = tuple(grid.reshape(-1) for grid in grids)
    operands = tuple(x != 0 if of == "condition" else x for of, x in zip(row.operands, operands))
    yield Sample(operands, {})
    yield Sample(tuple(x[:0] for x in operands), {})
    yield Sample(tuple(x[-1].reshape(()) for x in operands), {})


def computed(name: str, sample: Sample, engine: DeviceBackend, dtype: str) -> tuple[Tensor, ...]:
    """Returns the results of an op on an engine."""
    operands = [
        Tensor.from_host(engine.queue, x, "bool" if of == "condition" else dtype)
        for of, x in zip(row_of(name).operands, sample.operands)
    ]
    result = call_row(row_of(name), tuple(operands), dict(sample.attributes), record=False)
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def disagreement(name: str, engine: DeviceBackend, dtype: str) -> str:
    """Returns how an op on an engine differs from NumPy on the extremes of a dtype; empty if it does not. An op that
    refuses a dtype by DTypeError must refuse it on NumPy's engine, too.
    """
    for sample in samples(name, dtype):
        try:
            results = computed(name, sample, engine, dtype)
        except (DTypeError, TypeError) as error:
            try:
                computed(name, sample, cpu_engine(), dtype)
            except type(error):
                return ""
            return f"{engine.device_label} refuses {dtype}, NumPy's engine does not: {error}"
        reference = REFERENCES.get(name)
        if reference is not None and name not in _ALONG:
            operands = sample.operands
            if is_floating(results[0].dtype) and not is_floating(dtype):  # computed in float32
                operands = tuple(x.astype(np.float32) for x in operands)
            with np.errstate(all="ignore"):
                wanted = [np.asarray(reference(*operands))]
        else:
            wanted = [tensor.numpy() for tensor in computed(name, sample, cpu_engine(), dtype)]
        for got, want in zip(results, wanted):
            fault = agree(got.numpy(), want, got.dtype, cancels=name in (*_TOTALS, *_ABSOLUTE))
            if fault:
                flat = sample.operands if len(sample.operands[0].shape) < 2 else ()
                inputs = [x.reshape(-1)[fault[0]] for x in flat]
                return f"{name}{tuple(inputs)} of {dtype}: {fault[1]}, not {fault[2]}"
    return ""


def agree(
    got: Array, wanted: Array, dtype: str, cancels: bool = False, share: float = 0.0
) -> tuple[int, Any, Any] | None:
    """Returns the flat position and the values of the first difference; None if there is none.

    Integers and bool are equal. Floats are NaN and infinite at the same places and agree within a few rounding units,
    or this ``share``, of 1 at least if terms may cancel (``cancels``), or else zeros have the same sign. Results below
    the smallest normal number may differ by that.
    """
    got, wanted = np.atleast_1d(got).reshape(-1), np.atleast_1d(wanted).reshape(-1)
    if got.shape != wanted.shape:
        return 0, got.shape, wanted.shape
    if not is_floating(dtype):
        different = got != wanted
    else:
        if dtype == "bfloat16":
            wanted = from_bfloat16(to_bfloat16(wanted))
        _, normal, _, _ = _FLOATS[dtype]
        with np.errstate(all="ignore"):
            if dtype == "float16":
                wanted = wanted.astype(np.float16)
            a, b = got.astype(np.float64), wanted.astype(np.float64)
            near = np.abs(a - b) <= max(_RELATIVE[dtype], share) * np.maximum(np.abs(b), 1 if cancels else 0) + normal
            zeros = (not cancels) & (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
            same = ((a == b) | near | (np.isnan(a) & np.isnan(b))) & ~zeros
            different = ~same | (np.isinf(a) != np.isinf(b))
    if not different.any():
        return None
    place = int(np.flatnonzero(different)[0])
    return place, got[place], wanted[place]

"""Evaluates expressions with NumPy: the same DAG that becomes a kernel, walked node by node on whole arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from netcl.core.dtypes import from_bfloat16, is_floating, numpy_dtype, to_bfloat16
from netcl.core.errors import ExpressionError
from netcl.core.expr.nodes import Apply, Const, Expr, Index, Load, Reduce, Scalar
from netcl.core.expr.rewrite import walk

_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": np.add.reduce,
    "prod": np.multiply.reduce,
    "max": np.maximum.reduce,
    "min": np.minimum.reduce,
}
_LARGE = 1 << 16  # elements from which a sum is worth cutting in blocks
_IDENTITY = {"max": -np.inf, "min": np.inf}


def arithmetic_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy dtype that values of ``dtype`` are computed in: float32 for the two half types."""
    return np.dtype(np.float32) if dtype in ("float16", "bfloat16") else numpy_dtype(dtype)


def load(array: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Stored elements as values to compute with."""
    return from_bfloat16(array) if dtype == "bfloat16" else array.astype(arithmetic_dtype(dtype), copy=False)


def store(value: Any, dtype: str) -> np.ndarray[Any, Any]:
    """Computed values as stored elements, rounded to nearest even in the half types."""
    if dtype == "bfloat16":
        return to_bfloat16(np.asarray(value, dtype=np.float32))
    return np.asarray(value).astype(numpy_dtype(dtype), copy=False)


def _cast(value: Any, source: str, target: str) -> Any:
    if target in ("float16", "bfloat16") and source in ("float32", "float64"):
        # Between kernels a half value would be rounded by its store; inside one it stays float32, as on the device.
        return np.asarray(value).astype(np.float32, copy=False)
    if target == "bool":
        return np.asarray(value) != 0
    return np.asarray(value).astype(arithmetic_dtype(target), copy=False)


def _reduce(node: Reduce, value: Any, rank: int, shape: Sequence[int]) -> Any:
    """Reduces with float32 sums accumulated in float64, so that every axis is as exact as the best."""
    array = np.asarray(value)
    full = [1] * (rank - array.ndim) + list(array.shape)
    for axis in node.axes:
        full[axis] = shape[axis]
    array = np.broadcast_to(array, full)
    if node.kind == "sum" and node.dtype != "float64" and array.dtype == np.float32 and array.size >= _LARGE:
        return _blocked_sum(array, node.axes).astype(np.float32)
    if node.kind in ("sum", "prod"):
        accumulator = np.float64 if is_floating(node.dtype) else np.int64
        result = _REDUCTIONS[node.kind](array, axis=node.axes, keepdims=True, dtype=accumulator)
        return result.astype(arithmetic_dtype(node.dtype))
    if is_floating(node.dtype):
        return _REDUCTIONS[node.kind](array, axis=node.axes, keepdims=True, initial=_IDENTITY[node.kind])
    return _REDUCTIONS[node.kind](array, axis=node.axes, keepdims=True)


def _blocked_sum(array: np.ndarray[Any, Any], axes: tuple[int, ...]) -> Any:
    """The sum of many floats: blocks in float32, four times faster, and their sums in float64."""
    last = axes[-1] == array.ndim - 1
    axis = axes[-1] if last else max(axes, key=lambda candidate: array.shape[candidate])
    block = 4096 if last else 64  # NumPy adds up pairwise along the last axis alone
    count = array.shape[axis] // block
    if count < 2 and last:
        rows = np.add.reduce(array, axis=-1, keepdims=True)
        return np.add.reduce(rows, axis=axes, keepdims=True, dtype=np.float64)
    if count < 2 or not array.flags.c_contiguous:
        return np.add.reduce(array, axis=axes, keepdims=True, dtype=np.float64)
    every = (slice(None),) * axis
    first, last_ones = (*every, slice(count * block)), (*every, slice(count * block, None))
    shape = (*array.shape[:axis], count, block, *array.shape[axis + 1 :])
    blocks = np.add.reduce(
        np.lib.stride_tricks.as_strided(array[first], shape, _blocked(array.strides, axis, block)), axis + 1
    )
    total = np.add.reduce(blocks, axis=axes, keepdims=True, dtype=np.float64)
    return total + np.add.reduce(array[last_ones], axis=axes, keepdims=True, dtype=np.float64)


def _blocked(strides: Sequence[int], axis: int, block: int) -> tuple[int, ...]:
    return (*strides[:axis], strides[axis] * block, *strides[axis:])


def evaluate(
    outputs: Sequence[Expr],
    arrays: Sequence[np.ndarray[Any, Any]],
    scalars: Mapping[str, float | int] | None = None,
    *,
    shape: Sequence[int] | None = None,
    failed: Callable[[int], None] | None = None,
) -> list[np.ndarray[Any, Any]]:
    """The values of ``outputs`` for input ``arrays`` (storage dtypes), each of the shape that it has by broadcasting.

    ``shape`` is the iteration space (default: what the arrays broadcast to); ``failed(code)`` is called for each
    ``require`` that does not hold.
    """
    space = tuple(shape) if shape is not None else np.broadcast_shapes(*(a.shape for a in arrays))
    rank = len(space)
    values: dict[Expr, Any] = {}
    with np.errstate(all="ignore"):
        for node in walk(outputs):
            values[node] = _value(node, values, arrays, scalars or {}, space, rank, failed)
        return [store(values[output], output.dtype) for output in outputs]


def _value(
    node: Expr,
    values: Mapping[Expr, Any],
    arrays: Sequence[np.ndarray[Any, Any]],
    scalars: Mapping[str, float | int],
    space: tuple[int, ...],
    rank: int,
    failed: Callable[[int], None] | None,
) -> Any:
    if isinstance(node, Load):
        array = arrays[node.slot]
        return load(array.reshape((1,) * (rank - array.ndim) + array.shape), node.dtype)
    if isinstance(node, Const):
        return np.asarray(node.value, dtype=arithmetic_dtype(node.dtype))
    if isinstance(node, Scalar):
        return np.asarray(scalar_value(node.name, scalars, space), dtype=arithmetic_dtype(node.dtype))
    if isinstance(node, Index):
        positions = np.arange(space[node.axis], dtype=np.int32)
        return positions.reshape([-1 if axis == node.axis else 1 for axis in range(rank)])
    if isinstance(node, Reduce):
        return _reduce(node, values[node.arg], rank, space)
    if not isinstance(node, Apply):
        raise ExpressionError(f"cannot evaluate a {type(node).__name__}")
    name, args = node.prim.name, [values[arg] for arg in node.args]
    if name.startswith("to_"):
        return _cast(args[0], node.args[0].dtype, node.dtype)
    if name == "require":
        if failed is not None and not np.all(args[0]):
            failed(int(args[2]))
        return args[1]
    return node.prim.numpy(*args)


def scalar_value(name: str, scalars: Mapping[str, float | int], space: Sequence[int]) -> float | int:
    """The value of a launch scalar; ``size:0,2`` is the number of elements of these axes of the iteration space."""
    if name.startswith("size:"):
        return math.prod(space[int(axis)] for axis in name[5:].split(","))
    return scalars[name]

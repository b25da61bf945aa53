"""Evaluates expressions with NumPy: the graph of a kernel on OpenCL devices, as a list of steps on whole arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from netcl.core.dtypes import from_bfloat16, is_floating, is_unsigned, numpy_dtype, to_bfloat16
from netcl.core.errors import ExpressionError
from netcl.core.expr.nodes import Apply, Const, Expr, Index, Load, Reduce, Scalar
from netcl.core.expr.rewrite import walk

_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": np.add.reduce,
    "prod": np.multiply.reduce,
    "max": np.maximum.reduce,
    "min": np.minimum.reduce,
}
# Functions of whole numbers that never warn.
_SILENT = {np.add, np.subtract, np.multiply, np.negative, np.minimum, np.maximum}
_LARGE = 1 << 16  # elements from which a sum is worth cutting in blocks
_IDENTITY = {"max": -np.inf, "min": np.inf}


def arithmetic_dtype(dtype: str) -> np.dtype[Any]:
    """Returns the NumPy dtype that values of ``dtype`` are computed in: float32 for the two half types."""
    return np.dtype(np.float32) if dtype in ("float16", "bfloat16") else numpy_dtype(dtype)


def load(array: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Returns stored elements as values to compute with."""
    return from_bfloat16(array) if dtype == "bfloat16" else array.astype(arithmetic_dtype(dtype), copy=False)


def _store(dtype: str) -> Callable[[Any], np.ndarray[Any, Any]]:
    """Returns the function that converts computed values to stored elements, rounded to nearest even in half types."""
    if dtype == "bfloat16":
        return lambda value: to_bfloat16(np.asarray(value, dtype=np.float32))
    stored = numpy_dtype(dtype)
    return lambda value: np.asarray(value).astype(stored, copy=False)


def _cast(source: str, target: str) -> Callable[[Any], Any]:
    """Returns the function that converts values of dtype ``source`` to dtype ``target``."""
    if target == "bool":
        return lambda value: np.asarray(value) != 0
    if is_floating(source) and is_unsigned(target):
        return partial(_unsigned_of_float, numpy_dtype(target))
    # Between kernels a half value would be rounded by its store; inside one it stays float32, as on the device.
    halved = target in ("float16", "bfloat16") and source in ("float32", "float64")
    dtype = np.dtype(np.float32) if halved else arithmetic_dtype(target)
    return lambda value: np.asarray(value).astype(dtype, copy=False)


def _unsigned_of_float(dtype: np.dtype[Any], value: Any) -> Any:
    """Converts floats to unsigned integers; numbers below 0 wrap, as on the device. In C that is undefined."""
    floats = np.asarray(value)
    wrapped = floats.astype(np.int64).astype(dtype)
    return np.where(floats < 2.0**63, wrapped, floats.astype(dtype)) if dtype.itemsize == 8 else wrapped


def _reduction(node: Reduce) -> Callable[[_Run, Any], Any]:
    """Returns the function that reduces values; sums of float32 in float64, so that all axes are equally exact."""
    axes, dtype, function = node.axes, arithmetic_dtype(node.dtype), _REDUCTIONS[node.kind]
    floating = is_floating(node.dtype)

    def whole(run: _Run, value: Any) -> np.ndarray[Any, Any]:
        array = np.asarray(value)
        full = [1] * (len(run.space) - array.ndim) + list(array.shape)
        for axis in axes:
            full[axis] = run.space[axis]
        return np.broadcast_to(array, full)

    def extremum(run: _Run, value: Any) -> Any:
        initial = {"initial": _IDENTITY[node.kind]} if floating else {}
        return function(whole(run, value), axis=axes, keepdims=True, **initial)

    blocked = node.kind == "sum" and node.dtype != "float64"
    accumulator = np.float64 if floating else np.int64

    def total(run: _Run, value: Any) -> Any:
        array = whole(run, value)
        if blocked and array.dtype == np.float32 and array.size >= _LARGE:
            return _blocked_sum(array, axes).astype(np.float32)
        return function(array, axis=axes, keepdims=True, dtype=accumulator).astype(dtype)

    return total if node.kind in ("sum", "prod") else extremum


def _blocked_sum(array: np.ndarray[Any, Any], axes: tuple[int, ...]) -> Any:
    """Returns the sum of many floats: blocks in float32, four times faster, and their sums in float64."""
    last = axes[-1] == array.ndim - 1
    axis = axes[-1] if last else max(axes, key=lambda candidate: array.shape[candidate])
    block = 4096 if last else 64  # NumPy adds up pairwise only along the last axis
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


class Evaluator:
    """A list of steps that evaluates expressions, each a function and the slots of its arguments, arguments before
    their users.

    An evaluator is made once for its outputs; running it traverses no graph. The slots hold constants, then loaded
    values, then the result of each step. ``makes`` is True if each value is a new array: the result of a NumPy function
    on arrays; ``warns`` if NumPy must be kept silent.
    """

    def __init__(self, outputs: Sequence[Expr]) -> None:
        self.outputs: tuple[Expr, ...] = tuple(outputs)
        nodes = walk(self.outputs)
        self._slots: list[Any] = [None] * len(nodes)
        self._loads: list[tuple[int, int, str, np.dtype[Any]]] = []
        self._steps: list[tuple[int, Callable[..., Any], Callable[[list[Any]], Sequence[Any]], bool]] = []
        slot_of = {node: slot for slot, node in enumerate(nodes)}
        self._stores = [(slot_of[output], _store(output.dtype)) for output in self.outputs]
        functions: dict[Expr, Any] = {node: node.prim.numpy for node in nodes if isinstance(node, Apply)}
        self.makes = all(isinstance(functions.get(output), np.ufunc) for output in self.outputs)
        self.warns = any(is_floating(node.dtype) or functions.get(node, np.add) not in _SILENT for node in nodes)
        for node, slot in slot_of.items():
            if isinstance(node, Load):
                self._loads.append((slot, node.slot, node.dtype, arithmetic_dtype(node.dtype)))
            elif isinstance(node, Const):
                self._slots[slot] = np.asarray(node.value, dtype=arithmetic_dtype(node.dtype))
            else:
                function, of_run = _function(node)
                self._steps.append((slot, function, _picker([slot_of[child] for child in node.children]), of_run))

    def only_call(self) -> tuple[np.ufunc, tuple[Expr, ...]] | None:
        """Returns the function of NumPy and its operands if it alone computes the one output, in the dtype of the
        output, of loads, constants and scalars in their own dtypes; else None.
        """
        node = self.outputs[0]
        if len(self.outputs) > 1 or not isinstance(node, Apply) or _function(node)[0] is not node.prim.numpy:
            return None
        function, operands = node.prim.numpy, node.args
        if not isinstance(function, np.ufunc) or not all(isinstance(each, (Load, Const, Scalar)) for each in operands):
            return None
        if any(arithmetic_dtype(each.dtype) != numpy_dtype(each.dtype) for each in operands):
            return None
        with np.errstate(all="ignore"):
            value = function(*[np.ones((), numpy_dtype(each.dtype)) for each in operands])
        return (function, operands) if value.dtype == numpy_dtype(node.dtype) else None

    def run(
        self,
        arrays: Sequence[np.ndarray[Any, Any]],
        scalars: Mapping[str, float | int],
        space: tuple[int, ...],
        failed: Callable[[int, float, int, int], None] | None = None,
    ) -> list[np.ndarray[Any, Any]]:
        """Returns the values of the outputs over ``space``, see ``evaluate``."""
        if not self.warns:  # to keep NumPy silent takes as long as an addition
            return self._values(arrays, _Run(scalars, space, failed))
        with np.errstate(all="ignore"):
            return self._values(arrays, _Run(scalars, space, failed))

    def _values(self, arrays: Sequence[np.ndarray[Any, Any]], run: _Run) -> list[np.ndarray[Any, Any]]:
        rank, values = len(run.space), self._slots.copy()
        for slot, number, dtype, arithmetic in self._loads:
            array = arrays[number]
            if array.ndim != rank:
                array = array.reshape((1,) * (rank - array.ndim) + array.shape)
            values[slot] = array if array.dtype == arithmetic else load(array, dtype)
        for slot, function, pick, of_run in self._steps:
            values[slot] = function(run, *pick(values)) if of_run else function(*pick(values))
        return [stored(values[slot]) for slot, stored in self._stores]


class _Run(NamedTuple):
    """The inputs of a run besides its arrays."""

    scalars: Mapping[str, float | int]
    space: tuple[int, ...]
    failed: Callable[[int, float, int, int], None] | None


def _picker(slots: list[int]) -> Callable[[list[Any]], Sequence[Any]]:
    """Returns the function that selects the values of ``slots`` from all values."""
    # With one index itemgetter gives the value itself, with a slice a list.
    return itemgetter(*slots) if len(slots) > 1 else itemgetter(slice(slots[0], slots[0] + 1) if slots else slice(0))


def _function(node: Expr) -> tuple[Callable[..., Any], bool]:
    """Returns the function of a node on the values of its children, and True if its first argument is the run."""
    if isinstance(node, Scalar):
        name, dtype = node.name, arithmetic_dtype(node.dtype)
        return lambda run: np.asarray(scalar_value(name, run.scalars, run.space), dtype=dtype), True
    if isinstance(node, Index):
        return partial(_positions, node.axis), True
    if isinstance(node, Reduce):
        return _reduction(node), True
    if not isinstance(node, Apply):
        raise ExpressionError(f"cannot evaluate a {type(node).__name__}")
    if node.prim.name.startswith("to_"):
        return _cast(node.args[0].dtype, node.dtype), False
    if node.prim.name == "require":
        return _require, True
    if node.prim.name == "stored":
        return partial(_stored, node.dtype, _store(node.dtype)), False
    return node.prim.numpy, False


def _stored(dtype: str, store: Callable[[Any], Any], value: Any) -> Any:
    return load(store(value), dtype)


def _positions(axis: int, run: _Run) -> Any:
    size = run.space[axis]
    positions = np.arange(size, dtype=np.int32 if size < 2**31 else np.int64)
    return positions.reshape([-1 if other == axis else 1 for other in range(len(run.space))])


def _require(run: _Run, condition: Any, value: Any, code: Any, size: Any) -> Any:
    if run.failed is not None and not np.all(condition):
        holds, values = np.broadcast_arrays(condition, value)
        first = np.unravel_index(int(np.argmin(holds)), holds.shape)
        shape = np.shape(value)  # without broadcast axes
        place = [0 if n == 1 else coordinate for n, coordinate in zip(shape, first[len(first) - len(shape) :])]
        position = int(np.ravel_multi_index(place, shape)) if shape else 0
        run.failed(int(code), values[first].item(), position, int(size))
    return value


@lru_cache(maxsize=1024)
def evaluator_of(outputs: tuple[Expr, ...]) -> Evaluator:
    """Returns the evaluator of ``outputs``, made once."""
    return Evaluator(outputs)


def evaluate(
    outputs: Sequence[Expr],
    arrays: Sequence[np.ndarray[Any, Any]],
    scalars: Mapping[str, float | int] | None = None,
    *,
    shape: Sequence[int] | None = None,
    failed: Callable[[int, float, int, int], None] | None = None,
) -> list[np.ndarray[Any, Any]]:
    """Returns the values of ``outputs`` for input ``arrays`` (storage dtypes), each of the shape that it has by
    broadcasting.

    ``shape`` is the iteration space (default: the broadcast shape of the arrays). ``failed(code, value, position,
    size)`` is called for each failed ``require``, with its first failing value.
    """
    space = tuple(shape) if shape is not None else np.broadcast_shapes(*(a.shape for a in arrays))
    return Evaluator(outputs).run(arrays, scalars or {}, space, failed)


def scalar_value(name: str, scalars: Mapping[str, float | int], space: Sequence[int]) -> float | int:
    """Returns the value of a scalar of a run; ``size:0,2`` is the number of elements of these axes of the space."""
    if name.startswith("size:"):
        return math.prod(space[int(axis)] for axis in name[5:].split(","))
    return scalars[name]

"""Evaluates expressions on NumPy arrays; the fast path of an op repeats an evaluation without planning it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from threading import get_ident
from typing import Any, NamedTuple

import numpy as np

from netcl.core.backend.cpu.storage import Array
from netcl.core.dtypes import numpy_dtype
from netcl.core.expr.nodes import Expr, Load, Scalar
from netcl.core.expr.numpy_eval import Evaluator, evaluator_of, scalar_value
from netcl.core.layout import broadcast_shapes
from netcl.core.ops_table.program import Program
from netcl.core.storage.data import TensorData
from netcl.core.storage.size import Shape as SizeOfTensor
from netcl.core.tensor.tensor import Tensor

Shape = tuple[int, ...]


def run(
    engine: Any,
    outputs: Sequence[Expr],
    inputs: Sequence[TensorData],
    scalars: Mapping[str, float | int] | None = None,
    *,
    shapes: Sequence[Sequence[int]] | None = None,
    out: Sequence[TensorData | None] | None = None,
) -> tuple[TensorData, ...]:
    """Evaluates ``outputs`` over the shape that inputs and ``shapes`` broadcast to; see DeviceBackend.run."""
    ready = prepared(
        tuple(outputs), tuple([t.shape for t in inputs]), None if shapes is None else tuple(map(tuple, shapes))
    )
    results = tuple(
        [
            engine.empty(shape, dtype) if out is None or (target := out[number]) is None else target
            for number, (shape, dtype) in enumerate(ready.results)
        ]
    )
    arrays = [tensor.array for tensor in inputs]
    stores = [_shaped(result.array, shape) for result, (shape, _) in zip(results, ready.results)]
    engine.launch(_evaluate, ready.evaluator, arrays, dict(scalars or {}), ready.space, stores, engine.raise_flag)
    for target in out or ():
        if target is not None:
            target._storage.written()
    return results


class Prepared(NamedTuple):
    """A run for given shapes of its inputs: the plan, the iteration space, and shape and dtype of each result."""

    evaluator: Evaluator
    space: Shape
    results: tuple[tuple[Shape, str], ...]


@lru_cache(maxsize=4096)
def prepared(outputs: tuple[Expr, ...], inputs: tuple[Shape, ...], shapes: tuple[Shape, ...] | None) -> Prepared:
    """Returns the run for inputs of these shapes, cached."""
    space = broadcast_shapes([*inputs, *(shapes or ())], "run")
    result_shapes = shapes if shapes is not None else (space,) * len(outputs)
    return Prepared(
        evaluator_of(outputs), space, tuple((shape, output.dtype) for shape, output in zip(result_shapes, outputs))
    )


def _shaped(array: Array, shape: Shape) -> Array:
    return array if array.shape == shape else array.reshape(shape)


def _evaluate(
    evaluator: Evaluator,
    arrays: list[Array],
    scalars: Mapping[str, float | int],
    space: tuple[int, ...],
    stores: list[Array],
    failed: Any,
) -> None:
    # All values are computed before the stores: an output may alias an input.
    for store, value in zip(stores, evaluator.run(arrays, scalars, space, failed)):
        store[...] = value


def planned(
    engine: Any, program: Program, args: Sequence[Any], scalars: Mapping[str, float | int]
) -> Callable[[Sequence[Any]], Tensor | None] | None:
    """Returns the function that repeats the run of an op's ``program`` on operands like ``args``; None for several
    outputs, or if a number must be checked against the dtype.
    """
    if len(program.outputs) != 1 or program.small:
        return None
    positions = [position for position, value in enumerate(args) if isinstance(value, TensorData)]
    ready = prepared(program.outputs, tuple([args[position].shape for position in positions]), program.shapes)
    numbers_at = (position for position in range(len(args)) if position not in positions)
    open_scalars = [(f"v{position}", position) for position in numbers_at if f"v{position}" in scalars]
    fixed = {name: value for name, value in scalars.items() if name not in dict(open_scalars)}
    ((shape, dtype),) = ready.results
    evaluate, space, final, stored, failed = (
        ready.evaluator.run,
        ready.space,
        program.finals[0],
        numpy_dtype(dtype),
        engine.raise_flag,
    )

    makes, recordings = ready.evaluator.makes, engine.recordings
    call = ready.evaluator.only_call()
    if call is not None:
        return _planned_call(engine, ready, call, positions, dict(open_scalars), fixed, final)

    def run_prepared(args: Sequence[Any]) -> Tensor | None:
        """Returns the result for ``args``, or None during capture and profiling."""
        if engine.intercepting or (recordings and get_ident() in recordings):
            return None
        numbers = {**fixed, **{name: args[position] for name, position in open_scalars}} if open_scalars else fixed
        (value,) = evaluate([args[position].array for position in positions], numbers, space, failed)
        if makes and value.shape == shape and value.flags.c_contiguous:
            array = value
        else:
            array = np.empty(shape, stored)
            array[...] = value
        return Tensor._wrap(engine, final, dtype, None, array if shape == final else array.reshape(final), None)

    return run_prepared


def _planned_call(
    engine: Any,
    ready: Prepared,
    call: tuple[np.ufunc, tuple[Expr, ...]],
    positions: Sequence[int],
    places: Mapping[str, int],
    fixed: Mapping[str, float | int],
    final: Shape,
) -> Callable[[Sequence[Any]], Tensor | None]:
    """Returns the same for a program that is one call of NumPy. The tensors are at ``positions``, the numbers by name
    at ``places`` of the arguments or ``fixed``.
    """
    function, sources = call
    ((shape, dtype),) = ready.results
    operands: list[Any] = [None] * len(sources)
    tensors, numbers = [], []
    for slot, source in enumerate(sources):
        if isinstance(source, Load):
            tensors.append((slot, positions[source.slot]))
        elif isinstance(source, Scalar) and source.name in places:
            numbers.append((slot, places[source.name], numpy_dtype(source.dtype)))
        else:
            value = scalar_value(source.name, fixed, ready.space) if isinstance(source, Scalar) else source.value  # type: ignore[attr-defined]
            operands[slot] = np.asarray(value, numpy_dtype(source.dtype))
    stored, recordings, silence = numpy_dtype(dtype), engine.recordings, ready.evaluator.warns
    final = SizeOfTensor(final)  # once, not for each result

    def run_call(args: Sequence[Any]) -> Tensor | None:
        """Returns the result for ``args``, or None during capture and profiling."""
        if engine.intercepting or (recordings and get_ident() in recordings):
            return None
        values = operands.copy()
        for slot, position in tensors:
            values[slot] = args[position].array
        for slot, position, number_dtype in numbers:
            values[slot] = np.asarray(args[position], number_dtype)
        array = np.empty(shape, stored)
        if silence:
            with np.errstate(all="ignore"):
                function(*values, out=array)
        else:
            function(*values, out=array)
        return Tensor._wrap(engine, final, dtype, None, array if shape == final else array.reshape(final), None)

    return run_call

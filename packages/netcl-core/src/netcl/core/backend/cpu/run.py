"""Evaluates expressions on NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from netcl.core.backend.cpu.storage import Array
from netcl.core.expr.nodes import Expr
from netcl.core.expr.numpy_eval import Evaluator, evaluator_of
from netcl.core.layout import broadcast_shapes

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

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
            engine.empty(shape, dtype) if out is None or (target := out[at]) is None else target
            for at, (shape, dtype) in enumerate(ready.results)
        ]
    )
    arrays = [tensor.storage for tensor in inputs]
    stores = [_shaped(result.storage, shape) for result, (shape, _) in zip(results, ready.results)]
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
    wanted = shapes if shapes is not None else (space,) * len(outputs)
    return Prepared(evaluator_of(outputs), space, tuple((shape, one.dtype) for shape, one in zip(wanted, outputs)))


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

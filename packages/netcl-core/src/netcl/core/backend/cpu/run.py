"""Expressions on NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from netcl.core.backend.cpu.storage import Array
from netcl.core.expr.nodes import Expr
from netcl.core.expr.numpy_eval import Plan, plan_of
from netcl.core.layout import broadcast_shapes

if TYPE_CHECKING:
    from netcl.core.tensor_data import TensorData


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
    space = broadcast_shapes([*(t.shape for t in inputs), *(tuple(s) for s in shapes or ())], "run")
    wanted = list(shapes) if shapes is not None else [space] * len(outputs)
    targets = list(out) if out is not None else [None] * len(outputs)
    results = tuple(
        target if target is not None else engine.empty(shape, output.dtype)
        for target, shape, output in zip(targets, wanted, outputs)
    )
    arrays = [tensor.storage for tensor in inputs]
    stores = [result.storage.reshape(tuple(shape)) for result, shape in zip(results, wanted)]
    engine.launch(_evaluate, plan_of(tuple(outputs)), arrays, dict(scalars or {}), space, stores, engine.raise_flag)
    for target in targets:
        if target is not None:
            target._version[0] += 1
    return results


def _evaluate(
    plan: Plan,
    arrays: list[Array],
    scalars: Mapping[str, float | int],
    space: tuple[int, ...],
    stores: list[Array],
    failed: Any,
) -> None:
    # Values first, stores second: an output may alias an input.
    for store, value in zip(stores, plan.run(arrays, scalars, space, failed)):
        store[...] = value

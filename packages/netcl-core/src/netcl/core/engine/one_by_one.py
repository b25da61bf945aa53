"""The calls on several sets of tensors, one set at a time: if no kernel computes all sets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from netcl.core.expr import Expr, Load, apply, reduce

if TYPE_CHECKING:
    from netcl.core.storage.data import TensorData

_PAIRS = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}
_NEUTRAL = {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}


def run_each(
    engine: Any,
    outputs: Sequence[Expr],
    inputs: Sequence[Sequence[TensorData]],
    shared: Sequence[TensorData] = (),
    scalars: Mapping[str, float | int] | None = None,
    *,
    out: Sequence[Sequence[TensorData]] | None = None,
) -> list[tuple[TensorData, ...]]:
    """Calls ``run`` for each set; see DeviceBackend.run_each."""
    targets = [None] * len(inputs) if out is None else [list(tensors) for tensors in out]
    return [
        engine.run(outputs, (*tensors, *shared), scalars, shapes=None if to is None else [t.shape for t in to], out=to)
        for tensors, to in zip(inputs, targets)
    ]


def reduce_each(
    engine: Any, kind: str, expression: Expr, inputs: Sequence[Sequence[TensorData]], shared: Sequence[TensorData] = ()
) -> TensorData:
    """Returns the reduction of each set, and then of pairs of results; see DeviceBackend.reduce_each."""
    pair = Load(0, expression.dtype), Load(1, expression.dtype)
    total: TensorData | None = None
    for tensors in inputs:
        if any(tensor.size == 0 for tensor in tensors):
            continue
        rank = max(tensor.ndim for tensor in tensors)
        whole = reduce(kind, expression, tuple(range(rank)))
        (part,) = engine.run((whole,), (*tensors, *shared), shapes=[(1,) * rank])
        part = part._alias((1,))
        total = part if total is None else engine.run((apply(_PAIRS[kind], *pair),), (total, part))[0]
    if total is None:
        nothing: TensorData = engine.empty((1,), expression.dtype)
        engine.fill(nothing, _NEUTRAL[kind])
        return nothing
    return total

"""Fast path of an op on NumPy: evaluates its compiled expression without planning the call again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netcl.core.backend.cpu.run import prepared
from netcl.core.dtypes import numpy_dtype
from netcl.core.tensor.data import TensorData
from netcl.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from netcl.core.ops_table.program import Program


def warm_call(
    engine: Any, program: Program, args: Sequence[Any], scalars: Mapping[str, float | int]
) -> Callable[[Sequence[Any]], Tensor | None] | None:
    """Repeats a run of an op's ``program`` on operands like ``args``; returns None for several outputs, or if a number
    must be checked against the dtype.
    """
    if len(program.outputs) != 1 or program.small:
        return None
    positions = [position for position, value in enumerate(args) if isinstance(value, TensorData)]
    ready = prepared(program.outputs, tuple([args[position].shape for position in positions]), program.shapes)
    given = [(f"v{position}", position) for position in range(len(args)) if f"v{position}" in scalars]
    fixed = {name: value for name, value in scalars.items() if name not in dict(given)}
    ((shape, dtype),) = ready.results
    evaluate, space, final, stored, failed = (
        ready.evaluator.run,
        ready.space,
        program.finals[0],
        numpy_dtype(dtype),
        engine.raise_flag,
    )

    def run_prepared(args: Sequence[Any]) -> Tensor | None:
        """Returns the result for ``args``, or None during capture and profiling."""
        if engine.recording is not None or engine.intercepting:
            return None
        numbers = {**fixed, **{name: args[position] for name, position in given}} if given else fixed
        (value,) = evaluate([args[position].storage for position in positions], numbers, space, failed)
        array = np.empty(shape, stored)
        array[...] = value
        return Tensor._wrap(engine, final, dtype, None, array if shape == final else array.reshape(final), None)

    return run_prepared


__all__ = ["warm_call"]

"""Finds the first op and the first parameter with NaN or infinite values in a training step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import NonFiniteError
from netcl.core.ops_table.dispatch import OpRow, pop_hook, push_hook
from netcl.ops.random import drawing_at
from netcl.trainer.step import TrainingStep


def first_non_finite(
    step: TrainingStep, fields: Sequence[Tensor], randomness: Mapping[str, int]
) -> tuple[str | None, str | None]:
    """Returns the first op of the step on ``fields`` that gives NaN or infinity, forward or backward, and the first
    parameter with such a gradient; None if there is none. The state of the model is restored.
    """
    model = step.model
    buffers = [(buffer, buffer.to_host()) for buffer in model.buffers()]
    op = None
    try:
        with drawing_at(randomness), ag.detect_anomaly():
            with _raising_at_non_finite():
                loss: Any = step.forward(*fields)[1]
            loss.backward()
    except NonFiniteError as error:
        op = error.op
    if op is not None:
        for p in model.parameters():
            p.grad = None
        again: Any = step.forward(*fields)[1]
        again.backward()
    broken = (name for name, p in model.named_parameters() if p.grad is not None and not is_finite(p.grad))
    parameter = next(broken, None)
    for p in model.parameters():
        p.grad = None
    for buffer, value in buffers:
        buffer.write(value)
    return op, parameter


@contextmanager
def _raising_at_non_finite() -> Iterator[None]:
    """Raises NonFiniteError at the first op of this thread with a result that is not finite."""

    def hook(next: Callable[..., Any], row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = next(row, args, kwargs)
        for value in result if isinstance(result, tuple) else (result,):
            if isinstance(value, Tensor) and not is_finite(value):
                raise NonFiniteError(f"{row.name} gave a value that is not finite", op=row.name)
        return result

    push_hook(hook, "profiler")
    try:
        yield
    finally:
        pop_hook(hook)


def is_finite(tensor: Tensor) -> bool:
    """Returns True if no element is NaN or infinite; reads the device."""
    values = tensor.to_host()
    return values.dtype.kind not in "fc" or bool(np.isfinite(values).all())

"""NonFiniteGuard: keeps a step whose loss or gradients are NaN or infinite from changing anything, on the device."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

import netcl.autograd as ag
from netcl import ops
from netcl.core import Tensor
from netcl.core.dispatch import OpRow, assign, evaluate, pop_hook, push_hook
from netcl.core.errors import NonFiniteError
from netcl.core.expr import Const, Expr, Load, apply, cast
from netcl.optim.clip import clipping
from netcl.trainer.batches import Batch

if TYPE_CHECKING:
    from netcl.trainer.step import TrainingStep

__all__ = ["NonFiniteGuard", "Step", "first_non_finite", "is_finite"]


@dataclass
class Step:
    """What a step was made from: the random state before it, and its batches."""

    randomness: Mapping[str, int]
    batches: list[Batch]


@lru_cache(maxsize=16)
def _noted(dtype: str) -> tuple[Expr, ...]:
    """1 where the flag is 1 or the value is not finite."""
    broken = cast(apply("logical_not", apply("isfinite", Load(1, dtype))), "float32")
    return (apply("maximum", Load(0, "float32"), broken),)


@lru_cache(maxsize=16)
def _kept(dtype: str) -> tuple[Expr, ...]:
    return (apply("where", Load(0, "float32") > 0, Load(1, dtype), Load(2, dtype)),)


@lru_cache(maxsize=4)
def _counted(sticky: bool) -> tuple[Expr, ...]:
    found = Load(0, "float32")
    return (found if sticky else Const(0.0, "float32"), Load(1, "float32") + found)


class NonFiniteGuard:
    """A flag on the device that the optimizer heeds, and copies of the model's buffers to go back to.

    ``sticky``: once a step was not finite, all later ones change nothing either, until ``reset``; the weights stay
    those before the first bad step then. Otherwise each step is judged by itself. No step reads anything on the host.
    """

    def __init__(self, model: Any, sticky: bool, queue: Any) -> None:
        self.sticky = sticky
        self.found = Tensor.zeros((), queue=queue, persistent=True)
        self._bad = Tensor.zeros((), queue=queue, persistent=True)
        self._buffers = list(model.buffers())
        self._before = [Tensor.empty(b.shape, b.dtype, queue=b.queue, persistent=True) for b in self._buffers]

    def tensors(self) -> dict[str, Tensor]:
        """What the guard keeps on the device, by name."""
        return {"the guard's flag": self.found, "the steps that were not finite": self._bad}

    def begin(self) -> None:
        """Sets the buffers (running statistics) aside, before the forward pass."""
        for before, buffer in zip(self._before, self._buffers):
            assign(before, buffer)

    def look(self, loss: Tensor) -> None:
        """Notes whether the loss of a batch is finite."""
        flat = loss.detach().reshape(())
        evaluate(_noted(flat.dtype), (self.found, flat), out=(self.found,))

    def look_at_gradients(self, params: Sequence[Tensor]) -> None:
        """Notes whether all gradients are finite, by their norm."""
        norm, _ = clipping(params, math.inf)
        evaluate(_noted(norm.dtype), (self.found, norm), out=(self.found,))

    def end(self) -> None:
        """Puts the buffers back after a bad step, and counts the step; after the optimizer has looked at ``found``."""
        for before, buffer in zip(self._before, self._buffers):
            evaluate(_kept(buffer.dtype), (self.found, before, buffer), out=(buffer,))
        counters = (self.found, self._bad)
        evaluate(_counted(self.sticky), counters, shapes=((), ()), out=counters)

    def read(self) -> int:
        """The steps that did not count since the last ``reset``; waits for the device."""
        return int(self._bad.item())

    def reset(self) -> None:
        """Begins anew, with every step allowed."""
        for tensor in (self.found, self._bad):
            tensor.write(0.0)


def first_non_finite(
    step: TrainingStep, fields: Sequence[Tensor], randomness: Mapping[str, int]
) -> tuple[str | None, str | None]:
    """The first op of the step on ``fields`` that gives NaN or infinity, forward or backward, and the first parameter
    whose gradient does; None where there is none. Nothing is left changed.
    """
    model = step.model
    buffers = [(buffer, buffer.to_host()) for buffer in model.buffers()]
    now = ops.get_rng_state()
    ops.set_rng_state(randomness)
    op = None
    try:
        with ag.detect_anomaly():
            with _watched():
                loss: Any = step.forward(*fields)[1]
            loss.backward()
    except NonFiniteError as error:
        op = error.op
    finally:
        ops.set_rng_state(now)
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
def _watched() -> Iterator[None]:
    """Raises NonFiniteError at the first op of this thread whose result is not finite."""

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
    """Whether no element is NaN or infinite; reads the device."""
    values = tensor.to_host()
    return values.dtype.kind not in "fc" or bool(np.isfinite(values).all())

"""NonFiniteGuard: on the device, prevents a step with a NaN or infinite loss or gradient from changing anything."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from netcl.core import Tensor
from netcl.core.expr import Const, Expr, Load, apply, cast
from netcl.core.ops_table.dispatch import assign, evaluate
from netcl.optim.clip import clipping


@lru_cache(maxsize=16)
def _flag_non_finite(dtype: str) -> tuple[Expr, ...]:
    """Returns 1 if the flag is 1 or the value is not finite."""
    broken = cast(apply("logical_not", apply("isfinite", Load(1, dtype))), "float32")
    return (apply("maximum", Load(0, "float32"), broken),)


@lru_cache(maxsize=16)
def _restore_if_flagged(dtype: str) -> tuple[Expr, ...]:
    return (apply("where", Load(0, "float32") > 0, Load(1, dtype), Load(2, dtype)),)


@lru_cache(maxsize=4)
def _count_step(sticky: bool) -> tuple[Expr, ...]:
    flag = Load(0, "float32")
    return (flag if sticky else Const(0.0, "float32"), Load(1, "float32") + flag)


class NonFiniteGuard:
    """A flag on the device that the optimizer reads as ``found_inf``, and copies of the model's buffers for restoring
    them.

    ``sticky``: after a non-finite step all later steps change nothing either, until ``reset``; the weights stay as
    before the first bad step. Otherwise each step is judged separately. No step reads anything on the host.
    """

    def __init__(self, model: Any, sticky: bool, queue: Any) -> None:
        self.sticky = sticky
        self.found: Tensor = Tensor.zeros((), queue=queue, persistent=True)
        self._bad = Tensor.zeros((), queue=queue, persistent=True)
        self._buffers = list(model.buffers())
        self._before = [Tensor.empty(b.shape, b.dtype, queue=b.queue, persistent=True) for b in self._buffers]

    def tensors(self) -> dict[str, Tensor]:
        """Returns the tensors of the guard on the device, by name."""
        return {"the guard's flag": self.found, "the steps that were not finite": self._bad}

    def begin(self) -> None:
        """Copies the buffers (running statistics) before the forward pass."""
        for before, buffer in zip(self._before, self._buffers):
            assign(before, buffer)

    def check_loss(self, loss: Tensor) -> None:
        """Sets the flag if the loss of a batch is not finite."""
        flat = loss.detach().reshape(())
        evaluate(_flag_non_finite(flat.dtype), (self.found, flat), out=(self.found,))

    def check_gradients(self, params: Sequence[Tensor]) -> None:
        """Sets the flag if a gradient is not finite, judged by the norm of all gradients."""
        norm, _ = clipping(params, math.inf)
        evaluate(_flag_non_finite(norm.dtype), (self.found, norm), out=(self.found,))

    def end(self) -> None:
        """Restores the buffers after a bad step, and counts the step; call it after the optimizer has read
        ``found``.
        """
        for before, buffer in zip(self._before, self._buffers):
            evaluate(_restore_if_flagged(buffer.dtype), (self.found, before, buffer), out=(buffer,))
        counters = (self.found, self._bad)
        evaluate(_count_step(self.sticky), counters, shapes=((), ()), out=counters)

    def read(self) -> int:
        """Returns the number of skipped steps since the last ``reset``; waits for the device."""
        return int(self._bad.item())

    def reset(self) -> None:
        """Clears the flag and the count."""
        for tensor in (self.found, self._bad):
            tensor.write(0.0)

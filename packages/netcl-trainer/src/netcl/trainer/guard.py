"""NonFiniteGuard: keeps a step whose loss or gradients are NaN or infinite from changing anything, on the device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from netcl.core import Tensor
from netcl.core.dispatch import assign, evaluate
from netcl.core.expr import Const, Expr, Load, apply, cast
from netcl.optim.clip import clipping

__all__ = ["NonFiniteGuard"]


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

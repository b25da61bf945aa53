"""Tensors cut along their first axis, with gradients put together once."""

from __future__ import annotations

from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor


class _Unbind(ag.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(ag.unbind(x, 0))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        (known, *_) = (grad for grad in grads if grad is not None)
        zero = Tensor.zeros(known.shape, known.dtype, queue=known.queue)
        return ag.stack([zero if grad is None else grad for grad in grads])


def unbind(x: Tensor) -> tuple[Tensor, ...]:
    """x (T, ...) as T tensors (...).

    Of ``ag.unbind`` each part has a gradient as large as x, T of them to be added up; here they are joined.
    """
    return _Unbind.apply(x)  # type: ignore[no-any-return]

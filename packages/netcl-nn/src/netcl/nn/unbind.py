"""Tensors cut along their first axis, with gradients put together once."""

from __future__ import annotations

from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor


class _Unbind(ag.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, keepdims: bool) -> tuple[Tensor, ...]:
        ctx.join = ag.cat if keepdims else ag.stack
        return tuple(ag.split(x, 1, 0) if keepdims else ag.unbind(x, 0))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        (known, *_) = (grad for grad in grads if grad is not None)
        zero = Tensor.zeros(known.shape, known.dtype, queue=known.queue)
        return ctx.join([zero if grad is None else grad for grad in grads]), None


def unbind(x: Tensor, keepdims: bool = False) -> tuple[Tensor, ...]:
    """x (T, ...) as T tensors (...), or (1, ...) with ``keepdims``.

    Of ``ag.unbind`` each part has a gradient as large as x, T of them to be added up; here they are joined.
    """
    return _Unbind.apply(x, keepdims)  # type: ignore[no-any-return]

"""unbind with one gradient for all parts."""

from __future__ import annotations

from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor


class _Unbind(ag.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)  # parts that are not used share one zero
        return tuple(ag.unbind(x, 0))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        (known, *_) = (grad for grad in grads if grad is not None)
        zero = Tensor.zeros(known.shape, known.dtype, queue=known.queue)
        return ag.stack([zero if grad is None else grad for grad in grads])


def unbind(x: Tensor) -> tuple[Tensor, ...]:
    """Splits x (T, ...) into T tensors (...).

    With ``ag.unbind`` each part has a gradient as large as x, T of them to be summed; here the gradients are
    concatenated once.
    """
    return _Unbind.apply(x)  # type: ignore[no-any-return]

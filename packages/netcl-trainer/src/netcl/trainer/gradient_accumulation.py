"""GradientSums: gradient accumulation over several batches, weighted by samples."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from netcl.core import Tensor
from netcl.core.dtypes import promote
from netcl.core.expr import Const, Expr, Load, Scalar, cast
from netcl.core.ops_table.dispatch import evaluate


@lru_cache(maxsize=64)
def _add(total: str, grad: str) -> tuple[Expr, ...]:
    return (Load(0, total) + Scalar("n", total) * cast(Load(1, grad), total),)


@lru_cache(maxsize=64)
def _mean(total: str) -> tuple[Expr, ...]:
    return (Load(0, total) / cast(Load(1, "float32"), total), Const(0.0, total))


class GradientSums:
    """Sums of n times the gradient of a mean over n samples, and of n: their quotient is the gradient of the mean over
    the whole group, for any batch sizes.

    All sums are on the device in the same tensors for all steps, so that captured steps may refer to them.
    """

    def __init__(self, optimizer: Any, queue: Any) -> None:
        self._optimizer = optimizer
        self._sums: dict[int, Tensor] = {}
        self._samples = Tensor.zeros((), queue=queue, persistent=True)

    def _parameters(self) -> list[Tensor]:
        return [p for group in self._optimizer.param_groups for p in group["params"]]

    def tensors(self) -> dict[str, Tensor]:
        """Returns the sums by the index of their parameter in the optimizer; zero between two groups."""
        index_of = {id(p): index for index, p in enumerate(self._parameters())}
        sums = {
            f"the gradient sum of parameter {index_of[key]}": total
            for key, total in self._sums.items()
            if key in index_of
        }
        return {**sums, "the samples of the group": self._samples}

    def add(self, n: int) -> None:
        """Adds the current gradients, each of a mean over ``n`` samples, and drops them."""
        for p in self._parameters():
            if p.grad is None:
                continue
            total = self._sums.get(id(p))
            if total is None:
                dtype = promote(p.dtype, "float32")
                total = self._sums[id(p)] = Tensor.zeros(p.shape, dtype, queue=p.queue, persistent=True)
            evaluate(_add(total.dtype, p.grad.dtype), (total, p.grad), {"n": float(n)}, out=(total,))
            p.grad = None
        count = Load(0, "float32") + Scalar("n", "float32")
        evaluate((count,), (self._samples,), {"n": float(n)}, out=(self._samples,))

    def set_mean_gradients(self) -> None:
        """Sets the gradient of each parameter to the mean over the group, and begins the next group."""
        for p in self._parameters():
            total = self._sums.get(id(p))
            if total is not None:
                grad = Tensor.empty(p.shape, total.dtype, queue=p.queue)
                shapes = (total.shape, total.shape)
                evaluate(_mean(total.dtype), (total, self._samples), shapes=shapes, out=(grad, total))
                p.grad = grad
        evaluate((Const(0.0, "float32"),), (self._samples,), shapes=((),), out=(self._samples,))

    def clear(self) -> None:
        """Clears the sums, so that an interrupted group does not affect the next one."""
        for total in (*self._sums.values(), self._samples):
            total.write(0.0)

"""Synchronized batch normalization: statistics over the shards of all ranks, installed into the BatchNorm layers of a
model.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

import netcl.autograd as ag
from netcl import ops
from netcl.autograd.function import Context
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.distributed.current import current_group
from netcl.distributed.group import ProcessGroup

M = TypeVar("M")


class SyncBatchNorm:
    """Replaces ``ag.batch_norm`` in a BatchNorm layer: in training, the mean and the variance of each channel, and
    their parts of the gradient, are computed over the shards of all ranks of ``group`` (None: the group of the thread
    or process). It uses two small collectives per layer and step, one forward and one backward. The other ranks must
    run the same layers.
    """

    def __init__(self, group: ProcessGroup | None = None) -> None:
        self.group = group

    def __call__(
        self,
        x: Tensor,
        running_mean: Tensor | None = None,
        running_var: Tensor | None = None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor:
        """As ``ag.batch_norm``: x (N, C, ...) normalized per channel."""
        group = self.group or current_group()
        if not training or group is None or group.size == 1:
            return ag.batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps)
        if x.ndim < 2:
            raise ShapeError(f"batch_norm: x {x.shape}; expected (N, C, ...)", op="batch_norm")
        return _Synchronized.apply(group, x, weight, bias, running_mean, running_var, momentum, eps)  # type: ignore[no-any-return]

    def __deepcopy__(self, memo: dict[int, Any]) -> SyncBatchNorm:
        return SyncBatchNorm(self.group)

    def __repr__(self) -> str:
        return f"SyncBatchNorm({self.group or ''})"


class _Synchronized(ag.Function):
    """y = xhat weight + bias with xhat = (x - mean) / sqrt(var + eps), and the gradient of x, weight / sqrt(var + eps)
    (g - mean(g) - xhat mean(g xhat)); all means are over the samples of all ranks.
    """

    @staticmethod
    def forward(
        ctx: Context,
        group: ProcessGroup,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        momentum: float,
        eps: float,
    ) -> Tensor:
        axes = (0, *range(2, x.ndim))
        own = np.stack([_host(ops.mean(x, axes)), _host(ops.var(x, axes, correction=0))]).astype(np.float64)
        count = x.size // x.shape[1]
        stats = group.all_gather(np.concatenate([np.full((1, 1, x.shape[1]), count), own[:, None]])[None])
        counts, means, variances = stats[:, 0, 0], stats[:, 1, 0], stats[:, 2, 0]
        total = counts.sum(0)
        mean = (counts * means).sum(0) / total
        # The variance about the common mean (Chan, Golub and LeVeque 1983).
        var = (counts * (variances + (means - mean) ** 2)).sum(0) / total
        for running, batch in ((running_mean, mean), (running_var, var * total / np.maximum(total - 1, 1))):
            if running is not None:
                running.write((1 - momentum) * _host(running) + momentum * batch)
        shape = (-1,) + (1,) * (x.ndim - 2)
        ctx.group, ctx.total, ctx.axes = group, float(total[0]), axes  # type: ignore[attr-defined]
        ctx.mean = _like(x, mean.reshape(shape))  # type: ignore[attr-defined]
        ctx.scale = _like(x, 1 / np.sqrt(var + eps).reshape(shape))  # type: ignore[attr-defined]
        ctx.save_for_backward(*(t for t in (x, weight) if t is not None))
        y = ops.mul(ops.sub(x, ctx.mean), ctx.scale)  # type: ignore[attr-defined]
        if weight is not None:
            y = ops.mul(y, ops.reshape(weight, shape))
        if bias is not None:
            y = ops.add(y, ops.reshape(bias, shape))
        return ops.cast(y, dtype=x.dtype) if y.dtype != x.dtype else y

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Any:
        (grad,) = grads
        saved = ctx.saved_tensors
        x, weight = saved[0], saved[1] if len(saved) > 1 else None
        group, axes, scale = ctx.group, ctx.axes, ctx.scale  # type: ignore[attr-defined]
        normal = ops.mul(ops.sub(x, ctx.mean), scale)  # type: ignore[attr-defined]
        grad_bias = ops.sum(grad, axes)
        grad_weight = ops.sum(ops.mul(grad, normal), axes)
        sums = np.stack([_host(grad_bias), _host(grad_weight)]).astype(np.float64)
        group.all_reduce(sums)
        shape = (-1,) + (1,) * (x.ndim - 2)
        mean_grad, mean_product = (_like(x, row.reshape(shape) / ctx.total) for row in sums)  # type: ignore[attr-defined]
        inner = ops.sub(ops.sub(grad, mean_grad), ops.mul(normal, mean_product))
        factor = scale if weight is None else ops.mul(scale, ops.reshape(weight, shape))
        return None, ops.mul(inner, factor), grad_weight, grad_bias, None, None, None, None


def _host(t: Tensor) -> Any:
    return t.to_host()


def _like(x: Tensor, values: Any) -> Tensor:
    """Returns statistics on the device of ``x``, in float32 at least."""
    dtype = "float64" if x.dtype == "float64" else "float32"
    made: Tensor = Tensor.from_host(x.queue, values.astype(dtype), dtype)
    return made


def convert_sync_batchnorm(model: M, group: ProcessGroup | None = None) -> M:
    """Makes every BatchNorm layer of ``model`` compute its statistics over all ranks of ``group``, and returns the
    model.

    ``group=None``: the group of the thread or process that runs the layer, as DataParallel requires. Names and values
    of the state do not change. Raises ValueError if the model has no BatchNorm layer.
    """
    # Found by their attributes: this package does not depend on netcl.nn.
    modules = model.modules()  # type: ignore[attr-defined]
    layers = [module for module in modules if hasattr(module, "normalize") and hasattr(module, "running_mean")]
    if not layers:
        raise ValueError(f"{type(model).__name__} has no BatchNorm layer to convert")
    for layer in layers:
        layer.normalize = SyncBatchNorm(group)
    return model

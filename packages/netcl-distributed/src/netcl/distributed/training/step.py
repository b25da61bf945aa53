"""data_parallel_step: shards of a batch on all devices in parallel, mean gradients, and one optimizer step on each
device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from netcl.core import Tensor
from netcl.core.device import device
from netcl.core.ops_table import dispatch
from netcl.distributed.training.data_parallel import shard_batch, shard_sizes, sync_grads
from netcl.distributed.training.masks import SampleMasks
from netcl.ops.random import skip, tell

Forward = Callable[[Any, Tensor, Tensor, Sequence[Tensor]], tuple[Tensor, Any]]


def data_parallel_step(
    forward_fn: Forward,
    param_replicas: Sequence[Sequence[Tensor]],
    optimizers: Sequence[Any],
    batch: tuple[Any, Any],
    *,
    weights: Sequence[float] | None = None,
    pre_shard_hook: Callable[[tuple[Any, Any]], tuple[Any, Any] | None] | None = None,
    post_sync_hook: Callable[[Sequence[Sequence[Tensor]]], None] | None = None,
    post_step_hook: Callable[[Tensor], None] | None = None,
) -> Tensor:
    """Runs a full step on every device; equal to one step on the whole batch, to rounding, if no batch statistics are
    used.

    ``forward_fn(queue, xb, yb, params) -> (loss, tape)`` computes the mean loss of a shard (tape None:
    ``loss.backward()``); ``batch`` is (x, y), arrays or tensors split along axis 0, nearly equally or by ``weights``.
    Returns the mean loss, 0-d, on the first device. A device with an empty shard only runs the optimizer step. Raises
    RuntimeError if no parameter got a gradient.
    """
    if len(param_replicas) != len(optimizers) or not param_replicas:
        raise ValueError(
            f"{len(param_replicas)} replicas and {len(optimizers)} optimizers; one of each for each device"
        )
    if pre_shard_hook is not None:
        batch = pre_shard_hook(batch) or batch
    shards = len(param_replicas)
    sizes = shard_sizes(batch[0].shape[0], shards, weights)
    xs, ys = (shard_batch(part, shards, weights) for part in batch)
    for optimizer in optimizers:
        optimizer.zero_grad()
    snapshot = dispatch.snapshot()
    offset = tell()
    drawn = [0] * shards

    def work(rank: int) -> Tensor | None:
        if sizes[rank] == 0:
            return None
        params = param_replicas[rank]
        masks = SampleMasks(sum(sizes[:rank]), sizes[rank], sum(sizes), offset)
        with snapshot.active(), device(params[0].device), masks:
            queue = params[0].queue
            xb, yb = _placed(xs[rank], queue), _placed(ys[rank], queue)
            loss, tape = forward_fn(queue, xb, yb, params)
            loss.backward() if tape is None else tape.backward(loss)
            drawn[rank] = masks.drawn
            return loss

    with ThreadPoolExecutor(shards, thread_name_prefix="netcl-shard") as pool:
        losses = list(pool.map(work, range(shards)))
    skip(max(drawn))
    if all(param.grad is None for params in param_replicas for param in params):
        raise RuntimeError(
            "data_parallel_step: no parameter got a gradient; does forward_fn use the params that it is given?"
        )
    sync_grads(param_replicas, sizes)
    if post_sync_hook is not None:
        post_sync_hook(param_replicas)
    for optimizer in optimizers:
        optimizer.step()
    mean = sum(loss.item() * size for loss, size in zip(losses, sizes) if loss is not None) / sum(sizes)
    result: Tensor = Tensor.from_host(param_replicas[0][0].queue, mean, "float32")
    if post_step_hook is not None:
        post_step_hook(result)
    return result


def _placed(part: Any, queue: Any) -> Tensor:
    return part.to(queue) if isinstance(part, Tensor) else Tensor.from_host(queue, part)

"""PyTorch, eager, on two threads of the CPU, one where processor time is compared."""

from __future__ import annotations

from typing import Any

import torch
from bursts import Work, is_processor_time
from models import batch, loss, model, optimizer
from rows import Row, operands
from torch.nn import functional

torch.set_num_threads(1 if is_processor_time() else 2)

OPS: dict[str, Any] = {
    "matmul": torch.matmul,
    "conv2d": functional.conv2d,
    "attention": functional.scaled_dot_product_attention,
    "max_pool2d": lambda x: functional.max_pool2d(x, 2),
    "batch_norm": lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True),
}


def row(row: Row) -> Work:
    """The work of a row."""
    function, given = OPS[row.op], [torch.from_numpy(array) for array in operands(row)]
    if not row.gradients:
        return lambda: function(*given, **row.options)
    *inputs, grad = given
    for x in inputs:
        x.requires_grad = True

    def forth_and_back() -> None:
        for x in inputs:
            x.grad = None
        function(*inputs, **row.options).backward(grad)

    return forth_and_back


def step(name: str) -> Work:
    """A training step, with PyTorch's fused optimizer."""
    network = prepared(model(name, torch))
    arrays, target = batch(name)
    inputs, wanted = [torch.from_numpy(array) for array in arrays], torch.from_numpy(target)
    updates = optimizer(name, torch.optim, list(network.parameters()), fused=True)

    def step() -> None:
        updates.zero_grad()
        loss(name, torch, network(*inputs), wanted).backward()
        updates.step()

    return step


def infer(name: str, size: int | None, file: str | None) -> Work:
    """Inference on the first ``size`` samples of the batch."""
    network = prepared(model(name, torch).eval())
    inputs = [torch.from_numpy(array) for array in batch(name, size)[0]]

    def infer() -> None:
        with torch.inference_mode():
            network(*inputs)

    return infer


def prepared(network: Any) -> Any:
    """The network as it is run: eager."""
    return network

"""A table of what a model does: output shapes, parameters and multiply-adds of its layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor


def multiply_adds(module: Any, x: Any, output: Tensor) -> int:
    """Multiplications with an addition each that a layer takes for its output; 0 for layers that are no product with
    a weight.
    """
    weight = getattr(module, "weight", None)
    if weight is None or weight.ndim < 2 or not hasattr(module, "reset_parameters"):
        return 0
    if hasattr(module, "output_padding"):  # transposed: each input element meets the whole kernel
        return int(x.size * math.prod(weight.shape[1:]))
    if hasattr(module, "kernel_size") or hasattr(module, "in_features"):
        return int(output.size * math.prod(weight.shape[1:]))
    return 0


def summary(model: Any, input_shape: Sequence[int]) -> str:
    """Runs the model on zeros of ``input_shape`` in evaluation mode and without gradients, and tells of each layer
    that it passed.
    """
    rows: list[tuple[str, str, int, int]] = []
    handles, names = [], {id(module): name for name, module in model.named_modules()}

    def note(module: Any, args: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            own = sum(p.size for p in module.parameters(recurse=False))
            label = f"{names[id(module)] or 'model'} ({type(module).__name__})"
            rows.append((label, str(output.shape), own, multiply_adds(module, args[0], output)))

    modes = [(module, module.training) for module in model.modules()]
    queue = next((t.queue for t in (*model.parameters(), *model.buffers())), None)
    try:
        model.eval()
        for module in model.modules():
            if not any(True for _ in module.children()) or module is model:
                handles.append(module.register_forward_hook(note))
        with ag.no_grad():
            model(Tensor.zeros(tuple(input_shape), queue=queue))
    finally:
        for handle in handles:
            handle.remove()
        for module, mode in modes:
            module.training = mode
    lines = [f"{'layer':<34}{'output shape':>22}{'parameters':>14}{'multiply-adds':>16}"]
    lines += [f"{label:<34}{shape:>22}{own:>14,}{work:>16,}" for label, shape, own, work in rows]
    total = sum(p.size for p in model.parameters())
    trainable = sum(p.size for p in model.trainable_parameters())
    lines.append(f"{'total':<34}{'':>22}{total:>14,}{sum(row[3] for row in rows):>16,}")
    lines.append(f"trainable parameters: {trainable:,}")
    return "\n".join(lines)

"""The table of ``Module.summary``: output shapes, parameters and multiply-adds of the layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.nn.html_table import rows_table


class Summary(str):
    """The table of ``Module.summary``: a text that a prompt shows as a table, and a notebook as HTML."""

    rows: tuple[tuple[str, ...], ...] = ()  # the header, the layers and the total

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Returns the table that a notebook shows."""
        return rows_table(self.rows)


@dataclass(frozen=True)
class _LayerRow:
    label: str
    shape: str
    parameters: int
    work: int


def multiply_adds(module: Any, args: Sequence[Any], output: Any) -> int:
    """Returns the multiply-adds of a layer: the result of its method ``multiply_adds`` for its inputs, else the
    products with its weight; 0 for other layers.
    """
    if hasattr(module, "multiply_adds"):
        return int(module.multiply_adds(*args))
    weight = getattr(module, "weight", None)
    if weight is None or weight.ndim < 2 or not hasattr(module, "reset_parameters"):
        return 0
    if hasattr(module, "output_padding"):  # transposed: each input element is multiplied with the whole kernel
        return int(args[0].size * math.prod(weight.shape[1:]))
    if hasattr(module, "kernel_size") or hasattr(module, "in_features"):
        return int(output.size * math.prod(weight.shape[1:]))
    if hasattr(module, "in1_features"):
        return int(output.size * (math.prod(weight.shape[1:]) + weight.shape[2]))
    return 0


def _shape(output: Any) -> str:
    if isinstance(output, Tensor):
        return str(output.shape)
    if isinstance(output, (tuple, list)):
        return ", ".join(_shape(part) for part in output if part is not None)
    return type(output).__name__


def summary(model: Any, input_shape: Sequence[int], dtype: str = "float32") -> Summary:
    """Runs the model on zeros of ``input_shape`` in evaluation mode and without gradients; returns a table of the
    executed layers: leaf modules, and modules with parameters of their own.
    """
    rows: list[_LayerRow] = []
    handles, names = [], {id(module): name for name, module in model.named_modules()}

    def note(module: Any, args: Any, output: Any) -> None:
        own = sum(p.size for p in module.parameters(recurse=False) if id(p) not in counted)
        counted.update(id(p) for p in module.parameters(recurse=False))
        label = f"{names[id(module)] or 'model'} ({type(module).__name__})"
        rows.append(_LayerRow(label, _shape(output), own, multiply_adds(module, args, output)))

    counted: set[int] = set()
    modes = [(module, module.training) for module in model.modules()]
    queue = next((t.queue for t in (*model.parameters(), *model.buffers())), None)
    try:
        model.eval()
        for module in model.modules():
            inside = any(True for _ in module.children())
            if not inside or module is model or any(True for _ in module.parameters(recurse=False)):
                handles.append(module.register_forward_hook(note))
        with ag.no_grad():
            model(Tensor.zeros(tuple(input_shape), dtype, queue=queue))
    finally:
        for handle in handles:
            handle.remove()
        for module, mode in modes:
            module.training = mode
    every = sum(p.size for p in model.parameters())
    rows.append(_LayerRow("total", "", every, sum(row.work for row in rows)))
    left = max(34, *(len(row.label) + 1 for row in rows))
    middle = max(22, *(len(row.shape) + 1 for row in rows))
    lines = [f"{'layer':<{left}}{'output shape':>{middle}}{'parameters':>14}{'multiply-adds':>16}"]
    lines += [f"{row.label:<{left}}{row.shape:>{middle}}{row.parameters:>14,}{row.work:>16,}" for row in rows]
    trainable = sum(p.size for p in model.trainable_parameters())
    lines.append(f"trainable parameters: {trainable:,}")
    table = Summary("\n".join(lines))
    numbered = ((row.label, row.shape, f"{row.parameters:,}", f"{row.work:,}") for row in rows)
    table.rows = (("layer", "output shape", "parameters", "multiply-adds"), *numbered)
    return table

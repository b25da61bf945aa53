"""torch.onnx."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netcl import io
from netcl.core.errors import UnsupportedError
from netcl.io.onnx.library import onnx_library


def export(
    model: Any,
    args: Any = (),
    f: Any = None,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    **options: Any,
) -> None:
    """Writes the model as an ONNX file with ``netcl.io.export_onnx``, traced with the example inputs ``args``.

    The first axis may have any length if ``dynamic_axes`` is given. Raises UnsupportedError without a file name; other
    options of PyTorch's exporters change nothing.
    """
    if f is None:
        raise UnsupportedError("torch.onnx.export: give the file name as f")
    given = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    io.export_onnx(model, given, f, opset_version or 17, bool(dynamic_axes))
    if input_names or output_names:
        _rename(f, input_names or (), output_names or ())


def _rename(file: Any, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Gives the inputs and outputs of a file other names, in their order."""
    onnx = onnx_library()
    model = onnx.load(file)
    graph = model.graph
    names = dict(zip([value.name for value in graph.input], inputs))
    names.update(zip([value.name for value in graph.output], outputs))
    for value in (*graph.input, *graph.output):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        for side in (node.input, node.output):
            side[:] = [names.get(name, name) for name in side]
    onnx.save(model, file)


def is_in_onnx_export() -> bool:
    """False: an export traces the model as it runs."""
    return False

"""export_onnx: writes a model as an ONNX file by tracing the ops that it calls for a sample."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl.autograd.levels import need
from netcl.core import Tensor
from netcl.core.errors import UnsupportedError
from netcl.io.atomic import replacing
from netcl.io.errors import CheckpointError
from netcl.io.onnx.emitters import emitter_of
from netcl.io.onnx.expressions import write_expression
from netcl.io.onnx.graph import ELEMENTS, Graph, Value, names_of
from netcl.io.onnx.library import onnx_library
from netcl.io.onnx.tracing import TracedOp, record, traced_ops
from netcl.nn.module import Module

_OPSETS = range(17, 24)
# IR versions of the first and last opsets of _OPSETS: 17 belongs to IR version 8.
_IR_VERSION = 8
_LIMIT = 2**31 - 2**20


def export_onnx(
    model: Module, sample: Any, path: str | os.PathLike[str], opset: int = 17, dynamic_batch: bool = True
) -> None:
    """Writes the computation of ``model`` for ``sample`` (a tensor or array, or a tuple of them) as ONNX to exactly
    ``path``, atomically.

    The model is traced in evaluation mode; parameters keep their names. Conditions in Python are decided at export.
    With ``dynamic_batch`` the first axis of the first input, and of every input of the same length, may have any
    length; the model is traced a second time with one more sample to find the sizes that depend on it. Raises
    UnsupportedError for an op that ONNX does not have, CheckpointError if the file cannot be written, ImportError if a
    package is missing.
    """
    onnx = onnx_library()
    if opset not in _OPSETS:
        raise ValueError(f"expected an opset from {_OPSETS[0]} to {_OPSETS[-1]}, got {opset}")
    first = _inputs(sample, model)
    second = [_longer(x, first[0].shape) if dynamic_batch else x for x in first]
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        calls, outputs = record(model, first)
        again, outputs_again = record(model, second) if dynamic_batch else (calls, outputs)
    finally:
        for module, mode in modes:
            module.training = mode
    graph = Graph(opset, names_of(model.state_dict(keep_vars=True)))
    if dynamic_batch:
        graph.batch = (first[0].shape[0], second[0].shape[0])
    for number, (a, b) in enumerate(zip(first, second)):
        graph.add_input("input" if len(first) == 1 else f"input_{number}", a, b)
    for step in traced_ops(calls, again):
        _write(graph, step)
    results = [_output(graph, number, a, b, len(outputs)) for number, (a, b) in enumerate(zip(outputs, outputs_again))]
    proto = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            type(model).__name__,
            [_described(onnx, value) for value in graph.inputs],
            [_described(onnx, value) for value in results],
            graph.initializers,
        ),
        producer_name="netcl",
        opset_imports=[onnx.helper.make_opsetid("", opset)],
        ir_version=_IR_VERSION,
    )
    size = proto.ByteSize()
    if size > _LIMIT:
        raise CheckpointError("a model of more than 2 GB does not fit one ONNX file", path, size)
    onnx.checker.check_model(proto)
    with replacing(path, size) as file:
        file.write(proto.SerializeToString())


def _inputs(sample: Any, model: Module) -> list[Tensor]:
    queue = next((tensor.queue for tensor in model.state_dict(keep_vars=True).values()), None)
    samples: Sequence[Any] = sample if isinstance(sample, (tuple, list)) else (sample,)
    return [x.detach().clone() if isinstance(x, Tensor) else Tensor.from_host(queue, np.asarray(x)) for x in samples]


def _longer(x: Tensor, first: tuple[int, ...]) -> Tensor:
    """Returns the input with its first sample appended once more."""
    if not x.shape or not first or x.shape[0] != first[0] or not first[0]:
        return x
    host = x.to_host()
    longer: Tensor = Tensor.from_host(x.queue, np.concatenate([host, host[:1]]), x.dtype)
    return longer


def _write(graph: Graph, step: TracedOp) -> None:
    """Emits the nodes of one op; none for an op on constants only, since its results are constants."""
    if step.name == "write":
        _overwrite(graph, step)
        return
    if not _operands_live(graph, step):
        if step.name == "reshape":
            graph.sources[id(step.first.results[0])] = step.both("x")
        elif step.name == "setitem":  # of constants into a constant, which the trace has done
            graph.overwrite(step.first.args[0], None)
        return
    emit = emitter_of(graph, step)
    if emit is not None:
        values = emit(graph, step)
    elif step.first.row.expression is not None:
        values = write_expression(graph, step)
    else:
        need("programs", f"the export of the op {step.name}")  # without it an op of an expression has none
        advice = "; write where() or select_scatter() in place of the assignment" if step.name == "setitem" else ""
        raise UnsupportedError(f"the op {step.name} cannot be exported to ONNX{advice}", op=step.name)
    for tensor, value in zip(step.first.results, values):
        graph.define(tensor, value)


def _overwrite(graph: Graph, step: TracedOp) -> None:
    """Gives the target of a write in place the value that is written, converted and broadcast."""
    target, _ = step.both("target")
    written = None
    if _operands_live(graph, step):
        written = graph.expand(graph.cast(graph.value(*step.both("value")), target.dtype), step.shapes)
    graph.overwrite(target, written)


def _operands_live(graph: Graph, step: TracedOp) -> bool:
    arguments = [*step.first.args, *step.first.kwargs.values()]
    flat = [operand for value in arguments for operand in (value if isinstance(value, (tuple, list)) else [value])]
    return any(isinstance(operand, Tensor) and graph.live(operand) is not None for operand in flat)


def _output(graph: Graph, number: int, first: Tensor, second: Tensor, count: int) -> Value:
    """Emits an output under its own name."""
    value = graph.value(first, second)
    return _renamed(graph, value, "output" if count == 1 else f"output_{number}")


def _renamed(graph: Graph, value: Value, name: str) -> Value:
    chosen = graph.fresh(name)
    graph.nodes.append(graph.onnx.helper.make_node("Identity", [value.name], [chosen]))
    return Value(chosen, value.shapes, value.dtype)


def _described(onnx: Any, value: Value) -> Any:
    """Returns name, dtype and shape; an axis as long as the batch has its name, any other that changes is left
    undefined.
    """
    sizes = [
        a if a == b else "batch" if axis == 0 else f"{value.name}_{axis}"
        for axis, (a, b) in enumerate(zip(*value.shapes))
    ]
    return onnx.helper.make_tensor_value_info(value.name, getattr(onnx.TensorProto, ELEMENTS[value.dtype]), sizes)

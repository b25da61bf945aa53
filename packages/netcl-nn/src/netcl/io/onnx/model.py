"""ONNXModel, an ONNX graph as a Module with its weights as parameters, and import_onnx, which reads one from a file."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.dtypes import SUPPORTED, from_bfloat16
from netcl.core.errors import UnsupportedError
from netcl.io.budget import Budget, Meter
from netcl.io.onnx.folding import charge
from netcl.io.onnx.graph import ELEMENTS
from netcl.io.onnx.layer_operators import LAYER_OPERATORS
from netcl.io.onnx.library import onnx_library
from netcl.io.onnx.node import Node, host
from netcl.io.onnx.operators import OPERATORS
from netcl.io.onnx.parse import parsed
from netcl.io.onnx.shape_operators import SHAPE_OPERATORS
from netcl.io.reading import opened
from netcl.nn.module import Module
from netcl.nn.placement import construction_meter, metered, new_buffer, new_parameter, queue_of
from netcl.nn.registry import register

Array = np.ndarray[Any, Any]

_FUNCTIONS: Mapping[str, Callable[..., Any]] = {**OPERATORS, **LAYER_OPERATORS, **SHAPE_OPERATORS}
# Always run on the host by ONNX's reference implementation: the size of their result depends on values.
_ON_HOST = frozenset(("Constant", "ConstantOfShape", "Range", "NonZero", "EyeLike"))
OPERATORS_OF_IMPORT = frozenset((*_FUNCTIONS, *_ON_HOST))
# Inputs that are sizes, axes, indices or bounds, and stay on the host if they are there.
_KEPT_INPUTS: Mapping[str, frozenset[int]] = {
    **{name: frozenset((1,)) for name in OPERATORS if name.startswith("Reduce")},
    **{name: frozenset((1,)) for name in ("Reshape", "Squeeze", "Unsqueeze", "Split", "Expand", "Tile", "TopK")},
    **{name: frozenset((1,)) for name in ("CumSum", "Trilu", "Gather", "GatherElements", "GatherND")},
    **{name: frozenset((1,)) for name in ("ScatterElements", "CastLike")},
    **{name: frozenset((1, 2)) for name in ("Clip", "OneHot", "Dropout")},
    **{name: frozenset((1, 2, 3)) for name in ("Pad", "Resize", "Upsample")},
    "Slice": frozenset((1, 2, 3, 4)),
}
_STATISTICS = {"BatchNormalization": (3, 4)}
_SECONDS_PER_INITIALIZER = 1e-5


def import_onnx(path: str | os.PathLike[str], *, device: Any = None, budget: Budget | None = None) -> ONNXModel:
    """Returns the model of an ONNX file, on ``device`` (None: the active one) and in evaluation mode; call ``train()``
    to continue training.

    Floating initializers with an axis become parameters under their names (dots create submodules), the statistics of
    batch normalization become buffers. Nothing outside of the file is read. Raises CheckpointError for a file that is
    damaged, stores data elsewhere, or computes from constants more than ``budget`` (None: ``Budget()``) allows, with
    the node; UnsupportedError with all operators and dtypes that are not supported, ImportError if the package onnx is
    missing.
    """
    onnx = onnx_library()
    with (
        opened(path, budget, "is damaged or no ONNX file", passing=(UnsupportedError,)) as (file, state),
        metered(state.meter),
    ):
        proto = parsed(onnx, file.read(), state.meter)
        for value in (*proto.graph.input, *proto.graph.output):
            # Many writers omit the shape, which the checker requires and nothing here needs.
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.shape.SetInParent()
        onnx.checker.check_model(proto)
        weights, values = _weights(onnx, proto, state.meter)
        model = ONNXModel(base64.b64encode(proto.SerializeToString()).decode(), weights, device=device)
        for (name, *_), array in zip(weights, values):
            with state.at(f"the initializer {name[:200]!r}"):
                model.tensor(name).write(array)
    return model.eval()


def _weights(onnx: Any, proto: Any, meter: Meter) -> tuple[list[list[Any]], list[Array]]:
    """Takes parameters and buffers out of the graph, as [name, dtype, shape, trainable]."""
    used: dict[str, list[tuple[str, int]]] = {}
    for node in proto.graph.node:
        for position, name in enumerate(node.input):
            used.setdefault(name, []).append((node.op_type, position))
    weights, values, rest = [], [], []
    for tensor in proto.graph.initializer:
        with meter.at(f"the initializer {tensor.name[:200]!r}"):
            meter.take(_SECONDS_PER_INITIALIZER, "reading its initializers")
            array, dtype = _array(onnx, tensor)
        places = used.get(tensor.name, [])
        kept = any(position in _KEPT_INPUTS.get(op, ()) for op, position in places)
        floating = dtype in ("float16", "bfloat16", "float32", "float64")
        if not floating or not array.shape or kept or not np.isfinite(array).all():
            rest.append(tensor)
            continue
        statistic = any(position in _STATISTICS.get(op, ()) for op, position in places)
        weights.append([tensor.name, dtype, list(array.shape), not statistic])
        values.append(array)
    names = {tensor.name for tensor in rest}
    kept_tensors = [tensor for tensor in proto.graph.initializer if tensor.name in names]
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(kept_tensors)
    return weights, values


def _array(onnx: Any, tensor: Any) -> tuple[Array, str]:
    """Returns the values of an initializer, bfloat16 as float32, and netcl's name of its dtype."""
    name = onnx.TensorProto.DataType.Name(tensor.data_type)
    dtype_of = {element: dtype for dtype, element in ELEMENTS.items()}
    array = onnx.numpy_helper.to_array(tensor)
    if name == "BFLOAT16":
        array = from_bfloat16(array.view(np.uint16))
    return array, dtype_of.get(name, name)


class ONNXModel(Module):
    """The graph of an ONNX file: ``model(*inputs)`` returns its output, or a tuple of its outputs.

    ``graph`` is the file without its weights, in base64, and ``weights`` describes them, as [name, dtype, shape, is a
    parameter]; ``import_onnx`` creates both. In training mode dropout is active, and batch normalization uses the batch
    statistics and updates its own.
    """

    def __init__(self, graph: str, weights: Sequence[Sequence[Any]], *, device: Any = None) -> None:
        super().__init__()
        onnx = onnx_library()
        self.graph = graph
        self.weights: list[list[Any]] = [list(entry) for entry in weights]
        meter: Any = construction_meter() or Meter(Budget(), len(graph))
        self._budget: Budget = meter.budget
        proto = parsed(onnx, base64.b64decode(graph, validate=True), meter)
        _check_operators(proto)
        opset = next((entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), 1)
        self._mode = [False]
        self._nodes = []
        for node in proto.graph.node:
            with meter.at(_named(node)):
                self._nodes.append((_node(onnx, node, opset, self._mode), node))
        self._places = {}
        for name, dtype, shape, trained in self.weights:
            with meter.at(f"the weight {str(name)[:200]!r}"):
                meter.check_depth(name.count("."), "its name")
                new = new_parameter(shape, device, dtype) if trained else new_buffer(shape, 0.0, device, dtype)
                self._places[name] = _assign(self, name, new, meter)
        self._constants: dict[str, Array] = {}
        for tensor in proto.graph.initializer:
            with meter.at(f"the initializer {tensor.name[:200]!r}"):
                self._constants[tensor.name] = _array(onnx, tensor)[0]
        self._evaluators: dict[int, Any] = {}
        self._opsets = list(proto.opset_import)
        self._fold(meter)
        known_names = {name for name, *_ in self.weights} | set(self._constants)
        self.input_names: list[Any] = [value.name for value in proto.graph.input if value.name not in known_names]
        self.output_names: list[Any] = [value.name for value in proto.graph.output]
        self._device_constants: dict[tuple[str, int], Tensor] = {}

    def tensor(self, name: str) -> Tensor:
        """Returns the parameter or buffer with this name in the file."""
        module, attribute = self._places[name]
        tensor: Tensor = getattr(module, attribute)
        return tensor

    def _fold(self, meter: Meter) -> None:
        """Folds constants: computes once the nodes that depend on constants only, each charged before it begins."""
        rest = []
        for node, proto in self._nodes:
            if all(not name or name in self._constants for name in node.inputs):
                with meter.at(_named(proto)):
                    self._constants.update(zip(node.outputs, self._on_host(node, proto, self._constants, meter)))
            else:
                rest.append((node, proto))
        self._nodes = rest

    def _on_host(self, node: Node, proto: Any, values: Mapping[str, Any], meter: Meter | None = None) -> list[Array]:
        """Returns the outputs of a node by ONNX's reference implementation, within the budget of the file."""
        if node.op == "Constant" and isinstance(node.get("value"), onnx_library().TensorProto):
            return [onnx_library().numpy_helper.to_array(node.get("value"))]
        arrays = [np.asarray(host(values[name])) if name else None for name in node.inputs]
        charge(node, arrays, meter or Meter(self._budget, sum(x.nbytes for x in arrays if x is not None)))
        from onnx.reference import ReferenceEvaluator

        if id(proto) not in self._evaluators:
            onnx = onnx_library()
            kind = onnx.TensorProto.UNDEFINED
            inputs = [onnx.helper.make_tensor_value_info(name, kind, None) for name in node.inputs if name]
            outputs = [onnx.helper.make_tensor_value_info(name, kind, None) for name in node.outputs if name]
            graph = onnx.helper.make_graph([proto], "node", inputs, outputs)
            self._evaluators[id(proto)] = ReferenceEvaluator(onnx.helper.make_model(graph, opset_imports=self._opsets))
        feeds = {name: np.asarray(host(values[name])) for name in node.inputs if name}
        if any(isinstance(value, Tensor) and value.dtype == "bfloat16" for value in map(values.get, feeds)):
            raise node.refuse("a size in bfloat16")
        return [np.asarray(value) for value in self._evaluators[id(proto)].run(None, feeds)]

    def forward(self, *inputs: Any) -> Any:
        if len(inputs) != len(self.input_names):
            raise TypeError(f"expected the inputs {', '.join(self.input_names)}, got {len(inputs)} inputs")
        queue = self._queue(inputs)
        values: dict[str, Any] = dict(self._constants)
        for name, *_ in self.weights:
            values[name] = self.tensor(name)
        for name, x in zip(self.input_names, inputs):
            values[name] = x if isinstance(x, Tensor) else _sent(name, np.asarray(x), queue)
        self._mode[0] = self.training
        for node, proto in self._nodes:
            operands = [values[name] if name else None for name in node.inputs]
            if node.op in _ON_HOST or not any(isinstance(value, Tensor) for value in operands):
                results: Iterable[Any] = self._on_host(node, proto, values)
            else:
                result = _FUNCTIONS[node.op](node, *self._on_device(node, operands, queue))
                results = result if isinstance(result, tuple) else (result,)
            values.update(zip(node.outputs, results))
        outputs = tuple(self._placed(name, values[name], queue) for name in self.output_names)
        return outputs[0] if len(outputs) == 1 else outputs

    def _queue(self, inputs: Sequence[Any]) -> Any:
        tensors = [x for x in (*inputs, *self.parameters(), *self.buffers()) if isinstance(x, Tensor)]
        return tensors[0].queue if tensors else queue_of(None)

    def _on_device(self, node: Node, operands: Sequence[Any], queue: Any) -> list[Any]:
        kept = _KEPT_INPUTS.get(node.op, frozenset())
        return [
            value if value is None or position in kept else self._placed(name, value, queue)
            for position, (name, value) in enumerate(zip(node.inputs, operands))
        ]

    def _placed(self, name: str, value: Any, queue: Any) -> Tensor:
        """Returns a value on the device; a constant is copied there once."""
        if isinstance(value, Tensor):
            return value
        key = (name, id(queue))
        if key in self._device_constants:
            return self._device_constants[key]
        tensor = _sent(name, value, queue)
        if name in self._constants:
            self._device_constants[key] = tensor
        return tensor

    def extra_repr(self) -> str:
        """Returns the inputs, the outputs and the number of nodes."""
        return f"{', '.join(self.input_names)} -> {', '.join(self.output_names)}, {len(self._nodes)} nodes"


register(ONNXModel, lambda model: {"graph": model.graph, "weights": model.weights})


def _sent(name: str, value: Array, queue: Any) -> Tensor:
    """Returns an array on the device, in its own dtype."""
    if value.dtype.name not in SUPPORTED:
        raise UnsupportedError(f"{name} is of {value.dtype}, which netcl lacks")
    host = value.astype(np.float32) if value.dtype.name == "bfloat16" else value
    tensor: Tensor = Tensor.from_host(queue, host, value.dtype.name)
    return tensor


def _node(onnx: Any, node: Any, opset: int, mode: list[bool]) -> Node:
    attributes = {entry.name: _attribute(onnx, entry) for entry in node.attribute}
    return Node(node.op_type, tuple(node.input), tuple(node.output), attributes, opset, node.name, mode)


def _attribute(onnx: Any, entry: Any) -> Any:
    value = onnx.helper.get_attribute_value(entry)
    if entry.name == "to":  # the target dtype of a Cast
        dtype_of = {getattr(onnx.TensorProto, element): dtype for dtype, element in ELEMENTS.items()}
        if value not in dtype_of:
            raise UnsupportedError(f"the graph casts to {onnx.TensorProto.DataType.Name(value)}, which netcl lacks")
        return dtype_of[value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value


def _check_operators(proto: Any) -> None:
    """Raises UnsupportedError with all operators and inputs that are not supported."""
    missing = {
        f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
        for node in proto.graph.node
        if node.op_type not in OPERATORS_OF_IMPORT or node.domain not in ("", "ai.onnx")
    }
    if missing:
        raise UnsupportedError(f"the graph has operators that are not imported: {', '.join(sorted(missing))}")
    odd = [value.name for value in proto.graph.input if not value.type.HasField("tensor_type")]
    if odd:
        raise UnsupportedError(f"the inputs {', '.join(odd)} are no tensors")


def _named(node: Any) -> str:
    """Returns a node of the file by its operator and name, for messages."""
    return f"the node {(node.name or next(iter(node.output), ''))[:200]!r} ({node.op_type[:200]})"


def _assign(model: Module, name: str, tensor: Tensor, meter: Meter) -> tuple[Module, str]:
    """Assigns a tensor to a dotted name, creating modules for its path; an underscore is appended to a name in use."""
    module: Module = model
    *parents, last = [part for part in name.split(".") if part] or ["weight"]
    for part in parents:
        part = _free(module, part, Module, meter)
        if part not in module._modules:
            module.add_module(part, Module())
        child = module._modules[part]
        assert child is not None
        module = child
    last = _free(module, last, type(None), meter)
    if isinstance(tensor, ag.Parameter):
        module.register_parameter(last, tensor)
    else:
        module.register_buffer(last, tensor)
    return module, last


def _free(module: Module, name: str, kind: type, meter: Meter) -> str:
    while True:
        meter.count(1, "names in use")
        there = module._modules.get(name)
        if isinstance(there, kind) and there is not None:
            return name
        taken = name in module._modules or name in module._parameters or name in module._buffers
        if not taken and not hasattr(type(module), name) and name not in module.__dict__:
            return name
        name += "_"

"""torch.utils.tensorboard._pytorch_graph: the graph of a model that tensorboardX's ``add_graph`` writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from netcl.core import Tensor
from netcl.io.onnx.tracing import record


def graph(model: Any, args: Any = None, verbose: bool = False, use_strict_trace: bool = True) -> tuple[Any, Any]:
    """Returns a GraphDef of the ops that ``model(*args)`` calls, and an empty record of its run.

    An op has the scope of the module that owns its parameters, else in that of the model. ``verbose`` prints the
    nodes; ``use_strict_trace`` changes nothing. Raises UnsupportedError if results of the model are not tensors.
    """
    from tensorboardX.proto.graph_pb2 import GraphDef
    from tensorboardX.proto.versions_pb2 import VersionDef

    inputs = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    nodes = list(_nodes(model, inputs))
    if verbose:
        print(*nodes, sep="\n")
    return GraphDef(node=nodes, versions=VersionDef(producer=22)), GraphDef()


def _nodes(model: Any, inputs: Sequence[Tensor]) -> Iterator[Any]:
    title = type(model).__name__
    calls, outputs = record(model, inputs)
    names: dict[int, str] = {}
    for number, x in enumerate(inputs):
        names[id(x)] = f"input/input_{number}"
        yield _node(names[id(x)], "Input", [], x)
    scopes: dict[int, str] = {}
    for name, x in model.state_dict(keep_vars=True).items():
        scope, _, last = f"{title}.{name}".replace(".", "/").rpartition("/")
        names[id(x)], scopes[id(x)] = f"{scope}/{last}", scope
        yield _node(names[id(x)], "Parameter", [], x)
    for number, step in enumerate(calls):
        operands = [x for x in (*step.args, *step.kwargs.values()) if isinstance(x, Tensor)]
        scope = next((scopes[id(x)] for x in operands if id(x) in scopes), title)
        name = f"{scope}/{step.row.name}_{number}"
        yield _node(name, step.row.name, [names[id(x)] for x in operands if id(x) in names], step.results[0])
        names.update((id(x), name) for x in step.results)
    for number, x in enumerate(outputs):
        yield _node(f"output/output_{number}", "Output", [names[id(x)]] if id(x) in names else [], x)


def _node(name: str, op: str, inputs: list[str], x: Tensor) -> Any:
    from tensorboardX.proto.attr_value_pb2 import AttrValue
    from tensorboardX.proto.node_def_pb2 import NodeDef
    from tensorboardX.proto.tensor_shape_pb2 import TensorShapeProto

    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=length) for length in x.shape])
    shapes = AttrValue(list=AttrValue.ListValue(shape=[shape]))
    return NodeDef(name=name, op=op, input=inputs, attr={"_output_shapes": shapes})

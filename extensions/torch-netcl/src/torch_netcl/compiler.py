"""``torch.compile(backend="netcl")``: graphs of AOTAutograd, forward and backward, as captured steps of netcl.

AOTAutograd gives a functional graph of aten overloads. Its nodes are computed by the rows of the table on netcl's
tensors, without PyTorch in between, and recorded once for each set of shapes; a call replays the record. Tensors may be
on "ocl" or on the CPU. A graph with a node that has no row is run by PyTorch, node by node, with a warning.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd

from netcl import ops
from netcl.core.errors import CaptureError, UnsupportedError
from netcl.core.tensor import Tensor
from netcl.core.tensor.views import ViewStorage, separate
from netcl.runtime.capture import capture
from torch_netcl import fallback, memory
from torch_netcl.memory import DTYPES, ENGINE, NoKernel
from torch_netcl.rows import as_type, named

MOST_SHAPES = 8  # records of one graph; further sets of shapes are computed call by call
GRAPH: dict[str, Callable[..., Any]] = {}
_QUEUE = ENGINE.queue


def node(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function of netcl's tensors for overloads that are views or factories in PyTorch."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        GRAPH.update(dict.fromkeys(names, function))
        return function

    return add


GRAPH |= {
    **dict.fromkeys(
        ("view", "_unsafe_view", "reshape", "_reshape_alias", "view_copy"),
        lambda x, size, *unused: ops.reshape(x, tuple(size)),
    ),
    "permute": lambda x, dims: ops.permute(x, [axis % x.ndim for axis in dims]) if x.ndim else x,
    "t": lambda x: ops.permute(x, (1, 0)) if x.ndim == 2 else x,
}


@node("transpose.int")
def _transpose(x, one, two):
    order = list(range(x.ndim))
    if order:
        order[one], order[two] = order[two], order[one]
    return ops.permute(x, order) if order else x


@node("expand")
def _expand(x, size, *, implicit=False):
    lead = len(size) - x.ndim
    shape = [x.shape[at - lead] if length == -1 else length for at, length in enumerate(size)]
    return ops.expand(x, shape)


GRAPH |= {"unsqueeze": lambda x, dim: ops.unsqueeze(x, dim)}


@node("squeeze", "squeeze.dim", "squeeze.dims")
def _squeeze(x, dim=None):
    if dim is None:
        return ops.reshape(x, tuple(length for length in x.shape if length != 1))
    axes = {axis % max(x.ndim, 1) for axis in ([dim] if isinstance(dim, int) else dim)}
    shape = tuple(length for axis, length in enumerate(x.shape) if axis not in axes or length != 1)
    return ops.reshape(x, shape)


GRAPH |= {
    **dict.fromkeys(("alias", "detach", "lift_fresh_copy", "lift_fresh"), lambda x: x),
    "clone": lambda x, *, memory_format=None: x,
    "contiguous": lambda x, **unused: x,
    "select.int": lambda x, dim, at: ops.getitem(x, (slice(None),) * (dim % x.ndim) + (at,)),
    "slice.Tensor": lambda x, dim=0, start=None, end=None, step=1: ops.getitem(
        x, (slice(None),) * (dim % x.ndim) + (slice(start, end, step),)
    ),
    **dict.fromkeys(("split.Tensor", "split_with_sizes"), lambda x, size, dim=0: tuple(ops.split(x, size, dim))),
    "unbind.int": lambda x, dim=0: tuple(ops.unbind(x, dim)),
    "diagonal": lambda x, offset=0, dim1=0, dim2=1: ops.diagonal(x, offset, dim1, dim2),
    "repeat": lambda x, repeats: ops.tile(x, tuple(repeats)),
    "_to_copy": lambda x, *, dtype=None, **unused: x if dtype is None else as_type(x, named(dtype)),
    "prims.convert_element_type": lambda x, dtype: as_type(x, named(dtype)),
}


@node("full")
def _full(size, value, *, dtype=None, **unused):
    if dtype is None:
        kinds = {bool: torch.bool, int: torch.int64}
        dtype = kinds.get(type(value), torch.get_default_dtype())
    made = ENGINE.empty(tuple(size), named(dtype))
    ENGINE.fill(made, value)
    return made


@node("full_like")
def _full_like(x, value, *, dtype=None, **unused):
    made = ENGINE.empty(x.shape, x.dtype if dtype is None else named(dtype))
    ENGINE.fill(made, value)
    return made


GRAPH |= {
    **dict.fromkeys(("zeros_like", "empty_like"), lambda x, **options: _full_like(x, 0, dtype=options.get("dtype"))),
    "ones_like": lambda x, **options: _full_like(x, 1, dtype=options.get("dtype")),
    **dict.fromkeys(
        ("zeros", "empty.memory_format"),
        lambda size, *, dtype=None, **unused: _full(size, 0, dtype=dtype or torch.get_default_dtype()),
    ),
    "ones": lambda size, *, dtype=None, **unused: _full(size, 1, dtype=dtype or torch.get_default_dtype()),
    "scalar_tensor": lambda value, *, dtype=None, **unused: _full((), value, dtype=dtype),
    **dict.fromkeys(
        ("arange.start_step", "arange", "arange.start"),
        lambda *bounds, dtype=None, **unused: _constant(torch.arange(*bounds, dtype=dtype)),
    ),
    **dict.fromkeys(
        ("iota", "prims.iota"),
        lambda length, *, start, step, dtype, **unused: _constant(
            torch.arange(start, start + step * length, step, dtype=dtype)
        ),
    ),
}


def _constant(values: torch.Tensor) -> Any:
    """Returns values as a tensor of netcl that a record keeps."""
    key = (values.dtype, tuple(values.shape), values.numpy().tobytes())
    if key not in _constants:
        _constants[key] = memory.to_netcl(values)
    return _constants[key]


_constants: dict[Any, Any] = {}


@node("native_dropout")
def _dropout(x, p, train):
    if train is False or not p:
        return x, _full(x.shape, True, dtype=torch.bool)
    kept = ops.ge(ops.uniform(0.0, 1.0, x.shape, "float32", _QUEUE), p)
    return ops.mul(ops.where(kept, x, 0.0), 1 / (1 - p) if p < 1 else 0.0), kept


@node("rand_like", "rand")
def _rand(like, *, dtype=None, **unused):
    shape, own = (like.shape, like.dtype) if isinstance(like, Tensor) else (tuple(like), "float32")
    return ops.uniform(0.0, 1.0, shape, own if dtype is None else named(dtype), _QUEUE)


@node("randn_like", "randn")
def _randn(like, *, dtype=None, **unused):
    shape, own = (like.shape, like.dtype) if isinstance(like, Tensor) else (tuple(like), "float32")
    return ops.normal(0.0, 1.0, shape, own if dtype is None else named(dtype), _QUEUE)


def _attention(q, k, v, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    if dropout_p or q.ndim != 4 or q.shape[:2] != k.shape[:2]:
        raise NoKernel("dropout")
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    from netcl.core import dispatch

    return tuple(dispatch.call("tiled_attention", q, k, v, attn_mask, is_causal, factor))


def _attention_backward(grad, q, k, v, out, lse, dropout_p, is_causal, *, attn_mask=None, scale=None):
    from netcl.core import dispatch

    factor = q.shape[-1] ** -0.5 if scale is None else scale
    return tuple(dispatch.call("tiled_attention_gradients", grad, q, k, v, attn_mask, out, lse, is_causal, factor))


GRAPH["_scaled_dot_product_flash_attention_for_cpu"] = _attention
GRAPH["_scaled_dot_product_flash_attention_for_cpu_backward"] = _attention_backward


@node("_scaled_dot_product_fused_attention_overrideable")
def _overrideable(q, k, v, mask=None, dropout_p=0.0, is_causal=False, debug=False, *, scale=None):
    out, lse = _attention(q, k, v, dropout_p, is_causal, attn_mask=mask, scale=scale)
    none = ENGINE.empty((0,), "int64")
    return out, lse, none, none, q.shape[-2], k.shape[-2], none, none, ENGINE.empty((0,), q.dtype)


@node("_scaled_dot_product_fused_attention_overrideable_backward")
def _overrideable_backward(grad, q, k, v, mask, wanted, out, lse, *rest, scale=None):
    is_causal = rest[5]
    return (*_attention_backward(grad, q, k, v, out, lse, 0.0, is_causal, attn_mask=mask, scale=scale), None)


@node("native_batch_norm", "_native_batch_norm_legit.no_stats")
def _no_statistics(x, *rest):
    raise NoKernel("a batch norm that writes statistics")


del GRAPH["native_batch_norm"]


@node("_native_batch_norm_legit.no_stats")
def _no_stats(x, weight, bias, training, momentum, eps):
    from torch_netcl import rows

    return rows.batch_norm(x, weight, bias, None, None, training, momentum, eps)[:3]


@node("_native_batch_norm_legit_functional")
def _functional_norm(x, weight, bias, mean, var, training, momentum, eps):
    from torch_netcl import rows

    return rows.batch_norm(x, weight, bias, mean, var, training, momentum, eps)


@node("_native_batch_norm_legit_no_training")
def _inference_norm(x, weight, bias, mean, var, momentum, eps):
    from torch_netcl import rows

    return rows.batch_norm(x, weight, bias, mean, var, False, momentum, eps)[:3]


GRAPH |= {
    "select_scatter": lambda x, source, dim, at: _written(x, source, (slice(None),) * (dim % x.ndim) + (at,)),
    "slice_scatter": lambda x, source, dim=0, start=None, end=None, step=1: _written(
        x, source, (slice(None),) * (dim % x.ndim) + (slice(start, end, step),)
    ),
}


def _written(x: Any, source: Any, key: Any) -> Any:
    made = ops.clone(x)
    ops.setitem(made, key, source)
    return made


@node("copy")
def _copy(x, source, non_blocking=False):
    made = as_type(source, x.dtype)
    return made if made.shape == x.shape else ops.expand(made, x.shape)


def _name(op: Any) -> str:
    schema = op._schema
    base = schema.name.removeprefix("aten::").replace("::", ".")
    return f"{base}.{schema.overload_name}" if schema.overload_name else str(base)


def function_of(op: Any) -> Callable[..., Any]:
    """Returns what computes a node on netcl's tensors; raises UnsupportedError for one without a row."""
    if not isinstance(op, torch._ops.OpOverload):
        if op in (operator.getitem, operator.add, operator.mul, operator.sub, operator.floordiv, operator.neg):
            return op  # type: ignore[no-any-return]
        raise UnsupportedError(f"{op} has no row")
    from torch_netcl import kernels

    name = _name(op)
    function = GRAPH.get(name) or kernels.TABLE.get(name)
    if function is None and name.endswith(".Scalar"):
        function = kernels.TABLE.get(name.removesuffix("Scalar") + "Tensor")
    if name in ("sym_size.int", "sym_numel"):
        return (lambda x, dim: x.shape[dim]) if name == "sym_size.int" else (lambda x: x.size)
    if function is None:
        raise UnsupportedError(f"{op} has no row")
    return function


class _Program:
    """A graph as a function of netcl's tensors."""

    def __init__(self, graph: torch.fx.Graph, module: torch.fx.GraphModule) -> None:
        self.nodes = list(graph.nodes)
        self.functions = {n: function_of(n.target) for n in self.nodes if n.op == "call_function"}
        last: dict[Any, Any] = {}
        for n in self.nodes:
            for used in n.all_input_nodes:
                last[used] = n
        self.dropped: dict[Any, list[Any]] = {}
        for used, n in last.items():
            self.dropped.setdefault(n, []).append(used)
        self.constants: dict[str, Any] = {}
        for n in self.nodes:
            if n.op == "get_attr":
                value = getattr(module, n.target)
                self.constants[n.target] = _lowered(value)

    def __call__(self, *inputs: Any) -> Any:
        env: dict[Any, Any] = {}
        rest = iter(inputs)

        def value(x: Any) -> Any:
            return env[x] if isinstance(x, torch.fx.Node) else x

        for n in self.nodes:
            if n.op == "placeholder":
                env[n] = next(rest)
            elif n.op == "get_attr":
                env[n] = self.constants[n.target]
            elif n.op == "output":
                return [_result(item) for item in torch.fx.node.map_arg(n.args[0], value)]
            else:
                args = torch.fx.node.map_aggregate(n.args, value)
                kwargs = torch.fx.node.map_aggregate(n.kwargs, value)
                env[n] = self.functions[n](*args, **kwargs)
            for used in self.dropped.get(n, ()):
                if used is not n:
                    env.pop(used, None)
        raise RuntimeError("a graph without an output")


def _result(value: Any) -> Any:
    if isinstance(value, Tensor) and type(value._storage) is ViewStorage:
        return separate(value)
    return value


def _lowered(value: Any) -> Any:
    """Returns a tensor of PyTorch as netcl's, a 0-d one of the CPU too."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype not in DTYPES:
        raise UnsupportedError(f"{value.dtype} on {ENGINE.device_label}")
    return memory.take(value) if value.device.type == "ocl" else memory.to_netcl(value)


class CompiledGraph:
    """A graph of AOTAutograd: called with PyTorch's tensors, it replays the record for their shapes."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        self.program = _Program(module.graph, module)
        self.steps: dict[Any, Any] = {}

    def __call__(self, inputs: list[Any]) -> list[Any]:
        values = [_lowered(value) for value in inputs]
        on_device = any(isinstance(x, torch.Tensor) and x.device.type == "ocl" for x in inputs) or not any(
            isinstance(x, torch.Tensor) for x in inputs
        )
        inputs.clear()
        key = tuple((x.shape, x.dtype) if isinstance(x, Tensor) else x for x in values)
        results = self._replayed(key, values)
        return [self._raised(result, values, on_device) for result in results]

    def _replayed(self, key: Any, values: list[Any]) -> Any:
        step = self.steps.get(key)
        if step is None and key not in self.steps and len(self.steps) < MOST_SHAPES:
            try:
                step = capture(self.program, *values)
            except CaptureError:
                step = None  # without a tensor, or with a value that is read on the host
            self.steps[key] = step
        return self.program(*values) if step is None else step.replay(*values)

    def _raised(self, result: Any, values: list[Any], on_device: bool) -> Any:
        if not isinstance(result, Tensor):
            return result
        if not on_device:
            return memory.from_netcl(result)
        if any(isinstance(x, Tensor) and x._storage is result._storage for x in (*values, *_constants.values())):
            result = ops.clone(result)
        return memory.give(result)


def compile_graph(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Returns the function that computes a graph of AOTAutograd."""
    try:
        return _taking_list(CompiledGraph(module))
    except UnsupportedError as error:
        warnings.warn(f'torch.compile(backend="netcl"): {error}; the graph runs op by op', fallback.FallbackWarning, 2)
        return _boxed(module)


def _taking_list(function: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    """Returns a function that AOTAutograd calls with a list, which it empties, so that inputs can be freed."""

    def run(inputs: list[Any]) -> Any:
        return function(inputs)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _boxed(module: torch.fx.GraphModule) -> Callable[..., Any]:
    def run(inputs: list[Any]) -> Any:
        taken = list(inputs)
        inputs.clear()
        return module(*taken)

    return _taking_list(run)


def _decompositions() -> dict[Any, Any]:
    """Returns PyTorch's core decompositions of what has no row."""
    from torch_netcl import kernels

    table = {}
    for op, function in core_aten_decompositions().items():
        name = _name(op)
        if name not in kernels.TABLE and name not in GRAPH:
            table[op] = function
    return table


_backend: Any = None


def netcl(module: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """Compiles a graph of Dynamo: the backend "netcl"."""
    global _backend
    from torch_netcl import device

    device.loaded()
    if _backend is None:
        _backend = aot_autograd(fw_compiler=compile_graph, bw_compiler=compile_graph, decompositions=_decompositions())
    return _backend(module, example_inputs)  # type: ignore[no-any-return]

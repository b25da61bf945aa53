"""``torch.compile(backend="netcl")``: graphs of AOTAutograd, forward and backward, as captured steps of netcl.

AOTAutograd gives a functional graph of aten overloads. Its nodes are computed by the rows of the table on netcl's
tensors, without PyTorch in between, and recorded once for each set of shapes; a call replays the record. Tensors may be
on "ocl" or on the CPU. PyTorch runs a graph with a node that has no row, node by node, with a warning.
"""

from __future__ import annotations

import contextlib
import operator
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import torch
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition

from netcl import ops
from netcl.core.errors import CaptureError, UnsupportedError
from netcl.core.ops_table import dispatch
from netcl.core.storage.views import ViewStorage, separate
from netcl.core.tensor import Tensor
from netcl.runtime.capture import capture
from torch_netcl import fallback, kernels, memory, overload, products, sharing, words
from torch_netcl.memory import DTYPES, ENGINE
from torch_netcl.products import Turned, plain
from torch_netcl.rows import as_type, named

for _module in (
    "torch_netcl",
    "netcl.core",
    "netcl.ops",
):  # kernels are Python that Dynamo would read if a graph ends before their call
    torch._dynamo.trace_rules.add(_module)
MOST_SHAPES = 8  # records of one graph; further sets of shapes are computed call by call
_ALL = slice(None)


def _shown(op: Any) -> Callable[..., Any]:
    """Returns the row of a view: what PyTorch's strides of it show, Turned if the last two axes are swapped."""

    def show(x: Any, *args: Any, **kwargs: Any) -> Any:
        base, shadow = (x.base, _shadow(x.base).mT) if type(x) is Turned else (x, _shadow(x))
        shown = op(shadow, *args, **kwargs)
        if isinstance(shown, torch.Tensor):
            return _by_strides(base, shown)
        return tuple([_by_strides(base, part) for part in shown])

    return show


def _shadow(x: Any) -> torch.Tensor:
    return torch.empty(x.shape, device="meta")


def _by_strides(x: Any, shown: torch.Tensor) -> Any:
    shape = tuple(shown.shape)
    if shown.numel() == x.size:
        if shown.is_contiguous():
            return ops.reshape(x, shape)
        if len(shape) > 1 and shown.mT.is_contiguous():
            return Turned(ops.reshape(x, tuple(shown.mT.shape)))
    return dispatch.call("as_strided", x, shape, shown.stride(), shown.storage_offset())


def _written(x: Any, source: Any, dim: int, key: Any) -> Any:
    made = ops.clone(x)
    ops.setitem(made, (_ALL,) * (dim % x.ndim) + (key,), source)
    return made


def _full(size: Any, value: Any, *, dtype: Any = None, **unused: Any) -> Any:
    kinds = {bool: torch.bool, int: torch.int64}
    made = ENGINE.empty(tuple(size), named(dtype or kinds.get(type(value), torch.get_default_dtype())))
    ENGINE.fill(made, value)
    return made


def _drawn(draw: Callable[..., Any]) -> Callable[..., Any]:
    def drawn(like: Any, *, dtype: Any = None, **unused: Any) -> Any:
        shape, own = (like.shape, like.dtype) if isinstance(like, Tensor) else (tuple(like), "float32")
        return draw(0.0, 1.0, shape, named(dtype) or own, ENGINE.queue)

    return drawn


@lru_cache(maxsize=256)
def _range(*bounds: Any, dtype: Any = None) -> Any:
    """Returns a range as a tensor that records keep."""
    return memory.to_netcl(torch.arange(*bounds, dtype=dtype))


def _copied(x: Any, source: Any, non_blocking: bool = False) -> Any:
    made = as_type(source, x.dtype)
    return made if made.shape == x.shape else ops.expand(made, x.shape)


def _same(x: Any, **unused: Any) -> Any:
    return x


VIEWS = words(
    "permute t transpose.int expand unsqueeze squeeze squeeze.dim squeeze.dims select.int slice.Tensor split.Tensor "
    "split_with_sizes unbind.int diagonal unfold"
)
# Overloads that are views, copies, factories or random in PyTorch, on netcl's tensors: nothing is written in a graph.
GRAPH: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(words("alias detach lift_fresh_copy lift_fresh"), _same),
    **dict.fromkeys(words("clone contiguous"), lambda x, **unused: _result(x)),
    **{name: _shown(overload(name)) for name in VIEWS},
    **dict.fromkeys(
        words("view _unsafe_view reshape view_copy"), lambda x, size, *more: ops.reshape(plain(x), tuple(size))
    ),
    "select_scatter": _written,
    "slice_scatter": lambda x, source, dim=0, start=None, end=None, step=1: _written(
        x, source, dim, slice(start, end, step)
    ),
    "repeat": lambda x, repeats: ops.tile(x, tuple(repeats)),
    "_to_copy": lambda x, *, dtype=None, **unused: x if dtype is None else as_type(x, named(dtype)),
    "prims.convert_element_type": lambda x, dtype: as_type(x, named(dtype)),
    "copy": _copied,
    "full": _full,
    "full_like": lambda x, value, *, dtype=None, **more: _full(x.shape, value, dtype=dtype or memory.TORCH[x.dtype]),
    "scalar_tensor": lambda value, **options: _full((), value, **options),
    "empty.memory_format": lambda size, *, dtype=None, **more: _full(size, 0.0, dtype=dtype),
    "arange.start_step": lambda *bounds, dtype=None, **more: _range(*bounds, dtype=dtype),
    "prims.iota": lambda length, *, start, step, dtype, **more: _range(start, start + step * length, step, dtype=dtype),
    **dict.fromkeys(("rand", "rand_like"), _drawn(ops.uniform)),
    **dict.fromkeys(("randn", "randn_like"), _drawn(ops.normal)),
    "sym_size.int": lambda x, dim: x.shape[dim],
    "sym_numel": lambda x: prod(x.shape),
}
# Functions that take an operand of a product as Turned.
_TURNING = {*(GRAPH[name] for name in VIEWS), *products.TABLE.values()}
_NUMBERS = (operator.getitem, operator.add, operator.mul, operator.sub, operator.floordiv, operator.neg)


def _name(op: Any) -> str:
    if not isinstance(op, torch._ops.OpOverload):
        return ""
    schema = op._schema
    base = schema.name.removeprefix("aten::").replace("::", ".")
    return f"{base}.{schema.overload_name}" if schema.overload_name else str(base)


def function_of(op: Any) -> Callable[..., Any]:
    """Returns what computes a node on netcl's tensors; raises UnsupportedError for one without a row."""
    if op in _NUMBERS or op is _stacked:
        return op  # type: ignore[no-any-return]
    name = _name(op)
    same = name.removesuffix("Scalar") + "Tensor" if name.endswith(".Scalar") else name
    function = GRAPH.get(name) or kernels.TABLE.get(name) or kernels.TABLE.get(same)
    if function is None:
        raise UnsupportedError(f"{op} has no row")
    return function


class _Program:
    """A graph as a function of netcl's tensors: its results are what no input shows, each value once.

    ``outputs`` says how the results of the graph are made of these: (True for an input, its number, a shape or None).
    """

    def __init__(self, module: torch.fx.GraphModule, shares: bool) -> None:
        _join_parts(module.graph)
        nodes = list(module.graph.nodes)
        *self.nodes, last = nodes
        inputs = [n for n in nodes if n.op == "placeholder"]
        self.functions = {n: function_of(n.target) for n in nodes if n.op == "call_function"}
        self.constants = {n: _lowered(getattr(module, n.target)) for n in nodes if n.op == "get_attr"}
        self.roots: list[Any] = []
        self.outputs: list[tuple[bool, int, Any]] = []
        for item in last.args[0]:
            root, shape = _root(item) if shares and isinstance(item, torch.fx.Node) else (item, None)
            places = inputs if root in inputs else self.roots
            if root not in places:
                places.append(root)
            self.outputs.append((places is inputs, places.index(root), shape))
        used = {used: n for n in self.nodes for used in n.all_input_nodes}
        self.dropped: dict[Any, list[Any]] = {}  # what no node needs after a node
        for value, n in used.items():
            if value not in self.roots:
                self.dropped.setdefault(n, []).append(value)

    def __call__(self, *inputs: Any) -> Any:
        env: dict[Any, Any] = dict(self.constants)
        rest = iter(inputs)

        def value(x: Any) -> Any:
            return env[x] if isinstance(x, torch.fx.Node) else x

        def whole(x: Any) -> Any:
            return plain(value(x))

        for n in self.nodes:
            if n.op == "placeholder":
                env[n] = next(rest)
            elif n.op == "call_function":
                function = self.functions[n]
                args, kwargs = torch.fx.node.map_aggregate((n.args, n.kwargs), value if function in _TURNING else whole)  # type: ignore[misc]
                made = function(*args, **kwargs)
                env[n] = _result(made) if n in self.roots else made  # for what reads it here, too
            for used in self.dropped.get(n, ()):
                env.pop(used, None)
        return [_result(whole(root)) for root in self.roots]

    def results(self, inputs: list[Any], values: list[Any]) -> list[Any]:
        """Returns the results of the graph, of PyTorch's inputs and PyTorch's tensors of what the call returned."""
        made = [(inputs if is_input else values)[at] for is_input, at, _ in self.outputs]
        return [x if shape is None else x.reshape(shape) for x, (_, _, shape) in zip(made, self.outputs)]


def _join_parts(graph: torch.fx.Graph) -> None:
    """Makes a sum of zeros with one part each, as the gradients of the parts of a whole, one stack in the order of axes
    that is read.
    """
    for node in graph.nodes:
        parts = _parts(node)
        dims = {dim for dim, _ in parts}
        if len(parts) > 1 and len(dims) == 1:
            (dim,) = dims
            sources = [parts[dim, at] for at in range(len(parts)) if (dim, at) in parts]
            if len(sources) == len(parts) == node.meta["val"].shape[dim]:
                user: Any = next(iter(node.users)) if len(node.users) == 1 else None
                order = list(user.args[1]) if user is not None and _name(user.target) == "permute" else None
                with graph.inserting_before(node):
                    stack = graph.call_function(_stacked, (sources, dim, order))
                (node if order is None else user).replace_all_uses_with(stack)
    graph.eliminate_dead_code()


def _parts(node: Any) -> dict[tuple[int, int], Any]:
    """Returns the parts of a sum by their axis and place; nothing if it is no such sum."""
    if node.target is torch.ops.aten.select_scatter.default:
        zeros, source, dim, at = node.args
        is_zero = zeros.target is torch.ops.aten.full.default and zeros.args[1] == 0
        return {(dim, at): source} if is_zero and type(at) is int else {}
    if node.target is not torch.ops.aten.add.Tensor or node.kwargs or not all(hasattr(x, "users") for x in node.args):
        return {}
    one, other = (_parts(x) if len(x.users) == 1 else {} for x in node.args)
    return {**one, **other} if one and other and not one.keys() & other.keys() else {}


def _stacked(sources: Any, dim: int, order: list[int] | None) -> Any:
    """Returns the stack of tensors, with its axes in an order."""
    if order is None:
        return ops.stack(sources, dim)
    within = [axis - (axis > dim) for axis in order if axis != dim]
    return ops.stack([ops.permute(source, within) for source in sources], order.index(dim))


def _root(node: Any) -> tuple[Any, Any]:
    """Returns the node whose value ``node`` shows in another shape, and that shape; None for its own."""
    root = node
    while root.op == "call_function" and _name(root.target) in _SHOWN:
        root = root.args[0]
    shapes = [tuple(n.meta["val"].shape) for n in (node, root)] if root is not node else [(), ()]
    if not all(type(length) is int for shape in shapes for length in shape):
        return node, None
    return root, None if shapes[0] == shapes[1] else shapes[0]


_SHOWN = {"detach", "alias", "view", "_unsafe_view"}


def _result(value: Any) -> Any:
    return separate(value) if isinstance(value, Tensor) and type(value._storage) is ViewStorage else value


def _lowered(value: Any) -> Any:
    """Returns a tensor of PyTorch as netcl's, and another value as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype not in DTYPES:
        raise UnsupportedError(f"{value.dtype} on {ENGINE.device_label}")
    return memory.take(value) if value.device.type == "ocl" else sharing.taken(value)


class CompiledGraph:
    """A graph of AOTAutograd: called with a list of PyTorch's tensors, it replays the record for their shapes.

    ``shares``: results may show the memory of each other and of inputs, as what is kept for the backward pass may.
    """

    def __init__(self, module: torch.fx.GraphModule, shares: bool = False) -> None:
        self.module = module
        self.program: _Program | None = _Program(module, shares)
        self.steps: dict[Any, Any] = {}

    def __call__(self, inputs: list[Any]) -> Any:
        taken = list(inputs)
        inputs.clear()  # AOTAutograd hands them over
        program = self.program
        if program is None:
            return self.module(*taken)
        try:
            values = [_lowered(value) for value in taken]
            results = self._computed(program, values)
        except Exception as error:
            if not kernels.refused(error):
                raise
            self.program = None
            _warn(error)
            return self.module(*taken)
        devices = {x.device.type for x in taken if isinstance(x, torch.Tensor)}
        made = sharing.given(results) if devices == {"cpu"} else _given(results, values)
        return program.results(taken, made)

    def _computed(self, program: _Program, values: list[Any]) -> Any:
        key = tuple((x.shape, x.dtype) if isinstance(x, Tensor) else x for x in values)
        if key not in self.steps and len(self.steps) < MOST_SHAPES:
            self.steps[key] = _recorded(program, values)
        step = self.steps.get(key)
        return program(*values) if step is None else step.replay(*values)


def _recorded(program: _Program, values: list[Any]) -> Any:
    """Returns the captured step; None for a graph without a tensor, or with a value that is read on the host."""
    for is_last in (False, True):
        with contextlib.suppress(CaptureError):
            return capture(program, *values)
        if not is_last:
            program(*values)  # makes the ranges, which a capture must not write to the device
    return None


def _given(results: Any, values: list[Any]) -> list[Any]:
    """Returns results as PyTorch's tensors, each with memory of its own."""
    used = {id(x._storage) for x in values if isinstance(x, Tensor)}
    given = []
    for result in results:
        if isinstance(result, Tensor):
            own = ops.clone(result) if id(result._storage) in used else result
            used.add(id(own._storage))
            result = memory.give(own)
        given.append(result)
    return given


def _warn(error: Exception) -> None:
    message = f'torch.compile(backend="netcl"): {error}; the graph runs op by op'
    warnings.warn(message, fallback.FallbackWarning, 3)


def compile_graph(module: torch.fx.GraphModule, shares: bool = False) -> Callable[..., Any]:
    """Returns the function that computes a graph of AOTAutograd."""
    graph: Callable[[list[Any]], Any]
    try:
        graph = CompiledGraph(module, shares)
    except UnsupportedError as error:
        _warn(error)
        graph = lambda inputs: module(*inputs)  # noqa: E731

    def run(inputs: list[Any]) -> Any:
        return graph(inputs)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _forward(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    return compile_graph(module, shares=True)


def _other(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    return compile_graph(module)


@lru_cache(maxsize=1)
def _backend() -> Any:
    """Returns AOTAutograd with PyTorch's core decompositions of what has no row."""
    table = {
        op: function
        for op, function in core_aten_decompositions().items()
        if _name(op) not in kernels.TABLE and _name(op) not in GRAPH
    }
    compilers = {"fw_compiler": _forward, "bw_compiler": _other, "inference_compiler": _other}
    return aot_autograd(**compilers, decompositions=table, partition_fn=_partition)


def _partition(*args: Any, num_fwd_outputs: int, **kwargs: Any) -> Any:
    """Cuts a graph in two as inductor does, but a saved tensor with swapped axes is swapped in the backward part: a
    product reads it in place, where a saved one is a copy.
    """
    parts: Any = min_cut_rematerialization_partition(*args, num_fwd_outputs=num_fwd_outputs, **kwargs)
    (last,), places = parts[0].graph.find_nodes(op="output"), parts[1].graph.find_nodes(op="placeholder")
    by_name: dict[str, Any] = {place.name: place for place in places}
    results: list[Any] = list(last.args[0])
    for at, node in enumerate(results[num_fwd_outputs:], num_fwd_outputs):
        if hasattr(node, "users") and node.name in by_name and _is_swap(node):
            place, results[at] = by_name[node.name], node.args[0]
            with parts[1].graph.inserting_after(places[-1]):
                swapped = parts[1].graph.call_function(node.target, (place, *node.args[1:]))
            place.replace_all_uses_with(swapped, lambda user, own=swapped: user is not own)
            swapped.meta, place.meta = place.meta, {**place.meta, "val": node.args[0].meta["val"]}
    last.args = (tuple(results),)
    for part in parts:
        part.recompile()
    return parts


def _is_swap(node: Any) -> bool:
    """Returns True for a node that swaps the last two axes."""
    if _name(node.target) not in ("t", "transpose.int", "permute"):
        return False
    shadow = torch.empty([2] * node.args[0].meta["val"].dim(), device="meta")
    return shadow.dim() > 1 and bool(node.target(shadow, *node.args[1:]).stride() == shadow.mT.stride())


def netcl(module: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """Compiles a graph of Dynamo: the backend "netcl"."""
    from torch_netcl import device

    device.loaded()
    return _backend()(module, example_inputs)  # type: ignore[no-any-return]

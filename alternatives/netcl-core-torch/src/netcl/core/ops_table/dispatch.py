"""The op table of netcl-core-kit, and the kernels of rows, which are functions of PyTorch."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import torch
from netcl_core_kit.dispatch import *  # noqa: F403
from netcl_core_kit.dispatch import OpRow, use

from netcl.core.dtypes import NAMES, TORCH
from netcl.core.engine.registry import engine_for, ensure_same_backend
from netcl.core.errors import (
    DTypeError,
    NetclError,
    OutOfMemoryError,
    ShapeError,
    SingularMatrixError,
    UnsupportedError,
)
from netcl.core.expr import Space as Space
from netcl.core.expr import evaluate as evaluate
from netcl.core.expr import evaluate_each as evaluate_each
from netcl.core.expr import reduce_each as reduce_each
from netcl.core.storage.gradients import take_kept
from netcl.core.tensor import Tensor, in_place
from netcl.core.tensor.generator import drawing_from


def _put(row: OpRow, out: Any, result: Any) -> Any:
    """``out`` with the result, of which it has the shape, the dtype and the device."""
    if out.shape != result.shape:
        raise ShapeError(f"{row.name}: out has shape {out.shape}, the result {result.shape}")
    if out.dtype != result.dtype:
        raise DTypeError(f"{row.name}: out has dtype {out.dtype}, the result {result.dtype}")
    ensure_same_backend((out, result), row.name)
    return in_place.write(out, result)


def assign(target: Any, source: Any) -> None:
    """Writes ``source`` (same shape and engine) into ``target``, converted to its dtype."""
    in_place.check_copy(target, source)
    target._t.copy_(source._t)


use(Tensor, _put, engine_for, drawing_from, lambda: import_module("netcl.ops").__all__)

# ------------------------------------------------------------------------------------------------- kernels of PyTorch


_OF_DTYPES = re.compile(
    "not implemented for|dtype|scalar type|bool tensor|data type|complex|boolean|integral|floating point"
)


def translated(error: Exception, name: str, given: Any) -> Exception:
    """The error of netcl for an error of PyTorch in a call on the arguments ``given``."""
    text = str(error).strip().split("\n")[0]
    flat = [one for value in given for one in (value if isinstance(value, (list, tuple)) else (value,))]
    tensors = [one for one in flat if isinstance(one, (torch.Tensor, Tensor))]
    shapes = ", ".join(str(tuple(one.shape)) for one in tensors)
    low = text.lower()
    if isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in low:
        return OutOfMemoryError(f"{name}: no memory for the result of {shapes}: {text}")
    if "singular" in low or "not positive-definite" in low or "not be computed" in low:
        return SingularMatrixError(f"{name}: {text}")
    if isinstance(error, IndexError) and "dimension" not in low.split("(")[0] or "out of bounds" in low:
        return IndexError(f"{name}: {text}")
    if _OF_DTYPES.search(low):
        kinds = ", ".join(one.dtype if isinstance(one, Tensor) else NAMES[one.dtype] for one in tensors)
        return DTypeError(f"{name}: not defined for {kinds}: {text}")
    if isinstance(error, NotImplementedError):
        return UnsupportedError(f"{name}: {text}")
    return ShapeError(f"{name}: shapes {shapes} do not fit: {text}")


VIEWS = frozenset(("reshape", "permute", "expand", "strided_slice", "diagonal"))


class Graph:
    """A call that PyTorch has recorded: the leaves by the name of the argument (and the place in a list), with the places
    in netcl's graph of the tensors that were given there, and the nodes of the results.

    ``saves``: False if no gradient reads an operand or a result.
    """

    __slots__ = ("call", "engine", "leaves", "nodes", "saves", "sources")
    version = 0  # PyTorch itself notices writes into what it has saved

    def __init__(self, engine: Any, reads: str) -> None:
        self.engine, self.saves = engine, reads != "nothing"
        self.leaves: dict[tuple[str, int | None], torch.Tensor] = {}
        self.sources: list[tuple[Any, Any]] = []
        self.nodes: list[Any] = []
        self.call: Any = None

    def leaf(self, place: tuple[str, int | None], tensor: Tensor) -> torch.Tensor:
        """A leaf for an argument that requires grad."""
        made = self.leaves[place] = tensor._t.detach().requires_grad_()
        self.sources.append((tensor, tensor.grad_fn))
        return made

    def close(self, results: Any, reads: str) -> None:
        """Notes the nodes of the results, of which only what their gradients read (all, result, nothing) stays in memory."""
        self.nodes = [
            (torch.autograd.graph.get_gradient_edge(one), one.dtype)
            if isinstance(one, torch.Tensor) and one.requires_grad
            else None
            for one in results
        ]
        if reads != "all":
            self.sources = [(None if made else tensor, made) for tensor, made in self.sources]
            for leaf in self.leaves.values():  # of which no node has saved the values
                leaf.data = leaf.new_empty(()).expand(leaf.shape)

    def source(self, position: int) -> Tensor:
        """The argument of a leaf as a tensor of netcl's graph."""
        tensor, made = self.sources[position]
        if made is None:
            return tensor  # type: ignore[no-any-return]
        found = Tensor._of(list(self.leaves.values())[position].detach(), self.engine)
        found._requires_grad, found.grad_fn = True, made
        return found

    def separate(self, tensor: Tensor) -> None:
        """Keeps the values of ``tensor``, which is overwritten next, if an operand has its memory: computes the call again
        on a copy of the first such operand.
        """
        if self.call is None:  # no gradient reads an operand
            return
        compute, given, named = self.call
        storage = tensor._t.untyped_storage()._cdata
        for position, one in enumerate(given):
            if isinstance(one, torch.Tensor) and one.untyped_storage()._cdata == storage:
                copy = one.detach().clone().requires_grad_(one.requires_grad)
                self.leaves = {place: copy if leaf is one else leaf for place, leaf in self.leaves.items()}
                given[position] = copy
                with torch.enable_grad():
                    result = compute(*given, **named)
                self.close(result if isinstance(result, (tuple, list)) else (result,), "all")
                return

    def gradients(self, leaves: list[torch.Tensor], grads: Any, again: bool = False) -> Any:
        """The gradient of each leaf, None for one without influence; ``grads`` are those of the results, or None."""
        pairs = [(*node, given) for node, given in zip(self.nodes, grads) if node is not None and given is not None]
        upstream = [given if given.dtype == dtype else given.to(dtype) for _, dtype, given in pairs]
        outputs = [edge for edge, _, _ in pairs]
        if not outputs:
            return [None] * len(leaves)
        if not again and len(outputs) == 1 and (found := _of_one_node(outputs[0].node, upstream[0])) is not None:
            return [found.get(leaf) for leaf in leaves]
        results = torch.autograd.grad(
            outputs, leaves, upstream, retain_graph=True, create_graph=again, allow_unused=True, materialize_grads=again
        )
        return [
            torch.zeros_like(leaf) if one is not None and one._is_zerotensor() else one
            for leaf, one in zip(leaves, results)
        ]


def _of_one_node(node: Any, grad: torch.Tensor) -> dict[torch.Tensor, torch.Tensor] | None:
    """The gradients of leaves of which one ``node`` of PyTorch has computed the result, None if there were more: without
    PyTorch's engine, a call of which takes longer than most gradients.
    """
    edges = [function for function, _ in node.next_functions]
    leaves = [getattr(function, "variable", None) for function in edges]
    if not edges or any(leaf is None and function is not None for leaf, function in zip(leaves, edges)):
        return None
    try:
        with torch.no_grad():
            found = node(grad)
    except TypeError:  # the node has results that are not those of the row, of which it takes gradients too
        return None
    gradients: dict[torch.Tensor, torch.Tensor] = {}
    for leaf, one in zip(leaves, found if isinstance(found, tuple) else (found,)):
        if leaf is not None and one is not None:
            one = one.sum_to_size(leaf.shape).to(leaf.dtype)
            gradients[leaf] = gradients[leaf] + one if leaf in gradients else one
    return gradients


class Kernel:
    """The call of a row: a function of PyTorch's tensors, with the gradient that PyTorch records of it.

    ``elementwise``: operands are arrays and numbers too, of which at least one is a tensor.
    """

    def __init__(self, name: str, compute: Callable[..., Any], elementwise: bool = False) -> None:
        self.name, self.compute, self.elementwise = name, compute, elementwise
        self.differentiable = False
        self.reads = "all"  # or result, or nothing: what the gradient reads

    def of(self, row: OpRow) -> Kernel:
        """This kernel as the call of ``row``."""
        self.row = row
        self.names = tuple(row.signature.parameters)
        kinds = [one.kind for one in row.signature.parameters.values()]
        several = inspect.Parameter.VAR_POSITIONAL
        self.several = kinds.index(several) if several in kinds else len(kinds)  # the position of ``*operands``
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(args, kwargs, False)

    def kept(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call for one that is recorded."""
        return self.run(args, kwargs, self.differentiable)

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any], keeps: bool) -> Any:
        """Computes the row; with ``keeps`` the result has PyTorch's graph of it, which `gradients.take_kept` takes."""
        if kwargs and self.elementwise:  # operands that are given by keyword in their places
            bound = self.row.signature.bind(*args, **kwargs)
            args, kwargs = bound.args, bound.kwargs
        engine = self._engine((*args, *kwargs.values()) if kwargs else args)
        graph = Graph(engine, self.reads) if keeps else None
        given = [self._raw(one, engine, graph, place) for place, one in enumerate(args)]
        named = {key: self._raw(one, engine, graph, key) for key, one in kwargs.items()}
        checks = engine.checks()
        try:
            with torch.set_grad_enabled(keeps):
                result = self.compute(*given, **named)
        except Exception as error:
            engine.forget(checks)  # those of a call that has no result would raise at a later read
            if isinstance(error, NetclError):
                error.op = self.name if error.op is None else error.op
                raise
            if isinstance(error, (RuntimeError, IndexError)):
                raise translated(error, self.name, given) from None
            raise
        if graph is not None:
            graph.call = (self.compute, given, named) if self.reads == "all" else None
        return wrapped(result, engine, graph, self.reads)

    def _engine(self, values: Any) -> Any:
        engine: Any = None
        for value in values:
            for one in value if type(value) in (list, tuple) else (value,):
                if isinstance(one, Tensor):
                    if engine is None:
                        engine, first = one.engine, one
                    elif one.engine is not engine:
                        ensure_same_backend((first, one), self.name)
        if engine is None:
            raise TypeError(f"{self.name} takes a Tensor, not {', '.join(type(one).__name__ for one in values)}")
        return engine

    def _raw(self, value: Any, engine: Any, graph: Graph | None, place: Any, among: int | None = None) -> Any:
        """An argument for PyTorch; a leaf of ``graph`` if it requires grad."""
        if isinstance(value, Tensor):
            if graph is None or not value._requires_grad or not value._t.is_floating_point():
                return value._t
            if isinstance(place, int):
                if place >= self.several:
                    place, among = self.several, place - self.several
                place = self.names[place]
            return graph.leaf((place, among), value)
        if type(value) in (list, tuple):
            if not any(isinstance(one, Tensor) for one in value):
                return value
            return [self._raw(one, engine, graph, place, number) for number, one in enumerate(value)]
        if self.elementwise and isinstance(value, (np.ndarray, np.generic)):
            return Tensor.from_host(engine.queue, value)._t if isinstance(value, np.ndarray) else value.item()
        return value

    def vjp(self, recorded: Any, grad: Any) -> dict[str, Any]:
        """The gradients of the row, from the graph that the call has kept."""
        graph = recorded.kept if recorded.kept is not None else self._graph_of(recorded)
        wanted = [place for place, (name, _) in enumerate(graph.leaves) if recorded.wants(name)]
        if not wanted:
            return {}
        if not any(graph.nodes):
            raise UnsupportedError(f"{self.name} has no gradient", op=self.name)
        places = list(graph.leaves)
        leaves = [graph.leaves[places[place]] for place in wanted]
        if recorded.again:
            given = [one for one in recorded.grads if one is not None]
            plan = (graph, wanted, tuple(one is not None for one in recorded.grads))
            found = recorded.op("torch_gradient", [*map(graph.source, range(len(places))), *given], plan)
        else:
            try:
                found = graph.gradients(leaves, [None if one is None else one._t for one in recorded.grads])
            except RuntimeError as error:
                raise overwritten(error, self.name, leaves) from None
            found = [None if one is None else Tensor._of(one, graph.engine) for one in found]
        result: dict[str, Any] = {}
        for place, one in zip(wanted, found):
            name, among = places[place]
            if among is None:
                result[name] = one
            else:
                result.setdefault(name, [None] * len(getattr(recorded, name)))[among] = one
        return result

    def _graph_of(self, recorded: Any) -> Graph:
        """The graph of a call that has kept none: of a row of views, which is linear, on zeros of the shapes."""
        if self.name not in VIEWS:
            raise UnsupportedError(f"{self.name} was not recorded with its gradient", op=self.name)
        args = []
        for name in self.names:
            value = getattr(recorded, name)
            if hasattr(value, "queue") and hasattr(value, "ndim"):
                engine = value.queue.engine
                zeros = torch.zeros((), dtype=TORCH[value.dtype], device=engine.place).expand(value.shape)
                value = Tensor._of(zeros, engine)
                value._requires_grad = recorded.wants(name)
            args.append(value)
        return take_kept(self.run(tuple(args), {}, True))  # type: ignore[no-any-return]


class Gradient(Kernel):
    """The row ``torch_gradient(tensors, plan)``: the gradients of a graph, which PyTorch differentiates in turn.

    ``tensors``: the arguments of the graph, then the gradients of its results that ``plan`` says are present.
    """

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any], keeps: bool) -> Any:
        tensors, (before, wanted, present) = args
        leaves = list(before.leaves.values())
        graph = Graph(before.engine, "all")
        graph.leaves = {("tensors", place): leaf for place, leaf in enumerate(leaves)}
        graph.sources = [(one, one.grad_fn) for one in tensors[: len(leaves)]]
        upstream = iter([
            graph.leaf(("tensors", place + len(leaves)), one) for place, one in enumerate(tensors[len(leaves) :])
        ])  # fmt: skip
        try:
            grads = [next(upstream) if has else None for has in present]
            found = before.gradients([leaves[place] for place in wanted], grads, True)
        except RuntimeError as error:
            raise overwritten(error, self.name, leaves) from None
        return wrapped(tuple(found), before.engine, graph)


def wrapped(result: Any, engine: Any, graph: Graph | None, reads: str = "all") -> Any:
    """The results of a function of PyTorch as tensors; the first has the graph, if it carries a gradient."""
    several = isinstance(result, (tuple, list))
    results = result if several else (result,)
    if graph is not None and graph.leaves:
        graph.close(results, reads)
        results = [one.detach() if isinstance(one, torch.Tensor) else one for one in results]
    tensors = [Tensor._of(one, engine) if isinstance(one, torch.Tensor) else one for one in results]
    if graph is not None and graph.leaves and isinstance(tensors[0], Tensor):
        tensors[0]._kept = graph
    if not several:
        return tensors[0]
    return type(result)(*tensors) if hasattr(result, "_fields") else tuple(tensors)


def overwritten(error: Exception, name: str, given: Any) -> Exception:
    """The error of netcl for an error of PyTorch in a backward pass."""
    if "modified by an inplace operation" in str(error):
        shape = re.search(r"\[[\w.]+ \[([\d, ]*)\]\]", str(error))
        given = f" of shape ({shape[1]})" if shape is not None else ""
        return RuntimeError(
            f"{name}: a tensor{given} that its gradient needs was overwritten in place after the op; write into a clone() "
            "instead"
        )
    return translated(error, f"gradient of {name}", given)

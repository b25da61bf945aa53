"""The op table: rows, calls through the hooks of a thread, and the kernels of rows, which are functions of PyTorch."""

from __future__ import annotations

import inspect
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from netcl.core.backend.registry import ensure_same_backend
from netcl.core.dtypes import NAMES, TORCH
from netcl.core.errors import (
    DTypeError,
    ForwardOnlyWarning,
    NetclError,
    OutOfMemoryError,
    ShapeError,
    SingularMatrixError,
    UnsupportedError,
    shorten_traceback,
)
from netcl.core.expr import Space, evaluate, evaluate_each, reduce_each
from netcl.core.grad_mode import state
from netcl.core.tensor import Tensor, in_place
from netcl.core.tensor.gradients import take_kept
from netcl.core.user_frame import call_site, level_outside

__all__ = [
    "SYNONYMS", "TABLE", "Domain", "Kernel", "OpRow", "Snapshot", "Space", "assign", "call", "call_row", "evaluate",
    "evaluate_each", "execute", "explain", "own_form", "pop_hook", "push_hook", "reduce_each", "register_op", "row_of",
    "set_recorder", "snapshot",
]  # fmt: skip

Hook = Callable[..., Any]
TABLE: dict[str, OpRow] = {}

# What PyTorch calls a parameter: the candidates among the row's own names.
SYNONYMS = {
    "dim": ("axis",), "keepdim": ("keepdims",), "pad": ("padding", "pads"), "dims": ("axes", "axis", "reps"),
    "input": ("x", "a"), "other": ("b",), "unbiased": ("correction",), "ddof": ("correction",), "mat1": ("a",),
    "mat2": ("b",), "vec": ("b",), "vec2": ("b",), "end": ("b",), "exponent": ("b",), "x1": ("a",), "x2": ("b",),
    "batch1": ("a",), "batch2": ("b",), "tensor": ("b", "x"), "split_size": ("size",),
    "split_size_or_sections": ("size",), "shifts": ("shift",), "train": ("training",), "self": ("x", "a"),
}  # fmt: skip


@dataclass(frozen=True)
class Domain:
    """The domain in which an op is tested: operands uniform in [low, high), ``away`` from the points ``kinks``;
    ``cases(rng)`` yields (operands, attributes), ``reference`` is the same in NumPy.
    """

    low: float = -2.0
    high: float = 2.0
    kinks: tuple[float, ...] = ()
    away: float = 0.05
    cases: Callable[[Any], Iterator[tuple[tuple[Any, ...], dict[str, Any]]]] | None = None
    reference: Callable[..., Any] | None = None
    gradient: bool = True
    second: bool = True


@dataclass(eq=False)
class OpRow:
    """One op: ``call`` computes it, ``composite`` is a function over other ops, ``vjp(call, grad)`` its gradients."""

    name: str
    signature: inspect.Signature
    expression: Any = None
    call: Callable[..., Any] | None = None
    composite: Callable[..., Any] | None = None
    shapes: Callable[..., Any] | None = None
    domain: Domain = Domain()
    dtypes: str = "any"
    amp: str = "widest"
    leading: bool = False
    doc: str = ""
    operands: tuple[str, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    vjp: Callable[[Any, Any], Mapping[str, Any]] | None = None
    saves: Mapping[str, tuple[str, ...]] | None = None


INSIDE = object()
LAYERS = ("profiler", "autocast", "tracer")


class _Local(threading.local):
    def __init__(self) -> None:
        # None outside of ops, True or False inside of a composite, INSIDE of a call.
        self.mode: Any = None
        self.hooks: dict[str, tuple[Hook, ...]] = dict.fromkeys(LAYERS, ())
        self.any = False


_local = _Local()
_recorder: list[Hook | None] = [None]
_warned: set[tuple[str, int, str]] = set()


@dataclass(frozen=True)
class Snapshot:
    """The hooks of a thread, to be used in another: ``with snapshot.active(): ...``."""

    hooks: dict[str, tuple[Hook, ...]]

    @contextmanager
    def active(self) -> Iterator[None]:
        """This snapshot's hooks in the current thread, for the duration of the block."""
        before = _local.hooks
        _set_hooks(dict(self.hooks))
        try:
            yield
        finally:
            _set_hooks(before)


def _set_hooks(hooks: dict[str, tuple[Hook, ...]]) -> None:
    _local.hooks = hooks
    _local.any = any(hooks.values())


def snapshot() -> Snapshot:
    """This thread's hooks, for a thread that netcl starts."""
    return Snapshot(dict(_local.hooks))


def push_hook(hook: Hook, layer: str = "profiler") -> Hook:
    """Puts ``hook`` on this thread's stack: outermost of its layer, profiler, autocast or tracer."""
    _set_hooks({**_local.hooks, layer: (hook, *_local.hooks[layer])})
    return hook


def pop_hook(hook: Hook) -> None:
    """Takes ``hook`` off this thread's stack; ValueError if it is not there."""
    for layer, hooks in _local.hooks.items():
        if hook in hooks:
            place = hooks.index(hook)
            _set_hooks({**_local.hooks, layer: hooks[:place] + hooks[place + 1 :]})
            return
    raise ValueError("the hook is not on the stack of this thread")


def set_recorder(hook: Hook | None) -> Hook | None:
    """Makes ``hook`` the process's recorder and returns the one before."""
    before, _recorder[0] = _recorder[0], hook
    return before


def register_op(row: OpRow) -> OpRow:
    """Adds a row to the table; ValueError if the name is taken."""
    if row.name in TABLE:
        raise ValueError(f"there is an op {row.name} already")
    TABLE[row.name] = row
    return row


def row_of(name: str) -> OpRow:
    """The row of the op ``name``; UnsupportedError if there is none."""
    if name not in TABLE:
        raise UnsupportedError(f"there is no op {name!r}", op=name)
    return TABLE[name]


def call(name: str, *args: Any, record: bool | None = None, **kwargs: Any) -> Any:
    """Runs the op ``name``; ``record=None`` inherits from the composite op that is running."""
    return call_row(row_of(name), args, kwargs, record)


def _own_names(row: OpRow, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments by the row's own names."""
    known = row.signature.parameters
    found = {}
    for key, value in kwargs.items():
        if key not in known and key not in ("out", "pool"):
            name = next((one for one in SYNONYMS.get(key, ()) if one in known), None)
            if name is None:
                raise TypeError(f"{row.name}{row.signature} has no parameter {key!r}")
            key, value = name, int(bool(value)) if key == "unbiased" else value
        if key in found:
            raise TypeError(f"{row.name}: parameter {key!r} is given twice")
        found[key] = value
    return found


def _requires_grad(args: Any) -> bool:
    for value in args:
        if isinstance(value, Tensor):
            if value.requires_grad:
                return True
        elif type(value) in (list, tuple) and any(isinstance(one, Tensor) and one.requires_grad for one in value):
            return True
    return False


def call_row(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], record: bool | None = None) -> Any:
    """Runs ``row`` through the hook stack."""
    if kwargs:
        kwargs = _own_names(row, kwargs)
    mode = _local.mode
    if mode is INSIDE:
        return _composed(row, args, kwargs, INSIDE) if row.composite is not None else execute(row, args, kwargs)
    recorder = _recorder[0]
    if record is None:
        record = mode is True
        differentiable = row.vjp is not None or row.composite is not None
        wanted = differentiable and mode is None and recorder is not None and state.enabled
        if wanted and _requires_grad((*args, *kwargs.values())) and (site := (*call_site(), row.name)) not in _warned:
            warnings.warn(
                f"netcl.ops.{row.name} is forward only, its result is outside of the graph; call netcl.{row.name}, or "
                "detach() the operand",
                ForwardOnlyWarning,
                stacklevel=level_outside(),
            )
            _warned.add(site)  # not if a filter made it an error
    hooks: tuple[Hook, ...] = ()
    if row.composite is not None:
        run: Any = _recorded if record else _unrecorded
        hooks = _local.hooks["profiler"] if _local.any else ()
    else:
        # The kernel keeps a graph of PyTorch for a call that the recorder will record.
        run = _execute_kept if record and recorder is not None and state.enabled else execute
        if _local.any:
            found = _local.hooks
            between = (recorder,) if record and recorder is not None else ()
            hooks = (*found["profiler"], *found["autocast"], *between, *found["tracer"])
        elif record and recorder is not None:
            return recorder(run, row, args, kwargs)
    for hook in reversed(hooks):
        run = _Link(hook, run)
    return run(row, args, kwargs)


class _Link:
    """A hook with what comes after it."""

    __slots__ = ("hook", "next")

    def __init__(self, hook: Hook, following: Any) -> None:
        self.hook, self.next = hook, following

    def __call__(self, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.hook(self.next, row, args, kwargs)


def _composed(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], mode: Any) -> Any:
    out = kwargs.pop("out", None)
    kwargs.pop("pool", None)
    before, _local.mode = _local.mode, mode
    try:
        result = row.composite(*args, **kwargs)  # type: ignore[misc]
    finally:
        _local.mode = before
    return result if out is None else _put(row, out, result)


def _recorded(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _composed(row, args, kwargs, True)


def _unrecorded(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _composed(row, args, kwargs, False)


def execute(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The innermost of the stack: computes the op, on plain tensors, and records nothing."""
    out = None
    if kwargs and ("out" in kwargs or "pool" in kwargs):
        kwargs = dict(kwargs)
        out = kwargs.pop("out", None)
        kwargs.pop("pool", None)
    if row.composite is not None and row.call is None:
        result = _composed(row, args, dict(kwargs), INSIDE)
    else:
        before, _local.mode = _local.mode, INSIDE
        try:
            result = row.call(*args, **kwargs)  # type: ignore[misc]
        finally:
            _local.mode = before
    return result if out is None else _put(row, out, result)


def _execute_kept(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``execute`` for a call that is recorded: a kernel keeps a graph of PyTorch if an operand requires grad."""
    kernel = row.call
    if not isinstance(kernel, Kernel) or not kernel.differentiable or not _requires_grad((*args, *kwargs.values())):
        return execute(row, args, kwargs)
    before, _local.mode = _local.mode, INSIDE
    try:
        return kernel.run(args, {key: one for key, one in kwargs.items() if key != "pool"}, True)
    finally:
        _local.mode = before


def _put(row: OpRow, out: Any, result: Any) -> Any:
    """``out`` with the result, of which it has the shape, the dtype and the device."""
    if out.shape != result.shape:
        raise ShapeError(f"{row.name}: out has shape {out.shape}, the result {result.shape}", op=row.name)
    if out.dtype != result.dtype:
        raise DTypeError(f"{row.name}: out has dtype {out.dtype}, the result {result.dtype}", op=row.name)
    ensure_same_backend((out, result), row.name)
    return in_place.write(out, result)


def assign(target: Any, source: Any) -> None:
    """Writes ``source`` (same shape and engine) into ``target``, converted to its dtype."""
    in_place.check_copy(target, source)
    target._t.copy_(source._t)


def explain(error: Exception, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Shortens the traceback of an error of a call; raises TypeError if a list or an array is where a tensor has to be."""
    if isinstance(error, (AttributeError, TypeError)) and not isinstance(error, NetclError):
        for name, value in zip(row.signature.parameters, args):
            if name in row.operands and isinstance(value, (list, np.ndarray)):
                raise TypeError(
                    f"{row.name}: {name} is a {type(value).__name__}, not a Tensor; write Tensor.from_host({name})"
                ) from None
    shorten_traceback(error)


def own_form(error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any] | None:
    """The ``__netcl_op__`` of the first operand with one, if the call failed as it is no Tensor."""
    if not isinstance(error, (AttributeError, TypeError)):
        return None
    for value in (*args, *kwargs.values()):
        for one in value if isinstance(value, (list, tuple)) else (value,):
            if not isinstance(one, Tensor) and hasattr(one, "__netcl_op__"):
                return one.__netcl_op__  # type: ignore[no-any-return]
    return None


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
        return OutOfMemoryError(f"{name}: no memory for the result of {shapes}: {text}", op=name)
    if "singular" in low or "not positive-definite" in low or "not be computed" in low:
        return SingularMatrixError(f"{name}: {text}", op=name)
    if isinstance(error, IndexError) and "dimension" not in low.split("(")[0] or "out of bounds" in low:
        return IndexError(f"{name}: {text}")
    if _OF_DTYPES.search(low):
        kinds = ", ".join(one.dtype if isinstance(one, Tensor) else NAMES[one.dtype] for one in tensors)
        return DTypeError(f"{name}: not defined for {kinds}: {text}", op=name)
    return ShapeError(f"{name}: shapes {shapes} do not fit: {text}", op=name)


VIEWS = frozenset(("reshape", "permute", "expand", "strided_slice", "diagonal"))


class Graph:
    """A call that PyTorch has recorded: the leaves by the name of the argument (and the place in a list), with the places
    in netcl's graph of the tensors that were given there, and the results.
    """

    __slots__ = ("engine", "leaves", "results", "sources")
    version = 0  # PyTorch itself notices writes into what it has saved

    def __init__(self, engine: Any) -> None:
        self.engine, self.results = engine, ()
        self.leaves: dict[tuple[str, int | None], torch.Tensor] = {}
        self.sources: list[Any] = []

    def leaf(self, place: tuple[str, int | None], tensor: Tensor) -> torch.Tensor:
        """A leaf for an argument that requires grad."""
        made = self.leaves[place] = tensor._t.detach().requires_grad_()
        self.sources.append(tensor if tensor.grad_fn is None else tensor.grad_fn)
        return made

    def source(self, position: int) -> Tensor:
        """The argument of a leaf as a tensor of netcl's graph."""
        found = self.sources[position]
        if isinstance(found, Tensor):
            return found
        made = Tensor._of(list(self.leaves.values())[position].detach(), self.engine)
        made._requires_grad, made.grad_fn = True, found
        return made

    def gradients(self, leaves: list[torch.Tensor], grads: Any, again: bool = False) -> Any:
        """The gradient of each leaf, None for one without influence; ``grads`` are those of the results, or None."""
        outputs, upstream = [], []
        for one, given in zip(self.results, grads):
            if given is not None and isinstance(one, torch.Tensor) and one.requires_grad:
                outputs.append(one)
                upstream.append(given if given.dtype == one.dtype else given.to(one.dtype))
        if not outputs:
            return [None] * len(leaves)
        if not again and len(outputs) == 1 and (found := _of_one_node(outputs[0], upstream[0])) is not None:
            return [found.get(leaf) for leaf in leaves]
        return torch.autograd.grad(
            outputs, leaves, upstream, retain_graph=True, create_graph=again, allow_unused=True, materialize_grads=again
        )


def _of_one_node(output: torch.Tensor, grad: torch.Tensor) -> dict[torch.Tensor, torch.Tensor] | None:
    """The gradients of leaves whose ``output`` one node of PyTorch has computed, None if there were more: without
    PyTorch's engine, a call of which takes longer than most gradients.
    """
    node: Any = output.grad_fn
    if node is None:
        return None
    edges = [function for function, _ in node.next_functions]
    leaves = [getattr(function, "variable", None) for function in edges]
    if any(leaf is None and function is not None for leaf, function in zip(leaves, edges)):
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

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any], keeps: bool) -> Any:
        """Computes the row; with ``keeps`` the result has PyTorch's graph of it, which `gradients.take_kept` takes."""
        if kwargs and self.elementwise:  # operands that are given by keyword in their places
            bound = self.row.signature.bind(*args, **kwargs)
            args, kwargs = bound.args, bound.kwargs
        engine = self._engine((*args, *kwargs.values()) if kwargs else args)
        graph = Graph(engine) if keeps else None
        given = [self._raw(one, engine, graph, place) for place, one in enumerate(args)]
        named = {key: self._raw(one, engine, graph, key) for key, one in kwargs.items()}
        try:
            with torch.set_grad_enabled(keeps):
                result = self.compute(*given, **named)
        except NetclError as error:
            if error.op is None:
                error.op = self.name
            raise
        except (RuntimeError, IndexError) as error:
            raise translated(error, self.name, given) from None
        return wrapped(result, engine, graph)

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
        if not any(isinstance(one, torch.Tensor) and one.requires_grad for one in graph.results):
            raise UnsupportedError(f"{self.name} has no gradient", op=self.name)
        places = list(graph.leaves)
        leaves = [graph.leaves[places[place]] for place in wanted]
        if recorded.again:
            given = [one for one in recorded.grads if one is not None]
            plan = (graph, leaves, tuple(one is not None for one in recorded.grads))
            found = recorded.op("torch_gradient", [*map(graph.source, wanted), *given], plan)
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
        tensors, (before, leaves, present) = args
        graph = Graph(before.engine)
        graph.leaves = {("tensors", place): leaf for place, leaf in enumerate(leaves)}
        graph.sources = [one if one.grad_fn is None else one.grad_fn for one in tensors[: len(leaves)]]
        upstream = iter([
            graph.leaf(("tensors", place + len(leaves)), one) for place, one in enumerate(tensors[len(leaves) :])
        ])  # fmt: skip
        try:
            found = before.gradients(leaves, [next(upstream) if has else None for has in present], True)
        except RuntimeError as error:
            raise overwritten(error, self.name, leaves) from None
        return wrapped(tuple(found), before.engine, graph)


def wrapped(result: Any, engine: Any, graph: Graph | None) -> Any:
    """The results of a function of PyTorch as tensors; the first has the graph, if it carries a gradient."""
    several = isinstance(result, (tuple, list))
    results = result if several else (result,)
    if graph is not None and graph.leaves:
        graph.results = tuple(results)
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
        return RuntimeError(
            f"{name}: a tensor that its gradient needs was overwritten in place after the op; write into a clone() "
            "instead"
        )
    return translated(error, f"gradient of {name}", given)

"""Nodes of the gradient graph: one GradNode per recorded op, with its edges and the tensors saved for its gradient."""

from __future__ import annotations

import itertools
import re
import threading
import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, Union

from netcl.autograd import blocks
from netcl.autograd.blocks import Partial
from netcl.autograd.hooks import Hook
from netcl.autograd.mode import no_grad, state
from netcl.autograd.recompute import Recipe, Recomputed, recomputed
from netcl.core import Tensor
from netcl.core.dtypes import SUPPORTED, is_floating
from netcl.core.errors import BackendMismatchError, ShapeError
from netcl.core.expr import Expr, Load, cast
from netcl.core.ops_table import dispatch
from netcl.core.process.user_frame import called_from
from netcl.core.storage.gradients import attach, take_history, view_of
from netcl.core.storage.views import root_of, separate, snapshot
from netcl.core.tensor import in_place

FLOATING = frozenset(dtype for dtype in SUPPORTED if is_floating(dtype))
_order = itertools.count()
_version_of = attrgetter("version")

Grads = Sequence[Partial | None]
Backward = Callable[["GradContext", "GradNode", list[Tensor | None], Sequence[bool]], Grads]
Edge = tuple[Union["GradNode", Tensor], int]


class GradContext:
    """The part of a backward pass that gradient functions use: ops of the table and delivery to leaves.

    With ``create_graph`` the ops are recorded, so that the gradients can be differentiated. ``sink(leaf, grad)``
    receives the gradients of leaves; without it they are accumulated in ``leaf.grad``, in place but for
    ``create_graph``.
    """

    def __init__(self, *, create_graph: bool, sink: Callable[[Tensor, Tensor], None] | None = None) -> None:
        self.create_graph = create_graph
        self._sink = sink
        self.accumulates: bool = sink is None  # into ``leaf.grad``, after which its hooks are called
        self._borrowed: set[int] = set()

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Runs an op of the table; it is recorded if ``create_graph``."""
        return dispatch.call(name, *args, record=self.create_graph, **kwargs)

    def borrow(self, tensor: Tensor) -> None:
        """Marks storage that is referenced elsewhere: it becomes the gradient of a leaf only as a copy."""
        self._borrowed.add(tensor.storage_id)

    def sink(self, leaf: Tensor, grad: Tensor) -> None:
        """Delivers the gradient of a leaf to the given sink, else adds it to ``leaf.grad``."""
        if self._sink is not None:
            self._sink(leaf, grad)
            return
        if not leaf.requires_grad:  # it was frozen, or detached in place, after the op
            return
        if leaf.grad_fn is not None:
            raise RuntimeError(
                "backward: a leaf was detached or frozen and then written in place with values that require grad, so "
                "that its gradient has no place; write into a clone() of it"
            )
        before = leaf.grad
        if before is not None:
            if self.create_graph:
                leaf.grad = self.call("add", before, grad)
            else:
                _add_into(before, grad)
            return
        if grad.storage_id in self._borrowed:
            grad = self.call("clone", grad)
        elif not self.create_graph:
            grad = separate(grad)  # a view would keep what it is a view of
        self.borrow(grad)
        leaf.grad = grad


@lru_cache(maxsize=64)
def _sum(target: str, grad: str) -> tuple[Expr]:
    return (cast(Load(0, target) + Load(1, grad), target),)


def _add_into(target: Tensor, grad: Tensor) -> None:
    """Adds ``grad`` to ``target`` in place; a view passes the sum on to the tensor that it shows."""
    if target.shape == grad.shape and separate(target) is target:
        dispatch.evaluate(_sum(target.dtype, grad.dtype), (target, grad), out=(target,))
    else:
        in_place.write(target, dispatch.call("add", target, grad, record=False))


class TensorMeta(NamedTuple):
    """Shape, dtype and queue of a tensor that is not saved itself."""

    shape: tuple[int, ...]
    dtype: str
    queue: Any

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)


class GradNode:
    """One recorded op. It does not reference its outputs, so an unused graph is freed by reference counts.

    ``edges``: per input (node or leaf, output index), None if the input takes no gradient. ``saved``: the tensors that
    the gradient needs, or their recipes. ``backward(context, node, grads, wanted)`` returns one gradient or None per
    edge; ``static`` holds its other data. ``recipe`` computes its result again, None if the result must be kept.
    ``name`` is the name of the op; ``name()`` and ``repr`` give PyTorch's, e.g. ``<MulBackward>``.

    Names that begin with ``_saved_`` are the saved tensors and the arguments of the op, as in PyTorch.
    """

    __slots__ = (
        "__weakref__",
        "backward",
        "edges",
        "hooks",
        "op",
        "opaque",
        "order",
        "outputs",
        "recipe",
        "retained",
        "saved",
        "static",
        "trace",
        "versions",
    )

    def __init__(
        self,
        name: str,
        backward: Backward,
        edges: tuple[Edge | None, ...],
        saved: tuple[Any, ...],
        outputs: int,
        static: Any = None,
        opaque: bool = False,
    ) -> None:
        self.op: str = name
        self.backward: Backward = backward
        self.edges: tuple[Edge | None, ...] = edges
        if packing:
            saved = packed(saved)
        self.saved: tuple[Any, ...] | None = saved
        self.versions: list[int] = list(map(_version_of, saved))
        self.outputs: int = outputs
        self.static: Any = static
        self.opaque: bool = opaque  # its gradient also reaches leaves that are not among its edges
        self.recipe: Recipe | None = None
        self.hooks: dict[int, dict[int, Any]] | None = None
        # The outputs with a gradient kept in ``grad``, by weak references, which make no cycle.
        self.retained: dict[int, weakref.ref[Tensor]] | None = None
        self.order: int = next(_order)  # larger than that of every node it depends on
        self.trace: str | None = called_from() if state.anomaly else None

    def unpack(self, needed: Collection[int] | None = None) -> tuple[Tensor, ...]:
        """Returns the saved tensors; RuntimeError if freed, or if one (of those ``needed``) was overwritten since."""
        if self.saved is None:
            raise RuntimeError(
                f"{self.name}: backward a second time through a graph that is freed; pass retain_graph=True to the "
                "first "
                "backward, or call it on a Tape"
            )
        again = False
        for position, (tensor, version) in enumerate(zip(self.saved, self.versions)):
            if type(tensor) in _STAND_INS:
                again = True
            if tensor.version != version and (needed is None or position in needed):
                raise RuntimeError(
                    f"{self.name}: a tensor of shape {tensor.shape} that its gradient needs was overwritten in place "
                    "after the op; "
                    "write into a clone() instead"
                )
        if again:
            return tuple([value.tensor() if type(value) in _STAND_INS else value for value in self.saved])
        return self.saved

    def separate(self, target: Tensor) -> None:
        """Saves copies of what is in the memory of ``target``, which is about to be written, except of leaves."""
        kept: list[Any] = list(self.saved or ())
        for position, tensor in enumerate(kept):
            if not isinstance(tensor, Tensor):  # what a core has kept
                tensor.separate(target)
            elif root_of(tensor) is root_of(target) and tensor.version == self.versions[position]:
                if tensor.requires_grad and tensor.grad_fn is None:
                    continue
                copy = kept[position] = dispatch.call("clone", tensor.detach(), record=False)
                take_history(copy, tensor)
                self.versions[position] = copy.version
        if self.saved is not None:
            self.saved = tuple(kept)

    def release(self) -> None:
        """Frees the saved tensors; another backward through this node raises unless it had saved nothing."""
        if self.saved or self.backward is _user_backward:
            self.saved = self.static = None

    def __call__(self, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """Returns the gradients of the inputs for the gradients of the outputs."""
        context = GradContext(create_graph=False)
        results = self.backward(context, self, list(grads), [edge is not None for edge in self.edges])
        return tuple([result if result is None else blocks.computed(context.call, result) for result in results])

    @property
    def name(self) -> OpName:
        """The name of the op; called, that of the node in PyTorch."""
        return OpName(self.op)

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The destinations of the gradient, (node, output index) each; of a leaf an AccumulateGrad, (None, 0) of an
        input that takes none.
        """
        return tuple([_function(edge) for edge in self.edges])

    def register_hook(self, fn: Callable[[Any, Any], Any]) -> Hook:
        """Calls ``fn(grad_inputs, grad_outputs)`` when the node's gradients are computed; a tuple that it returns takes
        the place of the first. ``remove()`` of the result takes the hook off.
        """
        return _hook(_hooked(self).after, fn)

    def register_prehook(self, fn: Callable[[Any], Any]) -> Hook:
        """Calls ``fn(grad_outputs)`` before; a tuple that it returns takes the place of the gradients."""
        return _hook(_hooked(self).before, fn)

    def __getattr__(self, name: str) -> Any:
        saved = import_module("netcl.autograd.saved")  # by name: it knows the rules and plans, which know nodes
        return saved.attribute_of(self, name)

    def __repr__(self) -> str:
        return f"<{self.name.shown}>"


class OpName(str):
    """The name of an op, which called gives that of its node in PyTorch: ``"mul"``, ``"MulBackward0"``."""

    __slots__ = ()

    @property
    def shown(self) -> str:
        """The node's name without the number of its overload."""
        if self == "copy_slices":
            return "CopySlices"
        return f"{''.join(part[:1].upper() + part[1:] for part in re.split(r'[^0-9A-Za-z]+', self))}Backward"

    def __call__(self) -> str:
        if self[:1].isupper() or self[:1] == "_":  # the class of a Function
            return f"{self}Backward"
        name = OpName(_PYTORCH.get(self, self)).shown
        return name if self == "copy_slices" else f"{name}0"


_PYTORCH = {"concatenate": "cat", "reshape": "view", "cast": "to_copy", "strided_slice": "slice"}


@dataclass(frozen=True, eq=False)
class AccumulateGrad:
    """The end of the graph at a leaf: ``variable`` takes the gradient. Two of one leaf are equal."""

    variable: Tensor

    next_functions: ClassVar[tuple[()]] = ()

    def name(self) -> str:
        """PyTorch's name."""
        return "torch::autograd::AccumulateGrad"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccumulateGrad) and other.variable is self.variable

    def __hash__(self) -> int:
        return hash(id(self.variable))

    def __repr__(self) -> str:
        return "<AccumulateGrad>"


def _function(edge: Edge | None) -> tuple[Any, int]:
    if edge is None:
        return None, 0
    target, index = edge
    return (target, index) if isinstance(target, GradNode) else (AccumulateGrad(target), 0)


class _Hooked:
    """The backward function of a node with hooks on its gradients: those before it and those after it."""

    def __init__(self, inner: Backward) -> None:
        self.before: dict[int, Any] = {}
        self.after: dict[int, Any] = {}
        self._inner = inner

    def __call__(self, context: GradContext, node: GradNode, grads: list[Any], wanted: Sequence[bool]) -> Grads:
        incoming: Sequence[Any] = grads
        for fn in tuple(self.before.values()):
            incoming = _replaced(fn, incoming)
        gradients: Sequence[Any] = self._inner(context, node, list(incoming), wanted)
        if self.after:
            gradients = [grad if grad is None else blocks.computed(context.call, grad) for grad in gradients]
        for fn in tuple(self.after.values()):
            gradients = _replaced(fn, gradients, incoming)
        return gradients


def _hooked(node: GradNode) -> _Hooked:
    """The backward function of a node, which from now on runs hooks."""
    if not isinstance(node.backward, _Hooked):
        node.backward = _Hooked(node.backward)
    return node.backward


def _hook(hooks: dict[int, Any], fn: Callable[..., Any]) -> Hook:
    key = next(_order)
    hooks[key] = fn
    return Hook(hooks, key)


def _replaced(fn: Callable[..., Any], values: Sequence[Any], *more: Any) -> Sequence[Any]:
    """The values, or what ``fn`` of them returns in their place."""
    result = fn(tuple(values), *[tuple(each) for each in more])
    if result is None:
        return values
    return result if isinstance(result, (tuple, list)) else (result,)


@dataclass(frozen=True)
class Output:
    """``grad_fn`` of the second and further outputs of a node."""

    node: GradNode
    index: int

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.node, name)

    def __repr__(self) -> str:
        return repr(self.node)


def edge_of(tensor: Tensor) -> Edge:
    """Returns the target of the gradient of ``tensor``: (its GradNode, the output index), or (the leaf itself, -1)."""
    made: Any = tensor.grad_fn
    if made is None:
        return tensor, -1
    return (made, 0) if type(made) is GradNode else (made.node, made.index)


def edges_of(inputs: Sequence[Tensor]) -> tuple[Edge | None, ...]:
    """Returns the edges of inputs; None for an input that takes no gradient."""
    return tuple(edge_of(t) if t.requires_grad and t.dtype in FLOATING else None for t in inputs)


def without_base(x: Tensor) -> Tensor:
    """Returns ``x``, or if it is a view of the result of an op its elements alone, so that the memory of that result is
    free as soon as the program has no reference to it.
    """
    group = getattr(view_of(x), "group", None)
    if group is None or x.grad_fn is None:
        return x
    base = group.base()
    if base is not None and base.grad_fn is None:  # a leaf or a constant, which stays
        return x
    alone: Tensor = snapshot(x)
    if alone is not x:
        take_history(alone, x)
    return alone


def to_save(x: Tensor) -> Any:
    """Returns what a node saves of ``x``: a Recomputed if ``x`` can be computed again, else ``x`` without its base."""
    made: Any = x.grad_fn
    if made is None:  # a leaf or a constant, which stays
        return x
    if type(made) is GradNode and made.recipe is not None and x.requires_grad:
        recipe = recomputed(x, made)
        if recipe is not None:
            return recipe
    return without_base(x)


def belongs(tensor: Tensor, node: GradNode, index: int) -> Tensor:
    """Makes ``tensor``, which must not be referenced elsewhere, output ``index`` of ``node``."""
    attach(tensor, node if index == 0 else Output(node, index))
    return tensor


def output_again(saved: Tensor, node: GradNode, index: int, shape: tuple[int, ...]) -> Tensor:
    """Returns what ``node`` saved of its output ``index`` as that output, in its ``shape``: gradients of gradients flow
    through it. Positions, as of ``topk``, have no gradient and no place in the graph.
    """
    output = saved.detach()
    output.shape = shape
    return belongs(output, node, index) if output.dtype in FLOATING else output


def belongs_again(tensor: Tensor, node: GradNode, index: int) -> Tensor:
    """Calls ``belongs`` for a tensor perhaps in the graph already; a kept gradient is kept in the new place too."""
    kept = retains_grad(tensor)
    if kept:
        before, place = edge_of(tensor)
        before.retained.pop(place)  # type: ignore[union-attr]
    belongs(tensor, node, index)
    if kept:
        retain_grad(tensor)
    return tensor


def retain_grad(tensor: Tensor) -> None:
    """Makes backward passes keep the gradient of ``tensor``; does nothing for a leaf: its gradient is kept anyway."""
    node, index = edge_of(tensor)
    if isinstance(node, GradNode):
        if node.retained is None:
            node.retained = {}
        node.retained[index] = weakref.ref(tensor)


def retains_grad(tensor: Tensor) -> bool:
    """True if ``retain_grad`` was called on ``tensor``, which is no leaf."""
    made: Any = tensor.grad_fn
    if made is None:
        return False
    node, index = edge_of(tensor)
    kept = (node.retained or {}).get(index) if isinstance(node, GradNode) else None
    return kept is not None and kept() is tensor


# -- hooks on saved tensors ------------------------------------------------------------------------------------------


class _Packing(threading.local):
    """The hooks of the blocks of this thread, innermost last, and the reason why there must be none."""

    hooks: tuple[tuple[Callable[[Tensor], Any], Callable[[Any], Tensor]], ...] = ()
    refusal: str | None = None


packing_here = _Packing()
packing: list[object] = []  # an element for each open block of any thread


class Packed:
    """A saved tensor as a hook has packed it, with its place in the graph."""

    __slots__ = ("_edge", "_made", "_unpack", "shape", "version")

    def __init__(self, x: Tensor, pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]) -> None:
        self.shape = x.shape
        self.version = 0
        self._edge = edge_of(x) if x.requires_grad else None
        with no_grad():
            self._made = pack(x)
        self._unpack = unpack

    def tensor(self) -> Tensor:
        """The tensor that the hook unpacks, which must have the shape of the packed one."""
        with no_grad():
            made = self._unpack(self._made)
        if not isinstance(made, Tensor) or made.shape != self.shape:
            got = made.shape if isinstance(made, Tensor) else type(made).__name__
            raise ShapeError(f"saved_tensors_hooks: expected unpack to return a tensor of {self.shape}, got {got}")
        if self._edge is None:
            return made.detach()
        target, index = self._edge
        if not isinstance(target, GradNode):
            target, index = GradNode("alias", _passed_on, (self._edge,), (), 1), 0
        return belongs(made.detach(), target, index)

    def separate(self, target: Tensor) -> None:
        """Does nothing: what is packed is not in the memory of ``target``."""


def _passed_on(context: GradContext, node: GradNode, grads: list[Any], wanted: Sequence[bool]) -> Grads:
    return grads


def packed(saved: tuple[Any, ...]) -> tuple[Any, ...]:
    """The tensors that a node saves, packed by the innermost hooks of this thread, if it has some."""
    if not packing_here.hooks:
        return saved
    tensors = [value.tensor() if type(value) is Recomputed else value for value in saved]
    return tuple([Packed(value, *packing_here.hooks[-1]) if isinstance(value, Tensor) else value for value in tensors])


_STAND_INS = frozenset((Recomputed, Packed))


# -- gradients given by the user -------------------------------------------------------------------------------------


class _User(NamedTuple):
    grad_fn: Callable[..., Any]
    inputs: tuple[TensorMeta, ...]


def user_step(
    name: str, grad_fn: Callable[..., Any], parents: tuple[Tensor, ...], outputs: Sequence[Tensor]
) -> GradNode:
    """Returns a node with a plain function as gradient: ``grad_fn(*grads)`` returns one Tensor or None per parent."""
    inputs = tuple(TensorMeta(t.shape, t.dtype, t.queue) for t in parents)
    return GradNode(name, _user_backward, edges_of(parents), (), len(outputs), _User(grad_fn, inputs))


def _user_backward(context: GradContext, node: GradNode, grads: list[Tensor | None], wanted: Sequence[bool]) -> Grads:
    node.unpack()
    user: _User = node.static
    return checked(node, user.grad_fn(*grads), user.inputs, context)


def checked(node: GradNode, returned: Any, inputs: Sequence[TensorMeta], context: GradContext) -> Grads:
    """Gradients from a user's function, one per parent; errors name the op if number, shape or device are wrong."""
    results = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    if len(results) != len(inputs):
        raise RuntimeError(f"{node.name}: the gradient function gave {len(results)} gradients for {len(inputs)} inputs")
    for position, (result, meta) in enumerate(zip(results, inputs)):
        if result is None or node.edges[position] is None:
            continue
        if not isinstance(result, Tensor):
            raise TypeError(
                f"{node.name}: expected a Tensor as gradient of input {position}, got {type(result).__name__}"
            )
        if result.shape != meta.shape:
            raise ShapeError(
                f"{node.name}: the gradient of input {position} has shape {result.shape}, the input {meta.shape}"
            )
        if result.queue is not meta.queue:
            raise BackendMismatchError(
                f"{node.name}: the gradient of input {position} lives on {result.engine.device_label}, the input "
                "elsewhere"
            )
        context.borrow(result)
        results[position] = context.call("cast", result, dtype=meta.dtype) if result.dtype != meta.dtype else result
    return results

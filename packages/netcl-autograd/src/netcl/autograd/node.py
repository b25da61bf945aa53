"""The gradient methods of tensors; Node, any tensor in the gradient graph; Parameter, a persistent leaf."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from netcl.autograd import in_place, prediction, views
from netcl.autograd.backward import backward_from
from netcl.autograd.grad_node import GradNode, edge_of, retain_grad, retains_grad, user_step
from netcl.autograd.hooks import Hook, accumulated_hooks, leaf_hooks
from netcl.autograd.levels import LEVELS
from netcl.autograd.mode import state
from netcl.core import Tensor
from netcl.core.storage import gradients

if TYPE_CHECKING or "tracing" in LEVELS:
    from netcl.core.graph.trace import force
else:

    def force(values: Sequence[Any]) -> None:
        """Does nothing: no value is deferred."""


GradFn = Callable[..., Any]

_hook_ids = itertools.count()


def _hook_of_leaf(hooks: dict[int, dict[int, Any]], leaf: Tensor, fn: Any) -> Hook:
    prediction.settle("a hook on the gradient of a leaf was registered")
    if id(leaf) not in hooks:
        weakref.finalize(leaf, hooks.pop, id(leaf), None).atexit = False
    key = next(_hook_ids)
    hooks.setdefault(id(leaf), {})[key] = fn
    return Hook(hooks[id(leaf)], key)


class Methods:
    """The functions that the gradient methods of tensors call: ``netcl.core.storage.gradients.Gradients``."""

    backward = staticmethod(backward_from)

    def register_hook(self, tensor: Tensor, fn: Callable[[Tensor], Tensor | None]) -> Hook:
        if not tensor.requires_grad:
            raise RuntimeError("register_hook: this node does not require grad, so no gradient will come")
        target, index = edge_of(tensor)
        if not isinstance(target, GradNode):
            return _hook_of_leaf(leaf_hooks, tensor, fn)
        if target.hooks is None:
            target.hooks = {}
        hooks = target.hooks.setdefault(index, {})
        key = next(_hook_ids)
        hooks[key] = fn
        return Hook(hooks, key)

    def register_post_accumulate_grad_hook(self, tensor: Tensor, fn: Callable[[Tensor], None]) -> Hook:
        if not tensor.requires_grad or tensor.grad_fn is not None:
            raise RuntimeError(
                "register_post_accumulate_grad_hook: takes a leaf that requires grad; of the result of an op write "
                "register_hook"
            )
        return _hook_of_leaf(accumulated_hooks, tensor, fn)

    def retain_grad(self, tensor: Tensor) -> None:
        if not tensor.requires_grad:
            raise RuntimeError("retain_grad: this tensor does not require grad, so no gradient will come")
        retain_grad(tensor)

    def retains_grad(self, tensor: Tensor) -> bool:
        return retains_grad(tensor)

    def op_name(self, tensor: Tensor) -> str:
        target = edge_of(tensor)[0]
        return target.name if isinstance(target, GradNode) else ""

    def creation_trace(self, tensor: Tensor) -> str | None:
        target = edge_of(tensor)[0]
        return target.trace if isinstance(target, GradNode) else None

    def parents(self, tensor: Tensor) -> tuple[Tensor | GradNode, ...]:
        target = edge_of(tensor)[0]
        return tuple(e[0] for e in target.edges if e is not None) if isinstance(target, GradNode) else ()

    def refuse_in_place(self, tensor: Tensor, what: str) -> None:
        if state.enabled:
            raise RuntimeError(
                f"{what} in place into the result of {tensor.op_name}, which is part of a gradient graph; the gradient "
                "would not see it. "
                "Use where() or masked_fill(), or write into .detach()"
            )

    def writing(self, target: Tensor, value: Tensor, replaces: bool) -> AbstractContextManager[Tensor]:
        return in_place.writing(target, value, replaces)

    def restructured(self, target: Tensor, name: str, view: Callable[[Tensor], Tensor]) -> Tensor:
        return in_place.restructured(target, name, view)

    def detached(self, target: Tensor) -> None:
        in_place.detached(target)

    def assigned(self, target: Tensor, key: Any, value: Any) -> bool:
        return in_place.assigned(target, key, value)

    refuses_prediction = staticmethod(prediction.refuses_prediction)
    is_freed = staticmethod(prediction.is_freed)
    freed_again = staticmethod(prediction.freed_again)
    saves_nothing = staticmethod(prediction.saves_nothing)
    moved = staticmethod(views.moved)
    place_again = staticmethod(views.place_again)


class _Recorded(type):
    """The class of Node: results of recorded ops and tensors that require grad are instances."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Parameter) or (isinstance(value, Tensor) and gradients.is_recorded(value))

    def __subclasscheck__(cls, kind: type) -> bool:
        return kind is cls or issubclass(kind, Parameter)


class Node(Tensor, metaclass=_Recorded):
    """``Node(value)`` gives a Tensor on the storage of ``value`` with a place in the gradient graph; a tensor is an
    instance if a recorded op gave it or if it requires grad.

    ``grad_fn(grad)`` gives one Tensor or None per entry of ``parents``. Without it the tensor is a leaf: its ``grad``
    accumulates if ``requires_grad`` is set. It has the methods of Tensor alone.
    """

    __slots__ = ()

    def __new__(  # type: ignore[misc]
        cls,
        value: Tensor,
        grad_fn: GradFn | None = None,
        parents: Sequence[Tensor] = (),
        grad: Tensor | None = None,
        requires_grad: bool = False,
        creation_trace: str | None = None,
        op_name: str = "",
    ) -> Tensor:
        if not isinstance(value, Tensor):
            raise TypeError(f"Node: expected a Tensor, got {type(value).__name__}; write ag.tensor(data) for arrays")
        node = value.detach()
        gradients.mark_recorded(node)
        node.grad = grad
        node.requires_grad = requires_grad
        if grad_fn is not None and any(parent.requires_grad for parent in parents):
            made = user_step(op_name or "Node", grad_fn, tuple(parents), (node,))
            made.trace = creation_trace or made.trace
            gradients.attach(node, made)
        return node


class Parameter(Tensor):
    """A persistent leaf that requires grad, on the storage of ``value``. Of a leaf it shares ``grad`` too. The result
    of an op is no leaf; a Parameter of it is a new leaf on its storage.
    """

    __slots__ = ()

    def __new__(cls, value: Any = None, requires_grad: bool = True) -> Parameter:
        leaf = super().__new__(cls)
        if value is None:  # a copy: its slots are set afterwards
            return leaf
        gradients.make_leaf(leaf, value if isinstance(value, Tensor) else Tensor.from_host(value))
        return leaf

    def __init__(self, value: Any, requires_grad: bool = True) -> None:
        self.requires_grad = requires_grad
        self.persistent = True

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """Returns a parameter with a copy of the values; as in PyTorch, neither ``grad`` nor attributes are copied."""
        copied = memo[id(self)] = Parameter(self.detach().clone(), self.requires_grad)
        return copied


def tensor(t: Any, requires_grad: bool = False) -> Tensor:
    """Returns ``t`` itself, or other data copied to the active device, as a Node."""
    value = t if isinstance(t, Tensor) else Tensor.from_host(t)
    force((value,))
    gradients.mark_recorded(value)
    if requires_grad:
        value.requires_grad = True
    return value


__all__ = ["Hook", "Methods", "Node", "Parameter", "tensor"]

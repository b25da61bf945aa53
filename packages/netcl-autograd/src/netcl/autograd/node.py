"""Node: a Tensor that knows the op it came from; Parameter: a persistent leaf."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from netcl.autograd.grad_node import GradNode as Step
from netcl.autograd.grad_node import Output, edge_of, user_step
from netcl.autograd.mode import state
from netcl.core import Tensor
from netcl.core.lazy.tracer import touch

GradFn = Callable[..., Any]

# Hooks of leaves, by id: a leaf has no step to keep them, and equality of tensors is elementwise.
_leaf_hooks: dict[int, dict[int, Callable[[Tensor], Tensor | None]]] = {}
_hook_ids = itertools.count()


class Hook:
    """What ``register_hook`` gives back; ``remove()`` takes the hook off."""

    def __init__(self, hooks: dict[int, Callable[[Tensor], Tensor | None]], key: int) -> None:
        self._hooks, self._key = hooks, key

    def remove(self) -> None:
        """Takes the hook off; a second call does nothing."""
        self._hooks.pop(self._key, None)


def hooks_of(leaf: Tensor) -> Sequence[Callable[[Tensor], Tensor | None]]:
    """The hooks of a leaf, in the order they were registered."""
    return tuple(_leaf_hooks.get(id(leaf), {}).values()) if _leaf_hooks else ()


class Node(Tensor):
    """A differentiable value on the storage of ``value``: what recorded ops give.

    ``grad_fn(grad)`` gives one Tensor or None per entry of ``parents``. Without it the node is a leaf: its ``grad``
    accumulates where ``requires_grad`` is set.
    """

    # No slots of its own: a Tensor fresh from an engine becomes a Node by its class alone.
    __slots__ = ()

    def __new__(cls, value: Tensor | None = None, *args: Any, **kwargs: Any) -> Node:
        if value is None:
            return super().__new__(cls)
        if not isinstance(value, Tensor):
            raise TypeError(f"Node takes a Tensor, not {type(value).__name__}; ag.tensor takes arrays too")
        node = value.detach()
        node.__class__ = cls
        return node  # type: ignore[return-value]

    def __init__(
        self,
        value: Tensor,
        grad_fn: GradFn | None = None,
        parents: Sequence[Tensor] = (),
        grad: Tensor | None = None,
        requires_grad: bool = False,
        creation_trace: str | None = None,
        op_name: str = "",
    ) -> None:
        self.grad = grad
        self.requires_grad = requires_grad
        if grad_fn is not None and any(parent.requires_grad for parent in parents):
            step = user_step(op_name or "Node", grad_fn, tuple(parents), (self,))
            step.trace = creation_trace or step.trace
            self.grad_fn = step
            self.requires_grad = True

    @property
    def value(self) -> Tensor:
        """A plain Tensor on the same storage, outside of the graph."""
        return self.detach()

    @property
    def op_name(self) -> str:
        """The op that gave this node; empty for a leaf."""
        edge = edge_of(self)
        return edge[0].name if isinstance(edge[0], Step) else ""

    @property
    def creation_trace(self) -> str | None:
        """Where the op was called, while anomalies are detected."""
        edge = edge_of(self)
        return edge[0].trace if isinstance(edge[0], Step) else None

    @property
    def parents(self) -> tuple[Tensor | Step, ...]:
        """What the gradient flows to: leaves as tensors, other values as the step that made them."""
        edge = edge_of(self)
        return tuple(e[0] for e in edge[0].edges if e is not None) if isinstance(edge[0], Step) else ()

    def backward(self, grad: Any = None, retain_graph: bool = False, create_graph: bool = False) -> None:
        """Adds the gradient of this node to ``grad`` of every leaf that requires it.

        ``grad`` is the gradient of the node itself, of its shape; a node of one element needs none. The graph is
        freed unless ``retain_graph`` (default: ``create_graph``); with ``create_graph`` the gradients can be
        differentiated again.
        """
        from netcl.autograd.backward import backward

        if grad is None and self.size != 1:
            raise RuntimeError(
                f"backward: a node of shape {self.shape} has no one gradient to begin with; pass grad= of that "
                "shape, or sum() it first"
            )
        backward((self,), (grad,), retain=retain_graph or create_graph, create_graph=create_graph)

    def register_hook(self, fn: Callable[[Tensor], Tensor | None]) -> Hook:
        """Calls ``fn(grad)`` when the gradient of this node is known; a Tensor that it returns takes the gradient's
        place.
        """
        if not self.requires_grad:
            raise RuntimeError("register_hook: this node does not require grad, so no gradient will come")
        target, index = edge_of(self)
        key = next(_hook_ids)
        if isinstance(target, Step):
            if target.hooks is None:
                target.hooks = {}
            hooks = target.hooks.setdefault(index, {})
        else:
            if id(self) not in _leaf_hooks:
                weakref.finalize(self, _leaf_hooks.pop, id(self), None).atexit = False
            hooks = _leaf_hooks.setdefault(id(self), {})
        hooks[key] = fn
        return Hook(hooks, key)

    def write(self, data: Any) -> Node:
        self._refuse_in_place("write")
        return super().write(data)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._refuse_in_place("assignment")
        super().__setitem__(key, value)

    def _refuse_in_place(self, what: str) -> None:
        if self.grad_fn is not None and state.enabled:
            raise RuntimeError(
                f"{what} in place into the result of {self.op_name}, which is part of a gradient graph; the gradient "
                "would not see it. "
                "Use where() or masked_fill(), or write into .detach()"
            )

    def __repr__(self) -> str:
        text = super().__repr__()
        op = f", op={self.op_name!r})" if self.grad_fn is not None else ")"
        return type(self).__name__ + text[len("Tensor") : -1] + op


class Parameter(Node):
    """A persistent leaf that requires grad: ``Parameter(t)`` is ``t`` itself, so that storage and grad are shared.

    The result of an op is no leaf; a Parameter of it is a new leaf on its storage.
    """

    __slots__ = ()

    def __new__(cls, value: Any = None, requires_grad: bool = True) -> Parameter:
        if value is None:
            return Tensor.__new__(cls)
        if not isinstance(value, Tensor):
            value = Tensor.from_host(value)
        leaf = value if value.grad_fn is None else value.detach()
        leaf.__class__ = cls
        return leaf  # type: ignore[no-any-return]

    def __init__(self, value: Any, requires_grad: bool = True) -> None:
        self.requires_grad = requires_grad
        self.persistent = True


def tensor(t: Any, requires_grad: bool = False) -> Node:
    """``t`` as a Node: a Tensor becomes one itself, sharing storage and grad; other data are copied to the active
    device.
    """
    value = t if isinstance(t, Tensor) else Tensor.from_host(t)
    if not isinstance(value, Node):
        touch((value,))
        value.__class__ = Node
    if requires_grad:
        value.requires_grad = True
    return value  # type: ignore[return-value]


__all__ = ["Hook", "Node", "Output", "Parameter", "hooks_of", "tensor"]

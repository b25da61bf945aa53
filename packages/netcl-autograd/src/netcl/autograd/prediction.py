"""The gradient graph for predicted training loops: which backward passes can be predicted, and which graphs are freed.

A predicted period runs no function of the program in its backward pass. So passes with hooks, functions of the user or
saved tensors that are packed are not predicted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from netcl.autograd.grad_node import GradNode, Output, edge_of, packing
from netcl.autograd.hooks import accumulated_hooks, leaf_hooks
from netcl.autograd.levels import LEVELS
from netcl.core import Tensor

F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING or "prediction" in LEVELS:
    from netcl.core.graph.trace import force
    from netcl.runtime.prediction import boundary, event, flush, hint, postponing, repetition, settle, trained
else:

    def event(function: F) -> F:
        """Returns the function: nothing predicts its calls."""
        return function

    def force(values: Sequence[Any]) -> None:
        """Does nothing: no value is predicted."""

    def hint(engine: Any = None) -> bool:
        """Returns False: no call is predicted."""
        return False

    def postponing(ends: bool = True) -> AbstractContextManager[None]:
        """Returns an empty block: there are no periods."""
        return nullcontext()

    def boundary(owner: Any, engine: Any) -> None:
        """Does nothing: no period of a loop is predicted."""

    def repetition(module: Any, args: Sequence[Any]) -> None:
        """Does nothing: no period of a loop is predicted."""

    def trained() -> None:
        """Does nothing: no period of a loop is predicted."""

    def flush() -> None:
        """Does nothing: no period of a loop is predicted."""

    def settle(cause: str, reads: bool = False) -> None:
        """Does nothing: nothing is predicted."""


__all__ = [
    "boundary",
    "changes_gradients",
    "event",
    "flush",
    "force",
    "freed_again",
    "hint",
    "is_freed",
    "postponing",
    "refused",
    "refuses_prediction",
    "repetition",
    "saves_nothing",
    "settle",
    "trained",
]


def changes_gradients(function: F) -> F:
    """Makes ``function`` an event that reads or sets ``grad`` of parameters."""
    function.changes_gradients = True  # type: ignore[attr-defined]
    return event(function)


def refused(function: F, refuses: Callable[..., str | None]) -> F:
    """Makes ``function`` an event; ``refuses(leaves, *args, **kwargs)`` returns why a call cannot be predicted, or
    None. ``leaves``: those of a predicted period, whose tensors may be not computed yet; None while it is logged.
    """
    function.refuses = refuses  # type: ignore[attr-defined]
    return event(function)


def refuses_prediction(tensor: Tensor, leaves: Sequence[Tensor] | None) -> str | None:
    """Returns why a backward pass from ``tensor`` cannot be predicted; None if it can. ``leaves``: those of a graph
    that has not been made, where only their hooks are looked at.
    """
    hooked = {leaf for hooks in (leaf_hooks, accumulated_hooks) for leaf, functions in hooks.items() if functions}
    if hooked and not hooked.isdisjoint(map(id, _leaves(tensor) if leaves is None else leaves)):
        return "a hook on the gradient of a leaf"
    if packing:
        return "hooks on saved tensors"
    if leaves is None and not all(map(_is_plain, _nodes(tensor))):
        return "a hook, or a function of the program, in the backward pass"
    return None


def _leaves(tensor: Tensor) -> Iterator[Tensor]:
    edges = [edge_of(tensor), *(edge for node in _nodes(tensor) for edge in node.edges)]
    return (edge[0] for edge in edges if edge is not None and isinstance(edge[0], Tensor))


def _is_plain(node: GradNode) -> bool:
    """Returns True if a node runs functions of netcl alone."""
    if node.hooks or node.retained or node.trace is not None or node.opaque:
        return False
    function = getattr(node.static, "function", node.backward)
    return str(getattr(function, "__module__", "")).startswith("netcl.") and not hasattr(node.static, "grad_fn")


def saves_nothing(tensor: Tensor) -> bool:
    """Returns True if no node below ``tensor`` has a saved tensor."""
    return not any(node.saved for node in _nodes(tensor))


def is_freed(tensor: Tensor) -> bool:
    """Returns True if a backward pass has freed the graph of ``tensor``, so that another one raises."""
    saved = [node.saved for node in _nodes(tensor)]
    return None in saved and not any(saved)


def freed_again(place: Any) -> Any:
    """Returns a copy of the place of a tensor in a graph that is freed, for the tensor of a later period."""
    node = place if type(place) is GradNode else place.node
    again = GradNode(node.op, node.backward, node.edges, (), node.outputs, node.static, node.opaque)
    again.saved = node.saved
    return again if place is node else Output(again, place.index)


def _nodes(tensor: Tensor) -> Iterator[GradNode]:
    seen: set[int] = set()
    stack: list[Any] = [edge_of(tensor)[0]]
    while stack:
        node = stack.pop()
        if isinstance(node, GradNode) and id(node) not in seen:
            seen.add(id(node))
            yield node
            stack.extend(edge[0] for edge in node.edges if edge is not None)

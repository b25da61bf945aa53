"""The place of a tensor in the graph, and the functions of netcl-autograd that the methods of tensors call.

A tensor of a core has the methods ``_share(other)``, which gives it the memory of another, and ``_reshaped(shape)``, a
view of a shape outside of the graph, and the attributes of `netcl_core_kit.tensor.TensorBase`.
"""

from __future__ import annotations

import threading
from contextlib import nullcontext
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

__all__ = [
    "Gradients", "alias", "attach", "become", "is_recorded", "make_leaf", "mark_recorded", "methods", "register",
    "set_view", "take_history", "take_kept", "view_of",
]  # fmt: skip

Gradients = Any
_methods: list[Any] = [None]
_loading = threading.Lock()


def register(gradients: Gradients) -> None:
    """Makes ``gradients`` what the gradient methods of tensors call."""
    _methods[0] = gradients


def methods() -> Any:
    """The registered methods, after the packages of the entry points netcl.gradients are imported; ImportError if none is
    installed.
    """
    if _methods[0] is None and _loading.acquire(blocking=False):
        try:
            for point in entry_points(group="netcl.gradients"):
                import_module(point.value)
        finally:
            _loading.release()
    if _methods[0] is None:
        raise ImportError("gradients are computed by netcl-autograd: pip install netcl-autograd")
    return _methods[0]


def load() -> None:
    """Imports netcl-autograd if it is installed."""
    if _methods[0] is None:
        try:
            methods()
        except ImportError:
            return


def writing(target: Any, value: Any, replaces: bool) -> Any:
    """The scope in which a write in place is recorded; its value is what has to be stored."""
    found = _methods[0]
    return nullcontext(value) if found is None else found.writing(target, value, replaces)


def alias(tensor: Any, shape: tuple[int, ...]) -> Any:
    """A tensor of ``shape`` on the same storage, outside of the graph."""
    return tensor._reshaped(shape)


def attach(tensor: Any, grad_fn: Any) -> None:
    """Makes ``tensor`` a result whose gradient ``grad_fn`` carries further."""
    tensor._requires_grad, tensor.grad_fn, tensor._recorded = True, grad_fn, True


def mark_recorded(tensor: Any) -> None:
    """Notes that a recorded op gave ``tensor``."""
    tensor._recorded = True


def is_recorded(tensor: Any) -> bool:
    """True if a recorded op gave ``tensor``, or it requires grad."""
    return bool(tensor._recorded or tensor._requires_grad)


def become(tensor: Any, result: Any) -> None:
    """Gives ``tensor`` the storage, the shape and the place in the graph of ``result``."""
    tensor._share(result)
    take_history(tensor, result)


def take_history(tensor: Any, source: Any) -> None:
    """Gives ``tensor`` the place of ``source`` in the graph."""
    tensor._requires_grad, tensor.grad_fn, tensor._recorded = source._requires_grad, source.grad_fn, source._recorded


def make_leaf(leaf: Any, value: Any) -> None:
    """Puts the fresh tensor ``leaf`` on the storage of ``value``; if that is a leaf too, they share the gradient."""
    leaf._share(value)
    if value.grad_fn is None:
        value._cell = value._cell or [None]
        leaf._cell = value._cell


def take_kept(tensor: Any) -> Any:
    """What the call that gave ``tensor`` keeps for its gradient, None for nothing; ``tensor`` forgets it."""
    found = tensor._kept
    if found is not None:
        tensor._kept = None
    return found


def set_view(tensor: Any, view: Any) -> None:
    """Tracks ``tensor`` as ``view``, an object of netcl-autograd."""
    tensor._view = view


def view_of(tensor: Any) -> Any:
    """The view that netcl-autograd has tracked ``tensor`` as; None for none."""
    return tensor._view

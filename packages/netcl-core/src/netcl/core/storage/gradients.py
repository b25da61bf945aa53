"""The place of a tensor in the gradient graph, and the registration of what computes gradients: netcl-autograd.

A tensor keeps its place in the graph in one slot: None, the function that carries its gradient further, or a mark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from netcl.core.storage.storage import lock


class Mark:
    """A state of the slot other than a function; ``pending.settle(cause)`` makes the function, if there is one."""

    def __init__(self, meaning: str, pending: Any = None) -> None:
        self.meaning = meaning
        self.pending: Any = pending

    def __repr__(self) -> str:
        return f"<{self.meaning}>"


RECORDED = Mark("given by a recorded op, without a gradient")
LATER = Mark("known once the deferred storage is computed")


def view_of(tensor: Any) -> Any:
    """Returns the view that netcl-autograd has tracked ``tensor`` as; None for none."""
    return tensor._base


def set_view(tensor: Any, view: Any) -> None:
    """Tracks ``tensor`` as ``view``, an object of netcl-autograd."""
    tensor._base = view


def take_kept(tensor: Any) -> Any:
    """Returns what ``tensor``'s call has kept for its gradient, once: None, as netcl-autograd has the rules."""
    return None


def become(tensor: Any, result: Any) -> None:
    """Gives ``tensor`` the storage, the shape and the place in the graph of ``result``."""
    tensor._storage, tensor.shape, tensor._base = result._storage, result.shape, result._base
    take_history(tensor, result)


def take_history(tensor: Any, source: Any) -> None:
    """Gives ``tensor`` the place of ``source`` in the graph."""
    tensor._requires_grad, tensor._grad_fn = source._requires_grad, source._grad_fn


def alias(tensor: Any, shape: tuple[int, ...]) -> Any:
    """Returns a tensor of ``shape`` on the same storage, outside of the graph."""
    return tensor._alias(shape)


class Gradients(Protocol):
    """The functions that the gradient methods of tensors call."""

    def backward(self, tensor: Any, grad: Any, retain_graph: bool, create_graph: bool, inputs: Any) -> None:
        """Adds the gradient of ``tensor`` to ``grad`` of every leaf that requires it, or of the leaves ``inputs``."""
        ...

    def register_hook(self, tensor: Any, fn: Any) -> Any:
        """Has ``fn(grad)`` called when the gradient of ``tensor`` is known; returns a handle with ``remove()``."""
        ...

    def retain_grad(self, tensor: Any) -> None:
        """Makes backward passes keep the gradient of ``tensor`` in its ``grad``; RuntimeError if it requires none."""
        ...

    def retains_grad(self, tensor: Any) -> bool:
        """True if ``retain_grad`` was called on ``tensor``, which is no leaf."""
        ...

    def register_post_accumulate_grad_hook(self, tensor: Any, fn: Any) -> Any:
        """Has ``fn(tensor)`` called after a backward pass has added to the gradient of a leaf; a handle as above."""
        ...

    def op_name(self, tensor: Any) -> str:
        """The op that gave ``tensor``; empty for a leaf."""
        ...

    def creation_trace(self, tensor: Any) -> str | None:
        """The place in the code where that op was called, while anomalies are detected."""
        ...

    def parents(self, tensor: Any) -> tuple[Any, ...]:
        """The leaves and nodes that the gradient of ``tensor`` flows to."""
        ...

    def refuse_in_place(self, tensor: Any, what: str) -> None:
        """RuntimeError if ``tensor``, the result of a recorded op, must not be written in place now."""
        ...

    def writing(self, target: Any, value: Any, replaces: bool) -> AbstractContextManager[Any]:
        """A scope in which ``target`` is written in place with ``value``, or what it gives in its place: ``target`` is
        then the result of the op that gave ``value``, or with ``replaces`` a copy of ``value``. RuntimeError if
        ``target`` must not be written.
        """
        ...

    def restructured(self, target: Any, name: str, view: Any) -> Any:
        """Makes ``target`` the result of ``view(target)``; ``name`` is for errors. Returns ``target``."""
        ...

    def detached(self, target: Any) -> None:
        """RuntimeError if ``target`` is a view or has views in the graph, so that it cannot be taken out in place."""
        ...

    def refuses_prediction(self, tensor: Any, leaves: Sequence[Any] | None) -> str | None:
        """Returns why a backward pass from ``tensor`` cannot be predicted, as one with hooks or functions of the user;
        None if it can. ``leaves``: those of a graph that has not been made, where nothing else is looked at.
        """
        ...

    def moved(self, tensor: Any, result: Any) -> None:
        """Notes that ``tensor`` has taken the place of ``result`` in the graph, among views too."""
        ...

    def freed_again(self, place: Any) -> Any:
        """Returns a copy of the place of a tensor in a graph that is freed, for the tensor of a later period."""
        ...

    def place_again(self, place: Any, tensor: Any, groups: dict[int, Any]) -> Any:
        """Returns the place among views of ``tensor``, which has the part of one with ``place`` in a later period;
        ``groups`` has the groups of views of that period so far.
        """
        ...

    def saves_nothing(self, tensor: Any) -> bool:
        """True if nothing is saved in the graph of ``tensor``, or no more: a graph of other values would be equal."""
        ...

    def is_freed(self, tensor: Any) -> bool:
        """True if backward passes have freed the graph of ``tensor``, or it has none."""
        ...

    def assigned(self, target: Any, key: Any, value: Any) -> bool:
        """Records and runs ``target[key] = value``; False if there is nothing to record."""
        ...


_registered: Gradients | None = None
_looked_up = False


def register(gradients: Gradients) -> None:
    """Makes ``gradients`` what the gradient methods of tensors call; netcl.autograd does so when it is imported."""
    global _registered
    _registered = gradients


def find() -> Gradients | None:
    """The registered functions; if there are none, the packages of the entry-point group ``netcl.gradients`` are
    imported, once. None if nothing registers itself.
    """
    global _looked_up
    if _registered is None and not _looked_up:
        from importlib.metadata import entry_points  # takes longer to import than a first op on NumPy

        for entry in entry_points(group="netcl.gradients"):
            entry.load()
        _looked_up = True
    return _registered


def registered() -> Gradients | None:
    """The registered functions; None if nothing has registered itself yet."""
    return _registered


def load() -> Gradients:
    """``find()``; ImportError with the command that installs netcl-autograd if there is none."""
    functions = find()
    if functions is None:
        raise ImportError("gradients need netcl-autograd, which is not installed: pip install netcl-autograd")
    return functions


def attach(tensor: Any, grad_fn: Any) -> None:
    """Makes ``tensor``, referenced by the caller alone, a result: ``grad_fn`` carries its gradient further."""
    tensor._requires_grad = True
    tensor._grad_fn = grad_fn


def mark_recorded(tensor: Any) -> None:
    """Notes that a recorded op gave ``tensor``."""
    if tensor._grad_fn is None:
        tensor._grad_fn = RECORDED


def is_recorded(tensor: Any) -> bool:
    """True if a recorded op gave ``tensor``, or it requires grad."""
    return tensor._requires_grad or tensor._grad_fn is not None


def grad_fn_of(tensor: Any) -> Any:
    """``grad_fn`` of a tensor: if its slot has a mark None, or what the computation of its storage leaves there."""
    made = tensor._grad_fn
    if type(made) is Mark:
        if made is LATER:
            with lock:  # another thread may be in the middle of computing it
                tensor._storage.materialize()
        elif made.pending is not None:
            made.pending.settle("a place in the graph was used")
        made = tensor._grad_fn
    return None if type(made) is Mark else made


class Shared:
    """The gradient of several leaves on one storage, a tensor and the Parameter made of it.

    ``value`` is the gradient, which code reads without ``grad`` if there is no ``before_use`` and nothing is
    ``watched``. ``first_use`` is "read", "cleared" (set to None) or "set" after the first use since ``watch``, else
    None. A function in ``before_use`` is called before each use: the gradient may still have to be computed.
    """

    __slots__ = ("before_use", "first_use", "value", "watched")

    def __init__(self, grad: Any) -> None:
        self.value: Any = grad
        self.watched = False
        self.before_use: Callable[[], None] | None = None
        self.first_use: str | None = None

    def watch(self) -> None:
        """Begins to wait for the first use."""
        self.watched, self.first_use = True, None

    @property
    def grad(self) -> Any:
        """The gradient."""
        if self.before_use is not None:
            self.before_use()
        if self.watched:
            self.watched, self.first_use = False, "read"
        return self.value

    @grad.setter
    def grad(self, grad: Any) -> None:
        if self.before_use is not None:
            self.before_use()
        if self.watched:
            self.watched, self.first_use = False, "cleared" if grad is None else "set"
        self.value = grad


def held_by(tensor: Any) -> Any:
    """Returns ``grad`` of ``tensor`` as it is stored, which is no use of it."""
    held = tensor._grad
    return held.value if type(held) is Shared else held


def hold(tensor: Any, grad: Any) -> None:
    """Stores ``grad`` of ``tensor``, which is no use of it."""
    if type(tensor._grad) is Shared:
        tensor._grad.value = grad
    else:
        tensor._grad = grad


def make_leaf(leaf: Any, value: Any) -> None:
    """Puts the fresh tensor ``leaf`` on the storage of ``value``; if that is a leaf too, they share the gradient."""
    alias = value.detach()
    leaf._begin(alias.engine, alias._storage, alias.shape, alias.dtype)
    if value.grad_fn is None:
        leaf._grad = value._grad = value._grad if type(value._grad) is Shared else Shared(value._grad)

"""In-place writes in the gradient graph: the tensor that is written becomes the result of the op."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from netcl.autograd import views
from netcl.autograd.grad_node import (
    Edge,
    GradContext,
    GradNode,
    Grads,
    belongs_again,
    edge_of,
    edges_of,
    retain_grad,
    retains_grad,
)
from netcl.autograd.mode import state
from netcl.autograd.recompute import keep_values
from netcl.core import Tensor
from netcl.core.errors import UnsupportedError
from netcl.core.ops_table import dispatch
from netcl.core.storage.gradients import alias, become, set_view, take_history, view_of
from netcl.core.storage.views import check_writable
from netcl.core.tensor import in_place
from netcl.ops.keys import is_array, spread


@contextmanager
def writing(target: Tensor, value: Tensor, replaces: bool) -> Iterator[Tensor]:
    """Yields a tensor, which the caller stores in the memory of ``target`` in this scope. ``value`` is the result of an
    op; with ``replaces`` it is any tensor, and a copy of it is the op.
    """
    view = view_of(target)
    in_view = type(view) is views.View
    if view is in_place.DATA:
        keep_values()
    if not state.enabled or not (value.requires_grad or _takes_part(target)):
        yield value
        return
    refuse_leaf(target)
    check_writable(target)
    if in_view:
        views.check(view)
    if value.dtype != target.dtype and value.requires_grad:
        value = value.astype(target.dtype)
    if value.shape != target.shape and value.requires_grad:
        value = dispatch.call("expand", value, target.shape, record=True)
    outputs: list[int] = []
    if replaces or not value.requires_grad:
        step = GradNode("copy", _copied, edges_of((target, value)), (), 1)
        edge: Edge = step, 0
    else:
        edge = edge_of(value)
        if isinstance(edge[0], GradNode):
            step = edge[0]
            outputs = _keep_saved(step, target, value)
        else:
            step = GradNode("copy", _copied, (None, edge), (), 1)
            edge = step, 0
    yield value
    if in_view:
        views.rebase(view, edge)
    else:
        belongs_again(target, step, edge[1])
        if type(view) is views.Group:
            views.renew(view)
    if state.tape is not None:
        state.tape.nodes.append(target)
    _save_again(step, outputs, target)


def assigned(target: Tensor, key: Any, value: Any) -> bool:
    """Records and runs ``target[key] = value``; False if there is nothing to record."""
    if view_of(target) is in_place.DATA:
        keep_values()
    if not state.enabled or not (_takes_part(target) or (isinstance(value, Tensor) and value.requires_grad)):
        return False
    refuse_leaf(target)
    items = spread("setitem", key, target.shape)
    if not any(map(is_array, items)):
        if view_of(target) is in_place.DATA:
            set_view(target, None)  # the graph of the data is its own, and its views are views of it
        in_place.copy(target[key], value, "assignment")
        return True
    if any(item is None for item in items):
        raise UnsupportedError(
            "assignment to a key with arrays and None has no gradient; reshape the tensor and leave None out"
        )
    in_place.write(target, dispatch.call("index_put", target, items, value, record=True))
    return True


def restructured(target: Tensor, name: str, view: Callable[[Tensor], Tensor]) -> Tensor:
    """Makes ``target`` the result of ``view(target)``; its views and the tensor that it is a view of stay so."""
    is_leaf = target.grad_fn is None
    if state.enabled and target.requires_grad and is_leaf:
        refuse_leaf(target)
    if not state.enabled and not is_leaf:
        raise RuntimeError(
            f"{name} changes the shape of the result of {target.op_name} while grad is disabled, so that its gradient "
            f"would have another shape; write x = x.{name[:-1]}(...), or x.detach() first"
        )
    place = view_of(target)
    if type(place) is views.View and state.enabled and _takes_part(target):
        views.check(place)
    old = alias(target, target.shape)
    take_history(old, target)
    set_view(old, place)
    if type(place) is views.Group:
        place.base = weakref.ref(old)
        place.keep_edge(old)
    elif type(place) is views.View:
        place.group.add(old)
    kept = retains_grad(target)
    requires, grad = target.requires_grad, target.grad
    result = view(old)
    if kept:
        node, index = edge_of(target)
        node.retained.pop(index)  # type: ignore[union-attr]
    become(target, result)
    if is_leaf:
        target.requires_grad = requires
    if place is None:
        set_view(target, None)  # nothing else sees the view
    else:
        views.track_alias(target, result)
    target.grad = grad
    if kept:
        retain_grad(target)
    return target


def detached(target: Tensor) -> None:
    """Raises RuntimeError if ``target`` is a view, or if a view of it is in the graph."""
    place = view_of(target)
    if type(place) is views.View:
        raise RuntimeError("detach_: a view cannot be detached in place; write x = x.detach()")
    if type(place) is views.Group and any(view.requires_grad for ref in place.members if (view := ref()) is not None):
        raise RuntimeError("detach_: views of this tensor are in the gradient graph; write x = x.detach()")


def refuse_leaf(target: Tensor) -> None:
    """Raises RuntimeError if ``target`` is a leaf that requires grad."""
    if target.requires_grad and target.grad_fn is None:
        raise RuntimeError(
            "a leaf tensor that requires grad is written in place while grad is enabled; write under no_grad(), or "
            "into a clone()"
        )


def _takes_part(target: Tensor) -> bool:
    """True if ``target`` is in the graph, or what it is a view of."""
    view = view_of(target)
    return target.requires_grad or (type(view) is views.View and view.group.base_edge() is not None)


def _keep_saved(step: GradNode, target: Tensor, value: Tensor) -> list[int]:
    """Saves a copy of what ``step`` has saved of ``target``; returns the positions of saved outputs. As in PyTorch,
    ``target`` as a second operand too is not copied: ``x *= x`` makes backward raise.
    """
    outputs: list[int] = []
    kept: list[Any] = list(step.saved or ())
    copied = False
    for position, tensor in enumerate(kept):
        if not isinstance(tensor, Tensor):  # what a core has kept
            tensor.separate(target)
        elif tensor.storage_id == target.storage_id:
            if copied:
                continue
            copied = True
            copy = kept[position] = dispatch.call("clone", tensor.detach(), record=False)
            take_history(copy, tensor)
            step.versions[position] = copy.version
        elif tensor.storage_id == value.storage_id and tensor.dtype == target.dtype:
            outputs.append(position)
    if step.saved is not None:
        step.saved = tuple(kept)
    return outputs


def _save_again(step: GradNode, outputs: Sequence[int], target: Tensor) -> None:
    """Saves ``target`` in the place of the result that has been copied into it."""
    if not outputs or step.saved is None:
        return
    kept = list(step.saved)
    for position in outputs:
        kept[position] = alias(target, kept[position].shape)
        step.versions[position] = target.version
    step.saved = tuple(kept)


def _copied(context: GradContext, node: GradNode, grads: list[Any], wanted: Sequence[bool]) -> Grads:
    """Zeros for what was overwritten, the gradient for what was written."""
    (grad,) = grads
    zeros = grad.engine.zeros(grad.shape, grad.dtype) if wanted[0] else None
    return zeros, grad if wanted[1] else None

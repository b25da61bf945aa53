"""In-place writes in the gradient graph: the tensor that is written becomes the result of the op."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from netcl.autograd.grad_node import GradContext, GradNode, Grads, belongs, edge_of, edges_of
from netcl.autograd.mode import state
from netcl.core import Tensor, dispatch


@contextmanager
def writing(target: Tensor, value: Tensor, replaces: bool) -> Iterator[Tensor]:
    """A scope in which the caller stores the tensor that it is given in the memory of ``target``.

    ``value`` is the result of an op; with ``replaces`` it is any tensor, and a copy of it is the op.
    """
    if not state.enabled:
        yield value
        return
    if target.requires_grad and target.grad_fn is None:
        raise RuntimeError(
            "a leaf tensor that requires grad is written in place while grad is enabled; write under no_grad(), or "
            "into a clone()"
        )
    if value.dtype != target.dtype and value.requires_grad:
        value, replaces = value.astype(target.dtype), False
    if value.shape != target.shape and value.requires_grad:
        value, replaces = dispatch.call("expand", value, target.shape, record=True), False
    if replaces or not value.requires_grad:
        step = GradNode("copy", _copied, edges_of((target, value)), (), 1)
        yield value
        _belongs(target, (step, 0))
        return
    edge = edge_of(value)
    step = edge[0] if isinstance(edge[0], GradNode) else GradNode("copy", _copied, (None, edge), (), 1)
    outputs = _keep_saved(step, target, value)
    yield value
    _belongs(target, (step, max(edge[1], 0)))
    _save_again(step, outputs, target)


def _belongs(target: Tensor, edge: tuple[GradNode, int]) -> None:
    belongs(target, *edge)
    if state.tape is not None:
        state.tape.nodes.append(target)


def _keep_saved(step: GradNode, target: Tensor, value: Tensor) -> list[int]:
    """Saves copies of what ``step`` has saved of ``target``; returns the positions of saved outputs."""
    outputs: list[int] = []
    kept = list(step.saved or ())
    for position, tensor in enumerate(kept):
        if tensor.storage_id == target.storage_id:
            kept[position] = dispatch.call("clone", tensor.detach(), record=False)
            step.versions[position] = kept[position].version
            _mark(tensor, kept[position])
        elif tensor.storage_id == value.storage_id and tensor.dtype == target.dtype:
            outputs.append(position)
    if step.saved is not None:
        step.saved = tuple(kept)
    return outputs


def _mark(tensor: Tensor, kept: Tensor) -> None:
    """Gives the copy of a saved tensor its place in the graph, for second derivatives."""
    kept._requires_grad = tensor._requires_grad
    kept._grad_fn = tensor._grad_fn


def _save_again(step: GradNode, outputs: Sequence[int], target: Tensor) -> None:
    """Saves ``target`` in the place of the result that has been copied into it."""
    if not outputs or step.saved is None:
        return
    kept = list(step.saved)
    for position in outputs:
        kept[position] = target._alias(kept[position].shape)
        step.versions[position] = target.version
    step.saved = tuple(kept)


def _copied(context: GradContext, node: GradNode, grads: list[Any], wanted: Sequence[bool]) -> Grads:
    """Zeros for what was overwritten, the gradient for what was written."""
    (grad,) = grads
    zeros = grad.engine.zeros(grad.shape, grad.dtype) if wanted[0] else None
    return zeros, grad if wanted[1] else None


__all__ = ["writing"]

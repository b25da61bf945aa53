"""Gradient checkpointing: a function keeps only its inputs and is computed again in the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from netcl.autograd.backward import BackwardPass
from netcl.autograd.function import recorded
from netcl.autograd.grad_node import FLOATING, GradContext, GradNode, Grads, edges_of
from netcl.autograd.mode import enable_grad, no_grad, state
from netcl.autograd.node import Node
from netcl.core import Tensor
from netcl.core.ops_table import modes
from netcl.ops.random import drawing_at, get_rng_state


class _Static(NamedTuple):
    """``args`` have None in the ``places`` of tensors, which the node saves."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    places: tuple[int, ...]
    rng: dict[str, int]
    modes: tuple[Hashable, ...]


def checkpoint(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Returns ``fn(*args, **kwargs)``; its intermediate values are freed, and computed again for the gradient.

    The second run repeats random numbers exactly, under the same autocast. ``fn`` returns a Tensor or a tuple of them;
    parameters that it uses get their gradients too.
    """
    if not state.enabled:
        return fn(*args, **kwargs)
    rng = get_rng_state()
    with no_grad():
        result = fn(*args, **kwargs)
    results = result if isinstance(result, tuple) else (result,)
    places = tuple(position for position, arg in enumerate(args) if isinstance(arg, Tensor))
    inputs = tuple(args[position] for position in places)
    kept = tuple(None if isinstance(arg, Tensor) else arg for arg in args)
    static = _Static(fn, kept, kwargs, places, rng, modes.current())
    node = GradNode("checkpoint", _run_again, edges_of(inputs), inputs, len(results), static, opaque=True)
    outputs = recorded(results, node)
    return tuple(outputs) if isinstance(result, tuple) else outputs[0]


def _run_again(context: GradContext, node: GradNode, grads: list[Tensor | None], wanted: Sequence[bool]) -> Grads:
    if context.create_graph:
        raise RuntimeError(
            "checkpoint: a graph of the gradients cannot go through a checkpoint; call the function itself"
        )
    saved = node.unpack()
    static: _Static = node.static
    args, inputs = list(static.args), []
    for position, tensor in zip(static.places, saved):
        args[position] = Node(tensor, requires_grad=tensor.requires_grad and tensor.dtype in FLOATING)
        inputs.append(args[position])
    with drawing_at(static.rng), enable_grad(), modes.restored(static.modes):
        result = static.function(*args, **static.kwargs)
    results = result if isinstance(result, tuple) else (result,)
    pairs = [(r, g) for r, g in zip(results, grads) if g is not None and r.requires_grad]
    gradients: dict[int, Tensor] = {}
    mine = {id(tensor) for tensor in inputs}

    def sink(leaf: Tensor, grad: Tensor) -> None:
        if id(leaf) in mine:
            gradients[id(leaf)] = grad
        else:  # a parameter that the function uses
            context.sink(leaf, grad)

    inner = BackwardPass(retain=False, create_graph=False, sink=sink)
    inner.accumulates = context.accumulates
    inner.run([r for r, _ in pairs], [g for _, g in pairs])
    for grad in grads:
        if grad is not None:
            context.borrow(grad)
    return [gradients.get(id(tensor)) if wants else None for tensor, wants in zip(inputs, wanted)]

"""Checkpointing: a part of the computation that keeps only its inputs and is computed again in the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from netcl.autograd.function import _as_nodes
from netcl.autograd.grad_node import FLOATING, Grads, Step, edges_of
from netcl.autograd.mode import enable_grad, no_grad, state
from netcl.autograd.node import Node
from netcl.core import Tensor
from netcl.ops import get_rng_state, set_rng_state

if TYPE_CHECKING:
    from netcl.autograd.backward import Walk


class _Recorded(NamedTuple):
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    places: tuple[int, ...]
    rng: dict[str, int]
    autocast: str | None


def checkpoint(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``fn(*args, **kwargs)``, whose intermediate values are dropped and computed again when the gradient needs them.

    Random draws repeat exactly, and autocast is as it was. ``fn`` gives a Tensor or a tuple of them; parameters that it
    uses get their gradients too.
    """
    if not state.enabled:
        return fn(*args, **kwargs)
    from netcl.amp.autocast import autocast_dtype

    rng = get_rng_state()
    with no_grad():
        result = fn(*args, **kwargs)
    results = result if isinstance(result, tuple) else (result,)
    places = tuple(position for position, arg in enumerate(args) if isinstance(arg, Tensor))
    inputs = tuple(args[position] for position in places)
    kept = tuple(None if isinstance(arg, Tensor) else arg for arg in args)
    static = _Recorded(fn, kept, kwargs, places, rng, autocast_dtype())
    step = Step("checkpoint", _run_again, edges_of(inputs), inputs, len(results), static, opaque=True)
    nodes = _as_nodes(results, step)
    return tuple(nodes) if isinstance(result, tuple) else nodes[0]


def _run_again(walk: Walk, step: Step, grads: list[Tensor | None], wanted: Sequence[bool]) -> Grads:
    from netcl.amp.autocast import autocast
    from netcl.autograd.backward import Walk as Inner

    if walk.create_graph:
        raise RuntimeError(
            "checkpoint: a graph of the gradients cannot go through a checkpoint; call the function itself"
        )
    saved = step.unpack()
    recorded: _Recorded = step.static
    args, inputs = list(recorded.args), []
    for position, tensor in zip(recorded.places, saved):
        args[position] = Node(tensor, requires_grad=tensor.requires_grad and tensor.dtype in FLOATING)
        inputs.append(args[position])
    now = get_rng_state()
    set_rng_state(recorded.rng)
    try:
        with enable_grad(), autocast(recorded.autocast is not None, recorded.autocast or "float16"):
            result = recorded.function(*args, **recorded.kwargs)
    finally:
        set_rng_state(now)
    results = result if isinstance(result, tuple) else (result,)
    pairs = [(r, g) for r, g in zip(results, grads) if g is not None and r.requires_grad]
    found: dict[int, Tensor] = {}
    mine = {id(node) for node in inputs}

    def sink(leaf: Tensor, grad: Tensor) -> None:
        if id(leaf) in mine:
            found[id(leaf)] = grad
        else:  # a parameter that the function uses
            walk.sink(leaf, grad)

    inner = Inner(retain=False, create_graph=False, sink=sink)
    inner.run([r for r, _ in pairs], [g for _, g in pairs])
    for grad in grads:
        if grad is not None:
            walk.borrow(grad)
    return [found.get(id(node)) if wants else None for node, wants in zip(inputs, wanted)]


__all__ = ["checkpoint"]

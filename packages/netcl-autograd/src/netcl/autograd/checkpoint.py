"""Gradient checkpointing: a function keeps only its inputs and is computed again in the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from typing import Any

from netcl.autograd.backward import Pass, finished, inner_pass
from netcl.autograd.function import recorded
from netcl.autograd.grad_node import FLOATING, GradContext, GradNode, Grads, edges_of
from netcl.autograd.mode import enable_grad, no_grad, state
from netcl.autograd.node import Node
from netcl.autograd.prediction import Carried, carries, event
from netcl.core import Tensor
from netcl.core.ops_table import modes
from netcl.ops.random import drawing_at, get_rng_state


class _Again(Carried):
    """A call that is run again: ``args`` have None in the ``places`` of tensors, which the node saves."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    places: tuple[int, ...]
    rng: dict[str, int]
    modes: tuple[Hashable, ...]

    def run_backward(self, outer: Pass, saved: Sequence[Tensor], grads: Sequence[Tensor | None]) -> Any:
        """Returns the gradients of the saved arguments."""
        args, inputs = list(self.args), []
        for position, tensor in zip(self.places, saved):
            args[position] = _leaf_of(tensor)
            inputs.append(args[position])
        with drawing_at(self.rng), enable_grad(), modes.restored(self.modes):
            result = self.function(*args, **self.kwargs)
        results = result if isinstance(result, tuple) else (result,)
        pairs = [(r, g) for r, g in zip(results, grads) if g is not None and r.requires_grad]
        return inner_pass(outer, [r for r, _ in pairs], [g for _, g in pairs], grads, inputs)


@carries
def _new_call() -> _Again:
    return _Again()


@event
def _leaf_of(tensor: Tensor) -> Tensor:
    """Returns a leaf on the storage of ``tensor``."""
    return Node(tensor, requires_grad=tensor.requires_grad and tensor.dtype in FLOATING)


@event
def _recorded(call: _Again, inputs: Sequence[Tensor], results: Sequence[Any]) -> list[Any]:
    """Returns the results of a call in the graph."""
    node = GradNode("checkpoint", _run_again, edges_of(inputs), tuple(inputs), len(results), call, opaque=True)
    return recorded(results, node)


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
    call = _new_call()
    call.function, call.args, call.kwargs = fn, kept, kwargs
    call.places, call.rng, call.modes = places, rng, modes.current()
    outputs = _recorded(call, inputs, results)
    return tuple(outputs) if isinstance(result, tuple) else outputs[0]


def _run_again(context: GradContext, node: GradNode, grads: list[Tensor | None], wanted: Sequence[bool]) -> Grads:
    return finished(_steps_of_call(context, node, grads, wanted))


def _steps_of_call(
    context: GradContext, node: GradNode, grads: list[Tensor | None], wanted: Sequence[bool]
) -> Generator[tuple[Any, ...], Any, Grads]:
    if context.create_graph:
        raise RuntimeError(
            "checkpoint: a graph of the gradients cannot go through a checkpoint; call the function itself"
        )
    run: Pass = getattr(context, "run_by", None) or Pass(context)
    found = yield "call", node.static, run, tuple(node.unpack()), tuple(grads)
    return [grad if wants else None for grad, wants in zip(found, wanted)]


_run_again.steps = _steps_of_call  # type: ignore[attr-defined]

"""Ops of the user's own: a function with its gradient, as a pair (apply_op) or as a class (Function)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netcl.autograd.grad_node import FLOATING, Fact, Grads, Step, belongs, checked, edges_of, user_step
from netcl.autograd.mode import no_grad, state
from netcl.autograd.node import Node
from netcl.core import Tensor

if TYPE_CHECKING:
    from netcl.autograd.backward import Walk
    from netcl.autograd.tape import Tape


def _as_nodes(results: Sequence[Any], step: Step | None, constant: Sequence[int] = ()) -> list[Any]:
    """Fresh nodes on the storage of ``results``, outputs of ``step`` where they are floating."""
    nodes: list[Any] = []
    for index, result in enumerate(results):
        if not isinstance(result, Tensor):
            nodes.append(result)
            continue
        node = Node(result)
        if step is not None and node.dtype in FLOATING and id(result) not in constant:
            belongs(node, step, index)
            if state.tape is not None:
                state.tape.nodes.append(node)
        nodes.append(node)
    return nodes


def _records(parents: Sequence[Tensor]) -> bool:
    return state.enabled and any(parent.requires_grad and parent.dtype in FLOATING for parent in parents)


def apply_op(
    fn: Callable[..., Any],
    grad_fn: Callable[..., Any],
    *args: Any,
    tape: Tape | None = None,
    op_name: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Node:
    """``fn(*args, **attrs)`` as one recorded op: ``grad_fn(grad)`` gives a Tensor or None for each Tensor among
    ``args``.

    What ``fn`` calls is not recorded. ShapeError names the op where a gradient does not fit its parent.
    """
    parents = tuple(arg for arg in args if isinstance(arg, Tensor))
    with no_grad():
        result = fn(*args, **(attrs or {}))
    outer = state.tape
    state.tape = tape if tape is not None else outer
    try:
        name = op_name or getattr(fn, "__name__", "apply_op")
        step = user_step(name, grad_fn, parents, (result,)) if _records(parents) else None
        return _as_nodes([result], step)[0]  # type: ignore[no-any-return]
    finally:
        state.tape = outer


class Context:
    """What ``forward`` of a Function leaves for its ``backward``: any attributes, and tensors by
    ``save_for_backward``.
    """

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self._saved: tuple[Tensor, ...] = ()
        self._constant: tuple[int, ...] = ()

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keeps inputs, outputs or other tensors; writing into one of them before the backward pass raises there."""
        self._saved = tensors

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]:
        """The tensors that ``save_for_backward`` was given."""
        return self._saved

    def mark_non_differentiable(self, *outputs: Tensor) -> None:
        """Says that these outputs have no gradient."""
        self._constant = tuple(id(output) for output in outputs)


@dataclass(frozen=True)
class _Recorded:
    function: type[Function]
    context: Context
    facts: tuple[Fact, ...]
    tensors: tuple[int, ...]
    count: int
    outputs: dict[int, int]


class Function:
    """An op as a class: ``forward(ctx, *args)`` and ``backward(ctx, *grads)``, both static; ``Name.apply(*args)``
    calls it.

    ``backward`` gives one gradient or None per argument of ``forward``. It is differentiable itself where it uses
    recorded ops.
    """

    # (*args, **kwargs) is what type checkers let a subclass replace by parameters of its own.
    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """``forward(ctx, *args)`` computes the result; nothing in it is recorded."""
        raise TypeError("a Function needs a static method forward(ctx, *args)")

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Any:
        """The gradients of the arguments for the gradients of the results."""
        raise TypeError("a Function needs a static method backward(ctx, *grads)")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Runs ``forward`` and records the call."""
        places = tuple(position for position, arg in enumerate(args) if isinstance(arg, Tensor))
        parents = tuple(args[position] for position in places)
        records = _records(parents)
        needs = tuple(records and isinstance(a, Tensor) and a.requires_grad and a.dtype in FLOATING for a in args)
        context = Context(needs)
        with no_grad():
            result = cls.forward(context, *args)
        results = result if isinstance(result, tuple) else (result,)
        step = None
        if records:
            owners = {id(output): index for index, output in enumerate(results)}
            outputs = {at: owners[id(t)] for at, t in enumerate(context._saved) if id(t) in owners}
            saved = tuple(t.detach() if at in outputs else t for at, t in enumerate(context._saved))
            context._saved = ()
            facts = tuple(Fact(t.shape, t.dtype, t.queue) for t in parents)
            static = _Recorded(cls, context, facts, places, len(args), outputs)
            step = Step(cls.__name__, _run_function, edges_of(parents), saved, len(results), static)
        nodes = _as_nodes(results, step, context._constant)
        return tuple(nodes) if isinstance(result, tuple) else nodes[0]


def _run_function(walk: Walk, step: Step, grads: list[Tensor | None], wanted: Sequence[bool]) -> Grads:
    saved = list(step.unpack())
    recorded: _Recorded = step.static
    if walk.create_graph:
        for position, index in recorded.outputs.items():
            saved[position] = belongs(Node(saved[position]), step, index)
    for tensor in saved:
        walk.borrow(tensor)
    context = recorded.context
    context._saved = tuple(saved)
    try:
        given = recorded.function.backward(context, *grads)
    finally:
        context._saved = ()
    results = given if isinstance(given, tuple) else (given,)
    if len(results) != recorded.count:
        raise RuntimeError(
            f"{step.name}: backward gave {len(results)} gradients for {recorded.count} arguments of forward"
        )
    return checked(step, [results[position] for position in recorded.tensors], recorded.facts, walk)


__all__ = ["Context", "Function", "apply_op"]

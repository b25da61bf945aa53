"""User-defined differentiable functions: a pair of functions (apply_op) or a class (Function)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netcl.autograd.backward import grad as gradients
from netcl.autograd.grad_node import (
    FLOATING,
    GradContext,
    GradNode,
    Grads,
    TensorMeta,
    belongs,
    checked,
    edges_of,
    user_step,
)
from netcl.autograd.mode import enable_grad, no_grad, state
from netcl.autograd.prediction import refused
from netcl.core import Tensor
from netcl.core.errors import UnsupportedError
from netcl.core.storage.gradients import mark_recorded

if TYPE_CHECKING:
    from netcl.autograd.tape import Tape


def recorded(results: Sequence[Any], node: GradNode | None, constant: Sequence[int] = ()) -> list[Any]:
    """Returns new tensors on the storage of ``results``, outputs of ``node`` if they are floating; ``constant`` are ids
    of results without a gradient.
    """
    outputs: list[Any] = []
    for index, result in enumerate(results):
        if not isinstance(result, Tensor):
            outputs.append(result)
            continue
        output = result.detach()
        mark_recorded(output)
        if node is not None and output.dtype in FLOATING and id(result) not in constant:
            belongs(output, node, index)
            if state.tape is not None:
                state.tape.nodes.append(output)
        outputs.append(output)
    return outputs


def _records(parents: Sequence[Tensor]) -> bool:
    return state.enabled and any(parent.requires_grad and parent.dtype in FLOATING for parent in parents)


def apply_op(
    fn: Callable[..., Any],
    grad_fn: Callable[..., Any],
    *args: Any,
    tape: Tape | None = None,
    op_name: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Tensor:
    """Runs ``fn(*args, **attrs)`` as one recorded op: ``grad_fn(grad)`` returns a Tensor or None per Tensor among
    ``args``.

    Ops called by ``fn`` are not recorded. ShapeError names the op if a gradient does not have its parent's shape.
    """
    parents = tuple(arg for arg in args if isinstance(arg, Tensor))
    with no_grad():
        result = fn(*args, **(attrs or {}))
    outer = state.tape
    state.tape = tape if tape is not None else outer
    try:
        name = op_name or getattr(fn, "__name__", "apply_op")
        node = user_step(name, grad_fn, parents, (result,)) if _records(parents) else None
        return recorded([result], node)[0]  # type: ignore[no-any-return]
    finally:
        state.tape = outer


class Context:
    """Passes data from ``forward`` of a Function to ``backward``: attributes, and tensors by ``save_for_backward``."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self._saved: tuple[Any, ...] = ()
        self._empty: tuple[int, ...] = ()
        self._constant: tuple[int, ...] = ()
        self._materializes = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Saves inputs, outputs or other tensors, or None; the backward pass raises if one is overwritten before."""
        self._empty = tuple(at for at, tensor in enumerate(tensors) if tensor is None)
        self._saved = tuple(tensor for tensor in tensors if tensor is not None)

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Saves tensors for ``jvp``, unless ``save_for_backward`` has saved some."""
        if not self._saved:
            self.save_for_backward(*tensors)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors saved by ``save_for_backward``."""
        tensors = list(self._saved)
        for at in self._empty:
            tensors.insert(at, None)
        return tuple(tensors)

    def set_materialize_grads(self, value: bool) -> None:
        """Gives ``backward`` zeros (True) or None (False) for a result without a gradient."""
        self._materializes = value

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Raises UnsupportedError: ``forward`` returns new tensors."""
        raise UnsupportedError(
            "mark_dirty: forward of a Function cannot write into its arguments; compute a new tensor, and write "
            "x.copy_(Name.apply(x)) where it is called"
        )

    def mark_non_differentiable(self, *outputs: Tensor) -> None:
        """Marks outputs that have no gradient."""
        self._constant = tuple(id(output) for output in outputs)


@dataclass(frozen=True)
class _Static:
    function: type[Function]
    context: Context
    inputs: tuple[TensorMeta, ...]
    results: tuple[TensorMeta | None, ...]
    tensors: tuple[int, ...]
    count: int
    outputs: dict[int, int]


class Function:
    """An op as a class with static methods ``forward(ctx, *args)`` and ``backward(ctx, *grads)``, called by
    ``Name.apply(*args)``. With a static method ``setup_context(ctx, inputs, output)`` the first is ``forward(*args)``.

    ``backward`` returns one gradient or None per argument of ``forward``. It is differentiable if it uses recorded ops.
    Without it, a static method ``jvp(ctx, *tangents)`` of recorded ops, which is linear in the tangents, gives the
    gradients too.
    """

    # Type checkers let a subclass replace (*args, **kwargs) by its own parameters.
    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Computes the result from ``forward(ctx, *args)``; its ops are not recorded."""
        raise TypeError("a Function needs a static method forward(ctx, *args)")

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Any:
        """Returns the gradients of the arguments for the gradients of the results."""
        raise TypeError("a Function needs a static method backward(ctx, *grads)")

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Returns the tangents of the results for the tangents of the arguments, None for an argument that has none."""
        raise TypeError("this Function has no jvp")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Saves what ``backward`` needs, if ``forward`` does not take the context."""
        raise TypeError("this Function has no setup_context")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Runs ``forward`` and records the call."""
        return _applied(cls, *args)

    @classmethod
    def _apply(cls, *args: Any) -> Any:
        places = tuple(position for position, arg in enumerate(args) if isinstance(arg, Tensor))
        parents = tuple(args[position] for position in places)
        records = _records(parents)
        needs = tuple(records and isinstance(a, Tensor) and a.requires_grad and a.dtype in FLOATING for a in args)
        context = Context(needs)
        with no_grad():
            if cls.setup_context is Function.setup_context:
                result = cls.forward(context, *args)
            else:
                result = cls.forward(*args)
                cls.setup_context(context, args, result)
        results = result if isinstance(result, tuple) else (result,)
        node = None
        if records:
            owners = {id(output): index for index, output in enumerate(results)}
            positions = {at: owners[id(t)] for at, t in enumerate(context._saved) if id(t) in owners}
            saved = tuple(t.detach() if at in positions else t for at, t in enumerate(context._saved))
            context._saved = ()
            metas = tuple(TensorMeta(t.shape, t.dtype, t.queue) for t in parents)
            made = tuple(
                TensorMeta(t.shape, t.dtype, t.queue) if isinstance(t, Tensor) and t.dtype in FLOATING else None
                for t in results
            )
            static = _Static(cls, context, metas, made, places, len(args), positions)
            node = GradNode(cls.__name__, _run_function, edges_of(parents), saved, len(results), static)
        outputs = recorded(results, node, context._constant)
        return tuple(outputs) if isinstance(result, tuple) else outputs[0]


def _refuses(leaves: Sequence[Tensor] | None, cls: type[Function], *args: Any) -> str | None:
    return None if cls.__module__.startswith("netcl.") else "a Function of the program"


def _apply(cls: type[Function], *args: Any) -> Any:
    return cls._apply(*args)


_applied: Any = refused(_apply, _refuses)


def zeros_of(meta: TensorMeta) -> Tensor:
    """Zeros of a tensor's shape and dtype on its device."""
    return Tensor.zeros(meta.shape, meta.dtype, queue=meta.queue)


def _run_function(context: GradContext, node: GradNode, grads: list[Tensor | None], wanted: Sequence[bool]) -> Grads:
    saved = list(node.unpack())
    static: _Static = node.static
    if context.create_graph:
        for position, index in static.outputs.items():
            saved[position] = belongs(saved[position].detach(), node, index)
    for tensor in saved:
        context.borrow(tensor)
    ctx = static.context
    ctx._saved = tuple(saved)
    if ctx._materializes:
        grads = [zeros_of(meta) if grad is None and meta else grad for grad, meta in zip(grads, static.results)]
    try:
        returned = (
            _transposed(static, grads) if _has_jvp_alone(static.function) else static.function.backward(ctx, *grads)
        )
    finally:
        ctx._saved = ()
    results = returned if isinstance(returned, tuple) else (returned,)
    # PyTorch takes more gradients than arguments if the rest is None.
    if len(results) < static.count or any(grad is not None for grad in results[static.count :]):
        raise RuntimeError(
            f"{node.name}: backward gave {len(results)} gradients for {static.count} arguments of forward"
        )
    return checked(node, [results[position] for position in static.tensors], static.inputs, context)


def _has_jvp_alone(function: type[Function]) -> bool:
    return function.backward is Function.backward and function.jvp is not Function.jvp


def _transposed(static: _Static, grads: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """Returns the gradients of the arguments: as ``jvp`` is linear, the gradients of its results by its tangents."""
    tangents: list[Any] = [None] * static.count
    for position, meta in zip(static.tensors, static.inputs):
        if meta.dtype in FLOATING:
            tangents[position] = zeros_of(meta)
            tangents[position].requires_grad = True
    own = [tangent for tangent in tangents if tangent is not None]
    differentiable = state.enabled
    with enable_grad():
        results = static.function.jvp(static.context, *tangents)
        pairs = zip(results if isinstance(results, tuple) else (results,), grads)
        kept = [(result, grad) for result, grad in pairs if grad is not None and result is not None]
        results, weights = [result for result, _ in kept], [grad for _, grad in kept]
        by_tangent = iter(gradients(results, own, weights, create_graph=differentiable, allow_unused=True))
    return tuple([None if tangent is None else next(by_tangent) for tangent in tangents])

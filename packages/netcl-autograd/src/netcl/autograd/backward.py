"""The backward pass: from outputs to leaves, newest op first, without recursion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from netcl.autograd.grad_node import FLOATING, Edge, Step, edge_of
from netcl.autograd.mode import state
from netcl.autograd.node import hooks_of
from netcl.core import Tensor, dispatch
from netcl.core.errors import BackendMismatchError, NonFiniteError, ShapeError

Sink = Callable[[Tensor, Tensor], None]


class Walk:
    """One backward pass. ``sink(leaf, grad)`` takes each leaf's gradient, once; ``watched`` edges report theirs to
    ``seen``.
    """

    def __init__(
        self,
        *,
        retain: bool,
        create_graph: bool,
        sink: Sink | None = None,
        watched: Mapping[Edge, Callable[[Tensor], None]] | None = None,
    ) -> None:
        self.retain = retain
        self.create_graph = create_graph
        self._sink = sink
        self.watched = watched or {}
        self._borrowed: set[int] = set()

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Runs an op of the table, recorded where a graph of the gradients is wanted."""
        return dispatch.call(name, *args, record=self.create_graph, **kwargs)

    def borrow(self, tensor: Tensor) -> None:
        """Marks storage that somebody else holds, so that it becomes no leaf's gradient without a copy."""
        self._borrowed.add(tensor.storage_id)

    def run(self, roots: Sequence[Tensor], grads: Sequence[Tensor], only: Iterable[Edge] | None = None) -> None:
        """Carries ``grads`` of ``roots`` to the leaves; ``only`` limits the walk to what leads to these edges."""
        outer = state.enabled, state.tape, state.trace
        edges = [edge_of(root) for root in roots]
        state.enabled, state.tape, state.trace = self.create_graph, None, None
        try:
            self._run(edges, grads, only)
        finally:
            state.enabled, state.tape, state.trace = outer

    def _run(self, roots: list[Edge], given: Sequence[Tensor], only: Iterable[Edge] | None) -> None:
        steps, uses = _reachable(roots, only)
        pending: dict[Step | Tensor, Any] = {}
        heap: list[tuple[int, Step]] = []

        def give(edge: Edge, grad: Tensor) -> None:
            target, index = edge
            if isinstance(target, Tensor):
                before = pending.get(target)
                pending[target] = grad if before is None else self.call("add", before, grad)
                return
            if target not in pending:
                pending[target] = [None] * target.outputs
                heappush(heap, (-target.order, target))
            slots: list[Tensor | None] = pending[target]
            earlier = slots[index]
            slots[index] = grad if earlier is None else self.call("add", earlier, grad)

        for root, first in zip(roots, given):
            self.borrow(first)
            give(root, first)
        while heap:
            _, step = heappop(heap)
            grads = pending.pop(step)
            if step.hooks or self.watched:
                self._report(step, grads)
            wanted = steps[step]
            results = step.backward(self, step, grads, wanted)
            if not self.retain:
                step.release()
            if step.trace is not None:
                _check_finite(step, results)
            result = None
            for edge, wants, result in zip(step.edges, wanted, results):
                if edge is None or not wants:
                    continue
                if result is not None:
                    give(edge, result)
                left = uses.get(edge[0])
                if left is not None:  # a leaf: its gradient is whole once its last use has reported
                    uses[edge[0]] = left - 1
                    if left == 1 and edge[0] in pending:
                        self._deliver(edge[0], pending.pop(edge[0]))
            del grads, results, result  # what they hold is not needed while the next step runs
        for leaf, whole in list(pending.items()):
            self._deliver(leaf, whole)

    def _report(self, step: Step, grads: list[Tensor | None]) -> None:
        """Runs the hooks on the outputs of a step and reports those that are watched."""
        for index, hooks in (step.hooks or {}).items():
            for hook in tuple(hooks.values()):
                if grads[index] is not None:
                    grads[index] = _hooked(hook, grads[index])
        if self.watched:
            for index, grad in enumerate(grads):
                seen = self.watched.get((step, index))
                if seen is not None and grad is not None:
                    self.borrow(grad)
                    seen(grad)

    def _deliver(self, leaf: Any, grad: Tensor) -> None:
        for hook in hooks_of(leaf):
            grad = _hooked(hook, grad)
        self.sink(leaf, grad)

    def sink(self, leaf: Tensor, grad: Tensor) -> None:
        """Hands over the gradient of a leaf: to the walk's sink, else to the leaf's ``grad``."""
        if self._sink is not None:
            self._sink(leaf, grad)
            return
        if leaf.grad is not None:
            leaf.grad = self.call("add", leaf.grad, grad)
            return
        if grad.storage_id in self._borrowed:
            grad = self.call("clone", grad)
        self.borrow(grad)
        leaf.grad = grad


def _hooked(hook: Callable[[Tensor], Tensor | None], grad: Any) -> Tensor:
    changed = hook(grad)
    if changed is None:
        return grad  # type: ignore[no-any-return]
    if not isinstance(changed, Tensor) or changed.shape != grad.shape:
        raise ShapeError(
            f"a gradient hook gave {getattr(changed, 'shape', type(changed).__name__)} for a gradient of {grad.shape}"
        )
    return changed


def _reachable(roots: Iterable[Edge], only: Iterable[Edge] | None) -> tuple[dict[Step, list[bool]], dict[Any, int]]:
    """Per step which of its edges want a gradient, and per leaf how many wanted edges lead to it."""
    found: dict[Step, list[bool]] = {}
    stack = [edge[0] for edge in roots if isinstance(edge[0], Step)]
    while stack:
        step = stack.pop()
        if step not in found:
            found[step] = [edge is not None for edge in step.edges]
            stack.extend(edge[0] for edge in step.edges if edge is not None and isinstance(edge[0], Step))
    if only is not None:
        _keep_leading_to(found, set(only))
    uses: dict[Any, int] = {}
    for step, wanted in found.items():
        for edge, wants in zip(step.edges, wanted):
            if wants and edge is not None and not isinstance(edge[0], Step):
                uses[edge[0]] = uses.get(edge[0], 0) + 1
    return found, uses


def _keep_leading_to(found: dict[Step, list[bool]], targets: set[Edge]) -> None:
    """Wants only those edges that lead to ``targets``; oldest steps first, so each is decided before its users."""
    leading: set[Step] = {edge[0] for edge in targets if isinstance(edge[0], Step)}
    for step in sorted(found, key=lambda one: one.order):
        found[step] = [edge is not None and (edge in targets or edge[0] in leading) for edge in step.edges]
        if step.opaque or any(found[step]):
            leading.add(step)


def _check_finite(step: Step, results: Sequence[Tensor | None]) -> None:
    for position, grad in enumerate(results):
        if grad is not None and not bool(np.isfinite(grad.numpy()).all()):
            raise NonFiniteError(
                f"{step.name}: the gradient of its input {position} has NaN or Inf; the op was called "
                f"here:\n{step.trace}",
                op=step.name,
            )


def start(output: Tensor, grad: Any) -> Tensor:
    """The gradient that a backward pass begins with: ones, or ``grad`` checked against ``output``."""
    if not output.requires_grad:
        raise RuntimeError(
            "backward: this value does not require grad: no tensor that it was computed from does, or it was "
            "computed under no_grad"
        )
    if output.dtype not in FLOATING:
        raise RuntimeError(f"backward: only floating values have gradients, not {output.dtype}")
    if grad is None:
        return Tensor.full(output.shape, 1, output.dtype, queue=output.queue)
    if not isinstance(grad, Tensor):
        grad = Tensor.from_host(output.queue, grad, output.dtype)
    if grad.shape != output.shape:
        raise ShapeError(
            f"backward: grad has shape {grad.shape}, the value {output.shape}", op="backward", parameter="grad"
        )
    if grad.queue is not output.queue:
        raise BackendMismatchError(
            f"backward: grad lives on {grad.engine.device_label}, the value on {output.engine.device_label}; move it "
            "with grad.to(device)",
            op="backward",
        )
    begin: Tensor = grad.astype(output.dtype)
    return begin


def backward(
    outputs: Sequence[Tensor],
    grads: Sequence[Any],
    *,
    retain: bool,
    create_graph: bool,
    watched: Mapping[Edge, Callable[[Tensor], None]] | None = None,
) -> None:
    """Accumulates the gradients of ``outputs`` on the leaves that require them."""
    Walk(retain=retain, create_graph=create_graph, watched=watched).run(
        outputs, [start(output, grad) for output, grad in zip(outputs, grads)]
    )


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    create_graph: bool = False,
    allow_unused: bool = False,
    retain_graph: bool | None = None,
) -> tuple[Tensor | None, ...]:
    """The gradients of sum(outputs * grad_outputs) by ``inputs`` (leaves or intermediate nodes); no ``grad`` field
    changes.

    ``grad_outputs``: one per output, None for ones. An input without influence: RuntimeError, or None with
    ``allow_unused``.
    """
    ys = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    xs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if grad_outputs is None:
        grad_outputs = (None,) * len(ys)
    elif isinstance(grad_outputs, Tensor):
        grad_outputs = (grad_outputs,)
    for position, x in enumerate(xs):
        if not x.requires_grad:
            raise RuntimeError(f"grad: input {position} does not require grad")
    found: dict[Edge, Tensor] = {}
    edges = [edge_of(x) for x in xs]

    def keeper(edge: Edge) -> Callable[[Tensor], None]:
        return lambda value: found.__setitem__(edge, value)

    def sink(leaf: Tensor, value: Tensor) -> None:
        before = found.get((leaf, -1))
        found[leaf, -1] = value if before is None else dispatch.call("add", before, value, record=create_graph)

    watched = {edge: keeper(edge) for edge in edges}
    retain = create_graph if retain_graph is None else retain_graph
    walk = Walk(retain=retain, create_graph=create_graph, sink=sink, watched=watched)
    walk.run(ys, [start(y, g) for y, g in zip(ys, grad_outputs)], only=edges)
    results = tuple(found.get(edge) for edge in edges)
    if not allow_unused and None in [None if r is None else 1 for r in results]:
        unused = [position for position, result in enumerate(results) if result is None]
        raise RuntimeError(
            f"grad: inputs {unused} have no influence on the outputs; allow_unused=True gives None for them"
        )
    return results

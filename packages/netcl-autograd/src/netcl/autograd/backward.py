"""The backward pass: gradients from outputs to leaves, newest op first, without recursion."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from sys import getrefcount
from typing import Any

import numpy as np

from netcl.autograd import blocks
from netcl.autograd.blocks import Partial
from netcl.autograd.grad_node import FLOATING, Edge, GradContext, GradNode, edge_of
from netcl.autograd.hooks import accumulated_hooks, hooks_of, leaf_hooks
from netcl.autograd.mode import state
from netcl.autograd.prediction import refused, refuses_prediction, trained
from netcl.core import Tensor
from netcl.core.errors import BackendMismatchError, NonFiniteError, ShapeError
from netcl.core.ops_table import dispatch

Sink = Callable[[Tensor, Tensor], None]


class _Passes(threading.local):
    """The backward passes of this thread, and the functions that are called after them."""

    def __init__(self) -> None:
        self.depth = 0
        self.callbacks: list[Callable[[], None]] = []


_passes = _Passes()


def queue_callback(callback: Callable[[], None]) -> None:
    """Calls ``callback()`` once, at the end of the backward pass that is running in this thread; of nested passes, as
    checkpointing has them, the outermost one. It is not called if that pass raises.

    Raises RuntimeError if no pass is running: hooks on gradients call this function.
    """
    if not _passes.depth:
        raise RuntimeError("queue_callback: no backward pass is running in this thread; call it from a gradient's hook")
    _passes.callbacks.append(callback)


class BackwardPass(GradContext):
    """One backward pass. ``sink(leaf, grad)`` receives each leaf's gradient once; ``watched`` maps edges to functions
    that are called with their gradient. The saved tensors of the nodes are freed unless ``retain``.
    """

    def __init__(
        self,
        *,
        retain: bool,
        create_graph: bool,
        sink: Sink | None = None,
        watched: Mapping[Edge, Callable[[Tensor], None]] | None = None,
    ) -> None:
        super().__init__(create_graph=create_graph, sink=sink)
        self.retain = retain
        self.watched: Mapping[Edge, Callable[[Tensor], None]] | dict[Edge, Callable[[Tensor], None]] = watched or {}

    def run(self, roots: Sequence[Tensor], grads: Sequence[Tensor], only: Iterable[Edge] | None = None) -> None:
        """Propagates ``grads`` of ``roots`` to the leaves; ``only`` limits the pass to what leads to these edges."""
        trained()
        outer = state.enabled, state.tape, state.trace
        edges = [edge_of(root) for root in roots]
        state.enabled, state.tape, state.trace = self.create_graph, None, None
        _passes.depth += 1
        ended: list[Callable[[], None]] = []
        try:
            self._run(edges, grads, only)
            if _passes.depth == 1:
                ended = _passes.callbacks
        finally:
            state.enabled, state.tape, state.trace = outer
            _passes.depth -= 1
            if not _passes.depth:
                _passes.callbacks = []
        for callback in ended:
            callback()

    def _run(self, roots: list[Edge], seeds: Sequence[Tensor], only: Iterable[Edge] | None) -> None:
        nodes, uses = _reachable(roots, only)
        call = self.call
        pending: dict[GradNode, list[Partial | None]] = {}
        leaves: dict[int, tuple[Any, Partial]] = {}  # by id: the hash of a tensor is a function of Python
        heap: list[tuple[int, GradNode]] = []

        def give(edge: Edge, grad: Partial) -> None:
            target, index = edge
            if not isinstance(target, GradNode):
                known = leaves.get(id(target))
                leaves[id(target)] = target, grad if known is None else blocks.add(call, known[1], grad)
                return
            slots = pending.get(target)
            if slots is None:
                slots = pending[target] = [None] * target.outputs
                heappush(heap, (-target.order, target))
            earlier = slots[index]
            slots[index] = grad if earlier is None else blocks.add(call, earlier, grad)

        for root, first in zip(roots, seeds):
            self.borrow(first)
            give(root, first)
        while heap:
            _, node = heappop(heap)
            grads: list[Any] = pending.pop(node)
            grad = None
            for index, grad in enumerate(grads):
                if grad is not None and type(grad) is not Tensor:
                    grads[index] = blocks.computed(call, grad)
            if node.hooks or node.retained or self.watched:
                self._report(node, grads)
            wanted = nodes[node]
            results = node.backward(self, node, grads, wanted)
            if not self.retain:
                node.release()
            if node.trace is not None:
                _check_finite(
                    node,
                    [gradient if gradient is None else blocks.computed(call, gradient) for gradient in results],
                )
            result = None
            for edge, wants, result in zip(node.edges, wanted, results):
                if not wants:
                    continue
                if result is not None:
                    give(edge, result)  # type: ignore[arg-type]  # what takes a gradient is an edge
                key = id(edge[0])  # type: ignore[index]
                left = uses.get(key)
                if left is not None:  # a leaf: its gradient is complete after its last use
                    uses[key] = left - 1
                    if left == 1 and key in leaves:
                        self._deliver(*leaves.pop(key))
            del grads, grad, results, result  # frees their memory before the next node runs
        for leaf, whole in list(leaves.values()):
            self._deliver(leaf, whole)

    def _report(self, node: GradNode, grads: list[Tensor | None]) -> None:
        """Runs the hooks on the outputs of a node and reports the gradients of watched edges."""
        for index, hooks in (node.hooks or {}).items():
            for hook in tuple(hooks.values()):
                if grads[index] is not None:
                    grads[index] = self._hooked(hook, grads[index])
        for index, kept in (node.retained or {}).items():
            tensor, grad = kept(), grads[index]
            if tensor is not None and grad is not None:
                self._retain(tensor, grad)
        if self.watched:
            for index, grad in enumerate(grads):
                seen = self.watched.get((node, index))
                if seen is not None and grad is not None:
                    self.borrow(grad)
                    seen(grad)

    def _hooked(self, hook: Callable[[Tensor], Tensor | None], grad: Any) -> Tensor:
        """Returns the gradient after a hook. One that the hook keeps is borrowed, as later passes add in place."""
        references = getrefcount(grad)
        changed = hook(grad)
        if changed is None or changed is grad:
            if getrefcount(grad) - (changed is grad) > references:
                self.borrow(grad)
            return grad  # type: ignore[no-any-return]
        if not isinstance(changed, Tensor) or changed.shape != grad.shape:
            shape = getattr(changed, "shape", type(changed).__name__)
            raise ShapeError(f"a gradient hook must return a gradient of {grad.shape}, got {shape}")
        self.borrow(changed)
        return changed

    def _retain(self, tensor: Tensor, grad: Tensor) -> None:
        """Adds the gradient of a tensor that is no leaf to its ``grad``."""
        if tensor.grad is not None:
            tensor.grad = self.call("add", tensor.grad, grad)
        else:
            self.borrow(grad)
            tensor.grad = self.call("clone", grad)

    def _deliver(self, leaf: Any, partial: Partial) -> None:
        grad = partial if type(partial) is Tensor else blocks.computed(self.call, partial)
        for hook in hooks_of(leaf) if leaf_hooks else ():
            grad = self._hooked(hook, grad)
        self.sink(leaf, grad)
        if accumulated_hooks and self.accumulates:
            for after in tuple(accumulated_hooks.get(id(leaf), {}).values()):
                after(leaf)


def _reachable(roots: Iterable[Edge], only: Iterable[Edge] | None) -> tuple[dict[GradNode, list[bool]], dict[int, int]]:
    """Returns for each node if its edges take a gradient, and for each leaf, by its id, the number of such edges."""
    taking: dict[GradNode, list[bool]] = {}
    uses: dict[int, int] = {}
    stack = [edge[0] for edge in roots if isinstance(edge[0], GradNode)]
    while stack:
        node = stack.pop()
        if node in taking:
            continue
        wanted: list[bool] = []
        taking[node] = wanted
        for edge in node.edges:
            wanted.append(edge is not None)
            if edge is None:
                continue
            target = edge[0]
            if isinstance(target, GradNode):
                stack.append(target)
            else:
                uses[id(target)] = uses.get(id(target), 0) + 1
    if only is not None:
        _keep_leading_to(taking, set(only))
        uses = {}
        for node, wanted in taking.items():
            for edge, wants in zip(node.edges, wanted):
                if wants and edge is not None and not isinstance(edge[0], GradNode):
                    uses[id(edge[0])] = uses.get(id(edge[0]), 0) + 1
    return taking, uses


def _keep_leading_to(taking: dict[GradNode, list[bool]], targets: set[Edge]) -> None:
    """Keeps only edges that lead to ``targets``; oldest nodes first, so each is decided before its users."""
    leading: set[GradNode] = {edge[0] for edge in targets if isinstance(edge[0], GradNode)}
    for node in sorted(taking, key=lambda step: step.order):
        taking[node] = [edge is not None and (edge in targets or edge[0] in leading) for edge in node.edges]
        if node.opaque or any(taking[node]):
            leading.add(node)


def _check_finite(node: GradNode, results: Sequence[Tensor | None]) -> None:
    for position, grad in enumerate(results):
        if grad is not None and not bool(np.isfinite(grad.numpy()).all()):
            raise NonFiniteError(
                f"{node.name}: the gradient of its input {position} has NaN or Inf; the op was called "
                f"here:\n{node.trace}"
            )


def start(output: Tensor, grad: Any) -> Tensor:
    """Returns the gradient that a backward pass starts with: ones, or ``grad`` checked against ``output``."""
    if not output.requires_grad:
        raise RuntimeError(
            "backward: this value does not require grad: no tensor that it was computed from does, or it was "
            "computed under no_grad"
        )
    if output.dtype not in FLOATING:
        raise RuntimeError(f"backward: expected a floating dtype, got {output.dtype}")
    if grad is None:
        ones: Tensor = output.engine.empty(output.shape, output.dtype)
        output.engine.fill(ones, 1)
        return ones
    if not isinstance(grad, Tensor):
        grad = Tensor.from_host(output.queue, grad, output.dtype)
    if grad.shape != output.shape:
        raise ShapeError(f"backward: grad has shape {grad.shape}, the value {output.shape}", parameter="grad")
    if grad.queue is not output.queue:
        raise BackendMismatchError(
            f"backward: grad lives on {grad.engine.device_label}, the value on {output.engine.device_label}; move it "
            "with grad.to(device)"
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
    only: Iterable[Edge] | None = None,
) -> None:
    """Accumulates the gradients of ``outputs`` in ``grad`` of the leaves that require them, or of those in ``only``."""
    BackwardPass(retain=retain, create_graph=create_graph, watched=watched).run(
        outputs, [start(output, grad) for output, grad in zip(outputs, grads)], only
    )


def _edges_of_leaves(inputs: tuple[Tensor, ...]) -> list[Edge]:
    if not inputs:
        raise RuntimeError("backward: inputs is empty; leave it out for all leaves")
    for position, leaf in enumerate(inputs):
        if not leaf.requires_grad or leaf.grad_fn is not None:
            raise RuntimeError(f"backward: input {position} is no leaf that requires grad; write netcl.autograd.grad")
    return [edge_of(leaf) for leaf in inputs]


def backward_from(tensor: Any, grad: Any, retain_graph: bool, create_graph: bool, inputs: Any = None) -> None:
    """Runs ``Tensor.backward``, or one pass from a list of tensors with a list of ``grad``; raises RuntimeError for a
    tensor that has not one element if it has no ``grad``.
    """
    outputs, grads = ((tensor,), (grad,)) if isinstance(tensor, Tensor) else (tensor, grad)
    for output, begin in zip(outputs, grads):
        if begin is None and math.prod(output.shape) != 1:
            raise RuntimeError(
                f"backward: a node of shape {output.shape} has no one gradient to begin with; pass grad= of that "
                "shape, or sum() it first"
            )
    only = None if inputs is None else _edges_of_leaves((inputs,) if isinstance(inputs, Tensor) else tuple(inputs))
    backward(outputs, grads, retain=retain_graph or create_graph, create_graph=create_graph, only=only)


def _refuses(leaves: Sequence[Tensor] | None, outputs: Any, *args: Any, **options: Any) -> str | None:
    causes = (refuses_prediction(y, leaves) for y in ((outputs,) if isinstance(outputs, Tensor) else outputs))
    return next(filter(None, causes), None)


@partial(refused, refuses=_refuses)
def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    create_graph: bool = False,
    allow_unused: bool = False,
    retain_graph: bool | None = None,
) -> tuple[Tensor | None, ...]:
    """Returns the gradients of sum(outputs * grad_outputs) with respect to ``inputs`` (leaves or intermediate tensors);
    no ``grad`` field changes.

    ``grad_outputs``: one per output, None for ones. Raises RuntimeError if an input does not influence the outputs;
    with ``allow_unused`` its gradient is None.
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
    gradients: dict[Edge, Tensor] = {}
    edges = [edge_of(x) for x in xs]

    def keeper(edge: Edge) -> Callable[[Tensor], None]:
        return lambda value: gradients.__setitem__(edge, value)

    def sink(leaf: Tensor, value: Tensor) -> None:
        before = gradients.get((leaf, -1))
        gradients[leaf, -1] = value if before is None else dispatch.call("add", before, value, record=create_graph)

    watched = {edge: keeper(edge) for edge in edges}
    retain = create_graph if retain_graph is None else retain_graph
    backward_pass = BackwardPass(retain=retain, create_graph=create_graph, sink=sink, watched=watched)
    backward_pass.run(ys, [start(y, g) for y, g in zip(ys, grad_outputs)], only=edges)
    results = tuple(gradients.get(edge) for edge in edges)
    if not allow_unused and None in [None if r is None else 1 for r in results]:
        unused = [position for position, result in enumerate(results) if result is None]
        raise RuntimeError(
            f"grad: inputs {unused} have no influence on the outputs; allow_unused=True gives None for them"
        )
    return results

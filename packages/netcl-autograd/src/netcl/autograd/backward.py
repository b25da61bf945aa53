"""The backward pass: gradients from outputs to leaves, newest op first, without recursion."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from heapq import heappop, heappush
from sys import getrefcount
from typing import Any, TypeVar

import numpy as np

from netcl.autograd import blocks
from netcl.autograd.blocks import Partial
from netcl.autograd.grad_node import FLOATING, Edge, GradContext, GradNode, edge_of
from netcl.autograd.hooks import accumulated_hooks, hooked_at, hooks_of, leaf_hooks
from netcl.autograd.mode import state
from netcl.autograd.prediction import (
    Carried,
    calls_program,
    carries,
    changes_gradients,
    event,
    expects,
    passed,
    refused,
    refuses_prediction,
    settle,
)
from netcl.core import Tensor
from netcl.core.errors import BackendMismatchError, NonFiniteError, ShapeError
from netcl.core.ops_table import dispatch

Sink = Callable[[Tensor, Tensor], None]
Steps = Generator[tuple[Any, ...], Any, Any]
R = TypeVar("R")


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
        self.leaf: Any = None  # one that has received its gradient
        self.run_by: Pass | None = None  # which runs it step by step
        self.watched: Mapping[Edge, Callable[[Tensor], None]] | dict[Edge, Callable[[Tensor], None]] = watched or {}

    def run(self, roots: Sequence[Tensor], grads: Sequence[Tensor], only: Iterable[Edge] | None = None) -> None:
        """Propagates ``grads`` of ``roots`` to the leaves; ``only`` limits the pass to what leads to these edges."""
        edges = [edge_of(root) for root in roots]
        with _within(self.create_graph):
            finished(self.steps(edges, grads, only))

    def steps(self, roots: list[Edge], seeds: Sequence[Tensor], only: Iterable[Edge] | None) -> Steps:
        """Runs the pass; yields before each call of the program what ``call_program`` takes, and is sent its result."""
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
            stepwise = getattr(node.backward, "steps", None)
            if stepwise is None:
                results = node.backward(self, node, grads, wanted)
            else:
                results = yield from stepwise(self, node, grads, wanted)
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
                        yield from self._deliver(*leaves.pop(key))
            del grads, grad, results, result  # frees their memory before the next node runs
        for leaf, whole in list(leaves.values()):
            yield from self._deliver(leaf, whole)

    def _report(self, node: GradNode, grads: list[Tensor | None]) -> None:
        """Runs the hooks on the outputs of a node and reports the gradients of watched edges."""
        for index, hooks in (node.hooks or {}).items():
            for hook in tuple(hooks.values()):
                if grads[index] is not None:
                    grads[index], borrowed = hooked(hook, grads[index])
                    if borrowed:
                        self.borrow(grads[index])
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

    def _retain(self, tensor: Tensor, grad: Tensor) -> None:
        """Adds the gradient of a tensor that is no leaf to its ``grad``."""
        if tensor.grad is not None:
            tensor.grad = self.call("add", tensor.grad, grad)
        else:
            self.borrow(grad)
            tensor.grad = self.call("clone", grad)

    def _deliver(self, leaf: Any, partial: Partial) -> Steps:
        grad = blocks.computed(self.call, partial)
        if leaf_hooks and leaf_hooks.get(id(leaf)):
            grad, borrowed = yield "hooks", leaf, grad
            if borrowed:
                self.borrow(grad)
        self.sink(leaf, grad)
        self.leaf = leaf
        if accumulated_hooks and self.accumulates and accumulated_hooks.get(id(leaf)):
            yield "after", leaf


def hooked(hook: Callable[[Tensor], Tensor | None], grad: Any) -> tuple[Any, bool]:
    """Returns the gradient after a hook, and True if it is borrowed: later passes add to gradients in place, and the
    hook has kept this one, or has it from elsewhere.
    """
    references = getrefcount(grad)
    changed = hook(grad)
    if changed is None or changed is grad:
        borrowed = getrefcount(grad) - (changed is grad) > references
        return grad, borrowed
    if not isinstance(changed, Tensor) or changed.shape != grad.shape:
        shape = getattr(changed, "shape", type(changed).__name__)
        raise ShapeError(f"a gradient hook must return a gradient of {grad.shape}, got {shape}")
    return changed, True


def call_program(step: tuple[Any, ...]) -> Any:
    """Calls the functions of the program that a step of a backward pass is about, and returns what the pass is sent."""
    kind, subject, *rest = step
    if kind == "after":
        for after in tuple(accumulated_hooks.get(id(subject), {}).values()):
            after(subject)
        return None
    if kind == "hooks":
        (grad,) = rest
        del rest, step
        borrowed = False
        for hook in hooks_of(subject):
            grad, kept = hooked(hook, grad)
            borrowed = borrowed or kept
        return grad, borrowed
    return subject.run_backward(*rest)


def finished(steps: Generator[tuple[Any, ...], Any, R]) -> R:
    """Runs steps, with the calls of the program between them, and returns their result."""
    try:
        step = next(steps)
        while True:
            step = steps.send(call_program(step))
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


@contextmanager
def _within(create_graph: bool) -> Iterator[None]:
    """A block of a backward pass: modes of the thread, and at the end of the outermost one the functions that are
    called after it.
    """
    outer = state.enabled, state.tape, state.trace
    state.enabled, state.tape, state.trace = create_graph, None, None
    _passes.depth += 1
    ended: list[Callable[[], None]] = []
    try:
        yield
        if _passes.depth == 1:
            ended = _passes.callbacks
    finally:
        state.enabled, state.tape, state.trace = outer
        _passes.depth -= 1
        if not _passes.depth:
            _passes.callbacks = []
    for callback in ended:
        callback()


def _reachable(roots: Iterable[Edge], only: Iterable[Edge] | None) -> tuple[dict[GradNode, list[bool]], dict[int, int]]:
    """Returns for each node if its edges take a gradient, and for each leaf, by its id, the number of such edges to
    it.
    """
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
                f"here:\n{node.trace}",
                op=node.name,
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
    only: Iterable[Edge] | None = None,
) -> None:
    """Accumulates the gradients of ``outputs`` in ``grad`` of the leaves that require them, or of the leaves in
    ``only``.
    """
    whole = BackwardPass(retain=retain, create_graph=create_graph, watched=watched)
    whole.run(outputs, [start(output, grad) for output, grad in zip(outputs, grads)], only)
    if whole.leaf is not None:
        passed(whole.leaf)


def _edges_of_leaves(inputs: tuple[Tensor, ...]) -> list[Edge]:
    if not inputs:
        raise RuntimeError("backward: inputs is empty; leave it out for all leaves")
    for position, leaf in enumerate(inputs):
        if not leaf.requires_grad or leaf.grad_fn is not None:
            raise RuntimeError(f"backward: input {position} is no leaf that requires grad; write netcl.autograd.grad")
    return [edge_of(leaf) for leaf in inputs]


class Pass(Carried):
    """A backward pass of one tensor that is run step by step; ``step`` is what the program has to be called for now."""

    def __init__(self, whole: BackwardPass | None = None) -> None:
        self.step: tuple[Any, ...] | None = None
        self.steps: Steps | None = None
        self.whole: BackwardPass | None = whole
        self.gradients: Callable[[], list[Any]] = list  # of the inputs of an inner pass


@carries
def new_pass() -> Pass:
    """Returns a pass that is not begun."""
    return Pass()


new_pass.__wrapped__.hooked = hooked_at  # type: ignore[attr-defined]


@changes_gradients
def begin(run: Pass, tensor: Tensor, grad: Any, retain_graph: bool, inputs: Any) -> tuple[Any, ...] | None:
    """Begins a pass, and returns its first step; None after the end."""
    if grad is None and math.prod(tensor.shape) != 1:
        raise no_beginning(tensor)
    only = None if inputs is None else _edges_of_leaves((inputs,) if isinstance(inputs, Tensor) else tuple(inputs))
    run.whole = BackwardPass(retain=retain_graph, create_graph=False)
    run.whole.run_by = run
    run.steps = run.whole.steps([edge_of(tensor)], [start(tensor, grad)], only)
    return _advanced(run, None)


@changes_gradients
def go_on(run: Pass, given: Any) -> tuple[Any, ...] | None:
    """Runs a pass from a step on, with what the program has ``given`` there, and returns the next step."""
    return _advanced(run, given)


@changes_gradients
def begin_inner(
    run: Pass, outer: Pass, outputs: Sequence[Tensor], grads: Sequence[Tensor], inputs: Sequence[Tensor]
) -> tuple[Any, ...] | None:
    """Begins a pass from ``outputs`` to ``inputs`` within a step of the pass ``outer``, which other leaves give their
    gradients to.
    """
    assert outer.whole is not None
    whole, found = outer.whole, {}
    mine = {id(tensor) for tensor in inputs}

    def sink(leaf: Tensor, grad: Tensor) -> None:
        if id(leaf) in mine:
            found[id(leaf)] = grad
        else:
            whole.sink(leaf, grad)

    run.whole = BackwardPass(retain=False, create_graph=False, sink=sink)
    run.whole.accumulates = whole.accumulates
    run.whole.run_by = run
    run.steps = run.whole.steps([edge_of(output) for output in outputs], grads, None)
    run.gradients = lambda: [found.get(id(tensor)) for tensor in inputs]
    return _advanced(run, None)


@event
def end_inner(run: Pass, outer: Pass, grads: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Returns the gradients of the inputs of an inner pass, which has begun with ``grads``."""
    assert outer.whole is not None
    for grad in grads:
        if grad is not None:
            outer.whole.borrow(grad)
    return run.gradients()


for _event in (begin, go_on, begin_inner):
    _event.__wrapped__.makes_gradients = True  # type: ignore[attr-defined]


def _advanced(run: Pass, given: Any) -> tuple[Any, ...] | None:
    assert run.steps is not None
    assert run.whole is not None
    outer = state.enabled, state.tape, state.trace
    state.enabled, state.tape, state.trace = False, None, None
    try:
        run.step = run.steps.send(given)
    except StopIteration:
        run.step, whole, run.whole, run.steps = None, run.whole, None, None
        whole.run_by = None
        if whole.leaf is not None and whole._sink is None:
            passed(whole.leaf)
    finally:
        state.enabled, state.tape, state.trace = outer
    return run.step


def opened(tensor: Any, grad: Any, retain_graph: bool, create_graph: bool, inputs: Any) -> bool:
    """Runs a backward pass that calls the program step by step, if its calls are logged or predicted; else returns
    False.
    """
    expected = expects(new_pass.__wrapped__)  # type: ignore[attr-defined]
    if expected is None:
        expected = not create_graph and tensor.requires_grad and calls_program(tensor)
    if not expected or create_graph:
        return False
    run = new_pass()
    with _within(False):
        walk(run, begin(run, tensor, grad, retain_graph, inputs))
    return True


def walk(run: Pass, step: tuple[Any, ...] | None) -> None:
    """Runs a pass from its first step to the end."""
    while step is not None:
        if run.step is not None:  # not predicted
            step = run.step
        try:
            given = call_program(step)
        except BaseException as error:
            settle(type(error).__name__)  # while its hooks are still there
            raise
        step = None
        step = go_on(run, given)
        del given


def inner_pass(
    outer: Pass,
    outputs: Sequence[Tensor],
    begins: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    inputs: Sequence[Tensor],
) -> list[Tensor | None]:
    """Runs a pass within a step of another one, from ``outputs`` with the gradients ``begins``, and returns the
    gradients of ``inputs``.
    """
    run = new_pass()
    outside = state.enabled, state.tape, state.trace
    state.enabled, state.tape, state.trace = False, None, None
    try:
        walk(run, begin_inner(run, outer, outputs, begins, inputs))
    finally:
        state.enabled, state.tape, state.trace = outside
    return end_inner(run, outer, grads)


def no_beginning(output: Tensor) -> RuntimeError:
    """Returns the error of a pass from a tensor of several elements that is given no gradient."""
    return RuntimeError(
        f"backward: a node of shape {output.shape} has no one gradient to begin with; pass grad= of that "
        "shape, or sum() it first"
    )


def backward_from(tensor: Any, grad: Any, retain_graph: bool, create_graph: bool, inputs: Any = None) -> None:
    """Runs ``Tensor.backward``, or one pass from a list of tensors with a list of ``grad``; raises RuntimeError for a
    tensor that has not one element if it has no ``grad``.
    """
    outputs, grads = ((tensor,), (grad,)) if isinstance(tensor, Tensor) else (tensor, grad)
    for output, begin in zip(outputs, grads):
        if begin is None and math.prod(output.shape) != 1:
            raise no_beginning(output)
    only = None if inputs is None else _edges_of_leaves((inputs,) if isinstance(inputs, Tensor) else tuple(inputs))
    backward(outputs, grads, retain=retain_graph or create_graph, create_graph=create_graph, only=only)


def _refuses(pending: bool, outputs: Any, *args: Any, **kwargs: Any) -> str | None:
    """Returns why a call of ``grad`` cannot be predicted; None if it can."""
    causes = [refuses_prediction(y, pending) for y in ((outputs,) if isinstance(outputs, Tensor) else outputs)]
    return next((cause for cause in causes if cause is not None), None)


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

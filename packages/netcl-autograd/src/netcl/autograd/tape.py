"""Tape: a scope that keeps the nodes recorded in it, in order, and runs the backward pass through them."""

from __future__ import annotations

from types import TracebackType
from typing import Any, cast

from netcl.autograd.backward import backward
from netcl.autograd.grad_node import GradNode, edge_of
from netcl.autograd.mode import Nodes, state
from netcl.core import Tensor


class Tape:
    """An explicit scope: ``with Tape() as tape: loss = ...`` and then ``tape.backward(loss)``, inside or after the
    block.

    Recording needs no tape. A tape keeps what its nodes saved until it is reset or gone, so its backward can run
    again and adds the same again. With ``retain_grads`` every node on the tape gets its ``grad``, not just the
    leaves. Tapes nest; the innermost one of a thread records.
    """

    def __init__(self, retain_grads: bool = False) -> None:
        self.nodes: list[Tensor] = []
        self.retain_grads = retain_grads
        self._outer: list[Nodes | None] = []
        self._walked = False

    def __enter__(self) -> Tape:
        if state.trace is not None:  # what a jitted function computed so far belongs to the tape before
            state.trace.materialize()
        self._outer.append(state.tape)
        state.tape = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if state.trace is not None and kind is None:
            state.trace.materialize()
        state.tape = self._outer.pop()

    def record(self, node: Tensor) -> Tensor:
        """Puts ``node`` at the end of ``nodes`` and gives it back."""
        self.nodes.append(node)
        return node

    def backward(self, loss: Tensor, grad: Any = None) -> None:
        """Adds the gradient of ``loss`` to ``grad`` of every leaf that requires it; ``grad=None`` begins with ones."""
        self._walked = True
        watched = {edge_of(node): _keeper(node) for node in self.nodes} if self.retain_grads else None
        backward((loss,), (grad,), retain=True, create_graph=False, watched=watched)

    def reset(self) -> None:
        """Forgets the nodes; where a backward has run, what they saved is freed."""
        nodes, self.nodes = self.nodes, []
        if self._walked:
            for node in nodes:
                step: Any = edge_of(node)[0]
                if isinstance(step, GradNode):
                    step.release()
        self._walked = False

    def __del__(self) -> None:
        self.reset()


def _keeper(node: Tensor) -> Any:
    def keep(grad: Tensor) -> None:
        node.grad = grad if node.grad is None else node.grad + grad

    return keep


def get_current_tape() -> Tape | None:
    """Returns the innermost open tape of this thread."""
    return cast("Tape | None", state.tape)


def set_current_tape(tape: Tape | None) -> Tape | None:
    """Makes ``tape`` the one that records in this thread, and returns the one before."""
    before, state.tape = state.tape, tape
    return cast("Tape | None", before)

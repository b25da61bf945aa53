"""Step: what the graph keeps of one recorded op: where its gradient goes and the tensors it needs for it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from netcl.autograd.mode import state
from netcl.autograd.user_frame import called_from
from netcl.core import Tensor
from netcl.core.dtypes import SUPPORTED, is_floating
from netcl.core.errors import BackendMismatchError, ShapeError
from netcl.core.pending import lock

if TYPE_CHECKING:
    from netcl.autograd.backward import Walk

FLOATING = frozenset(dtype for dtype in SUPPORTED if is_floating(dtype))
_order = itertools.count()

Grads = Sequence[Tensor | None]
Backward = Callable[["Walk", "Step", list[Tensor | None], Sequence[bool]], Grads]
Edge = tuple[Union["Step", Tensor], int]


class Fact(NamedTuple):
    """Shape, dtype and queue of a tensor that is not kept itself."""

    shape: tuple[int, ...]
    dtype: str
    queue: Any

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)


class Step:
    """One recorded op. It holds no output of its own, so that a graph without users is freed by reference counts.

    ``edges``: per input (step or leaf, index), None where no gradient is wanted. ``saved``: tensors the gradient
    needs. ``backward(walk, step, grads, wanted)`` gives one gradient or None per edge; ``static`` is whatever it
    needs beside.
    """

    __slots__ = (
        "__weakref__",
        "backward",
        "edges",
        "hooks",
        "name",
        "opaque",
        "order",
        "outputs",
        "saved",
        "static",
        "trace",
        "versions",
    )

    def __init__(
        self,
        name: str,
        backward: Backward,
        edges: tuple[Edge | None, ...],
        saved: tuple[Tensor, ...],
        outputs: int,
        static: Any = None,
        opaque: bool = False,
    ) -> None:
        self.name = name
        self.backward = backward
        self.edges = edges
        self.saved: tuple[Tensor, ...] | None = saved
        self.versions = [tensor.version for tensor in saved]
        self.outputs = outputs
        self.static: Any = static
        self.opaque = opaque  # its gradient reaches leaves that are not among its edges
        self.hooks: dict[int, dict[int, Any]] | None = None
        self.order = next(_order)  # larger than that of every step it depends on
        self.trace = called_from() if state.anomaly else None

    def unpack(self) -> tuple[Tensor, ...]:
        """The saved tensors; RuntimeError where they are freed or were overwritten since."""
        if self.saved is None:
            raise RuntimeError(
                f"{self.name}: backward a second time through a graph that is freed; pass retain_graph=True to the "
                "first "
                "backward, or call it on a Tape"
            )
        for tensor, version in zip(self.saved, self.versions):
            if tensor.version != version:
                raise RuntimeError(
                    f"{self.name}: a tensor of shape {tensor.shape} that its gradient needs was overwritten in place "
                    "after the op; "
                    "write into a clone() instead"
                )
        return self.saved

    def release(self) -> None:
        """Frees what was saved, so that another backward through this step raises; a step that saved nothing stays
        usable.
        """
        if self.saved or self.backward is _user_backward:
            self.saved = self.static = None

    def __call__(self, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """The gradients of the inputs for the gradients of the outputs."""
        from netcl.autograd.backward import Walk

        walk = Walk(retain=True, create_graph=False)
        return tuple(self.backward(walk, self, list(grads), [edge is not None for edge in self.edges]))

    def __repr__(self) -> str:
        return f"<Step {self.name}>"


@dataclass(frozen=True)
class Output:
    """``grad_fn`` of the second and further outputs of a step."""

    step: Step
    index: int

    @property
    def name(self) -> str:
        """The op's name."""
        return self.step.name


def edge_of(tensor: Tensor) -> Edge:
    """Where the gradient of ``tensor`` goes: (the step that made it, which output), or (the leaf itself, -1)."""
    made: Any = tensor.grad_fn
    if made is None:
        if tensor.requires_grad:
            with lock:  # another thread may be in the middle of computing it for a jitted function
                made = tensor.grad_fn
        if made is None:
            return tensor, -1
    return (made, 0) if type(made) is Step else (made.step, made.index)


def edges_of(inputs: Sequence[Tensor]) -> tuple[Edge | None, ...]:
    """Edges of inputs, None for those that take no gradient."""
    return tuple(edge_of(t) if t.requires_grad and t.dtype in FLOATING else None for t in inputs)


def belongs(tensor: Tensor, step: Step, index: int) -> Tensor:
    """Makes ``tensor``, which nobody else holds, the output ``index`` of ``step``."""
    tensor.requires_grad = True
    tensor.grad_fn = step if index == 0 else Output(step, index)  # type: ignore[assignment]
    return tensor


# -- gradients given by the user -------------------------------------------------------------------------------------


class _User(NamedTuple):
    grad_fn: Callable[..., Any]
    facts: tuple[Fact, ...]


def user_step(name: str, grad_fn: Callable[..., Any], parents: tuple[Tensor, ...], outputs: Sequence[Tensor]) -> Step:
    """A step whose gradient is a plain function: ``grad_fn(*grads)`` gives one Tensor or None per parent."""
    facts = tuple(Fact(t.shape, t.dtype, t.queue) for t in parents)
    return Step(name, _user_backward, edges_of(parents), (), len(outputs), _User(grad_fn, facts))


def _user_backward(walk: Walk, step: Step, grads: list[Tensor | None], wanted: Sequence[bool]) -> Grads:
    step.unpack()
    user: _User = step.static
    given = user.grad_fn(*grads)
    return checked(step, given, user.facts, walk)


def checked(step: Step, given: Any, facts: Sequence[Fact], walk: Walk) -> Grads:
    """Gradients from a user's function, one per parent; errors name the op where number, shape or device do not fit."""
    results = list(given) if isinstance(given, (tuple, list)) else [given]
    if len(results) != len(facts):
        raise RuntimeError(f"{step.name}: the gradient function gave {len(results)} gradients for {len(facts)} inputs")
    for position, (result, fact) in enumerate(zip(results, facts)):
        if result is None or step.edges[position] is None:
            continue
        if not isinstance(result, Tensor):
            raise TypeError(f"{step.name}: the gradient of input {position} is a {type(result).__name__}, not a Tensor")
        if result.shape != fact.shape:
            raise ShapeError(
                f"{step.name}: the gradient of input {position} has shape {result.shape}, the input {fact.shape}",
                op=step.name,
            )
        if result.queue is not fact.queue:
            raise BackendMismatchError(
                f"{step.name}: the gradient of input {position} lives on {result.engine.device_label}, the input "
                "elsewhere",
                op=step.name,
            )
        walk.borrow(result)
        results[position] = walk.call("cast", result, dtype=fact.dtype) if result.dtype != fact.dtype else result
    return results

"""Saved tensors that are computed again in the backward pass (rematerialization), so that they take no memory between
the passes: results of one program whose inputs the graph keeps for the program's own gradient, and copies of views of
what it keeps (``views.Copied``).
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

from netcl.core import Tensor, dispatch
from netcl.core.dtypes import itemsize
from netcl.core.tensor.gradients import attach, view_of

if TYPE_CHECKING:
    from netcl.autograd.derive.plan import GradientPlan
    from netcl.core.dispatch import Bound, OpRow

LEAST_BYTES = 1 << 20  # of a tensor that is computed again
_SHARE = 64  # inputs that no gradient needs are copied if they have at most this part of the result's bytes
_DEPTH = 2  # programs that are run for one tensor


class Saving(Protocol):
    """The part of a GradNode that recipes read."""

    saved: tuple[Any, ...] | None
    versions: list[int]
    recipe: Recipe | None


class Recipe(Protocol):
    """Computes the result of a node again. ``made`` stands for the result in all nodes that save it."""

    made: weakref.ref[Recomputed] | None

    def inputs(self, node: Saving) -> list[Any] | None:
        """The tensors to compute it from, or what computes these; None if one was freed or overwritten."""
        ...

    def run(self, inputs: Sequence[Tensor]) -> Tensor:
        """The result, outside of the graph."""
        ...


class Rerun:
    """The recipe of the one result of a program. ``slots`` are the inputs that the node saves, in its order; ``others``
    has the inputs that it does not save, which are small, and their versions.
    """

    __slots__ = ("_others", "_row", "_scalars", "_slots", "made")

    def __init__(
        self, row: OpRow, slots: tuple[int, ...], others: Mapping[int, tuple[Tensor, int]], scalars: Mapping[str, Any]
    ) -> None:
        self.made: weakref.ref[Recomputed] | None = None
        self._row = row
        self._slots = slots
        self._others = others
        self._scalars = scalars

    def inputs(self, node: Saving) -> list[Any] | None:
        """The saved inputs and copies of the others, which the program may change; None if one is not there."""
        if node.saved is None or any(one.version != version for one, version in zip(node.saved, node.versions)):
            return None
        found: dict[int, Any] = dict(zip(self._slots, node.saved))
        for slot, (other, version) in self._others.items():
            if other.version != version:
                return None
            # A step that is recorded is replayed as it is: a write between the passes raises there.
            recorded = other.engine.recording is not None
            found[slot] = other if recorded else dispatch.call("clone", other, record=False)
        return [found[slot] for slot in sorted(found)]

    def run(self, inputs: Sequence[Tensor]) -> Tensor:
        """The result of the program."""
        return dispatch.call_row(self._row, tuple(inputs), {"scalars": self._scalars}, False)  # type: ignore[no-any-return]


class Recomputed:
    """A saved tensor that is computed again at its first use and kept from then on. As long as the tensor itself is
    referenced elsewhere, it is used.
    """

    __slots__ = ("__weakref__", "_grad_fn", "_inputs", "_original", "_recipe", "_value", "_versions", "depth", "shape")

    def __init__(self, x: Tensor, node: Saving, recipe: Recipe, inputs: Sequence[Any]) -> None:
        self.shape = x.shape
        self.depth: int = 1 + max([one.depth for one in inputs if type(one) is Recomputed], default=0)
        self._original: weakref.ref[Tensor] | None = weakref.ref(x)
        self._grad_fn = node
        self._recipe = recipe
        self._inputs = inputs
        self._versions = [one.version for one in inputs]
        self._value: Tensor | None = None

    @property
    def version(self) -> int:
        """0 if the tensor is as it was saved, or can be computed again as it was."""
        there = self._there()
        if there is not None:
            return there.version
        return 0 if [one.version for one in self._inputs] == self._versions else -1

    def tensor(self) -> Tensor:
        """The tensor, with its place in the graph."""
        there = self._there()
        if there is not None:
            return there
        value = self._recipe.run([one.tensor() if type(one) is Recomputed else one for one in self._inputs])
        attach(value, self._grad_fn)
        self._value = value
        return value

    def _there(self) -> Tensor | None:
        """The tensor if it is in memory."""
        if self._value is not None or self._original is None:
            return self._value
        original = self._original()
        return original if original is not None and original.shape == self.shape else None

    def separate(self, target: Tensor) -> None:
        """Called before ``target`` is written in place: what is saved stays as it is."""
        written = target.storage_id
        original = None if self._original is None else self._original()
        if original is not None and original.storage_id == written:
            self._original = None
        if any(type(one) is not Recomputed and one.storage_id == written for one in self._inputs):
            value = self.tensor().detach()  # the tensor itself may become the result of what writes
            attach(value, self._grad_fn)
            self._value = value


def pays(x: Tensor) -> bool:
    """True for a tensor that is computed again if it can be: on CPUs a large one. There large elementwise programs take
    a small part of the time of a step, and memory is that of the whole system.
    """
    return x.nbytes >= LEAST_BYTES and bool(x.engine.handle.device_type == "cpu")


def recipe_of(ready: Bound, needs: tuple[bool, ...], plan: GradientPlan, result: Tensor) -> Recipe | None:
    """The recipe of the result of a program whose gradients for the inputs in ``needs`` are those of ``plan``; None if
    the result has to be kept.
    """
    known = ready.program.gradients
    row = known.get((needs, "again"), 0)
    if row == 0:
        row = known[needs, "again"] = _row_of(ready, plan)
    if row is None or not pays(result):
        return None
    others = {slot: one for slot, one in enumerate(ready.inputs) if slot not in plan.inputs}
    if any(view_of(one) is not None and one.grad_fn is not None for one in others.values()):
        return None  # a view would keep what it is a view of
    versions = {slot: (one.detach(), one.version) for slot, one in others.items()}
    return Rerun(row, plan.inputs, versions, ready.scalars)


def _row_of(ready: Bound, plan: GradientPlan) -> OpRow | None:
    """The row that runs a program again; None if its result is small, or needed for its own gradient, or if it takes
    an input that the gradient does not need and that is not small.
    """
    program = ready.program
    if not program.single or program.relaxed or plan.outputs or plan.refusal is not None:
        return None
    nbytes = prod(program.finals[0]) * itemsize(program.outputs[0].dtype)
    others = [one.nbytes for slot, one in enumerate(ready.inputs) if slot not in plan.inputs]
    if nbytes < LEAST_BYTES or any(other * _SHARE > nbytes for other in others):
        return None
    return dispatch.program_row(f"{program.name} again", program)


def recomputed(x: Tensor, node: Saving) -> Recomputed | None:
    """Returns the stand-in for ``x``, the result of ``node``, among the saved tensors of another node; None if ``x``
    has to be kept itself.
    """
    recipe = node.recipe
    if recipe is None:
        return None
    made = None if recipe.made is None else recipe.made()
    if made is not None and made.version == 0:
        return made
    inputs = recipe.inputs(node) if x.version == 0 else None
    if inputs is None or any(type(one) is Recomputed and one.depth >= _DEPTH for one in inputs):
        return None
    made = Recomputed(x, node, recipe, inputs)
    recipe.made = weakref.ref(made)
    return made


__all__ = ["Recipe", "Recomputed", "Saving", "pays", "recipe_of", "recomputed"]

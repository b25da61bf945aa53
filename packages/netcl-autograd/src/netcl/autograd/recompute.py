"""Saved tensors that are computed again in the backward pass (rematerialization), so that they take no memory between
the passes: results of a program with inputs that the graph keeps for the program's own gradient, and copies of views of
kept tensors (``views.Copied``).
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

from netcl.autograd.levels import LEVELS
from netcl.core import Tensor
from netcl.core.dtypes import itemsize
from netcl.core.ops_table import dispatch
from netcl.core.storage.gradients import attach, view_of

if TYPE_CHECKING:
    from netcl.core.errors import UnsupportedError
    from netcl.core.ops_table.dispatch import Bound, OpRow, Program
if TYPE_CHECKING or "capture" in LEVELS:
    from netcl.runtime.capture import is_capturing

LEAST_BYTES = 1 << 20  # of a tensor that is computed again
_SHARE = 64  # inputs that no gradient needs are copied if they have at most this part of the result's bytes
_DEPTH = 2  # programs that are run for one tensor


class Saving(Protocol):
    """The part of a GradNode that recipes read."""

    saved: tuple[Any, ...] | None
    versions: list[int]
    recipe: Recipe | None


class Saves(Protocol):
    """The part of a GradientPlan that recipes read: what a program saves, and why it has no gradient."""

    @property
    def inputs(self) -> tuple[int, ...]: ...
    @property
    def outputs(self) -> tuple[int, ...]: ...
    @property
    def refusal(self) -> UnsupportedError | None: ...


class Recipe(Protocol):
    """Computes the result of a node again. ``made`` stands for the result in all nodes that save it."""

    made: weakref.ref[Recomputed] | None

    def inputs(self, node: Saving) -> list[Any] | None:
        """Returns the tensors to compute it from, or their stand-ins; None if one was freed or overwritten."""
        ...

    def run(self, inputs: Sequence[Tensor]) -> Tensor:
        """Returns the result, outside of the graph."""
        ...


class Rerun:
    """The recipe of the one result of a program. ``slots`` are the inputs that the node saves, in its order; ``others``
    has the inputs that it does not save, all small, and their versions.
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
        """Returns the saved inputs and copies of the others, which the program may change; None if an input is gone."""
        if node.saved is None or any(tensor.version != version for tensor, version in zip(node.saved, node.versions)):
            return None
        tensors: dict[int, Any] = dict(zip(self._slots, node.saved))
        for slot, (other, version) in self._others.items():
            if other.version != version:
                return None
            # A step that is recorded is replayed as it is: a write between the passes raises there.
            recorded = "capture" in LEVELS and is_capturing((other,))
            tensors[slot] = other if recorded else dispatch.call("clone", other, record=False)
        return [tensors[slot] for slot in sorted(tensors)]

    def run(self, inputs: Sequence[Tensor]) -> Tensor:
        """Returns the result of the program."""
        return dispatch.call_row(self._row, tuple(inputs), {"scalars": self._scalars}, False)  # type: ignore[no-any-return]


class Recomputed:
    """A saved tensor that is computed again at its first use and kept from then on. As long as the tensor itself is
    referenced elsewhere, it is used.
    """

    __slots__ = ("__weakref__", "_grad_fn", "_inputs", "_original", "_recipe", "_value", "_versions", "depth", "shape")

    def __init__(self, x: Tensor, node: Saving, recipe: Recipe, inputs: Sequence[Any]) -> None:
        self.shape = x.shape
        self.depth: int = 1 + max([value.depth for value in inputs if type(value) is Recomputed], default=0)
        self._original: weakref.ref[Tensor] | None = weakref.ref(x)
        self._grad_fn = node
        self._recipe = recipe
        self._inputs = inputs
        self._versions = [value.version for value in inputs]
        self._value: Tensor | None = None
        _live.add(self)

    @property
    def version(self) -> int:
        """0 if the tensor is as it was saved, or can be computed again as it was."""
        there = self._there()
        if there is not None:
            return there.version
        return 0 if [tensor.version for tensor in self._inputs] == self._versions else -1

    def tensor(self) -> Tensor:
        """Returns the tensor, with its place in the graph."""
        there = self._there()
        if there is not None:
            return there
        value = self._recipe.run([saved.tensor() if type(saved) is Recomputed else saved for saved in self._inputs])
        attach(value, self._grad_fn)
        self._value = value
        return value

    def _there(self) -> Tensor | None:
        """Returns the tensor if it is in memory."""
        if self._value is not None or self._original is None:
            return self._value
        original = self._original()
        return original if original is not None and original.shape == self.shape else None

    def separate(self, target: Tensor) -> None:
        """Keeps saved values as they are before ``target`` is written in place."""
        written = target.storage_id
        original = None if self._original is None else self._original()
        if original is not None and original.storage_id == written:
            self._original = None
        if any(type(tensor) is not Recomputed and tensor.storage_id == written for tensor in self._inputs):
            self.keep()

    def keep(self) -> None:
        """Computes the tensor now, and keeps it."""
        value = self.tensor().detach()  # the tensor itself may become the result of what writes
        attach(value, self._grad_fn)
        self._value = value


_live: weakref.WeakSet[Recomputed] = weakref.WeakSet()


def keep_values() -> None:
    """Computes what would be computed again: a write follows that versions do not count."""
    for value in list(_live):
        if value.version == 0:
            value.keep()


def pays(x: Tensor) -> bool:
    """True for a tensor that is computed again if possible: on CPUs a large one. There large elementwise programs take
    a small part of the time of a step, and the whole system shares the memory.
    """
    return x.nbytes >= LEAST_BYTES and bool(x.engine.handle.device_type == "cpu")


def recipe_of(ready: Bound, needs: tuple[bool, ...], plan: Saves, result: Tensor) -> Recipe | None:
    """Returns the recipe of a result, for gradients of the inputs in ``needs`` by ``plan``; None if it must be kept."""
    known = ready.program.gradients
    row = known.get((needs, "again"), 0)
    if row == 0:
        row = known[needs, "again"] = _row_of(ready, plan)
    if row is None or not pays(result):
        return None
    others = {slot: tensor for slot, tensor in enumerate(ready.inputs) if slot not in plan.inputs}
    if any(view_of(tensor) is not None and tensor.grad_fn is not None for tensor in others.values()):
        return None  # a view would keep what it is a view of
    versions = {slot: (tensor.detach(), tensor.version) for slot, tensor in others.items()}
    return Rerun(row, plan.inputs, versions, ready.scalars)


def recomputes(program: Program, needs: tuple[bool, ...]) -> bool:
    """Returns False if ``recipe_of`` has found that the result must be kept, for all inputs of these shapes."""
    return program.gradients.get((needs, "again"), 0) is not None


def _row_of(ready: Bound, plan: Saves) -> OpRow | None:
    """Returns the row that runs a program again; None if its result is small, or needed for its own gradient, or if a
    large input is not needed for the gradient.
    """
    program = ready.program
    if not program.single or program.relaxed or plan.outputs or plan.refusal is not None:
        return None
    nbytes = prod(program.finals[0]) * itemsize(program.outputs[0].dtype)
    others = [tensor.nbytes for slot, tensor in enumerate(ready.inputs) if slot not in plan.inputs]
    if nbytes < LEAST_BYTES or any(other * _SHARE > nbytes for other in others):
        return None
    return dispatch.program_row(f"{program.name} again", program)


def recomputed(x: Tensor, node: Saving) -> Recomputed | None:
    """Returns the stand-in for ``x``, the result of ``node``, that another node saves; None if ``x`` must be kept."""
    recipe = node.recipe
    if recipe is None:
        return None
    made = None if recipe.made is None else recipe.made()
    if made is not None and made.version == 0:
        return made
    inputs = recipe.inputs(node) if x.version == 0 else None
    if inputs is None or any(type(value) is Recomputed and value.depth >= _DEPTH for value in inputs):
        return None
    made = Recomputed(x, node, recipe, inputs)
    recipe.made = weakref.ref(made)
    return made

"""A stretch: the calls of a period that has repeated, and the captured step that computes them."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from sys import getrefcount
from typing import Any

import numpy as np

from netcl.core.dtypes import numpy_dtype
from netcl.core.errors import CaptureError, KernelBuildError
from netcl.core.ops_table import dispatch, modes
from netcl.core.ops_table.table import OpRow
from netcl.core.process.grad_mode import plain_recording, state
from netcl.core.storage.gradients import Shared
from netcl.core.storage.views import Geometry, ViewStorage, root_of
from netcl.core.tensor import Tensor, in_place
from netcl.core.tensor.in_place import copy
from netcl.runtime.capture import CapturedStep, Replay, barrier, written_so_far
from netcl.runtime.prediction.call_log import READ_GRADIENT, SET_GRADIENT, PeriodLog, Result
from netcl.runtime.prediction.calls import (
    Call,
    Number,
    Outside,
    Slot,
    Unpredictable,
    equal,
    filled,
    is_number,
    results_of,
    run_call,
)

__all__ = ["Stretch", "alike", "find_numbers"]

_VARIED = 8  # inputs that were the same objects in both logged periods
_NUMBERS = 32  # numbers that differ in each period: each is an upload
_ARITHMETIC = frozenset(("add", "sub", "mul", "div"))
_ASSIGN: Any = in_place.assign.__wrapped__  # type: ignore[attr-defined]
# A GPU starts on parts of a period: after so many of the calls before the backward pass, if they are many.
_STARTS, _LEAST_CALLS = (0.05, 0.2, 0.5), 64


def starts_early(engine: Any) -> bool:
    """Returns True if a device computes while Python runs: CPUs compute on the cores that run it."""
    return bool(engine.name == "cl" and engine.handle.device_type.lower() == "gpu")


def alike(before: PeriodLog, log: PeriodLog) -> bool:
    """Returns True if two periods have equal calls, of tensors from outside with equal properties. The first period of
    a program may begin later, after calls without tensors such as ``zero_grad``.
    """
    more = len(log.calls) - len(before.calls)
    if before.engine is not log.engine or len(before.outside) != len(log.outside) or more < 0:
        return False
    if any(call.made or call.written or call.references for call in log.calls[:more]):
        return False
    if not more and before.blocks != log.blocks:
        return False
    for a, b in zip(before.calls, log.calls[more:]):
        if a.target is not b.target or (a.record, a.enabled, a.ends) != (b.record, b.enabled, b.ends):
            return False
        if (before.blocks[a.block] != log.blocks[b.block]) if more else (a.block != b.block):
            return False
        if (a.made, a.written, a.rewritten) != (b.made, b.written, b.rewritten):
            return False
        if not all(equal(x, y, operator.eq) for x, y in ((a.args, b.args), (a.kwargs, b.kwargs), (a.result, b.result))):
            return False
    for x, y in zip(before.outside, log.outside):
        if (x.shape, x.dtype, x._requires_grad) != (y.shape, y.dtype, y._requires_grad):
            return False
    return True


def find_numbers(before: PeriodLog, log: PeriodLog) -> None:
    """Replaces numbers that differ in two periods by ``Number`` in both: a weight that is annealed, a value that was
    read on the host.
    """
    for a, b in zip(before.calls, log.calls[max(0, len(log.calls) - len(before.calls)) :]):
        if a.target is not b.target:
            return
        for at, (x, y) in enumerate(zip(a.args, b.args)):
            if can_change(log, b, at) and can_change(before, a, at) and not equal(x, y, operator.eq):
                change_number(a, at)
                change_number(b, at)


def can_change(log: PeriodLog, call: Call, at: int) -> bool:
    """Returns True if the operand ``at`` of a call is a number that may differ in each period: kernels of arithmetic in
    float32 and float64 give the same bits for a tensor with this element.
    """
    row = call.target
    if not isinstance(row, OpRow) or row.name not in _ARITHMETIC or call.kwargs or len(call.args) != 2:
        return False
    other = call.args[1 - at]
    if not (is_number(call.args[at]) or type(call.args[at]) is Number) or type(other) not in (Slot, Outside):
        return False
    (made,) = call.made
    return made.dtype in ("float32", "float64") and log.dtype_of(other) == made.dtype


def change_number(call: Call, at: int) -> None:
    """Replaces the operand ``at`` of a call, a number, by ``Number``."""
    value = call.args[at]
    if type(value) is not Number:
        number = Number(0, value, call.made[0].dtype)
        call.args = tuple(number if place == at else each for place, each in enumerate(call.args))


def selection_of(before: PeriodLog, log: PeriodLog) -> Any:
    """Returns the row of the first call that differs in two periods, if the two calls select elements of tensors from
    outside by other arguments, such as ``data[i : i + 64]``; else None.
    """
    for a, b in zip(before.calls, log.calls):
        same = a.target is b.target and (a.made, a.written, a.result) == (b.made, b.written, b.result)
        if not same or not all(equal(x, y, operator.eq) for x, y in ((a.args, b.args), (a.kwargs, b.kwargs))):
            return a.target if a.target is b.target and a.selects and b.selects else None
    return None


class Stretch:
    """The calls of two periods that are alike, and what they use: ``outside`` has the tensors that are the same objects
    in both, None for an input. ``results`` are what outlives a period, or is read in it. ``barriers`` are the positions
    of these reads, each before the call of this number, and ``starts`` the positions at which a GPU begins to compute,
    though nothing is read: what comes before one of these is a part of the captured step. The ``varied`` are inputs
    that were the same objects in both periods.

    Raises Unpredictable, or CaptureError, if the period cannot be captured.
    """

    def __init__(
        self,
        before: PeriodLog,
        log: PeriodLog,
        results: Sequence[Result],
        barriers: Iterable[int] = (),
        varied: Iterable[int] = (),
    ) -> None:
        self.logs: tuple[PeriodLog, PeriodLog] = (before, log)
        self.varied: frozenset[int] = frozenset(varied)
        self.barriers: list[int] = sorted(barriers)
        self.calls: list[Call] = log.calls
        self.blocks: list[Any] = log.blocks
        self.engine: Any = log.engine
        self.starts: frozenset[int] = self._starts()
        self.results: list[Result] = [each for each in results if each.same is each.of is each.root is None]
        self.views: list[tuple[Result, int]] = [(each, each.root) for each in results if each.root is not None]
        self._graded: list[Result] = [result for result in results if result.of is not None]
        self.aliases: list[tuple[Result, int]] = [(one, one.same) for one in results if one.same is not None]
        self.outlives: set[int] = {result.slot for result in results if result.outlives}
        self.slots: int = sum(len(call.made) for call in self.calls)
        self.geometries: dict[int, Geometry] = {
            made.slot: made.geometry for call in self.calls for made in call.made if made.geometry
        }
        shared = before.shared | log.shared | self.varied
        pairs = enumerate(zip(before.outside, log.outside))
        self.outside: list[Any] = [y if x is y and number not in shared else None for number, (x, y) in pairs]
        self.specs: list[tuple[Any, ...]] = [
            (tensor.engine, tensor.shape, tensor.dtype, tensor._requires_grad) for tensor in log.outside
        ]
        self.inputs: list[int] = [number for number, tensor in enumerate(self.outside) if tensor is None]
        if any(t._requires_grad and t.grad_fn is None for t in map(log.outside.__getitem__, self.inputs)):
            raise Unpredictable("an input requires grad")
        self.numbers: list[Number] = self._find_numbers()
        self._find_last_uses()
        self.masks: list[tuple[Any, int]] = []  # masks that select elements, with the number of writes into them
        written = {number for call in self.calls for number in call.written}
        self._written_roots: set[int] = {id(root_of(log.outside[number])) for number in written}
        self._recorded: list[Call] = [self._with_tensors(call) for call in self.calls]
        samples = [log.outside[number] for number in self.inputs]
        samples += [self.number_tensor(place, number.value) for place, number in enumerate(self.numbers)]
        if not samples:  # a captured step has at least one argument
            samples = [self.engine.empty((1,), "float32")]
        # The captured step finds what the calls depend on in these.
        self._objects = [value for call in self.calls for value in (*call.args, *call.kwargs.values())]
        self._constants = [tensor for tensor in self.outside if tensor is not None]
        self.roots: dict[int, Any] = {id(root): root for root in map(root_of, self._constants)}
        self.written_by: dict[int, list[Any]] = {}  # by position: storages that the event there writes
        self._noted: set[int] = set()
        try:
            self.captured: CapturedStep = self._capture(tuple(samples))
        except (CaptureError, KernelBuildError):
            raise
        except Exception as error:  # of calls on tensors in the place of the program's
            raise Unpredictable(f"its calls cannot be recorded: {error}") from error
        if self.captured.is_whole:
            raise Unpredictable("an input is written in place")
        if self.captured.parts != len(self.ends):
            raise Unpredictable("a value is read in a step that adds to gradients")
        self.draws: bool = any(call.draws for call in self.calls)
        # A start then writes memory of the replay alone: nothing has to be restored if the calls run again.
        read = any(gradient.read for gradient in self.captured._gradients)
        self.may_start: bool = not (read or self.captured.written_early)
        leaves = [tensor for tensor in log.outside if tensor._requires_grad and tensor.grad_fn is None]
        self.leaves: list[Any] = [*leaves, *(gradient.parameter for gradient in self.captured._gradients)]
        self.guarded: list[Any] = [gradient.parameter for gradient in self.captured._gradients if gradient.used]
        self._find_gradients()
        self._kept_gradients = [gradient for gradient in self.captured._gradients if gradient.replaced]

    def _capture(self, samples: tuple[Any, ...]) -> CapturedStep:
        """Returns the captured step. Replays copy the gradients that it begins from to memory of its own: the program
        may keep the present gradients, and another stretch may have been captured with them.
        """
        captured = CapturedStep(self._step, samples)
        begun: list[tuple[Any, Any]] = [(gradient.parameter, gradient.before) for gradient in captured._copied]
        if not begun:
            return captured
        self.starts = frozenset()  # a step that adds to gradients is replayed as a whole
        used = {id(root_of(tensor)) for tensor in self.logs[1].outside}
        if any(id(root_of(before)) in used for _, before in begun):
            raise Unpredictable("a gradient is used by itself")
        self.written_by, self._noted = {}, set()
        try:
            for parameter, before in begun:
                parameter.grad = before.engine.empty(before.shape, before.dtype)
                dispatch.assign(parameter.grad, before)
            return CapturedStep(self._step, samples)
        finally:
            for parameter, before in begun:
                parameter.grad = before

    @cached_property
    def ends(self) -> list[int]:
        """The positions at which parts end."""
        return sorted({*self.barriers, *self.starts, len(self.calls)})

    def _starts(self) -> frozenset[int]:
        """Returns the positions at which a GPU begins to compute: it would be idle while Python runs."""
        changes = (at for at, call in enumerate(self.calls) if hasattr(call.target, "changes_gradients"))
        backward = next((at for at in changes if at >= _LEAST_CALLS), 0)
        if not backward or not starts_early(self.engine):
            return frozenset()
        if any(call.written for call in self.calls[: int(_STARTS[-1] * backward)]):  # such as running statistics
            return frozenset()
        return frozenset(int(share * backward) for share in _STARTS).difference(self.barriers)

    def _find_gradients(self) -> None:
        """Finds the gradients that the program reads or sets. A backward pass of the period must begin from none."""
        used = {id(gradient.parameter): gradient for gradient in self.captured._gradients}
        leaves: dict[int, Any] = {
            each.slot: each.of for call in self.calls for each in call.made if each.of is not None
        }
        leaves.update({result.slot: result.of for result in self._graded})
        by_slot: dict[int, Any] = {slot: used.get(id(self.outside[number])) for slot, number in leaves.items()}
        for gradient in by_slot.values():
            if gradient is None or not gradient.replaced:
                raise Unpredictable("a gradient that is used by itself is not made in the step")
            if gradient.copied or (gradient.read and gradient.before is not None):
                raise Unpredictable("a gradient that is used by itself adds to one from before")
        self.from_none: list[Any] = [gradient.parameter for gradient in by_slot.values() if gradient.read]
        # By slot: the gradients that leaves have at the end, and all results that are on their memory.
        self.gradients: dict[int, Any] = {result.slot: by_slot[result.slot] for result in self._graded}
        places = {id(gradient.after._storage): gradient for gradient in by_slot.values() if gradient.after is not None}
        self.on_gradients: dict[int, Any] = {}
        for result, captured in zip(self.results, self.captured.results()):
            if id(captured._storage) in places:
                if result.outlives:
                    raise Unpredictable("a gradient shares its memory with another tensor")
                self.on_gradients[result.slot] = places[id(captured._storage)]

    def _find_last_uses(self) -> None:
        uses: dict[int, int] = {}

        def note(reference: Any) -> Any:
            if type(reference) is Slot:
                uses[reference.number] = at
            return reference

        for at, call in enumerate(self.calls):  # noqa: B007, which note reads
            for template in (call.args, call.kwargs, call.result):
                filled(template, note)
        kept = {result.slot for result in self.results}
        codes = {Slot: 0, Outside: 1, Number: 3}
        for call in self.calls:
            kinds = [codes.get(type(template), 2) for template in call.args]
            call.checks = tuple((kind, a if kind == 2 else a.number) for kind, a in zip(kinds, call.args))
        for at, call in enumerate(self.calls):
            call.last_uses = tuple(slot for slot, last in uses.items() if last == at and slot not in kept)

    def _step(self, *inputs: Any) -> list[Any]:
        """Runs the calls one by one, as the program did; the captured step is a recording of this."""
        outside = list(self.outside)
        for number, tensor in zip(self.inputs, inputs):
            outside[number] = tensor
        numbers = inputs[len(self.inputs) :]
        slots: list[Any] = [None] * self.slots
        read: dict[int, Any] = {}
        stale: set[int] = set()  # copies of views that have been written since
        block = -1
        with plain_recording(), ExitStack() as stack:
            for at, call in enumerate(self._recorded):
                if at in self.barriers:
                    if stale:
                        raise Unpredictable("a view is read, written and read again")
                    self._settle_views(slots, read)
                if at in self.barriers or at in self.starts:
                    barrier(self.engine)
                if call.block != block:
                    stack.close()
                    block = call.block
                    stack.enter_context(modes.restored(self.blocks[block]))
                state.enabled = call.enabled
                run_again(call, slots, outside, numbers)
                if not isinstance(call.target, OpRow) and at < len(self.calls) - 1:
                    self._note_written(at)
                stale.update(read.keys() & call.rewritten)
                for slot in call.last_uses:
                    slots[slot] = None
        return [read.get(result.slot, slots[result.slot]) for result in self.results]

    def _note_written(self, at: int) -> None:
        """Notes the memory that an event is the first call to write, which it may have from another place than its
        arguments.
        """
        written = written_so_far(self.engine)
        self.written_by[at] = [root_of(written[number]) for number in written.keys() - self._noted]
        self._noted |= written.keys()

    def _settle_views(self, slots: Sequence[Any], read: dict[int, Any]) -> None:
        """Copies the results so far that are views into ``read``: the copy belongs to the part before the barrier."""
        for result in self.results:
            tensor = slots[result.slot]
            if result.slot not in read and tensor is not None and type(tensor._storage) is ViewStorage:
                if result.outlives:
                    raise Unpredictable("a view is read in the step and outlives it")
                copied = read[result.slot] = tensor.engine.empty(tensor.shape, tensor.dtype)
                dispatch.assign(copied, tensor)

    def divided(self, position: int, held: Sequence[int]) -> Stretch:
        """Returns the same stretch with one part more, which ends at ``position``. The slots ``held``, which may be
        read there, are results too.
        """
        known = {result.slot for result in self._all_results if result.of is None}
        known.update(slot for slot, geometry in self.geometries.items() if geometry.overlaps)  # cannot be written
        more = [Result(slot, None, outlives=False) for slot in held if slot not in known]
        return Stretch(*self.logs, [*self._all_results, *more], {*self.barriers, position}, self.varied)

    def can_vary(self, number: int) -> bool:
        """Returns True if the constant from outside can be an input: no call writes it, and few were constants."""
        return len(self.varied) < _VARIED and not any(number in call.written for call in self.calls)

    def varying(self, number: int) -> Stretch:
        """Returns the same stretch with the constant from outside as an input."""
        return Stretch(*self.logs, self._all_results, self.barriers, {*self.varied, number})

    def can_differ(self, position: int) -> bool:
        """Returns True if a number of the call at ``position`` can differ in each period."""
        log, call = self.logs[1], self.calls[position]
        return len(self.numbers) < _NUMBERS and any(can_change(log, call, at) for at in range(len(call.args)))

    def differing(self, position: int) -> Stretch:
        """Returns the same stretch with the number of the call at ``position`` as an input."""
        log, call = self.logs[1], self.calls[position]
        for at in range(len(call.args)):
            if can_change(log, call, at):
                change_number(call, at)
        return Stretch(*self.logs, self._all_results, self.barriers, self.varied)

    def number_tensor(self, place: int, value: float) -> Any:
        """Returns the tensor that a replay reads for the ``place``-th number that differs."""
        dtype = self.numbers[place].dtype
        return self.engine.tensor(np.asarray(value, numpy_dtype(dtype)), dtype)

    def _find_numbers(self) -> list[Number]:
        """Returns the operands that are another number in each period, which it counts."""
        numbers: list[Number] = []
        for call in self.calls:
            for at, value in enumerate(call.args):
                if type(value) is Number:
                    numbers.append(replace(value, number=len(numbers)))
                    call.args = (*call.args[:at], numbers[-1], *call.args[at + 1 :])
        if len(numbers) > _NUMBERS:
            raise Unpredictable(f"more than {_NUMBERS} numbers differ")
        return numbers

    def _with_tensors(self, call: Call) -> Call:
        """Returns the call as it is recorded: a key with lists of indices, which would be uploaded, has tensors."""
        row = call.target
        if not (row is _ASSIGN or (isinstance(row, OpRow) and row.name == "getitem")) or len(call.args) < 2:
            return call
        key = call.args[1]
        key = tuple(map(self._indices, key)) if type(key) is tuple else self._indices(key)
        return replace(call, args=(call.args[0], key, *call.args[2:]))

    def _indices(self, item: Any) -> Any:
        """Returns an entry of a key, a list of indices as a tensor; a list of bools, or a mask on memory that no call
        writes, as the indices of its true elements.
        """
        mask = self.outside[item.number] if type(item) is Outside else None
        if mask is not None and mask.dtype == "bool" and mask.ndim == 1 and mask.size:
            if id(root_of(mask)) in self._written_roots:
                return item
            self.masks.append((mask, mask._storage.version))
            return self.engine.nonzero(mask)
        if not isinstance(item, (list, range, np.ndarray)):
            return item
        try:
            array = np.asarray(item)
        except ValueError:  # of lists of several lengths
            return item
        if array.dtype == bool and array.ndim == 1:
            array = np.flatnonzero(array)
        return self.engine.tensor(array.astype(np.int64), "int64") if array.dtype.kind in "iu" else item

    def constants_are_as_logged(self) -> bool:
        """Returns True if the constants have the shapes, dtypes and ``requires_grad`` of the logged periods, and masks
        their elements.

        Calls are compared by the identity of their tensors, so this must hold where a period begins.
        """
        return all(mask._storage.version == version for mask, version in self.masks) and all(
            tensor is None
            or (tensor._requires_grad is requires_grad and tensor.shape == shape and tensor.dtype == dtype)
            for tensor, (_, shape, dtype, requires_grad) in zip(self.outside, self.specs)
        )

    @property
    def _all_results(self) -> list[Result]:
        return [*self.results, *(alias for alias, _ in self.aliases), *self._graded, *(view for view, _ in self.views)]

    def begin(self) -> Replay:
        """Begins to compute a period."""
        return self.captured.begin()

    def take_gradients(self, replay: Replay) -> None:
        """Begins from the gradients that are there now; leaves a gradient to the program before a replay writes it."""
        for gradient in self._kept_gradients:
            _leave(gradient)
        replay.take_gradients()

    def keep_gradients(self) -> None:
        """Leaves gradients to their parameters, or to a program that refers to them, before a part that uses none: its
        launches may use their memory for what the step computes before its gradients.
        """
        held = self.held_gradients()
        for gradient in self._kept_gradients:
            _leave(gradient, always=gradient in held)

    @cached_property
    def clears_gradients(self) -> int:
        """The position after the first ``zero_grad``, backward pass or the like: a call that changes gradients, and is
        not one that the program reads or sets.
        """
        own = READ_GRADIENT, SET_GRADIENT
        changes = (getattr(c.target, "changes_gradients", False) and c.target not in own for c in self.calls)
        return next((at + 1 for at, changed in enumerate(changes) if changed), len(self.calls))

    def held_gradients(self) -> list[Any]:
        """Returns the gradients of the last replay that their parameters still have."""
        return [gradient for gradient in self._kept_gradients if _held_gradient(gradient.parameter) is gradient.after]


def _leave(gradient: Any, always: bool = False) -> None:
    """Leaves the tensor of the last replay's gradient, which this replay writes, to a program that refers to it;
    ``always``: to its parameter too.
    """
    tensor = gradient.after
    if tensor is None:
        return
    # References of the tensor: ``after``, this name, the argument, ``grad`` of the parameter, and ``before``.
    begins = gradient.before is tensor
    own = 3 + (_held_gradient(gradient.parameter) is tensor) + begins
    storage = tensor._storage
    if not always and getrefcount(tensor) <= own and getrefcount(storage) <= 3:
        return
    gradient.after = _moved(tensor)
    if begins:
        gradient.before = gradient.after


def _moved(tensor: Any) -> Any:
    """Moves ``tensor`` to other memory, and returns a new tensor on that which it had."""
    storage = tensor._storage
    fresh = tensor.engine.empty(tensor.shape, tensor.dtype)
    dispatch.assign(fresh, tensor)
    left = Tensor._wrap(tensor.engine, tensor.shape, tensor.dtype, storage.buffer, storage.array, storage.allocation)
    storage.fill(fresh._storage)
    return left


def as_view(value: Any, geometry: Geometry) -> Any:
    """Returns a view of the ``geometry`` with the values of ``value``; the tensor below it has nothing else."""
    steps = zip(geometry.shape, geometry.strides)
    last = geometry.offset + sum(max((size - 1) * step, 0) for size, step in steps)
    root = value.engine.empty((last + 1,), value.dtype)
    view = dispatch.call("as_strided", root, tuple(geometry.shape), tuple(geometry.strides), geometry.offset)
    copy(view, value)
    return view


def _held_gradient(parameter: Any) -> Any:
    held = parameter._grad
    return held.value if type(held) is Shared else held


def run_again(call: Call, slots: list[Any], outside: Sequence[Any], numbers: Sequence[Any]) -> list[tuple[int, Any]]:
    """Runs a call on tensors; puts what it makes into ``slots`` and returns it."""
    places: dict[type, Sequence[Any]] = {Slot: slots, Outside: outside, Number: numbers}

    def tensor_of(reference: Any) -> Any:
        return places[type(reference)][reference.number]

    result = run_call(call.target, filled(call.args, tensor_of), filled(call.kwargs, tensor_of), call.record)
    made = []
    fresh = {each.slot for each in call.made}
    for number, tensor in results_of(call.result, result):
        if number in fresh:
            slots[number] = tensor
            made.append((number, tensor))
    return made

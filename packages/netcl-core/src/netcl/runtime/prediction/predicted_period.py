"""A predicted period: its calls are compared with the calls of a stretch, and computed by a replay or one by one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from sys import getrefcount
from typing import Any

from numpy import ndarray

from netcl.core.dtypes import DType
from netcl.core.errors import CaptureError, OutOfMemoryError
from netcl.core.ops_table import dispatch, modes
from netcl.core.ops_table.dispatch import assign
from netcl.core.process.grad_mode import plain_recording
from netcl.core.process.grad_mode import state as grad_state
from netcl.core.process.hook_stack import PREDICTOR, hooks_of_thread
from netcl.core.storage import gradients
from netcl.core.storage.data import TensorData
from netcl.core.storage.storage import Storage, lock
from netcl.core.storage.views import ViewStorage, is_of_the_program, root_of
from netcl.core.tensor import Tensor
from netcl.core.tensor.deferred import set_error
from netcl.core.tensor.generator import default_generator, predict_draws, predicted_draws
from netcl.runtime.capture import Replay
from netcl.runtime.prediction.call_log import (
    READ_GRADIENT,
    Result,
    are_casts,
    block_of,
    ends_here,
    is_special,
)
from netcl.runtime.prediction.calls import Call, Outside, Slot, filled, is_number, same_array
from netcl.runtime.prediction.interrupts import Uninterrupted
from netcl.runtime.prediction.program_arrays import ProgramArrays
from netcl.runtime.prediction.report import Report
from netcl.runtime.prediction.stretch import Stretch, as_view, run_again

__all__ = ["MISS", "PredictedPeriod"]

MISS: Any = object()  # the result of a call that is not as predicted
_INT = frozenset((int,))


class PredictedPeriod:
    """The calls of a period that were predicted and are not computed yet: deferred tensors have it as computation."""

    def __init__(self, stretch: Stretch, report: Report) -> None:
        self.stretch: Any = stretch
        self.position: int = 0
        self.slots: list[Any] = [None] * stretch.slots
        self.outside: list[Any] = list(stretch.outside)
        self.hooks: list[tuple[tuple[int, Any], ...]] = []  # of each autocast block
        self.over: bool = False
        self.committed: bool = False
        self.ends: bool = False  # the last predicted call has the step that ends the period in it
        self.guarded: bool = False
        self.passed: bool = False  # a backward pass is among the calls
        self.missed: int | None = None  # the position of a read that ended the prediction
        self.held: list[int] = []  # the slots that the program referred to there
        self.varied: int | None = None  # a tensor from outside that was another one than in the periods of the log
        self.differs: int | None = None  # the position of a call with another number
        self.numbers: list[Any] = [None] * len(stretch.numbers)
        self.later: gradients.Mark = gradients.Mark("known once the predicted calls are computed", self)
        self._marked: list[Storage] = []
        self._replay: Replay | None = None
        self._part = 0  # the next part to replay
        self._begins = False  # from gradients that are there, which calls so far have used
        self._made = 0  # slots
        self._bound: set[int] = set()
        self._numbers: list[Any] = []  # tensors of the numbers that are bound, which a replay reads
        self._before: list[tuple[Any, Any, int]] = []
        self._offset = 0
        self._report = report
        self._block: Any = self
        self._seen: Any = None  # the hooks of the thread at the last call
        self._arrays: ProgramArrays | None = None

    def materialize(self) -> None:
        """Computes a part of the stretch if it ends here, else the calls so far one by one: a value is needed."""
        with Uninterrupted(), lock:
            if self.over or self.commit(reads=True):
                return
            # After the last call only ``commit`` replays: a Ctrl-C has come before it, and settling may follow.
            reads = self.position < len(self.stretch.calls) and self.position not in self.stretch.starts
            if reads and self._advance(self.position):
                return
            self.missed = self.position
            self.held = [slot for slot in range(self._made) if getrefcount(self.slots[slot]) > 2]
            self.settle("a value was read")

    def keep(self, tensor: Any) -> None:
        """Does the same, as another tensor on the storage of ``tensor`` is made."""
        self.settle("another tensor on a storage")

    def concerns(self, tensor: Any) -> bool:
        """Returns True if ``tensor`` shares memory with a tensor that the calls so far may use, and have not yet."""
        if self.over:
            return False
        root = root_of(tensor)
        if id(root) in self.stretch.roots or (root.deferred is not None and root.deferred[0] is self):
            return True
        inputs = [self.outside[number] for number in self.stretch.inputs]
        return any(other is not None and root_of(other) is root for other in inputs)

    def makes(self, tensor: Any) -> bool:
        """Returns True if ``tensor`` is a result of a predicted call, or written by one."""
        deferred = root_of(tensor).deferred
        return deferred is not None and deferred[0] is self

    def geometry(self, number: int) -> Any:
        """Returns the geometry of the view that slot ``number`` will be; None if it will be none."""
        return self.stretch.geometries.get(number)

    # -- calls ---------------------------------------------------------------------------------------------------------

    def predicted(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], record: bool | None) -> Any:
        """Returns the result of a call that is the next one of the stretch; MISS for another call."""
        position = self.position
        calls = self.stretch.calls
        if position >= len(calls):
            return MISS
        call = calls[position]
        if call.target is not target or call.record is not record or call.enabled is not grad_state.enabled:
            return MISS
        if is_special():
            return MISS
        hooks = hooks_of_thread.state[1]
        if (not self._in_block(hooks, call)) or len(args) != len(call.args):
            return MISS
        slots, outside = self.slots, self.outside
        for (kind, expected), value in zip(call.checks, args):
            if kind == 0:
                if slots[expected] is not value:
                    return MISS
            elif kind == 1:
                if outside[expected] is not value:
                    if not self._is_input(expected, value):
                        return MISS
                elif self._arrays is not None and not self._arrays.unchanged(expected):
                    return MISS
            elif kind == 3:
                if not is_number(value):
                    return MISS
                self.numbers[expected] = value
            elif expected is not value and not self._equal(expected, value):
                if is_number(value) and is_number(expected):
                    self.differs = position
                return MISS
        if kwargs or call.kwargs:
            if len(kwargs) != len(call.kwargs):
                return MISS
            for name, template in call.kwargs.items():
                if name not in kwargs or not self._equal(template, kwargs[name]):
                    return MISS
        if call.event and not self._is_possible(target, args, kwargs, call.result):
            return MISS
        for made in call.made:
            slots[made.slot] = self._deferred(made)
            self._made += 1
        if call.written:
            self._mark(call.written)
        for slot in call.rewritten:
            if type(slots[slot]._storage) is ViewStorage:  # which would gather what a part has computed
                slots[slot]._storage = Storage.of(None, None, None)
            if slots[slot]._storage.deferred is None:  # a part has computed it as it was before
                slots[slot]._storage.deferred = self, slot
        for storage in self.stretch.written_by.get(position, ()):
            self._mark_storage(storage)
        if call.draws:
            predict_draws(self)
        if call.event:
            if getattr(target, "changes_gradients", False) and not self.guarded:
                self._guard()
            self.passed = self.passed or getattr(target, "makes_gradients", False)
        self.ends = call.ends
        self.position = position + 1
        if self.position in self.stretch.starts and self.stretch.may_start:
            self._start()
        result = call.result
        if type(result) is Slot:
            return slots[result.number]
        return filled(result, self._tensor_of)

    def _is_possible(self, event: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> bool:
        """Returns True if an event may be computed later, and the gradients are as it found them in the log."""
        refuses = getattr(event, "refuses", None)
        if refuses is not None and refuses(self.stretch.leaves, *args, **kwargs) is not None:
            return False
        if self._arrays is not None and not self._arrays.unchanged():
            return False  # a backward pass reads them again
        begins = getattr(event, "changes_gradients", False) and not self.guarded
        if begins and any(map(gradients.held_by, self.stretch.from_none)):
            return False
        return not (event is READ_GRADIENT and result is None and gradients.held_by(args[0]) is not None)

    def _in_block(self, hooks: tuple[tuple[int, Any], ...], call: Call) -> bool:
        if hooks is self._seen:
            return call.block == len(self.hooks) - 1
        below = hooks[1:] if hooks and hooks[0][0] == PREDICTOR else hooks
        current = block_of(below)
        if current is self._block:
            self._seen = hooks
            return call.block == len(self.hooks) - 1
        if call.block != len(self.hooks) or not are_casts(below):
            return False
        if modes.current() != self.stretch.blocks[call.block]:
            return False
        self._block, self._seen = current, hooks
        self.hooks.append(below)
        return True

    def _tensor_of(self, reference: Any) -> Any:
        return self.slots[reference.number] if type(reference) is Slot else self.outside[reference.number]

    def _equal(self, template: Any, value: Any) -> bool:
        kind = type(template)
        if kind is Slot:
            return self.slots[template.number] is value
        if kind is Outside:
            number = template.number
            if self.outside[number] is value:
                return self._arrays is None or self._arrays.unchanged(number)
            return self._is_input(number, value)
        if template is value:
            return True
        if type(value) is not kind:
            return False
        if kind is int or kind is str or kind is DType or kind is slice:
            return bool(template == value)
        if kind is float:
            return bool(template == value and (value != 0.0 or str(template) == str(value)))
        if kind is ndarray:
            return same_array(template, value)
        if kind is tuple and value and type(value[0]) is int and _INT.issuperset(map(type, value)):  # a shape or axes
            return bool(_INT.issuperset(map(type, template)) and template == value)
        if isinstance(template, (tuple, list)):
            if len(template) != len(value):
                return False
            return all(inner is item or self._equal(inner, item) for inner, item in zip(template, value))
        if kind is dict:
            return list(template) == list(value) and all(map(self._equal, template.values(), value.values()))
        return False

    def _is_input(self, number: int, value: Any) -> bool:
        """Returns True if ``value`` can be the input ``number``, which it is from then on."""
        if not isinstance(value, TensorData):
            return False
        engine, shape, dtype, requires_grad = self.stretch.specs[number]
        if value.engine is not engine or value.shape != shape or value.dtype != dtype:
            return False
        if self.outside[number] is not None:
            if not (requires_grad or value._requires_grad) and self.stretch.outside[number] is not None:
                self.varied = number
            return False
        deferred = value._storage.deferred
        if value._requires_grad is not requires_grad or (deferred is not None and deferred[0] is self):
            return False
        if requires_grad and (value._grad_fn is None or not ends_here(value)):
            return False
        if is_of_the_program(value):
            self._arrays = self._arrays or ProgramArrays()
            if requires_grad or not self._arrays.take(number, value):
                return False
        self.outside[number] = value
        return True

    def _deferred(self, made: Any) -> Any:
        tensor = Tensor.__new__(Tensor)
        storage = tensor._storage = Storage()
        storage.buffer = storage.array = storage.allocation = None
        storage.version = 0
        storage.persistent = False
        storage.deferred = self, made.slot
        storage.upload = storage.views = None
        tensor.engine = made.engine
        tensor.shape = made.shape
        tensor.dtype = made.dtype
        tensor._grad = tensor._base = None
        if made.requires_grad:
            tensor._requires_grad = True
            tensor._grad_fn = self.later
        else:
            tensor._requires_grad = False
            tensor._grad_fn = made.mark
        return tensor

    def _mark(self, numbers: Sequence[int]) -> None:
        """Has a read of tensors from outside that the stretch writes compute it first."""
        for number in numbers:
            self._mark_storage(self.outside[number]._storage)

    def _mark_storage(self, storage: Storage) -> None:
        if storage.deferred is None:
            self._marked.append(storage)
            storage.deferred = self, -1
            storage.invalidate_views()  # which read the storage again

    def _guard(self) -> None:
        """Has a use of the gradient of a parameter compute the stretch first."""
        self.guarded = True
        for parameter in self.stretch.guarded:
            held = parameter._grad
            if type(held) is not gradients.Shared:
                held = parameter._grad = gradients.Shared(held)
            held.before_use = self._before_gradient
        for gradient in self.stretch.captured._copied:
            added = gradient.parameter._grad.value
            if added is not None:
                self._mark_storage(added._storage)

    def _before_gradient(self) -> None:
        self.settle("a gradient was used")

    def _unmark(self) -> None:
        if predicted_draws() is self:
            predict_draws(None)
        for storage in self._marked:
            storage.deferred = None
        self._marked.clear()
        if self.guarded:
            for parameter in self.stretch.guarded:
                if type(parameter._grad) is gradients.Shared:
                    parameter._grad.before_use = None

    # -- the end -------------------------------------------------------------------------------------------------------

    @property
    def is_whole(self) -> bool:
        """True if all calls of the period are predicted, and its end is not a step, which commits it at once."""
        return not (self.over or self.ends) and self.position == len(self.stretch.calls)

    def settle(self, cause: str) -> None:
        """Computes the calls so far, one by one if they are not the whole period; it is not predicted any more."""
        with Uninterrupted(), lock:
            if self.over or (self.is_whole and self.missed is None and self.commit()):
                return
            self.over = True
            self._unmark()
            self._restore()
            self._report.causes[cause] += 1
            self._report.computed += self.position
            outer = hooks_of_thread.state
            slots: list[Any] = [None] * len(self.slots)
            calls = self.stretch.calls[: self.position]
            views: list[tuple[Storage, Storage]] = []
            try:
                arrays = nullcontext() if self._arrays is None else self._arrays.as_taken(self.stretch.engine)
                with plain_recording(), arrays:  # the blocks that are open now did not see these calls
                    for call in calls:
                        hooks_of_thread.state = False, self.hooks[call.block]
                        grad_state.enabled = call.enabled
                        for number, result in run_again(call, slots, self.outside, self.numbers):
                            tensor = slots[number] = self.slots[number]
                            placeholder = tensor._storage
                            _become(tensor, result)
                            if type(tensor._storage) is ViewStorage:
                                views.append((placeholder, tensor._storage))
                            if call.target is READ_GRADIENT:
                                gradients.hold(self._tensor_of(call.args[0]), tensor)
                for placeholder, view in views:
                    if view.deferred is not None:  # written since: the reader takes the memory of the placeholder
                        view.materialize()
                        placeholder.fill(view)
            except BaseException as error:
                self._fail(error)
                raise
            finally:
                hooks_of_thread.state = outer
                self._forget()

    def _advance(self, position: int) -> bool:
        """Replays the parts of the stretch up to ``position``; False if no part ends there, if that part has been
        replayed before, or if nothing can be replayed.
        """
        ends = self.stretch.ends
        if position not in ends or ends.index(position) < self._part:
            return False
        if self.guarded and not self._begins and position < self.stretch.clears_gradients:
            return False  # a replay drops the gradients of before, which the program may still read
        outer, guarded, marked = hooks_of_thread.state, self.guarded, list(self._marked)
        hooks_of_thread.state = False, ()
        self._unmark()
        try:
            replay = self._replay or self._begun()
            if position not in self.stretch.starts:  # what a start computes is not used yet
                replay.check()  # of each part: the program may set an option of the optimizer after a read
            for at, number in enumerate(self.stretch.inputs):
                value = self.outside[number]
                if value is not None and number not in self._bound:
                    replay.bind(at, value if self._arrays is None else self._arrays.copy_of(number, value))
                    self._bound.add(number)
            for place in range(len(self._numbers), len(self.numbers)):
                if self.numbers[place] is None:
                    break
                self._numbers.append(self.stretch.number_tensor(place, self.numbers[place]))
                replay.bind(len(self.stretch.inputs) + place, self._numbers[-1])
            if not self._begins and (guarded or position == len(self.stretch.calls)):
                self.stretch.take_gradients(replay)
                self._begins = True
            elif not self._part:
                self.stretch.keep_gradients()
            self._run(replay, ends.index(position) + 1)
        except CaptureError:
            return False
        except BaseException as error:
            if isinstance(error, OutOfMemoryError) and not self._part:
                return False  # the calls one by one may need less, or say where memory ends
            self.over = True
            self._fail(error)
            raise
        finally:
            hooks_of_thread.state = outer
            if position < len(self.stretch.calls) and not self.over:
                for storage in marked:
                    self._mark_storage(storage)
                if guarded:
                    self._guard()
                if self.stretch.draws:
                    predict_draws(self)
        return True

    def _start(self) -> None:
        """Has a GPU begin with the calls so far; their results stay deferred. It waits if gradients would be copied."""
        if not (self._part or self.guarded) and self.stretch.held_gradients():
            return
        with Uninterrupted():
            if self._advance(self.position):
                self.stretch.engine.queue.flush()

    def _begun(self) -> Replay:
        """Begins the replay; notes what has to be restored if it is not ended."""
        self._offset = default_generator.offset
        replay: Replay = self.stretch.begin()
        self._replay = replay
        for tensor in self.stretch.captured.written_early:
            before = tensor.engine.empty(tensor.shape, tensor.dtype)
            assign(before, tensor)
            self._before.append((tensor, before, tensor._storage.version))
        return replay

    def _run(self, replay: Replay, until: int) -> None:
        for part in range(self._part, until):
            replay.run(part)
        self._part = until
        if self.position in self.stretch.starts:
            return
        for kept, captured in zip(self.stretch.results, replay.results()):
            if kept.slot >= self._made or self.slots[kept.slot]._storage.deferred is None:
                continue
            gradient = self.stretch.on_gradients.get(kept.slot)  # an earlier replay may have left its memory
            value = replay.result(captured) if gradient is None else _copied(gradient.after, captured.shape)
            tensor, geometry = self.slots[kept.slot], self.geometry(kept.slot)
            placeholder = tensor._storage
            if geometry is not None and tensor.size:
                value = as_view(value, geometry)
                tensor._storage = value._storage
                value._storage.materialize()  # the reader takes the memory of the placeholder
            placeholder.fill(value._storage)

    def _fail(self, error: BaseException) -> None:
        """Has each use of a tensor that was not computed raise ``error``."""
        for tensor in self.slots[: self._made]:
            if tensor._storage.deferred is not None:
                set_error(tensor, error)

    def commit(self, reads: bool = False) -> bool:
        """Computes the whole stretch by a replay; False if this period needs its calls one by one. ``reads``: as a
        value is read, unless a step ends the period.
        """
        with Uninterrupted(), lock:
            if self.over or self.position < len(self.stretch.calls) or (reads and self.ends):
                return self.committed
            kept = self.stretch.outlives | self.stretch.gradients.keys()
            if reads:
                kept |= {result.slot for result in self.stretch.results}
            for slot in range(len(self.slots)):
                # Two references are the list's and the argument's.
                if getrefcount(self.slots[slot]) > 2 and slot not in kept:
                    return False
            if not self._advance(self.position):
                return False
            outer, hooks_of_thread.state = hooks_of_thread.state, (False, ())  # a read may commit inside a period
            try:
                self._end()
            finally:
                hooks_of_thread.state = outer
            return True

    def _end(self) -> None:
        """Ends the replay, and gives its results and gradients to the tensors that the program has."""
        assert self._replay is not None
        self._replay.end()
        self.over = self.committed = True
        self._report.predicted += self.position
        self._report.replays += 1
        groups: dict[int, Any] = {}
        for result in self.stretch.results:
            if result.outlives:
                self.slots[result.slot]._storage.version = result.version
                self._outlives(result, groups)
        self._show_views(groups)
        for slot, gradient in self.stretch.gradients.items():
            tensor, storage = self.slots[slot], gradient.after._storage
            tensor._storage.fill(storage)  # as below
            tensor._storage = storage
            gradient.after = tensor
            gradients.hold(gradient.parameter, tensor)
        for alias, same in self.stretch.aliases:
            tensor, storage = self.slots[alias.slot], self.slots[same]._storage
            tensor._storage.fill(storage)  # for another thread that waits for it
            tensor._storage = storage
            self._outlives(alias, groups)
        self._forget()

    def _forget(self) -> None:
        """Forgets the tensors of the period. ``later`` refers to the period, so only the garbage collector ends it."""
        self.slots.clear()
        self.outside.clear()
        self._before.clear()
        self._numbers.clear()
        self.stretch = self._replay = self._arrays = None

    def _outlives(self, result: Result, groups: dict[int, Any]) -> None:
        tensor = self.slots[result.slot]
        if tensor._requires_grad:
            tensor._grad_fn = gradients.load().freed_again(result.node)
        is_plain = result.base is None or type(result.base) is gradients.Mark
        tensor._base = result.base if is_plain else gradients.load().place_again(result.base, tensor, groups)

    def _show_views(self, groups: dict[int, Any]) -> None:
        """Makes the views that outlive the period views of the results whose elements they show."""
        for result, base in self.stretch.views:
            tensor, root = self.slots[result.slot], self.slots[base]
            geometry, placeholder = self.stretch.geometries[result.slot], tensor._storage
            view = dispatch.call("as_strided", root._alias(root.shape), *geometry)
            tensor._storage = view._storage
            view._storage.version = result.version
            if getrefcount(placeholder) > 2:  # another thread that waits takes the memory of the placeholder
                view._storage.materialize()
                placeholder.fill(view._storage)
            self._outlives(result, groups)

    def _restore(self) -> None:
        """Takes back what parts have written and drawn, before their calls run again one by one."""
        if self._replay is not None:
            for tensor, before, version in self._before:
                assign(tensor, before)
                tensor._storage.version = version
            if self.stretch.draws:  # else the program may have drawn in between
                default_generator.offset = self._offset


def _copied(tensor: Any, shape: Any) -> Any:
    """Returns a copy of ``tensor`` in a shape of the same size."""
    fresh = tensor.engine.empty(tensor.shape, tensor.dtype)
    assign(fresh, tensor)
    return fresh._alias(shape)


def _become(tensor: Any, result: Any) -> None:
    """Makes the deferred ``tensor``, which the program has, the ``result`` of its call."""
    placeholder = tensor._storage
    if result._storage.deferred is not None:  # a view that is not gathered yet: the reader takes the memory at once
        result._storage.materialize()
    gradients.become(tensor, result)
    registered = gradients.registered()
    if registered is not None:
        registered.moved(tensor, result)
    placeholder.fill(result._storage)

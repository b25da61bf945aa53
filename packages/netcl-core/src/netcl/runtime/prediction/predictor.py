"""The predictor of a thread: it logs the periods of a loop, predicts their calls, and computes what was predicted.

A period goes from one step of an optimizer to the next. What follows the steps of one optimizer is a ``Place``: a
program with two optimizers has two. A place waits for ``_WARM`` periods, logs two, and predicts the next ones.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from sys import getrefcount
from typing import Any

from netcl.core import config
from netcl.core.backend.interceptors import tensors_in
from netcl.core.backend.recording import open_here
from netcl.core.dtypes import DType
from netcl.core.errors import CaptureError, NetclError, OutOfMemoryError
from netcl.core.grad_mode import state as grad_state
from netcl.core.ops_table import modes
from netcl.core.ops_table.dispatch import assign
from netcl.core.ops_table.hook_stack import PREDICTOR, hooks_of_thread
from netcl.core.ops_table.table import OpRow
from netcl.core.tensor import Tensor, gradients
from netcl.core.tensor.data import TensorData
from netcl.core.tensor.deferred import set_error
from netcl.core.tensor.generator import default_generator, predict_draws, predicted_draws
from netcl.core.tensor.storage import Storage, lock
from netcl.core.tensor.views import root_of
from netcl.runtime.capture import Replay
from netcl.runtime.prediction.call_log import (
    Broken,
    PeriodLog,
    Result,
    Selection,
    block_of,
    check_modes,
    ends_here,
    is_of_the_program,
    is_special,
)
from netcl.runtime.prediction.calls import Call, Outside, Slot, Unpredictable, filled, run_call
from netcl.runtime.prediction.stretch import Stretch, alike, as_view, run_again, selection_of

PLACES = "_predicted_places"  # the attribute of an optimizer; copies have none

__all__ = ["PLACES", "Report", "boundary", "hint", "postponing", "report"]

_WARM = 8  # periods of a place that run op by op before they are logged
_LOGS = 6  # periods in a row that are logged until two are alike
_FAILURES = 3  # periods in a row that were other ones than predicted, before a place waits
_READS = 6  # reads of values in a period, each the end of a part
_WAIT = 16  # periods that a place waits after that, doubled each time
_MISS: Any = object()
# Errors of a capture. The calls that it repeats have raised none, so the program must not see them.
_FAULTS = (ArithmeticError, AttributeError, LookupError, MemoryError, NetclError, RuntimeError, TypeError, ValueError)


class Report:
    """Counts of one thread: calls that were predicted and then computed by a replay, calls of the same periods that
    were not, and what ended predictions, by cause.
    """

    def __init__(self) -> None:
        self.predicted: int = 0
        self.computed: int = 0
        self.replays: int = 0
        self.causes: Counter[str] = Counter()

    @property
    def share(self) -> float:
        """The part of the calls that was predicted."""
        return self.predicted / max(self.predicted + self.computed, 1)

    def __str__(self) -> str:
        causes = ", ".join(f"{cause} {count}" for cause, count in self.causes.most_common(5))
        return f"{self.share:.1%} of calls predicted, {self.replays} replays; ended by: {causes or 'nothing'}"

    __repr__ = __str__


class Place:
    """The periods that follow the steps of one optimizer, the ``owner``: logs, and the stretch that predicts them."""

    def __init__(self, owner: Callable[[], Any]) -> None:
        self.owner: Callable[[], Any] = owner
        self.periods: int = 0
        self.logs: int = 0
        self.before: PeriodLog | None = None
        self.stretch: Stretch | None = None
        self.failures: int = 0
        self.waits: int = 0
        self.resumes: int = 0  # the period in which a waiting place begins again
        self.refused: bool = False
        self.missed: tuple[int, list[int]] | None = None  # a read that the stretch has no part for
        self.selections: set[Any] = set()  # rows that select other elements of a tensor from outside in each period

    def note(self, pending: Pending, cause: str) -> None:
        """Notes that a period was not as predicted, or that a value was read where the stretch has no end of a part."""
        known = self.stretch.barriers if self.stretch is not None else ()
        if pending.missed and pending.missed not in known and len(known) < _READS:
            self.missed = pending.missed, pending.held
        else:
            self.fail(cause)

    def select(self, target: Any) -> None:
        """Has calls of ``target`` on tensors from outside run at once, and the place begin again."""
        self.selections.add(target)
        self.before, self.logs = None, 0

    def divide(self) -> None:
        """Makes the stretch again, with a part that ends before the read that was missed."""
        assert self.stretch is not None
        assert self.missed is not None
        (position, held), self.missed = self.missed, None
        self.stretch = self.stretch.divided(position, held)

    def fail(self, cause: str) -> None:
        """Notes a period that was not as predicted."""
        self.failures += 1
        if self.failures >= _FAILURES:
            self.stretch = self.before = None
            self.failures = self.logs = 0
            self.resumes = self.periods + (_WAIT << min(self.waits, 10))
            self.waits += 1


class Pending:
    """The calls of a period that were predicted and are not computed yet: deferred tensors have it as computation."""

    def __init__(self, stretch: Stretch, report: Report) -> None:
        self.stretch: Stretch = stretch
        self.position: int = 0
        self.slots: list[Any] = [None] * stretch.slots
        self.outside: list[Any] = list(stretch.outside)
        self.hooks: list[tuple[tuple[int, Any], ...]] = []  # of each autocast block
        self.over: bool = False
        self.ends: bool = False  # the last predicted call has the step that ends the period in it
        self.guarded: bool = False
        self.missed: int | None = None  # the position of a read that ended the prediction
        self.held: list[int] = []  # the slots that the program referred to there
        self.later: gradients.Mark = gradients.Mark("known once the predicted calls are computed", self)
        self._marked: list[Storage] = []
        self._replay: Replay | None = None
        self._part = 0  # the next part to replay
        self._begins = False  # from gradients that are there, which calls so far have used
        self._made = 0  # slots
        self._bound: set[int] = set()
        self._before: list[tuple[Any, Any, int]] = []
        self._offset = 0
        self._report = report
        self._block: Any = self

    def materialize(self) -> None:
        """Computes a part of the stretch if it ends here, else the calls so far one by one: a value is needed."""
        with lock:
            if self.over or self._advance(self.position):
                return
            self.missed = self.position
            self.held = [slot for slot in range(self._made) if getrefcount(self.slots[slot]) > 2]
            self.settle("a value was read")

    def keep(self, tensor: Any) -> None:
        """Does the same, as another tensor on the storage of ``tensor`` is made."""
        self.settle("another tensor on a storage")

    def concerns(self, tensor: Any) -> bool:
        """Returns True if ``tensor`` shares memory with a tensor that the calls so far may use."""
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
        """Returns the result of a call that is the next one of the stretch; _MISS for another call."""
        position = self.position
        calls = self.stretch.calls
        if position >= len(calls):
            return _MISS
        call = calls[position]
        if call.target is not target or call.record is not record or call.enabled is not grad_state.enabled:
            return _MISS
        if is_special():
            return _MISS
        hooks = hooks_of_thread.state[1]
        if (not self._in_block(hooks, call)) or len(args) != len(call.args):
            return _MISS
        slots, outside = self.slots, self.outside
        for (kind, expected), value in zip(call.checks, args):
            if kind == 0:
                if slots[expected] is not value:
                    return _MISS
            elif kind == 1:
                if outside[expected] is not value and not self._is_input(expected, value):
                    return _MISS
            elif expected is not value and not self._equal(expected, value):
                return _MISS
        if kwargs or call.kwargs:
            if len(kwargs) != len(call.kwargs):
                return _MISS
            for name, template in call.kwargs.items():
                if name not in kwargs or not self._equal(template, kwargs[name]):
                    return _MISS
        refuses = getattr(target, "refuses", None)
        if refuses is not None and refuses(True, *args, **kwargs) is not None:
            return _MISS
        for made in call.made:
            slots[made.slot] = self._deferred(made)
            self._made += 1
        if call.written:
            self._mark(call.written)
        for storage in self.stretch.written_by.get(position, ()):
            self._mark_storage(storage)
        if call.draws:
            predict_draws(self)
        if not self.guarded and getattr(target, "changes_gradients", False):
            self._guard()
        self.position = position + 1
        self.ends = call.ends
        result = call.result
        if type(result) is Slot:
            return slots[result.number]
        return filled(result, self._tensor_of)

    def _in_block(self, hooks: tuple[tuple[int, Any], ...], call: Call) -> bool:
        below = hooks[1:] if hooks and hooks[0][0] == PREDICTOR else hooks
        current = block_of(below)
        if current is self._block:
            return call.block == len(self.hooks) - 1
        if call.block != len(self.hooks) or check_modes(below) is not None:
            return False
        if modes.current() != self.stretch.blocks[call.block]:
            return False
        self._block = current
        self.hooks.append(below)
        return True

    def _tensor_of(self, reference: Any) -> Any:
        return self.slots[reference.number] if type(reference) is Slot else self.outside[reference.number]

    def _equal(self, template: Any, value: Any) -> bool:
        kind = type(template)
        if kind is Slot:
            return self.slots[template.number] is value
        if kind is Outside:
            return self.outside[template.number] is value or self._is_input(template.number, value)
        if template is value:
            return True
        if type(value) is not kind:
            return False
        if kind is int or kind is str or kind is DType or kind is slice:
            return bool(template == value)
        if kind is float:
            return bool(template == value and (value != 0.0 or str(template) == str(value)))
        if isinstance(template, (tuple, list)):
            if len(template) != len(value):
                return False
            return all(inner is item or self._equal(inner, item) for inner, item in zip(template, value))
        if kind is dict:
            return list(template) == list(value) and all(map(self._equal, template.values(), value.values()))
        return False

    def _is_input(self, number: int, value: Any) -> bool:
        """Returns True if ``value`` can be the input ``number``, which it is from then on."""
        if self.outside[number] is not None or not isinstance(value, TensorData):
            return False
        engine, shape, dtype, requires_grad = self.stretch.specs[number]
        if value.engine is not engine or value.shape != shape or value.dtype != dtype:
            return False
        deferred = value._storage.deferred
        if value._requires_grad is not requires_grad or (deferred is not None and deferred[0] is self):
            return False
        if (requires_grad and (value._grad_fn is None or not ends_here(value))) or is_of_the_program(value):
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
            storage.deferred = self, -1
            self._marked.append(storage)
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
            added = gradient.parameter._grad._grad
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

    def settle(self, cause: str) -> None:
        """Computes the calls so far one by one; nothing of this period is predicted any more."""
        with lock:
            if self.over:
                return
            self.over = True
            self._unmark()
            self._restore()
            self._report.causes[cause] += 1
            self._report.computed += self.position
            outer, enabled = hooks_of_thread.state, grad_state.enabled
            slots: list[Any] = [None] * len(self.slots)
            calls = self.stretch.calls[: self.position]
            try:
                for call in calls:
                    hooks_of_thread.state = False, self.hooks[call.block]
                    grad_state.enabled = call.enabled
                    for number, result in run_again(call, slots, self.outside):
                        tensor = slots[number] = self.slots[number]
                        _become(tensor, result)
            except BaseException as error:
                self._fail(error)
                raise
            finally:
                hooks_of_thread.state, grad_state.enabled = outer, enabled
                self.slots.clear()

    def _advance(self, position: int) -> bool:
        """Replays the parts of the stretch up to ``position``; False if no part ends there, if that part has been
        replayed before, or if nothing can be replayed.
        """
        ends = [*self.stretch.barriers, len(self.stretch.calls)]
        if position not in ends or ends.index(position) < self._part:
            return False
        outer, guarded, marked = hooks_of_thread.state, self.guarded, list(self._marked)
        hooks_of_thread.state = False, ()
        self._unmark()
        try:
            replay = self._replay or self._begun()
            for at, number in enumerate(self.stretch.inputs):
                value = self.outside[number]
                if value is not None and number not in self._bound:
                    replay.bind(at, value)
                    self._bound.add(number)
            if not self._begins and (guarded or position == len(self.stretch.calls)):
                self.stretch.take_gradients(replay)
                self._begins = True
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

    def _begun(self) -> Replay:
        """Begins the replay; notes what has to be restored if it is not ended."""
        self._offset = default_generator.offset
        self._replay = self.stretch.begin()
        for tensor in self.stretch.captured.written_early:
            before = tensor.engine.empty(tensor.shape, tensor.dtype)
            assign(before, tensor)
            self._before.append((tensor, before, tensor._storage.version))
        return self._replay

    def _run(self, replay: Replay, until: int) -> None:
        for part in range(self._part, until):
            replay.run(part)
        self._part = until
        for kept, captured in zip(self.stretch.results, replay.results()):
            if kept.slot >= self._made or self.slots[kept.slot]._storage.deferred is None:
                continue
            tensor, value, geometry = self.slots[kept.slot], replay.result(captured), self.geometry(kept.slot)
            placeholder = tensor._storage
            if geometry is not None and tensor.size:
                value = as_view(value, geometry)
                tensor._storage = value._storage
            placeholder.fill(value._storage)

    def _fail(self, error: BaseException) -> None:
        """Has each use of a tensor that was not computed raise ``error``."""
        for tensor in self.slots[: self._made]:
            if tensor._storage.deferred is not None:
                set_error(tensor, error)

    def commit(self) -> bool:
        """Computes the whole stretch by a replay; False if this period needs its calls one by one."""
        with lock:
            if self.over or self.position < len(self.stretch.calls):
                return False
            kept = self.stretch.outlives
            for slot in range(len(self.slots)):
                # Two references are the list's and the argument's.
                if getrefcount(self.slots[slot]) > 2 and slot not in kept:
                    return False
            if not self._advance(self.position):
                return False
            assert self._replay is not None
            self._replay.end()
            self.over = True
            self._report.predicted += self.position
            self._report.replays += 1
            for result in self.stretch.results:
                if result.outlives:
                    self.slots[result.slot]._storage.version = result.version
                    self._outlives(result)
            for alias, same in self.stretch.aliases:
                tensor, storage = self.slots[alias.slot], self.slots[same]._storage
                tensor._storage.fill(storage)  # for another thread that waits for it
                tensor._storage = storage
                self._outlives(alias)
            self.slots.clear()
            return True

    def _outlives(self, result: Result) -> None:
        tensor = self.slots[result.slot]
        tensor._base = result.base
        if tensor._requires_grad:
            tensor._grad_fn = gradients.load().freed_again(result.node)

    def _restore(self) -> None:
        """Takes back what parts have written and drawn, before their calls run again one by one."""
        if self._replay is not None:
            for tensor, before, version in self._before:
                assign(tensor, before)
                tensor._storage.version = version
            if self.stretch.draws:  # else the program may have drawn in between
                default_generator.offset = self._offset


def _become(tensor: Any, result: Any) -> None:
    """Makes the deferred ``tensor``, which the program has, the ``result`` of its call."""
    placeholder = tensor._storage
    gradients.become(tensor, result)
    registered = gradients.registered()
    if registered is not None:
        registered.moved(tensor, result)
    placeholder.fill(result._storage)


class _Thread(threading.local):
    """The predictor of this thread, and its report."""

    def __init__(self) -> None:
        self.report = Report()
        self.predictor = ThreadPredictor(self.report)


class ThreadPredictor:
    """Logs the calls of one thread, or predicts them; else it is not among the hooks of the thread."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._place_ref: weakref.ref[Place] | None = None  # its optimizer keeps it
        self._log: PeriodLog | None = None
        self._pending: Pending | None = None
        self._armed = False  # the next call begins a predicted period
        self._engine: Any = None  # of the place
        self._hinted = False
        self._logging = False  # a call is run and logged
        self.postponed: bool = False  # the function that takes the step has more to do
        self._due: tuple[Any, Any] | None = None  # the owner and the engine of a period that ends in that call

    @property
    def _place(self) -> Place | None:
        """The place that the period follows; None if there is none, or if its optimizer is gone."""
        return None if self._place_ref is None else self._place_ref()

    def _begun(self) -> Pending | None:
        """Returns the predicted period, which begins with the first call, so that until then nothing of the program is
        kept alive; None if nothing is predicted.
        """
        if self._armed:
            self._armed, place = False, self._place
            if place is not None and place.stretch is not None:
                self._pending = Pending(place.stretch, self._report)
        return self._pending

    # -- the calls of the thread ---------------------------------------------------------------------------------------

    def call(self, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], record: bool | None) -> Any:
        """Returns the result of ``call_row``."""
        pending = self._pending or self._begun()
        if pending is not None:
            with lock:
                if not pending.over:
                    result = pending.predicted(row, args, kwargs, record)
                    if result is not _MISS:
                        return result
        if self._is_source(row, args, kwargs):
            return self._hidden(row, args, kwargs, record)
        return self._other(row, args, kwargs, record)

    def run(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Returns the result of an event."""
        pending, place = self._pending or self._begun(), self._place
        if pending is not None:
            with lock:
                result = _MISS if pending.over else pending.predicted(function, args, kwargs, None)
            if result is not _MISS:
                if pending.ends and place is not None:
                    self.boundary(place.owner(), self._engine)
                return result
        if self._is_source(function, args, kwargs):
            return self._hidden(function, args, kwargs, None)
        result = self._other(function, args, kwargs, None)
        if self._due is not None:
            due, self._due = self._due, None
            if self._log is not None and self._log.calls:
                self._log.calls[-1].ends = True
            self.boundary(*due)
        return result

    def before_write(self, target: Any = None, value: Any = None) -> None:
        """Ends a prediction before a write, by no call of the period, into one of its tensors."""
        period: Any = self._pending or self._log
        if target is None or (period is not None and period.concerns(target)):
            self.settle("a write in place")

    def settle(self, cause: str, reads: bool = False) -> None:
        """Computes what was predicted; the rest of the period is not predicted, and not logged unless the program only
        ``reads``.
        """
        pending, log = self._pending, self._log
        if pending is not None and pending.position:
            self._stop()
            pending.settle(cause)
            self._note(pending, cause)
        elif log is not None and log.calls and not reads:
            self._log = None
            self._report.causes[f"log: {cause}"] += 1
            self._stop()

    def _other(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], record: bool | None) -> Any:
        """Runs a call that is not as predicted, or that is logged."""
        pending, log = self._pending, self._log
        if pending is not None:
            name = target.name if isinstance(target, OpRow) else target.__qualname__
            self._stop()
            pending.settle(f"another call: {name}")
            self._note(pending, name)
            return run_call(target, args, kwargs, record)
        if log is None:
            self._stop()
            return run_call(target, args, kwargs, record)
        refuses = getattr(target, "refuses", None)
        cause = None if refuses is None else refuses(False, *args, **kwargs)
        outer = hooks_of_thread.state
        hooks_of_thread.state = outer[0], outer[1][1:]
        try:
            if cause is not None:
                raise Unpredictable(cause)
            self._logging = True
            return log.run(target, args, kwargs, record)
        except Broken as broken:
            self._refuse(str(broken))
            return broken.result
        except Unpredictable as unpredictable:
            self._refuse(str(unpredictable))
            return run_call(target, args, kwargs, record)
        except BaseException:
            self._log = None
            raise
        finally:
            self._logging = False
            if self._log is not None:
                hooks_of_thread.state = outer

    def _is_source(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Returns True for a call that uses no tensor of the period's device, as of a factory, or a copy to it."""
        tensors = list(tensors_in((args, kwargs)))
        if tensors:
            place = self._place
            if place is not None and target in place.selections:
                period: Any = self._pending or self._log
                recorded = isinstance(target, OpRow) and any(tensor._requires_grad for tensor in tensors)
                return not recorded and not any(map(period.makes, tensors))
            return not any(tensor.engine is self._engine for tensor in tensors)
        return isinstance(target, OpRow)

    def _hidden(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], record: bool | None) -> Any:
        """Runs a call that is no part of the period; its result can be an input."""
        outer = hooks_of_thread.state
        hooks_of_thread.state = outer[0], outer[1][1:]
        try:
            return run_call(target, args, kwargs, record)
        finally:
            hooks_of_thread.state = outer

    # -- periods -------------------------------------------------------------------------------------------------------

    def boundary(self, owner: Any, engine: Any) -> None:
        """Ends a period with a step of the optimizer ``owner``, and begins the next one."""
        if self._logging or self.postponed:
            self._due = owner, engine
            return
        self._end()
        self._engine = engine
        if config.get("REPLAY") == "off":
            self._place_ref = None
            return
        place = self._place_of(owner)
        self._place_ref = weakref.ref(place)
        place.periods += 1
        warm = 1 if self._hinted or config.get("REPLAY") == "early" else _WARM
        if place.refused or place.periods < max(place.resumes, warm):
            return
        if place.stretch is not None and place.missed is not None:
            try:
                place.divide()
            except _FAULTS as error:
                self._refuse(str(error))
                return
        if place.stretch is not None:
            self._armed = True
            self._start()
        elif place.logs < _LOGS:
            place.logs += 1
            self._log = PeriodLog(engine)
            self._start()
        else:
            place.refused = True
            self._report.causes["no two periods alike"] += 1

    def _place_of(self, owner: Any) -> Place:
        """Returns the place of this thread after the steps of ``owner``, which keeps it: a stretch refers to its owner,
        so that the two end together.
        """
        places: dict[int, Place] = vars(owner).setdefault(PLACES, {})
        place = places.get(id(self))
        if place is None:
            place = places[id(self)] = Place(weakref.ref(owner))
        return place

    @contextmanager
    def postponing(self) -> Iterator[None]:
        """Has a period that ends within the block end after it."""
        outer, self.postponed = self.postponed, True
        try:
            yield
        finally:
            self.postponed = outer
        if self._due is not None and not (outer or self._logging):
            due, self._due = self._due, None
            self.boundary(*due)

    def hint(self) -> bool:
        """Has new places predicted early; returns True while calls are logged or predicted."""
        self._hinted = True
        hooks = hooks_of_thread.state[1]
        first: Any = hooks[0][1] if hooks else None
        return first is self

    def _end(self) -> None:
        pending, log, place = self._pending, self._log, self._place
        self._stop()
        if place is None:
            return
        if pending is not None:
            if pending.commit():
                place.failures = place.waits = 0
            elif pending.position:
                pending.settle("another period")
                place.note(pending, "another period")
        elif log is not None and log.calls:
            before, place.before = place.before, log
            try:
                results = log.close()
                selection = None if before is None else selection_of(before, log)
                if selection is not None:
                    place.select(selection)
                elif before is not None and alike(before, log):
                    if place.stretch is None and log.engine.name == "cl":
                        log.engine.pool.clear()  # the capture has memory of its own
                    place.stretch = Stretch(before, log, results)
                    place.before = None
            except Selection as selection_found:
                place.select(selection_found.target)
            except _FAULTS as error:
                self._refuse(str(error))

    def _start(self) -> None:
        record, hooks = hooks_of_thread.state
        entry: Any = (PREDICTOR, self)
        hooks_of_thread.state = record, (entry, *hooks)

    def _stop(self) -> None:
        self._pending = self._log = None
        self._armed = False
        record, hooks = hooks_of_thread.state
        hooks_of_thread.state = record, tuple([entry for entry in hooks if entry[0] != PREDICTOR])

    def _refuse(self, cause: str) -> None:
        self._report.causes[f"not predictable: {cause}"] += 1
        place = self._place
        if place is not None:
            place.before = None
            place.failures = _FAILURES - 1
            place.fail(cause)
        self._stop()

    def _note(self, pending: Pending, cause: str) -> None:
        place = self._place
        if place is not None:
            place.note(pending, cause)


_thread = _Thread()


def boundary(owner: Any, engine: Any) -> None:
    """Ends a period of the calling thread's loop: ``owner``, an optimizer on ``engine``, has taken a step."""
    if open_here(engine) is None:
        _thread.predictor.boundary(owner, engine)


def postponing() -> AbstractContextManager[None]:
    """Returns a block that is a part of the period that ends in it: more is to be done after the optimizer's step."""
    return _thread.predictor.postponing()


def hint() -> bool:
    """Notes that the program has asked for compiled calls: periods of the calling thread are predicted from the third
    one on. Returns True while its calls are logged or predicted, so that they must not be fused as they are made.
    """
    return _thread.predictor.hint()


def report() -> Report:
    """Returns the counts of the calling thread."""
    return _thread.report

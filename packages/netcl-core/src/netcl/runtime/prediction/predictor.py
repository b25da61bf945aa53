"""The predictor of a thread: it logs the periods of a loop, predicts their calls, and computes what was predicted.

A period goes from one step of an optimizer to the next, or from one call of a module without gradients to the next.
What follows the steps of one optimizer, or begins with calls of one module, is a ``Place``: a program with two
optimizers has two. A place waits for ``WARM`` periods, logs two, and predicts the next ones.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from netcl.core import config
from netcl.core.engine.interceptors import tensors_in
from netcl.core.engine.recording import open_here
from netcl.core.errors import NetclError
from netcl.core.ops_table.table import OpRow
from netcl.core.process.hook_stack import PREDICTOR, hooks_of_thread
from netcl.core.storage.data import TensorData
from netcl.core.storage.storage import lock
from netcl.runtime.prediction.call_log import (
    Broken,
    LeftGraph,
    PeriodLog,
    Selection,
)
from netcl.runtime.prediction.calls import Unpredictable, run_call
from netcl.runtime.prediction.place import FAILURES, Place
from netcl.runtime.prediction.predicted_period import MISS, PredictedPeriod
from netcl.runtime.prediction.report import WARM, Report
from netcl.runtime.prediction.stretch import Stretch, alike, find_numbers, selection_of

PLACES = "_predicted_places"  # the attribute of an optimizer; copies have none

__all__ = ["PLACES", "ThreadPredictor"]

_PLAIN = frozenset((int, float, bool, str, type(None)))
_LOGS = 6  # periods in a row that are logged until two are alike
_LEAST_CALLS = 24  # of a period without a step of an optimizer: a replay's own time is that of so many
# Errors of a capture. The calls that it repeats have raised none, so the program must not see them.
_FAULTS = (ArithmeticError, AttributeError, LookupError, MemoryError, NetclError, RuntimeError, TypeError, ValueError)


class ThreadPredictor:
    """Logs the calls of one thread, or predicts them; else it is not among the hooks of the thread."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._place_ref: weakref.ref[Place] | None = None  # its optimizer keeps it
        self._log: PeriodLog | None = None
        self._pending: PredictedPeriod | None = None
        self._armed = False  # the next call begins a predicted period
        self._engine: Any = None  # of the place
        self._hinted = False
        self._early: PeriodLog | None = None  # of the part of the first period that follows a hint
        self._logging = False  # a call is run and logged
        self.postponed: bool = False  # the function that takes the step has more to do
        self._due: tuple[Any, Any] | None = None  # the owner and the engine of a period that ends in that call
        self._modules: dict[int, Place] = {}  # the places of modules, by their identity

    @property
    def _place(self) -> Place | None:
        """The place that the period follows; None if there is none, or if its optimizer is gone."""
        return None if self._place_ref is None else self._place_ref()

    @property
    def passed(self) -> bool:
        """True if a backward pass is among the calls that are logged or predicted."""
        period: Any = self._pending or self._log
        return period is not None and period.passed

    def _begun(self) -> PredictedPeriod | None:
        """Returns the predicted period, which begins with the first call, so that until then nothing of the program is
        kept alive; None if nothing is predicted.
        """
        if self._armed:
            self._armed, place = False, self._place
            if place is not None and place.stretch is not None:
                if place.stretch.constants_are_as_logged():
                    self._pending = PredictedPeriod(place.stretch, self._report)
                else:
                    self._report.causes["a tensor from outside has changed"] += 1
                    place.fail()
        return self._pending

    # -- the calls of the thread ---------------------------------------------------------------------------------------

    def call(self, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], record: bool | None) -> Any:
        """Returns the result of ``call_row``."""
        if not kwargs and self._is_elsewhere(args) and row.name != "transfer":
            return self._hidden(row, args, kwargs, record)
        pending = self._pending or self._begun()
        if pending is not None:
            result = self._predicted(pending, row, args, kwargs, record)
            if result is not MISS:
                return result
        if (self._pending or self._log) and self._is_source(row, args, kwargs):
            return self._hidden(row, args, kwargs, record)
        return self._other(row, args, kwargs, record)

    def _predicted(
        self, pending: PredictedPeriod, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], record: bool | None
    ) -> Any:
        """Returns the result of a call that is as predicted, else MISS. If a Ctrl-C ends it, the calls before it are
        computed.
        """
        try:
            with lock:
                return MISS if pending.over else pending.predicted(target, args, kwargs, record)
        except BaseException as error:
            self._stop()
            pending.settle(type(error).__name__)
            raise

    def run(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Returns the result of an event."""
        pending, place = self._pending or self._begun(), self._place
        if pending is not None:
            result = self._predicted(pending, function, args, kwargs, None)
            if result is not MISS:
                if pending.ends and place is not None:
                    self.boundary(place.owner(), self._engine)
                return result
        if (self._pending or self._log) and self._is_source(function, args, kwargs):
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
            self._note(pending)
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
            self._note(pending)
            return run_call(target, args, kwargs, record)
        if log is None:
            self._stop()
            return run_call(target, args, kwargs, record)
        refuses = getattr(target, "refuses", None)
        cause = None if refuses is None else refuses(None, *args, **kwargs)
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
        """Returns True for a call that uses no tensor of the period's device, as of a factory, or that copies one to or
        from another device, which is a read.
        """
        tensors = list(tensors_in((args, kwargs)))
        if tensors:
            if isinstance(target, OpRow) and target.name == "transfer":
                return not any(tensor._requires_grad for tensor in tensors)
            place = self._place
            if place is not None and target in place.selections:
                period: Any = self._pending or self._log
                recorded = isinstance(target, OpRow) and any(tensor._requires_grad for tensor in tensors)
                return not recorded and not any(map(period.makes, tensors))
            return not any(tensor.engine is self._engine for tensor in tensors)
        return isinstance(target, OpRow)

    def _is_elsewhere(self, args: tuple[Any, ...]) -> bool:
        """Returns True for tensors of other devices and plain values, which a loader has; it looks into no list."""
        count = 0
        for value in args:
            if isinstance(value, TensorData):
                if value.engine is self._engine:
                    return False
                count += 1
            elif type(value) not in _PLAIN:
                return False
        return count > 0

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
        """Ends a period with a step of the optimizer ``owner``, and begins the next one; None: with no next one."""
        if self._logging or self.postponed:
            self._due = owner, engine
            return
        place = self._place
        if place is not None and place.extended and (self._log or self._pending) and owner not in (None, place.owner()):
            return
        early, self._early = self._early if self._early is self._log else None, None
        self._end()
        self._engine = engine
        if owner is None or config.get("REPLAY") == "off":
            self._place_ref = None
            return
        place = self._modules.get(id(owner)) or self._place_of(owner)
        self._place_ref = weakref.ref(place)
        place.periods += 1
        if early is not None and early.calls and early.engine is engine and place.periods == 1:
            with suppress(*_FAULTS):
                early.close()
                place.before = early
        warm = 1 if self._hinted or config.get("REPLAY") == "early" else WARM
        if place.refused or place.periods < max(place.resumes, warm):
            return
        if place.stretch is not None and place.change is not None:
            try:
                place.improve()
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

    def repetition(self, module: Any, engine: Any) -> None:
        """Ends a period with a call of ``module`` that begins the next one, if the program has no other loop there."""
        if self._logging or self.postponed:
            return
        place = self._modules.get(id(module))
        if place is None:  # the calls so far have been counted
            owner = weakref.ref(module, partial(_forget_place, self._modules, id(module)))
            place = self._modules[id(module)] = Place(owner)
            place.periods = WARM
        self.boundary(module, engine)

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
    def postponing(self, ends: bool = True) -> Iterator[None]:
        """Has a period that ends within the block end after it; with ``ends=False`` it does not end."""
        outer, self.postponed = self.postponed, True
        try:
            yield
        finally:
            self.postponed = outer
            self._due = self._due if ends else None
        if self._due is not None and not (outer or self._logging):
            due, self._due = self._due, None
            self.boundary(*due)

    def hint(self, engine: Any) -> bool:
        """Has new places predicted early; returns True while calls are logged or predicted.

        The first hint begins to log on ``engine``, if that is given, until the first step of an optimizer; a second one
        before that step ends it.
        """
        if self._early is not None and self._early is self._log:
            self._stop()
        elif not self._hinted and engine is not None and not (self._log or self._pending or self._armed):
            self._log_early(engine)
        self._hinted = True
        hooks = hooks_of_thread.state[1]
        first: Any = hooks[0][1] if hooks else None
        return first is self

    def _log_early(self, engine: Any) -> None:
        """Begins to log before the first step of an optimizer."""
        if config.get("REPLAY") != "off" and open_here(engine) is None:
            self._engine = engine
            self._log = self._early = PeriodLog(engine)
            self._start()

    def _end(self) -> None:
        pending, log, place = self._pending, self._log, self._place
        self._stop()
        if place is None:
            return
        if pending is not None:
            if pending.commit():
                place.failures = place.waits = 0
                if place.is_new:
                    place.is_new = False
                    _release_cached(self._engine)  # what the calls one by one had
            elif pending.position:
                pending.settle("another period")
                place.note(pending)
        elif log is not None and log.calls:
            before, place.before = place.before, log
            try:
                results = log.close()
                if before is not None:
                    find_numbers(before, log)
                selection = None if before is None else selection_of(before, log)
                if selection is not None:
                    place.select(selection)
                elif self._is_short(place, log):
                    place.refused = True
                elif before is not None and alike(before, log):
                    _release_cached(log.engine)  # the capture has memory of its own
                    place.is_new = True
                    place.stretch = Stretch(before, log, results)
                    place.before = None
            except LeftGraph as left:
                if place.extended:
                    self._refuse(str(left))
                else:
                    place.extend()
            except Selection as selection_found:
                place.select(selection_found.target)
            except _FAULTS as error:
                self._refuse(str(error))

    def _is_short(self, place: Place, log: PeriodLog) -> bool:
        """Returns True for a period of a module's place that takes longer to replay than its calls take."""
        return place in self._modules.values() and len(log.calls) < _LEAST_CALLS and config.get("REPLAY") != "early"

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
            place.failures = FAILURES - 1
            place.fail()
        self._stop()

    def _note(self, pending: PredictedPeriod) -> None:
        place = self._place
        if place is not None and not pending.committed:
            place.note(pending)

    def flush(self) -> None:
        """Computes a period that is predicted to its end: the program waits for the device."""
        if self._pending is not None and self._pending.is_whole:
            self._pending.materialize()


def _forget_place(places: dict[int, Place], key: int, module: Any) -> None:
    """Forgets the place of a module that is gone."""
    places.pop(key, None)


def _release_cached(engine: Any) -> None:
    """Gives unused memory of the engine's pool back to the driver."""
    if engine.name == "cl":
        engine.pool.clear()

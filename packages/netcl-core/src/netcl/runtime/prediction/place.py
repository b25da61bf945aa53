"""A place of a loop: the periods that follow the steps of one optimizer, and when they are logged and predicted."""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import Any

from netcl.runtime.prediction.call_log import PeriodLog
from netcl.runtime.prediction.predicted_period import PredictedPeriod
from netcl.runtime.prediction.stretch import Stretch

__all__ = ["FAILURES", "Place"]

FAILURES = 3  # periods in a row that were other ones than predicted, before a place waits
_READS = 6  # reads of values in a period, each the end of a part
_WAIT = 16  # periods that a place waits after failures, doubled each time


class Place:
    """The periods that follow the steps of one optimizer, the ``owner``: logs, and the stretch that predicts them."""

    def __init__(self, owner: Callable[[], Any]) -> None:
        self.owner: Callable[[], Any] = owner
        self.periods: int = 0
        self.logs: int = 0
        self.before: PeriodLog | None = None
        self.stretch: Stretch | None = None
        self.is_new: bool = False  # the stretch has not been replayed
        self.failures: int = 0
        self.waits: int = 0
        self.resumes: int = 0  # the period in which a waiting place begins again
        self.refused: bool = False
        self.change: Callable[[Stretch], Stretch] | None = None  # of the stretch, by what its last period has shown
        self.extended: bool = False  # a period has steps of other optimizers in it
        self.selections: set[Any] = set()  # rows that select other elements of a tensor from outside in each period

    def note(self, pending: PredictedPeriod) -> None:
        """Notes that a period was not as predicted, that a value was read where the stretch has no end of a part, or
        that a tensor from outside was another one.
        """
        stretch, missed, varied = self.stretch, pending.missed, pending.varied
        known = stretch.barriers if stretch is not None else ()
        if missed and missed not in known and len(known) < _READS:
            self.change = methodcaller("divided", missed, pending.held)
        elif stretch is not None and varied is not None and stretch.can_vary(varied):
            self.change = methodcaller("varying", varied)
        elif stretch is not None and pending.differs is not None and stretch.can_differ(pending.differs):
            self.change = methodcaller("differing", pending.differs)
        else:
            self.fail()

    def select(self, target: Any) -> None:
        """Has calls of ``target`` on tensors from outside run at once, and the place begin again."""
        self.selections.add(target)
        self.before, self.logs = None, 0

    def extend(self) -> None:
        """Has periods go on over the steps of other optimizers to the next step of the owner, and the place begin
        again.
        """
        self.extended = True
        self.before, self.logs = None, 0

    def improve(self) -> None:
        """Makes the stretch again, with the change that its last period has shown."""
        assert self.stretch is not None
        assert self.change is not None
        change, self.change = self.change, None
        self.stretch = change(self.stretch)

    def fail(self) -> None:
        """Notes a period that was not as predicted."""
        self.failures += 1
        if self.failures >= FAILURES:
            self.stretch = self.before = None
            self.failures = self.logs = 0
            self.resumes = self.periods + (_WAIT << min(self.waits, 10))
            self.waits += 1

"""Prediction of the calls of a training loop, which are then computed as a captured step.

A loop is written as usual. From one step of an optimizer to the next its calls are logged (``call_log.py``); if two
periods in a row are alike, they become a ``Stretch`` (``stretch.py``). In the periods that follow, a call that equals
the predicted one returns tensors that are not computed yet (``predictor.py``). At the step of the optimizer the stretch
is computed by one replay. Before that, whatever needs a value, or is another call, has the calls so far computed one by
one, as they would have been without prediction.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Any

from netcl.core.engine.recording import open_here
from netcl.core.process.hook_stack import event, settle
from netcl.runtime.prediction.report import Report

__all__ = ["boundary", "event", "hint", "postponing", "report", "settle"]


class _Thread(threading.local):
    """The report of this thread, and its predictor, which only a thread with a training loop imports."""

    def __init__(self) -> None:
        self.report = Report()

    def __getattr__(self, name: str) -> Any:
        from netcl.runtime.prediction.predictor import ThreadPredictor

        if name != "predictor":
            raise AttributeError(name)
        self.predictor = ThreadPredictor(self.report)
        return self.predictor


_thread = _Thread()


def boundary(owner: Any, engine: Any) -> None:
    """Ends a period of the calling thread's loop: ``owner``, an optimizer on ``engine``, has taken a step. An owner can
    be another object that lives as long as its loop; with None no period begins.
    """
    if engine.recording is None or open_here(engine) is None:
        _thread.predictor.boundary(owner, engine)


def postponing(ends: bool = True) -> AbstractContextManager[None]:
    """Returns a block that is a part of the period that ends in it: more is to be done after the optimizer's step.

    With ``ends=False`` no period ends in it, so nothing of it is predicted.
    """
    return _thread.predictor.postponing(ends)


def hint(engine: Any = None) -> bool:
    """Notes that the program has asked for compiled calls: periods of the calling thread are predicted from the third
    one on if the first call, on ``engine``, is one of training; else from the fourth one on. Returns True while its
    calls are logged or predicted, so that they must not be fused as they are made.
    """
    return _thread.predictor.hint(engine)


def report() -> Report:
    """Returns the counts of the calling thread."""
    return _thread.report

"""Prediction of the calls of a loop, which are then computed as a captured step.

A loop is written as usual. Its calls are logged (``call_log.py``) from one step of an optimizer to the next, or where
no gradient is recorded, from one call of a module to the next; if two periods in a row are alike, they become a
``Stretch`` (``stretch.py``). In the periods that follow, a call that equals the predicted one returns tensors that are
not computed yet (``predictor.py``). At the end of the period the stretch is computed by one replay. Before that,
whatever needs a value, or is another call, has the calls so far computed one by one, as they would have been without
prediction.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from netcl.core import config
from netcl.core.engine.recording import open_here
from netcl.core.process.hook_stack import event, flush, is_passed, settle
from netcl.core.storage.data import TensorData
from netcl.runtime.prediction.report import WARM, Report

__all__ = ["boundary", "event", "flush", "hint", "postponing", "repetition", "report", "settle", "trained"]

_OTHERS = 64  # calls of another module after which one that was not called no more repeats the loop


class _Thread(threading.local):
    """The report of this thread, and its predictor, which only a thread with a loop imports.

    ``module`` refers to the first one that was called without gradients since the last backward pass or step of an
    optimizer, ``calls`` counts its calls. ``other`` is one that was called since the last of these, such as one inside
    it, ``others`` counts the calls of this one.
    """

    def __init__(self) -> None:
        self.report = Report()
        self.module: Any = None
        self.other: Any = None
        self.calls = self.others = 0

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
    _thread.module = None
    if engine.recording is None or open_here(engine) is None:
        _thread.predictor.boundary(owner, engine)


def trained() -> None:
    """Notes a backward pass: calls of modules without gradients are parts of a training loop's period."""
    _thread.module = None


def repetition(module: Any, args: Sequence[Any]) -> None:
    """Notes a call of ``module`` that records no gradients, before it begins. If its calls follow each other, each ends
    a period of the calling thread's loop and begins the next one.
    """
    thread = _thread
    first = None if thread.module is None else thread.module()
    if first is not module:
        if not thread.others:
            thread.other = weakref.ref(module)
        thread.others += thread.other() is module
        if first is None or thread.others > _OTHERS:
            thread.module, thread.calls, thread.others = weakref.ref(module), 0, 0
        return
    thread.calls, thread.others = 0 if is_passed() else thread.calls + 1, 0
    mode = config.get("REPLAY") if thread.calls else "off"
    if mode == "off" or thread.calls < (1 if mode == "early" else WARM):
        return
    engine: Any = next((arg.engine for arg in args if isinstance(arg, TensorData)), None)
    if engine is not None and (engine.recording is None or open_here(engine) is None):
        thread.predictor.repetition(module, engine)


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

"""Prediction of the calls of a training loop, which are then computed as a captured step.

A loop is written as usual. From one step of an optimizer to the next its calls are logged (``call_log.py``); if two
periods in a row are alike, they become a ``Stretch`` (``stretch.py``). In the periods that follow, a call that equals
the predicted one returns tensors that are not computed yet (``predictor.py``). At the step of the optimizer the stretch
is computed by one replay. Before that, whatever needs a value, or is another call, has the calls so far computed one by
one, as they would have been without prediction.
"""

from __future__ import annotations

from netcl.core.ops_table.hook_stack import event, settle
from netcl.runtime.prediction.predictor import boundary, hint, postponing, report

__all__ = ["boundary", "event", "hint", "postponing", "report", "settle"]

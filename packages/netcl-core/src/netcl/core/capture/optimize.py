"""Optimizes the call log of a captured step: constants and copies of copies are propagated, casts become part of
contractions, and calls of expressions are fused (``graph/fuse.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from netcl.core.capture.call_log import CallLog
from netcl.core.capture.constants import with_constants
from netcl.core.capture.copies import with_composed_copies, with_converting_copies
from netcl.core.capture.float32_operands import with_float32_operands
from netcl.core.capture.scales import with_folded_scales
from netcl.core.capture.unread import without_unread_gates, without_unread_inputs
from netcl.core.engine.lasting import LastingValues
from netcl.core.graph.call import LoggedCall
from netcl.core.graph.fuse import Fusion, Rules
from netcl.core.graph.schedule import PlannedCall


def fused_steps(
    engine: Any, calls: Sequence[LoggedCall], live: Iterable[int], outside: Iterable[int]
) -> list[list[PlannedCall]]:
    """Returns the steps that compute the same as ``calls``, as lists of independent ones, for ``engine``.

    ``live`` are numbers needed afterwards, ``outside`` numbers of tensors that are not the recording's own.
    """
    known = with_composed_copies(with_constants(calls, outside), {*live, *outside})
    rewritten = with_float32_operands(engine, known, {*live}, {*outside})
    rewritten = with_converting_copies(engine, rewritten, {*live}, {*outside})
    target = getattr(engine, "target", None)
    return Fusion(rewritten, {*live}, Rules(target), {*outside}).steps()


def fused_parts(
    engine: Any, log: CallLog, live: Iterable[int], folds: LastingValues | None = None
) -> tuple[list[list[list[PlannedCall]]], dict[int, Any]]:
    """Returns the steps of each part of a log, and by number the tensors that they read and the log does not have:
    factors that ``folds`` keeps. What later parts read is live after a part, and in a later part it is as a tensor from
    outside.
    """
    made: dict[int, Any] = {}
    known = without_unread_inputs(without_unread_gates(log.list, live))
    if folds is not None:
        known, made = with_folded_scales(known, folds, live)
    bounds = [0, *log.parts, len(known)]
    parts = [known[first:last] for first, last in zip(bounds, bounds[1:])]
    fused = []
    before: set[int] = set()
    for at, calls in enumerate(parts):
        later = {number for rest in parts[at + 1 :] for call in rest for number in _numbers(call)}
        fused.append(fused_steps(engine, calls, {*live, *later}, {*log.outside, *made, *before}))
        before |= {number for call in calls for number in _numbers(call)}
    return fused, made


def _numbers(call: LoggedCall) -> set[int]:
    return {number for number, _ in call.reads} | call.writes


__all__ = ["fused_parts", "fused_steps"]

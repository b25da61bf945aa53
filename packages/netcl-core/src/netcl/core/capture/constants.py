"""Constant propagation in a captured step: an expression that reads a tensor filled with a number, such as the gradient
of a loss by itself, has the number as a constant in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np

from netcl.core.dtypes import is_floating
from netcl.core.expr import Const, Expr, Load
from netcl.core.expr.rewrite import rebuild
from netcl.core.graph.call import LoggedCall, run_arguments
from netcl.core.layout import broadcast_shapes

__all__ = ["with_constants"]

_Key = tuple[int, int]
_LARGEST = float(np.finfo(np.float32).max)


def with_constants(calls: Sequence[LoggedCall], outside: Iterable[int]) -> list[LoggedCall]:
    """Returns the calls with expressions that do not read values written by ``fill`` into tensors of the step. Dead
    fills are still there; ``outside`` are numbers of tensors that are not the step's own.
    """
    kept = set(outside)
    filled: dict[_Key, float] = {}
    rewritten = []
    for call in calls:
        if call.method == "fill":
            _note(filled, call, kept)
        elif call.method == "run" and any(key in filled for key in call.reads):
            call = _without(call, filled)
        rewritten.append(call)
    return rewritten


def _note(filled: dict[_Key, float], call: LoggedCall, outside: set[int]) -> None:
    """Takes down the value that a fill gives its tensor, if it is finite."""
    target, value = call.args[0], call.args[1]
    if target.number in outside or not isfinite(value):
        return
    if target.dtype == "float32" and abs(value) <= _LARGEST:
        filled[target.number, target.version + 1] = float(np.float32(value))
    elif target.dtype == "int32" and int(value) == value:
        filled[target.number, target.version + 1] = value


def _without(call: LoggedCall, filled: dict[_Key, float]) -> LoggedCall:
    """Returns the call with constants for its filled inputs; itself if the other inputs do not span its space."""
    outputs, inputs, scalars, shapes, _ = run_arguments(call)
    others = [ref for ref in inputs if (ref.number, ref.version) not in filled]
    if any(0 in ref.shape for ref in inputs):
        return call
    space = broadcast_shapes([*(ref.shape for ref in inputs), *(shapes or ())], "run")
    wanted = shapes if shapes is not None else (space,) * len(outputs)
    if not others or broadcast_shapes([*(ref.shape for ref in others), *wanted], "run") != space:
        return call
    slots: list[int | Const] = []  # by input
    for ref in inputs:
        value = filled.get((ref.number, ref.version))
        if value is None:
            slots.append(len([slot for slot in slots if isinstance(slot, int)]))
        else:
            slots.append(Const(float(value) if is_floating(ref.dtype) else int(value), ref.dtype))

    def change(node: Expr) -> Expr | None:
        if not isinstance(node, Load):
            return None
        slot = slots[node.slot]
        return Load(slot, node.dtype) if isinstance(slot, int) else slot

    named: dict[str, Any] = {**call.kwargs, "shapes": wanted, "scalars": scalars}
    reads = frozenset(key for key in call.reads if key not in filled)
    return replace(call, args=(rebuild(outputs, change), tuple(others)), kwargs=named, reads=reads)

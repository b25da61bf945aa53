"""Leaves out what a captured step does not read: the values of gates of recurrent nets, for gradients alone, and inputs
that give an expression its shape alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from netcl.core.expr import Expr, Load
from netcl.core.expr.rewrite import rebuild, slots
from netcl.core.graph.call import LoggedCall, is_expression, run_arguments
from netcl.core.layout import broadcast_shapes

__all__ = ["without_unread_gates", "without_unread_inputs"]


def without_unread_gates(calls: Sequence[LoggedCall], live: Iterable[int]) -> list[LoggedCall]:
    """Returns the calls; recurrent nets keep no values of their gates if no call reads them and they are not live."""
    needed = {*live, *(number for call in calls for number, _ in call.reads)}
    return [
        replace(call, kwargs={**call.kwargs, "keeps": False})
        if call.method == "recurrence" and call.results[2].number not in needed
        else call
        for call in calls
    ]


def without_unread_inputs(calls: Sequence[LoggedCall]) -> list[LoggedCall]:
    """Returns the calls; expressions have no inputs that they do not load, if their results' shapes say the same."""
    return [_with_loaded_inputs(call) if is_expression(call) else call for call in calls]


def _with_loaded_inputs(call: LoggedCall) -> LoggedCall:
    outputs, inputs, _, shapes, out = run_arguments(call)
    loaded = slots(outputs)
    if len(loaded) in (0, len(inputs)):
        return call
    space = broadcast_shapes([*(ref.shape for ref in inputs), *(shapes or ())], "run")
    wanted, kept = shapes or (space,) * len(outputs), [inputs[slot] for slot in loaded]
    if broadcast_shapes([*(ref.shape for ref in kept), *wanted], "run") != space:
        return call

    def renumbered(node: Expr) -> Expr | None:
        return Load(loaded.index(node.slot), node.dtype) if isinstance(node, Load) else None

    reads = frozenset((ref.number, ref.version) for ref in (*kept, *filter(None, out)))
    args = (rebuild(outputs, renumbered), kept, *call.args[2:])
    return replace(call, args=args, kwargs={**call.kwargs, "shapes": wanted}, reads=reads)

"""Leaves out results of recurrent nets that a captured step does not read: the values of gates, for gradients alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from netcl.core.graph.call import LoggedCall

__all__ = ["without_unread_gates"]


def without_unread_gates(calls: Sequence[LoggedCall], live: Iterable[int]) -> list[LoggedCall]:
    """Returns the calls; recurrent nets keep no values of their gates if no call reads them and they are not live."""
    needed = {*live, *(number for call in calls for number, _ in call.reads)}
    return [
        replace(call, kwargs={**call.kwargs, "keeps": False})
        if call.method == "recurrence" and call.results[2].number not in needed
        else call
        for call in calls
    ]

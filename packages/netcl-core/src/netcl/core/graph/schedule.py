"""The plan of a call log: its steps in an order that their reads and writes allow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import prod
from typing import Any

from netcl.core.expr import Apply, Expr
from netcl.core.graph.call import LoggedCall, Ref, is_expression, run_arguments, tensors_in
from netcl.core.graph.region import Fused

_MOST_SHOWN = 3  # labels of one step
SMALL = 1 << 16  # elements of a tensor that costs little more than a launch


@dataclass(eq=False)
class PlannedCall:
    """One step of a plan: a call of the log, or a program that replaces several.

    ``reads`` and ``writes`` are numbers of storages. Of a program, ``inputs`` are its tensors, ``results`` what it
    makes, each with whether it is written in place. ``aliases`` are reshapes of results, with those. ``last`` are the
    numbers of values that no later step of a traced function reads. There the program may be the epilogue of a
    ``contraction``: ``epilogues`` have that by the values of its scalars, which are constants in the kernel.
    """

    reads: frozenset[int]
    writes: frozenset[int]
    call: LoggedCall | None = None
    program: Fused | None = None
    inputs: tuple[Ref, ...] = ()
    scalars: dict[str, Any] = field(default_factory=dict)
    results: tuple[tuple[Ref, bool], ...] = ()
    aliases: tuple[tuple[Ref, Ref], ...] = ()
    label: str = ""  # of its calls
    last: tuple[int, ...] = ()
    contraction: LoggedCall | None = None
    epilogues: dict[Any, LoggedCall | None] = field(default_factory=dict)


def scheduled(
    made: Mapping[int, PlannedCall], before: Mapping[int, int], at: Mapping[int, int], merges: bool
) -> list[list[PlannedCall]]:
    """Returns the steps, near to the order of the calls: ``before`` has a bit for each step that must run earlier,
    ``at`` is the newest call of each.

    If launches are merged (``merges``), small programs are delayed until nothing else can run, and small ones without
    dependents until the end; then all that others depend on are one entry, equal ones next to each other, so that they
    can be merged to one launch. A call of the host, such as one that sends gradients while the backward pass continues,
    is not delayed by them: they run when it waits for nothing else.
    """
    waiting = {number: bin(before[number]).count("1") for number in made}
    after: dict[int, list[int]] = {number: [] for number in made}
    for number in made:
        for other in made:
            if before[number] >> other & 1:
                after[other].append(number)
    alone: list[tuple[int, int]] = []
    small: list[tuple[int, int]] = []
    last: list[tuple[int, int]] = []

    def can_run(number: int) -> None:
        place = alone if not (merges and _is_small(made[number])) else small if after[number] else last
        heappush(place, (at[number], number))

    for number, count in waiting.items():
        if not count:
            can_run(number)
    steps_made: list[list[PlannedCall]] = []
    host_calls = sorted((number for number in made if _is_host_call(made[number])), key=lambda number: at[number])
    while alone or small or last:
        while host_calls and not waiting[host_calls[0]]:  # it can run, or has run
            del host_calls[0]
        urgent = _urgent(before[host_calls[0]], alone, small) if host_calls else []
        if urgent:
            chosen, small = _side_by_side(urgent, made), [entry for entry in small if entry not in urgent]
        elif alone:
            chosen = [heappop(alone)[1]]
        elif small:
            due = _due(small, after, waiting)
            alike = {_expressions(made[number]) for _, number in due} - {()}
            due += [entry for entry in small if entry not in due and _expressions(made[entry[1]]) in alike]
            chosen, small = _side_by_side(due, made), [entry for entry in small if entry not in due]
        else:
            chosen, last = _side_by_side(last, made), []
        steps_made.append([made[number] for number in chosen])
        for number in chosen:
            for other in after[number]:
                waiting[other] -= 1
                if not waiting[other]:
                    can_run(other)
    return steps_made


def _is_host_call(step: PlannedCall) -> bool:
    return step.call is not None and step.call.kept


def _urgent(before: int, alone: Sequence[tuple[int, int]], small: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the small steps that a call of the host waits for; none while it waits for others that can run."""
    if any(before >> number & 1 for _, number in alone):
        return []
    return [entry for entry in small if before >> entry[1] & 1]


def _due(
    small: Sequence[tuple[int, int]], after: Mapping[int, list[int]], waiting: Mapping[int, int]
) -> list[tuple[int, int]]:
    """Returns the small steps that alone block a dependent. Steps with dependents blocked by other steps as well, such
    as the gradients of one optimizer, may still become one launch with later steps.
    """
    counts: dict[int, int] = {}
    for _, number in small:
        for other in after[number]:
            counts[other] = counts.get(other, 0) + 1
    return [entry for entry in small if any(counts[other] == waiting[other] for other in after[entry[1]])]


def _side_by_side(places: Sequence[tuple[int, int]], made: Mapping[int, PlannedCall]) -> list[int]:
    """Returns the numbers in order; numbers of equal expressions follow the first of them."""
    kinds: dict[Any, list[int]] = {}
    for _, number in sorted(places):
        kinds.setdefault(_expressions(made[number]), []).append(number)
    return [number for kind in kinds.values() for number in kind]


def _expressions(step: PlannedCall) -> tuple[Expr, ...]:
    if step.program is not None:
        return step.program.outputs
    return run_arguments(step.call)[0] if step.call is not None else ()


def _is_small(step: PlannedCall) -> bool:
    """True if a step costs little more than its launch, or only casts: the casts of weights are one launch then."""
    if step.call is not None and not is_expression(step.call):
        return False
    if all(isinstance(out, Apply) and out.prim.name.startswith("to_") for out in _expressions(step)):
        return True
    refs = (
        [*step.inputs, *(ref for ref, _ in step.results)]
        if step.call is None
        else tensors_in((step.call.args[1], step.call.results))
    )
    return all(prod(ref.shape) <= SMALL for ref in refs)


def joined_label(labels: Iterable[str]) -> str:
    """Returns one label for several: the first different ones, and how many follow."""
    different = list(dict.fromkeys(part for label in labels for part in label.split(", ") if label))
    more = f", {len(different) - _MOST_SHOWN} more" if len(different) > _MOST_SHOWN else ""
    return ", ".join(different[:_MOST_SHOWN]) + more

"""Calls of a log, which passes fuse and schedule: a captured step logs calls of its engine (``capture/call_log.py``), a
traced function calls of expression rows (``trace.py``).

A tensor of a call is a ``Ref``: a number for the storage and how often that has been written (an SSA value). A log
keeps no tensor alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from netcl.core.engine import interceptors
from netcl.core.expr import Expr
from netcl.core.layout import broadcast_shapes
from netcl.core.ops_table.program import Bound, Program
from netcl.core.ops_table.records import Record
from netcl.core.ops_table.table import OpRow
from netcl.core.storage.data import TensorData


class Ref(NamedTuple):
    """A tensor of a call: the number of its storage, its version there, and how the call sees it."""

    number: int
    version: int
    shape: tuple[int, ...]
    dtype: str


class Op(NamedTuple):
    """A call of an op that is one contraction: its arguments with Refs, its record, and the shape of its result."""

    row: OpRow
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    record: Record
    shape: tuple[int, ...]


@dataclass(eq=False)
class LoggedCall:
    """One engine call: ``args``, ``kwargs`` and ``results`` have Refs for tensors.

    ``reads`` are (number, version), ``writes`` numbers. ``kept``: it has side effects, so it is never eliminated.

    A call of a traced function is one of a ``row`` with its ``program``, a reshape, or the contraction that an ``op``
    is; its scalars are places among the log's. ``node``: it is one of the recorded ops. ``recorded``: gradients flow
    through it. ``requires`` has for each operand if it requires grad.
    """

    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: Any
    reads: frozenset[tuple[int, int]]
    writes: frozenset[int]
    kept: bool
    label: str = ""  # of the op and the layer, if they are labelled
    row: str = "step"
    program: Program | None = None
    node: bool = False
    recorded: bool = False
    requires: tuple[bool, ...] = ()
    op: Op | None = None

    @property
    def makes(self) -> list[tuple[int, int]]:
        """(number, version) of its results."""
        return [(ref.number, ref.version) for ref in tensors_in(self.results)]


def tensors_in(value: Any) -> Iterator[Any]:
    """Yields the tensors, or Refs, in nested lists, tuples and dicts."""
    return interceptors.tensors_in(value, (Ref, TensorData))


def replaced(value: Any, change: Callable[[Any], Any]) -> Any:
    """Returns the same nest with each tensor, or Ref, replaced by ``change`` of it."""
    if isinstance(value, (Ref, TensorData)):
        return change(value)
    if isinstance(value, (list, tuple)):
        items = [replaced(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: replaced(item, change) for key, item in value.items()}
    return value


def is_expression(call: LoggedCall) -> bool:
    """True if a call is one of ``run`` that can be fused."""
    if call.method != "run" or call.kept:
        return False
    outputs, inputs, _, shapes, _ = run_arguments(call)
    if not inputs or any(0 in ref.shape for ref in inputs):
        return False
    space = broadcast_shapes([*(ref.shape for ref in inputs), *(shapes or ())], "run")
    return all(len(shape) == len(space) for shape in shapes or ())


def run_arguments(
    call: LoggedCall,
) -> tuple[tuple[Expr, ...], tuple[Ref, ...], dict[str, Any], Any, Sequence[Ref | None]]:
    """Returns outputs, inputs, scalars, shapes and out of a call of ``run``."""
    outputs, inputs, *rest = call.args
    scalars = rest[0] if rest else call.kwargs.get("scalars")
    shapes = call.kwargs.get("shapes")
    return (
        tuple(outputs),
        tuple(inputs),
        dict(scalars or {}),
        None if shapes is None else tuple(map(tuple, shapes)),
        tuple(call.kwargs.get("out") or ()),
    )


def without_dead_calls(calls: Sequence[LoggedCall], live: set[int]) -> list[LoggedCall]:
    """Returns the calls without dead ones: their results are not read."""
    live_calls = []
    for call in reversed(calls):
        if call.kept or call.writes & live:
            live_calls.append(call)
            live.update(number for number, _ in call.reads)
    return live_calls[::-1]


def bound_call(call: LoggedCall) -> Bound:
    """Returns the program of a call of expressions, with its Refs and scalars."""
    outputs, inputs, scalars, shapes, _ = run_arguments(call)
    if call.program is not None:
        return Bound(call.program, inputs, scalars)
    space = broadcast_shapes([*(ref.shape for ref in inputs), *(shapes or ())], "run")
    wanted = tuple(shapes) if shapes is not None else (space,) * len(outputs)
    return Bound(Program("run", outputs, wanted, wanted, {}), inputs, scalars)

"""Descriptions of calls: arguments and results with references in the place of tensors, and how calls are run again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from netcl.core.errors import CaptureError
from netcl.core.ops_table.dispatch import call_row
from netcl.core.ops_table.table import OpRow
from netcl.core.storage.data import TensorData
from netcl.core.storage.views import Geometry

__all__ = [
    "Call",
    "Made",
    "Number",
    "Outside",
    "Slot",
    "Unpredictable",
    "described",
    "equal",
    "filled",
    "is_number",
    "results_of",
    "run_call",
    "same_array",
]


class Unpredictable(CaptureError):
    """The calls of a period cannot be predicted; the text says why."""


@dataclass(frozen=True)
class Slot:
    """The ``number``-th tensor that the calls of a period make."""

    number: int


@dataclass(frozen=True)
class Outside:
    """The ``number``-th tensor that the calls of a period use and do not make."""

    number: int


@dataclass(frozen=True)
class Number:
    """An operand that is another number in each period: its place among them, its value in the logged period, and the
    dtype in which kernels compute with it.
    """

    number: int = field(compare=False)
    value: float = field(compare=False)
    dtype: Any


@dataclass(frozen=True)
class Made:
    """A tensor that a call makes: its properties before it is computed.

    ``mark``: the mark of the place in the graph of a tensor without gradient. ``geometry`` is of a view. ``of``: the
    number from outside of the leaf that has the tensor as its gradient.
    """

    slot: int
    engine: Any
    shape: Any
    dtype: Any
    requires_grad: bool
    mark: Any
    geometry: Geometry | None
    of: int | None = None


@dataclass
class Call:
    """One call of a period: of a row of the op table, with its flag ``record``, or of an event.

    ``checks`` are of the arguments: (0, slot), (1, number from outside), (2, template) or (3, place of a number).
    ``event``: it is no call of a row. ``enabled`` and ``block`` are the modes: is grad enabled, and the number of the
    autocast block in the period. ``draws``: it takes random numbers. ``ends``: the step that ends the period is taken
    inside of it. ``made`` are the tensors that the call makes, ``written`` the numbers of tensors from outside that it
    writes, ``rewritten`` the slots of earlier results that it writes.
    """

    target: Any
    record: bool | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    enabled: bool
    block: int
    result: Any = None
    draws: bool = False
    ends: bool = False
    made: tuple[Made, ...] = ()
    written: tuple[int, ...] = ()
    rewritten: tuple[int, ...] = ()
    last_uses: tuple[int, ...] = ()  # slots that no later call reads
    event: bool = field(init=False)
    checks: tuple[tuple[int, Any], ...] = ()

    def __post_init__(self) -> None:
        self.event = not isinstance(self.target, OpRow)

    @property
    def references(self) -> list[Any]:
        """The references to tensors in the arguments."""
        references: list[Any] = []
        filled((self.args, self.kwargs), references.append)
        return references

    @property
    def selects(self) -> bool:
        """True if the call may give other elements, or an alias, of tensors from outside, and is in no graph."""
        if any(made.requires_grad for made in self.made) or any(type(each) is Slot for each in self.references):
            return False
        row = self.target
        if isinstance(row, OpRow):
            return row.view or row.name in ("getitem", "index_select", "narrow")
        return bool(getattr(row, "aliases", False))


_VALUES = (int, float, str, bool, type(None), slice, type(...), np.generic)
_EXACT = 1 << 24  # whole numbers up to it are exact in float32
_LARGEST = 3e38
_ARRAY_BYTES = 1 << 16  # of an array of indices that is compared in each period


def is_number(value: Any) -> bool:
    """Returns True for a number with which a kernel computes as with an element of a float tensor."""
    if type(value) is int:
        return -_EXACT <= value <= _EXACT
    return type(value) is float and (abs(value) <= _LARGEST or not math.isfinite(value))


def described(value: Any, reference: Callable[[Any], Any]) -> Any:
    """Returns ``value`` with ``reference(tensor)`` in the place of each tensor in it, and with copies of arrays of
    indices; raises Unpredictable for other data of the host, which may change.
    """
    if isinstance(value, TensorData):
        return reference(value)
    if isinstance(value, (list, tuple)):
        items = [described(item, reference) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: described(item, reference) for key, item in value.items()}
    if type(value) is np.ndarray and value.dtype.kind in "biu" and value.nbytes <= _ARRAY_BYTES:
        return value.copy()
    if isinstance(value, (np.ndarray, Iterator)):
        raise Unpredictable(f"an argument is a {type(value).__name__}")
    return value


def equal(template: Any, value: Any, same: Callable[[Any, Any], bool]) -> bool:
    """Returns True if ``value`` is as the described ``template``; ``same(reference, value)`` compares what is in the
    place of a tensor.
    """
    kind = type(template)
    if kind is Slot or kind is Outside:
        return same(template, value)
    if template is value:
        return True
    if type(value) is not kind:
        return False
    if kind is float:
        return bool(template == value and (value != 0.0 or str(template) == str(value)))
    if isinstance(template, (*_VALUES, Number)):
        return bool(template == value)
    if isinstance(template, (list, tuple)):
        return len(template) == len(value) and all(equal(a, b, same) for a, b in zip(template, value))
    if kind is np.ndarray:
        return same_array(template, value)
    if kind is dict:
        return list(template) == list(value) and all(
            equal(a, b, same) for a, b in zip(template.values(), value.values())
        )
    return False


def same_array(template: Any, value: Any) -> bool:
    """Returns True for two arrays of equal dtype, shape and elements."""
    return bool(template.dtype == value.dtype and np.array_equal(template, value))


def filled(template: Any, tensor_of: Callable[[Any], Any]) -> Any:
    """Returns the described ``template`` with ``tensor_of(reference)`` in the place of each reference."""
    kind = type(template)
    if kind is Slot or kind is Outside or kind is Number:
        return tensor_of(template)
    if isinstance(template, (list, tuple)):
        items = [filled(item, tensor_of) for item in template]
        return kind(*items) if hasattr(template, "_fields") else kind(items)
    if kind is dict:
        return {key: filled(item, tensor_of) for key, item in template.items()}
    return template


def results_of(template: Any, result: Any) -> Iterator[tuple[int, Any]]:
    """Yields number and tensor of each slot in a described result."""
    if type(template) is Slot:
        yield template.number, result
    elif isinstance(template, (list, tuple)):
        for inner, item in zip(template, result):
            yield from results_of(inner, item)
    elif isinstance(template, dict):
        for key, inner in template.items():
            yield from results_of(inner, result[key])


def run_call(target: Any, args: Sequence[Any], kwargs: dict[str, Any], record: bool | None) -> Any:
    """Runs a call of a row or of an event."""
    if isinstance(target, OpRow):
        return call_row(target, tuple(args), kwargs, record)
    return target(*args, **kwargs)

"""What a model computes, as a list of the ops it called: recorded twice, with batches of two sizes.

Comparing the two tells which numbers depend on the batch. What an op was given in both runs is one Step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import netcl.autograd as ag
from netcl.autograd.rules import attention, recurrence
from netcl.core import Tensor
from netcl.core.dispatch import OpRow, call, pop_hook, push_hook
from netcl.core.errors import UnsupportedError


@dataclass(frozen=True, eq=False)
class Call:
    """One op of one run."""

    row: OpRow
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: tuple[Tensor, ...]

    @property
    def arguments(self) -> dict[str, Any]:
        """What was given, by parameter, defaults included."""
        bound = self.row.signature.bind(*self.args, **self.kwargs)
        bound.apply_defaults()
        return bound.arguments


class _Recorder:
    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._inside = False

    def __call__(self, next: Callable[..., Any], row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._inside:  # what an op calls on its way is part of it
            return next(row, args, kwargs)
        if row.name == "recurrence":  # ONNX's own has no cells but the last; its steps are ops like any others
            given = Call(row, args, kwargs, ()).arguments
            out, cells = recurrence.unrolled(call, **given)
            return out, cells, None
        if row.name == "tiled_attention":
            return attention.unrolled(call, **Call(row, args, kwargs, ()).arguments), None
        self._inside = True
        try:
            result = next(row, args, dict(kwargs))
        finally:
            self._inside = False
        results = result if isinstance(result, (tuple, list)) else (result,)
        self.calls.append(Call(row, args, dict(kwargs), tuple(results)))
        return result


def record(model: Any, inputs: Sequence[Tensor]) -> tuple[list[Call], tuple[Tensor, ...]]:
    """The ops that ``model(*inputs)`` calls, and its outputs: a tensor, or tensors in tuples, lists and dicts."""
    recorder = _Recorder()
    push_hook(recorder, "tracer")
    try:
        with ag.no_grad():
            outputs = model(*inputs)
    finally:
        pop_hook(recorder)
    return recorder.calls, tuple(_tensors(outputs))


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in _tensors(item)]
    if value is None:
        return []
    raise UnsupportedError(f"a model that is exported gives tensors, not a {type(value).__name__}")


@dataclass(frozen=True, eq=False)
class Step:
    """One op in both runs."""

    first: Call
    second: Call

    @property
    def name(self) -> str:
        """The name of the op."""
        return self.first.row.name

    def __getitem__(self, parameter: str) -> Any:
        """An argument that is the same in both runs; UnsupportedError where the batch decides on it."""
        a, b = self.both(parameter)
        if a != b:
            raise UnsupportedError(
                f"{self.name}: {parameter} depends on the batch ({a} and {b}); export with dynamic_batch=False",
                op=self.name,
            )
        return a

    def both(self, parameter: str) -> tuple[Any, Any]:
        """An argument in either run."""
        return self.first.arguments[parameter], self.second.arguments[parameter]

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape of the first result in either run."""
        return self.first.results[0].shape, self.second.results[0].shape


def steps(first: Sequence[Call], second: Sequence[Call]) -> list[Step]:
    """The ops of both runs side by side; UnsupportedError where the model did something else for another batch."""
    if [call.row.name for call in first] != [call.row.name for call in second]:
        raise UnsupportedError(
            "the model calls other ops for a batch that is larger by one; export with dynamic_batch=False"
        )
    return [Step(a, b) for a, b in zip(first, second)]

"""Traces the ops that a model calls, with batches of two sizes.

Comparing both traces shows which numbers depend on the batch. The same op in both traces is one TracedOp.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import netcl.autograd as ag
from netcl.autograd.rules import attention, recurrence
from netcl.core import Tensor
from netcl.core.errors import UnsupportedError
from netcl.core.ops_table.dispatch import OpRow, call, pop_hook, push_hook


def _write(target: Tensor, value: Tensor) -> None:
    """Stands for a write in place in a trace; ``value`` broadcasts and is converted."""


# Not in the op table: writes in place are no ops, a trace has them between its ops.
WRITE = OpRow("write", inspect.signature(_write))


@dataclass(frozen=True, eq=False)
class TracedCall:
    """One op call of one trace."""

    row: OpRow
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: tuple[Tensor, ...]

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments by parameter, defaults included."""
        bound = self.row.signature.bind(*self.args, **self.kwargs)
        bound.apply_defaults()
        return bound.arguments


class _Recorder:
    def __init__(self) -> None:
        self.calls: list[TracedCall] = []
        self._inside = False

    def __call__(self, next: Callable[..., Any], row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._inside:  # ops called by an op are part of it
            return next(row, args, kwargs)
        # ONNX's own recurrent ops return no cell states but the last; the steps are traced as ops
        if row.name == "recurrence":
            arguments = TracedCall(row, args, kwargs, ()).arguments
            out, cells = recurrence.unrolled(call, **arguments)
            return out, cells, None
        if row.name == "tiled_attention":
            return attention.unrolled(call, **TracedCall(row, args, kwargs, ()).arguments), None
        self._inside = True
        try:
            result = next(row, args, dict(kwargs))
        finally:
            self._inside = False
        results = result if isinstance(result, (tuple, list)) else (result,)
        self.calls.append(TracedCall(row, args, dict(kwargs), tuple(results)))
        return result

    def before_write(self, target: Any = None, value: Any = None) -> None:
        """Records a write in place outside of an op; raises UnsupportedError for values from the host."""
        if self._inside or target is None:
            return
        if value is None:
            raise UnsupportedError(
                "a model that is exported overwrites a tensor from the host, sets its data or changes its shape in "
                "place; write y = x.reshape(...) for the last, and make other constants before the export"
            )
        self.calls.append(TracedCall(WRITE, (target, value), {}, (target,)))


def record(model: Any, inputs: Sequence[Tensor]) -> tuple[list[TracedCall], tuple[Tensor, ...]]:
    """Returns the ops that ``model(*inputs)`` calls, and its outputs: a tensor, or tensors in tuples, lists and
    dicts.
    """
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
    raise UnsupportedError(f"expected tensors from the model to export, got a {type(value).__name__}")


@dataclass(frozen=True, eq=False)
class TracedOp:
    """One op in both traces."""

    first: TracedCall
    second: TracedCall

    @property
    def name(self) -> str:
        """The name of the op."""
        return self.first.row.name

    def __getitem__(self, parameter: str) -> Any:
        """Returns an argument that is the same in both traces; raises UnsupportedError if it depends on the batch."""
        a, b = self.both(parameter)
        if a != b:
            raise UnsupportedError(
                f"{self.name}: {parameter} depends on the batch ({a} and {b}); export with dynamic_batch=False",
                op=self.name,
            )
        return a

    def both(self, parameter: str) -> tuple[Any, Any]:
        """Returns an argument in both traces."""
        return self.first.arguments[parameter], self.second.arguments[parameter]

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape of the first result in both traces."""
        return self.first.results[0].shape, self.second.results[0].shape


def traced_ops(first: Sequence[TracedCall], second: Sequence[TracedCall]) -> list[TracedOp]:
    """Pairs the ops of both traces; raises UnsupportedError if the model called other ops for another batch."""
    if [call.row.name for call in first] != [call.row.name for call in second]:
        raise UnsupportedError(
            "the model calls other ops for a batch that is larger by one; export with dynamic_batch=False"
        )
    return [TracedOp(a, b) for a, b in zip(first, second)]

"""Casts between float32 and a half type in the call log of a captured step."""

from __future__ import annotations

from typing import NamedTuple

from netcl.core.expr import Load, cast
from netcl.core.graph.call import LoggedCall, Ref, is_expression, run_arguments, tensors_in

__all__ = ["HALVES", "Cast", "cast_of"]

HALVES = ("float16", "bfloat16")


class Cast(NamedTuple):
    """The call number ``at`` of a log, which casts ``source``."""

    at: int
    source: Ref
    result: Ref


def cast_of(at: int, call: LoggedCall) -> Cast | None:
    """Returns the cast that a call is, between float32 and a half type; None for any other."""
    if not is_expression(call):
        return None
    outputs, inputs, scalars, _, out = run_arguments(call)
    made = list(tensors_in(call.results))
    if len(outputs) != 1 or len(inputs) != 1 or len(made) != 1 or scalars or any(out):
        return None
    source, result = inputs[0], made[0]
    kinds = {source.dtype in HALVES, result.dtype in HALVES}
    known = "float32" in (source.dtype, result.dtype)
    plain = outputs[0] is cast(Load(0, source.dtype), result.dtype)
    same = _size(source) == _size(result)
    return Cast(at, source, result) if kinds == {True, False} and known and plain and same else None


def _size(ref: Ref) -> tuple[int, ...]:
    return tuple(size for size in ref.shape if size != 1)

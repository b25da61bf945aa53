"""Sums over ranks as expressions, in rank order, so that a device computes the bits that the host would."""

from __future__ import annotations

from functools import lru_cache

from netcl.core.expr import Const, Expr, Load, cast

_HALVES = ("float16", "bfloat16")


@lru_cache(maxsize=64)
def sum_of_ranks(size: int, dtype: str, op: str = "sum", target: str | None = None) -> tuple[Expr, ...]:
    """Returns the ``op`` of ``size`` inputs of one dtype, one for each rank, as an output of dtype ``target`` (None:
    theirs). ``op`` is sum or, for floating dtypes, mean. Halves are summed in float32 and rounded once.
    """
    wide = "float32" if dtype in _HALVES else dtype
    total = _as(Load(0, dtype), wide)
    for rank in range(1, size):
        total = total + _as(Load(rank, dtype), wide)
    if op == "mean":
        total = total / Const(float(size), wide)
    return (_as(_as(total, dtype), dtype if target is None else target),)


def _as(value: Expr, dtype: str) -> Expr:
    return value if value.dtype == dtype else cast(value, dtype)

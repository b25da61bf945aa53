"""Reductions of host arrays over all ranks, always in rank order, so that results are bit-identical."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["OPS", "REDUCED", "Array", "check_op", "even_bounds", "reduce_in_order"]

Array = np.ndarray[Any, Any]

OPS: dict[str, Callable[..., Any]] = {
    "sum": np.add,
    "mean": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "prod": np.multiply,
}


# Dtypes that devices sum as ``reduce_in_order`` does: in the dtype itself, halves in float32 and rounded once.
REDUCED = ("float32", "float64", "float16", "bfloat16", "int32", "int64")


def check_op(op: str) -> None:
    """Raises ValueError if ``op`` is not sum, mean, max, min or prod."""
    if op not in OPS:
        raise ValueError(f"op is one of {', '.join(OPS)}, not {op!r}")


def reduce_in_order(parts: Sequence[Array], op: str, out: Array) -> None:
    """Writes ``parts[0] op parts[1] op ...``, in that order, into ``out``, which must not be one of the parts.

    Half numbers are summed in float32 and rounded once, at the end; a mean of integers is truncated.
    """
    combine = OPS[op]
    if out.dtype == np.float16:
        total = parts[0].astype(np.float32)
        for part in parts[1:]:
            combine(total, part, out=total)
        out[...] = total / len(parts) if op == "mean" else total
        return
    if len(parts) == 1:
        out[...] = parts[0]
        return
    combine(parts[0], parts[1], out=out)
    for part in parts[2:]:
        combine(out, part, out=out)
    if op == "mean":
        np.divide(out, len(parts), out=out, casting="unsafe")


def even_bounds(start: int, stop: int, parts: int) -> list[int]:
    """Returns the ``parts + 1`` bounds that split the range into nearly equal pieces."""
    count = stop - start
    return [start + count * part // parts for part in range(parts + 1)]

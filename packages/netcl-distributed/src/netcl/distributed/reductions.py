"""Reductions of host arrays over all ranks, always in rank order, so that results are bit-identical."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# The bits of bfloat16, which NumPy does not have; a dtype of its own, so that they are not summed as integers.
BFLOAT16: np.dtype[Any] = np.dtype([("bfloat16", "<u2")])

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
        raise ValueError(f"op: expected one of {', '.join(OPS)}, got {op!r}")


def reduce_in_order(parts: Sequence[Array], op: str, out: Array) -> None:
    """Writes ``parts[0] op parts[1] op ...``, in this order, into ``out``, which must not be one of the parts.

    float16 and bfloat16 are summed in float32 and rounded once, at the end; a mean of integers is truncated.
    """
    combine = OPS[op]
    if out.dtype == BFLOAT16:
        wide = from_bfloat16(parts[0])
        for part in parts[1:]:
            combine(wide, from_bfloat16(part), out=wide)
        out[...] = to_bfloat16(wide / np.float32(len(parts)) if op == "mean" else wide)
        return
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


def to_bfloat16(values: Array) -> Array:
    """Returns float32 values rounded to the nearest bfloat16, ties to even, as an array of ``BFLOAT16``; NaN stays."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    short = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    nan = np.isnan(values)
    if nan.any():  # rounding could carry into the sign or the exponent
        short[nan] = 0x7FC0
    return short.view(BFLOAT16)


def from_bfloat16(short: Array) -> Array:
    """Returns the values of an array of ``BFLOAT16`` as a new float32 array."""
    wide = short.view(np.uint16).astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)


def even_bounds(start: int, stop: int, parts: int) -> list[int]:
    """Returns the ``parts + 1`` bounds that split the range into nearly equal pieces."""
    count = stop - start
    return [start + count * part // parts for part in range(parts + 1)]

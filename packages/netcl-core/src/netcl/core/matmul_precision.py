"""The precision that a program allows for products of float32 matrices, by PyTorch's three names."""

from __future__ import annotations

__all__ = ["get_float32_matmul_precision", "set_float32_matmul_precision"]

PRECISIONS = ("highest", "high", "medium")

_precision = "highest"


def set_float32_matmul_precision(precision: str) -> None:
    """Allows products of float32 matrices to round their operands: "highest" (not at all, the default), "high" or
    "medium". ValueError for another name.

    All engines compute float32 products in float32 at each setting, so no result changes; for faster products use
    ``nc.autocast`` or float16 tensors.
    """
    global _precision
    if precision not in PRECISIONS:
        raise ValueError(f"set_float32_matmul_precision takes one of {', '.join(PRECISIONS)}, not {precision!r}")
    _precision = precision


def get_float32_matmul_precision() -> str:
    """Returns the name that ``set_float32_matmul_precision`` set: "highest" if it was not called."""
    return _precision

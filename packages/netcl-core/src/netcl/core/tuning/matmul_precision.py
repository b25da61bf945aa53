"""The precision that a program allows for products of float32 matrices, by PyTorch's three names."""

from __future__ import annotations

from netcl.core import config

_precision: str | None = None


def set_float32_matmul_precision(precision: str) -> None:
    """Sets how products of float32 matrices may round their operands, for the process.

    "highest" (the default): results are at least as exact as sums of float32 products. "high": the matrix unit of a
    GPU, if it has one, multiplies operands rounded to TF32 (11 bits) or of two bfloat16 parts each (16 bits), depending
    on their layout; "medium": of one part (8 bits). Sums are float32 at each setting. Devices without a matrix unit
    compute in float32 at each. NETCL_FLOAT32_MATMUL sets it from outside. Raises ValueError for another name.

    >>> set_float32_matmul_precision("high")
    >>> get_float32_matmul_precision()
    'high'
    >>> set_float32_matmul_precision("highest")
    """
    global _precision
    names = config.VARIABLES["FLOAT32_MATMUL"].type.split()
    if precision not in names:
        raise ValueError(f"expected a precision of {', '.join(names)}, got {precision!r}")
    _precision = precision


def get_float32_matmul_precision() -> str:
    """Returns the name that was set, else NETCL_FLOAT32_MATMUL ("highest" by default)."""
    return _precision or str(config.get("FLOAT32_MATMUL"))

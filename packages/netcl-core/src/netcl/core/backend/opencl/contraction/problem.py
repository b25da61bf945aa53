"""Gives the dtype of sums, and the argument that describes a contraction to kernels."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

from netcl.core.backend.opencl.templates import struct
from netcl.core.tuning.problems import Contraction


def compute_dtype(dtype: str) -> str:
    """Returns the dtype of the sums of tensors of ``dtype``."""
    return dtype if dtype in ("float64", "float32") else "float32"


@lru_cache(maxsize=1024)
def strides_argument(c: Contraction) -> Any:
    """Returns the argument of the kernels that compute each element's offset from its indices."""
    return struct(
        c.m, prod(c.k), prod(c.n), c.batch[1], int(c.accumulate), int(c.partial), c.a_row, c.out_row,
        c.a_offset, c.b_offset, c.out_offset, c.a_batch, c.b_batch, c.out_batch,
        c.k, c.a_k, c.b_k, c.n, c.b_n, c.out_n,
    )  # fmt: skip

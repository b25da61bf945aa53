"""What a contraction is: sums of products over strided operands, and the argument that says so to kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

from netcl.core.backend.opencl.templates import struct

Levels = tuple[int, int, int, int]


@dataclass(frozen=True)
class Contraction:
    """out[z][i][j] = sum over k of A[z][i][k] * B[z][k][j], everything strided, strides and offsets in elements.

    The reduced index k and the column index j count through four levels, outermost first; z through two. A's row i is
    at ``i * a_row``. With ``accumulate`` the sums are added to what ``out`` (then in the computing type) holds.
    """

    m: int
    k: Levels
    n: Levels
    a_row: int
    a_k: Levels
    b_k: Levels
    b_n: Levels
    out_row: int
    out_n: Levels
    batch: tuple[int, int] = (1, 1)
    a_batch: tuple[int, int] = (0, 0)
    b_batch: tuple[int, int] = (0, 0)
    out_batch: tuple[int, int] = (0, 0)
    a_offset: int = 0
    b_offset: int = 0
    out_offset: int = 0
    accumulate: bool = False
    parts: bool = False

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return self.m == 0 or prod(self.n) == 0 or prod(self.batch) == 0


def compute_dtype(dtype: str) -> str:
    """What sums are kept in."""
    return dtype if dtype in ("float64", "float32") else "float32"


@lru_cache(maxsize=1024)
def places_argument(c: Contraction) -> Any:
    """The argument of the kernels that find each element's place by its indices."""
    return struct(
        c.m, prod(c.k), prod(c.n), c.batch[1], int(c.accumulate), int(c.parts), c.a_row, c.out_row,
        c.a_offset, c.b_offset, c.out_offset, c.a_batch, c.b_batch, c.out_batch,
        c.k, c.a_k, c.b_k, c.n, c.b_n, c.out_n,
    )  # fmt: skip

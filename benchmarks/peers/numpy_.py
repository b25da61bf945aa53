"""NumPy: matrix products by its BLAS."""

from __future__ import annotations

import numpy as np
from bursts import Work
from rows import Row, operands


def row(row: Row) -> Work | None:
    """The work of a row; None for all but products."""
    if row.op != "matmul":
        return None
    a, b = operands(row)
    return lambda: np.matmul(a, b)

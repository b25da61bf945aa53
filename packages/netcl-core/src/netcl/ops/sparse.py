"""Products with sparse matrices: rows in CSR times a dense matrix (SpMM), and dot products of pairs of rows (SDDMM).

Each is the gradient of the other. A pattern is given twice: ``here`` by rows, [starts, columns, rows], all int32, where
row r has the elements from starts[r] to starts[r + 1], and ``there``, the same of the transpose, followed by the order
of its elements among the elements here and the inverse of that order. ``there`` may be empty if no gradient is wanted.
Indices are checked where patterns are made: in ``netcl.core.tensor.sparse``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from netcl.core.dtypes import promote
from netcl.core.errors import ShapeError
from netcl.core.tensor import Tensor
from netcl.core.tensor.sparse_pattern import Pattern
from netcl.ops.domains import Cases, compared
from netcl.ops.table import as_dtype, computed, engine_of

Parts = Sequence[Tensor]


def _patterns(rng: np.random.Generator) -> Iterator[tuple[Pattern, int]]:
    """Patterns with the width of the dense operand: one with empty rows, one dense, one without elements."""
    for rows, columns, width, share in ((5, 4, 3, 0.4), (2, 3, 17, 1.0), (7, 1, 1, 0.5), (3, 2, 2, 0.0)):
        yield Pattern((rows, columns), np.stack(np.nonzero(rng.random((rows, columns)) < share)), True), width


def _parts(pattern: Pattern) -> tuple[list[Any], list[Any]]:
    return list(pattern.by_rows), list(pattern.by_columns)


def _matmul_cases(rng: np.random.Generator) -> Cases:
    for pattern, width in _patterns(rng):
        values, dense = rng.uniform(-2, 2, pattern.count), rng.uniform(-2, 2, (pattern.sizes[1], width))
        yield (values, dense, *_parts(pattern)), {}


def _matmul_reference(values: Any, dense: Any, here: Any, there: Any) -> Any:
    starts, columns, rows = here
    out = np.zeros((len(starts) - 1, dense.shape[1]), np.result_type(values, dense))
    np.add.at(out, rows, values[:, None] * dense[columns])
    return out


@computed(dtypes="numbers", domain=compared(_matmul_cases, _matmul_reference))
def csr_matmul(values: Tensor, dense: Tensor, here: Parts, there: Parts) -> Tensor:
    """Returns the product of a matrix in CSR, elements ``values`` (count,), and ``dense`` (n, width). The elements of
    each row are added in their order: the same bits on every run. Dtypes are promoted; 16-bit floats are accumulated in
    float32.
    """
    starts, columns = here[0], here[1]
    engine = engine_of("csr_matmul", values, dense, starts, columns)
    if dense.ndim != 2:
        raise ShapeError(f"csr_matmul: expected a matrix as dense operand, got shape {dense.shape}")
    dtype = promote(values.dtype, dense.dtype)
    result: Tensor = engine.sparse_rows(as_dtype(values, dtype), columns, starts, as_dtype(dense, dtype))
    return result


def _sampled_cases(rng: np.random.Generator) -> Cases:
    for pattern, width in _patterns(rng):
        a, b = (rng.uniform(-2, 2, (size, width)) for size in pattern.sizes)
        yield (a, b, *_parts(pattern)), {}


def _sampled_reference(a: Any, b: Any, here: Any, there: Any) -> Any:
    return np.sum(a[here[2]] * b[here[1]], axis=1)


@computed(dtypes="numbers", domain=compared(_sampled_cases, _sampled_reference))
def sampled_matmul(a: Tensor, b: Tensor, here: Parts, there: Parts) -> Tensor:
    """Returns the elements (count,) of a @ b.T at a pattern's positions, a (rows, width) and b (columns, width)."""
    engine = engine_of("sampled_matmul", a, b, here[1], here[2])
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ShapeError(f"sampled_matmul: shapes {a.shape} and {b.shape} do not fit")
    dtype = promote(a.dtype, b.dtype)
    result: Tensor = engine.sparse_pairs(as_dtype(a, dtype), as_dtype(b, dtype), here[2], here[1])
    return result

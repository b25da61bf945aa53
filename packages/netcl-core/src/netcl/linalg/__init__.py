"""Linear algebra with PyTorch's names: recorded for gradients when netcl.autograd is loaded, like the ops of `netcl`.

Factorizations run in LAPACK on the host, through NumPy.
"""

from __future__ import annotations

from typing import Any

from netcl.core.errors import SingularMatrixError as LinAlgError
from netcl.ops import factorizations, linalg, matrix
from netcl.ops.table import OpFunction, as_function

__all__ = [
    "LinAlgError",
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "vecdot",
    "vector_norm",
]


def _recorded(function: OpFunction) -> OpFunction:
    recorded: Any = as_function(function.row, True)
    recorded.__name__ = recorded.__qualname__ = function.row.name.removeprefix("linalg_")
    recorded.__module__ = __name__
    return recorded  # type: ignore[no-any-return]


cholesky = _recorded(factorizations.cholesky)
cross = _recorded(matrix.cross)
det = _recorded(factorizations.det)
diagonal = _recorded(matrix.matrix_diagonal)
eigh = _recorded(factorizations.eigh)
eigvalsh = _recorded(factorizations.eigvalsh)
inv = _recorded(factorizations.inv)
lstsq = _recorded(factorizations.lstsq)
matmul = _recorded(linalg.matmul)
matrix_norm = _recorded(matrix.matrix_norm)
matrix_power = _recorded(matrix.matrix_power)
matrix_rank = _recorded(factorizations.matrix_rank)
matrix_transpose = _recorded(matrix.matrix_transpose)
norm = _recorded(matrix.matrix_or_vector_norm)
outer = _recorded(linalg.outer)
pinv = _recorded(factorizations.pinv)
qr = _recorded(factorizations.qr)
slogdet = _recorded(factorizations.slogdet)
solve = _recorded(factorizations.solve)
svd = _recorded(factorizations.svd)
svdvals = _recorded(factorizations.svdvals)
tensordot = _recorded(linalg.tensordot)
vecdot = _recorded(matrix.vecdot)
vector_norm = _recorded(matrix.vector_norm)

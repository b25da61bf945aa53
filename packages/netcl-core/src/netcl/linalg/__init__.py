"""Linear algebra with PyTorch's names: recorded for gradients when netcl.autograd is loaded, like the ops of `netcl`.

Factorizations run in LAPACK on the host, through NumPy.
"""

from __future__ import annotations

from typing import Any

from netcl.core.errors import SingularMatrixError as LinAlgError
from netcl.core.tensor.absent import ABSENT_FUNCTIONS
from netcl.ops import factorizations, ldl, linalg, matrix, reflections
from netcl.ops import lu as _lu
from netcl.ops.table import OpFunction, as_function

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]


def _recorded(function: OpFunction) -> OpFunction:
    recorded: Any = as_function(function.row, True)
    recorded.__name__ = recorded.__qualname__ = function.row.name.removeprefix("linalg_")
    recorded.__module__ = __name__
    return recorded  # type: ignore[no-any-return]


cholesky = _recorded(factorizations.cholesky)
cholesky_ex = _recorded(_lu.cholesky_ex)
cond = _recorded(_lu.cond)
cross = _recorded(matrix.cross)
det = _recorded(factorizations.det)
diagonal = _recorded(matrix.matrix_diagonal)
eigh = _recorded(factorizations.eigh)
eigvalsh = _recorded(factorizations.eigvalsh)
householder_product = _recorded(reflections.householder_product)
inv = _recorded(factorizations.inv)
inv_ex = _recorded(_lu.inv_ex)
ldl_factor = _recorded(ldl.ldl_factor)
ldl_factor_ex = _recorded(ldl.ldl_factor_ex)
ldl_solve = _recorded(ldl.ldl_solve)
lstsq = _recorded(factorizations.lstsq)
lu = _recorded(_lu.lu)
lu_factor = _recorded(_lu.lu_factor)
lu_factor_ex = _recorded(_lu.lu_factor_ex)
lu_solve = _recorded(_lu.lu_solve)
matmul = _recorded(linalg.matmul)
matrix_exp = _recorded(matrix.matrix_exp)
matrix_norm = _recorded(matrix.matrix_norm)
matrix_power = _recorded(matrix.matrix_power)
matrix_rank = _recorded(factorizations.matrix_rank)
matrix_transpose = _recorded(matrix.matrix_transpose)
multi_dot = _recorded(_lu.multi_dot)
norm = _recorded(matrix.matrix_or_vector_norm)
outer = _recorded(linalg.outer)
pinv = _recorded(factorizations.pinv)
qr = _recorded(factorizations.qr)
slogdet = _recorded(factorizations.slogdet)
solve = _recorded(factorizations.solve)
solve_ex = _recorded(_lu.solve_ex)
solve_triangular = _recorded(_lu.solve_triangular)
svd = _recorded(factorizations.svd)
svdvals = _recorded(factorizations.svdvals)
tensordot = _recorded(linalg.tensordot)
tensorinv = _recorded(_lu.tensorinv)
tensorsolve = _recorded(_lu.tensorsolve)
vander = _recorded(matrix.vandermonde)
vecdot = _recorded(matrix.vecdot)
vector_norm = _recorded(matrix.vector_norm)


def __getattr__(name: str) -> Any:
    """Raises AttributeError with what to write in place of a function of torch.linalg that is absent."""
    why = ABSENT_FUNCTIONS.get(f"linalg.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}" + (f": {why}" if why else ""))

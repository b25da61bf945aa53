"""Linear algebra with PyTorch's names: recorded for gradients when netcl.autograd is loaded, like the ops of `netcl`.

Each function is a row of the op table; tools/write_stubs.py writes their types. Factorizations run in LAPACK on the
host, through NumPy.
"""

from __future__ import annotations

from typing import Any

import netcl.ops  # noqa: F401  (fills the op table)
from netcl.core.errors import SingularMatrixError as LinAlgError  # noqa: F401
from netcl.core.ops_table.dispatch import row_of
from netcl.core.tensor.absent import ABSENT_FUNCTIONS
from netcl.ops.table import as_function

# Functions of rows that have the name with ``linalg_`` in front.
_PREFIXED = """
cholesky cholesky_ex cond cross det diagonal eigh eigvalsh householder_product inv inv_ex ldl_factor ldl_factor_ex
ldl_solve lstsq lu lu_factor lu_factor_ex lu_solve matrix_norm matrix_power matrix_rank multi_dot norm pinv qr slogdet
solve solve_ex solve_triangular svd svdvals tensorinv tensorsolve vander vecdot vector_norm
"""
_SAME = "matmul matrix_exp matrix_transpose outer tensordot"
_ROWS = {**{name: f"linalg_{name}" for name in _PREFIXED.split()}, **{name: name for name in _SAME.split()}}

for _name, _row in _ROWS.items():
    _function: Any = as_function(row_of(_row), True)
    _function.__name__ = _function.__qualname__ = _name
    _function.__module__ = __name__
    globals()[_name] = _function

__all__ = sorted([*_ROWS, "LinAlgError"])


def __getattr__(name: str) -> Any:
    """Raises AttributeError with what to write in place of a function of torch.linalg that is absent."""
    why = ABSENT_FUNCTIONS.get(f"linalg.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}" + (f": {why}" if why else ""))

"""torch.linalg: functions of netcl.linalg, of which results of several parts have PyTorch's field names."""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable
from typing import Any

from netcl import linalg

__all__ = [
    "cholesky_ex",
    "eigh",
    "inv_ex",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "qr",
    "slogdet",
    "solve_ex",
    "svd",
]


def _named(name: str, fields: str) -> Callable[..., Any]:
    """A function of netcl.linalg that returns a named tuple."""
    function, made = getattr(linalg, name), namedtuple(f"linalg_{name}", fields)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return made(*function(*args, **kwargs))

    return call


cholesky_ex = _named("cholesky_ex", "L info")
eigh = _named("eigh", "eigenvalues eigenvectors")
inv_ex = _named("inv_ex", "inverse info")
lstsq = _named("lstsq", "solution residuals rank singular_values")
lu = _named("lu", "P L U")
lu_factor = _named("lu_factor", "LU pivots")
lu_factor_ex = _named("lu_factor_ex", "LU pivots info")
qr = _named("qr", "Q R")
slogdet = _named("slogdet", "sign logabsdet")
solve_ex = _named("solve_ex", "result info")
svd = _named("svd", "U S Vh")

"""torch.linalg: functions of netcl.linalg, of which results of several parts have PyTorch's field names."""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable
from typing import Any

from netcl import linalg


def _named(name: str, fields: str) -> Callable[..., Any]:
    """A function of netcl.linalg that returns a named tuple."""
    function, made = getattr(linalg, name), namedtuple(f"linalg_{name}", fields)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return made(*function(*args, **kwargs))

    return call


cholesky_ex: Callable[..., Any] = _named("cholesky_ex", "L info")
eigh: Callable[..., Any] = _named("eigh", "eigenvalues eigenvectors")
inv_ex: Callable[..., Any] = _named("inv_ex", "inverse info")
ldl_factor: Callable[..., Any] = _named("ldl_factor", "LD pivots")
ldl_factor_ex: Callable[..., Any] = _named("ldl_factor_ex", "LD pivots info")
_lstsq: Callable[..., Any] = _named("lstsq", "solution residuals rank singular_values")
lu: Callable[..., Any] = _named("lu", "P L U")
lu_factor: Callable[..., Any] = _named("lu_factor", "LU pivots")
lu_factor_ex: Callable[..., Any] = _named("lu_factor_ex", "LU pivots info")
qr: Callable[..., Any] = _named("qr", "Q R")
slogdet: Callable[..., Any] = _named("slogdet", "sign logabsdet")
solve_ex: Callable[..., Any] = _named("solve_ex", "result info")
svd: Callable[..., Any] = _named("svd", "U S Vh")


def lstsq(input: Any, b: Any, rcond: float | None = None, *, driver: str | None = None, **out: Any) -> Any:
    """The least squares solution, residuals, rank and singular values; ``driver`` is "gelsy" by default."""
    return _lstsq(input, b, rcond, driver=driver or "gelsy", **out)

"""Functions of the array API standard that rows state by ``forms``, with the standard's promotion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netcl.array_api.array import returns_arrays
from netcl.array_api.promotion import together
from netcl.array_api.rows import row
from netcl.core.dtypes import is_integer
from netcl.core.ops_table.table import TABLE
from netcl.core.tensor import Tensor

_OF_WHOLE = ("ceil", "floor", "round", "trunc")  # give integers as they are


def _function(name: str, of: str) -> Callable[..., Tensor]:
    op = row(of)

    def unary(x: Tensor, /) -> Tensor:
        return x.clone() if of in _OF_WHOLE and is_integer(x.dtype) else op(x)

    def binary(x1: Any, x2: Any, /) -> Tensor:
        return op(*together(x1, x2))  # type: ignore[no-any-return]

    function: Any = unary if len(op.row.operands) == 1 else binary
    function.__name__ = function.__qualname__ = name
    function.__doc__ = op.row.doc
    return returns_arrays(function)  # type: ignore[no-any-return]


FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    name: _function(name, made.name) for made in list(TABLE.values()) for name in made.names("a")
}
globals().update(FUNCTIONS)
__all__ = sorted(FUNCTIONS)

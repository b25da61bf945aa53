"""Expressions: one small language for everything elementwise or reducing, written once and run by every backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netcl.core.expr import prims as _prims  # fills the table of primitives
from netcl.core.expr.nodes import (
    PRIMITIVES,
    Apply,
    Const,
    Expr,
    Index,
    Load,
    Primitive,
    Reduce,
    Scalar,
    apply,
    cast,
    mean,
    place_of,
    reduce,
    register_primitive,
    size_of,
)
from netcl.core.expr.numpy_eval import evaluate
from netcl.core.expr.parse import parse
from netcl.core.expr.rewrite import derive, simplify, substitute, vjp

if TYPE_CHECKING:
    from netcl.core.expr.opencl_c import render

__all__ = [
    "PRIMITIVES",
    "Apply",
    "Const",
    "Expr",
    "Index",
    "Load",
    "Primitive",
    "Reduce",
    "Scalar",
    "apply",
    "cast",
    "derive",
    "evaluate",
    "mean",
    "parse",
    "place_of",
    "reduce",
    "register_primitive",
    "render",
    "simplify",
    "size_of",
    "substitute",
    "vjp",
]
del _prims


def __getattr__(name: str) -> Any:
    """Loads ``render``, which writes OpenCL C, at its first use: NumPy does not need it."""
    if name == "render":
        from netcl.core.expr.opencl_c import render

        return render
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Expressions: one small language for everything elementwise or reducing, written once and run by every backend."""

from __future__ import annotations

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
    reduce,
    register_primitive,
    size_of,
)
from netcl.core.expr.numpy_eval import evaluate
from netcl.core.expr.parse import parse
from netcl.core.expr.rewrite import derive, simplify, substitute, vjp

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
    "reduce",
    "register_primitive",
    "simplify",
    "size_of",
    "substitute",
    "vjp",
]
del _prims

"""Expressions: one small language for everything elementwise or reducing, written once and run by every backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netcl.core.expr import prims as _prims  # fills the table of primitives
from netcl.core.expr.nodes import PRIMITIVES as PRIMITIVES
from netcl.core.expr.nodes import Apply as Apply
from netcl.core.expr.nodes import Const as Const
from netcl.core.expr.nodes import Expr as Expr
from netcl.core.expr.nodes import Index as Index
from netcl.core.expr.nodes import Load as Load
from netcl.core.expr.nodes import Primitive as Primitive
from netcl.core.expr.nodes import Reduce as Reduce
from netcl.core.expr.nodes import Scalar as Scalar
from netcl.core.expr.nodes import apply as apply
from netcl.core.expr.nodes import cast as cast
from netcl.core.expr.nodes import mean as mean
from netcl.core.expr.nodes import place_of as place_of
from netcl.core.expr.nodes import reduce as reduce
from netcl.core.expr.nodes import register_primitive as register_primitive
from netcl.core.expr.nodes import size_of as size_of
from netcl.core.expr.numpy_eval import evaluate as evaluate
from netcl.core.expr.parse import parse as parse
from netcl.core.expr.rewrite import derive as derive
from netcl.core.expr.rewrite import simplify as simplify
from netcl.core.expr.rewrite import substitute as substitute
from netcl.core.expr.rewrite import vjp as vjp

if TYPE_CHECKING:
    from netcl.core.expr.opencl_c import render as render

del _prims


def __getattr__(name: str) -> Any:
    """Loads ``render``, which writes OpenCL C, at its first use: NumPy does not need it."""
    if name == "render":
        from netcl.core.expr.opencl_c import render

        return render
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
